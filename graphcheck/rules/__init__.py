"""What is wrong with a joint graph on a given runtime: one file per rule."""

"""One file per rewritten op."""

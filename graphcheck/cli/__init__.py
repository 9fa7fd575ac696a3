"""The command line: one file per verb, thin; the only place that prints and exits."""

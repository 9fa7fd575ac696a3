"""What is known to be wrong, and the probes that prove it on the installed runtime."""

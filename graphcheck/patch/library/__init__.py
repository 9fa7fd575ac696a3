"""The drop-in kernel library: which kernels there are, and building it for a runtime."""

"""What a runtime can do: kernels, limits, and where the lists come from."""

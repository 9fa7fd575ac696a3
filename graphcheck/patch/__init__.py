"""Kernels put right: a library that overrides them, and an editor of source trees."""

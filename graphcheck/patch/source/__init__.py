"""Edits of source trees: found by structure, applied all or none, reverted to the byte."""

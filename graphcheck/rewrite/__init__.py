"""Exact changes of the joint graph: one file per rewritten op."""

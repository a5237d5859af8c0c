"""Ops that pick or place elements: indexing, gather, scatter, sorting, segments."""

"""Exact derivatives of recorded programs, as enclosures."""

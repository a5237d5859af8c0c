"""Exact values and derivatives of a recorded program, in enclosures, with certificates."""

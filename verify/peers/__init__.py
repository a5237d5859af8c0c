"""Judges the derivatives of other libraries by exact derivatives."""

"""Compares derivatives with the exact ones: `check`, `judge`, `exact`, and the verify flag of tapes."""

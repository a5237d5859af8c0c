"""Derivatives against the exact ones: `check`, `judge`, `exact`, and the verify flag of tapes."""

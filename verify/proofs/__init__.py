"""Proofs on symbols: the rules of a primitive against the derivatives of its mirror."""

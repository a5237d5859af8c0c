"""Proofs on symbols, which compare the rules of a primitive with the derivatives of its mirror."""

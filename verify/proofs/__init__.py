"""Proofs that each rule is the derivative of the op's mirror."""

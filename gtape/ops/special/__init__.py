"""Special functions: gamma, Bessel, incomplete and integral functions."""

"""Draws of random numbers, and the generators behind them."""

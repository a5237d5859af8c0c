"""Gradient tapes, forward accumulators, functions and control flow, which run code of the user."""

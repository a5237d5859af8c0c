"""Gradient tapes, forward accumulators, functions and control flow: everything that runs code of the user."""

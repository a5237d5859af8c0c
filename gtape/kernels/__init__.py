"""Accurate functions of NumPy arrays. A kernel knows arrays alone, so this room serves without a tape too."""

"""Accurate functions of NumPy arrays. Kernels know no tensors, so this room can be used without a tape."""

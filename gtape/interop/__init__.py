"""NumPy functions of tensors, and tensors where NumPy expects arrays."""

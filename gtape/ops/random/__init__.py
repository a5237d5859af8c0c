"""Random numbers: samplers, generators, and the gradients that pass through samples."""

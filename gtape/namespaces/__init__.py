"""Which public name lives where, how its documentation reads, and which names TensorFlow has besides."""

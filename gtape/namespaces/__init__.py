"""The places of public names, their documentation, and the names of TensorFlow that gtape leaves out."""

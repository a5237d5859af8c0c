"""Neural networks: convolution, pooling, softmax, cross-entropies, normalization."""

"""Linear algebra: products, factorizations, equations, spectra, norms of matrices."""

"""Linear algebra: products, factorizations, equations, spectra, norms of matrices."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ("linalg",)

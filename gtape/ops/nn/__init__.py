"""Neural networks: convolution, pooling, softmax, cross-entropies, normalization."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ("nn",)

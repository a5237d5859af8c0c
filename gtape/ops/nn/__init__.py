"""Ops of neural networks: convolution, pooling, normalisation, losses."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ("nn",)

"""Ops on matrices: products, factorisations, equations."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ("linalg",)

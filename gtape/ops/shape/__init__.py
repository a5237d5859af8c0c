"""Ops that make, reshape, join and repeat tensors."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ()

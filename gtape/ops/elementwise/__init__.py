"""Ops that compute each element from the elements at its place."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ("math",)

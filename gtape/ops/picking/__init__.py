"""Ops that pick or place elements: indexing, gather, scatter, sorting, segments."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ("math", "nn")

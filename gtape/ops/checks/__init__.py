"""Assertions on values and shapes."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ()

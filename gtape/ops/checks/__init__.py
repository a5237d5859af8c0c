"""Assertions about values, shapes and dtypes."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ()

"""Ops that change shape, order or dtype: reshaping, joining, broadcasting, creating, casting."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ()

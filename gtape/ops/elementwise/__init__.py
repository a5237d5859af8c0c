"""Ops that act on each element: arithmetic, exponentials, circular and hyperbolic functions, comparisons."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ("math",)

"""Special functions: gamma, Bessel, incomplete and integral functions."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ("math",)

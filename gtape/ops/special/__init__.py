"""Special functions of mathematics: gamma, Bessel, incomplete functions, integrals."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ("math",)

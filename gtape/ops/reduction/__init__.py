"""Ops that combine the elements along axes: sums, extrema, norms, scans."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ("math",)

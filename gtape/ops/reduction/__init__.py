"""Ops that reduce along axes: sums, extrema, moments, norms, cumulative sums, scans."""

from __future__ import annotations

NAMESPACES: tuple[str, ...] | None = ("math",)

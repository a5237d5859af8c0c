"""Ops that reduce along axes: sums, extrema, moments, norms, cumulative sums, scans."""

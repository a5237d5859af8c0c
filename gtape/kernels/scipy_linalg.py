"""SciPy's linear algebra for kernels.

Kernels import this module on first use, and a fork waits for the imports of gtape's modules in other threads.
"""

from __future__ import annotations

from scipy.linalg import solve_banded, solve_triangular

__all__ = ["solve_banded", "solve_triangular"]

"""SciPy's special functions for kernels.

Kernels import this module on first use, and a fork waits for the imports of gtape's modules in other threads.
"""

from __future__ import annotations

from scipy.special import (
    betainc,
    erf,
    erfcinv,
    erfinv,
    exp1,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
    ndtr,
)

__all__ = [
    "betainc",
    "erf",
    "erfcinv",
    "erfinv",
    "exp1",
    "gammainc",
    "gammaincc",
    "gammainccinv",
    "gammaincinv",
    "gammaln",
    "ndtr",
]

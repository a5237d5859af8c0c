"""Mirror of tridiagonal equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.matrices import each, solve
from gtape.symbolic.mirrors.registry import array, parametrised


def _matrix(d: Any) -> Any:
    """The matrix with the diagonals `d`: the one above the main diagonal, the main one, the one below."""
    m = d.shape[-1]
    out = np.full((m, m), 0, dtype=object)
    for i in range(m):
        out[i, i] = d[1, i]
        if i + 1 < m:
            out[i, i + 1] = d[0, i]
        if i:
            out[i, i - 1] = d[2, i]
    return out


array("tridiagonal_solve", lambda W, d, b: each(lambda d, b: solve(_matrix(d), b), 2, d, b))
parametrised(
    "tridiagonal_solve",
    1,
    lambda W, y, d, b: (y, each(lambda d, y: np.dot(_matrix(d), y), 2, d, y)),
    shapes=lambda d, b: b,
)

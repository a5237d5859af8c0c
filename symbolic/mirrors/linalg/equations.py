"""Mirrors of inverses and solutions, and the equations that define them.

These equations, solved for the right-hand side, are the parametrised mirrors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import acb, arb

from gtape.kernels.lapack import scale_of
from gtape.symbolic.balls import mapped, objects, to_float
from gtape.symbolic.matrices import back_substitute, each, inverse, solve, triangle
from gtape.symbolic.mirrors.registry import array, parametrised


def _triangular_solve(W: Any, a: Any, b: Any, *, lower: bool) -> Any:
    def one(m: Any, r: Any) -> Any:
        return back_substitute(m[::-1, ::-1], r[::-1])[::-1] if lower else back_substitute(m, r)

    return each(one, 2, a, b)


def _magnitude(W: Any, x: Any, *, axis: tuple[int, ...]) -> Any:
    """The power of two that the op chooses for each matrix, row or column. For symbols 1."""
    x = objects(x)
    made = np.full([1 if i - x.ndim in axis else n for i, n in enumerate(x.shape)], W.exact(1), dtype=object)
    values = W.component(x, 0)
    if all(isinstance(e, (arb, acb, int, float)) for e in values.ravel().tolist()):
        sizes = to_float(mapped(lambda e: arb(abs(e)), values))
        for i, unit in np.ndenumerate(scale_of(sizes, axis=axis)):
            made[i] = W.exact(float(unit))
    return made


array("magnitude", _magnitude)
array("inverse", lambda W, a: each(inverse, 2, a))
array("solve", lambda W, a, b: solve(a, b))
array("triangular_solve", _triangular_solve)
parametrised("solve", 1, lambda W, y, a, b: (y, W.matmul(a, y)))
parametrised("triangular_solve", 1, lambda W, y, a, b, *, lower: (y, W.matmul(triangle(a, lower), y)))

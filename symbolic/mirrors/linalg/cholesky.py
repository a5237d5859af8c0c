"""Mirrors of the Cholesky factor, by its recursion, and of the triangle in its rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.matrices import each, triangle
from gtape.symbolic.mirrors.registry import array, parametrised


def _cholesky(W: Any, m: Any) -> Any:
    n = len(m)
    m = (m + m.T) / 2  # both triangles count equally, because this is a function of symmetric matrices
    y = np.full((n, n), 0, dtype=object)
    for j in range(n):
        for i in range(j, n):
            entry = m[i, j]
            for k in range(j):
                entry = entry - y[i, k] * y[j, k]
            y[i, j] = entry / y[j, j] if i > j else W.sqrt(entry)[()]
    return y


def _half_tril(W: Any, x: Any) -> Any:
    out = triangle(x)
    for i in range(out.shape[-1]):
        out[..., i, i] = out[..., i, i] / 2
    return out


def _gram(W: Any, y: Any, a: Any) -> tuple[Any, Any]:
    y = triangle(y)
    return y, W.matmul(y, np.swapaxes(y, -1, -2))


array("half_tril", _half_tril)
array("cholesky", lambda W, a: each(lambda m: _cholesky(W, m), 2, a))
parametrised("cholesky", 0, _gram)

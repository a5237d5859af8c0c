"""Mirrors of the determinant and its family: sums of products over any ring, without division where that is cheap.

Small determinants are expanded along the first row. Larger ones go by Bird's method, which needs products of matrices
only, so that exact balls and jets pass through singular matrices as through any other.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array

SMALL = 5


def objects(x: Any) -> Any:
    """`x` as an object array, 0-d results included."""
    return np.asarray(x, dtype=object)


def each(f: Any, axes: int, *arrays: Any) -> Any:
    """Apply `f`, which returns an array of `axes` axes, to the last two axes of every array.

    The leading axes broadcast: a batch of cotangents has one more than the matrix that it is solved with.
    """
    arrays = tuple(objects(a) for a in arrays)
    batch = np.broadcast_shapes(*[a.shape[:-2] for a in arrays])
    arrays = tuple(np.broadcast_to(a, batch + a.shape[-2:]) for a in arrays)
    made = [objects(f(*[a[i] for a in arrays])) for i in np.ndindex(*batch)]
    if not made:
        return np.empty(batch + (0,) * axes, dtype=object)
    out = np.empty(batch + made[0].shape, dtype=object)
    for i, v in zip(np.ndindex(*batch), made, strict=True):
        out[i] = v[()] if v.ndim == 0 else v
    return out


def determinant(W: Any, a: Any) -> Any:
    """Determinant of one matrix of ring elements."""
    n = len(a)
    if n == 0:
        return 1
    if n <= SMALL:
        # Minors of the last rows, by the set of their columns: each is formed once.
        minors: dict[tuple[int, ...], Any] = {(j,): a[n - 1, j] for j in range(n)}
        for row in range(n - 2, -1, -1):
            larger: dict[tuple[int, ...], Any] = {}
            for columns in _subsets(n, n - row):
                total = None
                for k, j in enumerate(columns):
                    term = a[row, j] * minors[columns[:k] + columns[k + 1 :]]
                    total = term if total is None else total - term if k % 2 else total + term
                larger[columns] = total
            minors = larger
        return minors[tuple(range(n))]
    x = a
    for _ in range(n - 1):
        below = np.zeros(n, dtype=object)
        for i in range(n - 2, -1, -1):
            below[i] = below[i + 1] - x[i + 1, i + 1]
        upper = np.where(np.triu(np.ones((n, n), dtype=bool), 1), x, 0)
        upper[np.arange(n), np.arange(n)] = below
        x = objects(W.matmul(upper, a))
    return x[0, 0] if n % 2 else -x[0, 0]


def _subsets(n: int, size: int) -> list[tuple[int, ...]]:
    from itertools import combinations

    return list(combinations(range(n), size))


def cofactors(W: Any, a: Any) -> Any:
    """Cofactors of one matrix: signed determinants of what is left without a row and a column."""
    n = len(a)
    if n > SMALL:
        return _cofactors_by_traces(W, a)
    out = np.empty((n, n), dtype=object)
    for i in range(n):
        for j in range(n):
            rest = np.delete(np.delete(a, i, 0), j, 1)
            out[i, j] = determinant(W, rest) if (i + j) % 2 == 0 else -determinant(W, rest)
    return out


def _cofactors_by_traces(W: Any, a: Any) -> Any:
    """The same by Faddeev and LeVerrier: products and traces, divided by whole numbers only."""
    n = len(a)
    m = np.zeros((n, n), dtype=object)
    m[np.arange(n), np.arange(n)] = 1
    for k in range(1, n):
        m = objects(W.matmul(a, m)).copy()
        shift = -np.add.reduce(np.diagonal(m)) / k
        m[np.arange(n), np.arange(n)] = np.diagonal(m) + shift
    return objects(m if n % 2 else -m).T


def det_form(W: Any, a: Any, gs: Any) -> Any:
    """Derivative of the cofactors along k directions: det is linear in each row, so their rows are put in."""
    n, k = len(a), len(gs)
    out = np.zeros((n, n), dtype=object)
    for rows in permutations(range(n), k):
        mixed = a.copy()
        for r, g in zip(rows, gs, strict=True):
            mixed[r] = g[r]
        made = cofactors(W, mixed)
        for i in range(n):
            if i not in rows:
                out[i] = out[i] + made[i]
    return out


def _det_form(W: Any, a: Any, gs: Any) -> Any:
    a, gs = objects(a), objects(gs)
    out = np.empty(a.shape, dtype=object)
    for i in np.ndindex(*a.shape[:-2]):
        out[i] = det_form(W, a[i], gs[i])
    return out


array("det", lambda W, a: each(lambda m: determinant(W, m), 0, a))
array("cofactors", lambda W, a: each(lambda m: cofactors(W, m), 2, a))
array("det_form", _det_form)
array("take_direction", lambda W, gs, *, index: objects(gs)[..., index : index + 1, :, :])
array("log_abs_det", lambda W, a: W.log(W.abs(each(lambda m: determinant(W, m), 0, a))))
array("det_sign", lambda W, a: W.sign(each(lambda m: determinant(W, m), 0, a)))

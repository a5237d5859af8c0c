"""Matrices of scalars of any world: products, determinants, elimination, functions of each matrix of a batch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from operator import itemgetter, mul
from typing import Any

import numpy as np
from flint import acb_mat, arb_mat

from gtape.symbolic.balls import filled, objects

__all__ = [
    "back_substitute", "cofactors", "determinant", "each", "inverse", "matmul_components", "solve", "triangle", "unit",
]  # fmt: skip

# The largest size of matrices that cofactors invert.
_SMALL = 5


def each(f: Callable[..., Any], axes: int, *arrays: Any) -> Any:
    """Apply `f`, which returns an array of `axes` axes, to the last two axes of every array.

    Leading axes broadcast, because a batch of cotangents has one axis more than the matrix of its system.
    """
    arrays = tuple(objects(a) for a in arrays)
    batch = np.broadcast_shapes(*[a.shape[:-2] for a in arrays])
    arrays = tuple(np.broadcast_to(a, batch + a.shape[-2:]) for a in arrays)
    made = [objects(f(*[a[i] for a in arrays])) for i in np.ndindex(*batch)]
    if not made:
        return np.empty(batch + (_shape_of(f, arrays) if axes else ()), dtype=object)
    out = np.empty(batch + made[0].shape, dtype=object)
    for i, v in zip(np.ndindex(*batch), made, strict=True):
        out[i] = v[()]
    return out


def _shape_of(f: Callable[..., Any], arrays: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of a function of matrices, from unit matrices; that of its last argument if these are singular."""
    try:
        return tuple(objects(f(*[objects(np.eye(*a.shape[-2:]).astype(int).astype(object)) for a in arrays])).shape)
    except (ArithmeticError, ValueError):
        return tuple(arrays[-1].shape[-2:])


def unit(n: int, one: Any = 1) -> Any:
    """The unit matrix."""
    out = np.full((n, n), 0 * one, dtype=object)
    out[np.arange(n), np.arange(n)] = one
    return out


def triangle(x: Any, lower: bool = True) -> Any:
    """The lower (or upper) triangle of matrices, with zeros elsewhere."""
    x = objects(x)
    ones = np.ones(x.shape[-2:], dtype=bool)
    return np.where(np.tril(ones) if lower else np.triu(ones), x, 0)


# ---------------------------------------------------------------------------------------------- determinants


def determinant(W: Any, a: Any) -> Any:
    """The determinant of one matrix of ring elements.

    A small matrix is expanded along its first row. A larger one uses Bird's method, which needs only products of
    matrices, so it works for singular matrices, too.
    """
    n = len(a)
    if n == 0:
        return 1
    if n <= _SMALL:
        # Minors of the last rows by the set of their columns. Each is computed once.
        minors: dict[tuple[int, ...], Any] = {(j,): a[n - 1, j] for j in range(n)}
        for row in range(n - 2, -1, -1):
            larger: dict[tuple[int, ...], Any] = {}
            for columns in combinations(range(n), n - row):
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
        x = W.matmul(upper, a)
    return x[0, 0] if n % 2 else -x[0, 0]


def cofactors(W: Any, a: Any) -> Any:
    """The cofactors of one matrix: signed determinants of the matrix without a row and a column."""
    n = len(a)
    if n > _SMALL:
        return _cofactors_by_traces(W, a)
    out = np.empty((n, n), dtype=object)
    for i in range(n):
        for j in range(n):
            minor = determinant(W, np.delete(np.delete(a, i, 0), j, 1))
            out[i, j] = -minor if (i + j) % 2 else minor
    return out


def _cofactors_by_traces(W: Any, a: Any) -> Any:
    """The cofactors by Faddeev and LeVerrier: products and traces, with divisions only by integers."""
    n = len(a)
    m = unit(n)
    for k in range(1, n):
        m = W.matmul(a, m).copy()
        shift = -np.add.reduce(np.diagonal(m)) / k
        m[np.arange(n), np.arange(n)] = np.diagonal(m) + shift
    return objects(m if n % 2 else -m).T


# ---------------------------------------------------------------------------------------------- equations


def _magnitude(x: Any) -> float:
    """The rough size of an element, to select pivots that keep balls narrow."""
    x = getattr(x, "value", x)
    try:
        return abs(float(x))
    except (TypeError, ValueError):  # an expression with symbols counts as zero only if it is literally 0
        return 0.0 if x == 0 else 1.0


def _eliminate(a: Any, b: Any) -> Any:
    """The solution of a x = b for one matrix, by elimination with the largest pivot."""
    n = len(a)
    a, b = a.copy(), b.copy()
    for i in range(n):
        p = max(range(i, n), key=lambda r: _magnitude(a[r, i]))
        if p != i:
            a[[i, p]], b[[i, p]] = a[[p, i]], b[[p, i]]
        for r in range(i + 1, n):
            factor = a[r, i] / a[i, i]
            a[r, i + 1 :] = a[r, i + 1 :] - factor * a[i, i + 1 :]
            b[r] = b[r] - factor * b[i]
    return back_substitute(a, b)


def back_substitute(a: Any, b: Any) -> Any:
    """The solution for one upper triangular matrix."""
    n = len(a)
    x = b.copy()
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            x[i] = x[i] - a[i, j] * x[j]
        x[i] = x[i] / a[i, i]
    return x


def inverse(a: Any) -> Any:
    """The inverse of one matrix."""
    n = len(a)
    if n > _SMALL:
        return _eliminate(a, unit(n))
    c = cofactors(None, a)
    whole = a[0, 0] * c[0, 0] if n else 1
    for j in range(1, n):
        whole = whole + a[0, j] * c[0, j]
    return c.T / whole


def solve(a: Any, b: Any) -> Any:
    """Solutions of systems, matrix by matrix."""
    return each(lambda m, r: _eliminate(m, r) if len(m) > _SMALL else np.dot(inverse(m), r), 2, a, b)


# ---------------------------------------------------------------------------------------------- products


# For fewer scalar multiplications than this, converting to and from arb_mat costs more than it saves.
_FEW = 64


def matmul_components(left: list[Any], right: list[Any]) -> list[Any]:
    """Products of matrices of jets. Component s is the sum of left[t] @ right[s without t] over the subsets t of s.

    Parameters
    ----------
    left, right : lists of object ndarrays
        2**k components by bitmask. None stands for a zero component. The first component may not be None.

    Returns
    -------
    list
        The components of the product; None for a component without terms.
    """
    a, b = left[0], right[0]
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul takes arrays with at least one dimension; use multiply for scalars")
    rows, inner = (1 if a.ndim == 1 else a.shape[-2]), a.shape[-1]
    columns = 1 if b.ndim == 1 else b.shape[-1]
    wrong = (b.shape[0] if b.ndim == 1 else b.shape[-2]) != inner
    if rows * inner * columns < _FEW or wrong or not a.size or not b.size:
        return _convolve(left, right, np.matmul)
    left = _put(np.atleast_2d, left)
    right = _put(lambda c: c[:, None] if c.ndim == 1 else c, right)
    if right[0].ndim == 2:  # one tall product instead of many products
        batch = left[0].shape[:-2]
        out = _matmul_2d(_put(lambda c: c.reshape(-1, inner), left), right)
    else:
        batch = np.broadcast_shapes(left[0].shape[:-2], right[0].shape[:-2])
        left = _put(lambda c: np.broadcast_to(c, (*batch, rows, inner)), left)
        right = _put(lambda c: np.broadcast_to(c, (*batch, inner, columns)), right)
        each_of = [_matmul_2d(_put(itemgetter(i), left), _put(itemgetter(i), right)) for i in np.ndindex(batch)]
        out = [None if c[0] is None else np.stack(c) for c in zip(*each_of, strict=True)]
    shape = (*batch, *(() if a.ndim == 1 else (rows,)), *(() if b.ndim == 1 else (columns,)))
    return _put(lambda c: c.reshape(shape), out)


def _put(f: Callable[[Any], Any], components: list[Any]) -> list[Any]:
    return [None if c is None else f(c) for c in components]


def _convolve(left: list[Any], right: list[Any], times: Any) -> list[Any]:
    out = []
    for s in range(len(left)):
        total = None
        for t in range(s + 1):
            if t & s == t and left[t] is not None and right[s ^ t] is not None:
                term = times(left[t], right[s ^ t])
                total = term if total is None else total + term
        out.append(total)
    return out


def _matmul_2d(left: list[Any], right: list[Any]) -> list[Any]:
    """`matmul_components` for two matrices, by ``arb_mat``. Each component is converted once."""

    def product(kind: Any) -> Any:
        a, b = (_put(lambda x: kind(*x.shape, x.ravel().tolist()), parts) for parts in (left, right))
        return _convolve(a, b, mul)

    try:
        products = product(arb_mat)
    except TypeError:  # a real matrix cannot hold a complex ball
        products = product(acb_mat)
    return _put(lambda m: filled(m.entries(), (m.nrows(), m.ncols())), products)

"""Mirrors of quotients by differences of eigenvalues: solutions of Z M - M Z = X, and the parts left out of them.

Exact worlds have no rounding, so their clusters hold only equal values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic import balls
from gtape.symbolic.balls import filled, objects, to_float
from gtape.symbolic.jets import Jet
from gtape.symbolic.matrices import each, solve
from gtape.symbolic.mirrors.registry import array


def _may_be_zero(e: Any) -> bool:
    return bool(e.contains(0)) if isinstance(e, arb) else bool(e == 0)


def _is_zero(e: Any) -> bool:
    """Whether a number is 0. Raises `Undecided` for an enclosure that is too wide to tell."""
    return _may_be_zero(e) and (not isinstance(e, arb) or balls.equal(e, arb(0)))


def _constant_zero(e: Any) -> bool:
    return not isinstance(e, Jet) and bool(e == 0)


def _clusters(W: Any, w: Any) -> Any:
    """For each pair of different values, whether they may be equal."""
    values = W.component(w, 0)
    n = values.shape[-1]
    made = np.zeros((*values.shape, n), dtype=bool)
    for at in np.ndindex(*made.shape):
        *batch, i, j = at
        made[at] = i != j and _may_be_zero(values[(*batch, j)] - values[(*batch, i)])
    return made


def _part(W: Any, x: Any, w: Any, *, bits: int, wide: bool) -> Any:
    return np.where(_clusters(W, objects(w)), objects(x), 0)


def _beside(W: Any, x: Any, w: Any, *, bits: int) -> Any:
    return np.full(np.shape(x), 0, dtype=object)


def _zero_part(W: Any, x: Any, w: Any, *, bits: int) -> Any:
    values = W.component(objects(w), 0)
    zeros = np.array([_may_be_zero(e) for e in values.flat], dtype=bool).reshape(values.shape)
    return np.where(zeros[..., None, :], objects(x), 0)


def _block(W: Any, a: Any, u: Any, v: Any, w: Any, *, bits: int, wide: bool) -> Any:
    near = _clusters(W, objects(w))
    if not near.any():
        return np.zeros(near.shape, dtype=int).astype(object)
    whole = W.matmul(np.swapaxes(objects(u), -1, -2), W.matmul(a, v))
    return np.where(near, W.divide(whole + np.swapaxes(whole, -1, -2), 2), 0)


def _quotient(W: Any, x: Any, like: Any, size: Any, m: Any, *, sign: int, bits: int, wide: bool) -> Any:
    def one(x: Any, like: Any, m: Any) -> Any:
        rows, n = x.shape
        out = np.full((rows, n), W.exact(0), dtype=object)
        if all(map(_constant_zero, x.ravel().tolist())):
            return out
        divisors = {(i, j): m[j, j] - sign * m[i, i] if sign else m[j, j] for i in range(rows) for j in range(n)}
        given_divisors = filled(list(divisors.values()), (len(divisors),))
        values = dict(zip(divisors, W.component(given_divisors, 0).tolist(), strict=True))
        alike = W.component(like, 0)

        def at_rest(i: int, j: int) -> bool:
            if sign == 1 and i == j:
                return True
            if not _may_be_zero(values[i, j]):
                return False
            if sign != 1 and _constant_zero(x[i, j]):
                return True
            return _is_zero(values[i, j]) and _is_zero(alike[i, j])

        free = [p for p in divisors if not at_rest(*p)]
        if not free:
            return out
        coupled = any(not _constant_zero(m[i, j]) for i in range(n) for j in range(n) if i != j)
        if not coupled:
            for p in free:
                out[p] = (W.exact(x[p]) if isinstance(x[p], int) else x[p]) / divisors[p]
            return out
        system = np.full((len(free), len(free)), W.exact(0), dtype=object)
        for row, (i, j) in enumerate(free):
            for column, (k, h) in enumerate(free):
                if i == k:
                    system[row, column] = system[row, column] + m[h, j]
                if sign and h == j:
                    system[row, column] = system[row, column] - sign * m[i, k]
        found = solve(system, filled([x[p] for p in free], (len(free), 1)))
        for row, p in enumerate(free):
            out[p] = found[row, 0]
        return out

    return each(one, 2, x, like, m)


def _column_size(W: Any, x: Any) -> Any:
    """The power of two above the largest element of each column. For symbols 1, because no exact world reads sizes."""
    values = W.component(objects(x), 0)
    made = np.full((*values.shape[:-2], 1, values.shape[-1]), W.exact(1), dtype=object)
    if all(isinstance(e, (arb, int, float)) for e in values.ravel().tolist()):
        largest = np.abs(to_float(values)).max(axis=-2, keepdims=True, initial=0.0)
        for at, size in np.ndenumerate(largest):
            if np.isfinite(size):
                made[at] = W.exact(0.0 if size == 0 else float(2.0 ** min(np.frexp(size)[1], 1023)))
    return made


def _turned(W: Any, x: Any, t: Any, u: Any, v: Any, w: Any, *, bits: int, side: str, ties: bool) -> Any:
    larger = side != "both" and np.shape(u)[-2] != np.shape(v)[-2]
    if _clusters(W, objects(w)).any() or (larger and any(map(_may_be_zero, W.component(objects(w), 0).flat))):
        raise ArithmeticError("the basis of a cluster that rounding chose")
    return objects(x)


array("cluster_part", _part)
array("beside_clusters", _beside)
array("cluster_columns", _beside)
array("zero_part", _zero_part)
array("turned_in_clusters", _turned)
array("cluster_block", _block)
array("column_size", _column_size)
array("spectral_quotient", _quotient)

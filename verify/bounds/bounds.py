"""How far rounding may carry one op: its local bound.

It has no knob: the declared ULPs of an elementwise op, or n units in the last place of the sum of its terms'
magnitudes (sums, products, scans, factorisations). Along the few ops of a rule such bounds are carried forward
(`running_error`); over a whole program noise of their size shows how far rounding goes (`noise_world`, `noise`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.declare.primitive import REGISTRY, Primitive
from gtape.engine.worlds import NUMPY
from gtape.tapes.forward import jvp_of
from gtape.verify.verdicts.ulp import spacing, widest

__all__ = [
    "COMPLEX_ULPS",
    "MULTILINEAR",
    "at_least_tiniest",
    "both",
    "carried_errors",
    "holds_complex",
    "holds_floats",
    "local_error",
]

COMPLEX_ULPS = 2.0


def holds_floats(x: Any) -> bool:
    """Whether a value is an array of floats or complex numbers."""
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fc"


def holds_complex(x: Any) -> bool:
    """Whether a value is an array of complex numbers."""
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "c"


def at_least_tiniest(error: Any, ulps: float) -> Any:
    """Half of the smallest number there is would be 0: what rounds there at all may be off by that number."""
    return np.maximum(error, _TINIEST) if ulps else error


_TINIEST = float(np.finfo(np.float64).smallest_subnormal)


def _counts(prim: Primitive, values: list[Any], params: dict[str, Any]) -> Any:
    """How many terms each output of a (multi)linear op sums."""
    if prim.name == "matmul":
        return float(np.shape(values[0])[-1])
    ones = [np.ones(np.shape(v)) if holds_floats(v) else v for v in values]
    return np.asarray(prim.kernel(*ones, **params), dtype=np.float64)


def _noise_of_gamma_draws(a: Any, z: Any, *, order: int) -> Any:
    """From the second order on, terms of the size of 1 cancel nearly all for large a; they have 64 bits."""
    return 0.0 if order < 2 else 2.0**-60 * math.factorial(order - 1) * np.maximum(a, 1.0) ** (2 - order)


# What kernels commit whose terms cancel, beside the units in the last place of the result.
_NOISE: dict[str, Any] = {"gamma_draw_slope": _noise_of_gamma_draws}


def local_error(prim: Primitive, values: list[Any], y: Any, params: dict[str, Any], dtype: Any) -> Any:
    """Bound on the rounding error that one op commits at exact inputs.

    Parameters
    ----------
    prim : Primitive
    values : list of float64 arrays (or integer and boolean ones)
    y : float64 array
        The op's value there.
    dtype : the dtype in which the program computes

    Returns
    -------
    float64 array of y's shape
    """
    if prim.kind == "elementwise":
        if holds_complex(y):  # errors are of the modulus; a product of complex numbers commits up to 2.3 roundings
            return max(prim.ulps, COMPLEX_ULPS) * spacing(y, dtype)
        narrow = prim.wide and np.dtype(dtype).itemsize < 8
        own = at_least_tiniest((0.51 if narrow else prim.ulps) * spacing(y, dtype), prim.ulps)
        if narrow:  # computed in float64, rounded once
            own = own + prim.ulps * spacing(y, np.dtype(np.float64))
        if prim.name in _NOISE:
            wide = 1.0 if np.dtype(dtype).itemsize == 8 else 2.0**10  # long doubles for doubles, doubles for the rest
            own = own + wide * _NOISE[prim.name](*values, **params)
        return (
            own if prim.public or prim.ulps <= 0.5 else np.maximum(own, _beside_roots(prim, values, y, params, dtype))
        )
    unit = spacing(1.0, dtype) / 2
    magnitudes = [np.abs(v) if holds_floats(v) else v for v in values]
    if prim.kind == "linear" or prim.name in _SCATTERING:
        if isinstance(y, tuple):
            return tuple([np.zeros_like(v) for v in y])
        if y.size == 0:
            return np.zeros_like(y)
        if prim.name in _AVERAGING:
            x = magnitudes[0]
            n = int(np.prod([x.shape[a] for a in np.atleast_1d(params["axis"])], dtype=np.int64))
            if prim.name == "center":  # x - mean(x)
                mean = x - np.asarray(prim.kernel(x, **params))
                return (n + 1) * unit * mean + unit * np.abs(y) + spacing(0.0, dtype)
            return (n + 1) * unit * np.asarray(prim.kernel(x, **params)) + spacing(0.0, dtype)
        terms = _counts(prim, values, params)
        moved = np.maximum(terms - 1, 0)
        return prim.ulps * moved * unit * np.asarray(prim.kernel(*magnitudes, **params)) + np.where(
            moved > 0, spacing(0.0, dtype), 0.0
        )
    if prim.name in MULTILINEAR:
        terms = _counts(prim, values, params)
        return prim.ulps * (terms + 1) * unit * np.asarray(prim.kernel(*magnitudes, **params)) + spacing(0.0, dtype)
    wide = np.dtype(dtype).itemsize == 4 and prim.name in _WIDE
    if wide:  # computed in float64, rounded once
        if isinstance(y, tuple):  # how close eigenvalues are, only the wide ones tell
            inner = local_error(prim, values, prim.kernel(*values, **params), params, np.dtype(np.float64))
            return tuple([e + 0.51 * spacing(v, dtype) for v, e in zip(y, inner, strict=True)])
        inner = local_error(prim, values, y, params, np.dtype(np.float64))
        return inner + 0.51 * spacing(y, dtype)
    n = max([max(v.shape, default=1) for v in values if holds_floats(v)], default=1)
    if isinstance(y, tuple) and prim.name not in _STABLE:
        return tuple([prim.ulps * (n + 1) * spacing(v, dtype) for v in y])
    # What it commits, in units in the last place of the result, and how far it may be from the exact result for other
    # inputs, in roundings of the inputs. A backward stable algorithm: n roundings of each.
    forward, backward = _STABLE.get(prim.name) or (
        (0.5, n * n / 2) if prim.name in _COFACTORS else (prim.ulps * (n + 1), prim.ulps * n)
    )
    forward, backward = forward + (n / 16 if forward > 0.5 else 0.0), backward + (n / 16 if backward else 0.0)
    # The parts of a factorisation are accurate against their largest element.
    committed: Any = (
        tuple([forward * spacing(_largest(v, 2 + (prim.name in _IN_PARTS and i > 0)), dtype) for i, v in enumerate(y)])
        if isinstance(y, tuple)
        else forward * spacing(_largest(y) if prim.name in _BY_NORM else y, dtype)
    )
    terms = _TERMS.get(prim.name)
    if terms is not None:
        return committed + backward * unit * terms(*values, **params)
    if backward == 0 or prim.variadic or prim.kind == "custom":
        return committed
    if prim.name in BY_ELIMINATION:
        # The backward error of an elimination is small against the matrix, not against each of its elements.
        axes = 3 if prim.name in _IN_PARTS else 2
        magnitudes = [_largest(v, axes) if holds_floats(v) and v.ndim > 1 else v for v in magnitudes]
    moves = [backward * unit * v if holds_floats(v) else None for v in magnitudes]
    if prim.name == "linear_recurrence":  # each step may round to a subnormal number, which those after it magnify
        moves[1] = moves[1] + spacing(0.0, dtype)
    return both(committed, carried_errors(prim, moves, values, y, params))


_FEW = 8
_FAR = 1 / 16


def both(a: Any, b: Any) -> Any:
    """The sum of two errors, output by output where there are several."""
    return tuple([p + q for p, q in zip(a, b, strict=True)]) if isinstance(a, tuple) else a + b


def _largest(v: Any, count: int = 2) -> Any:
    axes = tuple(range(max(v.ndim - count, 0), v.ndim))
    return np.broadcast_to(np.abs(v).max(axis=axes, keepdims=True, initial=0.0), v.shape)


def carried_errors(prim: Primitive, moves: list[Any], values: list[Any], y: Any, params: dict[str, Any]) -> Any:
    """How far the output goes when the inputs move by at most so much, element by element or by sampling."""
    if isinstance(y, tuple):  # all outputs in one row, and apart again
        flat = _carried_to(prim, moves, values, y, params, (sum(v.size for v in y),))
        cuts = np.cumsum([v.size for v in y])[:-1]
        parts = [e.reshape(v.shape) for e, v in zip(np.split(flat, cuts), y, strict=True)]
        axes = 3 if prim.name in _IN_PARTS else 2
        matrices = [v.ndim >= axes and (i > 0 or prim.name == "qr") for i, v in enumerate(y)]
        return tuple([_bent(e, v, axes) if m else e for e, v, m in zip(parts, y, matrices, strict=True)])
    return _carried_to(prim, moves, values, y, params, np.shape(y))


def _bent(e: Any, v: Any, axes: int) -> Any:
    """What a column moves in truth where the first order says `e`: its square counts, too, and a column that would go
    as far as its own size is not determined at all, as the vectors of eigenvalues that are so close are not."""
    size = _largest(v, axes)
    with np.errstate(all="ignore"):
        part = np.max(e / size, axis=tuple(range(v.ndim - axes, v.ndim - 1)), keepdims=True, initial=0.0)
    return np.where(part <= _FAR, e + 4 * size * part * part, 2 * size)


def _carried_to(
    prim: Primitive, moves: list[Any], values: list[Any], y: Any, params: dict[str, Any], shape: tuple[int, ...]
) -> Any:
    def along(t: list[Any]) -> Any:
        t = [m + 0j if m is not None and holds_complex(v) else m for m, v in zip(t, values, strict=True)]
        moved = jvp_of(NUMPY, prim, t, y, tuple(values), params, shape)
        if moved is None:
            return np.zeros(shape)
        if isinstance(y, tuple):
            row = widest(np.concatenate([np.ravel(m) for m in moved]))
            return np.where(np.isfinite(row), row, np.inf)
        return np.nan_to_num(widest(moved))

    sizes = [0 if m is None else np.size(m) for m in moves]
    if sum(sizes) <= _FEW:
        total = np.zeros(shape)
        for i, size in enumerate(sizes):
            for k in range(size):
                one = np.zeros(size)
                one[k] = np.asarray(moves[i]).flat[k]
                total = total + np.abs(
                    along([one.reshape(np.shape(moves[i])) if a == i else None for a in range(len(moves))])
                )
        return total
    rng = np.random.default_rng(0)
    squares = np.zeros(shape)
    for _ in range(_FEW):
        one = along([None if m is None else m * rng.standard_normal(np.shape(m)) for m in moves])
        squares = squares + np.abs(one) ** 2
    return 4 * np.sqrt(squares / _FEW)


def _beside_roots(prim: Primitive, values: list[Any], y: Any, params: dict[str, Any], dtype: Any) -> Any:
    """Beside a root away from 0 a derivative keeps its digits only up to two roundings of its input."""
    room = np.zeros(np.shape(y))
    for i, x in enumerate(values):
        p = prim.rules[i]
        if callable(p) and holds_floats(x):
            signed = np.asarray(p(NUMPY, y, *values, **params), dtype=np.float64)
            slope = np.abs(signed)
            near = np.abs(y) < np.abs(x) * slope / 4
            if near.any():
                # Twice as far as Newton's step: there the sign has changed if it was a root that makes it steep.
                with np.errstate(all="ignore"):
                    beyond = [x - 2 * y / signed if k == i else v for k, v in enumerate(values)]
                    near = near & (np.sign(prim.kernel(*beyond, **params)) == -np.sign(y))
                room = room + np.where(near, 2 * spacing(x, dtype) * slope, 0.0)
    return np.nan_to_num(room, nan=0.0, posinf=0.0)


# Measured on random inputs of up to 40 elements: at most half of the sum of the two, but for the last digit. The
# condition of a
# product counts its factors; an elimination's errors are measured against the size of the matrix.
_STABLE: dict[str, tuple[float, float]] = {
    "softmax": (4.0, 0.0),
    "log_softmax": (4.0, 0.0),
    "logsumexp": (2.0, 2.0),
    "logsumexp_slope": (6.0, 0.0),
    "softmax_center": (4.0, 4.0),
    "softmax_spread": (4.0, 4.0),
    "cross_entropy": (4.0, 4.0),
    "cumulative_logsumexp": (3.0, 3.0),
    "cumulative_pull": (0.5, 4.5),
    "cumulative_push": (0.5, 4.5),
    "norm": (2.0, 0.0),
    "unit_vector": (3.0, 0.0),
    "unit_slope": (4.0, 4.0),
    "prod": (0.5, 1.0),
    "cumprod": (0.5, 1.0),
    "prod_others": (0.5, 1.0),
    "linear_recurrence": (1.0, 2.0),
    "cross": (0.0, 1.0),
    "triangular_solve": (0.5, 1.5),
    "solve": (0.5, 4.0),
    "inverse": (0.5, 5.0),
    "cholesky": (0.5, 1.5),
    "triangular_factors": (0.5, 1.5),
    "eig": (4.0, 60.0),
    "eigh": (4.0, 8.0),
    "eigh_parts": (4.0, 8.0),
    "complement": (4.0, 4.0),
    "expm": (4.0, 4.0),
    "expm_form": (4.0, 4.0),
    "pinv": (4.0, 24.0),
    "tridiagonal_solve": (0.5, 4.0),
    "svd": (6.0, 16.0),
    "svd_parts": (6.0, 16.0),
    "qr": (3.0, 3.0),
    "safe_quotient": (0.51, 0.0),
    "max": (0.0, 0.0),
    "min": (0.0, 0.0),
    "gather": (0.0, 0.0),
    "gather_rows": (0.0, 0.0),
    "pad": (0.0, 0.0),
}


def _softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=axis, keepdims=True)


def _unit_slope(x: Any, t: Any, axis: tuple[int, ...]) -> Any:
    n = np.sqrt(np.sum(x * x, axis=axis, keepdims=True))
    n = np.where(n == 0, 1.0, n)
    u = np.abs(x / n)
    return (np.abs(t) + u * np.sum(u * np.abs(t), axis=axis, keepdims=True)) / n


# Sums of magnitudes of the terms, where a formula gives them.
_TERMS: dict[str, Callable[..., Any]] = {
    "softmax_center": lambda x, t, *, axis: np.abs(t) + np.sum(_softmax(x, axis) * np.abs(t), axis=axis, keepdims=True),
    "softmax_spread": lambda x, g, *, axis: np.abs(g) + _softmax(x, axis) * np.sum(np.abs(g), axis=axis, keepdims=True),
    "unit_slope": lambda x, t, *, axis: _unit_slope(x, t, axis),
    "cumulative_pull": lambda x, g: REGISTRY["cumulative_pull"].kernel(x, np.abs(g)),
    "cumulative_push": lambda x, t: REGISTRY["cumulative_push"].kernel(x, np.abs(t)),
    "logsumexp": lambda x, *, axis, keepdims: 1.0 + np.max(np.abs(x), axis=axis, keepdims=keepdims, initial=0.0),
}
_WIDE = frozenset(
    {
        "cholesky",
        "cofactors",
        "complement",
        "cross_entropy",
        "cumulative_pull",
        "cumulative_push",
        "cumulative_rest",
        "cumulative_share",
        "det",
        "det_form",
        "eig",
        "eigh",
        "eigh_parts",
        "expm",
        "expm_form",
        "inverse",
        "log_abs_det",
        "log_softmax",
        "logsumexp",
        "logsumexp_slope",
        "norm",
        "pinv",
        "qr",
        "softmax",
        "softmax_center",
        "softmax_spread",
        "solve",
        "svd",
        "svd_parts",
        "triangular_factors",
        "tridiagonal_solve",
        "unit_slope",
        "unit_vector",
    }
)
# fmt: off
BY_ELIMINATION = frozenset(
    {
        "cholesky", "cofactors", "complement", "det", "det_form", "det_sign", "eig", "eigh", "eigh_parts", "expm",
        "expm_form", "inverse", "log_abs_det", "pinv", "qr", "solve", "svd", "svd_parts", "triangular_factors",
        "triangular_solve", "tridiagonal_solve",
    }
)
# fmt: on
# Rules of so many products that added bounds hide faults of one rounding. Measured on 50,000 random matrices, regular,
# nearly singular, scaled: no error above 0.8 of the bound for roundings that know nothing of each other.
LONG_RULES = frozenset({"pinv", "triangular_factors"})
# Matrices as real and imaginary parts, along the axis before them.
_IN_PARTS = frozenset({"eig", "eigh_parts", "svd_parts"})
# Accurate against the largest element of the result.
_BY_NORM = frozenset({"complement", "expm", "expm_form", "pinv"})
_COFACTORS = frozenset({"cofactors", "det_form"})
_SCATTERING = frozenset({"scatter", "scatter_rows"})
_AVERAGING = frozenset({"reduce_mean", "center"})
MULTILINEAR = frozenset({"matmul", "einsum", "tensordot", "correlate", "correlate_input", "correlate_filter"})

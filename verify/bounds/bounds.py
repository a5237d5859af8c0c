"""The local bound: how far rounding may carry one op.

The bound has no knob: the declared ULPs of an elementwise op, or n units in the last place of the sum of its terms'
magnitudes (sums, products, scans, factorisations). `running_error` carries such bounds along the few ops of a rule;
`noise_world` and `noise` estimate their effect over a whole program by noise of the same size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.declare.primitives import Primitive
from gtape.declare.rounding import Rounding
from gtape.engine.worlds import NUMPY
from gtape.tapes.forward import jvp_of
from gtape.verify.verdicts.ulp import spacing, underflow, widest

__all__ = [
    "COMPLEX_ULPS", "at_least_tiniest", "backward_error", "both", "carried_errors", "committed_error", "declared_ulps",
    "holds_complex", "holds_floats", "local_error", "outside_its_domain",
]  # fmt: skip

COMPLEX_ULPS = 2.0


def holds_floats(x: Any) -> bool:
    """True for an array of floats or complex numbers."""
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fc"


def holds_complex(x: Any) -> bool:
    """True for an array of complex numbers."""
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "c"


def at_least_tiniest(error: Any, ulps: float) -> Any:
    """An error raised to the smallest subnormal unless the op is exact, because half of this number rounds to 0."""
    return np.maximum(error, _TINIEST) if ulps else error


_TINIEST = float(np.finfo(np.float64).smallest_subnormal)


def _counts(prim: Primitive, values: list[Any], params: dict[str, Any]) -> Any:
    """The number of terms that each output of a (multi)linear op sums."""
    if prim.rounding.terms is not None:
        return float(prim.rounding.terms(*values, **params))
    ones = [np.ones(np.shape(v)) if holds_floats(v) else v for v in values]
    return np.asarray(prim.kernel(*ones, **params), dtype=np.float64)


def local_error(prim: Primitive, values: list[Any], y: Any, params: dict[str, Any], dtype: Any) -> Any:
    """Bound on the rounding error that one op commits at exact inputs.

    Parameters
    ----------
    values : list of float64 arrays (or integer and boolean ones)
    y : float64 array
        The value of the op at these inputs.
    dtype : the dtype in which the program computes

    Returns
    -------
    float64 array of y's shape
    """
    if prim.kind == "elementwise":
        return _of_elements(prim, values, y, params, dtype)
    own, noise = _of_arrays(prim, values, y, params, dtype), prim.rounding.noise
    off = _off_its_domain(prim, values, params, dtype)
    own = own if off is None else both(own, off)
    return own if noise is None else own + noise(*values, **params)


def outside_its_domain(prim: Any, arrays: list[Any], dtype: Any) -> bool:
    """True if arrays are further from the thin domain of an op (such as symmetric matrices) than rounding explains.

    A product that is symmetric up to its last bits counts as inside, so that a fault there is still reported.

    Parameters
    ----------
    dtype : the dtype in which the program computes
    """
    domain = prim.domain
    if prim.kind == "elementwise" or domain.fit is None or domain.where is None or domain.where(*arrays):
        return False
    for a, near in zip(arrays, domain.fit(*arrays), strict=True):
        far = np.max(np.abs(widest(a) - widest(near)), initial=0.0)
        if far > 1000 * a.shape[-1] * np.finfo(dtype).eps * np.max(np.abs(widest(a)), initial=0.0):
            return True
    return False


def _off_its_domain(prim: Primitive, values: list[Any], params: dict[str, Any], dtype: Any) -> Any:
    """The distance of the kernel's value from its value at the nearest arrays of a thin domain; None inside.

    A product that is symmetric up to rounding differs from its transpose, and kernels read one triangle. The exact
    value is that of the symmetric part.
    """
    domain = prim.domain
    if prim.kind == "elementwise" or domain.fit is None or domain.where is None or domain.where(*values):
        return None
    if outside_its_domain(prim, values, dtype):
        return None
    here, near = prim.kernel(*values, **params), prim.kernel(*domain.fit(*values), **params)
    if isinstance(here, tuple):
        return tuple([np.abs(a - b) for a, b in zip(here, near, strict=True)])
    return np.abs(here - near)


def declared_ulps(prim: Primitive, values: list[Any], y: Any, params: dict[str, Any], dtype: Any) -> Any:
    """The error that an elementwise op declares for its results, in ULP.

    The allowance near roots is left out, because an error that is large relative to a result near its root is small
    relative to the derivative to which the result is added. Noise counts up to the relative accuracy of special
    functions.
    """
    noise = _noise(prim, values, params, dtype) / spacing(y, dtype)
    return _own(prim, y, dtype) / spacing(y, dtype) + np.minimum(noise, _SPECIAL / float(np.finfo(dtype).eps))


_SPECIAL = 1e-12  # relative accuracy of the special functions that promise no ULPs


def _of_elements(prim: Primitive, values: list[Any], y: Any, params: dict[str, Any], dtype: Any) -> Any:
    """`local_error` of an elementwise op."""
    own = _own(prim, y, dtype) + _noise(prim, values, params, dtype)
    plain = holds_complex(y) or prim.public or prim.ulps <= 0.5
    return own if plain else np.maximum(own, _beside_roots(prim, values, y, params, dtype))


def _own(prim: Primitive, y: Any, dtype: Any) -> Any:
    """The declared ULPs of an elementwise op, as an error of each result."""
    if holds_complex(y):  # relative to the modulus; a complex product commits up to 2.3 roundings
        return max(prim.ulps, COMPLEX_ULPS) * spacing(y, dtype)
    narrow = prim.rounding.wide and np.dtype(dtype).itemsize < 8
    own = at_least_tiniest((0.51 if narrow else prim.ulps) * spacing(y, dtype), prim.ulps)
    # Computed in float64, rounded once.
    return own + prim.ulps * spacing(y, np.dtype(np.float64)) if narrow else own


def _noise(prim: Primitive, values: list[Any], params: dict[str, Any], dtype: Any) -> Any:
    """The error of an elementwise op by cancellation inside its kernel."""
    if prim.rounding.noise is None or any(holds_complex(v) for v in values):
        return 0.0
    wide = 1.0 if np.dtype(dtype).itemsize == 8 else 2.0**10  # long doubles for doubles, doubles for the rest
    return wide * prim.rounding.noise(*values, **params)


def _of_arrays(prim: Primitive, values: list[Any], y: Any, params: dict[str, Any], dtype: Any) -> Any:
    """`local_error` of an op on arrays, without its noise."""
    unit = spacing(1.0, dtype) / 2
    magnitudes = [np.abs(v) if holds_floats(v) else v for v in values]
    how = prim.rounding
    if how.kind == "exact":
        return tuple([np.zeros(v.shape) for v in y]) if isinstance(y, tuple) else np.zeros(y.shape)
    if how.kind == "sum":
        if isinstance(y, tuple) or y.size == 0:
            return tuple([np.zeros(v.shape) for v in y]) if isinstance(y, tuple) else np.zeros(y.shape)
        if how.by is not None:
            return unit * np.asarray(how.by(*values, **params)) + spacing(0.0, dtype)
        moved = np.maximum(_counts(prim, values, params) - 1, 0)
        sizes = np.asarray(prim.kernel(*magnitudes, **params))
        return how.ulps * moved * unit * sizes + np.where(moved > 0, spacing(0.0, dtype), 0.0)
    if how.kind == "product":
        terms = _counts(prim, values, params)
        rounded = how.ulps * (terms + 1) * unit * np.asarray(prim.kernel(*magnitudes, **params))
        return rounded + (terms * _parts(y) * underflow(dtype) + spacing(0.0, dtype))
    if how.wide and np.dtype(dtype).itemsize == 4:  # computed in float64, rounded once
        if isinstance(y, tuple):  # recompute in float64, because rounded eigenvalues hide how close they are
            inner = _of_arrays(prim, values, prim.kernel(*values, **params), params, np.dtype(np.float64))
            return tuple([e + 0.51 * spacing(v, dtype) for v, e in zip(y, inner, strict=True)])
        inner = _of_arrays(prim, values, y, params, np.dtype(np.float64))
        return inner + 0.51 * spacing(y, dtype)
    longest = max([max(v.shape, default=1) for v in values if holds_floats(v)], default=1)
    forward, backward = how.sizes(longest)
    # Each rounding (1 + d) of a factor comes with an absolute error e of a product: the `backward` roundings of the
    # arguments, and the roundings of the products of a sum along the longest axis.
    beneath = (backward + longest) * underflow(dtype)
    # The parts of a factorisation are accurate against their largest element.
    committed: Any = (
        _of_parts(how, forward, y, dtype)
        if isinstance(y, tuple)
        else forward * spacing(_largest(y) if how.whole else y, dtype)
    )
    if how.by is not None:
        if how.feeds is not None:  # products with this argument underflow
            e = beneath / (backward * unit)
            values = [np.abs(v) + e if i == how.feeds else v for i, v in enumerate(values)]
        terms = how.by(*values, **params)
        if not np.isfinite(terms).all():  # infinite terms, such as masks, are exact
            others = how.by(*[np.where(np.isinf(v), 0.0, v) if holds_floats(v) else v for v in values], **params)
            terms = np.where(np.isfinite(terms), terms, others)
        return committed + (backward * unit * terms + beneath)
    if backward == 0 or prim.variadic:
        return committed
    if how.eliminates:
        # The backward error of an elimination is small against the matrix, not against each of its elements.
        axes = 3 if how.parts else 2
        magnitudes = [_largest(v, axes) if holds_floats(v) and v.ndim > 1 else v for v in magnitudes]
    moves = [backward * unit * np.where(np.isinf(v), 0.0, v) if holds_floats(v) else None for v in magnitudes]
    if how.feeds is not None:  # each step may round to a subnormal number, which later steps magnify
        moves[how.feeds] = moves[how.feeds] + spacing(0.0, dtype)
    if how.eliminates:
        # A product that underflows moves an element of the matrix by e; a quotient moves it by e times its pivot.
        pivot = 1 + max([float(v.max(initial=0.0)) for v in magnitudes if holds_floats(v)])
        moves = [None if v is None else v + beneath * pivot for v in moves]
        committed = both(committed, _everywhere(beneath, y))
    return both(committed, carried_errors(prim, moves, values, y, params))


def _of_parts(how: Rounding, forward: float, y: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """The roundings that a factorisation commits in its outputs themselves."""
    return tuple([forward * spacing(_largest(v, _axes(how, i)), dtype) for i, v in enumerate(y)])


def committed_error(prim: Primitive, values: list[Any], y: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """The part of the `local_error` of a factorisation that no move of its matrix explains."""
    longest = max([max(v.shape, default=1) for v in values if holds_floats(v)], default=1)
    return _of_parts(prim.rounding, prim.rounding.sizes(longest)[0], y, dtype)


def backward_error(prim: Primitive, matrix: Any, dtype: Any) -> Any:
    """How far each element of a matrix is from that of a matrix with exactly the factors that a stable algorithm
    returns, but for their own roundings. The bound is relative to the largest element, so that zeros move, too.
    """
    _, backward = prim.rounding.sizes(max(matrix.shape, default=1))
    return backward * spacing(1.0, dtype) / 2 * _largest(widest(matrix), 3 if prim.rounding.parts else 2)


def _parts(y: Any) -> int:
    """The number of real products in a product, for the underflow of each: four for complex numbers."""
    return 4 if holds_complex(y) else 1


def _everywhere(e: float, y: Any) -> Any:
    """One error for all elements of the outputs."""
    return tuple([np.full(np.shape(v), e) for v in y]) if isinstance(y, tuple) else np.full(np.shape(y), e)


def _axes(how: Rounding, i: int) -> int:
    """The number of trailing axes that one matrix occupies in output `i` of a factorisation."""
    return 3 if how.parts and i in how.columns else 2


_FEW = 8
_FAR = 1 / 16


def both(a: Any, b: Any) -> Any:
    """The sum of two errors, output by output for tuples."""
    return tuple([p + q for p, q in zip(a, b, strict=True)]) if isinstance(a, tuple) else a + b


def _largest(v: Any, count: int = 2) -> Any:
    axes = tuple(range(max(v.ndim - count, 0), v.ndim))
    return np.broadcast_to(np.abs(v).max(axis=axes, keepdims=True, initial=0.0), v.shape)


def carried_errors(prim: Primitive, moves: list[Any], values: list[Any], y: Any, params: dict[str, Any]) -> Any:
    """The move of the output when inputs move by at most `moves`: exact for few elements, by samples for many."""
    if isinstance(y, tuple):  # join all outputs to one row, then split the row
        flat = _carried_to(prim, moves, values, y, params, (sum(v.size for v in y),))
        cuts = np.cumsum([v.size for v in y])[:-1]
        parts = [e.reshape(v.shape) for e, v in zip(np.split(flat, cuts), y, strict=True)]
        how = prim.rounding
        sides = [_axes(how, i) if i in how.columns and v.ndim >= _axes(how, i) else 0 for i, v in enumerate(y)]
        bent = [_bent(e, v, axes) if axes else e for e, v, axes in zip(parts, y, sides, strict=True)]
        if how.undetermined is not None:  # the rules leave out the motion of these columns
            for i, (e, v, axes) in enumerate(zip(bent, y, sides, strict=True)):
                if axes:
                    free = np.expand_dims(how.undetermined(y, i), tuple(range(-axes, -1)))
                    # Complex columns are held at their largest element. Another one may be small there, down to a
                    # rounding, and is then as much longer.
                    longer = 2.0**53 if how.parts else 1.0
                    bent[i] = np.where(free, longer * _turned(v, axes), e)
        return tuple(bent)
    return _carried_to(prim, moves, values, y, params, np.shape(y))


def _bent(e: Any, v: Any, axes: int) -> Any:
    """A first-order error `e` of columns plus its square, or the distance of any other column if `e` is large.

    Rounding then leaves the column undetermined (eigenvectors of close eigenvalues).
    """
    size = _largest(v, axes)
    with np.errstate(all="ignore"):
        part = np.max(e / size, axis=tuple(range(v.ndim - axes, v.ndim - 1)), keepdims=True, initial=0.0)
    return np.where(part <= _FAR, e + 4 * size * part * part, _turned(v, axes))


def _turned(v: Any, axes: int) -> Any:
    """The largest distance of the elements of a column from those of any column of the same length."""
    with np.errstate(all="ignore"):
        squares = (np.abs(v) ** 2).sum(axis=tuple(range(v.ndim - axes, v.ndim - 1)), keepdims=True)
    return np.abs(v) + np.sqrt(squares)


def _carried_to(
    prim: Primitive, moves: list[Any], values: list[Any], y: Any, params: dict[str, Any], shape: tuple[int, ...]
) -> Any:
    # A rule may give NaN for infinite arguments, and the size of NaN is unknown.
    unknown = 0.0 if all(np.isfinite(v).all() for v in values if holds_floats(v)) else np.inf

    def along(t: list[Any]) -> Any:
        t = [m + 0j if m is not None and holds_complex(v) else m for m, v in zip(t, values, strict=True)]
        moved = jvp_of(NUMPY, prim, t, y, tuple(values), params, shape)
        if moved is None:
            return np.zeros(shape)
        if isinstance(y, tuple):
            row = widest(np.concatenate([np.ravel(m) for m in moved]))
            return np.where(np.isfinite(row), row, np.inf)
        return np.nan_to_num(widest(moved), nan=unknown)

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
    root = np.zeros(shape)
    for _ in range(_FEW):
        one = along([None if m is None else m * rng.standard_normal(np.shape(m)) for m in moves])
        root = np.hypot(root, np.abs(one))  # squares would overflow or underflow
    return 4 * root / math.sqrt(_FEW)


def _beside_roots(prim: Primitive, values: list[Any], y: Any, params: dict[str, Any], dtype: Any) -> Any:
    """Extra error near a root away from 0, where a derivative is exact only up to two roundings of its input."""
    room = np.zeros(np.shape(y))
    for i, x in enumerate(values):
        p = prim.rules[i]
        if callable(p) and holds_floats(x):
            signed = np.asarray(p(NUMPY, y, *values, **params), dtype=np.float64)
            slope = np.abs(signed)
            near = np.abs(y) < np.abs(x) * slope / 4
            if near.any():
                # At twice Newton's step the sign has changed if a root makes the function steep. The step is at least
                # the distance to the next float, because a shorter step would end at the same number.
                with np.errstate(all="ignore"):
                    newton = 2 * y / signed
                    step = np.copysign(np.maximum(np.abs(newton), np.abs(np.spacing(x))), newton)
                    beyond = [x - step if k == i else v for k, v in enumerate(values)]
                    near = near & (np.sign(prim.kernel(*beyond, **params)) == -np.sign(y))
                room = room + np.where(near, 2 * spacing(x, dtype) * slope, 0.0)
    return np.nan_to_num(room, nan=0.0, posinf=0.0)

"""Sums, products and directions of arrays of enclosures, and the disagreement of two enclosures.

An enclosure is a ball, a midpoint with a radius, that certainly holds the exact number.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from flint import acb, arb

from gtape.engine.rules import PartialOutputs
from gtape.symbolic.balls import assumed, objects, to_float
from gtape.symbolic.worlds import BallWorld, JetWorld

__all__ = [
    "BALLS", "at_zeros", "bands", "certainly_not_0", "directions", "disagreement", "distance_of", "inner",
    "is_complex", "is_floating", "jet_world", "magnitude", "magnitudes", "plus", "random_cotangents", "turned", "zeros",
]  # fmt: skip

BALLS = BallWorld()
_JETS: dict[int, JetWorld] = {}
# Half of the smallest float and the largest float, times the weight of a direction, and room for a cotangent.
_UNSEEN, _ENDLESS = arb(2) ** -1015, arb(2) ** 1150


def jet_world(k: int) -> JetWorld:
    """The world of jets in k directions (made once)."""
    found = _JETS.get(k)
    if found is None:
        found = _JETS[k] = JetWorld(k)
    return found


def zeros(shape: tuple[int, ...]) -> Any:
    """Exact zeros."""
    out = np.empty(shape, dtype=object)
    out[...] = arb(0)
    return out


def plus(a: Any, b: Any) -> Any:
    """The sum of two cotangents."""
    return a + b if isinstance(a, PartialOutputs) else objects(a + b)


def inner(a: Any, b: Any) -> arb:
    """The real part of the sum of products of two object arrays."""
    left, right = objects(a).ravel().tolist(), objects(b).ravel().tolist()
    if len(left) != len(right):
        raise ValueError(f"inner: {len(left)} and {len(right)} numbers")
    total: Any = sum(map(operator.mul, left, right), arb(0))
    # The real part, because a cotangent describes the change of a real loss.
    return total.real if isinstance(total, acb) else arb(total)


def magnitudes(a: Any) -> Any:
    """The magnitudes of the elements, as a flat array of floats."""
    with np.errstate(all="ignore"):
        return np.abs(to_float(a)).ravel()


def magnitude(a: Any, b: Any, of_a: Any = None, of_b: Any = None) -> arb:
    """The sum of the magnitudes of products; errors of the inner product are measured relative to this sum.

    `of_a` and `of_b` are the magnitudes of the elements, if they are known.
    """
    with np.errstate(all="ignore"):
        rough = float(np.dot(magnitudes(a) if of_a is None else of_a, magnitudes(b) if of_b is None else of_b))
    if 1e-280 < rough < 1e280:
        return arb(rough)
    total = arb(0)
    for p, q in zip(objects(a).ravel().tolist(), objects(b).ravel().tolist(), strict=True):
        term = p * q
        total = total + abs(term if isinstance(term, acb) else arb(term))
    return total


def directions(shape: tuple[int, ...], rng: Any, *, complex: bool = False, like: Any = None) -> Any:
    """Random nonzero integers of 62 bits, exact in every world; complex directions have such integers as both parts.

    Parameters
    ----------
    shape : tuple of int
    rng : numpy Generator
    like : array of enclosures, optional
        The derivative along each direction, roughly. Directions are then divided by powers of two near these numbers,
        so that each contributes as much to a sum, because a sum at 200 bits would hide terms of 2**-200 of its size.
    """
    if complex:
        return objects(_JOIN(directions(shape, rng, like=like), directions(shape, rng, like=like)))
    n = np.asarray(rng.integers(-(2**61), 2**61, size=shape))
    made = np.where(n < 0, n - 2**61, n + 2**61).astype(object)
    if like is None or _are_few_ordinary(like):
        return made
    found = np.broadcast_to(bands(like), shape)
    if not found.any():
        return made
    powers = {band: arb(2) ** int(-_BAND * band) for band in set(found.ravel().tolist())}
    return objects(np.frompyfunc(lambda m, band: m * powers[band] if band else m, 2, 1)(made, found))


def random_cotangents(shape: tuple[int, ...], rng: Any, *, complex: bool = False) -> Any:
    """Random directions as balls, because rules divide their cotangents, which rounds Python's integers."""
    return objects(_BALL(directions(shape, rng, complex=complex)))


def bands(x: Any) -> Any:
    """The order of magnitude of each number, in steps of `_BAND` binary orders; 0 for zeros, infinities and NaN.

    An enclosure that holds 0 counts as 0, because its midpoint is only noise.
    """
    x = objects(x)
    with np.errstate(all="ignore"):
        size = np.abs(to_float(x))
        if size.size and size.min() > _ORDINARY[0] and size.max() < _ORDINARY[1]:
            return np.zeros(size.shape, np.int64)
        found = np.where(np.isfinite(size) & (size != 0), np.rint(np.frexp(size)[1] / _BAND), 0).astype(np.int64)
    return np.where(np.asarray(_MAY_BE_ZERO(x), dtype=bool), 0, found) if found.any() else found


def _are_few_ordinary(x: Any) -> bool:
    """Whether `x` has few numbers, all of band 0 by their magnitudes alone. `bands` takes several times as long."""
    if np.size(x) > _FEW:
        return False
    sizes = [float(abs(e)) for e in objects(x).ravel().tolist()]
    return all([_ORDINARY[0] < size < _ORDINARY[1] for size in sizes])  # noqa: C419 - a list is quicker


def certainly_not_0(along: arb) -> float:
    """The disagreement of a derivative along zeros with 0; 0.0 if the enclosure does not decide."""
    return disagreement(arb(0), along, abs(along)) if along.is_finite() and not along.contains(0) else 0.0


def at_zeros(ways: list[Any], gradients: list[Any]) -> list[Any] | None:
    """Directions along only the elements whose derivative is exactly 0; None if there are none, or no others.

    A sum at 200 bits with numbers of ordinary size would hide the exact value of such an element.

    Parameters
    ----------
    ways : list of arrays or None
        A direction for each source.
    gradients : list of arrays or None
        The derivative by each source; None for zeros.
    """
    zeros = [np.True_ if g is None else np.equal(objects(g), 0).astype(bool) for g in gradients]
    moving = [z for z, u in zip(zeros, ways, strict=True) if u is not None]
    if not any(np.any(z) for z in moving) or all(np.all(z) for z in moving):
        return None
    return [None if u is None else objects(np.where(z, u, 0)) for z, u in zip(zeros, ways, strict=True)]


_BAND = 64  # binary orders of magnitude that may share one scale
_ORDINARY = 2.0 ** (-_BAND // 2), 2.0 ** (_BAND // 2 - 1)  # magnitudes between these are in band 0
_FEW = 16
_JOIN = np.frompyfunc(acb, 2, 1)
_MAY_BE_ZERO = np.frompyfunc(lambda e: isinstance(e, (arb, acb)) and e.contains(0), 1, 1)
_BALL = np.frompyfunc(lambda e: e if isinstance(e, acb) else arb(int(e)), 1, 1)


def is_complex(value: Any) -> bool:
    """True for a recorded array of complex numbers."""
    return not isinstance(value, tuple) and np.asarray(value).dtype.kind == "c"


def turned(x: Any) -> Any:
    """The conjugate, which turns TensorFlow's complex gradients into the transpose that rules compute, and back."""
    return objects(np.frompyfunc(lambda e: e.conjugate() if isinstance(e, acb) else e, 1, 1)(objects(x)))


def is_floating(value: Any) -> bool:
    """True for a recorded array of floats or complex numbers, or a tuple with such an array."""
    if isinstance(value, tuple):
        return any(is_floating(v) for v in value)
    return np.asarray(value).dtype.kind in "fc"


def distance_of(a: arb, b: arb) -> float:
    """The distance of two numbers relative to the larger one: 1.0 if one of them is 0, and 2.0 for opposite numbers."""
    larger = max(abs(a.mid()), abs(b.mid()))
    return float(abs(a.mid() - b.mid()) / larger) if larger != 0 else 0.0


def disagreement(a: arb, b: arb, scale: arb) -> float:
    """0.0 if two enclosures may hold the same number, otherwise their distance relative to `scale`.

    Raises
    ------
    ArithmeticError
        If the enclosures are too wide to tell; higher precision may decide.
    """
    if not (a.is_finite() and b.is_finite() and scale.is_finite()):
        raise ArithmeticError("a value along the program is not finite")
    difference = a - b
    if scale == 0:
        return 0.0
    size = abs(scale)
    if difference.contains(0):
        if size.contains(0):
            # The gradient may be zero everywhere; the comparison of its elements that follows decides.
            if float(difference.rad()) < 2.0**-64:
                return 0.0
            raise ArithmeticError("the enclosures are too wide")
        if float((difference.rad() / size.mid()) if size.mid() != 0 else 1.0) > 2.0**-60:
            raise ArithmeticError("the enclosures are too wide")
        return 0.0
    ratio = difference.mid() / size.mid()
    # Only the sides of zeros (`balls.sides_of_zeros`) are this small, far below all floats and precisions. Limits at
    # infinity are compared as far as floats show them, because slopes that vanish or grow do so at several rates.
    if min(abs(ratio), size) < arb(2) ** -15_000:
        return 0.0
    if assumed.get("limits") and not _UNSEEN < size < _ENDLESS:
        return 0.0
    return max(abs(float(ratio)), 1e-300)

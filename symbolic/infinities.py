"""Ops at infinities: the arithmetic of infinite numbers first, and limits where it gives no number.

Inside `infinities_as_limits` a large number stands for infinity, and a tiny one, such as its reciprocal, for 0. At
infinity itself an op may be another function than near the large number: ``exp(-inf)`` is exactly 0, so that
``divide_no_nan`` by it is 0, whereas the exponential of the large number is positive. So an op with such arguments is
computed with true infinities and zeros. The large numbers give the elements that are then infinite, or have no value,
as ``inf - inf``. The tiny numbers stay tiny, because they may meet a pole: ``log(exp(-inf))`` is -inf.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import assume, assumed, finite_ball, objects, stands_for_0, stands_for_infinity
from gtape.symbolic.jets import ZERO, Jet, value_of

__all__ = ["apart", "at_infinities", "elementwise_at_infinities", "truly_infinite"]

# Single objects, so that an op of them is computed once.
_PLUS, _MINUS, _NOTHING = arb("inf"), arb("-inf"), arb(0)
_ALIKE = arb(2) ** -100  # how much less than a number its distance from a limit is
_UNSEEN = arb(2) ** -1080  # less than half of the smallest float


def apart() -> bool:
    """Whether large numbers stand for infinities, and no op is being computed."""
    return assumed.get("limits") is not None and assumed.get("inside an op") is None


def truly_infinite(x: Any) -> Any:
    """An array, or a list of arrays, with infinities and zeros for the numbers that stand for them.

    Returns `x` itself if no number does.
    """
    if isinstance(x, (list, tuple)):
        made = [truly_infinite(e) for e in x]
        return x if _are_same(made, x) else made
    if not isinstance(x, np.ndarray) or x.dtype != object:
        return x
    flat = x.ravel().tolist()
    out = list(map(_truly, flat))
    if _are_same(out, flat):
        return x
    found = np.empty(len(out), dtype=object)
    found[:] = out
    return found.reshape(x.shape)


def at_infinities(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """The value of an op on whole arrays.

    Parameters
    ----------
    function : callable
        The op, of arrays in a world.
    args : sequence
        The arrays, with large numbers for infinities.
    """
    infinite = [truly_infinite(x) for x in args]
    if _are_same(infinite, args):
        return _near(function, args)
    made = _at(function, infinite)
    return _near(function, args) if made is None else _joined(made, partial(_near, function, args))


def elementwise_at_infinities(function: Callable[..., np.ndarray], args: Sequence[Any]) -> np.ndarray:
    """The value of an elementwise op, whose elements are computed each by itself where an argument is infinite."""
    infinite = [truly_infinite(x) for x in args]
    if _are_same(infinite, args):
        near_all: np.ndarray = _near(function, args)
        return near_all
    shape = np.broadcast_shapes(*map(np.shape, args))
    at, near = ([np.broadcast_to(x, shape).ravel() for x in xs] for xs in (infinite, args))
    left = np.ones(at[0].size, dtype=bool)
    out = np.empty(left.size, dtype=object)
    for i, (here, there) in enumerate(zip(zip(*at, strict=True), zip(*near, strict=True), strict=True)):
        made = None if _are_same(here, there) else _at(function, here)
        if made is not None:
            out[i] = objects(_joined(made, partial(_near, function, there))).item()
            left[i] = False
    if left.any():
        out[left] = objects(_near(function, [x[left] for x in near]))
    return out.reshape(shape).astype(bool) if set(map(type, out.tolist())) == {bool} else out.reshape(shape)


def _at(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """An op of true infinities; None for an op that is not defined there."""
    with assume("limits", None), contextlib.suppress(ArithmeticError, ValueError, TypeError, IndexError):
        return function(*args)
    return None


def _near(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """An op of the large numbers."""
    with assume("inside an op", True):
        return function(*args)


def _joined(at: Any, near: Callable[[], Any]) -> Any:
    """An op's outputs near infinities, with its outputs at true infinities for elements that jump there."""
    if isinstance(at, (np.ndarray, np.generic)) and at.dtype != object:
        return at  # a decision, or a position
    several = isinstance(at, (list, tuple))
    try:
        other = near()
    except ArithmeticError:
        if not all(_is_finite(e) for v in (at if several else (at,)) for e in objects(v).ravel().tolist()):
            raise
        return at
    return type(at)(map(_each, at, other)) if several else _each(at, other)


def _each(at: Any, near: Any) -> Any:
    if isinstance(at, (np.ndarray, np.generic)) and at.dtype != object:
        return at
    out = np.empty(np.size(at), dtype=object)
    out[:] = list(map(_limit, objects(at).ravel().tolist(), objects(near).ravel().tolist()))
    return out.reshape(np.shape(at))


def _limit(at: Any, near: Any) -> Any:
    """An element at true infinities, or near them where both are alike; infinite parts are large numbers."""
    k = max(len(_parts(at)), len(_parts(near)))
    parts, others = ([*_parts(x), *[ZERO] * (k - len(_parts(x)))] for x in (at, near))
    if all(map(finite_ball, parts)):
        return near if all(map(_are_alike, parts, others)) else at
    value = parts[0]
    if not isinstance(value, arb) or not value.is_exact() or value.is_nan():
        return near
    value = value if value.is_finite() else _large(value, others[0])
    # A derivative at infinity counts only with its value: sqrt(x * x) has the slope 0 * inf there.
    return near.__class__(value, *others[1:]) if isinstance(near, Jet) else value


def _are_alike(at: Any, near: Any) -> bool:
    """Whether a finite number at infinity is the limit of a number near it."""
    apart = arb(abs(near - at))
    return bool(apart <= _ALIKE * abs(at) or apart < _UNSEEN)


def _large(infinity: arb, near: Any) -> Any:
    """A large number for an infinity: an op's own, but not one that grows slowly, as log(inf), and would be finite."""
    if _truly(near) is (_PLUS if infinity > 0 else _MINUS):
        return near
    return arb(2) ** assumed["limits"] * (1 if infinity > 0 else -1)


def _truly(x: Any) -> Any:
    """An infinity or a 0 for a number, or a jet, that stands for it; otherwise the argument."""
    value = value_of(x)
    if not isinstance(value, arb):
        return x
    if stands_for_infinity(value):
        value = _PLUS if value > 0 else _MINUS
    elif stands_for_0(value):
        value = _NOTHING
    else:
        return x
    return x.__class__(value, *x.components[1:]) if isinstance(x, Jet) else value


def _parts(x: Any) -> Sequence[Any]:
    return x.components if isinstance(x, Jet) else (x,)


def _is_finite(x: Any) -> bool:
    return all(map(finite_ball, _parts(x)))


def _are_same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two sequences hold the same objects."""
    return all(map(operator.is_, a, b))

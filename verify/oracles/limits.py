"""What a mirror tends to at points of the extended real line: infinities, and zeros approached from one side.

An infinity is put as five large numbers, a signed zero as five small ones; balls give the mirror's value at each, and
the five values tell a limit, an infinity, a zero of one sign, or nothing. Where several arguments are special, they are
moved at different speeds: a limit that depends on the way is none.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection
from functools import cache
from typing import Any

import numpy as np
from flint import acb, arb

from gtape.declare.primitive import Primitive
from gtape.symbolic.balls import objects, precision
from gtape.verify.oracles.enclosures import BALLS, jet_world

__all__ = ["UNSIGNED", "Limit", "depends", "elementwise_limit", "limit_of"]

_BITS = 1000
# With fractional parts, so that what is periodic is met at different phases. Balls overflow in exp of the tall ones.
_TALL = ((70, 3, 0.40625), (101, 5, 0.84375), (152, 3, 0.21875), (233, 7, 0.6875), (330, 5, 0.28125))
_LOW = ((13, 3, 0.40625), (20, 5, 0.84375), (29, 3, 0.21875), (37, 7, 0.6875), (47, 5, 0.28125))
_STEPS = len(_TALL)


class Limit(float):
    """A limit; `signed` tells whether the sign of a zero means anything."""

    signed: bool

    def __new__(cls, value: float, signed: bool = True) -> Limit:
        made = super().__new__(cls, value)
        made.signed = signed
        return made


UNSIGNED = Limit(0.0, signed=False)
_NONE = Limit(math.nan)


@cache
def _size(k: int, tall: bool, slow: bool) -> Any:
    power, factor, rest = (_TALL if tall else _LOW)[k]
    with precision(_BITS):
        height = arb(2) ** power * factor + arb(rest)
        return (height.root(3) * 256).floor() / 256 if slow else height


@cache  # one object for one number: a ball that is no float is equal to itself only
def _placed(sign: int, zero: bool, k: int, tall: bool, slow: bool) -> Any:
    with precision(_BITS):
        size = _size(k, tall, slow)
        return sign / size if zero else sign * size


def is_special(v: Any) -> bool:
    """Whether a number is infinite or a zero."""
    return isinstance(v, float) and (math.isinf(v) or v == 0)


def _finite(ball: Any) -> Any:
    if isinstance(ball, acb):
        return _finite(ball.real) if ball.imag == 0 else None
    if isinstance(ball, int):
        return arb(ball)
    return ball if isinstance(ball, arb) and ball.is_finite() else None


def limit_of(balls: list[Any]) -> Limit:
    """What a sequence of balls tends to; NaN where it does not, or is not defined."""
    values = [_finite(b) for b in balls]
    if any(v is None for v in values):
        return _NONE
    if all(v == 0 for v in values):
        return UNSIGNED
    last, before = values[-1], values[-2]
    signs = {1 if v > 0 else -1 if v < 0 else 0 for v in values}
    sign = signs.pop() if len(signs) == 1 else 0
    zero = Limit(math.copysign(0.0, sign)) if sign else UNSIGNED
    if last.rad() > abs(last.mid()) * arb(2) ** -30:
        return zero if all(v.abs_upper() < arb(2) ** -40 for v in values[-2:]) else _NONE
    if abs(last - before) <= abs(last) * arb(2) ** -15:
        return Limit(float(last.mid()))
    ratios = [abs(b) / abs(a) if a != 0 else arb(1) for a, b in itertools.pairwise(values)]
    if sign and all(r > 1.07 for r in ratios):
        return Limit(math.copysign(math.inf, sign))
    return zero if all(r < 0.85 for r in ratios) else _NONE


def exactly(prim: Primitive, params: dict[str, Any], xs: list[Any], by: int | None) -> Any:
    """The mirror of an elementwise op, or its partial by an argument, at balls; None where it is undecided there."""
    boxes = [objects(x) for x in xs]
    try:
        if by is None:
            return objects(getattr(BALLS, prim.name)(*boxes, **params)).item()
        world = jet_world(1)
        one = np.asarray(1).astype(object)
        jets = [world.jet(x, one) if i == by else x for i, x in enumerate(boxes)]
        return objects(world.component(getattr(world, prim.name)(*jets, **params), 1)).item()
    except (ArithmeticError, ValueError):
        return None


def _words(prim: Primitive) -> str:
    return " ".join(k for k in prim.kinks if isinstance(k, str))


def _held(prim: Primitive) -> Collection[int]:
    """The arguments whose zero is a point of its own, by declared convention, and not what small numbers tend to."""
    words = _words(prim)
    if "no_nan" in prim.name:
        return (1,)
    if "whole" in words:
        return range(len(prim.rules))
    return [
        i for i, name in enumerate("xy") if re.search(rf"{name} == 0|{name} == y == 0", words)
    ] + [0 for k in prim.kinks if not isinstance(k, str) and k == 0]  # fmt: skip


def elementwise_limit(prim: Primitive, params: dict[str, Any], point: tuple[Any, ...], by: int | None = None) -> Limit:
    """The value of an elementwise op, or of its partial by one argument, at a point with infinities and signed zeros.

    Parameters
    ----------
    prim : Primitive
    params : dict
        Its static parameters.
    point : tuple of float and bool
    by : int, optional
        The argument of the partial; the value by default.

    Returns
    -------
    Limit
        The mirror's value at the point where it has one, otherwise its limit from inside the domain; NaN without one.

    Examples
    --------
    >>> import math
    >>> from gtape.declare.primitive import REGISTRY
    >>> float(elementwise_limit(REGISTRY["exp"], {}, (-math.inf,))), float(elementwise_limit(REGISTRY["sin"], {}, (math.inf,)))
    (0.0, nan)
    """  # noqa: E501
    found = _limit(prim, params, point, by, tall=True)
    if math.isnan(found) and any(isinstance(v, float) and math.isinf(v) for v in point):
        return _limit(prim, params, point, by, tall=False)
    return found


def _outside(prim: Primitive, point: tuple[Any, ...]) -> bool:
    """Whether an argument lies beyond the end of its interval."""
    for v, interval in zip(point, prim.domain.intervals, strict=True):
        if isinstance(v, float):
            near = math.copysign(2.0**70, v) if math.isinf(v) else v
            if near not in interval and not (interval.lo <= near <= interval.hi):
                return True
    return False


def _limit(prim: Primitive, params: dict[str, Any], point: tuple[Any, ...], by: int | None, tall: bool) -> Limit:
    special = [i for i, v in enumerate(point) if is_special(v)]
    held = [i for i in special if point[i] == 0 and i in _held(prim)]
    if _outside(prim, point) and 0 not in held:
        return _NONE
    # A zero at an end of the domain is approached from inside, whatever its sign: log(-0.0) is -inf in C99, too.
    turned = [
        i for i in special
        if point[i] == 0 and math.copysign(1e-9, point[i]) not in prim.domain.intervals[i]
    ]  # fmt: skip
    compared = re.search("[xy] == (y|low|high)(?! ==)", _words(prim)) or "comparison" in prim.roles

    def along(fixed: Collection[int]) -> Limit:
        moving = [i for i in special if i not in fixed]
        speeds = (False, True) if len(moving) > 1 and not compared else (False,)
        found = []
        for slow in itertools.product(speeds, repeat=len(moving)):
            pace = dict(zip(moving, slow, strict=True))

            def at(i: int, v: Any, k: int, pace: dict[int, bool] = pace) -> Any:
                if not isinstance(v, float):
                    return v
                if i not in pace:
                    return arb(v)
                sign = int(math.copysign(1, v)) * (-1 if i in turned else 1)
                return _placed(sign, v == 0, k, tall, pace[i])

            steps = [[at(i, v, k) for i, v in enumerate(point)] for k in range(_STEPS)]
            found.append(limit_of([exactly(prim, params, xs, by) for xs in steps]))
        first = found[0]
        if all(f == first for f in found):
            return first if all(f.signed and math.copysign(1, f) == math.copysign(1, first) for f in found) else (
                first if first else UNSIGNED
            )  # fmt: skip
        return _NONE

    with precision(_BITS):
        if not any(math.isinf(v) for v in point if isinstance(v, float)) and _inside(prim, point):
            here = _finite(exactly(prim, params, [arb(v) if isinstance(v, float) else v for v in point], by))
            if here is not None and here.rad() <= abs(here.mid()) * arb(2) ** -60:
                if here != 0:
                    return Limit(float(here.mid()))
                beside = UNSIGNED if held else along([])
                return UNSIGNED if beside else beside
        if held:
            found = along(held)
            if not math.isnan(found):
                return found if found else UNSIGNED
        return along([])


def _inside(prim: Primitive, point: tuple[Any, ...]) -> bool:
    return all(v in i for v, i in zip(point, prim.domain.intervals, strict=True) if isinstance(v, float))


def depends(prim: Primitive, params: dict[str, Any], point: tuple[Any, ...], on: int, by: int | None) -> bool:
    """Whether the mirror, or its partial by one argument, changes when argument `on` is moved through its domain."""
    tried = [v for v in (0.75, -1.25, 2.5, -40.0, 40.0, 0.375, 1.5, 5.0) if v in prim.domain.intervals[on]]
    with precision(_BITS):
        seen: list[Any] = []
        for v in tried:
            moved = [v if i == on else w for i, w in enumerate(point)]
            if prim.domain.where is not None and not prim.domain.where(*moved):
                continue
            ball = _finite(exactly(prim, params, [arb(w) if isinstance(w, float) else w for w in moved], by))
            if ball is None:
                continue
            if any(not ball.overlaps(other) for other in seen):
                return True
            seen.append(ball)
    return False

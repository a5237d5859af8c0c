"""Exact partial derivatives of an elementwise primitive at points, and the distance of float results from them.

The exact derivatives come from ``sympy.diff`` of the mirror, evaluated in enclosures (balls), without any rule of the
tape. The precision rises for single points until every enclosure is far narrower than a unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb

from gtape.declare.domains import BOOLEAN, Domain
from gtape.symbolic.balls import precision
from gtape.symbolic.jets import multi_indices
from gtape.symbolic.worlds import JetWorld
from gtape.verify.search.points import steps, unsteps
from gtape.verify.search.subjects import Subject
from gtape.verify.verdicts.ulp import spacing

__all__ = [
    "LIMIT", "Exact", "Key", "distance", "evaluator", "exact_partials", "keys_of", "kink_allowance", "limit_of",
    "root_allowance",
]  # fmt: skip

LIMIT = 4.0  # ULP: the promised accuracy of every elementwise derivative


def limit_of(prim: Any, dtype: Any) -> float:
    """The allowed error of a primitive's derivatives in ULP: 4, or its declared limit in float64."""
    return float(prim.limit) if np.dtype(dtype).itemsize == 8 else LIMIT


_PRECISIONS = (160, 640, 2560, 10240)
_ACCURATE = 72  # bits, for enclosures of at most 2**-19 ULP
_NOTHING = arb(2) ** -1200  # smaller numbers are 0 in float64
_EVERYTHING = arb(2) ** 1100

Key = tuple[int, ...]  # a partial derivative, as the arguments of its differentiations


class Exact:
    """One exact partial derivative at many points.

    Attributes
    ----------
    high, low : float64 arrays
        The value as an unevaluated sum; an infinity of the right sign beyond the range of float64.
    known : bool array
        True where the value is known: False outside the domain and where `open`.
    open : bool array
        True where the enclosure stayed too wide although the point lies inside the domain.
    """

    __slots__ = ("high", "known", "low", "open")

    def __init__(self, n: int) -> None:
        self.high = np.full(n, np.nan)
        self.low = np.zeros(n)
        self.known = np.zeros(n, dtype=bool)
        self.open = np.zeros(n, dtype=bool)

    def put(self, i: int, x: Any) -> bool:
        """Store the number of a ball; False if the ball is too wide."""
        if isinstance(x, int):
            x = arb(x)
        if not x.is_finite():
            return False
        if x.rel_accuracy_bits() < _ACCURATE and not (x == 0):  # noqa: SIM201 - a ball around 0 is neither == nor != 0
            if abs(x) < _NOTHING:
                x = arb(0)
            elif not abs(x) > _EVERYTHING:
                return False
        high = float(x)
        self.high[i] = high
        if high - high == 0.0:
            self.low[i] = float(x.mid() - high)
        self.known[i] = True
        return True


class _Evaluator:
    """Compiled partials of one subject up to one order."""

    def __init__(self, subject: Subject, order: int) -> None:
        self.subject, self.order = subject, order
        self.made = subject.template
        self.world = None if self.made is not None else JetWorld(max(order, 1))

    def functions(self, active: Key, fixed: tuple[tuple[int, int], ...] = ()) -> Callable[..., Any]:
        assert self.made is not None
        return self.made.jets(active, self.order, fixed)

    def __call__(self, point: tuple[Any, ...], wanted: set[Key]) -> dict[Key, Any]:
        """The wanted partials at a point, except undefined ones."""
        if self.made is None:
            return {k: self._by_jets(point, k) for k in wanted}
        active = self.subject.active
        found: dict[Key, Any] = {}
        balls = tuple(map(arb, point))
        self._take(found, wanted, active, (), balls)
        rest = wanted - found.keys()
        if rest and len(point) > 1:
            # Some partials do not exist here (x**y by y at x <= 0). Take the others with the remaining arguments fixed,
            # and integer exponents as integers.
            for size in range(len(active) - 1, 0, -1):
                for some in _subsets(active, size):
                    if not any(set(k) <= set(some) for k in rest):
                        continue
                    fixed = tuple(
                        (i, int(point[i])) for i in self.made.exponents if i not in some and _small_integer(point[i])
                    )
                    self._take(found, wanted, some, fixed, balls)
        return found

    def _take(self, found: dict[Key, Any], wanted: set[Key], active: Key, fixed: Any, balls: tuple[Any, ...]) -> None:
        try:
            values = self.functions(active, fixed)(*balls)
        except ArithmeticError:
            return
        for m, x in zip(multi_indices(len(active), self.order), values, strict=True):
            key = tuple(active[a] for a in m)
            if key in wanted and key not in found and (isinstance(x, int) or x.is_finite()):
                found[key] = x

    def _by_jets(self, point: tuple[Any, ...], key: Key) -> Any:
        """A partial by jets, for a mirror without an expression (where)."""
        world = self.world
        assert world is not None
        arguments = []
        for i, v in enumerate(point):
            directions = [np.array(float(j < len(key) and key[j] == i)) for j in range(world.k)]
            arguments.append(
                np.asarray(v) if self.subject.boolean(i) else world.jet(np.array(v, dtype=np.float64), *directions)
            )
        made = getattr(world, self.subject.prim.name)(*arguments, **self.subject.params)
        return world.component(made, (1 << len(key)) - 1)[()]


def evaluator(subject: Subject, order: int) -> Callable[[tuple[Any, ...], set[Key]], dict[Key, Any]]:
    """The function ``(point, keys) -> {key: ball}`` of a subject's partials, at the precision of the call."""
    return _Evaluator(subject, order)


def _inside(domain: Domain, point: tuple[Any, ...]) -> bool:
    """True if a point lies inside the domain and off its ends, where no two-sided derivative exists."""
    ends = any(v in (i.lo, i.hi) for v, i in zip(point, domain.intervals, strict=True) if i is not BOOLEAN)
    return point in domain and not ends


def _subsets(items: Key, size: int) -> list[Key]:
    from itertools import combinations

    return list(combinations(items, size))


def _small_integer(v: Any) -> bool:
    return math.isfinite(v) and v == math.floor(v) and abs(v) <= 64


def keys_of(subject: Subject, order: int) -> list[Key]:
    """The keys of all partial derivatives of one order: ``(0,)``, ``(0, 1)``; mixed ones in both sequences."""
    if order not in (1, 2):
        raise ValueError(f"order is 1 or 2, not {order!r}")
    if order == 1:
        return [(i,) for i in subject.active]
    return [(i, j) for i in subject.active for j in subject.active]


def exact_partials(subject: Subject, xs: Sequence[Any], keys: Sequence[Key]) -> dict[Key, Exact]:
    """Exact partial derivatives at points.

    Parameters
    ----------
    xs : sequence of 1-d arrays, one per argument, equally long
    keys : sequence of tuples of int
        The partials, as from `keys_of`.

    Returns
    -------
    dict
        Both sequences of a mixed partial share one object.

    Examples
    --------
    >>> import numpy as np
    >>> from gtape.verify.search.subjects import subjects
    >>> (square,) = subjects(["square"])
    >>> exact_partials(square, [np.array([3.0])], [(0,), (0, 0)])[0,].high
    array([6.])
    """
    columns = [np.asarray(x).astype(np.float64) if np.asarray(x).dtype.kind == "f" else np.asarray(x) for x in xs]
    n = len(columns[0])
    groups = {tuple(sorted(k)) for k in keys}
    found = {k: Exact(n) for k in groups}
    if not groups:
        return {}
    evaluate = _Evaluator(subject, max(map(len, groups)))
    points = list(zip(*[c.tolist() for c in columns], strict=True))
    domain = subject.prim.domain
    todo: list[tuple[int, set[Key]]] = [
        (i, groups) for i, p in enumerate(points) if all(v - v == 0.0 for v in p) and _inside(domain, p)
    ]
    for bits in _PRECISIONS:
        following = []
        with precision(bits):
            for i, wanted in todo:
                got = evaluate(points[i], wanted)
                left = {k for k in wanted if k not in got or not found[k].put(i, got[k])}
                if left:
                    following.append((i, left))
        todo = following
        if not todo:
            break
    for i, left in todo:
        for k in left:
            found[k].open[i] = True
    return {k: found[tuple(sorted(k))] for k in keys}


def distance(got: Any, exact: Exact, dtype: Any) -> Any:
    """The distances of numbers from the exact ones, in ULP of the exact ones.

    Infinity counts as the power of two beyond the largest float, so that overflow passes within the same few ULP of the
    point where rounding would overflow.

    Parameters
    ----------
    got : array or None
        None (no gradient) stands for 0.
    dtype : floating dtype

    Returns
    -------
    float64 array
        0 where the exact number is unknown.
    """
    g = np.zeros(exact.high.shape) if got is None else np.asarray(got, dtype=np.float64)
    top = float(np.finfo(dtype).max)
    unit = spacing(exact.high, dtype)
    with np.errstate(all="ignore"):
        edge = float(spacing(top, dtype))
        # In ULP of the largest float, because 2**1024 itself is not a float.
        over = np.abs(exact.high) > top
        e = np.minimum((np.abs(exact.high) - top) / edge, 1.0)
        e = np.where(np.isinf(exact.high), 1.0, e) * over
        beyond = np.isinf(g) & (np.sign(g) == np.sign(exact.high))
        steps = np.where(beyond, 1.0, (np.abs(g) * np.where(np.sign(g) == np.sign(exact.high), 1.0, -1.0) - top) / edge)
        near_top = np.where(over, np.abs(steps - e), (top - np.abs(exact.high)) / edge + 1.0)
        plain = np.abs((g - exact.high) - exact.low) / unit
        off = np.where(over | beyond, near_top, plain)
    return np.where(exact.known, np.where(np.isnan(off), np.inf, off), 0.0)


def kink_allowance(subject: Subject, xs: Sequence[Any], key: Key, got: Any, dtype: Any) -> Any:
    """The points that pass because the derivative jumps there and the number lies between its one-sided values.

    Parameters
    ----------
    xs : sequence of 1-d arrays
    got : 1-d array or None

    Returns
    -------
    bool array
    """
    n = len(xs[0])
    passes = np.zeros(n, dtype=bool)
    if not subject.kinked or not n:
        return passes
    value = np.zeros(n) if got is None else np.asarray(got, dtype=np.float64)
    for i, x in enumerate(xs):
        if x.dtype.kind != "f":
            continue
        near: list[Any] = []
        far: list[Any] = []
        for step in (-1, 1):
            for offset, found in ((step, near), (64 * step, far)):
                moved = list(xs)
                moved[i] = unsteps(steps(x, dtype) + offset, dtype)
                found.append(exact_partials(subject, moved, [key])[key].high)
        low, high = np.fmin(*near), np.fmax(*near)
        # Between neighbours a smooth derivative moves by a few ULP only.
        with np.errstate(all="ignore"):
            jumps = ~(np.abs(near[1] - near[0]) <= 2.0**-10 * np.maximum(np.abs(low), np.abs(high)))
            endless = np.zeros(n, dtype=bool)  # one side is infinite, because it is unbounded
            for side, further in zip(near, far, strict=True):
                endless |= np.isinf(value) & (np.sign(value) == np.sign(side)) & (np.abs(side) > np.abs(further))
            # Rounded like the value, because float32(-pi) lies below every number above -pi.
            least, most = low.astype(dtype).astype(np.float64), high.astype(dtype).astype(np.float64)
        passes |= jumps & (endless | ((value >= least) & (value <= most)))
    return passes


def root_allowance(subject: Subject, xs: Sequence[Any], key: Key, got: Any, dtype: Any) -> Any:
    """The points that pass because they lie near a root of the derivative other than 0, where no formula is accurate.

    A point passes if the derivative changes sign near it (within an eighth of the argument, by Newton's step) and the
    returned number is the exact derivative somewhere within 2 ULP of the inputs.

    Parameters
    ----------
    xs : sequence of 1-d arrays
    key : tuple of int
        The partial derivative.
    got : 1-d array or None

    Returns
    -------
    bool array
    """
    dtype = np.dtype(dtype)
    xs = [np.asarray(x) for x in xs]
    n = len(xs[0])
    if got is None or not n:
        return np.zeros(n, dtype=bool)
    here = exact_partials(subject, xs, [key])[key].high
    low, high = here.copy(), here.copy()
    beside = np.zeros(n, dtype=bool)
    value = np.asarray(got, dtype=np.float64)
    if not np.isfinite(value).any():
        return np.zeros(n, dtype=bool)
    whole = [interval.whole for interval in subject.prim.domain.intervals]
    floats = [i for i in range(len(xs)) if xs[i].dtype.kind == "f" and not whole[i]]
    shifts = np.stack(np.meshgrid(*[[-2.0, 2.0]] * len(floats), indexing="ij"), -1).reshape(-1, len(floats))
    with np.errstate(all="ignore"):
        for shift in shifts:
            moved = list(xs)
            for s, i in zip(shift, floats, strict=True):
                moved[i] = xs[i].astype(np.float64) + s * spacing(xs[i].astype(np.float64), dtype)
            there = exact_partials(subject, moved, [key])[key].high
            low, high = np.fmin(low, there), np.fmax(high, there)
        for i in floats:
            x = xs[i].astype(np.float64)
            # The slope of the derivative, over a step that every dtype resolves.
            step = np.abs(x) * 2.0**-20
            moved = list(xs)
            moved[i] = x + step
            slope = (exact_partials(subject, moved, [key])[key].high - here) / step
            newton = -here / slope
            least = 2 * spacing(x, dtype)  # because a root may lie between two floats
            moved[i] = x + np.where(np.abs(2 * newton) < least, np.copysign(least, newton), 2 * newton)
            beyond = exact_partials(subject, moved, [key])[key].high
            beside |= (np.abs(newton) <= np.abs(x) / 8) & (x != 0) & (np.sign(beyond) * np.sign(here) <= 0)
        # One rounding of the result comes on top.
        rim = spacing(here, dtype)
        return beside & (value >= low - rim) & (value <= high + rim)

"""The local check of long arrays by wider floats first, because enclosures take ten times as long.

Data that move and sums of products of float32 numbers are computed in float64, whose roundings are 2**-29 of those of
float32. Elementwise ops are computed by their mirrors in wider floats with bounds on the errors; the elements that
these bounds leave open are compared with enclosures. Whatever is not clearly within its bounds is left to the check by
enclosures, which decides and explains.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import sympy as sp

from gtape.symbolic.balls import mapped, objects
from gtape.symbolic.doubles import DOUBLES
from gtape.symbolic.mirrors import has_mirror
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.scalars import Template, template
from gtape.symbolic.wide_floats import Bounded, WideFloats, wide_floats
from gtape.verify.bounds.excess import excess, rounded
from gtape.verify.oracles.backward import by_rule
from gtape.verify.oracles.enclosures import BALLS

__all__ = ["clearly_inside", "is_long", "sum_is_inside"]

Allowed = Callable[[Any, Any], Callable[[int], Any]]
LONG = 2048  # numbers of a long array
_SPARE = 2.0**-28  # of a bound of float32 for each term, which is twice what sums lose in float64
_FEW = 1 / 8  # the part of the elements that enclosures may decide one by one
_NOTHING = 2 * float(np.finfo(np.float64).smallest_subnormal)  # bounds of results without a rounding
_EXACT = 2**31  # larger integers are left to enclosures


def is_long(*arrays: Any) -> bool:
    """Whether one of some arrays is so long that arithmetic of floats is much quicker than enclosures."""
    return bool(max([v.size for v in arrays]) >= LONG)


def clearly_inside(task: Any, allowed_by_rule: Allowed) -> bool:
    """Whether the value of an op with long arrays, and the results of its rule, are certainly within their bounds.

    Parameters
    ----------
    task : task of `Local`
        Of one op.
    allowed_by_rule : callable
        (task, cotangents of the outputs) -> function from the number of an active argument to the bound.

    Returns
    -------
    bool
        False for all ops, dtypes and arrays that this module does not know.
    """
    prim, arrays = task.node.prim, [task.output, *task.values]
    if task.several or len(task.members) > 1 or not is_long(*arrays):
        return False
    dtype = task.output.dtype
    if any(v.dtype != dtype if v.dtype.kind in "fc" else v.dtype.kind not in "biu" for v in arrays):
        return False
    backs = [(parts[0], made) for parts, made in task.sweeps]
    if not all(np.isfinite(v).all() for v in arrays if v.dtype.kind == "f"):
        return False
    if not all(np.isfinite(c).all() for g, made in backs for c in (g, *made) if c is not None):
        return False
    if prim.kind == "elementwise":
        floats = wide_floats(dtype) if has_mirror(prim.name) and prim.name in SCALARS else None
        return floats is not None and _Elementwise(floats, task).inside(allowed_by_rule)
    if dtype not in (np.float32, np.float64) or prim.rounding.kind not in ("exact", "sum", "product"):
        return False
    return _is_near(task, backs, allowed_by_rule)


def _is_near(task: Any, backs: list[Any], allowed_by_rule: Allowed) -> bool:
    """Whether an op that moves, adds or multiplies numbers is within its bounds by arithmetic of float64."""
    node = task.node
    xs = [v.astype(np.float64) if v.dtype.kind == "f" else v for v in task.values]
    y = np.asarray(node.apply(DOUBLES, xs))
    # No sum has more terms than the largest array has numbers.
    within = _equal if y.dtype == task.output.dtype else partial(_within, max([v.size for v in (y, *xs)]))
    if y.shape != task.output.shape or not within(task.output, y, task.own_error()):
        return False
    for g, made in backs:
        exact = by_rule(DOUBLES, node, g.astype(np.float64), y, xs, task.values)
        allowed = allowed_by_rule(task, (g,))
        for k, (c, e) in enumerate(zip(made, exact, strict=True)):
            if c is None:
                continue
            c, e = np.asarray(c), np.asarray(e, np.float64)
            if c.shape != e.shape or not within(c, e, allowed(k)):
                return False
    return True


def _within(terms: int, got: Any, near: Any, bound: Any) -> bool:
    """Whether numbers are within their bounds of sums of terms, less what the sums may have lost in float64."""
    return bool(np.all(np.abs(got - near) <= (1 - max(terms, LONG) * _SPARE) * bound))


def sum_is_inside(total: Any, terms: list[Any], bound: Callable[[], Any]) -> bool:
    """Whether a sum of long arrays is certainly within its bound."""
    floats = wide_floats(total.dtype) if is_long(total) else None
    if floats is None or any(t.shape != total.shape or t.dtype != total.dtype for t in terms):
        return False
    stacked = Bounded(np.stack(terms).astype(floats.dtype), floats.dtype.type(0))
    near, error = floats.sum(stacked, (0,))
    return not _open(total, Bounded(near[0], error[0]), bound()).size


def _equal(got: Any, exact: Any, bound: Any) -> bool:
    """Whether numbers that were moved, without a rounding in float64, are the exact ones."""
    return bool(np.all(bound <= _NOTHING)) and np.array_equal(got, exact)


class _Elementwise:
    """The comparisons of an elementwise op and its rule with the mirror and its slopes."""

    def __init__(self, floats: WideFloats, task: Any) -> None:
        self.floats, self.task, node = floats, task, task.node
        self.made = template(SCALARS[node.prim.name], len(task.values), node.params)
        self.active = node.active if task.sweeps else ()

    def inside(self, allowed_by_rule: Allowed) -> bool:
        """Whether the value and the results of the rule are certainly within their bounds."""
        task, made = self.task, self.made
        near = None if made.boolean or made.exponents else self._near()
        if near is None or not self._decided(task.output, near[0], task.own_error(), made.balls):
            return False
        for (g,), results in task.sweeps:
            allowed = allowed_by_rule(task, (g,))
            for k, c in enumerate(results):
                if c is not None and not self._has_slope(k, g, np.asarray(c), near[1 + k], allowed(k)):
                    return False
        return True

    def _near(self) -> list[Bounded] | None:
        values = self.task.values
        if any(np.abs(v.astype(np.float64)).max(initial=0) >= _EXACT for v in values if v.dtype.kind in "iu"):
            return None
        return self.floats.values(
            _expressions(self.made, self.active), dict(zip(self.made.symbols, values, strict=True))
        )

    def _has_slope(self, k: int, g: Any, c: Any, slope: Bounded, bound: Any) -> bool:
        """Whether a result of the rule is the cotangent times the slope, summed to the shape of the argument."""
        shape, whole = self.task.values[self.active[k]].shape, self.task.output.shape
        if c.shape != shape or g.shape != whole:
            return False
        near = self.floats.times(g, slope)
        if shape != whole:
            first = len(whole) - len(shape)
            axes = tuple(a for a, n in enumerate(whole) if a < first or shape[a - first] != n)
            near, error = self.floats.sum(Bounded(np.broadcast_to(near.near, whole), near.error), axes)
            return not _open(c, Bounded(near.reshape(shape), error.reshape(shape)), bound).size
        slopes = self.made.slopes(self.active)

        def exact(one: Any, *xs: Any) -> Any:
            made = slopes(*xs, self.made.balls(*xs))
            return one * (made[k] if len(self.active) > 1 else made)

        return self._decided(c, near, bound, exact, g)

    def _decided(self, got: Any, near: Bounded, bound: Any, exact: Callable[..., Any], *before: Any) -> bool:
        """Whether numbers are within their bounds of near ones, or else of exact ones."""
        places = _open(got, near, bound)
        if not places.size:
            return True
        if places.size > _FEW * got.size:
            return False
        arguments = [np.broadcast_to(v, got.shape).ravel()[places] for v in (*before, *self.task.values)]
        made = mapped(exact, *[objects(BALLS.lift(v)) for v in arguments])
        some = got.ravel()[places]
        off = np.flatnonzero(some != rounded(made, got.dtype))
        allowed = np.broadcast_to(bound, got.shape).ravel()[places]
        return excess(some[off], made[off], allowed[off]) is None


def _open(got: Any, near: Bounded, bound: Any) -> Any:
    """The places of the numbers that are not certainly within their bounds."""
    with np.errstate(all="ignore"):
        inside = np.abs(got - near.near) + near.error <= bound
    return np.flatnonzero(~np.broadcast_to(inside, got.shape))


@lru_cache(256)
def _expressions(made: Template, active: tuple[int, ...]) -> list[sp.Expr]:
    """The mirror and its first derivatives by the active arguments."""
    return made.partials(active, 1)

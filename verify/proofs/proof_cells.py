"""Arguments of proofs: symbols, and sample points that reach every branch of a mirror.

A sample point decides branches, so that a proof holds on the open cell with the same decisions. The points lie between
possible changes: ends of the domain, kinks, poles, special points, and the numbers in the conditions of the mirror.
`proof_cuts` adds points for the conditions that mirror and rules evaluate.
"""

from __future__ import annotations

import inspect
import itertools
import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import sympy as sp

from gtape.base.layout import make_layout
from gtape.declare.domains import BOOLEAN, Interval
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.declare.signatures import defaults_of
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.scalars import exact_rational, template
from gtape.verify.search.subjects import asked_by

__all__ = ["Argument", "Setting", "boxed", "settings", "symbols", "unseen"]

# A larger special point concerns the kernel (overflow, underflow, saturation), not the mathematics.
FAR = 50
_ORDERS = 24
# The number of further draws if none of these points lies in the domain.
_TRIES = 200
_BROADCASTS: dict[int, tuple[tuple[tuple[int, ...], ...], ...]] = {
    1: (((),), ((2,),), ((2, 1),)),
    2: (((), ()), ((2,), (2,)), ((), (2,)), ((2,), ()), ((2, 1), (1, 3)), ((1,), (3,)), ((2, 2), (1,)), ((), (1, 1))),
    3: (((), (), ()), ((2,), (), (1,)), ((2, 1), (1, 2), ()), ((1,), (2,), (2, 1))),
}


class Argument:
    """One argument of a primitive in a proof.

    Parameters
    ----------
    value : tuple of int or ndarray
        A shape, for an array of symbols, or a constant array.
    interval : Interval
        The range of the elements; with a lower end only, they are written lo + p with positive p.

    Attributes
    ----------
    array : ndarray
        Expressions, or the constant.
    symbols : ndarray or None
        One symbol per element.
    """

    def __init__(self, index: int, value: Any, interval: Interval) -> None:
        self.interval = interval
        self.lo = exact_rational(interval.lo) if math.isfinite(interval.lo) and not math.isfinite(interval.hi) else None
        if isinstance(value, tuple):
            self.shape: tuple[int, ...] = value
            name = "abcdefuvwxyz"[index % 12] + ("" if index < 12 else str(index // 12))
            words = {"real": True} if self.lo is None else {"positive": True}
            self.symbols: Any = symbols(name, self.shape, **words)
            self.array = self.symbols if self.lo is None else boxed(self.symbols + self.lo)
        else:
            self.array = value if isinstance(value, np.ndarray) else np.asarray(value)
            self.shape = tuple(self.array.shape)
            self.symbols = None
        self.layout = make_layout(np.dtype(np.float64) if self.array.dtype == object else self.array.dtype, self.shape)

    def sample(self, symbol: Any, value: Any) -> Any:
        """The value of the symbol for an element of `value`."""
        return value if self.lo is None else value - self.lo

    def value(self, symbol: Any, sample: Any) -> Any:
        """The value of the element for a symbol of `sample`."""
        return sample if self.lo is None else sample + self.lo


def symbols(name: str, shape: tuple[int, ...], **words: bool) -> np.ndarray:
    """An array of symbols, each named by its index."""
    out = np.empty(shape, dtype=object)
    for at in np.ndindex(*shape):
        out[at] = sp.Symbol("_".join([name, *map(str, at)]), **words)
    return out


def boxed(x: Any) -> np.ndarray:
    """An object array, also for a scalar."""
    if isinstance(x, np.ndarray):
        return x if x.dtype == object else x.astype(object)
    out = np.empty((), dtype=object)
    out[()] = x
    return out


class Setting:
    """A primitive with parameters and arguments, and the points that decide its branches.

    Attributes
    ----------
    arguments : list of Argument
    params : dict
    cells : int or None
        The number of cells to prove: 1 if another setting covers all cells, None for all.
    missing : list of str
        Why the points did not reach all cells; empty if they did.
    """

    def __init__(
        self, prim: Primitive, values: tuple[Any, ...], params: dict[str, Any], cells: int | None = None
    ) -> None:
        self.prim, self.params, self.cells = prim, params, cells
        self.missing: list[str] = []
        intervals = _intervals(prim, len(values))
        self.arguments = [Argument(i, v, d) for i, (v, d) in enumerate(zip(values, intervals, strict=True))]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of every argument."""
        return tuple(a.shape for a in self.arguments)

    @property
    def symbols(self) -> list[Any]:
        """All symbols, in order."""
        return [s for a in self.arguments if a.symbols is not None for s in a.symbols.ravel()]

    def points(self) -> Iterator[dict[Any, Any]]:
        """Yield sample points, each with a rational number for every symbol."""
        if self.prim.kind == "elementwise" and all(a.shape == () for a in self.arguments):
            yield from self._grid()
        else:
            yield from self._draws()

    def _grid(self) -> Iterator[dict[Any, Any]]:
        free = [(i, a) for i, a in enumerate(self.arguments) if a.symbols is not None]
        cuts = breakpoints(self.prim, self.params, len(self.arguments))
        values = [list(_between(cuts, a.interval, i)) for i, a in free]
        # The simplest point first, because it selects the cell if only one is proved.
        for point in sorted(itertools.product(*values), key=lambda p: sum(abs(v - 1) for v in p)):
            if self.inside(point):
                yield {a.symbols.item(): a.sample(a.symbols.item(), v) for (_, a), v in zip(free, point, strict=True)}

    def inside(self, point: tuple[Any, ...]) -> bool:
        """True if scalar arguments, with constants inserted, lie in the domain."""
        where = self.prim.domain.where
        if where is None:
            return True
        rest = iter(point)
        return bool(where(*[float(next(rest)) if a.symbols is not None else float(a.array) for a in self.arguments]))

    def _draws(self) -> Iterator[dict[Any, Any]]:
        rng = random.Random(0)
        elements = [(a, s) for a in self.arguments if a.symbols is not None for s in a.symbols.ravel()]
        n = len(elements)
        orders: Any = itertools.permutations(range(n)) if n <= 4 else (rng.sample(range(n), n) for _ in range(_ORDERS))
        some = False
        for order in orders:
            # Shifts for all positive, mixed and all negative values, because signs matter to some ops.
            for shift in (0, n // 2, n) if n < 5 else (0, n // 2):
                point = {}
                for (a, s), rank in zip(elements, order, strict=True):
                    value = sp.Rational(2 * (rank - shift) + 1, 3) + sp.Rational(rng.randrange(1, 60), 997)
                    point[s] = _into(a, value)
                if self.allows(point):
                    some = True
                    yield point
        for _ in range(0 if some else _TRIES):  # an unusual domain
            point = {s: _into(a, sp.Rational(rng.randrange(-3 * 997, 3 * 997), 997)) for a, s in elements}
            if self.allows(point):
                yield point

    def allows(self, point: Mapping[Any, Any]) -> bool:
        """True if a point lies in the domain for every combination by broadcasting."""
        where = self.prim.domain.where
        if where is None or self.prim.kind != "elementwise":
            return True
        values = [
            np.vectorize(lambda s, a=a: float(a.value(s, point[s])), otypes=[float])(a.symbols)
            if a.symbols is not None
            else a.array
            for a in self.arguments
        ]
        return all(
            bool(where(*v)) for v in zip(*[b.ravel().tolist() for b in np.broadcast_arrays(*values)], strict=True)
        )


def _into(a: Argument, value: Any) -> Any:
    """A sample of an element's symbol, moved into its interval, but not onto round numbers."""
    lo, hi = a.interval.lo, a.interval.hi
    if a.lo is not None:
        return abs(value)
    if math.isfinite(hi) and math.isfinite(lo):
        unit = value / (1 + abs(value))  # in (-1, 1), in the same order
        return exact_rational(lo) + (unit + 1) / 2 * (exact_rational(hi) - exact_rational(lo))
    if math.isfinite(hi):
        return exact_rational(hi) - abs(value)
    return value


def _intervals(prim: Primitive, n: int) -> list[Interval]:
    given = prim.domain.intervals
    return [given[i] if i < len(given) else given[-1] for i in range(n)]


# ---------------------------------------------------------------------------------------------- sample points


def breakpoints(prim: Primitive, params: dict[str, Any], arity: int) -> list[Any]:
    """Points where an elementwise op may change: special points, kinks, ends, numbers in its mirror's conditions."""
    found = {exact_rational(float(p)) for p in (*prim.special, *prim.kinks) if not isinstance(p, str) and abs(p) <= FAR}
    found.add(sp.Integer(0))
    for interval in prim.domain.intervals:
        found |= {exact_rational(float(p)) for p in (interval.lo, interval.hi, *interval.holes) if math.isfinite(p)}
    if prim.name in SCALARS:
        expression = template(SCALARS[prim.name], arity, params).plain
        for relation in expression.atoms(sp.core.relational.Relational):
            found |= {n for n in relation.atoms(sp.Rational) if abs(n) <= FAR}
    return sorted(found)


def _between(cuts: list[Any], interval: Interval, index: int) -> Iterator[Any]:
    """Yield one point in each gap between the cuts and beyond them; each argument takes another share of the gap."""
    if interval.whole:
        yield from (sp.Integer(n) for n in (1, 2, 3) if n in interval)
        return
    share = (sp.Rational(4, 7), sp.Rational(3, 11), sp.Rational(9, 13))[index % 3]
    ends = [cuts[0] - 2, *cuts, cuts[-1] + 2]
    for lo, hi in itertools.pairwise(ends):
        value = lo + share * (hi - lo)
        if float(value) in interval:
            yield value


# ---------------------------------------------------------------------------------------------- settings of proofs


def _reached(orders: int = 3) -> dict[str, list[dict[str, Any]]]:
    """Parameters of elementwise primitives in the derivatives of primitives without parameters, up to an order."""
    front: list[tuple[str, dict[str, Any]]] = []
    front += [(p.name, {}) for p in REGISTRY.values() if p.kind == "elementwise" and not p.params]
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(orders):
        following = []
        for name, params in front:
            for asked, given in asked_by(REGISTRY[name], params):
                known = found.setdefault(asked, [])
                if given and given not in known:
                    known.append(given)
                    following.append((asked, given))
        front = following
    return found


def unseen(prim: Primitive, params: dict[str, Any], visited: list[tuple[Setting, list[dict[Any, Any]]]]) -> list[str]:
    """Sentences on branches of an elementwise mirror that hold on an open set, but that none of the points reaches.

    A branch at ties only, where both sides of a condition are equal, is a convention and does not count.

    Parameters
    ----------
    params : dict
    visited : list of (Setting, list of points)
        Settings with these parameters and scalar arguments; others are skipped.
    """
    visited = [(s, points) for s, points in visited if not any(a.shape for a in s.arguments)]
    if prim.name not in SCALARS or not visited:
        return []
    made = template(SCALARS[prim.name], len(prim.rules), params)
    missing = []
    for piecewise in made.plain.atoms(sp.Piecewise):
        taken = {_arm(piecewise, s, made.symbols, p) for s, points in visited for p in points}
        for k, (_, condition) in enumerate(piecewise.args):
            if k not in taken and _has_interior(piecewise, k):
                missing.append(f"no point that was tried reaches the branch {condition} in {piecewise} of the mirror")
    return missing


def _arm(piecewise: Any, setting: Setting, symbols: Any, point: dict[Any, Any]) -> int | None:
    put = {}
    for s, a in zip(symbols, setting.arguments, strict=True):
        put[s] = exact_rational(float(a.array)) if a.symbols is None else a.value(s, point[a.symbols.item()])
    for k, (_, condition) in enumerate(piecewise.args):
        if condition == sp.true or condition.subs(put) == sp.true:
            return k
    return None


def _has_interior(piecewise: Any, arm: int) -> bool:
    """True if an arm holds at a point of a fine grid off all ties, and so on an open set."""
    symbols = sorted(piecewise.free_symbols, key=str)
    relations = piecewise.atoms(sp.core.relational.Relational)
    numbers = sorted({sp.Integer(0), *(n for r in relations for n in r.atoms(sp.Rational))})
    values = [numbers[0] - 1, *[(a + b) / 2 for a, b in itertools.pairwise(numbers)], numbers[-1] + 1]
    for point in itertools.product(*[[v + sp.Rational(k + 1, 101) for v in values] for k in range(len(symbols))]):
        put = dict(zip(symbols, point, strict=True))
        if any((r.lhs - r.rhs).subs(put) == 0 for r in relations):
            continue
        if next((k for k, (_, c) in enumerate(piecewise.args) if c == sp.true or c.subs(put) == sp.true), None) == arm:
            return True
    return False


def parameters(prim: Primitive) -> list[dict[str, Any]]:
    """Static parameters of an elementwise primitive: from its samples, from rules that call it, or defaults."""
    if not prim.params:
        return [{}]
    if prim.samples:
        return [params for _, params in prim.samples]
    reached = _reached().get(prim.name)
    if reached:
        return reached
    given = inspect.signature(SCALARS[prim.name]).parameters
    defaults = defaults_of(prim) | {
        p: given[p].default for p in prim.params if p in given and given[p].default is not inspect.Parameter.empty
    }
    if len(defaults) < len(prim.params):
        raise ValueError(
            f"{prim.name} has parameters {prim.params} but no values to prove it with: "
            "declare samples=((shapes, params), ...)"
        )
    return [defaults, {name: v + 1 if type(v) is int else v for name, v in defaults.items()}]


def settings(prim: Primitive) -> Iterator[Setting]:
    """Yield all settings of the proof of a primitive.

    Yields
    ------
    Setting
    """
    if prim.kind != "elementwise":
        if not prim.samples:
            raise ValueError(f"{prim.name} has nothing to be proved on: declare samples=((shapes, params), ...)")
        for given, params in prim.samples:
            yield Setting(prim, given, params)
        return
    arity = len(prim.rules)
    conditions = [i for i in range(arity) if prim.rules[i] is None and prim.domain.intervals[i] is BOOLEAN]
    for k, params in enumerate(parameters(prim)):
        # All shapes for the first parameters, only scalars for the other parameters, because parameters do not affect
        # broadcasting.
        for shapes in _BROADCASTS[arity] if k == 0 else _BROADCASTS[arity][:1]:
            for flip in (False, True) if conditions else (False,):
                values: list[Any] = list(shapes)
                for i in conditions:
                    values[i] = np.arange(math.prod(shapes[i])).reshape(shapes[i]) % 2 == flip
                yield Setting(prim, tuple(values), params, None if not any(shapes) else 1)
        yield from _slices(prim, params)


def _slices(prim: Primitive, params: dict[str, Any]) -> Iterator[Setting]:
    """Yield settings with an integer constant for one argument, if the domain needs integers: x**n for x < 0."""
    where = prim.domain.where
    if where is None or len(prim.rules) != 2:
        return
    for j, n in itertools.product((0, 1), (-2, -1, 0, 1, 2, 3)):
        for other in (-1.375, 1.375):
            point, moved = [other, other], [other, other]
            point[j], moved[j] = n, n + 0.015625
            if tuple(point) in prim.domain and not where(*moved):
                values: list[Any] = [(), ()]
                values[j] = np.array(float(n))
                made = Setting(prim, tuple(values), params)
                made.arguments[1 - j].interval = Interval(hi=0.0) if other < 0 else Interval(lo=0.0)
                yield made

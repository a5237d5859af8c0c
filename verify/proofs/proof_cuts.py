"""Further points of a proof: one in each open cell that the conditions of the mirror and of the rules cut out.

The conditions become polynomials. For the scalar arguments of an elementwise op, an open cylindrical algebraic
decomposition (Strzebonski 2000) gives a point in every open set on which all polynomials keep their signs. For arrays,
which have too many cells, every condition is met on both sides. A condition that cannot be solved leaves the proof
open, with the reason.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import sympy as sp

from gtape.symbolic.scalars import exact_rational
from gtape.symbolic.worlds import SymPyWorld
from gtape.verify.proofs.proof_cells import Setting
from gtape.verify.proofs.proof_rational import nodes

__all__ = ["Conditions"]

# Resultants take time that grows fast with the number of polynomials and their degrees.
_MOST_POLYNOMIALS = 24
_HIGHEST_DEGREE = 8
_MOST_POINTS = 400
_MOST_ROOTS = 32
_MOST_LINES = 8
# The digits of constants such as log(2), of which only the order among other roots matters.
_DIGITS = 60
_SHARES = (sp.Rational(4, 7), sp.Rational(3, 11), sp.Rational(9, 13))
_CONSTANTS_FAIL = (ArithmeticError, NotImplementedError, TypeError, ValueError)


class Conditions:
    """The conditions that mirror and rules evaluated at the points of one setting.

    Attributes
    ----------
    missing : list of str
        Why the points do not reach all cells; empty if they do.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.missing: list[str] = []
        self._points: list[dict[Any, Any]] = []
        # For each difference that decides: the decision, and the signs that it had.
        self._met: dict[Any, tuple[Any, set[int]]] = {}
        self._rounded: set[Any] = set()

    def add(self, point: dict[Any, Any], world: SymPyWorld, *, off_ties: bool, mirrors: set[Any]) -> None:
        """Add the decisions at a point.

        Parameters
        ----------
        off_ties : bool
            Whether no decision is a tie, so that the point stands for an open cell.
        mirrors : set of sympy.Expr
            What the mirror rounds to whole numbers.
        """
        if off_ties:
            self._points.append(point)
        for d in world.decisions:
            difference = sp.sympify(d.left - d.right)
            if difference in world.whole_steps:
                continue
            turned = difference.could_extract_minus_sign()
            signs = self._met.setdefault(-difference if turned else difference, (d, set()))[1]
            if d.sign:
                signs.add(-d.sign if turned else d.sign)
        for inner in set(world.whole_steps.values()) - mirrors - self._rounded:
            # Each whole number is a cell, and a condition may follow for some of them.
            self._rounded.add(inner)
            self.missing.append(f"a rule rounds {inner} to whole numbers, which cuts the domain into cells without end")

    def points(self) -> Iterator[dict[Any, Any]]:
        """Yield points in cells without one. The caller adds the decisions at each before it takes the next."""
        if self.setting.prim.kind == "implicit":
            self._name_one_sided("has the same outcome at all points")
        elif self.setting.prim.kind == "elementwise" and not any(a.shape for a in self.setting.arguments):
            yield from self._of_all_cells()
        else:
            yield from self._of_other_sides()

    def _open(self) -> dict[Any, Any]:
        """The conditions that do not hold everywhere by the signs that SymPy knows."""
        return {
            e: d for e, (d, _) in self._met.items() if e.is_nonnegative is not True and e.is_nonpositive is not True
        }

    # -- all cells of scalars

    def _of_all_cells(self) -> Iterator[dict[Any, Any]]:
        symbols = self.setting.symbols
        solved: dict[Any, set[Any] | None] = {}
        tried: set[tuple[int, ...]] = set()
        while True:
            for e, d in self._open().items():
                if e not in solved:
                    solved[e] = _polynomials(e, symbols)
                    if solved[e] is None:
                        self.missing.append(f"the condition {d} cannot be solved for {_names(e)}")
            polynomials = set().union(*[p for p in solved.values() if p is not None])
            if not polynomials:
                return
            known = {_signs(polynomials, symbols, p) for p in self._points}
            levels = _projected(polynomials | self._ends(), symbols)
            if levels is None:
                self.missing.append(
                    f"{len(polynomials)} conditions are too many, or of too high a degree, to find all cells"
                )
                return
            for count, values in enumerate(_lifted(levels, symbols, self._between, ())):
                if count == _MOST_POINTS:
                    self.missing.append(f"the conditions cut the domain into more than {_MOST_POINTS} cells")
                    return
                point = dict(zip(symbols, values, strict=True))
                signs = _signs(polynomials, symbols, point)
                if signs in known or (len(polynomials), *signs) in tried or not self._allows(point):
                    continue
                tried.add((len(polynomials), *signs))
                before = len(self._met)
                yield point
                known.add(signs)
                if len(self._met) > before:
                    break
            else:
                return

    def _ends(self) -> set[Any]:
        """Polynomials with roots at the ends and holes of the intervals."""
        found = set()
        for a in self.setting.arguments:
            if a.symbols is not None:
                s, interval = a.symbols.item(), a.interval
                ends = [e for e in (interval.lo, interval.hi, *interval.holes) if math.isfinite(e)]
                found |= {sp.Poly(s - a.sample(s, exact_rational(float(e))), *self.setting.symbols) for e in ends}
        return found

    def _allows(self, point: dict[Any, Any]) -> bool:
        owners = [(a, s) for a in self.setting.arguments if a.symbols is not None for s in a.symbols.ravel()]
        inside = all(float(a.value(s, point[s])) in a.interval for a, s in owners)
        return inside and self.setting.allows(point)

    def _between(self, index: int, lo: Any, hi: Any) -> Any:
        """A number between two cuts (None for infinity); None if no number of the argument lies there."""
        symbol = self.setting.symbols[index]
        owner = next(a for a in self.setting.arguments if a.symbols is not None and symbol in a.symbols.ravel())
        if owner.interval.whole:
            value = sp.floor(lo) + 1 if lo is not None else sp.ceiling(hi) - 1 if hi is not None else sp.Integer(1)
            return value if hi is None or value < hi else None
        share = _SHARES[index % len(_SHARES)]
        if lo is None and hi is None:
            return share
        lo, hi = (hi - 2 if lo is None else lo), (lo + 2 if hi is None else hi)
        return lo + share * (hi - lo)

    # -- both sides of each condition of arrays

    def _of_other_sides(self) -> Iterator[dict[Any, Any]]:
        tried: set[Any] = set()
        while True:
            fresh = [e for e in self._open() if len(self._met[e][1]) < 2 and e not in tried]
            if not fresh:
                break
            tried.update(fresh)
            for e in fresh:
                for point in self._beyond(e):
                    yield point
                    if len(self._met[e][1]) == 2:
                        break
        self._name_one_sided("has the same outcome at all points that were tried")

    def _beyond(self, e: Any) -> Iterator[dict[Any, Any]]:
        """Points beyond the cuts by a condition, on lines through known points along the axes."""
        for point in self._points[:_MOST_LINES]:
            for s in sorted(e.free_symbols, key=str):
                line = e.xreplace({o: v for o, v in point.items() if o is not s})
                cuts = _polynomials(line, [s])
                if cuts is None or not cuts:
                    continue
                for value in _gaps(cuts, self.setting.symbols.index(s), self._between):
                    moved = {**point, s: value}
                    if line.xreplace({s: value}) * line.xreplace({s: point[s]}) < 0 and self._allows(moved):
                        yield moved

    def _name_one_sided(self, why: str) -> None:
        one_sided = [d for e, d in self._open().items() if len(self._met[e][1]) < 2]
        self.missing += [f"the condition {d} {why}" for d in one_sided]


def _names(e: Any) -> str:
    return ", ".join(sorted(map(str, e.free_symbols)))


def _signs(polynomials: set[Any], symbols: list[Any], point: dict[Any, Any]) -> tuple[int, ...]:
    """The signs of polynomials at a point, in a fixed order."""
    values = [point[s] for s in symbols]
    return tuple([int(sp.sign(p(*values))) for p in sorted(polynomials, key=str)])


# ---------------------------------------------------------------------------------------------- polynomials


def _polynomials(e: Any, symbols: list[Any]) -> set[Any] | None:
    """Irreducible polynomials whose zeros hold all changes of sign of an expression; None if it is not algebraic."""
    found = set()
    try:
        for part in _without_roots(_with_rational_constants(e)):
            made = _factors(part, symbols)
            if made is None:
                return None
            found |= made
    except (sp.PolynomialError, sp.polys.polyerrors.CoercionFailed, *_CONSTANTS_FAIL):
        return None
    return found


def _factors(e: Any, symbols: list[Any]) -> set[Any] | None:
    """The irreducible factors of a polynomial over the rationals; None for zero."""
    p = sp.Poly(e, *symbols, domain=sp.QQ)
    if p.is_zero:
        return None
    return {f.monic() for f, _ in p.factor_list()[1]}


def _with_rational_constants(e: Any) -> Any:
    """The expression with a close rational number for each constant such as log(2)."""
    if not e.free_symbols:
        return e if e.is_Rational else sp.Rational(str(sp.N(e, _DIGITS)))
    return e.func(*map(_with_rational_constants, e.args)) if e.args else e


def _without_roots(e: Any) -> list[Any]:
    """Expressions without roots, absolute values and signs, whose zeros hold all changes of sign of an expression."""
    pending: list[Any] = [e]
    found: list[Any] = []
    for _ in range(_MOST_ROOTS):
        if not pending:
            return found
        for part in sp.fraction(sp.together(pending.pop())):
            root = next((n for n in sorted(nodes(part), key=sp.count_ops) if _is_root(n)), None)
            if root is None:
                found.append(part)
                continue
            inner = root.args[0]
            if isinstance(root, sp.sign):
                pending += [inner, *[part.xreplace({root: sp.Integer(k)}) for k in (1, -1)]]
                continue
            t = sp.Dummy()
            relation = t**2 - inner**2 if isinstance(root, sp.Abs) else t**root.exp.q - inner**root.exp.p
            pending.append(sp.resultant(part.xreplace({root: t}), relation, t))
    raise ValueError(f"{e} has too many roots")


def _is_root(e: Any) -> bool:
    if isinstance(e, (sp.Abs, sp.sign)):
        return True
    return bool(isinstance(e, sp.Pow) and e.exp.is_Rational and not e.exp.is_Integer)


# ---------------------------------------------------------------------------------------------- decomposition


def _projected(polynomials: set[Any], symbols: list[Any]) -> list[set[Any]] | None:
    """For each symbol, the polynomials in it and in the symbols before; None if they become too many."""
    levels = [polynomials]
    for k in range(len(symbols) - 1, 0, -1):
        above, last, rest = levels[0], symbols[k], symbols[:k]
        if len(above) > _MOST_POLYNOMIALS or any(p.total_degree() > _HIGHEST_DEGREE for p in above):
            return None
        ordered = sorted(above, key=str)
        here = [p.as_expr() for p in ordered if p.degree(last)]
        below = [p.as_expr() for p in ordered if not p.degree(last)]
        # McCallum's projection without the lower coefficients, which open cells do not need.
        below += [sp.Poly(p, last).LC() for p in here]
        below += [sp.discriminant(p, last) for p in here if sp.degree(p, last) > 1]
        below += [sp.resultant(p, q, last) for p, q in itertools.combinations(here, 2)]
        levels.insert(0, set().union(*[_factors(p, rest) or set() for p in below]))
    return levels


def _lifted(levels: list[set[Any]], symbols: list[Any], between: Any, values: tuple[Any, ...]) -> Iterator[Any]:
    """Yield a point in each open cell, symbol by symbol."""
    k = len(values)
    if k == len(symbols):
        yield values
        return
    put = dict(zip(symbols, values, strict=False))
    here = {sp.Poly(p.as_expr().xreplace(put), symbols[k], domain=sp.QQ) for p in levels[k]}
    for value in _gaps(here, k, between):
        yield from _lifted(levels, symbols, between, (*values, value))


def _gaps(polynomials: set[Any], index: int, between: Any) -> Iterator[Any]:
    """Yield a number between each pair of neighbouring roots of polynomials of one symbol, and beyond all roots."""
    product = math.prod([p for p in sorted(polynomials, key=str) if p.degree() > 0])
    roots = [] if isinstance(product, int) else _isolated(product.sqf_part())
    ends = [(None, None), *roots, (None, None)]
    for (_, lo), (hi, _) in itertools.pairwise(ends):
        value = between(index, lo, hi)
        if value is not None:
            yield value


def _isolated(p: Any) -> list[tuple[Any, Any]]:
    """Intervals around the real roots of a polynomial without multiple roots, with space between them."""
    found, eps = p.intervals(sqf=True), sp.Rational(1, 8)
    while any(a[1] >= b[0] for a, b in itertools.pairwise(found)):
        found, eps = p.intervals(eps=eps, sqf=True), eps / 64
    return [(sp.Rational(a), sp.Rational(b)) for a, b in found]

"""Runs rules on one cell: the mirror's output, the rules' results, and the expected results.

A cell is an open set on which all branches are decided; a sample point identifies it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from gtape.base.layout import make_layout
from gtape.engine.rules import RuleStep, cotangents
from gtape.symbolic.mirrors.registry import OUTPUT_SHAPES, PARAMETRISED
from gtape.symbolic.worlds import SymPyWorld
from gtape.tapes.control import stop_gradient
from gtape.tapes.forward import jvp_of
from gtape.verify.proofs.proof_cells import Argument, Setting, boxed, symbols
from gtape.verify.proofs.proof_cuts import Conditions
from gtape.verify.proofs.proof_rational import nodes

__all__ = ["FAULTS", "Cell", "Identity", "RuleResult", "cells", "pull", "pulled", "push", "pushed", "rule_results"]

# Errors that a wrong rule may raise, which the proof reports instead of ending.
FAULTS = (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError, NotImplementedError)
MOST_SIGNS = 6


class Cell:
    """A setting at one sample point.

    Attributes
    ----------
    world : SymPyWorld
        The world with the decisions taken.
    points : list of dict
        The sample points in the cell.
    xs : list of object arrays
        The inputs.
    outputs : list of object arrays
        The outputs of the mirror.
    several : bool
        True if the op has several outputs.
    variables : list of sympy.Symbol
        The independent variables: the elements of the inputs, or of the output for a factorisation.
    """

    complex = False
    out_dtype: Any = np.dtype(np.float64)
    several: bool
    outputs: list[Any]
    points: list[dict[Any, Any]]

    def __init__(self, setting: Setting, point: dict[Any, Any]) -> None:
        self.setting, self.prim, self.params = setting, setting.prim, setting.params
        self.shapes, self.layouts = setting.shapes, tuple([a.layout for a in setting.arguments])
        self.world = SymPyWorld(samples=point)
        self.points = [point]
        self.xs: list[Any] = [a.array for a in setting.arguments]
        self.variables = setting.symbols
        if self.prim.name in OUTPUT_SHAPES and self.prim.kind == "implicit":
            shapes = OUTPUT_SHAPES[self.prim.name](*setting.shapes, **self.params)
            self.several = isinstance(shapes[0], tuple) if shapes else False
            self._parametrise(list(shapes) if self.several else [shapes])
            return
        self.run()
        if self.prim.kind == "implicit":
            self._parametrise([o.shape for o in self.outputs])

    def run(self) -> None:
        """Run the mirror on the inputs."""
        made = getattr(self.world, self.prim.name)(*self.xs, **self.params)
        self.several = isinstance(made, (tuple, list))
        self.outputs = list(map(boxed, made)) if self.several else [boxed(made)]

    def _parametrise(self, shapes: list[tuple[int, ...]]) -> None:
        """Choose the output freely, and express one input by it."""
        index, solve = PARAMETRISED[self.prim.name]
        interval = self.setting.arguments[index].interval
        generic = [Argument(11 - k, shape, interval) for k, shape in enumerate(shapes)]
        symbols = [s for a in generic for s in a.symbols.ravel()]
        self.world.samples.update({s: sp.Rational(7 + 3 * i, 5 + i) for i, s in enumerate(symbols)})
        self.world.decisions.clear()
        arrays = tuple(a.array for a in generic)
        made, solved = solve(self.world, arrays if self.several else arrays[0], *self.xs, **self.params)
        self.outputs = list(map(_expressions, made)) if self.several else [_expressions(made)]
        self.xs[index] = _expressions(solved)
        used = set().union(*[e.free_symbols for x in (*self.xs, *self.outputs) for e in x.ravel() if e != 0])
        self.variables = [s for s in (*symbols, *self.setting.symbols) if s in used]
        self.points = [{s: self.world.samples[s] for s in self.variables}]

    def key(self) -> tuple[str, ...] | None:
        """The decisions taken; None if one was a tie."""
        if any(d.sign == 0 for d in self.world.decisions):
            return None
        return tuple(sorted(map(str, self.world.decisions)))

    def holds(self, point: Mapping[Any, Any]) -> bool:
        """True if a point lies in the domain, with the same outcome of all decisions."""
        for d in self.world.decisions:
            difference = sp.N(sp.sympify(d.left - d.right).xreplace(point), 30)
            if not (difference.is_real and difference != 0 and int(sp.sign(difference)) == d.sign):
                return False
        return self.prim.kind == "implicit" or self.setting.allows(point)

    def residual(self, got: Any, expected: Any) -> Any:
        """The difference that is zero if the rule is right."""
        return got - expected

    def nearby(self) -> Iterator[dict[Any, Any]]:
        """Points of the cell: up to three sample points, and one point near the first."""
        yield from self.points[:3]
        moved = {s: v * (1 + sp.Rational(k + 1, 1009 + 2 * k)) for k, (s, v) in enumerate(self.points[0].items())}
        if self.holds(moved):
            yield moved

    def by_signs(self, e: Any) -> list[Any]:
        """An expression with p or -p, p positive, for its real symbols: once for each pattern of signs in the cell."""
        real = [s for s in e.free_symbols if s in self.points[0] and not s.is_positive]
        if not 0 < len(real) <= MOST_SIGNS:
            return []
        pieces = []
        for signs in itertools.product((1, -1), repeat=len(real)):
            # A pattern counts if some point of the cell stays in the cell with these signs.
            turned = ({**p, **{s: abs(p[s]) * sign for s, sign in zip(real, signs, strict=True)}} for p in self.points)
            if any(map(self.holds, turned)):
                put = {s: sp.Symbol(f"{s}p", positive=True) * sign for s, sign in zip(real, signs, strict=True)}
                pieces.append(e.xreplace(put))
        return pieces


class Identity(NamedTuple):
    """The result of a rule and the expected one.

    Attributes
    ----------
    direction : {"vjp", "jvp"}
    arguments : tuple of int
        The arguments whose rules take part.
    got, expected : list of object arrays
        `got` may hold the exception that the rule raised.
    seeds : list of object arrays
        The cotangents of all outputs, or the tangents of `arguments`.
    linear : list of sympy.Symbol
        The symbols in the seeds, in which a correct rule is linear.
    fault : str
        What is wrong if the identity does not hold; by default that the results differ.
    """

    direction: str
    arguments: tuple[int, ...]
    got: list[Any]
    expected: list[Any]
    seeds: list[Any]
    linear: list[Any]
    fault: str = ""


class RuleResult(NamedTuple):
    """An identity whose expected result is computed on demand, because not every cell needs the result."""

    direction: str
    arguments: tuple[int, ...]
    got: list[Any]
    expected: Callable[[], list[Any]]
    seeds: list[Any]
    linear: list[Any]
    fault: str = ""

    def identity(self) -> Identity:
        """The identity, with the expected result."""
        return Identity(self.direction, self.arguments, self.got, self.expected(), self.seeds, self.linear, self.fault)


class _Stopped:
    """`stop_gradient` in rules: adds a symbol to each value, by which the rule's result must have the derivative 0.

    Otherwise the derivative of the result, and with it the second derivative of the op, is wrong.
    """

    _name = stop_gradient.__name__  # the world looks for its own attributes before mirrors
    fault = f"the result depends on a value under {_name}, so that its own derivative is wrong"

    def __init__(self, cell: Cell) -> None:
        self._world = cell.world
        self._symbols: list[Any] = []

    def __call__(self, x: Any) -> np.ndarray:
        x = self._world.objects(x)
        moves = symbols(f"stopped{len(self._symbols)}", x.shape, real=True)
        self._symbols += moves.ravel().tolist()
        self._world.samples.update(dict.fromkeys(moves.ravel().tolist(), sp.Integer(0)))
        return np.asarray(x + moves, dtype=object)

    def __enter__(self) -> _Stopped:
        vars(self._world)[self._name] = self
        return self

    def __exit__(self, *exc: object) -> None:
        del vars(self._world)[self._name]
        still = dict.fromkeys(self._symbols, sp.Integer(0))
        for d in self._world.decisions if still else ():
            d.left, d.right = d.left.xreplace(still), d.right.xreplace(still)

    def divided(self, result: RuleResult) -> list[RuleResult]:
        """A result without the symbols, and its derivatives by them, which must be 0."""
        if not self._symbols or any(m is None or isinstance(m, Exception) for m in result.got):
            return [result]
        still = dict.fromkeys(self._symbols, sp.Integer(0))
        made = [boxed(m) for m in result.got]
        slopes = [_put(_slope(m, s), still) for m in made for s in self._symbols]
        zeros = [np.full(m.shape, sp.Integer(0), dtype=object) for m in slopes]
        own = result._replace(got=[_put(m, still) for m in made])
        return [own, result._replace(got=slopes, expected=lambda: zeros, fault=self.fault)]


def _expressions(x: Any) -> np.ndarray:
    """An array of SymPy expressions, also for integers, because Python would divide its own integers as floats."""
    return boxed(np.frompyfunc(lambda e: sp.sympify(e, strict=True), 1, 1)(boxed(x)))


def cells(setting: Setting) -> Iterator[tuple[Cell, list[Identity]]]:
    """The distinct cells of a setting, with the identities to prove there; sets `Setting.missing`.

    Raises
    ------
    ValueError
        If no point reaches a cell.
    """
    found: dict[tuple[str, ...], tuple[Cell, list[RuleResult]]] = {}
    conditions = Conditions(setting)

    def visit(point: dict[Any, Any]) -> Cell:
        cell = Cell(setting, point)
        mirrors = set(cell.world.whole_steps.values())
        made = rule_results(cell)  # rules decide branches too
        key = cell.key()
        conditions.add(point, cell.world, off_ties=key is not None, mirrors=mirrors)
        if key in found:
            found[key][0].points.append(point)
        elif key is not None:
            found[key] = (cell, made)
        return cell

    points = setting.points()
    for point in points:
        cell = visit(point)
        if setting.cells is not None and len(found) >= setting.cells:
            break
        if found and not cell.world.decisions:  # all other points lie in this cell
            if setting.prim.kind != "implicit" and not any(a.shape for a in setting.arguments):
                cell.points.extend(points)
            break
    else:
        for point in conditions.points():
            visit(point)
        setting.missing = conditions.missing
    if not found:
        raise ValueError(
            f"no sample point of {setting.prim.name} at {setting.shapes} lies in its domain and off its kinks"
        )
    for cell, made in found.values():
        # Only for new cells, because most points reach a known cell, and derivatives take longer than rules.
        yield cell, [r.identity() for r in made]


# ---------------------------------------------------------------------------------------------- rules


def rule_results(cell: Cell) -> list[RuleResult]:
    """Run all rules on a cell, in both directions."""
    setting = cell.setting
    active = [i for i, a in enumerate(setting.arguments) if a.symbols is not None and cell.prim.connected(i)]
    names = [f"g{k}" if cell.several else "g" for k in range(len(cell.outputs))]
    gs = [symbols(name, o.shape, real=True) for name, o in zip(names, cell.outputs, strict=True)]
    linear = [s for g in gs for s in g.ravel()]
    if cell.prim.kind == "implicit":
        return _implicit(cell, tuple(active), gs, linear)
    found = []
    for i in active:
        xs = setting.arguments[i].symbols
        t = symbols("t", xs.shape, real=True)

        def back(xs: Any = xs) -> list[Any]:
            return [pulled(cell.outputs, gs, xs)]

        def forward(xs: Any = xs, t: Any = t) -> list[Any]:
            return [pushed(o, xs, t) for o in cell.outputs]

        with _Stopped(cell) as stopped:
            found += stopped.divided(RuleResult("vjp", (i,), [pull(cell, i, gs)], back, gs, linear))
        with _Stopped(cell) as stopped:
            found += stopped.divided(RuleResult("jvp", (i,), push(cell, {i: t}), forward, [t], list(t.ravel())))
    return found


def _implicit(cell: Cell, active: tuple[int, ...], gs: list[Any], linear: list[Any]) -> list[RuleResult]:
    """Identities for A = G(L): <rule(g), dA> == <g, dL> along every variable, and the jvp rules push dA to dL."""
    made = {i: pull(cell, i, gs) for i in active}
    wrong = [m for i, m in made.items() if isinstance(m, Exception) or np.shape(m) != cell.xs[i].shape]
    if wrong:
        return [RuleResult("vjp", active, wrong[:1], lambda: [cell.xs[active[0]]], gs, linear)]
    left, right = [], []
    for s in cell.variables:
        left.append(boxed(sum((boxed(made[i]) * _slope(cell.xs[i], s)).sum() for i in active)))
        right.append(boxed(sum((g * _slope(o, s)).sum() for g, o in zip(gs, cell.outputs, strict=True))))
    found = [RuleResult("vjp", active, left, lambda: right, gs, linear)]
    for s in cell.variables:
        tangents = {i: _slope(cell.xs[i], s) for i in active}

        def forward(s: Any = s) -> list[Any]:
            return [_slope(o, s) for o in cell.outputs]

        found.append(RuleResult("jvp", active, push(cell, tangents), forward, list(tangents.values()), []))
    return found


def pull(cell: Cell, i: int, gs: list[Any]) -> Any:
    """The cotangent of one argument by its vjp rule, or the exception of the rule."""
    prim = cell.prim
    layouts = cell.layouts
    out_layouts = tuple(make_layout(cell.out_dtype, o.shape) for o in cell.outputs)
    # Arguments that a rule does not read are stand-ins with shape and dtype, as on the tape.
    reads = prim.reads[i]
    xs = tuple(x if j in reads or prim.variadic else layouts[j] for j, x in enumerate(cell.xs))
    y: Any = (tuple(cell.outputs) if cell.several else cell.outputs[0]) if "y" in reads else None
    step = RuleStep(prim, (i,), cell.params, layouts, out_layouts if cell.several else out_layouts[0])
    g = tuple(gs) if cell.several else gs[0]
    shape = () if cell.several else cell.outputs[0].shape
    try:
        return cotangents(cell.world, step, g, y, xs, layouts=layouts, out_shape=shape)[0]
    except FAULTS as e:
        return e


def push(cell: Cell, tangents: dict[int, Any]) -> list[Any]:
    """The tangents of all outputs by the jvp rules, or their exception."""
    y = tuple(cell.outputs) if cell.several else cell.outputs[0]
    shape = () if cell.several else cell.outputs[0].shape
    given = [tangents.get(i) for i in range(len(cell.xs))]
    try:
        made = jvp_of(cell.world, cell.prim, given, y, tuple(cell.xs), cell.params, shape)
    except FAULTS as e:
        return [e]
    return list(made) if isinstance(made, (tuple, list)) else [made]


# ------------------------------------------------------------------------------------------ derivatives of the mirror


def _diff(e: Any, s: Any) -> Any:
    if not isinstance(e, sp.Basic) or s not in nodes(e):
        return sp.Integer(0)
    return sp.diff(e, s)


def _slope(x: np.ndarray, s: Any) -> np.ndarray:
    """The derivative of every element by one symbol."""
    return boxed(np.frompyfunc(lambda e: _diff(e, s), 1, 1)(x))


def _put(x: np.ndarray, values: Mapping[Any, Any]) -> np.ndarray:
    """An array of expressions with values in place of symbols."""
    return boxed(np.frompyfunc(lambda e: e.xreplace(values) if isinstance(e, sp.Basic) else e, 1, 1)(x))


def pulled(outputs: list[Any], seeds: list[Any], xs: Any) -> np.ndarray:
    """The sum over all outputs of a cotangent symbol times the derivative, for every input element."""
    pairs = [(e, g) for o, s in zip(outputs, seeds, strict=True) for e, g in zip(o.ravel(), s.ravel(), strict=True)]
    return boxed(np.frompyfunc(lambda x: sp.Add(*[g * _diff(e, x) for e, g in pairs]), 1, 1)(xs))


def pushed(output: np.ndarray, xs: Any, tangents: Any) -> np.ndarray:
    """The derivative of every output element along the tangent symbols."""
    pairs = list(zip(xs.ravel(), tangents.ravel(), strict=True))
    return boxed(np.frompyfunc(lambda e: sp.Add(*[t * _diff(e, x) for x, t in pairs]), 1, 1)(output))

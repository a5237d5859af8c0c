"""Finds known formulas in a program that another formula computes with more right digits at the checked point."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from gtape.base.deadline import OutOfTime
from gtape.base.verification import verifying
from gtape.declare.primitives import REGISTRY
from gtape.engine.worlds import TAPE
from gtape.symbolic.balls import Undecided, objects, precision, to_float
from gtape.symbolic.program import Node, Program
from gtape.tapes.forward import ForwardAccumulator
from gtape.tapes.tape import GradientTape
from gtape.tensors.tensor import Tensor, wrap
from gtape.verify.oracles.enclosures import is_complex, is_floating, jet_world
from gtape.verify.verdicts.ulp import same_numbers
from gtape.verify.verdicts.verdict import Finding

__all__ = ["Rewrites"]

_MOST = 400  # nodes of a program in which formulas are tried
_LARGEST = 4096  # numbers of such a program
_HELP = 4.0  # a formula helps if it makes an error smaller than this share
_ROUNDINGS = 16.0  # ULP: errors below this are no reason for another formula
_BITS = (200, 1000, 5000)
_ORDERS = 2
_SHARP = 60  # right bits
_NOTHING = arb(2) ** -1100  # less than the smallest float


class _Formula(NamedTuple):
    """A known formula at a place of a program."""

    root: int
    places: set[int]
    letters: dict[str, Node]
    text: str
    better: Callable[..., Any] | None


class Rewrites:
    """The known formulas of a program, found when they are needed.

    Parameters
    ----------
    program : Program
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._found: list[_Formula] | None = None
        self._exact: dict[Any, list[Any] | None] = {}

    def best(self, finding: Finding) -> str | None:
        """The text of the formula that helps a finding most; None if no formula helps."""
        if self._found is None:
            self._found = _found(self._program)
        blamed = {n.index for n in self._program.nodes if n.name == finding.op and n.line == finding.line}
        untried = None
        for formula in self._found:
            own = finding.op is None or formula.places & blamed
            behind = [i for i in blamed if formula.root in self._program.ancestors([i])]
            if not own and not behind:
                continue
            try:
                helps = self._helps(formula, finding, formula.root if own else max(behind))
            except OutOfTime:  # the finding stands without advice
                return None
            except Exception:  # the formula of a declaration may raise anything
                helps = None
            if helps:
                return formula.text
            if helps is None and own and untried is None:
                untried = formula.text
        return untried

    def _helps(self, formula: _Formula, finding: Finding, at: int) -> bool | None:
        """Whether a formula makes the value or a derivative of a node more exact; None if this cannot be tried."""
        if formula.better is None or len(self._program) > _MOST or self._program.size > _LARGEST:
            return None
        order = min(max(finding.order, 1), _ORDERS)
        element = finding.element if finding.element is not None and isinstance(finding.element[0], int) else None
        old, new = (self._in_floats(at, order, element, f) for f in (None, formula))
        if [np.shape(x) for x in old] != [np.shape(x) for x in new]:
            return None
        exact = self._exactly(at, order, element)
        if exact is None:  # no derivative, for which the better formula may have a number
            exact = self._exactly(at, 0, element)
            if exact is None:
                return False
            if not self._has_gradient(at, None) and self._has_gradient(at, formula):
                return bool((_errors(new[0], exact[0], new[0].dtype) < _ROUNDINGS).all())
            old, new = old[:1], new[:1]
        dtype = np.asarray(self._program.nodes[at].output).dtype
        before, after = (
            np.concatenate([_errors(x, e, dtype).ravel() for x, e in zip(made, exact, strict=True)])
            for made in (old, new)
        )
        half = float(np.finfo(dtype).eps) ** -0.5  # ULP: half of the digits are right
        better = (before > _ROUNDINGS) & (after * _HELP < before) & (after < half)
        worse = (after > _ROUNDINGS) & (before * _HELP < after)
        return bool(better.any() and not worse.any())

    def _ways(self, element: Any) -> dict[int, Any]:
        """The direction of the derivatives: for each node of a source its part."""
        ways = {}
        for s, nodes in enumerate(self._program.sources):
            for i in nodes:
                x = np.asarray(self._program.nodes[i].output)
                if not is_floating(x):
                    continue
                way = np.zeros(x.shape) if element is not None else 1.0 / (2 + np.arange(x.size).reshape(x.shape) % 7)
                if element is not None and element[0] == s:
                    way[element[1]] = 1.0
                ways[i] = way
        return ways

    def _in_floats(self, at: int, order: int, element: Any, formula: _Formula | None) -> list[Any]:
        """The value of a node and its derivatives along the direction, perhaps with a formula in its place."""
        program = self._program
        needed = program.ancestors([at])
        ways = {i: w for i, w in self._ways(element).items() if i in needed}
        sources = self._sources(ways)
        tangents = [wrap(w.astype(np.asarray(program.nodes[i].output).dtype)) for i, w in ways.items()]

        def values(k: int) -> list[Tensor]:
            if k:
                with verifying(False), ForwardAccumulator([*sources.values()], tangents) as accumulator:
                    made = values(k - 1)
                slope = accumulator.jvp(made[-1])
                return [*made, wrap(np.zeros_like(made[-1].numpy())) if slope is None else slope]
            return [self._run(at, sources, formula)]

        with np.errstate(all="ignore"):
            return [x.numpy() for x in values(order)]

    def _has_gradient(self, at: int, formula: _Formula | None) -> bool:
        """Whether the gradient of a node is finite on a tape, where zeros absorb fewer infinities."""
        needed = self._program.ancestors([at])
        sources = self._sources([i for i in self._ways(None) if i in needed])
        with np.errstate(all="ignore"), GradientTape(verify=False) as tape:
            tape.watch([*sources.values()])
            made = self._run(at, sources, formula)
        with np.errstate(all="ignore"):
            found = tape.gradient(made, [*sources.values()])
        return all(g is None or bool(np.isfinite(g.numpy()).all()) for g in found)

    def _sources(self, nodes: Iterable[int]) -> dict[int, Tensor]:
        return {i: wrap(self._program.nodes[i].output) for i in nodes}

    def _run(self, at: int, sources: dict[int, Tensor], formula: _Formula | None) -> Any:
        """Run the program up to a node, perhaps with a formula in its place."""
        program, env = self._program, dict[int, Any](sources)
        for i in program.ancestors([at]):
            node = program.nodes[i]
            if i in env:
                continue
            if node.kind in ("leaf", "const"):
                env[i] = wrap(node.output)
            elif formula is not None and i == formula.root and formula.better is not None:
                letters = [env[n.index] for _, n in sorted(formula.letters.items())]
                params: dict[str, Any] = {}
                for j in sorted(formula.places):
                    params |= program.nodes[j].params
                env[i] = formula.better(TAPE, *letters, **params)
            else:
                env[i] = program.step(TAPE, node, env)
        return env[at]

    def _exactly(self, at: int, order: int, element: Any) -> list[Any] | None:
        """The exact value and derivatives of a node, rounded once; None where they are not defined or not known."""
        key = at, order, str(element)
        if key not in self._exact:
            self._exact[key] = None
            for bits in _BITS:
                try:
                    with precision(bits):
                        made = self._in_jets(at, order, element)
                except (Undecided, ArithmeticError, NotImplementedError):
                    continue
                if all(_is_sharp(e) for e in made):
                    self._exact[key] = [to_float(e) for e in made]
                    break
        return self._exact[key]

    def _in_jets(self, at: int, order: int, element: Any) -> list[Any]:
        directions = max(order, 1)
        world = jet_world(directions)
        needed = set(self._program.ancestors([at]))
        given = {}
        for i, way in self._ways(element).items():
            if i in needed:
                x = world.lift(self._program.nodes[i].output)
                given[i] = world.jet(x, *[objects(world.lift(way))] * directions)
        made = self._program.evaluate(world, given, sorted(needed))[at]
        shape = np.shape(self._program.nodes[at].output)
        # A jet in equal directions: its component along the first k of them is the derivative of order k.
        return [np.broadcast_to(objects(world.component(made, (1 << k) - 1)), shape) for k in range(order + 1)]


def _is_sharp(exact: Any) -> bool:
    """Whether enclosures are finite, and far narrower than the spacing of floats."""
    found = [arb(e) for e in exact.ravel().tolist()]
    return all(e.is_finite() and (e.rel_accuracy_bits() > _SHARP or e.rad() < _NOTHING) for e in found)


def _errors(made: Any, exact: Any, dtype: Any) -> Any:
    """The errors of floats in units in the last place; infinite for a number that should be another or is missing."""
    limits = np.finfo(dtype)
    with np.errstate(all="ignore"):
        made, exact = np.asarray(made, dtype=np.float64), np.asarray(exact, dtype=np.float64)
        rounded = exact.astype(dtype).astype(np.float64)
        unit = np.maximum(np.abs(exact) * float(limits.eps), float(limits.smallest_subnormal))
        error = np.abs(made - exact) / unit
        return np.where((made == rounded) | (made == exact), 0.0, np.where(np.isnan(error), np.inf, error))


def _found(program: Program) -> list[_Formula]:
    """The known formulas in a program, the longest first."""
    # A replacement is stated by an op of its formula, so the modules that are not imported state none for the program.
    stated = [rewrite for prim in REGISTRY.loaded() for rewrite in prim.rewrites]
    found = []
    for pattern, text, *better in sorted(stated, key=lambda rewrite: (-len(repr(rewrite[0])), repr(rewrite[:2]))):
        for node in program.nodes:
            places: set[int] = set()
            letters: dict[str, Node] = {}
            # The formulas are those of real numbers: sqrt(z**2) is z or -z, and abs(z) only if z is real.
            matched = node.name == pattern[0] and _matches(program, node, pattern, letters, places)
            if matched and not any(is_complex(n.output) for n in (node, *letters.values())):
                found.append(_Formula(node.index, places, letters, text, better[0] if better else None))
    return found


def _matches(program: Program, node: Node, pattern: Any, bound: dict[str, Node], places: set[int]) -> bool:
    if isinstance(pattern, int):
        value = node.output
        return node.kind in ("const", "leaf") and not isinstance(value, tuple) and bool(np.all(value == pattern))
    if isinstance(pattern, str):
        if pattern in bound:
            return _same(program, bound[pattern], node)
        bound[pattern] = node
        return True
    others = [_filled(other, pattern[1]) for other in REGISTRY[pattern[0]].spelled]
    return any(_matches_op(program, node, p, bound, places) for p in (pattern, *others))


def _filled(pattern: Any, x: Any) -> Any:
    """A pattern of X with another pattern in place of X."""
    if isinstance(pattern, tuple):
        return (pattern[0], *[_filled(p, x) for p in pattern[1:]])
    return x if pattern == "X" else pattern


def _matches_op(program: Program, node: Node, pattern: Any, bound: dict[str, Node], places: set[int]) -> bool:
    while (
        node.kind == "op"
        and node.name != pattern[0]
        and node.prim.kind == "linear"
        and node.prim.rounding.kind == "exact"
    ):
        node = program.nodes[node.inputs[0]]  # an op that only moves numbers
    if node.kind != "op" or node.name != pattern[0]:
        return False
    orders = [pattern[1:], pattern[:0:-1]] if "commutative" in node.prim.roles else [pattern[1:]]
    inputs = [program.nodes[j] for j in node.inputs[: len(pattern) - 1]]
    for order in orders:
        tried, seen = dict(bound), set(places)
        if all(_matches(program, n, p, tried, seen) for n, p in zip(inputs, order, strict=True)):
            bound.update(tried)
            places |= seen | {node.index}
            return True
    return False


def _same(program: Program, a: Node, b: Node) -> bool:
    """True if two nodes are the same, the same constant, or the same op on the same inputs."""
    if a.index == b.index:
        return True
    if a.kind == b.kind == "const":
        x, y = np.asarray(a.output), np.asarray(b.output)
        return x.dtype == y.dtype and same_numbers(x, y)
    if a.kind != "op" or b.kind != "op" or a.name != b.name or repr(a.params) != repr(b.params):
        return False
    pairs = zip(a.inputs, b.inputs, strict=True)
    return all(_same(program, program.nodes[i], program.nodes[j]) for i, j in pairs)

"""Finds the ops of users whose rules lose digits by themselves, and the gradient without these losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.engine.rules import PartialOutputs
from gtape.engine.worlds import COMPLEX
from gtape.symbolic.balls import objects, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.excess import rounded
from gtape.verify.bounds.local import Floats, finite
from gtape.verify.oracles.backward import by_rule, gradient
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.verdicts.ulp import widest

__all__ = ["gradient_without_losses", "losing_rules_of_ops"]

_FEW_ROUNDINGS = 4.0  # of a rule that loses no digits
_FEW_OPS = 8  # ops whose rules are tried, each with two sweeps


def losing_rules_of_ops(program: Program, seeds: list[Any]) -> list[list[Node]]:
    """The calls of ops of users whose rules lose digits at their recorded inputs, by op and line.

    The inputs count as exact, so that a loss is that of the rule, such as ``1 - y * y`` for the hyperbolic tangent at
    20. gtape's own rules have no such losses, because the census searches them.

    Parameters
    ----------
    program : Program
    seeds : list of arrays or None
        Cotangent of each output.
    """
    declared = [n for n in program.nodes if n.kind == "op" and n.active and n.prim.place.outside]
    if not declared:
        return []
    floats = Floats(program)
    with np.errstate(all="ignore"):
        gradient(program, seeds, floats)
    found: dict[Any, list[Node]] = {}
    for node in declared:
        if not _takes_its_output(node) and _loses(floats, node):
            found.setdefault((node.name, node.line), []).append(node)
    return list(found.values())[:_FEW_OPS]


def _takes_its_output(node: Node) -> bool:
    """Whether the rule reads the recorded output as exact, as that of a factorisation does."""
    return node.prim.kind == "implicit" or bool(node.prim.rounding.eliminates)


def _loses(floats: Floats, node: Node) -> bool:
    """Whether the rule of an op loses more than a few roundings at its recorded inputs."""
    y = floats.values[node.index]
    if not is_floating(node.output):
        return False
    g, made = floats.kept.get(node.index, (None, None))
    if node.prim.kind == "elementwise" or made is None:  # an inner gradient alone may have used the rule
        g = PartialOutputs(dict(enumerate(map(np.ones_like, y)))) if isinstance(y, tuple) else np.ones_like(y)
        made = floats.rule(node, g)
    try:
        exact = _exactly(floats, node, g)
    except ArithmeticError:
        return False
    room = _FEW_ROUNDINGS * (max(1.0, node.prim.ulps) if node.prim.kind == "elementwise" else 1.0)
    return any(
        _far(c, e, room, by_element=node.prim.kind == "elementwise")
        for c, e in zip(made, exact, strict=True)
        if c is not None and e is not None and not isinstance(c, PartialOutputs)
    )


def _far(c: Any, exact: Any, room: float, *, by_element: bool) -> bool:
    """Whether floats are more than some roundings off, each of its own size, or all of the size of the largest."""
    c = np.asarray(c)
    if c.dtype.kind not in "fc" or np.shape(exact) != c.shape or not c.size:
        return False
    high = to_float(objects(exact))
    with np.errstate(all="ignore"):
        size = np.abs(high) if by_element else np.max(np.abs(high))
        return bool(
            (np.abs(widest(c) - high) > room * float(np.finfo(c.dtype).eps) * size + np.finfo(c.dtype).tiny).any()
        )


def _exactly(floats: Floats, node: Node, g: Any) -> list[Any]:
    """The cotangents that a rule gives for a cotangent at its recorded inputs, in enclosures."""
    values, several = [floats.values[j] for j in node.inputs], isinstance(floats.values[node.index], tuple)
    g = PartialOutputs.filled(g, floats.values[node.index]) if several else g
    if not finite(*values, *(g if several else (g,))):
        raise ArithmeticError("an infinity has no exact cotangent")
    balls = [BALLS.lift(v) for v in values]
    exact_g = tuple([objects(BALLS.lift(np.asarray(v))) for v in g]) if several else objects(BALLS.lift(np.asarray(g)))
    return by_rule(BALLS, node, exact_g, node.apply(BALLS, balls), balls, values)


class _Kept(Floats):
    """A sweep in floats in which the rules of some ops round their exact results once."""

    def __init__(self, program: Program, values: list[Any], nodes: list[Node]) -> None:
        super().__init__(program, values)
        self.nodes = {n.index for n in nodes}

    def rule(self, node: Node, g: Any) -> list[Any]:
        made = super().rule(node, g)
        if node.index not in self.nodes:
            return made
        exact = _exactly(self, node, g)
        return [
            c if c is None or isinstance(c, PartialOutputs) else rounded(objects(e), np.asarray(c).dtype)
            for c, e in zip(made, exact, strict=True)
        ]


def gradient_without_losses(program: Program, seeds: list[Any], nodes: list[Node]) -> list[Any] | None:
    """The gradient in floats if the rules of some ops lost no digits, also in inner gradients; None if that is open.

    Parameters
    ----------
    seeds : list of arrays or None
        Cotangent of each output.
    nodes : list of Node
        Calls of one op.
    """
    try:
        with np.errstate(all="ignore"):
            return gradient(program, seeds, _Kept(program, _values(program, nodes), nodes))
    except (ArithmeticError, ValueError, TypeError, IndexError):  # other numbers may lead to other decisions
        return None


def _values(program: Program, nodes: list[Node]) -> list[Any]:
    """The values of a program whose inner gradients run the rules of some ops exactly, and round their results."""
    values = Floats(program).values
    called, (name, line) = {n.index for n in nodes}, (nodes[0].name, nodes[0].line)
    exactly: dict[int, Any] = {}
    changed = set[int]()

    def ball(j: int) -> Any:
        if j not in exactly and j in called:
            exactly[j] = program.nodes[j].apply(BALLS, [BALLS.lift(values[i]) for i in program.nodes[j].inputs])
        return exactly[j] if j in exactly else BALLS.lift(values[j])

    for node in program.nodes:
        i = node.index
        if node.kind == "op" and node.rule_of == name and node.line == line:
            exactly[i] = node.apply(BALLS, [ball(j) for j in node.inputs])
            if is_floating(node.output) and not isinstance(node.output, tuple):
                values[i] = rounded(objects(exactly[i]), values[i].dtype)
                changed.add(i)
        elif node.kind in ("op", "custom", "item") and not changed.isdisjoint((*node.inputs, *node.body)):
            made = program.step(COMPLEX, node, values)
            values[i] = tuple(map(np.asarray, made)) if isinstance(made, tuple) else np.asarray(made)
            changed.add(i)
    return values

"""Stops in the bodies of custom gradients.

TensorFlow runs the body of a custom gradient under no tape, so that a stop in the body changes nothing. A body may
still stop a value to say that the gradient takes the value for a constant. The gradient itself tells which of both is
meant: it is the derivative of the body with the stop, or the derivative without the stop. In the second case the ops of
the body pass their derivatives on, in the program that is checked. This is sound, because the derivative without stops
is that of the values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gtape.engine.custom import step_of_body
from gtape.engine.rules import RuleStep
from gtape.symbolic.balls import precision
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.customs import certify_value, is_rounded, stops_of
from gtape.verify.oracles.certificates import has_declared, inside_of
from gtape.verify.oracles.enclosures import is_complex, is_floating, random_cotangents
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import cotangents_returned

__all__ = ["pass_stops"]

_BITS = (200, 800)  # precisions of the comparison


def pass_stops(program: Program) -> None:
    """Let derivatives pass the stops in the bodies of those custom gradients whose gradients pass them.

    Parameters
    ----------
    program : Program
        Changed in place, once.
    """
    if program.passes_stops:
        return
    program.passes_stops = True
    for node in program.nodes:
        if node.kind != "custom" or node.prim.declared is not None:
            continue
        oracle = Oracle(program, [])
        if stops_of(oracle, node) and not has_declared(oracle, node):
            _decide(program, node)


def _decide(program: Program, node: Node) -> None:
    """Let derivatives pass the stops of one body if the custom gradient is the derivative without them alone."""
    for bits in _BITS:
        try:
            with precision(bits):
                oracle = Oracle(program, [])
                oracle.evaluate(program.ancestors([node.index]))
                if _is_right(oracle, node):
                    return
                for stops in _choices(oracle, node):
                    before = program.replace_steps(_passing(oracle, node, stops))
                    right = False
                    try:
                        right = _is_right(oracle, node)
                    finally:
                        if not right:
                            program.replace_steps(before)
                    if right:
                        return
                return
        except ArithmeticError:  # higher precision may decide
            continue
        except Exception:  # the user's function may raise anything; the check of the gradient itself reports it
            return


def _is_right(oracle: Oracle, node: Node) -> bool:
    """Whether a custom gradient is the derivative of its body up to roundings, for random cotangents."""
    outs = node.output if isinstance(node.output, tuple) else (node.output,)
    gs = tuple([random_cotangents(np.shape(o), oracle.rng, complex=is_complex(o)) for o in outs])
    g = gs if isinstance(node.output, tuple) else gs[0]
    failure = certify_value(oracle, node, g, cotangents_returned(*oracle.custom_back(node, g)))
    return failure is None or is_rounded(failure)


def _choices(oracle: Oracle, node: Node) -> list[list[Node]]:
    """The stops of the body without those in custom gradients inside of it, and all of them."""
    every, nodes = stops_of(oracle, node), oracle.program.nodes
    within = {s.index for i in inside_of(oracle, node) if nodes[i].kind == "custom" for s in stops_of(oracle, nodes[i])}
    own = [s for s in every if s.index not in within]
    return [own, every] if own and within else [every]


def _passing(oracle: Oracle, node: Node, stops: Iterable[Node]) -> dict[int, Any]:
    """The steps with which derivatives pass some stops of a body, and the ops behind them."""
    nodes, passed = oracle.program.nodes, {s.index for s in stops}
    steps: dict[int, Any] = {}
    moving: set[int] = {node.inputs[a] for a in node.active}
    for i in sorted(inside_of(oracle, node)):
        n = nodes[i]
        if n.kind == "custom":
            moved = not moving.isdisjoint(n.body)
        elif n.kind == "item":
            moved = not moving.isdisjoint(n.inputs)
        elif n.kind != "op" or not is_floating(n.output):
            continue
        elif i in passed:
            moved = not moving.isdisjoint(n.inputs)
            if moved:
                steps[i] = step_of_body()
        elif not node.seq < n.seq < node.begun or not n.prim.differentiable:
            moved = bool(n.active) and not moving.isdisjoint(n.inputs[a] for a in n.active)
        else:
            reached = {a for a, j in enumerate(n.inputs) if j in moving and n.prim.connected(a)}
            active = tuple(sorted(reached.union(n.active)))
            moved = bool(reached)
            if active != n.active:
                steps[i] = RuleStep(
                    n.prim, active, n.params, n.step.layouts, n.step.out_layout, n.step.world, n.step.keeps
                )
        if moved:
            moving.add(i)
    return steps

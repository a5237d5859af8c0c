"""Comparisons at a tie inside a program (`where(x > 0, ...)` at 0): what the other choice would have given."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.program import Node, Program
from gtape.verify.enclosures import is_floating
from gtape.verify.oracle import Oracle
from gtape.verify.verdict import Finding

__all__ = ["choices_met"]

COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
# Each takes one replay.
_MANY = 4


def choices_met(program: Program, oracle: Oracle, exact: list[Any], order: int) -> list[Finding]:
    """A `convention` finding for each comparison of equal numbers whose other outcome gives another gradient.

    Parameters
    ----------
    program : Program
    oracle : Oracle
        With the exact values of all nodes.
    exact : list of object arrays or None
        The exact gradient, by the choices that were made.
    order : int

    Returns
    -------
    list of Finding
        Nothing where the other side is not finite: a guard, which keeps out of where a function is not defined.
    """
    findings: list[Finding] = []
    reached = set(program.ancestors(program.outputs))
    tied = [
        (node, ties)
        for node in program.nodes
        if node.kind == "op"
        and node.name in COMPARISONS
        and node.index in reached
        and (ties := _ties(node, program, oracle)) is not None
    ]
    for node, ties in tied[:_MANY]:
        other = _otherwise(program, oracle, node, ties)
        if other is not None and _apart(exact, other):
            reason = (
                f"{node.name} of equal numbers: the derivative is that of the side chosen, and another on the other"
            )
            findings.append(
                Finding("convention", order=order, op=node.name, line=node.line, inside=True, reason=reason)
            )
    return findings


def _ties(node: Node, program: Program, oracle: Oracle) -> Any:
    """Where a comparison of floats is certainly one of equal numbers; None where it is not."""
    if not any(is_floating(program.nodes[j].output) for j in node.inputs):
        return None
    x, y = [objects(oracle.env[j]) for j in node.inputs]
    mask = np.broadcast_to(np.asarray(np.frompyfunc(lambda p, q: bool(p == q), 2, 1)(x, y), dtype=bool), node.shape)
    return mask if mask.any() else None


def _otherwise(program: Program, oracle: Oracle, node: Node, ties: Any) -> list[Any] | None:
    """The gradient with the other outcome at ties; None where that is not finite."""
    recorded = node.output
    node.output = np.where(ties, ~np.asarray(recorded), recorded)
    try:
        again = Oracle(program, oracle.seeds)
        again.evaluate()
        return again.replay()
    except ArithmeticError:
        return None
    finally:
        node.output = recorded


def _apart(a: list[Any], b: list[Any]) -> bool:
    """Whether two gradients are certainly different, in numbers that are finite in both."""
    found = False
    for p, q in zip(a, b, strict=True):
        if p is None or q is None:
            continue
        for x, y in zip(objects(p).ravel().tolist(), objects(q).ravel().tolist(), strict=True):
            gap = x - y
            if gap == 0:
                continue
            if not gap.is_finite():
                return False
            found = found or not gap.contains(0)
    return found

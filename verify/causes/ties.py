"""Kinks of ops on whole arrays: ties for an extreme or in an order, a norm at the zero vector.

No table lists these kinks. The mirror is evaluated exactly on both sides of the point, along a random direction that
breaks all ties: the op has a kink if its directional derivatives differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import Undecided, objects, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.beside import scale_of
from gtape.verify.causes.still import with_slopes
from gtape.verify.oracles.enclosures import BALLS, is_complex, jet_world
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.verdicts.verdict import Finding

__all__ = ["ties_met"]

_STEP = arb(2) ** -160
# Ops on more elements are skipped, because they would take too long.
_MANY = 4000
_CLOSE = 1e-9


def ties_met(program: Program, oracle: Oracle, order: int) -> list[Finding]:
    """A `convention` finding for every op on whole arrays that was evaluated exactly at a kink.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    """
    findings = []
    sloped = with_slopes(program)
    for node in program.nodes:
        if node.kind != "op" or node.prim.kind == "elementwise" or not node.prim.kinks or is_complex(node.output):
            continue
        if not node.active or node.index not in sloped or _size(program, node) > _MANY:
            continue
        try:
            reason = _two_slopes(node, oracle)
        except (ArithmeticError, Undecided):
            continue
        if reason:
            findings.append(Finding("convention", order=order, at=node, inside=True, reason=reason))
    return findings


def _size(program: Program, node: Node) -> int:
    return sum(int(np.size(program.nodes[j].output)) for j in node.inputs)


def _direction(rng: Any, x: Any) -> Any:
    return BALLS.lift(rng.uniform(0.5, 1.5, np.shape(x)) * rng.choice([-1.0, 1.0], np.shape(x)))


def _inputs(node: Node, oracle: Oracle) -> list[tuple[Any, Any]]:
    """Each input's exact value with a direction, or with None if the input does not vary."""
    rng = np.random.default_rng(17)
    found = []
    for k, j in enumerate(node.inputs):
        x = oracle.env[j]
        varies = np.asarray(x).dtype == object and (k in node.active or not node.active)
        found.append((objects(x), _direction(rng, x)) if varies else (x, None))
    return found


def _moved(inputs: list[tuple[Any, Any]], step: arb) -> list[Any]:
    return [x if d is None else objects(x + step * d * scale_of(x)) for x, d in inputs]


def _slopes(node: Node, inputs: list[tuple[Any, Any]], step: arb) -> list[Any]:
    world = jet_world(1)
    at = [x if d is None else world.jet(x, d) for x, (_, d) in zip(_moved(inputs, step), inputs, strict=True)]
    y = getattr(world, node.prim.name)(*at, **node.params)
    return [np.asarray(to_float(world.component(v, 1))).ravel() for v in (y if isinstance(y, (tuple, list)) else (y,))]


def _two_slopes(node: Node, oracle: Oracle) -> str | None:
    inputs = _inputs(node, oracle)
    for i, (left, right) in enumerate(zip(*[_slopes(node, inputs, sign * _STEP) for sign in (-1, 1)], strict=True)):
        gap = np.abs(left - right)
        apart = gap > _CLOSE * np.maximum(1.0, np.abs(left) + np.abs(right))
        if apart.any():
            before, behind = [_slopes(node, inputs, sign * _STEP * arb(2) ** 80)[i] for sign in (-1, 1)]
            # A gap that shrinks with the step is the slope of the derivative, not a kink.
            apart &= ~(2 * gap < np.abs(before - behind))
        if apart.any():
            k = int(np.argmax(apart))
            return (
                f"a tie or kink: {node.prim.kinks[0]}; if the inputs of {node.name} move apart along a direction, the "
                f"slope of {node.name} alone is {left[k]:.6g} before and {right[k]:.6g} behind"
            )
    return None

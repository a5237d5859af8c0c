"""Tests if a value that left the tape and came back changes the derivative."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from gtape.engine.worlds import COMPLEX
from gtape.symbolic.program import Node, Program
from gtape.verify.judging.connected import order_of
from gtape.verify.judging.ladder import PRECISIONS, TIES, climb
from gtape.verify.judging.returns import followed_through
from gtape.verify.oracles.certificates import certify
from gtape.verify.oracles.oracle import Oracle

__all__ = ["changes", "differ", "moves_with_params"]

_BITS = (400, TIES, PRECISIONS[-1])
_MOVES = (2.0**-10, -(2.0**-10))


def changes(program: Program, seeds: list[Any], only: Collection[Any] | None = None) -> bool | None:
    """Whether the exact derivative of a program changes if a tape follows the values that left and came back.

    Parameters
    ----------
    program : Program
    seeds : list of arrays or None
        The cotangent of each output.
    only : collection of Conversion, optional
        The values that a tape follows; all by default.

    Returns
    -------
    bool or None
        None if it is not certain.
    """
    return differ(program, followed_through(program, only), seeds)


def differ(program: Program, other: Program, seeds: list[Any]) -> bool | None:
    """Whether the exact derivatives of two programs with the same values differ. None if it is not certain."""

    def attempt(_bits: int, _degenerate: list[str]) -> bool:
        still, moving = Oracle(program, seeds), Oracle(other, seeds)
        still.evaluate()
        kept = still.replay()
        moving.evaluate()
        if any(n.kind == "custom" and n.prim.declared is not None for n in other.nodes):
            moving.replay()  # the certificate needs the cotangents that arrive at declared gradients
        return bool(certify(moving, kept))

    with np.errstate(all="ignore"):
        made: bool | None = climb(program, order_of(program), attempt, _BITS)[0]
    return made


def moves_with_params(node: Node, program: Program, values: list[Any]) -> bool:
    """Whether the output of an op moves if some numbers among its static parameters do."""
    inputs = [program.nodes[j].output for j in node.inputs]

    def moved(p: Any, move: float) -> Any:
        if isinstance(p, (tuple, list)):
            return type(p)([moved(q, move) for q in p])
        return p * (1.0 + move) if any(p is v for v in values) else p

    with np.errstate(all="ignore"):
        outputs = [
            getattr(COMPLEX, node.prim.name)(*inputs, **{k: moved(p, move) for k, p in node.params.items()})
            for move in _MOVES
        ]
    return any(not np.array_equal(y, node.output, equal_nan=True) for y in outputs)

"""Constants that change nothing: moving them moves no output of a program, to first order."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from gtape.symbolic.balls import objects, precision
from gtape.symbolic.program import Node, Program
from gtape.verify.oracles.enclosures import is_complex, jet_world, random_cotangents
from gtape.verify.oracles.oracle import Oracle, TooDeep

__all__ = ["are_idle"]

_BITS = 400
_NARROW = 2.0**-200


def are_idle(program: Program, constants: list[Node]) -> bool:
    """Whether the exact derivative of every output by some constants is zero; False if it is not certain.

    Parameters
    ----------
    program : Program
    constants : list of Node
        Of one shape: they are the same value, so that they move alike, in a random direction.
    """
    oracle = Oracle(program, [np.ones(np.shape(program.nodes[i].output)) for i in program.outputs])
    with precision(_BITS), np.errstate(all="ignore"), contextlib.suppress(ArithmeticError, TooDeep):
        oracle.evaluate()
        first = constants[0]
        move = random_cotangents(first.shape, oracle.rng, complex=is_complex(first.output))
        moves: dict[int, list[Any]] = {n.index: [move] for n in constants}
        env = oracle.jets(1, moves, program.ancestors(program.outputs), free=0)
        along = [jet_world(1).component(env[i], 1) for i in program.outputs]
        return all(_is_zero(e) for slopes in along for e in objects(slopes).ravel().tolist())
    return False


def _is_zero(e: Any) -> bool:
    if isinstance(e, int):
        return e == 0
    return bool(e.contains(0)) and float(abs(e).upper()) < _NARROW

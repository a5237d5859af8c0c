"""Whether a function has a value at a point: formulas of derivatives may give numbers where there is none."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import infinities_as_limits, objects, precision
from gtape.symbolic.program import Program
from gtape.verify.judging.ladder import TIES
from gtape.verify.oracles.oracle import Oracle

__all__ = ["UNDEFINED", "is_undefined"]

UNDEFINED = "the function is not defined at this point"


def is_undefined(program: Program) -> bool:
    """Whether an output of a program is NaN, in floats and exactly.

    Floats may be NaN where the exact value is finite, so the exact value decides. Infinities are infinite here,
    although derivatives at infinity are limits, because ``inf * 0`` and ``inf - inf`` are no numbers.
    """
    outputs = [i for i in program.outputs if np.asarray(program.nodes[i].output).dtype.kind == "f"]
    if not any(np.isnan(program.nodes[i].output).any() for i in outputs):
        return False
    ways: tuple[AbstractContextManager[Any], ...] = (contextlib.nullcontext(), infinities_as_limits())
    for near in ways:
        with precision(TIES), near, contextlib.suppress(ArithmeticError):
            oracle = Oracle(program, [])
            oracle.evaluate(program.ancestors(outputs))
            values = [v for i in outputs for v in objects(oracle.env[i]).ravel().tolist()]
            return any(isinstance(v, arb) and v.is_nan() for v in values)
    return False

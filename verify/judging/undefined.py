"""Whether a function has a value at a point: formulas of derivatives may give numbers where there is none."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import infinities_as_limits, objects, precision
from gtape.symbolic.program import Program
from gtape.verify.causes.ends import further_bits
from gtape.verify.judging.ladder import PRECISIONS, TIES
from gtape.verify.oracles.oracle import Oracle

__all__ = ["INFINITE", "UNDEFINED", "is_infinite", "is_undefined"]

UNDEFINED = "the function is not defined at this point"
INFINITE = "the function is infinite at this point"


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
        with near, contextlib.suppress(ArithmeticError):
            # An enclosure that holds an end of an op's domain has no value, and a smaller one may have.
            return all(_has_nan(program, outputs, bits) for bits in (TIES, PRECISIONS[-1], *further_bits(program)))
    return False


def is_infinite(program: Program) -> bool:
    """Whether an output of a program is infinite at finite inputs, in floats and exactly.

    The formula of a derivative may give a number there, as that of ``0**y`` by y does at -1.
    """
    given = [np.asarray(n.output) for n in program.nodes if n.kind in ("leaf", "const")]
    outputs = [i for i in program.outputs if np.asarray(program.nodes[i].output).dtype.kind == "f"]
    if any(v.dtype.kind == "f" and np.isinf(v).any() for v in given):
        return False
    if not any(np.isinf(program.nodes[i].output).any() for i in outputs):
        return False
    with contextlib.suppress(ArithmeticError):
        return all(_is_unbounded(program, outputs, bits) for bits in (PRECISIONS[-1], *further_bits(program)))
    return False


def _is_unbounded(program: Program, outputs: list[int], bits: int) -> bool:
    with precision(bits):
        oracle = Oracle(program, [])
        oracle.evaluate(program.ancestors(outputs))
        values = [v for i in outputs for v in objects(oracle.env[i]).ravel().tolist()]
        return any(isinstance(v, arb) and not v.is_finite() for v in values)


def _has_nan(program: Program, outputs: list[int], bits: int) -> bool:
    with precision(bits):
        oracle = Oracle(program, [])
        oracle.evaluate(program.ancestors(outputs))
        values = [v for i in outputs for v in objects(oracle.env[i]).ravel().tolist()]
        return any(isinstance(v, arb) and v.is_nan() for v in values)

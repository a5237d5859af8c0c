"""Formulas of Python floats: a call and the expression that generated functions hold make the same numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

import gtape as tf
from gtape.declare.formula import formula, parts_of
from gtape.declare.primitives import REGISTRY
from gtape.engine.fast.elementwise import _make_step

POINTS = [0.0, -0.0, 1e-300, 0.3, -0.3, 20.0, -20.0, 333.8, -333.8, 340.0, 372.5, 1e9, math.inf, -math.inf, math.nan]


def test_a_formula_is_a_function_and_the_parts_of_its_source() -> None:
    half = formula("half(e) if (e := near($x)) < 3.0 else $x", half=lambda v: v / 2, near=abs)
    assert [half(v) for v in (-2.0, 5.0)] == [1.0, 5.0]
    names: dict[str, Any] = {}

    def bound(value: Any) -> str:
        return names.setdefault(f"k{len(names)}", value) and f"k{len(names) - 1}"

    parts = parts_of(half, "v0", bound)
    assert parts is not None
    source = "".join(parts)
    assert [eval(source, {**names, "v0": v}) for v in (-2.0, 5.0)] == [1.0, 5.0]
    assert parts_of(math.sin, "v0", bound) is None


@pytest.mark.parametrize("x", POINTS)
def test_the_slope_of_tanh_in_a_backward_step_is_the_slope_as_a_function(x: float) -> None:
    step, _ = _make_step(REGISTRY["tanh"], (0,), True)
    assert REGISTRY["sech2"].scalar not in step.__globals__.values()  # no call
    made, expected = step(3.0, tf.constant(x, tf.float64), None), 3.0 * REGISTRY["sech2"].scalar(x)
    assert made.hex() == expected.hex()

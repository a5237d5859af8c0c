"""Values in wider floats lie within their bounds of the exact values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from gtape.declare.primitives import REGISTRY
from gtape.symbolic.balls import precision
from gtape.symbolic.compile import compile_balls
from gtape.symbolic.mirrors import has_mirror
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.scalars import template
from gtape.symbolic.wide_floats import WideFloats, wide_floats

FLOATS = WideFloats(np.float64)
X, Y = sp.symbols("x y", real=True)
EXPRESSIONS = [
    sp.exp(X) - 1, sp.log(1 + X), 1 - sp.tanh(X) ** 2, 1 / sp.cosh(X) ** 2, X / Y, sp.sqrt(X * X + Y * Y), 1 / (X - Y),
    sp.sin(X) / X, sp.tan(X), sp.atan(X * Y), sp.asinh(X) - X, sp.sinh(X) - sp.cosh(Y), X**3 - Y**5,
    X ** sp.Rational(-3, 2), sp.sqrt(2) * sp.pi * X, sp.sign(X - Y) * sp.Abs(X), sp.cos(X * 1000),
    sp.log(sp.exp(X) + sp.exp(Y)),
    sp.Piecewise((X, X > Y), (Y, sp.Eq(X, 0) | (Y < -1)), (X * Y, True)),
]  # fmt: skip


def distances(expression: Any, x: np.ndarray, y: np.ndarray) -> list[tuple[Any, float]]:
    """How far each value is from the exact one, and its bound, where the expression has a finite value."""
    (made,) = FLOATS.values([expression], {X: x, Y: y}) or [None]
    assert made is not None
    near, error = [np.broadcast_to(v, x.shape) for v in made]
    function, found = compile_balls((X, Y), expression), []
    with precision(300):
        for a, b, v, bound in zip(x, y, near, error, strict=True):
            try:
                off = abs(function(arb(float(a)), arb(float(b))) - arb(float(v)))
            except ArithmeticError:  # outside of the domain
                continue
            if off.is_finite():
                found.append((off, float(bound)))
    return found


@given(st.integers(0, 2**32), st.sampled_from([1e-30, 1e-5, 1.0, 20.0, 1e6]))
@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_values_are_within_their_bounds(expression: Any, seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = [(size * rng.normal(size=8)).astype(np.float32) for _ in range(2)]
    x[:2] = y[:2]
    for off, bound in distances(expression, x, y):
        assert off <= bound or np.isnan(bound), (off, bound)


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_all_expressions_have_values_with_bounds(expression: Any) -> None:
    x, y = np.float32([0.3, 1.5, 2.25]), np.float32([0.7, 0.1, 3.0])
    found = distances(expression, x, y)
    assert len(found) == 3
    assert all(off <= bound < 1e-12 for off, bound in found)


def test_bounds_of_ordinary_numbers_are_some_roundings() -> None:
    x, y = np.float32([0.3, 1.5, 2.25]), np.float32([0.7, 0.1, -3.0])
    expressions = [sp.exp(X) * Y, sp.sin(X) / Y, sp.sqrt(X) + sp.tanh(Y), 1 / sp.cosh(X) ** 2]
    made = FLOATS.values(expressions, {X: x, Y: y})
    assert made is not None
    for near, error in made:
        assert (error <= 100 * 2.0**-52 * np.abs(near)).all()


@pytest.mark.parametrize("expression", [sp.gamma(X), sp.floor(X) + Y, X**Y, sp.Max(X, Y), sp.oo * X])
def test_functions_that_are_not_known_have_no_values(expression: Any) -> None:
    assert FLOATS.values([expression], {X: np.float32([0.5]), Y: np.float32([2.0])}) is None


def test_open_conditions_have_no_bound() -> None:
    third = sp.Piecewise((X, X > sp.exp(Y)), (Y, True))
    (made,) = FLOATS.values([third], {X: np.array([1.0, 1.5, 0.5]), Y: np.zeros(3)}) or [None]
    assert made is not None
    assert np.isinf(made.error).tolist() == [True, False, False]


def test_sums_of_exact_numbers_are_exact_where_nothing_is_lost() -> None:
    one, half = np.float32([1.0, 1.0]), np.float32([2.0**-24, 2.0**-90])
    (made,) = FLOATS.values([X + Y], {X: one, Y: half}) or [None]
    assert made is not None
    assert made.error.tolist() == [0.0, 2.0**-90]


def test_most_elementwise_ops_have_values() -> None:
    """Otherwise long arrays are compared in enclosures, which take ten times as long."""
    known = set()
    for name in ("add", "multiply", "divide", "exp", "log", "sin", "cos", "tanh", "sigmoid", "relu", "sqrt", "square"):
        assert has_mirror(name)
        made = template(SCALARS[name], len(REGISTRY[name].rules), {})
        active = tuple(range(len(made.symbols)))
        if FLOATS.values(made.partials(active, 1), {s: np.float32([0.5, 0.7]) for s in made.symbols}) is not None:
            known.add(name)
    assert len(known) == 12


def test_half_precision_has_no_wider_floats() -> None:
    assert wide_floats(np.dtype(np.float16)) is None
    made = wide_floats(np.dtype(np.float32))
    assert made is not None
    assert made.dtype == np.float64

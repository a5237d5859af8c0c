"""Derivatives that hold at kinks, removable points and zero bases."""

from __future__ import annotations

import math
from typing import Any

import sympy as sp
from flint import arb

import gtape as tf
from gtape.symbolic import trace
from gtape.symbolic.balls import precision
from gtape.symbolic.compile import compile_balls
from gtape.symbolic.functions import derivative, outermost, plain
from gtape.symbolic.special_functions import PowerAtZero

x, y = sp.symbols("x y", real=True)


def at(expression: sp.Expr, point: float) -> float:
    with precision(120):
        return float(compile_balls([x], expression)(arb(point)))


def test_removable_point_by_limits() -> None:
    sinc = sp.Piecewise((sp.sin(x) / x, sp.Ne(x, 0)), (1, True))
    d = [sinc]
    for _ in range(4):
        d.append(derivative(d[-1], x))
    assert [at(e, 0.0) for e in d] == [1.0, 0.0, -1 / 3, 0.0, 0.2]
    assert at(d[2], 0.5) == float(sp.diff(sp.sin(x) / x, x, 2).subs(x, sp.Rational(1, 2)).evalf(30))


def test_removable_point_first_and_along_another_argument() -> None:
    e = sp.Piecewise((sp.exp(y), sp.Eq(x, y)), ((sp.exp(x) - sp.exp(y)) / (x - y), True))
    f = compile_balls([x, y], derivative(e, x))
    assert abs(f(arb(1), arb(1)) - arb(1).exp() / 2) < 1e-12


def test_kink_keeps_its_own_slope() -> None:
    e = sp.Piecewise((0, sp.Eq(x, 0)), (x, x > 0), (-x, True))
    assert [at(derivative(e, x), p) for p in (-1.0, 0.0, 1.0)] == [-1.0, 0.0, 1.0]
    assert at(derivative(derivative(e, x), x), 0.0) == 0.0


def slope_at_zero(*arms: tuple[Any, Any], order: int = 1) -> sp.Expr:
    e = sp.Piecewise(*arms)
    for _ in range(order):
        e = derivative(e, x)
    ((point, _),) = (a for a in e.args if a[1] == sp.Eq(x, 0))
    return point.limit()


def test_convention_where_the_function_jumps() -> None:
    assert slope_at_zero((0, sp.Eq(x, 0)), (1 / x, True)) == 0
    assert slope_at_zero((0, sp.Eq(x, 0)), (1 / x**2, True), order=2) == 0
    assert slope_at_zero((5 * x, sp.Eq(x, 0)), (sp.Rational(1, 2) + x, True)) == 5


def test_infinite_slope_of_a_continuous_function() -> None:
    assert slope_at_zero((0, sp.Eq(x, 0)), (x * sp.log(x), x > 0)) == -sp.oo


def test_limit_that_is_not_found_is_not_a_number() -> None:
    assert slope_at_zero((0, sp.Eq(x, 0)), (x**2 * sp.sin(1 / x), True)) is sp.nan


def test_xlogy_has_its_slope_at_zero() -> None:
    e = sp.Piecewise((0, sp.Eq(x, 0)), (x * sp.log(y), True))
    slope = compile_balls([x, y], derivative(e, x))
    assert float(slope(arb(0), arb(2))) == float(arb(2).log())


def test_plain_takes_least_norm_at_kinks() -> None:
    e = plain(sp.Abs(x) + sp.Max(x, 0) + sp.Min(x, 0) + sp.sign(x) + sp.sinc(x))
    assert not e.has(sp.Abs, sp.Max, sp.Min, sp.sign, sp.sinc)
    assert at(derivative(plain(sp.Abs(x)), x), 0.0) == 0.0
    assert at(derivative(plain(sp.sign(x)), x), 0.0) == 0.0
    assert at(derivative(plain(sp.Abs(sp.sin(x))), x), -1.0) == -math.cos(1.0)


def test_plain_leaves_conditions() -> None:
    e = sp.Piecewise((sp.Abs(x) * x, sp.Abs(x) < 1), (x, True))
    assert at(derivative(plain(e), x), -0.5) == 1.0
    assert at(derivative(plain(e), x), -5.0) == 1.0


def test_powers_do_not_divide_by_their_base() -> None:
    slope = compile_balls([x, y], derivative(x**y, x))
    assert slope(arb(0), arb(2)) == 0
    assert slope(arb(0), arb(1)) == 1


def test_floor_has_no_slope() -> None:
    assert derivative(sp.floor(x) * x, x) == sp.floor(x)


def test_outermost() -> None:
    inner = sp.Piecewise((x, x > 0), (y, True))
    outer = sp.Piecewise((inner, x < 5), (0, True), evaluate=False)
    assert outermost(outer + inner * y, sp.Piecewise) in ([outer, inner], [inner, outer])
    assert outermost(outer, sp.Piecewise) == [outer]


def test_a_power_of_0_is_written_as_a_power_and_has_the_limits_of_its_derivatives() -> None:
    program = trace(lambda x, y: tf.pow(x, y) * 2.0, 0.0, 0.75)
    assert str(program.expr()) == "2*x0**x1"
    values = {(n, m): float(PowerAtZero.ball(arb(0), arb(3) / 4, n, m)) for n in range(3) for m in range(2)}
    # x**y, x**y log(x); y x**(y - 1), its slope by y; y (y - 1) x**(y - 2), its slope by y
    inf = math.inf
    assert values == {(0, 0): 0.0, (0, 1): 0.0, (1, 0): inf, (1, 1): -inf, (2, 0): -inf, (2, 1): inf}

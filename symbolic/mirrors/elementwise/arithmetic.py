"""Mirrors of arithmetic on two operands: textbook definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.nth_derivatives import logistic, logistic_derivative
from gtape.symbolic.special_functions import PowerAtZero

scalar("negative", lambda x: -x)
scalar("add", lambda x, y: x + y)
scalar("subtract", lambda x, y: x - y)
scalar("multiply", lambda x, y: x * y)
scalar("squared_difference", lambda x, y: (x - y) ** 2)
scalar("multiply_no_nan", lambda x, y: x * y)
scalar("multiply_no_nan_dy", lambda x, y: x)

scalar("divide", lambda x, y: x / y)
scalar("reciprocal_power", lambda x, *, n: x**-n)
scalar("divide_power", lambda x, y, *, n: x / y**n)


def _unless_0(y: sp.Expr, value: sp.Expr) -> sp.Expr:
    # Two branches instead of one for y != 0, because the 0 at y == 0 is a convention and not a removable point.
    return sp.Piecewise((value, y > 0), (value, y < 0), (sp.Integer(0), True))


def _if_0(y: sp.Expr, value: sp.Expr) -> sp.Expr:
    # Complex numbers have no sign.
    return sp.Piecewise((sp.Integer(0), sp.Eq(y, 0)), (value, True))


scalar("divide_no_nan", lambda x, y: _unless_0(y, x / y), complex=lambda x, y: _if_0(y, x / y))
scalar("reciprocal_no_nan", lambda x: _unless_0(x, 1 / x), complex=lambda x: _if_0(x, 1 / x))
scalar(
    "divide_power_no_nan",
    lambda x, y, *, n: _unless_0(y, x / y**n),
    complex=lambda x, y, *, n: _if_0(y, x / y**n),
)
scalar("reciprocal_power_no_nan", lambda x, *, n: _unless_0(x, x**-n), complex=lambda x, *, n: _if_0(x, x**-n))


def _unless(excluded: Any, value: sp.Expr) -> sp.Expr:
    return sp.Piecewise((sp.Integer(0), excluded), (value, True))


def _both_0(x: sp.Expr, y: sp.Expr) -> Any:
    return sp.And(sp.Eq(x, 0), sp.Eq(y, 0))


scalar("xdivy", lambda x, y: _unless(_both_0(x, y), x / y))
scalar("xdivy_power", lambda x, y, *, n: _unless(_both_0(x, y), x / y**n))
scalar("xdivy_dx", lambda x, y, *, n: _unless(_both_0(x, y), y**-n))


def _edge(x: sp.Expr, base: sp.Expr, value: sp.Expr) -> sp.Expr:
    return _unless(sp.And(sp.Eq(x, 0), base <= 0), value)


def _edged(name: str, base: Callable[..., Any], value: Callable[..., Any]) -> None:
    """A mirror that is 0 if x is 0 and the base is not positive (for complex numbers: if both are 0)."""
    scalar(
        name,
        lambda x, y, **params: _edge(x, base(y), value(x, base(y), **params)),
        complex=lambda x, y, **params: _unless(_both_0(x, base(y)), value(x, base(y), **params)),
    )


for _name, _base in (("xlogy", lambda y: y), ("xlog1py", lambda y: 1 + y)):
    _edged(_name, _base, lambda x, b: x * sp.log(b))
    _edged(f"{_name}_dx", _base, lambda x, b: sp.log(b))
    _edged(f"{_name}_dy", _base, lambda x, b, *, n: x / b**n)
    _edged(f"{_name}_dxdy", _base, lambda x, b, *, n: b**-n)

scalar("floormod", lambda x, y: x - y * sp.floor(x / y))
scalar("floormod_dx", lambda x, y: sp.Integer(1))
scalar("floormod_dy", lambda x, y: -sp.floor(x / y))

scalar("logaddexp", lambda x, y: sp.log(sp.exp(x) + sp.exp(y)))
scalar("sigmoid_difference", lambda x, y: logistic(x - y))
scalar("sigmoid_slope_difference", lambda x, y: 1 / (2 + sp.exp(x - y) + sp.exp(y - x)))
scalar("sigmoid_difference_derivative", lambda x, y, *, n: logistic_derivative(x - y, n))
scalar("tanh_half_difference", lambda x, y: sp.tanh((x - y) / 2))


def _conjugate_power(x: sp.Expr, y: sp.Expr, n: int, first: int) -> sp.Expr:
    """The real (`first` = 0) or imaginary (1) part of (x - iy)**n, by the binomial theorem."""
    # (-i)**k is 1, -i, -1, i, ...
    terms = [sp.binomial(n, k) * (-1) ** (k // 2 + first) * x ** (n - k) * y**k for k in range(first, n + 1, 2)]
    return sp.Add(*terms)


scalar("atan2", lambda y, x: sp.atan2(y, x))
scalar("inverse_real", lambda y, x, *, n: _conjugate_power(x, y, n, 0) / (x**2 + y**2) ** n)
scalar("inverse_imag", lambda y, x, *, n: _conjugate_power(x, y, n, 1) / (x**2 + y**2) ** n)

scalar("hypot", lambda x, y: _unless(_both_0(x, y), sp.sqrt(x**2 + y**2)))


def _form(x: sp.Expr, y: sp.Expr, c: tuple[int, ...]) -> sp.Expr:
    return sp.Add(*[v * x**i * y ** (len(c) - 1 - i) for i, v in enumerate(c)])


def _hypot_term(x: sp.Expr, y: sp.Expr, i: int, j: int, k: int, factor: sp.Expr) -> sp.Expr:
    below = sp.sqrt(x**2 + y**2) ** (k % 2) * (x**2 + y**2) ** (k // 2)
    return _unless(_both_0(x, y), x**i * y**j * factor / below)


scalar("hypot_term", lambda x, y, *, i, j, k: _hypot_term(x, y, i, j, k, sp.Integer(1)))
scalar("hypot_form", lambda x, y, *, c, k: _hypot_term(x, y, 0, 0, k, _form(x, y, c)))


def _whole(x: sp.Expr, y: sp.Expr) -> Any:
    return sp.And(x <= 0, sp.Eq(y, sp.floor(y)))


def _pow(x: sp.Expr, y: sp.Expr) -> sp.Expr:
    # For x <= 0 the exponent is an integer and counts as constant, because floor(y) has the derivative 0.
    return sp.Piecewise(
        (sp.Integer(1), _both_0(x, y)),
        (x ** sp.floor(y), _whole(x, y)),
        (PowerAtZero(x, y, 0, 0), sp.And(sp.Eq(x, 0), y > 0)),
        (x**y, True),
    )


def _pow_derivative(x: sp.Expr, y: sp.Expr, *, n: int, m: int) -> sp.Expr:
    """Leibniz's rule: sum of binomial(m, k) (d/dy)**k [y (y - 1) ... (y - n + 1)] log(x)**(m - k), times x**(y - n)."""

    def falling(t: sp.Expr) -> sp.Expr:
        return sp.prod([t - k for k in range(n)])

    if m == 0:
        # The factor is 0 at y = 0, ..., n - 1, where x**(y - n) has a pole at 0.
        vanishes = sp.And(sp.Eq(x, 0), sp.Or(*[sp.Eq(y, k) for k in range(n)]))
        whole = sp.floor(y)
        return sp.Piecewise(
            (sp.Integer(0), vanishes),
            (falling(whole) * x ** (whole - n), _whole(x, y)),
            (PowerAtZero(x, y, n, 0), sp.And(sp.Eq(x, 0), y > n)),
            (falling(y) * x ** (y - n), True),
        )
    parts = [sp.Poly(falling(_T), _T)]
    for _ in range(m):
        parts.append(parts[-1].diff(_T))
    at = [sum(c * y**d for (d,), c in p.terms()) for p in parts]
    total = sum(sp.binomial(m, k) * at[k] * sp.log(x) ** (m - k) for k in range(m + 1))
    # Logarithms only for x > 0. At 0 a power with a positive exponent outweighs them; otherwise all is infinite.
    pole = sp.And(sp.Eq(x, 0), y > 0, y < n)
    flat = sp.And(sp.Eq(x, 0), y > n, sp.Ne(y, sp.floor(y)))
    return sp.Piecewise(
        (x ** (y - n) * total, x > 0),
        ((-1) ** m * falling(y) * sp.oo, pole),
        (PowerAtZero(x, y, n, m), flat),
        (sp.Integer(0), True),
    )


_T = sp.Dummy("t", real=True)


def _complex_pow(x: sp.Expr, y: sp.Expr) -> sp.Expr:
    return sp.Piecewise(
        (sp.Integer(1), _both_0(x, y)),
        (PowerAtZero(x, y, 0, 0), sp.And(sp.Eq(x, 0), sp.Ne(y, 0))),
        (x**y, True),
    )


def _complex_pow_derivative(x: sp.Expr, y: sp.Expr, *, n: int, m: int) -> sp.Expr:
    made = sp.diff(_X**_Y, _X, n, _Y, m).xreplace({_X: x, _Y: y}) if m else sp.ff(y, n) * x ** (y - n)
    # A zero factor y (y - 1) ... outweighs the pole. There are no logarithms at 0.
    zero = sp.Eq(x, 0) if m else sp.And(sp.Eq(x, 0), sp.Or(*[sp.Eq(y, k) for k in range(n)]))
    return sp.Piecewise((sp.Integer(0), zero), (made, True))


_X, _Y = sp.Dummy("x"), sp.Dummy("y")

scalar("pow", _pow, complex=_complex_pow)
scalar("pow_derivative", _pow_derivative, complex=_complex_pow_derivative)

"""Textbook definitions of the elementary functions and their slopes."""

from __future__ import annotations

from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.activation import sigmoid_derivative
from gtape.symbolic.mirrors.registry import scalar

__all__: list[str] = []


def _tan_derivative(x: Any, n: int) -> Any:
    """With t = tan(x): d/dx is (1 + t²) d/dt, n times on t."""
    t = sp.Dummy("t")
    p: Any = t
    for _ in range(n):
        p = sp.expand((1 + t**2) * p.diff(t))
    return p.subs(t, sp.tan(x))


def _power_derivative(x: Any, n: int, k: int, c: int, b: int = 1) -> Any:
    """Faà di Bruno for f(x²), f(u) = (c + b u)^(-k/2): sum of n!/(j! (n-2j)!) (2x)^(n-2j) times f's derivative n-j."""
    half = sp.Rational(k, 2)
    u = c + b * x**2
    return sum(
        sp.Rational(sp.factorial(n), sp.factorial(j) * sp.factorial(n - 2 * j))
        * (2 * x) ** (n - 2 * j)
        * (-b) ** (n - j)
        * sp.rf(half, n - j)
        * u ** (-half - (n - j))
        for j in range(n // 2 + 1)
    )


_Z = sp.Dummy("z")


def _principal(k: int) -> Any:
    """((z - 1) (z + 1))**(-1/2) on the principal branch of acosh for an odd k, else 1."""
    return 1 / (sp.sqrt(_Z - 1) * sp.sqrt(_Z + 1)) if k % 2 else sp.Integer(1)


scalar("square", lambda x: x**2)
scalar("sqrt", lambda x: sp.sqrt(x))
scalar("sqrt_slope", lambda x: 1 / (2 * sp.sqrt(x)))
scalar("rsqrt", lambda x: 1 / sp.sqrt(x))
scalar("rsqrt_derivative", lambda x, n: sp.ff(-sp.Rational(1, 2), n) / (x**n * sp.sqrt(x)))
scalar("reciprocal", lambda x: 1 / x)
_THIRD = sp.Rational(1, 3)
scalar("cbrt", lambda x: sp.Piecewise((x**_THIRD, x >= 0), (-((-x) ** _THIRD), True)))
scalar("cbrt_slope", lambda x: sp.Piecewise((x ** (-2 * _THIRD) / 3, x >= 0), ((-x) ** (-2 * _THIRD) / 3, True)))


def _cbrt_derivative(x: Any, n: int) -> Any:
    """A falling factorial of 1/3 times a power; the cube root is odd."""
    value = sp.ff(_THIRD, n)
    return sp.Piecewise((value * x ** (_THIRD - n), x >= 0), ((-1) ** (n + 1) * value * (-x) ** (_THIRD - n), True))


scalar("cbrt_derivative", _cbrt_derivative)

scalar("exp", lambda x: sp.exp(x))
scalar("expm1", lambda x: sp.exp(x) - 1)
scalar("exp2", lambda x: sp.Integer(2) ** x)
scalar("exp2_derivative", lambda x, n: sp.log(2) ** n * sp.Integer(2) ** x)
scalar("log", lambda x: sp.log(x))
scalar("log_slope", lambda x: 1 / x)
scalar("log2", lambda x: sp.log(x) / sp.log(2))
scalar("log2_slope", lambda x: 1 / (x * sp.log(2)))
scalar("log10", lambda x: sp.log(x) / sp.log(10))
scalar("log10_slope", lambda x: 1 / (x * sp.log(10)))
scalar("log1p", lambda x: sp.log(1 + x))
scalar("log1p_slope", lambda x: 1 / (1 + x))
scalar("recip1p_power", lambda x, n: (1 + x) ** -n)

scalar("sin", lambda x: sp.sin(x))
scalar("cos", lambda x: sp.cos(x))
scalar("tan", lambda x: sp.tan(x))
scalar("sec2", lambda x: 1 / sp.cos(x) ** 2)
scalar("tan_derivative", _tan_derivative)
scalar("asin", lambda x: sp.asin(x))
scalar("acos", lambda x: sp.acos(x))
scalar("rsqrt1m2", lambda x: 1 / sp.sqrt(1 - x**2))
scalar("atan", lambda x: sp.atan(x))
scalar("recip1p2", lambda x: 1 / (1 + x**2))

scalar("bent_power_derivative", lambda x, n, k: _power_derivative(x, n, k, 1))
scalar("inner_power_derivative", lambda x, n, k: _power_derivative(x, n, k, 1, -1))
scalar(
    "steep_power_derivative",
    lambda x, n, k: _power_derivative(x, n, k, -1),
    complex=lambda z, n, k: sp.diff(((_Z - 1) * (_Z + 1)) ** -(k // 2) * _principal(k), _Z, n).xreplace({_Z: z}),
)

scalar("sinh", lambda x: sp.sinh(x))
scalar("cosh", lambda x: sp.cosh(x))
scalar("tanh", lambda x: sp.tanh(x))
scalar("sech2", lambda x: 1 / sp.cosh(x) ** 2)
scalar("tanh_curve", lambda x: -2 * sp.sinh(x) / sp.cosh(x) ** 3)
scalar("tanh_derivative", lambda x, n: 2 ** (n + 1) * sigmoid_derivative(2 * x, n))
scalar("asinh", lambda x: sp.asinh(x))
scalar("rsqrt1p2", lambda x: 1 / sp.sqrt(1 + x**2))
scalar("acosh", lambda x: sp.acosh(x))
scalar("acosh_slope", lambda x: 1 / sp.sqrt(x**2 - 1), complex=lambda z: 1 / (sp.sqrt(z - 1) * sp.sqrt(z + 1)))
scalar("atanh", lambda x: sp.atanh(x))
scalar("recip1m2", lambda x: 1 / (1 - x**2))


def _sinc_derivative(x: Any, n: int) -> Any:
    """Leibniz's rule for sin(pi x) times 1/(pi x); at 0 the coefficient of the power series."""
    away = sum(
        sp.binomial(n, j)
        * sp.pi ** (j - 1)
        * (sp.sin(sp.pi * x), sp.cos(sp.pi * x), -sp.sin(sp.pi * x), -sp.cos(sp.pi * x))[j % 4]
        * (-1) ** (n - j)
        * sp.factorial(n - j)
        / x ** (n - j + 1)
        for j in range(n + 1)
    )
    at_zero = 0 if n % 2 else (-1) ** (n // 2) * sp.pi**n / (n + 1)
    return sp.Piecewise((at_zero, sp.Eq(x, 0)), (away, True))


scalar("sinc", lambda x: sp.Piecewise((1, sp.Eq(x, 0)), (sp.sin(sp.pi * x) / (sp.pi * x), True)))
scalar("sinc_derivative", _sinc_derivative)
scalar("erf", lambda x: sp.erf(x))
scalar("erfc", lambda x: sp.erfc(x))
scalar("erf_derivative", lambda x, n: 2 / sp.sqrt(sp.pi) * (-1) ** (n - 1) * sp.hermite(n - 1, x) * sp.exp(-(x**2)))

"""Hyperbolic functions, their inverses and their slopes: each family is closed under differentiation.

A slope is a primitive of its own if the textbook form or its derivative cancels, overflows or loses the tail.
"""

from __future__ import annotations

import math

import numpy as np

from gtape.declare.domains import OPEN_UNIT, UNIT, Interval
from gtape.declare.formula import formula
from gtape.declare.primitives import elementwise
from gtape.kernels import complex_functions as complex_kernels
from gtape.kernels import elementary as k
from gtape.kernels import roots as roots
from gtape.kernels import slope_families as family
from gtape.kernels.derivative_orders import FROM_TWO, ORDERS_AND_POWERS

__all__: list[str] = []


def _sech2_tail(x: float) -> float:
    h = math.exp(-abs(x))
    return 4.0 * h * h


# 4e would come from a subnormal e in the tail, where the denominator is 1.
_sech2_float = formula(
    "tail($x) if (e := exp(-2.0 * $x if $x > 0.0 else 2.0 * $x)) < 1e-290 else 4.0 * e / (1.0 + e * (2.0 + e))",
    exp=math.exp, tail=_sech2_tail,
)  # fmt: skip


sinh = elementwise(
    "sinh", k.single_by_double(np.sinh), lambda xp, y, x: xp.cosh(x),
    scalar=math.sinh, ulps=2.0, special=(0.0, 1.0, -1.0, 22.0, 710.47),
    summary="Hyperbolic sine.", example=((1.0,), 1.1752011936438014), complex=complex_kernels.sinh,
)  # fmt: skip
cosh = elementwise(
    "cosh", k.single_by_double(np.cosh), lambda xp, y, x: xp.sinh(x),
    scalar=math.cosh, ulps=1.5, special=(0.0, 1.0, -1.0, 22.0, 710.47),
    summary="Hyperbolic cosine.", example=((0.0,), 1.0), complex=complex_kernels.cosh,
)  # fmt: skip
tanh = elementwise(
    "tanh", np.tanh, lambda xp, y, x: xp.sech2(x),
    scalar=math.tanh, ulps=2.0, special=(0.0, 1.0, -1.0, 22.0, -22.0),
    summary="Hyperbolic tangent.", example=((1.0,), 0.7615941559557649), complex=complex_kernels.tanh,
    rewrites=(
        (
            ("subtract", 1, ("square", ("tanh", "X"))), "1 - tanh(x)**2 is 1 / cosh(x)**2",
            lambda xp, x: 1 / xp.square(xp.cosh(x)),
        ),
    ),
)  # fmt: skip
sech2 = elementwise(
    "sech2", k.sech2, lambda xp, y, x: xp.tanh_curve(x),
    scalar=_sech2_float, ulps=3.9, special=(0.0, 300.0, -300.0, 354.2, 372.5),
    summary="Derivative of tanh, 1 / cosh²(x).", complex=complex_kernels.sech2,
)  # fmt: skip
tanh_curve = elementwise(
    "tanh_curve", k.tanh_curve, lambda xp, y, x: xp.tanh_derivative(x, n=3),
    scalar=lambda x: -2.0 * _sech2_float(x) * math.tanh(x), ulps=3.0, special=(0.0, 300.0, -300.0, 354.2, 372.5),
    summary="Second derivative of tanh, -2 tanh(x) / cosh²(x).", complex=complex_kernels.tanh_curve,
)  # fmt: skip
tanh_derivative = elementwise(
    "tanh_derivative", family.tanh_derivative, lambda xp, y, x, *, n: xp.tanh_derivative(x, n=n + 1),
    ulps=1.0, special=(0.0, 0.6584789484624084, -0.6584789484624084, 300.0, 354.2, 372.5), params=("n",),
    samples=FROM_TWO,
    summary="n-th derivative of tanh.", complex=complex_kernels.tanh_derivative,
)  # fmt: skip
asinh = elementwise(
    "asinh", k.single_by_double(np.arcsinh), lambda xp, y, x: xp.rsqrt1p2(x),
    scalar=math.asinh, ulps=2.0, special=(0.0, 2.0, -2.0),
    summary="Inverse hyperbolic sine.", example=((1.0,), 0.881373587019543), complex=complex_kernels.asinh,
)  # fmt: skip
rsqrt1p2 = elementwise(
    "rsqrt1p2", k.rsqrt1p2, lambda xp, y, x: xp.bent_power_derivative(x, n=1, k=1),
    ulps=1.0, special=(0.0, -1.0, 1.0, 1e15, -1e15),
    summary="Derivative of asinh, 1 / sqrt(1 + x²).", complex=complex_kernels.rsqrt1p2,
)  # fmt: skip
acosh = elementwise(
    "acosh", k.single_by_double(np.arccosh), lambda xp, y, x: xp.acosh_slope(x),
    scalar=math.acosh, domain=Interval(1.0), ulps=2.0, special=(1.0, 2.0),
    summary="Inverse hyperbolic cosine, for x >= 1.", example=((2.0,), 1.3169578969248166),
    complex=complex_kernels.acosh,
)  # fmt: skip
acosh_slope = elementwise(
    "acosh_slope", k.acosh_slope, lambda xp, y, x: xp.steep_power_derivative(x, n=1, k=1),
    domain=Interval(1.0, open_lo=True), ulps=1.0, special=(1.0, 1e15),
    summary="Derivative of acosh, 1 / sqrt(x² - 1) for x >= 1.", complex=complex_kernels.acosh_slope,
)  # fmt: skip
steep_power_derivative = elementwise(
    "steep_power_derivative", roots.steep_power_derivative,
    lambda xp, y, x, *, n, k: xp.steep_power_derivative(x, n=n + 1, k=k),
    domain=Interval(1.0, open_lo=True), ulps=1.0, special=(1.0, 2.0, 1e15), params=("n", "k"),
    samples=ORDERS_AND_POWERS,
    summary="n-th derivative of (x² - 1)^(-k/2) for x >= 1, k = 1 or 2.",
    complex=complex_kernels.steep_power_derivative,
)  # fmt: skip
atanh = elementwise(
    "atanh", k.single_by_double(np.arctanh), lambda xp, y, x: xp.recip1m2(x),
    scalar=math.atanh, domain=UNIT, ulps=2.0, special=(0.0, -1.0, 1.0, 0.5, -0.5),
    summary="Inverse hyperbolic tangent, inside [-1, 1].", example=((0.5,), 0.5493061443340548),
    complex=complex_kernels.atanh,
)  # fmt: skip
recip1m2 = elementwise(
    "recip1m2", k.recip1m2, lambda xp, y, x: xp.inner_power_derivative(x, n=1, k=2),
    domain=OPEN_UNIT, ulps=1.0, special=(0.0, -1.0, 1.0),
    summary="Derivative of atanh, 1 / (1 - x²) inside [-1, 1].", complex=complex_kernels.recip1m2,
)  # fmt: skip

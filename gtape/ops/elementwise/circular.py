"""Circular functions, their inverses and their slopes: each family is closed under differentiation.

A slope is a primitive of its own if the textbook form or its derivative cancels, overflows or loses the tail.
"""

from __future__ import annotations

import math

import numpy as np

from gtape.declare.domains import OPEN_UNIT, UNIT
from gtape.declare.primitives import elementwise
from gtape.kernels import circular as circular
from gtape.kernels import complex_functions as complex_kernels
from gtape.kernels import elementary as k
from gtape.kernels import roots as roots
from gtape.kernels.derivative_orders import FROM_ONE, FROM_TWO, ORDERS_AND_POWERS

__all__: list[str] = []

_cos = math.cos
_HALF_PI = math.pi / 2

sin = elementwise(
    "sin", np.sin, lambda xp, y, x: xp.cos(x),
    scalar=math.sin, ulps=1.5, special=(0.0, _HALF_PI, math.pi, 2 * math.pi),
    summary="Sine of an angle in radians.", example=((1.0,), 0.8414709848078965), complex=complex_kernels.sin,
    rewrites=(
        (
            ("divide", ("sin", "X"), "X"), "sin(x) / x is gtape.math.sinc(x / np.pi)",
            lambda xp, x: xp.sinc(x / xp.pi),
        ),
    ),
)  # fmt: skip
cos = elementwise(
    "cos", np.cos, lambda xp, y, x: -xp.sin(x),
    scalar=math.cos, ulps=1.5, special=(0.0, _HALF_PI, math.pi, 3 * _HALF_PI),
    summary="Cosine of an angle in radians.", example=((1.0,), 0.5403023058681398), complex=complex_kernels.cos,
    rewrites=(
        (
            ("subtract", 1, ("cos", "X")), "1 - cos(x) is 2 * sin(x / 2)**2",
            lambda xp, x: 2 * xp.square(xp.sin(x / 2)),
        ),
    ),
)  # fmt: skip
tan = elementwise(
    "tan", k.single_by_double(np.tan), lambda xp, y, x: xp.sec2(x),
    scalar=math.tan, ulps=1.5, special=(0.0, _HALF_PI, math.pi, 3 * _HALF_PI),
    summary="Tangent of an angle in radians.", example=((1.0,), 1.5574077246549023), complex=complex_kernels.tan,
)  # fmt: skip


def _sec2_float(x: float) -> float:
    c = _cos(x)
    return 1.0 / (c * c)


sec2 = elementwise(
    "sec2", k.sec2, lambda xp, y, x: xp.tan_derivative(x, n=2),
    scalar=_sec2_float, ulps=3.0, special=(0.0, _HALF_PI, math.pi, 3 * _HALF_PI),
    summary="Derivative of tan, 1 / cos²(x).", complex=complex_kernels.sec2,
)  # fmt: skip
tan_derivative = elementwise(
    "tan_derivative", circular.tan_derivative, lambda xp, y, x, *, n: xp.tan_derivative(x, n=n + 1),
    ulps=1.0, special=(0.0, _HALF_PI, math.pi, 3 * _HALF_PI), params=("n",), samples=FROM_TWO,
    summary="n-th derivative of tan.", complex=complex_kernels.tan_derivative,
)  # fmt: skip
asin = elementwise(
    "asin", k.single_by_double(np.arcsin), lambda xp, y, x: xp.rsqrt1m2(x),
    scalar=math.asin, domain=UNIT, ulps=1.0, special=(0.0, -1.0, 1.0, 0.5, -0.5),
    summary="Inverse sine, in [-pi/2, pi/2].", example=((1.0,), 1.5707963267948966), complex=complex_kernels.asin,
)  # fmt: skip
acos = elementwise(
    "acos", k.single_by_double(np.arccos), lambda xp, y, x: -xp.rsqrt1m2(x),
    scalar=math.acos, domain=UNIT, ulps=1.0, special=(0.0, -1.0, 1.0, 0.5, -0.5),
    summary="Inverse cosine, in [0, pi].", example=((0.0,), 1.5707963267948966), complex=complex_kernels.acos,
)  # fmt: skip
rsqrt1m2 = elementwise(
    "rsqrt1m2", k.rsqrt1m2, lambda xp, y, x: xp.inner_power_derivative(x, n=1, k=1),
    domain=OPEN_UNIT, ulps=1.0, special=(0.0, -1.0, 1.0),
    summary="Derivative of asin, 1 / sqrt(1 - x²).", complex=complex_kernels.rsqrt1m2,
)  # fmt: skip
inner_power_derivative = elementwise(
    "inner_power_derivative", roots.inner_power_derivative,
    lambda xp, y, x, *, n, k: xp.inner_power_derivative(x, n=n + 1, k=k),
    domain=OPEN_UNIT, ulps=3.5, special=(0.0, -1.0, 1.0), params=("n", "k"), samples=ORDERS_AND_POWERS,
    summary="n-th derivative of (1 - x²)^(-k/2) inside [-1, 1], k = 1 or 2.",
    complex=complex_kernels.inner_power_derivative,
)  # fmt: skip
atan = elementwise(
    "atan", k.single_by_double(np.arctan), lambda xp, y, x: xp.recip1p2(x),
    scalar=math.atan, ulps=1.0, special=(0.0, -1.0, 1.0),
    summary="Inverse tangent, in [-pi/2, pi/2].", example=((1.0,), 0.7853981633974483), complex=complex_kernels.atan,
)  # fmt: skip
recip1p2 = elementwise(
    "recip1p2", k.recip1p2, lambda xp, y, x: xp.bent_power_derivative(x, n=1, k=2),
    ulps=1.5, special=(0.0, -1.0, 1.0, 1e15, -1e15),
    summary="Derivative of atan, 1 / (1 + x²).", complex=complex_kernels.recip1p2,
)  # fmt: skip
bent_power_derivative = elementwise(
    "bent_power_derivative", roots.bent_power_derivative,
    lambda xp, y, x, *, n, k: xp.bent_power_derivative(x, n=n + 1, k=k),
    ulps=3.5, special=(0.0, -1.0, 1.0, 2.0, 1e15, -1e15), params=("n", "k"), samples=ORDERS_AND_POWERS,
    summary="n-th derivative of (1 + x²)^(-k/2), k = 1 or 2.", complex=complex_kernels.bent_power_derivative,
)  # fmt: skip


sinc = elementwise(
    "sinc", k.sinc, lambda xp, y, x: xp.sinc_derivative(x, n=1),
    ulps=3.0, special=(0.0, 1.0, -1.0, 2.0, 0.5),
    summary="Normalised sinc, sin(pi x) / (pi x), and 1 at 0.", example=((0.5,), 0.6366197723675814),
)  # fmt: skip
sinc_derivative = elementwise(
    "sinc_derivative", circular.sinc_derivative, lambda xp, y, x, *, n: xp.sinc_derivative(x, n=n + 1),
    ulps=4.0, special=(0.0, 0.25, 0.48, 1.0), params=("n",), samples=FROM_ONE,
    summary="n-th derivative of sinc.",
)  # fmt: skip

"""Squares, roots, reciprocals and their slopes: each family is closed under differentiation.

A slope is a primitive of its own if the textbook form or its derivative cancels, overflows or loses the tail.
"""

from __future__ import annotations

import math

import numpy as np

from gtape.declare.conventions import AtPoints, minus_zero
from gtape.declare.domains import NONNEGATIVE, NONZERO, POSITIVE
from gtape.declare.primitives import elementwise
from gtape.kernels import complex_functions as complex_kernels
from gtape.kernels import elementary as k
from gtape.kernels import roots as roots
from gtape.kernels.derivative_orders import FROM_ONE, FROM_TWO

__all__: list[str] = []

_sqrt = math.sqrt
_AT_MINUS_ZERO = AtPoints(
    "-0", "sqrt(-0) = -0; 1/sqrt(-0) and its derivatives are those of 1/-0", "IEEE 754, 9.2.1",
    lambda p, by: minus_zero(p[0]),
)  # fmt: skip


square = elementwise(
    "square", np.square, lambda xp, y, x: 2 * x,
    scalar=lambda x: x * x, ints=True, ulps=0.5, special=(0.0,),
    summary="Square, x*x.", example=((3.0,), 9.0), complex=True,
    spelled=(("multiply", "X", "X"), ("pow", "X", 2)),
)  # fmt: skip
sqrt = elementwise(
    "sqrt", np.sqrt, lambda xp, y, x: xp.sqrt_slope(x),
    scalar=math.sqrt, domain=NONNEGATIVE, ulps=0.5, zero_absorbs=True, special=(0.0,),
    summary="Square root.", example=((4.0,), 2.0), complex=complex_kernels.sqrt,
    conventions=_AT_MINUS_ZERO,
    rewrites=(
        (("sqrt", ("square", "X")), "sqrt(x**2) is gtape.abs(x)", lambda xp, x: xp.abs(x)),
        (
            ("sqrt", ("sum", ("square", "X"))), "sqrt(sum(x**2)) is gtape.norm(x), whose gradient at 0 is 0",
            lambda xp, x, *, axis, keepdims: xp.norm(x, axis=axis, keepdims=keepdims),
        ),
        (
            ("sqrt", ("add", ("square", "X"), ("square", "Y"))), "sqrt(x**2 + y**2) is gtape.math.hypot(x, y)",
            lambda xp, x, y: xp.hypot(x, y),
        ),
        (
            ("sqrt", ("add", ("square", "X"), 1)), "sqrt(x**2 + 1) is gtape.math.hypot(x, 1)",
            lambda xp, x: xp.hypot(x, 1),
        ),
    ),
)  # fmt: skip
sqrt_slope = elementwise(
    "sqrt_slope", k.sqrt_slope, lambda xp, y, x: -y / (2 * x),
    scalar=lambda x: 0.5 / _sqrt(x), domain=POSITIVE, ulps=1.5, special=(0.0,),
    summary="Derivative of sqrt, 1 / (2 sqrt(x)).", complex=complex_kernels.sqrt_slope,
    conventions=_AT_MINUS_ZERO,
)  # fmt: skip
rsqrt = elementwise(
    "rsqrt", k.rsqrt, lambda xp, y, x: xp.rsqrt_derivative(x, n=1),
    scalar=lambda x: 1.0 / _sqrt(x), domain=POSITIVE, ulps=1.5, zero_absorbs=True, special=(0.0,),
    summary="Reciprocal square root, 1 / sqrt(x).", example=((4.0,), 0.5), complex=complex_kernels.rsqrt,
    conventions=_AT_MINUS_ZERO,
)  # fmt: skip
rsqrt_derivative = elementwise(
    "rsqrt_derivative", k.rsqrt_derivative, lambda xp, y, x, *, n: xp.rsqrt_derivative(x, n=n + 1),
    domain=POSITIVE, ulps=3.0, special=(0.0, 1.0), params=("n",), samples=FROM_ONE,
    summary="n-th derivative of 1 / sqrt(x).", complex=complex_kernels.rsqrt_derivative,
    conventions=_AT_MINUS_ZERO,
)  # fmt: skip
reciprocal = elementwise(
    "reciprocal", k.reciprocal, lambda xp, y, x: -xp.reciprocal_power(x, n=2),
    scalar=lambda x: 1.0 / x, domain=NONZERO, ulps=0.5, zero_absorbs=True, special=(0.0,),
    summary="Reciprocal, 1 / x.", example=((4.0,), 0.25), complex=complex_kernels.reciprocal,
)  # fmt: skip
cbrt = elementwise(
    "cbrt", k.cbrt, lambda xp, y, x: xp.cbrt_slope(x),
    ulps=1.0, special=(0.0,),
    summary="Cube root, also of negative numbers.", example=((-8.0,), -2.0),
    random=NONZERO,
)  # fmt: skip
cbrt_slope = elementwise(
    "cbrt_slope", k.cbrt_slope, lambda xp, y, x: xp.cbrt_derivative(x, n=2),
    domain=NONZERO, ulps=1.0, special=(0.0,),
    summary="Derivative of cbrt, x^(-2/3) / 3.",
)  # fmt: skip
cbrt_derivative = elementwise(
    "cbrt_derivative", roots.cbrt_derivative, lambda xp, y, x, *, n: xp.cbrt_derivative(x, n=n + 1),
    domain=NONZERO, ulps=1.5, special=(0.0,), params=("n",), samples=FROM_TWO,
    summary="n-th derivative of cbrt, for n >= 2.",
)  # fmt: skip

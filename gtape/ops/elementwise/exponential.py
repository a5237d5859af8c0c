"""Exponentials, logarithms and their slopes: each family is closed under differentiation.

A slope is a primitive of its own if the textbook form or its derivative cancels, overflows or loses the tail.
"""

from __future__ import annotations

import math

import numpy as np

from gtape.declare.conventions import AtPoints, minus_zero
from gtape.declare.domains import POSITIVE, Interval
from gtape.declare.primitives import elementwise
from gtape.kernels import complex_functions as complex_kernels
from gtape.kernels import elementary as k
from gtape.kernels import log_pairs
from gtape.kernels import roots as roots
from gtape.kernels.derivative_orders import FROM_ONE, FROM_TWO

__all__: list[str] = []

_ABOVE_MINUS_ONE = Interval(-1.0, open_lo=True)
_AT_MINUS_ZERO = AtPoints(
    "-0", "second derivatives of log2 and log10 are +inf", "a quotient by -0",
    lambda p, by: by is not None and minus_zero(p[0]),
)  # fmt: skip


def _log_slope_float(x: float) -> float:
    if x > 0.0:
        return 1.0 / x
    raise ValueError


exp = elementwise(
    "exp", np.exp, lambda xp, y, x: y,
    scalar=math.exp, ulps=2.6, special=(0.0, 709.78, -708.4, -745.1),
    summary="Exponential function.", example=((1.0,), 2.718281828459045), complex=complex_kernels.exp,
    rewrites=(
        (
            ("log", ("sum", ("exp", "X"))), "log(sum(exp(x))) is gtape.reduce_logsumexp(x)",
            lambda xp, x, *, axis, keepdims: xp.logsumexp(x, axis=axis, keepdims=keepdims),
        ),
        (
            ("log", ("add", 1, ("exp", "X"))), "log(1 + exp(x)) is gtape.math.softplus(x)",
            lambda xp, x: xp.softplus(x),
        ),
        (
            ("divide", ("exp", "X"), ("sum", ("exp", "X"))), "exp(x) / sum(exp(x)) is gtape.nn.softmax(x)",
            lambda xp, x, *, axis, keepdims: xp.exp(x - xp.logsumexp(x, axis=axis, keepdims=keepdims)),
        ),
        (
            ("divide", 1, ("add", 1, ("exp", "X"))), "1 / (1 + exp(-x)) is gtape.sigmoid(x)",
            lambda xp, x: xp.sigmoid(-x),
        ),
        (
            ("log", ("subtract", ("exp", "X"), 1)), "log(exp(x) - 1) is x + gtape.math.log(-gtape.math.expm1(-x))",
            lambda xp, x: x + xp.log(-xp.expm1(-x)),
        ),
        (
            ("divide", ("subtract", ("exp", "X"), ("exp", ("negative", "X"))),
             ("add", ("exp", "X"), ("exp", ("negative", "X")))),
            "(exp(x) - exp(-x)) / (exp(x) + exp(-x)) is gtape.tanh(x)", lambda xp, x: xp.tanh(x),
        ),
        (
            ("divide", ("subtract", ("exp", "X"), 1), ("add", ("exp", "X"), 1)),
            "(exp(x) - 1) / (exp(x) + 1) is gtape.tanh(x / 2)", lambda xp, x: xp.tanh(x / 2),
        ),
        (
            ("divide", ("subtract", 1, ("exp", "X")), ("add", 1, ("exp", "X"))),
            "(1 - exp(-x)) / (1 + exp(-x)) is gtape.tanh(x / 2)", lambda xp, x: xp.tanh(-x / 2),
        ),
        (
            ("subtract", ("exp", "X"), ("exp", ("negative", "X"))), "exp(x) - exp(-x) is 2 * gtape.sinh(x)",
            lambda xp, x: 2 * xp.sinh(x),
        ),
        (("subtract", ("exp", "X"), 1), "exp(x) - 1 is gtape.math.expm1(x)", lambda xp, x: xp.expm1(x)),
        (("subtract", 1, ("exp", "X")), "1 - exp(x) is -gtape.math.expm1(x)", lambda xp, x: -xp.expm1(x)),
    ),
)  # fmt: skip
expm1 = elementwise(
    "expm1", k.single_by_double(np.expm1), lambda xp, y, x: xp.exp(x),
    scalar=math.expm1, ulps=1.0, special=(0.0, 709.78),
    summary="exp(x) - 1, exact near 0.", example=((1.0,), 1.718281828459045), complex=complex_kernels.expm1,
)  # fmt: skip
exp2 = elementwise(
    "exp2", k.single_by_double(np.exp2), lambda xp, y, x: xp.exp2_derivative(x, n=1),
    scalar=math.exp2, ulps=1.0, special=(0.0, 1024.0, -1022.0, -1074.0),
    summary="Power of two, 2^x.", example=((3.0,), 8.0),
)  # fmt: skip
exp2_derivative = elementwise(
    "exp2_derivative", k.exp2_derivative, lambda xp, y, x, *, n: xp.exp2_derivative(x, n=n + 1),
    ulps=2.0, special=(0.0, 1024.0, -1022.0, -1074.0), params=("n",), samples=FROM_ONE,
    summary="n-th derivative of exp2, ln(2)^n 2^x.",
)  # fmt: skip
log = elementwise(
    "log", np.log, lambda xp, y, x: xp.log_slope(x),
    scalar=math.log, domain=POSITIVE, ulps=3.9, special=(0.0, 1.0),
    summary="Natural logarithm.", example=((2.0,), 0.6931471805599453), complex=complex_kernels.log,
    rewrites=(
        (("log", ("add", 1, "X")), "log(1 + x) is gtape.math.log1p(x)", lambda xp, x: xp.log1p(x)),
        (("log", ("subtract", 1, "X")), "log(1 - x) is gtape.math.log1p(-x)", lambda xp, x: xp.log1p(-x)),
    ),
)  # fmt: skip
log_slope = elementwise(
    "log_slope", k.log_slope, lambda xp, y, x: -(y * y),
    scalar=_log_slope_float, domain=POSITIVE, ulps=0.5, special=(0.0,),
    summary="Derivative of log: 1 / x for positive x, NaN for negative.", complex=complex_kernels.log_slope,
)  # fmt: skip
log_turns = elementwise(
    "log_turns", log_pairs.log_turns, lambda xp, y, x: xp.log_slope(x),
    domain=POSITIVE, ulps=3.0, special=(0.0, 1.0, 0.15915494309189535),
    summary="Logarithm of 2 pi x, with all digits of pi.",
)  # fmt: skip
log2 = elementwise(
    "log2", k.single_by_double(np.log2), lambda xp, y, x: xp.log2_slope(x),
    scalar=math.log2, domain=POSITIVE, ulps=1.0, special=(0.0, 1.0),
    summary="Logarithm to base 2.", example=((8.0,), 3.0),
)  # fmt: skip
log2_slope = elementwise(
    "log2_slope", k.log2_slope, lambda xp, y, x: -y / x,
    domain=POSITIVE, ulps=1.0, special=(0.0,),
    summary="Derivative of log2, 1 / (x ln 2); NaN for negative x.",
    conventions=_AT_MINUS_ZERO,
)  # fmt: skip
log10 = elementwise(
    "log10", k.single_by_double(np.log10), lambda xp, y, x: xp.log10_slope(x),
    scalar=math.log10, domain=POSITIVE, ulps=2.0, special=(0.0, 1.0),
    summary="Logarithm to base 10.", example=((1000.0,), 3.0),
)  # fmt: skip
log10_slope = elementwise(
    "log10_slope", k.log10_slope, lambda xp, y, x: -y / x,
    domain=POSITIVE, ulps=1.0, special=(0.0,),
    summary="Derivative of log10, 1 / (x ln 10); NaN for negative x.",
    conventions=_AT_MINUS_ZERO,
)  # fmt: skip
log1p = elementwise(
    "log1p", k.single_by_double(np.log1p), lambda xp, y, x: xp.log1p_slope(x),
    scalar=math.log1p, domain=_ABOVE_MINUS_ONE, ulps=1.5, special=(0.0, -1.0),
    summary="log(1 + x), exact near 0.", example=((1.0,), 0.6931471805599453), complex=complex_kernels.log1p,
)  # fmt: skip
log1p_slope = elementwise(
    "log1p_slope", k.log1p_slope, lambda xp, y, x: -xp.recip1p_power(x, n=2),
    domain=_ABOVE_MINUS_ONE, ulps=1.0, special=(0.0, -1.0),
    summary="Derivative of log1p, 1 / (1 + x); NaN below -1.", complex=complex_kernels.log1p_slope,
)  # fmt: skip
recip1p_power = elementwise(
    "recip1p_power", roots.recip1p_power, lambda xp, y, x, *, n: -n * xp.recip1p_power(x, n=n + 1),
    domain=_ABOVE_MINUS_ONE, ulps=1.0, special=(0.0, -1.0), params=("n",), samples=FROM_TWO,
    summary="(1 + x)^-n for x >= -1.", complex=complex_kernels.recip1p_power,
)  # fmt: skip

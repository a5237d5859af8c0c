"""The elementary functions and the slopes they need: each family is closed under differentiation.

A slope is a primitive of its own where the textbook form, or its derivative, would cancel, overflow or lose the tail.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.domains import NONNEGATIVE, NONZERO, POSITIVE, UNIT, Interval
from gtape.ops import circular_kernels as circular
from gtape.ops import complex_kernels
from gtape.ops import elementary_kernels as k
from gtape.ops import family_kernels as family
from gtape.ops import gauss_kernels as gauss
from gtape.ops import root_kernels as roots
from gtape.primitive import elementwise

__all__: list[str] = []

_exp, _sqrt, _cos = math.exp, math.sqrt, math.cos
ABOVE_MINUS_ONE = Interval(-1.0, open_lo=True)
ABOVE_ONE = Interval(1.0)
OPEN_UNIT = Interval(-1.0, 1.0, open_lo=True, open_hi=True)
OPEN_ABOVE_ONE = Interval(1.0, open_lo=True)
_ORDERS: Any = tuple((((5,),), {"n": n}) for n in (1, 2, 3))
_HIGHER: Any = tuple((((5,),), {"n": n}) for n in (2, 3, 4))
_POWERS: Any = tuple((((5,),), {"n": n, "k": k}) for n in (1, 2, 3) for k in (1, 2))

# powers -------------------------------------------------------------------------------------------------------------


def _log_slope_float(x: float) -> float:
    if x > 0.0:
        return 1.0 / x
    raise ValueError


square = elementwise(
    "square",
    np.square,
    lambda xp, y, x: 2 * x,
    scalar=lambda x: x * x,
    ints=True,
    ulps=0.5,
    special=(0.0,),
    summary="Square, x*x.",
    example=((3.0,), 9.0),
    complex=True,
)
sqrt = elementwise(
    "sqrt",
    np.sqrt,
    lambda xp, y, x: xp.sqrt_slope(x),
    scalar=_sqrt,
    domain=NONNEGATIVE,
    ulps=0.5,
    holds_zero=True,
    special=(0.0,),
    summary="Square root.",
    example=((4.0,), 2.0),
    complex=complex_kernels.sqrt,
)
sqrt_slope = elementwise(
    "sqrt_slope",
    k.sqrt_slope,
    lambda xp, y, x: -y / (2 * x),
    scalar=lambda x: 0.5 / _sqrt(x),
    domain=POSITIVE,
    ulps=1.5,
    special=(0.0,),
    summary="Derivative of sqrt, 1 / (2 sqrt(x)).",
    public=False,
    complex=complex_kernels.sqrt_slope,
)
rsqrt = elementwise(
    "rsqrt",
    k.rsqrt,
    lambda xp, y, x: -y / (2 * x),
    scalar=lambda x: 1.0 / _sqrt(x),
    domain=POSITIVE,
    ulps=1.5,
    holds_zero=True,
    special=(0.0,),
    summary="Reciprocal square root, 1 / sqrt(x).",
    example=((4.0,), 0.5),
    complex=complex_kernels.rsqrt,
)
reciprocal = elementwise(
    "reciprocal",
    k.reciprocal,
    lambda xp, y, x: -(y * y),
    scalar=lambda x: 1.0 / x,
    domain=NONZERO,
    ulps=0.5,
    holds_zero=True,
    special=(0.0,),
    summary="Reciprocal, 1 / x.",
    example=((4.0,), 0.25),
    complex=complex_kernels.reciprocal,
)
cbrt = elementwise(
    "cbrt",
    k.cbrt,
    lambda xp, y, x: xp.cbrt_slope(x),
    ulps=1.0,
    special=(0.0,),
    summary="Cube root, also of negative numbers.",
    example=((-8.0,), -2.0),
)
cbrt_slope = elementwise(
    "cbrt_slope",
    k.cbrt_slope,
    lambda xp, y, x: xp.cbrt_derivative(x, n=2),
    domain=NONZERO,
    ulps=1.0,
    special=(0.0,),
    summary="Derivative of cbrt, x^(-2/3) / 3.",
    public=False,
)
cbrt_derivative = elementwise(
    "cbrt_derivative",
    roots.cbrt_derivative,
    lambda xp, y, x, *, n: xp.cbrt_derivative(x, n=n + 1),
    domain=NONZERO,
    ulps=1.5,
    special=(0.0,),
    summary="n-th derivative of cbrt, for n >= 2.",
    params=("n",),
    samples=_HIGHER,
    public=False,
)

# exponentials and logarithms ----------------------------------------------------------------------------------------

exp = elementwise(
    "exp",
    np.exp,
    lambda xp, y, x: y,
    scalar=_exp,
    ulps=2.5,
    special=(0.0, 709.78, -708.4, -745.1),
    summary="Exponential function.",
    example=((1.0,), 2.718281828459045),
    complex=complex_kernels.exp,
)
expm1 = elementwise(
    "expm1",
    k.single_by_double(np.expm1),
    lambda xp, y, x: xp.exp(x),
    scalar=math.expm1,
    ulps=1.0,
    special=(0.0, 709.78),
    summary="exp(x) - 1, exact near 0.",
    example=((1.0,), 1.718281828459045),
    complex=complex_kernels.expm1,
)
exp2 = elementwise(
    "exp2",
    k.single_by_double(np.exp2),
    lambda xp, y, x: xp.exp2_derivative(x, n=1),
    scalar=math.exp2,
    ulps=1.0,
    special=(0.0, 1024.0, -1022.0, -1074.0),
    summary="Power of two, 2^x.",
    example=((3.0,), 8.0),
)
exp2_derivative = elementwise(
    "exp2_derivative",
    k.exp2_derivative,
    lambda xp, y, x, *, n: xp.exp2_derivative(x, n=n + 1),
    ulps=2.0,
    special=(0.0, 1024.0, -1022.0, -1074.0),
    summary="n-th derivative of exp2, ln(2)^n 2^x.",
    params=("n",),
    samples=_ORDERS,
    public=False,
)
log = elementwise(
    "log",
    np.log,
    lambda xp, y, x: xp.log_slope(x),
    scalar=math.log,
    domain=POSITIVE,
    ulps=3.0,
    special=(0.0, 1.0),
    summary="Natural logarithm.",
    example=((2.0,), 0.6931471805599453),
    complex=complex_kernels.log,
)
log_slope = elementwise(
    "log_slope",
    k.log_slope,
    lambda xp, y, x: -(y * y),
    scalar=_log_slope_float,
    domain=POSITIVE,
    ulps=0.5,
    special=(0.0,),
    summary="Derivative of log: 1 / x for positive x, NaN for negative.",
    public=False,
    complex=complex_kernels.log_slope,
)
log2 = elementwise(
    "log2",
    k.single_by_double(np.log2),
    lambda xp, y, x: xp.log2_slope(x),
    scalar=math.log2,
    domain=POSITIVE,
    ulps=1.0,
    special=(0.0, 1.0),
    summary="Logarithm to base 2.",
    example=((8.0,), 3.0),
)
log2_slope = elementwise(
    "log2_slope",
    k.log2_slope,
    lambda xp, y, x: -y / x,
    domain=POSITIVE,
    ulps=1.0,
    special=(0.0,),
    summary="Derivative of log2, 1 / (x ln 2); NaN for negative x.",
    public=False,
)
log10 = elementwise(
    "log10",
    k.single_by_double(np.log10),
    lambda xp, y, x: xp.log10_slope(x),
    scalar=math.log10,
    domain=POSITIVE,
    ulps=2.0,
    special=(0.0, 1.0),
    summary="Logarithm to base 10.",
    example=((1000.0,), 3.0),
)
log10_slope = elementwise(
    "log10_slope",
    k.log10_slope,
    lambda xp, y, x: -y / x,
    domain=POSITIVE,
    ulps=1.0,
    special=(0.0,),
    summary="Derivative of log10, 1 / (x ln 10); NaN for negative x.",
    public=False,
)
log1p = elementwise(
    "log1p",
    k.single_by_double(np.log1p),
    lambda xp, y, x: xp.log1p_slope(x),
    scalar=math.log1p,
    domain=ABOVE_MINUS_ONE,
    ulps=1.5,
    special=(0.0, -1.0),
    summary="log(1 + x), exact near 0.",
    example=((1.0,), 0.6931471805599453),
    complex=complex_kernels.log1p,
)
log1p_slope = elementwise(
    "log1p_slope",
    k.log1p_slope,
    lambda xp, y, x: -xp.recip1p_power(x, n=2),
    domain=ABOVE_MINUS_ONE,
    ulps=1.0,
    special=(0.0, -1.0),
    summary="Derivative of log1p, 1 / (1 + x); NaN below -1.",
    public=False,
    complex=complex_kernels.log1p_slope,
)
recip1p_power = elementwise(
    "recip1p_power",
    roots.recip1p_power,
    lambda xp, y, x, *, n: -n * xp.recip1p_power(x, n=n + 1),
    domain=ABOVE_MINUS_ONE,
    ulps=1.0,
    special=(0.0, -1.0),
    summary="(1 + x)^-n for x >= -1.",
    params=("n",),
    samples=_HIGHER,
    public=False,
    complex=complex_kernels.recip1p_power,
)

# circular functions and their inverses ------------------------------------------------------------------------------

_HALF_PI = 1.5707963267948966
sin = elementwise(
    "sin",
    np.sin,
    lambda xp, y, x: xp.cos(x),
    scalar=math.sin,
    ulps=1.5,
    special=(0.0, _HALF_PI, math.pi, 2 * math.pi),
    summary="Sine of an angle in radians.",
    example=((1.0,), 0.8414709848078965),
    complex=complex_kernels.sin,
)
cos = elementwise(
    "cos",
    np.cos,
    lambda xp, y, x: -xp.sin(x),
    scalar=_cos,
    ulps=1.5,
    special=(0.0, _HALF_PI, math.pi, 3 * _HALF_PI),
    summary="Cosine of an angle in radians.",
    example=((1.0,), 0.5403023058681398),
    complex=complex_kernels.cos,
)
tan = elementwise(
    "tan",
    k.single_by_double(np.tan),
    lambda xp, y, x: xp.sec2(x),
    scalar=math.tan,
    ulps=1.5,
    special=(0.0, _HALF_PI, math.pi, 3 * _HALF_PI),
    summary="Tangent of an angle in radians.",
    example=((1.0,), 1.5574077246549023),
    complex=complex_kernels.tan,
)


def _sec2_float(x: float) -> float:
    c = _cos(x)
    return 1.0 / (c * c)


sec2 = elementwise(
    "sec2",
    k.sec2,
    lambda xp, y, x: xp.tan_derivative(x, n=2),
    scalar=_sec2_float,
    ulps=3.0,
    special=(0.0, _HALF_PI, math.pi, 3 * _HALF_PI),
    summary="Derivative of tan, 1 / cos²(x).",
    public=False,
    complex=complex_kernels.sec2,
)
tan_derivative = elementwise(
    "tan_derivative",
    circular.tan_derivative,
    lambda xp, y, x, *, n: xp.tan_derivative(x, n=n + 1),
    ulps=1.0,
    special=(0.0, _HALF_PI, math.pi, 3 * _HALF_PI),
    summary="n-th derivative of tan.",
    params=("n",),
    samples=_HIGHER,
    public=False,
    complex=complex_kernels.tan_derivative,
)
asin = elementwise(
    "asin",
    k.single_by_double(np.arcsin),
    lambda xp, y, x: xp.rsqrt1m2(x),
    scalar=math.asin,
    domain=UNIT,
    ulps=1.0,
    special=(0.0, -1.0, 1.0, 0.5, -0.5),
    summary="Inverse sine, in [-pi/2, pi/2].",
    example=((1.0,), 1.5707963267948966),
    complex=complex_kernels.asin,
)
acos = elementwise(
    "acos",
    k.single_by_double(np.arccos),
    lambda xp, y, x: -xp.rsqrt1m2(x),
    scalar=math.acos,
    domain=UNIT,
    ulps=1.0,
    special=(0.0, -1.0, 1.0, 0.5, -0.5),
    summary="Inverse cosine, in [0, pi].",
    example=((0.0,), 1.5707963267948966),
    complex=complex_kernels.acos,
)
rsqrt1m2 = elementwise(
    "rsqrt1m2",
    k.rsqrt1m2,
    lambda xp, y, x: xp.inner_power_derivative(x, n=1, k=1),
    domain=OPEN_UNIT,
    ulps=1.0,
    special=(0.0, -1.0, 1.0),
    summary="Derivative of asin, 1 / sqrt(1 - x²).",
    public=False,
    complex=complex_kernels.rsqrt1m2,
)
inner_power_derivative = elementwise(
    "inner_power_derivative",
    roots.inner_power_derivative,
    lambda xp, y, x, *, n, k: xp.inner_power_derivative(x, n=n + 1, k=k),
    domain=OPEN_UNIT,
    ulps=3.5,
    special=(0.0, -1.0, 1.0),
    summary="n-th derivative of (1 - x²)^(-k/2) inside [-1, 1], k = 1 or 2.",
    params=("n", "k"),
    samples=_POWERS,
    public=False,
    complex=complex_kernels.inner_power_derivative,
)
atan = elementwise(
    "atan",
    k.single_by_double(np.arctan),
    lambda xp, y, x: xp.recip1p2(x),
    scalar=math.atan,
    ulps=1.0,
    special=(0.0, -1.0, 1.0),
    summary="Inverse tangent, in [-pi/2, pi/2].",
    example=((1.0,), 0.7853981633974483),
    complex=complex_kernels.atan,
)
recip1p2 = elementwise(
    "recip1p2",
    k.recip1p2,
    lambda xp, y, x: xp.bent_power_derivative(x, n=1, k=2),
    ulps=1.5,
    special=(0.0, -1.0, 1.0, 1e15, -1e15),
    summary="Derivative of atan, 1 / (1 + x²).",
    public=False,
    complex=complex_kernels.recip1p2,
)
bent_power_derivative = elementwise(
    "bent_power_derivative",
    roots.bent_power_derivative,
    lambda xp, y, x, *, n, k: xp.bent_power_derivative(x, n=n + 1, k=k),
    ulps=3.5,
    special=(0.0, -1.0, 1.0, 2.0, 1e15, -1e15),
    summary="n-th derivative of (1 + x²)^(-k/2), k = 1 or 2.",
    params=("n", "k"),
    samples=_POWERS,
    public=False,
    complex=complex_kernels.bent_power_derivative,
)

# hyperbolic functions and their inverses ----------------------------------------------------------------------------


def _sech2_float(x: float) -> float:
    e = _exp(-2.0 * abs(x))
    if e < 1e-290:  # 4e would come from a subnormal e; the denominator is 1 here
        h = _exp(-abs(x))
        return 4.0 * h * h
    return 4.0 * e / (1.0 + e * (2.0 + e))


sinh = elementwise(
    "sinh",
    k.single_by_double(np.sinh),
    lambda xp, y, x: xp.cosh(x),
    scalar=math.sinh,
    ulps=2.0,
    special=(0.0, 1.0, -1.0, 22.0, 710.47),
    summary="Hyperbolic sine.",
    example=((1.0,), 1.1752011936438014),
    complex=complex_kernels.sinh,
)
cosh = elementwise(
    "cosh",
    k.single_by_double(np.cosh),
    lambda xp, y, x: xp.sinh(x),
    scalar=math.cosh,
    ulps=1.5,
    special=(0.0, 1.0, -1.0, 22.0, 710.47),
    summary="Hyperbolic cosine.",
    example=((0.0,), 1.0),
    complex=complex_kernels.cosh,
)
tanh = elementwise(
    "tanh",
    np.tanh,
    lambda xp, y, x: xp.sech2(x),
    scalar=math.tanh,
    ulps=2.0,
    special=(0.0, 1.0, -1.0, 22.0, -22.0),
    summary="Hyperbolic tangent.",
    example=((1.0,), 0.7615941559557649),
    complex=complex_kernels.tanh,
)
sech2 = elementwise(
    "sech2",
    k.sech2,
    lambda xp, y, x: xp.tanh_curve(x),
    scalar=_sech2_float,
    ulps=3.5,
    special=(0.0, 300.0, -300.0, 354.2, 372.5),
    summary="Derivative of tanh, 1 / cosh²(x).",
    public=False,
    complex=complex_kernels.sech2,
)
tanh_curve = elementwise(
    "tanh_curve",
    k.tanh_curve,
    lambda xp, y, x: xp.tanh_derivative(x, n=3),
    scalar=lambda x: -2.0 * _sech2_float(x) * math.tanh(x),
    ulps=3.0,
    special=(0.0, 300.0, -300.0, 354.2, 372.5),
    summary="Second derivative of tanh, -2 tanh(x) / cosh²(x).",
    public=False,
    complex=complex_kernels.tanh_curve,
)
tanh_derivative = elementwise(
    "tanh_derivative",
    family.tanh_derivative,
    lambda xp, y, x, *, n: xp.tanh_derivative(x, n=n + 1),
    ulps=1.0,
    special=(0.0, 0.6584789484624084, -0.6584789484624084, 300.0, 354.2, 372.5),
    summary="n-th derivative of tanh.",
    params=("n",),
    samples=_HIGHER,
    public=False,
    complex=complex_kernels.tanh_derivative,
)
asinh = elementwise(
    "asinh",
    k.single_by_double(np.arcsinh),
    lambda xp, y, x: xp.rsqrt1p2(x),
    scalar=math.asinh,
    ulps=2.0,
    special=(0.0, 2.0, -2.0),
    summary="Inverse hyperbolic sine.",
    example=((1.0,), 0.881373587019543),
    complex=complex_kernels.asinh,
)
rsqrt1p2 = elementwise(
    "rsqrt1p2",
    k.rsqrt1p2,
    lambda xp, y, x: xp.bent_power_derivative(x, n=1, k=1),
    ulps=1.0,
    special=(0.0, -1.0, 1.0, 1e15, -1e15),
    summary="Derivative of asinh, 1 / sqrt(1 + x²).",
    public=False,
    complex=complex_kernels.rsqrt1p2,
)
acosh = elementwise(
    "acosh",
    k.single_by_double(np.arccosh),
    lambda xp, y, x: xp.acosh_slope(x),
    scalar=math.acosh,
    domain=ABOVE_ONE,
    ulps=2.0,
    special=(1.0, 2.0),
    summary="Inverse hyperbolic cosine, for x >= 1.",
    example=((2.0,), 1.3169578969248166),
    complex=complex_kernels.acosh,
)
acosh_slope = elementwise(
    "acosh_slope",
    k.acosh_slope,
    lambda xp, y, x: xp.steep_power_derivative(x, n=1, k=1),
    domain=OPEN_ABOVE_ONE,
    ulps=1.0,
    special=(1.0, 1e15),
    summary="Derivative of acosh, 1 / sqrt(x² - 1) for x >= 1.",
    public=False,
    complex=complex_kernels.acosh_slope,
)
steep_power_derivative = elementwise(
    "steep_power_derivative",
    roots.steep_power_derivative,
    lambda xp, y, x, *, n, k: xp.steep_power_derivative(x, n=n + 1, k=k),
    domain=OPEN_ABOVE_ONE,
    ulps=1.0,
    special=(1.0, 2.0, 1e15),
    summary="n-th derivative of (x² - 1)^(-k/2) for x >= 1, k = 1 or 2.",
    params=("n", "k"),
    samples=_POWERS,
    public=False,
    complex=complex_kernels.steep_power_derivative,
)
atanh = elementwise(
    "atanh",
    k.single_by_double(np.arctanh),
    lambda xp, y, x: xp.recip1m2(x),
    scalar=math.atanh,
    domain=UNIT,
    ulps=2.0,
    special=(0.0, -1.0, 1.0, 0.5, -0.5),
    summary="Inverse hyperbolic tangent, inside [-1, 1].",
    example=((0.5,), 0.5493061443340548),
    complex=complex_kernels.atanh,
)
recip1m2 = elementwise(
    "recip1m2",
    k.recip1m2,
    lambda xp, y, x: xp.inner_power_derivative(x, n=1, k=2),
    domain=OPEN_UNIT,
    ulps=1.0,
    special=(0.0, -1.0, 1.0),
    summary="Derivative of atanh, 1 / (1 - x²) inside [-1, 1].",
    public=False,
    complex=complex_kernels.recip1m2,
)

# sinc and the error function ----------------------------------------------------------------------------------------

sinc = elementwise(
    "sinc",
    k.sinc,
    lambda xp, y, x: xp.sinc_derivative(x, n=1),
    ulps=3.0,
    special=(0.0, 1.0, -1.0, 2.0, 0.5),
    summary="Normalised sinc, sin(pi x) / (pi x), and 1 at 0.",
    example=((0.5,), 0.6366197723675814),
)
sinc_derivative = elementwise(
    "sinc_derivative",
    circular.sinc_derivative,
    lambda xp, y, x, *, n: xp.sinc_derivative(x, n=n + 1),
    ulps=4.0,
    special=(0.0, 0.25, 0.48, 1.0),
    summary="n-th derivative of sinc.",
    params=("n",),
    samples=_ORDERS,
    public=False,
)
erf = elementwise(
    "erf",
    gauss.erf,
    lambda xp, y, x: xp.erf_derivative(x, n=1),
    scalar=math.erf,
    ulps=3.0,
    special=(0.0, 0.84375, 1.0, 1.25, 6.0),
    summary="Error function, 2/sqrt(pi) times the integral of exp(-t²) from 0 to x.",
    example=((0.5,), 0.5204998778130465),
)
erfc = elementwise(
    "erfc",
    gauss.erfc,
    lambda xp, y, x: -xp.erf_derivative(x, n=1),
    ulps=3.5,
    special=(0.0, 0.5, 26.5, 27.2),
    summary="Complementary error function, 1 - erf(x), exact in the tail.",
    example=((10.0,), 2.088487583762545e-45),
)
erf_derivative = elementwise(
    "erf_derivative",
    gauss.erf_derivative,
    lambda xp, y, x, *, n: xp.erf_derivative(x, n=n + 1),
    ulps=3.0,
    special=(0.0, 26.6, 27.2, -26.6, -27.2),
    summary="n-th derivative of erf: 2/sqrt(pi) exp(-x²) times a Hermite polynomial.",
    params=("n",),
    samples=_ORDERS,
    public=False,
)

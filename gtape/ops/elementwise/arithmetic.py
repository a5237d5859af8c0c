"""Arithmetic on two operands, powers and plane geometry, with the slopes that close each family."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gtape.declare.conventions import NO_REMAINDER, NOT_TAKEN, ZERO_AT_ZERO, AtPoints, minus_zero
from gtape.declare.domains import ANY_REAL, NONZERO, POSITIVE, Domain, Interval
from gtape.declare.primitives import elementwise
from gtape.declare.rounding import ulps
from gtape.kernels import arithmetic as k
from gtape.kernels import complex_functions as complex_kernels
from gtape.kernels import plane as plane
from gtape.kernels import powers as powers
from gtape.kernels import slope_families as family
from gtape.kernels.elementary import single_by_double

__all__ = [
    "add", "atan2", "divide", "divide_no_nan", "floormod", "hypot", "logaddexp", "multiply", "multiply_no_nan",
    "negative", "pow", "reciprocal_no_nan", "squared_difference", "subtract", "xdivy", "xlog1py", "xlogy",
]  # fmt: skip

_NOT_ORIGIN = Domain(ANY_REAL, ANY_REAL, where=lambda a, b: a != 0 or b != 0)
_DIVISOR = Domain(ANY_REAL, NONZERO)

_FACTOR_0 = AtPoints("x infinite or NaN, y = 0", "0; derivative by y 0", "what the op is for", lambda p, by: p[1] == 0)
_X_IS_0 = AtPoints("x = 0", "0, whatever y is; derivatives 0", "what the ops are for", lambda p, by: p[0] == 0)
_FAR_AWAY = (
    AtPoints(
        "one argument is infinite, the other NaN", "infinity", "C99, F.9.4.3",
        lambda p, by: by is None and any(map(math.isinf, p)),
    ),
    AtPoints(
        "both arguments are infinite", "derivatives ±1/√2", "as for atan2: they tend to infinity together",
        lambda p, by: by is not None and all(map(math.isinf, p)),
    ),
)  # fmt: skip
_POWERS = AtPoints(
    "1 to the power NaN, NaN to the power 0, negative infinity, ±0 to an infinite power",
    "1; 1; as the C standard says", "C99, F.9.4.4: even where a limit depends on the way",
    lambda p, by: by is None and (p[0] in (1, -math.inf) or p[1] == 0 or (p[0] == 0 and math.isinf(p[1]))),
)  # fmt: skip
_NEGATIVE_POWERS = AtPoints(
    "-0; negative infinity", "derivatives as the powers of x in their formulas", "C99, F.9.4.4, for them, too",
    lambda p, by: minus_zero(p[0]) or p[0] == -math.inf,
)  # fmt: skip
_POWERS_AT_0 = AtPoints(
    "x = 0", "derivatives from the right", "only there they are powers", lambda p, by: by is not None and p[0] == 0
)

# ---------------------------------------------------------------------------------------------- sums and products

negative = elementwise(
    "negative", np.negative, -1,
    scalar=operator.neg, ints=True, ulps=0.5,
    summary="Negation, -x.", example=((1.5,), -1.5), complex=True,
)  # fmt: skip

add = elementwise(
    "add", np.add, (1, 1),
    scalar=operator.add, infix="+", ints=True, takes=("string",), ulps=0.5,
    summary="Sum, x + y.", example=((1.5, 2.0), 3.5), complex=True,
    role="commutative",
)  # fmt: skip

subtract = elementwise(
    "subtract", np.subtract, (1, -1),
    scalar=operator.sub, infix="-", ints=True, ulps=0.5,
    summary="Difference, x - y.", example=((1.5, 2.0), -0.5), complex=True,
)  # fmt: skip

multiply = elementwise(
    "multiply", np.multiply, (lambda xp, y, a, b: b, lambda xp, y, a, b: a),
    scalar=operator.mul, infix="*", ints=True, ulps=0.5,
    summary="Product, x * y.", example=((1.5, 2.0), 3.0), complex=True,
    role=("commutative", "product"),
    linear_in=(0, 1),
)  # fmt: skip

squared_difference = elementwise(
    "squared_difference", k.squared_difference, (lambda xp, y, a, b: 2 * (a - b), lambda xp, y, a, b: -2 * (a - b)),
    ints=True, ulps=2.0,
    summary="Squared difference, (x - y)**2.", example=((5.0, 2.0), 9.0), complex="squared_distance",
)  # fmt: skip

multiply_no_nan_dy = elementwise(
    "multiply_no_nan_dy", k.multiply_no_nan_dy, (1, 0),
    ulps=0.5,
    summary="Slope of multiply_no_nan by its second operand.", complex=complex_kernels.multiply_no_nan_dy,
    conventions=_FACTOR_0,
)  # fmt: skip

multiply_no_nan = elementwise(
    "multiply_no_nan", k.multiply_no_nan, (lambda xp, y, a, b: b, lambda xp, y, a, b: xp.multiply_no_nan_dy(a, b)),
    special=(0.0,), ulps=0.5,
    summary="Product, and 0 where y is 0 even if x is infinite or NaN.", example=((1.5, 2.0), 3.0),
    complex=complex_kernels.multiply_no_nan, conventions=(_FACTOR_0, ZERO_AT_ZERO, NOT_TAKEN),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- quotients

reciprocal_power = elementwise(
    "reciprocal_power", k.reciprocal_power, lambda xp, y, x, *, n: -n * xp.reciprocal_power(x, n=n + 1),
    params=("n",), domain=NONZERO, special=(0.0, 1.0), ulps=3.0,
    summary="x**-n for a whole n > 0.", complex=complex_kernels.reciprocal_power,
)  # fmt: skip

divide_power = elementwise(
    "divide_power", k.divide_power,
    (
        lambda xp, y, a, b, *, n: xp.reciprocal_power(b, n=n),
        lambda xp, y, a, b, *, n: -n * xp.divide_power(a, b, n=n + 1),
    ),
    params=("n",), domain=_DIVISOR, special=(0.0, 1.0), ulps=3.0,
    summary="x / y**n for a whole n > 0.", complex=complex_kernels.divide_power,
)  # fmt: skip

divide = elementwise(
    "divide", np.divide,
    (lambda xp, y, a, b: xp.reciprocal_power(b, n=1), lambda xp, y, a, b: -xp.divide_power(a, b, n=2)),
    scalar=operator.truediv, domain=_DIVISOR, special=(0.0, 1.0), ulps=0.5, promotes=True,
    summary="Quotient, x / y.", example=((3.0, 2.0), 1.5), complex=complex_kernels.divide,
    linear_in=(0,),
)  # fmt: skip

reciprocal_power_no_nan = elementwise(
    "reciprocal_power_no_nan", k.reciprocal_power_no_nan,
    lambda xp, y, x, *, n: -n * xp.reciprocal_power_no_nan(x, n=n + 1),
    params=("n",), kinks=(0.0,), special=(0.0, 1.0), ulps=3.0,
    summary="x**-n for a whole n > 0, and 0 at 0.", complex=complex_kernels.reciprocal_power_no_nan,
    conventions=ZERO_AT_ZERO,
)  # fmt: skip

reciprocal_no_nan = elementwise(
    "reciprocal_no_nan", k.reciprocal_no_nan, lambda xp, y, x: -xp.reciprocal_power_no_nan(x, n=2),
    kinks=(0.0,), special=(0.0, 1.0), ulps=0.5,
    summary="Reciprocal, and 0 at 0; the slope at 0 is 0.", example=((4.0,), 0.25),
    complex=complex_kernels.reciprocal_no_nan, conventions=ZERO_AT_ZERO,
)  # fmt: skip

divide_power_no_nan = elementwise(
    "divide_power_no_nan", k.divide_power_no_nan,
    (
        lambda xp, y, a, b, *, n: xp.reciprocal_power_no_nan(b, n=n),
        lambda xp, y, a, b, *, n: -n * xp.divide_power_no_nan(a, b, n=n + 1),
    ),
    params=("n",), kinks=("y == 0",), special=(0.0, 1.0), ulps=3.0,
    summary="x / y**n for a whole n > 0, and 0 where y is 0.", complex=complex_kernels.divide_power_no_nan,
    conventions=ZERO_AT_ZERO,
)  # fmt: skip

divide_no_nan = elementwise(
    "divide_no_nan", k.divide_no_nan,
    (
        lambda xp, y, a, b: xp.reciprocal_power_no_nan(b, n=1),
        lambda xp, y, a, b: -xp.divide_power_no_nan(a, b, n=2),
    ),
    kinks=("y == 0",), special=(0.0, 1.0), ulps=0.5, promotes=True,
    summary="Quotient, and 0 where y is 0; the slopes there are 0.", example=((3.0, 2.0), 1.5),
    complex=complex_kernels.divide_no_nan, conventions=ZERO_AT_ZERO,
)  # fmt: skip

xdivy_dx = elementwise(
    "xdivy_dx", k.xdivy_dx, (None, lambda xp, y, a, b, *, n: -n * xp.xdivy_dx(a, b, n=n + 1)),
    params=("n",), domain=_DIVISOR, kinks=("x == y == 0",), special=(0.0, 1.0), ulps=3.0,
    summary="y**-n for a whole n > 0, and 0 where x and y are 0.", complex=complex_kernels.xdivy_dx,
)  # fmt: skip

xdivy_power = elementwise(
    "xdivy_power", k.xdivy_power,
    (
        lambda xp, y, a, b, *, n: xp.xdivy_dx(a, b, n=n),
        lambda xp, y, a, b, *, n: -n * xp.xdivy_power(a, b, n=n + 1),
    ),
    params=("n",), domain=_DIVISOR, kinks=("x == y == 0",), special=(0.0, 1.0), ulps=3.0,
    summary="x / y**n for a whole n > 0, and 0 where x is 0.", complex=complex_kernels.xdivy_power,
)  # fmt: skip

xdivy = elementwise(
    "xdivy", k.xdivy, (lambda xp, y, a, b: xp.xdivy_dx(a, b, n=1), lambda xp, y, a, b: -xp.xdivy_power(a, b, n=2)),
    domain=_DIVISOR, kinks=("x == y == 0",), special=(0.0, 1.0), ulps=0.5,
    summary="Quotient, and 0 where x is 0.", example=((3.0, 2.0), 1.5), complex=complex_kernels.xdivy,
    conventions=(_X_IS_0, ZERO_AT_ZERO),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- x log y

_XLOGY = Domain(ANY_REAL, POSITIVE)
_XLOG1PY = Domain(ANY_REAL, Interval(-1.0, open_lo=True))

xlogy_dxdy = elementwise(
    "xlogy_dxdy", k.xlogy_dxdy, (None, lambda xp, y, a, b, *, n: -n * xp.xlogy_dxdy(a, b, n=n + 1)),
    params=("n",), domain=_XLOGY, kinks=("x == 0 and y <= 0",), special=(0.0, 1.0), ulps=3.0,
    summary="y**-n for a whole n > 0, and 0 where x is 0 and y <= 0.", complex=complex_kernels.xlogy_dxdy,
)  # fmt: skip

xlogy_dx = elementwise(
    "xlogy_dx", k.xlogy_dx, (None, lambda xp, y, a, b: xp.xlogy_dxdy(a, b, n=1)),
    domain=_XLOGY, kinks=("x == 0 and y <= 0",), special=(0.0, 1.0), ulps=1.0,
    summary="Slope of xlogy by x: log(y).", complex=complex_kernels.xlogy_dx,
)  # fmt: skip

xlogy_dy = elementwise(
    "xlogy_dy", k.xlogy_dy,
    (lambda xp, y, a, b, *, n: xp.xlogy_dxdy(a, b, n=n), lambda xp, y, a, b, *, n: -n * xp.xlogy_dy(a, b, n=n + 1)),
    params=("n",), domain=_XLOGY, kinks=("x == 0 and y <= 0",), special=(0.0, 1.0), ulps=3.0,
    summary="x / y**n for a whole n > 0, and 0 where x is 0 and y <= 0.", complex=complex_kernels.xlogy_dy,
)  # fmt: skip

xlogy = elementwise(
    "xlogy", k.xlogy, (lambda xp, y, a, b: xp.xlogy_dx(a, b), lambda xp, y, a, b: xp.xlogy_dy(a, b, n=1)),
    domain=_XLOGY, kinks=("x == 0 and y <= 0",), special=(0.0, 1.0), ulps=2.0,
    summary="x * log(y), and 0 where x is 0.", example=((2.0, 3.0), 2.1972245773362196), complex=complex_kernels.xlogy,
    conventions=(_X_IS_0, ZERO_AT_ZERO),
)  # fmt: skip

xlog1py_dxdy = elementwise(
    "xlog1py_dxdy", k.xlog1py_dxdy, (None, lambda xp, y, a, b, *, n: -n * xp.xlog1py_dxdy(a, b, n=n + 1)),
    params=("n",), domain=_XLOG1PY, kinks=("x == 0 and y <= -1",), special=(0.0, -1.0), ulps=3.0,
    summary="(1 + y)**-n for a whole n > 0, and 0 where x is 0 and y <= -1.", complex=complex_kernels.xlog1py_dxdy,
)  # fmt: skip

xlog1py_dx = elementwise(
    "xlog1py_dx", k.xlog1py_dx, (None, lambda xp, y, a, b: xp.xlog1py_dxdy(a, b, n=1)),
    domain=_XLOG1PY, kinks=("x == 0 and y <= -1",), special=(0.0, -1.0), ulps=1.0,
    summary="Slope of xlog1py by x: log(1 + y).", complex=complex_kernels.xlog1py_dx,
)  # fmt: skip

xlog1py_dy = elementwise(
    "xlog1py_dy", k.xlog1py_dy,
    (lambda xp, y, a, b, *, n: xp.xlog1py_dxdy(a, b, n=n), lambda xp, y, a, b, *, n: -n * xp.xlog1py_dy(a, b, n=n + 1)),
    params=("n",), domain=_XLOG1PY, kinks=("x == 0 and y <= -1",), special=(0.0, -1.0), ulps=3.0,
    summary="x / (1 + y)**n for a whole n > 0, and 0 where x is 0 and y <= -1.", complex=complex_kernels.xlog1py_dy,
)  # fmt: skip

xlog1py = elementwise(
    "xlog1py", k.xlog1py, (lambda xp, y, a, b: xp.xlog1py_dx(a, b), lambda xp, y, a, b: xp.xlog1py_dy(a, b, n=1)),
    domain=_XLOG1PY, kinks=("x == 0 and y <= -1",), special=(0.0, -1.0), ulps=2.0,
    summary="x * log(1 + y), and 0 where x is 0.", example=((2.0, 3.0), 2.772588722239781),
    complex=complex_kernels.xlog1py, conventions=(_X_IS_0, ZERO_AT_ZERO),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- floormod

floormod_dx = elementwise(
    "floormod_dx", k.floormod_dx, (None, None),
    domain=_DIVISOR, ulps=0.5,
    summary="Slope of floormod by x: 1 where it is defined.",
    conventions=NO_REMAINDER,
)  # fmt: skip

floormod_dy = elementwise(
    "floormod_dy", k.floormod_dy, (None, None),
    domain=_DIVISOR, kinks=("x / y whole",), ulps=2.0,
    summary="Slope of floormod by y: -floor(x / y).",
    conventions=NO_REMAINDER,
)  # fmt: skip

floormod = elementwise(
    "floormod", k.floormod, (lambda xp, y, a, b: xp.floormod_dx(a, b), lambda xp, y, a, b: xp.floormod_dy(a, b)),
    domain=_DIVISOR, kinks=("x / y whole",), ints=True, ulps=0.5,
    summary="Remainder with the sign of y, x - y * floor(x / y).", example=((7.5, 2.0), 1.5),
    conventions=NO_REMAINDER, random=False,
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- logaddexp

tanh_half_difference = elementwise(
    "tanh_half_difference", k.tanh_half_difference,
    (
        lambda xp, y, a, b: 2 * xp.sigmoid_slope_difference(a, b),
        lambda xp, y, a, b: -2 * xp.sigmoid_slope_difference(a, b),
    ),
    special=(0.0,), ulps=2.0,
    summary="tanh((x - y) / 2).",
)  # fmt: skip

sigmoid_difference_derivative = elementwise(
    "sigmoid_difference_derivative", family.sigmoid_difference_derivative,
    (
        lambda xp, y, a, b, *, n: xp.sigmoid_difference_derivative(a, b, n=n + 1),
        lambda xp, y, a, b, *, n: -xp.sigmoid_difference_derivative(a, b, n=n + 1),
    ),
    params=("n",), special=(0.0,), ulps=1.0,
    summary="n-th derivative of sigmoid at x - y, for n >= 2.",
)  # fmt: skip

sigmoid_slope_difference = elementwise(
    "sigmoid_slope_difference", k.sigmoid_slope_difference,
    (
        lambda xp, y, a, b: xp.sigmoid_difference_derivative(a, b, n=2),
        lambda xp, y, a, b: -xp.sigmoid_difference_derivative(a, b, n=2),
    ),
    special=(0.0,), ulps=3.0,
    summary="sigmoid'(x - y).",
)  # fmt: skip

sigmoid_difference = elementwise(
    "sigmoid_difference", k.sigmoid_difference,
    (
        lambda xp, y, a, b: xp.sigmoid_slope_difference(a, b),
        lambda xp, y, a, b: -xp.sigmoid_slope_difference(a, b),
    ),
    special=(0.0,), ulps=2.5,
    summary="sigmoid(x - y).",
)  # fmt: skip

logaddexp = elementwise(
    "logaddexp", k.logaddexp,
    (lambda xp, y, a, b: xp.sigmoid_difference(a, b), lambda xp, y, a, b: xp.sigmoid_difference(b, a)),
    special=(0.0,), rounding=ulps(2, noise=k.logaddexp_cancelled),
    summary="log(exp(x) + exp(y)), without overflow.", example=((0.0, 0.0), 0.6931471805599453),
    conventions=(
        AtPoints("-inf and -0", "+0", "log(1) is +0", lambda p, by: by is None and any(map(minus_zero, p))),
        AtPoints(
            "the same infinity twice", "derivatives 1/2", "the limit along equal arguments",
            lambda p, by: by is not None and math.isinf(p[0]) and p[0] == p[1],
        ),
    ),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- plane geometry

inverse_real = elementwise(
    "inverse_real", plane.inverse_real,
    (
        lambda xp, y, b, a, *, n: n * xp.inverse_imag(b, a, n=n + 1),
        lambda xp, y, b, a, *, n: -n * xp.inverse_real(b, a, n=n + 1),
    ),
    params=("n",), domain=_NOT_ORIGIN, special=(0.0, 1.0), ulps=2.5,
    summary="Real part of (x + iy)**-n for a whole n > 0, of y and x.",
)  # fmt: skip

inverse_imag = elementwise(
    "inverse_imag", plane.inverse_imag,
    (
        lambda xp, y, b, a, *, n: -n * xp.inverse_real(b, a, n=n + 1),
        lambda xp, y, b, a, *, n: -n * xp.inverse_imag(b, a, n=n + 1),
    ),
    params=("n",), domain=_NOT_ORIGIN, special=(0.0, 1.0), ulps=2.5,
    summary="Imaginary part of (x + iy)**-n for a whole n > 0, of y and x.",
)  # fmt: skip

# arctan(y/x) is the imaginary part of log(x + iy), and the derivative of log z is 1/z: all orders are powers of 1/z.
atan2 = elementwise(
    "atan2", single_by_double(np.arctan2),
    (lambda xp, y, b, a: xp.inverse_real(b, a, n=1), lambda xp, y, b, a: xp.inverse_imag(b, a, n=1)),
    scalar=math.atan2, domain=_NOT_ORIGIN, kinks=("y == 0 and x < 0",), special=(0.0, 1.0), ulps=1.5,
    arguments=("y", "x"), summary="Angle of the point (x, y), in (-pi, pi]; y comes first.",
    example=((1.0, 1.0), 0.7853981633974483),
    conventions=AtPoints(
        "both arguments are infinite or zero",
        "a multiple of π/4 or π, as the C standard says; derivatives NaN at 0", "C99, F.9.1.4",
        lambda p, by: all(math.isinf(v) or v == 0 for v in p),
    ),
    role="cut",
    random=POSITIVE,
)  # fmt: skip


def _monomial(i: int, j: int) -> tuple[int, ...]:
    """The coefficients of x**i y**j, as factors of y**d, x y**(d-1), ..., x**d."""
    return (0,) * i + (1,) + (0,) * j


def _hypot_dx(xp: Any, y: Any, a: Any, b: Any, *, i: int, j: int, k: int) -> Any:
    # x**(i-1) y**j ((i - k) x**2 + i y**2) / h**(k+2) is one term if i is 0 or k; otherwise its two terms cancel.
    if i == 0:
        return -k * xp.hypot_term(a, b, i=1, j=j, k=k + 2)
    if i == k:
        return i * xp.hypot_term(a, b, i=i - 1, j=j + 2, k=k + 2)
    return _form_dx(xp, y, a, b, c=_monomial(i, j), k=k)


def _hypot_dy(xp: Any, y: Any, a: Any, b: Any, *, i: int, j: int, k: int) -> Any:
    if j == 0:
        return -k * xp.hypot_term(a, b, i=i, j=1, k=k + 2)
    if j == k:
        return j * xp.hypot_term(a, b, i=i + 2, j=j - 1, k=k + 2)
    return _form_dy(xp, y, a, b, c=_monomial(i, j), k=k)


def _form_dx(xp: Any, y: Any, a: Any, b: Any, *, c: tuple[int, ...], k: int) -> Any:
    # ((x**2 + y**2) dN/dx - k x N) / h**(k+2)
    by_x = tuple(i * v for i, v in enumerate(c))[1:]
    square = [p + q for p, q in zip((*by_x, 0, 0), (0, 0, *by_x), strict=True)]
    return xp.hypot_form(a, b, c=tuple(p - k * q for p, q in zip(square, (0, *c), strict=True)), k=k + 2)


def _form_dy(xp: Any, y: Any, a: Any, b: Any, *, c: tuple[int, ...], k: int) -> Any:
    d = len(c) - 1
    by_y = tuple((d - i) * v for i, v in enumerate(c))[:-1]
    square = [p + q for p, q in zip((*by_y, 0, 0), (0, 0, *by_y), strict=True)]
    return xp.hypot_form(a, b, c=tuple(p - k * q for p, q in zip(square, (*c, 0), strict=True)), k=k + 2)


hypot_term = elementwise(
    "hypot_term", plane.hypot_term, (_hypot_dx, _hypot_dy),
    params=("i", "j", "k"), kinks=("x == y == 0",), special=(0.0, 1.0), ulps=2.0,
    summary="x**i y**j / hypot(x, y)**k; 0 at the origin.",
    random=POSITIVE,
)  # fmt: skip

hypot_form = elementwise(
    "hypot_form", plane.hypot_form, (_form_dx, _form_dy),
    reads=((0, 1), (0, 1)), params=("c", "k"), kinks=("x == y == 0",), special=(0.0, 1.0), ulps=1.0,
    summary="A homogeneous polynomial, sum of c[i] x**i y**(d-i), over hypot(x, y)**k; 0 at the origin.",
    random=POSITIVE,
)  # fmt: skip

hypot = elementwise(
    "hypot", single_by_double(np.hypot),
    (
        lambda xp, y, a, b: xp.hypot_term(a, b, i=1, j=0, k=1),
        lambda xp, y, a, b: xp.hypot_term(a, b, i=0, j=1, k=1),
    ),
    scalar=math.hypot, kinks=("x == y == 0",), special=(0.0, 1.0), ulps=1.0,
    summary="Length of (x, y), sqrt(x**2 + y**2), without overflow.", example=((3.0, 4.0), 5.0),
    conventions=_FAR_AWAY, random=POSITIVE,
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- powers

_POWER = Domain(ANY_REAL, ANY_REAL, where=lambda x, y: x > 0 or (x == 0 and y >= 0) or (x < 0 and y == math.floor(y)))

pow_derivative = elementwise(
    "pow_derivative", powers.pow_derivative,
    (
        lambda xp, y, a, b, *, n, m: xp.pow_derivative(a, b, n=n + 1, m=m),
        lambda xp, y, a, b, *, n, m: xp.pow_derivative(a, b, n=n, m=m + 1),
    ),
    params=("n", "m"), domain=_POWER, kinks=("x == 0 and y <= n", "x < 0"), special=(0.0, 1.0, 2.0, 3.0, 0.5, -1.0),
    ulps=3.0,
    summary="Derivative of x**y, n times by x and m times by y; logarithms are taken only where x > 0.",
    complex=complex_kernels.pow_derivative, conventions=(_NEGATIVE_POWERS, _POWERS_AT_0),
)  # fmt: skip

pow = elementwise(
    "pow", powers.power,
    (
        lambda xp, y, a, b: xp.pow_derivative(a, b, n=1, m=0),
        lambda xp, y, a, b: xp.pow_derivative(a, b, n=0, m=1),
    ),
    scalar=math.pow, domain=_POWER, kinks=("x == 0 and y <= 1", "x < 0"), special=(0.0, 1.0, 2.0, 3.0, 0.5, -1.0),
    ints=True, ulps=1.1,
    summary="Power, x**y.", example=((2.0, 3.0), 8.0), complex=complex_kernels.power,
    conventions=(_POWERS, _NEGATIVE_POWERS),
    random=POSITIVE,
)  # fmt: skip

"""For editors and type checkers. Written by .ci/write_stubs.py."""

import builtins
from typing import Any

from gtape.namespaces import special
from gtape.ops.elementwise.complex_parts import angle
from gtape.ops.elementwise.complex_parts import conj
from gtape.ops.elementwise.complex_parts import imag
from gtape.ops.elementwise.complex_parts import real
from gtape.ops.nn.lookups import l2_normalize
from gtape.ops.nn.softmax import log_softmax
from gtape.ops.nn.softmax import softmax
from gtape.ops.picking.combined import accumulate_n
from gtape.ops.picking.combined import in_top_k
from gtape.ops.picking.combined import is_non_decreasing
from gtape.ops.picking.combined import is_strictly_increasing
from gtape.ops.picking.combined import nextafter
from gtape.ops.picking.combined import polyval
from gtape.ops.picking.combined import round
from gtape.ops.picking.combined import scalar_mul
from gtape.ops.picking.combined import zero_fraction
from gtape.ops.picking.counting import bincount
from gtape.ops.picking.counting import confusion_matrix
from gtape.ops.picking.counting import invert_permutation
from gtape.ops.picking.segment import segment_max
from gtape.ops.picking.segment import segment_mean
from gtape.ops.picking.segment import segment_min
from gtape.ops.picking.segment import segment_prod
from gtape.ops.picking.segment import segment_sum
from gtape.ops.picking.sorting import top_k
from gtape.ops.picking.unsorted_segment import unsorted_segment_max
from gtape.ops.picking.unsorted_segment import unsorted_segment_mean
from gtape.ops.picking.unsorted_segment import unsorted_segment_min
from gtape.ops.picking.unsorted_segment import unsorted_segment_prod
from gtape.ops.picking.unsorted_segment import unsorted_segment_sqrt_n
from gtape.ops.picking.unsorted_segment import unsorted_segment_sum
from gtape.ops.reduction.cumulative import cumulative_logsumexp
from gtape.ops.reduction.extrema import argmax
from gtape.ops.reduction.extrema import argmin
from gtape.ops.reduction.extrema import reduce_max
from gtape.ops.reduction.extrema import reduce_min
from gtape.ops.reduction.logsumexp import reduce_logsumexp
from gtape.ops.reduction.moments import reduce_std
from gtape.ops.reduction.moments import reduce_variance
from gtape.ops.reduction.norms import reduce_euclidean_norm
from gtape.ops.reduction.scan import cumprod
from gtape.ops.reduction.scan import cumsum
from gtape.ops.reduction.scan import reduce_prod
from gtape.ops.reduction.sums import add_n
from gtape.ops.reduction.sums import reduce_mean
from gtape.ops.reduction.sums import reduce_sum
from gtape.ops.reduction.truth import count_nonzero
from gtape.ops.reduction.truth import reduce_all
from gtape.ops.reduction.truth import reduce_any
from gtape.ops.special.incomplete import lbeta
from gtape.tensors.tensor import Tensor

__all__ = [
    "abs", "accumulate_n", "acos", "acosh", "add", "add_n", "angle", "argmax", "argmin", "asin", "asinh", "atan",
    "atan2", "atanh", "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "betainc", "bincount", "cbrt", "ceil",
    "confusion_matrix", "conj", "cos", "cosh", "count_nonzero", "cumprod", "cumsum", "cumulative_logsumexp", "digamma",
    "divide", "divide_no_nan", "equal", "erf", "erfc", "erfcinv", "erfinv", "exp", "exp2", "expm1", "floor", "floordiv",
    "floormod", "greater", "greater_equal", "hypot", "igamma", "igammac", "imag", "in_top_k", "invert_permutation",
    "is_finite", "is_inf", "is_nan", "is_non_decreasing", "is_strictly_increasing", "l2_normalize", "lbeta", "less",
    "less_equal", "lgamma", "log", "log10", "log1p", "log2", "log_sigmoid", "log_softmax", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "multiply_no_nan", "ndtri",
    "negative", "nextafter", "not_equal", "polygamma", "polyval", "pow", "real", "reciprocal", "reciprocal_no_nan",
    "reduce_all", "reduce_any", "reduce_euclidean_norm", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_prod", "reduce_std", "reduce_sum", "reduce_variance", "rint", "round", "rsqrt", "scalar_mul", "segment_max",
    "segment_mean", "segment_min", "segment_prod", "segment_sum", "sigmoid", "sign", "sin", "sinc", "sinh", "softmax",
    "softplus", "softsign", "special", "sqrt", "square", "squared_difference", "subtract", "tan", "tanh", "top_k",
    "truediv", "unsorted_segment_max", "unsorted_segment_mean", "unsorted_segment_min", "unsorted_segment_prod",
    "unsorted_segment_sqrt_n", "unsorted_segment_sum", "xdivy", "xlog1py", "xlogy", "zero_fraction", "zeta",
]  # fmt: skip

def abs(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Absolute value; the slope at 0 is 0."""

def acos(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse cosine, in [0, pi]."""

def acosh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse hyperbolic cosine, for x >= 1."""

def add(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Sum, x + y."""

def asin(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse sine, in [-pi/2, pi/2]."""

def asinh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse hyperbolic sine."""

def atan(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse tangent, in [-pi/2, pi/2]."""

def atan2(y: Any, x: Any, name: builtins.str | None = ...) -> Tensor:
    """Angle of the point (x, y), in (-pi, pi]; y comes first."""

def atanh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse hyperbolic tangent, inside [-1, 1]."""

def bessel_i0(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Modified Bessel function of the first kind, of order 0."""

def bessel_i0e(x: Any, name: builtins.str | None = ...) -> Tensor:
    """exp(-|x|) times the modified Bessel function of the first kind, of order 0."""

def bessel_i1(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Modified Bessel function of the first kind, of order 1."""

def bessel_i1e(x: Any, name: builtins.str | None = ...) -> Tensor:
    """exp(-|x|) times the modified Bessel function of the first kind, of order 1."""

def betainc(a: Any, b: Any, x: Any, name: builtins.str | None = ...) -> Tensor:
    """Regularised incomplete beta function I_x(a, b); differentiable in x only, as in TensorFlow."""

def cbrt(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Cube root, also of negative numbers."""

def ceil(x: Any, name: builtins.str | None = ...) -> Tensor:
    """The smallest whole number >= x."""

def cos(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Cosine of an angle in radians."""

def cosh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Hyperbolic cosine."""

def digamma(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Derivative of lgamma; NaN at the poles 0, -1, -2, ..."""

def divide(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Quotient, x / y."""

def divide_no_nan(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Quotient, and 0 where y is 0; the slopes there are 0."""

def equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x == y."""

def erf(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Error function, 2/sqrt(pi) times the integral of exp(-t²) from 0 to x."""

def erfc(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Complementary error function, 1 - erf(x), exact in the tail."""

def erfcinv(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse of erfc, for 0 <= x <= 2."""

def erfinv(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse of erf, for -1 <= x <= 1."""

def exp(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Exponential function."""

def exp2(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Power of two, 2^x."""

def expm1(x: Any, name: builtins.str | None = ...) -> Tensor:
    """exp(x) - 1, exact near 0."""

def floor(x: Any, name: builtins.str | None = ...) -> Tensor:
    """The largest whole number <= x."""

def floordiv(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """The largest whole number <= x / y."""

def floormod(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Remainder with the sign of y, x - y * floor(x / y)."""

def greater(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x > y."""

def greater_equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x >= y."""

def hypot(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Length of (x, y), sqrt(x**2 + y**2), without overflow."""

def igamma(a: Any, x: Any, name: builtins.str | None = ...) -> Tensor:
    """Regularised lower incomplete gamma function P(a, x), for a > 0 and x >= 0."""

def igammac(a: Any, x: Any, name: builtins.str | None = ...) -> Tensor:
    """Regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x), for a > 0 and x >= 0."""

def is_finite(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x is finite."""

def is_inf(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x is infinite."""

def is_nan(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x is NaN."""

def less(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x < y."""

def less_equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x <= y."""

def lgamma(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Logarithm of the absolute value of the gamma function; inf at the poles 0, -1, -2, ..."""

def log(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Natural logarithm."""

def log10(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Logarithm to base 10."""

def log1p(x: Any, name: builtins.str | None = ...) -> Tensor:
    """log(1 + x), exact near 0."""

def log2(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Logarithm to base 2."""

def log_sigmoid(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Logarithm of the logistic sigmoid, -log(1 + exp(-x))."""

def logaddexp(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """log(exp(x) + exp(y)), without overflow."""

def logical_and(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether both hold."""

def logical_not(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether it does not hold."""

def logical_or(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether either holds."""

def logical_xor(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether exactly one holds."""

def maximum(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """The larger of x and y; at a tie the gradient goes to x."""

def minimum(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """The smaller of x and y; at a tie the gradient goes to x."""

def mod(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Remainder with the sign of y, x - y * floor(x / y)."""

def multiply(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Product, x * y."""

def multiply_no_nan(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Product, and 0 where y is 0 even if x is infinite or NaN."""

def ndtri(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Quantile of the normal distribution, for 0 <= x <= 1."""

def negative(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Negation, -x."""

def not_equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x != y."""

def polygamma(a: Any, x: Any, name: builtins.str | None = ...) -> Tensor:
    """The a-th derivative of digamma at x, for whole a >= 0; not differentiable in a."""

def pow(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Power, x**y."""

def reciprocal(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Reciprocal, 1 / x."""

def reciprocal_no_nan(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Reciprocal, and 0 at 0; the slope at 0 is 0."""

def rint(x: Any, name: builtins.str | None = ...) -> Tensor:
    """The nearest whole number, the even one at a tie."""

def rsqrt(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Reciprocal square root, 1 / sqrt(x)."""

def sigmoid(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Logistic sigmoid, 1 / (1 + exp(-x))."""

def sign(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Sign of x: -1, 0 or 1; its gradient is 0."""

def sin(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Sine of an angle in radians."""

def sinc(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Normalised sinc, sin(pi x) / (pi x), and 1 at 0."""

def sinh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Hyperbolic sine."""

def softplus(features: Any, name: builtins.str | None = ...) -> Tensor:
    """Softplus, log(1 + exp(x))."""

def softsign(features: Any, name: builtins.str | None = ...) -> Tensor:
    """Softsign, x / (1 + abs(x))."""

def sqrt(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Square root."""

def square(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Square, x*x."""

def squared_difference(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Squared difference, (x - y)**2."""

def subtract(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Difference, x - y."""

def tan(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Tangent of an angle in radians."""

def tanh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Hyperbolic tangent."""

def truediv(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Quotient, x / y."""

def xdivy(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Quotient, and 0 where x is 0."""

def xlog1py(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """x * log(1 + y), and 0 where x is 0."""

def xlogy(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """x * log(y), and 0 where x is 0."""

def zeta(x: Any, q: Any, name: builtins.str | None = ...) -> Tensor:
    """Hurwitz's zeta function, the sum of (q + k)^-x over k >= 0, for x > 1; not differentiable in x."""

"""A table of the ops that do not return their mirror's limit at NaN, infinities and signed zeros, with the reasons.

Everywhere else a NaN argument gives NaN, and an infinity or a signed zero gives the mirror's limit.
tests/test_special_values.py compares every op at every argument with `gtape.verify.oracles.limits`, except these rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "CHOOSING", "COMPLEX_NUMBERS", "KEPT", "KEPT_BY_ARRAYS", "Kept", "KeptByArrays", "kept", "kept_by_arrays",
]  # fmt: skip

Point = tuple[Any, ...]


class Kept(NamedTuple):
    """Points where ops keep a convention of their own.

    Attributes
    ----------
    ops : tuple of str
        Names of primitives.
    where : str
        The points, in words.
    gives : str
        The results of the ops there.
    reason : str
    holds : callable
        ``holds(point, by)``: True if the row covers a point, for the value (`by` is None) or a derivative.
    """

    ops: tuple[str, ...]
    where: str
    gives: str
    reason: str
    holds: Callable[[Point, int | None], bool]


def _nan(v: Any) -> bool:
    return isinstance(v, float) and math.isnan(v)


def _inf(v: Any) -> bool:
    return isinstance(v, float) and math.isinf(v)


def _minus_zero(v: Any) -> bool:
    return isinstance(v, float) and v == 0 and math.copysign(1, v) < 0


def _any_nan(point: Point, by: int | None) -> bool:
    return any(map(_nan, point))


KEPT: tuple[Kept, ...] = (
    Kept(
        ("maximum", "minimum", "clip_by_value"), "an argument is NaN", "value NaN; derivatives 0 and 1",
        "TensorFlow's comparison chooses who gets the gradient, and NaN is neither greater nor less",
        lambda p, by: by is not None and _any_nan(p, by),
    ),
    Kept(
        ("maximum_slope", "minimum_slope", "clip_inside", "clip_below", "clip_above"), "an argument is NaN", "0 or 1",
        "masks of the row above", _any_nan,
    ),
    Kept(
        ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_nan", "is_inf", "is_finite"),
        "an argument is NaN or infinite", "True or False", "a boolean is no NaN; IEEE 754 decides",
        lambda p, by: any(_nan(v) or _inf(v) for v in p),
    ),
    Kept(
        ("pow",), "1 to the power NaN, NaN to the power 0, negative infinity, ±0 to an infinite power",
        "1; 1; as the C standard says", "C99, F.9.4.4: even where a limit depends on the way",
        lambda p, by: by is None and (p[0] == 1 or p[1] == 0 or p[0] == -math.inf or (p[0] == 0 and _inf(p[1]))),
    ),
    Kept(
        ("pow", "pow_derivative"), "-0; negative infinity", "derivatives as the powers of x in their formulas",
        "C99, F.9.4.4, for them, too", lambda p, by: _minus_zero(p[0]) or p[0] == -math.inf,
    ),
    Kept(
        ("pow_derivative",), "x = 0", "derivatives from the right", "only there they are powers",
        lambda p, by: by is not None and p[0] == 0,
    ),
    Kept(
        ("maximum", "minimum", "clip_by_value"), "zeros of both signs", "either zero",
        "IEEE 754, 9.6: they are equal", lambda p, by: by is None and sum(v == 0 for v in p) > 1,
    ),
    Kept(
        ("logaddexp",), "-inf and -0", "+0", "log(1) is +0", lambda p, by: by is None and any(map(_minus_zero, p)),
    ),
    Kept(
        ("hypot",), "one argument is infinite, the other NaN", "infinity", "C99, F.9.4.3",
        lambda p, by: by is None and any(map(_inf, p)),
    ),
    Kept(
        ("atan2",), "both arguments are infinite or zero",
        "a multiple of π/4 or π, as the C standard says; derivatives NaN at 0",
        "C99, F.9.1.4", lambda p, by: all(_inf(v) or v == 0 for v in p),
    ),
    Kept(
        ("hypot",), "both arguments are infinite", "derivatives ±1/√2",
        "as for atan2: they tend to infinity together", lambda p, by: by is not None and all(map(_inf, p)),
    ),
    Kept(
        ("sqrt", "sqrt_slope", "rsqrt", "rsqrt_derivative"), "-0",
        "sqrt(-0) = -0; 1/sqrt(-0) and its derivatives are those of 1/-0",
        "IEEE 754, 9.2.1", lambda p, by: _minus_zero(p[0]),
    ),
    Kept(
        ("log2_slope", "log10_slope"), "-0", "second derivatives of log2 and log10 are +inf",
        "a quotient by -0", lambda p, by: by is not None and _minus_zero(p[0]),
    ),
    Kept(
        ("lgamma",), "-inf; ±0", "inf; derivative NaN at ±0",
        "C99, F.9.5.3; the derivative as in TensorFlow: a pole of digamma", lambda p, by: p[0] in (-math.inf, 0.0),
    ),
    Kept(
        ("digamma", "digamma_derivative"), "-inf; ±0", "NaN where the two sides of the pole differ",
        "as in TensorFlow", lambda p, by: p[0] in (-math.inf, 0.0),
    ),
    Kept(
        ("floormod", "truncatemod", "floormod_dx", "floormod_dy", "truncatemod_dy"),
        "division by 0, or of infinity", "NaN",
        "C99, F.9.7.1: there is no remainder, and so no derivative of it", lambda p, by: p[1] == 0 or _inf(p[0]),
    ),
    Kept(
        ("multiply_no_nan", "multiply_no_nan_dy"), "x infinite or NaN, y = 0", "0; derivative by y 0",
        "what the op is for", lambda p, by: p[1] == 0,
    ),
    Kept(
        ("xlogy", "xlog1py", "xdivy"), "x = 0", "0, whatever y is; derivatives 0",
        "what the ops are for", lambda p, by: p[0] == 0,
    ),
    Kept(
        ("fresnel_wave",), "an infinity", "NaN", "an internal factor that swings ever wider", lambda p, by: _inf(p[0]),
    ),
)  # fmt: skip


def kept(op: str, point: Point, by: int | None) -> Kept | None:
    """The row about an op at a point, or None.

    Examples
    --------
    >>> kept("lgamma", (-math.inf,), None).reason[:3], kept("exp", (-math.inf,), None)
    ('C99', None)
    """
    return next((k for k in KEPT if op in k.ops and k.holds(point, by)), None)


class KeptByArrays(NamedTuple):
    """Results of ops on arrays that differ from the limit.

    Attributes
    ----------
    ops : tuple of str
        Names of primitives, and of functions composed of them.
    at : {"infinity", "equal infinities", "zero", "zeros"}
        The special values; the plurals mean several equal values in one argument only.
    of : {"value", "derivative", "both"}
    gives : {"NaN", "a zero of the other sign", "an infinity of another sign", "a number for no limit", "a number"}
        "NaN" excuses no number; "a number" also excuses a number in place of another one.
    reason : str
    """

    ops: tuple[str, ...]
    at: str
    of: str
    gives: str
    reason: str


_EXPONENTIALS = (
    "softmax", "log_softmax", "softmax_center", "softmax_spread", "logsumexp_slope", "cumulative_share",
    "cumulative_rest", "cumulative_push", "cumulative_pull", "nn.softmax", "nn.log_softmax",
    "keras.activations.softmax", "keras.activations.log_softmax", "Softmax",
)  # fmt: skip
_ENTROPIES = (
    "cross_entropy", "softmax_cross_entropy", "sparse_softmax_cross_entropy", "sigmoid_cross_entropy",
    "weighted_cross_entropy", "keras.losses.BinaryCrossentropy", "keras.losses.CategoricalCrossentropy",
    "keras.losses.KLDivergence",
)  # fmt: skip
_DEVIATIONS = (
    "center", "reduce_variance", "reduce_std", "moments", "BatchNormalization", "LayerNormalization",
    "batch_normalization",
)  # fmt: skip
_UNIT_VECTORS = (
    "unit_vector", "unit_slope", "safe_quotient", "l2_normalize", "linalg.normalize", "clip_by_norm",
    "clip_by_global_norm", "local_response_normalization", "keras.losses.CosineSimilarity",
    "keras.losses.MeanAbsolutePercentageError", "keras.losses.MeanSquaredLogarithmicError",
)  # fmt: skip
_NORMS = (
    "norm", "norm 2", "norm 3.5", "norm euclidean", "norm fro", "reduce_euclidean_norm", "linalg.global_norm",
)  # fmt: skip
_CONVOLUTIONS = ("correlate", "correlate_filter", "correlate_input", "conv1d", "conv2d", "depthwise_conv2d")
_PRODUCTS = (
    "linear_recurrence", "prod_others", "cross", "matmul", "det", "det_form", "cofactors", "triangular_factors",
    "linalg.det", "linalg.det 1", "linalg.det 2", "linalg.det 4", "linalg.det 5", "linalg.det of ones", "linalg.cross",
    "linalg.tridiagonal_matmul",
)  # fmt: skip
_SOLUTIONS = (
    "inverse", "solve", "triangular_solve", "tridiagonal_solve", "linalg.inv", "linalg.solve",
    "linalg.triangular_solve", "linalg.cholesky_solve", "linalg.tridiagonal_solve", "linalg.lstsq",
)  # fmt: skip
_DETERMINANTS = (
    "log_abs_det", "det_sign", "linalg.slogdet", "linalg.slogdet 1", "linalg.slogdet 2", "linalg.slogdet 4",
    "linalg.logdet",
)  # fmt: skip
_FACTORS = (
    "cholesky", "complement", "eig", "eigh", "eigh_parts", "qr", "svd", "svd_parts", "pinv", "expm", "expm_form",
    "linalg.cholesky", "linalg.eigh", "linalg.eigvalsh", "linalg.qr", "linalg.svd", "linalg.pinv", "linalg.expm",
)  # fmt: skip
COMPLEX_NUMBERS = "all ops of complex numbers"
_PICKS = (
    "max", "min", "max_share", "min_share", "segment_max", "segment_min", "segment_max_share", "segment_min_share",
    "argmax", "argmin", "order", "window_argmax", "reduce_max", "reduce_min", "norm inf", "sort", "top_k",
    "unsorted_segment_max", "unsorted_segment_min", "tensor_scatter_nd_max", "tensor_scatter_nd_min", "max_pool1d",
    "max_pool2d", "GlobalMaxPooling2D",
)  # fmt: skip
_SUMS = (
    "sum", "sum_to", "center", "reduce_mean", "scatter", "scatter_rows", "softmax_spread", "softmax_center",
    "segment_sum", "segment_mean", "unsorted_segment_sum", "unsorted_segment_mean", "unsorted_segment_sqrt_n",
    "reduce_sum", "einsum", "tensordot", "linalg.trace", "unit_slope", "unit_vector",
    *_CONVOLUTIONS, *_PRODUCTS, *_ENTROPIES,
)  # fmt: skip

KEPT_BY_ARRAYS: tuple[KeptByArrays, ...] = (
    KeptByArrays(
        _EXPONENTIALS, "infinity", "both", "NaN",
        "an infinite greatest element is subtracted from itself, as in TensorFlow",
    ),
    KeptByArrays(
        ("logsumexp", "cumulative_logsumexp", "reduce_logsumexp"), "infinity", "derivative", "NaN",
        "it is a softmax, as in TensorFlow",
    ),
    KeptByArrays(
        _ENTROPIES, "infinity", "both", "NaN", "infinity times zero, or less infinity, as in TensorFlow",
    ),
    KeptByArrays(
        _DEVIATIONS, "infinity", "both", "NaN", "an infinite mean is subtracted from infinity, as in TensorFlow",
    ),
    KeptByArrays(
        _UNIT_VECTORS, "infinity", "both", "NaN",
        "infinity is divided by an infinite norm, or by itself, as in TensorFlow",
    ),
    KeptByArrays(_NORMS, "infinity", "derivative", "NaN", "the derivative is x / norm(x), as in TensorFlow"),
    KeptByArrays(
        _CONVOLUTIONS, "infinity", "both", "NaN",
        "the zeros of padding, dilation and strides take part in the sums of products: 0 times infinity",
    ),
    KeptByArrays(
        _PRODUCTS, "infinity", "both", "NaN", "IEEE 754: 0 times infinity, infinity less infinity in sums of products",
    ),
    KeptByArrays(
        (*_SOLUTIONS, *_DETERMINANTS, *_FACTORS), "infinity", "both", "NaN",
        "an elimination or iteration subtracts and divides infinities",
    ),
    KeptByArrays(
        (*_SOLUTIONS, *_DETERMINANTS), "zero", "both", "NaN", "a singular matrix: there is no solution",
    ),
    KeptByArrays(
        ("cholesky", "linalg.cholesky"), "zero", "both", "NaN",
        "a matrix that is not positive definite has no factor, as in TensorFlow",
    ),
    KeptByArrays(
        ("triangular_factors", "qr", "svd", "eigh", "eigh_parts"), "zero", "derivative", "NaN",
        "a singular matrix, or equal eigenvalues: its factors are not differentiable",
    ),
    KeptByArrays(
        _PICKS, "equal infinities", "both", "a number",
        "a tie as that of equal numbers, although no limit decides it",
    ),
    KeptByArrays(
        ("complement", "eig", "eigh", "eigh_parts", "qr", "svd", "svd_parts", "linalg.eigvalsh", "linalg.eigh",
         "linalg.qr", "linalg.svd"), "zeros", "both", "a number",
        "a matrix of zeros has equal eigenvalues: its vectors, and their derivatives, are those that LAPACK chooses",
    ),
    KeptByArrays(
        _SUMS, "zero", "value", "a zero of the other sign", "NumPy's sums start with +0, and -0 is added to it",
    ),
    KeptByArrays(
        ("safe_quotient",), "zero", "value", "a zero of the other sign", "zero is divided by nothing, and is +0",
    ),
    KeptByArrays(
        _SOLUTIONS, "infinity", "value", "a zero of the other sign", "sums inside LAPACK",
    ),
    KeptByArrays(
        (*_SOLUTIONS, *_FACTORS), "zero", "value", "a zero of the other sign",
        "sums and reflections inside LAPACK",
    ),
    KeptByArrays(
        (COMPLEX_NUMBERS,), "infinity", "both", "NaN",
        "complex products are sums of products of parts: 0 times infinity, infinity less infinity (C99, Annex G)",
    ),
    KeptByArrays(
        (COMPLEX_NUMBERS,), "infinity", "both", "a number for no limit",
        "C99, Annex G: values at infinity that depend on the way, such as log(inf + inf i) = inf + i π/4",
    ),
    KeptByArrays(
        (COMPLEX_NUMBERS,), "zero", "both", "a number for no limit",
        "C99, Annex G: values at a pole or branch point that depend on the way, such as log(-0 + 0i) = -inf + i π",
    ),
    KeptByArrays(
        (COMPLEX_NUMBERS,), "zero", "both", "NaN",
        "complex quotients and products are sums of products of parts: a pole is infinite in one part only",
    ),
    KeptByArrays(
        (COMPLEX_NUMBERS,), "zero", "both", "an infinity of another sign",
        "C99, Annex G: a complex number with an infinite part is an infinity, whatever its signs",
    ),
    KeptByArrays(
        (COMPLEX_NUMBERS,), "infinity", "both", "an infinity of another sign",
        "C99, Annex G: a complex number with an infinite part is an infinity, whatever its signs",
    ),
    KeptByArrays(
        ("divide_no_nan", "divide_power_no_nan", "reciprocal_no_nan", "reciprocal_power_no_nan", "multiply_no_nan",
         "xlogy", "xlog1py", "xdivy"), "zero", "both", "a number",
        "0, what the ops are for, of complex numbers, too",
    ),
    KeptByArrays(
        ("triangular_factors",), "zero", "both", "a number", "a pivot is zero: there are no factors",
    ),
    KeptByArrays(
        (COMPLEX_NUMBERS,), "infinity", "value", "a zero of the other sign", "signed zeros of parts are added up",
    ),
    KeptByArrays(
        (COMPLEX_NUMBERS,), "zero", "value", "a zero of the other sign", "signed zeros of parts are added up",
    ),
)  # fmt: skip


def kept_by_arrays(
    name: str, special: float, several: bool, what: str, got: float, expected: float, complex: bool = False
) -> KeptByArrays | None:
    """The row about an op on arrays that returns `got` instead of the limit, or None.

    Parameters
    ----------
    name : str
    special : float
        The special value in an argument.
    several : bool
        True if the value stands in more than one element.
    what : str
        "value", or anything else for a derivative.
    got, expected : float
    complex : bool
        True for complex numbers, which have rows of their own.

    Examples
    --------
    >>> kept_by_arrays("softmax", math.inf, False, "value", math.nan, 1.0).reason[:11]
    'an infinite'
    >>> kept_by_arrays("softmax", math.inf, False, "value", 0.0, 1.0)
    """
    at = {"infinity", "equal infinities"} if math.isinf(special) else {"zero", "zeros"}
    at -= set() if several else {"equal infinities", "zeros"}
    of = "value" if what == "value" else "derivative"
    if math.isnan(got):
        gives = {"NaN"}
    elif got == expected == 0:
        gives = {"a zero of the other sign"}
    elif math.isinf(got) and math.isinf(expected):
        gives = {"an infinity of another sign"}
    else:
        gives = {"a number", "a number for no limit"} if math.isnan(expected) else {"a number"}
    names = {name, COMPLEX_NUMBERS} if complex else {name}
    return next(
        (
            k for k in KEPT_BY_ARRAYS
            if not names.isdisjoint(k.ops) and k.at in at and k.of in (of, "both") and k.gives in gives
        ),
        None,
    )  # fmt: skip


# Public functions whose values follow the rule, but whose derivatives, or order, are a choice by comparison.
CHOOSING: dict[str, str] = {
    "sort, top_k, argsort": "NaN counts as the greatest, as in NumPy; derivatives of 1 go along",
    "max_pool1d, max_pool2d, max_pool3d, MaxPooling": "a window with a NaN is NaN; its derivative goes to the NaN",
    "argmax, argmin": "NaN is passed over, as in TensorFlow (NumPy stops at it)",
    "ReLU, activations.relu with a threshold or max_value": "`x > threshold` and `minimum` choose the slope",
    "Hinge, SquaredHinge, CategoricalHinge": "`maximum` chooses the slope",
    "clip_by_global_norm": "with a NaN anywhere all results are NaN; the scale then is a constant, as in TensorFlow",
    "where, gather, pad, multiply_no_nan": "a NaN that is not taken leaves no trace",
    "check_numerics": "raises InvalidArgumentError",
    "igamma, igammac, betainc, polygamma, zeta": "NaN for orders that are 0 or infinite, outside the domain",
}

"""Where ops do not return what their mirrors tend to at NaN, infinities and signed zeros: a table with the reasons.

Everywhere else a NaN makes NaN of all that depends on it, and an infinity or a signed zero gives the mirror's limit:
tests/test_special_values.py compares every op at every argument with `gtape.verify.oracles.limits`, less these rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["CHOOSING", "KEPT", "Kept", "kept"]

Point = tuple[Any, ...]


class Kept(NamedTuple):
    """Points at which ops keep a convention of their own.

    Attributes
    ----------
    ops : tuple of str
        Names of primitives.
    where : str
        The points, in words.
    gives : str
        What the ops return there.
    reason : str
    holds : callable
        ``holds(point, by)``: whether the row is about a point, and about the value (`by` is None) or a derivative.
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
    "softmax, logsumexp, norms of infinities": "as in TensorFlow: NaN where infinity would be divided by infinity",
    "functions of matrices with infinite elements": "what LAPACK's elimination gives; NaN for infinity less infinity",
    "igamma, igammac, betainc, polygamma, zeta": "NaN for orders that are 0 or infinite, outside the domain",
    "complex numbers with infinite parts": "C99, Annex G, as far as NumPy follows it",
}

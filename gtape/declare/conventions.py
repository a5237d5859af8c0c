"""Conventions of ops at NaN, infinities and signed zeros: where an op differs from its mirror's limit, and why.

Everywhere else a NaN argument gives NaN, and an infinity or a signed zero gives the mirror's limit. An op states its
conventions in its declaration, and functions of the op inherit them. A function composed of several ops states the
conventions of its own formula by the decorator `conventional`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

__all__ = ["FUNCTIONS", "AtPoints", "Noted", "OfArrays", "any_nan", "conventional", "minus_zero", "shows_kinks_of"]

F = TypeVar("F", bound=Callable[..., Any])


class AtPoints(NamedTuple):
    """A convention of an elementwise op at certain points.

    The texts name the points (`where`), the result there (`gives`) and the `reason`. ``holds(point, by)`` is True if
    the convention covers the point, for the value (`by` is None) or for the derivative by argument `by`.
    """

    where: str
    gives: str
    reason: str
    holds: Callable[[tuple[Any, ...], int | None], bool]


class OfArrays(NamedTuple):
    """A convention of an op on arrays: results that differ from the limit.

    Attributes
    ----------
    at : {"infinity", "equal infinities", "zero", "zeros"}
        The special values. "equal infinities" means several equal ones in one argument, "zeros" an argument of zeros
        alone, which may have one element.
    of : {"value", "derivative", "both"}
    gives : {"NaN", "0", "a zero of the other sign", "an infinity of another sign", "a number for no limit", "a number"}
        "NaN" excuses no number; "a number" also excuses a number in place of another one.
    reason : str
    """

    at: str
    of: str
    gives: str
    reason: str


class Noted(NamedTuple):
    """A convention in words that only the page of conventions shows."""

    text: str


Convention = AtPoints | OfArrays | Noted

# The conventions of functions composed of ops, by the function's name. Only imported modules have entries.
FUNCTIONS: dict[str, tuple[Convention, ...]] = {}


def conventional(*conventions: Convention) -> Callable[[F], F]:
    """Decorate a function composed of ops that has conventions of its own, in addition to those of its ops."""

    def decorate(function: F) -> F:
        FUNCTIONS[function.__name__] = (*FUNCTIONS.get(function.__name__, ()), *conventions)
        return function

    return decorate


def shows_kinks_of(op: Any, call: Callable[..., Any] = lambda f, x: f(x), name: str | None = None) -> Callable[[F], F]:
    """Decorate the function that shows the kinks of an op to users: ``call(function, x)`` calls it with a vector."""

    def decorate(function: F) -> F:
        op.shown = (name or function.__name__, lambda x: call(function, x))
        return function

    return decorate


def minus_zero(v: Any) -> bool:
    """Whether a number is -0."""
    return bool(v == 0) and math.copysign(1, v) < 0


def any_nan(point: tuple[Any, ...], by: int | None) -> bool:
    """Whether an argument is NaN."""
    return any(map(math.isnan, point))


def _nan(at: str, reason: str, of: str = "both") -> OfArrays:
    return OfArrays(at, of, "NaN", reason)


def _other_zero(at: str, reason: str) -> OfArrays:
    return OfArrays(at, "value", "a zero of the other sign", reason)


SUMMED = _other_zero("zero", "NumPy's sums start with +0, and -0 is added to it")
PRODUCTS = (_nan("infinity", "IEEE 754: 0 times infinity, infinity less infinity in sums of products"), SUMMED)
_PADDING = "the zeros of padding, dilation and strides take part in the sums of products: 0 times infinity"
PADDED = (_nan("infinity", _PADDING), SUMMED)
EXPONENTIALS = _nan("infinity", "an infinite greatest element is subtracted from itself, as in TensorFlow")
ITS_SLOPE_IS_SOFTMAX = _nan("infinity", "it is a softmax, as in TensorFlow", "derivative")
ENTROPIES = _nan("infinity", "infinity times zero, or less infinity, as in TensorFlow")
LESS_INFINITY = _nan("infinity", "infinity less infinity, as in TensorFlow", "value")
ITS_TANGENTS_TOO = _nan("infinity", "infinite tangents are subtracted from each other, as the values", "derivative")
DEVIATIONS = _nan("infinity", "an infinite mean is subtracted from infinity, as in TensorFlow")
RATIOS = _nan("infinity", "infinity is divided by an infinite norm, or by itself, as in TensorFlow")
NORMS = _nan("infinity", "the derivative is x / norm(x), as in TensorFlow", "derivative")
_TIE = "a tie as that of equal numbers, although no limit decides it"
TIED = OfArrays("equal infinities", "both", "a number", _TIE)
_EQUAL_SHARES = "elements that are all -inf have equal shares, in forward mode too, although no limit decides it"
EQUAL_SHARES = OfArrays("equal infinities", "both", "a number", _EQUAL_SHARES)
ITS_SLOPE_HAS_EQUAL_SHARES = OfArrays("equal infinities", "derivative", "a number", _EQUAL_SHARES)
ZERO_AT_ZERO = OfArrays("zero", "both", "a number", "0, what the ops are for, of complex numbers, too")

_ELIMINATED = _nan("infinity", "an elimination or iteration subtracts and divides infinities")
_REFLECTED = _other_zero("zero", "sums and reflections inside LAPACK")
DETERMINANTS = (_ELIMINATED, _nan("zero", "a singular matrix: there is no solution"))
SOLUTIONS = (*DETERMINANTS, _other_zero("infinity", "sums inside LAPACK"), _REFLECTED)
FACTORS = (_ELIMINATED, _REFLECTED)
_CHOSEN = "a matrix of zeros has equal eigenvalues: its vectors, and their derivatives, are those that LAPACK chooses"
EQUAL_EIGENVALUES = OfArrays("zeros", "both", "a number", _CHOSEN)
_WITHOUT = "a singular matrix, or equal eigenvalues: its factors are not differentiable"
NOT_SMOOTH = _nan("zero", _WITHOUT, "derivative")
NO_REMAINDER = AtPoints(
    "division by 0, or of infinity", "NaN", "C99, F.9.7.1: there is no remainder, and so no derivative of it",
    lambda p, by: p[1] == 0 or math.isinf(p[0]),
)  # fmt: skip
NOT_TAKEN = Noted("a NaN that is not taken leaves no trace")

# The conventions of every op that takes complex numbers.
_WAY = "C99, Annex G: values at {} that depend on the way, such as {}".format
_ANY_INFINITY = "C99, Annex G: a complex number with an infinite part is an infinity, whatever its signs"
_ADDED = "signed zeros of parts are added up"

COMPLEX_NUMBERS = (
    OfArrays(
        "infinity", "both", "NaN",
        "complex products are sums of products of parts: 0 times infinity, infinity less infinity (C99, Annex G)",
    ),
    OfArrays("infinity", "both", "a number for no limit", _WAY("infinity", "log(inf + inf i) = inf + i π/4")),
    OfArrays("zero", "both", "a number for no limit", _WAY("a pole or branch point", "log(-0 + 0i) = -inf + i π")),
    OfArrays(
        "zero", "both", "NaN",
        "complex quotients and products are sums of products of parts: a pole is infinite in one part only",
    ),
    *[OfArrays(at, "both", "an infinity of another sign", _ANY_INFINITY) for at in ("zero", "infinity")],
    *[OfArrays(at, "value", "a zero of the other sign", _ADDED) for at in ("infinity", "zero")],
)  # fmt: skip

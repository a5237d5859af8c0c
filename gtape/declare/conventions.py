"""Conventions of ops at NaN, infinities and signed zeros: where they differ from their mirror's limit, and why.

Everywhere else a NaN argument gives NaN, and an infinity or a signed zero gives the mirror's limit. An op states its
conventions in its declaration, and what is composed of the op inherits them; a function composed of several ops states
those of its own formula by the decorator `conventional`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

__all__ = [
    "AtPoints",
    "Noted",
    "OfArrays",
    "any_nan",
    "conventional",
    "conventions_of",
    "functions",
    "minus_zero",
    "shows_kinks_of",
]

F = TypeVar("F", bound=Callable[..., Any])


class AtPoints(NamedTuple):
    """Points where an elementwise op keeps a convention of its own.

    Attributes
    ----------
    where : str
        The points, in words.
    gives : str
        The results of the op there.
    reason : str
    holds : callable
        ``holds(point, by)``: True if this covers a point, for the value (`by` is None) or a derivative.
    """

    where: str
    gives: str
    reason: str
    holds: Callable[[tuple[Any, ...], int | None], bool]


class OfArrays(NamedTuple):
    """Results of an op on arrays that differ from the limit.

    Attributes
    ----------
    at : {"infinity", "equal infinities", "zero", "zeros"}
        The special values; the plurals mean several equal values in one argument only.
    of : {"value", "derivative", "both"}
    gives : {"NaN", "a zero of the other sign", "an infinity of another sign", "a number for no limit", "a number"}
        "NaN" excuses no number; "a number" also excuses a number in place of another one.
    reason : str
    """

    at: str
    of: str
    gives: str
    reason: str


class Noted(NamedTuple):
    """A convention in words, for the page of conventions alone."""

    text: str


Convention = AtPoints | OfArrays | Noted

# The conventions of functions composed of ops, by module and name.
_functions: dict[tuple[str, str], tuple[Convention, ...]] = {}


def conventional(*conventions: Convention) -> Callable[[F], F]:
    """Decorate a function composed of ops that keeps conventions of its own, besides those of its ops."""

    def decorate(function: F) -> F:
        _functions[function.__module__, function.__name__] = conventions
        return function

    return decorate


def shows_kinks_of(op: Any, call: Callable[..., Any] = lambda f, x: f(x), name: str | None = None) -> Callable[[F], F]:
    """Decorate the public function through which users meet the kinks of an op that is not public.

    Parameters
    ----------
    op : Primitive
    call : callable
        ``call(function, x)`` calls the function with a vector.
    name : str, optional
        The function's name in the table of kinks.
    """

    def decorate(function: F) -> F:
        op.shown = (name or function.__name__, lambda x: call(function, x))
        return function

    return decorate


def conventions_of(function: Callable[..., Any]) -> tuple[Convention, ...]:
    """The conventions that a function states by `conventional`."""
    return _functions.get((function.__module__, function.__name__), ())


def functions() -> dict[str, tuple[Convention, ...]]:
    """The name of each function that states conventions, among the modules imported so far, and what it states."""
    return {name: stated for (_, name), stated in sorted(_functions.items())}


def minus_zero(v: Any) -> bool:
    """Whether a number is -0."""
    return bool(v == 0) and math.copysign(1, v) < 0


def any_nan(point: tuple[Any, ...], by: int | None) -> bool:
    """Whether an argument is NaN."""
    return any(map(math.isnan, point))


_OTHER = "a zero of the other sign"

SUMMED = OfArrays("zero", "value", _OTHER, "NumPy's sums start with +0, and -0 is added to it")
PRODUCTS = (
    OfArrays("infinity", "both", "NaN", "IEEE 754: 0 times infinity, infinity less infinity in sums of products"),
    SUMMED,
)
PADDED = (
    OfArrays(
        "infinity", "both", "NaN",
        "the zeros of padding, dilation and strides take part in the sums of products: 0 times infinity",
    ),
    SUMMED,
)  # fmt: skip
EXPONENTIALS = OfArrays(
    "infinity", "both", "NaN", "an infinite greatest element is subtracted from itself, as in TensorFlow"
)
ITS_SLOPE_IS_SOFTMAX = OfArrays("infinity", "derivative", "NaN", "it is a softmax, as in TensorFlow")
ENTROPIES = OfArrays("infinity", "both", "NaN", "infinity times zero, or less infinity, as in TensorFlow")
DEVIATIONS = OfArrays("infinity", "both", "NaN", "an infinite mean is subtracted from infinity, as in TensorFlow")
RATIOS = OfArrays("infinity", "both", "NaN", "infinity is divided by an infinite norm, or by itself, as in TensorFlow")
NORMS = OfArrays("infinity", "derivative", "NaN", "the derivative is x / norm(x), as in TensorFlow")
TIED = OfArrays("equal infinities", "both", "a number", "a tie as that of equal numbers, although no limit decides it")
ZERO_AT_ZERO = OfArrays("zero", "both", "a number", "0, what the ops are for, of complex numbers, too")

_ELIMINATED = OfArrays("infinity", "both", "NaN", "an elimination or iteration subtracts and divides infinities")
_SINGULAR = OfArrays("zero", "both", "NaN", "a singular matrix: there is no solution")
_REFLECTED = OfArrays("zero", "value", _OTHER, "sums and reflections inside LAPACK")
DETERMINANTS = (_ELIMINATED, _SINGULAR)
SOLUTIONS = (*DETERMINANTS, OfArrays("infinity", "value", _OTHER, "sums inside LAPACK"), _REFLECTED)
FACTORS = (_ELIMINATED, _REFLECTED)
EQUAL_EIGENVALUES = OfArrays(
    "zeros", "both", "a number",
    "a matrix of zeros has equal eigenvalues: its vectors, and their derivatives, are those that LAPACK chooses",
)  # fmt: skip
NOT_SMOOTH = OfArrays(
    "zero", "derivative", "NaN", "a singular matrix, or equal eigenvalues: its factors are not differentiable"
)
NO_REMAINDER = AtPoints(
    "division by 0, or of infinity", "NaN", "C99, F.9.7.1: there is no remainder, and so no derivative of it",
    lambda p, by: p[1] == 0 or math.isinf(p[0]),
)  # fmt: skip
NOT_TAKEN = Noted("a NaN that is not taken leaves no trace")

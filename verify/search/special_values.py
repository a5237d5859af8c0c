"""Where ops do not return their mirror's limit at NaN, infinities and signed zeros, with the reasons.

Ops and functions state these conventions themselves (`gtape.declare.conventions`); the rows of this module hold for
all ops of complex numbers. tests/test_special_values.py compares every op at every argument with
`gtape.verify.oracles.limits`, except these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from gtape.declare.conventions import AtPoints, Convention, OfArrays

__all__ = ["COMPLEX_NUMBERS", "kept", "kept_by_arrays"]

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


def kept(conventions: Iterable[Convention], point: tuple[Any, ...], by: int | None) -> AtPoints | None:
    """The convention of an elementwise op at a point, for the value (`by` is None) or a derivative; None without one.

    Examples
    --------
    >>> from gtape.declare.primitives import REGISTRY
    >>> [kept(REGISTRY[name].conventions, (-math.inf,), None) is None for name in ("lgamma", "exp")]
    [False, True]
    """
    return next((k for k in conventions if isinstance(k, AtPoints) and k.holds(point, by)), None)


def kept_by_arrays(
    conventions: Iterable[Convention], special: float, several: bool, what: str, got: float, expected: float
) -> OfArrays | None:
    """The convention by which arrays give `got` instead of the limit, or None.

    Parameters
    ----------
    conventions : iterable
        Those of all ops and functions that took part, with `COMPLEX_NUMBERS` for complex numbers.
    special : float
        The special value in an argument.
    several : bool
        True if the value stands in more than one element.
    what : str
        "value", or anything else for a derivative.
    got, expected : float

    Examples
    --------
    >>> from gtape.declare.primitives import REGISTRY
    >>> kept_by_arrays(REGISTRY["softmax"].conventions, math.inf, False, "value", math.nan, 1.0).reason[:11]
    'an infinite'
    >>> kept_by_arrays(REGISTRY["softmax"].conventions, math.inf, False, "value", 0.0, 1.0)
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
    arrays = (k for k in conventions if isinstance(k, OfArrays))
    return next((k for k in arrays if k.at in at and k.of in (of, "both") and k.gives in gives), None)

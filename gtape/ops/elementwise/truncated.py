"""Division that rounds towards zero, and its remainder, which has the sign of x."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.declare.conventions import NO_REMAINDER
from gtape.declare.domains import ANY_REAL, NONZERO, Domain
from gtape.declare.primitives import elementwise
from gtape.errors import InvalidArgumentError
from gtape.kernels.pairs import wide

__all__ = ["truncatediv", "truncatemod"]

_DIVISOR = Domain(ANY_REAL, NONZERO)


def _check_integers(x: Any, y: Any, op: str) -> bool:
    whole: bool = np.result_type(x, y).kind in "iu"
    if whole and not np.all(y):
        raise InvalidArgumentError(f"{op} of integers by 0: make the divisor non-zero, or cast to float")
    return whole


@wide
def _quotient(x: Any, y: Any) -> Any:
    # x - r is y times an integer
    r = np.fmod(x, y)
    return np.where(np.isnan(r), np.trunc(np.divide(x, y)), np.rint((x - r) / y))


def _truncatediv(x: Any, y: Any) -> Any:
    if not _check_integers(x, y, "truncatediv"):
        return _quotient(x, y)
    q = np.floor_divide(x, y)
    return q + ((q < 0) & (q * y != x)).astype(q.dtype)


def _truncatemod(x: Any, y: Any) -> Any:
    _check_integers(x, y, "truncatemod")
    return np.fmod(x, y)


@wide
def _truncatemod_dy(x: Any, y: Any) -> Any:
    r = np.fmod(x, y)
    return np.where(np.isnan(r), np.nan, -np.rint((x - r) / y))


truncatediv = elementwise(
    "truncatediv", _truncatediv, (None, None),
    domain=_DIVISOR, kinks=("x / y whole",), ints=True, ulps=2.0,
    summary="Quotient x / y, rounded towards zero.", example=((-7.5, 2.0), -3.0),
)  # fmt: skip

truncatemod_dy = elementwise(
    "truncatemod_dy", _truncatemod_dy, (None, None),
    domain=_DIVISOR, kinks=("x / y whole",), ulps=2.0,
    summary="Slope of truncatemod by y: x / y rounded towards zero, with the other sign.",
    conventions=NO_REMAINDER,
)  # fmt: skip

truncatemod = elementwise(
    "truncatemod", _truncatemod,
    (lambda xp, y, a, b: xp.floormod_dx(a, b), lambda xp, y, a, b: xp.truncatemod_dy(a, b)),
    domain=_DIVISOR, kinks=("x / y whole",), ints=True, ulps=0.5,
    summary="Remainder with the sign of x, x - y * truncatediv(x, y).", example=((-7.5, 2.0), -1.5),
    conventions=NO_REMAINDER,
)  # fmt: skip

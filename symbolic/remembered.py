"""Functions of balls that keep their results, because jets evaluate one point in many directions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flint import acb, arb, ctx

__all__ = ["remembered"]

_MOST = 4096  # results of each function


@functools.cache
def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of balls and numbers that computes each result once for each precision.

    Parameters
    ----------
    function : callable
        A function whose result depends only on its arguments and the precision.

    Examples
    --------
    >>> from flint import arb
    >>> zeta = remembered(lambda x: print("computing") or arb(x).zeta())
    >>> zeta(arb(2)) is zeta(arb(2))
    computing
    True
    """
    known: dict[Any, Any] = {}

    def call(*args: Any) -> Any:
        key = (ctx.prec, *map(_key, args))
        found = known.get(key)
        if found is None:
            found = function(*args)
            if len(known) >= _MOST:
                known.clear()
            known[key] = found
        return found

    return call


def _key(x: Any) -> Any:
    """A key that no other ball or number has."""
    if isinstance(x, acb):
        return acb, _key(x.real), _key(x.imag)
    if not isinstance(x, arb):
        return x.__class__, x
    mid, radius = x.mid(), x.rad()
    # FLINT prints both infinities alike, and both are outside of all comparisons with NaN.
    middle = mid.man_exp() if mid.is_finite() else "inf" if mid > 0 else "-inf" if mid < 0 else "nan"
    return arb, middle, radius.man_exp() if radius.is_finite() else None

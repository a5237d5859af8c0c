"""Numbers beyond bounds on their distance from exact numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.balls import objects, radius, to_double_double, to_float
from gtape.verify.verdicts.ulp import spacing, widest

__all__ = ["beyond", "excess", "rounded"]

_TINIEST = float(np.finfo(np.float64).smallest_subnormal)


def excess(got: Any, exact: Any, bound: Any) -> tuple[float, tuple[int, ...]] | None:
    """The worst element outside its bound: (error divided by bound, index)."""
    over, ratio = beyond(widest(got).ravel(), objects(exact).ravel(), np.broadcast_to(bound, np.shape(got)).ravel())
    if not over.size:
        return None
    worst = int(np.argmax(ratio))
    index = np.unravel_index(over[worst], np.shape(got))
    return float(ratio[worst]), tuple(int(i) for i in index)


def rounded(exact: Any, dtype: Any) -> Any:
    """Exact numbers, rounded correctly; as float64 or complex128 where the dtype does not hold such numbers."""
    high = to_float(exact)
    with np.errstate(all="ignore"):
        return high.astype(dtype) if high.dtype.kind == "f" or dtype.kind == "c" else high


def beyond(got: Any, exact: Any, bound: Any) -> tuple[Any, Any]:
    """The places of the elements outside their bounds, and their errors divided by the bounds; for flat arrays."""
    high = to_float(exact)
    with np.errstate(all="ignore"):
        off = np.abs(got - high)
        # First without radii and digits beyond float64 (at most half a unit); elements that are not clearly inside are
        # compared again with both.
        half = np.maximum(spacing(high, np.float64) / 2, _TINIEST)
        over = np.flatnonzero((off + half > bound) & np.isfinite(off) & np.isfinite(bound))
        if not over.size:
            return over, off[over]
        doubtful = exact[over]
        _, low = to_double_double(doubtful)
        off = np.abs((got[over] - high[over]) - low) - radius(doubtful)
        ratio = off / bound[over]
    outside = ratio > 1
    return over[outside], ratio[outside]

"""Distances in units in the last place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["ROUNDINGS", "right_digits", "spacing", "ulps_between", "widest"]

ROUNDINGS = 4.5  # ULP: error of an elementwise derivative, and the rounding of its product with the cotangent

# dtype -> (largest number, smallest subnormal, mantissa bits), kept because np.finfo is slow.
_FINFO: dict[Any, tuple[float, float, int]] = {}


def _info(dtype: Any) -> tuple[float, float, int]:
    found = _FINFO.get(dtype)
    if found is None:
        f = np.finfo(dtype)
        found = _FINFO[dtype] = (float(f.max), float(f.smallest_subnormal), int(f.nmant))
    return found


def spacing(x: Any, dtype: Any) -> Any:
    """The gap between neighbouring numbers of `dtype` at |x|.

    Parameters
    ----------
    x : float64 or complex128 array; complex numbers count by their modulus
    dtype : floating or complex dtype

    Returns
    -------
    float64 array
        At least the smallest subnormal; at infinity and beyond, the gap at the largest finite number.
    """
    largest, tiniest, bits = _info(np.dtype(dtype))
    if np.ndim(x) == 0:  # a fast path, because most numbers of long programs are scalars
        size = min(
            abs(complex(x) if getattr(x, "dtype", None) is not None and x.dtype.kind == "c" else float(x)), largest
        )
        if not size > 0:
            return np.float64(tiniest)
        return np.float64(max(math.ldexp(1.0, math.frexp(size)[1] - 1 - bits), tiniest))
    with np.errstate(all="ignore"):
        a = np.abs(widest(x))
        a = np.where(np.isnan(a), 0.0, np.minimum(a, largest))
        _, e = np.frexp(a)
        gap = np.maximum(np.ldexp(1.0, np.asarray(e) - 1 - bits), tiniest)
        return np.where(a == 0, tiniest, gap)  # frexp(0) says nothing about size


def widest(x: Any) -> Any:
    """Floats as float64, complex numbers as complex128."""
    x = np.asarray(x)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, copy=False)


def ulps_between(got: Any, high: Any, low: Any, dtype: Any) -> Any:
    """|got - exact| in units in the last place of the exact value; of its modulus for complex numbers.

    Parameters
    ----------
    got : array of `dtype`
    high, low : float64 arrays
        The exact value as an unevaluated sum.
    dtype : floating dtype

    Returns
    -------
    float64 array
        Infinite where one of the two is not finite and they differ.
    """
    with np.errstate(all="ignore"):
        g = widest(got)
        difference = np.abs((g - high) - low)
        result = difference / spacing(high, dtype)
        same = (g == high) | (np.isnan(g) & np.isnan(high))
        return np.where(np.isfinite(difference), result, np.where(same, 0.0, np.inf))


def right_digits(off: Any, exact: Any, dtype: Any) -> Any:
    """The number of right decimal digits of floats, from their distances to the exact values.

    Parameters
    ----------
    off, exact : float64 arrays
        The distances, and the exact values (of complex numbers the moduli).
    dtype : floating or complex dtype

    Returns
    -------
    float64 array
        ``-log10(off / |exact|)``, at least 0 and at most the digits that the dtype holds. Subnormal values count as
        the smallest normal number, because they hold fewer digits. 0 where the distance is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from gtape.verify.verdicts.ulp import right_digits
    >>> right_digits(np.array([1e-5, 0.0, np.inf]), 1.0, np.float32).round(1).tolist()
    [5.0, 7.2, 0.0]
    """
    _, _, bits = _info(np.dtype(dtype))
    tiny = float(np.finfo(dtype).smallest_normal)
    with np.errstate(all="ignore"):
        found = -np.log10(off / np.maximum(np.abs(widest(exact)), tiny))
        return np.where(np.isfinite(off), np.clip(found, 0.0, (bits + 1) * math.log10(2.0)), 0.0)

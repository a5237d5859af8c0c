"""Distances in units in the last place."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

__all__ = [
    "ROUNDINGS", "digits_of", "largest", "longer_than", "right_digits", "same_numbers", "spacing", "ulps_between",
    "underflow", "widest",
]  # fmt: skip

ROUNDINGS = 4.5  # ULP: error of an elementwise derivative, and the rounding of its product with the cotangent

# The bits of a float64 that hold its exponent. Without the other bits a normal number becomes the power of two at or
# below its magnitude, a subnormal number 0, and NaN infinity.
_EXPONENT = np.int64(0x7FF0 << 48)
# (dtype, whether the machine flushes) -> (largest number, gap at 0, mantissa bits, what a product loses beneath the
# normal numbers, smallest normal number), kept because np.finfo is slow.
_FINFO: dict[Any, tuple[float, float, int, float, float]] = {}
_TINY, _HALF = sys.float_info.min, 0.5  # variables, because Python would fold constants


def _flushes() -> bool:
    """True if the machine flushes subnormal numbers to 0; computed each time, because a library may switch this on."""
    return _TINY * _HALF == 0.0


def _info(dtype: Any) -> tuple[float, float, int, float, float]:
    flushes = _flushes() and dtype.itemsize > 2  # half precision is rounded from float32
    found = _FINFO.get((dtype, flushes))
    if found is None:
        f = np.finfo(dtype)
        tiny, bits = float(f.tiny), int(f.nmant)
        gap = tiny if flushes else math.ldexp(tiny, -bits)
        # Twice for float64, because the bounds are computed in float64 and underflow in the same way.
        lost = gap if flushes or gap == math.ulp(0.0) else gap / 2
        found = _FINFO[dtype, flushes] = float(f.max), gap, bits, lost, tiny
    return found


def largest(dtype: Any) -> float:
    """The largest finite number of a floating or complex dtype."""
    return _info(np.dtype(dtype))[0]


def digits_of(dtype: Any) -> int:
    """The digits that a floating or complex dtype holds, in bits."""
    return _info(np.dtype(dtype))[2] + 1


def underflow(dtype: Any) -> float:
    """The largest absolute error of one product or quotient of `dtype` beneath the normal numbers.

    This is e in fl(x op y) = (x op y)(1 + d) + e: half of the smallest subnormal number with gradual underflow, and the
    smallest normal number where the machine flushes subnormal numbers to 0. Sums have e = 0 with gradual underflow. See
    Higham, "Accuracy and Stability of Numerical Algorithms", section 2.1. For float64 and complex128 it counts twice.

    Parameters
    ----------
    dtype : floating or complex dtype

    Returns
    -------
    float
    """
    return _info(np.dtype(dtype))[3]


def spacing(x: Any, dtype: Any) -> Any:
    """The gap between neighbouring numbers of `dtype` at |x|.

    Parameters
    ----------
    x : float64 or complex128 array; complex numbers count by their modulus
    dtype : floating or complex dtype

    Returns
    -------
    float64 array
        At least the smallest subnormal, or the smallest normal number if the machine flushes; at infinity and beyond,
        the gap at the largest finite number.
    """
    largest, tiniest, bits, _, _ = _info(np.dtype(dtype))
    if x.__class__ is float or np.ndim(x) == 0:  # a fast path, because most numbers of long programs are scalars
        size = min(
            abs(complex(x) if getattr(x, "dtype", None) is not None and x.dtype.kind == "c" else float(x)), largest
        )
        if not size > 0:
            return np.float64(tiniest)
        return np.float64(max(math.ldexp(1.0, math.frexp(size)[1] - 1 - bits), tiniest))
    x = widest(x)
    if x.dtype.kind == "c":
        with np.errstate(all="ignore"):
            x = np.abs(x)
    power = (np.ascontiguousarray(x).view(np.int64) & _EXPONENT).view(np.float64)
    most = math.ldexp(1.0, math.frexp(largest)[1] - 1 - bits)
    gap = np.maximum(np.minimum(power * math.ldexp(1.0, -bits), most), tiniest)
    return np.where(x == x, gap, tiniest)


def same_numbers(a: Any, b: Any) -> bool:
    """Whether two arrays have one shape and equal elements, where NaN equals NaN."""
    # A comparison of the bits comes first, because it takes a tenth of the time for few numbers.
    if a.dtype == b.dtype and a.shape == b.shape and a.size <= _FEW and a.tobytes() == b.tobytes():
        return True
    return np.array_equal(a, b, equal_nan=True)


_FEW = 1024


def widest(x: Any) -> Any:
    """Floats as float64, complex numbers as complex128."""
    x = np.asarray(x)
    if x.dtype.char in "dD":
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, copy=False)


def ulps_between(got: Any, high: Any, low: Any, dtype: Any, unit: Any = None) -> Any:
    """|got - exact| in units in the last place of the exact value; of its modulus for complex numbers.

    Parameters
    ----------
    got : array of `dtype`
    high, low : float64 arrays
        The exact value as an unevaluated sum.
    dtype : floating dtype
    unit : float64 array, optional
        ``spacing(high, dtype)``, if it is known.

    Returns
    -------
    float64 array
        Infinite where one of the two is not finite and they differ.
    """
    with np.errstate(all="ignore"):
        g = widest(got)
        difference = np.abs((g - high) - low)
        result = difference / (spacing(high, dtype) if unit is None else unit)
        finite = np.isfinite(difference)
        if finite.all():
            return result
        same = (g == high) | (np.isnan(g) & np.isnan(high))
        return np.where(finite, result, np.where(same, 0.0, np.inf))


def longer_than(x: Any, bits: int) -> Any:
    """The mask of the finite numbers with more significant bits; those of short numbers were meant as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from gtape.verify.verdicts.ulp import longer_than
    >>> longer_than(np.array([0.5, 3.0, 0.1, np.inf]), 12).tolist()
    [False, False, True, False]
    """
    if x.dtype.kind == "c":
        return longer_than(x.real, bits) | longer_than(x.imag, bits)
    with np.errstate(all="ignore"):
        digits = np.ldexp(np.frexp(x)[0], bits)
        return np.isfinite(x) & (digits != np.rint(digits))


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
        ``-log10(off / |exact|)``, at least 0 and at most the digits that the dtype holds. 0 where the distance is not
        finite.

    Examples
    --------
    >>> import numpy as np
    >>> from gtape.verify.verdicts.ulp import right_digits
    >>> right_digits(np.array([1e-5, 0.0, np.inf]), 1.0, np.float32).round(1).tolist()
    [5.0, 7.2, 0.0]
    """
    bits = _info(np.dtype(dtype))[2]
    most = (bits + 1) * math.log10(2.0)
    if np.ndim(off) == 0 and np.ndim(exact) == 0:  # a fast path, as in `spacing`
        far = float(off)
        if not 0 < far < math.inf:
            return np.float64(most if far == 0 else 0.0)
        size = float(abs(exact))
        return np.float64(min(max(math.log10(size) - math.log10(far), 0.0), most) if size else 0.0)
    with np.errstate(all="ignore"):
        found = np.log10(np.abs(widest(exact))) - np.log10(off)  # a quotient would overflow
        return np.where(np.isfinite(off), np.minimum(np.maximum(found, 0.0), most), 0.0)

"""The float nearest to an exact number."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["nearest"]


def nearest(ball: Any, dtype: Any) -> float | None:
    """The float nearest to the number in a ball, ties to even (IEEE 754); None if the ball is too wide to tell.

    Parameters
    ----------
    ball : arb
    dtype : floating dtype
        A dtype such as float64 or float32.

    Returns
    -------
    float or None
        Infinite beyond the largest float.

    Examples
    --------
    >>> import numpy as np
    >>> from flint import arb
    >>> nearest(arb(1) / 3, np.float32).hex(), nearest(arb("0.3 +/- 0.1"), np.float32)
    ('0x1.5555560000000p-2', None)
    """
    if not ball.is_finite():
        return None
    size, error = _exponent(ball.mid()), _exponent(ball.rad())
    # Exponents decide, because a fraction of a number such as exp(-1e30) fits in no memory.
    if max(size, error) < -_FAR:
        return -0.0 if ball.mid() < 0 else 0.0
    if size > _FAR:
        return None if error >= size - 2 else -math.inf if ball.mid() < 0 else math.inf
    if error > _FAR:
        return None
    mid, rad = _fraction(ball.mid()), _fraction(ball.rad())
    low, high = (_rounded(x, np.finfo(dtype)) for x in (mid - rad, mid + rad))
    return low if low == high else None


_FAR = 5_000  # binary exponents: no float has an exponent of this size


def _exponent(x: Any) -> int:
    """The binary exponent above a number; far below all floats for 0."""
    man, exp = (int(part) for part in x.man_exp())
    return man.bit_length() + exp if man else -2 * _FAR


def _fraction(x: Any) -> Fraction:
    man, exp = (int(part) for part in x.man_exp())
    if man.bit_length() + exp < -_FAR:  # far below the other number
        return Fraction(1, 2**_FAR) if man > 0 else -Fraction(1, 2**_FAR) if man else Fraction(0)
    return Fraction(man) * Fraction(2) ** exp


def _rounded(x: Fraction, info: Any) -> float:
    if x == 0:
        return 0.0
    size = abs(x)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    e -= size < Fraction(2) ** e  # now 2**e <= size < 2**(e + 1)
    unit = max(e, int(info.minexp)) - int(info.nmant)
    units = round(size / Fraction(2) ** unit)  # Python rounds a fraction to even, too
    try:
        found = math.ldexp(units, unit)
    except OverflowError:
        found = math.inf
    found = found if found <= float(info.max) else math.inf
    return -found if x < 0 else found

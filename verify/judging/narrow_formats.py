"""Numbers that a narrower floating format rounded, as float32 does inside a float64 program.

Such a number stops changing when its argument moves by less than a unit of the format, as a step function does. Yet it
follows its argument by longer moves, and its slope is that of the function that was rounded. Other step functions have
steps of one width everywhere: decimals, whole numbers, multiples of a power of two. (Decimals with most of the digits
of a number follow their argument by all moves that `moved` makes.) The steps of a floating format
double at each power of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.half_precision import spacing_at_one
from gtape.verify.verdicts.ulp import widest

__all__ = ["narrow_spacings"]

_BITS = (8, 11, 24)  # of a mantissa in bfloat16, float16 and float32
_SURE = 24  # bits; nobody makes steps of just this width by hand
_MANY = 8  # different numbers between two powers of two, some of which use the last bit of the format
_SOME = 3  # different numbers that are worth more points


def narrow_spacings(values: Any) -> tuple[Any, bool]:
    """The relative spacing of the narrower floating format whose numbers the elements of a constant are.

    Parameters
    ----------
    values : floating array, shape [points, elements]
        The constant at several points.

    Returns
    -------
    spacings : float64 array, shape [elements]
        0 for numbers of no narrower format.
    open : bool
        Whether more points may show such a format.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.7]]) * 1.01 ** np.arange(100)[:, None]
    >>> narrow_spacings(x.astype(np.float32).astype(np.float64))[0] == 2.0**-23
    array([ True])
    >>> narrow_spacings(np.round(x, 6))[0]
    array([0.])
    """
    own = spacing_at_one(values.real.dtype)
    if values.dtype.kind == "c":
        values = np.concatenate([values.real, values.imag])
    sizes = np.abs(widest(values))
    sizes = np.where(np.isfinite(sizes), sizes, 0.0)
    mantissas, exponents = np.frexp(sizes)
    found, left, is_open = np.zeros(values.shape[1]), np.ones(values.shape[1], bool), False
    for bits in _BITS:
        if 2.0 ** (1 - bits) <= own:
            break
        numbers = np.ldexp(mantissas, bits)
        fits = left & (numbers == np.floor(numbers)).all(axis=0)
        left &= ~fits
        seen, first = np.unique(sizes[:, fits], return_index=True)
        odd, powers = numbers[:, fits].ravel()[first] % 2 == 1, exponents[:, fits].ravel()[first]
        full = [odd[powers == e].any() for e in np.unique(powers[seen > 0]) if (powers == e).sum() >= _MANY]
        whole = bool((seen == np.floor(seen)).all())
        if not all(full) or _are_decimals(seen, 2.0 ** (1 - bits)):
            continue
        if len(full) > 1 or (len(full) == 1 and bits == _SURE and not whole):
            found[fits] = 2.0 ** (1 - bits)
        is_open = is_open or (len(full) < 2 and bool(np.count_nonzero(seen) >= _SOME))
    return found, is_open


def _are_decimals(seen: Any, spacing: float) -> bool:
    """Whether all numbers of a format are those next to multiples of one power of ten, far above its units."""
    if not seen.any():
        return False
    units = np.ldexp(spacing, np.frexp(seen)[1] - 1)
    places = int(np.floor(-np.log10(2 * units.max())))
    with np.errstate(all="ignore"):
        return bool((np.abs(seen - np.round(seen, places)) <= units / 2).all())

"""Limits on the number of exact digits, because a call of flint cannot be interrupted.

Elementary functions are quick at 100,000 digits; digamma and zeta take seconds for a few thousand digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.elementary import special_function
from gtape.symbolic.program import Program

__all__ = ["ELEMENTARY_DIGITS", "SPECIAL_DIGITS", "bits_within_reach", "checked_digits"]

ELEMENTARY_DIGITS = 100_000
SPECIAL_DIGITS = 2_000


def checked_digits(digits: Any) -> int:
    """A number of digits as an int.

    Raises
    ------
    ValueError
        For a value that is not an integer from 1 to `ELEMENTARY_DIGITS`.
    """
    whole = isinstance(digits, (int, np.integer)) and not isinstance(digits, (bool, np.timedelta64))
    if not whole or not 1 <= digits <= ELEMENTARY_DIGITS:
        raise ValueError(f"digits must be a positive whole number, at most {ELEMENTARY_DIGITS:,}, not {digits!r}")
    return int(digits)


def bits_within_reach(program: Program, digits: int) -> int:
    """The highest precision, in bits, at which a program is evaluated.

    Raises
    ------
    ValueError
        If this number of digits takes too long for the program.
    """
    special = special_function(program)
    if special is None:
        return int(ELEMENTARY_DIGITS * 3.4) + 80
    if digits > SPECIAL_DIGITS:
        raise ValueError(
            f"digits is at most {SPECIAL_DIGITS:,} for a function with {special}, not {digits:,}: beyond "
            "that a single value may take minutes, and nothing can interrupt it"
        )
    return int(SPECIAL_DIGITS * 3.4) + 80

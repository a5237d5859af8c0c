"""Writes numbers far beyond all floats so that people can read them."""

from __future__ import annotations

import re
from decimal import Decimal

__all__ = ["readable"]

_LONG = re.compile(r"(-?)[0-9]+(?:\.[0-9]*)?e([+-]?[0-9]{21,})")  # exponents of up to 20 digits stay


def readable(text: str) -> str:
    """A text of decimal numbers, in which a power of ten stands for each number whose exponent is long.

    Examples
    --------
    >>> readable("2.80666e+43429")
    '2.80666e+43429'
    >>> readable("-2.49860e-434294481903251850453656571405056984")
    '-10**(-4.34294e+35)'
    """
    return _LONG.sub(lambda number: f"{number[1]}10**({Decimal(number[2]):.5e})", text)

"""Declare an op from outside gtape: its kernel, its rules, its accuracy and its mirror, in one place.

    from gtape import declare

    log_cosh = declare.elementwise(
        "log_cosh", kernel, lambda xp, y, x: xp.tanh(x), domain=declare.ANY_REAL, ulps=4
    )
    declare.mirror(log_cosh, lambda x: sp.log(sp.cosh(x)))

The declaration is checked at once. The op then has gradients of every order, forward and reverse. The verify flag,
``gtape verify log_cosh --load your_module``, strategies, census and proofs include it.
"""

from __future__ import annotations

from gtape.declare.conventions import AtPoints, Noted, OfArrays
from gtape.declare.domains import (
    ANY_REAL,
    BOOLEAN,
    NONNEGATIVE,
    NONZERO,
    OPEN_UNIT,
    POSITIVE,
    UNIT,
    Domain,
    Interval,
)
from gtape.declare.mirrors import mirror
from gtape.declare.primitives import Primitive, elementwise, implicit, linear, primitive
from gtape.declare.registry import together
from gtape.declare.rounding import (
    EXACT,
    PRODUCT,
    SUM,
    Rounding,
    elimination,
    growing,
    products,
    stable,
    sums,
    ulps,
)

__all__ = [
    "ANY_REAL", "BOOLEAN", "EXACT", "NONNEGATIVE", "NONZERO", "OPEN_UNIT", "POSITIVE", "PRODUCT", "SUM", "UNIT",
    "AtPoints", "Domain", "Interval", "Noted", "OfArrays", "Primitive", "Rounding", "elementwise", "elimination",
    "growing", "implicit", "linear", "mirror", "primitive", "products", "stable", "sums", "together", "ulps",
]  # fmt: skip

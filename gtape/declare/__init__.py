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

from gtape.declare import domains, rounding
from gtape.declare.conventions import AtPoints, Noted, OfArrays
from gtape.declare.domains import *  # noqa: F403
from gtape.declare.mirrors import mirror
from gtape.declare.primitives import Primitive, elementwise, implicit, linear, primitive
from gtape.declare.registry import together
from gtape.declare.rounding import *  # noqa: F403

__all__ = [
    *domains.__all__, *rounding.__all__, "AtPoints", "Noted", "OfArrays", "Primitive", "elementwise", "implicit",
    "linear", "mirror", "primitive", "together",
]  # fmt: skip

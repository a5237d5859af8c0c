"""Limits on the number of exact digits, because a call of flint cannot be interrupted.

Elementary functions are quick at 100,000 digits; digamma and zeta take seconds for a few thousand digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from gtape.symbolic.mirrors import load
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.program import Node, Program
from gtape.symbolic.scalars import template

__all__ = ["ELEMENTARY_DIGITS", "SPECIAL_DIGITS", "bits_within_reach", "checked_digits", "special_function"]

ELEMENTARY_DIGITS = 100_000
SPECIAL_DIGITS = 2_000

_ELEMENTARY = (
    sp.exp, sp.log, sp.sin, sp.cos, sp.tan, sp.cot, sp.sec, sp.csc, sp.asin, sp.acos, sp.atan, sp.atan2,
    sp.sinh, sp.cosh, sp.tanh, sp.coth, sp.sech, sp.csch, sp.asinh, sp.acosh, sp.atanh,
    sp.Abs, sp.sign, sp.Max, sp.Min, sp.floor, sp.ceiling, sp.Piecewise, sp.sinc, sp.re, sp.im, sp.conjugate, sp.arg,
)  # fmt: skip


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


def special_function(program: Program) -> str | None:
    """The name of the first op of a program that is not elementary; None if all are."""
    return next((n.name for n in program.nodes if n.kind == "op" and not _is_elementary(n)), None)


def _is_elementary(node: Node) -> bool:
    if node.prim.kind != "elementwise":
        return "gamma" not in node.name  # sums, products and equations of elementary numbers are elementary
    load()
    mirror = SCALARS.get(node.name)
    if mirror is None:
        return True  # arithmetic and selections have no mirror, because the worlds define them
    functions = template(mirror, len(node.inputs), node.params).expression.atoms(sp.Function)
    return all(isinstance(f, _ELEMENTARY) for f in functions)


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

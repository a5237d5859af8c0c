"""The base of SymPy functions that have balls, so that SymPy finds their numbers, too."""

from __future__ import annotations

from typing import Any

import sympy as sp
from flint import arb, fmpq

from gtape.symbolic.balls import Undecided, precision

__all__ = ["Enclosed"]

_MORE = (32, 256, 2048)  # bits beyond those asked for


class Enclosed(sp.Function):
    """A function with a static method ``ball`` of numbers, which ``evalf`` calls.

    Examples
    --------
    >>> from gtape.symbolic.special_functions import LogAbsGamma
    >>> LogAbsGamma(sp.Rational(5, 2)).evalf(20)
    0.28468287047291915963
    """

    def _eval_evalf(self, prec: int) -> Any:
        if not self.args or not all(a.is_number for a in self.args):
            return super()._eval_evalf(prec)
        for more in _MORE:
            with precision(prec + more):
                try:
                    args = [_number(a, prec + more) for a in self.args]
                    made = arb(self.ball(*args))
                except (Undecided, ArithmeticError, NotImplementedError, ValueError, TypeError):
                    continue
            if made == 0:
                return sp.Float(0, precision=prec)
            if made.is_exact() and not made.is_finite():
                return None if made.is_nan() else sp.oo if made > 0 else -sp.oo
            if made.is_finite() and made.rel_accuracy_bits() > prec:
                man, exponent = (int(k) for k in made.mid().man_exp())
                return sp.Float((int(man < 0), abs(man), exponent, abs(man).bit_length()), precision=prec)
        return None


def _number(value: sp.Expr, bits: int) -> Any:
    """A real number as an int, if it is one, or as a ball."""
    if value.is_Integer:
        return int(value)
    if value.is_Rational:
        return arb(fmpq(value.p, value.q))
    number = value if value.is_Float else value.evalf(bits * 3 // 10 + 3)
    if not number.is_Float:
        raise ValueError(f"{value} is no real number")
    sign, man, exponent, _ = number._mpf_
    middle = arb(-man if sign else man) * arb(2) ** exponent
    return middle if value.is_Float else middle + arb(0, abs(middle) * arb(2) ** -bits)

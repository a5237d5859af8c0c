"""Special functions that SymPy lacks, or that need another form: their derivatives, and how balls evaluate them.

A function here has ``fdiff``, the textbook derivative, and a static method ``ball``, which `compile_balls` calls.
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from flint import arb

__all__ = ["Dawson", "LogAbsGamma", "ScaledBesselI", "ScaledBesselK", "Spence"]


class LogAbsGamma(sp.Function):
    """log|Γ(x)| for real x; SymPy's loggamma is complex for negative x (DLMF 5.5.3)."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return sp.polygamma(0, self.args[0])

    @staticmethod
    def ball(x: Any) -> Any:
        x = arb(x)
        if x > 0:
            return x.lgamma()
        return (arb.pi() / abs(x.sin_pi())).log() - (1 - x).lgamma()


class Dawson(sp.Function):
    """exp(-x²) times the integral of exp(t²) from 0 to x (DLMF 7.2.5)."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return 1 - 2 * self.args[0] * self

    @staticmethod
    def ball(x: Any) -> Any:
        x = arb(x)
        return x * arb.hypgeom_1f1(-x * x, 1, arb(3) / 2)


class ScaledBesselI(sp.Function):
    """exp(-x) I_m(x) for whole m (DLMF 10.29.1)."""

    nargs = 2

    @classmethod
    def eval(cls, m: Any, x: Any) -> Any:
        return cls(-m, x) if m.is_Integer and m < 0 else None

    def fdiff(self, argindex: int = 2) -> sp.Expr:
        m, x = self.args
        return (self.func(m - 1, x) + self.func(m + 1, x)) / 2 - self

    @staticmethod
    def ball(m: Any, x: Any) -> Any:
        return arb(x).bessel_i(int(m), scaled=True)


class ScaledBesselK(sp.Function):
    """exp(x) K_m(x) for whole m (DLMF 10.29.1)."""

    nargs = 2

    @classmethod
    def eval(cls, m: Any, x: Any) -> Any:
        return cls(-m, x) if m.is_Integer and m < 0 else None

    def fdiff(self, argindex: int = 2) -> sp.Expr:
        m, x = self.args
        return self - (self.func(m - 1, x) + self.func(m + 1, x)) / 2

    @staticmethod
    def ball(m: Any, x: Any) -> Any:
        m, x = arb(m), arb(x)  # Tricomi's function, DLMF 10.39.6; see _besselk in compile.py
        return arb.pi().sqrt() * (2 * x) ** m * (2 * x).hypgeom_u(m + arb(1) / 2, 2 * m + 1)


class Spence(sp.Function):
    """Li2(1 - x): minus the integral of log(t)/(t - 1) from 1 to x (DLMF 25.12.2)."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        x = self.args[0]
        return -sp.log(x) / (x - 1)

    @staticmethod
    def ball(x: Any) -> Any:
        return (1 - arb(x)).polylog(2)

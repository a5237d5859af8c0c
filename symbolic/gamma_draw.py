"""The gamma draw y(a, z) with P(a, y) = Phi(z), and its derivatives by a, as enclosures (balls).

P is the regularised lower incomplete gamma function, and Phi the normal distribution. The derivatives come from the
power series of y in a, which Newton's method finds from the equation. The tape's kernels share no formula with this
module.
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from flint import arb, arb_series, ctx
from sympy.core.function import ArgumentIndexError

from gtape.symbolic.enclosed import Enclosed

__all__ = ["GammaDraw"]


_SMALL = 1e-290


class GammaDraw(Enclosed):
    """``GammaDraw(n, a, z)``: the n-th derivative of the draw by a."""

    nargs = 3

    def fdiff(self, argindex: int = 2) -> sp.Expr:
        n, a, z = self.args
        if argindex != 2:
            raise ArgumentIndexError(self, argindex)  # z is noise
        return GammaDraw(n + 1, a, z)

    @staticmethod
    def ball(n: Any, a: Any, z: Any) -> Any:
        n = int(n)
        before, length = ctx.prec, ctx.cap
        a, z = arb(a), arb(z)
        if not (a > 0 and z.is_finite() and a.is_finite()):
            return arb("nan")
        ctx.prec = before + 60 + int(2 * float(abs(z.mid())) ** 2)
        ctx.cap = n + 1
        try:
            series = _series(a, z, n)
            result = series[n] * arb.fac_ui(n)
        finally:
            ctx.prec, ctx.cap = before, length
        return +result


def _lower(a: Any, y: Any) -> tuple[Any, Any]:
    """P(a, y) and its derivative by y, for power series (DLMF 8.7.1)."""
    term = 1 / a
    total = term
    k = 0
    small = arb(2) ** (-ctx.prec)
    while True:
        k += 1
        ratio = y / (a + k)
        term = term * ratio
        total = total + term
        if k % 8 or float(ratio[0].mid()) > 0.75:
            continue
        if all(abs(term[i]) < small * abs(total[0]) for i in range(ctx.cap)):
            break
        if k > 200_000:
            raise ArithmeticError("the series of the incomplete gamma function does not end")
    # In each coefficient a geometric series bounds the omitted terms.
    rest = [8 * (1 + abs(term[i]).upper()) * small * abs(total[0]).upper() for i in range(ctx.cap)]
    total = total + arb_series([arb(0, r) for r in rest], ctx.cap)
    log_density = a * y.log() - y - a.lgamma()
    density = log_density.exp()
    return density * total, density / y


def _probability(a: Any, y: Any) -> Any:
    """P(a, y) for balls, because flint's function loses all digits and takes seconds for some large arguments."""
    return _lower(arb_series([a], 1), arb_series([y], 1))[0][0]


def _density(a: Any, y: Any) -> Any:
    return ((a - 1) * y.log() - y - a.lgamma()).exp()


def _series(a: Any, z: Any, n: int) -> Any:
    """The power series of y(a + t) in t, with a rigorous ball for each coefficient."""
    aim = ((-z / arb(2).sqrt()).erfc()) / 2
    y = _start(a, z, aim)
    if not n or not y.is_finite():
        return [y] * (n + 1)
    line = arb_series([a, 1], n + 1)
    full = arb_series([y], n + 1)
    for _ in range((n + 1).bit_length()):
        have, slope = _lower(line, full)
        full = full - (have - aim) / slope
    # A Newton step is exact up to the order of the series before it, so all coefficients are correct now.
    return full


def _start(a: Any, z: Any, aim: Any) -> Any:
    """A ball around y(a, z): the middle by Newton's method, the radius by the signs of P - aim at both ends."""
    from gtape.kernels.random_gamma import gamma_draw

    cap = ctx.cap
    ctx.cap = 1
    try:
        guess = arb(float(gamma_draw(float(a.mid()), float(z.mid()))))
        middle, target = a.mid(), aim.mid()
        if not guess > _SMALL:  # beneath floats the first term decides: P(a, y) = y^a / gamma(a + 1) for small y
            guess = ((target.log() + (middle + 1).lgamma()) / middle).exp().mid()
        for _ in range(8):
            step = ((_probability(middle, guess) - target) / (_density(middle, guess) * guess)).mid()
            if step > 1 or step < -1:
                step = arb(1) if step > 0 else arb(-1)
            guess = (guess * (-step).exp()).mid()
            if abs(step) < arb(2) ** (-ctx.prec // 2 - 8):  # the next step would be below the precision
                break
        width = abs(guess) * arb(2) ** (-ctx.prec + 48)
        while width < guess:
            low, high = guess - width, guess + width
            if _probability(a, low) < aim and _probability(a, high) > aim:
                return low.union(high)
            width = width * 16
    finally:
        ctx.cap = cap
    return arb("nan")

"""The gamma draw y(a, z) with P(a, y) = Phi(z), and its derivatives by a, as enclosures (balls).

P is the regularised lower incomplete gamma function, and Phi the normal distribution. The derivatives come from the
power series of y in a, which Newton's method finds from the equation. The tape's kernels share no formula with this
module. A power series gives P for small a, and integrals of power series on panels for large a.
"""

from __future__ import annotations

import math
from typing import Any

import sympy as sp
from flint import arb, arb_poly, arb_series, ctx
from sympy.core.function import ArgumentIndexError

from gtape.symbolic.enclosed import Enclosed

__all__ = ["GammaDraw"]


_MOST_STEPS = 16  # of Newton's method
_MOST_BITS = 128  # of a shape, because the enclosures need some times as many bits more
_SMALL = 1e-290
_LARGE = 1000  # from this shape on integrals are quicker than the power series
_PANEL, _MOST_PANELS = 1.5, 1000  # half the width of a panel, in standard deviations


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
        if _bits(a) > _MOST_BITS:
            raise ArithmeticError(f"a gamma draw of a shape beyond 2^{_MOST_BITS} has no enclosure")
        # Terms as large as powers of a cancel, and those as small as the density of z are added to 1.
        ctx.prec = before + 60 + int(2 * float(abs(z.mid())) ** 2) + (n + 2) * _bits(a)
        ctx.cap = n + 1
        try:
            series = _series(a, z, n)
            result = series[n] * arb.fac_ui(n)
        finally:
            ctx.prec, ctx.cap = before, length
        return +result


def _bits(a: Any) -> int:
    """The number of bits of the whole part of a number."""
    man, exponent = (int(k) for k in a.mid().man_exp())
    return max(man.bit_length() + exponent, 0)


def _zeros(x: Any) -> int:
    """The number of zeros after the binary point of a number below 1."""
    man, exponent = (int(k) for k in x.man_exp())
    return max(-man.bit_length() - exponent, 0)


def _lower(a: Any, y: Any) -> tuple[Any, Any]:
    """P(a, y) and its derivative by y, for power series."""
    return _by_integrals(a, y) if a[0] > _LARGE else _by_series(a, y)


def _by_series(a: Any, y: Any) -> tuple[Any, Any]:
    """As `_lower`, by the sum of y^k / (a (a + 1) ... (a + k)) (DLMF 8.7.1)."""
    term = 1 / a
    total = term
    k = 0
    small = arb(2) ** (-ctx.prec)
    while True:
        k += 1
        term = term * (y / (a + k))
        total = total + term
        if k % 8:
            continue
        # All further ratios have coefficients below those of `ratio`, because a + k only grows.
        sizes = _sizes(y) / (a[0].lower() + k)
        ratio = sizes / arb_series([1, -1 / (a[0].lower() + k)], ctx.cap)
        if not ratio[0] < 1:
            continue
        rest = _sizes(term) * ratio / (1 - ratio)
        if all(rest[i] < small * abs(total[0]) for i in range(ctx.cap)):
            break
        if k > 200_000:
            raise ArithmeticError("the series of the incomplete gamma function does not end")
    total = total + arb_series([arb(0, rest[i].upper()) for i in range(ctx.cap)], ctx.cap)
    density = _density_times_y(a, y)
    return density * total, density / y


def _sizes(series: Any) -> Any:
    """The power series of the magnitudes of coefficients."""
    return arb_series([series[i].abs_upper() for i in range(ctx.cap)], ctx.cap)


def _density_times_y(a: Any, y: Any) -> Any:
    return (a * y.log() - y - a.lgamma()).exp()


def _by_integrals(a: Any, y: Any) -> tuple[Any, Any]:
    """As `_lower`, for a = a_0 + t, by as many integrals as coefficients, because the series takes too many terms.

    With y = y_0 + h, P(a, y) is P(a, y_0) plus the integral of the density from y_0 to y_0 + h, as a power series in h.
    """
    first = arb_series([y[0]], ctx.cap)
    moments = arb_series(_moments(a[0], y[0], ctx.cap), ctx.cap)
    at_first = _density_times_y(a, first)
    total = at_first * moments
    move = y - first
    before, now, power = arb_series([0], ctx.cap), at_first / first, move
    for j in range(ctx.cap):
        # By reciprocals, because a quotient with an exact 0 above the line raises an error in old versions of flint.
        total = total + now * power * (1 / arb(j + 1))
        before, now = now, ((a - 1 - first - j) * now - before) * (1 / (first * (j + 1)))
        power = power * move
    return total, _density_times_y(a, y) / y


def _moments(a: Any, y: Any, count: int) -> list[Any]:
    """The integrals over s < 0 of s^i / i! exp(a s - y (exp(s) - 1)), i = 0 ... count - 1.

    They are P(a, y) over `_density_times_y` and its derivatives by a, over factorials.
    """
    made = _moments_at(a.mid(), y.mid(), count)
    if a.is_exact() and y.is_exact():
        return made
    # The integrands have one sign each. |exp(s) - 1| < |s|, so the next moment at the end of the balls where the
    # exponential is largest bounds both derivatives.
    precision, ctx.prec = ctx.prec, min(ctx.prec, 64 + 2 * _bits(a))
    try:
        most = _moments_at(a.lower(), y.upper(), count + 1)
    finally:
        ctx.prec = precision
    moved = a.rad() + y.rad()
    return [m + arb(0, (moved * (i + 1) * most[i + 1].abs_upper()).upper()) for i, m in enumerate(made)]


def _moments_at(a: Any, y: Any, count: int) -> list[Any]:
    """As `_moments`, for exact numbers: the integral of a power series on each of some panels."""
    aim = ctx.prec + 32
    half = (_PANEL / a.sqrt()).mid()
    made = [arb(0)] * count
    for k in range(_MOST_PANELS):
        for i, m in enumerate(_on_panel(a, y, -(2 * k + 1) * half, half, aim, count)):
            made[i] = made[i] + m
        left = 2 * (k + 1) * half
        fall = a - y * (-left).exp()
        if fall > 0 and _exponent(a, y, -left) < -aim * arb(2).log():
            break
    else:
        raise ArithmeticError("the integral of the incomplete gamma function does not end")
    # Beyond the panels the exponent falls at least as fast as its tangent there.
    rest = end = _exponent(a, y, -left).exp() / fall
    for i in range(count):
        if i:
            rest = end * left**i / arb.fac_ui(i) + rest / fall
        made[i] = made[i] + arb(0, rest.abs_upper())
    return made


def _on_panel(a: Any, y: Any, centre: Any, half: Any, aim: int, count: int) -> list[Any]:
    """The moments over one panel.

    The exponent is a power series in v = (s - centre) / half. Its exponential is at most `most` where |v| = 4, so that
    coefficient k is at most most / 4^k (Cauchy's inequality).
    """
    weight = y * centre.exp()
    first, slope = _exponent(a, y, centre), (a - weight) * half
    log_most = first + 4 * abs(slope) + weight * ((4 * half).expm1() - 4 * half)
    length = max(4, 1 + math.ceil((aim + float(log_most.mid()) / math.log(2)) / 2))
    terms = [first, slope]
    term = -weight * half
    for k in range(2, length):
        term = term * half / k
        terms.append(term)
    cap, ctx.cap = ctx.cap, length
    try:
        values = arb_poly(list(arb_series(terms, length).exp()))
    finally:
        ctx.cap = cap
    rest = 3 * log_most.exp() / arb(4) ** length * half
    made = []
    for i in range(count):
        if i:
            values = values * arb_poly([centre / i, half / i])
            rest = rest * (abs(centre) + half) / i
        integral = values.integral()
        made.append((integral(1) - integral(-1)) * half + arb(0, rest.abs_upper()))
    return made


def _exponent(a: Any, y: Any, s: Any) -> Any:
    return a * s - y * s.expm1()


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
    from gtape.kernels.random_gamma import gamma_draw_nearly

    full, cap = ctx.prec, ctx.cap
    ctx.cap = 1
    try:
        guess = arb(float(gamma_draw_nearly(float(a.mid()), float(z.mid()))))
        middle, target = a.mid(), aim.mid()
        if not guess > _SMALL:  # beneath floats the first term decides: P(a, y) = y^a / gamma(a + 1) for small y
            guess = ((target.log() + (middle + 1).lgamma()) / middle).exp().mid()
        # Each step doubles the digits, and needs no more than those it finds.
        known = 0
        spare = 64 + 2 * _bits(a) + int(2 * float(abs(z.mid())) ** 2)
        for _ in range(_MOST_STEPS):
            ctx.prec = min(full, spare + 2 * known)
            step = ((_probability(middle, guess) - target) / (_density(middle, guess) * guess)).mid()
            if step > 1 or step < -1:
                step = arb(1) if step > 0 else arb(-1)
            guess = (guess * (-step).exp()).mid()
            if ctx.prec == full and abs(step) < arb(2) ** (
                -full // 2 - 8
            ):  # the next step would be below the precision
                break
            known = 2 * _zeros(step) if step != 0 else full
        ctx.prec = full
        width = abs(guess) * arb(2) ** (-ctx.prec + 48)
        while width < guess:
            low, high = guess - width, guess + width
            if _probability(a, low) < aim and _probability(a, high) > aim:
                return low.union(high)
            width = width * 16
    finally:
        ctx.prec, ctx.cap = full, cap
    return arb("nan")

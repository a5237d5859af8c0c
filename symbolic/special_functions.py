"""Special functions that SymPy lacks or has in another form: their derivatives and their enclosures (balls).

Each function has ``fdiff``, the textbook derivative, and a static method ``ball``, which `compile_balls` calls.
"""

from __future__ import annotations

import math
from typing import Any

import sympy as sp
from flint import acb, arb, arb_poly, arb_series, ctx

from gtape.symbolic.balls import assumed, integer_power, stands_for_infinity
from gtape.symbolic.enclosed import Enclosed
from gtape.symbolic.incomplete_beta import beta_derivatives
from gtape.symbolic.remembered import remembered

__all__ = [
    "BetaDensityAtRim",
    "ConvergentZeta",
    "CosineOfPi",
    "Dawson",
    "DawsonDerivative",
    "GammaDensityAtRim",
    "HurwitzZeta",
    "IncompleteBeta",
    "IncompleteGamma",
    "IncompleteGammaRest",
    "LogAbsGamma",
    "NormalDistribution",
    "PowerAtZero",
    "ScaledBesselI",
    "ScaledBesselK",
    "ScaledErfc",
    "SineOfPi",
    "Spence",
    "beta_density_with_rims",
    "far_erfc",
    "gamma_density_with_rim",
    "zeta_derivative",
]  # fmt: skip


class LogAbsGamma(Enclosed):
    """log|Γ(x)| for real x. SymPy's loggamma is complex for negative x (DLMF 5.5.3)."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return sp.polygamma(0, self.args[0])

    @staticmethod
    def ball(x: Any) -> Any:
        x = arb(x)
        if x > 0:
            return x.lgamma()
        return (arb.pi() / abs(x.sin_pi())).log() - (1 - x).lgamma()


_WAVE = arb(0, 1)  # all numbers between -1 and 1


def _oscillates(x: Any) -> bool:
    """Whether a number stands for infinity, where waves have no limit.

    The large number is a power of two, so a wave in half turns would always have the value of a whole turn there.
    """
    return assumed.get("limits") is not None and isinstance(x, arb) and stands_for_infinity(x)


class SineOfPi(Enclosed):
    """sin(pi x), which balls reduce exactly, while pi x loses the digits before its binary point."""

    nargs = 1

    @staticmethod
    def ball(x: Any) -> Any:
        x = x if isinstance(x, (arb, acb)) else arb(x)
        return _WAVE if _oscillates(x) else x.sin_pi()


class CosineOfPi(Enclosed):
    """cos(pi x), as `SineOfPi`."""

    nargs = 1

    @staticmethod
    def ball(x: Any) -> Any:
        x = x if isinstance(x, (arb, acb)) else arb(x)
        return _WAVE if _oscillates(x) else x.cos_pi()


class Dawson(Enclosed):
    """exp(-x²) times the integral of exp(t²) from 0 to x (DLMF 7.2.5)."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return DawsonDerivative(1, self.args[0])

    @staticmethod
    def ball(x: Any) -> Any:
        return DawsonDerivative.ball(0, x)


class _Derivatives(Enclosed):
    """Base of functions of an order n and of x that are the n-th derivatives of one function."""

    nargs = 2

    def fdiff(self, argindex: int = 2) -> sp.Expr:
        n, x = self.args
        return self.func(n + 1, x)


class DawsonDerivative(_Derivatives):
    """``DawsonDerivative(n, x)``: the n-th derivative of Dawson's function.

    Kummer's functions give the integral of exp(-t²/4) sin(x t)/2 over all positive t, differentiated under its sign.
    The recurrence F^(k+1) = -2x F^(k) - 2k F^(k-1) cancels far from 0.
    """

    @staticmethod
    def ball(n: Any, x: Any) -> Any:
        n, x = round(float(n)), arb(x)
        half, odd = divmod(n, 2)
        size = (-1) ** half * math.factorial(half) * arb(2) ** (n - odd)
        return size * (1 if odd else x) * arb.hypgeom_1f1(-x * x, half + 1, arb(1) / 2 if odd else arb(3) / 2)


class ScaledErfc(_Derivatives):
    """``ScaledErfc(n, x)``: the n-th derivative of exp(x²) erfc(x).

    Tricomi's function for positive x (DLMF 7.18), where the recurrence f^(k+1) = 2x f^(k) + 2k f^(k-1) cancels.
    """

    @staticmethod
    def ball(n: Any, x: Any) -> Any:
        n, x = round(float(n)), arb(x)
        if x > 1:
            return (-1) ** n * math.factorial(n) / arb.pi().sqrt() * (x * x).hypgeom_u(arb(n + 1) / 2, arb(1) / 2)
        here = (x * x).exp() * x.erfc()
        before, here = here, 2 * x * here - 2 / arb.pi().sqrt()
        if n == 0:
            return before
        for k in range(1, n):
            before, here = here, 2 * x * here + 2 * k * before
        return here


class NormalDistribution(Enclosed):
    """erfc(-x/sqrt(2))/2. SymPy would write 1 - erfc(x/sqrt(2))/2, which has no digits in the tail."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return sp.exp(-(self.args[0] ** 2) / 2) / sp.sqrt(2 * sp.pi)

    @staticmethod
    def ball(x: Any) -> Any:
        x = arb(x)
        return far_erfc(x**2 / 2) / 2 if x < -1000 else (-x / arb(2).sqrt()).erfc() / 2


def _power_at_zero(y: acb, n: int, m: int) -> acb:
    """The value of `PowerAtZero` for a complex exponent."""
    if y.real > n:
        return acb(0)
    if m == 0 and y.imag == 0:
        for k in range(n + 1):
            if y.real == k:
                return acb(math.factorial(n) if k == n else 0)
    return acb("nan", "nan")


class PowerAtZero(Enclosed):
    """``PowerAtZero(x, y, n, m)``: the limit of the derivative (d/dx)**n (d/dy)**m of x**y for x -> 0 from above.

    The derivative is x**(y - n) times a polynomial in log(x) of degree m, which a positive exponent outweighs. For a
    negative exponent the derivative is infinite, with the sign of (-1)**m y (y - 1) ... (y - n + 1). There is no value
    for integers y, where the polynomial may vanish, nor for y < 0. A complex exponent with a real part above n
    outweighs logarithms, too. Without logarithms (m = 0), whole complex exponents up to n have values.
    """

    nargs = 4

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        x, y, n, m = self.args
        return PowerAtZero(x, y, n + 1, m) if argindex == 1 else PowerAtZero(x, y, n, m + 1)

    def doit(self, **hints: Any) -> sp.Expr:
        """The textbook formula, which holds for x > 0."""
        x, y, n, m = self.args
        base, exponent = sp.Dummy("x", positive=True), sp.Dummy("y", real=True)
        formula = sp.diff(base**exponent, base, n, exponent, m)
        return formula.xreplace({base: x, exponent: y})

    @staticmethod
    def ball(x: Any, y: Any, n: Any, m: Any) -> Any:
        n = int(n)
        if isinstance(y, acb):
            return _power_at_zero(y, n, int(m))
        y = arb(y)
        if y > n:
            return arb(0)
        sign = math.prod([1 if y > k else -1 for k in range(n)]) * (-1) ** int(m)
        return arb("inf") * sign if y < n else arb("nan")


class ScaledBesselI(Enclosed):
    """exp(-x) I_m(x) for an integer m (DLMF 10.29.1)."""

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


class ScaledBesselK(Enclosed):
    """exp(x) K_m(x) for an integer m (DLMF 10.29.1)."""

    nargs = 2

    @classmethod
    def eval(cls, m: Any, x: Any) -> Any:
        return cls(-m, x) if m.is_Integer and m < 0 else None

    def fdiff(self, argindex: int = 2) -> sp.Expr:
        m, x = self.args
        return self - (self.func(m - 1, x) + self.func(m + 1, x)) / 2

    @staticmethod
    def ball(m: Any, x: Any) -> Any:
        m, x = arb(m), arb(x)
        if ctx.prec <= 400 or not x > 0:  # flint's U has finite numbers at its pole
            return x.bessel_k(m, scaled=True)
        # Tricomi's function (DLMF 10.39.6) at many bits, because flint's own K takes minutes for x near 500.
        return arb.pi().sqrt() * (2 * x) ** m * (2 * x).hypgeom_u(m + arb(1) / 2, 2 * m + 1)


class Spence(Enclosed):
    """Li2(1 - x): minus the integral of log(t)/(t - 1) from 1 to x (DLMF 25.12.2)."""

    nargs = 1

    @classmethod
    def eval(cls, x: Any) -> Any:
        return sp.Integer(0) if x == 1 else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        x = self.args[0]
        return -sp.log(x) / (x - 1)

    @staticmethod
    def ball(x: Any) -> Any:
        return (1 - arb(x)).polylog(2)


class HurwitzZeta(Enclosed):
    """``HurwitzZeta(m, s, q)``: the sum of (q + k)^-s over k >= 0, m times differentiated by s (DLMF 25.11.1)."""

    nargs = 3

    def fdiff(self, argindex: int = 3) -> sp.Expr:
        m, s, q = self.args
        if argindex == 2:
            return self.func(m + 1, s, q)
        value = -s * self.func(m, s + 1, q)  # by DLMF 25.11.17
        return value - m * self.func(m - 1, s + 1, q) if m else value

    @staticmethod
    def ball(m: Any, s: Any, q: Any) -> Any:
        m, s, q = int(m), arb(s), arb(q)
        if s > 2**30 and q > 0:  # flint has no result here, so some terms are summed and an integral bounds the rest
            total = sum((_times_log(m, q + k) * (1 + k / q) ** -s for k in range(1, 64)), _times_log(m, q))
            end = q + 64
            rest = (1 + 64 / q) ** -s * end.log() ** m * (1 + end / (s - 1 - m))  # log(t)/t falls
            return q**-s * (total + (-1) ** m * arb(0).union(rest))
        if not s > 1 and abs(q) > arb(2) ** 1100:  # FLINT would not return
            raise ArithmeticError("zeta at s <= 1 is not evaluated for q beyond all floats")
        if m == 0:
            return s.zeta() if q == 1 else s.zeta(q)
        before, ctx.cap = ctx.cap, m + 1
        try:
            return arb_series([s, 1], prec=m + 1).zeta(q)[m] * arb.fac_ui(m)
        finally:
            ctx.cap = before


class ConvergentZeta(Enclosed):
    """``ConvergentZeta(s, q)``: Hurwitz's zeta function where its series converges, which has no value for s < 1."""

    nargs = 2

    def fdiff(self, argindex: int = 2) -> sp.Expr:
        return HurwitzZeta(0, *self.args).fdiff(argindex + 1)

    @staticmethod
    def ball(s: Any, q: Any) -> Any:
        return arb("nan") if arb(s) < 1 else HurwitzZeta.ball(0, s, q)


def _times_log(m: int, x: Any) -> Any:
    return integer_power(-x.log(), m) if m else arb(1)


class IncompleteGamma(Enclosed):
    """``IncompleteGamma(m, a, x)``: the m-th derivative by a of P(a, x), the regularised integral to x (DLMF 8.2.4)."""

    nargs = 3

    def fdiff(self, argindex: int = 3) -> sp.Expr:
        m, a, x = self.args
        return self.func(m + 1, a, x) if argindex == 2 else gamma_density_with_rim(a, x, int(m), 0)

    @staticmethod
    def ball(m: Any, a: Any, x: Any) -> Any:
        m, a, x = int(m), arb(a), arb(x)
        if not (a > 0 and x > 0):
            return arb(0) if a > 0 and x == 0 else arb("nan")
        if m == 0 and x > a:
            return 1 - x.gamma_upper(a, 1)
        if m == 0 and a <= 300:
            return x.gamma_lower(a, 1)
        if 20 * x < 19 * a or (not a >= 2 and x < 2000):  # `not`, because a ball around 2 is neither above nor below
            return _by_series(m, a, x)
        if m == 0:
            return 1 - x.gamma_upper(a, 1)
        # With a < 2, Q is less than exp(-x) x^a (1 + log(x) + 1/a)^m / gamma(a) for all digits of a.
        return _by_differences(m, a, x) if a >= 2 else arb(0, arb(2) ** -1300)


class IncompleteGammaRest(Enclosed):
    """Q(a, x) = 1 - P(a, x), the regularised integral from x on (DLMF 8.2.4)."""

    nargs = 2

    def fdiff(self, argindex: int = 2) -> sp.Expr:
        a, x = self.args
        return -IncompleteGamma(1, a, x) if argindex == 1 else -gamma_density_with_rim(a, x, 0, 0)

    @staticmethod
    def ball(a: Any, x: Any) -> Any:
        a, x = arb(a), arb(x)
        return arb("nan") if x < 0 or a < 0 else x.gamma_upper(a, 1)


class IncompleteBeta(Enclosed):
    """``IncompleteBeta(p, q, a, b, x)``: I_x(a, b), p times differentiated by a and q times by b (DLMF 8.17.2)."""

    nargs = 5

    def fdiff(self, argindex: int = 5) -> sp.Expr:
        p, q, a, b, x = self.args
        if argindex == 5:
            return beta_density(a, b, x, int(p), int(q), 0)
        return self.func(p + 1, q, a, b, x) if argindex == 3 else self.func(p, q + 1, a, b, x)

    @staticmethod
    def ball(p: Any, q: Any, a: Any, b: Any, x: Any) -> Any:
        p, q, a, b, x = int(p), int(q), arb(a), arb(b), arb(x)
        if a > 0 and b > 0 and (x == 0 or x == 1):
            return arb(int(x == 1 and p + q == 0))
        if p == q > 0 and 2 * x == 1 and a == b:  # by I_x(a, b) = 1 - I_{1-x}(b, a)
            return arb(0)
        # All orders of a point are computed at once, because callers take the partials one by one.
        return remembered(beta_derivatives)(p + q and max(p + q, 2), a, b, x)[p, q]


def far_erfc(square: Any) -> Any:
    """erfc of a positive number, from the number's square, by Tricomi's function (DLMF 7.11.5).

    flint's own erfc of a large inexact ball contains 0 at every precision.
    """
    half = arb(1) / 2
    return (-square).exp() * square.hypgeom_u(half, half) / arb.pi().sqrt()


def gamma_density(a: Any, x: Any, m: int, n: int) -> Any:
    """x^(a-1) exp(-x) / Γ(a), differentiated m times by a and n times by x."""
    s, t = sp.Symbol("s", positive=True), sp.Symbol("t", positive=True)
    value = t ** (s - 1) * sp.exp(-t) / sp.gamma(s)
    for _ in range(m):
        value = sp.expand(value.diff(s))
    for _ in range(n):
        value = sp.expand(value.diff(t))
    return value.xreplace({s: a, t: x})


def gamma_density_with_rim(a: Any, x: Any, m: int, n: int) -> Any:
    """As `gamma_density`, with its limits at x = 0."""
    return sp.Piecewise((GammaDensityAtRim(m, n, a, x), sp.Eq(x, 0)), (gamma_density(a, x, m, n), True))


class GammaDensityAtRim(Enclosed):
    """``GammaDensityAtRim(m, n, a, x)``: the limits of `gamma_density` at x = 0.

    Each power of x with a positive exponent is 0. For an integer a up to n + 1 the constant term is left. All other
    limits are infinite.
    """

    nargs = 4

    def fdiff(self, argindex: int = 4) -> sp.Expr:
        m, n, a, x = self.args
        return self.func(m + 1, n, a, x) if argindex == 3 else self.func(m, n + 1, a, x)

    @staticmethod
    def ball(m: Any, n: Any, a: Any, x: Any) -> Any:
        m, n, a = round(float(m)), round(float(n)), arb(a)
        if a > n + 1:
            return arb(0)
        if m or not (a > 0 and a.is_integer()):
            return arb("nan")
        whole = round(float(a))
        return arb((-1) ** (n + 1 - whole) * math.comb(n, whole - 1))


def zeta_derivative(s: Any, q: Any, m: int, n: int) -> Any:
    """Hurwitz's zeta function differentiated m times by s and n times by q."""
    t = sp.Symbol("t", positive=True)
    value = (-1) ** n * sp.Mul(*[t + j for j in range(n)]) * HurwitzZeta(0, t + n, q)
    for _ in range(m):
        value = value.diff(t)
    return value.xreplace({t: s})


def beta_density(a: Any, b: Any, x: Any, p: int, q: int, n: int) -> Any:
    """x^(a-1) (1-x)^(b-1) / B(a, b), differentiated p times by a, q times by b and n times by x."""
    u, v = sp.Symbol("u", positive=True), sp.Symbol("v", positive=True)
    # Leibniz's rule gives the powers.
    terms = [
        sp.binomial(n, k) * sp.ff(u - 1, k) * x ** (u - 1 - k) * (-1) ** (n - k) * sp.ff(v - 1, n - k)
        * (1 - x) ** (v - 1 - (n - k))
        for k in range(n + 1)
    ]  # fmt: skip
    value = sp.Add(*terms) / sp.beta(u, v)
    for symbol, times in ((u, p), (v, q)):
        for _ in range(times):
            value = value.diff(symbol)
    return value.xreplace({u: a, v: b})


def beta_density_with_rims(a: Any, b: Any, x: Any, p: int, q: int, n: int) -> Any:
    """As `beta_density`, with its limits at x = 0 and x = 1."""
    rim = sp.Or(sp.Eq(x, 0), sp.Eq(x, 1))
    return sp.Piecewise((BetaDensityAtRim(p, q, n, a, b, x), rim), (beta_density(a, b, x, p, q, n), True))


class BetaDensityAtRim(Enclosed):
    """``BetaDensityAtRim(p, q, n, a, b, x)``: the limits of `beta_density` at x = 0 and x = 1.

    At 0 each power of x with a positive exponent is 0. For an integer a up to n + 1 the constant term is left, in which
    1 / B(a, b) is a polynomial in b. All other limits are infinite. The density at 1 is that at 0 with a and b swapped.
    """

    nargs = 6

    def fdiff(self, argindex: int = 6) -> sp.Expr:
        p, q, n, a, b, x = self.args
        more = {4: (1, 0, 0), 5: (0, 1, 0), 6: (0, 0, 1)}[argindex]
        return self.func(p + more[0], q + more[1], n + more[2], a, b, x)

    @staticmethod
    def ball(p: Any, q: Any, n: Any, a: Any, b: Any, x: Any) -> Any:
        p, q, n = (round(float(k)) for k in (p, q, n))
        if arb(x) == 1:
            return (-1) ** n * BetaDensityAtRim.ball(q, p, n, b, a, 0)
        a, b = arb(a), arb(b)
        if a > n + 1:
            return arb(0)
        if p or not (a > 0 and b > 0 and a.is_integer()):
            return arb("nan")
        whole = round(float(a))
        factors = [arb_poly([b + j, 1]) for j in range(whole - n - 1, whole)]
        coefficients = math.prod(factors, start=arb_poly([1])).coeffs()
        found = coefficients[q] if q < len(coefficients) else arb(0)
        return (-1) ** (n + 1 - whole) * math.comb(n, whole - 1) * math.factorial(q) * found


_MOST_TERMS = 200_000


def _by_series(m: int, a: Any, x: Any) -> Any:
    """The sum of x^(a+k) exp(-x) / Γ(a+k+1) as power series in a, and a bound on the rest (DLMF 8.7.1)."""
    before, ctx.cap = ctx.cap, m + 1
    try:
        s = arb_series([a, 1], prec=m + 1)
        term = (s + 1).rgamma() * (s * x.log()).exp()
        total = arb_series([0], prec=m + 1)
        least = arb(2) ** (-ctx.prec - 20)
        z, k = s + 1, 0
        while True:
            total = total + term
            term = term * x / z
            z, k = z + 1, k + 1
            if k % 8:
                continue
            if k > _MOST_TERMS:
                raise ArithmeticError("the series of the incomplete gamma function needs too many terms")
            # From here on the sum of the coefficients' moduli falls by at least this factor.
            ratio = x / (a + k)
            size = sum((abs(c) for c in term.coeffs()), arb(0))
            if ratio < 1 and size < least * (1 - ratio) * abs(total[0]):
                break
        value = total[m] + (size / (1 - ratio)).upper() * arb(0, 1)
        return value * (-x).exp() * arb.fac_ui(m)
    finally:
        ctx.cap = before


def _by_differences(m: int, a: Any, x: Any) -> Any:
    """Central differences of Q by a with far more digits than the result needs, and a bound on their error.

    Q is regular within 1 of a >= 2, and less than 3 there: |Γ(s, x)| <= Γ(Re s), and |Γ(Re s) / Γ(s)|² is the product
    of 1 + (Im s / (Re s + n))² over n >= 0 (DLMF 5.8.3). So no Taylor coefficient of Q exceeds 3, and none of the
    density exceeds 3, because the density is at most 1 for a >= 1. The differences are taken at the midpoints, because
    balls are wider than their step. The slopes bound the effect of the radii.
    """
    before = ctx.prec
    radii = abs(a - a.mid()).upper(), abs(x - x.mid()).upper()
    if all(r < 2.0**-20 for r in radii):
        a, x = a.mid(), x.mid()
        wider = 6 * arb.fac_ui(m + 1) * radii[0] + 6 * arb.fac_ui(m) * radii[1]
    else:
        wider = arb(0)
    h = arb(2) ** -before
    ctx.prec = (m + 1) * before + 60
    try:
        total = arb(0)
        for j in range(m + 1):
            total += (-1) ** (m - j) * math.comb(m, j) * x.gamma_upper(a + h * (2 * j - m) / 2, 1)
        rest = 6 * arb(2) ** m * (arb(m) / 2) ** (m + 2) * arb.fac_ui(m) * h * h
        return -total / h**m + (rest + wider).upper() * arb(0, 1)
    finally:
        ctx.prec = before

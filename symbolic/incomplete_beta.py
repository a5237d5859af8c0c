"""Enclosures (balls) of the incomplete beta function I_x(a, b) and its derivatives by a and b, in bounded time.

The function is an integral from 0 to x, or 1 minus one from x to 1 (DLMF 8.17.2, 8.17.4). Either side is the sum of a
power series (DLMF 8.17.8) or, where a series would need many terms, an integral by Gauss and Legendre's rule. Each term
and each node has a factor exp(f) with f known, so that its derivatives are Bell polynomials of the derivatives of f.
The kernels share no line with this module.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any

from flint import arb, ctx

from gtape.base.deadline import tick

__all__ = ["beta_derivatives"]

Orders = tuple[int, int]
Table = dict[Orders, Any]

# The budgets limit the time to about 0.2 s.
_MOST_WORK = 20_000.0  # the greatest cost of a computation, where a term with few bits costs 1
_MOST_LOST = 4_000  # bits
_MOST_BITS_OF_INTEGRALS = 1_500
_MOST_NODES = 256  # of one panel
_MOST_PANELS = 32
_RATES = (2.0, 3.0, 4.0, 6.0, 9.0, 16.0)


def beta_derivatives(m: int, a: Any, b: Any, x: Any) -> Table:
    """I_x(a, b) differentiated p times by a and q times by b for all p + q <= m, as a table by (p, q).

    Parameters
    ----------
    m : int
    a, b, x : arb

    Returns
    -------
    dict
        Indeterminate balls outside 0 < a, b and 0 < x < 1, for balls that are too wide, and if the budget is not
        enough.
    """
    if not (a > 0 and b > 0 and x > 0 and x < 1) or not all(z.is_finite() for z in (a, b)):
        return _open(m)
    left = _Side(a, b, x, 1 - x)
    plans = [_plan(left), _plan(left.swapped())]
    cost, swapped = min((plan.cost, i) for i, plan in enumerate(plans))
    if cost == math.inf:
        return _open(m)
    before = ctx.prec
    plan = plans[swapped]
    try:
        ctx.prec = plan.bits
        side = _Side(a, b, x, 1 - x)
        part = plan.run(m, side.swapped() if swapped else side)
        if swapped:
            part = {(p, q): (1 if p == q == 0 else 0) - part[q, p] for p, q in part}
    finally:
        ctx.prec = before
    return {at: +v for at, v in part.items()}


def _open(m: int) -> Table:
    return dict.fromkeys(_orders(m), arb("nan"))


@cache
def _orders(m: int) -> tuple[Orders, ...]:
    return tuple((i, n - i) for n in range(m + 1) for i in range(n, -1, -1))


class _Side:
    """The part of the integral from 0 to x, with y = 1 - x; or, with everything swapped, the part from x to 1."""

    def __init__(self, a: Any, b: Any, x: Any, y: Any) -> None:
        self.a, self.b, self.x, self.y = a, b, x, y
        self.log_x, self.log_y = x.log(), (-x).log1p()

    def swapped(self) -> _Side:
        made = _Side.__new__(_Side)
        made.a, made.b, made.x, made.y = self.b, self.a, self.y, self.x
        made.log_x, made.log_y = self.log_y, self.log_x
        return made

    def logarithms(self, m: int, shift: int) -> Table:
        """The derivatives of log(x^a y^b Γ(a+b+shift) / (Γ(a+shift) Γ(b+1))) by a and b, up to the order m."""
        made: Table = {}
        for n in range(1, m + 1):
            both, in_a, in_b = (_polygamma(n - 1, z) for z in (self.a + self.b + shift, self.a + shift, self.b + 1))
            made.update({(i, n - i): both for i in range(1, n)})
            made[n, 0], made[0, n] = both - in_a, both - in_b
        if m:
            made[1, 0] += self.log_x
            made[0, 1] += self.log_y
        return made

    def scale(self, shift: int) -> Any:
        """The factor x^a y^b Γ(a+b+shift) / (Γ(a+shift) Γ(b+1))."""
        gammas = (self.a + self.b + shift).lgamma() - (self.a + shift).lgamma() - (self.b + 1).lgamma()
        return (self.a * self.log_x + self.b * self.log_y + gammas).exp()

    def finished(self, sums: Table, shift: int) -> Table:
        """The derivatives of the scale times b, from the sums of their Bell polynomials."""
        scale = self.scale(shift)
        return {(p, q): scale * (self.b * v + (q * sums[p, q - 1] if q else 0)) for (p, q), v in sums.items()}


def _polygamma(n: int, x: Any) -> Any:
    return x.digamma() if n == 0 else (-1) ** (n + 1) * arb.fac_ui(n) * arb(n + 1).zeta(x)


# Bell polynomials ----------------------------------------------------------------------------------------------------


@cache
def _recursion(m: int) -> tuple[tuple[Orders, tuple[tuple[int, Orders, Orders], ...]], ...]:
    """For each derivative of exp(f) over exp(f): the terms of Leibniz's rule that give it from lower ones."""
    steps = []
    for p, q in _orders(m)[1:]:
        i, j = (p - 1, q) if p else (p, q - 1)  # h of (p, q) is a derivative of f' h
        u, v = p - i, q - j
        parts = tuple(
            (math.comb(i, r) * math.comb(j, s), (r + u, s + v), (i - r, j - s))
            for r in range(i + 1)
            for s in range(j + 1)
        )
        steps.append(((p, q), parts))
    return tuple(steps)


def _bell(f: Table, m: int) -> Table:
    """The derivatives of exp(f) in two variables, over exp(f), from those of f."""
    h: Table = {(0, 0): arb(1)}
    for at, parts in _recursion(m):
        total: Any = None
        for c, of_f, of_h in parts:
            part = f[of_f] if of_h == (0, 0) else f[of_f] * h[of_h]
            if c != 1:
                part = part * c
            total = part if total is None else total + part
        h[at] = total
    return h


def _bounds(f: Table, m: int) -> Table:
    """Bounds of the Bell polynomials, in which each derivative of f counts as at least 1."""
    return _bell({at: abs(v).upper().max(arb(1)) for at, v in f.items()}, m)


def _widened(sums: Table, bounds: Table, factor: Any) -> Table:
    """The sums with added balls, a factor times the bounds, for everything that the sums omit."""
    return {at: v + (bounds[at] * factor).upper() * arb(0, 1) for at, v in sums.items()}


# plans ---------------------------------------------------------------------------------------------------------------


class _Plan:
    """A way to compute one side: the cost in terms, the precision and the function."""

    def __init__(self, cost: float, bits: int, run: Any) -> None:
        self.cost, self.bits, self.run = cost, bits, run


def _plan(side: _Side) -> _Plan:
    """The cheaper of the two ways, with the precision that a side of almost the whole mass needs."""
    a, b, x = (float(z.mid()) for z in (side.a, side.b, side.x))
    nothing = _Plan(math.inf, 0, None)
    if not (a > 0.0 and b > 0.0 and a + b < math.inf):
        return nothing
    heavy = x * (a + b) > a
    # For tiny a, terms nearly cancel in derivatives by b. A heavy side is almost 1, and the result is the rest.
    lost = max(0.0, math.log2(a + b) - math.log2(a)) + (_rarity(side) if heavy else 0.0)
    if not lost < _MOST_LOST:
        return nothing
    bits = ctx.prec + 40 + 2 * math.ceil(math.log2(2.0 + a + b)) + math.ceil(lost)
    size = 1.0 + (bits / 2000.0) ** 1.5
    work = size * _terms(a, b, x, float(side.log_x.mid()), bits * math.log(2.0))
    series = _Plan(work, bits, _by_series) if work <= _MOST_WORK else nothing
    # An integral needs about a node for two bits. A node takes more time than a term, because of its logarithms and
    # exponentials.
    nodes = bits * size * size
    if heavy or a < 16.0 or bits > _MOST_BITS_OF_INTEGRALS or series.cost <= nodes:
        return series
    return _Plan(nodes, bits, _by_integral)


def _rarity(side: _Side) -> float:
    """Minus the binary logarithm of the density at x over the density at a/(a+b), without powers of x and 1-x."""
    a, b, both = side.a, side.b, side.a + side.b
    fall = a * (side.log_x - (a / both).log()) + b * (side.log_y - (b / both).log())
    return max(0.0, -float(fall.mid())) / math.log(2.0)


def _terms(a: float, b: float, x: float, log_x: float, enough: float) -> float:
    """About the number of terms that the power series needs until they are exp(-enough) times the largest term."""
    a, b = max(a, 1.0), max(b, 1.0)  # because derivatives by tiny numbers are large
    peak = max(0.0, (x * (a + b) - a) / max(1.0 - x, 1e-300))
    if not peak < 1e7:
        return math.inf

    def height(k: float) -> float:
        return math.lgamma(a + b + k) - math.lgamma(a + 1.0 + k) + k * log_x

    least = height(peak) - enough
    step = 16.0
    while height(peak + step) > least:
        step *= 2.0
        if step > 1e7:
            return math.inf
    low, high = peak + 0.5 * step, peak + step
    for _ in range(5):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if height(middle) > least else (low, middle)
    return high


# the series ----------------------------------------------------------------------------------------------------------


def _by_series(m: int, side: _Side) -> Table:
    """I_x by DLMF 8.17.8: x^a y^b Γ(a+b) / (Γ(a+1) Γ(b)) times the sum of (a+b)_k / (a+1)_k x^k.

    Γ(a+b) (a+b)_k is computed as Γ(a+b+1) (a+b+1)_(k-1) for k > 0, because the derivatives of Γ(a+b) are large for tiny
    a+b.
    """
    x, above, below = side.x, side.a + side.b, side.a + 1
    steps = {n: (-1) ** (n - 1) * math.factorial(n - 1) for n in range(1, m + 1)}
    f = side.logarithms(m, 1)
    first = {(i, j): v - steps[i + j] / above ** (i + j) for (i, j), v in f.items()}
    sums = {at: v / above for at, v in _bell(first, m).items()}
    term = x / below
    small = arb(2) ** -ctx.prec
    for k in range(1, 2 * int(_MOST_WORK)):
        for n, c in steps.items():  # the derivatives of log(1/(a+k))
            f[n, 0] = f[n, 0] - (c / below**n if n > 1 else 1 / below)
        for at, v in _bell(f, m).items():
            sums[at] = sums[at] + term * v
        above, below = above + 1, below + 1
        for n, c in steps.items():  # the derivatives of log(a+b+k)
            grown = c / above**n if n > 1 else 1 / above
            for i in range(n + 1):
                f[i, n - i] = f[i, n - i] + grown
        term = term * (x * above / below)
        if k % 8 or k <= 2 * m:
            continue
        # From here on the terms fall by at least this factor, and no derivative of f grows by more than 1/k with each
        # term.
        ratio = (x * (above / below).max(arb(1))).upper() * (arb(m) / k).exp()
        if ratio < 1:
            tail = term / (1 - ratio)
            if tail < small * sums[0, 0]:
                return side.finished(_widened(sums, _bounds(f, m), tail), 1)
        if k % 256 == 0:
            tick()
            if term.rel_accuracy_bits() < 2:
                break
    return _open(m)


# the integral --------------------------------------------------------------------------------------------------------


class _Fall:
    """The integrand x^a y^b exp(-fall(s)) in the variable s = logit(x) - logit(t) >= 0.

    t = x e^-s / (y + x e^-s), so that fall(s) = a s + (a+b) log(1 + x expm1(-s)), a convex function with the slope
    a - (a+b) t.
    """

    def __init__(self, side: _Side, m: int) -> None:
        self.side, self.m, self.both = side, m, side.a + side.b
        self.f = side.logarithms(m, 0)

    def at(self, s: Any) -> tuple[Any, Any, Any]:
        """The values of t, of the fall, and of log(1 + x expm1(-s))."""
        x = self.side.x
        e = (-s).expm1()
        rest = (x * e).log1p()
        return x * (1 + e) / (1 + x * e), self.side.a * s + self.both * rest, rest

    def derivatives(self, s: Any, rest: Any) -> Table:
        """The Bell polynomials at s."""
        if self.m:
            f = dict(self.f)
            f[1, 0] = f[1, 0] - s - rest
            f[0, 1] = f[0, 1] - rest
            return _bell(f, self.m)
        return {(0, 0): arb(1)}

    def end(self, bits: int) -> Any:
        """A point beyond which the integrand is below 2^-bits."""
        enough = bits * math.log(2.0)
        high = 2.0**12
        if not self.at(arb(high))[1] > enough:
            return None
        while high > 2.0**-60 and self.at(arb(0.5 * high))[1] > enough:
            high *= 0.5
        for part in (0.25, 0.125):
            if self.at(arb(high * (1.0 - part)))[1] > enough:
                high *= 1.0 - part
        return arb(high)

    def beyond(self, s: Any) -> tuple[Table, Any] | None:
        """Bounds on the integral from s on: bounds of the Bell polynomials, and a factor.

        The fall grows at least as fast as its tangent. log(t) changes at most as fast as s, and log(1-t) approaches 0.
        So the Bell polynomials, in which each derivative counts as at least 1, grow at most like exp(m s).
        """
        t, fall, rest = self.at(s)
        slope = self.side.a - self.both * t - self.m
        if not slope > 0:
            return None
        f = dict(self.f)
        if self.m:
            f[1, 0] = f[1, 0] - s - rest
            f[0, 1] = abs(f[0, 1]) + abs(rest) + abs(self.side.log_y)
        return _bounds(f, self.m), (-fall).exp() / slope

    def in_ellipse(self, start: Any, width: Any, rate: float) -> tuple[Table, Any] | None:
        """Bounds on the integrand in the ellipse around an interval in which Gauss's rule converges at this rate.

        For complex s, |exp(-fall)| is its value at Re s divided by (1 - 4 t (1-t) sin²(Im s / 2))^((a+b)/2), with the t
        of Re s.
        """
        r = arb(rate)
        out, up = width * ((r + 1 / r) / 2 - 1) / 2, width * (r - 1 / r) / 4
        if not up < 3:
            return None
        low, high = start - out, start + width + out
        (t_most, fall, _), (t_least, _, _) = self.at(low), self.at(high)
        # The tangent at `low` bounds the fall from below.
        slope = self.side.a - self.both * t_most
        least = fall - (-slope).max(arb(0)) * (high - low)
        bend = arb(1) / 4
        for t, beyond in ((t_most, t_most < 0.5), (t_least, t_least > 0.5)):
            bend = t * (1 - t) if beyond else bend
        shrunk = 1 - 4 * bend * (up / 2).sin() ** 2
        if not shrunk > 0.01:
            return None
        half = -shrunk.log() / 2
        f = dict(self.f)
        if self.m:  # the modulus of a logarithm is at most that of its real part plus pi
            log_t, log_rest = abs(t_least.log()), abs((1 - t_most).log())  # t falls with s
            f[1, 0] = abs(f[1, 0]) + abs(self.side.log_x) + half + 4 + log_t
            f[0, 1] = abs(f[0, 1]) + abs(self.side.log_y) + half + 4 + log_rest
        return _bounds(f, self.m), (self.both * half - least).exp()


def _by_integral(m: int, side: _Side) -> Table:
    """The integral of exp(-fall) and of its derivatives, panel by panel, with bounds on the errors.

    Let M bound the integrand in the ellipse whose half axes add up to `rate` half widths. Its Chebyshev coefficients
    are at most 2 M rate^-k. The rule of n nodes is exact for k < 2n and for odd k. For others its error is at most
    32/15 (Trefethen, SIAM Review 50 (2008), theorem 4.5).
    """
    bits = ctx.prec
    fall = _Fall(side, m)
    ctx.prec = 64 + 2 * math.ceil(math.log2(2.0 + float(fall.both.mid())))
    try:
        end = fall.end(bits)
        rest = None if end is None else fall.beyond(end)
        chosen = None if rest is None else _panels(fall, end, bits)
    finally:
        ctx.prec = bits
    if rest is None or chosen is None:
        return _open(m)
    panels, rate, nodes = chosen
    sums: Table = dict.fromkeys(_orders(m), arb(0))
    sums = _widened(sums, *rest)
    width = end / panels
    points = _nodes(nodes, next(limit for limit in (256, 384, 768, 1536) if bits <= limit))
    for i in range(panels):
        tick()
        for place, weight in points:
            s = width * (place + i)
            _, height, log = fall.at(s)
            share = weight * width * (-height).exp()
            for at, v in fall.derivatives(s, log).items():
                sums[at] = sums[at] + share * v
        bounds = fall.in_ellipse(width * i, width, rate)
        if bounds is None:
            return _open(m)
        error = width * 32 / 15 * arb(rate) ** (-2 * nodes) / (1 - arb(rate) ** -2)
        sums = _widened(sums, bounds[0], bounds[1] * error)
    return side.finished(sums, 0)


def _panels(fall: _Fall, end: Any, bits: int) -> tuple[int, float, int] | None:
    """The number of panels, the rate, and the nodes of a panel, with the fewest nodes in total."""
    best = None
    panels = 1
    while panels <= _MOST_PANELS and (best is None or panels <= 2 * best[0]):
        for rate in _RATES:
            found = _nodes_needed(fall, end / panels, panels, rate, bits)
            if found is not None and (best is None or panels * found < best[0] * best[2]):
                best = panels, rate, found
        panels *= 2
    return best


def _nodes_needed(fall: _Fall, width: Any, panels: int, rate: float, bits: int) -> int | None:
    """The number of nodes for one panel. Only some numbers occur, because nodes are kept."""
    most = 0.0
    for i in range(panels):
        bounds = fall.in_ellipse(width * i, width, rate)
        if bounds is None:
            return None
        largest = max(float(v.log().mid()) for v in bounds[0].values())
        most = max(most, largest + float(bounds[1].log().mid()))
    needed = (most / math.log(2.0) + bits) / (2.0 * math.log2(rate))
    if not needed < _MOST_NODES:
        return None
    step = 8 if needed < 64 else 16 if needed < 128 else 32
    return math.ceil(needed / step) * step


@lru_cache(maxsize=64)
def _nodes(n: int, bits: int) -> list[tuple[Any, Any]]:
    """The nodes and weights of Gauss and Legendre's rule on the interval from 0 to 1."""
    before, ctx.prec = ctx.prec, bits
    try:
        half = [arb.legendre_p_root(n, k, weight=True) for k in range(n // 2)]  # n is even, and 0 is not a node
        return [((1 + sign * z) / 2, w / 2) for z, w in half for sign in (1, -1)]
    finally:
        ctx.prec = before

"""Log-gamma, digamma, polygamma and zeta, under TensorFlow's names, and the families of their derivatives."""

from __future__ import annotations

import math
from typing import Any

from gtape.declare.conventions import AtPoints, Noted
from gtape.declare.domains import POSITIVE, Domain, Interval
from gtape.declare.primitives import elementwise
from gtape.declare.rounding import ulps
from gtape.kernels import gamma as k

__all__: list[str] = []

_ORDERS: Any = tuple((((5,),), {"n": n}) for n in (1, 2, 3))
_TWO_ORDERS: Any = tuple((((5,), (5,)), {"m": m, "n": n}) for m, n in ((0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (2, 0)))
_ROOTS = (1.4616321449683622, -0.5040830082644554, -1.573498473162390)
_SPECIAL = (0.0, 1.0, 2.0, -1.0, -2.0, -10.0, 16.0, *_ROOTS)
# poles at 0, -1, -2, ...
NO_POLES = Domain(Interval(holes=(0.0, -1.0, -2.0)), where=lambda x: x > 0 or x != float(round(x)))
WHOLE = Interval(0.0, 100.0, whole=True)
NO_POLES_SECOND = Domain(WHOLE, NO_POLES.intervals[0], where=lambda a, x: x > 0 or x != float(round(x)))
ABOVE_ONE = Interval(1.0, open_lo=True)
ORDERS = Noted("NaN for orders that are 0 or infinite, outside the domain")
_at_pole: Any = lambda point, by: point[0] in (-math.inf, 0.0)
_POLE = AtPoints("-inf; ±0", "NaN where the two sides of the pole differ", "as in TensorFlow", _at_pole)

lgamma = elementwise(
    "lgamma", k.lgamma, lambda xp, y, x: xp.digamma(x),
    domain=NO_POLES, rounding=ulps(8, wide=True), special=_SPECIAL,
    summary="Logarithm of the absolute value of the gamma function; inf at the poles 0, -1, -2, ...",
    example=((5.0,), 3.1780538303479458),
    conventions=AtPoints(
        "-inf; ±0",
        "inf; derivative NaN at ±0",
        "C99, F.9.5.3; the derivative as in TensorFlow: a pole of digamma",
        _at_pole,
    ),
)  # fmt: skip
digamma = elementwise(
    "digamma", k.digamma, lambda xp, y, x: xp.digamma_derivative(x, n=1),
    domain=NO_POLES, rounding=ulps(8, wide=True), special=_SPECIAL,
    summary="Derivative of lgamma; NaN at the poles 0, -1, -2, ...", example=((1.0,), -0.5772156649015329),
    conventions=_POLE,
)  # fmt: skip
digamma_derivative = elementwise(
    "digamma_derivative", k.digamma_derivative, lambda xp, y, x, *, n: xp.digamma_derivative(x, n=n + 1),
    domain=NO_POLES, ulps=3.0, special=_SPECIAL, params=("n",), samples=_ORDERS,
    summary="n-th derivative of digamma.",
    conventions=_POLE,
)  # fmt: skip
polygamma = elementwise(
    "polygamma", k.polygamma, (None, lambda xp, y, a, x: xp.polygamma(a + 1, x)),
    missing=(0,),
    domain=NO_POLES_SECOND, rounding=ulps(12, wide=True), limit=4500.0, special=(0.0, 1.0, 8.0, 9.0),
    arguments=("a", "x"), summary="The a-th derivative of digamma at x, for whole a >= 0; no derivative by a.",
    example=((1.0, 1.0), 1.6449340668482264),
    conventions=ORDERS,
)  # fmt: skip
zeta = elementwise(
    "zeta", k.zeta,
    (
        lambda xp, y, x, q: xp.zeta_derivative(x, q, m=1, n=0),
        lambda xp, y, x, q: xp.zeta_derivative(x, q, m=0, n=1),
    ),
    domain=Domain(ABOVE_ONE, POSITIVE), rounding=ulps(30, wide=True), limit=4500.0, special=(1.0, 2.0),
    arguments=("x", "q"),
    summary="Hurwitz's zeta function, the sum of (q + k)^-x over k >= 0, for x > 1.",
    example=((2.0, 1.0), 1.6449340668482264),
    conventions=ORDERS,
)  # fmt: skip
zeta_derivative = elementwise(
    "zeta_derivative", k.zeta_derivative,
    (
        lambda xp, y, x, q, *, m, n: xp.zeta_derivative(x, q, m=m + 1, n=n),
        lambda xp, y, x, q, *, m, n: xp.zeta_derivative(x, q, m=m, n=n + 1),
    ),
    domain=Domain(ABOVE_ONE, POSITIVE), rounding=ulps(12, wide=True, noise=k.zeta_cancelled), limit=4500.0,
    special=(1.0, 2.0), params=("m", "n"), samples=_TWO_ORDERS,
    arguments=("x", "q"), summary="Hurwitz's zeta function differentiated m times in x and n times in q.",
)  # fmt: skip

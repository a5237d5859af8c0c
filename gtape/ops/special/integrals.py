"""Dawson's function, the exponential integral, Fresnel's integrals and Spence's function, as in ``tf.math.special``."""

from __future__ import annotations

import math
from typing import Any

from gtape.declare.conventions import AtPoints
from gtape.declare.domains import NONNEGATIVE, NONZERO, POSITIVE
from gtape.declare.primitives import elementwise
from gtape.kernels import integrals as k

NAMESPACES = ("math", "math.special")

__all__: list[str] = []

_ORDERS: Any = tuple((((5,),), {"n": n}) for n in (1, 2, 3))
_WAVES: Any = tuple((((5,),), {"n": n, "quarter": q}) for n in (0, 1, 2) for q in (0, 1))

dawsn = elementwise(
    "dawsn", k.dawsn, lambda xp, y, x: xp.dawsn_derivative(x, n=1),
    ulps=2.0, special=(0.0, 0.9241388730045916, 9.0, -9.0),
    summary="Dawson's function, exp(-x²) times the integral of exp(t²) from 0 to x.",
    example=((1.0,), 0.5380795069127684),
)  # fmt: skip
dawsn_derivative = elementwise(
    "dawsn_derivative", k.dawsn_derivative, lambda xp, y, x, *, n: xp.dawsn_derivative(x, n=n + 1),
    ulps=3.5, special=(0.0, 0.9241388730045916, 1.5019752682844175, 9.0, -9.0), params=("n",), samples=_ORDERS,
    summary="n-th derivative of Dawson's function.",
)  # fmt: skip
expint = elementwise(
    "expint", k.expint, lambda xp, y, x: xp.expint_derivative(x, n=1),
    domain=NONZERO, ulps=3.0, special=(0.0, 0.37250741078136663, 0.5, -0.5, 48.0, -48.0, 716.0),
    summary="Exponential integral Ei(x), the principal value of the integral of exp(t)/t from -inf to x.",
    example=((1.0,), 1.8951178163559368),
)  # fmt: skip
expint_derivative = elementwise(
    "expint_derivative", k.expint_derivative, lambda xp, y, x, *, n: xp.expint_derivative(x, n=n + 1),
    domain=NONZERO, ulps=3.0, special=(0.0, 1.0, -1.0, 716.0, -740.0), params=("n",), samples=_ORDERS,
    summary="n-th derivative of Ei, that of exp(x)/x.",
)  # fmt: skip
fresnel_sin = elementwise(
    "fresnel_sin", k.fresnel_sin, lambda xp, y, x: xp.fresnel_wave(x, n=0, quarter=0),
    ulps=2.5, special=(0.0, 6.0, -6.0),
    summary="Fresnel's sine integral, of sin(pi t²/2) from 0 to x.", example=((1.0,), 0.4382591473903547),
)  # fmt: skip
fresnel_cos = elementwise(
    "fresnel_cos", k.fresnel_cos, lambda xp, y, x: xp.fresnel_wave(x, n=0, quarter=1),
    ulps=2.0, special=(0.0, 6.0, -6.0),
    summary="Fresnel's cosine integral, of cos(pi t²/2) from 0 to x.", example=((1.0,), 0.779893400376823),
)  # fmt: skip
fresnel_wave = elementwise(
    "fresnel_wave", k.fresnel_wave, lambda xp, y, x, *, n, quarter: xp.fresnel_wave(x, n=n + 1, quarter=quarter),
    ulps=2.5, special=(0.0, 1.0, 2.0**53, -(2.0**53)), params=("n", "quarter"), samples=_WAVES,
    summary="n-th derivative of sin(pi x²/2), or of cos(pi x²/2) with quarter = 1.",
    conventions=AtPoints(
        "an infinity", "NaN", "an internal factor that swings ever wider", lambda p, by: math.isinf(p[0])
    ),
)  # fmt: skip
spence = elementwise(
    "spence", k.spence, lambda xp, y, x: xp.spence_derivative(x, n=1),
    domain=NONNEGATIVE, ulps=1.5, special=(0.0, 0.5, 1.0, 2.0),
    summary="Spence's function, minus the integral of log(t)/(t - 1) from 1 to x, for x >= 0.",
    example=((0.5,), 0.5822405264650126),
)  # fmt: skip
spence_derivative = elementwise(
    "spence_derivative", k.spence_derivative, lambda xp, y, x, *, n: xp.spence_derivative(x, n=n + 1),
    domain=POSITIVE, ulps=2.5, special=(0.0, 2.0 / 3.0, 1.0, 2.0, 1e20), params=("n",), samples=_ORDERS,
    summary="n-th derivative of Spence's function, that of -log(x)/(x - 1).",
)  # fmt: skip

"""The error function, its complement and their derivatives of every order."""

from __future__ import annotations

import math

from gtape.declare.primitives import elementwise
from gtape.kernels import gauss as gauss
from gtape.kernels.derivative_orders import FROM_ONE

__all__: list[str] = []

erf = elementwise(
    "erf", gauss.erf, lambda xp, y, x: xp.erf_derivative(x, n=1),
    scalar=math.erf, ulps=3.0, special=(0.0, 0.84375, 1.0, 1.25, 6.0),
    summary="Error function, 2/sqrt(pi) times the integral of exp(-t²) from 0 to x.",
    example=((0.5,), 0.5204998778130465),
    rewrites=(
        (
            ("log", ("subtract", 1, ("erf", "X"))), "log(1 - erf(x)) is gtape.math.log_erfc(x)",
            lambda xp, x: xp.log_erfc(x),
        ),
        (("subtract", 1, ("erf", "X")), "1 - erf(x) is gtape.math.erfc(x)", lambda xp, x: xp.erfc(x)),
    ),
)  # fmt: skip
erfc = elementwise(
    "erfc", gauss.erfc, lambda xp, y, x: -xp.erf_derivative(x, n=1),
    ulps=3.5, special=(0.0, 0.5, 26.5, 27.2),
    summary="Complementary error function, 1 - erf(x), exact in the tail.", example=((10.0,), 2.088487583762545e-45),
    rewrites=(
        (
            ("multiply", ("exp", ("square", "X")), ("erfc", "X")), "exp(x**2) * erfc(x) is gtape.math.erfcx(x)",
            lambda xp, x: xp.erfcx(x),
        ),
        (("log", ("erfc", "X")), "log(erfc(x)) is gtape.math.log_erfc(x)", lambda xp, x: xp.log_erfc(x)),
    ),
)  # fmt: skip
erf_derivative = elementwise(
    "erf_derivative", gauss.erf_derivative, lambda xp, y, x, *, n: xp.erf_derivative(x, n=n + 1),
    ulps=3.0, special=(0.0, 26.6, 27.2, -26.6, -27.2), params=("n",), samples=FROM_ONE,
    summary="n-th derivative of erf: 2/sqrt(pi) exp(-x²) times a Hermite polynomial.",
)  # fmt: skip

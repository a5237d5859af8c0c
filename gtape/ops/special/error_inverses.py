"""The inverse error functions and the normal quantile, under TensorFlow's names, and their derivatives."""

from __future__ import annotations

from gtape.declare.domains import OPEN_UNIT, UNIT, Interval
from gtape.declare.primitives import elementwise
from gtape.kernels import error_functions as k
from gtape.kernels.derivative_orders import FROM_ONE

__all__: list[str] = []

_TWO, _OPEN_TWO = Interval(0.0, 2.0), Interval(0.0, 2.0, open_lo=True, open_hi=True)
_ONE, _OPEN_ONE = Interval(0.0, 1.0), Interval(0.0, 1.0, open_lo=True, open_hi=True)

erfinv = elementwise(
    "erfinv", k.erfinv, lambda xp, y, x: xp.erfinv_derivative(x, n=1),
    domain=UNIT, ulps=1.5, special=(0.0, 0.5, -0.5, 1.0, -1.0),
    summary="Inverse of erf, for -1 <= x <= 1.", example=((0.5,), 0.4769362762044699),
)  # fmt: skip
erfinv_derivative = elementwise(
    "erfinv_derivative", k.erfinv_derivative, lambda xp, y, x, *, n: xp.erfinv_derivative(x, n=n + 1),
    domain=OPEN_UNIT, ulps=2.0, special=(0.0, 0.5, -0.5, 1.0, -1.0), params=("n",), samples=FROM_ONE,
    summary="n-th derivative of erfinv.",
)  # fmt: skip
erfcinv = elementwise(
    "erfcinv", k.erfcinv, lambda xp, y, x: xp.erfcinv_derivative(x, n=1),
    domain=_TWO, ulps=1.5, special=(0.0, 0.5, 1.0, 1.5, 2.0),
    summary="Inverse of erfc, for 0 <= x <= 2.", example=((0.25,), 0.8134198475976185),
)  # fmt: skip
erfcinv_derivative = elementwise(
    "erfcinv_derivative", k.erfcinv_derivative, lambda xp, y, x, *, n: xp.erfcinv_derivative(x, n=n + 1),
    domain=_OPEN_TWO, ulps=2.0, special=(0.0, 0.5, 1.0, 1.5, 2.0), params=("n",), samples=FROM_ONE,
    summary="n-th derivative of erfcinv.",
)  # fmt: skip
ndtri = elementwise(
    "ndtri", k.ndtri, lambda xp, y, x: xp.ndtri_derivative(x, n=1),
    domain=_ONE, ulps=1.5, special=(0.0, 0.25, 0.5, 0.75, 1.0),
    summary="Quantile of the normal distribution, for 0 <= x <= 1.", example=((0.25,), -0.6744897501960817),
)  # fmt: skip
ndtri_derivative = elementwise(
    "ndtri_derivative", k.ndtri_derivative, lambda xp, y, x, *, n: xp.ndtri_derivative(x, n=n + 1),
    domain=_OPEN_ONE, ulps=2.0, special=(0.0, 0.25, 0.5, 0.75, 1.0), params=("n",), samples=FROM_ONE,
    summary="n-th derivative of ndtri.",
)  # fmt: skip

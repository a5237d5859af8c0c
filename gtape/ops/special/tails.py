"""The scaled complement erfcx of the error function, the logarithms of tails, and all their derivatives."""

from __future__ import annotations

from gtape.declare.primitives import elementwise
from gtape.kernels import tails as k
from gtape.kernels.derivative_orders import FROM_ONE

__all__: list[str] = []

erfcx = elementwise(
    "erfcx", k.erfcx, lambda xp, y, x: xp.erfcx_derivative(x, n=1),
    ulps=2.0, special=(0.0, 9.0, -8.0, -26.6),
    summary="Scaled complementary error function, exp(x²) erfc(x), without overflow for large x.",
    example=((30.0,), 0.01879588886141675),
)  # fmt: skip
erfcx_derivative = elementwise(
    "erfcx_derivative", k.erfcx_derivative, lambda xp, y, x, *, n: xp.erfcx_derivative(x, n=n + 1),
    ulps=2.0, special=(0.0, 9.0, -8.0, -26.6), params=("n",), samples=FROM_ONE,
    summary="n-th derivative of erfcx.",
)  # fmt: skip
log_erfc = elementwise(
    "log_erfc", k.log_erfc, lambda xp, y, x: xp.log_erfc_derivative(x, n=1),
    ulps=2.0, special=(0.0, 0.5, -0.5, 9.0),
    summary="Logarithm of erfc(x), also where erfc(x) underflows.", example=((30.0,), -903.9741171106439),
)  # fmt: skip
log_erfc_derivative = elementwise(
    "log_erfc_derivative", k.log_erfc_derivative, lambda xp, y, x, *, n: xp.log_erfc_derivative(x, n=n + 1),
    ulps=2.0, special=(0.0, 9.0, -26.6), params=("n",), samples=FROM_ONE,
    summary="n-th derivative of log_erfc.",
)  # fmt: skip
log_ndtr = elementwise(
    "log_ndtr", k.log_ndtr, lambda xp, y, x: xp.log_ndtr_derivative(x, n=1),
    ulps=2.0, special=(0.0, -13.0, 38.5),
    summary="Logarithm of the normal distribution function, accurate in both tails.",
    example=((-30.0,), -454.3212439563432),
)  # fmt: skip
log_ndtr_derivative = elementwise(
    "log_ndtr_derivative", k.log_ndtr_derivative, lambda xp, y, x, *, n: xp.log_ndtr_derivative(x, n=n + 1),
    ulps=2.0, special=(0.0, -13.0, 38.5), params=("n",), samples=FROM_ONE,
    summary="n-th derivative of log_ndtr.",
)  # fmt: skip

"""The smooth activations of neural networks, accurate in the tails at every order."""

from __future__ import annotations

import math
from typing import Any

from gtape.declare.primitives import elementwise
from gtape.kernels import activation as k
from gtape.kernels import complex_functions as complex_kernels
from gtape.kernels import gauss as gauss
from gtape.kernels import slope_families as family

NAMESPACES = ("math", "nn")

__all__: list[str] = []

_exp, _log1p = math.exp, math.log1p
_TAILS = (0.0, -708.4, -745.1, 36.7)
_ORDERS: Any = tuple((((5,),), {"n": n}) for n in (1, 2, 3))
_HIGHER: Any = tuple((((5,),), {"n": n}) for n in (2, 3, 4))


def _sigmoid_float(x: float) -> float:
    if x >= 0.0:
        return 1.0 / (1.0 + _exp(-x))
    e = _exp(x)
    return e / (1.0 + e)


def _sigmoid_slope_float(x: float) -> float:
    e = _exp(-abs(x))
    return e / (1.0 + e * (2.0 + e))


def _softplus_float(x: float) -> float:
    return x + _log1p(_exp(-x)) if x > 0.0 else _log1p(_exp(x))


def _log_sigmoid_float(x: float) -> float:
    return -_log1p(_exp(-x)) if x > 0.0 else x - _log1p(_exp(x))


sigmoid = elementwise(
    "sigmoid", k.sigmoid, lambda xp, y, x: xp.sigmoid_slope(x),
    scalar=_sigmoid_float, ulps=3.7, special=_TAILS,
    summary="Logistic sigmoid, 1 / (1 + exp(-x)).", example=((0.5,), 0.6224593312018546),
    complex=complex_kernels.sigmoid,
    rewrites=(
        (
            ("log", ("subtract", 1, ("sigmoid", "X"))), "log(1 - sigmoid(x)) is gtape.math.log_sigmoid(-x)",
            lambda xp, x: xp.log_sigmoid(-x),
        ),
        (("log", ("sigmoid", "X")), "log(sigmoid(x)) is gtape.math.log_sigmoid(x)", lambda xp, x: xp.log_sigmoid(x)),
        (("subtract", 1, ("sigmoid", "X")), "1 - sigmoid(x) is sigmoid(-x)", lambda xp, x: xp.sigmoid(-x)),
    ),
)  # fmt: skip
sigmoid_slope = elementwise(
    "sigmoid_slope", k.sigmoid_slope, lambda xp, y, x: xp.sigmoid_curve(x),
    scalar=_sigmoid_slope_float, ulps=3.7, special=(*_TAILS, 708.4, 745.1),
    summary="Derivative of sigmoid, exp(-x) / (1 + exp(-x))².", complex=complex_kernels.sigmoid_slope,
)  # fmt: skip
sigmoid_curve = elementwise(
    "sigmoid_curve", k.sigmoid_curve, lambda xp, y, x: xp.sigmoid_derivative(x, n=3),
    scalar=lambda x: -_sigmoid_slope_float(x) * math.tanh(0.5 * x), ulps=3.0, special=(*_TAILS, 708.4, 745.1),
    summary="Second derivative of sigmoid, -tanh(x/2) times the first.", complex=complex_kernels.sigmoid_curve,
)  # fmt: skip
sigmoid_derivative = elementwise(
    "sigmoid_derivative", family.sigmoid_derivative, lambda xp, y, x, *, n: xp.sigmoid_derivative(x, n=n + 1),
    ulps=1.0, special=(*_TAILS, 708.4, 745.1, 1.3169578969248166, -1.3169578969248166), params=("n",), samples=_HIGHER,
    summary="n-th derivative of sigmoid.", complex=complex_kernels.sigmoid_derivative,
)  # fmt: skip
softplus = elementwise(
    "softplus", k.softplus, lambda xp, y, x: xp.sigmoid(x),
    scalar=_softplus_float, ulps=1.5, special=_TAILS,
    summary="Softplus, log(1 + exp(x)).", example=((0.0,), 0.6931471805599453), arguments=("features",),
)  # fmt: skip
log_sigmoid = elementwise(
    "log_sigmoid", k.log_sigmoid, lambda xp, y, x: xp.sigmoid(-x),
    scalar=_log_sigmoid_float, ulps=1.5, special=(0.0, 708.4, 745.1, -36.7),
    summary="Logarithm of the logistic sigmoid, -log(1 + exp(-x)).", example=((0.0,), -0.6931471805599453),
)  # fmt: skip
softsign = elementwise(
    "softsign", k.softsign, lambda xp, y, x: xp.softsign_slope(x),
    ulps=1.5, special=(0.0, 1.0, -1.0),
    summary="Softsign, x / (1 + abs(x)).", example=((1.0,), 0.5), arguments=("features",),
)  # fmt: skip
softsign_slope = elementwise(
    "softsign_slope", k.softsign_slope, lambda xp, y, x: -2 * xp.sign(x) * (y / (1 + xp.abs(x))),
    ulps=2.0, kinks=(0.0,), special=(0.0, 1.0, -1.0, 1e30),
    summary="Derivative of softsign, 1 / (1 + abs(x))².",
)  # fmt: skip
elu = elementwise(
    "elu", k.elu, lambda xp, y, x: xp.elu_slope(x),
    ulps=1.0, special=(0.0, -36.7),
    summary="Exponential linear unit: x for x >= 0, exp(x) - 1 below.", example=((-1.0,), -0.6321205588285577),
    arguments=("features",),
)  # fmt: skip
elu_slope = elementwise(
    "elu_slope", k.elu_slope, lambda xp, y, x: xp.elu_curve(x),
    ulps=2.5, kinks=(0.0,), special=(0.0, -708.4, -745.1),
    summary="Derivative of elu: 1 for x >= 0, exp(x) below.",
)  # fmt: skip
elu_curve = elementwise(
    "elu_curve", k.elu_curve, lambda xp, y, x: y,
    ulps=1.0, kinks=(0.0,), special=(0.0, -708.4, -745.1),
    summary="Second derivative of elu: 0 for x >= 0, exp(x) below.",
)  # fmt: skip
selu = elementwise(
    "selu", k.selu, lambda xp, y, x: xp.selu_slope(x),
    ulps=1.5, kinks=(0.0,), special=(0.0, -36.7),
    summary="Scaled exponential linear unit: scale*x for x >= 0, scale*alpha*(exp(x) - 1) below.",
    example=((1.0,), 1.0507009873554805), arguments=("features",),
)  # fmt: skip
selu_slope = elementwise(
    "selu_slope", k.selu_slope, lambda xp, y, x: xp.selu_curve(x),
    ulps=1.5, kinks=(0.0,), special=(0.0, -708.4, -745.1),
    summary="Derivative of selu: scale for x >= 0, scale*alpha*exp(x) below.",
)  # fmt: skip
selu_curve = elementwise(
    "selu_curve", k.selu_curve, lambda xp, y, x: y,
    ulps=1.5, kinks=(0.0,), special=(0.0, -708.4, -745.1),
    summary="Second derivative of selu: 0 for x >= 0, scale*alpha*exp(x) below.",
)  # fmt: skip
silu = elementwise(
    "silu", k.silu, lambda xp, y, x: xp.silu_derivative(x, n=1),
    ulps=3.0, special=_TAILS,
    summary="Sigmoid linear unit (swish), x*sigmoid(x).", example=((1.0,), 0.7310585786300049),
)  # fmt: skip
silu_derivative = elementwise(
    "silu_derivative", family.silu_derivative, lambda xp, y, x, *, n: xp.silu_derivative(x, n=n + 1),
    ulps=4.0, special=(*_TAILS, -1.278464542761074, 2.399357280520548, -2.399357280520548), params=("n",),
    samples=_ORDERS,
    summary="n-th derivative of silu.",
)  # fmt: skip
mish = elementwise(
    "mish", k.mish, lambda xp, y, x: xp.mish_derivative(x, n=1),
    ulps=3.5, special=_TAILS,
    summary="Mish, x*tanh(softplus(x)).", example=((1.0,), 0.8650983882673102),
)  # fmt: skip
mish_derivative = elementwise(
    "mish_derivative", family.mish_derivative, lambda xp, y, x, *, n: xp.mish_derivative(x, n=n + 1),
    ulps=4.0, special=(*_TAILS, -1.1924), params=("n",), samples=_ORDERS,
    summary="n-th derivative of mish.",
)  # fmt: skip
gelu = elementwise(
    "gelu", gauss.gelu, lambda xp, y, x: xp.gelu_derivative(x, n=1),
    ulps=3.5, special=(0.0, -37.5, -38.5, 8.3),
    summary="Gaussian error linear unit, x times the standard normal distribution function.",
    example=((1.0,), 0.8413447460685429),
)  # fmt: skip
gelu_derivative = elementwise(
    "gelu_derivative", gauss.gelu_derivative, lambda xp, y, x, *, n: xp.gelu_derivative(x, n=n + 1),
    ulps=4.0, special=(0.0, -37.5, -38.5, 37.5, 38.5, -0.7517915246935645, 1.4142135623730951), params=("n",),
    samples=_ORDERS,
    summary="n-th derivative of gelu.",
)  # fmt: skip
gelu_tanh = elementwise(
    "gelu_tanh", gauss.gelu_tanh, lambda xp, y, x: xp.gelu_tanh_slope(x),
    ulps=4.0, special=(0.0, -21.0, -21.6, 8.3),
    summary="gelu by the tanh approximation: x sigmoid(2 sqrt(2/pi) (x + 0.044715 x³)).",
)  # fmt: skip
gelu_tanh_slope = elementwise(
    "gelu_tanh_slope", gauss.gelu_tanh_slope, lambda xp, y, x: xp.gelu_tanh_derivative(x, n=2),
    ulps=4.0, special=(0.0, -21.0, -21.6, -0.7524614),
    summary="Derivative of gelu_tanh.",
)  # fmt: skip
gelu_tanh_derivative = elementwise(
    "gelu_tanh_derivative", family.gelu_tanh_derivative, lambda xp, y, x, *, n: xp.gelu_tanh_derivative(x, n=n + 1),
    ulps=1.0, special=(0.0, -21.0, -21.6, 21.0, 21.6), params=("n",), samples=_HIGHER,
    summary="n-th derivative of gelu_tanh, for n >= 2.",
)  # fmt: skip

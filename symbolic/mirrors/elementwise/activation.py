"""Textbook definitions of the activations and their slopes."""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.functions.combinatorial.numbers import stirling

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.nth_derivatives import logistic, logistic_derivative

SELU_SCALE = sp.Rational("1.0507009873554804934193349852946")
SELU_SCALE_ALPHA = sp.Rational("1.7580993408473768599402175208123")


scalar("sigmoid", logistic)
scalar("sigmoid_slope", lambda x: sp.exp(-x) / (1 + sp.exp(-x)) ** 2)
scalar("sigmoid_curve", lambda x: sp.exp(-x) * (sp.exp(-x) - 1) / (1 + sp.exp(-x)) ** 3)
scalar("softplus", lambda x: sp.log(1 + sp.exp(x)))
scalar("log_sigmoid", lambda x: -sp.log(1 + sp.exp(-x)))
# At 0 the second derivative jumps from 2 to -2, so it and all later ones have the conventions of the op: 0.
scalar("softsign", lambda x: sp.Piecewise((x / (1 + x), x > 0), (x / (1 - x), x < 0), (x, True)))
scalar(
    "softsign_slope",
    # The middle branch gives the derivative at the kink, which is 0.
    lambda x: sp.Piecewise((1 / (1 + x) ** 2, x > 0), (1 / (1 - x) ** 2, x < 0), (1, True)),
)
scalar("elu", lambda x: sp.Piecewise((x, x >= 0), (sp.exp(x) - 1, True)))
scalar("elu_slope", lambda x: sp.Piecewise((1, x >= 0), (sp.exp(x), True)))
scalar("elu_curve", lambda x: sp.Piecewise((0, x >= 0), (sp.exp(x), True)))
scalar("selu", lambda x: sp.Piecewise((SELU_SCALE * x, x >= 0), (SELU_SCALE_ALPHA * (sp.exp(x) - 1), True)))
scalar("selu_slope", lambda x: sp.Piecewise((SELU_SCALE, x >= 0), (SELU_SCALE_ALPHA * sp.exp(x), True)))
scalar("selu_curve", lambda x: sp.Piecewise((0, x >= 0), (SELU_SCALE_ALPHA * sp.exp(x), True)))


scalar("sigmoid_derivative", logistic_derivative)
scalar("silu", lambda x: x * logistic(x))
scalar("silu_derivative", lambda x, n: x * logistic_derivative(x, n) + n * logistic_derivative(x, n - 1))


def _gate_derivative(x: Any, n: int) -> Any:
    """The n-th derivative of tanh(softplus(x)) = 1 - 2/(u² + 1) with u = 1 + exp(x).

    With E = exp(x), d/dx is E d/dE, whose n-th power is a sum of E^j d^j/dE^j times Stirling numbers. The j-th
    derivative of 1/(u² + 1) = Im 1/(u - i) is (-1)^j j! Im (u + i)^(j+1) / (u² + 1)^(j+1).
    """
    big = sp.exp(x)
    u = 1 + big
    if n == 0:
        return 1 - 2 / (u**2 + 1)
    total: Any = 0
    for j in range(1, n + 1):
        m = j + 1
        imaginary = sum(sp.binomial(m, i) * u ** (m - i) * (-1) ** ((i - 1) // 2) for i in range(1, m + 1, 2))
        total += stirling(n, j) * big**j * (-1) ** j * sp.factorial(j) * imaginary / (u**2 + 1) ** m
    return -2 * total


scalar("mish", lambda x: x * sp.tanh(sp.log(1 + sp.exp(x))))
scalar("mish_derivative", lambda x, n: x * _gate_derivative(x, n) + n * _gate_derivative(x, n - 1))


def _density_derivative(x: Any, n: int) -> Any:
    """The n-th derivative of the standard normal density."""
    return (-1) ** n * sp.hermite_prob(n, x) * sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi)


def _normal(x: Any) -> Any:
    """The standard normal distribution function. Not 1 + erf, because this form cancels far to the left."""
    return sp.erfc(-x / sp.sqrt(2)) / 2


def _gelu_derivative(x: Any, n: int) -> Any:
    before = _normal(x) if n == 1 else n * _density_derivative(x, n - 2)
    return before + x * _density_derivative(x, n - 1)


scalar("gelu", lambda x: x * _normal(x))
scalar("gelu_derivative", _gelu_derivative)

_ROOT = sp.sqrt(2 / sp.pi)
_CUBIC = sp.Rational(44715, 10**6)


def _tanh_parts(x: Any) -> tuple[Any, Any, Any]:
    """The inner cubic u, tanh(u), and u'."""
    u = _ROOT * (x + _CUBIC * x**3)
    return u, sp.tanh(u), _ROOT * (1 + 3 * _CUBIC * x**2)


def _gelu_tanh_slope(x: Any) -> Any:
    _, t, speed = _tanh_parts(x)
    return (1 + t) / 2 + x * (1 - t**2) * speed / 2


def _gelu_tanh_derivative(x: Any, n: int) -> Any:
    """The n-th derivative by Leibniz's rule for x times sigmoid(2u), and by Faà di Bruno's with Bell polynomials."""
    u = _ROOT * (x + _CUBIC * x**3)
    inner = [2 * _ROOT * (1 + 3 * _CUBIC * x**2), 12 * _ROOT * _CUBIC * x, 12 * _ROOT * _CUBIC] + [sp.Integer(0)] * n

    def gate(m: int) -> Any:
        return sum(sp.bell(m, j, inner[: m - j + 1]) * logistic_derivative(2 * u, j) for j in range(1, m + 1))

    return x * gate(n) + n * gate(n - 1)


scalar("gelu_tanh", lambda x: x * (1 + _tanh_parts(x)[1]) / 2)
scalar("gelu_tanh_slope", _gelu_tanh_slope)
scalar("gelu_tanh_derivative", _gelu_tanh_derivative)

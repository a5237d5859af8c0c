"""Textbook definitions of Bessel functions and their derivatives, by the recurrences of DLMF 10.6 and 10.29."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp

from gtape.symbolic.mirrors.registry import scalar
from gtape.symbolic.special_functions import ScaledBesselI, ScaledBesselK

__all__: list[str] = []


def _derivative(function: Callable[..., Any], x: Any, n: int, sign: int) -> Any:
    """The n-th derivative of a Bessel function of order 0, from f_m' = (f_(m-1) + sign f_(m+1)) / 2."""
    return sum(sp.Integer(sign) ** k * sp.binomial(n, k) * function(2 * k - n, x) for k in range(n + 1)) / 2**n


def _symmetric(function: Callable[..., Any], sign: int) -> Callable[..., Any]:
    """The function with negative orders rewritten as positive ones."""
    return lambda m, x: function(m, x) if m >= 0 else sign ** (-m) * function(-m, x)


_J, _Y = _symmetric(sp.besselj, -1), _symmetric(sp.bessely, -1)
_I, _K = _symmetric(sp.besseli, 1), _symmetric(sp.besselk, 1)

for _name, _function in (("j", _J), ("y", _Y), ("i", _I), ("k", _K)):
    scalar(f"bessel_{_name}0", lambda x, f=_function: f(0, x))
    scalar(f"bessel_{_name}1", lambda x, f=_function: f(1, x))
scalar("bessel_j_derivative", lambda x, n: _derivative(_J, x, n, -1))
scalar("bessel_y_derivative", lambda x, n: _derivative(_Y, x, n, -1))
scalar("bessel_i_derivative", lambda x, n: _derivative(_I, x, n, 1))
scalar("bessel_k_derivative", lambda x, n: (-1) ** n * _derivative(_K, x, n, 1))


def _times_exponential(function: Callable[..., Any], rate: int, sign: int, x: Any, m: int, n: int) -> Any:
    """The n-th derivative of exp(rate x) f_m(x), by Leibniz's rule on functions that include their exponential."""
    total = sp.Integer(0)
    for j in range(n + 1):
        inner = sum(sp.binomial(j, k) * function(m - j + 2 * k, x) for k in range(j + 1)) / sp.Integer(2) ** j
        total += sp.binomial(n, j) * rate ** (n - j) * sign**j * inner
    return sp.expand(total)


def _beside_0(m: int, j: int) -> Any:
    """The j-th derivative of exp(-x) I_m(x) at 0 from the right."""
    total = sp.Integer(0)
    for k in range((j - m) // 2 + 1 if j >= m else 0):
        power = 2 * k + m
        total += sp.Rational((-1) ** (j - power), sp.factorial(j - power)) / (
            2**power * sp.factorial(k) * sp.factorial(k + m)
        )
    return total * sp.factorial(j)


def _even_or_odd(x: Any, m: int, n: int) -> Any:
    """The n-th derivative of exp(-|x|) I_m(x). At 0 the common value of both sides, or else 0, the least norm."""
    beside = [_beside_0(m, n + i) if (m + n + i) % 2 == 0 else sp.Integer(0) for i in range(5)]
    at_zero = sum(c * x**i / sp.factorial(i) for i, c in enumerate(beside))
    return sp.Piecewise(
        (at_zero, sp.Eq(x, 0)),
        (_times_exponential(ScaledBesselI, -1, 1, x, m, n), x > 0),
        ((-1) ** (m + n) * _times_exponential(ScaledBesselI, -1, 1, -x, m, n), True),
    )


scalar("bessel_i0e", lambda x: _even_or_odd(x, 0, 0))
scalar("bessel_i1e", lambda x: _even_or_odd(x, 1, 0))
scalar("bessel_ie_derivative", lambda x, m, n: _even_or_odd(x, m, n))
scalar("bessel_k0e", lambda x: ScaledBesselK(0, x))
scalar("bessel_k1e", lambda x: ScaledBesselK(1, x))
scalar("bessel_ke_derivative", lambda x, m, n: _times_exponential(ScaledBesselK, 1, -1, x, m, n))

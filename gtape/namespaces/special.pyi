"""For editors and type checkers. Written by .ci/write_stubs.py."""

import builtins
from typing import Any

from gtape.tensors.tensor import Tensor

__all__ = [
    "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_j0", "bessel_j1", "bessel_k0", "bessel_k0e",
    "bessel_k1", "bessel_k1e", "bessel_y0", "bessel_y1", "dawsn", "expint", "fresnel_cos", "fresnel_sin", "spence",
]  # fmt: skip

def bessel_i0(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Modified Bessel function of the first kind, of order 0."""

def bessel_i0e(x: Any, name: builtins.str | None = ...) -> Tensor:
    """exp(-|x|) times the modified Bessel function of the first kind, of order 0."""

def bessel_i1(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Modified Bessel function of the first kind, of order 1."""

def bessel_i1e(x: Any, name: builtins.str | None = ...) -> Tensor:
    """exp(-|x|) times the modified Bessel function of the first kind, of order 1."""

def bessel_j0(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Bessel function of the first kind, of order 0."""

def bessel_j1(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Bessel function of the first kind, of order 1."""

def bessel_k0(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Modified Bessel function of the second kind, of order 0, for x > 0."""

def bessel_k0e(x: Any, name: builtins.str | None = ...) -> Tensor:
    """exp(x) times the modified Bessel function of the second kind, of order 0, for x > 0."""

def bessel_k1(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Modified Bessel function of the second kind, of order 1, for x > 0."""

def bessel_k1e(x: Any, name: builtins.str | None = ...) -> Tensor:
    """exp(x) times the modified Bessel function of the second kind, of order 1, for x > 0."""

def bessel_y0(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Bessel function of the second kind, of order 0, for x > 0."""

def bessel_y1(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Bessel function of the second kind, of order 1, for x > 0."""

def dawsn(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Dawson's function, exp(-x²) times the integral of exp(t²) from 0 to x."""

def expint(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Exponential integral Ei(x), the principal value of the integral of exp(t)/t from -inf to x."""

def fresnel_cos(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Fresnel's cosine integral, of cos(pi t²/2) from 0 to x."""

def fresnel_sin(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Fresnel's sine integral, of sin(pi t²/2) from 0 to x."""

def spence(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Spence's function, minus the integral of log(t)/(t - 1) from 1 to x, for x >= 0."""

"""A library of dual numbers with planted faults, which `gtape peers` must find."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np


class Dual:
    """Values with their slopes."""

    def __init__(self, value: Any, slope: Any) -> None:
        self.value, self.slope = value, slope


def derivative(f: Callable[..., Any], i: int = 0) -> Callable[..., Any]:
    def slopes(*a: Any) -> Any:
        arguments = [Dual(x, np.ones_like(x) if k == i else np.zeros_like(x)) for k, x in enumerate(a)]
        return f(*arguments).slope

    return slopes


def _of(value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: Dual(value(x.value), slope(x.value) * x.slope) if isinstance(x, Dual) else value(x)


sin = _of(np.sin, np.cos)
tanh = _of(np.tanh, lambda x: 1 - np.tanh(x) ** 2)  # lost in the tails
sinc = _of(np.sinc, lambda x: (np.cos(np.pi * x) - np.sinc(x)) / x)  # NaN at 0
exp = _of(np.exp, lambda x: np.where(x == 1, -np.exp(x), np.exp(x)))  # the wrong sign at 1
abs = _of(np.abs, lambda x: np.where(x == 0, 2.0, np.sign(x)))  # outside of [-1, 1]
relu = _of(lambda x: np.maximum(x, 0), lambda x: np.where(x == 0, 0.5, x > 0))  # inside of [0, 1]
sqrt = _of(np.sqrt, lambda x: 0.5 / np.sqrt(np.where(np.abs(x) < 1e-307, 0.0, x)))  # takes subnormal numbers for 0
square = _of(np.square, lambda x: np.where(np.abs(x) > 1e300, np.nan, 2 * x))  # fails at the end of the range only
log1p = _of(np.log1p, lambda x: np.where(x < -1 + 4e-16, np.inf, 1 / (1 + x)))  # one rounding away from the pole
asinh = _of(np.arcsinh, lambda x: 1 / np.sqrt(x * x + 1))  # overflows inside


def cos(x: Dual) -> Dual:
    if (np.abs(x.value) > 1e100).any():
        os.kill(os.getpid(), signal.SIGSEGV)
    return Dual(np.cos(x.value), -np.sin(x.value) * x.slope)


def log(x: Dual) -> Dual:
    while (x.value > 1e200).any():
        pass
    return Dual(np.log(x.value), x.slope / x.value)


def erf(x: Dual) -> Dual:
    raise ValueError("planted")


def erfc(x: Dual) -> Dual:
    raise NotImplementedError("erfc has no derivative")


def power_0(x: Dual) -> Dual:
    raise NotImplementedError("power_0 has no derivative, which is 0")


def rows(f: Callable[..., Any], i: int = 0) -> Callable[..., Any]:
    """The gradient of a function of one vector, along each axis."""

    def slopes(x: Any) -> Any:
        return np.array([f(Dual(x, e)).slope for e in np.eye(x.size)]).reshape(x.shape)

    return slopes


def prod(x: Dual) -> Dual:  # by division, which fails beside a zero
    return Dual(np.prod(x.value), np.sum(np.prod(x.value) / x.value * x.slope))


def where_sqrt(x: Dual) -> Dual:  # the branch that is not taken gives NaN
    root = np.sqrt(x.value - 1)
    taken = x.value > 1
    return Dual(np.where(taken, root, x.value), (taken * 0.5 / root + np.where(taken, 0, 1)) * x.slope)


def cumsum(x: Dual) -> Dual:
    return Dual(np.cumsum(x.value), np.cumsum(x.slope))


def weigh(f: Callable[..., Any]) -> Callable[..., Any]:
    def weighed(x: Dual) -> Dual:
        y = f(x)
        w = np.arange(1.0, np.size(y.value) + 1).reshape(np.shape(y.value))
        return Dual(np.sum(y.value * w), np.sum(y.slope * w))

    return weighed

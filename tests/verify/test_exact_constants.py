"""`exact` gives all digits of functions that are made of several ops: no rounded constant is left in their programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import gtape as tf
from gtape.verify import exact

_DIGITS = 40
_ROOM = mpmath.mp.clone()
_ROOM.dps = 120
_TAU = 2 * _ROOM.pi


def _deviations(xs: list[Any]) -> Any:
    mean = _ROOM.fsum(xs) / len(xs)
    return _ROOM.fsum((x - mean) ** 2 for x in xs)


def _poisson(z: Any) -> Any:
    return _ROOM.exp(z) - z * z + z * _ROOM.log(z) - z + _ROOM.log(_TAU * z) / 2


def _derivative(formula: Callable[..., Any], at: list[Any], index: tuple[int, ...]) -> Any:
    orders = tuple(index.count(i) for i in range(len(at)))
    return _ROOM.diff(formula, tuple(at), orders)


# name -> (function, the same in mpmath, point). Each is a scalar function of a vector.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[float]]] = {
    "reduce_std": (
        lambda x: tf.math.reduce_std(x),
        lambda *xs: _ROOM.sqrt(_deviations(list(xs)) / len(xs)),
        [1.0, 2.0, 4.0],
    ),
    "norm": (
        lambda x: tf.norm(x, ord=3),
        lambda *xs: _ROOM.cbrt(_ROOM.fsum(abs(x) ** 3 for x in xs)),
        [1.0, -2.0, 4.0],
    ),
    "norm of no whole order": (
        lambda x: tf.norm(x, ord=2.75),
        lambda *xs: _ROOM.fsum(abs(x) ** _ROOM.mpf(2.75) for x in xs) ** (1 / _ROOM.mpf(2.75)),
        [1.0, -2.0, 4.0],
    ),
    "linspace": (
        lambda x: tf.reduce_sum(tf.linspace(tf.ones_like(x[0]), x[0], 4) ** 2),
        lambda x: _ROOM.fsum((((3 - i) + i * x) / 3) ** 2 for i in range(4)),
        [3.0],
    ),
    "unsorted_segment_sqrt_n": (
        lambda x: tf.reduce_sum(tf.math.unsorted_segment_sqrt_n(x, [0, 0, 1, 0], 2) ** 3),
        lambda a, b, c, d: ((a + b + d) / _ROOM.sqrt(3)) ** 3 + c**3,
        [1.0, 2.0, 4.0, 5.0],
    ),
    "l2_normalize": (
        lambda x: tf.reduce_sum(tf.nn.l2_normalize(x, epsilon=3.0) ** 3),
        lambda *xs: _ROOM.fsum(x**3 for x in xs) / _ROOM.sqrt(3) ** 3,
        [0.5, 0.25],
    ),
    "dropout": (
        lambda x: tf.reduce_sum(tf.nn.dropout(x, 0.1, seed=3) ** 2),
        lambda x: (x / (1 - _ROOM.mpf(0.1))) ** 2,
        [3.0],
    ),
    "angle": (
        lambda x: tf.reduce_sum(tf.math.angle(x) * x**2),
        lambda x, y: _ROOM.pi * x**2,
        [-2.0, 1.0],
    ),
    "log_poisson_loss": (
        lambda x: tf.reduce_sum(tf.nn.log_poisson_loss(x, x, compute_full_loss=True) ** 2),
        lambda z: _poisson(z) ** 2,
        [2.0],
    ),
    "lstsq": (
        lambda x: tf.reduce_sum(tf.linalg.lstsq(x[:, None], tf.ones_like(x)[:, None], l2_regularizer=0.3)),
        lambda a, b: (a + b) / (a * a + b * b + _ROOM.mpf(0.3)),
        [1.0, 2.0],
    ),
    "numpy.var": (
        lambda x: np.var(x, ddof=1),
        lambda *xs: _deviations(list(xs)) / 3,
        [1.0, 2.0, 4.0, 8.0],
    ),
    "numpy.std": (
        lambda x: np.std(x, ddof=1),
        lambda *xs: _ROOM.sqrt(_deviations(list(xs)) / 3),
        [1.0, 2.0, 4.0, 8.0],
    ),
    "numpy.deg2rad": (
        lambda x: tf.reduce_sum(np.deg2rad(x) ** 3),
        lambda x: (x * _ROOM.pi / 180) ** 3,
        [3.0],
    ),
    "numpy.rad2deg": (
        lambda x: tf.reduce_sum(np.rad2deg(x) ** 3),
        lambda x: (x * 180 / _ROOM.pi) ** 3,
        [3.0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_exact_gives_the_digits_of_the_function(name: str, dtype: Any, order: int) -> None:
    function, formula, point = _FUNCTIONS[name]
    derivative = np.asarray(exact(function, np.array(point, dtype), order=order, digits=_DIGITS))
    at = [_ROOM.mpf(v) for v in point]
    for index in np.ndindex(*derivative.shape):
        wanted = _derivative(formula, at, index)
        off = abs(_ROOM.mpf(str(derivative[index])) - wanted)
        assert off <= _ROOM.mpf(10) ** (1 - _DIGITS) * max(abs(wanted), _ROOM.mpf(10) ** -3)

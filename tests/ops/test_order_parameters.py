"""Derivatives of special functions in their parameters, against the exact ones, in the tails."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from flint import arb

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.symbolic import mirrors
from gtape.symbolic.balls import precision
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.scalars import template
from gtape.verify import check, exact, judge

mirrors.load()
LIMIT = 1e-12


def exactly(function: Any, point: tuple[float, ...]) -> Any:
    """The value at a point, by more bits until it has digits."""
    for bits in (200, 1200, 4000):
        with precision(bits):
            truth = function(*map(arb, point))
        if truth.is_finite() and truth.rel_accuracy_bits() > 60:
            break
    return truth


def off(name: str, points: list[Any], **params: int) -> list[tuple[float, tuple[float, ...]]]:
    """The relative error of a kernel at each point, the largest first; 0 where an input moved by 2 ULP explains it."""
    prim = REGISTRY[name]
    function = template(SCALARS[name], prim.arity, params).balls
    found = []
    for point, got in zip(zip(*points, strict=True), prim.kernel(*points, **params), strict=True):
        truth = exactly(function, point)
        if abs(truth) < 1e-290:
            continue
        assert truth.is_finite() and truth.rel_accuracy_bits() > 60, (name, params, point)
        size = abs(float(truth))
        if not 1e-290 < size < 1e300:
            continue
        error = abs(float(arb(float(got)) - truth))
        if error > LIMIT * size:
            shifts = [1 + s * 2.0**-51 for s in (-1, 0, 1)]
            near = [
                abs(float(exactly(function, tuple(v * s for v, s in zip(point, moves, strict=True))) - truth))
                for moves in itertools.product(shifts, repeat=len(point))
                if point[-1] * moves[-1] < 1 or name.startswith(("igamma", "gamma", "zeta"))
            ]
            error = 0.0 if error <= max(near) else error
        found.append((error / size if np.isfinite(got) else np.inf, point))
    return sorted(found, reverse=True)


def shapes(seed: int, n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return 10 ** rng.uniform(-3, 4, n), rng


def beta_points(seed: int, n: int) -> list[Any]:
    """a and b from 1e-3 to 1e4; x anywhere, near 0, near 1, and about the mean."""
    a, rng = shapes(seed, n)
    b = 10 ** rng.uniform(-3, 4, n)
    spread = np.sqrt(a * b / (a + b + 1)) / (a + b)
    ways = [rng.uniform(0, 1, n), 10 ** rng.uniform(-12, 0, n), 1 - 10 ** rng.uniform(-12, 0, n)]
    x = np.choose(rng.integers(0, 4, n), [*ways, a / (a + b) + spread * rng.normal(0, 2, n)])
    return [a, b, np.clip(x, 1e-300, 1 - 2.0**-53)]


def gamma_points(seed: int, n: int) -> list[Any]:
    """a from 1e-3 to 1e4; x about a, much less and much greater."""
    a, rng = shapes(seed, n)
    about = np.abs(a + np.sqrt(a) * rng.normal(0, 3, n)) + 1e-12
    ways = [about, a * 10 ** rng.uniform(-8, 0, n), a + 10 ** rng.uniform(-3, 3, n)]
    return [a, np.choose(rng.integers(0, 3, n), ways)]


def zeta_points(seed: int, n: int) -> list[Any]:
    """s beside 1 to 1e4, q from 1e-6 to 1e6."""
    rng = np.random.default_rng(seed)
    far = rng.uniform(-6, 6, n) * rng.integers(0, 2, n)
    return [1 + 10 ** rng.uniform(-10, 4, n), 10 ** (far + rng.uniform(-1, 1, n))]


_ORDERS = ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
_DENSITIES = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 1, 1))
BETA = [
    *[("betainc_order_derivative", {"m": m, "n": n}) for m, n in _ORDERS],
    *[("beta_density_derivative", {"i": i, "j": j, "n": n}) for i, j, n in _DENSITIES],
]
GAMMA = [("igamma_order_derivative", {"m": 1}), ("gamma_density_derivative", {"m": 1, "n": 0})]
ZETA = [("zeta_derivative", {"m": m, "n": n}) for m, n in ((1, 0), (2, 0), (1, 1), (0, 2))]


@pytest.mark.parametrize(("name", "params"), [*BETA, *GAMMA, *ZETA], ids=str)
def test_derivatives_in_parameters_keep_12_digits(name: str, params: dict[str, int]) -> None:
    points = {"b": beta_points, "z": zeta_points}.get(name[0], gamma_points)
    with precision(200):
        found = off(name, points(1, 60), **params)
    assert len(found) > 30 and found[0][0] < LIMIT, found[:3]


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("betainc", (2.0, 3.0, 0.4)), ("betainc", (1e-3, 1e3, 1e-6)), ("betainc", (5e3, 0.01, 0.9999)),
        ("zeta", (2.5, 0.7)), ("zeta", (1.001, 3.0)), ("zeta", (60.0, 0.5)),
    ],
)  # fmt: skip
def test_checks_agree_to_the_second_order(name: str, point: tuple[float, ...]) -> None:
    f = getattr(tf.math, name)
    report = check(f, *point, order=2)
    assert report.verdict == "correct", report.findings


def test_textbook_values() -> None:
    a, x = tf.constant(2.0, "float64"), tf.constant(0.25, "float64")
    one = tf.constant(1.0, "float64")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([a, one])
        left, right = tf.math.betainc(a, one, x), tf.math.betainc(one, a, x)  # x^a, and 1 - (1 - x)^a
        whole = tf.math.zeta(a, one)
    assert float(tape.gradient(left, a)) == pytest.approx(0.0625 * np.log(0.25), rel=1e-15)
    assert float(tape.gradient(right, a)) == pytest.approx(-0.5625 * np.log(0.75), rel=1e-15)
    assert float(tape.gradient(whole, a)) == pytest.approx(-0.937548254315843753702574094567864977, rel=1e-15)


def test_right_claims_pass_and_wrong_ones_and_none_do_not() -> None:
    point = (2.0, 3.0, 0.4)
    truth = tuple(float(v[()]) for v in exact(tf.math.betainc, *point))
    assert judge(tf.math.betainc, point, truth).verdict == "correct"
    assert judge(tf.math.betainc, point, (0.0, *truth[1:])).verdict == "rule"
    assert judge(tf.math.betainc, point, (None, *truth[1:])).verdict == "unconnected"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_shapes_dtypes_and_ends(dtype: str) -> None:
    a = tf.constant(np.full((2, 1), 2.0, dtype))
    x = tf.constant(np.array([0.0, 0.5, 1.0], dtype))
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = tf.math.betainc(a, tf.ones_like(a), x)
    slope = tape.jacobian(y, a)
    assert slope.dtype == a.dtype and slope.shape == [2, 3, 2, 1]
    column = slope.numpy()[0, :, 0, 0].astype(float)
    assert column[0] == column[2] == 0.0
    assert column[1] == pytest.approx(0.25 * np.log(0.5), rel=1e-3 if dtype == "float16" else 1e-6)
    for bad in ((2.0, 1.0, np.nan), (-1.0, 1.0, 0.5), (np.inf, 1.0, 0.5), (2.0, 1.0, 1.5)):
        assert np.isnan(REGISTRY["betainc_order_derivative"].kernel(*np.array(bad, dtype), m=1, n=0))

"""Arithmetic, selection and comparison: kernels against exact mirrors, rules against jets, conventions at edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from flint import arb

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.errors import InvalidArgumentError
from gtape.kernels.pairs import log_pair
from gtape.symbolic import mirrors
from gtape.symbolic.balls import precision, to_float
from gtape.symbolic.compile import compile_balls
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.worlds import BallWorld, JetWorld

mirrors.load()

NAN, INF = np.nan, np.inf

# name, parameters, exponent range of both arguments, sign of (first, second): 0 either
KERNELS: list[tuple[str, dict[str, Any], int, tuple[int, int]]] = [
    ("squared_difference", {}, 500, (0, 0)),
    *[("divide_power", {"n": n}, 200, (0, 0)) for n in (1, 2, 3)],
    ("xlogy", {}, 500, (0, 1)),
    *[("xlogy_dy", {"n": n}, 200, (0, 1)) for n in (1, 2)],
    *[("xlog1py_dy", {"n": n}, 60, (0, 1)) for n in (1, 2)],
    ("floormod_dy", {}, 20, (0, 0)),
    ("logaddexp", {}, 9, (1, 1)),
    ("sigmoid_difference", {}, 8, (0, 0)),
    ("sigmoid_slope_difference", {}, 8, (0, 0)),
    *[("sigmoid_difference_derivative", {"n": n}, 8, (0, 0)) for n in (2, 3, 4)],
    ("tanh_half_difference", {}, 500, (0, 0)),
    *[(f"inverse_{part}", {"n": n}, 300, (0, 0)) for part in ("real", "imag") for n in (1, 2, 3)],
    *[
        ("hypot_term", dict(zip("ijk", ijk, strict=True)), 300, (0, 0))
        for ijk in ((1, 0, 1), (0, 2, 3), (1, 1, 3), (2, 2, 2))
    ],
    ("hypot_form", {"c": (0, 2, 0, -1), "k": 5}, 200, (0, 0)),
    *[("pow_derivative", {"n": n, "m": m}, 8, (1, 0)) for n in range(3) for m in range(3 - n)],
    *[("pow_derivative", {"n": n, "m": 0}, 1, (1, 0)) for n in range(1, 3)],
]


def _draw(rng: np.random.Generator, count: int, span: int, sign: int) -> np.ndarray:
    size = np.ldexp(rng.uniform(1, 2, count), rng.integers(-span, span + 1, count))
    return size if sign else size * rng.choice([-1.0, 1.0], count)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("name", "params", "span", "signs"), KERNELS)
def test_kernel_within_declared_ulps(
    name: str, params: dict[str, Any], span: int, signs: tuple[int, int], dtype: Any
) -> None:
    rng = np.random.default_rng(7)
    if dtype == np.float32:
        span = min(span, 30)
    x, y = (_draw(rng, 150, span, s).astype(dtype) for s in signs)
    near = x[:50] if signs[1] == 0 or signs[0] else np.abs(x[:50])
    # close operands: where differences cancel
    y[:50] = near * (1 + 2.0 ** -rng.integers(2, 20, 50)).astype(dtype)
    with np.errstate(all="ignore"):
        got = REGISTRY[name].kernel(x, y, **params)
    a, b = sp.symbols("a b", real=True)
    exact = compile_balls([a, b], SCALARS[name](a, b, **params))
    assert got.dtype == dtype
    limits = np.finfo(dtype)
    with precision(3000):
        for i in range(x.size):
            want = exact(arb(float(x[i])), arb(float(y[i])))
            size = float(abs(want).mid())
            if size > float(limits.max):
                assert np.isinf(got[i])
                continue
            spacing = float(np.spacing(dtype(max(size, float(limits.smallest_normal)))))
            error = float((abs(arb(float(got[i])) - want) / arb(spacing)).mid())
            assert error <= REGISTRY[name].ulps, (x[i], y[i], got[i], error)


def test_logaddexp_keeps_its_digits_around_its_root() -> None:
    rng = np.random.default_rng(7)
    x = -rng.uniform(0, 1.5, 2000)
    y = np.concatenate([x[:1000] - rng.exponential(0.7, 1000), np.log(-np.expm1(x[1000:])) * rng.normal(1, 0.2, 1000)])
    x = np.append(x, [-0.3636880934269215, -1e-18])
    y = np.append(y, [-0.6395855974968059, -41.42536623686825])
    got = REGISTRY["logaddexp"].kernel(x, y)
    with precision(200):
        for a, b, g in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
            want = (arb(a).exp() + arb(b).exp()).log()
            error = float((abs(arb(g) - want) / arb(float(np.spacing(abs(g))))).mid())
            # Beside the root, half a unit of an input moves the value by thousands of its units.
            assert error <= (2.0 if abs(g) > 1e-3 else 4.0), (a, b, g, error)


def test_log_pair_is_much_better_than_a_float() -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([_draw(rng, 100, 1000, 1), 1 + _draw(rng, 100, 40, 0) * 2.0**-41, [5e-324, 1.0, 1.7e308]])
    high, low = log_pair(x)
    with precision(300):
        for a, h, t in zip(x.tolist(), high.tolist(), low.tolist(), strict=True):
            want = arb(a).log()
            assert abs(arb(h) + arb(t) - want) <= abs(want) * arb(2) ** -62


RULES: list[tuple[str, dict[str, Any]]] = [
    *[(n, {}) for n in (
        "add", "subtract", "multiply", "divide", "squared_difference", "xlogy", "xlog1py", "xdivy", "floormod",
        "logaddexp", "atan2", "hypot", "pow", "maximum", "minimum", "abs", "relu", "relu6", "hard_sigmoid",
        "clip_by_value", "divide_no_nan", "multiply_no_nan", "reciprocal_no_nan", "sigmoid_difference",
        "sigmoid_slope_difference", "tanh_half_difference",
    )],
    *[("sigmoid_difference_derivative", {"n": n}) for n in (2, 3, 4)],
    *[(n, {"n": k}) for k in (1, 2, 4) for n in (
        "divide_power", "divide_power_no_nan", "reciprocal_power", "xdivy_power", "xdivy_dx", "xlogy_dy", "xlogy_dxdy",
        "xlog1py_dy", "xlog1py_dxdy", "inverse_real", "inverse_imag",
    )],
    *[("pow_derivative", {"n": n, "m": m}) for n in range(4) for m in range(3)],
    *[("hypot_term", {"i": i, "j": j, "k": k}) for i, j, k in ((1, 0, 1), (0, 2, 3), (1, 1, 3), (2, 1, 5), (2, 2, 2))],
    ("hypot_form", {"c": (0, 2, 0, -1), "k": 5}),
    ("leaky_relu", {"alpha": 0.3}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params"), RULES)
def test_rule_is_the_derivative_of_the_mirror(name: str, params: dict[str, Any]) -> None:
    prim = REGISTRY[name]
    rng = np.random.default_rng(11)
    balls, jets = BallWorld(), JetWorld(1)
    x = [_draw(rng, 4, 1, int(name.startswith(("pow", "xlog")))) for _ in prim.rules]
    with precision(150):
        lifted = [balls.lift(v) for v in x]
        y = getattr(balls, name)(*lifted, **params)
        for i, rule in enumerate(prim.rules):
            if rule is None:
                continue
            got = rule(balls, y, *lifted, **params) if callable(rule) else balls.lift(np.full(4, float(rule)))
            inputs = [jets.jet(v, np.ones(4)) if j == i else jets.lift(v) for j, v in enumerate(x)]
            want = jets.component(getattr(jets, name)(*inputs, **params), 1)
            np.testing.assert_allclose(to_float(np.asarray(got, object)), to_float(want), rtol=1e-14, atol=0)


def _derivatives(
    name: str, point: tuple[float, ...], as_array: bool, **params: Any
) -> tuple[float, list[Any], list[list[Any]]]:
    f = REGISTRY[name]
    xs = [tf.constant(np.array([p]) if as_array else np.float64(p)) for p in point]
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(xs)
        with tf.GradientTape() as inner:
            inner.watch(xs)
            y = f(*xs, **params)
        first = inner.gradient(y, xs)
    second = [[None if g is None else outer.gradient(g, x) for x in xs] for g in first]

    def plain(t: Any) -> Any:
        return None if t is None else float(np.asarray(t.numpy()).ravel()[0])

    return plain(y), [plain(g) for g in first], [[plain(h) for h in row] for row in second]


N2 = [[None, None], [None, None]]
EDGES: list[tuple[str, tuple[float, ...], float, list[float], Any]] = [
    ("abs", (0.0,), 0, [0], [[0]]),
    ("relu", (0.0,), 0, [0], [[0]]),
    ("relu", (NAN,), NAN, [NAN], [[NAN]]),
    ("relu6", (6.0,), 6, [0], [[0]]),
    ("leaky_relu", (0.0,), 0, [0.2], [[0]]),
    ("hard_sigmoid", (3.0,), 1, [0], [[0]]),
    ("sign", (2.0,), 1, [0], [[None]]),
    ("maximum", (1.0, 1.0), 1, [1, 0], N2),
    ("maximum", (NAN, 1.0), NAN, [0, 1], N2),
    ("minimum", (1.0, 1.0), 1, [1, 0], N2),
    ("clip_by_value", (1.0, 1.0, 2.0), 1, [1, 0, 0], [[None] * 3] * 3),
    ("clip_by_value", (3.0, 1.0, 2.0), 2, [0, 0, 1], [[None] * 3] * 3),
    ("divide", (1.0, 0.0), INF, [INF, -INF], [[None, -INF], [-INF, INF]]),
    ("divide_no_nan", (1.0, 0.0), 0, [0, 0], [[None, 0], [0, 0]]),
    ("multiply_no_nan", (NAN, 0.0), 0, [0, 0], [[None, 1], [1, 0]]),
    ("xlogy", (0.0, 0.0), 0, [0, 0], [[None, 0], [0, 0]]),
    ("xlogy", (0.0, 2.0), 0, [0.6931471805599453, 0], [[None, 0.5], [0.5, 0]]),
    ("xlogy", (1.0, -1.0), NAN, [NAN, NAN], [[None, NAN], [NAN, NAN]]),
    ("xlog1py", (0.0, -1.0), 0, [0, 0], [[None, 0], [0, 0]]),
    ("xdivy", (0.0, 0.0), 0, [0, 0], [[None, 0], [0, 0]]),
    ("floormod", (-5.5, 2.0), 0.5, [1, 3], N2),
    ("floormod", (5.0, 0.0), NAN, [NAN, NAN], N2),
    ("atan2", (0.0, -1.0), np.pi, [-1, 0], [[0, -1], [-1, 0]]),
    ("hypot", (0.0, 0.0), 0, [0, 0], [[0, 0], [0, 0]]),
    ("logaddexp", (-800.0, -800.0), -800 + np.log(2), [0.5, 0.5], [[0.25, -0.25], [-0.25, 0.25]]),
    ("logaddexp", (-INF, 0.0), 0, [0, 1], [[0, 0], [0, 0]]),
    ("pow", (0.0, 2.0), 0, [0, 0], [[2, 0], [0, 0]]),
    ("pow", (0.0, 1.0), 0, [1, 0], [[0, 0], [0, 0]]),
    ("pow", (0.0, 0.0), 1, [0, 0], [[0, 0], [0, 0]]),
    ("pow", (0.0, -1.0), INF, [-INF, NAN], [[INF, NAN], [NAN, NAN]]),
    ("pow", (0.0, 0.5), 0, [INF, 0], [[-INF, -INF], [-INF, 0]]),
    ("pow", (-2.0, 3.0), -8, [12, 0], [[-12, 0], [0, 0]]),
    ("pow", (-2.0, -3.0), -0.125, [-0.1875, 0], [[-0.375, 0], [0, 0]]),
    ("pow", (-2.0, 0.5), NAN, [NAN, NAN], [[NAN, NAN], [NAN, NAN]]),
    ("pow", (NAN, 2.0), NAN, [NAN, NAN], [[NAN, NAN], [NAN, NAN]]),
]


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize(("name", "point", "value", "first", "second"), EDGES)
def test_edge(
    name: str, point: tuple[float, ...], value: float, first: list[float], second: Any, as_array: bool
) -> None:
    params = {"alpha": 0.2} if name == "leaky_relu" else {}
    got = _derivatives(name, point, as_array, **params)
    have_all = [got[0], *got[1], *(h for row in got[2] for h in row)]
    want_all = [value, *first, *(h for row in second for h in row)]
    for have, want in zip(have_all, want_all, strict=True):
        assert (have is None) == (want is None)
        if want is not None:
            np.testing.assert_equal(have + 0.0, want + 0.0)  # + 0.0: the sign of a zero is free


@pytest.mark.parametrize("y", [-2.0, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 2.2])
@pytest.mark.parametrize("n", [1, 2])
def test_one_exponent_agrees_with_the_general_kernel(y: float, n: int) -> None:
    x = np.array([0.0, 1e-300, 5e-324, 0.7, 1.0, 3.3, 1e200, INF, NAN, -0.0, -1.5])
    with np.errstate(all="ignore"):
        quick = REGISTRY["pow_derivative"].kernel(x, np.float64(y), n=n, m=0)
        general = REGISTRY["pow_derivative"].kernel(x, np.full(x.shape, y), n=n, m=0)
    np.testing.assert_allclose(quick, general, rtol=1e-15, atol=5e-324)


@pytest.mark.parametrize(("n", "m"), [(1, 0), (2, 0), (0, 1), (1, 1), (0, 2)])
def test_powers_of_numbers_and_of_arrays_have_the_same_bits(n: int, m: int) -> None:
    rng = np.random.default_rng(12)
    x = np.exp(rng.normal(size=400) * rng.choice([0.01, 1.0, 30.0], 400))
    y = np.where(rng.random(400) < 0.5, rng.normal(size=400) * 9.0, rng.integers(-9, 9, 400) / 2.0)
    kernel = REGISTRY["pow_derivative"].kernel
    with np.errstate(all="ignore"):
        of_arrays = kernel(x, y, n=n, m=m)
        of_numbers = [kernel(a, b, n=n, m=m) for a, b in zip(x, y, strict=True)]
        of_floats = [kernel(a, b, n=n, m=m) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    np.testing.assert_array_equal(of_numbers, of_arrays)
    np.testing.assert_array_equal(of_floats, of_arrays)


@pytest.mark.parametrize("name", ["floordiv", "floormod"])
def test_integer_division_by_zero(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="by 0"):
        REGISTRY[name](tf.constant([3, 4]), tf.constant([1, 0]))


def test_integer_power() -> None:
    assert REGISTRY["pow"](tf.constant(2), tf.constant(3)).numpy() == 8
    with pytest.raises(InvalidArgumentError, match="exponents >= 0"):
        REGISTRY["pow"](tf.constant(2), tf.constant(-1))


def test_huge_quotients_floor_without_overflow() -> None:
    assert REGISTRY["floordiv"].kernel(np.float64(1.79e308), np.float64(-1.7e308)) == -2.0
    assert REGISTRY["floormod_dy"].kernel(np.float64(1.79e308), np.float64(-1.7e308)) == 2.0

"""Section 10 of the contract, elementwise ops and reductions: each op's value is NumPy's, its derivatives are exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check

m = tf.math
RNG = np.random.default_rng(10)
ANY = np.array([-1.75, 0.5, 2.25])
POSITIVE = np.array([0.25, 1.5, 3.0])
UNIT = np.array([-0.75, 0.125, 0.5])
ABOVE_ONE = np.array([1.5, 2.0, 7.0])
COLUMN = np.array([[0.75], [-2.0]])
POSITIVE_COLUMN = np.array([[0.75], [2.0]])
MATRIX = np.array([[1.5, -2.0, 0.25], [4.0, 0.5, -3.0]])
CUBE = RNG.normal(size=(2, 3, 2))
ZEROS_IN = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0]])
NOTHING = np.zeros((2, 0))


class Op(NamedTuple):
    """A call: what it promises, the op, NumPy's idea of it, and its arguments."""

    promise: str
    f: Callable[..., Any]
    reference: Callable[..., Any]
    at: tuple[Any, ...]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _each(f: Callable[[float], float]) -> Callable[[Any], Any]:
    return np.vectorize(f, otypes=[float])


def _logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


ONE = [
    Op("abs is the distance from 0", tf.abs, np.abs, (ANY,)),
    Op("negative changes the sign", tf.negative, np.negative, (ANY,)),
    Op("square multiplies by itself", tf.square, np.square, (ANY,)),
    Op("sqrt is the root", tf.sqrt, np.sqrt, (POSITIVE,)),
    Op("rsqrt is one over the root", m.rsqrt, lambda x: 1 / np.sqrt(x), (POSITIVE,)),
    Op("reciprocal is one over x", m.reciprocal, np.reciprocal, (ANY,)),
    Op(
        "reciprocal_no_nan is 0 at 0",
        m.reciprocal_no_nan,
        lambda x: np.array([-0.5, 0.0, 4.0]),
        (np.array([-2, 0, 0.25]),),
    ),
    Op("exp is e to the x", tf.exp, np.exp, (ANY,)),
    Op("expm1 is exp less one", m.expm1, np.expm1, (ANY * 1e-3,)),
    Op("log is the natural logarithm", m.log, np.log, (POSITIVE,)),
    Op("log1p is the logarithm of 1 + x", m.log1p, np.log1p, (UNIT * 1e-3,)),
    Op("sin", tf.sin, np.sin, (ANY,)),
    Op("cos", tf.cos, np.cos, (ANY,)),
    Op("tan", tf.tan, np.tan, (ANY,)),
    Op("asin", tf.asin, np.arcsin, (UNIT,)),
    Op("acos", tf.acos, np.arccos, (UNIT,)),
    Op("atan", tf.atan, np.arctan, (ANY,)),
    Op("sinh", tf.sinh, np.sinh, (ANY,)),
    Op("cosh", tf.cosh, np.cosh, (ANY,)),
    Op("tanh", tf.tanh, np.tanh, (ANY,)),
    Op("asinh", tf.asinh, np.arcsinh, (ANY,)),
    Op("acosh", tf.acosh, np.arccosh, (ABOVE_ONE,)),
    Op("atanh", tf.atanh, np.arctanh, (UNIT,)),
    Op("sigmoid", tf.sigmoid, _sigmoid, (ANY,)),
    Op("log_sigmoid is the logarithm of sigmoid", m.log_sigmoid, lambda x: np.log(_sigmoid(x)), (ANY,)),
    Op("softplus is log(1 + exp x)", m.softplus, lambda x: np.log1p(np.exp(x)), (ANY,)),
    Op("softsign is x / (1 + |x|), twice differentiable", m.softsign, lambda x: x / (1 + np.abs(x)), (ANY,)),
    Op("erf", m.erf, _each(math.erf), (ANY,)),
    Op("erfc", m.erfc, _each(math.erfc), (ANY,)),
    Op("identity passes on", tf.identity, lambda x: x, (ANY,)),
    Op("cast between floats passes gradients", lambda x: tf.cast(x, tf.float64), lambda x: x, (ANY,)),
    Op("saturate_cast between floats passes gradients", lambda x: tf.saturate_cast(x, tf.float64), lambda x: x, (ANY,)),
    Op("sign is connected with zeros", lambda x: tf.sign(x) * x, np.abs, (ANY,)),
    Op("clip_by_value clips", lambda x: tf.clip_by_value(x, -1.0, 1.0), lambda x: np.clip(x, -1, 1), (ANY,)),
]

TWO = [
    Op("add broadcasts", tf.add, np.add, (ANY, COLUMN)),
    Op("subtract broadcasts", tf.subtract, np.subtract, (ANY, COLUMN)),
    Op("multiply broadcasts", tf.multiply, np.multiply, (ANY, COLUMN)),
    Op("divide broadcasts", tf.divide, np.divide, (ANY, COLUMN)),
    Op("truediv is divide", tf.truediv, np.divide, (COLUMN, ANY)),
    Op("realdiv is divide", tf.realdiv, np.divide, (COLUMN, ANY)),
    Op(
        "divide_no_nan is 0 over 0",
        m.divide_no_nan,
        lambda x, y: np.array([3.0, 0.0]),
        (np.array([6.0, 2.0]), np.array([2.0, 0.0])),
    ),
    Op("multiply_no_nan multiplies", m.multiply_no_nan, np.multiply, (ANY, COLUMN)),
    Op("pow by a tensor", tf.pow, np.power, (POSITIVE, COLUMN)),
    Op("pow of negative numbers by whole ones", lambda x: tf.pow(x, 3.0), lambda x: x**3, (ANY,)),
    Op("squared_difference", m.squared_difference, lambda x, y: (x - y) ** 2, (ANY, COLUMN)),
    Op("xlogy", m.xlogy, lambda x, y: x * np.log(y), (ANY, POSITIVE_COLUMN)),
    Op("xlog1py", m.xlog1py, lambda x, y: x * np.log1p(y), (ANY, POSITIVE_COLUMN)),
    Op("xdivy", m.xdivy, np.divide, (ANY, COLUMN)),
    Op("atan2 takes y first", tf.atan2, np.arctan2, (ANY, COLUMN)),
    Op("floormod has the sign of y", m.floormod, np.mod, (np.array([7.5, -7.25]), np.array([[2.0], [-3.0]]))),
    Op("truncatemod has the sign of x", tf.truncatemod, np.fmod, (np.array([7.5, -7.25]), np.array([[2.0], [-3.0]]))),
    Op("maximum takes the greater", tf.maximum, np.maximum, (ANY, COLUMN)),
    Op("minimum takes the lesser", tf.minimum, np.minimum, (ANY, COLUMN)),
    Op(
        "clip_by_value is differentiable in its bounds",
        tf.clip_by_value,
        lambda x, a, b: np.clip(x, a, b),
        (ANY, np.array(-1.0), np.array([1.0])),
    ),
    Op(
        "where selects, broadcasting",
        lambda x, y: tf.where(ANY > 0, x, y),
        lambda x, y: np.where(ANY > 0, x, y),
        (ANY, COLUMN),
    ),
    Op("nextafter moves with x1", m.nextafter, np.nextafter, (ANY, POSITIVE)),
    Op("add_n adds several", lambda x, y: tf.add_n([x, y, x]), lambda x, y: 2 * x + y, (ANY, POSITIVE)),
    Op("accumulate_n adds several", lambda x, y: m.accumulate_n([x, y]), np.add, (ANY, POSITIVE)),
    Op("scalar_mul scales", tf.scalar_mul, np.multiply, (np.array(2.5), ANY)),
    Op(
        "polyval is differentiable in coefficients and x",
        lambda a, x: m.polyval([a, 2.0, a], x),
        lambda a, x: a * x * x + 2 * x + a,
        (np.array(3.0), ANY),
    ),
]

REDUCTIONS = [
    Op("reduce_sum over all", tf.reduce_sum, np.sum, (MATRIX,)),
    Op("reduce_sum over nothing is the tensor", lambda x: tf.reduce_sum(x, []), lambda x: x, (MATRIX,)),
    Op(
        "reduce_sum over a list with negative axes",
        lambda x: tf.reduce_sum(x, [0, -1]),
        lambda x: np.sum(x, (0, 2)),
        (CUBE,),
    ),
    Op(
        "reduce_sum over an axis given as a tensor",
        lambda x: tf.reduce_sum(x, tf.constant(1)),
        lambda x: np.sum(x, 1),
        (CUBE,),
    ),
    Op(
        "reduce_sum keeps dims",
        lambda x: tf.reduce_sum(x, 1, keepdims=True),
        lambda x: np.sum(x, 1, keepdims=True),
        (MATRIX,),
    ),
    Op("reduce_mean over all", tf.reduce_mean, np.mean, (MATRIX,)),
    Op("reduce_mean over an axis", lambda x: tf.reduce_mean(x, -1), lambda x: np.mean(x, -1), (CUBE,)),
    Op("reduce_max over all", tf.reduce_max, np.max, (MATRIX,)),
    Op(
        "reduce_max over several axes",
        lambda x: tf.reduce_max(x, [0, 2], True),
        lambda x: np.max(x, (0, 2), keepdims=True),
        (CUBE,),
    ),
    Op("reduce_min over an axis", lambda x: tf.reduce_min(x, 0), lambda x: np.min(x, 0), (MATRIX,)),
    Op("reduce_prod over all", tf.reduce_prod, np.prod, (MATRIX,)),
    Op("reduce_prod through zeros", lambda x: tf.reduce_prod(x, 1), lambda x: np.prod(x, 1), (ZEROS_IN,)),
    Op("reduce_prod over the outer axes", lambda x: tf.reduce_prod(x, [0, 2]), lambda x: np.prod(x, (0, 2)), (CUBE,)),
    Op("reduce_logsumexp over all", tf.reduce_logsumexp, _logsumexp, (MATRIX,)),
    Op(
        "reduce_logsumexp over two axes of three",
        lambda x: tf.reduce_logsumexp(x, [0, 2], True),
        lambda x: _logsumexp(x, (0, 2), True),
        (CUBE,),
    ),
    Op("reduce_std over an axis", lambda x: m.reduce_std(x, 1), lambda x: np.std(x, 1), (MATRIX,)),
    Op("reduce_variance over all", m.reduce_variance, np.var, (MATRIX,)),
    Op(
        "reduce_variance keeps dims",
        lambda x: m.reduce_variance(x, [0], True),
        lambda x: np.var(x, 0, keepdims=True),
        (MATRIX,),
    ),
    Op(
        "reduce_euclidean_norm over an axis",
        lambda x: m.reduce_euclidean_norm(x, 1),
        lambda x: np.linalg.norm(x, axis=1),
        (MATRIX,),
    ),
    Op("norm of all elements", tf.norm, lambda x: np.linalg.norm(x.ravel()), (MATRIX,)),
    Op("norm of order 1", lambda x: tf.norm(x, 1, axis=0), lambda x: np.abs(x).sum(0), (MATRIX,)),
    Op("norm of order 3", lambda x: tf.norm(x, 3, axis=1), lambda x: (np.abs(x) ** 3).sum(1) ** (1 / 3), (MATRIX,)),
    Op(
        "norm of order infinity",
        lambda x: tf.norm(x, np.inf, axis=1, keepdims=True),
        lambda x: np.abs(x).max(1, keepdims=True),
        (MATRIX,),
    ),
    Op("norm of matrices", lambda x: tf.norm(x, "fro", axis=[0, 1]), lambda x: np.linalg.norm(x, axis=(0, 1)), (CUBE,)),
    Op("matrix norm of order 1", lambda x: tf.norm(x, 1, axis=(-2, -1)), lambda x: np.abs(x).sum(-2).max(-1), (CUBE,)),
    Op(
        "l2_normalize divides by the norm",
        lambda x: m.l2_normalize(x, axis=1),
        lambda x: x / np.linalg.norm(x, axis=1, keepdims=True),
        (MATRIX,),
    ),
    Op("cumsum along the first axis", tf.cumsum, lambda x: np.cumsum(x, 0), (MATRIX,)),
    Op(
        "cumsum exclusive", lambda x: tf.cumsum(x, 1, exclusive=True), lambda x: np.cumsum(x, 1) - x, (np.rint(MATRIX),)
    ),
    Op(
        "cumsum reverse",
        lambda x: tf.cumsum(x, -1, reverse=True),
        lambda x: np.cumsum(x[:, ::-1], 1)[:, ::-1],
        (MATRIX,),
    ),
    Op("cumprod along an axis", lambda x: m.cumprod(x, 1), lambda x: np.cumprod(x, 1), (MATRIX,)),
    Op(
        "cumprod through zeros",
        lambda x: m.cumprod(x, axis=1, exclusive=True, reverse=True),
        lambda x: np.array([[0.0, 3.0, 1.0], [0.0, 5.0, 1.0]]),
        (ZEROS_IN,),
    ),
    Op("cumulative_logsumexp", m.cumulative_logsumexp, lambda x: np.log(np.cumsum(np.exp(x), 0)), (MATRIX,)),
    Op(
        "cumulative_logsumexp exclusive starts with minus infinity",
        lambda x: m.cumulative_logsumexp(x, exclusive=True),
        lambda x: np.stack([np.full(3, -np.inf), x[0]]),
        (MATRIX,),
    ),
    Op(
        "cumulative_logsumexp reverse",
        lambda x: m.cumulative_logsumexp(x, axis=1, reverse=True),
        lambda x: np.log(np.cumsum(np.exp(x[:, ::-1]), 1))[:, ::-1],
        (MATRIX,),
    ),
    Op("moments", lambda x: tf.nn.moments(x, [0]), lambda x: [np.mean(x, 0), np.var(x, 0)], (MATRIX,)),
]

OPS = [*ONE, *TWO, *REDUCTIONS]
EMPTY = [
    tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min, tf.reduce_prod, tf.reduce_logsumexp, m.reduce_std,
    m.reduce_variance, m.reduce_euclidean_norm, tf.cumsum, m.cumprod, m.cumulative_logsumexp, tf.exp, tf.square,
]  # fmt: skip
SCALAR = [*[o for o in EMPTY if o not in (tf.cumsum, m.cumprod, m.cumulative_logsumexp)], tf.norm]


def _leaves(y: Any) -> list[Any]:
    return [v for part in y for v in _leaves(part)] if isinstance(y, (list, tuple)) else [y]


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.promise)
def test_value_is_numpys(op: Op) -> None:
    got = _leaves(op.f(*[tf.constant(a) for a in op.at]))
    for g, e in zip(got, _leaves(op.reference(*op.at)), strict=True):
        assert g.dtype == tf.float64
        assert g.shape == np.shape(e)
        np.testing.assert_allclose(g.numpy(), e, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("op", OPS, ids=lambda o: o.promise)
def test_derivative_is_the_exact_one(op: Op, order: int) -> None:
    report = check(op.f, *op.at, order=order)
    assert report.ok and report.verdict != "undecided", report.summary()


@pytest.mark.parametrize("op", [o for o in OPS if "cast" not in o.promise], ids=lambda o: o.promise)
def test_float32_stays_float32_and_its_derivative_is_exact(op: Op) -> None:
    small = [a.astype(np.float32) for a in op.at]
    for y in _leaves(op.f(*[tf.constant(a) for a in small])):
        assert y.dtype == tf.float32
    report = check(op.f, *small)
    assert report.ok and report.verdict != "undecided", report.summary()


@pytest.mark.parametrize("f", EMPTY, ids=lambda f: f.__name__)
def test_empty_tensors_have_empty_gradients(f: Any) -> None:
    x = tf.Variable(NOTHING)
    with tf.GradientTape() as tape:
        y = f(x)
    g = tape.gradient(y, x)
    assert g.shape == (2, 0)
    assert check(f, NOTHING).ok and check(f, NOTHING, order=2).ok


@pytest.mark.parametrize("f", SCALAR, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scalars_are_reduced_to_themselves_with_exact_derivatives(f: Any, dtype: Any) -> None:
    for order in (1, 2):
        assert check(f, np.array(1.5, dtype), order=order).ok


# ---------------------------------------------------------------------------------------------- not differentiable


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (tf.floor, [-2.0, 0.0, 2.0]),
        (m.ceil, [-1.0, 1.0, 3.0]),
        (tf.round, [-2.0, 0.0, 2.0]),
        (m.rint, [-2.0, 0.0, 2.0]),
        (lambda x: m.floordiv(x, 0.5), [-4.0, 1.0, 4.0]),
        (lambda x: tf.truncatediv(x, 0.5), [-3.0, 1.0, 4.0]),
        (tf.zeros_like, [0.0, 0.0, 0.0]),
        (tf.ones_like, [1.0, 1.0, 1.0]),
        (tf.argmax, 2),
        (tf.argmin, 0),
        (m.count_nonzero, 3),
        (m.is_finite, [True] * 3),
        (m.is_inf, [False] * 3),
        (m.is_nan, [False] * 3),
        (lambda x: tf.cast(x, tf.int32), [-1, 0, 2]),
        (lambda x: x > 0.0, [False, True, True]),
        (lambda x: tf.not_equal(x, 0.5), [True, False, True]),
        (m.is_non_decreasing, True),
        (m.is_strictly_increasing, True),
        (m.zero_fraction, 0.0),
    ],
)
def test_what_steps_has_no_gradient(f: Any, expected: Any) -> None:
    x = tf.Variable(ANY)
    with tf.GradientTape() as tape:
        y = f(x)
    np.testing.assert_array_equal(y.numpy(), expected)
    assert tape.gradient(y, x) is None


def test_reduce_any_and_all_need_bools() -> None:
    mask = tf.constant([[True, False], [True, True]])
    assert tf.reduce_any(mask, 0).numpy().tolist() == [True, True]
    assert tf.reduce_all(mask, axis=1, keepdims=True).numpy().tolist() == [[False], [True]]
    assert bool(tf.reduce_all([])) and not bool(tf.reduce_any([]))
    with pytest.raises(TypeError):
        tf.reduce_any([1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="bool"):
        tf.reduce_any(tf.constant([1]))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.uint16])
def test_argmax_has_the_dtype_asked_for(dtype: Any) -> None:
    assert tf.argmax(MATRIX, axis=1, output_type=dtype).dtype == dtype
    assert tf.argmin(MATRIX, -1, output_type=dtype).numpy().tolist() == [1, 2]


def test_argmax_takes_integer_types_only() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="integer type"):
        tf.argmax([1.0, 2.0], output_type=tf.float32)

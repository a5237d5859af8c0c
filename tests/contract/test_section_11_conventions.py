"""Values and derivatives at edges, row by row (section 11 of the contract, with what section 14 says of it)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gtape as tf

inf, nan = math.inf, math.nan
IAE = tf.errors.InvalidArgumentError
SELU = 1.0507009873554805
_ALPHA = 1.6732632423543772


class Row(NamedTuple):
    """What an op gives at a point: its value, its gradient by each argument, and the second derivative by the first."""

    name: str
    f: Callable[..., Any]
    at: tuple[Any, ...]
    value: Any = None
    gradient: tuple[Any, ...] = ()
    second: Any = None


m, nn = tf.math, tf.nn

ROWS = [
    Row("abs at 0", tf.abs, (0.0,), 0.0, (0.0,), 0.0),
    Row("abs at minus 0", tf.abs, (-0.0,), 0.0, (0.0,), 0.0),
    Row("abs at NaN", tf.abs, (nan,), nan, (nan,)),
    Row("sign below 0", tf.sign, (-2.0,), -1.0, (0.0,)),
    Row("sign at 0", tf.sign, (0.0,), 0.0, (0.0,)),
    Row("sign above 0", tf.sign, (3.0,), 1.0, (0.0,)),
    Row("relu at 0", nn.relu, (0.0,), 0.0, (0.0,), 0.0),
    Row("relu6 at 0", nn.relu6, (0.0,), 0.0, (0.0,)),
    Row("relu6 at 6", nn.relu6, (6.0,), 6.0, (0.0,)),
    Row("leaky_relu at 0", nn.leaky_relu, (0.0,), 0.0, (0.2,)),
    Row("leaky_relu at 0 with another alpha", lambda x: nn.leaky_relu(x, alpha=0.5), (0.0,), 0.0, (0.5,)),
    Row("elu at 0", nn.elu, (0.0,), 0.0, (1.0,)),
    Row("selu at 0", nn.selu, (0.0,), 0.0, (SELU,)),
    Row("softplus at 1000", m.softplus, (1000.0,), 1000.0, (1.0,), 0.0),
    Row("softplus at -1000", m.softplus, (-1000.0,), 0.0, (0.0,), 0.0),
    Row("sigmoid at 1000", m.sigmoid, (1000.0,), 1.0, (0.0,), 0.0),
    Row("sigmoid at -1000", m.sigmoid, (-1000.0,), 0.0, (0.0,), 0.0),
    Row("log_sigmoid at 1000", m.log_sigmoid, (1000.0,), 0.0, (0.0,), 0.0),
    Row("log_sigmoid at -1000", m.log_sigmoid, (-1000.0,), -1000.0, (1.0,), 0.0),
    Row("swish at 1000", nn.swish, (1000.0,), 1000.0, (1.0,), 0.0),
    Row("swish at -1000", nn.swish, (-1000.0,), 0.0, (0.0,), 0.0),
    Row("gelu at 0", nn.gelu, (0.0,), 0.0, (0.5,)),
    Row("gelu by tanh at 0", lambda x: nn.gelu(x, approximate=True), (0.0,), 0.0, (0.5,)),
    Row("sqrt at 0", tf.sqrt, (0.0,), 0.0, (inf,)),
    Row("sqrt at -1", tf.sqrt, (-1.0,), nan, (nan,), nan),
    Row("sqrt at inf", tf.sqrt, (inf,), inf, (0.0,)),
    Row("rsqrt at 0", m.rsqrt, (0.0,), inf, (-inf,)),
    Row("reciprocal at 0", m.reciprocal, (0.0,), inf, (-inf,)),
    Row("reciprocal_no_nan at 0", m.reciprocal_no_nan, (0.0,), 0.0, (0.0,)),
    Row("log at 0", m.log, (0.0,), -inf, (inf,)),
    Row("log at -1: NaN, as the value is", m.log, (-1.0,), nan, (nan,), nan),
    Row("log at inf", m.log, (inf,), inf, (0.0,)),
    Row("log1p at -1", m.log1p, (-1.0,), -inf, (inf,)),
    Row("log1p at -2: NaN, as the value is", m.log1p, (-2.0,), nan, (nan,), nan),
    Row("asin at 1", tf.asin, (1.0,), math.asin(1.0), (inf,)),
    Row("asin at -1", tf.asin, (-1.0,), math.asin(-1.0), (inf,)),
    Row("asin outside", tf.asin, (1.5,), nan, (nan,), nan),
    Row("acos at 1", tf.acos, (1.0,), 0.0, (-inf,)),
    Row("acos at -1", tf.acos, (-1.0,), math.pi, (-inf,)),
    Row("acos outside", tf.acos, (-1.5,), nan, (nan,), nan),
    Row("acosh at 1", tf.acosh, (1.0,), 0.0, (inf,)),
    Row("acosh outside", tf.acosh, (0.5,), nan, (nan,), nan),
    Row("atanh at 1", tf.atanh, (1.0,), inf, (inf,)),
    Row("atanh at -1", tf.atanh, (-1.0,), -inf, (inf,)),
    Row("atanh outside: NaN, as the value is", tf.atanh, (2.0,), nan, (nan,), nan),
    Row("x**2 at 0", lambda x: x**2, (0.0,), 0.0, (0.0,), 2.0),
    Row("x**.5 at 0", lambda x: x**0.5, (0.0,), 0.0, (inf,)),
    Row("x**1 at 0, where TensorFlow's second derivative is NaN", lambda x: x**1, (0.0,), 0.0, (1.0,), 0.0),
    Row("0**x above 0", lambda x: 0.0**x, (2.0,), 0.0, (0.0,)),
    Row("0**x at 0", lambda x: 0.0**x, (0.0,), 1.0, (0.0,)),
    Row("x**0 at 0, where TensorFlow has NaN", lambda x: x**0, (0.0,), 1.0, (0.0,), 0.0),
    Row("x**0 at 2", lambda x: x**0, (2.0,), 1.0, (0.0,), 0.0),
    Row("pow(0, 2)", tf.pow, (0.0, 2.0), 0.0, (0.0, 0.0)),
    Row("pow(0, 1)", tf.pow, (0.0, 1.0), 0.0, (1.0, 0.0)),
    Row("pow(0, 0), where TensorFlow has NaN", tf.pow, (0.0, 0.0), 1.0, (0.0, 0.0)),
    Row("pow(0, -1)", tf.pow, (0.0, -1.0), inf, (-inf,)),
    Row("pow(-2, 3)", tf.pow, (-2.0, 3.0), -8.0, (12.0,), -12.0),
    Row("pow(-2, 0.5)", tf.pow, (-2.0, 0.5), nan, (nan, nan)),
    Row("maximum at a tie", tf.maximum, (2.0, 2.0), 2.0, (1.0, 0.0)),
    Row("minimum at a tie", tf.minimum, (2.0, 2.0), 2.0, (1.0, 0.0)),
    Row("reduce_max of ties", tf.reduce_max, ([1.0, 3.0, 3.0],), 3.0, ([0.0, 0.5, 0.5],)),
    Row("reduce_min of ties", tf.reduce_min, ([1.0, 1.0, 3.0],), 1.0, ([0.5, 0.5, 0.0],)),
    Row("reduce_max of NaN", tf.reduce_max, ([1.0, nan],), nan, ([nan, nan],)),
    Row("norm inf of ties", lambda x: tf.norm(x, ord=inf), ([2.0, -2.0],), 2.0, ([0.5, -0.5],)),
    Row("clip at the lower bound", lambda x: tf.clip_by_value(x, 1.0, 3.0), (1.0,), 1.0, (1.0,)),
    Row("clip at the upper bound", lambda x: tf.clip_by_value(x, 1.0, 3.0), (3.0,), 3.0, (1.0,)),
    Row("clip at the bounds, by all", tf.clip_by_value, (1.0, 1.0, 3.0), 1.0, (1.0, 0.0, 0.0)),
    Row("clip at the upper bound, by all", tf.clip_by_value, (3.0, 1.0, 3.0), 3.0, (1.0, 0.0, 0.0)),
    Row("clip below, by all", tf.clip_by_value, (0.0, 1.0, 3.0), 1.0, (0.0, 1.0, 0.0)),
    Row("clip above, by all", tf.clip_by_value, (5.0, 1.0, 3.0), 3.0, (0.0, 0.0, 1.0)),
    Row("top_k of ties is stable", lambda x: m.top_k(x, 1)[0], ([2.0, 2.0],), [2.0], ([1.0, 0.0],)),
    Row("sort of ties is stable", lambda x: tf.sort(x)[0], ([2.0, 2.0],), 2.0, ([1.0, 0.0],)),
    Row("reduce_prod with a zero", tf.reduce_prod, ([2.0, 0.0, 4.0],), 0.0, ([0.0, 8.0, 0.0],)),
    Row("reduce_prod with two zeros", tf.reduce_prod, ([0.0, 0.0, 4.0],), 0.0, ([0.0, 0.0, 0.0],)),
    Row(
        "cumprod with a zero, where TensorFlow is wrong",
        m.cumprod,
        ([2.0, 0.0, 3.0],),
        [2.0, 0.0, 0.0],
        ([1.0, 8.0, 0.0],),
    ),
    Row("1/0", m.divide, (1.0, 0.0), inf, (inf, -inf)),
    Row("0/0", m.divide, (0.0, 0.0), nan, (inf, nan)),
    Row("divide_no_nan by 0", m.divide_no_nan, (1.0, 0.0), 0.0, (0.0, 0.0)),
    Row("divide_no_nan of 0 by 0", m.divide_no_nan, (0.0, 0.0), 0.0, (0.0, 0.0)),
    Row("multiply_no_nan(inf, 0), by the first", lambda x: m.multiply_no_nan(x, x * 0.0 + 0.0), (2.0,), 0.0, (0.0,)),
    Row("xlogy(0, 0)", m.xlogy, (0.0, 0.0), 0.0, (0.0, 0.0)),
    Row("xlog1py(0, -1)", m.xlog1py, (0.0, -1.0), 0.0, (0.0, 0.0)),
    Row("xdivy(0, 0)", m.xdivy, (0.0, 0.0), 0.0, (0.0, 0.0)),
    Row("floormod", m.floormod, (7.5, 2.0), 1.5, (1.0, -3.0)),
    Row("floormod of a negative", m.floormod, (-7.5, 2.0), 0.5, (1.0, 4.0)),
    Row("atan2(0, 0)", m.atan2, (0.0, 0.0), 0.0, (nan, nan)),
    Row("atan2(1, 0)", m.atan2, (1.0, 0.0), math.pi / 2, (0.0, -1.0)),
    Row("atan2(0, -1)", m.atan2, (0.0, -1.0), math.pi, (-1.0, 0.0)),
    Row("norm at 0: the least", tf.norm, ([0.0, 0.0],), 0.0, ([0.0, 0.0],)),
    Row(
        "norm of rows, of which one is 0",
        lambda x: tf.norm(x, axis=1),
        ([[0.0, 0.0], [3.0, 4.0]],),
        [0.0, 5.0],
        ([[0.0, 0.0], [0.6, 0.8]],),
    ),
    Row("reduce_euclidean_norm at 0: the least", m.reduce_euclidean_norm, ([0.0, 0.0],), 0.0, ([0.0, 0.0],)),
    Row("reduce_std at 0: the least", m.reduce_std, ([2.0, 2.0],), 0.0, ([0.0, 0.0],)),
    Row("norm of order 1 at 0", lambda x: tf.norm(x, ord=1), ([0.0, 0.0],), 0.0, ([0.0, 0.0],)),
    Row("l2_normalize at 0", m.l2_normalize, ([0.0],), [0.0], ([1e6],)),
    Row("logsumexp of thousands", tf.reduce_logsumexp, ([1000.0, 1000.0],), 1000.0 + math.log(2.0), ([0.5, 0.5],)),
    Row("logsumexp beside -inf", tf.reduce_logsumexp, ([-inf, 0.0],), 0.0, ([0.0, 1.0],)),
    Row("logsumexp of -inf only", tf.reduce_logsumexp, ([-inf, -inf],), -inf, ([nan, nan],)),
    # TensorFlow gives NaN for the first. The derivative exists, and gtape returns it; see docs/conventions.md.
    Row("logsumexp beside inf", tf.reduce_logsumexp, ([inf, 0.0],), inf, ([1.0, 0.0],)),
    Row("softmax with -inf", lambda x: nn.softmax(x)[0], ([-inf, 0.0],), 0.0, ([0.0, 0.0],)),
    Row("softmax with inf", lambda x: nn.softmax(x)[0], ([inf, 0.0],), nan, ([nan, nan],)),
    Row("softmax of -inf only", lambda x: nn.softmax(x)[0], ([-inf, -inf],), nan, ([nan, nan],)),
    Row(
        "sigmoid cross entropy of 1000",
        lambda x: nn.sigmoid_cross_entropy_with_logits(labels=tf.zeros_like(x), logits=x),
        (1000.0,),
        1000.0,
        (1.0,),
        0.0,
    ),
    Row(
        "sigmoid cross entropy of -1000",
        lambda x: nn.sigmoid_cross_entropy_with_logits(labels=tf.ones_like(x), logits=x),
        (-1000.0,),
        1000.0,
        (-1.0,),
        0.0,
    ),
    Row(
        "softmax cross entropy of thousands",
        lambda x: nn.softmax_cross_entropy_with_logits(labels=tf.cast([1.0, 0.0], x.dtype), logits=x),
        ([-1000.0, 1000.0],),
        2000.0,
        ([-1.0, 1.0],),
    ),
    Row("mean of nothing", tf.reduce_mean, ([],), nan, ([],)),
    Row("max of nothing", tf.reduce_max, ([],), -inf, ([],)),
    Row("min of nothing", tf.reduce_min, ([],), inf, ([],)),
    Row("sum of nothing", tf.reduce_sum, ([],), 0.0, ([],)),
    Row("prod of nothing", tf.reduce_prod, ([],), 1.0, ([],)),
    Row(
        "det of a singular matrix, where TensorFlow refuses",
        tf.linalg.det,
        ([[1.0, 2.0], [2.0, 4.0]],),
        0.0,
        ([[4.0, -2.0], [-2.0, 1.0]],),
    ),
    Row("cholesky of what is not positive", lambda x: tf.linalg.cholesky(x)[0, 0], ([[-1.0]],), nan, ([[nan]],)),
    Row("fill", lambda x: tf.reduce_sum(tf.fill([3], x)), (2.0,), 6.0, (3.0,)),
    Row("linspace by its ends", lambda a, b: tf.linspace(a, b, 3), (0.0, 1.0), [0.0, 0.5, 1.0], (1.5, 1.5)),
    Row("round is half to even", tf.round, ([0.5, 1.5, 2.5],), [0.0, 2.0, 2.0], (None,)),
    Row("rint is half to even", m.rint, ([0.5, 1.5, 2.5],), [0.0, 2.0, 2.0], (None,)),
    Row("floordiv", m.floordiv, (7.0, 2.0), 3.0, (None, None)),
    Row("sign of slogdet", lambda x: tf.linalg.slogdet(x)[0], ([[2.0]],), 1.0, ([[0.0]],)),
    Row("logdet of a negative determinant", tf.linalg.logdet, ([[-2.0]],), nan, ([[nan]],)),
]


def _close(got: Any, wanted: Any, rtol: float) -> None:
    if wanted is None:
        assert got is None
    else:
        assert got is not None, f"None, not {wanted}"
        np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(wanted, np.float64), rtol=rtol, atol=0)


def _at(row: Row, dtype: str) -> list[Any]:
    return [tf.constant(np.asarray(a, dtype)) for a in row.at]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_value_and_gradient_at_an_edge(row: Row, dtype: str) -> None:
    rtol = 1e-14 if dtype == "float64" else 1e-6
    xs = _at(row, dtype)
    with tf.GradientTape() as tape:
        tape.watch(xs)
        y = row.f(*xs)
    _close(y, row.value, rtol)
    assert y.dtype == dtype
    for got, wanted in zip(tape.gradient(y, xs), row.gradient, strict=False):
        _close(got, wanted, rtol)
        assert got is None or got.dtype == dtype


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("row", [r for r in ROWS if r.second is not None], ids=lambda r: r.name)
def test_second_derivative_at_an_edge(row: Row, dtype: str) -> None:
    xs = _at(row, dtype)
    with tf.GradientTape() as outer:
        outer.watch(xs)
        with tf.GradientTape() as inner:
            inner.watch(xs)
            y = row.f(*xs)
        first = inner.gradient(y, xs[0])
    _close(outer.gradient(first, xs[0], unconnected_gradients="zero"), row.second, 1e-14)


# ---------------------------------------------------------------- rows that are no table


@pytest.mark.parametrize("f", [tf.sqrt, m.rsqrt, m.reciprocal], ids=["sqrt", "rsqrt", "reciprocal"])
def test_infinite_slope_with_nothing_above_gives_zero_for_the_ops_that_TensorFlow_short_circuits(f: Any) -> None:
    x = tf.constant(0.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert tape.gradient(y, x, output_gradients=tf.constant(0.0)).numpy() == 0.0


@pytest.mark.parametrize(
    ("f", "at"),
    [(m.log, 0.0), (tf.asin, 1.0), (lambda x: 1.0 / x, 0.0), (lambda x: x**0.5, 0.0)],
    ids=["log", "asin", "1/x", "x**.5"],
)
def test_other_infinite_slopes_with_nothing_above_give_nan(f: Any, at: float) -> None:
    x = tf.constant(at, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert math.isnan(tape.gradient(y, x, output_gradients=tf.constant(0.0, tf.float64)).numpy())


def test_where_does_not_let_the_other_branch_through_and_double_where_is_as_good() -> None:
    for f in (
        lambda x: tf.where(x > 0.0, m.log(x), 0.0),
        lambda x: tf.where(x > 0.0, m.log(tf.where(x > 0.0, x, 1.0)), 0.0),
        lambda x: tf.where(x > 0.0, tf.sqrt(x), 0.0),
        lambda x: tf.where(x > 0.0, 1.0 / x, 0.0),
    ):
        x = tf.constant([0.0, 1.0], tf.float64)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        made = tape.gradient(y, x).numpy()
        assert made[0] == 0.0 and math.isfinite(made[1])


def test_nan_in_a_maximum_goes_to_the_second_operand() -> None:
    for f in (tf.maximum, tf.minimum):
        for at in ((nan, 1.0), (1.0, nan)):
            a, b = (tf.constant(v) for v in at)
            with tf.GradientTape() as tape:
                tape.watch([a, b])
                y = f(a, b)
            assert math.isnan(y.numpy())
            assert [g.numpy() for g in tape.gradient(y, [a, b])] == [0.0, 1.0]


def test_clip_of_nan_has_no_gradient_to_x() -> None:
    x = tf.constant(nan)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.clip_by_value(x, 0.0, 1.0)
    assert tape.gradient(y, x).numpy() == 0.0


def test_multiply_no_nan_of_inf_and_nan_by_zero() -> None:
    # The gradient by y, inf or NaN in TensorFlow, is one of the defects that section 13 leaves alone.
    for a in (inf, nan):
        x, y = tf.constant(a), tf.constant(0.0)
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = m.multiply_no_nan(x, y)
        assert z.numpy() == 0.0
        dx, dy = tape.gradient(z, [x, y])
        assert dx.numpy() == dy.numpy() == 0.0


def test_clip_by_norm_at_zero_and_at_exactly_the_norm() -> None:
    x = tf.constant([0.0, 0.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.clip_by_norm(x, 1.0)
    assert y.numpy().tolist() == [0.0, 0.0]
    assert tape.gradient(y, x).numpy().tolist() == [1.0, 1.0]


def test_singular_matrices_are_refused_forward() -> None:
    a = tf.constant([[1.0, 2.0], [2.0, 4.0]])
    for f in (tf.linalg.inv, lambda x: tf.linalg.solve(x, tf.ones([2, 1]))):
        with pytest.raises(IAE):
            f(a)


def test_cholesky_gradient_is_symmetric() -> None:
    a = tf.constant([[4.0, 1.0], [1.0, 3.0]], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = tf.linalg.cholesky(a)[1, 0]
    g = tape.gradient(y, a).numpy()
    np.testing.assert_array_equal(g, g.T)


def test_values_at_repeated_eigenvalues_and_singular_values_are_fine() -> None:
    a = tf.constant(np.eye(2) * 2.0)
    for f in (tf.linalg.eigvalsh, lambda x: tf.linalg.svd(x, compute_uv=False)):
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = tf.reduce_sum(f(a))
        np.testing.assert_allclose(tape.gradient(y, a).numpy(), np.eye(2), atol=1e-15)


def test_one_hot_and_range_have_no_gradient() -> None:
    x = tf.constant(2.0)
    for f in (lambda v: tf.one_hot([0, 1], 2, on_value=v), lambda v: tf.range(v)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert tape.gradient(y, x) is None


def test_gather_and_labels_out_of_range_are_errors() -> None:
    with pytest.raises(IAE):
        tf.gather(tf.constant([1.0, 2.0]), [5])
    with pytest.raises(IAE):
        tf.gather(tf.constant([1.0, 2.0]), [-1])
    with pytest.raises(IAE):
        nn.sparse_softmax_cross_entropy_with_logits(labels=[3], logits=[[1.0, 2.0]])


def test_max_pool_gives_ties_to_the_first() -> None:
    x = tf.constant(np.ones((1, 4, 1), np.float32))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = nn.max_pool1d(x, 2, 2, "VALID")
    assert tape.gradient(y, x).numpy().ravel().tolist() == [1.0, 0.0, 1.0, 0.0]


def test_segment_max_shares_ties() -> None:
    x = tf.constant([3.0, 3.0, 1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = m.segment_max(x, [0, 0, 1])
    assert tape.gradient(y, x).numpy().tolist() == [0.5, 0.5, 1.0]


def test_unsorted_segment_prod_with_a_zero_is_exact() -> None:
    x = tf.constant([2.0, 0.0, 4.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = m.unsorted_segment_prod(x, [0, 0, 0], 1)
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 8.0, 0.0]


@pytest.mark.parametrize("name", ["lgamma", "erfinv"])
def test_special_functions_at_their_ends(name: str) -> None:
    f = getattr(m, name)
    at, values, slopes = {
        "lgamma": ([0.0, -1.0], [inf, inf], [nan, nan]),
        "erfinv": ([1.0, -1.0, 2.0], [inf, -inf, nan], [inf, inf, nan]),
    }[name]
    x = tf.constant(at, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_array_equal(y.numpy(), values)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), slopes)

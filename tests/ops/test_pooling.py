"""Pooling: which elements are picked or averaged, where their gradients go, and what does not fit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf
from gtape.errors import InvalidArgumentError, UnimplementedError
from gtape.verify import check

RNG = np.random.default_rng(11)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def line(*values: float, dtype: Any = np.float64) -> Any:
    """One image of one row and one channel."""
    return np.array(values, dtype).reshape(1, -1, 1)


def slope(f: Any, x: Any) -> Any:
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x).numpy()


# ---------------------------------------------------------------------------------------------- values


@st.composite
def windows(draw_: Any) -> dict[str, Any]:
    n = draw_(st.integers(1, 3))
    taps = draw_(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    strides = draw_(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    dilations = draw_(st.lists(st.integers(1, 2), min_size=n, max_size=n))
    size = [(k - 1) * d + 1 + draw_(st.integers(0, 3)) for k, d in zip(taps, dilations, strict=True)]
    return {
        "shape": (draw_(st.integers(0, 2)), *size, draw_(st.integers(1, 2))),
        "taps": taps,
        "strides": strides,
        "dilations": dilations,
        "padding": draw_(st.sampled_from(["SAME", "VALID"])),
        "first": draw_(st.booleans()),
    }


def textbook(x: Any, taps: Any, strides: Any, dilations: Any, padding: str, pick: Any) -> Any:
    size = x.shape[1:-1]
    before, places = [], []
    for d, k, s, r in zip(size, taps, strides, dilations, strict=True):
        reach = (k - 1) * r + 1
        o = -(-d // s) if padding == "SAME" else (d - reach) // s + 1
        places.append(o)
        before.append(max((o - 1) * s + reach - d, 0) // 2 if padding == "SAME" else 0)
    y = np.zeros((x.shape[0], *places, x.shape[-1]))
    for at in itertools.product(*map(range, places)):
        found = []
        for tap in itertools.product(*map(range, taps)):
            pixel = [s * o + r * k - b for o, k, s, r, b in zip(at, tap, strides, dilations, before, strict=True)]
            if all(0 <= p < d for p, d in zip(pixel, size, strict=True)):
                found.append(x[(slice(None), *pixel)])
        y[(slice(None), *at)] = pick(np.array(found), axis=0)
    return y


@given(windows(), st.integers(0, 2**31), st.sampled_from(["MAX", "AVG"]))
def test_pools_take_from_each_window_what_lies_inside(form: dict[str, Any], seed: int, kind: str) -> None:
    x = np.random.default_rng(seed).integers(-9, 9, form["shape"]).astype(np.float64)
    rest = (form["taps"], form["strides"], form["dilations"], form["padding"])
    expected = textbook(x, *rest, np.max if kind == "MAX" else np.mean)
    letters = "DHW"[3 - len(form["taps"]) :]
    first = form["first"]
    y = tf.nn.pool(
        np.moveaxis(x, -1, 1) if first else x,
        form["taps"],
        kind,
        strides=form["strides"],
        padding=form["padding"],
        dilations=form["dilations"],
        data_format=f"NC{letters}" if first else f"N{letters}C",
    ).numpy()
    np.testing.assert_allclose(np.moveaxis(y, 1, -1) if first else y, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_named_pools_are_the_general_one(n: int) -> None:
    x = draw(2, *(4, 5, 3)[:n], 2)
    for kind, general, named in (
        ("MAX", tf.nn.max_pool, (tf.nn.max_pool1d, tf.nn.max_pool2d, tf.nn.max_pool3d)[n - 1]),
        ("AVG", tf.nn.avg_pool, (tf.nn.avg_pool1d, tf.nn.avg_pool2d, tf.nn.avg_pool3d)[n - 1]),
    ):
        y = tf.nn.pool(x, [2] * n, kind, strides=[2] * n, padding="SAME").numpy()
        for ksize in (2, [2], [2] * n, [1, *[2] * n, 1]):
            assert np.array_equal(named(x, ksize, ksize, "SAME"), y)
            assert np.array_equal(general(x, ksize, ksize, "SAME"), y)


def test_explicit_padding_is_never_the_greatest() -> None:
    x = line(-3.0, -1.0, -2.0)
    y = tf.nn.max_pool1d(x, 2, 1, [[0, 0], [1, 1], [0, 0]])
    assert y.numpy().ravel().tolist() == [-3.0, -1.0, -1.0, -2.0]


def test_channels_may_have_a_window() -> None:
    x = np.array([1.0, 4.0, 3.0, 2.0]).reshape(1, 1, 1, 4)
    assert tf.nn.max_pool(x, [1, 1, 1, 2], [1, 1, 1, 2], "VALID").numpy().ravel().tolist() == [4.0, 3.0]
    z = tf.nn.max_pool(x.reshape(1, 4, 1, 1), [1, 2, 1, 1], [1, 2, 1, 1], "VALID", data_format="NCHW")
    assert z.numpy().ravel().tolist() == [4.0, 3.0]


def test_integers_have_a_greatest_element() -> None:
    y = tf.nn.max_pool1d(line(-5, -7, 2, dtype=np.int32), 2, 1, "SAME")
    assert y.dtype == tf.int32 and y.numpy().ravel().tolist() == [-5, 2, 2]


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
def test_values_and_gradients_keep_the_dtype(dtype: Any) -> None:
    x = tf.cast(draw(1, 4, 4, 2), dtype)
    for f in (tf.nn.max_pool2d, tf.nn.avg_pool2d):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x, 3, 2, "SAME")
        assert y.dtype == dtype and tape.gradient(y, x).dtype == dtype


# ---------------------------------------------------------------------------------------------- conventions


def test_the_gradient_of_a_tie_goes_to_the_first() -> None:
    g = slope(lambda x: tf.nn.max_pool1d(x, 2, 2, "VALID"), line(1.0, 1.0, 2.0, 2.0))
    assert g.ravel().tolist() == [1.0, 0.0, 1.0, 0.0]


def test_a_nan_is_the_greatest_as_in_numpy_and_the_first_one_gets_the_gradient() -> None:
    x = line(1.0, np.nan, np.nan, 3.0)
    assert np.isnan(tf.nn.max_pool1d(x, 2, 1, "VALID").numpy().ravel()).tolist() == [True] * 3
    g = slope(lambda v: tf.nn.max_pool1d(v, 3, 1, "VALID"), x)
    assert g.ravel().tolist() == [0.0, 2.0, 0.0, 0.0]


def test_infinite_elements_are_picked_and_never_the_padding() -> None:
    x = line(-np.inf, -np.inf)
    assert tf.nn.max_pool1d(x, 3, 1, "SAME").numpy().ravel().tolist() == [-np.inf, -np.inf]
    assert slope(lambda v: tf.nn.max_pool1d(v, 3, 1, "SAME"), x).ravel().tolist() == [2.0, 0.0]
    assert slope(lambda v: tf.nn.avg_pool1d(v, 2, 1, "SAME"), line(np.inf, 1.0)).ravel().tolist() == [0.5, 1.5]


def test_the_argmax_counts_in_the_image_or_in_the_batch() -> None:
    x = draw(2, 4, 4, 3)
    y, at = tf.nn.max_pool_with_argmax(x, 2, 2, "VALID")
    assert at.dtype == tf.int64
    assert np.array_equal(np.take_along_axis(x.reshape(2, -1), at.numpy().reshape(2, -1), 1).ravel(), y.numpy().ravel())
    z, whole = tf.nn.max_pool_with_argmax(x, 2, 2, "VALID", output_dtype=tf.int32, include_batch_in_index=True)
    assert whole.dtype == tf.int32
    assert np.array_equal(x.ravel()[whole.numpy()], z)
    assert slope(lambda v: tf.nn.max_pool_with_argmax(v, 2, 2, "VALID").output, x).sum() == 24


# ---------------------------------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("pool", [tf.nn.max_pool, tf.nn.avg_pool])
@pytest.mark.parametrize(("ksize", "strides", "padding"), [(2, 2, "VALID"), (3, 2, "SAME"), (2, 1, "SAME")])
def test_first_and_second_derivatives_are_exact(pool: Any, ksize: int, strides: int, padding: str, dtype: str) -> None:
    x = tf.constant(draw(2, 4, 3, 2).astype(dtype))
    report = check(lambda v: tf.sin(pool(v, ksize, strides, padding)), x, order=2)
    assert report.ok, report.summary()


@pytest.mark.parametrize("pool", [tf.nn.max_pool, tf.nn.avg_pool])
def test_forward_mode_and_jacobians_agree_with_gradients(pool: Any) -> None:
    x, t = tf.constant(draw(1, 4, 4, 1)), tf.constant(draw(1, 4, 4, 1))
    with tf.autodiff.ForwardAccumulator(x, t) as acc, tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = pool(x, 3, 2, "SAME", data_format="NHWC")
    jacobian = tape.jacobian(y, x).numpy()
    np.testing.assert_allclose(acc.jvp(y), np.tensordot(jacobian, t.numpy(), axes=4), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(tape.gradient(y, x), jacobian.sum(axis=(0, 1, 2, 3)), rtol=1e-14)


# ---------------------------------------------------------------------------------------------- errors

ONES = np.ones((1, 4, 4, 2))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tf.nn.pool(ONES, [2, 2], "MIN"), ValueError, "'MAX' or 'AVG'"),
        (lambda: tf.nn.max_pool(ONES, 2, 2, "valid"), InvalidArgumentError, "'VALID', 'SAME'"),
        (lambda: tf.nn.max_pool(ONES, 2, 2, "VALID", data_format="CNHW"), InvalidArgumentError, "'NHWC' or 'NCHW'"),
        (lambda: tf.nn.max_pool(ONES, [2, 2, 2], 2, "VALID"), ValueError, "length 1, 2 or 4"),
        (lambda: tf.nn.max_pool(ONES, [2, 1, 1, 1], 2, "VALID"), UnimplementedError, "batch"),
        (lambda: tf.nn.max_pool(ONES, 0, 2, "VALID"), InvalidArgumentError, "positive"),
        (lambda: tf.nn.max_pool(ONES, 9, 2, "VALID"), InvalidArgumentError, "negative"),
        (lambda: tf.nn.max_pool(ONES[0, 0], 2, 2, "VALID"), ValueError, "3, 4 or 5 axes"),
        (lambda: tf.nn.max_pool2d(ONES[0], 2, 2, "VALID"), InvalidArgumentError, "4 axes"),
        (
            lambda: tf.nn.max_pool(ONES, 2, 2, [[0, 0], [2, 0], [0, 0], [0, 0]]),
            InvalidArgumentError, "nothing but padding",
        ),
        (lambda: tf.nn.avg_pool(ONES, 2, 2, [[0, 0], [1, 0], [0, 0], [0, 0]]), ValueError, "gtape.pad"),
        (lambda: tf.nn.avg_pool(ONES, [1, 1, 1, 2], 2, "VALID"), UnimplementedError, "channels"),
        (lambda: tf.nn.avg_pool(ONES.astype(int), 2, 2, "VALID"), InvalidArgumentError, "gtape.cast"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()

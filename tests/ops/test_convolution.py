"""Convolutions: the textbook sum in every form, its transposes, and derivatives of every order."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.errors import InvalidArgumentError, UnimplementedError
from gtape.kernels import convolution as convolution_kernels
from gtape.verify import check

RNG = np.random.default_rng(7)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def textbook(x: Any, w: Any, strides: Any, dilations: Any, padding: Any) -> Any:
    """The sum over taps and channels, one output element after the other; groups as the filter has them."""
    n, size, c = x.shape[0], x.shape[1:-1], x.shape[-1]
    taps, seen, made = w.shape[:-2], w.shape[-2], w.shape[-1]
    if padding == "SAME":
        padding = []
        for d, k, s, r in zip(size, taps, strides, dilations, strict=True):
            total = max((math.ceil(d / s) - 1) * s + (k - 1) * r + 1 - d, 0)
            padding.append((total // 2, total - total // 2))
    elif padding == "VALID":
        padding = [(0, 0)] * len(size)
    framed = np.pad(x, [(0, 0), *padding, (0, 0)])
    places = [
        (d - (k - 1) * r - 1) // s + 1
        for d, k, s, r in zip(framed.shape[1:-1], taps, strides, dilations, strict=True)
    ]  # fmt: skip
    y = np.zeros((n, *places, made))
    for at in itertools.product(*map(range, places)):
        for tap in itertools.product(*map(range, taps)):
            pixel = framed[
                (slice(None), *[s * o + r * k for o, k, s, r in zip(at, tap, strides, dilations, strict=True)])
            ]
            for f in range(made):
                group = f // (made // (c // seen))
                y[(slice(None), *at, f)] += pixel[:, group * seen : (group + 1) * seen] @ w[(*tap, slice(None), f)]
    return y


# ---------------------------------------------------------------------------------------------- values


@st.composite
def convolutions(draw_: Any) -> dict[str, Any]:
    n = draw_(st.integers(1, 3))
    several = st.lists(st.integers(1, 3), min_size=n, max_size=n)
    taps, strides, dilations = draw_(several), draw_(several), draw_(several)
    groups, seen, each = draw_(st.integers(1, 3)), draw_(st.integers(1, 2)), draw_(st.integers(1, 2))
    padding = draw_(st.sampled_from(["SAME", "VALID", "explicit"]))
    if padding == "explicit":
        padding = draw_(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=n, max_size=n))
    least = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    size = [m + draw_(st.integers(0, 4)) for m in least]
    return {
        "shape": (draw_(st.integers(0, 2)), *size, groups * seen),
        "window": (*taps, seen, groups * each),
        "strides": strides,
        "dilations": dilations,
        "padding": padding,
        "first": draw_(st.booleans()),
    }


@settings(max_examples=2 * settings.default.max_examples)
@given(convolutions(), st.integers(0, 2**31))
def test_every_form_of_convolution_is_the_textbook_sum(form: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal(form["shape"]), rng.standard_normal(form["window"])
    n = x.ndim - 2
    expected = textbook(x, w, form["strides"], form["dilations"], form["padding"])
    padding, first = form["padding"], form["first"]
    if not isinstance(padding, str):
        padding = [(0, 0), (0, 0), *padding] if first else [(0, 0), *padding, (0, 0)]
    letters = "DHW"[3 - n :]
    y = tf.nn.convolution(
        np.moveaxis(x, -1, 1) if first else x,
        w,
        strides=form["strides"],
        padding=padding,
        data_format=f"NC{letters}" if first else f"N{letters}C",
        dilations=form["dilations"],
    ).numpy()
    np.testing.assert_allclose(np.moveaxis(y, 1, -1) if first else y, expected, rtol=1e-12, atol=1e-12)


def test_same_padding_gives_as_many_places_as_steps_and_puts_the_odd_zero_behind() -> None:
    x = np.arange(1.0, 6.0).reshape(1, 5, 1)
    w = np.array([1.0, 10.0]).reshape(2, 1, 1)
    assert tf.nn.conv1d(x, w, 1, "SAME").numpy().ravel().tolist() == [21.0, 32.0, 43.0, 54.0, 5.0]
    assert tf.nn.conv1d(x, w, 2, "SAME").numpy().ravel().tolist() == [21.0, 43.0, 5.0]


def test_strides_and_dilations_may_be_one_number_or_one_for_each_axis_or_for_all() -> None:
    x, w = draw(1, 7, 7, 1), draw(2, 2, 1, 1)
    y = tf.nn.conv2d(x, w, 2, "VALID", dilations=3).numpy()
    for strides, dilations in (([2], [3]), ([2, 2], (3, 3)), ([1, 2, 2, 1], tf.constant([1, 3, 3, 1]))):
        assert np.array_equal(tf.nn.conv2d(x, w, strides, "VALID", dilations=dilations), y)
    z = tf.nn.conv2d(x.transpose(0, 3, 1, 2), w, [1, 1, 2, 2], "VALID", data_format="NCHW", dilations=[1, 1, 3, 3])
    assert np.array_equal(z.numpy().transpose(0, 2, 3, 1), y)


def test_a_dilated_filter_is_one_with_zeros_between_its_taps() -> None:
    x, w = draw(1, 6, 6, 2), draw(2, 2, 2, 3)
    holes = np.zeros((3, 3, 2, 3))
    holes[::2, ::2] = w
    for padding in ("SAME", "VALID"):
        y = tf.nn.atrous_conv2d(x, w, 2, padding)
        np.testing.assert_allclose(y, tf.nn.conv2d(x, holes, 1, padding), rtol=1e-13, atol=1e-13)


def test_a_depthwise_convolution_keeps_channels_apart_and_their_outputs_side_by_side() -> None:
    x, w = draw(2, 5, 5, 3), draw(2, 3, 3, 2)
    y = tf.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME").numpy()
    for c in range(3):
        alone = tf.nn.conv2d(x[..., c : c + 1], w[:, :, c : c + 1], 2, "SAME")
        np.testing.assert_allclose(y[..., 2 * c : 2 * c + 2], alone, rtol=1e-13, atol=1e-13)
    z = tf.nn.depthwise_conv2d(x.transpose(0, 3, 1, 2), w, [1, 1, 2, 2], "SAME", data_format="NCHW")
    np.testing.assert_allclose(z.numpy().transpose(0, 2, 3, 1), y, rtol=1e-13, atol=1e-13)


def test_a_separable_convolution_is_a_depthwise_one_and_a_mixture_of_channels() -> None:
    x, w, p = draw(1, 4, 4, 2), draw(2, 2, 2, 3), draw(1, 1, 6, 4)
    deep = tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME").numpy()
    np.testing.assert_allclose(tf.nn.separable_conv2d(x, w, p, [1, 1, 1, 1], "SAME"), deep @ p[0, 0], rtol=1e-13)


def test_more_batch_axes_may_lead() -> None:
    x, w = draw(2, 3, 4, 4, 1), draw(2, 2, 1, 2)
    y = tf.nn.conv2d(x, w, 1, "VALID").numpy()
    assert y.shape == (2, 3, 3, 3, 2)
    assert np.array_equal(y[1], tf.nn.conv2d(x[1], w, 1, "VALID"))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolutions_are_the_transposes(n: int, padding: str) -> None:
    x, w = draw(2, *(4, 5, 3)[:n], 2), draw(*(2, 3, 2)[:n], 2, 3)
    y = tf.nn.convolution(x, w, 2, padding)
    g = draw(*y.shape)
    named = {1: tf.nn.conv1d_transpose, 2: tf.nn.conv2d_transpose, 3: tf.nn.conv3d_transpose}[n]
    for transposed in (named, tf.nn.conv_transpose):
        back = transposed(g, w, x.shape, 2, padding)
        assert back.shape == x.shape
        np.testing.assert_allclose(np.sum(y.numpy() * g), np.sum(x * back.numpy()), rtol=1e-12)
    letters = "DHW"[3 - n :]
    first = named(np.moveaxis(g, -1, 1), w, (2, 2, *x.shape[1:-1]), 2, padding, data_format=f"NC{letters}")
    np.testing.assert_allclose(np.moveaxis(first.numpy(), 1, -1), back, rtol=1e-13, atol=1e-13)


def test_a_transposed_convolution_is_the_gradient_of_the_convolution() -> None:
    x, w, g = tf.constant(draw(1, 6, 6, 1)), draw(3, 3, 1, 2), draw(1, 4, 4, 2)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.atrous_conv2d(x, w, 1, "VALID")
    back = tf.nn.atrous_conv2d_transpose(g, w, [1, 6, 6, 1], 1, "VALID")
    assert np.array_equal(tape.gradient(y, x, output_gradients=g), back)


@pytest.mark.parametrize("size", [1, 300, 2000])
def test_images_may_be_taken_in_parts_of_any_size(size: int, monkeypatch: Any) -> None:
    x, w = draw(3, 9, 7, 2), draw(3, 2, 2, 4)
    whole = textbook(x, w, (2, 1), (1, 2), "SAME")
    monkeypatch.setattr(convolution_kernels, "_BLOCK", size)
    tensors = tf.constant(x), tf.constant(w)
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        y = tf.nn.conv2d(*tensors, [2, 1], "SAME", dilations=[1, 2])
    np.testing.assert_allclose(y, whole, rtol=1e-12, atol=1e-13)
    # y is linear in the filter, so its derivative along the filter is y itself.
    np.testing.assert_allclose(np.sum(tape.gradient(y, tensors[1]).numpy() * w), np.sum(whole), rtol=1e-11)


def test_half_precision_is_summed_in_single() -> None:
    x, w = np.full((1, 4096, 1), 1.0, np.float16), np.full((4096, 1, 1), 1.0, np.float16)
    y = tf.nn.conv1d(x, w, 1, "VALID")
    assert y.dtype == tf.float16 and float(y.numpy().item()) == 4096.0


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
def test_values_and_gradients_keep_the_dtype(dtype: Any) -> None:
    x, w = (tf.cast(draw(*s), dtype) for s in ((1, 4, 4, 2), (2, 2, 2, 2)))
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        y = tf.nn.conv2d(x, w, 1, "SAME")
    assert y.dtype == dtype and all(g.dtype == dtype for g in tape.gradient(y, [x, w]))


# ---------------------------------------------------------------------------------------------- derivatives

NETS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "strided": (lambda x, w: tf.nn.conv2d(x, w, [1, 2, 1, 1], "SAME"), ((2, 4, 3, 2), (3, 2, 2, 2))),
    "dilated": (lambda x, w: tf.nn.conv1d(x, w, 1, "VALID", dilations=2), ((2, 6, 1), (2, 1, 2))),
    "channels first": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME", data_format="NCHW"), ((1, 2, 3, 3), (2, 2, 2, 1))),
    "padded": (
        lambda x, w: tf.nn.conv2d(x, w, 1, [[0, 0], [3, 0], [0, 1], [0, 0]]), ((1, 3, 3, 1), (2, 2, 1, 2)),
    ),
    "grouped": (lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"), ((1, 3, 3, 4), (2, 2, 2, 4))),
    "depthwise": (lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"), ((1, 3, 3, 2), (2, 2, 2, 2))),
    "transposed": (lambda x, w: tf.nn.conv2d_transpose(x, w, [1, 4, 4, 2], 2), ((1, 2, 2, 1), (3, 3, 2, 1))),
    "volumes": (lambda x, w: tf.nn.conv3d(x, w, 1, "VALID"), ((1, 2, 3, 2, 1), (2, 2, 1, 1, 2))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("net", NETS)
def test_first_and_second_derivatives_are_exact(net: str, dtype: str) -> None:
    f, shapes = NETS[net]
    args = [tf.constant(draw(*s).astype(dtype)) for s in shapes]
    report = check(lambda x, w: tf.tanh(f(x, w)), *args, order=2)
    assert report.ok, report.summary()


@pytest.mark.parametrize("net", NETS)
def test_forward_mode_is_the_transpose_of_reverse_mode(net: str) -> None:
    f, shapes = NETS[net]
    x, w = (tf.constant(draw(*s)) for s in shapes)
    tx, tw = (tf.constant(draw(*s)) for s in shapes)
    with tf.autodiff.ForwardAccumulator([x, w], [tx, tw]) as acc, tf.GradientTape() as tape:
        tape.watch([x, w])
        y = f(x, w)
    pushed = acc.jvp(y)
    g = tf.constant(draw(*y.shape))
    gx, gw = tape.gradient(y, [x, w], output_gradients=g)
    there = np.sum(pushed.numpy() * g.numpy())
    np.testing.assert_allclose(there, np.sum(gx.numpy() * tx.numpy()) + np.sum(gw.numpy() * tw.numpy()), rtol=1e-11)


@pytest.mark.parametrize("net", NETS)
def test_jacobians_are_the_gradients_of_all_elements_and_are_differentiable(net: str) -> None:
    f, shapes = NETS[net]
    x, w = (tf.constant(draw(*s)) for s in shapes)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch([x, w])
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, w])
            y = f(x, w)
        jacobians = [tape.jacobian(y, s) for s in (x, w)]
    for k, s in enumerate((x, w)):
        rows = [
            tape.gradient(y, s, output_gradients=tf.reshape(tf.one_hot(i, y.numpy().size, dtype=tf.float64), y.shape))
            for i in range(0, y.numpy().size, 5)
        ]
        flat = jacobians[k].numpy().reshape(-1, *s.shape)
        np.testing.assert_allclose(flat[::5], np.array(rows), rtol=1e-13, atol=1e-13)
    # y is bilinear, so that dy/dx is linear in w: along w itself it grows by itself.
    again = outer.jacobian(jacobians[0], w)
    along = np.tensordot(again.numpy(), w.numpy(), axes=w.numpy().ndim)
    np.testing.assert_allclose(along, jacobians[0].numpy(), rtol=1e-12, atol=1e-12)
    assert outer.gradient(jacobians[0], x) is None


def test_the_gradient_of_a_small_network_is_verified_as_it_is_taken() -> None:
    x = tf.constant(draw(2, 8, 8, 1).astype(np.float32))
    w1, w2 = (tf.Variable(0.3 * draw(*s).astype(np.float32)) for s in ((3, 3, 1, 3), (3, 3, 3, 2)))
    with tf.GradientTape(verify=True) as tape:
        hidden = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, w1, 1, "SAME")), 2, 2, "VALID")
        out = tf.nn.avg_pool2d(tf.nn.conv2d(hidden, w2, 1, "VALID"), 2, 2, "VALID")
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits([[1.0, 0.0], [0.0, 1.0]], out[:, 0, 0]))
    assert all(g is not None for g in tape.gradient(loss, [w1, w2]))


@pytest.mark.parametrize("shape", [(0, 4, 4, 1), (2, 1, 4, 1)])
def test_an_output_without_elements_has_zero_gradients(shape: Any) -> None:
    x, w = tf.constant(draw(*shape)), tf.constant(draw(2, 2, 1, 3))
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        y = tf.nn.conv2d(x, w, 1, "VALID")
    assert y.numpy().size == 0
    assert not any(g.numpy().any() for g in tape.gradient(y, [x, w]))


# ---------------------------------------------------------------------------------------------- errors

ONES = np.ones((1, 4, 4, 2))
FILTER = np.ones((2, 2, 2, 1))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tf.nn.conv2d(ONES, FILTER, 1, "same"), InvalidArgumentError, "'VALID', 'SAME'"),
        (lambda: tf.nn.conv2d(ONES, FILTER, 1, "EXPLICIT"), ValueError, "list of 4 pairs"),
        (lambda: tf.nn.conv2d(ONES, FILTER, 1, [[1, 1], [1, 1]]), ValueError, "list of 4 pairs"),
        (lambda: tf.nn.conv2d(ONES, FILTER, 1, [[1, 0], [0, 0], [0, 0], [0, 0]]), InvalidArgumentError, "batch"),
        (lambda: tf.nn.conv2d(ONES, FILTER, 1, "SAME", data_format="NWHC"), InvalidArgumentError, "'NHWC' or 'NCHW'"),
        (lambda: tf.nn.conv1d(ONES[0], FILTER[0], 1, "SAME", data_format="N"), ValueError, "'NWC' or 'NCW'"),
        (lambda: tf.nn.conv2d(ONES, FILTER, [1, 2, 1], "SAME"), ValueError, "length 1, 2 or 4"),
        (lambda: tf.nn.conv2d(ONES, FILTER, [2, 1, 1, 1], "SAME"), UnimplementedError, "batch"),
        (lambda: tf.nn.conv2d(ONES, FILTER, 0, "SAME"), InvalidArgumentError, "positive"),
        (lambda: tf.nn.conv2d(ONES, FILTER[:, :, :1][:, :, [0] * 3], 1, "SAME"), InvalidArgumentError, "2 channels"),
        (lambda: tf.nn.conv2d(ONES[0], FILTER, 1, "SAME"), InvalidArgumentError, "4 axes"),
        (lambda: tf.nn.conv2d(ONES, FILTER[0], 1, "SAME"), InvalidArgumentError, "filter must have 4 axes"),
        (lambda: tf.nn.conv2d(ONES[:, :1], np.ones((3, 3, 2, 1)), 1, "VALID"), InvalidArgumentError, "negative"),
        (lambda: tf.nn.conv2d(tf.constant(ONES), tf.ones([2, 2, 2, 1]), 1, "SAME"), InvalidArgumentError, "cast"),
        (lambda: tf.nn.depthwise_conv2d(ONES, FILTER[:, :, :1], [1] * 4, "SAME"), InvalidArgumentError, "depth"),
        (
            lambda: tf.nn.separable_conv2d(ONES, FILTER, np.ones((2, 1, 2, 1)), [1] * 4, "SAME"),
            InvalidArgumentError, "pointwise",
        ),
        (lambda: tf.nn.conv2d_transpose(ONES, FILTER, [1, 8, 8, 2], 2), InvalidArgumentError, "does not fit"),
        (
            lambda: tf.nn.conv2d_transpose(ONES, np.ones((2, 2, 1, 2)), [1, 9, 8, 1], 2),
            InvalidArgumentError, r"\[5, 4\] places",
        ),
        (lambda: tf.nn.conv2d_transpose(ONES, FILTER, [8], 2), InvalidArgumentError, "4 entries"),
        (lambda: tf.nn.conv_transpose(ONES, FILTER, [8, 8], 2), ValueError, "3 entries"),
        (lambda: tf.nn.convolution(ONES[0, 0], FILTER[0, 0]), ValueError, "3 axes"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_a_transposed_convolution_takes_the_sizes_of_space_alone(data_format: str) -> None:
    first = data_format == "NCHW"
    x, kernel = tf.random.normal([1, 3, 5, 6] if first else [1, 5, 6, 3]), tf.random.normal([3, 3, 2, 3])
    whole = [1, 2, 10, 12] if first else [1, 10, 12, 2]
    found, wanted = (tf.nn.conv2d_transpose(x, kernel, s, [2, 2], "SAME", data_format) for s in ([10, 12], whole))
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())

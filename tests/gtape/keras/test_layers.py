"""Layers: what they compute, what they hold and in which order, and how the training flag and dtypes travel."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check

keras = tf.keras
layers = keras.layers
rng = np.random.default_rng(0)
IMAGES = rng.normal(size=(2, 5, 6, 3)).astype(np.float32)
ROWS = rng.normal(size=(4, 3)).astype(np.float32)
SERIES = rng.normal(size=(2, 7, 3)).astype(np.float32)


def made(layer: Any, x: Any, **options: Any) -> Any:
    """A layer after its first call, with weights that are not symmetric."""
    layer(x, **options)
    draw = np.random.default_rng(1)
    layer.set_weights([draw.uniform(0.5, 1.5, w.shape) for w in layer.weights])
    return layer


# ------------------------------------------------------------------------------------------------ what they compute


def test_dense_is_a_product_with_a_bias() -> None:
    layer = made(layers.Dense(2, activation="tanh"), ROWS)
    kernel, bias = layer.get_weights()
    np.testing.assert_allclose(layer(ROWS).numpy(), np.tanh(ROWS @ kernel + bias), rtol=1e-6)
    np.testing.assert_allclose(layer(SERIES).numpy(), np.tanh(SERIES @ kernel + bias), rtol=1e-6)
    assert len(layers.Dense(2, use_bias=False)(ROWS).shape) == 2


def windows(x: Any, size: int, stride: int) -> Any:
    """[batch, rows, columns, size, size, channels]"""
    every = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
    return np.moveaxis(every, 3, -1)[:, ::stride, ::stride]


@pytest.mark.parametrize("stride", [1, 2])
def test_conv2d_sums_over_windows(stride: int) -> None:
    layer = made(layers.Conv2D(4, 3, strides=stride), IMAGES)
    kernel, bias = layer.get_weights()
    wanted = np.einsum("bijklc,klcf->bijf", windows(IMAGES, 3, stride), kernel) + bias
    np.testing.assert_allclose(layer(IMAGES).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_conv2d_transpose_is_the_gradient_of_conv2d() -> None:
    for padding in ("same", "valid"):
        forward = layers.Conv2D(4, 3, strides=2, padding=padding, use_bias=False)
        back = layers.Conv2DTranspose(3, 3, strides=2, padding=padding, use_bias=False, output_padding=0)
        x = tf.constant(IMAGES[:, :5, :5])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = forward(x)
        seed = tf.constant(np.random.default_rng(2).normal(size=y.shape).astype(np.float32))
        back.build(y.shape)
        back.kernel.assign(forward.kernel)
        wanted = tape.gradient(y, x, output_gradients=seed)
        np.testing.assert_allclose(back(seed).numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_pooling_keeps_the_greatest_or_the_mean_of_each_window() -> None:
    view = windows(IMAGES, 2, 2)
    np.testing.assert_array_equal(layers.MaxPooling2D()(IMAGES).numpy(), view.max(axis=(3, 4)))
    np.testing.assert_allclose(layers.AveragePooling2D(2)(IMAGES).numpy(), view.mean(axis=(3, 4)), rtol=1e-5, atol=1e-7)
    assert layers.MaxPool2D(2, padding="same")(IMAGES).shape == (2, 3, 3, 3)
    assert layers.MaxPooling1D()(SERIES).shape == (2, 3, 3)
    np.testing.assert_allclose(layers.GlobalAveragePooling2D()(IMAGES).numpy(), IMAGES.mean(axis=(1, 2)), rtol=1e-5)
    np.testing.assert_array_equal(layers.GlobalMaxPooling1D()(SERIES).numpy(), SERIES.max(axis=1))


def test_batch_normalization_in_training_uses_the_batch_and_remembers_it() -> None:
    layer = made(layers.BatchNormalization(momentum=0.75), IMAGES)
    gamma, beta, mean, variance = layer.get_weights()
    now = IMAGES.mean(axis=(0, 1, 2)), IMAGES.var(axis=(0, 1, 2))
    wanted = (IMAGES - now[0]) / np.sqrt(now[1] + 1e-3) * gamma + beta
    np.testing.assert_allclose(layer(IMAGES, training=True).numpy(), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.75 * mean + 0.25 * now[0], rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance.numpy(), 0.75 * variance + 0.25 * now[1], rtol=1e-5)
    _, _, mean, variance = layer.get_weights()
    wanted = (IMAGES - mean) / np.sqrt(variance + 1e-3) * gamma + beta
    np.testing.assert_allclose(layer(IMAGES).numpy(), wanted, rtol=1e-4, atol=1e-5)
    layer.trainable = False
    np.testing.assert_allclose(layer(IMAGES, training=True).numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert [v.name.split("/")[-1] for v in layer.variables] == [
        "gamma:0",
        "beta:0",
        "moving_mean:0",
        "moving_variance:0",
    ]
    layer.trainable = True
    assert len(layer.trainable_variables) == len(layer.non_trainable_variables) == 2


def test_batch_normalization_over_another_axis() -> None:
    got = layers.BatchNormalization(axis=1, epsilon=0.0)(IMAGES, training=True).numpy()
    np.testing.assert_allclose(got.mean(axis=(0, 2, 3)), 0.0, atol=1e-6)
    np.testing.assert_allclose(got.var(axis=(0, 2, 3)), 1.0, rtol=1e-4)


@pytest.mark.parametrize("axis", [-1, 1, [1, 2, 3]])
def test_layer_normalization_gives_each_sample_mean_0_and_variance_1(axis: Any) -> None:
    layer = layers.LayerNormalization(axis=axis, epsilon=0.0)
    got = layer(IMAGES).numpy()
    axes = tuple(np.atleast_1d(axis))
    np.testing.assert_allclose(got.mean(axis=axes), 0.0, atol=1e-5)
    np.testing.assert_allclose(got.var(axis=axes), 1.0, rtol=1e-3)
    made(layer, IMAGES)
    gamma, beta = layer.get_weights()
    shape = [d if i in [a % 4 for a in axes] else 1 for i, d in enumerate(IMAGES.shape)]
    np.testing.assert_allclose(layer(IMAGES).numpy(), got * gamma.reshape(shape) + beta.reshape(shape), rtol=1e-5)


def test_dropout_works_in_training_only_and_keeps_the_mean() -> None:
    x = np.ones((100, 100), np.float32)
    layer = layers.Dropout(0.25, seed=3)
    assert (layer(x).numpy() == 1).all()
    one, other = layer(x, training=True).numpy(), layer(x, training=True).numpy()
    assert set(np.unique(one)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert abs(one.mean() - 1) < 0.03
    assert (one != other).any()
    assert (layers.Dropout(0.25, seed=3)(x, training=True).numpy() == one).all()
    assert (layers.Dropout(1.0)(x, training=True).numpy() == 0).all()
    shared = layers.Dropout(0.5, noise_shape=(None, 1))(x, training=True).numpy()
    assert (shared == shared[:, :1]).all()


def test_noise_layers_work_in_training_only() -> None:
    x = np.ones((50, 50), np.float32)
    for layer in (layers.GaussianNoise(0.5, seed=1), layers.GaussianDropout(0.2, seed=1)):
        assert (layer(x).numpy() == 1).all()
        noisy = layer(x, training=True).numpy()
        assert abs(noisy.mean() - 1) < 0.05 and abs(noisy.std() - 0.5) < 0.05


def test_a_copy_of_a_noisy_layer_draws_what_the_layer_draws_next() -> None:
    x = np.ones((50, 50), np.float32)
    layer = layers.Dropout(0.25, seed=3)
    layer(x, training=True)
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
    for _ in range(2):
        expected = layer(x, training=True).numpy()
        assert all((c(x, training=True).numpy() == expected).all() for c in copies)


def test_an_embedding_has_a_sparse_gradient() -> None:
    layer = layers.Embedding(5, 2)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(layer([[1, 2], [2, 2]]) * 3.0)
    gradient = tape.gradient(y, layer.embeddings)
    assert isinstance(gradient, tf.IndexedSlices)
    assert tf.convert_to_tensor(gradient).numpy()[:, 0].tolist() == [0.0, 3.0, 9.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="mask_zero"):
        layers.Embedding(5, 2, mask_zero=True)


SHAPES: list[tuple[Any, Any, Any]] = [
    (lambda: layers.Flatten(), IMAGES, lambda x: x.reshape(2, -1)),
    (lambda: layers.Reshape((-1, 9)), IMAGES, lambda x: x.reshape(2, -1, 9)),
    (lambda: layers.Permute((3, 1, 2)), IMAGES, lambda x: x.transpose(0, 3, 1, 2)),
    (lambda: layers.RepeatVector(3), ROWS, lambda x: np.repeat(x[:, None], 3, axis=1)),
    (lambda: layers.Rescaling(2.0, 1.0), ROWS, lambda x: 2 * x + 1),
    (lambda: layers.UpSampling2D((2, 3)), IMAGES, lambda x: x.repeat(2, axis=1).repeat(3, axis=2)),
    (
        lambda: layers.ZeroPadding2D(((1, 2), (3, 0))),
        IMAGES,
        lambda x: np.pad(x, [(0, 0), (1, 2), (3, 0), (0, 0)]),
    ),
    (lambda: layers.ReLU(negative_slope=0.5), ROWS, lambda x: np.where(x > 0, x, x / 2)),
    (lambda: layers.ReLU(6.0), 10 * ROWS, lambda x: np.clip(x, 0, 6)),
    (lambda: layers.ReLU(1.0, 0.5, 0.25), ROWS, lambda x: np.minimum(np.where(x > 0.25, x, (x - 0.25) / 2), 1)),
    (lambda: layers.LeakyReLU(), ROWS, lambda x: np.where(x > 0, x, np.float32(0.3) * x)),
    (lambda: layers.LeakyReLU(alpha=0.1), ROWS, lambda x: np.where(x > 0, x, np.float32(0.1) * x)),
    (lambda: layers.ELU(0.5), ROWS, lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    (lambda: layers.PReLU("ones"), -ROWS, lambda x: x),
    (lambda: layers.Softmax(), ROWS, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    (lambda: layers.Activation("exponential"), ROWS, np.exp),
    (lambda: layers.Lambda(lambda x, k: x * k, arguments={"k": 2.0}), ROWS, lambda x: 2 * x),
    (lambda: layers.Identity(), ROWS, lambda x: x),
]


@pytest.mark.parametrize(("make", "x", "formula"), SHAPES, ids=lambda c: "")
def test_layers_without_weights_follow_their_formula(make: Any, x: Any, formula: Callable[[Any], Any]) -> None:
    got = make()(x)
    np.testing.assert_allclose(got.numpy(), formula(x), rtol=2e-6, atol=1e-6)
    assert got.dtype == tf.float32


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("add", lambda a, b: a + b),
        ("subtract", lambda a, b: a - b),
        ("multiply", lambda a, b: a * b),
        ("average", lambda a, b: (a + b) / 2),
        ("maximum", np.maximum),
        ("minimum", np.minimum),
        ("concatenate", lambda a, b: np.concatenate([a, b], axis=-1)),
    ],
)
def test_merging_layers(name: str, formula: Any) -> None:
    wanted = formula(ROWS, 1 - ROWS)
    np.testing.assert_allclose(getattr(layers, name.capitalize())()([ROWS, 1 - ROWS]).numpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose(getattr(layers, name)([ROWS, 1 - ROWS]).numpy(), wanted, rtol=1e-6)


CHECKED: list[tuple[str, Callable[[], Any], Any, dict[str, Any]]] = [
    ("dense", lambda: layers.Dense(2, "gelu", dtype="float64"), ROWS, {}),
    ("conv1d", lambda: layers.Conv1D(2, 3, padding="causal", dilation_rate=2, dtype="float64"), SERIES, {}),
    ("conv2d", lambda: layers.Conv2D(2, 3, 2, "same", activation="tanh", dtype="float64"), IMAGES[:1], {}),
    ("transpose", lambda: layers.Conv2DTranspose(2, 3, 2, "same", dtype="float64"), IMAGES[:1, :2, :2], {}),
    ("separable", lambda: layers.SeparableConv2D(2, 2, dtype="float64"), IMAGES[:1, :3, :3], {}),
    ("max pool", lambda: layers.MaxPooling2D(dtype="float64"), IMAGES[:1], {}),
    ("batch norm", lambda: layers.BatchNormalization(dtype="float64"), ROWS, {"training": True}),
    ("layer norm", lambda: layers.LayerNormalization(dtype="float64"), ROWS, {}),
]


@pytest.mark.parametrize(("make", "x", "options"), [c[1:] for c in CHECKED], ids=[c[0] for c in CHECKED])
def test_the_gradients_of_a_layer_pass_the_check(make: Callable[[], Any], x: Any, options: dict[str, Any]) -> None:
    layer = make()
    layer(x, **options)
    x = tf.Variable(x.astype(np.float64))
    with tf.GradientTape(verify="strict") as tape:
        y = layer(x, **options)
        loss = tf.reduce_sum(y * tf.constant(np.random.default_rng(5).normal(size=y.shape)))
    gradients = tape.gradient(loss, [x, *layer.trainable_variables])
    assert all(g is not None and np.isfinite(g.numpy()).all() for g in gradients)


def test_the_second_derivative_of_a_layer_passes_the_check() -> None:
    layer = made(layers.Dense(2, "softplus", dtype="float64"), ROWS)
    assert check(lambda x: tf.reduce_sum(layer(x) ** 2), ROWS[:1].astype(np.float64), order=2).ok


# ------------------------------------------------------------------------------------------------ what they hold


def test_variables_are_made_at_the_first_call_and_named_after_their_layer() -> None:
    layer = layers.Dense(2, name="scores")
    assert layer.variables == [] and not layer.built
    layer(ROWS)
    assert [v.name for v in layer.variables] == ["scores/kernel:0", "scores/bias:0"]
    assert [tuple(v.shape) for v in layer.weights] == [(3, 2), (2,)]
    assert layer.built and layer.count_params() == 8
    kernel = layer.kernel
    layer(ROWS)
    assert layer.kernel is kernel


def test_a_name_may_be_empty() -> None:
    class Block(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__(name="")
            self.dense = tf.keras.layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    block = Block()
    assert block.name == "" and block(tf.ones([1, 3])).shape == [1, 2] and len(block.variables) == 2


def test_layers_get_names_of_their_own() -> None:
    keras.backend.clear_session()
    names = [c().name for c in (layers.Flatten, layers.Flatten, layers.BatchNormalization, layers.MaxPooling2D)]
    assert names == ["flatten", "flatten_1", "batch_normalization", "max_pooling2d"]
    assert layers.Conv2DTranspose(1, 1).name == "conv2d_transpose"
    with pytest.raises(ValueError, match="without `/`"):
        layers.Flatten(name="a/b")


class Block(layers.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.zeta = layers.Dense(2)
        self.alpha = [layers.Dense(3), layers.Dense(4)]
        self.gain = tf.Variable(2.0, name="gain")
        self.offset = tf.Variable(1.0, name="offset", trainable=False)
        self.book = {"b": layers.Dense(5)}

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def call(self, x: Any) -> Any:
        for layer in (self.zeta, *self.alpha, self.book["b"]):
            x = layer(x)
        return x * self.gain * self.scale + self.offset


def test_own_variables_come_first_then_those_of_the_layers_in_the_order_of_the_attributes() -> None:
    block = Block()
    block(ROWS)
    shapes = [tuple(v.shape) for v in block.trainable_variables]
    assert shapes == [(), (), (3, 2), (2,), (2, 3), (3,), (3, 4), (4,), (4, 5), (5,)]
    assert [v.name.split("/")[-1] for v in block.variables[:3]] == ["gain:0", "scale:0", "offset:0"]
    assert [v.name for v in block.non_trainable_variables] == ["offset:0"]
    assert {id(v) for v in block.variables} == {id(v) for v in (*block.trainable_variables, block.offset)}


def test_freezing_a_layer_freezes_what_is_inside_and_gradients_still_flow_through() -> None:
    model = keras.Sequential([layers.Dense(3, activation="tanh"), layers.Dense(1)])
    model(ROWS)
    model.layers[1].trainable = False
    assert len(model.trainable_variables) == len(model.non_trainable_variables) == 2
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(ROWS))
    assert all(g is not None for g in tape.gradient(loss, model.variables))
    model.trainable = False
    assert model.trainable_variables == [] and not model.layers[0].trainable
    model.trainable = True
    assert len(model.trainable_variables) == 4


def test_a_shared_layer_counts_once() -> None:
    shared = layers.Dense(3)
    model = keras.Sequential([shared, layers.ReLU(), shared])
    model(ROWS)
    assert len(model.variables) == 2


def test_a_module_finds_the_variables_of_its_layers() -> None:
    class Outer(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = Block()

    outer = Outer()
    outer.layer(ROWS)
    assert len(outer.trainable_variables) == 10
    assert len(outer.submodules) == 5


def test_weights_can_be_read_and_set() -> None:
    one, other = layers.Dense(2), layers.Dense(2)
    one(ROWS), other(ROWS)
    other.set_weights(one.get_weights())
    assert (one(ROWS).numpy() == other(ROWS).numpy()).all()
    with pytest.raises(ValueError, match="weight list of length 1"):
        other.set_weights([np.zeros((3, 2))])
    with pytest.raises(ValueError, match="not compatible"):
        other.set_weights([np.zeros((2, 2)), np.zeros(2)])


def test_tapes_watch_layer_variables_by_themselves_and_by_hand() -> None:
    layer = layers.Dense(2)
    layer(ROWS)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(layer.trainable_variables[:1])
        y = tf.reduce_sum(layer(ROWS))
    kernel, bias = tape.gradient(y, layer.trainable_variables)
    assert kernel is not None and bias is None
    assert keras.Variable is tf.Variable


# ---------------------------------------------------------------------------------- flags, dtypes, penalties


class Remembers(layers.Layer):  # type: ignore[misc]
    def call(self, x: Any, training: Any = None) -> Any:
        self.seen = training
        return x


class Outside(layers.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.inside = Remembers()

    def call(self, x: Any) -> Any:
        return self.inside(x)


@pytest.mark.parametrize("flag", [True, False])
def test_the_training_flag_reaches_layers_inside(flag: bool) -> None:
    outside = Outside()
    outside(ROWS, training=flag)
    assert outside.inside.seen is flag
    outside(ROWS)
    assert outside.inside.seen is None
    alone = Remembers()
    alone(ROWS, flag)
    assert alone.seen is flag
    model = keras.Sequential([Remembers()])
    model(ROWS, training=flag)
    assert model.layers[0].seen is flag


def test_inputs_get_the_dtype_of_the_layer() -> None:
    assert layers.Dense(1)(ROWS.astype(np.float64)).dtype == tf.float32
    assert layers.Dense(1)(np.array([[1, 2]])).dtype == tf.float32
    assert layers.Dense(1)([[1.0, 2.0]]).shape == (1, 1)
    assert layers.Dense(1, dtype="float64")(ROWS).dtype == tf.float64
    keras.backend.set_floatx("float64")
    try:
        assert layers.Dense(1)(ROWS).dtype == tf.float64
    finally:
        keras.backend.set_floatx("float32")


def test_penalties_on_weights_and_outputs_are_losses() -> None:
    layer = made(layers.Dense(2, kernel_regularizer="l2", activity_regularizer=keras.regularizers.L1(0.5)), ROWS)
    y = layer(ROWS).numpy()
    wanted = [0.5 * np.abs(y).sum() / 4, 0.01 * (layer.kernel.numpy() ** 2).sum()]
    np.testing.assert_allclose([float(x) for x in layer.losses], wanted, rtol=1e-6)
    model = keras.Sequential([layer])
    for _ in range(2):
        with tf.GradientTape() as tape:
            model(ROWS)
            loss = tf.add_n(model.losses)
        assert len(model.losses) == 2
        assert tape.gradient(loss, layer.kernel) is not None
    layer.trainable = False
    assert len(model.losses) == 1


def test_constraints_hold_after_a_step() -> None:
    layer = layers.Dense(2, kernel_constraint=keras.constraints.NonNeg(), bias_constraint="non_neg")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.abs(ROWS)))
    keras.optimizers.SGD(10.0).apply_gradients(
        zip(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables, strict=True)
    )
    assert (layer.kernel.numpy() == 0).all() and (layer.bias.numpy() == 0).all()
    w = tf.constant(np.random.default_rng(0).normal(size=(5, 3)))
    np.testing.assert_allclose(np.linalg.norm(keras.constraints.UnitNorm()(w).numpy(), axis=0), 1.0, rtol=1e-6)
    assert (np.linalg.norm(keras.constraints.MaxNorm(0.5)(w).numpy(), axis=0) < 0.5 + 1e-6).all()


def test_a_layer_may_build_from_several_inputs() -> None:
    class Bilinear(layers.Layer):  # type: ignore[misc]
        def build(self, left_shape: Any, right_shape: Any) -> None:
            self.core = self.add_weight(shape=(left_shape[-1], right_shape[-1]), name="core")

        def call(self, left: Any, right: Any) -> Any:
            return tf.einsum("bi,ij,bj->b", left, self.core, right)

    layer = Bilinear()
    assert layer(ROWS, right=ROWS[:, :2]).shape == (4,)
    assert layer.core.shape == (3, 2)


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: layers.Dense(0), "positive integer"),
        (lambda: layers.Conv2D(0, 3), "positive integer"),
        (lambda: layers.Conv2D(1, (3, 3, 3)), "`kernel_size` argument"),
        (lambda: layers.Conv2D(1, 3, padding="causal"), "`padding` argument"),
        (lambda: layers.Conv2D(1, 3)(ROWS), "expected ndim=4, found ndim=2"),
        (lambda: layers.MaxPooling2D(padding="most"), "`padding` argument"),
        (lambda: layers.Dropout(1.5), "`rate`"),
        (lambda: layers.GaussianDropout(1.0), "`rate`"),
        (lambda: layers.Activation("fast"), "Could not interpret activation function"),
        (lambda: layers.Dense(1, kernel_initializer="fast")(ROWS), "Could not interpret initializer"),
        (lambda: layers.BatchNormalization(axis=7)(ROWS), "`axis`"),
        (lambda: layers.Subtract()([ROWS]), "exactly 2 inputs"),
        (lambda: layers.Permute((0, 1)), "axes count from 1"),
    ],
)
def test_misuse_is_told(wrong: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        wrong()


def test_another_size_than_at_the_first_call_is_refused() -> None:
    layer = layers.Dense(2)
    layer(ROWS)
    with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 3"):
        layer(ROWS[:, :2])


def test_forgotten_parts_of_a_layer_are_told() -> None:
    class Forgot(layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            self.size = 1

    with pytest.raises(RuntimeError, match="you forgot to call `super"):
        Forgot()(ROWS)
    with pytest.raises(NotImplementedError, match="does not have a `call"):
        layers.Layer()(ROWS)
    with pytest.raises(TypeError, match="Unrecognized keyword arguments"):
        layers.Dense(1, speed=3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.Dense(2, kernel_initializer="nonsense"),
        lambda: layers.Conv2D(2, 3, bias_regularizer="nonsense"),
        lambda: layers.Embedding(2, 3, embeddings_constraint="nonsense"),
        lambda: layers.BatchNormalization(gamma_initializer="nonsense"),
        lambda: tf.keras.Sequential([layers.Dense(1, name="same"), layers.Dense(1, name="same")]),
        lambda: layers.Reshape((3, 3))(tf.ones([2, 8])),
        lambda: layers.Reshape((3, -1))(tf.ones([2, 8])),
        lambda: layers.Conv2D(3, 2, groups=2),
        lambda: layers.UpSampling2D(2, interpolation="bicubic"),
    ],
)
def test_what_cannot_work_is_a_value_error_at_once(make: Any) -> None:
    with pytest.raises(ValueError, match=r"nonsense|unique names|total size|evenly divisible|`interpolation`"):
        make()


def test_a_config_names_every_setting() -> None:
    config = layers.Conv2D(2, 3, activation="relu").get_config()
    assert {"filters", "kernel_size", "strides", "padding", "groups", "activity_regularizer", "name"} <= set(config)
    again = layers.Conv2D.from_config(config)
    assert again.get_config() == config and again.strides == (1, 1)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_grouped_convolutions_work_on_each_group_alone(rank: int) -> None:
    kind = {1: layers.Conv1D, 2: layers.Conv2D, 3: layers.Conv3D}[rank]
    x = np.random.default_rng(0).normal(size=(2, *[4] * rank, 4)).astype(np.float32)
    grouped, first = kind(6, 2, groups=2), kind(3, 2)
    whole = grouped(x)
    first.build((None, *[4] * rank, 2))
    kernel, bias = grouped.get_weights()
    first.set_weights([kernel[..., :3], bias[:3]])
    np.testing.assert_allclose(whole[..., :3].numpy(), first(x[..., :2]).numpy(), rtol=1e-4, atol=1e-5)


def test_a_frozen_layer_has_no_trainable_variables_whatever_is_inside() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    model.trainable = False
    model.layers[1].trainable = True
    assert model.trainable_variables == [] and len(model.non_trainable_variables) == 4
    model.trainable = True
    assert len(model.trainable_variables) == 4


def test_layers_in_a_dict_come_in_its_own_order() -> None:
    class Blocks(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = {"b": keras.layers.Dense(3), "a": [keras.layers.Dense(2)]}

        def call(self, x: Any) -> Any:
            return self.blocks["a"][0](self.blocks["b"](x))

    layer = Blocks()
    layer(tf.ones([1, 4]))
    assert [tuple(v.shape) for v in layer.variables] == [(4, 3), (3,), (3, 2), (2,)]


def test_batch_normalization_takes_its_moments_from_the_steps_of_a_mask() -> None:
    x = np.random.default_rng(4).normal(size=(3, 5, 2)).astype(np.float32)
    mask = np.arange(15).reshape(3, 5) % 4 > 0
    layer = layers.BatchNormalization(momentum=0.75)
    made = layer(x, training=True, mask=tf.constant(mask))
    mean, variance = x[mask].mean(axis=0), x[mask].var(axis=0)
    np.testing.assert_allclose(made.numpy(), (x - mean) / np.sqrt(variance + 1e-3), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.moving_mean.numpy(), mean / 4, rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance.numpy(), 0.75 + variance / 4, rtol=1e-5)
    with pytest.raises(ValueError, match="`mask` must have the axes of the inputs"):
        layer(x, training=True, mask=tf.constant([True]))


@pytest.mark.parametrize(
    ("layer", "shapes", "said"),
    [
        (layers.Add, [(2, 3), (2, 4)], "incompatible shapes"),
        (layers.Subtract, [(2, 3), (2, 4)], "incompatible shapes"),
        (layers.Maximum, [(2, 3), (3, 3)], "different batch sizes"),
        (layers.Add, [(2, 3), (3,)], "different batch sizes"),
        (layers.Concatenate, [(2, 3), (3, 4)], "matching shapes except for the concatenation axis"),
        (layers.Concatenate, [(2, 3), (2,)], "matching shapes except for the concatenation axis"),
    ],
)
def test_merge_layers_refuse_shapes_that_do_not_fit(layer: Any, shapes: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        layer()([tf.ones(shape) for shape in shapes])
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        layer()([keras.Input(batch_shape=shape) for shape in shapes])


def test_a_merge_adds_axes_behind_the_batch() -> None:
    x, y = tf.reshape(tf.range(24.0), [2, 4, 3]), tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(layers.Add()([x, y]).numpy(), x.numpy() + y.numpy()[:, None])
    assert layers.Add()([keras.Input((4, 3)), keras.Input((3,), batch_size=7)]).shape == (7, 4, 3)


def test_the_number_of_parameters_is_known_once_a_layer_is_built() -> None:
    for layer in (layers.Dense(2), layers.Layer(), keras.Sequential([layers.Dense(2)])):
        with pytest.raises(ValueError, match="isn't built"):
            layer.count_params()
    assert layers.Dropout(0.5).count_params() == 0


# The numbers of the next three tests are TensorFlow's.
def test_a_softmax_layer_takes_a_mask_and_several_axes() -> None:
    x, mask = tf.constant([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]), tf.constant([[True, False, True], [False] * 3])
    shares = layers.Softmax()(x, mask=mask)
    np.testing.assert_allclose(shares.numpy(), [[0.1192029, 0.0, 0.8807971], [0.0] * 3], rtol=1e-6)
    whole = layers.Softmax(axis=(0, 1))(x).numpy()
    np.testing.assert_allclose(whole[0], [0.04501528, 0.12236421, 0.3326204], rtol=1e-6)
    part = layers.Softmax(axis=(0, 1))(x, mask=tf.constant([[True, False, True], [True] * 3])).numpy()
    np.testing.assert_allclose(part, [[0.05129153, 0.0, 0.378996], [0.378996, 0.1394248, 0.05129153]], rtol=1e-6)


def test_a_layer_normalization_may_scale_by_the_variance_alone() -> None:
    layer = layers.LayerNormalization(rms_scaling=True)
    wanted = [[1.2238274, 2.4476547, 3.6714821], [3.2061045, 4.0076308, 5.610683]]
    np.testing.assert_allclose(layer([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]]).numpy(), wanted, rtol=1e-6)
    assert [v.name.split("/")[-1] for v in layer.weights] == ["gamma:0"]


def test_images_are_enlarged_by_interpolation() -> None:
    x = tf.reshape(tf.range(6.0), [1, 2, 3, 1])
    twice = layers.UpSampling2D(interpolation="bilinear")(x).numpy()[0, :, :, 0]
    assert twice[0].tolist() == [0.0, 0.25, 0.75, 1.25, 1.75, 2.0]
    assert twice[:, 1].tolist() == [0.25, 1.0, 2.5, 3.25]
    rows = layers.UpSampling2D((3, 1), interpolation="bilinear")(x).numpy()[0, :, 0, 0]
    np.testing.assert_allclose(rows, [0.0, 0.0, 1.0, 2.0, 3.0, 3.0], rtol=1e-6)
    first = layers.UpSampling2D(interpolation="bilinear", data_format="channels_first")(tf.reshape(x, [1, 1, 2, 3]))
    assert first.numpy()[0, 0].tolist() == twice.tolist()

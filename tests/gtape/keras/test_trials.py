"""Graphs of layers find the shapes of outputs by trials, which leave no trace: TensorFlow's shapes, and no change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf

keras = tf.keras
layers = keras.layers
ONES = np.ones((4, 3), np.float32)


class Average(layers.Layer):  # type: ignore[misc]
    """Follows the mean of its inputs, draws from two sources, and adds a loss."""

    def __init__(self, **common: Any) -> None:
        super().__init__(**common)
        self.mean = self.add_weight(shape=(), initializer="ones", trainable=False)
        self.metric = keras.metrics.Mean()
        self.generator = tf.random.Generator.from_seed(1)

    def call(self, x: Any) -> Any:
        self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(x))
        self.mean.assign_add(1.0)
        self.metric.update_state(x)
        self.add_loss(tf.reduce_sum(x))
        return x - self.mean + self.generator.normal([]) + tf.random.normal([])


def state_of(layer: Any) -> list[Any]:
    return [float(layer.mean), layer.generator.state.numpy().tolist(), layer.metric.result().numpy(), layer.losses]


def wrapped(x: Any, layer: Any) -> None:
    inner = keras.Model(x, layer(x))
    y = keras.Input((3,))
    keras.Model(y, inner(y))


@pytest.mark.parametrize(
    "use",
    [
        lambda layer: layer(keras.Input((3,))),
        lambda layer: layer(keras.Input((None,))),
        lambda layer: layer.compute_output_shape((None, 3)),
        lambda layer: keras.Sequential([keras.Input((3,)), layer]),
        lambda layer: keras.Sequential([layer, layers.Dense(2)]).build((None, 3)),
        lambda layer: wrapped(keras.Input((3,)), layer),
    ],
)
def test_building_a_graph_changes_no_state(use: Any) -> None:
    layer = Average()
    tf.random.set_seed(7)
    before = state_of(layer)
    use(layer)
    assert state_of(layer) == before
    drawn = float(tf.random.normal([]))
    tf.random.set_seed(7)
    assert drawn == float(tf.random.normal([]))


def test_asking_a_model_for_its_shape_changes_no_state() -> None:
    layer = Average()
    model = keras.Sequential([layer, layers.Dense(1)])
    model(ONES)
    before = state_of(layer)
    assert model.output_shape == (None, 1)
    assert state_of(layer) == before and len(before[-1]) == 1


def test_a_trial_leaves_running_means_and_losses_unchanged() -> None:
    layer, x = layers.BatchNormalization(), keras.Input((3,))
    keras.Model(x, layer(x, training=True))
    assert layer.moving_variance.numpy().tolist() == [1, 1, 1] and layer.moving_mean.numpy().tolist() == [0, 0, 0]
    model = keras.Model(x, layers.Dense(2, activity_regularizer="l2")(x))
    assert model.losses == []


def test_a_trial_leaves_the_draws_of_dropout_unchanged() -> None:
    one, other, x = layers.Dropout(0.5, seed=1), layers.Dropout(0.5, seed=1), keras.Input((50,))
    one(x, training=True)
    ones = tf.ones((1, 50))
    np.testing.assert_array_equal(one(ones, training=True).numpy(), other(ones, training=True).numpy())


def test_a_failed_trial_changes_no_state() -> None:
    class Fails(Average):
        def call(self, x: Any) -> Any:
            super().call(x)
            raise ValueError("never")

    layer = Fails()
    before = state_of(layer)
    with pytest.raises(ValueError, match="never"):
        layer(keras.Input((3,)))
    assert state_of(layer) == before


def test_a_trial_undoes_the_assignments_of_a_compiled_function() -> None:
    count = tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def counted(x: Any) -> Any:
        count.assign_add(1.0)
        return x + 1.0

    assert float(counted(tf.constant(1.0))) == 2.0 and float(count) == 1.0
    counted(tf.constant(1.0))
    layers.Lambda(counted)(keras.Input((3,)))
    assert float(count) == 2.0


def test_a_tape_around_a_graph_records_no_trial() -> None:
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        layers.Lambda(lambda x: x * v)(keras.Input((3,)))
    assert tape.watched_variables() == ()


def test_layers_made_in_a_trial_have_different_weights() -> None:
    class Block(layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = layers.Dense(3), layers.Dense(3)
            self.extra: Any = None

        def call(self, x: Any) -> Any:
            tf.random.normal([])
            if self.extra is None:
                self.extra = [tf.Variable(tf.random.normal([3])), tf.Variable(tf.random.normal([3]))]
            return self.other(self.one(x)) + self.extra[0] + self.extra[1]

    tf.random.set_seed(1)
    block = Block()
    block(keras.Input((3,)))
    tf.random.set_seed(1)
    values = [block.one.kernel.numpy(), block.other.kernel.numpy(), *[v.numpy() for v in block.extra]]
    assert len({v.tobytes() for v in values}) == 4


OPEN = keras.Input((None, 3))
IMAGE = keras.Input((None, None, 3))


# The shapes are TensorFlow's.
@pytest.mark.parametrize(
    ("layer", "x", "shape"),
    [
        (layers.Flatten(), OPEN, (None, None)),
        (layers.MaxPooling1D(3), OPEN, (None, None, 3)),
        (layers.AveragePooling1D(32), OPEN, (None, None, 3)),
        (layers.MaxPooling1D(100, padding="same"), OPEN, (None, None, 3)),
        (layers.MaxPooling2D(100, padding="same"), IMAGE, (None, None, None, 3)),
        (layers.Permute((2, 1)), OPEN, (None, 3, None)),
        (layers.Lambda(lambda t: t[:, 3]), OPEN, (None, 3)),
        (layers.Lambda(lambda t: t[:, :5]), OPEN, (None, None, 3)),
        (layers.Conv1D(4, 3), OPEN, (None, None, 4)),
        (layers.Conv1D(4, 200), OPEN, (None, None, 4)),
        (layers.Conv2D(4, 3), IMAGE, (None, None, None, 4)),
        (layers.Conv2D(4, 3, strides=2, padding="same"), IMAGE, (None, None, None, 4)),
        (layers.Conv2DTranspose(4, 3, strides=2), IMAGE, (None, None, None, 4)),
        (layers.Cropping2D(5), IMAGE, (None, None, None, 3)),
        (layers.GlobalMaxPooling2D(), IMAGE, (None, 3)),
        (layers.Dense(2), OPEN, (None, None, 2)),
        (layers.Lambda(lambda t: tf.reshape(t, [-1])), keras.Input((3,)), (None,)),
        (layers.Lambda(lambda t: tf.reduce_sum(t, 0, keepdims=True)), keras.Input((3,)), (1, 3)),
        (layers.Lambda(lambda t: t @ tf.ones((7, 2))), keras.Input((None,)), (None, 2)),
        (layers.Flatten(), keras.Input((2, 3), batch_size=5), (5, 6)),
    ],
)  # fmt: skip
def test_open_sizes_stay_open(layer: Any, x: Any, shape: Any) -> None:
    assert layer(x).shape == shape


def test_the_axis_of_the_batch_may_be_squeezed_or_reshaped() -> None:
    assert layers.Lambda(tf.squeeze)(keras.Input((3,))).shape == (None, 3)
    assert layers.Lambda(lambda t: tf.reshape(t, (-1, 8, 3)))(keras.Input((3,))).shape == (None, 8, 3)


def test_a_fully_convolutional_model_takes_images_of_all_sizes() -> None:
    x = keras.Input((None, None, 3))
    left = layers.Conv2D(4, 3, padding="same")(x)
    down = layers.Conv2D(8, 3, padding="same")(layers.MaxPooling2D(2)(left))
    model = keras.Model(x, layers.Conv2D(1, 1)(layers.Concatenate()([left, layers.UpSampling2D()(down)])))
    assert model.output_shape == (None, None, None, 1)
    for rows, columns in ((8, 10), (2, 4)):
        assert model(np.ones((2, rows, columns, 3), np.float32)).shape == (2, rows, columns, 1)


def test_weights_for_an_open_size_are_refused() -> None:
    class Inside(layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.dense(layers.Flatten()(x))

    with pytest.raises(ValueError, match="axis -1 of the inputs should have a known size"):
        layers.Dense(2)(layers.Flatten()(OPEN))
    with pytest.raises(ValueError, match=r"fit only one size of an axis whose size is None.*Give the `Input`"):
        Inside()(OPEN)
    assert Inside()(keras.Input((4, 3))).shape == (None, 2)


@pytest.mark.parametrize(
    ("function", "x", "shape"),
    [
        (tf.linalg.inv, (3, 3), (None, 3, 3)),
        (tf.linalg.cholesky, (3, 3), (None, 3, 3)),
        (lambda t: tf.debugging.check_numerics(1.0 / t, "x"), (3,), (None, 3)),
        (lambda t: tf.debugging.check_numerics(tf.math.log(-t), "x"), (3,), (None, 3)),
    ],
)
def test_a_layer_may_refuse_zeros(function: Any, x: Any, shape: Any) -> None:
    assert layers.Lambda(function)(keras.Input(x)).shape == shape


def test_an_error_of_all_trials_tells_that_gtape_ran_the_layer() -> None:
    def refuse(_: Any) -> Any:
        raise tf.errors.InvalidArgumentError("no such values")

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"no such values\n.gtape itself ran the layer 'picky'"):
        layers.Lambda(refuse, name="picky")(keras.Input((3,)))


def test_a_layer_whose_number_of_axes_depends_on_open_sizes_is_refused() -> None:
    with pytest.raises(ValueError, match="number of axes of the output depends on the sizes"):
        layers.Lambda(lambda t: t if t.shape[1] > 10 else t[0])(OPEN)

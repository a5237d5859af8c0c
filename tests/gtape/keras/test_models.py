"""Models: layers one after the other, graphs of layers, subclasses; what they hold and how training loops use them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import gtape as tf

keras = tf.keras
layers = keras.layers
ROWS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def ends(model: Any) -> list[str]:
    return [v.name.split("/")[-1] for v in model.variables]


def test_sequential_is_the_composition_of_its_layers() -> None:
    one, other = layers.Dense(5, activation="tanh"), layers.Dense(2)
    model = keras.Sequential([one, other])
    assert model.layers == [one, other] and not model.built
    np.testing.assert_array_equal(model(ROWS).numpy(), other(one(ROWS)).numpy())
    assert ends(model) == ["kernel:0", "bias:0"] * 2
    assert model.output_shape == (None, 2) and model.input_shape == (None, 3)


@pytest.mark.parametrize(
    "first",
    [
        lambda: [keras.Input(shape=(3,)), layers.Dense(5)],
        lambda: [keras.Input((3,), batch_size=4), layers.Dense(5)],
        lambda: [layers.InputLayer(shape=(3,)), layers.Dense(5)],
        lambda: [layers.Dense(5, input_shape=(3,))],
        lambda: [layers.Dense(5, input_dim=3)],
        lambda: [layers.Dense(5, batch_input_shape=(None, 3))],
    ],
)
def test_a_known_input_makes_the_variables_at_once(first: Any) -> None:
    model = keras.Sequential([*first(), layers.Dense(2)])
    assert model.built
    assert [tuple(v.shape) for v in model.variables] == [(3, 5), (5,), (5, 2), (2,)]
    assert model.output_shape[-1] == 2
    assert len(model.layers) == 2


def test_layers_can_be_added_taken_away_and_found() -> None:
    model = keras.Sequential(name="stack")
    model.add(keras.Input((3,)))
    model.add(layers.Dense(4, name="first"))
    model.add(layers.Dense(2, name="second"))
    assert model.get_layer("second").units == model.get_layer(index=1).units == 2
    assert model.pop().name == "second"
    assert model(ROWS).shape == (4, 4)
    with pytest.raises(ValueError, match=r"No such layer: second\. There are \['first'\]"):
        model.get_layer("second")
    with pytest.raises(ValueError, match=r"Only instances of `keras\.Layer`"):
        model.add(lambda x: x)


def test_build_makes_the_variables() -> None:
    model = keras.Sequential([layers.Conv2D(2, 3), layers.Flatten(), layers.Dense(1)])
    model.build((None, 5, 5, 1))
    assert [tuple(v.shape) for v in model.variables] == [(3, 3, 1, 2), (2,), (18, 1), (1,)]


def test_a_first_layer_may_want_integers() -> None:
    model = keras.Sequential([layers.Embedding(10, 4), layers.GlobalAveragePooling1D(), layers.Dense(1)])
    assert model(np.array([[1, 2, 3]])).shape == (1, 1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.constant([[1, 2, 3]])))
    gradients = tape.gradient(loss, model.trainable_variables)
    assert isinstance(gradients[0], tf.IndexedSlices)


def graph() -> Any:
    left, right = keras.Input((3,), name="left"), keras.Input((2,), name="right")
    hidden = layers.Dense(4, activation="relu", name="hidden")
    both = layers.Concatenate()([hidden(left), right])
    out = layers.Dense(1)(both * 2.0 + 1.0 - both)
    return keras.Model(inputs=[left, right], outputs={"value": out, "hidden": hidden(left)})


def test_a_graph_with_several_inputs_and_outputs() -> None:
    model = graph()
    x, y = ROWS, ROWS[:, :2]
    got = model([x, y])
    assert {k: tuple(v.shape) for k, v in got.items()} == {"value": (4, 1), "hidden": (4, 4)}
    assert (model({"left": x, "right": y})["value"].numpy() == got["value"].numpy()).all()
    hidden = model.get_layer("hidden")
    np.testing.assert_array_equal(got["hidden"].numpy(), hidden(x).numpy())
    both = np.concatenate([got["hidden"].numpy(), y], axis=1)
    kernel, bias = model.variables[-2:]
    np.testing.assert_allclose(got["value"].numpy(), (both * 2 + 1 - both) @ kernel.numpy() + bias.numpy(), rtol=1e-5)
    assert [tuple(v.shape) for v in model.trainable_variables] == [(3, 4), (4,), (6, 1), (1,)]
    with pytest.raises(ValueError, match="2 inputs, and was called with 1"):
        model([x])


def test_a_graph_is_a_layer_of_other_graphs_and_passes_the_training_flag_on() -> None:
    x = keras.Input((3,))
    inner = keras.Model(x, layers.Dropout(0.5, seed=0)(layers.Dense(50)(x)))
    z = keras.Input((3,))
    outer = keras.Model(z, inner(inner(layers.Dense(3)(z))[:, :3]))
    assert len(outer.trainable_variables) == 4
    plain = outer(ROWS).numpy()
    assert (outer(ROWS, training=True).numpy() == 0).mean() > 0.3
    assert (plain == outer(ROWS, training=False).numpy()).all()


def test_what_is_missing_in_a_graph_is_told() -> None:
    x, y = keras.Input((3,)), keras.Input((3,))
    with pytest.raises(ValueError, match="not among the model's inputs"):
        keras.Model(x, layers.Add()([x, y]))
    with pytest.raises(ValueError, match="needs both"):
        keras.Model(x)
    with pytest.raises(ValueError, match="come from"):
        keras.Model(x, 3)
    with pytest.raises(ValueError, match="KerasTensor is symbolic"):
        np.asarray(x)
    with pytest.raises(ValueError):
        tf.concat([x, y], axis=1)
    with pytest.raises(ValueError, match="pass either"):
        keras.Input()


class Classifier(keras.Model):  # type: ignore[misc]
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.hidden = layers.Dense(width, activation="relu")
        self.drop = layers.Dropout(0.5, seed=1)
        self.scores = layers.Dense(2)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.scores(self.drop(self.hidden(x), training=training))


def test_a_subclass_holds_its_layers_in_the_order_of_its_attributes() -> None:
    model = Classifier()
    assert model.trainable_variables == []
    y = model(ROWS)
    assert [tuple(v.shape) for v in model.trainable_variables] == [(3, 4), (4,), (4, 2), (2,)]
    assert (model.predict(ROWS) == y.numpy()).all()
    assert (model(ROWS, training=True).numpy() != y.numpy()).any()
    assert len(model.layers) == 3 and model.name.startswith("classifier")
    with pytest.raises(AttributeError, match="no graph of layers"):
        model.output_shape  # noqa: B018
    with pytest.raises(NotImplementedError, match="does not have a `call"):
        keras.Model()(ROWS)


def test_an_unknown_attribute_of_a_model_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'speed'"):
        Classifier().speed  # noqa: B018


def test_models_can_be_cloned_and_copied() -> None:
    for model in (keras.Sequential([keras.Input((3,)), layers.Dense(2, "tanh"), layers.Dense(1)]), None):
        x: Any = ROWS
        if model is None:
            a = keras.Input((3,))
            model = keras.Model(a, layers.Add()([a, layers.Dense(3)(a)]))
        clone = keras.models.clone_model(model)
        assert all(v is not w for v, w in zip(clone.variables, model.variables, strict=True))
        clone.set_weights(model.get_weights())
        assert (clone(x).numpy() == model(x).numpy()).all()
        again = copy.deepcopy(model)
        again.variables[0].assign_add(tf.ones_like(again.variables[0]))
        assert (again(x).numpy() != model(x).numpy()).any()
        assert (clone(x).numpy() == model(x).numpy()).all()
    with pytest.raises(ValueError, match="make another instance"):
        keras.models.clone_model(Classifier())


def test_the_config_of_a_layer_makes_another_like_it() -> None:
    made = layers.Conv2D(3, (2, 1), activation="relu", name="mine", kernel_regularizer="l2")
    again = layers.Conv2D.from_config(made.get_config())
    assert (again.filters, again.kernel_size, again.name) == (3, (2, 1), "mine")
    assert again.get_config() == made.get_config()


def test_a_training_loop_learns() -> None:
    keras.utils.set_random_seed(1)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(64, 2)).astype(np.float32)
    labels = (x[:, 0] * x[:, 1] > 0).astype(np.int32)
    model = keras.Sequential([layers.Dense(16, activation="tanh"), layers.Dense(2)])
    optimizer = keras.optimizers.Adam(0.05)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    mean, accuracy = keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy()
    for step in range(60):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        if step >= 55:
            mean.update_state(loss)
            accuracy.update_state(labels, model(x))
    assert float(mean.result()) < 0.3
    assert float(accuracy.result()) > 0.9


def test_a_seed_makes_a_run_repeatable() -> None:
    def run() -> Any:
        keras.utils.set_random_seed(7)
        model = keras.Sequential([layers.Dense(5), layers.Dropout(0.5), layers.GaussianNoise(1.0)])
        return model(ROWS, training=True).numpy() + tf.random.normal([4, 5]).numpy()

    assert (run() == run()).all()


def test_a_model_lists_its_inputs_and_goes_on_from_any_layer() -> None:
    x = keras.Input((8, 8, 1))
    last = keras.layers.Conv2D(2, 3, activation="relu", name="last")(x)
    model = keras.Model(x, keras.layers.Dense(3)(keras.layers.GlobalAveragePooling2D()(last)))
    assert [type(layer).__name__ for layer in model.layers[:2]] == ["InputLayer", "Conv2D"] and len(model.layers) == 4
    assert model.get_layer("last").input is x and model.layers[0].output is x
    inside = keras.Model(model.inputs, [model.get_layer("last").output, model.output])
    image = tf.random.normal([1, 8, 8, 1])
    with tf.GradientTape(verify=True) as tape:
        features, scores = inside(image)
        best = scores[:, 0]
    assert tape.gradient(best, features).shape == features.shape == (1, 6, 6, 2)
    np.testing.assert_array_equal(scores.numpy(), model(image).numpy())
    with pytest.raises(AttributeError, match="has no defined output: begin the model with"):
        keras.layers.Dense(1).output  # noqa: B018


def test_a_model_says_how_variables_are_saved() -> None:
    with pytest.raises(AttributeError, match="no attribute 'save'; gtape saves variables"):
        keras.Sequential().save  # noqa: B018

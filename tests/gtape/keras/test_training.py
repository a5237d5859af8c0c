"""compile and fit: the numbers of Keras 3 for the same weights, batches and losses; steps of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf

keras = tf.keras

_rng = np.random.default_rng(0)
X = _rng.normal(size=(20, 4)).astype(np.float32)
YES = (X[:, :1] > 0).astype(np.float32)
NUMBER = _rng.integers(0, 3, size=20)
ONE_HOT = np.eye(3, dtype=np.float32)[NUMBER]
WEIGHT = _rng.uniform(size=20).astype(np.float32)


def made(n: int, activation: Any = None, penalty: Any = None) -> Any:
    hidden = keras.layers.Dense(5, activation="tanh", kernel_regularizer=penalty)
    model = keras.Sequential([keras.Input((4,)), hidden, keras.layers.Dense(n, activation=activation)])
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(size=w.shape).astype(w.dtype) * 0.3 for w in model.get_weights()])
    return model


CASES: dict[str, Any] = {
    "mse": (
        (1, None, "mse", YES, ["mae"], {}),
        {"loss": [0.6264, 0.3337], "mae": [0.6081, 0.4651]}, [0.2804, 0.4541],
    ),
    "binary": (
        (1, "sigmoid", "binary_crossentropy", YES, ["accuracy"], {}),
        {"loss": [0.6761, 0.6711], "accuracy": [0.6, 0.6]}, [0.6651, 0.6],
    ),
    "numbers": (
        (3, "softmax", "sparse_categorical_crossentropy", NUMBER, ["accuracy"], {}),
        {"loss": [1.1867, 1.1069], "accuracy": [0.2, 0.55]}, [1.0487, 0.55],
    ),
    "one-hot": (
        (3, "softmax", "categorical_crossentropy", ONE_HOT, ["acc"], {}),
        {"loss": [1.1867, 1.1069], "acc": [0.2, 0.55]}, [1.0487, 0.55],
    ),
    "weights": (
        (1, None, "mse", YES, ["mae"], {"sample_weight": WEIGHT}),
        {"loss": [0.3499, 0.2228], "mae": [0.6443, 0.4885]}, [0.3633, 0.4658],
    ),
    "classes": (
        (3, "softmax", "sparse_categorical_crossentropy", NUMBER, None, {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}}),
        {"loss": [1.0406, 1.0187]}, 1.1213,
    ),
    "validation": (
        (1, None, "mse", YES, ["mae"], {"validation_data": (X[:6], YES[:6])}),
        {"loss": [0.6264, 0.3337], "val_loss": [0.1404, 0.1627], "val_mae": [0.2995, 0.3521]}, [0.2804, 0.4541],
    ),
    "a function": (
        (1, None, lambda a, b: tf.reduce_mean((a - b) ** 4, axis=-1), YES, [keras.metrics.MeanAbsoluteError()], {}),
        {"loss": [0.6507, 0.0854], "mean_absolute_error": [0.5447, 0.4719]}, [0.0713, 0.481],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_fit_and_evaluate_go_where_keras_goes(name: str) -> None:
    (n, activation, loss, y, figures, more), history, after = CASES[name]
    model = made(n, activation)
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=figures)
    seen = model.fit(X, y, batch_size=8, epochs=2, shuffle=False, verbose=0, **more).history
    for key, wanted in history.items():
        np.testing.assert_allclose(seen[key], wanted, atol=6e-5)
    np.testing.assert_allclose(model.evaluate(X, y, batch_size=8, verbose=0), after, atol=6e-5)


def test_penalties_are_part_of_the_loss() -> None:
    plain, penalised = made(1), made(1, penalty="l2")
    for model in (plain, penalised):
        model.compile("sgd", "mse")
    got = [m.evaluate(X, YES, verbose=0) for m in (plain, penalised)]
    assert got[1] - got[0] == pytest.approx(float(penalised.losses[0]), rel=1e-5)


def test_every_gradient_of_fit_is_the_exact_one() -> None:
    model = made(1, "sigmoid", "l2")
    model.compile("adam", "binary_crossentropy")
    with tf.verifying("strict"):
        model.fit(X, YES, batch_size=10, epochs=1, verbose=0)
    assert int(model.optimizer.iterations) == 2


def test_a_dataset_gives_the_batches_and_goes_on_from_epoch_to_epoch() -> None:
    model = made(1)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    batches = tf.data.Dataset.from_tensor_slices((X, YES)).batch(6)
    first = model.fit(batches, epochs=2, verbose=0).history["loss"]
    then = model.fit(batches.repeat(), epochs=2, steps_per_epoch=3, verbose=0).history["loss"]
    np.testing.assert_allclose([*first, *then], [0.5656, 0.2965, 0.2635, 0.1786], atol=6e-5)
    assert model.evaluate(batches, verbose=0) == pytest.approx(0.2111, abs=6e-5)
    np.testing.assert_array_equal(model.predict(batches, verbose=0), model.predict(X, batch_size=6, verbose=0))


def test_single_batches() -> None:
    model = made(1)
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    np.testing.assert_allclose(model.train_on_batch(X[:4], YES[:4]), [0.4428, 0.5129], atol=6e-5)
    again = model.train_on_batch(X[:4], YES[:4], return_dict=True)
    assert again == pytest.approx({"loss": 0.3075, "mae": 0.3530}, abs=6e-5)
    np.testing.assert_allclose(model.test_on_batch(X[:4], YES[:4]), [0.2438, 0.3214], atol=6e-5)
    assert model.predict_on_batch(X[:2]).shape == (2, 1)


def test_a_step_of_ones_own() -> None:
    class Own(keras.Model):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = made(1)
            self.mean = keras.metrics.Mean(name="loss")

        def call(self, x: Any) -> Any:
            return self.inner(x)

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            self.mean.update_state(loss)
            return {"loss": self.mean.result()}

        @property
        def metrics(self) -> list[Any]:
            return [self.mean]

    own, usual = Own(), made(1)
    own.compile(optimizer=keras.optimizers.SGD(0.1))
    usual.compile(keras.optimizers.SGD(0.1), "mse")
    options: Any = {"epochs": 2, "batch_size": 10, "shuffle": False, "verbose": 0}
    got, wanted = [m.fit(X, YES, **options).history["loss"] for m in (own, usual)]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_model_may_take_the_metrics_and_the_loss_of_compile() -> None:
    class Own(keras.Model):  # type: ignore[misc,name-defined]
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                made_of_it = self(x, training=True)
                loss = self.compute_loss(y=y, y_pred=made_of_it)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            for metric in self.metrics:
                metric.update_state(loss) if metric.name == "loss" else metric.update_state(y, made_of_it)
            return {m.name: m.result() for m in self.metrics}

    x = keras.Input((4,))
    own = Own(x, made(1)(x))
    own.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    seen = own.fit(X, YES, epochs=2, batch_size=10, shuffle=False, verbose=0).history
    np.testing.assert_allclose(seen["loss"], [0.6708, 0.3988], atol=6e-5)
    np.testing.assert_allclose(seen["mae"], [0.6487, 0.4712], atol=6e-5)


def test_several_outputs_have_a_loss_each() -> None:
    x = keras.Input((4,))
    outputs = {"b": keras.layers.Dense(1)(x), "a": keras.layers.Dense(1)(x)}
    model = keras.Model(x, outputs)
    model.compile("sgd", {"b": "mse", "a": "mae"}, loss_weights={"b": 1.0, "a": 0.5}, metrics={"b": ["mae"]})
    made_of_it, labels = model(X), {"b": YES, "a": YES}
    square = float(np.mean((made_of_it["b"].numpy() - YES) ** 2))
    sizes = [float(np.mean(np.abs(made_of_it[k].numpy() - YES))) for k in ("a", "b")]
    wanted = {"loss": square + 0.5 * sizes[0], "b_loss": square, "a_loss": sizes[0], "b_mae": sizes[1]}
    assert model.evaluate(X, labels, verbose=0, return_dict=True) == pytest.approx(wanted, rel=1e-5)
    assert model.evaluate(X, labels, verbose=0) == pytest.approx(list(wanted.values()), rel=1e-5)
    assert {k: p.shape for k, p in model.predict(X, batch_size=8).items()} == {"a": (20, 1), "b": (20, 1)}


def test_outputs_in_a_list_are_named_after_their_layers() -> None:
    x = keras.Input((4,))
    model = keras.Model(x, [keras.layers.Dense(1, name="p")(x), keras.layers.Dense(1, name="q")(x)])
    model.compile("sgd", ["mse", "mae"], metrics=[["mae"], []])
    assert list(model.evaluate(X, [YES, YES], verbose=0, return_dict=True)) == ["loss", "p_loss", "q_loss", "p_mae"]


def test_callbacks_hear_of_everything_and_may_stop_it(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []

    class Listener(keras.callbacks.Callback):  # type: ignore[misc,name-defined]
        def on_train_begin(self, logs: Any = None) -> None:
            heard.append(f"begin {self.params['epochs']}")

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            heard.append(f"batch {batch} {sorted(logs)}")

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.stop_training = True

    told = keras.callbacks.LambdaCallback(on_train_end=lambda logs: heard.append("end"))
    model = made(1)
    model.compile("sgd", "mse")
    history = model.fit(X, YES, epochs=3, batch_size=10, callbacks=[Listener(), told])
    assert heard == ["begin 3", "batch 0 ['loss']", "batch 1 ['loss']", "end"] and history.epoch == [0]
    assert capsys.readouterr().out.startswith("Epoch 1/3 - loss: ")


def test_a_share_of_the_rows_is_kept_for_validation() -> None:
    model = made(1)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    seen = model.fit(X, YES, epochs=1, validation_split=0.25, verbose=0).history
    assert seen["val_loss"][0] == pytest.approx(model.evaluate(X[15:], YES[15:], verbose=0), rel=1e-6)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda m: m.fit(X, YES), r"must call `compile\(\)`"),
        (lambda m: (m.compile("sgd"), m.fit(X, YES, verbose=0)), "No loss to compute"),
        (lambda m: m.compile("sgd", "nonsense"), "loss"),
        (lambda m: m.compile("nonsense", "mse"), "optimizer"),
    ],
)
def test_what_is_missing_is_said(use: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        use(made(1))


def test_the_summary_counts_what_there_is() -> None:
    lines: list[str] = []
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.BatchNormalization()])
    model.summary(print_fn=lines.append)
    assert any("dense" in line and "(None, 3)" in line and line.endswith(" 15") for line in lines)
    assert lines[-3:] == [" Total params: 27", " Trainable params: 21", " Non-trainable params: 6"]
    with pytest.raises(ValueError, match="not yet been built"):
        keras.Sequential([keras.layers.Dense(1)]).summary()


@pytest.mark.parametrize("call", ["fit", "evaluate", "train_on_batch"])
def test_arrays_of_different_length_are_refused(call: str) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"same number of samples. 'x' sizes: 4, 'y' sizes: 5"):
        getattr(model, call)(np.ones((4, 3)), np.ones((5, 2)))
    with pytest.raises(ValueError, match=r"same number of samples.*'sample_weight' sizes: 3"):
        model.fit(np.ones((4, 3)), np.ones((4, 2)), sample_weight=np.ones(3), verbose=0)


def test_an_unknown_metric_gets_the_names_of_metrics() -> None:
    with pytest.raises(ValueError, match="metric identifier: 'acc_uracy'; the names are accuracy"):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["acc_uracy"])
        model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)


@pytest.mark.parametrize("as_column", [False, True])
def test_labels_and_predictions_may_differ_by_an_axis_of_one(as_column: bool) -> None:
    """As in Keras: [n] labels beside [n, 1] predictions are compared one by one, not each with each."""
    labels, scores = np.array([0.0, 1.0, 1.0, 0.0]), np.array([[0.1], [0.9], [0.4], [0.3]])
    if as_column:
        labels, scores = labels[:, None], scores[:, 0]
    for name, expected in (("BinaryAccuracy", 0.75), ("RootMeanSquaredError", 0.34278), ("MeanAbsoluteError", 0.275)):
        assert float(getattr(tf.keras.metrics, name)()(labels, scores)) == pytest.approx(expected, abs=1e-5)
    weighted = tf.keras.metrics.BinaryAccuracy()
    assert float(weighted(labels, scores, sample_weight=[1.0, 0.0, 2.0, 1.0])) == 0.5
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1, "sigmoid", kernel_initializer="ones")])
    model.compile("sgd", "binary_crossentropy", metrics=["accuracy"])
    x = np.array([[-1.0], [1.0], [-1.0], [-1.0]])
    assert model.evaluate(x, [0, 1, 1, 0], verbose=0)[1] == 0.75


def test_weighted_metrics_get_the_weights_of_samples_and_the_others_do_not() -> None:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("sgd", "mse", metrics=["mse"], weighted_metrics=["mse"])
    x, y = np.array([[1.0], [2.0]], np.float32), np.zeros((2, 1), np.float32)
    seen = model.evaluate(x, y, sample_weight=np.array([3.0, 1.0], np.float32), verbose=0, return_dict=True)
    assert seen["mse"] == 2.5 and seen["weighted_mse"] == (3 * 1 + 4) / 4
    model.compile("sgd", "mse", weighted_metrics=["mse"])
    assert [m.name for m in model.metrics] == ["loss", "mse"]


def epochs_of(data: Any, steps: int | None, epochs: int = 4) -> Any:
    """The losses of epochs of a model that returns its input: means of x * x over the batches of an epoch."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    options: Any = {"batch_size": 2, "shuffle": False} if isinstance(data, tuple) else {}
    given = data if isinstance(data, tuple) else (data,)
    return model.fit(*given, steps_per_epoch=steps, epochs=epochs, verbose=0, **options).history["loss"]


SIX = np.arange(6, dtype=np.float32).reshape(6, 1)


# The losses are TensorFlow's. Three batches of two rows have the losses 0.5, 6.5 and 20.5.
@pytest.mark.parametrize(
    ("steps", "losses"),
    [(None, [9.0 + 1 / 6] * 4), (1, [0.5, 6.5, 20.5, 0.5]), (2, [3.5, 20.5, 3.5, 20.5]), (5, [9.0 + 1 / 6] * 4)],
)
def test_an_epoch_of_some_steps_continues_where_the_last_epoch_ended(steps: Any, losses: Any) -> None:
    batches = tf.data.Dataset.from_tensor_slices((SIX, 0 * SIX)).batch(2)
    assert epochs_of((SIX, 0 * SIX), steps) == pytest.approx(losses)
    assert epochs_of(batches, steps) == pytest.approx(losses)


def test_an_epoch_of_a_repeated_dataset_has_all_its_steps() -> None:
    batches = tf.data.Dataset.from_tensor_slices((SIX, 0 * SIX)).batch(2).repeat()
    assert epochs_of(batches, 2) == pytest.approx([3.5, 10.5, 13.5, 3.5])


def test_only_a_call_with_an_argument_training_hears_of_training() -> None:
    class Without(keras.Model):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.dense = keras.layers.Dropout(0.5), keras.layers.Dense(4, kernel_initializer="identity")

        def call(self, x: Any) -> Any:
            return self.dense(self.drop(x))

    class With(Without):
        def call(self, x: Any, training: Any = None) -> Any:
            return super().call(x)

    losses = []
    for model in (Without(), With()):
        model.compile(keras.optimizers.SGD(0.0), "mse")
        losses.append(model.train_on_batch(np.ones((20, 4), np.float32), np.ones((20, 4), np.float32)))
    assert losses[0] == 0.0 and losses[1] > 0.0


def test_a_model_without_variables_can_be_trained_and_warns() -> None:
    model = keras.Sequential([keras.layers.ReLU()])
    model.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="does not have any trainable weights"):
        assert model.train_on_batch(SIX, 0 * SIX) == pytest.approx(9.0 + 1 / 6)


def test_a_model_keeps_the_loss_of_compile_and_the_history_of_fit() -> None:
    model = made(1)
    model.compile("sgd", "mse")
    assert model.loss == "mse" and not hasattr(model, "history")
    history = model.fit(X, YES, verbose=0)
    assert model.history is history


@pytest.mark.parametrize(
    ("loss", "width"), [("mse", 3), ("mae", 3), ("binary_crossentropy", 3), ("binary_crossentropy", 1), ("huber", 3)]
)
def test_labels_of_another_width_are_a_value_error(loss: str, width: int) -> None:
    model = made(2)
    model.compile("sgd", loss)
    labels = np.ones((20, width), np.float32)
    with pytest.raises(ValueError, match="shape"):
        model.fit(X, labels, verbose=0)

"""Initializers, activations, regularizers, metrics, utilities and settings."""

from __future__ import annotations

import fractions
import math
from typing import Any

import numpy as np
import pytest

import gtape as tf

keras = tf.keras
initializers = keras.initializers
metrics = keras.metrics

SHAPE = (3, 3, 40, 60)
FAN_IN, FAN_OUT = 360, 540


@pytest.mark.parametrize(
    ("name", "deviation", "limit"),
    [
        ("glorot_uniform", math.sqrt(2 / 900), math.sqrt(6 / 900)),
        ("glorot_normal", math.sqrt(2 / 900), 2 * math.sqrt(2 / 900) / 0.87962566),
        ("he_uniform", math.sqrt(2 / FAN_IN), math.sqrt(6 / FAN_IN)),
        ("he_normal", math.sqrt(2 / FAN_IN), 2 * math.sqrt(2 / FAN_IN) / 0.87962566),
        ("lecun_uniform", math.sqrt(1 / FAN_IN), math.sqrt(3 / FAN_IN)),
        ("lecun_normal", math.sqrt(1 / FAN_IN), 2 * math.sqrt(1 / FAN_IN) / 0.87962566),
        ("random_normal", 0.05, math.inf),
        ("random_uniform", 0.05 / math.sqrt(3), 0.05),
        ("truncated_normal", 0.05 * 0.87962566, 0.1),
    ],
)
def test_random_initializers_have_their_variance_and_their_bounds(name: str, deviation: float, limit: float) -> None:
    values = initializers.get(name)(SHAPE, dtype="float64").numpy()
    assert values.shape == SHAPE
    assert abs(values.mean()) < 4 * deviation / math.sqrt(values.size)
    assert values.std() == pytest.approx(deviation, rel=0.02)
    assert np.abs(values).max() <= limit * (1 + 1e-7)


def test_initializers_with_fixed_values() -> None:
    assert initializers.Zeros()((2,)).numpy().tolist() == [0, 0]
    assert initializers.Ones()((2,), dtype="int32").numpy().tolist() == [1, 1]
    assert initializers.Constant(2.5)((2,)).numpy().tolist() == [2.5, 2.5]
    assert initializers.Constant([1.0, 2.0])((3, 2)).numpy()[2].tolist() == [1, 2]
    assert initializers.Identity(2.0)((2, 3)).numpy().tolist() == [[2, 0, 0], [0, 2, 0]]
    for shape in ((4, 7), (7, 4), (2, 3, 4)):
        q = initializers.Orthogonal(2.0)(shape, dtype="float64").numpy().reshape(-1, shape[-1])
        q = q if q.shape[0] >= q.shape[1] else q.T
        np.testing.assert_allclose(q.T @ q, 4 * np.eye(q.shape[1]), atol=1e-12)


def test_a_seed_gives_the_same_values_each_time() -> None:
    one = initializers.HeNormal(seed=3)
    assert (one((5, 5)).numpy() == one((5, 5)).numpy()).all()
    assert (one((5, 5)).numpy() == initializers.HeNormal(seed=3)((5, 5)).numpy()).all()
    assert (one((5, 5)).numpy() != initializers.HeNormal()((5, 5)).numpy()).any()
    assert initializers.VarianceScaling(2.0, "fan_out", "uniform", seed=1).get_config() == {
        "scale": 2.0,
        "mode": "fan_out",
        "distribution": "uniform",
        "seed": 1,
    }


def test_functions_and_arrays_are_initializers_too() -> None:
    layer = keras.layers.Dense(
        2, kernel_initializer=lambda shape, dtype=None: tf.fill(shape, 3.0), bias_initializer=np.array([1.0, 2.0])
    )
    assert layer(np.ones((1, 2))).numpy().tolist() == [[7.0, 8.0]]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: initializers.get("fast"), "Could not interpret initializer"),
        (lambda: initializers.VarianceScaling(0.0), "`scale`"),
        (lambda: initializers.VarianceScaling(mode="most"), "`mode`"),
        (lambda: initializers.VarianceScaling(distribution="odd"), "`distribution`"),
        (lambda: initializers.Identity()((2,)), "2D matrices"),
        (lambda: initializers.Orthogonal()((2,)), "at least two-dimensional"),
        (lambda: keras.regularizers.get("l3"), "Could not interpret regularizer"),
        (lambda: keras.constraints.get("odd"), "Could not interpret constraint"),
        (lambda: keras.metrics.get("odd"), "Could not interpret metric"),
        (lambda: keras.backend.set_floatx("float8"), "Unknown `floatx`"),
        (lambda: keras.utils.set_random_seed("a"), "to be an integer"),
    ],
)
def test_misuse_is_told(wrong: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        wrong()


X = np.array([-7.0, -2.0, -0.5, 0.0, 0.5, 2.0, 7.0])


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("linear", lambda x: x),
        ("relu", lambda x: np.maximum(x, 0)),
        ("relu6", lambda x: np.clip(x, 0, 6)),
        ("leaky_relu", lambda x: np.where(x > 0, x, 0.2 * x)),
        ("elu", lambda x: np.where(x > 0, x, np.expm1(x))),
        ("selu", lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("hard_sigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1)),
        ("hard_silu", lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
        ("silu", lambda x: x / (1 + np.exp(-x))),
        ("swish", lambda x: x / (1 + np.exp(-x))),
        ("mish", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
        ("gelu", lambda x: x * np.array([0.5 * (1 + math.erf(t / math.sqrt(2))) for t in x])),
        ("softplus", lambda x: np.log1p(np.exp(x))),
        ("softsign", lambda x: x / (1 + np.abs(x))),
        ("tanh", np.tanh),
        ("exponential", np.exp),
        ("log_sigmoid", lambda x: -np.log1p(np.exp(-x))),
        ("softmax", lambda x: np.exp(x) / np.exp(x).sum()),
        ("log_softmax", lambda x: x - np.log(np.exp(x).sum())),
    ],
)
def test_activations_by_name(name: str, formula: Any) -> None:
    np.testing.assert_allclose(keras.activations.get(name)(tf.constant(X)).numpy(), formula(X), rtol=1e-12, atol=1e-15)


def test_activations_with_settings() -> None:
    act = keras.activations
    x = tf.constant(X)
    inner = np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)
    np.testing.assert_allclose(
        act.gelu(x, approximate=True).numpy(), 0.5 * X * (1 + np.tanh(inner)), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(act.elu(x, 0.5).numpy(), np.where(X > 0, X, 0.5 * np.expm1(X)), rtol=1e-12)
    np.testing.assert_allclose(act.relu(x, 0.1, 3.0).numpy(), np.minimum(np.where(X > 0, X, 0.1 * X), 3), rtol=1e-12)
    assert act.get(None) is act.linear
    assert act.get(act.tanh) is act.tanh


def test_regularizers() -> None:
    w = tf.constant([[1.0, -2.0]])
    reg = keras.regularizers
    assert float(reg.L1(0.5)(w)) == 1.5
    assert float(reg.l2(0.5)(w)) == 2.5
    assert float(reg.L1L2(1.0, 0.5)(w)) == 5.5
    assert float(reg.L1L2()(w)) == 0.0
    assert float(reg.get("l1_l2")(w)) == float(reg.l1_l2()(w)) == 0.0
    assert reg.L2(0.5).get_config() == {"l2": 0.5}


# ------------------------------------------------------------------------------------------------ metrics


def test_a_mean_counts_values_and_weights_until_it_is_reset() -> None:
    mean = metrics.Mean(name="loss")
    assert float(mean.result()) == 0.0
    mean.update_state([1.0, 2.0])
    mean(tf.constant(6.0))
    assert float(mean.result()) == 3.0
    mean.update_state([10.0, 100.0], sample_weight=[1.0, 0.0])
    assert float(mean.result()) == 4.75
    assert len(mean.variables) == 2 and mean.name == "loss"
    mean.reset_state()
    assert float(mean([[1.0, 2.0], [3.0, 4.0]], sample_weight=[1.0, 3.0])) == 3.0
    mean.reset_states()
    assert float(mean.result()) == 0.0


def test_a_mean_of_many_small_numbers_does_not_stop_growing() -> None:
    total = metrics.Sum()
    total.update_state(np.float32(2**24))
    for _ in range(4):
        total.update_state(np.float32(1))
    assert float(total.result()) == 2**24 + 4


def test_metrics_are_no_part_of_a_tape() -> None:
    v = tf.Variable([1.0, 2.0])
    mean = metrics.MeanSquaredError()
    with tf.GradientTape() as tape:
        y = v * v
        mean.update_state(y, v)
        z = mean.result()
    assert tape.gradient(z, v) is None


SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.4, 0.35, 0.25]])


@pytest.mark.parametrize(
    ("metric", "y_true", "y_pred", "wanted"),
    [
        (lambda: metrics.Accuracy(), [1, 2, 3], [1, 2, 0], 2 / 3),
        (lambda: metrics.SparseCategoricalAccuracy(), [1, 0, 0, 1], SCORES, 0.5),
        (lambda: metrics.SparseCategoricalAccuracy(), [[1], [0], [0], [1]], SCORES, 0.5),
        (lambda: metrics.CategoricalAccuracy(), np.eye(3)[[1, 0, 0, 1]], SCORES, 0.5),
        (lambda: metrics.BinaryAccuracy(threshold=0.4), [[1], [0]], [[0.45], [0.45]], 0.5),
        (lambda: metrics.SparseTopKCategoricalAccuracy(k=2), [1, 0, 0, 1], SCORES, 0.75),
        (lambda: metrics.TopKCategoricalAccuracy(k=2), np.eye(3)[[1, 0, 0, 1]], SCORES, 0.75),
        (lambda: metrics.MeanSquaredError(), [[1.0, 1.0]], [[3.0, 1.0]], 2.0),
        (lambda: metrics.RootMeanSquaredError(), [[1.0, 1.0]], [[3.0, 1.0]], math.sqrt(2)),
        (lambda: metrics.MeanAbsoluteError(), [[1.0, 1.0]], [[3.0, 1.0]], 1.0),
        (lambda: metrics.CosineSimilarity(), [[1.0, 0.0]], [[3.0, 4.0]], 0.6),
        (lambda: metrics.KLDivergence(), [[0.5, 0.5]], [[0.25, 0.75]], 0.5 * math.log(2) + 0.5 * math.log(2 / 3)),
        (lambda: metrics.BinaryCrossentropy(from_logits=True), [[1.0]], [[0.0]], math.log(2)),
        (lambda: metrics.CategoricalCrossentropy(), [[0.0, 1.0]], [[0.75, 0.25]], math.log(4)),
        (lambda: metrics.SparseCategoricalCrossentropy(), [1], [[0.75, 0.25]], math.log(4)),
    ],
)
def test_metrics_follow_their_formula(metric: Any, y_true: Any, y_pred: Any, wanted: float) -> None:
    made = metric()
    assert float(made(y_true, y_pred)) == pytest.approx(wanted, rel=1e-6)
    made.reset_state()
    half = len(y_true) // 2 or 1
    for part in (slice(0, half), slice(half, None)):
        if len(y_true[part]):
            made.update_state(y_true[part], y_pred[part])
    assert float(made.result()) == pytest.approx(wanted, rel=1e-6)


def test_metrics_by_name_and_unfinished_ones() -> None:
    assert isinstance(metrics.get("accuracy"), metrics.Accuracy)
    assert metrics.get(None) is None
    for use in (lambda m: m.update_state(1.0), lambda m: m.result()):
        with pytest.raises(NotImplementedError):
            use(metrics.Metric())


# ------------------------------------------------------------------------------------------------ utilities, names


def test_class_numbers_become_one_hot_rows() -> None:
    assert keras.utils.to_categorical([[0], [2]], 4).tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]
    assert tf.is_tensor(keras.utils.to_categorical(tf.constant([0, 1])))
    np.testing.assert_allclose(keras.utils.normalize(np.array([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0, 0]])


@pytest.mark.parametrize("order", [fractions.Fraction(1, 2), tf.constant(0.5), np.float32(0.5)])
def test_a_norm_takes_every_kind_of_number_as_its_order(order: Any) -> None:
    found = keras.utils.normalize(np.array([[9.0, 16.0]]), order=order)
    np.testing.assert_allclose(found, np.array([[9.0, 16.0]]) / 49.0)


def test_settings_can_be_changed() -> None:
    assert keras.backend.epsilon() == keras.config.epsilon() == 1e-7
    keras.backend.set_epsilon(1e-3)
    try:
        assert float(keras.losses.bce([1.0], [0.0])) == pytest.approx(math.log(1e3), rel=1e-5)
    finally:
        keras.backend.set_epsilon(1e-7)


def test_keras_parts_are_found_by_name() -> None:
    for name in dir(keras):
        assert getattr(keras, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        keras.nonsense  # noqa: B018
    assert tf.optimizers is keras.optimizers and tf.losses is keras.losses
    assert tf.metrics is keras.metrics and tf.initializers is keras.initializers
    assert tf.random_normal_initializer is initializers.RandomNormal is initializers.random_normal
    assert tf.zeros_initializer()([2]).numpy().tolist() == [0.0, 0.0]
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        initializers.nonsense  # noqa: B018


LABELS = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], np.float32)
SHARES = np.array([[0.1, 0.8, 0.1], [0.3, 0.3, 0.4]], np.float32)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("MeanAbsolutePercentageError", 2.2e8), ("MeanSquaredLogarithmicError", 0.1391), ("Poisson", 0.7966),
        ("Hinge", 1.1067), ("SquaredHinge", 1.3907), ("CategoricalHinge", 1.14), ("LogCoshError", 0.13),
        ("Precision", 1 / 3), ("Recall", 0.2), ("TruePositives", 1.0), ("FalsePositives", 2.0),
        ("TrueNegatives", 8.0), ("FalseNegatives", 4.0),
    ],
)  # fmt: skip
def test_figures_over_batches_are_those_of_keras(name: str, wanted: float) -> None:
    metric = getattr(tf.keras.metrics, name)()
    metric.update_state(LABELS, SHARES)
    metric.update_state(LABELS, SHARES[::-1], sample_weight=[1.0, 2.0])
    assert float(metric.result()) == pytest.approx(wanted, rel=1e-3)
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_precision_takes_thresholds_classes_and_the_best_few() -> None:
    make = tf.keras.metrics.Precision
    assert make(thresholds=[0.2, 0.9])(LABELS, SHARES).numpy() == pytest.approx([0.5, 0.0])
    assert float(make(class_id=1, thresholds=0.2)(LABELS, SHARES)) == 0.5
    assert float(make(top_k=1)(LABELS, SHARES)) == 1.0
    with pytest.raises(ValueError, match="Threshold values must be in"):
        make(thresholds=2.0)


@pytest.mark.parametrize("turned", [False, True])
def test_accuracy_drops_an_additional_last_axis(turned: bool) -> None:
    pair = [1, 2, 3], [[1], [2], [4]]
    assert float(keras.metrics.Accuracy()(*pair[:: -1 if turned else 1])) == pytest.approx(2 / 3)


def test_a_score_at_a_threshold_is_not_above_it() -> None:
    assert float(keras.metrics.FalsePositives(thresholds=0.1)([0, 1], tf.constant([0.1, 0.9]))) == 0.0
    precision = keras.metrics.Precision(thresholds=[0.2])([0, 1], tf.constant([0.2, 0.9]))
    assert float(precision) == 1.0 and precision.shape == ()
    assert keras.metrics.Recall(thresholds=[0.2, 0.9])([1, 1], np.array([0.2, 0.9])).numpy().tolist() == [0.5, 0.0]


@pytest.mark.parametrize(
    ("value", "dtype"), [(3, "int32"), ([1, 2], "int32"), (True, "bool"), (3.0, "float32"), (np.float64(3), "float64")]
)
def test_a_constant_initializer_keeps_the_dtype_of_its_value(value: Any, dtype: str) -> None:
    assert tf.constant_initializer(value)((2,)).dtype == dtype
    assert tf.constant_initializer(value)((2,), dtype="float64").dtype == "float64"
    assert keras.initializers.Constant(value)((2,)).dtype == "float32"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", None])
def test_means_have_the_dtype_of_the_metric(dtype: Any) -> None:
    for make in (keras.metrics.Mean, keras.metrics.Sum):
        metric = make(dtype=dtype)
        metric.update_state([0.1, 0.2, 0.4])
        assert metric.result().dtype == (dtype or "float32")
    error = keras.metrics.RootMeanSquaredError(dtype=dtype)
    assert error([0.0], [0.1]).dtype == (dtype or "float32")


def test_double_means_keep_the_digits_of_double_sums() -> None:
    metric = keras.metrics.Mean(dtype="float64")
    metric.update_state(tf.constant([0.1, 0.2, 0.4]))
    assert float(metric.result()) == pytest.approx(0.23333333681027094, rel=1e-15)  # TensorFlow's number

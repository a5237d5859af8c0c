"""Losses follow their formulas, written here in plain NumPy; reductions, weights, dtypes and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check

losses = tf.keras.losses
rng = np.random.default_rng(0)
P, T = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
BITS = (T > 0).astype(np.float64)
Q, S = 1 / (1 + np.exp(-P)), np.exp(P) / np.exp(P).sum(axis=1, keepdims=True)
LABELS = np.array([0, 2, 1, 1])
HOT = np.eye(3)[LABELS]
SMOOTH = 0.9 * HOT + 0.1 / 3


def unit(x: Any) -> Any:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


# (class, options, labels, predictions, the loss of each sample)
FORMULAS: list[tuple[str, dict[str, Any], Any, Any, Any]] = [
    ("MeanSquaredError", {}, T, P, ((T - P) ** 2).mean(-1)),
    ("MeanAbsoluteError", {}, T, P, np.abs(T - P).mean(-1)),
    ("MeanAbsolutePercentageError", {}, T, P, 100 * np.abs((T - P) / T).mean(-1)),
    ("MeanSquaredLogarithmicError", {}, Q, S, ((np.log(Q + 1) - np.log(S + 1)) ** 2).mean(-1)),
    ("Huber", {}, T, P, np.where(abs(T - P) <= 1, (T - P) ** 2 / 2, abs(T - P) - 0.5).mean(-1)),
    ("Huber", {"delta": 0.3}, T, P, np.where(abs(T - P) <= 0.3, (T - P) ** 2 / 2, 0.3 * abs(T - P) - 0.045).mean(-1)),
    ("LogCosh", {}, T, P, np.log(np.cosh(P - T)).mean(-1)),
    ("KLDivergence", {}, Q, S, (Q * np.log(Q / S)).sum(-1)),
    ("Poisson", {}, T**2, Q, (Q - T**2 * np.log(Q + 1e-7)).mean(-1)),
    ("CosineSimilarity", {}, T, P, -(unit(T) * unit(P)).sum(-1)),
    ("Hinge", {}, 2 * BITS - 1, P, np.maximum(1 - (2 * BITS - 1) * P, 0).mean(-1)),
    ("Hinge", {}, BITS, P, np.maximum(1 - (2 * BITS - 1) * P, 0).mean(-1)),
    ("SquaredHinge", {}, BITS, P, (np.maximum(1 - (2 * BITS - 1) * P, 0) ** 2).mean(-1)),
    ("CategoricalHinge", {}, HOT, P, np.maximum(((1 - HOT) * P).max(-1) - (HOT * P).sum(-1) + 1, 0)),
    ("BinaryCrossentropy", {}, BITS, Q, -(BITS * np.log(Q) + (1 - BITS) * np.log(1 - Q)).mean(-1)),
    ("BinaryCrossentropy", {"from_logits": True}, BITS, P, -(BITS * np.log(Q) + (1 - BITS) * np.log(1 - Q)).mean(-1)),
    (
        "BinaryCrossentropy",
        {"label_smoothing": 0.2},
        BITS,
        Q,
        -((0.8 * BITS + 0.1) * np.log(Q) + (0.9 - 0.8 * BITS) * np.log(1 - Q)).mean(-1),
    ),
    ("CategoricalCrossentropy", {}, HOT, Q, -(HOT * np.log(Q / Q.sum(-1, keepdims=True))).sum(-1)),
    ("CategoricalCrossentropy", {"from_logits": True, "label_smoothing": 0.1}, HOT, P, -(SMOOTH * np.log(S)).sum(-1)),
    ("SparseCategoricalCrossentropy", {}, LABELS, Q, -(HOT * np.log(Q / Q.sum(-1, keepdims=True))).sum(-1)),
    ("SparseCategoricalCrossentropy", {"from_logits": True}, LABELS[:, None], P, -(HOT * np.log(S)).sum(-1)),
]
IDS = [f"{f[0]}-{'-'.join(f[1]) or 'plain'}" for f in FORMULAS]
WEIGHTS = np.array([1.0, 0.0, 2.0, 3.0])


@pytest.mark.parametrize(("name", "options", "y_true", "y_pred", "each"), FORMULAS, ids=IDS)
def test_a_loss_follows_its_formula(name: str, options: dict[str, Any], y_true: Any, y_pred: Any, each: Any) -> None:
    close = lambda got, wanted: np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12, atol=1e-13)
    make = lambda reduction: getattr(losses, name)(reduction=reduction, **options)
    close(getattr(losses, name)(**options)(y_true, y_pred), each.mean())
    close(make("sum")(y_true, y_pred), each.sum())
    close(make(None)(y_true, y_pred), each)
    close(make("none")(y_true, y_pred, WEIGHTS), each * WEIGHTS)
    close(make("sum_over_batch_size")(y_true, y_pred, WEIGHTS), (each * WEIGHTS).sum() / 4)
    close(make("mean_with_sample_weight")(y_true, y_pred, WEIGHTS[:, None]), (each * WEIGHTS).sum() / 6)


@pytest.mark.parametrize(("name", "options", "y_true", "y_pred", "each"), FORMULAS, ids=IDS)
def test_the_gradient_of_a_loss_passes_the_check(
    name: str, options: dict[str, Any], y_true: Any, y_pred: Any, each: Any
) -> None:
    loss = getattr(losses, name)(**options)
    report = check(lambda p: loss(y_true, p), y_pred)
    assert report.ok, report


@pytest.mark.parametrize("name", ["mse", "mae", "mape", "msle", "kld", "bce", "logcosh"])
def test_short_names_are_the_functions(name: str) -> None:
    long = {
        "mse": "mean_squared_error",
        "mae": "mean_absolute_error",
        "mape": "mean_absolute_percentage_error",
        "msle": "mean_squared_logarithmic_error",
        "kld": "kl_divergence",
        "bce": "binary_crossentropy",
        "logcosh": "log_cosh",
    }[name]
    assert getattr(losses, name) is getattr(losses, long)
    assert losses.get(name) is losses.get(long)


@pytest.mark.parametrize("x", [1e-12, 1e-6, 0.1, 0.999999, 1.0, 20.0, 700.0])
def test_log_cosh_keeps_its_digits(x: float) -> None:
    loss = lambda p: losses.log_cosh(np.zeros(1), p)
    exact = x * x / 2 if x < 1e-5 else math.log(math.cosh(x)) if x < 30 else x - math.log(2)
    assert float(loss(tf.constant([x], tf.float64))) == pytest.approx(exact, rel=1e-11)
    v = tf.Variable([x, -x], dtype=tf.float64)
    with tf.GradientTape() as tape:
        y = 2.0 * losses.log_cosh(np.zeros(2), v)
    np.testing.assert_allclose(tape.gradient(y, v).numpy(), np.tanh([x, -x]), rtol=1e-15)


def test_the_predictions_decide_the_dtype() -> None:
    for dtype in ("float32", "float64"):
        p = tf.constant(P, dtype)
        assert losses.MeanSquaredError()(T, p).dtype == dtype
        assert losses.mse([[1, 0, 0]], p[:1]).dtype == dtype
        assert losses.SparseCategoricalCrossentropy(from_logits=True)(LABELS, p, WEIGHTS).dtype == dtype
    assert losses.MeanSquaredError(dtype="float32")(T, tf.constant(P)).dtype == "float32"
    assert losses.mse([1], [2]).dtype == "float32"


def test_an_axis_of_size_one_may_be_missing() -> None:
    column = P[:, :1]
    wanted = ((P[:, 0] - T[:, 0]) ** 2).mean()
    for y_true, y_pred in ((T[:, 0], column), (T[:, :1], P[:, 0]), (T[:, :1], column)):
        assert float(losses.MeanSquaredError()(y_true, y_pred)) == pytest.approx(wanted, rel=1e-14)


def test_ignored_classes_do_not_count() -> None:
    loss = losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1)
    each = -np.log(S[[0, 1], [0, 2]])
    assert float(loss(LABELS, P)) == pytest.approx(each.mean(), rel=1e-13)
    assert float(loss(LABELS, P, WEIGHTS)) == pytest.approx(each[0] / 2, rel=1e-13)
    everything = losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1)
    assert float(everything([1, 1], P[:2])) == 0.0


def test_far_logits_have_finite_losses_and_gradients() -> None:
    v = tf.Variable([[1000.0, -1000.0]])
    with tf.GradientTape(persistent=True) as tape:
        binary = losses.BinaryCrossentropy(from_logits=True)([[0.0, 1.0]], v)
        sparse = losses.SparseCategoricalCrossentropy(from_logits=True)([1], v)
    assert (float(binary), float(sparse)) == (1000.0, 2000.0)
    assert tape.gradient(binary, v).numpy().tolist() == [[0.5, -0.5]]
    assert tape.gradient(sparse, v).numpy().tolist() == [[1.0, -1.0]]


def test_a_loss_of_zero_has_no_minus_sign() -> None:
    for made in (
        losses.sparse_categorical_crossentropy([1], [[0.0, 1000.0]], from_logits=True),
        losses.categorical_crossentropy([[0.0, 1.0]], [[0.0, 1000.0]], from_logits=True),
        losses.binary_crossentropy([[0.0, 1.0]], [[-1000.0, 1000.0]], from_logits=True),
    ):
        assert made.numpy()[0] == 0 and not np.signbit(made.numpy()[0])


def test_no_samples_no_loss() -> None:
    assert float(losses.MeanSquaredError()(np.zeros((0, 3)), np.zeros((0, 3)))) == 0.0


def test_a_loss_of_ones_own() -> None:
    class Weighted(losses.Loss):  # type: ignore[misc]
        def call(self, y_true: Any, y_pred: Any) -> Any:
            return tf.reduce_mean(tf.square(y_true - y_pred), axis=-1) * 3.0

    assert float(Weighted(reduction="sum")(T, P)) == pytest.approx(3 * ((T - P) ** 2).mean(-1).sum(), rel=1e-14)
    with pytest.raises(NotImplementedError, match="must implement `call"):
        losses.Loss()(T, P)


def test_settings_survive_their_config() -> None:
    made = losses.Huber(delta=0.3, reduction="sum", name="h")
    again = losses.Huber.from_config(made.get_config())
    assert (again.delta, again.reduction, again.name) == (0.3, "sum", "h")
    assert isinstance(losses.get("Huber"), losses.Huber)
    assert losses.get({"class_name": "Huber", "config": {"delta": 2.0}}).delta == 2.0
    assert losses.get(made) is made
    assert losses.get(None) is None
    assert losses.Reduction.NONE in losses.Reduction.all()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: losses.Huber(reduction="average"), "Invalid value for argument `reduction`"),
        (lambda: losses.get("speed"), "Could not interpret loss"),
        (lambda: losses.categorical_crossentropy([0, 1], [[0.5, 0.5]]), "must have the same shape"),
        (lambda: losses.sparse_categorical_crossentropy([0, 1], [[0.5, 0.5]]), "labels.shape"),
    ],
)
def test_misuse_is_told(wrong: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        wrong()


def test_a_label_that_is_no_class_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside the valid range"):
        losses.sparse_categorical_crossentropy([2], [[0.5, 0.5]])


@pytest.mark.parametrize(
    ("labels", "weights", "mean", "unreduced"),
    [
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 0.0, 0.5], 6.5625, [7.5, 15.0, 0.0, 3.75]),
        ([[1.0], [2.0], [3.0], [4.0]], [1.0, 2.0, 0.0, 0.5], 4.25, [1.0, 8.0, 0.0, 8.0]),
        ([[1.0], [2.0], [3.0], [4.0]], [[1.0], [2.0], [0.0], [0.5]], 4.25, [[1.0], [8.0], [0.0], [8.0]]),
    ],
)
def test_a_mean_divides_by_the_number_of_weighted_losses(
    labels: Any, weights: Any, mean: float, unreduced: Any
) -> None:
    """The numbers are those of TensorFlow 2.21. The loss of labels without a second axis is one number."""
    y = np.array(labels, np.float32)
    assert float(losses.MeanSquaredError()(y, 2 * y, sample_weight=weights)) == mean
    got = losses.MeanSquaredError(reduction="none")(y, 2 * y, sample_weight=weights)
    assert got.numpy().tolist() == unreduced

"""Programs written for TensorFlow's tape, nearly unchanged: with ``import gtape as tf`` they give the same numbers.

`SNIPPETS` holds the programs: each takes no arguments, prints the text of the original (``tf.print`` to standard
error), and returns its results. `PROGRAMS` runs them with every gradient checked. Small stand-ins replace pseudo-code
of the originals (``model``, ``loss_object``, ``some_tf_ops``).
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable
from typing import Any

import gtape as tf
from gtape.verify.verdicts.collect import collecting
from gtape.verify.verdicts.verdict import Report

__all__ = ["PROGRAMS", "SNIPPETS", "run_checked"]

Results = dict[str, Any]


# ---------------------------------------------------------------- stand-ins


class _Model:
    """One layer with softmax; the programs use only ``model(x)`` and ``model.trainable_variables``."""

    def __init__(self, rows: int, columns: int) -> None:
        self.kernel = tf.Variable([[0.25 * (i - j) + 0.1 for j in range(columns)] for i in range(rows)])
        self.bias = tf.Variable([0.0] * columns)

    @property
    def trainable_variables(self) -> list[Any]:
        return [self.kernel, self.bias]

    def __call__(self, x: Any) -> Any:
        return tf.nn.softmax(tf.matmul(x, self.kernel) + self.bias)


def _cross_entropy(labels: Any, predictions: Any) -> Any:
    return -tf.reduce_mean(tf.reduce_sum(labels * tf.math.log(predictions), axis=-1))


def _images_and_labels() -> tuple[Any, Any]:
    return tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), tf.constant([[1.0, 0.0], [0.0, 1.0]])


# ---------------------------------------------------------------- the loss inside, the gradient outside


def linear_model() -> Results:
    """Fit a line in 500 steps."""
    x_train = tf.constant([0.0, 0.5, 1.0, 1.5])
    y_train = tf.constant([1.0, 2.0, 3.0, 4.0])

    m = tf.Variable(0.0)
    b = tf.Variable(0.0)

    def predict_y_value(x: Any) -> Any:
        y = m * x + b
        return y

    def squared_error(y_pred: Any, y_true: Any) -> Any:
        return tf.reduce_mean(tf.square(y_pred - y_true))

    learning_rate = 0.05
    steps = 500
    for _i in range(steps):
        with tf.GradientTape() as tape:
            predictions = predict_y_value(x_train)
            loss = squared_error(predictions, y_train)
        gradients = tape.gradient(loss, [m, b])
        m.assign_sub(gradients[0] * learning_rate)
        b.assign_sub(gradients[1] * learning_rate)
    return {"text": "m: %f, b: %f" % (m.numpy(), b.numpy())}  # noqa: UP031 - as in the original


def two_models() -> Results:
    """Two models in sequence; ops outside the blocks take no part in the gradients."""
    model, another_model = _Model(3, 2), _Model(2, 2)
    before = [v.numpy() for v in model.trainable_variables]
    optimizer = tf.keras.optimizers.SGD(0.1)
    compute_loss = _cross_entropy
    get_training_batch = _images_and_labels

    def some_tf_ops(x: Any) -> Any:
        return tf.tanh(x / 4.0)

    def process(pred: Any) -> Any:
        return tf.square(pred), labels

    inputs, labels = get_training_batch()
    inputs_preprocessed = some_tf_ops(inputs)
    with tf.GradientTape() as tape:
        pred = model(inputs_preprocessed)
        loss = compute_loss(labels, pred)

    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))

    # For example, let's attach a model that takes the above model's output as input
    next_step_inputs, next_step_labels = process(pred)

    with tf.GradientTape(persistent=True) as tape:
        pred = another_model(next_step_inputs)
        another_loss = compute_loss(next_step_labels, pred)

    grads = tape.gradient(another_loss, another_model.trainable_variables)
    optimizer.apply_gradients(zip(grads, another_model.trainable_variables, strict=True))
    return {
        "before": before,
        "after": [v.numpy() for v in model.trainable_variables],
        "grads": grads,
        "of the first model": tape.gradient(another_loss, model.trainable_variables),
    }


def another_tape() -> Results:
    """A second tape records only the ops inside its own block."""
    v = tf.Variable(3.0)

    def loss_fn() -> Any:
        return v * v

    def other_loss_fn() -> Any:
        return 5.0 * v

    with tf.GradientTape() as t:
        loss = loss_fn()
    with tf.GradientTape() as t:
        loss += other_loss_fn()
    return {"loss": loss, "gradient": t.gradient(loss, v)}  # Only differentiates other_loss_fn, not loss_fn


def reset() -> Results:
    """`another_tape` with ``reset``."""
    v = tf.Variable(3.0)

    def loss_fn() -> Any:
        return v * v

    def other_loss_fn() -> Any:
        return 5.0 * v

    with tf.GradientTape() as t:
        loss = loss_fn()
        t.reset()
        loss += other_loss_fn()
    return {"loss": loss, "gradient": t.gradient(loss, v)}  # Only differentiates other_loss_fn, not loss_fn


# ---------------------------------------------------------------- watch, nesting, persistent


def square() -> Results:
    """y = x² at 3."""
    x = tf.constant(3.0)
    with tf.GradientTape() as g:
        g.watch(x)
        y = x * x
    dy_dx = g.gradient(y, x)  # Will compute to 6.0
    return {"dy_dx": dy_dx}


def second_derivative_as_printed() -> Results:
    """Nested tapes as printed, with the inner block after the outer block instead of inside it, so the outer tape
    records nothing.
    """
    x = tf.constant(3.0)
    with tf.GradientTape() as g:
        g.watch(x)

    with tf.GradientTape() as gg:
        gg.watch(x)
        y = x * x
    dy_dx = gg.gradient(y, x)  # y' = 2*x = 2*3 = 6
    d2y_dx2 = g.gradient(dy_dx, x)
    return {"dy_dx": dy_dx, "d2y_dx2": d2y_dx2}


def second_derivative() -> Results:
    """`second_derivative_as_printed`, properly nested."""
    x = tf.constant(3.0)
    with tf.GradientTape() as g:
        g.watch(x)
        with tf.GradientTape() as gg:
            gg.watch(x)
            y = x * x
        dy_dx = gg.gradient(y, x)  # y' = 2*x = 2*3 = 6
    d2y_dx2 = g.gradient(dy_dx, x)  # y'' = 2
    return {"dy_dx": dy_dx, "d2y_dx2": d2y_dx2}


def persistent() -> Results:
    """Two gradients of one tape."""
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as g:
        g.watch(x)
        y = x * x
        z = y * y
    dz_dx = g.gradient(z, x)  # z = y^2 = x^4, z' = 4*x^3 = 4*3^3
    dy_dx = g.gradient(y, x)  # y' = 2*x = 2*3 = 6
    del g
    return {"dz_dx": dz_dx, "dy_dx": dy_dx}


def trainable_variables() -> Results:
    """Usual training code: the tape watches the variables of a model automatically."""
    model, loss_object = _Model(3, 2), _cross_entropy
    images, labels = _images_and_labels()
    with tf.GradientTape() as tape:
        predictions = model(images)
        loss = loss_object(labels, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    return {"gradients": gradients, "predictions": predictions, "images": images, "labels": labels}


# ---------------------------------------------------------------- the record of a block


def power() -> Results:
    """An operator inside the block is recorded."""
    x = tf.Variable(3.0)

    with tf.GradientTape() as tape:
        y = x**2
    return {"gradient": tape.gradient(y, x)}


def watch_accessed_variables() -> Results:
    """A tape without automatic watching follows only watched tensors."""
    x = tf.Variable(2.0)
    w = tf.Variable(5.0)
    with tf.GradientTape(watch_accessed_variables=False, persistent=True) as tape:
        tape.watch(x)
        y = x**2  # Gradients will be available for `x`.
        z = w**3  # No gradients will be available as `w` isn't being watched.
    dy_dx = tape.gradient(y, x)

    # No gradients will be available as `w` isn't being watched.
    dz_dw = tape.gradient(z, w)
    return {"dy_dx": dy_dx, "dz_dw": dz_dw, "text": f"{dy_dx!s}\n{dz_dw!s}"}


# ---------------------------------------------------------------- several targets


def several_targets() -> Results:
    """The gradient of a list of targets is the gradient of their sum: [dy1/dx1 + dy2/dx1, dy1/dx2 + dy2/dx2]."""
    x1, x2 = tf.Variable(2.0), tf.Variable(5.0)
    with tf.GradientTape(persistent=True) as tape:
        y1 = x1 * x2
        y2 = x1 * x1 + 3.0 * x2
    target = [y1, y2]
    sources = [x1, x2]
    return {
        "together": tape.gradient(target, sources),
        "y1": tape.gradient(y1, sources),
        "y2": tape.gradient(y2, sources),
    }


def reduced_loss() -> Results:
    """Losses of two samples against their mean: reduced_grads == 0.5 * grads."""
    w, b = tf.Variable(0.5), tf.Variable(-0.25)
    x, labels = tf.constant([1.0, 2.0]), tf.constant([0.0, 1.0])
    with tf.GradientTape(persistent=True) as tape:
        xentropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=w * x + b)  # [y1, y2]
        reduced_xentropy = 0.5 * (xentropy[0] + xentropy[1])
    grads = tape.gradient(xentropy, [w, b])
    reduced_grads = tape.gradient(reduced_xentropy, [w, b])
    return {"grads": grads, "reduced_grads": reduced_grads}


# ---------------------------------------------------------------- output_gradients


def output_gradients() -> Results:
    """Weights on the targets: by ``minimize(grad_loss=...)``, for a chain rule by hand, to reverse a direction."""
    optimizer = tf.keras.optimizers.SGD(1.0)
    w: Any = [tf.Variable([0.0, 0.1]), tf.Variable([0.0, 0.2])]
    x = 2.0
    with tf.GradientTape(persistent=True) as tape:
        y = x * (w[0] + w[1])
    tf.print(y)  # [0 0.6]
    grads = tape.gradient(y, w)
    tf.print(grads)  # [[2 2], [2 2]]
    optimizer.minimize(y, w, grad_loss=[tf.constant([1.0, 2.0]), tf.constant([2.0, 2.0])], tape=tape)
    tf.print(w)  # [[-2 -3.9], [-2 -3.8]]

    w = tf.Variable([1.0, 0.0])
    x = 2.0
    with tf.GradientTape() as tape:
        y = x * w
    optimizer.minimize(y, w, grad_loss=tf.constant([2.0, 5.0]), tape=tape)
    tf.print(w)  # [-3 -10]

    w = [tf.Variable([0.0, 0.1]), tf.Variable([0.0, 0.2])]
    x = 2.0
    with tf.GradientTape(persistent=True) as tape:
        y = tf.reduce_mean(x * (w[0] + w[1]))
        y2 = 7.0 * y
    grads = tape.gradient(y2, w)
    tf.print(grads)  # [[7 7], [7 7]]
    grads = tape.gradient(y, w, output_gradients=tape.gradient(y2, y))  # the chain rule by hand
    tf.print(grads)  # [[7 7], [7 7]]
    again = tape.gradient(y2, w, output_gradients=tf.constant([-1.0]))  # in place of -1.0
    output_gradients = -1.0
    grads = tape.gradient(y2, w, output_gradients=output_gradients)  # turned round by hand
    tf.print(grads)  # [[-7 -7], [-7 -7]]
    return {"again": again}


# ---------------------------------------------------------------- all of them

SNIPPETS: dict[str, Callable[[], Results]] = {
    f.__name__: f
    for f in (
        linear_model, two_models, another_tape, reset, square, second_derivative_as_printed, second_derivative,
        persistent, trainable_variables, power, watch_accessed_variables, several_targets, reduced_loss,
        output_gradients,
    )
}  # fmt: skip


def run_checked(snippet: Callable[[], Results]) -> Report:
    """Run one program with every gradient checked; an undecided gradient is a failure, too.

    Parameters
    ----------
    snippet : callable
        Takes no arguments.

    Returns
    -------
    Report
        ``checked`` counts compared numbers, ``coverage["gradients"]`` calls of `gradient`; findings hold the faults.
    """
    quiet = contextlib.redirect_stderr(io.StringIO())
    # The error is suppressed, because the report holds its findings.
    with collecting() as report, contextlib.suppress(tf.VerificationError), tf.verifying("strict"), quiet:
        snippet()
    return report


PROGRAMS: dict[str, Callable[[], Report]] = {name: functools.partial(run_checked, f) for name, f in SNIPPETS.items()}

"""The flag in places that are easily forgotten: function, masks of -inf, recomputed functions under two tapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check
from gtape.verify.programs.mutants import planted, scaled
from gtape.verify.verdicts.collect import collecting

X = tf.constant(np.array([0.3, 0.7]))


@tf.function
def by_gradients(x: Any) -> Any:
    return tf.gradients(tf.sin(x) * x, x)[0]


@tf.function
def by_hessians(x: Any) -> Any:
    return tf.hessians(tf.reduce_sum(tf.sin(x) * x), x)[0]


@tf.function
def by_gradients_of_gradients(x: Any) -> Any:
    first = tf.gradients(tf.reduce_sum(tf.sin(x) * x[::-1]), x)[0]
    return tf.gradients(first, x, grad_ys=tf.ones_like(x))[0]


@tf.function
def with_stops(x: Any) -> Any:
    b = 2.0 * tf.sin(x)
    return tf.gradients(x * b, [x, b], stop_gradients=[x, b])


def masked(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        scores = tf.stack([tf.sin(x), x * x, x], axis=1) + tf.constant([0.0, 0.0, -np.inf], tf.float64)
        y = tf.nn.softmax(scores)[:, 0] * x
    return tape.gradient(y, x)


def recomputed_twice(x: Any) -> Any:
    f = tf.recompute_grad(lambda v: tf.sin(v) * v)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        g = tape.gradient(y, x)
    return outer.gradient(g, x)


def slopes_that_vanish(x: Any) -> Any:
    """Enclosures of the cotangents that are zero say nothing of the ops there: others still tell whose fault it is."""
    a = tf.stack([x, x * x, 1.0 - x])
    with tf.GradientTape() as outer:
        outer.watch(a)
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = tf.linalg.pinv(a)
        loss = tf.reduce_sum(tf.sin(tape.gradient(y, a)))
    return outer.gradient(loss, a)


PROGRAMS: list[Callable[[Any], Any]] = [
    by_gradients, by_hessians, by_gradients_of_gradients, with_stops, masked, recomputed_twice,
    slopes_that_vanish,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=[getattr(p, "name", getattr(p, "__name__", "")) for p in PROGRAMS])
def test_the_flag_checks_it_and_names_the_op_of_a_fault(program: Callable[[Any], Any]) -> None:
    with collecting() as report, tf.verifying("strict"):
        program(X)
    assert report.ok and report.checked
    if program is with_stops:  # the way to sin is cut
        return
    with planted("sin", 0, scaled(1.001)), tf.verifying(), pytest.raises(tf.VerificationError) as error:
        program(X)
    assert "sin" in {f.op for f in error.value.report.findings if not f.ok}


@pytest.mark.parametrize("a", [1, 2])
def test_a_fault_of_where_is_found_where_the_other_branch_is_not_defined(a: int) -> None:
    def gradient() -> Any:
        x = tf.constant([-0.5, 0.7, -1.5, 1.2])
        with tf.GradientTape(verify=True) as tape:
            tape.watch(x)
            y = tf.where(x > 0.2, tf.math.log(x), x)
        return tape.gradient(y, x)

    gradient()
    with planted("where", a, scaled(1 + 1e-6), worlds="floats"), pytest.raises(tf.VerificationError, match="where"):
        gradient()


_OF_MATRICES: dict[str, Any] = {
    "inv": tf.linalg.inv,
    "det": tf.linalg.det,
    "expm": tf.linalg.expm,
    "pinv": tf.linalg.pinv,
    "cholesky": tf.linalg.cholesky,
    "solve": lambda a: tf.linalg.solve(a, a),
    "triangular_solve": lambda a: tf.linalg.triangular_solve(a, a),
    "eigvalsh": tf.linalg.eigvalsh,
    "svd": lambda a: tf.linalg.svd(a)[0],
    "lu": lambda a: tf.linalg.lu(a)[0],
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("f", _OF_MATRICES.values(), ids=_OF_MATRICES.keys())
def test_a_batch_without_matrices_has_a_derivative_without_elements(f: Any, order: int) -> None:
    report = check(f, np.zeros((0, 2, 2)), order=order)
    assert (report.ok, report.verdict) == (True, "correct"), report

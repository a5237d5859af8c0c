"""Under the flag, tangents at kinks are compared with the derivatives of the whole function along their direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf

F = Callable[[Any], Any]

# Linear through ties between elements of one primal: (function, its gradient).
LINEAR: dict[str, tuple[F, list[float]]] = {
    "maximum and minimum": (lambda x: tf.maximum(x[0], x[1]) + tf.minimum(x[0], x[1]), [1.0, 1.0]),
    "two hinges": (lambda x: tf.nn.relu(x[0] - x[1]) - tf.nn.relu(x[1] - x[0]), [1.0, -1.0]),
    "greatest and minimum": (lambda x: tf.reduce_max(x) + tf.minimum(x[0], x[1]), [1.0, 1.0]),
    "halves of abs": (lambda x: tf.abs(x[0] - x[1]) / 2.0 + tf.minimum(x[0], x[1]), [0.5, 0.5]),
    "parts of complex numbers": (
        lambda x: tf.math.real(tf.complex(tf.maximum(x[0], x[1]), x[0])) + tf.minimum(x[0], x[1]), [1.0, 1.0],
    ),
}  # fmt: skip
WAYS = [[1.0, -1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 1.0], [-3.0, 0.5]]


def tangent(f: F, at: Any, along: Any) -> Any:
    x = tf.constant(at)
    with tf.verifying("strict"), tf.autodiff.ForwardAccumulator(x, tf.constant(along, x.dtype)) as accumulator:
        y = f(x)
    return accumulator.jvp(y).numpy()


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("along", WAYS)
def test_a_tangent_at_a_tie_of_one_primal_passes_only_if_the_whole_function_has_it(
    name: str, along: list[float]
) -> None:
    f, gradient = LINEAR[name]
    right = float(np.dot(gradient, along))
    try:
        found = tangent(f, np.ones(2), along)
    except tf.VerificationError as error:
        assert [finding.verdict for finding in error.report.findings if not finding.ok] == ["convention"]
    else:
        np.testing.assert_allclose(found, right, rtol=1e-15)


# (function, point, direction), where the tangent lies between those on all sides.
BETWEEN: dict[str, tuple[F, Any, Any]] = {
    "maximum": (lambda x: tf.maximum(x[0], x[1]), np.ones(2), [1.0, 0.0]),
    "greatest of three": (lambda x: tf.reduce_max(x), np.ones(3), [1.0, -2.0, 5.0]),
    "middle of five": (lambda x: tf.sort(x)[2], np.ones(5), [1.0, 2.0, 3.0, 4.0, 50.0]),
    "norm": (lambda x: tf.norm(x), np.zeros(2), [3.0, 4.0]),
    "hinge of a difference, along the tie": (lambda x: tf.nn.relu(x[0] - x[1]), np.ones(2), [1.0, 1.0]),
    "abs of a complex number": (tf.abs, np.array(0j), 1.0 - 2.0j),
    "complex result": (lambda x: tf.complex(tf.nn.relu(x), tf.abs(x)), np.array(0.0), 1.0),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_a_tangent_between_those_on_all_sides_is_a_convention(name: str) -> None:
    f, at, along = BETWEEN[name]
    assert np.isfinite(tangent(f, at, along))


@pytest.mark.parametrize("unit", [1.0, 1.0j])
def test_a_tangent_of_a_complex_result_is_compared_in_both_parts(unit: complex) -> None:
    def f(x: Any) -> Any:
        smooth = tf.maximum(x[0], x[1]) + tf.minimum(x[0], x[1])
        return tf.cast(smooth, tf.complex128) * unit

    with pytest.raises(tf.VerificationError, match="all one-sided derivatives agree"):
        tangent(f, np.ones(2), [1.0, -1.0])

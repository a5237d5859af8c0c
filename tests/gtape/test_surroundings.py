"""What scripts and test suites ask of TensorFlow besides ops: a logger, devices, a test case that compares tensors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf


def test_the_logger_is_the_one_that_remarks_go_to(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gtape.tapes import tape as module

    assert tf.get_logger() is logging.getLogger("gtape")
    monkeypatch.setattr(module._dtype_warning, "count", 0)  # it is said a few times only
    with caplog.at_level(logging.WARNING, "gtape"), tf.GradientTape() as tape:
        tape.watch(tf.constant(1))
    assert [r.name for r in caplog.records] == ["gtape"] and "must be floating" in caplog.text


def test_scopes_and_functions_are_known() -> None:
    assert tf.get_current_name_scope() == "" and not tf.inside_function()
    with tf.name_scope("a"), tf.name_scope("b"):
        assert tf.get_current_name_scope() == "a/b"
    assert not tf.test.is_gpu_available() and tf.test.gpu_device_name() == "" and not tf.test.is_built_with_cuda()


def case() -> Any:
    return tf.test.TestCase()


@pytest.mark.parametrize(
    "check",
    [
        lambda: case().assertAllClose([1.0, 2.0], tf.constant([1.0, 2.0])),
        lambda: case().assertAllClose({"a": tf.constant(1.0)}, {"a": 1.0 + 1e-8}),
        lambda: case().assertAllClose(tf.constant(1.0, "float16"), 1.0005),
        lambda: case().assertNotAllClose(tf.constant([1.0, 2.0]), [1.0, 2.1]),
        lambda: case().assertAllEqual(tf.constant([1, 2]), [1, 2]),
        lambda: case().assertAllEqual([tf.constant([1]), tf.constant(2)], [np.array([1]), np.array(2)]),
        lambda: case().assertNotAllEqual(tf.constant([1, 2]), [1, 3]),
        lambda: case().assertAllFinite(tf.constant([1.0])),
        lambda: case().assertAllInRange(tf.Variable([0.0, 1.0]), 0, 1),
        lambda: case().assertNear(tf.constant(1.0), 1.1, 0.2),
        lambda: case().assertShapeEqual(np.zeros((2, 3)), tf.zeros([2, 3])),
        lambda: case().assertDTypeEqual(tf.zeros([2]), tf.float32),
    ],
)
def test_a_test_case_passes_what_holds(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize(
    "check",
    [
        lambda: case().assertAllClose([1.0, 2.0], tf.constant([1.0, 2.1])),
        lambda: case().assertNotAllClose(tf.constant([1.0, 2.0]), [1.0, 2.0]),
        lambda: case().assertAllEqual(tf.constant([1, 2]), [1, 3]),
        lambda: case().assertNotAllEqual(tf.constant([1, 2]), [1, 2]),
        lambda: case().assertAllFinite(tf.constant([float("inf")])),
        lambda: case().assertAllInRange(tf.constant([0.0, 1.0]), 0, 1, open_upper_bound=True),
        lambda: case().assertNear(1.0, 1.3, 0.2),
        lambda: case().assertShapeEqual(np.zeros((2, 3)), tf.zeros([3, 2])),
        lambda: case().assertDTypeEqual(tf.zeros([2]), tf.float64),
    ],
)
def test_a_test_case_fails_what_does_not(check: Callable[[], None]) -> None:
    with pytest.raises(AssertionError):
        check()

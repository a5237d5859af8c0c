"""Errors keep TensorFlow's classes, attributes and constructor, and say what to do instead."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest

import gtape as tf
from gtape import errors
from gtape.tensors.absent import INSTEAD


def test_invalid_argument_is_no_value_error() -> None:
    assert issubclass(errors.InvalidArgumentError, errors.OpError)
    assert errors.OpError.__bases__ == (Exception,)
    assert not issubclass(errors.InvalidArgumentError, ValueError)


OP_ERRORS = [n for n in errors.__all__ if n.endswith("Error") and issubclass(getattr(errors, n), errors.OpError)]


@pytest.mark.parametrize("name", OP_ERRORS)
def test_every_op_error_carries_its_message(name: str) -> None:
    cls = getattr(errors, name)
    assert cls("what was wrong").message == "what was wrong"
    assert str(cls("what was wrong")) == "what was wrong"
    theirs = cls("node", "op", "what was wrong")
    assert (theirs.node_def, theirs.op, theirs.message, str(theirs)) == (
        "node",
        "op",
        "what was wrong",
        "what was wrong",
    )
    assert pickle.loads(pickle.dumps(theirs)).message == "what was wrong"


def test_error_codes_are_those_of_tensorflow() -> None:
    assert errors.InvalidArgumentError("").error_code == 3
    assert errors.OpError(None, None, "", 7).error_code == 7
    numbers = {n: getattr(errors, n) for n in errors.__all__ if n.isupper()}
    assert sorted(numbers.values()) == list(range(17)) and numbers["INVALID_ARGUMENT"] == 3
    for constant, number in numbers.items():
        name = constant.title().replace("_", "") + "Error"
        assert constant == "OK" or getattr(errors, name)("").error_code == number
    assert errors.InvalidArgumentError("").experimental_payloads == {}


def test_verification_error_keeps_its_report() -> None:
    error = errors.VerificationError("wrong", report=["finding"])
    assert isinstance(error, AssertionError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.report) == ("wrong", ["finding"])
    assert errors.VerificationError("wrong").report is None


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_what_arrays_have_and_tensors_have_not_names_what_to_write(name: str) -> None:
    for x in (tf.constant([1.0, 2.0]), tf.Variable([1.0, 2.0])):
        with pytest.raises(AttributeError, match=rf"'{type(x).__name__}' object has no attribute '{name}'; instead: "):
            getattr(x, name)
        assert not hasattr(x, name) and name not in dir(x)


def test_what_is_named_instead_is_there() -> None:
    for text in INSTEAD.values():
        for path in re.findall(r"gtape(?:\.\w+)+", text):
            found: Any = tf
            for part in path.split(".")[1:]:
                found = getattr(found, part)
            assert callable(found)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda: tf.ones([2, 3]) + tf.ones([4]),
            tf.errors.InvalidArgumentError,
            r"\[2, 3\].*\[4\].*from the last axis",
        ),
        (
            lambda: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3])),
            tf.errors.InvalidArgumentError,
            "3 columns.*2 rows.*trans",
        ),
        (lambda: tf.broadcast_to(tf.ones([3]), [2]), tf.errors.InvalidArgumentError, r"\(3,\) does not fit \[2\]"),
        (lambda: tf.broadcast_to(tf.ones([3, 1]), [3]), tf.errors.InvalidArgumentError, "does not fit"),
        (lambda: tf.zeros([2.0]), TypeError, "whole number.*2.0"),
        (lambda: tf.eye(-1), tf.errors.InvalidArgumentError, "not negative"),
        (lambda: tf.while_loop(lambda i: i < 3, lambda i: None, [0]), ValueError, "returned nothing"),
        (lambda: tf.keras.optimizers.SGD("0.1"), ValueError, "learning_rate='0.1'"),
        (lambda: tf.keras.optimizers.Adam(lr=0.1), ValueError, "write learning_rate"),
        (lambda: tf.Variable(1.0).assign_sub(None), ValueError, "tape.explain"),
        (lambda: tf.symbolic.trace(lambda x: 3.0, 1.0), TypeError, "returned float"),
        (
            lambda: tf.keras.optimizers.SGD().apply_gradients([tf.constant([1.0, 2.0])]),
            ValueError,
            r"pairs: zip\(gradients, variables\)",
        ),
        (
            lambda: tf.keras.optimizers.SGD().apply_gradients([(tf.Variable(1.0), tf.constant(1.0))]),
            TypeError,
            "gradient comes first",
        ),
    ],
    ids=[
        "add",
        "matmul",
        "broadcast_to",
        "to fewer axes",
        "zeros",
        "eye",
        "while_loop",
        "a rate of text",
        "another name",
        "None",
        "no tensor",
        "no zip",
        "the other way round",
    ],
)
def test_errors_say_what_to_do(call: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize("call", [lambda: tf.sin(1), lambda: tf.constant(1) * 1.5, lambda: tf.constant(1.0) + "a"])
def test_errors_about_operands_have_one_traceback(call: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        call()
    assert caught.value.__suppress_context__ and caught.value.__cause__ is None

"""Errors keep TensorFlow's classes, attributes and constructor."""

from __future__ import annotations

import pickle

import pytest

from gtape import errors


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

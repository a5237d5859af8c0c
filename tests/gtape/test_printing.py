"""Text of tensors and variables, and `print`: as TensorFlow writes them."""

from __future__ import annotations

import io
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtape.base import printing
from gtape.dtypes import as_dtype


class Fake:
    """Something with a value, as printing knows tensors and variables."""

    def __init__(self, value: Any, dtype: Any = np.float32) -> None:
        array = np.asarray(value, dtype)
        self.value = array[()]
        self.dtype = as_dtype(array.dtype)

    def numpy(self) -> Any:
        return self.value


def printed(*inputs: Any, **options: Any) -> str:
    stream = io.StringIO()
    printing.print_v2(*inputs, output_stream=stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        (np.float32(6), "shape=(), dtype=float32, numpy=6.0"),
        (np.array(6, np.float32), "shape=(), dtype=float32, numpy=6.0"),
        (np.int32(3), "shape=(), dtype=int32, numpy=3"),
        (np.bool_(True), "shape=(), dtype=bool, numpy=True"),
        (np.complex128(1 + 2j), "shape=(), dtype=complex128, numpy=(1+2j)"),
        (np.array([1, 2], np.float32), "shape=(2,), dtype=float32, numpy=array([1., 2.], dtype=float32)"),
        (np.zeros((0, 2)), "shape=(0, 2), dtype=float64, numpy=array([], shape=(0, 2), dtype=float64)"),
        (np.eye(2), "shape=(2, 2), dtype=float64, numpy=\narray([[1., 0.],\n       [0., 1.]])"),
    ],
)
def test_repr_of_a_tensor(value: Any, inside: str) -> None:
    assert printing.tensor_repr(value, as_dtype(value.dtype).name) == f"<gtape.Tensor: {inside}>"


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        (np.float32(6), "6.0, shape=(), dtype=float32"),
        (np.array([1, 2], np.int32), "[1 2], shape=(2,), dtype=int32"),
        (np.array([[1, 2]], np.int32), "[[1 2]], shape=(1, 2), dtype=int32"),
        (np.eye(2), "\n[[1. 0.]\n [0. 1.]], shape=(2, 2), dtype=float64"),
    ],
)
def test_str_of_a_tensor(value: Any, inside: str) -> None:
    assert printing.tensor_str(value, as_dtype(value.dtype).name) == f"gtape.Tensor({inside})"


def test_repr_of_a_variable() -> None:
    value = np.array([1, 2], np.float32)
    text = "<gtape.Variable 'w:0' shape=(2,) dtype=float32, numpy=array([1., 2.], dtype=float32)>"
    assert printing.variable_repr("w:0", value) == printing.variable_repr("w:0", value, "float32") == text
    assert "numpy=\narray([[1., 0.]" in printing.variable_repr("w:0", np.eye(2))
    assert printing.variable_repr("w:0", np.float64(1)) == "<gtape.Variable 'w:0' shape=() dtype=float64, numpy=1.0>"


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        ([0, 0.6], "f4", "[0 0.6]"),
        (1 / 3, "f4", "0.333333343"),
        (1 / 3, "f8", "0.33333333333333331"),
        (0.1, "f8", "0.1"),
        (0.1, "f2", "0.0999755859"),
        (-0.0, "f4", "-0"),
        (1e30, "f4", "1e+30"),
        (1e-300, "f8", "1e-300"),
        (3.4028234663852886e38, "f4", "3.40282347e+38"),
        ([np.nan, np.inf, -np.inf], "f4", "[nan inf -inf]"),
        (16777216, "f4", "16777216"),
        ([1, -2], "i4", "[1 -2]"),
        ([True, False], "?", "[1 0]"),
        (1 - 2.5j, "c16", "(1-2.5j)"),
        (["a", "b"], "O", '["a" "b"]'),
        ([], "f4", "[]"),
        ([[], []], "f4", "[[]\n []]"),
        ([[1, 2], [3, 4]], "f4", "[[1 2]\n [3 4]]"),
        (np.arange(8).reshape(2, 2, 2), "i4", "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]"),
    ],
)
def test_values(value: Any, dtype: str, text: str) -> None:
    assert printing.format_value(np.asarray(value, dtype)) == text


@given(st.floats(width=32, allow_nan=False))
def test_printed_float32_reads_back(x: float) -> None:
    assert np.float32(float(printing.format_value(np.float32(x)))) == np.float32(x)


@given(st.floats(allow_nan=False))
def test_printed_float64_reads_back(x: float) -> None:
    assert float(printing.format_value(np.float64(x))) == x


@pytest.mark.parametrize(
    ("summarize", "text"),
    [
        (3, "[0 1 2 ... 7 8 9]"),
        (None, "[0 1 2 ... 7 8 9]"),
        (1, "[0 ... 9]"),
        (5, "[0 1 2 3 4 5 6 7 8 9]"),
        (-1, "[0 1 2 3 4 5 6 7 8 9]"),
        (0, "[...]"),
    ],
)
def test_summarize(summarize: int | None, text: str) -> None:
    assert printed(Fake(range(10), int), summarize=summarize) == text + "\n"


def test_summarize_cuts_every_axis() -> None:
    got = printed(Fake(np.arange(64).reshape(8, 8), int), summarize=1)
    assert got == "[[0 ... 7]\n ...\n [56 ... 63]]\n"


def test_structures_keep_their_brackets() -> None:
    w = [Fake([-2, -3.9]), Fake([-2, -3.8])]
    assert printed(w) == "[[-2 -3.9], [-2 -3.8]]\n"
    assert printed({"b": Fake(1), "a": (Fake(2), None, "s")}) == "{'a': (2, None, 's'), 'b': 1}\n"
    pairs = OrderedDict([("a", 2), ("b", 1)])
    assert printed(OrderedDict([("b", Fake(1)), ("a", Fake(2))])) == f"{pairs}\n"  # as this Python shows it


def test_several_inputs() -> None:
    assert printed("x =", Fake(1), 2.5, None, [1, "a"]) == "x = 1 2.5 None [1, 'a']\n"
    assert printed("a", Fake(1), sep="|", end="!") == "a|1!"
    assert printed() == "\n"


def test_text_that_looks_like_a_placeholder_stays() -> None:
    assert printed("{}", Fake(1), "{0}", [Fake(2), "{}"], sep="{1}") == "{}{1}1{1}{0}{1}[2, '{}']\n"


def test_a_lone_string_has_no_quotes() -> None:
    assert printed(Fake("hello", object)) == "hello\n"


def test_streams(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    printing.print_v2(Fake(1))
    assert capsys.readouterr() == ("", "1\n")
    printing.print_v2(Fake(1), output_stream=sys.stdout)
    assert capsys.readouterr() == ("1\n", "")
    path = tmp_path / "log"
    for i in range(2):
        printing.print_v2(Fake(i), output_stream=f"file://{path}")
    assert path.read_text(encoding="utf-8") == "0\n1\n"


@pytest.mark.parametrize("options", [{"output_stream": "log"}, {"output_stream": 3}, {"summarize": -2}])
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Unknown output stream|summarize"):
        printing.print_v2("x", **options)

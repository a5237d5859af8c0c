"""Element types: names, equality and limits."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from gtape import dtypes

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMERIC = [*FLOATS, *INTEGERS, "complex64", "complex128", "bool"]
ALL = [*NUMERIC, "string"]


@pytest.mark.parametrize("name", ALL)
def test_each_type_is_found_by_every_name(name: str) -> None:
    dtype = getattr(dtypes, name)
    assert dtype.name == name
    assert repr(dtype) == f"gtape.{name}"
    assert str(dtype) == f"<dtype: '{name}'>"
    for spelling in (dtype, name, dtype.as_numpy_dtype, dtype.dtype):
        assert dtypes.as_dtype(spelling) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert {dtype: 1}[dtypes.as_dtype(name)] == 1


@pytest.mark.parametrize("name", NUMERIC)
def test_each_type_equals_its_numpy_type(name: str) -> None:
    dtype = getattr(dtypes, name)
    numpy_type = np.dtype(name)
    assert dtype == numpy_type and numpy_type == dtype
    assert dtype == numpy_type.type and dtype == name and name == dtype
    assert dtypes.np_dtype(dtype) == numpy_type
    assert dtype.size == numpy_type.itemsize
    assert np.zeros(1, dtype=dtype).dtype == numpy_type
    kinds = (dtype.is_floating, dtype.is_integer, dtype.is_complex, dtype.is_bool)
    assert kinds == tuple(numpy_type.kind in k for k in ("f", "iu", "c", "b"))


def test_types_differ_from_each_other_and_from_anything_else() -> None:
    assert len({getattr(dtypes, n) for n in ALL}) == len(ALL)
    assert dtypes.float32 != dtypes.float64
    assert dtypes.float32 != "no such type"
    assert dtypes.float32 != 1
    assert (dtypes.float64 == None) is False  # NumPy reads None as float64


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (float, "float32"),
        (int, "int64"),
        (complex, "complex128"),
        (bool, "bool"),
        (str, "string"),
        ("float", "float32"),
        ("double", "float64"),
        ("half", "float16"),
        (">f4", "float32"),
        (np.dtype("U3"), "string"),
        (np.dtype("S3"), "string"),
    ],
)
def test_as_dtype_reads_as_tensorflow_does(value: Any, name: str) -> None:
    assert dtypes.as_dtype(value).name == name


@pytest.mark.parametrize("value", [None, "no such type", 3, [], np.dtype("M8[s]"), np.dtype([("a", "f4")]), {}])
def test_as_dtype_refuses_the_rest(value: Any) -> None:
    with pytest.raises(TypeError, match=r"Cannot convert .* to a gtape DType"):
        dtypes.as_dtype(value)


def test_limits() -> None:
    assert (dtypes.int8.min, dtypes.int8.max) == (-128, 127)
    assert dtypes.float32.max == np.finfo(np.float32).max
    assert dtypes.float64.limits == (np.finfo(float).min, np.finfo(float).max)
    assert dtypes.bool.limits == (False, True)
    for dtype in (dtypes.complex64, dtypes.string):
        with pytest.raises(TypeError, match="no least and greatest value"):
            _ = dtype.min


def test_relatives() -> None:
    assert dtypes.complex64.real_dtype is dtypes.float32
    assert dtypes.complex128.real_dtype is dtypes.float64
    assert dtypes.float16.real_dtype is dtypes.float16.base_dtype is dtypes.float16
    assert dtypes.float32.is_compatible_with("float32") and not dtypes.float32.is_compatible_with(np.float64)
    assert dtypes.uint8.is_unsigned and not dtypes.int8.is_unsigned
    assert dtypes.int8.is_numeric and not dtypes.bool.is_numeric

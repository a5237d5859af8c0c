"""TensorShape compares with tuples and lists and answers TensorFlow's questions."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtape.base.tensor_shape import TensorShape, as_shape

UNKNOWN = TensorShape(None)
sizes = st.lists(st.integers(0, 5), max_size=4)


@given(sizes)
def test_it_is_the_same_shape_whatever_it_is_made_of(dims: list[int]) -> None:
    shape = TensorShape(dims)
    assert shape == dims and dims == shape
    assert shape == tuple(dims) and tuple(dims) == shape
    assert not shape != dims and shape != [*dims, 1]
    assert hash(shape) == hash(tuple(dims))
    assert shape.as_list() == dims and list(shape) == dims
    assert shape.rank == shape.ndims == len(shape) == len(dims)
    assert shape.num_elements() == int(np.prod(dims))
    assert TensorShape(shape) is shape and as_shape(shape) is shape
    assert TensorShape(np.array(dims, np.int64)) == shape
    assert str(shape) == str(tuple(dims))
    assert repr(shape) == f"TensorShape({dims})"
    assert np.zeros(shape).shape == tuple(dims)
    for again in (copy.copy(shape), copy.deepcopy(shape), pickle.loads(pickle.dumps(shape))):
        assert again == shape and type(again) is TensorShape


@given(sizes, sizes)
def test_concatenation(a: list[int], b: list[int]) -> None:
    whole = TensorShape(a + b)
    for got in (
        TensorShape(a) + TensorShape(b),
        TensorShape(a) + b,
        tuple(a) + TensorShape(b),
        TensorShape(a).concatenate(b),
    ):
        assert got == whole and type(got) is TensorShape
    if a:
        assert whole[0] == a[0] and type(whole[0]) is int
    assert whole[: len(a)] == a and type(whole[1:]) is TensorShape


@pytest.mark.parametrize("one", [3, np.int32(3), np.array(3)])
def test_a_number_is_a_shape_of_rank_one(one: Any) -> None:
    assert TensorShape(one) == (3,)


def test_a_scalar_shape_is_true_and_only_the_unknown_is_false() -> None:
    assert TensorShape(())
    assert not UNKNOWN


@pytest.mark.parametrize(
    ("dims", "error"), [([-1], ValueError), ([1.5], TypeError), ("ab", TypeError), (2.0, TypeError)]
)
def test_what_is_no_shape_is_refused(dims: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        TensorShape(dims)
    assert TensorShape([1]) != dims


def test_partly_known_shapes() -> None:
    part = TensorShape([None, 2])
    assert str(part) == "(None, 2)" and repr(part) == "TensorShape([None, 2])"
    assert part.num_elements() is None and not part.is_fully_defined()
    assert part.is_compatible_with([5, 2]) and part.is_compatible_with(None)
    assert not part.is_compatible_with([5, 3]) and not part.is_compatible_with([2])
    assert part.merge_with([3, None]) == [3, 2]
    with pytest.raises(ValueError, match=r"Shape \(None, 2\) is not fully defined"):
        part.assert_is_fully_defined()
    with pytest.raises(ValueError, match=r"Shapes \(None, 2\) and \(3,\) are incompatible"):
        part.assert_is_compatible_with([3])


def test_the_shape_of_unknown_rank() -> None:
    assert TensorShape(None) is TensorShape(UNKNOWN) is UNKNOWN
    assert isinstance(UNKNOWN, TensorShape)
    assert UNKNOWN.rank is None and UNKNOWN.ndims is None and UNKNOWN.num_elements() is None
    assert str(UNKNOWN) == "<unknown>" and repr(UNKNOWN) == "TensorShape(None)"
    assert UNKNOWN == UNKNOWN and UNKNOWN != TensorShape([]) and TensorShape([]) != UNKNOWN and UNKNOWN != ()
    assert TensorShape([1]) + UNKNOWN is UNKNOWN and UNKNOWN + [1] is UNKNOWN
    assert (
        UNKNOWN.is_compatible_with([1, 2])
        and UNKNOWN.merge_with([1]) == [1]
        and TensorShape([1]).merge_with(None) == [1]
    )
    assert UNKNOWN.with_rank(2) == [None, None] and UNKNOWN[0] is None and UNKNOWN[1:] is UNKNOWN
    assert pickle.loads(pickle.dumps(UNKNOWN)) is UNKNOWN and copy.deepcopy(UNKNOWN) is UNKNOWN
    for ask in (len, list, TensorShape.as_list):
        with pytest.raises(ValueError, match="unknown"):
            UNKNOWN.as_list() if ask is TensorShape.as_list else ask(UNKNOWN)


def test_ranks() -> None:
    shape = TensorShape([1, 2])
    assert shape.with_rank(2) is shape.with_rank_at_least(1) is shape.with_rank_at_most(2) is shape
    shape.assert_same_rank([3, 4])
    shape.assert_same_rank(None)
    for wrong in (lambda: shape.with_rank(3), lambda: shape.with_rank_at_most(1), lambda: shape.assert_same_rank([1])):
        with pytest.raises(ValueError, match="rank"):
            wrong()
    with pytest.raises(ValueError, match=r"Shape \(2,\) must have rank at least 2"):
        TensorShape([2]).with_rank_at_least(2)

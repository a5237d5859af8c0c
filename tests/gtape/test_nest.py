"""nest walks, rebuilds and compares structures as TensorFlow does."""

from __future__ import annotations

from collections import ChainMap, OrderedDict, defaultdict, namedtuple
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf
from gtape import nest
from gtape.base.tensor_shape import TensorShape

Point = namedtuple("Point", ["y", "x"])
Twin = namedtuple("Point", ["y", "x"])
Other = namedtuple("Other", ["y", "x"])


leaves = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.builds(lambda: TensorShape([1, 2])))
structures = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.builds(Point, inner, inner),
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(structures)
def test_packing_undoes_flattening(structure: Any) -> None:
    flat = nest.flatten(structure)
    assert not any(nest.is_nested(leaf) for leaf in flat)
    again = nest.pack_sequence_as(structure, flat)
    assert again == structure and type(again) is type(structure)
    nest.assert_same_structure(structure, again)
    assert nest.map_structure(lambda x: x, structure) == structure
    assert nest.flatten(nest.map_structure(lambda a, b: (a, b) == (b, a), structure, again)) == [True] * len(flat)


@pytest.mark.parametrize(
    ("structure", "flat"),
    [
        (3, [3]),
        (None, [None]),
        ("abc", ["abc"]),
        (b"abc", [b"abc"]),
        ([], []),
        ([[], (), {}], []),
        ([None, 1], [None, 1]),
        ({"b": 1, "a": 2}, [2, 1]),
        (OrderedDict([("b", 1), ("a", 2)]), [2, 1]),
        (MappingProxyType({"b": 1, "a": 2}), [2, 1]),
        (Point(1, 2), [1, 2]),
        ([1, (2, {"z": [3], "k": Point(4, ())})], [1, 2, 4, 3]),
        (range(3), [0, 1, 2]),
        ({"b": 1, "a": 2}.values(), [1, 2]),
        ({1, 2}, [{1, 2}]),
        (TensorShape([1, 2]), [TensorShape([1, 2])]),
    ],
)
def test_flatten(structure: Any, flat: list[Any]) -> None:
    assert nest.flatten(structure) == flat


def test_flatten_returns_a_new_list() -> None:
    given_list = [1, 2]
    assert nest.flatten(given_list) is not given_list


def test_arrays_are_leaves() -> None:
    array = np.arange(3)
    (leaf,) = nest.flatten(array)
    assert leaf is array
    assert [type(x) for x in nest.flatten([array, 1.0])] == [np.ndarray, float]


@pytest.mark.parametrize("leaf", [1, None, "a", b"a", np.zeros(2), {1}, TensorShape([1]), object()])
def test_leaves_are_not_nested(leaf: Any) -> None:
    assert not nest.is_nested(leaf)


def test_rebuilding_keeps_classes_and_the_order_of_keys() -> None:
    mapping = {"b": 0, "a": 0}
    assert list(nest.pack_sequence_as(mapping, [1, 2]).items()) == [("b", 2), ("a", 1)]
    ordered = nest.pack_sequence_as(OrderedDict([("b", 0), ("a", 0)]), [1, 2])
    assert type(ordered) is OrderedDict and list(ordered.items()) == [("b", 2), ("a", 1)]
    chained = nest.map_structure(lambda x: x + 1, ChainMap({"a": 1}, {"b": 2}))
    assert type(chained) is ChainMap and chained == {"a": 2, "b": 3}
    fixed = nest.map_structure(lambda x: x + 1, MappingProxyType({"a": 1}))
    assert type(fixed) is MappingProxyType and fixed == {"a": 2}
    default = nest.map_structure(lambda x: x + 1, defaultdict(list, a=1))
    assert type(default) is defaultdict and default["new"] == []
    assert nest.map_structure(lambda x: x + 1, Point(1, 2)) == Point(2, 3)
    assert nest.map_structure(lambda x: x + 1, range(3)) == [1, 2, 3]


def test_composites_are_leaves_unless_asked_for() -> None:
    slices = tf.IndexedSlices([[1.0]], [2], [3, 1])
    assert nest.flatten([slices])[0] is slices
    parts = nest.flatten([slices], expand_composites=True)
    assert all(a is b for a, b in zip(parts, (slices.values, slices.indices, slices.dense_shape), strict=True))
    assert len(nest.flatten(tf.IndexedSlices([[1.0]], [2]), expand_composites=True)) == 2
    (again,) = nest.map_structure(lambda x: x.numpy() + 1, [slices], expand_composites=True)
    assert again.values.numpy() == [[2.0]] and again.indices.numpy() == [3]
    assert again.dense_shape.numpy().tolist() == [4, 2]


def test_keys_that_cannot_be_sorted() -> None:
    with pytest.raises(TypeError, match="nest only supports dicts with sortable keys"):
        nest.flatten({1: 0, "a": 0})


@pytest.mark.parametrize(
    ("structure", "flat", "error"),
    [
        ([1, 2], [1], ValueError),
        ([1, 2], [1, 2, 3], ValueError),
        (1, [1, 2], ValueError),
        ([], [1], ValueError),
        ([1], 1, TypeError),
        ([1], "a", TypeError),
    ],
)
def test_packing_the_wrong_number(structure: Any, flat: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        nest.pack_sequence_as(structure, flat)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1, 2], ["a", None]),
        ({"a": 1}, OrderedDict(a=2)),
        (Point(1, 2), Twin(3, 4)),
        (np.zeros(2), 1),
        ([], []),
    ],
)
def test_same_structures(a: Any, b: Any) -> None:
    nest.assert_same_structure(a, b)


@pytest.mark.parametrize(
    ("a", "b", "error"),
    [
        ([1], 1, ValueError),
        (1, (1,), ValueError),
        ([1, 2], [1], ValueError),
        ([1, [2]], [[1], 2], ValueError),
        ({"a": 1}, {"b": 1}, ValueError),
        ({"a": 1}, {"a": 1, "b": 2}, ValueError),
        ([1], (1,), TypeError),
        ((1, 2), Point(1, 2), TypeError),
        (Point(1, 2), Other(1, 2), TypeError),
        ([1], {"a": 1}, TypeError),
    ],
)
def test_structures_that_differ(a: Any, b: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="The two structures don't have the same nested structure"):
        nest.assert_same_structure(a, b)
    with pytest.raises(error):
        nest.map_structure(lambda x, y: None, a, b)


def test_keys_are_compared_with_the_classes() -> None:
    with pytest.raises(ValueError, match="same set of keys"):
        nest.assert_same_structure({"a": 1}, {"b": 1})
    nest.assert_same_structure({"a": 1}, {"b": 1}, check_types=False)
    with pytest.raises(ValueError, match="elements"):
        nest.assert_same_structure({"a": 1}, {"a": 1, "b": 1}, check_types=False)


def test_the_argument_of_is_nested_has_tensorflows_name() -> None:
    assert nest.is_nested(seq=[1])


def test_classes_may_be_left_out_of_the_comparison() -> None:
    nest.assert_same_structure([1, (2,)], (1, [2]), check_types=False)
    assert nest.map_structure(lambda a, b: a + b, [1, (2,)], (10, [20]), check_types=False) == [11, (22,)]
    with pytest.raises(ValueError, match="don't have the same"):
        nest.assert_same_structure([1], [[1]], check_types=False)


def test_map_structure_checks_its_arguments() -> None:
    with pytest.raises(TypeError, match="`func` must be callable"):
        nest.map_structure(3, [1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one structure"):
        nest.map_structure(lambda: None)


def test_map_structure_over_three() -> None:
    assert nest.map_structure(lambda *x: sum(x), [1, {"a": 2}], [3, {"a": 4}], [5, {"a": 6}]) == [9, {"a": 12}]

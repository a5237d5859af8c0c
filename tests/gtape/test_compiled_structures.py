"""Compiled functions return the structures of eager calls."""

from __future__ import annotations

import collections
import contextlib
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape import nest
from tests.bits import bits


class _Point(NamedTuple):
    x: Any
    y: Any


class _Shifted(_Point):
    def __new__(cls, x: Any, y: Any) -> Any:
        return super().__new__(cls, x, y)


class _List(list):  # type: ignore[type-arg]
    pass


LEAVES = [
    "tensor", "another tensor", "the argument", "the other argument", "a variable", "None", "a number", "text",
    "a constant", "the tensor before",
]  # fmt: skip
KEYS = st.text("ab'\"\\\n{", max_size=2)
STRUCTURES: Any = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.dictionaries(st.integers(-2, 2), inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=2).map(collections.OrderedDict)
        | st.lists(inner, max_size=2).map(_List)
        | st.tuples(inner, inner).map(lambda two: _Point(*two))
        | st.tuples(inner, inner).map(lambda two: _Shifted(*two))
    ),
    max_leaves=8,
)


def _function(structure: Any) -> Any:
    v, c = tf.Variable([1.0, 2.0]), tf.constant(5.0)

    def f(x: Any, y: Any) -> Any:
        before: Any = x

        def leaf(kind: str) -> Any:
            nonlocal before
            if kind == "the tensor before":
                return before
            made = {
                "tensor": lambda: tf.sin(x * len(kind)), "another tensor": lambda: x * y, "the argument": lambda: x,
                "the other argument": lambda: y, "a variable": lambda: v, "None": lambda: None, "a number": lambda: 2,
                "text": lambda: "text", "a constant": lambda: c,
            }[kind]()  # fmt: skip
            if isinstance(made, tf.Tensor):
                before = made
            return made

        return nest.map_structure(leaf, structure) if nest.is_nested(structure) else leaf(structure)

    return f


def _form(x: Any, places: dict[int, int]) -> Any:
    """The classes of a structure, the order of its keys, and which leaves are the same tensor."""
    if isinstance(x, dict):
        return x.__class__, [(k, _form(y, places)) for k, y in x.items()]
    if isinstance(x, (list, tuple)):
        return x.__class__, [_form(y, places) for y in x]
    return places.setdefault(id(x), len(places)) if isinstance(x, tf.Tensor) else repr(x)


def _agrees(structure: Any, under: bool) -> None:
    f = _function(structure)
    eager, compiled = tf.function(f), tf.function(f, jit_compile=True)
    for k in range(3):
        x, y = tf.constant([0.5 + k, 1.0]), tf.constant([2.0, 3.0 - k])
        with tf.GradientTape() if under else contextlib.nullcontext() as tape:
            if tape is not None:
                tape.watch(x)
            made = compiled(x, y)
        expected = eager(x, y)
        assert _form(made, {id(x): 0, id(y): 1}) == _form(expected, {id(x): 0, id(y): 1})
        numbers, others = (
            [t for t in nest.flatten([result]) if isinstance(t, tf.Tensor) and t.dtype.is_floating]
            for result in (made, expected)
        )
        assert bits(numbers) == bits(others)


@settings(max_examples=2 * settings.default.max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STRUCTURES, st.booleans())
def test_a_compiled_function_returns_the_structure_of_the_eager_call(
    back_end: str, structure: Any, under: bool
) -> None:
    _agrees(structure, under)


def _nested(depth: int) -> Any:
    made: Any = "tensor"
    for k in range(depth):
        made = [made, "another tensor"] if k % 2 else {"b": made, "a": "None"}
    return made


@pytest.mark.parametrize("under", [False, True])
@pytest.mark.parametrize(
    "structure",
    [_nested(25), _nested(60), ["tensor", "the argument"] * 150, {f"k{k}": ["tensor"] for k in range(300)}],
    ids=["levels", "many levels", "a long list", "a long dict"],
)
def test_long_and_deep_structures_come_back(structure: Any, under: bool, back_end: str) -> None:
    _agrees(structure, under)


@pytest.mark.parametrize("under", [False, True])
@pytest.mark.parametrize(
    ("f", "key"),
    [
        (lambda x: {x.ref(): 2.0}, lambda k: k),
        (lambda x: [{"a": {x[0].ref(): x * 2.0}}], lambda k: k),
        (lambda x: {("a", (x * 2.0).ref()): x}, lambda k: k[1]),
        (lambda x: {frozenset([x[0].ref()]): x}, lambda k: next(iter(k))),
    ],
)
@pytest.mark.filterwarnings("ignore:.* it returns a dict with a tensor in a key:RuntimeWarning")
def test_a_reference_in_a_key_refers_to_a_tensor_of_the_call(f: Any, key: Any, under: bool) -> None:
    compiled = tf.function(f, jit_compile=True)
    for value in (1.0, 2.0, 3.0):
        x = tf.constant([value, 5.0])
        with tf.GradientTape() if under else contextlib.nullcontext() as tape:
            if tape is not None:
                tape.watch(x)
            made, expected = compiled(x), f(x)
        while isinstance(made, list) or "a" in made:
            made, expected = (made[0], expected[0]) if isinstance(made, list) else (made["a"], expected["a"])
        (got,), (wanted,) = made, expected
        assert bits(key(got).deref()) == bits(key(wanted).deref())
    assert "it returns a dict with a tensor in a key" in compiled.summary()

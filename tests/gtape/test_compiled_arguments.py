"""A compiled function leaves the lists and dicts among its arguments as they are, or raises an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from tests.bits import bits


def _pops(x: Any, a: Any) -> Any:
    return a.pop() * x


def _appends(x: Any, a: Any) -> Any:
    a.append(x)
    return len(a) * x


def _puts_another(x: Any, a: Any) -> Any:
    a[0] = a[0] * 2.0
    return a[0] * x


def _turns_round(x: Any, a: Any) -> Any:
    a.reverse()
    return a[0] * x


def _appends_inside(x: Any, a: Any) -> Any:
    a["list"].append(1.0)
    return len(a["list"]) * x


def _adds_a_key(x: Any, *, a: Any) -> Any:
    a["count"] = a.get("count", 0) + 1
    return a["count"] * x


def _remembers(x: Any, a: Any = {}) -> Any:  # noqa: B006 - the mutable default is tested
    a["count"] = a.get("count", 0) + 1
    return a["count"] * x


def _puts_the_same(x: Any, a: Any) -> Any:
    a[0] = a[0]
    return a[0] * x


def _changes_and_restores(x: Any, a: Any) -> Any:
    a.append(1.0)
    return a.pop() * x


def _orders_anew(x: Any, a: Any) -> Any:
    a["one"] = a.pop("one")
    return a["one"] * x


_X = tf.constant([1.0, 2.0])
_CHANGES: list[tuple[Callable[..., Any], Callable[[], Any]]] = [
    (_pops, lambda: [1.0, 2.0]),
    (_appends, list),
    (_puts_another, lambda: [2.0]),
    (_puts_another, lambda: [_X + 1.0]),
    (_puts_another, lambda: [np.float32(2.0)]),
    (_turns_round, lambda: [1.0, 2.0]),
    (_turns_round, lambda: [_X, _X + 1.0]),
    (_appends_inside, lambda: {"list": []}),
    (_adds_a_key, dict),
    (_remembers, dict),
]
_KEEPS: list[tuple[Callable[..., Any], Callable[[], Any]]] = [
    (_puts_the_same, lambda: [float("inf"), float("nan")]),
    (_puts_the_same, lambda: [_X, (_X, [])]),
    (_puts_the_same, lambda: [np.float64(2.0)]),
    (_turns_round, lambda: [1.0, 1.0]),
    (_changes_and_restores, list),
    (_orders_anew, lambda: {"one": 1.0, "two": 2.0}),
]


def _called(f: Any, under: bool, *args: Any, **kwargs: Any) -> Any:
    if not under:
        return f(*args, **kwargs)
    with tf.GradientTape() as tape:
        tape.watch(_X)
        return f(*args, **kwargs)


@pytest.mark.parametrize("under", [False, True], ids=["without a tape", "under a tape"])
@pytest.mark.parametrize(("f", "argument"), _CHANGES)
def test_a_change_of_an_argument_is_an_error_at_every_call(f: Any, argument: Any, under: bool, back_end: str) -> None:
    compiled = tf.function(f, jit_compile=True)
    given = argument()
    before = bits(given)
    said = f"{f.__name__} should not modify its Python input arguments.* It modified a: "
    for _ in range(3):
        with pytest.raises(ValueError, match=said):
            _called(compiled, under, _X, a=given)
    assert bits(given) == before


@pytest.mark.parametrize("under", [False, True], ids=["without a tape", "under a tape"])
def test_a_change_of_a_default_is_an_error_at_every_call(under: bool, back_end: str) -> None:
    for signature in (None, [tf.TensorSpec([2])]):
        compiled = tf.function(_remembers, input_signature=signature, jit_compile=True)
        for _ in range(3):
            with pytest.raises(ValueError, match="It modified a: "):
                _called(compiled, under, _X)


@pytest.mark.parametrize("under", [False, True], ids=["without a tape", "under a tape"])
@pytest.mark.parametrize(("f", "argument"), _KEEPS)
def test_an_argument_with_its_old_contents_is_compiled(f: Any, argument: Any, under: bool, back_end: str) -> None:
    compiled = tf.function(f, jit_compile=True)
    for _ in range(3):
        assert bits(_called(compiled, under, _X, argument())) == bits(f(_X, argument()))
    assert compiled.summary().startswith(("compiled", "under a tape, compiled"))


def test_the_function_s_own_error_comes_before_the_error_about_a_change() -> None:
    def f(x: Any, a: Any) -> Any:
        a.append(x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tf.function(f, jit_compile=True)(_X, [])


def test_a_function_that_runs_eagerly_changes_its_arguments_as_python_does() -> None:
    def f(x: Any, a: Any) -> Any:
        a.append(float(x[0]))
        return len(a) * x

    given: list[Any] = []
    compiled = tf.function(f, jit_compile=True)
    with pytest.warns(RuntimeWarning, match="reads the value"):
        assert bits(compiled(_X, given)) == bits(_X)
    assert bits(compiled(_X, given)) == bits(2.0 * _X)
    assert len(given) == 2
    assert bits(tf.function(_appends)(_X, given)) == bits(3.0 * _X)


# ---------------------------------------------------------------------------------------------- lists with arrays


def _appends_the_sum(xs: Any) -> Any:
    assert tf.is_tensor(xs[0])
    xs.append(float(tf.reduce_sum(xs[0])))
    return xs[0]


def _fails_after_a_change(xs: Any) -> Any:
    xs[1] = "changed"
    raise KeyError("mine")


@pytest.mark.parametrize("change", [
    lambda xs: xs.append(7.0), lambda xs: xs.reverse(), lambda xs: xs.pop(), lambda xs: xs.clear(),
    lambda xs: xs.__setitem__(0, xs[1]), lambda xs: xs[2].update(b=xs[0]), lambda xs: xs[2].pop("a"),
    lambda xs: xs[3][0].append(xs[2]), lambda xs: xs[2].update(c=xs[2].pop("a")), lambda xs: None,
])  # fmt: skip
def test_a_change_of_a_list_with_arrays_reaches_the_caller(change: Any) -> None:
    def contents(f: Any) -> Any:
        a, b = np.arange(2.0), np.ones(3)
        given = [a, b, {"a": a, "x": None}, ([b], 5.0)]
        parts = {id(given): "list", id(given[2]): "dict", id(given[3][0]): "inner list", id(a): "a", id(b): "b"}

        def shown(x: Any) -> Any:
            name = parts.get(id(x), type(x))
            if isinstance(x, dict):
                return name, [(k, shown(y)) for k, y in x.items()]
            return (name, [shown(y) for y in x]) if isinstance(x, (list, tuple)) else (name, str(x))

        f(given)
        return shown(given)

    assert contents(tf.function(lambda xs: change(xs))) == contents(lambda xs: change(xs))


def test_a_change_before_an_error_reaches_the_caller() -> None:
    xs = [np.ones(2), 1.0]
    with pytest.raises(KeyError, match="mine"):
        tf.function(_fails_after_a_change)(xs)
    assert xs[1] == "changed" and isinstance(xs[0], np.ndarray)


def test_a_list_that_is_given_twice_is_one_list_in_the_function() -> None:
    xs = [np.ones(2)]
    same = []
    tf.function(lambda x, *, y: same.append(x is y["xs"]))(xs, y={"xs": xs})
    assert same == [True]


@pytest.mark.filterwarnings("ignore:.*jit_compile=True.*:RuntimeWarning")
@pytest.mark.parametrize("jit", [False, True])
def test_a_function_that_runs_eagerly_sees_its_earlier_changes_of_a_list_with_arrays(jit: bool) -> None:
    xs: list[Any] = [np.ones(2)]
    f = tf.function(_appends_the_sum, jit_compile=jit)
    f(xs)
    f(xs)
    assert xs[1:] == [2.0, 2.0] and isinstance(xs[0], np.ndarray)

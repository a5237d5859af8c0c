"""A record keeps the values that rules read, and no others; the same on every version of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.base.layout import layout_of
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.declare.reads import declared_reads, probed_reads, reads_everything
from gtape.engine.worlds import NUMPY, TAPE
from gtape.namespaces import catalogue
from gtape.verify.programs.mutants import planted, scaled

catalogue.load()

DECLARED = sorted(n for n, p in REGISTRY.items() if p.kind in ("general", "implicit") and p.differentiable)


def probe(*partials: Any, params: tuple[str, ...] = ()) -> tuple[frozenset[Any], ...]:
    return probed_reads(partials, params, {"pi": 3.0})


# ---------------------------------------------------------------------------------------------- partials are run once


def test_a_partial_reads_what_it_names() -> None:
    assert probe(lambda xp, y, x: y) == ({"y"},)
    assert probe(lambda xp, y, x: xp.cos(x)) == ({0},)
    assert probe(lambda xp, y, x: x * 2 + xp.pi) == ({0},)
    assert probe(lambda xp, y, a, b: b, lambda xp, y, a, b: -a * y) == ({1}, {0, "y"})
    assert probe(1, None) == (frozenset(), frozenset())


def test_a_value_counts_on_either_side_of_an_operator_and_as_a_keyword() -> None:
    assert probe(lambda xp, y, x: 1 / x) == ({0},)
    assert probe(lambda xp, y, a, b: a / b, None) == ({0, 1}, frozenset())
    assert probe(lambda xp, y, x: xp.f(1, other=x)) == ({0},)


def test_a_closure_and_a_starred_partial_are_followed() -> None:
    inner = lambda xp, v: xp.exp(v)
    assert probe(lambda xp, y, x: inner(xp, x)) == ({0},)
    assert probe(lambda xp, y, *xs: xs[1] * 2, None) == ({1}, frozenset())


def test_parameters_may_be_computed_with() -> None:
    assert probe(lambda xp, y, x, n: xp.slope(x, n=n + 1), params=("n",)) == ({0},)


@pytest.mark.parametrize(
    "partial",
    [
        lambda xp, y, x: x if x > 0 else y,
        lambda xp, y, x: x[0],
        lambda xp, y, x: x.shape,
        lambda xp, y, x: float(x),
        lambda xp, y, x: list(x),
        lambda xp, y, x: 1 / 0,
        lambda xp, y: xp,
    ],
)
def test_a_partial_that_cannot_be_followed_reads_everything(partial: Any) -> None:
    assert probe(partial) == (reads_everything(1),)


def test_a_partial_that_decides_by_a_parameter_reads_everything() -> None:
    assert probe(lambda xp, y, x, n: x if n == 0 else y, params=("n",)) == (reads_everything(1),)


# ---------------------------------------------------------------------------------------------- other rules declare it


def test_a_declaration_that_says_nothing_keeps_everything() -> None:
    assert declared_reads("op", None, (len, None)) == (reads_everything(2), frozenset())


@pytest.mark.parametrize("given", [((0,),), ((0,), (2,)), (("x",), ()), ((0,), (1,), ())])
def test_a_declaration_that_names_what_does_not_exist_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="declaration of 'op'"):
        declared_reads("op", given, (len, len))


def _points(prim: Primitive) -> list[tuple[list[Any], dict[str, Any]]]:
    rng = np.random.default_rng(5)
    points = []
    for inputs, params in prim.samples or ():
        xs = [x if isinstance(x, np.ndarray) else rng.uniform(0.5, 2.0, x) for x in inputs]
        if all(np.size(x) for x in xs):
            fitted = [np.asarray(x) for x in (prim.domain.fit(*xs) if prim.domain.fit else xs)]
            points.append((fitted, dict(params)))
            # Rules of single precision may read more, because they compute rounded results again in double precision.
            points.append(([x.astype(np.float32) if x.dtype == np.float64 else x for x in fitted], dict(params)))
    return points


def _cotangent(world: Any, prim: Primitive, i: int, xs: list[Any], params: dict[str, Any], *, hidden: Any) -> Any:
    """The cotangent of argument `i`, while the rule sees shape and dtype alone of what is hidden."""
    made = prim.kernel(*xs, **params)
    several = isinstance(made, tuple)
    lift = tf.constant if world is TAPE else np.asarray
    y: Any = tuple(map(lift, made)) if several else lift(made)
    g = tuple(lift(np.ones_like(p)) for p in made) if several else lift(np.ones_like(made))
    shown = [layout_of(x) if k in hidden else lift(x) for k, x in enumerate(xs)]
    return np.asarray(prim.vjp[i](world, g, None if "y" in hidden else y, *shown, **params))


@pytest.mark.parametrize("world", [NUMPY, TAPE], ids=["numpy", "tape"])
@pytest.mark.parametrize("name", DECLARED)
def test_a_rule_works_without_what_it_does_not_read(name: str, world: Any) -> None:
    prim = REGISTRY[name]
    for xs, params in _points(prim):
        for i, rule in enumerate(prim.rules):
            if callable(rule):
                hidden = reads_everything(len(xs)) - prim.reads[i]
                whole = _cotangent(world, prim, i, xs, params, hidden=())
                np.testing.assert_array_equal(_cotangent(world, prim, i, xs, params, hidden=hidden), whole)


def _fails(world: Any, prim: Primitive, i: int, value: Any) -> bool:
    for xs, params in _points(prim):
        try:
            _cotangent(world, prim, i, xs, params, hidden={value})
        except Exception:  # whatever a missing value leads to
            return True
    return False


@pytest.mark.parametrize("name", DECLARED)
def test_a_rule_reads_all_that_it_declares(name: str) -> None:
    prim = REGISTRY[name]
    for i, rule in enumerate(prim.rules):
        for value in prim.reads[i] if callable(rule) else ():
            needed = any(_fails(world, prim, i, value) for world in (NUMPY, TAPE))
            assert needed, f"{name} declares that its rule {i} reads {value!r}; no sample needs it"


# ---------------------------------------------------------------------------------------------- what follows


@pytest.mark.parametrize("name", ["maximum", "pow", "atan2", "multiply", "subtract"])
def test_ops_of_two_arguments_differentiate(name: str) -> None:
    a, b = tf.Variable([1.5, 2.5]), tf.Variable([2.0, 0.5])
    with tf.GradientTape() as tape:
        y = getattr(tf, name)(a, b)
    assert all(g is not None for g in tape.gradient(y, [a, b]))


def test_a_swapped_partial_keeps_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that others imported follow: the new rule reads the input, the old one the output alone."""
    exp = tf.exp
    monkeypatch.setattr(REGISTRY["exp"], "partials", (lambda xp, y, x: 3 * x,))
    x = tf.Variable(2.0, dtype=tf.float64)
    with tf.GradientTape() as tape:
        y = exp(x)
    assert float(tape.gradient(y, x)) == 6.0
    monkeypatch.undo()
    with tf.GradientTape() as tape:
        y = exp(x)
    assert float(tape.gradient(y, x)) == float(np.exp(2.0))


@pytest.mark.parametrize("name", sorted(n for n, p in REGISTRY.items() if p.differentiable))
def test_rules_that_come_back_read_what_they_read_before(name: str) -> None:
    prim = REGISTRY[name]
    before = [prim.reads[i] for i in range(len(prim.rules))]
    with planted(name, 0, scaled(2.0)):
        pass
    assert [prim.reads[i] for i in range(len(prim.rules))] == before


@pytest.mark.parametrize("name", ["exp", "multiply", "reduce_sum", "matmul"])
def test_a_swapped_kernel_reaches_functions_that_others_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = getattr(tf, name)
    prim = REGISTRY[{"reduce_sum": "sum"}.get(name, name)]
    x = tf.constant(np.full((2, 2), 3.0))
    args = (x, x) if name in ("multiply", "matmul") else (x,)
    before = held(*args).numpy()
    kernel = prim.kernel
    monkeypatch.setattr(prim, "kernel", lambda *xs, **params: 7.0 * kernel(*xs, **params))
    np.testing.assert_allclose(held(*args).numpy(), 7.0 * before)
    monkeypatch.undo()
    np.testing.assert_array_equal(held(*args).numpy(), before)

"""Compiled derivatives of elementwise ops have the bits of eager ones, with and without a selection on the tape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from campaigns import LARGE

import gtape as tf
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.namespaces import catalogue
from gtape.verify.proofs.proof_cells import parameters
from tests.bits import bits
from tests.test_worlds_agree import _draw, _rng

catalogue.load()
# Those that have a function of Python floats.
SCALAR = sorted(n for n, p in REGISTRY.items() if p.kind == "elementwise" and p.scalar is not None and p.differentiable)
POINTS = 12 if LARGE else 3
Function = Callable[..., Any]


def _slope(f: Function) -> Function:
    def slope(*xs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = f(*xs)
        first, *others = tape.gradient(y, xs, unconnected_gradients="zero")
        return sum([2.0 * g for g in others], first)

    return slope


def _tangent(f: Function) -> Function:
    def tangent(*xs: Any) -> Any:
        with tf.autodiff.ForwardAccumulator(list(xs), [tf.ones_like(x) for x in xs]) as accumulator:
            y = f(*xs)
        return accumulator.jvp(y)

    return tangent


def _same(f: Function) -> Function:
    return f


def _twice(f: Function) -> Function:
    return _slope(_slope(f))


# What is inside of the compiled function, and what is outside of it.
NESTINGS: dict[str, tuple[Callable[[Function], Function], Callable[[Function], Function]]] = {
    "one tape inside": (_slope, _same),
    "two tapes inside": (_twice, _same),
    "three tapes inside": (lambda f: _slope(_twice(f)), _same),
    "one tape outside": (_same, _slope),
    "two tapes outside": (_same, _twice),
    "one inside, one outside": (_slope, _slope),
    "two inside, one outside": (_twice, _slope),
    "forward mode inside": (_tangent, _same),
    "forward mode in a tape": (lambda f: _slope(_tangent(f)), _same),
    "a tape in forward mode": (lambda f: _tangent(_slope(f)), _same),
    "forward mode outside": (_same, _tangent),
}

SELECTIONS: dict[str, Function] = {
    "none": lambda y, x: y,
    "dropped": lambda y, x: (tf.maximum(y, x), y)[1],
    "relu": lambda y, x: y + tf.nn.relu(x),
    "where": lambda y, x: tf.where(x > -math.inf, y, x),
    "largest": lambda y, x: tf.reduce_max(tf.stack([y, y - 1.0]), 0),
}


def _points(prim: Primitive, name: str, dtype: Any, shape: tuple[int, ...]) -> Iterator[list[Any]]:
    rng = _rng(name)
    for _ in range(POINTS):
        arrays = _draw(rng, prim, (shape,) * len(prim.rules), dtype)
        if arrays is not None and all([a.shape == shape and a.dtype.kind == "f" for a in arrays]):  # noqa: C419
            yield [tf.constant(a) for a in arrays]


@pytest.mark.filterwarnings("ignore:.*runs eagerly:RuntimeWarning")  # if a gradient at the first point is NaN
@pytest.mark.parametrize("nesting", NESTINGS)
@pytest.mark.parametrize("name", SCALAR)
def test_a_compiled_derivative_has_the_bits_of_the_eager_one(name: str, nesting: str, back_end: str) -> None:
    prim = REGISTRY[name]
    inside, outside = NESTINGS[nesting]
    params = next(iter(parameters(prim)))
    for dtype, shape in [(np.float64, ()), (np.float32, ()), (np.float64, (3,))]:
        for selection in SELECTIONS if LARGE else ("none", "dropped"):

            def f(*xs: Any) -> Any:
                h = prim(*xs, **params)
                return SELECTIONS[selection](tf.math.erf(tf.tanh(h)) * h, xs[0])  # noqa: B023 - called in this pass

            eager = inside(f)
            compiled = tf.function(eager, jit_compile=True)
            for xs in _points(prim, name, dtype, shape):
                made, expected = outside(compiled)(*xs), outside(eager)(*xs)
                assert bits(made) == bits(expected), (selection, [x.numpy() for x in xs])


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_selection_leaves_the_bits_of_a_compiled_derivative(selection: str, order: int, back_end: str) -> None:
    def f(x: Any) -> Any:
        return SELECTIONS[selection](tf.math.erf(tf.tanh(tf.sigmoid(x) * x)), x)

    slope = f
    for _ in range(order):
        slope = _slope(slope)
    compiled = tf.function(slope, jit_compile=True)
    for x in np.linspace(0.1, 3.0, 60):
        assert bits(compiled(tf.constant(x))) == bits(slope(tf.constant(x))), x

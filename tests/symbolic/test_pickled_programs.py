"""Pickles of symbolic programs: the program that comes back says, draws and computes the same."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.symbolic.program import Program
from gtape.verify.programs.programs import generate
from tests.gtape.test_compiled import _with_arguments


class _Floats:
    """A world whose values are floats."""

    def __getattr__(self, name: str) -> Any:
        from gtape.engine.worlds import NUMPY

        return getattr(NUMPY, name)

    @staticmethod
    def lift(value: Any) -> Any:
        return value


@tf.custom_gradient
def _five(x: Any) -> Any:
    return x * x, lambda g: 5.0 * g * x


def _slope(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.sin(x) * x)
    return tape.gradient(y, x) * x


def _push(x: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as forward:
        y = x * tf.exp(x)
    return forward.jvp(y)


FUNCTIONS = [
    lambda x: tf.reduce_sum(tf.sin(x) * x), _slope, _push, lambda x: _five(x) * x,
    lambda x: tf.split(x * x, 2), lambda x: tf.linalg.eigh(tf.tensordot(x, x, 0))[0],
    lambda x: tf.math.real(tf.complex(x, x) * 2.0), lambda x: tf.cast(tf.cast(x, tf.bfloat16) * 2.0, tf.float32),
]  # fmt: skip


def _values(program: Program) -> list[Any]:
    env = program.evaluate(_Floats())
    return [np.asarray(env[i]).tobytes() for i in program.outputs]


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("copied", [lambda p: pickle.loads(pickle.dumps(p)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_program_comes_back_from_a_pickle(f: Any, copied: Any) -> None:
    program = tf.symbolic.trace(f, tf.constant([0.5, 1.5]))
    program.blocked(program.session)
    again = copied(program)
    assert again.assignments == program.assignments
    assert (again.outputs, again.sources) == (program.outputs, program.sources)
    assert again.latex() == program.latex() if f is FUNCTIONS[0] else again.to_mermaid() == program.to_mermaid()
    if f not in FUNCTIONS[-3:]:  # the plain world of rules has other names for complex numbers and half precision
        assert _values(again) == _values(program)
    for session in {s for n in program.nodes for flow in n.flows for s in flow or ()}:
        blocked = list(program.blocked(session).values())
        assert blocked in [list(again.blocked(s).values()) for n in again.nodes for flow in n.flows for s in flow or ()]


def test_inner_gradients_keep_their_tape_and_custom_gradients_their_name() -> None:
    program = tf.symbolic.trace(_slope, tf.constant([0.5, 1.5]))
    again = pickle.loads(pickle.dumps(program))
    (mark,) = [n.mark for n in again.nodes if n.mark is not None]
    assert (mark.targets, mark.sources) == next((n.mark.targets, n.mark.sources) for n in program.nodes if n.mark)
    assert any(mark.session in flow for n in again.nodes for flow in n.flows if flow)
    again = pickle.loads(pickle.dumps(tf.symbolic.trace(lambda x: _five(x), tf.constant([0.5, 1.5]))))
    (node,) = [n for n in again.nodes if n.kind == "custom"]
    assert node.name == "_five"
    with pytest.raises(RuntimeError, match="pickles leave functions out"):
        node.step.run([tf.constant([1.0, 1.0])])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_random_programs_come_back_from_pickles(seed: int) -> None:
    f, inputs = _with_arguments(generate(seed))
    program = tf.symbolic.trace(lambda *xs: [y for y in tf.nest.flatten(f(*xs)) if y is not None], *inputs)
    assert str(pickle.loads(pickle.dumps(program))) == str(program)

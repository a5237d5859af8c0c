"""The formulas of programs: `Program.expr` and `Program.latex`."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf
from gtape.symbolic import trace

Function = Callable[[Any], Any]


def _numbers(formula: Any, point: Any) -> Any:
    """The numbers of a formula in x0 at a point."""
    put = {
        sp.Symbol("x0" + "".join(f"_{i}" for i in index), real=real): value
        for index, value in np.ndenumerate(np.asarray(point))
        for real in (True, None)
    }
    made = [complex(sp.sympify(e).subs(put)) for e in np.asarray(formula, dtype=object).ravel()]
    return np.array(made).reshape(np.shape(formula))


def _agrees(f: Function, recorded: Any, point: Any) -> bool:
    formula = trace(f, recorded).expr()
    return bool(
        np.allclose(
            _numbers(formula, point), np.asarray(f(tf.constant(np.asarray(point))).numpy()), rtol=1e-9, atol=1e-9
        )
    )


OF_COMPLEX: list[Function] = [
    lambda z: tf.math.conj(z) * z,
    tf.abs,
    tf.math.real,
    tf.math.imag,
    tf.math.angle,
    tf.exp,
    tf.sqrt,
    tf.tanh,
    lambda z: tf.sqrt(tf.square(z)),
    lambda z: tf.math.real(z * tf.exp(z)),
    lambda z: z * (2 + 3j) - 1j,
    lambda z: tf.complex(tf.math.imag(z), tf.math.real(z)),
    lambda z: tf.cast(z, tf.float64),
    lambda z: tf.math.divide_no_nan(tf.constant(1j), z),
    lambda z: tf.pow(z, tf.constant(2.5 + 0j)),
    lambda z: tf.norm(tf.stack([z, 2 * z])),
    lambda z: tf.sign(z),
]
PARTS = st.floats(0.1, 4.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("f", OF_COMPLEX)
@given(x=PARTS, y=PARTS, signs=st.tuples(*[st.sampled_from([-1, 1])] * 2))
def test_formulas_of_complex_numbers_hold_at_every_point(f: Function, x: float, y: float, signs: Any) -> None:
    assert _agrees(f, 1 + 2j, complex(signs[0] * x, signs[1] * y))


def test_symbols_of_complex_numbers_are_not_declared_real() -> None:
    z = np.array([1 + 2j, 3j])
    formula = trace(lambda z, x: tf.reduce_sum(tf.math.imag(z)) * x, z, 2.0).expr()
    assert {s.name: s.is_real for s in formula.free_symbols} == {"x0_0": None, "x0_1": None, "x1": True}
    assert trace(lambda z: tf.math.conj(z) * z, 1 + 2j).latex() == r"x_{0} \overline{x_{0}}"


@pytest.mark.parametrize(
    "f",
    [
        lambda z: tf.nn.relu(tf.abs(tf.sin(z)) - 1.0) * tf.math.real(z),
        lambda z: tf.maximum(tf.math.real(z), tf.math.imag(z)),
        lambda z: tf.floor(tf.abs(tf.exp(z))) * tf.math.imag(z),
        lambda z: tf.abs(tf.math.real(z)) + tf.sign(tf.math.imag(z)),
    ],
)
@given(x=PARTS, y=PARTS)
def test_branches_by_complex_numbers_are_those_of_the_recording(f: Function, x: float, y: float) -> None:
    assert _agrees(f, complex(x, -y), complex(x, -y))


def test_the_argument_is_that_of_a_complex_number() -> None:
    formula = trace(tf.math.angle, 1 + 2j).expr()
    assert str(formula) == "arg(x0)" and complex(formula.subs(*formula.free_symbols, -3j)) == cmath.phase(-3j)


def _as_float(x: Any, dtype: Any) -> Any:
    return tf.cast(tf.cast(x, dtype), tf.float64)


STEPS: list[Function] = [
    lambda x: x * _as_float(x, tf.int32),
    lambda x: x * _as_float(x, tf.bool),
    lambda x: x * tf.cast(tf.saturate_cast(100.0 * x, tf.int8), tf.float64),
    lambda x: x * tf.cast(tf.cast(x, tf.int32) * tf.cast(3.0 * x, tf.int32), tf.float64),
    lambda x: x * _as_float(tf.cast(x, tf.int32), tf.bool),
    lambda x: _as_float(x > 1.0, tf.int32) + x,
    lambda x: x * tf.floor(x),
    lambda x: x * _as_float(tf.cast(x, tf.complex128), tf.int32),
]


@pytest.mark.parametrize("f", STEPS)
@given(x=st.one_of(st.floats(-5.0, 5.0), st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=3)))
def test_integers_and_truth_values_made_of_floats_are_constant_on_the_recorded_branch(f: Function, x: Any) -> None:
    assert _agrees(f, x, x)


def test_an_integer_or_truth_value_alone_is_a_constant() -> None:
    assert trace(lambda x: tf.cast(x, tf.int32), -1.7).expr() == -1
    assert trace(lambda x: tf.cast(x, tf.bool), 1.7).expr() == sp.true
    assert trace(lambda x: _as_float(x, tf.bool), 1.7).expr() == 1
    assert trace(lambda x: tf.cast(x, tf.int32), [1.7, 0.2]).expr().tolist() == [1, 0]


@pytest.mark.parametrize(
    "f",
    [
        tf.linalg.eigvalsh,
        tf.linalg.eigh,
        tf.linalg.eigvals,
        tf.linalg.eig,
        tf.linalg.svd,
        tf.linalg.qr,
        lambda a: tf.linalg.lstsq(a, tf.ones_like(a)),
        lambda a: tf.linalg.eigvalsh(tf.complex(a, 0 * a)),
        lambda a: tf.reduce_sum(tf.linalg.svd(a, compute_uv=False)) * a,
        tf.linalg.expm,
    ],
)
def test_an_op_without_a_closed_form_says_so_and_what_shows_the_program(f: Function) -> None:
    program = trace(f, np.diag([1.0, 2.0, 3.0]) + 0.25)
    for formula in (program.expr, program.latex):
        with pytest.raises(NotImplementedError, match=r"no closed form in symbols: .*assignments.*verify\.exact"):
            formula()
    assert program.assignments and program.to_mermaid()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_an_empty_array_prints_as_an_empty_matrix(shape: tuple[int, ...]) -> None:
    program = trace(lambda x: x * 2, np.zeros(shape))
    assert program.latex() == r"\left[\begin{matrix}\end{matrix}\right]"
    assert program.expr().shape == shape

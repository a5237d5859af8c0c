"""The strategies draw what they say, everywhere they say, and shrink to something small."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from gtape.declare.domains import ANY_REAL, NONZERO, POSITIVE, UNIT, Interval
from gtape.declare.primitives import REGISTRY
from gtape.verify.strategies import Call, arguments, floats_for, op_calls, shapes, tensors

INTERVALS = [
    ANY_REAL,
    POSITIVE,
    NONZERO,
    UNIT,
    Interval(1.0, open_lo=True),
    Interval(-1.0, 1.0, open_lo=True, open_hi=True),
    Interval(2.0, 3.0),
]


def sample(strategy: Any, n: int) -> list[Any]:
    drawn: list[Any] = []

    @settings(
        max_examples=n,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(x: Any) -> None:
        drawn.append(x)

    draw()
    return drawn


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("interval", INTERVALS, ids=repr)
def test_numbers_lie_in_the_interval_and_in_the_dtype(interval: Interval, dtype: str) -> None:
    for x in sample(floats_for(interval, dtype), 100):
        assert x in interval
        assert float(np.dtype(dtype).type(x)) == x


def test_zeros_subnormals_and_extremes_are_drawn() -> None:
    drawn = sample(floats_for(ANY_REAL), 700)
    zeros = [x for x in drawn if x == 0]
    assert {math.copysign(1, z) for z in zeros} == {1.0, -1.0}
    assert any(0 < abs(x) < 2.0**-1022 for x in drawn)
    assert any(abs(x) > 1e250 for x in drawn)
    assert any(0 < abs(x) < 1e-250 for x in drawn)
    assert sum(2.0**-8 <= abs(x) <= 2.0**8 for x in drawn) > 100


def test_binades_are_equally_likely() -> None:
    exponents = [math.frexp(x)[1] for x in sample(floats_for(POSITIVE, "float32"), 700) if x]
    wide = [e for e in exponents if abs(e) > 20]
    assert len(set(wide)) > 40
    assert any(e < -110 for e in wide)
    assert any(e > 110 for e in wide)


def test_neighbours_of_special_points_and_kinks() -> None:
    drawn = sample(floats_for(ANY_REAL, special=(3.0,), kinks=(-2.0,)), 700)
    for mark in (3.0, -2.0):
        offsets = {round((x - mark) / np.spacing(mark)) for x in drawn if abs(x - mark) < 1e-13}
        assert 0 in offsets
        assert min(offsets) < 0 < max(offsets)


def test_a_hole_is_left_out_but_not_its_neighbours() -> None:
    drawn = sample(floats_for(NONZERO), 800)
    assert 0.0 not in drawn
    assert any(0 < abs(x) <= 64 * 5e-324 for x in drawn)


def test_magnitudes() -> None:
    assert all(
        x == 0 or 0.4 < abs(x) < 8.1 or abs(x) < 1e-300 for x in sample(floats_for(ANY_REAL, magnitude=(0.5, 4.0)), 200)
    )


@pytest.mark.parametrize(
    ("condition", "largest"), [(lambda x: x > 1.3, 2.0), (lambda x: x > 1e10, 2.0**35), (lambda x: x < -5, 8.0)]
)
def test_numbers_shrink_to_small_ones(condition: Any, largest: float) -> None:
    x = find(floats_for(ANY_REAL), condition, settings=settings(database=None, derandomize=True, max_examples=1000))
    assert abs(x) <= largest


def test_calls_shrink_to_few_elements() -> None:
    call = find(
        arguments("add"),
        lambda c: c.arrays[0].size > 0 and float(c.arrays[0].min()) > 1e3,
        settings=settings(database=None, derandomize=True, max_examples=300),
    )
    assert call.arrays[0].size == 1


@pytest.mark.parametrize(
    "name", ["pow", "atan2", "log1p", "acosh", "where", "hypot_term", "cholesky", "concat", "gather"]
)
def test_calls_run_and_lie_in_the_domain(name: str) -> None:
    for call in sample(arguments(name), 30):
        assert isinstance(call, Call)
        call()
        if call.prim.kind == "elementwise":
            columns = np.broadcast_arrays(*call.arrays)
            assert all(p in call.prim.domain for p in zip(*[c.ravel().tolist() for c in columns], strict=True))


def test_ties_between_arguments() -> None:
    calls = sample(arguments("maximum"), 200)
    assert any(np.any(np.equal(*np.broadcast_arrays(*c.arrays))) for c in calls)
    assert any(c.arrays[0].shape != c.arrays[1].shape for c in calls)


def test_a_call_prints_as_a_program() -> None:
    call = Call(REGISTRY["leaky_relu"], [np.array([1.0, -2.0])], {"alpha": 0.25})
    assert repr(call) == "leaky_relu(np.array([1.0, -2.0], 'float64'), alpha=0.25)"


def test_tensors_and_op_calls() -> None:
    for t in sample(tensors("float32", shape=(2, 3)), 20):
        assert t.shape == (2, 3)
        assert t.dtype.name == "float32"
    assert {len(t.shape) for t in sample(tensors(), 100)} == {0, 1, 2}
    assert {c.prim.name for c in sample(op_calls(["sin", "add"]), 50)} == {"sin", "add"}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: floats_for((0, 1)), "Interval"),
        (lambda: floats_for(ANY_REAL, "int32"), "float64"),
        (lambda: floats_for(ANY_REAL, "nonsense"), "nonsense"),
        (lambda: floats_for(ANY_REAL, special=(math.inf,)), "finite"),
        (lambda: floats_for(ANY_REAL, kinks=("x == y",)), "finite"),
        (lambda: floats_for(ANY_REAL, magnitude=(4, 1)), "smallest"),
        (lambda: arguments("no_such_op"), "no_such_op"),
        (lambda: arguments("floor"), "not differentiable"),
        (lambda: arguments(sum), "Primitive"),
        (lambda: op_calls("sin"), r"\['sin'\]"),
        (lambda: op_calls([]), "empty"),
        (lambda: shapes(max_side=0), "max_side"),
    ],
)
def test_wrong_arguments_are_refused_at_once(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_options_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        floats_for(ANY_REAL, "float64", (1.0,))  # type: ignore[misc]


@given(st.data())
def test_conditions_are_booleans(data: Any) -> None:
    call = data.draw(arguments("where"))
    assert call.arrays[0].dtype == np.bool_

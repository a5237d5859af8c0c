"""The strategies draw what they say, everywhere they say, and shrink to something small."""

from __future__ import annotations

import math
import time
from typing import Any

import hypothesis
import numpy as np
import pytest
from bits import bits
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

import gtape
from gtape.declare.domains import ANY_REAL, NONZERO, POSITIVE, UNIT, Interval
from gtape.declare.primitives import REGISTRY
from gtape.verify import check
from gtape.verify.search.points import steps
from gtape.verify.strategies import (
    Call,
    aim,
    arguments,
    floats_for,
    op_calls,
    programs,
    shapes,
    shrinking,
    tensors,
)  # fmt: skip

INTERVALS = [
    ANY_REAL,
    POSITIVE,
    NONZERO,
    UNIT,
    Interval(1.0, open_lo=True),
    Interval(-1.0, 1.0, open_lo=True, open_hi=True),
    Interval(2.0, 3.0),
]
EMPTY = Interval(1, math.nextafter(1, 2), open_lo=True, open_hi=True)


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
    drawn = sample(floats_for(ANY_REAL, magnitude=(0.5, 4.0), special=(3.0, 100.0)), 300)
    assert all(x == 0 or 0.5 <= abs(x) <= 4.0 for x in drawn)
    assert 0.0 in drawn and any(0 < abs(x - 3) < 1e-13 for x in drawn)
    for t in sample(tensors(magnitude=(2.0**-3, 2.0**3), special=(1e-9,)), 50):
        assert all(x == 0 or 2.0**-3 <= abs(x) <= 2.0**3 for x in t.numpy().ravel())
    assert all(x == 0 or 2.0**-20 <= abs(x) <= 2.0**20 for t in sample(tensors(), 60) for x in t.numpy().ravel())
    with pytest.raises(ValueError, match="of magnitude"):
        floats_for(Interval(1.0, 2.0), magnitude=(8.0, 16.0))


def test_the_shares_are_those_of_the_docstring() -> None:
    drawn = np.array(sample(floats_for(Interval(-1e6, 1e6), special=(3.0,)), 800))
    marks = (0.0, 3.0, -1e6, 1e6)
    near = np.zeros(len(drawn), bool)
    for m in marks:
        near |= np.abs(steps(drawn, np.float64) - steps(np.array(m), np.float64)) <= 64
    assert 0.15 < near.mean() < 0.45  # 4 of 16, and repetitions of the simplest numbers
    moderate = (2.0**-8 <= np.abs(drawn)) & (np.abs(drawn) < 2.0**9) & ~near
    assert 0.25 < moderate.mean() < 0.65  # 6 of 16, and some of those at a distance of a mark
    assert 0.06 < (np.abs(drawn) < 2.0**-30).mean() < 0.4


@pytest.mark.slow
def test_numbers_near_overflow_and_roots_are_drawn() -> None:
    assert any(700 < x < 710 for x in sample(floats_for(ANY_REAL), 700))
    root = 0.6584789484624084  # of the third derivative of tanh
    drawn = [float(v) for c in sample(arguments("tanh_curve"), 150) for v in c.arrays[0].ravel()]
    assert any(abs(abs(x) - root) < 1e-13 for x in drawn)


@pytest.mark.parametrize("name", ["where", "gather", "pow", "concat", "cholesky", "segment_rows", "cast"])
def test_check_takes_calls_as_they_are(name: str) -> None:
    for call in sample(arguments(name) if name in REGISTRY else op_calls(["gather"]), 5):
        if call.point:
            assert check(call).verdict == check(call, *call.point).verdict
            assert all(a.dtype.kind == "f" for a in call.point)
    with pytest.raises(TypeError, match="function of 1 arguments"):
        Call(REGISTRY["exp"], [np.zeros(2)], {})(1.0, 2.0)
    nested: dict[str, object] = {}
    for _ in range(10_000):
        nested = {"a": nested}
    assert repr(Call(REGISTRY["exp"], [np.zeros(2)], nested)).startswith("exp(np.array([0.0, 0.0], 'float64'), a={")


@pytest.mark.parametrize(
    ("condition", "largest"), [(lambda x: x > 1.3, 2.0), (lambda x: x > 1e10, 2.0**35), (lambda x: x < -5, 8.0)]
)
def test_numbers_shrink_to_small_ones(condition: Any, largest: float) -> None:
    if hypothesis.__version_info__ < (6, 110):
        pytest.skip("older shrinkers stop at a number that is simple, but large")
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


def test_a_printed_call_is_the_call() -> None:
    rows = np.array([[64.0, 0.5, -6.0]])
    for call in (
        Call(REGISTRY["cast"], [np.zeros((0, 3))], {"dtype": np.dtype("float32")}),
        Call(REGISTRY["gather"], [rows, np.array([2, 0, 2])], {"axis": -1, "size": 3}),
        Call(REGISTRY["add"], [np.array([np.inf, np.nan, -0.0]), np.array(-np.inf)], {}),
        Call(REGISTRY["sum"], [rows], {"axis": (1,), "keepdims": True}),
    ):
        source = repr(call)
        made = eval(source, {"np": np, call.prim.name: lambda *arrays, **params: (arrays, params)})
        assert made[1] == call.params
        for a, b in zip(made[0], call.arrays, strict=True):
            assert bits(a) == bits(b)
        assert bits(call.prim(*map(gtape.constant, made[0]), **made[1])) == bits(call())


@pytest.mark.filterwarnings("error")
def test_special_points_and_ends_beyond_the_dtype_lie_at_its_end() -> None:
    for x in sample(floats_for(Interval(0.0, 1e6), "float16"), 200):
        assert 0 <= x <= 65504
    assert all(abs(float(x)) <= 2.0**20 for x in sample(tensors("float32", shape=(), special=[1e39]), 50))
    assert any(x > 3.4e38 for x in sample(floats_for(ANY_REAL, "float32", special=(1e39,)), 100))


@pytest.mark.parametrize(
    ("interval", "special", "simplest"),
    [
        (Interval(0.0, 1.0), (), 0.0),
        (Interval(0.5, 9.0), (), 1.0),
        (Interval(2.0, 7.0), (5.0,), 2.0),
        (Interval(2.0, 7.0, open_lo=True), (5.0,), 5.0),
        (Interval(-1e6, 1e6), (3.0,), 0.0),
    ],
)
def test_numbers_shrink_towards_0_then_1_then_the_special_points(
    interval: Interval, special: Any, simplest: float
) -> None:
    options = settings(database=None, derandomize=True, max_examples=1000)
    assert find(floats_for(interval, special=special), lambda x: True, settings=options) == simplest


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
        (lambda: op_calls(["sinn"]), "no primitive named 'sinn'; did you mean sin"),
        (
            lambda: tensors(interval=Interval(-1.0, 1.0), magnitude=(2.0, 4.0)),
            r"\[-1.0, 1.0\] holds no float64 but 0 of magnitude \(2.0, 4.0\)$",
        ),
        (lambda: tensors(shape=3), "tuple of lengths, each at least 0, or a strategy for one, not 3$"),
        (lambda: tensors(shape=(2, -1)), r"tuple of lengths.* not \(2, -1\)$"),
        (lambda: tensors(shape=(True,)), r"tuple of lengths.* not \(True,\)$"),
        (lambda: shapes(max_side=True), "max_side is a whole number, not True"),
        (lambda: tensors(shape="ab"), "tuple of lengths.* not 'ab'$"),
        (lambda: tensors(shape=(2,), interval=EMPTY), r"\(1, 1.0000000000000002\) holds no float64"),
        (lambda: floats_for(EMPTY), r"\(1, 1.0000000000000002\) holds no float64"),
        (lambda: floats_for(Interval(1, 1, holes=(1,))), "holds no float64"),
        (lambda: floats_for(Interval(0.2, 0.8, whole=True)), "holds no whole float64"),
        (lambda: floats_for(Interval(1, 5, whole=True), magnitude=(6, 7)), "of magnitude"),
    ],
)
def test_wrong_arguments_are_refused_at_once(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_a_drawn_shape_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match=r"tuple of lengths.* not \(-1,\)"):
        find(tensors(shape=st.just((-1,))), lambda x: True)


EVERY_FLOAT16 = np.arange(2**16).astype(np.uint16).view(np.float16)
EVERY_FLOAT16 = EVERY_FLOAT16[np.isfinite(EVERY_FLOAT16)].astype(np.float64)


@st.composite
def intervals(draw: Any) -> tuple[Interval, tuple[float, float] | None]:
    """Intervals with few numbers of float16, and magnitudes."""
    start = draw(st.sampled_from([0.0, 1.0, -1.0, 3.0, 0.3, 1000.0, 65504.0, 6e-8, -math.inf]))
    if start == -math.inf:
        return Interval(draw(st.floats(-9, 9)), holes=(1.0, 2.0)), (draw(st.floats(0, 2)), draw(st.floats(2.01, 3)))
    width = draw(st.sampled_from([0.0, 1e-8, 6e-8, 0.0005, 0.001, 0.01, 0.7, 2.0]))
    inside = st.lists(st.sampled_from([start, start + width / 2, start + width, 1.0]), max_size=2)
    interval = Interval(
        start, start + width, open_lo=draw(st.booleans()), open_hi=draw(st.booleans()),
        holes=tuple(draw(inside)), whole=draw(st.booleans()),
    )  # fmt: skip
    return interval, draw(st.sampled_from([None, (0.0, 1.0), (0.9995, 1.001), (0.5, math.inf)]))


@given(intervals(), st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])  # but not those of numbers that are filtered out
def test_numbers_are_drawn_exactly_where_there_are_any(drawn: Any, data: Any) -> None:
    interval, magnitude = drawn
    low, high = magnitude or (0.0, math.inf)
    sizes, most = np.abs(EVERY_FLOAT16), 2**10 if interval.whole else math.inf
    fits = [(x == 0 or low <= a <= high) and a <= most for x, a in zip(EVERY_FLOAT16, sizes, strict=True)]
    inside = {x for x in EVERY_FLOAT16[fits].tolist() if x in interval}
    if not inside:
        with pytest.raises(ValueError, match="holds no"):
            floats_for(interval, "float16", magnitude=magnitude)
        return
    assert set(data.draw(st.lists(floats_for(interval, "float16", magnitude=magnitude), min_size=3))) <= inside


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_each_of_a_few_numbers_is_drawn(k: int) -> None:
    few = Interval(1.0, 1.0 + 4 * 2.0**-52, open_lo=True)
    assert find(floats_for(few), lambda x: x == 1.0 + k * 2.0**-52)


def test_an_interval_of_zero_alone_has_both_zeros() -> None:
    assert find(floats_for(Interval(0.0, 0.0)), lambda x: math.copysign(1.0, x) < 0) == 0.0


def test_options_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        floats_for(ANY_REAL, "float64", (1.0,))  # type: ignore[misc]


@given(st.data())
def test_conditions_are_booleans(data: Any) -> None:
    call = data.draw(arguments("where"))
    assert call.arrays[0].dtype == np.bool_


@pytest.mark.slow
def test_programs_cover_families_control_flow_and_nested_tapes() -> None:
    drawn = sample(programs(), 240)
    text = "\n".join(p.source for p in drawn)
    for word in (
        "tf.while_loop",
        "tf.cond",
        "tf.map_fn",
        "tf.function",
        "tf.Variable",
        "tape.watch",
        "as inner",
        "where",
    ):
        assert word in text, word
    assert {p.dtype for p in drawn} == {"float64", "float32"} and {p.order for p in drawn} == {1, 2}
    assert {p.order for p in sample(programs(orders=[2], dtypes=["float32"]), 10)} == {2}


@settings(max_examples=10, deadline=None)
@given(programs(max_steps=6, orders=[1]))
def test_drawn_programs_pass(program: Any) -> None:
    program.run(verify=True)


def test_programs_shrink_to_few_steps() -> None:
    found = find(
        programs(max_steps=6, orders=[1]), lambda p: "tf.while_loop" in p.source,
        settings=settings(database=None, derandomize=True, max_examples=300, suppress_health_check=list(HealthCheck)),
    )  # fmt: skip
    assert len(found.steps) <= 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"dtypes": ["int8"]}, "dtypes"),
        ({"orders": [3]}, "orders"),
        ({"max_steps": 0}, "max_steps"),
        ({"special": "yes"}, "special is True or False, not 'yes'"),
        ({"control": None}, "control is True or False"),
    ],
)
def test_programs_refuse_other_words(words: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        programs(**words)


def test_shrinking_ends_after_its_time() -> None:
    runs = []

    @settings(database=None, derandomize=True, deadline=None, max_examples=50)
    @given(st.lists(st.integers(0, 1000), min_size=5))
    @shrinking(seconds=0.2)
    def fails(x: list[int]) -> None:
        runs.append(x)
        time.sleep(0.02)
        assert sum(x) < 100

    began = time.monotonic()
    with pytest.raises(AssertionError):
        fails()
    assert time.monotonic() - began < 30 and len(runs) < 100
    with pytest.raises(ValueError, match="positive"):
        shrinking(0)


def test_aim_finds_larger_errors() -> None:
    @settings(database=None, derandomize=True, deadline=None, max_examples=20)
    @given(tensors(shape=()))
    def holds(x: Any) -> None:
        assert aim(check(gtape.tanh, x)).ok

    holds()
    with pytest.raises(TypeError, match="report"):
        aim(3.0)  # type: ignore[arg-type]


def test_an_error_about_numbers_names_the_function_that_was_called() -> None:
    with pytest.raises(TypeError, match=r"^tensors: `special`"):
        tensors(shape=(2,), special=0.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^floats_for: `kinks`"):
        floats_for(ANY_REAL, kinks=0.5)  # type: ignore[arg-type]


def test_an_interval_of_zero_alone_draws_zeros_of_any_magnitude() -> None:
    assert {float(x) for x in sample(tensors(shape=(), interval=Interval(0.0, 0.0)), 5)} == {0.0}


@pytest.mark.parametrize(
    "name", ["pow", "acos", "asin", "acosh", "atanh", "sqrt", "cbrt", "spence", "erfinv", "erfcinv", "pow_derivative"]
)
def test_drawn_calls_have_a_derivative(name: str) -> None:
    for call in sample(op_calls([name]), 40):
        assert check(call).verdict != "domain", call


@pytest.mark.parametrize(("name", "end"), [("sqrt", (0.0,)), ("acos", (1.0,)), ("cbrt", (0.0,)), ("pow", (0.0, 0.0))])
def test_steep_calls_include_the_ends_without_a_derivative(name: str, end: tuple[float, ...]) -> None:
    assert find(
        arguments(name, steep=True),
        lambda call: all(a.size and (a == x).all() for a, x in zip(call.arrays, end, strict=True)),
    )
    assert find(op_calls([name], steep=True), lambda call: call.arrays[0].size == 1)


def test_an_end_with_a_derivative_is_drawn() -> None:
    assert find(arguments("pow"), lambda call: call.arrays[0].size == 1 and call.arrays[0] == 0 and call.arrays[1] == 1)


def test_a_rule_that_is_infinite_beside_the_declared_points_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    # A check of drawn calls has to find such a fault.
    monkeypatch.setattr(REGISTRY["sin"], "partials", (lambda xp, y, x: 1 / (x - x),))
    assert not check(find(op_calls(["sin"]), lambda call: call.arrays[0].size == 1 and call.arrays[0] > 3)).ok

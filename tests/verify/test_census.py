"""The census finds what is wrong, lets pass what is right, and its exact values are exact."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from campaigns import LARGE

from gtape.declare.domains import ANY_REAL, Interval
from gtape.declare.primitives import REGISTRY
from gtape.verify.search.census import Row, census, survey
from gtape.verify.search.doctor import examine_kernels, measure
from gtape.verify.search.partials import LIMIT, Exact, distance, exact_partials, keys_of, kink_allowance, root_allowance
from gtape.verify.search.points import binades, climb, landmarks, neighbours, points_for, steps, unsteps
from gtape.verify.search.subjects import Subject, subjects


def only(name: str) -> Subject:
    return subjects([name])[0]


# ---------------------------------------------------------------------------------------------- points


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_steps_count_neighbours(dtype: str) -> None:
    f = np.finfo(dtype)
    x = np.array([0.0, -0.0, f.smallest_subnormal, 1.0, -1.0, f.max, -f.max], dtype=dtype)
    n = steps(x, dtype)
    assert n[:3].tolist() == [0, 0, 1]
    assert np.array_equal(unsteps(n, dtype), x)
    assert unsteps(n[3] + 1, dtype) == np.nextafter(x[3], np.dtype(dtype).type(2))
    assert unsteps(n[5] + 5, dtype) == f.max


def test_every_binade_of_both_signs() -> None:
    rng = np.random.default_rng(0)
    x = binades(ANY_REAL, np.dtype("float64"), rng)
    assert len(x) == 2 * (1024 + 1074)
    exponents = np.frexp(x)[1]
    assert len(np.unique(exponents[x > 0])) > 2090
    assert np.all(binades(Interval(1.0, 8.0), np.dtype("float32"), rng) >= 1)


def test_special_points_have_64_neighbours_on_each_side() -> None:
    prim = REGISTRY["log1p"]
    (x,) = points_for(prim, np.dtype("float64"), 10_000, np.random.default_rng(0))
    assert set(landmarks(prim, 0, "float64")) == {-1.0, 0.0}
    assert set(neighbours(0.0, "float64").tolist()) <= set(x.tolist())
    above = neighbours(-1.0, "float64")
    assert set(above[above > -1].tolist()) <= set(x.tolist())
    assert np.all(x > -1)
    assert np.any(np.signbit(x) & (x == 0))


def test_both_arguments_meet_every_binade_and_each_other() -> None:
    a, b = points_for(REGISTRY["add"], np.dtype("float32"), 10_000, np.random.default_rng(0))
    for x in (a, b):
        assert len(np.unique(np.frexp(x[x > 0])[1])) > 270
    assert np.sum(a == b) > 100
    assert np.sum(a == -b) > 10


def test_conditions_on_arguments_are_kept() -> None:
    a, b = points_for(REGISTRY["pow"], np.dtype("float64"), 2_000, np.random.default_rng(0))
    assert all(p in REGISTRY["pow"].domain for p in zip(a.tolist(), b.tolist(), strict=True))
    assert np.any(a < 0)


def test_the_climb_stays_near_and_inside() -> None:
    rng = np.random.default_rng(0)
    (x,) = climb(REGISTRY["sqrt"], [np.array([1e-300, 2.0])], np.dtype("float64"), 200, rng)
    assert np.all(x >= 0)
    assert np.any(np.abs(x - 2.0) < 1e-12)


# ---------------------------------------------------------------------------------------------- exact values


def test_exact_partials_of_known_functions() -> None:
    x = np.array([0.5, 1e-300, 300.0])
    exact = exact_partials(only("tanh"), [x], keys_of(only("tanh"), 1))[0,]
    assert exact.known.all()
    assert exact.high[0] == pytest.approx(1 - math.tanh(0.5) ** 2, rel=1e-15)
    assert exact.high[1] == 1.0
    assert exact.high[2] == pytest.approx(4 * math.exp(-600), rel=1e-13)  # 1 - tanh**2 has lost all its digits here


def test_mixed_partials_and_powers_at_whole_exponents() -> None:
    power = only("pow")
    a, b = np.array([-2.0, 3.0, 0.0]), np.array([3.0, 2.0, 2.0])
    exact = exact_partials(power, [a, b], keys_of(power, 2) + keys_of(power, 1))
    assert exact[0,].high.tolist() == [12.0, 6.0, 0.0]
    assert exact[0, 0].high.tolist() == [-12.0, 2.0, 2.0]
    assert exact[0, 1] is exact[1, 0]
    assert exact[0, 1].high[1] == pytest.approx(3 + 6 * math.log(3), rel=1e-15)


def test_points_outside_the_domain_are_not_known() -> None:
    exact = exact_partials(only("log"), [np.array([-1.0, 0.0, np.nan, np.inf, 1.0])], [(0,)])[0,]
    assert exact.known.tolist() == [False] * 4 + [True]
    assert not exact.open.any()


def _number(high: float, low: float = 0.0) -> Exact:
    e = Exact(1)
    e.high[0], e.low[0], e.known[0] = high, low, True
    return e


@pytest.mark.parametrize(
    ("got", "exact", "ulps"),
    [
        (1.0, 1.0, 0.0),
        (1.0 + 2**-52, 1.0, 1.0),
        (math.inf, math.inf, 0.0),
        (math.inf, 1e308, math.inf),
        (-math.inf, math.inf, math.inf),
        (math.nan, 1.0, math.inf),
        (math.inf, np.finfo("float64").max, 1.0),  # as if 2**1024 were a float
        (np.finfo("float64").max, math.inf, 1.0),
        (5e-324, 0.0, 1.0),
        (0.0, -0.0, 0.0),
    ],
)
def test_distance(got: float, exact: float, ulps: float) -> None:
    off = distance(np.array([got]), _number(exact), "float64")[0]
    assert off == ulps or (math.isinf(ulps) and off > 1e15)


def test_no_gradient_stands_for_zero_and_nothing_else() -> None:
    assert distance(None, _number(0.0), "float64")[0] == 0
    assert distance(None, _number(1.0), "float64")[0] > LIMIT


# ---------------------------------------------------------------------------------------------- the two allowances


def test_beside_a_root_two_ulp_of_the_input_are_allowed() -> None:
    sine = only("sin")  # its derivative has a root at pi / 2
    x = np.array([math.pi / 2 + 1e-9, 1.0])
    exact = np.cos(x)
    moved = exact - np.sin(x) * np.spacing(x)
    far = exact - np.sin(x) * np.spacing(x) * 100
    assert root_allowance(sine, [x], (0,), moved, "float64").tolist() == [True, False]
    assert root_allowance(sine, [x], (0,), far, "float64").tolist() == [False, False]


def test_a_root_at_0_and_steep_functions_get_no_allowance() -> None:
    x = np.array([1e-8])
    assert not root_allowance(only("square"), [x], (0,), 2 * x * (1 + 1e-14), "float64").any()
    x = np.array([700.0])  # 2 ULP of the input move exp by 1400 ULP
    assert not root_allowance(only("exp"), [x], (0,), np.exp(x) * (1 + 1e-14), "float64").any()


def test_at_a_kink_the_interval_is_allowed_and_no_more() -> None:
    relu, x = only("relu"), np.array([0.0, 0.0, 0.0, 1.0])
    assert kink_allowance(relu, [x], (0,), np.array([0.0, 0.5, 1.5, 0.5]), "float64").tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert not kink_allowance(only("sin"), [x], (0,), np.array([0.0] * 4), "float64").any()


# ---------------------------------------------------------------------------------------------- the search


def test_a_correct_primitive_passes() -> None:
    rows = census(["exp", "multiply"], points=400)
    assert [(r.op, r.argument) for r in rows] == [
        *(("multiply", a) for a in ("0", "1", "0,0", "0,1", "1,0", "1,1")),
        ("exp", "0"),
        ("exp", "0,0"),
    ]
    assert all(r.ok and r.worst_ulp <= LIMIT and r.points > 300 and not r.open for r in rows)


def _planted(monkeypatch: pytest.MonkeyPatch, name: str, rule: Any) -> Subject:
    prim = REGISTRY[name]
    monkeypatch.setattr(prim, "partials", (rule,))
    return Subject(prim)


def test_a_formula_that_loses_digits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # right on paper, and to the last digits in the middle; wrong in both tails
    subject = _planted(monkeypatch, "tanh", lambda xp, y, x: 1 - xp.tanh(x) * xp.tanh(x))
    first, second = survey(subject, points=600)
    assert not first.ok
    assert first.worst_ulp > 1e10
    assert abs(first.where[0]) > 1
    assert not second.ok


def test_a_fault_in_one_small_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # 8 ULP off within 2**-30 of 1, right everywhere else
    square = REGISTRY["square"]
    monkeypatch.setattr(
        square, "partials", (lambda xp, y, x: 2 * x + xp.where(xp.less(xp.abs(x - 1) * 2**30, 1), x / 2**49, 0 * x),)
    )
    row = survey(Subject(square), orders=(1,), points=2_000)[0]
    assert row.worst_ulp >= 4
    assert abs(row.where[0] - 1) < 2.0**-30


def test_a_missing_second_derivative_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = _planted(monkeypatch, "sin", lambda xp, y, x: xp.stop_gradient(xp.cos(x)))
    first, second = survey(subject, points=300)
    assert first.ok
    assert not second.ok
    assert second.got == 0


def test_rows_are_plain_data_and_do_not_depend_on_where_they_run() -> None:
    rows = census(["sqrt"], points=200, dtypes=("float64", "float32"))
    with ThreadPoolExecutor(1) as pool:
        assert census(["sqrt"], points=200, dtypes=("float64", "float32"), executor=pool) == rows
    assert isinstance(rows[0], Row)
    assert {r.dtype for r in rows} == {"float64", "float32"}


def test_progress_is_told() -> None:
    told: list[Any] = []
    census(["sin", "cos"], points=100, orders=(1,), progress=lambda *a: told.append(a))
    assert told == [(1, 2, "sin"), (2, 2, "cos")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"names": ["no_such_op"]}, "no_such_op"),
        ({"names": ["matmul"]}, "matmul"),
        ({"names": ["floor"]}, "floor"),
        ({"names": "sin"}, r"\['sin'\]"),
        ({"points": 5}, ">= 100"),
        ({"points": 2**62}, "at most 10,000,000"),
        ({"orders": (3,)}, "1 and 2"),
        ({"orders": ()}, "1 and 2"),
        ({"dtypes": ("float16",)}, "float16"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        census(**arguments)


def test_every_differentiable_elementwise_primitive_is_surveyed() -> None:
    wanted = {p.name for p in REGISTRY.values() if p.kind == "elementwise" and p.differentiable}
    assert {s.prim.name for s in subjects()} == wanted


PUBLIC = [s for s in subjects() if s.prim.public]


# `gtape verify` surveys all, so the usual run takes each third.
@pytest.mark.slow
@pytest.mark.parametrize("subject", PUBLIC if LARGE else PUBLIC[::3], ids=str)
def test_public_primitives_keep_to_4_ulp(subject: Subject) -> None:
    # The survey searches for each partial, and functions of several arguments have many.
    points = 600 if LARGE else max(100, 150 // len(subject.prim.rules) ** 2)
    for dtype in ("float64", "float32"):
        for row in survey(subject, dtype=dtype, points=points):
            assert row.ok, row


def test_the_doctor_takes_names() -> None:
    found = examine_kernels(["sin", "igamma"], points=100)
    assert {(k.op, k.dtype) for k in found} == {(op, d) for op in ("sin", "igamma") for d in ("float64", "float32")}
    with pytest.raises(ValueError, match="no primitive named"):
        examine_kernels(["sinn"])


def test_the_doctor_measures_values() -> None:
    kernel = measure(only("sqrt"), "float64", 300)
    assert kernel.ok
    assert 0 < kernel.measured <= 0.5

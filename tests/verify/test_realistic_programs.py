"""Realistic programs under the verifier: no false alarm, no crash, and hardly anything undecided.

`GTAPE_LARGE=1` runs each program in its full length as well, in both dtypes and orders.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from campaigns import LARGE, in_turn
from realistic import PROGRAMS, Draw

import gtape as tf
from gtape.verify import check
from gtape.verify.verdicts.verdict import Report

F32, F64 = np.float32, np.float64
KINDS = [(F64, 1), (F32, 2), (F32, 1), (F64, 2)]
CASES = [
    (name, dtype, order)
    for name, program in PROGRAMS.items()
    for dtype, order in in_turn([(dtype, order) for dtype, order in KINDS if order in program.orders], name)
]
FLAGGED = [(name, dtype) for name in PROGRAMS for dtype in in_turn([F32, F64], name)]
LONG = [(name, dtype) for name in PROGRAMS for dtype in (F32, F64)]


def passes(name: str, report: Report) -> None:
    if any(f.verdict == "undecided" for f in report.findings):
        assert PROGRAMS[name].undecided, report
        assert all(f.ok or f.verdict == "undecided" for f in report.findings), report
    else:
        assert report.ok, report


def _ids(x: Any) -> str:
    return str(getattr(x, "__name__", x))


def test_there_are_enough_programs_and_few_undecided_ones() -> None:
    assert len(PROGRAMS) >= 60
    assert sum(bool(p.undecided) for p in PROGRAMS.values()) <= len(PROGRAMS) / 100


@pytest.mark.parametrize(("name", "dtype", "order"), CASES, ids=_ids)
def test_a_right_program_passes(name: str, dtype: Any, order: int) -> None:
    f, at = PROGRAMS[name].build(Draw(dtype, 1))
    passes(name, check(f, *at, order=order))


@pytest.mark.parametrize(("name", "dtype"), FLAGGED, ids=_ids)
def test_a_right_program_passes_under_the_flag(name: str, dtype: Any) -> None:
    f, at = PROGRAMS[name].build(Draw(dtype, 2))
    xs = [tf.constant(x) for x in at]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if PROGRAMS[name].undecided else "error")
        with tf.GradientTape(verify=True) as tape:
            tape.watch(xs)
            y = f(*xs)
        tape.gradient(y, xs)


@pytest.mark.skipif(not LARGE, reason="programs of full length take minutes")
@pytest.mark.parametrize(("name", "dtype"), LONG, ids=_ids)
def test_a_right_program_of_full_length_passes(name: str, dtype: Any) -> None:
    f, at = PROGRAMS[name].build(Draw(dtype, 1, large=True))
    passes(name, check(f, *at))

"""Faults planted in the ops of realistic programs: the check finds them and names the op.

The usual run plants one fault in each program, `GTAPE_LARGE=1` every one: each transform in each rule that contributes
to the gradient.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from campaigns import LARGE, in_turn
from realistic import PROGRAMS, Draw

import gtape as tf
from gtape.verify import check
from gtape.verify.programs.mutants import TRANSFORMS, bar, planted, scaled
from gtape.verify.verdicts.verdict import Report

LARGE_FAULTS = ("sign", "factor 2", "missing case")
KINDS = [*LARGE_FAULTS, "smallest", "smallest in floats"]
# The programs in which residuals are made constant, which shows at order 2 only.
SECOND = [n for n, p in PROGRAMS.items() if 2 in p.orders]


class Fault(NamedTuple):
    """A transform of one rule of one op."""

    op: str
    argument: int
    kind: str
    terms: int

    def transform(self, dtype: Any) -> tuple[Any, str]:
        """The transform and the worlds that it is planted in."""
        if self.kind in TRANSFORMS:
            return TRANSFORMS[self.kind], "all"
        return scaled(1.0 + bar(dtype, self.terms)), "floats" if self.kind.endswith("floats") else "all"


def gradient(name: str, dtype: Any, order: int) -> list[Any]:
    """The numbers of a program: its gradient, or the gradient of the sum of its gradient."""
    f, at = PROGRAMS[name].build(Draw(dtype, 1))
    xs = [tf.constant(x) for x in at]
    with tf.GradientTape() as outer:
        outer.watch(xs)
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = f(*xs)
        made = tape.gradient(y, xs)
        if order == 2:
            made = [tf.reduce_sum(tf.convert_to_tensor(g)) for g in made if g is not None]
    made = outer.gradient(made, xs) if order == 2 else made
    return [None if g is None else np.asarray(tf.convert_to_tensor(g)) for g in made]


def differ(a: list[Any], b: list[Any], kind: str) -> bool:
    """Whether a fault changes a number, a large fault by more than rounding.

    Numbers far below the largest do not count, because floats hold nothing but rounding of those that are exactly 0.
    """
    known = [(p, q) for p, q in zip(a, b, strict=True) if p is not None and q is not None]
    size = max([np.abs(q).max(initial=0.0) for _, q in known], default=0.0)
    for p, q in known:
        least = np.sqrt(np.finfo(q.dtype).eps) * size
        small = kind.startswith("smallest")
        changed = ~(p == q) & (np.abs(q) > least) if small else ~(np.abs(p - q) <= least)
        if changed.any():
            return True
    return False


def judged(name: str, dtype: Any, order: int = 1) -> Report:
    f, at = PROGRAMS[name].build(Draw(dtype, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check(f, *at, order=order)


def faults(name: str, dtype: Any) -> list[Fault]:
    used = sorted(judged(name, dtype).used.items())
    return [Fault(op, argument, kind, n) for (op, argument), n in used for kind in KINDS]


def outcome(name: str, fault: Fault, dtype: Any, right: list[Any], order: int = 1) -> tuple[bool, bool] | None:
    """Whether the check finds a fault, and whether it names the op; None for a fault that changes no number."""
    transform, worlds = fault.transform(dtype)
    with planted(fault.op, fault.argument, transform, worlds=worlds), np.errstate(all="ignore"):
        try:
            changed = differ(gradient(name, dtype, order), right, fault.kind)
        except Exception:  # a program may stop at wrong numbers, and so does its check
            return None
        if not changed:
            return None
        report = judged(name, dtype, order)
    wrong = [f for f in report.findings if not f.ok]
    return bool(wrong), any(f.op == fault.op for f in wrong)


def all_outcomes(name: str, dtype: Any) -> Iterator[tuple[Fault, tuple[bool, bool]]]:
    """Every fault of a program that changes a number, with its outcome."""
    right = gradient(name, dtype, 1)
    for fault in faults(name, dtype):
        found = outcome(name, fault, dtype, right)
        if found is not None:
            yield fault, found
    if name in SECOND:
        right = gradient(name, dtype, 2)
        for op, argument in sorted(judged(name, dtype).used):
            fault = Fault(op, argument, "constant residual", 1)
            found = outcome(name, fault, dtype, right, order=2)
            if found is not None:
                yield fault, found


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fault_in_a_realistic_program_is_found_and_named(name: str) -> None:
    dtype = in_turn([np.float64, np.float32], name)[0]
    candidates = faults(name, dtype)
    rng, right = np.random.default_rng(len(name)), gradient(name, dtype, 1)
    for i in rng.permutation(len(candidates)).tolist():
        found = outcome(name, candidates[i], dtype, right)
        if found is not None:
            assert found == (True, True), candidates[i]
            return


@pytest.mark.skipif(not LARGE, reason="all faults take minutes")
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_nearly_all_faults_are_found_and_named(dtype: Any) -> None:
    missed, unnamed, count = [], [], 0
    for name in PROGRAMS:
        mine = list(all_outcomes(name, dtype))
        count += len(mine)
        missed += [(name, fault) for fault, (found, _) in mine if not found]
        unnamed += [(name, fault) for fault, (found, named) in mine if found and not named]
        told = sum(found for _, (found, _) in mine), sum(named for _, (_, named) in mine)
        print(f"{name}: {len(mine)} faults, {told[0]} found, {told[1]} named")
    assert len(missed) <= 0.005 * count, missed
    assert len(unnamed) <= 0.01 * (count - len(missed)), unnamed

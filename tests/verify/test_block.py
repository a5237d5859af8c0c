"""Rows of a Hessian that are checked together: the same report as row by row, and each wrong row found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import ctx

import gtape as tf
from gtape.verify import check
from gtape.verify.judging.block import Block
from gtape.verify.judging.examine import Gradient, Rows
from gtape.verify.judging.recording import Recording

W = np.random.default_rng(1).normal(size=(4, 3))
X = np.random.default_rng(2).normal(size=(3, 4))


def _path_sum(x: Any) -> Any:
    """The logarithm of the sum over paths, which cannot reach some numbers in time, so that zeros need many bits."""
    scores = tf.nn.log_softmax(x)
    never = tf.constant(-1e30, scores.dtype)
    paths = [scores[0, 0], scores[0, 1], never, never]
    for t in range(1, 3):
        before = [never, *paths[:-1]]
        paths = [tf.math.logaddexp(p, b) + scores[t, s] for s, (p, b) in enumerate(zip(paths, before, strict=True))]
    return -tf.math.logaddexp(paths[-1], paths[-2])


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "network": lambda x: tf.reduce_sum(tf.tanh(tf.matmul(x, W)) ** 2),
    "softmax": lambda x: tf.reduce_sum(tf.nn.softmax(x) * W.T),
    "broadcast": lambda x: tf.reduce_sum((x[:, None] * x[None, :] + x) ** 3),
    "joined": lambda x: tf.reduce_sum(tf.concat([x, tf.sin(x)], 0) ** 3) * tf.reduce_prod(x),
    "relu": lambda x: tf.reduce_sum(tf.nn.relu(tf.matmul(x, W)) ** 3),
    "overflowing rows": lambda x: tf.reduce_sum(tf.exp(x * 200)),
    "zeros that need many bits": _path_sum,
    "a rule for one row": lambda x: tf.reduce_sum(tf.linalg.expm(x[:, :3]) ** 2) * x[0, 3],
}


def _told(f: Callable[[Any], Any], at: Any) -> Any:
    r = check(f, at, order=2)
    findings = sorted((g.verdict, g.order, str(g.op), g.count, str(g.element), str(g.got)) for g in r.findings)
    return r.verdict, r.checked, r.max_ulp, r.coverage, r.used, findings


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_together_get_the_report_of_rows_one_by_one(
    name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = _told(FUNCTIONS[name], X.astype(dtype))
    monkeypatch.setattr(Block, "reports", lambda self, bits: None)
    assert together == _told(FUNCTIONS[name], X.astype(dtype))


def test_a_wrong_number_in_any_row_is_found_in_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Recording.programs

    def spoilt(self: Recording, order: int | None = None) -> Any:
        for place, program, seeds, got in programs(self, order):
            if place == (0, (2, 1)):
                got = [np.where(np.arange(4) == 3, g * (1 + 1e-9), g) for g in got]
            yield place, program, seeds, got

    monkeypatch.setattr(Recording, "programs", spoilt)
    wrong = [f for f in check(FUNCTIONS["network"], X, order=2).findings if not f.ok]
    assert [f.element[1][1] for f in wrong if f.element] == [3]
    assert all("element [2, 1]" in f.reason for f in wrong)


@pytest.mark.parametrize("name", ["zeros that need many bits", "a rule for one row"])
def test_rows_are_swept_together_at_every_precision(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, by_one = [], Rows.examine

    def counted(self: Rows, *args: Any, **options: Any) -> Any:
        alone.append(args)
        return by_one(self, *args, **options)

    monkeypatch.setattr(Rows, "examine", counted)
    assert check(FUNCTIONS[name], X, order=2).ok
    assert len(alone) <= X.size / 2


def test_costly_bounds_wait_until_the_exact_numbers_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, raised, at = list[str](), list[int](), Gradient.at

    def noted(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def made(self: Gradient, *args: Any) -> Any:
            asked.append(name)
            return answer(self, *args)

        return made

    def attempt(self: Gradient, *args: Any) -> None:
        before = len(asked)
        try:
            at(self, *args)
        except ArithmeticError:
            assert len(asked) == before
            raised.append(ctx.prec)
            raise

    monkeypatch.setattr(Gradient, "moved", noted("moved", Gradient.moved))
    monkeypatch.setattr(Gradient, "bounds", noted("bounds", Gradient.bounds))
    monkeypatch.setattr(Gradient, "terms", noted("terms", Gradient.terms))
    monkeypatch.setattr(Gradient, "at", attempt)
    monkeypatch.setattr(Block, "reports", lambda self, bits: None)
    assert check(_path_sum, X, order=2).ok
    assert raised

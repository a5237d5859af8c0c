"""Rows of a Hessian that are checked together: the same report as row by row, and each wrong row found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check
from gtape.verify.judging.block import Block
from gtape.verify.judging.recording import Recording

W = np.random.default_rng(1).normal(size=(4, 3))
X = np.random.default_rng(2).normal(size=(3, 4))

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "network": lambda x: tf.reduce_sum(tf.tanh(tf.matmul(x, W)) ** 2),
    "softmax": lambda x: tf.reduce_sum(tf.nn.softmax(x) * W.T),
    "broadcast": lambda x: tf.reduce_sum((x[:, None] * x[None, :] + x) ** 3),
    "joined": lambda x: tf.reduce_sum(tf.concat([x, tf.sin(x)], 0) ** 3) * tf.reduce_prod(x),
    "relu": lambda x: tf.reduce_sum(tf.nn.relu(tf.matmul(x, W)) ** 3),
    "overflowing rows": lambda x: tf.reduce_sum(tf.exp(x * 200)),
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
    monkeypatch.setattr(Block, "reports", lambda self: None)
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

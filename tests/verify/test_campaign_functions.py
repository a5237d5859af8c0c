"""Campaigns over the functions of a user's module, unusual ones included."""

from __future__ import annotations

from typing import Any

import pytest

from gtape.verify.campaigns.kinds import kind_of
from gtape.verify.campaigns.totals import totals_of

MODULE = """
import itertools
import sys

import gtape as tf

calls = itertools.count()


def right(x):
    return tf.sin(x) * x


@tf.custom_gradient
def wrong(x):
    return tf.sin(x), lambda g: g * 2.0


def text(x):
    return "no tensor"


def changing(x):
    return x * float(next(calls))


def raising(x):
    raise RuntimeError("always")


def leaving(x):
    sys.exit(4)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("functions") / "campaign_functions_user.py"
    file.write_text(MODULE)
    kind = kind_of("functions")
    shard = {"kind": "functions", "module": str(file), "seed": 0, "points": 2, "order": 1,
             "dtype": "float64", "seconds": 10.0}  # fmt: skip

    def run(name: str) -> dict[str, str]:
        outcome = kind.run({**shard, "function": name})
        return {f["cause"].partition(": ")[2]: f["text"] for f in outcome.findings}

    return run


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("wrong", "rule, order 1, op wrong"),
        ("text", "returns no floating-point tensors"),
        ("changing", "is not deterministic"),
        ("raising", "raises RuntimeError"),
        ("leaving", "raises SystemExit"),
    ],
)
def test_an_unusual_function_is_a_finding_with_its_reason(name: str, cause: str, found: Any) -> None:
    assert cause in found(name)


def test_a_right_function_is_no_finding(found: Any) -> None:
    assert not found("right")


def test_shapes_are_advised_only_where_other_shapes_may_help(found: Any) -> None:
    assert "GTAPE_SHAPES" in found("raising")["raises RuntimeError"]
    assert "GTAPE_SHAPES" not in found("text")["returns no floating-point tensors"]


def test_the_gravest_causes_come_first() -> None:
    line = {"number": 0, "shard": {}, "status": "done", "counts": {}, "largest": {}}
    findings = [{"verdict": v, "cause": v} for v in ("undecided", "unstable", "rule")]
    assert [f["verdict"] for f in totals_of([{**line, "findings": findings}]).causes] == [
        "rule", "unstable", "undecided"
    ]  # fmt: skip

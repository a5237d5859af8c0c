"""Campaigns over the functions of a user's module, unusual ones included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gtape.verify.campaigns.kinds import kind_of
from gtape.verify.campaigns.running import Campaign
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


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"order": "9"}, "order must be among 1, 2, 3, 4, 5, 6, 7, 8, not 9"),
        ({"order": 0}, "order must be among"),
        ({"seconds": -1.0}, "seconds must be a positive number of seconds"),
        ({"seconds": "nan"}, "seconds must be a positive number of seconds"),
        ({"seconds": "inf"}, "seconds must be a positive number of seconds"),
        ({"dtype": "int8"}, "dtype must be among float64, float32, float16, not int8"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_its_name(settings: Any, says: str, tmp_path: Path) -> None:
    file = tmp_path / "campaign_functions_refused.py"
    file.write_text(MODULE)
    with pytest.raises(ValueError, match=says):
        Campaign("functions", settings, load=[str(file)])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_every_allowed_dtype_runs(dtype: str, tmp_path: Path) -> None:
    file = tmp_path / f"campaign_functions_in_{dtype}.py"
    file.write_text(MODULE)
    what = Campaign("functions", {"dtype": dtype, "names": ["right"], "size": 3}, load=[str(file)], shards=1)
    for _, shard in what.plan():
        outcome = kind_of("functions").run(shard)
        assert outcome.counts["points"] >= 3 and not outcome.findings

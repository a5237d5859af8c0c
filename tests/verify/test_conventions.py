"""Conventions at kinks and ends, generated from the declarations: the page is up to date, and the tape keeps them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import judge
from gtape.verify.command import cli, reference
from gtape.verify.command.reference import Convention, End, at_point, conventions, ends, function

KINKS = conventions()
ENDS = ends()


def _name(row: Any) -> str:
    return f"{row.op}({reference._arguments(row.at)}) by {row.argument + 1}"


def test_the_page_is_what_the_declarations_say() -> None:
    page = Path(__file__).parents[2] / "docs" / "conventions.md"
    assert page.read_text(encoding="utf-8") == reference.page(), "run: gtape conventions docs/conventions.md"


def test_the_command_writes_the_page_and_its_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, data = tmp_path / "page.md", tmp_path / "data.json"
    assert cli.main(["conventions", str(page), "--json", str(data)]) == 0
    assert "kinks" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8") == reference.page()
    rows = json.loads(data.read_text(encoding="utf-8"))["conventions"]
    assert len(rows) == len(KINKS) + len(ENDS)
    assert cli.main(["conventions"]) == 0
    assert capsys.readouterr().out == reference.page()


@pytest.mark.parametrize("row", [k for k in KINKS if k.inside is not None], ids=_name)
def test_a_kink_has_a_value_between_the_one_sided_derivatives(row: Convention) -> None:
    assert row.inside


@pytest.mark.parametrize("row", [k for k in KINKS if k.inside is None], ids=_name)
def test_a_kink_without_two_finite_sides_has_the_least_value(row: Convention) -> None:
    # Nothing lies between the sides of a filled-in pole, or where one side does not exist: 0 is the least of all.
    assert row.derivative == 0.0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("row", KINKS, ids=_name)
def test_a_kink_has_the_same_value_in_every_mode_dtype_and_shape(row: Convention, dtype: str) -> None:
    f = function(row.op)
    _, derivative = at_point(f, row.at, row.argument, dtype)
    assert derivative == pytest.approx(row.derivative, rel=1e-6, abs=0)
    xs = [tf.constant(np.asarray(a, dtype)) for a in row.at]
    tangent = np.zeros(np.shape(row.at[row.argument]), dtype)
    tangent.reshape(-1)[0] = 1
    with tf.autodiff.ForwardAccumulator(xs[row.argument], tf.constant(tangent)) as acc:
        y = f(*xs)
    forward = acc.jvp(y, unconnected_gradients="zero").numpy()
    if np.size(forward) == 1:
        assert float(np.ravel(forward)[0]) == pytest.approx(row.derivative, rel=1e-6, abs=0)
    if not any(isinstance(a, list) for a in row.at):
        _, derivative = at_point(f, tuple([a, a] for a in row.at), row.argument, dtype)
        assert derivative == pytest.approx(row.derivative, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    "row", [k for k in KINKS if k.inside is not None and len(k.at) == 1 and not isinstance(k.at[0], list)], ids=_name
)
def test_judge_takes_the_convention_and_refuses_what_lies_outside_the_interval(row: Convention) -> None:
    f = function(row.op)
    assert judge(f, row.at, row.derivative).ok
    assert row.left is not None and row.right is not None
    report = judge(f, row.at, max(row.left, row.right) + 0.5)
    assert not report.ok


@pytest.mark.parametrize("row", ENDS, ids=_name)
def test_where_a_domain_ends_nothing_finite_is_made_up(row: End) -> None:
    # A finite slope only where the exact derivative just inside is finite, too.
    if math.isfinite(row.derivative):
        sides = [reference._beside(function(row.op), row.at, row.argument, sign) for sign in (-1, 1)]
        assert any(s is not None and math.isclose(s, row.derivative, rel_tol=1e-4) for s in sides)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("row", [e for e in ENDS if e.beyond is not None], ids=_name)
def test_outside_of_a_domain_value_and_derivative_are_nan(row: End, dtype: str) -> None:
    assert row.beyond is not None
    value, derivative = at_point(function(row.op), row.beyond, row.argument, dtype)
    assert math.isnan(value)
    assert math.isnan(derivative)


def test_ops_without_a_derivative_give_none() -> None:
    x = tf.constant([0.5, 2.0])
    for name in ("floor", "ceil", "rint", "is_nan"):
        assert name in reference.without_derivative()
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = getattr(tf.math, name)(x)
        assert tape.gradient(y, x) is None


def test_a_kink_that_the_page_cannot_show_is_an_error_that_says_what_to_add() -> None:
    class Made:
        name = "made"

    with pytest.raises(KeyError, match="_MET"):
        reference._point(Made(), "on a Tuesday")  # type: ignore[arg-type]

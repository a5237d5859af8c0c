"""gtape mutants: faults are planted where they fit, found by the channels that can see them, and counted."""

from __future__ import annotations

import ast
import json

import numpy as np
import pytest
from campaigns import LARGE

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.namespaces import catalogue
from gtape.verify.campaigns.mutants import operators_named
from gtape.verify.command import cli
from gtape.verify.command.mutants import Matrix
from gtape.verify.programs.kills import try_all
from gtape.verify.programs.operators import OPERATORS, mutants_of
from gtape.verify.programs.textbook import textbook_slope
from gtape.verify.search.rule_source import changed, changes, rule_node

catalogue.load()
DIFFERENTIABLE = [p for p in REGISTRY.values() if p.differentiable]


@pytest.mark.parametrize("prim", DIFFERENTIABLE, ids=lambda p: str(p.name))
def test_each_rule_has_a_source_and_each_change_compiles(prim: object) -> None:
    for rule in prim.rules:  # type: ignore[attr-defined]
        if callable(rule):
            assert rule_node(rule) is not None
            for change in changes(rule):
                made = changed(rule, change)
                assert made.__code__.co_argcount == rule.__code__.co_argcount
                assert change.before != change.after


def test_a_changed_rule_sees_the_names_of_its_closure_and_its_defaults() -> None:
    def make(k: int) -> object:
        return lambda xp, y, x, n=3: k * x + n

    rule = make(5)
    drop = next(c for c in changes(rule) if c.before == "k * x" and c.after == "x")  # type: ignore[arg-type]
    assert changed(rule, drop)(None, 0, 2) == 5  # type: ignore[arg-type]


@pytest.mark.slow
def test_every_operator_fits_somewhere() -> None:
    found = {m.operator for p in DIFFERENTIABLE for m in mutants_of(p)}
    assert found == set(OPERATORS)


def test_a_block_restores_the_rule() -> None:
    x = tf.constant(0.5, tf.float64)
    for mutant in mutants_of(REGISTRY["tanh"]):
        before = REGISTRY["tanh"].partials, REGISTRY["tanh"].kernel, REGISTRY["tanh"].jvp
        with mutant.plant():
            pass
        assert (REGISTRY["tanh"].partials, REGISTRY["tanh"].kernel, REGISTRY["tanh"].jvp) == before
    assert tf.verify.check(tf.tanh, x, order=2).ok


@pytest.mark.parametrize(
    ("name", "text", "at", "wrong"),
    [
        ("tanh", "1 - tanh(x)**2", 20.0, 0.0),
        ("asinh", "1/sqrt(x**2 + 1)", 1e200, 0.0),
        ("log1p", "1/(x + 1)", -0.5, 2.0),
    ],
)
def test_textbook_formulas(name: str, text: str, at: float, wrong: float) -> None:
    made = textbook_slope(REGISTRY[name], 0, {})
    assert made is not None and made[1] == text
    ast.parse(made[1])
    from gtape.engine.worlds import NUMPY

    with np.errstate(all="ignore"):
        assert made[0](NUMPY, None, np.array(at)) == wrong


SMALL = ["tanh", "relu", "atan2", "softmax", "transpose", "matmul", "gather", "sum_to", "prod", "where"]


# The usual run takes every second op, and of it every fourth kind of mutant, beginning with another kind for each op.
@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL if LARGE else SMALL[::2])
def test_check_finds_every_mutant_and_names_the_op(name: str) -> None:
    fitting = sorted({m.operator for m in mutants_of(REGISTRY[name])})
    chosen = fitting if LARGE else fitting[SMALL.index(name) % 4 :: 4]
    trials = [t for t in try_all(name, tries=2, operators=chosen) if t.state == "applicable"]
    assert trials
    assert [(t.operator, t.text) for t in trials if not t.kills["check"].found] == []
    unnamed = [(t.operator, t.text) for t in trials if not t.kills["check"].named]
    assert len(unnamed) <= (name in ("matmul", "prod")), unnamed
    forward = [t for t in trials if t.operator == "m15 one mode wrong, the other right"]
    assert all(t.kills["flag"].found and t.kills["check"].named for t in forward)


@pytest.mark.slow
def test_finite_differences_miss_what_check_finds() -> None:
    (lost,) = try_all("tanh", tries=3, operators=operators_named(["textbook"]))
    assert lost.kills["check"].found and not lost.kills["differences"].found and not lost.kills["plain"].found


@pytest.mark.slow
def test_the_command_prints_a_matrix_and_writes_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mutants", "sinh", "--tries", "2", "--operators", "m2", "m16", "--processes", "1"]
    assert cli.main([*words, "--survivors"]) == 0
    out = capsys.readouterr().out
    assert "m2 flip a sign" in out and "m16 missing case" in out and "check found 2 of 2 (100.0 %)" in out
    assert cli.main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] and data["applicable"] == 2 and data["found"]["check"] == 2
    assert {t["operator"] for t in data["trials"]} == {"m2 flip a sign", "m16 missing case"}


def test_a_missed_mutant_is_a_finding() -> None:
    (trial,) = try_all("sinh", tries=1, operators=["m16 missing case"])
    missed = trial._replace(kills=trial.kills | {"check": trial.kills["check"]._replace(found=False)})
    assert Matrix([trial]).ok and not Matrix([missed]).ok
    assert any("missed: sinh" in line for line in Matrix([missed]).survivors())


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--operators", "m99"], "no such kind"), (["floor"], "no rule to spoil"), (["no_such_op"], "no op named")],
)
def test_wrong_usage(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["mutants", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_rule_of_wrong_shape_is_named() -> None:
    mutant = next(m for m in mutants_of(REGISTRY["transpose"]) if m.operator.startswith("m14"))
    x = np.ones((2, 3))
    with mutant.plant():
        for order in (1, 2):
            report = tf.verify.check(lambda x: tf.transpose(x) * np.ones((3, 2)), x, order=order)
            assert report.findings[0].op == "transpose" and "shape [3, 2]" in report.findings[0].reason
        with pytest.raises(tf.VerificationError, match="gives a cotangent of shape"):
            v = tf.Variable(x)
            with tf.GradientTape(verify=True) as tape:
                y = tf.transpose(v) * np.ones((3, 2))
            tape.gradient(y, v)
        for method in ("jacobian", "batch_jacobian"):
            with tf.GradientTape() as tape:
                y = tf.transpose(v) * np.ones((3, 2))
                y = tf.reshape(y, (2, 3))
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \[3, 2\] for a source of shape \[2, 3\]"):
                getattr(tape, method)(y, v)
        with tf.GradientTape(verify=True) as tape:
            y = tf.transpose(v) * np.ones((3, 2))
        with pytest.raises(tf.VerificationError, match="transpose"):
            tape.jacobian(y, v)


@pytest.mark.slow
def test_a_point_that_leaves_the_range_does_not_hide_a_fault_at_the_others() -> None:
    # Among the points are subnormal numbers, whose slope overflows with the declared rule, too.
    found = try_all("log2_slope", tries=1, operators=["m17 state kept from the call before"])
    assert found and all(t.kills["check"].found and t.kills["check"].named for t in found if t.state == "applicable")

"""Random correct programs pass without a word, and faults planted in the same programs are found."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from campaigns import LARGE
from hypothesis import HealthCheck, given, settings

from gtape.verify.programs.false_alarms import campaign, differs_beside, run_one
from gtape.verify.programs.mutants import planted, scaled
from gtape.verify.programs.programs import generate, programs

COUNT = 2000 if LARGE else 8


@pytest.mark.slow
def test_no_false_alarm_and_planted_faults_are_found() -> None:
    totals = campaign(COUNT, seed=1000, plant=True)
    assert not totals.alarms, str(totals)
    assert len(totals.undecided) <= 0.01 * COUNT, str(totals)
    assert sum(totals.planted.values()) > 0.8 * COUNT, str(totals)
    assert totals.rate >= 0.99 or len(totals.missed) <= COUNT // 100 + (COUNT < 100), str(totals)
    for share in ("selections", "long sums", "float32"):
        assert totals.shares[share] >= 0.3 * COUNT, str(totals)


def test_a_seed_gives_the_same_program_and_text_that_runs_alone(tmp_path) -> None:
    program = generate(11)
    assert str(program) == str(generate(11))
    script = tmp_path / "program.py"
    last = "print(*[None if g is None else float(tf.reduce_sum(g)) for g in program(verify=True)])"
    script.write_text(f"{program}\n{last}\n")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env = {**os.environ, "PYTHONPATH": root}  # a bare checkout works, too
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, env=env)
    out = run.stdout.split()
    expected = [None if g is None else float(np.sum(np.asarray(g))) for g in program.run()]
    assert [None if w == "None" else float(w) for w in out] == expected


@pytest.mark.parametrize("seed", [11, 40, 99])
def test_verification_changes_no_number(seed: int) -> None:
    program = generate(seed)
    for plain, checked in zip(program.run(), program.run(verify=True), strict=True):
        assert (plain is None) == (checked is None)
        if plain is not None:
            np.testing.assert_allclose(
                np.asarray(plain), np.asarray(checked), rtol=2e-4 if program.dtype == "float32" else 1e-11, atol=1e-30
            )


@pytest.mark.slow
def test_depth_and_shapes_are_spread() -> None:
    drawn = [generate(s) for s in range(100)]
    assert max(p.depth for p in drawn) >= 35
    assert min(p.depth for p in drawn) <= 2
    assert {p.order for p in drawn} == {1, 2}
    assert any(p.persistent for p in drawn)
    assert any(p.seeds for p in drawn)


def test_a_program_that_loses_its_digits_is_no_false_alarm() -> None:
    lossy = generate(7008891)
    told = run_one(lossy)
    assert told.alarm is None and not told.report.ok
    assert {f.verdict for f in told.report.findings} == {"cancellation"}
    with planted("cos", 0, scaled(1.5)):
        wrong = run_one(lossy)
    assert wrong.alarm is not None and "cos" in wrong.alarm


@pytest.mark.slow
@settings(max_examples=1 + settings.default.max_examples // 3, suppress_health_check=list(HealthCheck))
@given(programs())
def test_hypothesis_draws_programs_that_pass(program) -> None:
    assert run_one(program).alarm is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(665, id="a kink between a number and a matrix"),
        pytest.param(2889, id="a kink between arrays of different ranks"),
        pytest.param(6587, id="a Jacobian that rounds, at a point outside of a domain"),
        pytest.param(53851, id="a decision that reads whole numbers"),
    ],
)
def test_programs_at_special_points_that_searches_have_found(seed: int) -> None:
    assert run_one(generate(seed, special=True), special=True).alarm is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2419, 9010, 18192])
def test_a_second_derivative_by_conventions_that_differs_beside_the_kink_is_a_true_finding(seed: int) -> None:
    program = generate(seed)
    outcome = run_one(program)
    (finding,) = [f for f in outcome.report.findings if not f.ok]
    assert finding.verdict == "convention" and outcome.alarm is None
    for claimed in (finding.got, finding.got + 1.0):
        finding.exact = str(claimed)
        assert not differs_beside(program, finding)

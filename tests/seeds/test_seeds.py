"""The seeds' programs give the numbers that their authors printed, and every gradient in them is the exact one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify.programs import seeds

ROOT = str(Path(tf.__file__).resolve().parents[1])


def test_training_a_line_finds_it() -> None:
    found = re.fullmatch(r"m: (\S+), b: (\S+)", seeds.linear_model()["text"])
    assert found is not None
    assert float(found[1]) == pytest.approx(2.0, abs=1e-3)
    assert float(found[2]) == pytest.approx(1.0, abs=1e-3)


def test_preprocessing_and_another_model_take_no_part() -> None:
    got = seeds.two_models()
    assert [g.shape for g in got["grads"]] == [(2, 2), (2,)]
    assert got["of the first model"] == [None, None]
    assert any((a != b).any() for a, b in zip(got["before"], got["after"], strict=True))


@pytest.mark.parametrize("snippet", [seeds.another_tape, seeds.reset])
def test_only_the_other_loss_is_differentiated(snippet: Any) -> None:
    got = snippet()
    assert got["loss"].numpy() == 24.0
    assert got["gradient"].numpy() == 5.0


def test_derivative_of_a_square_at_3_is_6() -> None:
    assert seeds.square()["dy_dx"].numpy() == 6.0


def test_second_derivative_as_printed_is_none() -> None:
    got = seeds.second_derivative_as_printed()
    assert got["dy_dx"].numpy() == 6.0
    assert got["d2y_dx2"] is None


def test_second_derivative_properly_nested_is_2() -> None:
    got = seeds.second_derivative()
    assert got["dy_dx"].numpy() == 6.0
    assert got["d2y_dx2"].numpy() == 2.0


def test_persistent_tape_gives_both_gradients() -> None:
    got = seeds.persistent()
    assert got["dz_dx"].numpy() == 108.0
    assert got["dy_dx"].numpy() == 6.0


def test_trainable_variables_of_a_model_are_watched() -> None:
    got = seeds.trainable_variables()
    kernel, bias = got["gradients"]
    off = (got["predictions"].numpy() - got["labels"].numpy()) / 2  # softmax and cross-entropy: p - labels
    np.testing.assert_allclose(kernel.numpy(), got["images"].numpy().T @ off, rtol=1e-5)
    np.testing.assert_allclose(bias.numpy(), off.sum(axis=0), rtol=1e-5)


def test_operator_inside_the_block_is_recorded() -> None:
    assert seeds.power()["gradient"].numpy() == 6.0


def test_tape_is_pushed_and_popped_with_the_messages_of_the_original() -> None:
    tape = tf.GradientTape()
    with (
        tape,
        pytest.raises(
            ValueError,
            match=r"^Tape is still recording, This can happen if you try to re-enter an already-active tape\.$",
        ),
    ):
        tape.__enter__()
    with pytest.raises(ValueError, match=r"^Tape is not recording\.$"):
        tape.reset()


def test_only_what_is_watched_by_hand_has_a_gradient() -> None:
    got = seeds.watch_accessed_variables()
    assert got["text"] == "gtape.Tensor(4.0, shape=(), dtype=float32)\nNone"


def test_gradient_of_several_targets_is_that_of_their_sum() -> None:
    got = {name: [float(g) for g in value] for name, value in seeds.several_targets().items()}
    assert got["together"] == [a + b for a, b in zip(got["y1"], got["y2"], strict=True)] == [9.0, 5.0]


def test_gradient_of_a_mean_is_half_of_that_of_two_losses() -> None:
    got = seeds.reduced_loss()
    np.testing.assert_allclose(
        [float(g) for g in got["reduced_grads"]], [0.5 * float(g) for g in got["grads"]], rtol=1e-6
    )


def test_output_gradients_print_the_numbers_of_the_original(capsys: pytest.CaptureFixture[str]) -> None:
    got = seeds.output_gradients()
    assert capsys.readouterr().err.splitlines() == [
        "[0 0.6]",
        "[[2 2], [2 2]]",
        "[[-2 -3.9], [-2 -3.8]]",
        "[-3 -10]",
        "[[7 7], [7 7]]",
        "[[7 7], [7 7]]",
        "[[-7 -7], [-7 -7]]",
    ]
    assert [g.numpy().tolist() for g in got["again"]] == [[-7.0, -7.0], [-7.0, -7.0]]


@pytest.mark.parametrize("name", seeds.PROGRAMS)
def test_every_gradient_is_the_exact_one(name: str) -> None:
    report = seeds.PROGRAMS[name]()
    assert report.ok, report.summary()
    assert report.coverage["gradients"] > 0
    assert report.checked > 0
    assert "undecided" not in {f.verdict for f in report.findings}


@pytest.mark.slow
def test_all_programs_pass_in_a_process_with_the_flag_set() -> None:
    # Warnings are errors, so a gradient that is left undecided fails.
    script = (
        "from gtape.verify.programs import seeds\nfor f in seeds.SNIPPETS.values(): f()\nprint(len(seeds.SNIPPETS))"
    )
    env = {**os.environ, "GTAPE_VERIFY": "1", "PYTHONPATH": ROOT}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(seeds.SNIPPETS)

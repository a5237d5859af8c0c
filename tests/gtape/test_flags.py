"""Who asks for verification, and how strictly."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Any

import pytest

import gtape as tf
from gtape.base.verification import verify_mode


@pytest.mark.parametrize(
    ("text", "mode"),
    [("", False), ("0", False), ("false", False), ("off", False), ("1", True), ("yes", True), ("Strict", "strict")],
)
def test_the_environment_decides_for_a_process(text: str, mode: Any) -> None:
    # A fresh process: the variable is read once.
    env = {**os.environ, "GTAPE_VERIFY": text}
    program = "from gtape.base.verification import verify_mode; print(repr(verify_mode()))"
    made = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert made.stdout.strip() == repr(mode)


def test_inner_blocks_decide_and_outer_ones_come_back() -> None:
    before = verify_mode()
    with tf.verifying():
        assert verify_mode() is True
        with tf.verifying("strict"):
            assert verify_mode() == "strict"
        assert verify_mode() is True
    assert verify_mode() == before


def test_a_block_that_raises_is_over() -> None:
    before = verify_mode()
    with pytest.raises(ZeroDivisionError), tf.verifying():
        raise ZeroDivisionError
    assert verify_mode() == before


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(ValueError, match="True or 'strict'"), tf.verifying("loose"):
        pass


@pytest.mark.parametrize("off", [False, True], ids=["outside of blocks", "in a block that switches checks off"])
def test_a_tape_that_is_made_in_a_block_is_checked_wherever_it_records(off: bool) -> None:
    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return x * x, lambda g: 3.0 * g * x

    with tf.verifying():
        tape = tf.GradientTape()
    x = tf.constant(0.75)
    with tf.verifying(False) if off else contextlib.nullcontext():
        with tape:
            tape.watch(x)
            y = wrong(x)
        with contextlib.nullcontext() if off else pytest.raises(tf.VerificationError):
            tape.gradient(y, x)


def test_a_tape_that_recorded_in_a_block_is_checked_after_the_block() -> None:
    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return tf.sin(x), lambda g: g * tf.cos(x) * 1.5

    x = tf.constant(0.3)
    with tf.verifying(), tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = wrong(x)
    with pytest.raises(tf.VerificationError):
        tape.gradient(y, x)
    with tf.verifying(False):
        assert tape.gradient(y, x) is not None

"""Sweeps over programs: one way back and one way forwards, in every arithmetic."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gtape as tf
import gtape.verify
from gtape.symbolic.balls import precision, to_float
from gtape.symbolic.build import build
from gtape.symbolic.program import Program
from gtape.verify import exact
from gtape.verify.bounds.local import Floats
from gtape.verify.bounds.noise import noisy_gradient
from gtape.verify.bounds.noise_world import NoiseWorld
from gtape.verify.judging.ladder import climb
from gtape.verify.oracles.backward import gradient
from gtape.verify.oracles.oracle import Oracle

FOLDER = Path(inspect.getfile(gtape.verify)).parent
SOURCES = {str(p.relative_to(FOLDER)): p.read_text() for p in FOLDER.rglob("*.py")}


def _several(x: Any) -> Any:
    a, b = tf.split(x, 2)
    return tf.reduce_sum(a * tf.sin(b) + a)


def _switched_off(x: Any) -> Any:
    return tf.reduce_sum(tf.where(x > 0.0, tf.sqrt(tf.maximum(x, 0.0)), x))


def _paused(x: Any) -> Any:
    return tf.reduce_sum(tf.stop_gradient(x) * x + tf.exp(x) * x)


@tf.custom_gradient
def _declared(x: Any) -> Any:
    return tf.tanh(x), lambda g: g * (1.0 - tf.tanh(x) ** 2)


def _recorded(f: Any, x: Any) -> tuple[Program, Any]:
    x = tf.constant(x, tf.float64)
    with tf.GradientTape(persistent=True, verify=True) as tape:
        tape.watch(x)
        y = f(x)
    program = build([(y._record, y._value)], [x], tape._session)
    return program, tape.gradient(y, x).numpy()


@pytest.mark.parametrize("f", [_several, _switched_off, _paused, lambda x: tf.reduce_sum(_declared(x) * x)])
def test_floats_enclosures_and_noise_agree_with_the_tape(f: Any) -> None:
    program, got = _recorded(f, [0.5, -1.25, 2.0, 0.0])
    seeds = [np.ones(())]
    with np.errstate(all="ignore"):
        (floats,) = gradient(program, seeds, Floats(program))
        (plain,) = noisy_gradient(program, seeds, NoiseWorld(np.random.default_rng(0), np.float64))
    np.testing.assert_array_equal(floats, got)
    with precision(200):
        (replayed,) = Oracle(program, seeds).replay()
    np.testing.assert_allclose(to_float(replayed), got, rtol=1e-14)
    np.testing.assert_allclose(plain, got, rtol=1e-14)


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (r"reversed\((self\.)?program\.ancestors", "oracles/backward.py"),
        (r"in range\(len\(program\.nodes\)\) if only", "oracles/forward.py"),
        (r"except TooDeep as", "judging/ladder.py"),
        (r"except Misshapen as", "judging/ladder.py"),
        (r"collect\.note|import note\b", "judging/flag.py"),
    ],
)
def test_each_mechanism_stands_in_one_file(words: str, file: str) -> None:
    assert [name for name, text in SOURCES.items() if re.search(words, text)] == [file]


def test_a_custom_gradient_of_a_wrong_shape_has_no_exact_derivative() -> None:
    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return tf.sin(x), lambda g: tf.reduce_sum(g)

    with pytest.raises(ArithmeticError, match="has shape"):
        exact(lambda x: tf.reduce_sum(wrong(x)), [1.0, 2.0])


def test_the_ladder_stops_at_the_first_precision_that_decides() -> None:
    program, _ = _recorded(_several, [0.5, 1.0])
    tried: list[int] = []

    def attempt(bits: int, degenerate: list[str]) -> str | None:
        tried.append(bits)
        if bits == 100:
            raise ArithmeticError("too wide")
        return None if bits == 200 else "decided"

    assert climb(program, 1, attempt, (100, 200, 300, 400)) == ("decided", None)
    assert tried == [100, 200, 300]
    value, finding = climb(program, 1, attempt, (100,))
    assert value is None and finding is not None
    assert (finding.verdict, finding.reason) == ("undecided", "too wide at 100 bits")

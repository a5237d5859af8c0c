"""What the tape costs: the same gradient by gtape and by hand in NumPy, in one run.

Run ``python tests/benchmarks/tape_overhead.py``; set OPENBLAS_NUM_THREADS=1 for figures that repeat. Ratios are medians
over rounds in which both sides take turns, so that a busy machine slows both alike.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gtape as tf

Work = Callable[[], Any]


def scalar_chain() -> tuple[Work, Work]:
    """1,000 operations on one float64 number."""
    start, scale, shift = np.float64(0.7), np.float64(1.01), np.float64(0.001)
    x, a, b = tf.constant(start), tf.constant(scale), tf.constant(shift)
    sin, tanh = tf.sin, tf.tanh

    def tape() -> Any:
        with tf.GradientTape() as t:
            t.watch(x)
            y = x
            for _ in range(250):
                y = tanh(sin(y) * a) + b
        return t.gradient(y, x).numpy()

    def hand() -> Any:
        y, kept = start, []
        for _ in range(250):
            before, y = y, np.tanh(np.sin(y) * scale)
            kept.append((before, y))
            y = y + shift
        g = np.float64(1.0)
        for before, t in reversed(kept):
            g = g * (1 - t * t) * scale * np.cos(before)
        return g

    return tape, hand


def vectors(n: int) -> Callable[[], tuple[Work, Work]]:
    """`n` operations on vectors of eight float64 numbers."""

    def make() -> tuple[Work, Work]:
        rng = np.random.default_rng(7)
        values = [s * c for c in 0.01 * rng.normal(size=(8, 8)) for s in (1, -1)]
        start = rng.uniform(0.5, 1.5, 8)
        x, constants = tf.constant(start), [tf.constant(c) for c in values]
        sin = tf.sin

        def tape() -> Any:
            with tf.GradientTape() as t:
                t.watch(x)
                y = x
                for k in range(n // 4):
                    y = y - sin(x * y) * constants[k & 15]
                total = tf.reduce_sum(y)
            return t.gradient(total, x).numpy()

        def hand() -> Any:
            y, kept = start, []
            for k in range(n // 4):
                u = start * y
                kept.append((u, y))
                y = y - np.sin(u) * values[k & 15]
            y.sum()
            g, gx = np.ones(8), np.zeros(8)
            for k in range(n // 4 - 1, -1, -1):
                u, before = kept[k]
                t = g * values[k & 15] * np.cos(u)
                gx = gx - t * before
                g = g - t * start
            return gx + g

        return tape, hand

    return make


def mlp() -> tuple[Work, Work]:
    """A step of an MLP 784-128-10, batch 64, float32."""
    rng = np.random.default_rng(7)
    f4 = np.float32
    images, labels = rng.uniform(0, 1, (64, 784)).astype(f4), np.eye(10, dtype=f4)[rng.integers(0, 10, 64)]
    weights = [
        (rng.normal(size=s) / k).astype(f4) for s, k in (((784, 128), 28), ((128,), 99), ((128, 10), 11), ((10,), 99))
    ]
    x, y, variables = tf.constant(images), tf.constant(labels), [tf.Variable(w) for w in weights]
    w1, b1, w2, b2 = variables

    def tape() -> Any:
        with tf.GradientTape() as t:
            h = tf.tanh(tf.matmul(x, w1) + b1)
            z = tf.matmul(h, w2) + b2
            total = tf.math.log(tf.reduce_sum(tf.exp(z), axis=1))
            loss = tf.reduce_mean(total - tf.reduce_sum(y * z, axis=1))
        return t.gradient(loss, variables)[0].numpy()

    def hand() -> Any:
        v1, c1, v2, c2 = weights
        h = np.tanh(images @ v1 + c1)
        z = h @ v2 + c2
        e = np.exp(z)
        s = e.sum(1, keepdims=True)
        (np.log(s[:, 0]) - (labels * z).sum(1)).mean()
        g = (e / s - labels) * f4(1 / 64)
        _ = h.T @ g, g.sum(0)
        u = (g @ v2.T) * (1 - h * h)
        made = images.T @ u
        u.sum(0)
        return made

    return tape, hand


def seconds(work: Work, repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def import_ratio() -> float:
    def cold(line: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", line], check=True), 7)

    bare = cold("pass")
    return (cold("import gtape") - bare) / (cold("import numpy") - bare)


ROWS: dict[str, tuple[Callable[[], tuple[Work, Work]], int, int]] = {
    "scalar chain, 1,000 ops": (scalar_chain, 15, 20),
    "8-vectors, 1,000 ops": (vectors(1_000), 15, 10),
    "8-vectors, 100,000 ops": (vectors(100_000), 7, 1),
    "MLP 784-128-10": (mlp, 15, 20),
}


def main() -> None:
    for name, (make, rounds, repeat) in ROWS.items():
        tape, hand = make()
        assert np.allclose(tape(), hand(), rtol=5e-4, atol=1e-7), f"{name}: the two gradients differ"
        pairs = [(seconds(tape, repeat), seconds(hand, repeat)) for _ in range(rounds)]
        ratio = statistics.median(t / h for t, h in pairs)
        print(f"{name:26s} {min(t for t, _ in pairs) * 1e6:10.0f} us  {ratio:5.2f} times by hand")
    print(f"{'import, cold':26s} {'':13s}  {import_ratio():5.2f} times numpy")


if __name__ == "__main__":
    main()

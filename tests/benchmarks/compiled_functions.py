"""What compiling a function saves: the same derivatives eagerly, compiled, and by hand in NumPy, in one run.

Run ``python tests/benchmarks/compiled_functions.py``, with ``--python`` for the default back end alone; set
OPENBLAS_NUM_THREADS=1 for figures that repeat. Ratios are medians over rounds in which the three take turns, so that a
busy machine slows them alike. The last rows show what a first call costs: the time of tracing, and of building the
program from the traced operations, in milliseconds for 1,000 operations.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gtape as tf
from gtape import nest
from gtape.tapes import inner_loops
from gtape.tapes.program import Program

Work = Callable[[], Any]


def scalar_chain() -> tuple[Any, list[Any], Work]:
    """The gradient of 1,000 operations on one float64 number."""
    start, scale, shift = np.float64(0.7), np.float64(1.01), np.float64(0.001)
    a, b = tf.constant(scale), tf.constant(shift)

    def tape(x: Any) -> Any:
        with tf.GradientTape() as t:
            t.watch(x)
            y = x
            for _ in range(250):
                y = tf.tanh(tf.sin(y) * a) + b
        return t.gradient(y, x)

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

    return tape, [tf.constant(start)], hand


def vectors() -> tuple[Any, list[Any], Work]:
    """The gradient of 1,000 operations on vectors of eight float64 numbers."""
    rng = np.random.default_rng(7)
    values = [s * c for c in 0.01 * rng.normal(size=(8, 8)) for s in (1, -1)]
    start = rng.uniform(0.5, 1.5, 8)
    constants = [tf.constant(c) for c in values]

    def tape(x: Any) -> Any:
        with tf.GradientTape() as t:
            t.watch(x)
            y = x
            for k in range(250):
                y = y - tf.sin(x * y) * constants[k & 15]
            total = tf.reduce_sum(y)
        return t.gradient(total, x)

    def hand() -> Any:
        y, kept = start, []
        for k in range(250):
            u = start * y
            kept.append((u, y))
            y = y - np.sin(u) * values[k & 15]
        y.sum()
        g, gx = np.ones(8), np.zeros(8)
        for k in range(249, -1, -1):
            u, before = kept[k]
            t = g * values[k & 15] * np.cos(u)
            gx = gx - t * before
            g = g - t * start
        return gx + g

    return tape, [tf.constant(start)], hand


def second_derivative() -> tuple[Any, list[Any], Work]:
    """The second derivative of sin(x) exp(x)."""

    def tape(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.sin(x) * tf.exp(x)
            g = inner.gradient(y, x)
        return outer.gradient(g, x)

    x = np.float64(0.7)
    return tape, [tf.constant(x)], lambda: 2 * np.cos(x) * np.exp(x)


def hessian_vector_product() -> tuple[Any, list[Any], Work]:
    """The Hessian of sum(sin(x)²) + (v·x)³ at 100 numbers, times a vector."""
    rng = np.random.default_rng(7)
    x, v = rng.normal(size=100), rng.normal(size=100)

    def tape(x: Any, v: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                s = tf.sin(x)
                d = tf.reduce_sum(v * x)
                y = tf.reduce_sum(s * s) + d * d * d
            g = tf.reduce_sum(inner.gradient(y, x) * v)
        return outer.gradient(g, x)

    def hand() -> Any:
        s, c = np.sin(x), np.cos(x)
        d = np.add.reduce(v * x)
        return 2 * (c * c - s * s) * v + v * (6 * d * np.add.reduce(v * v))

    return tape, [tf.constant(x), tf.constant(v)], hand


def network() -> tuple[Any, list[Any], Work]:
    """The loss and gradients of a network 784-128-10 in float32, for 64 samples."""
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(64, 784)).astype(np.float32), np.eye(10, dtype=np.float32)[rng.integers(0, 10, 64)]
    a, c = [(0.05 * rng.normal(size=s)).astype(np.float32) for s in ((784, 128), (128, 10))]
    b, d = np.zeros(128, np.float32), np.zeros(10, np.float32)

    def step(*xs: Any) -> Any:
        x, y, a, b, c, d = xs
        with tf.GradientTape() as t:
            t.watch([a, b, c, d])
            h = tf.nn.relu(tf.matmul(x, a) + b)
            e = tf.matmul(h, c) + d - y
            loss = tf.reduce_mean(e * e)
        return t.gradient(loss, [a, b, c, d])

    def hand() -> Any:
        z = x @ a + b
        h = np.maximum(z, np.float32(0))
        e = h @ c + d - y
        np.add.reduce(e * e, axis=None)
        g = e * np.float32(2 / e.size)
        dh = (g @ c.T) * (z > 0)
        return [x.T @ dh, np.add.reduce(dh), h.T @ g, np.add.reduce(g)]

    return step, [tf.constant(v) for v in (x, y, a, b, c, d)], hand


def large() -> tuple[Any, list[Any], Work]:
    """The gradient of ten elementwise operations on a million float64 numbers."""
    start = np.random.default_rng(7).uniform(0.5, 1.5, 1_000_000)

    def tape(x: Any) -> Any:
        with tf.GradientTape() as t:
            t.watch(x)
            y = x
            for _ in range(5):
                y = x * y + 0.1
            total = tf.reduce_sum(y)
        return t.gradient(total, x)

    def hand() -> Any:
        y, kept = start, []
        for _ in range(5):
            kept.append(y)
            y = start * y + 0.1
        y.sum()
        g, gx = np.ones_like(start), np.zeros_like(start)
        for before in reversed(kept):
            gx += g * before
            g = g * start
        return gx + g

    return tape, [tf.constant(start)], hand


def repeated(length: int) -> Any:
    """The gradient of a chain of operations on numbers that repeats."""

    def tape(x: Any) -> Any:
        with tf.GradientTape() as t:
            t.watch(x)
            y = x
            for _ in range(length // 4):
                y = tf.tanh(tf.sin(y) * 1.01 + x)
        return t.gradient(y, x)

    return tape


def irregular(length: int) -> Any:
    """The gradient of a random sequence of operations on numbers, each on some of the last 50 results."""
    unary = [tf.sin, tf.cos, tf.tanh, tf.sigmoid, tf.atan, tf.asinh, tf.math.erf, tf.nn.softplus, tf.nn.elu, tf.nn.relu]
    binary = [tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum]
    draw = random.Random(5)
    chosen = [(draw.randrange(15), draw.randrange(1, 51), draw.randrange(1, 51)) for _ in range(length)]

    def tape(x: Any) -> Any:
        with tf.GradientTape() as t:
            t.watch(x)
            values = [x]
            for k, i, j in chosen:
                a, b = values[-min(i, len(values))], values[-min(j, len(values))]
                values.append(unary[k](a) if k < len(unary) else binary[k - len(unary)](a, b))
            total = tf.add_n(values[-50:])
        return t.gradient(total, x)

    return tape


def first_calls(tape: Any, start: Any) -> tuple[float, float, int]:
    """The seconds of tracing and of building in the best of three first calls, and the number of traced operations."""
    build = Program.__init__
    best = (float("inf"), 0.0, 0)
    for _ in range(3):
        built = 0.0

        def timed(program: Any, *args: Any, **words: Any) -> None:
            nonlocal built
            begin = time.perf_counter()
            build(program, *args, **words)
            built += time.perf_counter() - begin

        compiled = tf.function(tape, jit_compile=True)
        Program.__init__ = timed  # type: ignore[method-assign, assignment]
        try:
            whole = seconds(lambda f=compiled: f(start), 1)
        finally:
            Program.__init__ = build  # type: ignore[method-assign]
        assert compiled.summary().startswith("compiled"), compiled.summary()
        count = int(compiled.summary().split()[3])
        best = min(best, (whole - built, built, count), key=lambda found: found[0] + found[1])
    return best


def seconds(work: Work, repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


ROWS: dict[str, tuple[Callable[[], tuple[Any, list[Any], Work]], int, int]] = {
    "scalar chain, 1,000 ops": (scalar_chain, 11, 20),
    "8-vectors, 1,000 ops": (vectors, 11, 10),
    "second derivative, scalar": (second_derivative, 11, 1000),
    "Hessian-vector product, 100": (hessian_vector_product, 11, 300),
    "network 784-128-10": (network, 11, 20),
    "10 ops on 1,000,000": (large, 7, 3),
}


def main() -> None:
    if "--python" in sys.argv[1:]:
        inner_loops.machine = lambda: None  # type: ignore[assignment]
    print("back end:", "Python" if inner_loops.machine() is None else "table over inner loops")
    print(f"{'':28s} {'by hand':>10s} {'eager':>10s} {'compiled':>10s} {'first call':>12s}")
    for name, (make, rounds, repeat) in ROWS.items():
        tape, xs, hand = make()
        compiled = tf.function(tape, jit_compile=True)
        first = seconds(lambda f=compiled, xs=xs: f(*xs), 1)
        made, eager_ones, own = [nest.flatten(f) for f in (compiled(*xs), tape(*xs), hand())]
        for m, e, h in zip(made, eager_ones, own, strict=True):
            assert m.numpy().tobytes() == e.numpy().tobytes(), f"{name}: other bits"
            rtol = 1e-9 if m.dtype == tf.float64 else 1e-4
            assert np.allclose(m.numpy(), h, rtol=rtol, atol=rtol), f"{name}: another derivative than by hand"
        assert compiled.summary().startswith("compiled"), compiled.summary()
        triples = [
            [seconds(work, repeat) for work in (hand, lambda f=tape, xs=xs: f(*xs), lambda f=compiled, xs=xs: f(*xs))]
            for _ in range(rounds)
        ]
        eager, fast = [statistics.median(t[k] / t[0] for t in triples) for k in (1, 2)]
        by_hand = min(t[0] for t in triples)
        print(f"{name:28s} {by_hand * 1e6:7.1f} us {eager:10.2f} {fast:10.2f} {first * 1e3:9.1f} ms")
    print(f"\n{'ms for 1,000 operations':28s} {'operations':>10s} {'eager':>10s} {'tracing':>10s} {'building':>10s}")
    start = tf.constant(0.3, tf.float64)
    for make in (repeated, irregular):
        for length in (1_000, 10_000, 100_000):
            tape = make(length)
            eager_time = seconds(lambda f=tape: f(start), 1)
            tracing, building, count = first_calls(tape, start)
            per = 1e6 / count
            print(
                f"{make.__name__ + f', {length:,} recorded':28s} {count:10,d} {eager_time * per:10.2f} "
                f"{tracing * per:10.2f} {building * per:10.2f}"
            )


if __name__ == "__main__":
    main()

"""What an exact check costs, in CPU seconds: ``python tests/benchmarks/check_costs.py [ROW ...]``.

Each row checks fresh programs of one kind, and prints the second and later checks beside the bar: a chain and a
Runge-Kutta integration per op, a convolutional net as a whole, and a training step as a multiple of the same step
without a check.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gtape as tf
from gtape.symbolic import trace
from gtape.verify import check


def _seconds(run: Callable[[int], Any], repeats: int) -> float:
    """CPU seconds of one run, the median after a first run."""
    took = []
    for k in range(repeats + 1):
        start = time.process_time()
        run(k)
        took.append(time.process_time() - start)
    return sorted(took[1:])[repeats // 2]


def _chain(x: Any) -> Any:
    y = x
    for _ in range(250):
        y = tf.tanh(y * 1.01 + tf.sin(y))
    return y


def _chain_by_order(order: int) -> float:
    ops = len(trace(_chain, 0.5).assignments)

    def run(k: int) -> None:
        assert check(_chain, 0.5 + k / 16, order=order).ok

    return 1e3 * _seconds(run, 5) / ops


def _runge_kutta(x: Any, v: Any) -> Any:
    h = 0.01
    for _ in range(1000):
        k1, l1 = v, -tf.sin(x)
        k2, l2 = v + h / 2 * l1, -tf.sin(x + h / 2 * k1)
        k3, l3 = v + h / 2 * l2, -tf.sin(x + h / 2 * k2)
        k4, l4 = v + h * l3, -tf.sin(x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        v = v + h / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
    return x


def _of_runge_kutta() -> float:
    ops = len(trace(_runge_kutta, 0.5, 0.1).assignments)

    def run(k: int) -> None:
        assert check(_runge_kutta, 0.5 + k / 16, 0.1).ok

    return 1e3 * _seconds(run, 2) / ops


def _net() -> float:
    rng = np.random.default_rng(0)

    def drawn(*shape: int, by: float) -> Any:
        return tf.Variable((rng.normal(size=shape) / by).astype(np.float32))

    labels = tf.constant(np.eye(10, dtype=np.float32)[rng.integers(0, 10, 8)])
    w1, b1, w2, b2 = drawn(3, 3, 1, 8, by=3), drawn(8, by=9), drawn(3, 3, 8, 16, by=9), drawn(16, by=9)
    w3, b3 = drawn(7 * 7 * 16, 10, by=28), drawn(10, by=9)

    def run(_: int) -> None:
        images = tf.constant(rng.uniform(size=(8, 28, 28, 1)).astype(np.float32))
        with tf.GradientTape(verify="strict") as tape:
            h = tf.nn.relu(tf.nn.conv2d(images, w1, strides=1, padding="SAME") + b1)
            h = tf.nn.max_pool2d(h, 2, 2, "VALID")
            h = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(h, w2, strides=1, padding="SAME") + b2), 2, 2, "VALID")
            logits = tf.matmul(tf.reshape(h, [8, -1]), w3) + b3
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        tape.gradient(loss, [w1, b1, w2, b2, w3, b3])

    return _seconds(run, 4)


def _mlp() -> float:
    rng = np.random.default_rng(0)
    shapes = (((784, 128), 28), ((128,), 99), ((128, 10), 11), ((10,), 99))
    w1, b1, w2, b2 = (tf.Variable((rng.normal(size=s) / k).astype(np.float32)) for s, k in shapes)
    labels = tf.constant(np.eye(10, dtype=np.float32)[rng.integers(0, 10, 64)])

    def run(_: int) -> None:
        images = tf.constant(rng.uniform(0, 1, (64, 784)).astype(np.float32))
        with tf.GradientTape(verify="strict") as tape:
            logits = tf.matmul(tf.tanh(tf.matmul(images, w1) + b1), w2) + b2
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        tape.gradient(loss, [w1, b1, w2, b2])

    return _seconds(run, 4)


def _training_step() -> float:
    """How many times as long a training step of a line takes under the flag."""
    x_train, y_train = tf.constant([0.0, 0.5, 1.0, 1.5]), tf.constant([1.0, 2.0, 3.0, 4.0])

    def steps(verify: bool, count: int) -> float:
        m, b = tf.Variable(0.0), tf.Variable(0.0)
        start = time.process_time()
        for _ in range(count):
            with tf.GradientTape(verify=verify) as tape:
                loss = tf.reduce_mean(tf.square(m * x_train + b - y_train))
            gradients = tape.gradient(loss, [m, b])
            m.assign_sub(gradients[0] * 0.05)
            b.assign_sub(gradients[1] * 0.05)
        return (time.process_time() - start) / count

    ratios = [steps(True, 200) / steps(False, 2000) for _ in range(6)]
    return sorted(ratios[1:])[2]


ROWS: dict[str, tuple[Callable[[], float], float, str]] = {
    "chain": (lambda: _chain_by_order(1), 0.05, "ms an op, a chain of 1,000 scalar ops, order 1"),
    "chain2": (lambda: _chain_by_order(2), 0.2, "ms an op, the same, order 2"),
    "rk4": (_of_runge_kutta, 0.05, "ms an op, 1,000 steps of a Runge-Kutta method"),
    "mlp": (_mlp, 0.5, "s, an MLP 784-128-10, batch 64"),
    "conv": (_net, 0.8, "s, a convolutional net on 28x28, batch 8"),
    "training": (_training_step, 25.0, "times the plain step, training a line"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS], help="all by default")
    for name in parser.parse_args().rows or ROWS:
        measure, bar, what = ROWS[name]
        print(f"{name:9}{measure():8.3f}  (bar {bar:g} {what})", flush=True)


if __name__ == "__main__":
    main()

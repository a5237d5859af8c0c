"""How long it takes to check every number of an MLP's gradient exactly: ``python tests/benchmarks/check_mlp.py``."""

from __future__ import annotations

import time

import numpy as np

import gtape as tf
from gtape.verify.verdicts.collect import collecting


def main() -> None:
    rng = np.random.default_rng(0)
    f4 = np.float32
    images = tf.constant(rng.uniform(0, 1, (64, 784)).astype(f4))
    labels = tf.constant(np.eye(10, dtype=f4)[rng.integers(0, 10, 64)])
    shapes = (((784, 128), 28), ((128,), 99), ((128, 10), 11), ((10,), 99))
    w1, b1, w2, b2 = (tf.Variable((rng.normal(size=s) / k).astype(f4)) for s, k in shapes)
    for _ in range(3):
        with collecting() as report:
            start = time.perf_counter()
            with tf.GradientTape(verify="strict") as tape:
                logits = tf.matmul(tf.tanh(tf.matmul(images, w1) + b1), w2) + b2
                loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))
            tape.gradient(loss, [w1, b1, w2, b2])
            took = time.perf_counter() - start
        print(f"{report.checked:,} numbers: {report.verdict}, at most {report.max_ulp:.3g} ULP off, {took:.2f} s")


if __name__ == "__main__":
    main()

"""The gradient of conv2d by input and filters, gtape against PyTorch: ``python tests/benchmarks/conv2d.py``.

PyTorch is looked for in this environment, or in that of the interpreter given with ``--torch``. The bar: at most
3 times its eager time on the CPU.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gtape as tf

IMAGES, FILTERS = (32, 28, 28, 8), (3, 3, 8, 16)

TORCH = """
import time, torch
x = torch.randn(32, 8, 28, 28, requires_grad=True)
w = torch.randn(16, 8, 3, 3, requires_grad=True)
def step():
    y = torch.nn.functional.conv2d(x, w, padding=1)
    return torch.autograd.grad((y * y).sum(), (x, w))
took = []
for _ in range(200):
    start = time.perf_counter()
    step()
    took.append(time.perf_counter() - start)
print(sorted(took)[100])
"""


def median(step: Callable[[], Any], repeats: int = 200) -> float:
    """Seconds for one step, the middle of many."""
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        took.append(time.perf_counter() - start)
    return sorted(took)[repeats // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default=sys.executable, help="a Python interpreter that has PyTorch")
    rng = np.random.default_rng(0)
    x = tf.constant(rng.standard_normal(IMAGES).astype(np.float32))
    w = tf.constant(rng.standard_normal(FILTERS).astype(np.float32))

    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.nn.conv2d(x, w, strides=1, padding="SAME")
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, [x, w])

    python = parser.parse_args().torch
    ours = median(step)
    print(f"gtape   {1e3 * ours:7.2f} ms")
    made = subprocess.run([python, "-c", TORCH], capture_output=True, text=True, check=False)
    if made.returncode:
        print(f"PyTorch is not in the environment of {python}")
        return
    theirs = float(made.stdout)
    print(f"PyTorch {1e3 * theirs:7.2f} ms; gtape takes {ours / theirs:.2f} times that")


if __name__ == "__main__":
    main()

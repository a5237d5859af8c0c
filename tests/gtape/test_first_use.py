"""Ops are imported when first asked for, also by several threads at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import threading
import gtape as tf

found = []

def work():
    f = tf.function(lambda x: tf.gradients(x ** 3, x)[0])
    found.append(float(f(tf.constant(2.0))))
    tf.random.normal([10])

threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(found)
"""


def test_threads_may_use_ops_for_the_first_time_together() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str([12.0] * 8), done.stderr


COMPILED = """
import sys
import gtape as tf
from gtape.declare.primitives import REGISTRY

@tf.function(jit_compile=True)
def slope(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(100):
            y = tf.tanh(tf.sin(y) * 1.5)
    return tape.gradient(y, x)

slope(tf.constant([0.5, 1.0]))
print(slope.summary().partition(":")[0], REGISTRY.complete, "numpy.ma" in sys.modules)
"""


def test_a_compiled_function_imports_only_the_ops_that_it_calls() -> None:
    done = subprocess.run([sys.executable, "-c", COMPILED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["compiled", "False", "False"], done.stderr

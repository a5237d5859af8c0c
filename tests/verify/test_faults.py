"""A fault of the bar's size in any single rule is found by verify=True.

Faults are planted in all worlds and in floats only, for both dtypes: usually each argument of an op gets one of the
two, and each op one of the dtypes; with ``GTAPE_LARGE=1`` all.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from campaigns import in_turn

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.namespaces import catalogue
from gtape.verify.programs.mutants import TRANSFORMS, arguments_of, bar, example, planted, planted_kernel, scaled

catalogue.load()
NAMES = sorted(n for n, p in REGISTRY.items() if p.differentiable)


def gradients(name: str, dtype: str) -> Any:
    prim = REGISTRY[name]
    arrays, params = example(prim, dtype, np.random.default_rng(3))
    xs = [tf.constant(a) for a in arrays]
    with tf.GradientTape(verify=True) as tape:
        tape.watch([x for i, x in enumerate(xs) if x.dtype.is_floating and i not in prim.missing])
        y = prim(*xs, **params)
    ys = list(y) if isinstance(y, tuple) else [y]
    rng = np.random.default_rng(5)
    weights = [tf.constant(rng.uniform(0.5, 1.5, v.shape).astype(v.dtype.as_numpy_dtype)) for v in ys]
    return tape.gradient(ys, xs, output_gradients=weights)


def contributes(g: Any) -> bool:
    return g is not None and bool(
        np.any(np.asarray(g if not isinstance(g, tf.IndexedSlices) else tf.convert_to_tensor(g)))
    )


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name in NAMES for dtype in in_turn(("float64", "float32"), name)]
)
def test_every_rule(name: str, dtype: str) -> None:
    clean = gradients(name, dtype)
    for a in arguments_of(REGISTRY[name]):
        if not contributes(clean[a]):
            continue
        for worlds in in_turn(("all", "floats"), name[::-1], a):
            # Where exact arithmetic is right, a fault looks like one of the kernel, maybe of another op.
            blamed = name if worlds == "all" else None
            with (
                planted(name, a, scaled(1 + bar(dtype)), worlds=worlds),
                pytest.raises(tf.VerificationError, match=blamed),
            ):
                gradients(name, dtype)
    gradients(name, dtype)  # and all is as before


KERNELS = ["sin", "exp", "sigmoid_slope", "matmul", "softmax", "sum", "solve", "cumprod"]
FACTORS = ["cholesky", "eig", "eigh", "expm", "qr", "svd", "tridiagonal_solve"]


@pytest.mark.parametrize("name", [*KERNELS, *FACTORS])
def test_kernels(name: str) -> None:
    with planted_kernel(name, 1 + 1e-14), pytest.raises(tf.VerificationError, match=name):
        gradients(name, "float64")


@pytest.mark.parametrize("mutation", sorted(set(TRANSFORMS) - {"constant residual"}))
@pytest.mark.parametrize(
    "name", ["sin", "multiply", "divide", "matmul", "softmax", "cumprod", "gather", "reduce_mean", "tanh"]
)
def test_the_zoos_mutations(name: str, mutation: str) -> None:
    for a in arguments_of(REGISTRY[name]):
        with planted(name, a, TRANSFORMS[mutation]), pytest.raises(tf.VerificationError, match=name):
            gradients(name, "float64")


def test_swapped_arguments() -> None:
    def swap(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        y, a, b = args
        return rule(xp, y, b, a)

    for name in ("multiply", "atan2", "hypot", "pow"):
        prim = REGISTRY[name]
        reads = prim.reads
        prim.reads = [frozenset(["y", 0, 1])] * 2
        try:
            with planted(name, 0, swap), pytest.raises(tf.VerificationError, match=name):
                gradients(name, "float64")
        finally:
            prim.reads = reads
            prim.plans.clear()


def test_unbroadcasting_that_keeps_one_element() -> None:
    prim = REGISTRY["sum_to"]
    kernel = prim.kernel

    def first_only(x: Any, *, shape: Any, batch: int) -> Any:
        return (
            np.broadcast_to(np.asarray(x).reshape(-1)[0], shape) if shape == () else kernel(x, shape=shape, batch=batch)
        )

    prim.kernel = first_only
    try:
        x, c = tf.Variable(np.float64(2.0)), tf.constant(np.array([1.0, 2.0, 3.0]))
        with tf.GradientTape(verify=True) as tape:
            y = x * c
        with pytest.raises(tf.VerificationError):
            tape.gradient(y, x)
    finally:
        prim.kernel = kernel


@pytest.mark.parametrize("name", ["sin", "exp", "multiply", "tanh", "divide", "square"])
def test_a_rule_right_at_first_and_wrong_at_second_order(name: str) -> None:
    x, z = tf.Variable(np.array([0.3, 0.8, 1.1])), tf.Variable(np.array([0.6, 0.9, 0.4]))
    prim = REGISTRY[name]

    def f() -> Any:
        return (prim(x, z) if len(prim.rules) == 2 else prim(x)) * z

    with planted(name, 0, TRANSFORMS["constant residual"]):
        with tf.GradientTape(verify=True) as tape:
            y = f()
        tape.gradient(y, x)  # right
        with tf.GradientTape(verify=True) as outer:
            with tf.GradientTape() as inner:
                y = f()
            g = inner.gradient(y, x)
        with pytest.raises(tf.VerificationError) as e:
            outer.gradient(g, [x, z])
    assert e.value.report.verdict in ("rule", "unstable")


def test_an_outsiders_patch_of_partials_is_found(monkeypatch: Any) -> None:
    prim = REGISTRY["atan"]
    right = prim.partials[0]
    monkeypatch.setattr(prim, "partials", (lambda xp, y, x: right(xp, y, x) * 2,))
    x = tf.Variable(np.array([0.5, 0.7]))
    with tf.GradientTape(verify=True) as tape:
        y = tf.atan(x)
    with pytest.raises(tf.VerificationError, match="atan"):
        tape.gradient(y, x)


def test_planting_leaves_nothing_behind() -> None:
    before = {n: (p.partials, p.vjp, p.kernel) for n, p in REGISTRY.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with planted("multiply", 1, scaled(3.0)):
            pass
    assert before == {n: (p.partials, p.vjp, p.kernel) for n, p in REGISTRY.items()}
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0

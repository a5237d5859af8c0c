"""The bound on a sum along one axis grows with the logarithm of its length, as NumPy's sums in pairs do."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.declare.rounding import in_pairs
from gtape.verify import check
from gtape.verify.bounds.bounds import local_error
from gtape.verify.programs.mutants import planted, scaled

ALONE = {"axis": (0,), "keepdims": False}


def drawn(kind: int, n: int, rng: Any) -> Any:
    """Numbers whose roundings add up in one direction, cancel, or differ in size."""
    if kind == 0:
        return np.full(n, rng.uniform(0.1, 1))
    if kind == 1:
        return rng.normal(size=n) * 2.0 ** rng.integers(-30, 30, n)
    x = np.where(np.arange(n) % 2, 1.0, -1.0) * rng.uniform(1, 1 + 1e-3, n)
    return np.sort(x) if kind == 2 else x


@pytest.mark.slow
@given(st.integers(0, 3), st.integers(1, 10_000), st.integers(0, 99), st.sampled_from(["float32", "float64"]))
def test_sums_keep_the_bound(kind: int, n: int, seed: int, dtype: str) -> None:
    x = np.asarray(drawn(kind, n, np.random.default_rng(seed)), dtype)
    for v in (x, np.repeat(x, 2)[::2], x[::-1]):
        wide = v.astype(np.float64)
        for name, params in (("sum", ALONE), ("reduce_mean", ALONE), ("sum_to", {"shape": (), "batch": 0})):
            prim = REGISTRY[name]
            exact = sum(map(Fraction, wide.tolist())) / (n if name == "reduce_mean" else 1)
            bound = local_error(prim, [wide], np.float64(exact), params, v.dtype)
            assert abs(Fraction(float(prim.kernel(v, **params))) - exact) <= Fraction(float(bound))


def test_the_bound_counts_every_term_where_strides_decide_the_order() -> None:
    assert in_pairs((300, 2), 300) == 300
    assert in_pairs((1, 300, 1), 300) < 40
    assert in_pairs((), 1) == in_pairs((0,), 0) + 1 == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fault_in_a_long_sum_that_cancels_is_found(dtype: str) -> None:
    rng = np.random.default_rng(4)
    w = tf.constant(rng.normal(size=300), dtype)

    def f(x: Any) -> Any:
        return tf.reduce_sum(w * tf.sin(x))

    x = np.asarray(0.3, dtype)
    assert check(f, x).ok
    wrong = 4 * 300 * float(np.finfo(dtype).eps) / 2
    with planted("multiply", 1, scaled(1 + wrong), worlds="floats"):
        found = [v for v in check(f, x).findings if not v.ok]
    assert [(v.verdict, v.op) for v in found] == [("rule", "multiply")]

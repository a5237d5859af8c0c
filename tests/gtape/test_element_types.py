"""Every element type through ops and gradients: float16 everywhere, casts between all, bfloat16 where there is one."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape import dtypes
from gtape.declare.primitives import REGISTRY
from gtape.namespaces import catalogue
from gtape.verify import check
from gtape.verify.programs.mutants import example

catalogue.load()
DIFFERENTIABLE = sorted(n for n, p in REGISTRY.items() if p.differentiable)
NUMERIC = [
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "complex64", "complex128",
]  # fmt: skip


def floats(tensors: Any) -> list[Any]:
    listed = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    return [tf.convert_to_tensor(t) for t in listed if t is not None and t.dtype.is_floating]


def all_have(tensors: Any, dtype: str) -> bool:
    return {t.dtype.name for t in floats(tensors)} <= {dtype}


def goes_through(name: str, dtype: str) -> None:
    """Value, gradient, second gradient and tangent of one op keep the dtype."""
    prim = REGISTRY[name]
    arrays, params = example(prim, dtypes.np_dtype(dtype), np.random.default_rng(3))
    if name == "cast":
        params = {"dtype": dtypes.np_dtype(dtype)}
    xs = [tf.constant(a) for a in arrays]
    moving = floats(xs)
    with tf.GradientTape() as outer:
        outer.watch(moving)
        with tf.GradientTape() as inner:
            inner.watch(moving)
            y = prim(*xs, **params)
        first = inner.gradient(y, xs)
    assert all_have(y, dtype) and all_have(first, dtype)
    assert all_have(outer.gradient(floats(first), xs), dtype)
    with tf.autodiff.ForwardAccumulator(moving, [tf.ones_like(x) for x in moving]) as acc:
        y = prim(*xs, **params)
    assert all_have(acc.jvp(list(y) if isinstance(y, tuple) else y), dtype)


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if n not in ("complex", "imag")])
def test_float16_stays_float16(name: str) -> None:
    goes_through(name, "float16")


@pytest.mark.parametrize(
    "name", ["sin", "exp", "matmul", "softmax", "sum", "multiply", "pow", "gather", "where", "inverse"]
)
def test_bfloat16_stays_bfloat16(name: str) -> None:
    pytest.importorskip("ml_dtypes")
    goes_through(name, "bfloat16")


def test_half_precision_is_summed_in_single() -> None:
    x = tf.constant(np.full(10_000, 100.0, np.float16))
    assert tf.reduce_mean(x).numpy() == 100.0  # the sum is beyond the range
    ones = tf.constant(np.ones(5000, np.float16))
    assert tf.cumsum(ones).numpy()[-1] == 5000.0  # in half precision 2048 + 1 is 2048
    with tf.GradientTape() as tape:
        tape.watch(ones)
        y = tf.reduce_sum(tf.broadcast_to(tf.reduce_mean(ones), [5000]))
    assert (tape.gradient(y, ones).numpy() == 1.0).all()


def test_float16_gradients_are_checked_in_their_own_ulps() -> None:
    report = check(lambda x: tf.tanh(x) * tf.sin(x), np.array([0.3, 2.0, -1.5], np.float16), order=2)
    assert report.verdict == "correct" and report.max_ulp <= 4


def test_numbers_beyond_the_range_become_infinite_without_a_warning() -> None:
    x = tf.constant([1.0], tf.float16)
    assert (x * 1e6).numpy().tolist() == [np.inf]
    assert (tf.constant(1.0) * -1e39).numpy() == -np.inf
    assert tf.constant([1e6], tf.float16).numpy().tolist() == [np.inf]
    assert (tf.constant([1.0]) * np.array([1e300])).numpy().tolist() == [np.inf]
    assert tf.cast(tf.constant(np.float64(1e300)), tf.float16).numpy() == np.inf
    assert np.isnan((x * float("nan")).numpy()).all()


@pytest.mark.parametrize("to", NUMERIC)
@pytest.mark.parametrize("start", NUMERIC)
def test_every_type_casts_to_every_other(start: str, to: str) -> None:
    values = np.array([0.0, 1.0, 2.0])
    x = tf.cast(values, start)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cast(x, to)
    assert y.dtype == to and np.asarray(y).tolist() == values.astype(start).real.astype(to).tolist()
    g = tape.gradient(y, x)
    if x.dtype.is_integer or x.dtype.is_bool or y.dtype.is_integer or y.dtype.is_bool:
        assert g is None or y is x
    else:
        assert g.dtype == start and np.asarray(g).tolist() == [1, 1, 1]


@pytest.mark.parametrize("start", ["float16", "float32", "float64"])
def test_gradients_are_cast_back(start: str) -> None:
    x = tf.constant([0.5, 2.0], start)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.exp(tf.cast(x, tf.float64)) * tf.cast(tf.cast(x, tf.float16), tf.float64))
    assert tape.gradient(y, x).dtype == start


def test_integers_and_booleans_are_constants_of_the_record() -> None:
    x, n, b = tf.constant([1.0, 2.0]), tf.constant([2, 3]), tf.constant([True, False])
    with tf.GradientTape() as tape:
        tape.watch([x, n, b])
        y = tf.where(b, x, 0.0) * tf.cast(n, tf.float32)
    assert [None if g is None else g.numpy().tolist() for g in tape.gradient(y, [x, n, b])] == [[2, 0], None, None]


def test_bfloat16_without_ml_dtypes_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.delitem(dtypes._NAMES, "bfloat16", raising=False)
    monkeypatch.delitem(dtypes._FOUND, "bfloat16", raising=False)
    with pytest.raises(AttributeError, match="pip install ml_dtypes"):
        dtypes.bfloat16  # noqa: B018
    with pytest.raises(TypeError, match="pip install ml_dtypes"):
        tf.constant(1.0, "bfloat16")
    assert not hasattr(dtypes, "bfloat16")


def test_bfloat16_programs() -> None:
    pytest.importorskip("ml_dtypes")
    x, v = tf.constant([1.0, 2.0], tf.bfloat16), tf.Variable([[1.0, 2.0], [3.0, 4.0]], dtype=tf.bfloat16)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.linalg.matvec(v, x) * 2.5) + tf.reduce_sum(
            tf.cast(tf.cast(x, tf.float32) ** 2, tf.bfloat16)
        )
    gx, gv = tape.gradient(y, [x, v])
    assert gx.dtype == gv.dtype == tf.bfloat16
    assert np.asarray(gx).astype(float).tolist() == [12, 19]
    assert np.asarray(gv).astype(float).tolist() == [[2.5, 5], [2.5, 5]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="bfloat16"):
        x * tf.constant([1.0, 2.0])
    assert check(tf.sin, x).verdict == "undecided"


def test_functions_that_look_at_their_dtype_know_bfloat16() -> None:
    pytest.importorskip("ml_dtypes")
    x = tf.constant([[3.0, 1.0], [2.0, 4.0]], tf.bfloat16)
    for y in (tf.math.cumulative_logsumexp(x), tf.linalg.pinv(x), tf.math.l2_normalize(x)):
        assert y.dtype == tf.bfloat16
    assert int(tf.linalg.matrix_rank(x)) == 2
    assert not tf.math.is_non_decreasing(x)
    assert int(tf.argmax(tf.constant([np.nan, 1.0], tf.bfloat16))) == 1


class Pair(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable([1.0, 2.0], name="w")
        self.rest = [tf.Variable(3.0, trainable=False)]


@pytest.mark.parametrize("how", ["copy", "deepcopy", "pickle"])
def test_everything_can_be_copied(how: str) -> None:
    f: Any = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda o: pickle.loads(pickle.dumps(o))}[how]
    for value in (1.5, 1j, [True, False], [[1, 2]], np.float64(2.0), np.float16(0.5)):
        x = tf.constant(value)
        y = f(x)
        assert y.dtype == x.dtype and np.asarray(y).tolist() == np.asarray(x).tolist()
    v = f(tf.Variable([1.0, 2.0], name="v", trainable=False))
    assert v.name == "v:0" and not v.trainable and v.numpy().tolist() == [1, 2]
    s = f(tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([2]), tf.constant([3, 1])))
    assert tf.convert_to_tensor(s).numpy().tolist() == [[0], [0], [1]]
    m = Pair()
    n = f(m)
    assert [w.numpy().tolist() for w in n.variables] == [w.numpy().tolist() for w in m.variables]
    if how != "copy":
        n.w.assign([5.0, 6.0])
        assert m.w.numpy().tolist() == [1, 2]
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(n.w * n.rest[0])
    assert tape.gradient(y, n.w).numpy().tolist() == [3, 3]

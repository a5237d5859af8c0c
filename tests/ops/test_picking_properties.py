"""Indices, segments and rearrangements do what NumPy does, whatever the indices; gradients count what was taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gtape as tf

m = tf.math
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
FEW = settings(max_examples=settings.default.max_examples)


def distinct(shape: tuple[int, ...]) -> Any:
    """Distinct numbers, so that nothing ties and everything can be told apart."""
    return np.cos(np.arange(float(np.prod(shape))) + 1.0).reshape(shape)


def taken(x: Any, f: Any) -> tuple[Any, Any]:
    """The value of f at x, and how often each element is in it, by the gradient of the sum."""
    v = tf.Variable(x)
    with tf.GradientTape() as tape:
        y = f(v)
    g = tape.gradient(y, v, unconnected_gradients="zero")
    return y.numpy(), tf.convert_to_tensor(g).numpy()


@FEW
@given(st.data())
def test_brackets_take_what_numpys_take(data: Any) -> None:
    shape = data.draw(SHAPES, label="shape")
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=6), label="key")
    x = distinct(shape)
    y, g = taken(x, lambda v: v[key])
    np.testing.assert_array_equal(y, x[key])
    counted = np.zeros(shape)
    counted[key] = 1.0
    np.testing.assert_array_equal(g, counted)


@FEW
@given(st.data())
def test_gather_takes_what_numpys_take(data: Any) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4), label="shape")
    axis = data.draw(st.integers(-len(shape), len(shape) - 1), label="axis")
    indices = data.draw(hnp.arrays(np.int64, SHAPES, elements=st.integers(0, shape[axis] - 1)), label="indices")
    x = distinct(shape)
    y, g = taken(x, lambda v: tf.gather(v, indices, axis=axis))
    np.testing.assert_array_equal(y, np.take(x, indices, axis))
    counts = np.bincount(indices.ravel(), minlength=shape[axis])
    along = [1] * len(shape)
    along[axis] = -1
    np.testing.assert_array_equal(g, np.broadcast_to(counts.reshape(along), shape))


@FEW
@given(st.data())
def test_gather_nd_undoes_scatter_nd_of_distinct_places(data: Any) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4), label="shape")
    k = data.draw(st.integers(1, len(shape)), label="k")
    cells = [list(c) for c in np.ndindex(*shape[:k])]
    places = data.draw(st.lists(st.sampled_from(cells), unique_by=tuple, min_size=1), label="places")
    updates = distinct((len(places), *shape[k:]))
    y, g = taken(updates, lambda u: tf.gather_nd(tf.scatter_nd(places, u, shape), places))
    np.testing.assert_array_equal(y, updates)
    np.testing.assert_array_equal(g, np.ones_like(updates))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "sqrt_n"])
def test_unsorted_segments_are_numpys_reductions_of_each(name: str) -> None:
    reduce: Any = {
        "sum": np.sum,
        "mean": np.mean,
        "max": np.max,
        "min": np.min,
        "prod": np.prod,
        "sqrt_n": lambda v, axis: np.sum(v, axis=axis) / np.sqrt(len(v)),
    }[name]

    @FEW
    @given(ids=hnp.arrays(np.int64, st.integers(0, 12), elements=st.integers(-1, 4)), columns=st.integers(0, 2))
    def holds(ids: Any, columns: int) -> None:
        x = distinct((len(ids), columns)) if columns else distinct((len(ids),))
        y, g = taken(x, lambda v: getattr(m, f"unsorted_segment_{name}")(v, ids, 5))
        for s in set(ids.tolist()) - {-1}:
            np.testing.assert_allclose(y[s], reduce(x[ids == s], axis=0), rtol=1e-13, atol=1e-14)
        assert not g[ids == -1].any()
        if name in ("sum", "max", "min") and x.size:
            # Each segment hands on 1 for each column, to one of its rows or to all of them.
            per_row = len(ids[ids >= 0]) if name == "sum" else len(set(ids.tolist()) - {-1})
            np.testing.assert_allclose(g.sum(), per_row * max(columns, 1))

    holds()


@FEW
@given(ids=st.lists(st.integers(0, 4), min_size=1, max_size=9), seed=st.integers(0, 99))
def test_segments_do_not_depend_on_the_order_of_rows(ids: list[int], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(ids))
    ids = sorted(ids)
    x = distinct((len(ids), 2))
    for name in ("sum", "mean", "max", "min", "prod"):
        by_rows, mixed_up = getattr(m, f"segment_{name}"), getattr(m, f"unsorted_segment_{name}")
        straight, g = taken(x, lambda v, f=by_rows: f(v, ids))
        mixed, h = taken(x[order], lambda v, f=mixed_up: f(v, np.array(ids)[order], ids[-1] + 1))
        there = np.isin(np.arange(ids[-1] + 1), ids)
        np.testing.assert_allclose(mixed[there], straight[there], rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(h, g[order], rtol=1e-13)


@FEW
@given(st.data())
def test_stitching_undoes_partitioning(data: Any) -> None:
    n = data.draw(st.integers(0, 8), label="n")
    to = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, 3)), label="to")
    x = distinct((n, 2))

    def there_and_back(v: Any) -> Any:
        return tf.dynamic_stitch(tf.dynamic_partition(np.arange(n), to, 4), tf.dynamic_partition(v, to, 4))

    y, g = taken(x, there_and_back)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(g, np.ones_like(x))


@FEW
@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=1, max_dims=3, max_side=5), elements=st.integers(-3, 3)))
def test_sorting_is_numpys_and_moves_every_gradient_once(x: Any) -> None:
    for direction, back in (("ASCENDING", 1), ("DESCENDING", -1)):
        y, g = taken(x, lambda v, d=direction: tf.sort(v, axis=0, direction=d))
        np.testing.assert_array_equal(y, np.sort(x, axis=0)[::back])
        np.testing.assert_array_equal(g, np.ones_like(x))


@FEW
@given(hnp.arrays(np.float64, st.integers(0, 12), elements=st.integers(-3, 3)))
def test_unique_elements_and_their_places_make_the_whole(x: Any) -> None:
    y, idx, count = tf.unique_with_counts(x)
    np.testing.assert_array_equal(tf.gather(y, idx).numpy(), x)
    np.testing.assert_array_equal(np.sort(y.numpy()), np.unique(x))
    assert int(count.numpy().sum()) == len(x)
    _, g = taken(x, lambda v: tf.unique(v).y)
    assert g.sum() == len(np.unique(x))


@FEW
@given(st.data())
def test_padding_is_numpys(data: Any) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4), label="shape")
    mode = data.draw(st.sampled_from(["CONSTANT", "REFLECT", "SYMMETRIC"]), label="mode")
    most = [3 if mode == "CONSTANT" else n - (mode == "REFLECT") for n in shape]
    paddings = [[data.draw(st.integers(0, k)), data.draw(st.integers(0, k))] for k in most]
    x = distinct(shape)
    y, g = taken(x, lambda v: tf.pad(v, paddings, mode))
    np.testing.assert_array_equal(y, np.pad(x, paddings, mode.lower()))
    counts = np.pad(
        np.arange(x.size).reshape(shape),
        paddings,
        mode.lower(),
        **({"constant_values": -1} if mode == "CONSTANT" else {}),
    )
    np.testing.assert_array_equal(g.ravel(), np.bincount(counts[counts >= 0], minlength=x.size))

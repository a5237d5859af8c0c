"""Section 10 of the contract, shapes, indices and segments: each op's value is NumPy's, its derivatives are exact.

Ops that move elements are linear, which would leave little to see at second order: each is squared first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check

m = tf.math
LINE = np.array([1.5, -2.0, 0.25, 4.0])
MATRIX = np.array([[1.5, -2.0, 0.25], [4.0, 0.5, -3.0]])
OTHER = np.array([[0.75, 1.25, -0.5], [2.0, -1.5, 3.5]])
CUBE = np.random.default_rng(11).normal(size=(2, 3, 4))
MASK = np.array([[True, False, True], [False, False, True]])
SCALAR = np.array(1.25)
IDS = [0, 0, 2, 2]
LOOSE = [2, -1, 0, 2]


class Op(NamedTuple):
    """A call: what it promises, the op, NumPy's idea of it, and its arguments."""

    promise: str
    f: Callable[..., Any]
    reference: Callable[..., Any]
    at: tuple[Any, ...]


def _by_segment(f: Callable[[Any], Any], ids: Any, n: int, empty: float) -> Callable[[Any], Any]:
    def reduced(x: Any) -> Any:
        at = np.asarray(ids)
        return np.stack([f(x[at == s]) if (at == s).any() else np.full(x.shape[1:], empty) for s in range(n)])

    return reduced


def _columns(f: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: f(x, axis=0)


def _segments(name: str, f: Callable[..., Any], empty: float, greatest: float | None = None) -> list[Op]:
    """A reduction of sorted and of unsorted segments, of rows and of slices."""
    rows = np.array([[1.5, -2.0], [0.25, 4.0], [-1.0, 0.5], [3.0, 2.5]])
    far = empty if greatest is None else greatest
    unsorted = getattr(m, f"unsorted_segment_{name}")
    made = [
        Op(
            f"unsorted_segment_{name} of rows",
            lambda x: unsorted(x, LOOSE, 3),
            _by_segment(_columns(f), LOOSE, 3, far),
            (rows,),
        ),
        Op(
            f"unsorted_segment_{name} of numbers with ids of two axes",
            lambda x: unsorted(x, [[1, 0], [1, 1], [0, -5], [1, 0]], 2),
            lambda x: _by_segment(f, [1, 0, 1, 1, 0, -5, 1, 0], 2, far)(x.ravel()),
            (rows,),
        ),
    ]
    if name != "sqrt_n":
        by_ids = getattr(m, f"segment_{name}")
        made.append(
            Op(f"segment_{name} of rows", lambda x: by_ids(x, IDS), _by_segment(_columns(f), IDS, 3, empty), (rows,))
        )
        made.append(Op(f"segment_{name} of numbers", lambda x: by_ids(x, IDS), _by_segment(f, IDS, 3, empty), (LINE,)))
    return made


def _sqrt_n(x: Any, axis: Any = None) -> Any:
    return np.sum(x, axis=axis) / np.sqrt(len(x))


def _put(x: Any, key: Any, value: Any) -> Any:
    out = np.array(x)
    out[key] = value
    return out


SHAPES = [
    Op("reshape", lambda x: tf.reshape(x, [3, -1]), lambda x: x.reshape(3, 2), (MATRIX,)),
    Op("transpose", tf.transpose, np.transpose, (CUBE,)),
    Op("transpose by perm", lambda x: tf.transpose(x, perm=[1, 2, 0]), lambda x: x.transpose(1, 2, 0), (CUBE,)),
    Op("squeeze", lambda x: tf.squeeze(tf.reshape(x, [1, 4, 1])), lambda x: x, (LINE,)),
    Op("squeeze of one axis", lambda x: tf.squeeze(tf.reshape(x, [1, 4, 1]), [-1]), lambda x: x[None], (LINE,)),
    Op("expand_dims", lambda x: tf.expand_dims(x, -1), lambda x: x[..., None], (MATRIX,)),
    Op("broadcast_to", lambda x: tf.broadcast_to(x, [2, 2, 3]), lambda x: np.broadcast_to(x, (2, 2, 3)), (MATRIX,)),
    Op("broadcast_to of a scalar", lambda x: tf.broadcast_to(x, []), lambda x: x, (SCALAR,)),
    Op("tile", lambda x: tf.tile(x, [2, 3]), lambda x: np.tile(x, (2, 3)), (MATRIX,)),
    Op("repeat of all elements", lambda x: tf.repeat(x, 2), lambda x: np.repeat(x, 2), (MATRIX,)),
    Op(
        "repeat along an axis",
        lambda x: tf.repeat(x, [2, 0, 1], axis=1),
        lambda x: np.repeat(x, [2, 0, 1], 1),
        (MATRIX,),
    ),
    Op(
        "concat",
        lambda x, y: tf.concat([x, y, x], axis=-1),
        lambda x, y: np.concatenate([x, y, x], -1),
        (MATRIX, OTHER),
    ),
    Op("stack", lambda x, y: tf.stack([x, y], axis=1), lambda x, y: np.stack([x, y], 1), (MATRIX, OTHER)),
    Op("unstack", lambda x: tf.unstack(x, axis=-1), lambda x: list(x.T), (MATRIX,)),
    Op("split into equal parts", lambda x: tf.split(x, 3, axis=1), lambda x: np.split(x, 3, 1), (MATRIX,)),
    Op("split into given sizes", lambda x: tf.split(x, [1, -1], axis=1), lambda x: [x[:, :1], x[:, 1:]], (MATRIX,)),
    Op(
        "pad with a constant",
        lambda x: tf.pad(x, [[1, 0], [0, 2]], constant_values=2.5),
        lambda x: np.pad(x, [(1, 0), (0, 2)], constant_values=2.5),
        (MATRIX,),
    ),
    Op(
        "pad by reflection",
        lambda x: tf.pad(x, [[1, 1], [2, 0]], "REFLECT"),
        lambda x: np.pad(x, [(1, 1), (2, 0)], "reflect"),
        (MATRIX,),
    ),
    Op(
        "pad symmetrically",
        lambda x: tf.pad(x, [[2, 1], [0, 3]], "SYMMETRIC"),
        lambda x: np.pad(x, [(2, 1), (0, 3)], "symmetric"),
        (MATRIX,),
    ),
    Op("reverse", lambda x: tf.reverse(x, [0, -1]), lambda x: x[::-1, :, ::-1], (CUBE,)),
    Op(
        "roll along several axes",
        lambda x: tf.roll(x, [1, -2], [0, 1]),
        lambda x: np.roll(x, (1, -2), (0, 1)),
        (MATRIX,),
    ),
    Op("meshgrid", tf.meshgrid, np.meshgrid, (LINE, MATRIX[0])),
    Op(
        "meshgrid by matrix indices",
        lambda x, y: tf.meshgrid(x, y, indexing="ij"),
        lambda x, y: np.meshgrid(x, y, indexing="ij"),
        (LINE, MATRIX[0]),
    ),
    Op("linspace", lambda a, b: tf.linspace(a, b, 5), lambda a, b: np.linspace(a, b, 5), (SCALAR, np.array(-3.0))),
    Op(
        "linspace of tensors along an axis",
        lambda a, b: tf.linspace(a, b, 3, axis=-1),
        lambda a, b: np.linspace(a, b, 3, axis=-1),
        (MATRIX, OTHER),
    ),
    Op("fill", lambda x: tf.fill([2, 2], x), lambda x: np.full((2, 2), x), (SCALAR,)),
    Op("ensure_shape", lambda x: tf.ensure_shape(x, [None, 3]), lambda x: x, (MATRIX,)),
    Op("diag_part", lambda x: tf.linalg.diag_part(x, k=1), lambda x: np.diagonal(x, 1, 1, 2), (CUBE,)),
    Op(
        "diag_part of several diagonals",
        lambda x: tf.linalg.diag_part(x, k=(-1, 1), padding_value=9),
        lambda x: np.array([[x[0, 1], x[1, 2]], [x[0, 0], x[1, 1]], [x[1, 0], 9]]),
        (MATRIX,),
    ),
    Op("diag with padding", lambda x: tf.linalg.diag(x, padding_value=2), lambda x: np.diag(x - 2) + 2, (LINE,)),
    Op(
        "set_diag of two diagonals",
        lambda x, d: tf.linalg.set_diag(x, d, k=(0, 1)),
        lambda x, d: np.array([[d[1, 0], d[0, 0], x[0, 2]], [x[1, 0], d[1, 1], d[0, 1]]]),
        (MATRIX, OTHER[:, :2]),
    ),
    Op("band_part", lambda x: tf.linalg.band_part(x, 0, 1), lambda x: np.tril(np.triu(x), 1), (MATRIX,)),
    Op("identity_n", lambda x, y: tf.identity_n([x, y]), lambda x, y: [x, y], (LINE, SCALAR)),
    Op(
        "reverse_sequence",
        lambda x: tf.reverse_sequence(x, [2, 3], seq_axis=1),
        lambda x: np.stack([x[0, [1, 0, 2]], x[1, [2, 1, 0]]]),
        (MATRIX,),
    ),
    Op(
        "reverse_sequence of inner axes",
        lambda x: tf.reverse_sequence(x, [0, 2, 4], seq_axis=2, batch_axis=1),
        lambda x: np.stack([x[:, 0], x[:, 1, [1, 0, 2, 3]], x[:, 2, ::-1]], 1),
        (CUBE,),
    ),
]

INDICES = [
    Op("indexing by integers and slices", lambda x: x[1, ::-1, 1:3], lambda x: x[1, ::-1, 1:3], (CUBE,)),
    Op("indexing by ellipsis and new axes", lambda x: x[..., tf.newaxis, -1], lambda x: x[..., None, -1], (CUBE,)),
    Op("indexing backwards from before the start", lambda x: x[:, -9::-1], lambda x: x[:, -9::-1], (MATRIX,)),
    Op("indexing backwards to the start", lambda x: x[:, 1::-1], lambda x: x[:, 1::-1], (MATRIX,)),
    Op("indexing by a mask", lambda x: x[tf.constant(MASK)], lambda x: x[MASK], (MATRIX,)),
    Op("slice", lambda x: tf.slice(x, [0, 1], [-1, 2]), lambda x: x[:, 1:3], (MATRIX,)),
    Op("strided_slice", lambda x: tf.strided_slice(x, [0, -1], [2, -4], [1, -2]), lambda x: x[:, ::-2], (MATRIX,)),
    Op(
        "strided_slice by masks",
        lambda x: tf.strided_slice(
            x, [1, 0, 0], [2, 9, 2], [1, 1, 1], begin_mask=4, new_axis_mask=2, shrink_axis_mask=1
        ),
        lambda x: x[1, None, :2],
        (CUBE,),
    ),
    Op("gather of rows", lambda x: tf.gather(x, [1, 0, 1]), lambda x: x[[1, 0, 1]], (MATRIX,)),
    Op("gather by a scalar", lambda x: tf.gather(x, 2), lambda x: x[2], (LINE,)),
    Op(
        "gather along an axis by a table",
        lambda x: tf.gather(x, [[2, 0], [1, 1]], axis=-2),
        lambda x: x[:, [[2, 0], [1, 1]]],
        (CUBE,),
    ),
    Op(
        "gather in batches",
        lambda x: tf.gather(x, [[2, 0], [1, 1]], batch_dims=1),
        lambda x: np.stack([x[0, [2, 0]], x[1, [1, 1]]]),
        (CUBE,),
    ),
    Op(
        "gather in batches along a later axis",
        lambda x: tf.gather(x, [[3], [0]], axis=2, batch_dims=1),
        lambda x: np.stack([x[0, :, [3]].T, x[1, :, [0]].T]),
        (CUBE,),
    ),
    Op(
        "gather_nd of elements",
        lambda x: tf.gather_nd(x, [[0, 1], [1, 2], [0, 1]]),
        lambda x: x[[0, 1, 0], [1, 2, 1]],
        (MATRIX,),
    ),
    Op("gather_nd of slices", lambda x: tf.gather_nd(x, [[1, 2], [0, 0]]), lambda x: x[[1, 0], [2, 0]], (CUBE,)),
    Op(
        "gather_nd in batches",
        lambda x: tf.gather_nd(x, [[[2, 3]], [[0, 1]]], batch_dims=1),
        lambda x: np.array([[x[0, 2, 3]], [x[1, 0, 1]]]),
        (CUBE,),
    ),
    Op(
        "gather_nd ignoring bad indices",
        lambda x: tf.gather_nd(x, [[5], [1]], bad_indices_policy="IGNORE"),
        lambda x: np.array([0.0, x[1]]),
        (LINE,),
    ),
    Op("boolean_mask", lambda x: tf.boolean_mask(x, MASK), lambda x: x[MASK], (MATRIX,)),
    Op(
        "boolean_mask along an axis",
        lambda x: tf.boolean_mask(x, [True, False, True], axis=1),
        lambda x: x[:, [0, 2]],
        (MATRIX,),
    ),
    Op(
        "scatter_nd adds up",
        lambda u: tf.scatter_nd([[3], [0], [3], [1]], u, [5]),
        lambda u: np.array([u[1], u[3], 0, u[0] + u[2], 0]),
        (LINE,),
    ),
    Op(
        "scatter_nd of slices",
        lambda u: tf.scatter_nd([[2], [0]], u, [3, 3]),
        lambda u: np.stack([u[1], u[1] * 0, u[0]]),
        (MATRIX,),
    ),
    Op(
        "tensor_scatter_nd_add",
        lambda x, u: tf.tensor_scatter_nd_add(x, [[1], [1]], u),
        lambda x, u: _put(x, 1, x[1] + u[0] + u[1]),
        (MATRIX, OTHER),
    ),
    Op(
        "tensor_scatter_nd_sub",
        lambda x, u: tf.tensor_scatter_nd_sub(x, [[0, 1]], u),
        lambda x, u: _put(x, (0, 1), x[0, 1] - u[0]),
        (MATRIX, LINE[:1]),
    ),
    Op(
        "tensor_scatter_nd_update",
        lambda x, u: tf.tensor_scatter_nd_update(x, [[0], [0]], u),
        lambda x, u: _put(x, 0, u[1]),
        (MATRIX, OTHER),
    ),
    Op(
        "tensor_scatter_nd_max",
        lambda x, u: tf.tensor_scatter_nd_max(x, [[0], [0]], u),
        lambda x, u: _put(x, 0, np.maximum(x[0], u.max(0))),
        (MATRIX, OTHER),
    ),
    Op("tensor_scatter_nd_min", lambda x, u: tf.tensor_scatter_nd_min(x, [[0], [1]], u), np.minimum, (MATRIX, OTHER)),
    Op("sort", lambda x: tf.sort(x, axis=0), lambda x: np.sort(x, 0), (CUBE,)),
    Op("sort downwards", lambda x: tf.sort(x, direction="DESCENDING"), lambda x: np.sort(x)[:, ::-1], (MATRIX,)),
    Op("top_k", lambda x: m.top_k(x, k=2)[0], lambda x: np.sort(x)[..., ::-1][..., :2], (CUBE,)),
    Op(
        "dynamic_partition",
        lambda x: tf.dynamic_partition(x, [1, 0, 1, 1], 3),
        lambda x: [x[[1]], x[[0, 2, 3]], x[:0]],
        (LINE,),
    ),
    Op(
        "dynamic_partition of slices",
        lambda x: tf.dynamic_partition(x, MASK.astype(int), 2),
        lambda x: [x[~MASK], x[MASK]],
        (CUBE,),
    ),
    Op(
        "dynamic_stitch",
        lambda x, y: tf.dynamic_stitch([[0, 4], [1, 0]], [x, y]),
        lambda x, y: np.stack([y[1], y[0], x[0] * 0, x[0] * 0, x[1]]),
        (MATRIX, OTHER),
    ),
    Op("unique", lambda x: tf.unique(x)[0], lambda x: x[[0, 1, 3]], (np.array([1.5, -2.0, 1.5, 4.0]),)),
    Op(
        "bincount by weights",
        lambda w: m.bincount([1, 1, 3, 0], weights=w),
        lambda w: np.bincount([1, 1, 3, 0], weights=w),
        (LINE,),
    ),
    Op(
        "bincount of rows by weights",
        lambda w: m.bincount([[1, 1, 0], [2, 0, 5]], weights=w, maxlength=3, axis=-1),
        lambda w: np.array([[w[0, 2], w[0, 0] + w[0, 1], 0], [w[1, 1], 0, w[1, 0]]]),
        (MATRIX,),
    ),
    Op(
        "confusion_matrix by weights",
        lambda w: m.confusion_matrix([0, 1, 1, 0], [0, 1, 1, 1], weights=w, dtype=tf.float64),
        lambda w: np.array([[w[0], w[3]], [0, w[1] + w[2]]]),
        (LINE,),
    ),
    Op(
        "tensordot by a number", lambda x, y: tf.tensordot(x, y, 2), lambda x, y: np.tensordot(x, y, 2), (MATRIX, OTHER)
    ),
    Op(
        "tensordot by lists of axes",
        lambda x, y: tf.tensordot(x, y, [[1], [0]]),
        lambda x, y: np.tensordot(x, y, [[1], [0]]),
        (CUBE, MATRIX.T),
    ),
    Op(
        "tensordot by negative axes",
        lambda x, y: tf.tensordot(x, y, [-1, -1]),
        lambda x, y: np.tensordot(x, y, [-1, -1]),
        (MATRIX, OTHER),
    ),
]

SEGMENTS = [
    *_segments("sum", np.sum, 0.0),
    *_segments("mean", np.mean, 0.0),
    *_segments("prod", np.prod, 1.0),
    *_segments("max", np.max, 0.0, -np.finfo(np.float64).max),
    *_segments("min", np.min, 0.0, np.finfo(np.float64).max),
    *_segments("sqrt_n", _sqrt_n, 0.0),
    Op(
        "segment_prod through zeros",
        lambda x: m.segment_prod(x, [0, 0, 1, 1, 1]),
        lambda x: np.zeros(2),
        (np.array([2.0, 0.0, 0.0, 0.0, 5.0]),),
    ),
    Op(
        "unsorted_segment_prod of segments of all sizes",
        lambda x: m.unsorted_segment_prod(x, [0, 1, 1, 2, 2, 2, 2, 2, 2], 4),
        lambda x: np.array([x[0], x[1:3].prod(), x[3:].prod(), 1.0]),
        (np.linspace(0.5, 1.75, 9),),
    ),
]

OPS = [*SHAPES, *INDICES, *SEGMENTS]


def _leaves(y: Any) -> list[Any]:
    return [v for part in y for v in _leaves(part)] if isinstance(y, (list, tuple)) else [y]


def _squared(op: Op) -> Callable[..., Any]:
    # What is infinite or enormous, as the maximum of no numbers, must not meet the square.
    return lambda *xs: [tf.square(tf.clip_by_value(y, -100.0, 100.0)) for y in _leaves(op.f(*xs))]


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.promise)
def test_value_is_numpys(op: Op) -> None:
    got = _leaves(op.f(*[tf.constant(a) for a in op.at]))
    for g, e in zip(got, _leaves(op.reference(*op.at)), strict=True):
        assert g.dtype == tf.float64
        assert g.shape == np.shape(e)
        np.testing.assert_allclose(g.numpy(), e, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("op", [o for o in OPS if "confusion" not in o.promise], ids=lambda o: o.promise)
def test_derivatives_are_the_exact_ones(op: Op, dtype: Any) -> None:
    at = [a.astype(dtype) for a in op.at]
    assert all(y.dtype.as_numpy_dtype == dtype for y in _leaves(op.f(*[tf.constant(a) for a in at])))
    for order in (1, 2):
        report = check(_squared(op), *at, order=order)
        assert report.ok and report.verdict != "undecided", report.summary()


@pytest.mark.parametrize("op", [*INDICES, *SEGMENTS], ids=lambda o: o.promise)
def test_jacobian_and_forward_mode_are_the_gradients(op: Op) -> None:
    xs = [tf.Variable(a) for a in op.at]
    with tf.GradientTape(persistent=True) as tape:
        ys = _leaves(_squared(op)(*xs))
        total = sum([tf.reduce_sum(y) for y in ys])
    tangents = [tf.constant(np.cos(np.arange(a.size)).reshape(a.shape)) for a in op.at]
    with tf.autodiff.ForwardAccumulator(xs, tangents) as forward:
        again = sum([tf.reduce_sum(y) for y in _leaves(_squared(op)(*xs))])
    gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(total, xs)]
    along = sum(float(np.sum(g * t.numpy())) for g, t in zip(gradients, tangents, strict=True))
    np.testing.assert_allclose(float(forward.jvp(again)), along, rtol=1e-12)
    for x, g in zip(xs, gradients, strict=True):
        rows = [tape.jacobian(y, x) for y in ys if y.shape.num_elements()]
        whole = sum(r.numpy().reshape(-1, g.size).sum(0) for r in rows if r is not None)
        np.testing.assert_allclose(whole, g.ravel(), rtol=1e-12, atol=1e-14)

"""Section 10 of the contract: arguments, dtypes, errors, ties and None rules of ops on shapes, indices and segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check

m = tf.math
IAE = tf.errors.InvalidArgumentError
UNIMPLEMENTED = tf.errors.UnimplementedError
X = np.array([[1.5, -2.0, 0.25], [4.0, 0.5, -3.0]])
STRIDE = {"begin": [0, 0], "end": [2, 3]}


# ---------------------------------------------------------------------------------------------- names of arguments


@pytest.mark.parametrize(
    "call",
    [
        lambda: tf.atan2(y=1.0, x=2.0),
        lambda: tf.maximum(x=1.0, y=2.0),
        lambda: tf.pow(x=2.0, y=3.0),
        lambda: tf.clip_by_value(t=1.0, clip_value_min=0.0, clip_value_max=2.0),
        lambda: tf.reduce_sum(input_tensor=X, axis=0, keepdims=True, name="s"),
        lambda: tf.cumsum(x=X, axis=1, exclusive=True, reverse=True, name="c"),
        lambda: tf.argmax(input=X, axis=1, output_type=tf.int32, name="a"),
        lambda: tf.reshape(tensor=X, shape=[6], name="r"),
        lambda: tf.transpose(a=X, perm=[1, 0], conjugate=False, name="t"),
        lambda: tf.squeeze(input=X, axis=[]),
        lambda: tf.expand_dims(input=X, axis=0),
        lambda: tf.broadcast_to(input=X, shape=[2, 3]),
        lambda: tf.tile(input=X, multiples=[1, 2]),
        lambda: tf.repeat(input=X, repeats=2, axis=0),
        lambda: tf.concat(values=[X, X], axis=0),
        lambda: tf.stack(values=[X, X], axis=0),
        lambda: tf.unstack(value=X, num=2, axis=0),
        lambda: tf.split(value=X, num_or_size_splits=3, axis=1, num=3),
        lambda: tf.pad(tensor=X, paddings=[[1, 0], [0, 0]], mode="CONSTANT", constant_values=0),
        lambda: tf.reverse(tensor=X, axis=[0]),
        lambda: tf.roll(input=X, shift=1, axis=0),
        lambda: tf.slice(input_=X, begin=[0, 0], size=[1, 1]),
        lambda: tf.strided_slice(input_=X, **STRIDE, strides=[1, 1], ellipsis_mask=0),
        lambda: tf.gather(params=X, indices=[0], validate_indices=None, axis=0, batch_dims=0),
        lambda: tf.gather_nd(params=X, indices=[[0]], batch_dims=0, bad_indices_policy=""),
        lambda: tf.scatter_nd(indices=[[0]], updates=[1.0], shape=[2], bad_indices_policy=""),
        lambda: tf.tensor_scatter_nd_max(tensor=X, indices=[[0, 0]], updates=[9.0], name="t"),
        lambda: tf.boolean_mask(tensor=X, mask=[True, False], axis=0),
        lambda: tf.sort(values=X, axis=-1, direction="ASCENDING"),
        lambda: tf.argsort(values=X, axis=-1, direction="ASCENDING", stable=True),
        lambda: m.top_k(input=X, k=1, sorted=True, index_type=tf.int64),
        lambda: tf.linspace(start=0.0, stop=1.0, num=3, axis=0),
        lambda: tf.one_hot(indices=[0], depth=2, on_value=1.0, off_value=0.0, axis=-1, dtype=tf.float32),
        lambda: tf.range(start=0, limit=3, delta=1, dtype=tf.int64),
        lambda: tf.fill(dims=[2], value=1.0),
        lambda: tf.zeros(shape=[2], dtype=tf.int32, layout=None),
        lambda: tf.ensure_shape(x=X, shape=None),
        lambda: tf.where(condition=[True], x=[1.0], y=[2.0]),
        lambda: tf.tensordot(a=X, b=X, axes=2),
        lambda: tf.reverse_sequence(input=X, seq_lengths=[1, 2], seq_axis=1, batch_axis=0),
        lambda: tf.dynamic_partition(data=X, partitions=[0, 1], num_partitions=2),
        lambda: tf.dynamic_stitch(indices=[[0]], data=[[1.0]]),
        lambda: tf.searchsorted(sorted_sequence=[1.0], values=[0.0], side="right", out_type=tf.int64),
        lambda: tf.unique(x=[1, 1], out_idx=tf.int64),
        lambda: m.bincount(arr=[1], weights=None, minlength=0, maxlength=9, dtype=tf.int64, binary_output=True),
        lambda: m.segment_sum(data=X, segment_ids=[0, 0]),
        lambda: m.unsorted_segment_sqrt_n(data=X, segment_ids=[0, 0], num_segments=1),
        lambda: tf.histogram_fixed_width(values=X, value_range=[0.0, 1.0], nbins=3, dtype=tf.int64),
        lambda: tf.sequence_mask(lengths=[1], maxlen=3, dtype=tf.float32),
        lambda: m.in_top_k(targets=[0, 1], predictions=X, k=1),
        lambda: tf.bitcast(input=X, type=tf.int64),
        lambda: tf.saturate_cast(value=X, dtype=tf.int8),
    ],
)
def test_arguments_have_tensorflows_names(call: Any) -> None:
    call()


# ---------------------------------------------------------------------------------------------- no derivative


@pytest.mark.parametrize(
    ("got", "expected", "dtype"),
    [
        (tf.searchsorted([1.0, 3.0, 5.0], [0.0, 3.0, 6.0]), [0, 1, 3], "int32"),
        (tf.searchsorted([[1.0, 3.0], [2.0, 4.0]], [[3.0], [3.0]], side="right"), [[2], [1]], "int32"),
        (tf.unique([7.0, 2.0, 7.0]).idx, [0, 1, 0], "int32"),
        (tf.unique_with_counts([7.0, 2.0, 7.0], tf.int64).count, [2, 1], "int64"),
        (m.bincount([1, 1, 3]), [0, 2, 0, 1], "int32"),
        (m.bincount([[1, 1], [0, 2]], axis=-1, binary_output=True), [[0, 1, 0], [1, 0, 1]], "int32"),
        (m.bincount([1, 1, 3], minlength=5, maxlength=3), [0, 2, 0], "int32"),
        (m.invert_permutation([2, 0, 1]), [1, 2, 0], "int32"),
        (tf.sequence_mask([1, 3]), [[True, False, False], [True, True, True]], "bool"),
        (tf.sequence_mask(2, 3, tf.float32), [1.0, 1.0, 0.0], "float32"),
        (m.confusion_matrix([0, 1, 1], [0, 1, 0]), [[1, 0], [1, 1]], "int32"),
        (tf.histogram_fixed_width([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], 5), [2, 1, 1, 0, 2], "int32"),
        (tf.histogram_fixed_width_bins([-1.0, 2.4], [0.0, 5.0], 5, tf.int64), [0, 2], "int64"),
        (tf.bitcast([1.0], tf.int32), [1065353216], "int32"),
        (tf.bitcast([1.0], tf.uint8), [[0, 0, 128, 63]], "uint8"),
        (tf.saturate_cast([300.0, -5.0, 1.7], tf.uint8), [255, 0, 1], "uint8"),
        (tf.saturate_cast(tf.constant([1e300], tf.float64), tf.float32), [np.finfo(np.float32).max], "float32"),
        (m.in_top_k([1, 0], [[0.0, 1.0, 2.0], [3.0, 1.0, 2.0]], 1), [False, True], "bool"),
        (tf.argsort([3.0, 1.0, 2.0], direction="DESCENDING"), [0, 2, 1], "int32"),
        (m.top_k([1, 5, 5], 2).indices, [1, 2], "int32"),
        (tf.where([[True, False], [False, True]]), [[0, 0], [1, 1]], "int64"),
        (tf.one_hot([0, 2, -1], 3, 5.0, -1.0), [[5, -1, -1], [-1, -1, 5], [-1, -1, -1]], "float32"),
        (tf.one_hot([0, 1], 2, axis=0, dtype=tf.int64), [[1, 0], [0, 1]], "int64"),
        (tf.range(1.0, 2.0, 0.25), [1.0, 1.25, 1.5, 1.75], "float32"),
        (tf.range(5, 1, -2), [5, 3], "int32"),
        (tf.range(tf.constant(3.0, tf.float16)), [0.0, 1.0, 2.0], "float16"),
        (tf.range(tf.constant(1, tf.int64), 3.5), [1.0, 2.0, 3.0], "float32"),
        (tf.linspace(tf.constant(1, tf.int8), tf.constant(2, tf.int8), 3), [1.0, 1.5, 2.0], "float32"),
        (tf.shape(X, out_type=tf.int64), [2, 3], "int64"),
        (tf.linspace(0, 10, 3), [0.0, 5.0, 10.0], "float64"),
        (tf.unravel_index([22, 41], [7, 6]), [[3, 6], [4, 5]], "int32"),
        (tf.broadcast_dynamic_shape([1, 3], [2, 1]), [2, 3], "int32"),
        (tf.truncatediv([7, -7], [2, 2]), [3, -3], "int32"),
        (m.reduce_euclidean_norm([3, 4]), 5, "int32"),
        (tf.reduce_mean([-1, -2]), -1, "int32"),
        (m.segment_mean([1, 2], [0, 0]), [1], "int32"),
        (m.unsorted_segment_mean([1, 2], [0, 0], 1), [1.5], "float64"),
        (m.unsorted_segment_max([1, 2], [0, 0], 2), [2, np.iinfo(np.int32).min], "int32"),
        (m.divide_no_nan(1, 2), 0.5, "float64"),
        (tf.truediv(tf.constant([1], tf.int8), tf.constant([2], tf.int8)), [0.5], "float32"),
        (tf.square([3]), [9], "int32"),
        (tf.round([1, 2]), [1, 2], "int32"),
        (tf.stack([1, 2.5]), [1.0, 2.5], "float32"),
        (tf.stack([]), [], "float32"),
    ],
)
def test_value_and_dtype(got: Any, expected: Any, dtype: str) -> None:
    assert got.dtype.name == dtype
    np.testing.assert_array_equal(got.numpy(), expected)


def test_unique_names_its_parts() -> None:
    assert tf.unique([1])._fields == ("y", "idx")
    assert tf.unique_with_counts([1])._fields == ("y", "idx", "count")


# ---------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tf.gather(X, [0.0]), IAE),
        (lambda: tf.gather(X, [2]), IAE),
        (lambda: tf.gather(X, [-1]), IAE),
        (lambda: tf.gather_nd(X, [[0, 3]]), IAE),
        (lambda: tf.gather_nd(X, [[5]], bad_indices_policy="HOPE"), IAE),
        (lambda: tf.scatter_nd([[0]], [1.0, 2.0], [3]), IAE),
        (lambda: tf.tensor_scatter_nd_max(X, [[2]], X[:1]), IAE),
        (lambda: tf.tensor_scatter_nd_min(X, [[0]], [[1.0]]), IAE),
        (lambda: tf.one_hot([0.5], 2), IAE),
        (lambda: tf.one_hot([0], -1), IAE),
        (lambda: tf.one_hot([0], 2, on_value=1.0, off_value=0), TypeError),
        (lambda: tf.reduce_sum([True]), IAE),
        (lambda: tf.reduce_sum(X, axis=[0, -2]), IAE),
        (lambda: tf.reduce_sum(X, axis="rows"), IAE),
        (lambda: tf.reduce_max(["a"]), IAE),
        (lambda: tf.reduce_logsumexp([1]), IAE),
        (lambda: m.reduce_std([1]), TypeError),
        (lambda: tf.cumsum([True]), IAE),
        (lambda: tf.norm(X, "fro"), ValueError),
        (lambda: tf.norm(X, ord=-1), ValueError),
        (lambda: tf.norm([3, 4]), IAE),
        (lambda: tf.add([True], [False]), IAE),
        (lambda: tf.maximum([True], [False]), IAE),
        (lambda: tf.negative([True]), IAE),
        (lambda: tf.sign([True]), IAE),
        (lambda: tf.less([True], [False]), IAE),
        (lambda: tf.sort([True]), IAE),
        (lambda: tf.sort([1.0], direction="UP"), ValueError),
        (lambda: tf.reshape(X, [4, -1]), IAE),
        (lambda: tf.reshape(X, [2, 3.0]), IAE),
        (lambda: tf.squeeze(X, 0), IAE),
        (lambda: tf.concat([], 0), IAE),
        (lambda: tf.concat([1.0, 2.0], 0), IAE),
        (lambda: tf.unstack(X, num=3), IAE),
        (lambda: tf.split(X, [1, 1], num=3), IAE),
        (lambda: tf.split(X, 2, axis=1), IAE),
        (lambda: tf.repeat(X, [1, 2, 3], axis=0), ValueError),
        (lambda: tf.repeat(X, -1), IAE),
        (lambda: tf.pad([1], [[1, 0]], constant_values=3.5), TypeError),
        (lambda: tf.pad(X, [[3, 0], [0, 0]], "SYMMETRIC"), IAE),
        (lambda: tf.meshgrid([1], [1.0]), IAE),
        (lambda: tf.meshgrid([1], [1], indexing="yx"), ValueError),
        (lambda: tf.roll(X, [1, 2], [0]), IAE),
        (lambda: tf.strided_slice(X, [0, 0], [2]), IAE),
        (lambda: tf.strided_slice(X, [1], [0], [-1], shrink_axis_mask=1), IAE),
        (lambda: tf.where(True), IAE),
        (lambda: tf.where([1.0], [1.0], [2.0]), IAE),
        (lambda: tf.where([True], [1.0]), ValueError),
        (lambda: tf.range(5, 1), IAE),
        (lambda: tf.range(0, 1, 0), IAE),
        (lambda: tf.linspace(0.0, 1.0, -1), IAE),
        (lambda: tf.fill([-1], 0.0), IAE),
        (lambda: tf.ensure_shape(X, [None, 2]), IAE),
        (lambda: tf.cast("a", tf.float32), UNIMPLEMENTED),
        (lambda: tf.saturate_cast(X, tf.bool), TypeError),
        (lambda: tf.bitcast([True], tf.uint8), IAE),
        (lambda: tf.bitcast(1.0, tf.float64), IAE),
        (lambda: tf.boolean_mask(X, True), ValueError),
        (lambda: tf.boolean_mask(X, [True]), ValueError),
        (lambda: m.segment_sum([1.0, 2.0], [1, 0]), IAE),
        (lambda: m.segment_max([1.0, 2.0], [-1, 0]), IAE),
        (lambda: m.segment_prod([1.0, 2.0], [0]), IAE),
        (lambda: m.unsorted_segment_sum([1.0], [3], 2), IAE),
        (lambda: m.unsorted_segment_sum([1.0], [0], -1), IAE),
        (lambda: m.unsorted_segment_sqrt_n([1], [0], 1), IAE),
        (lambda: tf.dynamic_partition([1.0], [2], 2), IAE),
        (lambda: tf.dynamic_partition([1.0], [0], 0), IAE),
        (lambda: tf.dynamic_stitch([[0]], [[1.0, 2.0]]), IAE),
        (lambda: tf.dynamic_stitch([[-1]], [[1.0]]), IAE),
        (lambda: tf.reverse_sequence(X, [2, 4], seq_axis=1), IAE),
        (lambda: tf.reverse_sequence(X, [2, 2], seq_axis=0), IAE),
        (lambda: tf.reverse_sequence(X, [2, 2]), TypeError),
        (lambda: tf.searchsorted([1.0], [1.0], side="up"), ValueError),
        (lambda: tf.searchsorted([[1.0]], [1.0]), IAE),
        (lambda: tf.unique([[1]]), IAE),
        (lambda: m.bincount([-1]), IAE),
        (lambda: m.bincount([1], axis=1), ValueError),
        (lambda: m.invert_permutation([0, 0]), IAE),
        (lambda: m.invert_permutation([0, 2]), IAE),
        (lambda: tf.sequence_mask([1], [2]), ValueError),
        (lambda: m.confusion_matrix([2], [0], num_classes=2), IAE),
        (lambda: tf.histogram_fixed_width([1.0], [5.0, 0.0]), IAE),
        (lambda: m.in_top_k([0, 1], [[1.0]], 1), IAE),
        (lambda: m.polyval((1.0,), 2.0), ValueError),
        (lambda: tf.scalar_mul([1.0], [2.0]), ValueError),
        (lambda: m.accumulate_n([]), ValueError),
        (lambda: tf.add_n([[1.0], [[2.0]]]), IAE),
        (lambda: m.nextafter(tf.constant([1.0], tf.float16), tf.constant([2.0], tf.float16)), IAE),
        (lambda: tf.truncatemod(7, 0), IAE),
    ],
)
def test_what_does_not_fit_raises_what_tensorflow_raises(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: tf.argmax(X, axis=[0]),
        lambda: tf.argmin(X, axis=1.0),
        lambda: tf.cumsum(X, axis=1.0),
        lambda: tf.reduce_sum(X, axis=1.0),
        lambda: tf.reduce_sum(X, axis="rows"),
        lambda: tf.reduce_any([True], axis=0.0),
        lambda: tf.logical_and(1, 2),
        lambda: tf.where([1, 0], 1.0, 2.0),
        lambda: tf.constant(True) / tf.constant(True),
        lambda: m.reduce_std([True]),
        lambda: m.reduce_variance([1]),
        lambda: m.angle([1]),
        lambda: m.conj([True]),
        lambda: m.unsorted_segment_mean(["a"], [0], 1),
        lambda: tf.norm([True]),
        lambda: tf.sin(1),
    ],
)
def test_a_wrong_type_raises_both_classes_that_tensorflow_chooses_from_by_op(call: Any) -> None:
    with pytest.raises(IAE):
        call()
    with pytest.raises(TypeError):
        call()


# ---------------------------------------------------------------------------------------------- ties, None and slices


def _gradient(f: Any, *at: Any) -> list[Any]:
    xs = [tf.Variable(np.array(a)) for a in at]
    with tf.GradientTape() as tape:
        y = f(*xs)
    return [None if g is None else tf.convert_to_tensor(g).numpy().tolist() for g in tape.gradient(y, xs)]


def test_equal_extremes_of_a_segment_share_the_gradient() -> None:
    tied = [2.0, 2.0, 1.0, 0.5, 0.5]
    assert _gradient(lambda x: m.segment_max(x, [0, 0, 0, 1, 1]), tied) == [[0.5, 0.5, 0.0, 0.5, 0.5]]
    assert _gradient(lambda x: m.unsorted_segment_min(x, [0, 0, 0, 1, 1], 2), tied) == [[0.0, 0.0, 1.0, 0.5, 0.5]]
    report = check(lambda x: m.segment_max(x, [0, 0, 0, 1, 1]), np.array(tied))
    assert report.verdict == "convention" and report.ok


def test_nan_in_a_segment_makes_its_gradient_nan_and_leaves_others_alone() -> None:
    (g,) = _gradient(lambda x: m.segment_max(x, [0, 0, 1]), [np.nan, 1.0, 2.0])
    assert np.isnan(g[:2]).all() and g[2] == 1.0


def test_equal_updates_and_elements_share_the_gradient() -> None:
    f = lambda x, u: tf.tensor_scatter_nd_max(x, [[1], [0], [2], [0]], u)
    x, u = _gradient(f, [1.0, 5.0, 3.0, 2.0], [4.0, 4.0, 3.0, 9.0])
    assert x == [0.0, 1.0, 0.5, 1.0] and u == [0.0, 0.0, 0.5, 1.0]


def test_updates_that_were_replaced_have_no_gradient() -> None:
    x, u = _gradient(lambda x, u: tf.tensor_scatter_nd_update(x, [[0], [0]], u), [1.0, 2.0], [3.0, 4.0])
    assert x == [0.0, 1.0] and u == [0.0, 1.0]
    a, b = _gradient(lambda a, b: tf.dynamic_stitch([[0, 1], [1]], [a, b]), [1.0, 2.0], [3.0])
    assert a == [1.0, 0.0] and b == [1.0]


def test_the_first_of_equals_gets_the_gradient_of_unique() -> None:
    assert _gradient(lambda x: tf.unique(x).y * [1.0, 2.0], [7.0, 2.0, 7.0]) == [[1.0, 2.0, 0.0]]


def test_dropped_slices_have_zero_gradient() -> None:
    assert _gradient(lambda x: m.unsorted_segment_sum(x, [0, -1, 1], 2), [1.0, 2.0, 3.0]) == [[1.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.searchsorted(x, [2.0, 3.0]),
        lambda x: tf.unique(x).idx,
        lambda x: tf.bitcast(x, tf.int64),
        lambda x: tf.saturate_cast(x, tf.int32),
        lambda x: tf.histogram_fixed_width(x, [0.0, 9.0]),
        lambda x: tf.one_hot(tf.cast(x, tf.int32), 3),
        lambda x: tf.argsort(x),
        lambda x: m.top_k(x, 1).indices,
        lambda x: m.zero_fraction(x),
        lambda x: tf.shape(x),
    ],
)
def test_indices_and_bits_have_no_gradient(f: Any) -> None:
    assert _gradient(f, [1.0, 4.0]) == [None]


def test_a_lookup_of_rows_gives_slices_and_other_picks_are_dense() -> None:
    x = tf.Variable(X)
    for f, sparse in (
        (lambda: tf.gather(x, [1, 1]), True),
        (lambda: tf.gather(x, [1, 1], axis=1), False),
        (lambda: tf.gather(x, [1, 1], axis=-2), False),
        (lambda: tf.gather(x, [[1], [1]], batch_dims=1), False),
        (lambda: tf.gather_nd(x, [[1, 1]]), False),
        (lambda: tf.dynamic_partition(x, [0, 1], 2), False),
        (lambda: m.segment_sum(x, [0, 1]), False),
        (lambda: x[1], False),
    ):
        with tf.GradientTape() as tape:
            y = f()
        assert isinstance(tape.gradient(y, x), tf.IndexedSlices) is sparse


def test_products_of_no_rows_are_connected() -> None:
    (g,) = _gradient(lambda x: m.unsorted_segment_prod(x, np.zeros(0, int), 2), np.zeros((0, 2)))
    assert g == []


def test_scalar_mul_scales_indexed_slices() -> None:
    s = tf.IndexedSlices(tf.constant([1.0, 2.0]), tf.constant([0, 2]), tf.constant([3]))
    made = tf.scalar_mul(2.0, s)
    assert isinstance(made, tf.IndexedSlices)
    assert tf.convert_to_tensor(made).numpy().tolist() == [2.0, 0.0, 4.0]


def test_saturate_cast_stops_the_gradient_where_it_clipped() -> None:
    (g,) = _gradient(lambda x: tf.saturate_cast(x, tf.float32), [1e300, 1.5, -1e300])
    assert g == [0.0, 1.0, 0.0]


# ---------------------------------------------------------------------------------------------- None and truth values


@pytest.mark.parametrize(
    "call",
    [
        lambda: tf.reshape(X, [None, 3]),
        lambda: tf.reshape(X, tf.TensorShape([None, 3])),
        lambda: tf.tile(X, [None, 1]),
        lambda: tf.zeros([None, 1]),
        lambda: tf.ones((2, None)),
        lambda: tf.fill([None, 1], 1.0),
        lambda: tf.broadcast_to(X, [None, 3]),
        lambda: tf.transpose(X, [None, 0]),
        lambda: tf.random.normal([None, 3]),
        lambda: tf.slice(X, [None, 0], [1, 1]),
        lambda: tf.concat([X, X], None),
        lambda: tf.cumsum(X, axis=None),
        lambda: m.cumprod(X, axis=None),
        lambda: m.cumulative_logsumexp(X, axis=None),
        lambda: tf.reduce_sum(X, axis=[None]),
        lambda: tf.roll(X, 1, None),
        lambda: tf.constant(X)[True],
        lambda: tf.constant(X)[np.False_],
        lambda: tf.norm(X, axis=tf.constant(0)),
        lambda: tf.norm(X, axis=tf.constant([0, 1])),
        lambda: tf.norm(X, axis=np.array([0, 1])),
    ],
)
def test_none_and_truth_values_among_whole_numbers_are_value_errors(call: Any) -> None:
    with pytest.raises(ValueError):
        call()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tf.one_hot([0, 1, -1, 5], 3, axis=-2), IAE),
        (lambda: tf.one_hot([[0, 1]], 3, axis=-3), IAE),
        (lambda: tf.one_hot([0, 1], 3, axis=2), IAE),
        (lambda: tf.one_hot([0, 1], 3, dtype=tf.bool), TypeError),
        (lambda: tf.one_hot([0, 1], 3, on_value=True, dtype=tf.bool), TypeError),
        (lambda: tf.range(3, dtype=tf.bool), TypeError),
        (lambda: tf.range(3, dtype=tf.string), TypeError),
        (lambda: tf.sequence_mask([1, 3], -1), IAE),
        (lambda: tf.sequence_mask([1, 3], tf.constant(-2)), IAE),
    ],
)
def test_what_counts_nothing_is_refused(call: Any, error: Any) -> None:
    with pytest.raises(error):
        call()


def test_truth_values_are_counted_where_both_are_given() -> None:
    assert tf.one_hot([1], 2, on_value=True, off_value=False, dtype=tf.bool).numpy().tolist() == [[False, True]]
    assert tf.one_hot([1], 2, axis=-1).numpy().tolist() == [[0.0, 1.0]]
    assert tf.sequence_mask([1], 0).shape == [1, 0]

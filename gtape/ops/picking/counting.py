"""Counting and looking up: bincount, confusion matrices, histograms, masks of sequences, sorted search."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.quiet import quietly
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.errors import InvalidArgumentError, OperandTypeError
from gtape.ops.picking.gather import integers
from gtape.ops.shape.decisions import checked, decided, is_followed, size_decided, truth_decided
from gtape.tensors.axes import integers_read, scalar_int
from gtape.tensors.operands import whole_numbers
from gtape.tensors.tensor import Tensor, as_operand, is_tensor, wrap

__all__ = [
    "bincount", "confusion_matrix", "histogram_fixed_width", "histogram_fixed_width_bins", "invert_permutation",
    "searchsorted", "sequence_mask",
]  # fmt: skip
NAMESPACES = ("math",)


def _whole(v: Any, op: str, name: str) -> Tensor:
    """Whole numbers as an int64 tensor. Fractions are cut off by a cast, so that a check sees the cast."""
    t = as_operand(v)
    if not is_followed(t) and t._layout.dtype.kind in "biu":
        return decided(lambda v: v.astype(np.int64), t)
    values = whole_numbers(t, op, name)
    return REGISTRY["cast"](t, dtype=values.dtype) if is_followed(t) else wrap(values)


def _dropped(weights: Tensor, places: Tensor, size: int) -> Tensor:
    """Sums of weights by index. Weights with the index -1 are dropped."""
    flat = REGISTRY["reshape"](weights, shape=(weights._layout.size,))
    if is_followed(places) or truth_decided(lambda v: (v < 0).any(), places):
        flat = REGISTRY["gather"](
            flat, decided(lambda v: np.flatnonzero(v >= 0), places), axis=-1, size=flat._layout.size
        )
        places = decided(lambda v: v[v >= 0], places)
    return REGISTRY["scatter_rows"](flat, places, size=size)


@diagnosed
def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
    axis: Any = None,
    binary_output: bool = False,
) -> Tensor:
    """How often each integer occurs, or the sum of its weights.

    Parameters
    ----------
    arr : integer tensor
        Integers, none of them negative.
    weights : tensor, optional
        The shape of `arr`. Differentiable.
    minlength : int, optional
        The least number of entries.
    maxlength : int, optional
        The greatest number of entries. Greater values of `arr` are left out.
    dtype : dtype
        The dtype of counts. Sums of weights have the dtype of the weights.
    axis : {None, 0, -1}
        With -1 each row of a matrix is counted by itself, otherwise all elements are counted together.
    binary_output : bool
        Whether the result is 1 for every value that occurs. Not allowed with weights.

    Returns
    -------
    Tensor
        One entry more than the greatest value, within the given limits.

    Raises
    ------
    ValueError
        If `axis` has another value, or weights come with `binary_output`.
    gtape.errors.InvalidArgumentError
        If a number is negative, or the weights have another shape.

    Examples
    --------
    >>> tf.math.bincount([1, 1, 3]).numpy()
    array([0, 2, 0, 1], dtype=int32)
    >>> tf.math.bincount([1, 1, 3], weights=[0.5, 1.0, 2.0]).numpy()
    array([0. , 1.5, 0. , 2. ], dtype=float32)
    """
    if axis not in (None, 0, -1):
        raise ValueError(f"Unsupported value for argument axis={axis}. Only 0 and -1 are currently supported.")
    if binary_output and weights is not None:
        raise ValueError("Arguments `binary_output` and `weights` are mutually exclusive.")
    numbers = _whole(arr, "bincount", "arr")
    given = numbers._layout.shape

    def check(values: Any) -> None:
        if values.size and values.min() < 0:
            raise InvalidArgumentError(f"bincount: Input arr must be non-negative! Got {int(values.min())}")

    checked(check, numbers)
    if axis == -1 and len(given) > 2:
        raise InvalidArgumentError(f"bincount along axis -1 takes at most two axes, got shape {list(given)}")
    least = 0 if minlength is None else scalar_int(minlength)
    most = None if maxlength is None else scalar_int(maxlength)

    def size_of(v: Any) -> Any:
        wanted = max(int(v.max(initial=-1)) + 1, least)
        return wanted if most is None else min(wanted, most)

    size = size_decided(size_of, numbers)
    count = given[0] if axis == -1 and len(given) == 2 else 1
    shape = (count, size) if axis == -1 and len(given) == 2 else (size,)
    total = count * size

    def places(v: Any) -> Any:
        rows = v.reshape(count, -1) if v.size else v.reshape(count, 0)
        return np.where(rows < size, rows + size * np.arange(count)[:, None], -1).reshape(-1)

    if weights is None:
        kind = dtypes.np_dtype(dtype)

        def counted(v: Any) -> Any:
            found = places(v)
            counts = np.bincount(found[found >= 0], minlength=total)
            return (np.minimum(counts, 1) if binary_output else counts).reshape(shape).astype(kind)

        return decided(counted, numbers)
    w = as_operand(weights)
    if w._layout.shape != given:
        raise InvalidArgumentError(
            f"bincount: weights of shape {w._layout.tensor_shape} do not fit numbers of shape {list(given)}"
        )
    return REGISTRY["reshape"](_dropped(w, decided(places, numbers), total), shape=shape)


def _classes(v: Any, name: str, count: int | None) -> Tensor:
    numbers = _whole(v, "confusion_matrix", name)

    def check(found: Any) -> None:
        if found.size and found.min() < 0:
            raise InvalidArgumentError(f"`{name}` contains negative values.")
        if count is not None and found.size and found.max() >= count:
            raise InvalidArgumentError(f"`{name}` out of bound: {int(found.max())} is no class of {count}")

    checked(check, numbers)
    return numbers


@diagnosed
def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    weights: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """How often each class (a row) was taken for each class (a column).

    Parameters
    ----------
    labels, predictions : integer vectors
        Vectors of equal length.
    num_classes : int, optional
        By default the greatest number plus one.
    weights : vector, optional
        The weight of each pair. Differentiable if `dtype` is floating-point.
    dtype : dtype

    Returns
    -------
    Tensor
        Shape ``(num_classes, num_classes)``.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If a number is not a class, or the vectors differ in length.

    Examples
    --------
    >>> tf.math.confusion_matrix([0, 1, 1], [0, 1, 0]).numpy()
    array([[1, 0],
           [1, 1]], dtype=int32)
    """
    n = None if num_classes is None else scalar_int(num_classes)
    given = _classes(labels, "labels", n), _classes(predictions, "predictions", n)
    a, b = shapes = [t._layout.shape for t in given]
    # Remove a last axis of size 1 that only one of the two has.
    if len(a) == len(b) + 1 and a[-1] == 1:
        shapes[0] = a[:-1]
    elif len(b) == len(a) + 1 and b[-1] == 1:
        shapes[1] = b[:-1]
    if shapes[0] != shapes[1]:
        raise InvalidArgumentError(f"confusion_matrix: labels and predictions have shapes {shapes[0]} and {shapes[1]}")
    size = size_decided(lambda a, b: max(a.max(initial=-1), b.max(initial=-1)) + 1, *given) if n is None else n

    def places(a: Any, b: Any) -> Any:
        return a.reshape(-1) * size + b.reshape(-1)

    if weights is None:
        kind = dtypes.np_dtype(dtype)
        return decided(
            lambda a, b: np.bincount(places(a, b), minlength=size * size).reshape(size, size).astype(kind), *given
        )
    from gtape.ops.shape.creation import cast

    w = cast(weights, dtype)
    if w._layout.size != math.prod(a):
        raise InvalidArgumentError(f"confusion_matrix: weights of shape {w.shape} do not fit {math.prod(a)} pairs")
    return REGISTRY["reshape"](_dropped(w, decided(places, *given), size * size), shape=(size, size))


def _range(values: Any, value_range: Any, nbins: Any) -> tuple[Any, Any, Any, int]:
    """The numbers as floats, the ends of the range in the dtype of the numbers, and the number of bins."""
    t = as_operand(values)
    ends = as_operand(value_range, t)
    n = scalar_int(nbins)
    if not 1 <= n < 2**31:  # TensorFlow has an int32 here
        raise InvalidArgumentError(f"nbins should be a positive number below 2**31, got {n}")
    if ends._layout.dtype.kind not in "biufV":
        raise InvalidArgumentError(f"value_range must be real numbers, not {ends.dtype.name}")
    if ends._layout.shape != (2,) or not ends._value[0] < ends._value[1]:
        raise InvalidArgumentError(
            f"value_range should satisfy value_range[0] < value_range[1], got {np.asarray(ends._value).tolist()}"
        )
    v = np.asarray(t._value)
    if v.dtype.kind not in "biufV":
        raise InvalidArgumentError(f"values must be real numbers, not {t.dtype.name}")
    v = v if v.dtype.kind == "f" else v.astype(np.float64)
    with quietly():
        return v, v.dtype.type(ends._value[0]), v.dtype.type(ends._value[1]), n


@diagnosed
def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """The index of the bin that holds each value, for bins of equal width. Outer values are in the outermost bins.

    Parameters
    ----------
    values : number tensor
    value_range : two numbers
        The start of the first bin and the end of the last bin.
    nbins : int
    dtype : dtype
        int32 or int64.

    Returns
    -------
    Tensor
        The shape of `values`. Not differentiable.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the range is empty, or the number of bins is 0.

    Examples
    --------
    >>> tf.histogram_fixed_width_bins([-1.0, 0.0, 1.5, 15.0], [0.0, 5.0], nbins=5).numpy()
    array([0, 0, 1, 4], dtype=int32)
    """
    v, low, high, n = _range(values, value_range, nbins)
    with np.errstate(all="ignore"):
        at = np.floor(((v - low) / (high - low)) * v.dtype.type(n))
    # Integers first, because a float may round n - 1 up.
    found = np.minimum(np.clip(np.nan_to_num(at), 0, n - 1).astype(np.int64), n - 1)
    with quietly():
        return wrap(found.astype(dtypes.np_dtype(dtype)))


@diagnosed
@documented_like(histogram_fixed_width_bins)
def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """The number of values in each bin, for bins of equal width. Outer values are in the outermost bins.

    Returns
    -------
    Tensor
        Shape ``(nbins,)``. Not differentiable.

    Examples
    --------
    >>> tf.histogram_fixed_width([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], nbins=5).numpy()
    array([2, 1, 1, 0, 2], dtype=int32)
    """
    v, low, high, n = _range(values, value_range, nbins)
    with np.errstate(all="ignore"):
        # float64, as in TensorFlow's kernel, because the last digit decides at the edge of a bin.
        at = (np.maximum(v, low) - low).astype(np.float64) / (np.float64(high - low) / n)
    counts = np.bincount(np.clip(np.nan_to_num(at), 0, n - 1).astype(np.int64).reshape(-1), minlength=n)
    with quietly():
        return wrap(counts.astype(dtypes.np_dtype(dtype)))


@diagnosed
def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """The position of each of the numbers 0, 1, ... in a permutation of these numbers.

    Parameters
    ----------
    x : integer vector

    Returns
    -------
    Tensor
        The dtype of `x`.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `x` is not a permutation.

    Examples
    --------
    >>> tf.math.invert_permutation([2, 0, 1]).numpy()
    array([1, 2, 0], dtype=int32)
    """
    numbers = integers(x, "invert_permutation")
    given = numbers._layout.shape
    if len(given) != 1:
        raise InvalidArgumentError(f"invert_permutation expects a 1D vector, got shape {list(given)}")

    def check(p: Any) -> None:
        if p.size and not 0 <= int(p.min()) <= int(p.max()) < p.size:
            wrong = next(int(v) for v in p if not 0 <= v < p.size)
            raise InvalidArgumentError(f"invert_permutation: {wrong} is not between 0 and {p.size}")
        if np.unique(p).size != p.size:
            raise InvalidArgumentError(f"invert_permutation: a number is duplicated in the input, got {p.tolist()}")

    checked(check, numbers)

    def inverted(p: Any) -> Any:
        out = np.empty_like(p)
        out[p] = np.arange(p.size)
        return out

    return decided(inverted, numbers)


@diagnosed
def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool, name: str | None = None) -> Tensor:
    """Masks in which the first `lengths` elements are true.

    Parameters
    ----------
    lengths : integer tensor
    maxlen : int, optional
        The size of the new last axis. By default the greatest length.
    dtype : dtype

    Returns
    -------
    Tensor
        Shape ``(*lengths.shape, maxlen)``.

    Raises
    ------
    ValueError
        If `maxlen` is not a scalar.
    gtape.errors.InvalidArgumentError
        If `maxlen` is negative, or an argument has no whole numbers.

    Examples
    --------
    >>> tf.sequence_mask([1, 3]).numpy()
    array([[ True, False, False],
           [ True,  True,  True]])
    """
    t = as_operand(lengths)
    given = t._layout.dtype
    if given.kind not in "iuf":
        raise OperandTypeError(f"sequence_mask: `lengths` must be whole numbers, not {t.dtype.name}")
    if maxlen is None:
        if given.kind == "f":
            size: Any = np.asarray(t._value).max(initial=0)
        else:
            size = size_decided(lambda n: n.max(initial=0), t)
    else:
        size = np.asarray(integers_read(as_operand(maxlen)))
        if size.ndim:
            raise ValueError(f"Argument `maxlen` must be scalar for sequence_mask, received `maxlen` = {shown(maxlen)}")
        if size.dtype.kind not in "iuf" or not np.isfinite(size):
            raise OperandTypeError(f"sequence_mask: `maxlen` must be a whole number, not {shown(maxlen)}")
        if size < 0:
            raise InvalidArgumentError(f"sequence_mask: `maxlen` must not be negative, got {shown(maxlen)}")
        with quietly():
            if given != size.dtype:  # fractions are cut off, as in TensorFlow
                t = REGISTRY["cast"](t, dtype=size.dtype)
    kind = dtypes.np_dtype(dtype)
    return decided(lambda n: (np.arange(0, size) < n[..., None]).astype(kind), t)


@diagnosed
def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """The positions at which values fit into sorted rows.

    Parameters
    ----------
    sorted_sequence : number tensor, shape (..., n)
        Ascending along the last axis.
    values : number tensor, shape (..., m)
        The same dtype and leading axes as `sorted_sequence`.
    side : {"left", "right"}
        Whether the position is before or after equal elements.
    out_type : dtype
        int32 or int64.

    Returns
    -------
    Tensor
        The shape of `values`. Not differentiable.

    Raises
    ------
    ValueError
        If `side` is another string.
    gtape.errors.InvalidArgumentError
        If leading axes or dtypes differ.

    Examples
    --------
    >>> tf.searchsorted([1.0, 3.0, 5.0], [0.0, 3.0, 6.0]).numpy()
    array([0, 1, 3], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(f"Argument `side` must be either 'right' or 'left'. Received: `side` = {shown(side)}.")
    a = as_operand(sorted_sequence)
    b = as_operand(values, a) if is_tensor(sorted_sequence) and not is_tensor(values) else as_operand(values)
    if a._layout.dtype != b._layout.dtype:
        raise InvalidArgumentError(
            f"searchsorted: the sequence is {a.dtype.name} but the values are {b.dtype.name}: use gtape.cast"
        )
    have, want = a._layout.shape, b._layout.shape
    if not have or not want or have[:-1] != want[:-1]:
        raise InvalidArgumentError(
            f"searchsorted: Leading dim_size of both tensors must match, got shapes {list(have)} and {list(want)}"
        )
    count, kind = int(np.prod(have[:-1])), dtypes.np_dtype(out_type)

    def places(rows: Any, values: Any) -> Any:
        pairs = zip(rows.reshape(count, have[-1]), values.reshape(count, want[-1]), strict=True)
        found = [np.searchsorted(r, v, side=side) for r, v in pairs]  # type: ignore[call-overload]
        return np.array(found, dtype=kind).reshape(want)

    return decided(places, a, b)

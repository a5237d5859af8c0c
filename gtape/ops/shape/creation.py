"""New tensors from a shape or like another tensor; the ops identity and cast."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.quiet import quietly
from gtape.declare.primitives import REGISTRY, linear, primitive
from gtape.declare.rounding import EXACT, ulps
from gtape.errors import InvalidArgumentError, OperandTypeError, UnimplementedError
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.ops.shape.decisions import decided
from gtape.tensors.axes import check_room, one_axis, scalar_int, static_ints
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, announce, as_operand, number_read, wrap

__all__ = [
    "cast", "eye", "fill", "identity", "linspace", "one_hot", "ones", "ones_like", "range", "zeros", "zeros_like",
]  # fmt: skip


def _zeros_like_kernel(x: Any) -> Any:
    return np.zeros_like(x)


def _ones_like_kernel(x: Any) -> Any:
    return np.ones_like(x)


def _identity_kernel(x: Any) -> Any:
    return x


def _cast_kernel(x: Any, *, dtype: Any) -> Any:
    # A cast from complex keeps the real part. `astype` would warn about the imaginary part.
    if x.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        x = x.real
    return x.astype(dtype)


_SHAPES = (((),), ((3,),), ((2, 3),), ((0, 2),))

_zeros_like = primitive(
    "zeros_like", _zeros_like_kernel, (None,), (None,),
    complex=True, rounding=EXACT,
    samples=tuple((s, {}) for s in _SHAPES),
)  # fmt: skip
_ones_like = primitive(
    "ones_like", _ones_like_kernel, (None,), (None,),
    complex=True, rounding=EXACT,
    samples=tuple((s, {}) for s in _SHAPES),
)  # fmt: skip
_identity = linear(
    "identity", _identity_kernel, lambda xp, g, x: g,
    batched=True, role=("move", "read", "pointwise"), takes=("string",), rounding=EXACT,
    samples=tuple((s, {}) for s in _SHAPES),
)  # fmt: skip
_cast = linear(
    "cast", _cast_kernel, lambda xp, g, x, *, dtype: xp.cast(g, dtype=x.dtype),
    params=("dtype",), batched=True, role=("conversion", "pointwise"), rounding=ulps(0.5),
    samples=((((3,),), {"dtype": np.dtype(np.float64)}), (((),), {"dtype": np.dtype(np.float64)})),
)  # fmt: skip


def _shape(shape: Any) -> tuple[int, ...]:
    made = static_ints(shape)
    if any(d < 0 for d in made):
        raise InvalidArgumentError(f"a shape has no negative sizes, got {made}")
    return made


@diagnosed
def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None, layout: Any = None) -> Tensor:
    """A tensor of zeros.

    Parameters
    ----------
    shape : sequence of int or integer tensor
    dtype : dtype
        For strings the elements are empty.
    layout : optional
        Ignored; TensorFlow has it.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If a size is negative.

    Examples
    --------
    >>> tf.zeros([2]).numpy()
    array([0., 0.], dtype=float32)
    """
    wanted = dtypes.np_dtype(dtype)
    return announce(
        wrap(np.zeros(_shape(shape), wanted) if wanted.kind != "O" else np.full(_shape(shape), b"", wanted))
    )


@diagnosed
@documented_like(zeros)
def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None, layout: Any = None) -> Tensor:
    """A tensor of ones.

    Examples
    --------
    >>> tf.ones([2]).numpy()
    array([1., 1.], dtype=float32)
    """
    return announce(wrap(np.ones(_shape(shape), dtypes.np_dtype(dtype))))


def zeros_like(input: Any, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
    """Zeros with the shape of another tensor.

    Parameters
    ----------
    input : tensor
    dtype : dtype, optional
        By default the dtype of `input`.
    layout : optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Not differentiable.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.zeros_like([1.0, 2.0]).numpy()
    array([0., 0.], dtype=float32)
    """
    t = as_operand(input)
    wanted = t._layout.dtype if dtype is None else dtypes.np_dtype(dtype)
    if wanted != t._layout.dtype or wanted.kind == "O":
        return zeros(t._layout.shape, wanted)
    return announce(_zeros_like(t))


@documented_like(zeros_like)
def ones_like(input: Any, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
    """Ones with the shape of another tensor.

    Examples
    --------
    >>> tf.ones_like([1.0, 2.0]).numpy()
    array([1., 1.], dtype=float32)
    """
    t = as_operand(input)
    if dtype is not None and dtypes.np_dtype(dtype) != t._layout.dtype:
        return announce(wrap(np.ones(t._layout.shape, dtypes.np_dtype(dtype))))
    return announce(_ones_like(t))


def identity(input: Any, name: str | None = None) -> Tensor:
    """A new tensor with the same value, which is a separate source for a tape.

    Parameters
    ----------
    input : tensor or IndexedSlices

    Returns
    -------
    Tensor or IndexedSlices

    Examples
    --------
    >>> import gtape as tf
    >>> float(tf.identity(1.5))
    1.5
    """
    if isinstance(input, IndexedSlices):
        return IndexedSlices(identity(input.values), input.indices, input.dense_shape)  # type: ignore[return-value]
    return _identity(as_operand(input))


def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Change the dtype. Gradients flow between floating-point dtypes and are cast back.

    Parameters
    ----------
    x : tensor or IndexedSlices
    dtype : dtype

    Returns
    -------
    Tensor or IndexedSlices
        `x` itself if its dtype is `dtype` already. A cast from complex to real keeps the real part.

    Raises
    ------
    TypeError
        If the dtype is unknown.
    gtape.errors.UnimplementedError
        If one dtype is a number and the other a string.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.cast([1.7, -1.7], tf.int32).numpy()
    array([ 1, -1], dtype=int32)
    """
    if isinstance(x, IndexedSlices):
        return IndexedSlices(cast(x.values, dtype), x.indices, x.dense_shape)  # type: ignore[return-value]
    t = as_operand(x)
    wanted = dtypes.np_dtype(dtype)
    if (t._layout.dtype.kind in "OSU") != (wanted.kind in "OSU"):
        raise UnimplementedError(f"Cast {t.dtype.name} to {dtypes.as_dtype(wanted).name} is not supported")
    return t if t._layout.dtype == wanted else _cast(t, dtype=wanted)


@diagnosed
@documented_like(zeros)
def fill(dims: Any, value: Any, name: str | None = None, layout: Any = None) -> Tensor:
    """A tensor filled with one value. Gradients flow to the value.

    Parameters
    ----------
    dims : sequence of int or integer tensor
        The shape.
    value : scalar tensor or number

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `value` is not a scalar, or a size is negative.

    Examples
    --------
    >>> tf.fill([2], 7.0).numpy()
    array([7., 7.], dtype=float32)
    """
    t = as_operand(value)
    if t._layout.shape:
        raise InvalidArgumentError(
            f"fill needs a scalar value, got shape {t._layout.tensor_shape}: use gtape.broadcast_to"
        )
    sizes = _shape(dims)
    check_room(sizes, t._layout.dtype, "fill")
    return announce(REGISTRY["broadcast_to"](t, shape=sizes))


@diagnosed
@documented_like(zeros)
def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Identity matrices.

    Parameters
    ----------
    num_rows : int
    num_columns : int, optional
        By default the number of rows.
    batch_shape : sequence of int, optional
        Leading axes along which the matrix is repeated.
    dtype : dtype

    Examples
    --------
    >>> tf.eye(2).numpy()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    rows = scalar_int(num_rows)
    if rows < 0 or (num_columns is not None and scalar_int(num_columns) < 0):
        raise InvalidArgumentError(f"eye needs sizes that are not negative, got {num_rows} and {num_columns}")
    one = np.eye(rows, rows if num_columns is None else scalar_int(num_columns), dtype=dtypes.np_dtype(dtype))
    return announce(wrap(one if batch_shape is None else np.broadcast_to(one, _shape(batch_shape) + one.shape)))


@diagnosed
def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """Numbers from `start` up to but not including `limit`. A single argument is `limit`, with 0 for `start`.

    Parameters
    ----------
    start, limit, delta : scalar tensors or numbers
    dtype : dtype, optional
        By default int32 for Python ints, float32 if one of them is a Python float, otherwise the dtype of the tensors.

    Returns
    -------
    Tensor
        Not differentiable.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an argument is not a scalar, or if `delta` is 0 or leads away from `limit`.

    Examples
    --------
    >>> tf.range(1, 10, 3).numpy()
    array([1, 4, 7], dtype=int32)
    """
    if limit is None:
        start, limit = 0, start
    ends = [as_operand(v) for v in (start, limit, delta)]
    for word, t in zip(("start", "limit", "delta"), ends, strict=True):
        if t._layout.shape or t._layout.dtype.kind not in "iufV":
            raise InvalidArgumentError(f"range: {word} must be a real scalar, not {t.dtype.name} of shape {t.shape}")
    if dtype is None:  # as in TensorFlow; NumPy would widen a float to hold every integer
        kinds = [t._layout.dtype for t in ends]
        wanted = np.result_type(*([k for k in kinds if k.kind in "fV"] or kinds))
    else:
        wanted = dtypes.np_dtype(dtype)
        if wanted.kind not in "iufcV":
            raise OperandTypeError(f"range: there are no numbers of the dtype {dtypes.as_dtype(dtype).name}")
    if wanted.kind == "f":  # Python floats get the digits of the dtype
        like = np.zeros((), wanted)
        given = zip((start, limit, delta), ends, strict=True)
        ends = [as_operand(v, like) if isinstance(v, float) else t for v, t in given]
    first, last, step = [number_read(t) for t in ends]
    if step == 0:
        raise InvalidArgumentError("range needs a delta that is not 0")
    if (first > last) if step > 0 else (first < last):
        raise InvalidArgumentError(
            f"range requires start {'<=' if step > 0 else '>='} limit when delta {'>' if step > 0 else '<'} 0, got "
            f"start {first}, limit {last}"
        )
    common = np.result_type(*[t._layout.dtype for t in ends])
    with quietly():
        whole = common.kind in "iu"
        values = _whole_range(first, last, step).astype(common) if whole else np.arange(first, last, step)
        return announce(wrap(values.astype(wanted)))


def _whole_range(first: Any, last: Any, step: Any) -> Any:
    """A range of integers, computed modulo 2**64, because NumPy counts its elements with overflows and roundings."""
    start, stop, by = int(first), int(last), int(step)
    count = max(0, -((start - stop) // by))
    low, width = (np.uint64(n % 2**64) for n in (start, by))
    made = np.arange(count, dtype=np.uint64)
    made *= width
    made += low
    return made


@diagnosed
def linspace(start: Any, stop: Any, num: Any, name: str | None = None, axis: Any = 0) -> Tensor:
    """Evenly spaced numbers from `start` to `stop`, both included.

    Parameters
    ----------
    start, stop : number tensors
        The shapes broadcast. Integers of 8 and 16 bits become float32, other integers float64.
    num : int
        The number of values.
    axis : int
        The index of the new axis in the result.

    Returns
    -------
    Tensor
        Differentiable in `start` and `stop`.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `num` is negative or the axis is out of range.

    Examples
    --------
    >>> tf.linspace(0.0, 1.0, 5).numpy()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    n = scalar_int(num)
    if n < 0:
        raise InvalidArgumentError(f"linspace needs a num that is not negative, got {n}")
    a, b = operands(start, stop)
    if not a._layout.inexact:
        a = cast(a, dtypes.float64 if a._layout.dtype.itemsize >= 4 else dtypes.float32)
    if not b._layout.inexact:
        b = cast(b, a.dtype)
    whole = broadcast_shapes(a._layout.shape, b._layout.shape)
    at = one_axis(axis, len(whole) + 1, "result")
    shape = (*whole[:at], 1, *whole[at:])
    full = (*whole[:at], n, *whole[at:])
    a, b = [REGISTRY["reshape"](REGISTRY["broadcast_to"](t, shape=whole), shape=shape) for t in (a, b)]
    a, b = [REGISTRY["broadcast_to"](t, shape=full) for t in (a, b)]
    # A weighted sum of both ends, because then the first and last values and their derivatives are exact.
    i = np.arange(n).reshape([n if k == at else 1 for k in np.arange(len(shape))])
    steps = max(n - 1, 1)
    return announce(REGISTRY["between"](a, b, wrap(steps - i), wrap(i), n=steps))


@diagnosed
def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Vectors with `on_value` at the index and `off_value` elsewhere.

    Parameters
    ----------
    indices : integer tensor, any shape
        Indices outside 0 ... depth - 1 give rows without `on_value`.
    depth : int
        The size of the new axis.
    on_value, off_value : number, optional
        1 and 0 by default.
    axis : int, optional
        The index of the new axis in the result. By default the last axis.
    dtype : dtype, optional
        By default the dtype of the values, or float32.

    Returns
    -------
    Tensor
        Not differentiable.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the indices are not integers, `depth` is negative or not a scalar, or `axis` is neither -1 nor the index of
        an axis of the result.
    TypeError
        If the values have different dtypes, or `dtype` has no numbers and a value is missing.

    Examples
    --------
    >>> tf.one_hot([1, 0], 2).numpy()
    array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    t = as_operand(indices)
    if t._layout.dtype.kind not in "iu":
        raise InvalidArgumentError(f"one_hot needs integer indices, not {t.dtype.name}: use gtape.cast")
    # Python numbers take the dtype of the argument. Tensors keep their own dtype.
    like = None if dtype is None else np.zeros((), dtypes.np_dtype(dtype))
    hint = like if like is not None and like.dtype.kind in "fcV" else None
    given = [as_operand(v, hint) for v in (on_value, off_value) if v is not None]
    if len({v._layout.dtype for v in given}) > 1:
        raise TypeError(
            f"on_value is {given[0].dtype.name} but off_value is {given[1].dtype.name}: give both the same dtype"
        )
    if like is not None and like.dtype.kind not in "iufcV" and len(given) < 2:
        raise TypeError(f"one_hot needs on_value and off_value for the dtype {dtypes.as_dtype(dtype).name}")
    wanted = dtypes.np_dtype(dtype) if dtype is not None else given[0]._layout.dtype if given else np.dtype(np.float32)
    with quietly():
        on, off = [
            np.asarray(default if v is None else number_read(as_operand(v, hint))).astype(wanted)
            for v, default in ((on_value, 1), (off_value, 0))
        ]
    at = -1 if axis is None else scalar_int(axis)
    if np.shape(depth) or scalar_int(depth) < 0:
        raise InvalidArgumentError(f"one_hot needs a depth that is a scalar and not negative, got {depth}")
    if at < -1:
        raise InvalidArgumentError(f"one_hot: axis must be -1 or from 0 to {t.ndim}, got {at}")
    last, columns = one_axis(at, t.ndim + 1, "result"), np.arange(scalar_int(depth))

    def rows(places: Any) -> Any:
        return np.moveaxis(np.where(places[..., None] == columns, on, off), -1, last)

    return announce(decided(rows, t))

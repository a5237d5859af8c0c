"""Functions composed of other ops: accumulate_n, scalar_mul, polyval, round, nextafter, in_top_k and others."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.primitives import REGISTRY
from gtape.errors import InvalidArgumentError
from gtape.ops.picking.gather import integers
from gtape.ops.shape.decisions import decided
from gtape.tensors.axes import scalar_int
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = [
    "accumulate_n", "in_top_k", "is_non_decreasing", "is_strictly_increasing", "nextafter", "polyval", "round",
    "scalar_mul", "zero_fraction",
]  # fmt: skip


@diagnosed
def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """The sum of several tensors of one shape and dtype, like `add_n`.

    Parameters
    ----------
    inputs : list of tensors
        One or more tensors.
    shape, tensor_dtype : optional
        An error if they are given and differ from those of the tensors.

    Raises
    ------
    ValueError
        If the list is empty, or shapes differ.
    TypeError
        If the dtype is not `tensor_dtype`.

    Examples
    --------
    >>> tf.math.accumulate_n([tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])]).numpy()
    array([4., 6.], dtype=float32)
    """
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError("inputs must be a list of at least one Tensor with the same dtype and shape")
    tensors = [as_operand(x) for x in inputs]
    if len({t._layout.dtype for t in tensors}) > 1 or len({t._layout.shape for t in tensors}) > 1:
        raise ValueError("inputs must be a list of at least one Tensor with the same dtype and shape")
    if shape is not None and not tensors[0].shape.is_compatible_with(shape):
        raise ValueError(f"the tensors have shape {tensors[0].shape}, not {shape}")
    if tensor_dtype is not None and tensors[0].dtype != tensor_dtype:
        raise TypeError(f"the tensors are {tensors[0].dtype.name}, not {tensor_dtype}")
    return functools.reduce(operator.add, tensors)


@diagnosed
def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """A tensor or IndexedSlices times a number.

    Parameters
    ----------
    scalar : scalar tensor or number
    x : tensor or IndexedSlices

    Returns
    -------
    Tensor or IndexedSlices

    Raises
    ------
    ValueError
        If `scalar` is not a scalar.

    Examples
    --------
    >>> tf.scalar_mul(2.0, [1.0, 2.0]).numpy()
    array([2., 4.], dtype=float32)
    """
    rows = x.values if isinstance(x, IndexedSlices) else as_operand(x)
    s = as_operand(scalar, rows)
    if s._layout.shape:
        raise ValueError(f"Only scalar multiply works, got shape {s.shape}")
    product: Tensor = REGISTRY["multiply"](s, rows)
    return IndexedSlices(product, x.indices, x.dense_shape) if isinstance(x, IndexedSlices) else product


@diagnosed
def polyval(coeffs: Any, x: Any, name: str | None = None) -> Tensor:
    """A polynomial at x by Horner's rule.

    Parameters
    ----------
    coeffs : list of tensors or numbers
        The coefficients from the highest power to the constant. Each broadcasts against `x`.
    x : tensor or number

    Returns
    -------
    Tensor
        Zeros if `coeffs` is empty.

    Raises
    ------
    ValueError
        If `coeffs` is not a list.

    Examples
    --------
    >>> float(tf.math.polyval([2.0, 0.0, 1.0], 3.0))
    19.0
    """
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs).__name__}.")
    t = as_operand(x)
    if not coeffs:
        return wrap(np.zeros(t._layout.shape, t._layout.dtype))
    total, *rest = [as_operand(c, t) for c in coeffs]
    for c in rest:
        total = REGISTRY["add"](c, REGISTRY["multiply"](total, t))
    return total


@diagnosed
def round(x: Any, name: str | None = None) -> Tensor:
    """The nearest integer. A tie gives the even one.

    Parameters
    ----------
    x : number tensor
        Integers stay unchanged.

    Returns
    -------
    Tensor
        Not differentiable.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `x` holds bools.

    Examples
    --------
    >>> tf.round([0.5, 1.5, 2.6]).numpy()
    array([0., 2., 3.], dtype=float32)
    """
    t = as_operand(x)
    return t if t._layout.dtype.kind in "iu" else REGISTRY["rint"](t)


@diagnosed
def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    """The float next to `x1` in the direction of `x2`.

    Parameters
    ----------
    x1, x2 : float32 or float64 tensors
        The shapes broadcast.

    Returns
    -------
    Tensor
        Its gradient is 1 for `x1` and 0 for `x2`, as in TensorFlow.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the dtype is another one, or the shapes do not broadcast.

    Examples
    --------
    >>> float(tf.math.nextafter(tf.constant(1.0, tf.float64), 2.0)) - 1.0
    2.220446049250313e-16
    """
    a, b = operands(x1, x2)
    if a._layout.dtype != b._layout.dtype or a._layout.dtype not in (np.float32, np.float64):
        raise InvalidArgumentError(
            f"nextafter needs two float32 or two float64 tensors, not {a.dtype.name} and {b.dtype.name}"
        )
    with np.errstate(all="ignore"):
        try:
            found = np.asarray(np.nextafter(a._value, b._value))
        except ValueError:
            raise InvalidArgumentError(
                f"nextafter: the shapes {a.shape} and {b.shape} do not broadcast against each other"
            ) from None
        step = np.asarray(np.subtract(found, a._value, dtype=found.dtype))
        exact = np.asarray(np.add(a._value, step, dtype=found.dtype)) == found
    # A neighbour is x1 plus a constant step. An infinite neighbour has no step.
    moved = REGISTRY["add"](a, wrap(np.where(exact, step, step.dtype.type(0))))
    y = REGISTRY["where"](wrap(exact), moved, wrap(found))
    return REGISTRY["where"](wrap(np.zeros(found.shape, np.bool_)), b, y)


def _increasing(x: Any, relation: Any, op: str) -> Tensor:
    t = as_operand(x)
    if not (t.dtype.is_floating or t.dtype.is_integer):
        raise TypeError(f"{op} needs real numbers, not {t.dtype.name}")

    def increasing(v: Any) -> Any:
        flat = v.reshape(-1)
        return np.bool_(np.asarray(relation(flat[:-1], flat[1:]), np.bool_).all())

    return decided(increasing, t)


@diagnosed
def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Whether every element is at least as great as the one before, in row-major order.

    Parameters
    ----------
    x : number tensor

    Returns
    -------
    Tensor
        A bool. True for fewer than two elements.

    Raises
    ------
    TypeError
        If `x` holds bools, complex numbers or strings.

    Examples
    --------
    >>> bool(tf.math.is_non_decreasing([1.0, 1.0, 2.0]))
    True
    """
    return _increasing(x, np.less_equal, "is_non_decreasing")


@diagnosed
@documented_like(is_non_decreasing)
def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Whether every element is greater than the one before, in row-major order.

    Examples
    --------
    >>> bool(tf.math.is_strictly_increasing([1.0, 1.0, 2.0]))
    False
    """
    return _increasing(x, np.less, "is_strictly_increasing")


@diagnosed
def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """The fraction of elements that are zero.

    Parameters
    ----------
    value : number tensor

    Returns
    -------
    Tensor
        A float32, not differentiable. NaN if there are no elements.

    Examples
    --------
    >>> float(tf.math.zero_fraction([0.0, 1.0, 2.0, 0.0]))
    0.5
    """
    elements = np.asarray(as_operand(value)._value)
    if not elements.size:
        return wrap(np.float32(np.nan))
    return wrap(np.float32((elements.size - np.count_nonzero(elements)) / elements.size))


@diagnosed
def in_top_k(targets: Any, predictions: Any, k: Any, name: str | None = None) -> Tensor:
    """Whether the score of the right class is among the k greatest of its row. All ties at the k-th place count.

    Parameters
    ----------
    targets : integer vector
        The right class of each row.
    predictions : floating-point tensor, shape (rows, classes)
    k : int

    Returns
    -------
    Tensor
        Bools. False for rows with an infinite or NaN prediction, and for targets outside the classes.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If shapes do not fit.

    Examples
    --------
    >>> tf.math.in_top_k([1, 0], [[0.1, 0.5, 0.4], [0.2, 0.5, 0.3]], 2).numpy()
    array([ True, False])
    """
    numbers, scores = integers(targets, "in_top_k"), as_operand(predictions)
    rows, shape = tuple(numbers._layout.shape), tuple(scores._layout.shape)
    if len(shape) != 2 or rows != shape[:1]:
        raise InvalidArgumentError(
            f"in_top_k needs predictions of two axes and a target for each row, got shapes {list(shape)} and "
            f"{list(rows)}"
        )
    most, classes = scalar_int(k), shape[1]

    def ranks(p: Any) -> Any:
        found = [classes - np.searchsorted(np.sort(row), row, side="right") for row in p]
        greater = np.array(found, np.int64).reshape(p.shape)  # the number of greater scores for each score
        finite = ((p > -np.inf) & (p < np.inf)).astype(bool)  # by comparisons, which exact numbers know
        return np.where(finite.all(axis=1, keepdims=True), greater, np.iinfo(np.int64).max)

    def inside(at: Any, better: Any) -> Any:
        known = (at >= 0) & (at < classes)
        own = better[np.arange(len(at)), np.where(known, at, 0)] if classes else 0
        return known & (own < most)

    return decided(inside, numbers, decided(ranks, scores))

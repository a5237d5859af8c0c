"""Reductions without a derivative: any, all, and the number of nonzero elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.scalars import truth_of
from gtape.declare.primitives import primitive
from gtape.declare.rounding import EXACT
from gtape.errors import InvalidArgumentError
from gtape.ops.reduction.common import reduced
from gtape.ops.reduction.sums import reduce_sum
from gtape.ops.shape.decisions import decided
from gtape.tensors.axes import axes_of
from gtape.tensors.tensor import Tensor, as_operand, is_tensor, wrap

__all__ = ["count_nonzero", "reduce_all", "reduce_any"]


def _any_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    return np.logical_or.reduce(x, axis=axis, keepdims=keepdims)


def _all_kernel(x: Any, *, axis: tuple[int, ...], keepdims: Any) -> Any:
    return np.logical_and.reduce(x, axis=axis, keepdims=keepdims)


_BOOL_SAMPLES: tuple[Any, ...] = tuple(
    ((np.array([[True, False], [True, True]]),), {"axis": a, "keepdims": k})
    for a in ((0,), (-1,), (0, 1), ())
    for k in (False, True)
)

_any = primitive(
    "any", _any_kernel, (None,), (None,),
    params=("axis", "keepdims"), rounding=EXACT,
    samples=_BOOL_SAMPLES,
)  # fmt: skip
_all = primitive(
    "all", _all_kernel, (None,), (None,),
    params=("axis", "keepdims"), rounding=EXACT,
    samples=_BOOL_SAMPLES,
)  # fmt: skip


@documented_like(reduce_sum)
def reduce_any(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Whether any element along axes is true.

    Parameters
    ----------
    input_tensor : bool tensor, any shape

    Returns
    -------
    Tensor
        Bools.

    Examples
    --------
    >>> tf.reduce_any([[True, False], [False, False]], axis=1).numpy()
    array([ True, False])
    """
    return reduced(_any, _boolean(input_tensor, "reduce_any"), axis, keepdims)


@documented_like(reduce_any)
def reduce_all(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Whether all elements along axes are true.

    Examples
    --------
    >>> bool(tf.reduce_all([True, False]))
    False
    """
    return reduced(_all, _boolean(input_tensor, "reduce_all"), axis, keepdims)


def _boolean(x: Any, op: str) -> Tensor:
    t = as_operand(x)
    if t._layout.dtype.kind != "b":
        if not t._layout.size and not is_tensor(x):
            return wrap(np.zeros(t._layout.shape, np.bool_))  # an empty list has no dtype of its own
        wrong = InvalidArgumentError if is_tensor(x) else TypeError
        raise wrong(f"{op} needs a bool tensor, not {t.dtype.name}: compare first, or use gtape.cast(x, gtape.bool)")
    return t


@diagnosed
@documented_like(reduce_sum)
def count_nonzero(
    input: Any, axis: Any = None, keepdims: bool = False, dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """The number of elements along axes that are not zero.

    Parameters
    ----------
    input : tensor, any shape and dtype
    dtype : dtype
        The dtype of the result.

    Examples
    --------
    >>> int(tf.math.count_nonzero([0.0, 2.0, 3.0]))
    2
    """
    t = as_operand(input)
    axes, keep, kind = axes_of(axis, t.ndim), truth_of(keepdims, "count_nonzero", "keepdims"), dtypes.np_dtype(dtype)
    total: Any = np.add.reduce  # NumPy's overloads know no dtype that is found at run time

    def count(value: Any) -> Any:
        text = value.dtype.kind not in "biufcV"
        found: Any = np.vectorize(bool, otypes=[bool])(value) if text else np.not_equal(value, 0)
        return total(found, axis=axes, dtype=kind, keepdims=keep)

    return decided(count, t)

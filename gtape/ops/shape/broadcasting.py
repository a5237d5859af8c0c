"""Broadcasting: repeating a tensor along new axes and axes of size 1; and its transpose.

The rules count axes from the end and keep leading axes, because `jacobian` uses cotangents with a batch axis.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.declare.conventions import SUMMED
from gtape.declare.primitives import linear, planned
from gtape.declare.rounding import EXACT, in_pairs, sums
from gtape.errors import InvalidArgumentError
from gtape.tensors.axes import lead_of, shape_of, static_ints
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["broadcast_to"]


def _broadcast_to_kernel(x: Any, *, shape: tuple[int, ...]) -> Any:
    # A view with zero strides is safe, because values are immutable.
    return np.broadcast_to(x, shape)


def _broadcast_to_rule(xp: Any, g: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    return xp.sum_to(g, shape=tuple(x.shape), batch=len(shape_of(g)) - len(shape))


broadcast_to_op = linear(
    "broadcast_to", _broadcast_to_kernel, _broadcast_to_rule,
    params=("shape",), batched=True, role=("move", "spread"), rounding=EXACT,
    samples=(
        (((),), {"shape": (2, 3)}),
        (((3,),), {"shape": (2, 3)}),
        (((2, 1),), {"shape": (2, 3)}),
        (((1, 3),), {"shape": (2, 2, 3)}),
        (((2, 3),), {"shape": (2, 3)}),
        (((1,),), {"shape": (0,)}),
    ),
)  # fmt: skip


@functools.lru_cache(maxsize=64)
def _ones(n: int, dtype: Any) -> Any:
    return np.ones(n, dtype)


@planned
def _sum_to_kernel(g: Any, *, shape: tuple[int, ...], batch: int) -> Any:
    have, dtype = g.shape, g.dtype
    extra = len(have) - batch - len(shape)
    if not batch and extra > 0 and have[extra:] == shape:  # the usual case: the gradient of a bias
        if extra == 1 and len(have) == 2 and 0 < have[0] <= 4096 and dtype.char in "fd":
            row = _ones(have[0], dtype)
            return lambda g: np.dot(row, g)  # a product with ones takes a third of the time of a sum
        if len(have) == 1 and dtype.char in "fd":
            return np.add.reduce  # without a frame of Python
        axis = 0 if extra == 1 else tuple(range(extra))
        return lambda g: np.add.reduce(g, axis, dtype)
    if extra < 0:
        raise ValueError(f"a cotangent of shape {have[batch:]} cannot be summed to {shape}: it has fewer axes")
    first = batch + extra
    axes = (*range(batch, first), *[first + i for i, d in enumerate(shape) if d == 1 and have[first + i] != 1])
    whole = have[:batch] + shape
    return lambda g: (np.add.reduce(g, axis=axes, dtype=dtype) if axes else g).reshape(whole)


def _sum_to_terms(g: Any, *, shape: tuple[int, ...], batch: int) -> int:
    lead = math.prod(g.shape[:batch])
    count = g.size // max(1, lead * math.prod(shape))
    return count if g.ndim == 2 else in_pairs(g.shape, count)  # two axes may be a product with ones


def _sum_to_rule(xp: Any, g: Any, x: Any, *, shape: tuple[int, ...], batch: int) -> Any:
    whole = tuple(x.shape)
    lead = lead_of(g, batch + len(shape))
    ones = (1,) * (len(whole) - batch - len(shape))
    return xp.broadcast_to(xp.reshape(g, shape=lead + whole[:batch] + ones + shape), shape=lead + whole)


_sum_to = linear(
    "sum_to", _sum_to_kernel, _sum_to_rule,
    params=("shape", "batch"), batched=True, role="narrow", rounding=sums(terms=_sum_to_terms),
    samples=(
        (((),), {"shape": (), "batch": 0}),
        (((2, 3),), {"shape": (), "batch": 0}),
        (((2, 3),), {"shape": (3,), "batch": 0}),
        (((2, 3),), {"shape": (2, 1), "batch": 0}),
        (((2, 2, 3),), {"shape": (1, 3), "batch": 0}),
        (((2, 2, 3),), {"shape": (2, 1), "batch": 1}),
        (((2, 3),), {"shape": (), "batch": 1}),
        (((2, 3),), {"shape": (2, 3), "batch": 0}),
        (((0, 2),), {"shape": (1, 2), "batch": 0}),
    ),
    conventions=SUMMED,
)  # fmt: skip


def _whole_shape(shape: Any) -> tuple[int, ...]:
    """A shape that a user wrote. Raises an error for unknown sizes."""
    made = static_ints(shape)
    if any(d < 0 for d in made):
        raise InvalidArgumentError(f"a shape has no negative sizes, got {made}")
    return made


@diagnosed
def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Repeat a tensor along new axes and axes of size 1, by NumPy's rules.

    Parameters
    ----------
    input : tensor, any shape and dtype
    shape : sequence of int or integer tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the shapes do not fit.

    Examples
    --------
    >>> tf.broadcast_to([1.0, 2.0], [2, 2]).numpy()
    array([[1., 2.],
           [1., 2.]], dtype=float32)
    """
    t, wanted = as_operand(input), _whole_shape(shape)
    behind = wanted[len(wanted) - t._layout.ndim :]
    if len(wanted) < t._layout.ndim or any(n not in (1, w) for n, w in zip(t._layout.shape, behind, strict=True)):
        raise InvalidArgumentError(
            f"broadcast_to: shape {t._layout.tensor_shape} does not fit {list(wanted)}: counted from the last axis, "
            "each size must be the one that is wanted, or 1"
        )
    return broadcast_to_op(t, shape=wanted)

"""Converts the arguments of gradient() to records and seeds, and the cotangents of a sweep to tensors."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from gtape import errors, nest
from gtape.base import late
from gtape.base.layout import FLOAT
from gtape.base.python_values import cast_number
from gtape.base.shown import shown
from gtape.engine.sparse import SparseCotangent, from_cotangent
from gtape.engine.worlds import TAPE
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.tensors.variable import Variable

__all__ = [
    "SIMPLE", "UnconnectedGradients", "checked", "conjugate", "leaves", "one_of", "result_of",
    "seeds_of", "wants_zeros", "zeros_for",
]  # fmt: skip


class UnconnectedGradients(enum.Enum):
    """The gradient for a source that the target does not depend on.

    Attributes
    ----------
    NONE, ZERO : the members, with the values ``"none"`` and ``"zero"``

    Examples
    --------
    >>> import gtape as tf
    >>> x, w = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = w * w
    >>> tape.gradient(y, x, unconnected_gradients=tf.UnconnectedGradients.ZERO).numpy()
    array([0., 0.], dtype=float32)
    """

    NONE = "none"
    ZERO = "zero"


_NONE = UnconnectedGradients.NONE
_OPTIONS = frozenset([*UnconnectedGradients, *[option.value for option in UnconnectedGradients]])


def wants_zeros(option: Any) -> bool:
    """Whether the option is ZERO. A ValueError for an unknown option."""
    if option is _NONE:  # the usual case first, because an enum's hash is a Python function
        return False
    if isinstance(option, (UnconnectedGradients, str)) and option in _OPTIONS:
        return UnconnectedGradients(option) is UnconnectedGradients.ZERO
    raise ValueError(f"Unknown value for unconnected_gradients: {shown(option)}")


SIMPLE = frozenset({Tensor, Variable})


def leaves(structure: Any, role: str) -> list[Any]:
    """The tensors and variables of a structure."""
    if structure.__class__ in SIMPLE:
        return [structure]
    return [x if x.__class__ in SIMPLE else checked(x, role) for x in nest.flatten(structure)]


def one_of(layout: Any) -> Tensor | None:
    """The default cotangent of a target. A new tensor, because a program may watch its gradient."""
    if not layout.inexact:
        return None
    if layout.shape:
        return wrap(np.ones(layout.shape, layout.dtype))
    if layout.one is None:
        layout.one = wrap(1.0) if layout is FLOAT else wrap(np.ones((), layout.dtype))
    made = Tensor()
    made._value, made._layout, made._record = layout.one._value, layout.one._layout, None
    return made


def checked(x: Any, role: str) -> Any:
    if isinstance(x, (Tensor, Variable)):
        return x
    if isinstance(x, IndexedSlices):
        return x.values  # the recorded tensor; `seeds_of` takes its rows from a cotangent of the whole array
    if x is None:
        raise TypeError(f"a {role} of gradient() is None, whose dtype is unknown; pass a tensor or a variable")
    if callable(x):
        hint = "call it inside the tape's block and pass what it returns"
    elif role == "target":
        hint = "it carries no record: pass what an op inside the tape's block returned"
    else:
        hint = "wrap it in gtape.constant and watch it before it is used"
    raise errors.NotATensorError(
        f"a {role} of gradient() must be a tensor or a variable, not {type(x).__name__} ({shown(x)}); {hint}"
    )


def seeds_of(targets: list[Any], output_gradients: Any, structure: Any = None) -> list[Any]:
    """The cotangents that the sweep starts from: a tensor for each target, None for a target without a gradient.

    `leaves` made `targets` from the argument `structure`. Its IndexedSlices take cotangents of the whole array.
    """
    given = [] if output_gradients is None else nest.flatten(output_gradients)
    wholes = nest.flatten(structure) if given else []
    seeds: list[Any] = []
    for i, t in enumerate(targets):
        layout = t._layout
        if not layout.inexact:
            seeds.append(None)
            continue
        if i >= len(given) or given[i] is None:
            seeds.append(one_of(layout))
            continue
        g = given[i]
        if isinstance(g, (bool, int)):
            try:
                g = float(g)
            except OverflowError:
                raise ValueError(f"output_gradients: no float holds the number {shown(g)}") from None
        if g.__class__ is float:
            g = wrap(cast_number(g, layout.dtype))
        else:
            g = convert_to_tensor(g)
        if i < len(wholes) and isinstance(wholes[i], IndexedSlices) and wholes[i].dense_shape is not None:
            g = _rows_of(g, wholes[i])
        if g._layout.dtype != layout.dtype:
            raise errors.InvalidArgumentError(
                f"output_gradients[{i}] is {g.dtype.name} but its target is {np.dtype(layout.dtype).name}: give it the "
                "target's dtype"
            )
        if g._layout.shape != layout.shape:
            try:
                fits = broadcast_shapes(g._layout.shape, layout.shape) == layout.shape
            except ValueError:
                fits = False
            if fits:
                g = TAPE.broadcast_to(g, shape=layout.shape)
            elif g._layout.size == 1:
                g = TAPE.reshape(g, shape=layout.shape)
            else:
                raise errors.InvalidArgumentError(
                    f"output_gradients[{i}] has shape {g.shape}, which does not fit its target's shape "
                    f"{layout.tensor_shape}"
                )
        seeds.append(conjugate(g) if layout.complex else g)
    return seeds


def _rows_of(g: Tensor, whole: IndexedSlices) -> Tensor:
    """The rows of a cotangent of the whole array at the indices of slices: the transpose of densifying."""
    if g._layout.shape != tuple(whole.shape):
        return g
    rows: Tensor = late.find_op("gather")(g, whole.indices)
    return rows


def conjugate(g: Any) -> Any:
    """Convert between TensorFlow's convention for complex gradients and the plain transpose of the sweeps."""
    if isinstance(g, IndexedSlices):
        return IndexedSlices(TAPE.conj(g.values), g.indices, g.dense_shape)
    return TAPE.conj(g)


def result_of(c: Any, source: Any) -> Any:
    if c is None or not source._layout.inexact:
        return None
    if isinstance(c, SparseCotangent):
        c = from_cotangent(c)
        return conjugate(c) if source._layout.complex else c
    t = c if c.__class__ is Tensor else wrap(c)
    return conjugate(t) if source._layout.complex else t


def zeros_for(source: Any) -> Tensor:
    shape, dtype = source._layout.shape, source._layout.dtype
    return wrap(np.zeros(shape, dtype) if dtype.kind != "O" else np.full(shape, b"", dtype))  # empty strings

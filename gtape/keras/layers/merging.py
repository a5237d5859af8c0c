"""Layers that combine several tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import gtape
from gtape.base.sections import add_sections
from gtape.base.shown import shown
from gtape.base.tensor_shape import TensorShape
from gtape.errors import ShapeError
from gtape.keras.layers.layer import Layer
from gtape.tensors import argument_checks as checks

__all__ = [
    "Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract", "add", "average", "concatenate",
    "maximum", "minimum", "multiply", "subtract",
]  # fmt: skip


class _Merge(Layer):
    _example: tuple[str, str]  # the inputs of a call and its result
    _op: Callable[[Any, Any], Any]

    def __init_subclass__(cls, example: tuple[Any, ...] = (), result: str = "", **options: Any) -> None:
        """Document a layer without arguments of its own by an example: inputs and the result."""
        super().__init_subclass__(**options)
        if example:
            inputs = ", ".join(f"tf.constant({x})" for x in example)
            cls._example = f"([{inputs}]).numpy()", f"array({result}, dtype=float32)"
            call = ">>> tf.keras.layers.{}(){}\n{}".format(cls.__name__, *cls._example)
            add_sections(cls, Parameters="**common : as for `Layer`", Examples=call)

    def build(self, input_shape: Any) -> None:
        shapes = _shapes_of(self, input_shape)
        if len({s[0] for s in shapes if s} - {None}) > 1:
            raise ShapeError(f"Cannot merge tensors with different batch sizes. Received tensors with shapes {shapes}")
        for other in shapes[1:]:
            for a, b in zip(reversed(shapes[0][1:]), reversed(other[1:]), strict=False):
                if a != b and None not in (a, b) and 1 not in (a, b):
                    raise ShapeError(
                        f"Inputs have incompatible shapes. Received shapes {shapes[0][1:]} and {other[1:]}"
                    )
        self.built = True

    def call(self, inputs: Any) -> Any:
        if not isinstance(inputs, (list, tuple)) or not inputs or isinstance(inputs, TensorShape):
            raise ValueError(
                f"A {type(self).__name__} layer should be called on a list of at least 1 input. Received: "
                f"{shown(inputs)}"
            )
        return self._merge(self._aligned([checks.tensor(self, "inputs", x) for x in inputs]))

    def _aligned(self, inputs: list[Any]) -> list[Any]:
        """The inputs with equally many axes: new axes follow the axis of the batch, as in Keras."""
        most = max(x.ndim for x in inputs)
        return [
            x if x.ndim == most else gtape.reshape(x, [*x.shape[:1], *[1] * (most - x.ndim), *x.shape[1:]])
            for x in inputs
        ]

    def _merge(self, inputs: list[Any]) -> Any:
        return reduce(type(self)._op, inputs)


class Add(_Merge, example=([1.0], [2.0]), result="[3.]"):
    """The sum of the inputs."""

    _op = staticmethod(operator.add)


class Subtract(_Merge, example=([2.0], [3.0]), result="[-1.]"):
    """The first input minus the second."""

    def _merge(self, inputs: list[Any]) -> Any:
        if len(inputs) != 2:
            raise ValueError(f"A `Subtract` layer should be called on exactly 2 inputs, not {len(inputs)}")
        return inputs[0] - inputs[1]


class Multiply(_Merge, example=([2.0], [3.0]), result="[6.]"):
    """The product of the inputs."""

    _op = staticmethod(operator.mul)


class Average(_Merge, example=([1.0], [3.0]), result="[2.]"):
    """The mean of the inputs."""

    _op = staticmethod(operator.add)

    def _merge(self, inputs: list[Any]) -> Any:
        return super()._merge(inputs) / len(inputs)


class Maximum(_Merge, example=([1.0, 4.0], [3.0, 2.0]), result="[3., 4.]"):
    """The maximum of the inputs for each entry."""

    _op = staticmethod(gtape.maximum)


class Minimum(_Merge, example=([1.0, 4.0], [3.0, 2.0]), result="[1., 2.]"):
    """The minimum of the inputs for each entry."""

    _op = staticmethod(gtape.minimum)


class Concatenate(_Merge):
    """The inputs joined along an axis.

    Parameters
    ----------
    axis : int
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.Concatenate()([tf.zeros([5, 2]), tf.zeros([5, 3])]).shape
    TensorShape([5, 5])
    """

    def __init__(self, axis: int = -1, **common: Any) -> None:
        super().__init__(**common)
        self.axis = checks.whole(self, "axis", axis)

    def build(self, input_shape: Any) -> None:
        shapes = _shapes_of(self, input_shape)
        ranks = {len(s) for s in shapes}
        rank = max(ranks, default=0)
        joined = self.axis % rank if rank else 0
        columns = zip(*shapes, strict=False) if -rank <= self.axis < rank else ()
        differ = any(len({*sizes} - {None}) > 1 for axis, sizes in enumerate(columns) if axis != joined)
        if len(ranks) > 1 or differ:
            raise ShapeError(
                "A `Concatenate` layer requires inputs with matching shapes except for the concatenation axis. "
                f"Received: input_shape={shapes}"
            )
        self.built = True

    def _aligned(self, inputs: list[Any]) -> list[Any]:
        return inputs

    def _merge(self, inputs: list[Any]) -> Any:
        return gtape.concat(inputs, axis=self.axis)


def _shapes_of(layer: Layer, given: Any) -> list[tuple[Any, ...]]:
    """The shapes of the inputs; none for an argument that is no list, which `call` refuses."""
    if not isinstance(given, (list, tuple)) or not all(isinstance(s, (list, tuple)) for s in given):
        return []
    return [checks.shape(layer, "input_shape", s) for s in given]


def _as_function(layer: type[_Merge]) -> Callable[..., Any]:
    """A function that makes a layer and calls it on a list of tensors."""

    def function(inputs: Any, **common: Any) -> Any:
        return layer(**common)(inputs)

    name = function.__name__ = function.__qualname__ = layer.__name__.lower()
    function.__doc__ = f"`{layer.__name__}` as a function."
    add_sections(
        function, Parameters="inputs : list of tensors\n**common : as for `Layer`", Returns="tensor",
        Examples=">>> tf.keras.layers.{}{}\n{}".format(name, *layer._example),
    )  # fmt: skip
    return function


add = _as_function(Add)
subtract = _as_function(Subtract)
multiply = _as_function(Multiply)
average = _as_function(Average)
maximum = _as_function(Maximum)
minimum = _as_function(Minimum)


def concatenate(inputs: Any, axis: int = -1, **common: Any) -> Any:
    """`Concatenate` as a function.

    Parameters
    ----------
    inputs : list of tensors
    axis : int
    **common : as for `Layer`

    Returns
    -------
    tensor

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.concatenate([tf.constant([1.0]), tf.constant([3.0])]).numpy()
    array([1., 3.], dtype=float32)
    """
    return Concatenate(axis, **common)(inputs)

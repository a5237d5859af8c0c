"""Models as graphs of layers: a KerasTensor is a future value and refers to the layer that computes the value."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import gtape
from gtape import nest
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.keras.backend import float_dtype, unique_name
from gtape.keras.layers.trials import outputs_of
from gtape.tensors import argument_checks as checks

__all__ = ["Graph", "Input", "KerasTensor", "is_symbolic", "symbolic_call"]


def _operators(op: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The methods of an operator and of its reflection."""
    return lambda self, other: self._with(op, other), lambda self, other: self._with(lambda a, b: op(b, a), other)


class KerasTensor:
    """A value that a model computes when it is called.

    Parameters
    ----------
    shape : tuple of int or None
        An open size, such as that of the batch, is None.
    dtype : str
    made : (layer, args, kwargs, position), optional
        The call that computes the value, and the position among the call's outputs; None for an input.
    name : str, optional

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.keras.Input(shape=(4,))
    >>> tf.keras.layers.Dense(2)(x).shape
    (None, 2)
    """

    __hash__ = object.__hash__
    _lambda: Any  # the layer of operators, set by gtape.keras.layers.core

    def __init__(self, shape: Any, dtype: Any = "float32", made: Any = None, name: str | None = None) -> None:
        self.shape = checks.shape(self, "shape", shape)
        self.dtype = _name_of(dtype)
        self.made = made
        self.name = unique_name("keras_tensor") if name is None else checks.text(self, "name", name)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<KerasTensor shape={self.shape}, dtype={self.dtype}, name={plain(self.name)}>"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise ValueError(
            "A KerasTensor is symbolic: it has a shape and a dtype but no value yet. Ops take tensors; to use one in a "
            "model of layers, wrap it: gtape.keras.layers.Lambda(function)(x)"
        )

    def _with(self, op: Any, *others: Any) -> Any:
        symbolic = [x for x in others if isinstance(x, KerasTensor)]
        if symbolic:
            return self._lambda(lambda pair: op(*pair))([self, *symbolic])
        return self._lambda(lambda x: op(x, *others))(self)

    def __neg__(self) -> Any:
        return self._with(operator.neg)

    def __getitem__(self, key: Any) -> Any:
        return self._with(lambda a: a[key])

    __add__, __radd__ = _operators(operator.add)
    __sub__, __rsub__ = _operators(operator.sub)
    __mul__, __rmul__ = _operators(operator.mul)
    __truediv__, __rtruediv__ = _operators(operator.truediv)


def Input(
    shape: Any = None, batch_size: int | None = None, dtype: Any = None, sparse: Any = None, batch_shape: Any = None,
    name: str | None = None, tensor: Any = None,
) -> KerasTensor:  # fmt: skip
    """An input of a model.

    Parameters
    ----------
    shape : tuple of int or None
        Without the batch.
    batch_size : int, optional
    dtype : dtype, optional
        `floatx` by default.
    batch_shape : tuple, optional
        `shape` with the batch.
    name : str, optional
    sparse, tensor : ignored; Keras has them

    Returns
    -------
    KerasTensor

    Raises
    ------
    ValueError
        If both `shape` and `batch_shape` are given, or neither.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.keras.Input(shape=(3,))
    >>> model = tf.keras.Model(x, tf.keras.layers.Dense(2)(x))
    >>> model.output_shape
    (None, 2)
    """
    if (shape is None) == (batch_shape is None):
        raise ValueError("Input: pass either `shape`, without the batch, or `batch_shape`")
    if batch_shape is None:
        size = None if batch_size is None else checks.whole("Input", "batch_size", batch_size, least=0)
        batch_shape = (size, *checks.shape("Input", "shape", (shape,) if isinstance(shape, int) else shape))
    batch_shape = checks.shape("Input", "batch_shape", batch_shape)
    return KerasTensor(batch_shape, dtype, name=unique_name("input_layer") if name is None else name)


def _name_of(dtype: Any) -> str:
    return float_dtype().name if dtype is None else str(gtape.as_dtype(checks.dtype("Input", dtype)).name)


def is_symbolic(arguments: Any) -> bool:
    """Whether any argument is a KerasTensor."""
    return any(
        isinstance(x, KerasTensor)
        or (isinstance(x, (list, tuple, dict)) and any(isinstance(y, KerasTensor) for y in nest.flatten(x)))
        for x in (*arguments[0], *arguments[1].values())
    )


def _replaced(arguments: Any, by: Any) -> Any:
    """The arguments with each KerasTensor replaced."""

    def one(x: Any) -> Any:
        if isinstance(x, (list, tuple, dict)):
            return nest.map_structure(lambda y: by(y) if isinstance(y, KerasTensor) else y, x)
        return by(x) if isinstance(x, KerasTensor) else x

    args, kwargs = arguments
    return tuple([one(x) for x in args]), {k: one(x) for k, x in kwargs.items()}


def symbolic_call(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The KerasTensors for the outputs of a built layer."""
    inputs = [x for x in nest.flatten([list(args), list(kwargs.values())]) if isinstance(x, KerasTensor)]

    def run(values: list[Any]) -> Any:
        trial = dict(zip(map(id, inputs), values, strict=True))
        trial_args, trial_kwargs = _replaced((args, kwargs), lambda x: trial[id(x)])
        result = layer(*trial_args, **trial_kwargs)
        return nest.map_structure(lambda y: checks.tensor(layer, "what `call` returned", y), result)

    result = outputs_of(layer, run, inputs)
    flat = nest.flatten(result)
    outputs = [KerasTensor(y.shape, y.dtype, (layer, args, kwargs, i)) for i, y in enumerate(flat)]
    made = nest.pack_sequence_as(result, outputs) if nest.is_nested(result) else outputs[0]
    layer._symbolic = (args[0] if args else next(iter(kwargs.values()), None), made)
    return made


class Graph:
    """The layers between inputs and outputs, in the order of a run. Outputs depend on listed inputs only."""

    def __init__(self, inputs: Any, outputs: Any) -> None:
        self.inputs, self.outputs = inputs, outputs
        for x in (*nest.flatten(inputs), *(nest.flatten(outputs) or [None])):
            if not isinstance(x, KerasTensor):
                raise ValueError(f"a model's inputs and outputs come from gtape.keras.Input and layers, not {shown(x)}")
        known = {id(x) for x in nest.flatten(inputs)}
        self.steps: list[KerasTensor] = []
        self.layers: list[Any] = []
        todo = list(reversed(nest.flatten(outputs)))
        while todo:  # depth first without recursion, because chains may be long
            x = todo[-1]
            if id(x) in known:
                todo.pop()
                continue
            if x.made is None:
                raise ValueError(f"the outputs depend on {x!r}, which is not among the model's inputs")
            missing = [y for y in _parents(x) if id(y) not in known]
            if missing:
                todo.extend(reversed(missing))
                continue
            todo.pop()
            known.add(id(x))
            self.steps.append(x)
            if all(x.made[0] is not layer for layer in self.layers):
                self.layers.append(x.made[0])

    def run(self, values: Any, instead: dict[int, Any] | None = None) -> Any:
        """The outputs for inputs of the same structure. `instead` has replacements of layers by the layers' ids."""
        wanted, given = nest.flatten(self.inputs), self._given(values)
        if len(wanted) != len(given):
            raise ValueError(f"this model has {len(wanted)} inputs, and was called with {len(given)}")
        have = {id(x): v for x, v in zip(wanted, given, strict=True)}
        done: dict[tuple[int, int, int], list[Any]] = {}
        for x in self.steps:
            layer, args, kwargs, i = x.made
            key = (id(layer), id(args), id(kwargs))
            if key not in done:  # one call may have several outputs
                actual_args, actual_kwargs = _replaced((args, kwargs), lambda y: have[id(y)])
                chosen = layer if instead is None else instead.get(id(layer), layer)
                done[key] = nest.flatten(chosen(*actual_args, **actual_kwargs))
            have[id(x)] = done[key][i]
        if nest.is_nested(self.outputs):
            return nest.pack_sequence_as(self.outputs, [have[id(y)] for y in nest.flatten(self.outputs)])
        return have[id(self.outputs)]

    def _given(self, values: Any) -> list[Any]:
        # Inputs that the model has as a list may be passed as a dict by their names.
        if isinstance(values, dict) and not isinstance(self.inputs, dict):
            names = [x.name for x in nest.flatten(self.inputs)]
            if any(name not in values for name in names):
                raise ValueError(f"this model has inputs of the names {names}, and was called with {list(values)}")
            return [values[name] for name in names]
        return nest.flatten(values)


def _parents(x: KerasTensor) -> list[KerasTensor]:
    _, args, kwargs, _ = x.made
    return [y for y in nest.flatten([list(args), list(kwargs.values())]) if isinstance(y, KerasTensor)]

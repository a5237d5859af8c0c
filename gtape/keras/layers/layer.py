"""Layers: functions with variables, whose shapes follow from the first input."""

from __future__ import annotations

import inspect
import re
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from operator import setitem
from typing import Any, NamedTuple, Self

import numpy as np

import gtape
from gtape import nest
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.keras import constraints, initializers, regularizers
from gtape.keras.backend import float_dtype, floatx, unique_name
from gtape.keras.layers.symbolic import KerasTensor, is_symbolic, symbolic_call
from gtape.keras.lookup import FromConfig
from gtape.recording.undoing import note_change, staying
from gtape.tensors import argument_checks as checks
from gtape.tensors.module import Module
from gtape.tensors.tensor import Tensor, convert_to_tensor, is_tensor
from gtape.tensors.variable import Variable

__all__ = ["Layer", "TensorLayer"]


class _Call(NamedTuple):
    """The outermost running call: the training flag for nested layers, and the layers that added losses."""

    training: Any
    added: list[Any]


_CALL: ContextVar[_Call | None] = ContextVar("gtape_keras_call", default=None)


class _Signature(NamedTuple):
    names: tuple[str, ...]
    takes_training: bool
    training: Any
    own: bool  # whether gtape defines `call`


_SIGNATURES: weakref.WeakKeyDictionary[Any, _Signature] = weakref.WeakKeyDictionary()


# Variables and layers in these attributes do not belong to the layer.
_NOT_TRACKED = frozenset({"_made", "_penalties", "_losses", "_added", "_settings", "_graph", "_symbolic"})


_FINDERS: dict[str, Callable[[Any], Any]] = {
    "initializer": initializers.get, "regularizer": regularizers.get, "constraint": constraints.get,
}  # fmt: skip


def _signature(call: Any) -> _Signature:
    found = _SIGNATURES.get(call)
    if found is None:
        parameters = dict(list(inspect.signature(call).parameters.items())[1:])
        flag = parameters.get("training")
        default = None if flag is None or flag.default is inspect.Parameter.empty else flag.default
        own = str(getattr(call, "__module__", "")).startswith("gtape.")
        found = _SIGNATURES[call] = _Signature(tuple(parameters), flag is not None, default, own)
    return found


def _shape(x: Any) -> Any:
    return tuple(x.shape) if is_tensor(x) or isinstance(x, (np.ndarray, np.generic, KerasTensor)) else None


class Layer(FromConfig, Module):
    """Base class of layers. A subclass makes variables in `__init__` or `build`, and computes in `call`.

    The first call runs `build` with the shape of the first input. Inputs become tensors, and floats get the layer's
    dtype. A `training` argument of `call` comes from the caller, from the calling layer, or from its default.

    Parameters
    ----------
    activity_regularizer : callable or str, optional
        A penalty on the output. `losses` contains the penalty.
    trainable : bool
        Whether the variables are trainable. A later change of the attribute changes all inner layers, too.
    dtype : dtype, optional
        Float type of variables and inputs, `floatx` by default.
    name : str, optional

    Raises
    ------
    TypeError
        If an option is unknown.

    Examples
    --------
    >>> import gtape as tf
    >>> class Scale(tf.keras.layers.Layer):
    ...     def build(self, input_shape):
    ...         self.factor = self.add_weight(shape=[input_shape[-1]], initializer="ones", name="factor")
    ...     def call(self, x):
    ...         return x * self.factor
    >>> layer = Scale()
    >>> layer(tf.constant([[1.0, 2.0]])).numpy()
    array([[1., 2.]], dtype=float32)
    >>> [v.shape for v in layer.trainable_variables]
    [TensorShape([2])]
    """

    def __init__(
        self, *, activity_regularizer: Any = None, trainable: bool = True, dtype: Any = None, autocast: bool = True,
        name: str | None = None, **shapes: Any,
    ) -> None:  # fmt: skip
        if name is not None and (not isinstance(name, str) or "/" in name):
            raise ValueError(f"Argument `name` must be a string without `/`. Received: name={shown(name)}")
        self._name = unique_name(_snake(type(self).__name__)) if name is None else name
        self._trainable = checks.flag(self, "trainable", trainable)
        self._dtype = float_dtype() if dtype is None else checks.dtype(self, dtype)
        self._autocast = checks.flag(self, "autocast", autocast)
        self.built = False
        self.activity_regularizer = regularizers.get(activity_regularizer)
        self._made: list[Variable] = []
        self._penalties: list[tuple[Variable, Callable[..., Any]]] = []
        self._losses: list[Any] = []
        self._added: list[Any] = []
        self._first_shape: Any = None
        self._sizes: dict[int, int] = {}  # the sizes that the variables fit, by axis
        self._symbolic: Any = None  # input and output of the last call in a graph of layers
        for option in ("batch_input_shape", "batch_shape", "input_shape", "input_dim"):
            given = shapes.pop(option, None)
            if given is not None and self._first_shape is None:
                parts = (given,) if option == "input_dim" else given
                batch = () if option.startswith("batch") else (None,)
                self._first_shape = batch + checks.shape(self, option, parts)
        if shapes:
            raise TypeError(f"Unrecognized keyword arguments passed to {type(self).__name__}: {sorted(shapes)}")

    def _inside(self) -> tuple[list[Variable], list[Module]]:
        """The own variables in the order of creation, and the inner layers in the order of the attributes."""
        own = {v._uid: v for v in self.__dict__.get("_made", ())}
        modules: dict[int, Module] = {}
        for key, value in vars(self).items():
            if key in _NOT_TRACKED:
                continue
            for leaf in _parts(value):
                if isinstance(leaf, Variable):
                    own[leaf._uid] = leaf
                elif isinstance(leaf, Module):
                    modules.setdefault(id(leaf), leaf)
        return [own[uid] for uid in sorted(own)], list(modules.values())

    def _leaves(self, wanted: Callable[[Any], bool], seen: set[int]) -> Iterator[Any]:
        own, modules = self._inside()
        fresh = [v for v in sorted(own, key=lambda v: not v.trainable) if id(v) not in seen]
        seen.update(id(v) for v in fresh)
        yield from filter(wanted, fresh)
        inside = [m for m in modules if id(m) not in seen]
        seen.update(id(m) for m in inside)
        for module in inside:
            if wanted(module):
                yield module
            yield from module._leaves(wanted, seen)

    @property
    def variables(self) -> list[Variable]:  # type: ignore[override]
        """All variables, each once: the layer's own, trainable variables first, then those of inner layers."""
        return list(self._leaves(lambda x: isinstance(x, Variable), {id(self)}))

    @property
    def trainable_variables(self) -> list[Variable]:  # type: ignore[override]
        """The trainable variables without those of frozen layers. Empty if this layer is frozen."""
        if not self.trainable:
            return []
        frozen: set[int] = set()
        for layer in self._leaves(lambda x: isinstance(x, Layer), {id(self)}):
            if not layer.trainable:
                frozen.update(id(v) for v in layer._inside()[0])
        return [v for v in self.variables if v.trainable and id(v) not in frozen]

    @property
    def non_trainable_variables(self) -> list[Variable]:  # type: ignore[override]
        """The variables that are not in `trainable_variables`."""
        trainable = {id(v) for v in self.trainable_variables}
        return [v for v in self.variables if id(v) not in trainable]

    weights = variables
    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables

    @property
    def trainable(self) -> bool:
        """Whether the layer's variables are trainable."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = bool(value)
        for module in self._inside()[1]:
            if isinstance(module, Layer):
                module.trainable = value

    @property
    def name(self) -> str:
        """The layer's name."""
        return self._name

    @property
    def dtype(self) -> str:
        """The name of the float type of variables and inputs."""
        return self._dtype.name

    compute_dtype = variable_dtype = dtype

    def _called_in_graph(self, what: str) -> tuple[Any, Any]:
        if self._symbolic is None:
            raise AttributeError(
                f"The layer {plain(self.name)} has never been called in a graph of layers and thus has no defined "
                f"{what}: begin the model with gtape.keras.Input"
            )
        found: tuple[Any, Any] = self._symbolic
        return found

    @property
    def input(self) -> Any:
        """The input of the layer's last call in a graph of layers, for models between other inputs and outputs."""
        return self._called_in_graph("input")[0]

    @property
    def output(self) -> Any:
        """The output of the layer's last call in a graph of layers.

        Examples
        --------
        >>> import gtape as tf
        >>> model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3), tf.keras.layers.Dense(1)])
        >>> inside = tf.keras.Model(model.inputs, [model.layers[0].output, model.output])
        >>> [y.shape for y in inside(tf.ones([2, 4]))]
        [TensorShape([2, 3]), TensorShape([2, 1])]
        """
        return self._called_in_graph("output")[1]

    def get_weights(self) -> list[Any]:
        """The values of all variables, as arrays."""
        return [v.numpy() for v in self.variables]

    def set_weights(self, weights: Any) -> None:
        """Set the values of all variables in the order of `get_weights`. ValueError if shapes differ."""
        given = checks.each(self, "weights", weights, "a list of arrays")
        variables, values = self.variables, [checks.numeric(self, "weights", w) for w in given]
        if len(variables) != len(values):
            raise ValueError(
                f"You called `set_weights(weights)` on layer '{plain(self.name)}' with a weight list of length "
                f"{len(values)}, but the layer was expecting {len(variables)} weights."
            )
        for v, value in zip(variables, values, strict=True):
            if v.shape != value.shape:
                raise ValueError(
                    f"Layer {plain(self.name)} weight shape {v.shape} is not compatible with {value.shape}"
                )
        with np.errstate(all="ignore"):
            for v, value in zip(variables, values, strict=True):
                v.assign(value.astype(v.dtype.as_numpy_dtype))

    def count_params(self) -> int:
        """The number of elements of all variables. ValueError before the variables are made."""
        kind = type(self)
        never = kind.__module__.startswith("gtape.") and kind is not Layer and kind.build is Layer.build
        if not (self.built or never):
            raise ValueError(
                f"You tried to call `count_params` on layer '{plain(self.name)}', but the layer isn't built. You can "
                "build it manually via: `layer.build(input_shape)`."
            )
        return sum(v._layout.size for v in self.variables)

    def add_weight(
        self, shape: Any = None, initializer: Any = None, dtype: Any = None, trainable: bool = True,
        autocast: bool = True, regularizer: Any = None, constraint: Any = None, aggregation: Any = None,
        name: str | None = None, **ignored: Any,
    ) -> Variable:  # fmt: skip
        """Make a variable that belongs to this layer.

        Parameters
        ----------
        shape : sequence of int
            A scalar by default.
        initializer : str or callable, optional
            By default "glorot_uniform" for floats, zeros for others.
        dtype : dtype, optional
            By default the layer's dtype.
        trainable : bool
        regularizer : str or callable, optional
            A penalty. `losses` contains the penalty.
        constraint : str or callable, optional
            Applied after each step of an optimizer.
        name : str, optional
        autocast, aggregation, **ignored : ignored; Keras has them

        Examples
        --------
        >>> import gtape as tf
        >>> layer = tf.keras.layers.Layer(name="mine")
        >>> layer.add_weight(shape=[2], initializer="zeros", name="bias").name
        'mine/bias:0'
        """
        wanted = self._dtype if dtype is None else checks.dtype(self, dtype)
        if initializer is None:
            initializer = "glorot_uniform" if wanted.kind in "fV" else "zeros"
        penalty, limit = regularizers.get(regularizer), constraints.get(constraint)
        v = Variable(
            initializers.initial(self, initializer, shape, wanted), trainable=checks.flag(self, "trainable", trainable),
            name=f"{self._name}/{checks.name_of(self, name, 'variable')}", constraint=limit,
        )  # fmt: skip
        self._made.append(v)
        if penalty is not None:
            self._penalties.append((v, penalty))
        return v

    def build(self, input_shape: Any) -> None:
        """Make variables for inputs of the given shape. The base class makes none.

        Parameters
        ----------
        input_shape : tuple, or structure of tuples
            The shape of the first argument of `call`. A `build` with several parameters ``a_shape``, ``b_shape``
            gets the shapes of the arguments ``a`` and ``b``.
        """
        self.built = True

    def _build(self, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = dict(zip(names, args, strict=False)) | kwargs
        wanted = list(inspect.signature(self.build).parameters)
        shapes = {name: _shapes(x) for name, x in given.items()}
        first = next(iter(given)) if given else None
        if len(wanted) > 1 and all(w.removesuffix("_shape") in shapes for w in wanted):
            self.build(**{w: shapes[w.removesuffix("_shape")] for w in wanted})
        elif wanted:
            self.build(shapes[first] if first is not None else None)
        else:
            self.build()  # type: ignore[call-arg]
        self.built = True

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output."""
        raise NotImplementedError(f"Layer {type(self).__name__} does not have a `call()` method implemented.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output. The first call makes the variables.

        Parameters
        ----------
        *args, **kwargs
            The arguments of `call`. Arrays become tensors; floats get the layer's dtype.
        training : bool, optional
            Passed to inner layers, and to `call` if it has such an argument.
        """
        if "_made" not in self.__dict__:
            raise RuntimeError(
                f"In layer '{type(self).__name__}', you forgot to call `super().__init__()` as the first statement in "
                "the `__init__()` method."
            )
        if is_symbolic((args, kwargs)):
            return self._called_on_symbols(args, kwargs)
        names, takes_training, default, own = _signature(type(self).call)
        args = tuple([self._input(x) for x in args])
        if own and isinstance(self, TensorLayer) and args and args[0].__class__ is not Tensor:
            args = (self._input(checks.tensor(self, "inputs", args[0])), *args[1:])
        kwargs = {k: self._input(x) for k, x in kwargs.items()}
        around = _CALL.get()
        position = names.index("training") if takes_training and "training" in names else len(args)
        if position < len(args):
            training = args[position]
        else:
            training = kwargs.pop("training", None)
            if training is None and around is not None:
                training = around.training
            if training is None:
                training = default
            if takes_training and training is not None:
                kwargs["training"] = training
        self._build_for(names, args, kwargs)
        if around is None:  # because penalties belong to the last call of the outermost layer
            for layer in self._added:
                layer._losses.clear()
            self._added = []
        try:
            _CALL.set(_Call(training, self._added if around is None else around.added))
            y = self.call(*args, **kwargs)
            if self.activity_regularizer is not None:
                parts = [checks.tensor(self, "what `call` returned", part) for part in nest.flatten(y)]
                rows = max([*parts[0]._layout.shape[:1], 1]) if parts else 1
                self.add_loss(sum(self.activity_regularizer(part) for part in parts) / rows)
        finally:
            _CALL.set(around)
        return y

    def _takes_training(self) -> bool:
        """Whether `call` has an argument `training`."""
        return _signature(type(self).call).takes_training

    def _called_on_symbols(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the variables, and KerasTensors for the outputs."""
        names = _signature(type(self).call).names
        self._build_for(names, tuple(map(self._input, args)), {k: self._input(x) for k, x in kwargs.items()})
        around = _CALL.get()
        try:
            # A call around the trial, so that the losses of earlier calls stay.
            _CALL.set(_Call(None if around is None else around.training, []))
            return symbolic_call(self, args, kwargs)
        finally:
            _CALL.set(around)

    def _build_for(self, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Make the variables for the arguments of a first call."""
        if self.built:
            return
        with staying():
            self._build(names, args, {k: x for k, x in kwargs.items() if k != "training"})
            pending = self.__dict__.pop("_pending", None)
            if pending is not None:  # values of a checkpoint that was read before the variables were made
                pending(self)

    def _input(self, x: Any) -> Any:
        if isinstance(x, (Tensor, Variable)):
            known = x._layout.dtype
            if known == self._dtype or known.kind not in "fV" or not self._autocast:
                return x
            return gtape.cast(x, self._dtype)
        if isinstance(x, (np.ndarray, np.generic)):
            return self._input(convert_to_tensor(x))
        if isinstance(x, (list, tuple, dict)) and nest.is_nested(x):  # False for a TensorShape, which is a tuple
            leaves = nest.flatten(x)
            if leaves and isinstance(x, (list, tuple)) and all(isinstance(y, (int, float)) for y in leaves):
                return self._input(convert_to_tensor(x))  # because rows of numbers are one input
            return nest.map_structure(self._input, x)
        return x

    def add_loss(self, loss: Any) -> None:
        """Add a penalty computed in `call`. `losses` contains the penalty until the next call."""
        context = _CALL.get()
        note_change(self, partial(setitem, self._losses, slice(None)), self._losses.copy)
        added = self._added if context is None else context.added
        if all(layer is not self for layer in added):
            self._losses.clear()  # losses of an earlier call outside this model
            added.append(self)
        self._losses.extend(nest.flatten(loss))

    @property
    def losses(self) -> list[Any]:
        """The penalties of `add_loss` in the last call, then the penalties of the trainable weights."""
        layers = [self, *self._leaves(lambda x: isinstance(x, Layer), {id(self)})]
        trainable = {id(v) for v in self.trainable_variables}
        found = [loss for layer in layers for loss in layer._losses]
        return found + [f(v) for layer in layers for v, f in layer._penalties if id(v) in trainable]

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """The shape of the output for an input of the given shape. An open size is None."""
        before = self._symbolic
        try:
            found = self(KerasTensor(checks.shape(self, "input_shape", input_shape), floatx()))
        finally:
            self._symbolic = before
        shape: tuple[int | None, ...] = _shapes(found)
        return shape

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if cls.__module__.startswith("gtape."):
            for name, value in _named(cls, args, kwargs):  # raises an error for an unknown name at once
                finder = _FINDERS.get(name.rpartition("_")[2])
                if finder is not None and value is not None:
                    finder(value)
        made = super().__new__(cls)
        made.__dict__["_settings"] = (args, kwargs)
        return made

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor by name. gtape's layers include all defaults."""
        args, kwargs = self.__dict__["_settings"]
        signature = inspect.signature(type(self).__init__)
        called = signature.bind(self, *args, **kwargs)
        if type(self).__module__.startswith("gtape."):
            called.apply_defaults()
        given = called.arguments
        given.pop(next(iter(given)))
        common = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype}
        rest = [n for n, p in signature.parameters.items() if p.kind is inspect.Parameter.VAR_KEYWORD]
        if not rest:
            return {k: v for k, v in common.items() if k in signature.parameters} | given
        common |= given.pop(rest[0], {})
        return common | given

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={plain(self.name)}, built={self.__dict__.get('built', False)}>"


class TensorLayer(Layer):
    """Base of gtape's layers with one input tensor. Checks the shape of the input."""

    _ndim: int | None = None  # the number of axes, if fixed
    _least_ndim = 0
    _needs_variables = False

    def _weight(self, name: str, shape: Any, like: str | None = None, **more: Any) -> Variable:
        """A variable with the layer's initializer, regularizer and constraint for `like` or `name`."""
        options: Any = {what: getattr(self, f"{like or name}_{what}", None) for what in _FINDERS}
        return self.add_weight(shape=shape, name=name, **options, **more)

    def _fits(self, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """The shape of an input, after a check. ValueError if the layer does not take such inputs."""
        n, expected = len(shape), ""
        if self._ndim is not None and n != self._ndim:
            expected = f"expected ndim={self._ndim}, found ndim={n}"
        elif n < self._least_ndim:
            expected = f"expected min_ndim={self._least_ndim}, found ndim={n}"
        for axis, size in self._sizes.items() if not expected else ():
            if not -n <= axis < n or shape[axis] not in (size, None):
                expected = f"expected axis {axis} of input shape to have value {size}"
        if expected:
            raise ValueError(
                f'Input 0 of layer "{plain(self.name)}" is incompatible with the layer: {expected}, '
                f"but received input with shape {shape}. Full shape received: {shape}"
            )
        return shape

    def _to_build_for(self, input_shape: Any, *axes: int) -> tuple[Any, ...]:
        """The shape given to `build`, with known sizes along `axes`. Later inputs must have the same sizes."""
        shape = self._fits(checks.shape(self, "input_shape", input_shape))
        if self.built:
            raise ValueError(
                f"{type(self).__name__}: the layer '{plain(self.name)}' is built already, for inputs of "
                "the shape that it was first given; make another layer for other inputs"
            )
        for axis in axes:
            if not -len(shape) <= axis < len(shape) or shape[axis] is None:
                raise ValueError(
                    f"{type(self).__name__}: axis {axis} of the inputs should have a known size. Received: "
                    f"input_shape={shape}"
                )
        self._sizes = {axis: shape[axis] for axis in axes}
        return shape

    def _taken(self, inputs: Any) -> Tensor:
        """The input of `call` as a tensor. ValueError if the layer is not built or the shape does not fit."""
        x = checks.tensor(self, "inputs", inputs)
        if self._needs_variables and not self.built:
            raise ValueError(
                f"{type(self).__name__}: the layer '{plain(self.name)}' is not built, so it has no variables "
                "yet. Call the layer itself, or `build(input_shape)` before `call`"
            )
        self._fits(x._layout.shape)
        return x


def _named(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """The names and values of a constructor's arguments."""
    names = list(inspect.signature(cls.__init__).parameters)[1:] if args else []  # type: ignore[misc]
    return [*zip(names, args, strict=False), *kwargs.items()]


def _parts(value: Any) -> Iterator[Any]:
    """The leaves of an attribute's value; dicts keep their order, as in Keras."""
    if isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _parts(part)
    else:
        yield value


def _shapes(x: Any) -> Any:
    return nest.map_structure(_shape, x) if isinstance(x, (list, tuple, dict)) else _shape(x)


def _snake(name: str) -> str:
    # Keras's spelling: Conv2D becomes conv2d, BatchNormalization becomes batch_normalization.
    name = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()

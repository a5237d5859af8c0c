"""Models: layers made of layers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gtape import nest, train
from gtape.base.diagnosis import diagnosed
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.keras.backend import unique_name
from gtape.keras.layers.core import InputLayer
from gtape.keras.layers.layer import Layer
from gtape.keras.layers.symbolic import Graph, KerasTensor
from gtape.keras.training import Trainer
from gtape.storage.archives import path_text, write_archive
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor

__all__ = ["Functional", "Model", "Sequential", "clone_model"]

__dir__ = __all__.copy  # the names for `dir`, which sorts them


_OF_GRAPHS = frozenset({"input", "input_shape", "inputs", "output", "output_shape", "outputs"})

_OF_FILES = frozenset({"export", "save", "save_spec", "to_json"})

_WIDEST = 10_000  # characters in a line of a summary


class Model(Trainer, Layer):
    """A layer made of layers: a subclass with `call`, or the graph between inputs and outputs.

    Parameters
    ----------
    inputs, outputs : KerasTensor or structure of these, optional
        Results of `gtape.keras.Input` and of layers.
    **common : as for `Layer`

    Raises
    ------
    ValueError
        If an output depends on an input outside `inputs`.

    Examples
    --------
    A subclass:

    >>> import gtape as tf
    >>> class Classifier(tf.keras.Model):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = tf.keras.layers.Dense(4, activation="relu")
    ...         self.drop = tf.keras.layers.Dropout(0.5)
    ...         self.scores = tf.keras.layers.Dense(2)
    ...     def call(self, x, training=False):
    ...         return self.scores(self.drop(self.hidden(x), training=training))
    >>> model = Classifier()
    >>> model(tf.zeros([3, 5])).shape, len(model.trainable_variables)
    (TensorShape([3, 2]), 4)

    From inputs to outputs:

    >>> x = tf.keras.Input(shape=(5,))
    >>> y = tf.keras.layers.Dense(2)(tf.keras.layers.Dense(4, activation="relu")(x))
    >>> tf.keras.Model(inputs=x, outputs=y)(tf.zeros([3, 5])).shape
    TensorShape([3, 2])
    """

    def __init__(self, inputs: Any = None, outputs: Any = None, **common: Any) -> None:
        if inputs is not None and type(self) is Model:
            common.setdefault("name", unique_name("functional"))
        super().__init__(**common)
        self._graph: Graph | None = None
        if (inputs is None) != (outputs is None):
            raise ValueError("a model from a graph needs both `inputs` and `outputs`")
        if inputs is not None:
            self._set_graph(Graph(inputs, outputs))

    def _set_graph(self, graph: Graph) -> None:
        self._graph = graph
        self._graph_layers = [*map(_input_layer, nest.flatten(graph.inputs)), *graph.layers]
        self._first_shape = _structure_of_shapes(graph.inputs)
        self.built = True
        self._autocast = False  # because each layer of the graph casts its own inputs

    @property
    def layers(self) -> list[Layer]:
        """The direct inner layers; inputs of a graph come first."""
        return [m for m in self._inside()[1] if isinstance(m, Layer)]

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """A layer by its name or its position. ValueError if there is no such layer."""
        if index is not None:
            index = checks.whole("get_layer", "index", index)
        if index is not None and -len(self.layers) <= index < len(self.layers):
            return self.layers[index]
        for layer in self.layers:
            if isinstance(name, str) and layer.name == name:
                return layer
        wanted = name if index is None else index
        said = wanted if isinstance(wanted, str) else shown(wanted)
        raise ValueError(f"No such layer: {plain(said)}. There are {[x.name for x in self.layers]}")

    @property
    def inputs(self) -> list[KerasTensor]:
        """The inputs of the graph, as a list."""
        return nest.flatten(self._need_graph().inputs)

    @property
    def outputs(self) -> list[KerasTensor]:
        """The outputs of the graph, as a list."""
        return nest.flatten(self._need_graph().outputs)

    @property
    def input(self) -> Any:
        """The input of the graph, in its structure."""
        return self._need_graph().inputs

    @property
    def output(self) -> Any:
        """The output of the graph, in its structure."""
        return self._need_graph().outputs

    @property
    def input_shape(self) -> Any:
        """The shape of the input. An open size is None."""
        return _structure_of_shapes(self.input)

    @property
    def output_shape(self) -> Any:
        """The shape of the output. An open size is None."""
        return _structure_of_shapes(self.output)

    @diagnosed
    def summary(self, line_length: int | None = None, positions: Any = None, print_fn: Any = None, **more: Any) -> None:
        """Print the layers, their output shapes and their numbers of parameters.

        Parameters
        ----------
        line_length : int, optional
            80 by default.
        print_fn : callable, optional
            Called with each line instead of `print`.
        positions, **more : ignored; Keras has them

        Raises
        ------
        ValueError
            If the model is not built.
        """
        if not self.built:
            raise ValueError("This model has not yet been built. Build the model first by calling it on a batch")
        say = print if print_fn is None else checks.function(self, "print_fn", print_fn)
        width = 80 if line_length is None else checks.whole(self, "line_length", line_length, least=0) or 80
        if width > _WIDEST:
            raise ValueError(
                f"{checks.owner_of(self)}: `line_length` must be at most {_WIDEST}. Received: {shown(width)}"
            )
        shapes: dict[int, Any] = {}
        with contextlib.suppress(AttributeError):  # because the shapes of a subclass are unknown
            graph = self._need_graph()
            shapes = {id(x.made[0]): x.shape for x in graph.steps}
            shapes |= {id(x): x.batch_shape for x in self.layers if isinstance(x, InputLayer)}
        rows = [("Layer (type)", "Output Shape", "Param #")]
        for layer in self.layers:
            title = f"{plain(layer.name)} ({plain(type(layer).__name__)})"
            rows.append(
                (title, str(shapes.get(id(layer), "?")), f"{layer.count_params():,}" if layer.built else "0 (unbuilt)")
            )
        first, second = int(width * 0.45), int(width * 0.75)
        say(f'Model: "{plain(self.name)}"')
        for i, (name, shape, count) in enumerate(rows):
            say(f"{name[: first - 1]:<{first}}{shape[: second - first - 1]:<{second - first}}{count}")
            if i == 0:
                say("=" * width)
        own, total = sum(v._layout.size for v in self.trainable_variables), self.count_params()
        for what, n in (("Total", total), ("Trainable", own), ("Non-trainable", total - own)):
            say(f" {what} params: {n:,}")

    def save_weights(self, filepath: Any, overwrite: bool = True, **more: Any) -> None:
        """Write the values of all variables to a file.

        Parameters
        ----------
        filepath : str or path
            The file is a NumPy archive for every suffix.
        overwrite : bool
            Whether to replace an existing file.
        **more : ignored; Keras has them

        Raises
        ------
        ValueError
            If the file exists and `overwrite` is False.
        gtape.errors.OpError
            If the file cannot be written. The class is TensorFlow's for the cause, such as NotFoundError for a missing
            folder.
        """
        path = path_text(filepath)
        if not overwrite and os.path.exists(path):
            raise ValueError(f"{plain(path)} exists already; pass overwrite=True to replace it")
        write_archive(path, train.values_of(self))

    def load_weights(self, filepath: Any, skip_mismatch: bool = False, **more: Any) -> None:
        """Set the values that `save_weights` wrote.

        Parameters
        ----------
        filepath : str or path
        skip_mismatch : bool
            Whether to ignore variables without a value, and values without a variable.
        **more : ignored; Keras has them

        Raises
        ------
        ValueError
            If the file has values for other variables.
        gtape.errors.NotFoundError
            If there is no such file.
        gtape.errors.DataLossError
            If the file is damaged or was not written by `save_weights`.
        """
        status = train.restore_values(self, path_text(filepath))
        if not skip_mismatch and (status._missing or (status._unused and self.built)):
            raise ValueError(
                f"{plain(path_text(filepath))} has no values for {sorted(status._missing)}, and values for "
                f"{sorted(status._unused)}, which this model does not have"
            )

    def __getattr__(self, name: str) -> Any:
        if name in _OF_GRAPHS:  # Python calls this after a property raised AttributeError
            raise AttributeError(f"{plain(self.name)} is no graph of layers, so it has no `{name}` that is known")
        hint = "; gtape saves variables: model.save_weights(path), or train.Checkpoint" if name in _OF_FILES else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def _need_graph(self) -> Graph:
        if self._graph is None:
            raise AttributeError(self.name)
        return self._graph

    if TYPE_CHECKING:  # because `call` of a subclass may have any arguments

        def call(self, *args: Any, **kwargs: Any) -> Any: ...

    else:

        def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
            if self._graph is None:
                raise NotImplementedError(f"Model {type(self).__name__} does not have a `call()` method implemented.")
            return self._graph.run(inputs)


Functional = Model


def _input_layer(x: KerasTensor) -> InputLayer:
    made = InputLayer(batch_shape=x.shape, dtype=x.dtype, name=x.name)
    made.built = True
    made._symbolic = (x, x)
    return made


def _structure_of_shapes(x: Any) -> Any:
    return nest.map_structure(lambda t: t.shape, x) if nest.is_nested(x) else x.shape


class Sequential(Model):
    """Layers one after the other.

    Parameters
    ----------
    layers : sequence of Layer, optional
        The variables are made at once if the first layer is an `Input` or has an `input_shape`, else by the first call.
    trainable : bool
    name : str, optional

    Raises
    ------
    ValueError
        If an element is not a layer.

    Examples
    --------
    >>> import gtape as tf
    >>> model = tf.keras.Sequential([
    ...     tf.keras.Input(shape=(4,)),
    ...     tf.keras.layers.Dense(3, activation="tanh"),
    ...     tf.keras.layers.Dense(1),
    ... ])
    >>> [v.name.split("/")[-1] for v in model.trainable_variables]
    ['kernel:0', 'bias:0', 'kernel:0', 'bias:0']
    >>> model(tf.zeros([2, 4])).shape
    TensorShape([2, 1])
    """

    def __init__(self, layers: Iterable[Any] | None = None, trainable: bool = True, name: str | None = None) -> None:
        super().__init__(trainable=trainable, name=name)
        self._autocast = False  # because the first layer may need integers
        self._sequence: list[Layer] = []
        self._called_with: Any = None
        for layer in () if layers is None else checks.each(self, "layers", layers, "a list of layers"):
            self._append(layer)
        self._start()

    def add(self, layer: Any, rebuild: bool = True) -> None:
        """Append a layer."""
        self._append(layer)
        self._start()

    def pop(self, rebuild: bool = True) -> Layer:
        """Remove the last layer and return it."""
        if not self._sequence:
            raise ValueError("There are no layers in the model, so none can be taken away.")
        taken = self._sequence.pop()
        self._graph = None
        self._start()
        return taken

    def _append(self, layer: Any) -> None:
        if isinstance(layer, KerasTensor):
            layer = InputLayer(batch_shape=layer.shape, dtype=layer.dtype, name=layer.name)
        if not isinstance(layer, Layer):
            raise ValueError(
                f"Only instances of `keras.Layer` can be added to a Sequential model, not {shown(layer)}; for a "
                "function there is gtape.keras.layers.Lambda"
            )
        if any(layer.name == other.name and layer is not other for other in self._sequence):
            raise ValueError(
                "All layers added to a Sequential model should have unique names. Name "
                f"{layer.name!r} is already the name of a layer in this model; give one of them another `name`"
            )
        self._sequence.append(layer)

    def _start(self) -> None:
        if self._sequence and self._sequence[0]._first_shape is not None:
            self.build(self._sequence[0]._first_shape)

    @property
    def layers(self) -> list[Layer]:
        """The layers, without the input."""
        return [layer for layer in self._sequence if not isinstance(layer, InputLayer)]

    def build(self, input_shape: Any = None) -> None:
        """Make the variables for inputs of the given shape, which includes the batch."""
        if input_shape is None or not self._sequence:
            return
        first = self._sequence[0]
        dtype = getattr(first, "_input_dtype", None) or "float32"
        start = KerasTensor(checks.shape(self, "input_shape", input_shape), dtype)
        x: Any = start
        for layer in self._sequence:
            x = layer(x)
        self._graph = Graph(start, x)
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        x = inputs
        for layer in self._sequence:
            x = layer(x)
        return x

    def _build(self, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if args and isinstance(args[0], KerasTensor):
            self.build(args[0].shape)
            return
        # No graph is made here, because calls build the layers. `_need_graph` makes the graph later.
        shape = args[0]._layout.shape if args and isinstance(args[0], Tensor) else ()
        self._called_with = (None, *shape[1:]) if shape else None
        self.built = True

    def _need_graph(self) -> Graph:
        if self._graph is None and self._called_with is not None:
            self.build(self._called_with)
        return super()._need_graph()


def clone_model(model: Model) -> Any:
    """A model of the same layers with new variables.

    Parameters
    ----------
    model : Sequential, or a graph of layers

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        If the model is a subclass with its own `call`.

    Examples
    --------
    >>> import gtape as tf
    >>> model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    >>> copy = tf.keras.models.clone_model(model)
    >>> copy.set_weights(model.get_weights())
    >>> bool((copy(tf.ones([1, 2])).numpy() == model(tf.ones([1, 2])).numpy()).all())
    True
    """

    def fresh(layer: Any) -> Any:
        return clone_model(layer) if isinstance(layer, Model) else type(layer).from_config(layer.get_config())

    if not isinstance(model, Model):
        raise ValueError(f"Expected `model` argument to be a `Model` instance. Received: model={shown(model)}")
    if isinstance(model, Sequential):
        return Sequential([fresh(layer) for layer in model._sequence], trainable=model.trainable)
    graph = model._graph
    if graph is None:
        raise ValueError("Expected `model` argument to be a Sequential model or a graph; make another instance instead")
    made = {id(layer): fresh(layer) for layer in graph.layers}
    starts = [KerasTensor(x.shape, x.dtype, name=x.name) for x in nest.flatten(graph.inputs)]
    inputs = nest.pack_sequence_as(graph.inputs, starts) if nest.is_nested(graph.inputs) else starts[0]
    return Model(inputs, graph.run(inputs, made))

"""`compile`, `fit`, `evaluate` and `predict`: the training loop of models."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.data import is_dataset
from gtape.errors import InvalidArgumentError, ShapeError
from gtape.keras import losses, metrics, optimizers
from gtape.keras.batches import Epochs, arrays, batches_of, check_rows, joined, packed, rows_of, taken
from gtape.keras.callbacks import Callbacks, History
from gtape.keras.loss import Loss, reduced
from gtape.keras.metrics import Mean, MeanMetricWrapper, Metric
from gtape.keras.utils import unpack_x_y_sample_weight
from gtape.tapes.tape import GradientTape
from gtape.tensors import argument_checks as checks

__all__ = ["Trainer"]


class Trainer:
    """The training part of a model.

    A subclass may override `compute_loss`, or `train_step` and `test_step`, which return a batch's metrics by name.
    """

    name: Any
    losses: Any
    trainable_variables: Any
    _takes_training: Callable[[], bool]
    optimizer: Any = None
    # Set by `compile` and `fit`: the loss as it was given, and the metrics of the last training.
    loss: Any
    history: History
    stop_training = False
    _loss: Any = None
    _loss_weights: Any = None
    # The mean losses of several outputs, and the metrics of `compile`. A metric is a triple: the position of its output
    # or None for all outputs, the metric, and whether the metric takes the weights of samples.
    _means: tuple[Metric, ...] = ()
    _chosen: tuple[tuple[int | None, Metric, bool], ...] = ()
    _tracker: Metric | None = None

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, loss_weights: Any = None, metrics: Any = None,
        weighted_metrics: Any = None, run_eagerly: bool = False, steps_per_execution: int = 1,
        jit_compile: Any = "auto", auto_scale_loss: bool = True,
    ) -> None:  # fmt: skip
        """Set the optimizer, the loss and the metrics.

        Parameters
        ----------
        optimizer : str or Optimizer
        loss : str, callable, Loss, or one for each output
        loss_weights : list or dict of float, optional
            A factor for the loss of each output.
        metrics : list of str, callable or Metric, optional
            For several outputs a list or dict of these.
        weighted_metrics : list, optional
            Metrics that take the weights of samples.
        run_eagerly, steps_per_execution, jit_compile, auto_scale_loss : ignored; Keras has them

        Raises
        ------
        ValueError
            If a name is unknown.
        """
        self.optimizer = optimizers.get(optimizer)
        parts = [] if loss_weights is None else nest.flatten(loss_weights)
        for weight in parts:
            checks.number("compile", "loss_weights", weight)
        known = loss is None or isinstance(loss, Loss) or (callable(loss) and not isinstance(loss, str))
        if isinstance(loss, (list, tuple, dict)):
            self._loss = nest.map_structure(losses.get, loss)
        else:
            self._loss = loss if known else losses.get(loss)
        self.loss, self._loss_weights = loss, loss_weights
        self._means, self._chosen = (), ()
        names = self._output_names() if isinstance(self._loss, (list, tuple, dict)) else []
        self._means = tuple([Mean(name=f"{name}_loss") for name in names])
        for given, weighted in ((metrics, False), (weighted_metrics, True)):
            if names and isinstance(given, (list, tuple, dict)):
                parts = [given.get(name) for name in names] if isinstance(given, dict) else list(given)
                if len(parts) != len(names):
                    raise ValueError(
                        f"compile: there are {len(parts)} metrics for the outputs {names}; pass one for each"
                    )
                for i, (name, part) in enumerate(zip(names, parts, strict=True)):
                    for m in map(_metric, nest.flatten(part or [])):
                        m.name = f"{name}_{m.name}"
                        self._choose(i, m, weighted)
            else:
                for asked in [] if given is None else nest.flatten(given):
                    self._choose(None, _metric(asked), weighted)
        self._tracker = Mean(name="loss")

    def _choose(self, output: int | None, m: Metric, weighted: bool) -> None:
        if weighted and any(m.name == other.name for _, other, _ in self._chosen):
            m.name = f"weighted_{m.name}"
        self._chosen += ((output, m, weighted),)

    @property
    def metrics(self) -> list[Metric]:
        """The mean loss, the mean losses of several outputs, the metrics of `compile`, and metrics in attributes."""
        own = [m for k, m in vars(self).items() if isinstance(m, Metric) and k != "_tracker"]
        each = {m.name: m for m in self._means}
        if isinstance(self._loss, dict):  # in the order of the dict
            each = {f"{k}_loss": each[f"{k}_loss"] for k in self._loss}
        loss = [self._tracker, *each.values()] if self._tracker and self._loss is not None else []
        return [*loss, *[m for _, m, _ in self._chosen], *own]

    @property
    def metrics_names(self) -> list[str]:
        """The names of the metrics."""
        return [m.name for m in self.metrics]

    def reset_metrics(self) -> None:
        """Reset all metrics."""
        for m in self.metrics:
            m.reset_state()

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """The loss of a batch: the loss of `compile` plus the penalties of the layers.

        Parameters
        ----------
        x, y, y_pred : tensor or structure of tensors
            Inputs, labels and outputs.
        sample_weight : tensor, optional
        training : bool

        Raises
        ------
        ValueError
            If there are no losses and no penalties.
        """
        parts = []
        if self._loss is not None and y is not None:
            if isinstance(self._loss, (list, tuple, dict)):
                nest.assert_same_structure(self._loss, y_pred, check_types=False)
                n = len(nest.flatten(self._loss))
                weights = [1.0] * n if self._loss_weights is None else nest.flatten(self._loss_weights)
                labels, made = nest.flatten(y), nest.flatten(y_pred)
                if not n == len(weights) == len(labels) == len(made):
                    raise ValueError(
                        f"there are {n} losses, {len(weights)} weights of losses, {len(labels)} labels and {len(made)} "
                        "outputs: pass one for each output"
                    )
                each = zip(nest.flatten(self._loss), labels, made, strict=True)
                parts = [_loss_of(f, t, p, sample_weight) for f, t, p in each]
                for mean, part in zip(self._means, parts, strict=True):
                    mean.update_state(part, sample_weight=rows_of(y_pred))
                parts = [w * part for w, part in zip(weights, parts, strict=True)]
            else:
                parts = [_loss_of(self._loss, y, y_pred, sample_weight)]
        parts += list(self.losses)
        if not parts:
            raise ValueError("No loss to compute. Provide a `loss` argument in `compile()`.")
        return sum(parts[1:], parts[0])

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """Update the metrics of `compile` with a batch, and return all results by name."""
        for i, m, weighted in self._chosen if y is not None else ():
            truth, made = (y, y_pred) if i is None else (_part(y, i), _part(y_pred, i))
            m.update_state(truth, made, **({"sample_weight": sample_weight} if weighted else {}))
        return self.get_metrics_result()

    def _output_names(self) -> list[str]:
        """The names of several outputs: the keys of a dict, or the names of the layers."""
        if isinstance(self._loss, dict):
            return sorted(self._loss)
        graph = getattr(self, "_graph", None)
        if graph is None:
            return [f"output_{i}" for i in range(len(self._loss))]
        return [x.made[0].name for x in nest.flatten(graph.outputs)]

    def get_metrics_result(self) -> dict[str, Any]:
        """The results of the metrics so far, by name."""
        return {m.name: m.result() for m in self.metrics}

    def train_step(self, data: Any) -> dict[str, Any]:
        """Train on a batch and return metrics by name."""
        self._need_compiled()
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        with GradientTape() as tape:
            y_pred = self._predicted(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)
            scaled = self.optimizer.scale_loss(loss)
        variables = self.trainable_variables
        self._track(loss, x)
        if variables:
            self.optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables, strict=True))
        else:
            warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def _predicted(self, x: Any, training: bool) -> Any:
        """The outputs. Only a `call` with an argument `training` hears of training, as in Keras."""
        flag = {"training": training} if self._takes_training() else {}
        return self(x, **flag)  # type: ignore[operator]

    def _track(self, loss: Any, x: Any) -> None:
        if self._tracker is not None:
            self._tracker.update_state(loss, sample_weight=rows_of(x))

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluate a batch and return metrics by name."""
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        y_pred = self._predicted(x, training=False)
        loss = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=False)
        self._track(loss, x)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def fit(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 1, verbose: Any = "auto",
        callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None, shuffle: bool = True,
        class_weight: Any = None, sample_weight: Any = None, initial_epoch: int = 0,
        steps_per_epoch: int | None = None, validation_steps: int | None = None,
        validation_batch_size: int | None = None, validation_freq: int = 1,
    ) -> History:  # fmt: skip
        """Train the model.

        Parameters
        ----------
        x : array, tensor, structure of these, Dataset or iterator
            A dataset yields batches: x, (x, y), or (x, y, weights).
        y : array, tensor or structure of these, optional
        batch_size : int, optional
            32 by default.
        epochs, initial_epoch : int
            The number after the last epoch, and the number of the first epoch.
        verbose : "auto", 0, 1 or 2
            0 prints nothing, otherwise each epoch prints a line.
        callbacks : list of Callback, optional
        validation_split : float
            The fraction of rows, at the end, for evaluation instead of training.
        validation_data : (x, y), (x, y, weights) or Dataset, optional
        shuffle : bool
            Whether to shuffle arrays in each epoch.
        class_weight : dict, optional
            A factor for the loss of each class number.
        sample_weight : array, optional
        steps_per_epoch, validation_steps : int, optional
            The numbers of batches of an epoch and of an evaluation.
        validation_batch_size, validation_freq : int

        Raises
        ------
        ValueError
            Before `compile`.
        """
        self._need_compiled()
        batch_size, steps_per_epoch = _count("batch_size", batch_size), _count("steps_per_epoch", steps_per_epoch)
        validation_steps = _count("validation_steps", validation_steps)
        validation_batch_size = _count("validation_batch_size", validation_batch_size)
        epochs = checks.whole("fit", "epochs", epochs, least=0)
        initial_epoch = checks.whole("fit", "initial_epoch", initial_epoch, least=0)
        validation_freq = checks.whole("fit", "validation_freq", validation_freq, least=1)
        verbose, shuffle = _verbose(verbose), checks.flag("fit", "shuffle", shuffle)
        validation_split = checks.number(
            "fit", "validation_split", validation_split, lambda v: 0 <= v < 1, "must be a float in [0, 1)"
        )
        validating = _for_validation(validation_data)
        if not is_dataset(x):
            x, y, sample_weight = arrays(x), *[None if v is None else arrays(v) for v in (y, sample_weight)]
            check_rows(x=x, y=y, sample_weight=sample_weight)
            if validation_split:
                cut = int(rows_of(x) * (1.0 - validation_split))
                validating = tuple(taken(v, slice(cut, None)) for v in (x, y, sample_weight) if v is not None)
                x, y, sample_weight = [taken(v, slice(0, cut)) for v in (x, y, sample_weight)]
        history = self.history = History()
        told = Callbacks(callbacks, self, epochs=epochs, steps=steps_per_epoch, verbose=verbose)
        told.add(history)
        self.stop_training = False
        told.tell("on_train_begin", {})
        begin = partial(batches_of, x, y, sample_weight, batch_size, shuffle, class_weight)
        batches = Epochs(begin, steps_per_epoch)
        logs: dict[str, Any] = {}
        for epoch in range(initial_epoch, epochs):
            self.reset_metrics()
            told.tell("on_epoch_begin", epoch, {})
            logs = {}
            for step, batch in enumerate(batches.epoch()):
                told.tell("on_train_batch_begin", step, {})
                logs = _numbers(self.train_step(batch))
                told.tell("on_train_batch_end", step, logs)
            if validating is not None and (epoch + 1) % validation_freq == 0:
                seen = self._evaluated(validating, validation_batch_size or batch_size, validation_steps, told)
                logs = {**logs, **{f"val_{k}": v for k, v in seen.items()}}
            if verbose:
                print(f"Epoch {epoch + 1}/{epochs} - " + " - ".join(f"{plain(k)}: {v:.4f}" for k, v in logs.items()))
            told.tell("on_epoch_end", epoch, logs)
            if self.stop_training:
                break
        told.tell("on_train_end", logs)
        return history

    def _need_compiled(self) -> None:
        if self.optimizer is None:
            raise ValueError("You must call `compile()` before using the model: it says which optimizer and loss")

    def _evaluated(self, parts: tuple[Any, ...], batch_size: Any, steps: Any, told: Callbacks) -> dict[str, Any]:
        self.reset_metrics()
        told.tell("on_test_begin", {})
        logs: dict[str, Any] = {}
        x, y, weights = (*[p if is_dataset(p) else arrays(p) for p in parts], None, None)[:3]
        for data in islice(batches_of(x, y, weights, batch_size, False, None), steps):
            logs = _numbers(self.test_step(data))
        told.tell("on_test_end", logs)
        return logs

    def evaluate(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, verbose: Any = "auto",
        sample_weight: Any = None, steps: int | None = None, callbacks: Any = None, return_dict: bool = False,
    ) -> Any:  # fmt: skip
        """The loss and the metrics for given data.

        Parameters
        ----------
        x, y, batch_size, sample_weight, verbose, callbacks : as for `fit`
        steps : int, optional
            The number of batches.
        return_dict : bool
            Whether to return a dict.

        Returns
        -------
        float, list of float, or dict
        """
        self._need_compiled()
        batch_size, steps, verbose = _count("batch_size", batch_size), _count("steps", steps), _verbose(verbose)
        if x is None:
            raise ValueError("evaluate: the inputs `x` of the model are None; pass arrays, tensors or a Dataset")
        parts = tuple(v for v in (x, y, sample_weight) if v is not None)
        logs = self._evaluated(parts, batch_size, steps, Callbacks(callbacks, self, steps=steps, verbose=verbose))
        if verbose:
            print(" - ".join(f"{plain(k)}: {v:.4f}" for k, v in logs.items()))
        return _listed(logs, return_dict)

    def predict(
        self, x: Any, batch_size: int | None = None, verbose: Any = "auto", steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:  # fmt: skip
        """The outputs outside training, as arrays, computed batch by batch.

        Parameters
        ----------
        x, batch_size, steps : as for `evaluate`
        verbose, callbacks : ignored; Keras has them
        """
        batch_size, steps = _count("batch_size", batch_size), _count("steps", steps)
        x = x if is_dataset(x) else arrays(x)
        parts = []
        for data in islice(batches_of(x, None, None, batch_size, False, None), steps):
            y = self._predicted(unpack_x_y_sample_weight(data)[0], training=False)
            parts.append(nest.map_structure(lambda t: checks.tensor(self, "an output", t).numpy(), y))
        if not parts:
            raise ValueError("predict() got no rows")
        return joined(parts)

    def train_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Train on one batch and return the loss and the metrics."""
        self._need_compiled()
        self.reset_metrics()
        return _listed(self.train_step(packed(x, y, sample_weight, class_weight)), return_dict)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        """The loss and the metrics of one batch."""
        self._need_compiled()
        self.reset_metrics()
        return _listed(self.test_step(packed(x, y, sample_weight, None)), return_dict)

    def predict_on_batch(self, x: Any) -> Any:
        """The outputs of one batch, as arrays."""
        return self.predict(x, batch_size=rows_of(arrays(x)))


def _count(name: str, value: Any) -> int | None:
    return None if value is None else checks.whole("a model", name, value, least=1)


def _verbose(value: Any) -> Any:
    if isinstance(value, (int, np.integer, np.bool_)) and 0 <= value <= 2:
        return value
    if isinstance(value, str) and value == "auto":
        return value
    raise ValueError(f"`verbose` must be 'auto', 0, 1 or 2. Received: verbose={shown(value)}")


def _for_validation(given: Any) -> tuple[Any, ...] | None:
    """The data of evaluations after epochs: a dataset alone, or inputs, labels and weights."""
    if given is None:
        return None
    if is_dataset(given):
        return (given,)
    if not isinstance(given, (tuple, list)) or not 1 <= len(given) <= 3:
        raise ValueError(
            f"`validation_data` must be (x, y), (x, y, weights) or a Dataset. Received: validation_data={shown(given)}"
        )
    return tuple(given)


def _part(structure: Any, i: int) -> Any:
    """The labels or predictions of one output."""
    leaves = nest.flatten(structure)
    if i >= len(leaves):
        raise ValueError(f"there is no output {i} among {len(leaves)}: {shown(structure)}")
    return leaves[i]


def _loss_of(f: Callable[..., Any], y: Any, y_pred: Any, weight: Any) -> Any:
    try:
        return _loss_alone(f, y, y_pred, weight)
    except InvalidArgumentError as e:
        shapes = [getattr(v, "shape", None) for v in (y, y_pred)]
        if isinstance(e, ValueError) or shapes[0] == shapes[1]:
            raise
        raise ShapeError(f"the labels of shape {shapes[0]} do not fit the outputs of shape {shapes[1]}: {e}") from e


def _loss_alone(f: Callable[..., Any], y: Any, y_pred: Any, weight: Any) -> Any:
    if isinstance(f, Loss):
        return f(y, y_pred, weight)
    return reduced(checks.tensor("compile", "what the loss returned", f(y, y_pred)), weight, "sum_over_batch_size")


class _Accuracy(MeanMetricWrapper):
    """The accuracy that fits the shapes of the first batch: of binary labels, one-hot labels, or class numbers."""

    def __init__(self, name: str) -> None:
        super().__init__(self._figure, name)
        self._kind: Callable[..., Any] | None = None

    def _figure(self, y: Any, y_pred: Any) -> Any:
        kind = self._kind
        if kind is None:
            alike = tuple(y.shape) == tuple(y_pred.shape)
            several = metrics.categorical_accuracy if alike else metrics.sparse_categorical_accuracy
            kind = self._kind = metrics.binary_accuracy if y_pred.shape[-1:] in ((), (1,)) else several
        return kind(y, y_pred)


def _metric(asked: Any) -> Metric:
    """The metric for an argument of `compile`."""
    if isinstance(asked, Metric):
        return asked
    if isinstance(asked, str) and asked in ("accuracy", "acc"):
        return _Accuracy(asked)
    if not isinstance(asked, str):
        return MeanMetricWrapper(asked)
    found: Any
    try:
        found = metrics.get(asked)
    except ValueError as e:
        try:
            found = losses.get(asked)
        except ValueError:
            raise ValueError(f"{e}; a loss will do, too") from None
    if isinstance(found, Metric):
        found.name = asked
        return found
    return MeanMetricWrapper(found, name=asked)


def _numbers(logs: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(logs, dict):
        raise TypeError(f"a step of a model must return a dict of figures by name, not {shown(logs)}")
    return {k: float(np.mean(checks.numeric("a model", k, v))) for k, v in logs.items()}


def _listed(logs: dict[str, Any], as_dict: bool) -> Any:
    found = _numbers(logs)
    numbers = list(found.values())
    return found if as_dict else numbers[0] if len(numbers) == 1 else numbers

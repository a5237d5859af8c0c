"""Callbacks: objects that `fit` calls during training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from gtape.base.shown import shown
from gtape.tensors import argument_checks as checks

__all__ = ["Callback", "History", "LambdaCallback"]

__dir__ = __all__.copy  # the names for `dir`, which sorts them


if not TYPE_CHECKING:  # because a type checker that sees this function accepts any name

    def __getattr__(name: str) -> NoReturn:
        from gtape.namespaces.catalogue import unknown

        raise unknown("gtape.keras.callbacks", name, __all__)


class Callback:
    """Base class of callbacks. A subclass overrides some of the methods.

    Attributes
    ----------
    model : Model
    params : dict
        "epochs", "steps" and "verbose".

    Examples
    --------
    >>> import gtape as tf
    >>> class Stop(tf.keras.callbacks.Callback):
    ...     def on_epoch_end(self, epoch, logs=None):
    ...         self.model.stop_training = epoch >= 1
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> len(model.fit(tf.ones([4, 2]), tf.ones([4, 1]), epochs=9, verbose=0, callbacks=[Stop()]).epoch)
    2
    """

    model: Any = None
    params: dict[str, Any]

    def set_model(self, model: Any) -> None:
        """Store the model. Called once before training."""
        self.model = model

    def set_params(self, params: dict[str, Any]) -> None:
        """Store the parameters. Called once before training."""
        self.params = params

    def on_train_begin(self, logs: Any = None) -> None:
        """Called before the first epoch."""

    def on_train_end(self, logs: Any = None) -> None:
        """Called after the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Called before each epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called after each epoch, with its metrics."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Called before each batch."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Called after each batch, with the metrics so far."""

    def on_test_begin(self, logs: Any = None) -> None:
        """Called before an evaluation."""

    def on_test_end(self, logs: Any = None) -> None:
        """Called after an evaluation, with its metrics."""


class History(Callback):
    """The metrics of all epochs; `fit` returns this object.

    Attributes
    ----------
    epoch : list of int
    history : dict of list
        For each name of a metric, a number for each epoch.

    Examples
    --------
    >>> import gtape as tf
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> seen = model.fit(tf.ones([4, 2]), tf.ones([4, 1]), epochs=3, verbose=0)
    >>> seen.epoch, list(seen.history), seen.history["loss"][2] < seen.history["loss"][0]
    ([0, 1, 2], ['loss'], True)
    """

    def __init__(self) -> None:
        self.epoch: list[int] = []
        self.history: dict[str, list[Any]] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        numbers = {} if logs is None else checks.settings(self, logs, "logs")
        self.epoch.append(epoch)
        for name, number in numbers.items():
            self.history.setdefault(name, []).append(number)


class LambdaCallback(Callback):
    """A callback made of functions.

    Parameters
    ----------
    on_epoch_begin, on_epoch_end, on_train_begin, on_train_end : callable, optional
    on_train_batch_begin, on_train_batch_end : callable, optional
        Each function takes the arguments of the method with the same name.

    Examples
    --------
    >>> import gtape as tf
    >>> told = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print("epoch", epoch))
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> _ = model.fit(tf.ones([4, 2]), tf.ones([4, 1]), epochs=2, verbose=0, callbacks=[told])
    epoch 0
    epoch 1
    """

    def __init__(
        self, on_epoch_begin: Callable[..., Any] | None = None, on_epoch_end: Callable[..., Any] | None = None,
        on_train_begin: Callable[..., Any] | None = None, on_train_end: Callable[..., Any] | None = None,
        on_train_batch_begin: Callable[..., Any] | None = None, on_train_batch_end: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        given = {k: f for k, f in locals().items() if k.startswith("on_") and f is not None}
        for name, f in given.items():
            setattr(self, name, checks.function(self, name, f))


class Callbacks:
    """A list of callbacks, called in turn."""

    def __init__(self, callbacks: Iterable[Any] | None, model: Any, **params: Any) -> None:
        several = () if callbacks is None else (callbacks,) if isinstance(callbacks, Callback) else callbacks
        self.each = checks.each("fit", "callbacks", several, "a list of callbacks")
        self.params, self.model = params, model
        for c in self.each:
            if isinstance(c, type) or not (hasattr(c, "set_params") and hasattr(c, "set_model")):
                raise TypeError(
                    "`callbacks` must be objects of gtape.keras.callbacks.Callback, or of a subclass. Received: "
                    f"{shown(c)}"
                )
        for c in self.each:
            c.set_params(params)
            c.set_model(model)

    def add(self, callback: Callback) -> None:
        """Append a callback."""
        callback.set_params(self.params)
        callback.set_model(self.model)
        self.each.append(callback)

    def tell(self, event: str, *args: Any) -> None:
        """Call a method of each callback."""
        for c in self.each:
            getattr(c, event)(*args)

"""Batches for `train_step`, from arrays, structures of arrays and datasets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.data import drawn, is_dataset
from gtape.keras.utils import pack_x_y_sample_weight
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor, convert_to_tensor
from gtape.tensors.variable import Variable

__all__ = ["Epochs", "arrays", "batches_of", "check_rows", "joined", "packed", "rows_of", "taken", "weights_for"]


def rows_of(x: Any) -> int:
    """The number of samples."""
    sizes = [checks.tensor("a model", "x", leaf)._layout.shape for leaf in nest.flatten(x)[:1]]
    if not sizes or not sizes[0]:
        raise ValueError(f"a model's data must have an axis of samples, unlike {shown(x)}")
    return sizes[0][0]


def check_rows(**given: Any) -> None:
    """Raise ValueError unless all arrays have the same number of samples."""
    if given["x"] is None:
        raise ValueError("the inputs `x` of the model are None; pass arrays, tensors or a Dataset")
    found = {
        name: [np.shape(v)[0] if np.ndim(v) else None for v in nest.flatten(data)]
        for name, data in given.items()
        if data is not None
    }
    for name, sizes in found.items():
        if None in sizes or not sizes:
            raise ValueError(f"`{name}` must have an axis of samples. Received: {name}={shown(given[name])}")
    if len({n for sizes in found.values() for n in sizes}) > 1:
        said = ", ".join(f"'{plain(name)}' sizes: {', '.join(map(str, sizes))}" for name, sizes in found.items())
        raise ValueError(f"Make sure all arrays contain the same number of samples. {said}")


def arrays(x: Any) -> Any:
    """The same structure with lists of numbers replaced by arrays."""

    def one(v: Any) -> Any:
        if isinstance(v, (Tensor, Variable, np.ndarray)):
            return v
        try:
            return np.asarray(v)
        except (TypeError, ValueError):  # lists of different lengths
            raise ValueError(
                f"a model's data must be arrays, tensors or structures of these. Received: {shown(v)}"
            ) from None

    if isinstance(x, list) and not any(hasattr(v, "shape") for v in x):
        return one(x)
    return nest.map_structure(one, x) if isinstance(x, (list, tuple, dict)) else one(x)


def taken(x: Any, rows: Any) -> Any:
    """Selected rows, as tensors."""

    def one(v: Any) -> Any:
        return convert_to_tensor(np.asarray(v)[rows])

    return None if x is None else nest.map_structure(one, x) if isinstance(x, (list, tuple, dict)) else one(x)


def joined(parts: list[Any]) -> Any:
    """The concatenated outputs of all batches."""

    def one(*arrays: Any) -> Any:
        if len({a.shape[1:] for a in arrays}) > 1 or not all(a.ndim for a in arrays):
            said = ", ".join(str(a.shape) for a in arrays)
            raise ValueError(f"the model's outputs must have an axis of samples, unlike outputs of the shapes {said}")
        return np.concatenate(arrays)

    return nest.map_structure(one, *parts) if nest.is_nested(parts[0]) else one(*parts)


class Epochs:
    """The batches of one epoch after the other.

    An epoch with a number of steps continues where the last epoch ended. If the data end within an epoch, the epoch has
    fewer steps, and the next epoch begins with the first batch, as in Keras.

    Parameters
    ----------
    begin : callable
        Returns an iterator over all batches.
    steps : int, optional
        The number of batches of an epoch; all by default.
    """

    def __init__(self, begin: Callable[[], Iterator[Any]], steps: int | None) -> None:
        self._begin, self._steps = begin, steps
        self._rest: Iterator[Any] = iter(())

    def epoch(self) -> Iterator[Any]:
        """The batches of the next epoch."""
        if self._steps is None:
            yield from self._begin()
            return
        empty = True
        for data in itertools.islice(self._rest, self._steps):
            empty = False
            yield data
        if empty:
            self._rest = self._begin()
            yield from itertools.islice(self._rest, self._steps)


def weights_for(y: Any, given: Any, class_weight: dict[int, float] | None) -> Any:
    """The weights of samples times the weights of their classes."""
    if class_weight is None:
        return given
    if not isinstance(class_weight, dict):
        raise TypeError(f"`class_weight` must be a dict. Received: class_weight={shown(class_weight)}")
    class_weight = {
        checks.whole("fit", "class_weight", c): float(checks.number("fit", "class_weight", w))
        for c, w in class_weight.items()
    }
    labels = checks.numeric("fit", "y", y)
    if not labels.ndim or labels.dtype.kind == "c":
        raise ValueError(f"`class_weight` needs labels `y` that are classes. Received: y={shown(y)}")
    classes = labels.argmax(-1) if labels.ndim > 1 and labels.shape[-1] > 1 else labels.reshape(len(labels))
    own = np.array([class_weight.get(int(c), 1.0) for c in classes], np.float32)
    return convert_to_tensor(own if given is None else own * np.asarray(given))


def packed(x: Any, y: Any, weight: Any, class_weight: Any) -> Any:
    """A single batch for `train_step`."""
    x, y, weight = [None if v is None else arrays(v) for v in (x, y, weight)]
    check_rows(x=x, y=y, sample_weight=weight)
    x, y, weight = [taken(v, slice(None)) for v in (x, y, weight)]
    return pack_x_y_sample_weight(x, y, weights_for(y, weight, class_weight))


def batches_of(x: Any, y: Any, weight: Any, size: Any, shuffle: bool, class_weight: Any) -> Iterator[Any]:
    """All batches of the data."""
    if is_dataset(x):
        yield from x
        return
    check_rows(x=x, y=y, sample_weight=weight)
    n, size = rows_of(x), size or 32
    order = np.random.default_rng(drawn(None)).permutation(n) if shuffle else np.arange(n)
    for start in range(0, n, size):
        rows = order[start : start + size]
        labels, given = taken(y, rows), taken(weight, rows)
        yield pack_x_y_sample_weight(taken(x, rows), labels, weights_for(labels, given, class_weight))

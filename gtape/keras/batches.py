"""Batches for `train_step`, from arrays, structures of arrays and datasets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.data import Dataset, drawn, is_dataset
from gtape.keras.utils import pack_x_y_sample_weight
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor, convert_to_tensor
from gtape.tensors.variable import Variable

__all__ = ["Endless", "arrays", "batches_of", "check_rows", "joined", "packed", "rows_of", "taken", "weights_for"]


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


class Endless:
    """The batches of a dataset, repeated forever; each reader continues where the last reader stopped."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._batches = iter(dataset)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._batches)
        except StopIteration:
            self._batches = iter(self._dataset)
            return next(self._batches)


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


def batches_of(x: Any, y: Any, weight: Any, size: Any, shuffle: bool, steps: Any, class_weight: Any) -> Iterator[Any]:
    """The batches of an epoch."""
    if is_dataset(x):
        yield from itertools.islice(x, steps)
        return
    check_rows(x=x, y=y, sample_weight=weight)
    n, size = rows_of(x), size or 32
    order = np.random.default_rng(drawn(None)).permutation(n) if shuffle else np.arange(n)
    starts = range(0, n, size) if steps is None else range(0, min(n, steps * size), size)
    for start in starts:
        rows = order[start : start + size]
        labels, given = taken(y, rows), taken(weight, rows)
        yield pack_x_y_sample_weight(taken(x, rows), labels, weights_for(labels, given, class_weight))

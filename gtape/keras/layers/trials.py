"""The shapes of a layer's outputs, from trial runs of the layer whose changes of state are undone.

A layer runs with several sizes for each open size (None), because a size of the output is open if it differs between
the runs. A layer that refuses zeros runs on other values, such as identity matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.escaping import plain
from gtape.errors import OpError, ResourceExhaustedError
from gtape.recording.record import refuse_in_traced_calls
from gtape.recording.undoing import undone
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import wrap

__all__ = ["Output", "outputs_of"]


class Output:
    """An output of a layer: its shape, with None for open sizes, and the name of its dtype.

    A plain class, because a tuple would be a structure of tensors.
    """

    def __init__(self, shape: tuple[int | None, ...], dtype: str) -> None:
        self.shape, self.dtype = shape, dtype


# Sizes of the batch and of the other open axes, in the order of the trials. Among the first are a small size, a larger
# size, and a size that is odd: slices, windows and strides then give different sizes. Later pairs are for layers that
# refuse the first, such as a window that is larger or sizes that must be multiples.
_SIZES = (
    (1, 24), (2, 2), (3, 7), (2, 60), (4, 12), (6, 3), (5, 48), (8, 5), (12, 4), (24, 240), (7, 1000), (32, 1),
)  # fmt: skip
_WIDE = (1000, 180, 125, 100)
_FEW = 400_000  # elements of an input on which an additional run is cheap
_MOST = 10_000_000  # elements of an input with chosen sizes


def _zeros(shape: tuple[int, ...]) -> Any:
    return np.zeros(shape)


def _identity(shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(np.eye(shape[-2], shape[-1]), shape) if len(shape) > 1 else np.ones(shape)


def _shares(shape: tuple[int, ...]) -> Any:
    return np.full(shape, 1.0 / max([*shape[-1:], 1]))


def _increasing(shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(np.arange(1.0, 1.0 + shape[-1]), shape) if shape else np.ones(shape)


def _random(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(0).uniform(0.1, 0.9, shape)


_VALUES: tuple[Callable[[tuple[int, ...]], Any], ...] = (
    _zeros, np.ones, _identity, _random, _shares, _increasing, lambda shape: -_random(shape),
)  # fmt: skip
_SAID = "zeros, ones, identity matrices, random numbers, shares of 1, increasing numbers and negative numbers"


def outputs_of(layer: Any, run: Callable[[list[Any]], Any], inputs: Sequence[Any]) -> Any:
    """The outputs of a layer, in the structure of its result.

    Parameters
    ----------
    layer : Layer
    run : callable
        Calls the layer. Takes a tensor for each input, and returns a structure of tensors.
    inputs : sequence of KerasTensor

    Raises
    ------
    Exception
        The error of the layer's first trial, if all trials raise errors.
    """
    refuse_in_traced_calls("finds the shapes of a layer's outputs")
    trials = _Trials(layer, run, inputs)
    if trials.axes:
        trials.of_open_axes()
    elif any(None in x.shape for x in inputs):
        trials.of_open_batch()
    else:
        trials.add(_SIZES[0])
    return trials.outputs()


class _Trials:
    """Trials of a layer with chosen sizes."""

    def __init__(self, layer: Any, run: Callable[[list[Any]], Any], inputs: Sequence[Any]) -> None:
        self._layer, self._run, self._inputs = layer, run, inputs
        self.axes = any(None in x.shape[1:] for x in inputs)  # whether an axis besides the batch is open
        self._kinds = list(_VALUES)
        self._error: Exception | None = None
        self._results: dict[tuple[int, int], list[Any]] = {}  # the results with their leaves, by the sizes
        self._variables = len(layer.variables)
        known = sorted({d for x in inputs for d in x.shape if d})  # open sizes may have to equal known ones
        self._sizes = [*_SIZES, *[(d, d) for d in known]]

    def of_open_batch(self) -> None:
        """Run the layer on batches of two sizes."""
        for batch in dict.fromkeys([b for b, _ in sorted(_SIZES) + self._sizes]):
            if self.are_at_most(_MOST, batch, 1) or not self._results:
                self.add((batch, 1))
            if self._found() >= 2:
                return

    def of_open_axes(self) -> None:
        """Run the layer with several sizes of the open axes."""
        for batch, size in self._sizes:
            if self.are_at_most(_MOST, batch, size) or not self._results:
                self.add((batch, size))
            if self._found() >= 3:
                break
        taken = {size for _, size in self._results}
        if len(taken) == 1:
            self._of_one_size(*taken)
            return
        wide = next((n for n in _WIDE if self.are_at_most(_FEW, 2, n)), None)
        if wide is not None:  # because a window or a stride may be larger than the other sizes
            self.add((2, wide))

    def _of_one_size(self, size: int) -> None:
        """Run a layer that takes one size of the open axes only on another batch."""
        if len(self._layer.variables) > self._variables:
            raise ValueError(
                f"{checks.owner_of(self._layer)}: weights inside of the layer '{plain(self._layer.name)}' fit only one "
                f"size of an axis whose size is None, namely {size}, at which gtape ran the layer. Give the `Input` "
                "the size of the axis"
            ) from self._error
        for batch in (2, 3):
            if (batch, size) not in self._results:
                self.add((batch, size))

    def shapes(self, batch: int, size: int) -> list[tuple[int, ...]]:
        """The shapes of the inputs for sizes of the batch and of the other open axes."""
        return [
            tuple([d if d is not None else size if i else batch for i, d in enumerate(x.shape)]) for x in self._inputs
        ]

    def are_at_most(self, most: int, batch: int, size: int) -> bool:
        """Whether no input has more elements than `most`."""
        return all(math.prod(shape) <= most for shape in self.shapes(batch, size))

    def _usable(self) -> list[list[Any]]:
        """The results that have equally many axes. Functions such as `squeeze` remove the axis of a batch of 1."""
        results = [*self._results.values()]
        if len({_ranks(leaves) for _, leaves in results}) > 1:
            results = [result for (batch, _), result in self._results.items() if batch != 1]
        return results

    def _found(self) -> int:
        """The number of results that are not empty."""
        have_none = any(0 in x.shape for x in self._inputs)
        return sum(have_none or all(y._layout.size for y in leaves) for _, leaves in self._usable())

    def add(self, sizes: tuple[int, int]) -> None:
        """Run the layer with chosen sizes, on the first values that the layer takes."""
        shapes = self.shapes(*sizes)
        for kind in [*self._kinds]:
            values = [self._value(kind, shape, x.dtype) for shape, x in zip(shapes, self._inputs, strict=True)]
            try:
                with undone():
                    result = self._run(values)
            except ResourceExhaustedError:
                raise
            except Exception as e:
                self._error = self._error or e
                continue
            self._results[sizes] = [result, nest.flatten(result)]
            self._kinds.remove(kind)
            self._kinds.insert(0, kind)  # because other sizes probably take the same values
            return

    def _value(self, kind: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...], dtype: str) -> Any:
        known = checks.dtype(self._layer, dtype)
        try:
            if known.kind == "O":
                return wrap(np.full(shape, b"", object))
            with np.errstate(all="ignore"):
                return wrap(np.array(kind(shape)).astype(known))
        except (MemoryError, ValueError):
            raise ResourceExhaustedError(f"there is no memory for a layer's input of shape {shape}") from None

    def outputs(self) -> Any:
        """The outputs, from the results of all trials."""
        if not self._results:
            raise self._explained() from None
        results = self._usable()
        if len({_ranks(leaves) for _, leaves in results}) != 1:
            raise ValueError(
                f"{checks.owner_of(self._layer)}: the number of axes of the output depends on the sizes that are None, "
                "so the output has no shape for a graph of layers"
            )
        found = [_common(same) for same in zip(*[leaves for _, leaves in results], strict=True)]
        first = results[0][0]
        return nest.pack_sequence_as(first, found) if nest.is_nested(first) else found[0]

    def _explained(self) -> Exception:
        """The error of the first trial, with a sentence about the trials."""
        error = self._error
        assert error is not None
        said = (
            f"(gtape itself ran the layer '{plain(self._layer.name)}' on trial values, because a graph of layers needs "
            f"the shape of its output. The layer refused {_SAID} of the shapes {self.shapes(*_SIZES[0])})"
        )
        kind = type(error)
        if kind in (ValueError, TypeError, RuntimeError, ArithmeticError) or isinstance(error, OpError):
            try:
                return kind(f"{error}\n{said}").with_traceback(error.__traceback__)
            except TypeError:  # a class with other arguments
                pass
        error.add_note(said)
        return error


def _ranks(leaves: Sequence[Any]) -> tuple[int, ...]:
    return tuple([y.ndim for y in leaves])


def _common(tensors: Iterable[Any]) -> Output:
    """The output whose values are tensors of several shapes."""
    listed = list(tensors)
    shapes = [y._layout.shape for y in listed]
    sizes = [set(same) for same in zip(*shapes, strict=True)]
    return Output(tuple([min(s) if len(s) == 1 else None for s in sizes]), listed[0].dtype.name)

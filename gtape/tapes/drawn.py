"""Random numbers in compiled functions.

A program takes the words that select the streams of its draws at the start of each call, when it reads variables. The
draws themselves are operations of the program.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gtape.base.layout import make_layout
from gtape.tensors.tensor import Tensor

__all__ = ["Draw", "SeedsOfPython", "go_back", "sources_of", "states"]


class Draw:
    """The words of one draw at each call. The object has the attributes by which programs read variables.

    Parameters
    ----------
    source, words
        As in `gtape.recording.record.drawn_later`.
    sample : array
        Words of an earlier draw.
    """

    __slots__ = ("_layout", "_tensor_layout", "_uid", "_words", "source")

    def __init__(self, source: Any, words: Callable[[Any], Any], sample: Any) -> None:
        self.source, self._words, self._uid = source, words, object()
        self._layout = self._tensor_layout = make_layout(sample.dtype, sample.shape)

    @property
    def _value(self) -> Any:
        return self._words(self.source)

    def _as_tensor(self) -> Tensor:
        t = Tensor()
        t._value, t._layout, t._record = self._value, self._layout, None
        return t


def sources_of(variables: Sequence[Any]) -> list[Any]:
    """The sources of random numbers among the variables that a program reads, each once."""
    return list({id(v.source): v.source for v in variables if v.__class__ is Draw}.values())


def states(sources: Sequence[Any]) -> list[Any]:
    """The states of sources of random numbers."""
    return [source.state() for source in sources]


def go_back(sources: Sequence[Any], before: Sequence[Any]) -> None:
    """Restore the states of sources, so that the call after a failed one draws the same numbers."""
    for source, state in zip(sources, before, strict=True):
        source.restore(state)


class SeedsOfPython:
    """The state of Python's and NumPy's own random numbers, from which initializers and layers take their seeds.

    A trace that is given up restores the state, because the call runs again.
    """

    def __init__(self) -> None:
        self._states = random.getstate(), np.random.get_state()  # noqa: NPY002 - the state that users seed

    def restore(self) -> None:
        python, numpy = self._states
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002

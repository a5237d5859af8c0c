"""Layers that add noise in training only. Masks and noise are constants of the recorded program."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

import gtape
from gtape.base.locks import Lock
from gtape.keras.layers.layer import TensorLayer
from gtape.ops.nn.dropout import dropped
from gtape.ops.random.draws import LaterGenerator, drawn, stream
from gtape.recording.record import is_traced, refuse_in_traced_calls
from gtape.recording.undoing import note_draw
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import wrap

__all__ = ["Dropout", "GaussianDropout", "GaussianNoise"]


class _Drawing:
    """The seed of a layer and the number of its draws, as a source of random numbers."""

    __slots__ = ("_draws", "_lock", "_seed")

    def __init__(self, seed: int, draws: int = 0) -> None:
        self._seed, self._draws, self._lock = seed, draws, Lock()

    def __reduce__(self) -> Any:
        return _Drawing, (self._seed, self._draws)

    def next(self) -> tuple[int, ...]:
        """The integers that select the stream of the next draw."""
        note_draw(self)
        with self._lock:
            self._draws += 1
            return 5, self._seed, self._draws

    def copy(self) -> _Drawing:
        """A source that draws the same numbers."""
        return _Drawing(self._seed, self._draws)

    def state(self) -> int:
        """The number of draws."""
        return self._draws

    def restore(self, state: int) -> None:
        """Restore an earlier number of draws."""
        self._draws = state


class _Noise(TensorLayer):
    def __init__(self, seed: int | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.seed = None if seed is None else checks.whole(self, "seed", seed, least=0)
        # The seed comes from Python's `random`, which gtape.keras.utils.set_random_seed sets.
        refuse_in_traced_calls("makes a variable")  # later calls would not make the generator again
        seed = random.randrange(2**31) if self.seed is None else self.seed
        self._drawing = _Drawing(seed)

    def _works(self, x: Any, training: Any) -> bool:
        """Whether to add noise."""
        if not checks.flag(self, "training", training):
            return False
        if not x._layout.inexact:
            raise ValueError(f"{type(self).__name__}: `inputs` must be floats in training, not {x.dtype.name}")
        return True

    def _normal(self, like: Any, mean: float, stddev: float) -> Any:
        shape, dtype = tuple(like.shape), like._layout.dtype
        return wrap(drawn(self._source(), lambda rng: np.asarray(rng.normal(mean, stddev, shape), dtype)))

    def _source(self) -> Any:
        """The generator, or a stand-in for it while a function is traced."""
        return LaterGenerator(self._drawing, _Drawing.next) if is_traced() else stream(*self._drawing.next())


class Dropout(_Noise):
    """Sets random entries to 0 in training and scales the others, so that the expected value is unchanged.

    Parameters
    ----------
    rate : float
        The probability of an entry to be dropped, in [0, 1].
    noise_shape : tuple of int or None, optional
        Shape of the mask, which is broadcast.
    seed : int, optional
    **common : as for `Layer`

    Raises
    ------
    ValueError
        If `rate` is outside [0, 1].

    Examples
    --------
    >>> import gtape as tf
    >>> layer = tf.keras.layers.Dropout(0.5, seed=0)
    >>> layer(tf.ones([3])).numpy()
    array([1., 1., 1.], dtype=float32)
    >>> sorted(set(layer(tf.ones([100]), training=True).numpy().tolist()))
    [0.0, 2.0]
    """

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **common: Any) -> None:
        super().__init__(seed=seed, **common)
        self.rate = checks.number(self, "rate", rate, lambda v: 0 <= v <= 1, "must be a float in [0, 1]")
        self.noise_shape = None if noise_shape is None else checks.shape(self, "noise_shape", noise_shape)

    def call(self, inputs: Any, training: Any = False) -> Any:
        x = self._taken(inputs)
        if not self._works(x, training) or self.rate == 0:
            return x
        if self.rate == 1:
            return gtape.zeros_like(x)
        return dropped(x, self.rate, self.noise_shape, self._source())


class GaussianNoise(_Noise):
    """Adds normal noise in training.

    Parameters
    ----------
    stddev : float
    seed : int, optional
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.GaussianNoise(0.5)(tf.constant([1.0]), training=False).numpy()
    array([1.], dtype=float32)
    """

    def __init__(self, stddev: float, seed: int | None = None, **common: Any) -> None:
        super().__init__(seed=seed, **common)
        self.stddev = checks.number(
            self, "stddev", stddev, lambda v: 0 <= v < math.inf, "must be a number that is not negative"
        )

    def call(self, inputs: Any, training: Any = False) -> Any:
        x = self._taken(inputs)
        return x + self._normal(x, 0.0, self.stddev) if self._works(x, training) and self.stddev else x


class GaussianDropout(_Noise):
    """Multiplies by normal noise with mean 1 and variance ``rate / (1 - rate)`` in training.

    Parameters
    ----------
    rate : float
        In [0, 1).
    seed : int, optional
    **common : as for `Layer`

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.layers.GaussianDropout(0.5)(tf.constant([1.0]), training=False).numpy()
    array([1.], dtype=float32)
    """

    def __init__(self, rate: float, seed: int | None = None, **common: Any) -> None:
        super().__init__(seed=seed, **common)
        self.rate = checks.number(self, "rate", rate, lambda v: 0 <= v < 1, "must be a float in [0, 1)")

    def call(self, inputs: Any, training: Any = False) -> Any:
        x = self._taken(inputs)
        if not self._works(x, training) or not self.rate:
            return x
        return x * self._normal(x, 1.0, math.sqrt(self.rate / (1.0 - self.rate)))

"""Generators of random numbers with a state of their own, independent of the global seed."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed_methods
from gtape.base.locks import Lock, of_variable
from gtape.base.shown import shown
from gtape.errors import InvalidArgumentError
from gtape.ops.random.draws import LaterGenerator, stream
from gtape.ops.random.samplers import binomial_from, full_range_from, normal_from, truncated_from, uniform_from
from gtape.recording.record import is_traced
from gtape.tensors.argument_checks import whole
from gtape.tensors.operands import whole_numbers
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.tensors.variable import Variable

__all__ = ["Generator", "get_global_generator", "set_global_generator"]

_PHILOX = 1  # TensorFlow's number for the algorithm, which only labels the state


def _key(value: Any) -> int:
    """The key of a generator's state."""
    return whole("Generator", "key", value, most=2**64)


class _Copy:
    """A copy of a generator's state."""

    __slots__ = ("words",)

    def __init__(self, words: Any) -> None:
        self.words = words

    def next(self) -> tuple[int, ...]:
        """The integers that select the stream of the next draw."""
        words = self.words.tolist()
        _advance(self.words, 1)
        return 4, *words


class _Words:
    """The state of a generator, in its variable, as a source of random numbers."""

    __slots__ = ("_state",)

    def __init__(self, state: Variable) -> None:
        self._state = state

    def next(self) -> tuple[int, ...]:
        """The integers that select the stream of the next draw."""
        with of_variable(self._state._uid):
            copy = self.copy()
            words = copy.next()
            self._state.assign(copy.words)
        return words

    def copy(self) -> _Copy:
        """A generator that draws the same numbers."""
        return _Copy(self.state())

    def state(self) -> Any:
        """The state of the generator."""
        return np.array(self._state._value)

    def restore(self, words: Any) -> None:
        """Restore an earlier state of the generator."""
        self._state.assign(words)


def _next_of(source: Any) -> tuple[int, ...]:
    found: tuple[int, ...] = source.next()
    return found


@diagnosed_methods
class Generator:
    """A source of random numbers with a state of its own.

    Made by `from_seed`, `from_non_deterministic_state` or `from_state`.

    Parameters
    ----------
    copy_from : Generator, optional
        The new generator has the state of this generator.
    state : 3 integers, optional
    alg : optional
        Ignored; TensorFlow has it.

    Examples
    --------
    >>> import gtape as tf
    >>> a, b = tf.random.Generator.from_seed(1), tf.random.Generator.from_seed(1)
    >>> bool(tf.reduce_all(a.normal([3]) == b.normal([3])))
    True
    >>> bool(tf.reduce_all(a.normal([3]) == a.normal([3])))
    False
    """

    def __init__(self, copy_from: Generator | None = None, state: Any = None, alg: Any = None) -> None:
        if copy_from is not None:
            if state is not None or alg is not None:
                raise ValueError("pass either copy_from or a state, not both")
            if not isinstance(copy_from, Generator):
                raise TypeError(f"Generator: copy_from must be a Generator, not {shown(copy_from)}")
            state = copy_from.state
        elif state is None:
            raise ValueError("a Generator needs a state: use Generator.from_seed or from_non_deterministic_state")
        self._state = Variable(_three(state), trainable=False, dtype=dtypes.int64, name="StateVar")
        self._words = _Words(self._state)

    def __reduce__(self) -> Any:
        return (type(self), (None, np.asarray(self.state)))

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Generator:
        """A generator whose draws repeat for the same seed."""
        return cls(state=_state_of(seed))

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """A generator with a random state from the operating system."""
        return cls(state=np.random.default_rng().integers(0, 1 << 62, 3))

    @classmethod
    def from_state(cls, state: Any, alg: Any = None) -> Generator:
        """A generator with a given state."""
        return cls(state=state)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any = None) -> Generator:
        """A generator with the given key, an integer, and counter, two integers."""
        return cls(state=[*convert_to_tensor(counter).numpy().tolist(), _key(key)])

    def reset(self, state: Any) -> None:
        """Set the state."""
        self._state.assign(_three(state))

    def reset_from_seed(self, seed: Any) -> None:
        """Set the state of `from_seed`."""
        self._state.assign(_state_of(seed))

    def reset_from_key_counter(self, key: Any, counter: Any) -> None:
        """Set the state of `from_key_counter`."""
        self.reset([*convert_to_tensor(counter).numpy().tolist(), _key(key)])

    @property
    def state(self) -> Variable:
        """The state: two words of a counter, and the key."""
        return self._state

    @property
    def key(self) -> Tensor:
        """The key in the state."""
        return wrap(self._state.numpy()[2])

    @property
    def algorithm(self) -> int:
        """The number of the algorithm."""
        return _PHILOX

    @property
    def state_size(self) -> int:
        """The number of integers in a state."""
        return 3

    def skip(self, delta: Any) -> Tensor:
        """Advance the counter by `delta`, as `delta` draws would."""
        with of_variable(self._state._uid):
            words = self._state.numpy()
            _advance(words, whole_numbers(delta, "Generator.skip", "delta").item())
            self._state.assign(words)
        return wrap(words)

    def _next(self) -> Any:
        if is_traced():
            return LaterGenerator(self._words, _next_of, [self._state])
        return stream(*self._words.next())

    def normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: Any = None
    ) -> Tensor:
        """Normally distributed numbers, see `gtape.random.normal`."""
        return normal_from(self._next(), shape, mean, stddev, dtype, "Generator.normal")

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: Any = None
    ) -> Tensor:
        """Normally distributed numbers within two standard deviations of the mean."""
        return truncated_from(self._next(), shape, mean, stddev, dtype, "Generator.truncated_normal")

    def uniform(
        self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, name: Any = None
    ) -> Tensor:
        """Uniformly distributed numbers in ``[minval, maxval)``, see `gtape.random.uniform`."""
        return uniform_from(self._next(), shape, minval, maxval, dtype, "Generator.uniform")

    def uniform_full_int(self, shape: Any, dtype: Any = dtypes.uint64, name: Any = None) -> Tensor:
        """Integers of the dtype's full range."""
        return wrap(full_range_from(self._next(), shape, dtypes.np_dtype(dtype)))

    def binomial(self, shape: Any, counts: Any, probs: Any, dtype: Any = dtypes.int32, name: Any = None) -> Tensor:
        """Numbers of successes in `counts` trials."""
        return binomial_from(self._next(), shape, counts, probs, dtype)

    def make_seeds(self, count: int = 1) -> Tensor:
        """Seeds for stateless ops, shape (2, count)."""
        return wrap(full_range_from(self._next(), [2, operator.index(count)], np.dtype(np.int64)))

    def split(self, count: int = 1) -> list[Generator]:
        """Several new generators. All are independent of each other and of this generator."""
        keys = full_range_from(self._next(), [operator.index(count)], np.dtype(np.int64))
        return [Generator(state=[0, 0, int(k)]) for k in keys]


def _state_of(seed: Any) -> Any:
    """A state, from seeds of any size or from a vector of integers."""
    words = [seed] if isinstance(seed, int) else whole_numbers(seed, "Generator", "seed").ravel().tolist()
    if len(words) == 3:
        return words
    if len(words) == 1 and -(2**63) <= words[0] < 2**63:
        return [0, 0, words[0]]
    key = int(stream(5, *words).integers(0, 1 << 62))
    return [0, 0, key]


def _three(state: Any) -> Any:
    words = np.asarray(convert_to_tensor(state, dtypes.int64).numpy() if isinstance(state, (list, tuple)) else state)
    if words.shape != (3,) or words.dtype.kind not in "iu":
        raise InvalidArgumentError(f"the state of a Generator is 3 integers, got shape {list(words.shape)}")
    return words.astype(np.int64)


def _advance(words: Any, n: int) -> None:
    mask = (1 << 64) - 1
    total = ((int(words[0]) & mask) | (int(words[1]) & mask) << 64) + n
    for i in (0, 1):
        word = total >> 64 * i & mask
        words[i] = word - (1 << 64) if word >> 63 else word


_global: list[Generator] = []
_global_lock = Lock()


def get_global_generator() -> Generator:
    """The generator that all parts of a program may share. The first call makes the generator.

    Returns
    -------
    Generator

    Examples
    --------
    >>> import gtape as tf
    >>> tf.random.get_global_generator() is tf.random.get_global_generator()
    True
    """
    with _global_lock:
        if not _global:
            _global.append(Generator.from_non_deterministic_state())
        return _global[0]


def set_global_generator(generator: Generator) -> None:
    """Set the generator that `get_global_generator` returns.

    Parameters
    ----------
    generator : Generator

    Returns
    -------
    None

    Examples
    --------
    >>> import gtape as tf
    >>> tf.random.set_global_generator(tf.random.Generator.from_seed(1))
    >>> tf.random.get_global_generator().normal([2]).shape
    TensorShape([2])
    """
    with _global_lock:
        _global[:] = [generator]

"""The source of random numbers: the global seed, the seeds of ops, and how both select a stream of bits.

The behaviour is TensorFlow's. With a global seed, the k-th call after setting the seed gives the same numbers in every
run. An op with a seed of its own repeats its own sequence of draws, which starts at the global seed or at the start of
the process. Without any seed, bits come from the operating system.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.scalars import int_of
from gtape.errors import InvalidArgumentError
from gtape.recording.record import drawn_later, is_traced, refuse_in_traced_calls
from gtape.recording.undoing import note_draw
from gtape.tensors.axes import scalar_int, static_ints
from gtape.tensors.tensor import convert_to_tensor

__all__ = [
    "LaterGenerator", "continue_streams", "drawn", "draws_freely", "generator_for", "integer_draw", "normal_draw",
    "parameters_drawn", "set_seed", "shape_of_draw", "streams", "truncated_draw", "unit_draw",
]  # fmt: skip

_DEFAULT_SEED = 87654321  # the global seed if only the op has a seed
_WORD = (1 << 64) - 1
_MOST_WORDS = 6  # that select a stream
_MOST_BROADCAST = 32  # axes that NumPy's generators can broadcast


class _Seeds:
    """The global seed, and the number of its draws since it was set."""

    def __init__(self) -> None:
        self.begin()
        self.reset(None)

    def begin(self) -> None:
        """Unlock, and take new bits from the operating system, because no two processes may have the same."""
        self.lock = threading.Lock()
        self.free = np.random.default_rng()

    def reset(self, seed: int | None) -> None:
        with self.lock:
            self.seed = seed
            self.calls = 0
            self.by_op: dict[Any, int] = {}

    def copy(self) -> _Seeds:
        """A copy that gives the same draws and leaves these seeds unchanged."""
        made = _Seeds()
        made.restore(self.state())
        return made

    def words(self, op: str, dtype: Any, seed: Any) -> tuple[int, ...]:
        """The integers that select the stream of bits for one call of an op.

        Each call has its own stream, because two threads must not use a shared generator.
        """
        note_draw(self)
        with self.lock:
            if seed is None:
                if self.seed is None:
                    return (int(self.free.integers(1 << 63)),)
                self.calls += 1
                return self.seed, 0, self.calls
            seed = int_of(seed, op, "seed")
            key = (op, np.dtype(dtype).name, seed)
            self.by_op[key] = count = self.by_op.get(key, 0) + 1
            top = _DEFAULT_SEED if self.seed is None else self.seed
        return top, 1, seed, int.from_bytes(f"{op} {key[1]}".encode()) & _WORD, count

    def state(self) -> Any:
        with self.lock:
            return self.seed, self.calls, self.by_op.copy(), self.free.bit_generator.state

    def restore(self, state: Any) -> None:
        with self.lock:
            self.seed, self.calls, by_op, self.free.bit_generator.state = state
            self.by_op = by_op.copy()


_seeds = _Seeds()
if hasattr(os, "register_at_fork"):  # forked workers would draw the same numbers
    os.register_at_fork(after_in_child=_seeds.begin)


@diagnosed
def set_seed(seed: Any) -> None:
    """Set the global seed. Later draws repeat when the same seed is set again.

    Parameters
    ----------
    seed : int
        None removes the seed.

    Examples
    --------
    >>> tf.random.set_seed(7)
    >>> first = tf.random.normal([3])
    >>> tf.random.set_seed(7)
    >>> bool(tf.reduce_all(first == tf.random.normal([3])))
    True
    """
    refuse_in_traced_calls("sets the global seed")
    _seeds.reset(None if seed is None else int_of(seed, "set_seed", "seed"))


def streams() -> Any:
    """The state of the streams of random numbers, for `continue_streams`."""
    return _seeds.state()


def draws_freely(since: Any) -> bool:
    """Whether a draw without any seed came after `streams` returned a state."""
    return bool(_seeds.state()[-1] != since[-1])


def continue_streams(state: Any) -> None:
    """Continue with the draws that came after `streams` returned a state."""
    _seeds.restore(state)


def stream(*words: int) -> np.random.Generator:
    """The generator for a sequence of integers. Equal sequences give equal numbers, others unrelated numbers."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([w & _WORD for w in words])))


class LaterGenerator:
    """Stands for a generator while a function is traced. Each call of the program draws from a new generator.

    Parameters
    ----------
    source, changed
        As in `gtape.recording.record.drawn_later`.
    words : callable
        Returns the integers that select the stream of the next draw, given the source or a copy of it.
    """

    def __init__(self, source: Any, words: Callable[[Any], tuple[int, ...]], changed: Any = ()) -> None:
        self._source, self._words, self._changed = source, words, changed
        self._used = False

    def drawn(self, draw: Callable[[np.random.Generator], Any]) -> Any:
        """The numbers that a function draws from the generator, as a value of the traced call."""
        if self._used:  # a second draw would have to continue after the first
            refuse_in_traced_calls("draws random numbers twice from one generator")
        self._used = True
        return drawn_later(self._source, self._packed, _from_words(draw), self._changed)

    def _packed(self, source: Any) -> Any:
        """The words of the next draw from a source as an array of one size, because a program's inputs have one."""
        words = [w & _WORD for w in self._words(source)]
        return np.array([len(words), *words, *[0] * (_MOST_WORDS - len(words))], np.uint64)

    def __getattr__(self, name: str) -> Any:
        refuse_in_traced_calls("draws random numbers as no program does", where=True)
        raise AttributeError(name)


def _from_words(draw: Callable[[np.random.Generator], Any]) -> Callable[[Any], Any]:
    """A function that draws from the stream of packed words."""

    def random_numbers(words: Any) -> Any:
        count, *listed = words.tolist()
        made = draw(stream(*listed[:count]))
        return made if made.flags.writeable else made.copy()  # because the program may overwrite the array

    return random_numbers


def drawn(rng: Any, draw: Callable[[np.random.Generator], Any]) -> Any:
    """The numbers that a function draws from a generator. In a traced call, the value that stands for them."""
    return rng.drawn(draw) if rng.__class__ is LaterGenerator else draw(rng)


@diagnosed
def generator_for(op: str, dtype: Any, seed: Any) -> Any:
    """The generator for one call of an op. Ops with equal seeds and different names have unrelated draws."""
    if is_traced():
        return LaterGenerator(_seeds, lambda seeds: seeds.words(op, dtype, seed))
    return stream(*_seeds.words(op, dtype, seed))


@diagnosed
def shape_of_draw(shape: Any) -> tuple[int, ...]:
    """The shape argument of a random op, checked."""
    if isinstance(shape, int) or (not isinstance(shape, np.ndarray) and getattr(shape, "shape", None) == ()):
        size = scalar_int(shape)
        raise InvalidArgumentError(f"shape must be a vector of integers, got the scalar {size}: write [{size}]")
    sizes = static_ints(shape)
    if any(d < 0 for d in sizes):
        raise InvalidArgumentError(f"shape {list(sizes)} has a negative size")
    return sizes


_WIDE: dict[Any, Any] = {np.dtype(np.float64): np.float64, np.dtype(np.float32): np.float32}


@diagnosed
def normal_draw(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Standard normal numbers."""
    return drawn(rng, lambda rng: _normal(rng, shape, dtype))


def _normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    return np.asarray(rng.standard_normal(shape, _WIDE.get(np.dtype(dtype), np.float32))).astype(dtype, copy=False)


@diagnosed
def unit_draw(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Uniform numbers in [0, 1)."""
    return drawn(rng, lambda rng: _unit(rng, shape, dtype))


def _unit(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    wide = _WIDE.get(np.dtype(dtype))
    if wide is not None:
        return np.asarray(rng.random(shape, wide))
    # More random bits than float16 has could round up to 1.
    bits = dtypes.as_dtype(dtype)
    digits = 7 if bits.name == "bfloat16" else 10
    return (rng.integers(0, 1 << digits, shape) / float(1 << digits)).astype(dtype)


@diagnosed
def truncated_draw(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Standard normal numbers within 2 of 0."""
    return drawn(rng, lambda rng: _truncated(rng, shape, dtype))


def _truncated(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    n = int(np.prod(shape, dtype=np.int64))
    kept = np.zeros(0, dtype=dtype)
    while kept.size < n:
        more = _normal(rng, (2 * (n - kept.size) + 8,), dtype)
        kept = np.concatenate([kept, more[np.abs(more) < 2]])
    return kept[:n].reshape(shape)


@diagnosed
def integer_draw(rng: Any, shape: tuple[int, ...], low: Any, high: Any, dtype: Any) -> Any:
    """Integers in [low, high)."""
    low, high = np.asarray(low), np.asarray(high)
    if low.size and high.size and np.any(low >= high):
        raise InvalidArgumentError(f"Need minval < maxval, got {low.tolist()} >= {high.tolist()}")

    def draw(rng: np.random.Generator) -> Any:
        return parameters_drawn(lambda a, b, size: rng.integers(a, b, size, dtype=dtype), shape, low, high)

    return drawn(rng, draw)


def parameters_drawn(draw: Callable[..., Any], shape: tuple[int, ...], *parameters: Any) -> Any:
    """The numbers of `draw(*parameters, size)`, as vectors if there are more axes than NumPy's generators broadcast."""
    if max(len(shape), *map(np.ndim, parameters)) <= _MOST_BROADCAST:
        return np.asarray(draw(*parameters, shape))
    rows = [np.broadcast_to(p, shape).ravel() for p in parameters]
    return np.asarray(draw(*rows, math.prod(shape))).reshape(shape)


def seed_words(seed: Any) -> tuple[int, ...]:
    """The two integers of a stateless op's seed."""
    words = convert_to_tensor(seed)
    if words._layout.shape != (2,) or words._layout.dtype.kind not in "iu":
        raise InvalidArgumentError(f"seed must be 2 integers, got {words.dtype.name}{list(words._layout.shape)}")
    return tuple(int(w) for w in words.numpy())

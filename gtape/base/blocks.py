"""`with` statements that make a recording active and end it in every case.

An interrupt may come between any two calls: in `__enter__` after the recording became active, or at the first
instruction of `__exit__`, before `__exit__` has any effect. The recording must still end. The interpreter holds the
bound `__exit__` of a `with` statement from before the call of `__enter__` until the statement ends in any way. So this
module makes a new bound `__exit__` for each statement. When a weak reference to the bound `__exit__` dies, a recording
that is still active becomes inactive. Without a `with` statement (if a program calls `tape.__enter__()` itself), the
end of the tape or accumulator has the same effect.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar

__all__ = ["Block", "Leaving", "block", "is_open"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Watch(weakref.ref[Any]):
    """A weak reference to the bound `__exit__` of one `with` statement, with the object to leave at its end."""

    __slots__ = ("held",)

    held: Any


def _over(watch: Any) -> None:
    """Leave the block of the ended statement. `held` is None if its `__exit__` has run."""
    held = watch.held
    if held is not None:
        held.leave()


class Leaving:
    """The `__exit__` of a class: a function that each `with` statement binds to the instance anew.

    The function is ``function(instance, *exc)``. The instances have an attribute `_watch`, which is None at first.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.function
        # A partial object, because its call has no Python frame. A method would stay alive as long as a kept traceback.
        bound = partial(self.function, instance)
        watch = _Watch(bound, _over)
        watch.held = None
        instance._watch = watch
        return bound


def is_open(watch: Any) -> bool:
    """Whether the `with` statement of a weak reference is still running."""
    return watch is not None and watch() is not None


class Block(ContextDecorator, Generic[_T]):
    """A context manager or decorator that runs a generator function. `block` makes it.

    Unlike a context manager of `contextlib`, the block ends even if the traceback of an interrupt is kept.
    """

    def __init__(self, make: Callable[[], Iterator[_T]]) -> None:
        self._make = make
        self._generator: Any = make()  # made here, so that wrong arguments raise an error at once
        self._watch: Any = None
        self._statement: Any = None

    def _recreate_cm(self) -> Block[_T]:
        return Block(self._make)

    def __enter__(self) -> _T:
        generator = self._generator
        try:
            self._statement, self._watch = self._watch, None
            if self._statement is not None:
                self._statement.held = self
            made: _T = next(generator)
            return made
        except StopIteration:
            raise RuntimeError("a block is entered once: call the function again for another one") from None
        except BaseException:
            generator.close()
            raise

    def leave(self) -> None:
        """Run the `finally` part of the generator."""
        self._generator.close()

    def _exit(self, *exc: Any) -> None:
        self._generator.close()
        self._statement = None

    __exit__ = Leaving(_exit)


def block(function: Callable[_P, Iterator[_T]]) -> Callable[_P, Block[_T]]:
    """Make a context manager of a generator function that yields once and cleans up in `finally`.

    The function must not catch exceptions of its block.
    """

    @wraps(function)
    def made(*args: _P.args, **kwargs: _P.kwargs) -> Block[_T]:
        return Block(partial(function, *args, **kwargs))

    return made

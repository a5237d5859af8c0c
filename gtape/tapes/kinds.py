"""The programs that a compiled function keeps, one for each kind of call, and the first calls that make variables."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from gtape.base.locks import Lock
from gtape.declare.primitives import CHANGED, Primitive

__all__ = [
    "EAGERLY", "FAILED", "GENERATION", "GUARDED", "LATER", "MOST_PROGRAMS", "OF_TWO_NAMES", "TWO_NAMES",
    "First", "FirstCalls", "Kinds", "Refusal", "TwoNames", "by_other_ways", "is_current", "note_invalid",
]  # fmt: skip

MOST_PROGRAMS = 64  # the number of programs that one function keeps, and as many for calls under a tape
_MOST_FAILURES = 3  # failed calls after which a kind of arguments is never traced again
_MOST_GUARDS = 16  # invalid calls after which a program may be given up
_MOST_WAYS = 4  # programs for one kind of arguments, which differ in decisions by values

# Stand in for a result: a decision by a value differs from the traced call; or the program raised an error; or an
# argument is a tensor that the traced call read by another name.
GUARDED: Any = object()
FAILED: Any = object()
TWO_NAMES: Any = object()
OF_TWO_NAMES = "takes as an argument a tensor that it also reads by another name"

# These reasons may not hold at a later call, because the first call makes variables, and values change.
_MAKES_VARIABLE = "makes a variable"
LATER = (
    _MAKES_VARIABLE, "divides by zero or overflows in the traced call",
    "has a gradient that is NaN in the traced call", "has a gradient that is infinite or NaN in the traced call",
)  # fmt: skip

# Holds an element while `gtape.config.run_functions_eagerly` is on, because an empty list is tested fastest.
EAGERLY: list[bool] = []


class _Generation:
    """The number of swaps of kernels so far, which programs note because they hold kernels."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def swapped(self, _: Primitive) -> None:
        """Note that all earlier programs hold an outdated kernel."""
        self.number += 1


GENERATION = _Generation()
CHANGED.append(GENERATION.swapped)


def is_current(made: Any) -> bool:
    """Whether compiled code is still valid. None is not."""
    return made is not None and made.generation == GENERATION.number and all(ref() is not None for ref in made.held)


class Refusal:
    """The note that calls of one kind run eagerly.

    Parameters
    ----------
    reason : str
    held : list of weak references
        To the objects whose identity is in the key.
    later : bool
        Whether a later call may be traced after all.
    """

    def __init__(self, reason: str, held: list[Any], *, later: bool = False) -> None:
        self.reason, self.held, self.later, self.generation = reason, held, later, GENERATION.number


class TwoNames(Exception):
    """A traced call raised an error that the eager call need not raise, because it took one tensor for two."""


# One lock for the first calls of all functions, because two functions may call each other.
_first_call = Lock()


class First:
    """The result of a first call that ran eagerly, so that the function made its variables."""

    __slots__ = ("result",)

    def __init__(self, result: Any) -> None:
        self.result = result


class FirstCalls:
    """Runs the first calls of a function, which make variables, one after another in all threads.

    Attributes
    ----------
    underway : list
        An element for each first call that runs or waits. Meanwhile the function is not traced.
    """

    __slots__ = ("underway",)

    def __init__(self) -> None:
        self.underway: list[None] = []  # which threads change without a lock

    def run(self, call: Callable[[], Any]) -> First:
        """The result of one call. The caller has counted the call in `underway`."""
        try:
            with _first_call:
                return First(call())
        finally:
            self.underway.pop()


class Kinds:
    """The programs of one function, one for each kind of call, and the refusals of other kinds.

    Parameters
    ----------
    first_calls : FirstCalls
    warn : callable
        Takes the reason of a refusal.
    warn_of_kinds : callable
        Called when a program is dropped that later calls may need.

    Attributes
    ----------
    known : OrderedDict
        Key -> program or `Refusal`, oldest first.
    warn : callable
    """

    def __init__(self, first_calls: FirstCalls, warn: Callable[[str], None], warn_of_kinds: Callable[[], None]) -> None:
        self.known: OrderedDict[Any, Any] = OrderedDict()
        self._failures: dict[Any, int] = {}
        self._lock = Lock()
        self._first_calls, self.warn, self._warn_of_kinds = first_calls, warn, warn_of_kinds

    def made(
        self, key: Any, holds: Callable[[Any], bool], make: Callable[[Any], Any], first: Callable[[], Any] | None
    ) -> Any:
        """What is known for a key, made by one thread if nothing is known that holds.

        Parameters
        ----------
        key : hashable
        holds : callable
            Takes what is known, or None. Whether it holds for this call.
        make : callable
            Takes what is known, or None. Returns a program, a `Refusal`, or None if this call runs eagerly. A refusal
            with `later` counts only after some calls.
        first : callable or None
            Makes the call itself if it makes variables. Without it such a call runs eagerly, too.

        Returns
        -------
        program, Refusal, First, or None if this call runs eagerly
        """
        made = None
        with self._lock:
            found = self.known.get(key)
            if holds(found):
                return found
            makes_variable = first is not None and bool(self._first_calls.underway)
            if not makes_variable:
                made = make(found)
                if made.__class__ is Refusal and made.later and self._is_early(key):
                    makes_variable = first is not None and made.reason == _MAKES_VARIABLE
                    made = None
            if makes_variable:
                self._first_calls.underway.append(None)
            dropped = made is not None and self._keep(key, made)
        if dropped:
            self._warn_of_kinds()
        return self._first_calls.run(first) if makes_variable and first is not None else made

    def _is_early(self, key: Any) -> bool:
        """Count a failure of a kind of call. Whether it is among the first ones."""
        self._failures[key] = failed = self._failures.get(key, 0) + 1
        return failed < _MOST_FAILURES

    def _keep(self, key: Any, made: Any) -> bool:
        """Keep a program or a refusal. Whether a program was dropped for it."""
        if made.__class__ is Refusal:
            self.warn(made.reason)
        self._failures.pop(key, None)
        self.known[key] = made
        return _drop_oldest(self.known)

    def refuse(self, key: Any, reason: str, found: Any) -> None:
        """Keep a refusal in place of a program, without a warning."""
        with self._lock:
            self.known[key] = Refusal(reason, found.held)


def _drop_oldest(known: OrderedDict[Any, Any]) -> bool:
    """Drop the programs of dead arguments, which keep variables alive, and programs beyond a bound.

    The oldest one is dropped that ran no call since its turn came last (the clock algorithm of page replacement), but
    not the newest.

    Returns
    -------
    bool
        Whether a program was dropped that later calls may need.
    """
    for key in [key for key, made in known.items() if any([ref() is None for ref in made.held])]:  # noqa: C419
        del known[key]
    dropped = False
    newest = next(reversed(known.values()), None)
    while len(known) > MOST_PROGRAMS:
        key, made = next(iter(known.items()))
        calls = getattr(made, "calls", 0)
        if made is newest:
            known.move_to_end(key)
        elif calls > getattr(made, "calls_before", 0):
            made.calls_before = calls
            known.move_to_end(key)
        else:
            del known[key]
            dropped = True
    return dropped


def by_other_ways(key: Any, find: Callable[[Any], Any], run: Callable[[Any], Any]) -> Any:
    """The result of the first program that makes the decisions of this call, after another program was GUARDED.

    Parameters
    ----------
    key : hashable
        The key of the program that was GUARDED.
    find : callable
        Returns the program for a key, after compiling it if necessary; None without a program.
    run : callable
        Runs a program, or returns GUARDED if the program is not valid.
    """
    for k in range(1, _MOST_WAYS):
        other = find((GUARDED, k, key))
        made = GUARDED if other is None else run(other)
        if other is None or made is not GUARDED:
            return made
    return GUARDED


def note_invalid(found: Any) -> bool:
    """Note a call for which a program was not valid. True if most calls are invalid and the program is given up."""
    found.failures += 1
    return bool(found.failures > _MOST_GUARDS and 2 * found.failures > found.calls)

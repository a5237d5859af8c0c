"""The programs that a compiled function keeps, one for each kind of call, and the first calls that make variables."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gtape.base.locks import Lock
from gtape.declare.primitives import CHANGED, Primitive
from gtape.tapes.program import fault
from gtape.tapes.traced_values import Guard, OtherLayout, OtherOrder

__all__ = [
    "DEEP", "EAGERLY", "GENERATION", "LATER", "MOST_PROGRAMS", "OF_TWO_NAMES", "TWO_NAMES",
    "First", "FirstCalls", "Invalid", "Kinds", "Refusal", "TooDeep", "TwoNames", "by_other_ways", "invalid_by",
    "is_current", "note_invalid",
]  # fmt: skip

MOST_PROGRAMS = 64  # the number of programs that one function keeps, and as many for calls under a tape
_MOST_FAILURES = 3  # failed calls after which a kind of arguments is never traced again
_MOST_GUARDS = 16  # invalid calls after which a program may be given up
_MOST_WAYS = 4  # programs for one kind of arguments, which differ in decisions by values


class Invalid:
    """Stands in for a result: a program is not valid for this call.

    Parameters
    ----------
    reason : str
    others : bool
        Whether a program for other decisions may be valid.
    wasteful : bool
        Whether a program that is often invalid for this reason is given up. The others are kept, because they find out
        before they compute anything, or compute less than the eager call, and values may change.
    """

    __slots__ = ("others", "reason", "wasteful")

    def __init__(self, reason: str, *, others: bool = False, wasteful: bool = False) -> None:
        self.reason, self.others, self.wasteful = reason, others, wasteful

    def reason_of(self, found: Any) -> str:
        """The reason, with the places where the traced call of a program decided by values."""
        return self.reason + (found.decided_at if self is _BY_VALUES else "")


_BY_VALUES = Invalid("what it does depends on the values of tensors", others=True, wasteful=True)
_REORDERED = Invalid("its arguments lie in memory in many orders", others=True)
_RESHAPED = Invalid("its variables change their shapes", others=True)
_OF_NUMBERS = Invalid("the arithmetic of Python's numbers raises errors for its values")
_TOO_LARGE = Invalid("its program needs more memory or deeper calls than there are")

# Stands in for a result: an argument is a tensor that the traced call read by another name.
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


class _Deep(threading.local):
    """Whether this thread runs an eager call because the traced call recursed too deeply.

    Compiled functions inside of this call run eagerly, too. Otherwise each of them would be traced as deeply again, and
    the time would grow as the square of the depth.
    """

    underway = False


DEEP = _Deep()


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
    pending : bool
        Whether the traced call raised an error. The refusal then counts only after the eager call raised none, because
        an error of the user's call says nothing about other calls; see `Kinds.note`.
    deep : bool
        Whether the traced call recursed too deeply.
    """

    def __init__(
        self, reason: str, held: list[Any], *, later: bool = False, pending: bool = False, deep: bool = False
    ) -> None:
        self.reason, self.held, self.later, self.pending, self.deep = reason, held, later, pending, deep
        self.generation = GENERATION.number


class TooDeep(Exception):
    """A traced call recursed too deeply."""


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
            with `later` counts only after some calls, and one with `pending` is returned, but not kept.
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
                if made.__class__ is Refusal and made.pending:
                    return made
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

    def eagerly(self, function: Callable[..., Any], args: Any, kwargs: Any, refusals: Sequence[tuple[Any, Any]]) -> Any:
        """The result of an eager call. Counts pending refusals if the call raises no error."""
        before = DEEP.underway
        try:
            DEEP.underway = before or any([made.__class__ is Refusal and made.deep for _, made in refusals])  # noqa: C419
            made = function(*args, **kwargs)
        finally:
            DEEP.underway = before
        self.note(refusals)
        return made

    def note(self, found: Iterable[tuple[Any, Any]]) -> None:
        """Count the pending refusals among pairs of a key and what was made for the key.

        Called after the eager call raised no error. A refusal is kept after some such calls.
        """
        dropped = False
        for key, made in found:
            if made.__class__ is Refusal and made.pending:
                with self._lock:
                    if not self._is_early(key):
                        made.pending = False
                        dropped = self._keep(key, made) or dropped
        if dropped:
            self._warn_of_kinds()

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


def by_other_ways(key: Any, made: Invalid, find: Callable[[Any], Any], run: Callable[[Any], Any]) -> Any:
    """The result of the first program that makes the decisions of this call.

    Parameters
    ----------
    key : hashable
        The key of the program that was not valid.
    made : Invalid
        What stands in for the result of this program, and is returned if no other program is valid.
    find : callable
        Returns the program for a key, after compiling it if necessary; None without a program.
    run : callable
        Runs a program, or returns an `Invalid` if the program is not valid.
    """
    for k in range(1, _MOST_WAYS if made.others else 1):
        other = find((Invalid, k, key))
        if other is None:
            return made
        found = run(other)
        if found.__class__ is not Invalid or not found.others:
            return found
    return made


def invalid_by(error: Exception) -> Invalid:
    """What stands in for the result of a program that raised an error."""
    if isinstance(error, Guard):
        kind = error.__class__
        return _REORDERED if kind is OtherOrder else _RESHAPED if kind is OtherLayout else _BY_VALUES
    if isinstance(error, (ArithmeticError, ValueError)):
        return _OF_NUMBERS
    if isinstance(error, (MemoryError, RecursionError)):
        return _TOO_LARGE
    return Invalid(f"its program raises an error that the eager call does not raise, {fault(error)}", wasteful=True)


def note_invalid(found: Any, made: Invalid) -> bool:
    """Note a call for which a program was not valid. True if most calls so far were invalid, once for each program.

    For wasteful reasons only the calls with such reasons count, because the program is then given up.
    """
    found.failures += 1
    found.wasted += made.wasteful
    count = found.wasted if made.wasteful else found.failures
    if count <= _MOST_GUARDS or 2 * count <= found.calls or (found.noted and not made.wasteful):
        return False
    found.noted = True
    return True

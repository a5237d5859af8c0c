"""Runs of the user's code whose changes of state are undone.

Inside such a run each change of state is noted before it happens: assignments of variables, draws of random numbers,
losses of layers. There are two kinds of runs:

- A trial comes before the first run, because only the shapes of its results count. Variables that the trial makes stay,
  and so do the draws of their first values.
- A repeat comes after a run that counted, because a check needs the numbers once more. Nothing of a repeat stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gtape.recording.record import off

__all__ = ["keep_draws", "note_change", "note_draw", "repeating", "staying", "trial", "undone"]


class _Changes:
    """The states from before the first change, with the functions that restore them.

    Parameters
    ----------
    keeps_variables : bool
        Whether new variables stay.
    """

    def __init__(self, *, keeps_variables: bool) -> None:
        self.keeps_variables = keeps_variables
        # By identity. An entry keeps its object, so that no other object gets the identity.
        self.values: dict[int, tuple[Any, Callable[[Any], None], Any]] = {}
        self.draws: dict[int, tuple[Any, Callable[[Any], None], Any]] = {}

    def undo(self) -> None:
        for _, restore, state in (*self.values.values(), *self.draws.values()):
            restore(state)


_trial: ContextVar[_Changes | None] = ContextVar("gtape_trial", default=None)

# The changes noted in the present trial or repeat, None outside of both. Assignments ask it before they call
# `note_change`.
trial = _trial.get


@contextmanager
def undone() -> Iterator[None]:
    """Undo at the end of a trial all noted changes, also after an error. Tapes outside of the block record nothing."""
    with _noted(_Changes(keeps_variables=True)):
        yield


@contextmanager
def repeating() -> Iterator[None]:
    """As `undone`, for a repeat of code that ran before: also the draws of new variables are undone."""
    with _noted(_Changes(keeps_variables=False)):
        yield


@contextmanager
def _noted(changes: _Changes) -> Iterator[None]:
    token = _trial.set(changes)
    try:
        # With a probe, no compiled program runs, because its assignments are not noted.
        with off((), probe={}):
            yield
    finally:
        _trial.reset(token)
        changes.undo()


@contextmanager
def staying() -> Iterator[None]:
    """Let the changes of a block stay, because the block makes variables.

    Its draws continue from the state before the trial, as they would without a trial.
    """
    changes = _trial.get()
    if changes is None or not changes.keeps_variables:
        yield
        return
    for _, restore, state in changes.draws.values():
        restore(state)
    changes.draws.clear()
    token = _trial.set(None)
    try:
        yield
    finally:
        _trial.reset(token)


def note_change(thing: Any, restore: Callable[[Any], None], state: Callable[[], Any]) -> None:
    """Note an object that is about to change.

    Parameters
    ----------
    thing : object
    restore : callable
        Restores a state.
    state : callable
        Returns the state.
    """
    changes = _trial.get()
    if changes is not None and id(thing) not in changes.values:
        changes.values[id(thing)] = thing, restore, state()


def note_draw(source: Any) -> None:
    """Note a source of random numbers, with the methods `state` and `restore`, that is about to draw."""
    changes = _trial.get()
    if changes is not None and id(source) not in changes.draws:
        changes.draws[id(source)] = source, source.restore, source.state()


def keep_draws() -> None:
    """Let the draws so far stay, because a variable may begin with them, and two variables may not share draws."""
    changes = _trial.get()
    if changes is not None and changes.keeps_variables:
        changes.draws.clear()

"""Programs: traced calls as functions of raw values, made by one of two back ends.

With llvmlite a program is a `gtape.tapes.table.Table` if a table is faster, otherwise a
`gtape.tapes.python_source.PythonSource`. Both give the same bits as the eager call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from gtape.base.collector import collector_paused
from gtape.declare.primitives import CHANGED, Primitive
from gtape.tapes import inner_loops
from gtape.tapes.python_source import PythonSource
from gtape.tapes.rewriting import forget_values, needed, shared
from gtape.tapes.table import Table
from gtape.tapes.traced_values import Node

__all__ = [
    "FAILED",
    "GENERATION",
    "GUARDED",
    "MOST_FAILURES",
    "MOST_PROGRAMS",
    "Program",
    "by_other_ways",
    "drop_oldest",
    "is_current",
    "note_invalid",
]

MOST_FAILURES = 3  # failed calls after which a kind of arguments is never traced again
MOST_PROGRAMS = 64  # the number of programs that one function keeps, and as many for calls under a tape
_MOST_DOUBTS = 64  # runs with a doubt after which a program leaves the table
_MOST_GUARDS = 16  # invalid calls after which a program may be given up
_MOST_WAYS = 4  # programs for one kind of arguments, which differ in decisions by values

# Stand in for a result: a decision by a value differs from the traced call; or the program raised an error.
GUARDED: Any = object()
FAILED: Any = object()


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


def drop_oldest(known: OrderedDict[Any, Any], most: int) -> bool:
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
    while len(known) > most:
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


class Program:
    """One traced call as a function of raw values.

    Parameters
    ----------
    inputs : list of Node
    nodes : list of Node
        Every node comes after the nodes that it reads.
    outputs : list of Node
    name : str
    again : bool
        Whether another program was made of the same nodes before.

    Attributes
    ----------
    source : str
        The Python source.
    run : callable
        Takes the raw inputs, returns the tuple of raw outputs. Raises `Guard` if the program is not valid.
    traced, kept : int
        The number of operations in the traced call and in the program.
    """

    def __init__(
        self, inputs: list[Node], nodes: list[Node], outputs: list[Node], name: str, *, again: bool = False
    ) -> None:
        with collector_paused():
            self._make(inputs, nodes, outputs, name, again)

    def _make(self, inputs: list[Node], nodes: list[Node], outputs: list[Node], name: str, again: bool) -> None:
        self.traced = len(nodes)
        nodes, outputs = shared(nodes, outputs, again=again)
        nodes = needed(nodes, outputs)
        self.kept = len(nodes)
        self.doubts = 0
        self._lines: PythonSource | None = None
        machine = inner_loops.machine()
        table = None if machine is None else Table(machine, inputs, nodes, outputs, name)
        if table is None or table.run is None:
            self._table = None
            self._given: Any = None
            self.run: Callable[..., tuple[Any, ...]] = self._python_source(inputs, nodes, outputs, name).run
            return
        self._table = table
        forget_values([*inputs, *nodes])
        self._given = (inputs, nodes, outputs, name)
        self.run = table.run

    def _python_source(self, *given: Any) -> PythonSource:
        made = self._lines
        if made is None:
            made = self._lines = PythonSource(*(given or self._given))
            self._given = None
        return made

    def again(self, raws: Sequence[Any]) -> tuple[Any, ...]:
        """The raw outputs, computed without the table after the table met a doubtful value."""
        source = self._python_source()
        made = source.run(*raws)  # may raise `Guard`, which is no doubt
        self.doubts += 1
        if self.doubts == _MOST_DOUBTS:
            self.run = source.run
        return made

    @property
    def source(self) -> str:
        """The Python source."""
        return (self._lines if self._table is None else self._table).source  # type: ignore[union-attr]

    def summary(self) -> str:
        """Text with the number of calls of one run and the memory that the program holds."""
        made: Any = self._lines if self._table is None else self._table
        text = f"{made.calls} calls, {made.buffers} buffers, {made.nbytes} bytes"
        if self._table is None:
            return text
        left = sorted(self._table.left.items(), key=lambda item: (-item[1], item[0]))
        text = f"{self._table.rows} rows in {self._table.walks} walks, {text}"
        if left:
            text += " (not in the table: " + ", ".join([f"{n} {word}" for word, n in left]) + ")"
        return text + (f", {self.doubts} runs without the table" if self.doubts else "")

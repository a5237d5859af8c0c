"""The values of the sources that the targets of a derivative read, in the order in which the sources took them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gtape.recording.record import SEQ
from gtape.recording.trace import assignments_made
from gtape.symbolic.build import build
from gtape.symbolic.program import Program

__all__ = ["Reads", "reached"]


class Reads:
    """The values of the sources that the targets read on a path that the tape follows.

    A variable may take new values in the block. If the targets read one value of each source, the gradient is the
    derivative by this value. If they read several values, the tape returns the sum of the derivatives by all of them.

    Parameters
    ----------
    session : Session
    sources, targets : lists of tensors or variables
    stops : frozenset of int
        As for `Program.stops`.

    The methods take a source as the sequence number of its record.
    """

    def __init__(
        self, session: Any, sources: list[Any], targets: list[Any], stops: frozenset[int] = frozenset()
    ) -> None:
        self._places: dict[int, int] = {}
        made = assignments_made(session)
        for place, assignment in enumerate(made):
            self._places.setdefault(id(assignment.state[0]), place)
        self._now = len(made)
        program = build([(t._record, t._value) for t in targets], sources, session)
        program.stops = stops
        known = reached(program, program.outputs)
        self._ends: dict[int, tuple[int, int]] = {}  # of a source, the places of the first and the last value
        for source, nodes in zip(sources, program.sources, strict=True):
            places = [self._place(program.nodes[i].output) for i in nodes if i in known]
            if places:
                self._ends[source._record[SEQ]] = min(places), max(places)
        self._read = {id(program.nodes[i].output) for nodes in program.sources for i in nodes if i in known}

    def __bool__(self) -> bool:
        """Whether the targets read several values of one source."""
        return any(first != last for first, last in self._ends.values())

    def _place(self, value: Any) -> int:
        """The place of a value in the order of assignments. The values at the end were not replaced."""
        return self._places.get(id(value), self._now)

    def is_read(self, value: Any) -> bool:
        """Whether a value is one that the targets read."""
        return id(value) in self._read

    def is_earlier(self, source: int, value: Any) -> bool:
        """Whether a source took a value before the first one that the targets read."""
        ends = self._ends.get(source)
        return ends is not None and self._place(value) < ends[0]

    def is_later(self, source: int, value: Any) -> bool:
        """Whether a source took a value after the first one that the targets read."""
        ends = self._ends.get(source)
        return ends is not None and self._place(value) > ends[0]

    def is_last(self, source: int, value: Any) -> bool:
        """Whether a value is the last one of a source that the targets read."""
        ends = self._ends.get(source)
        return ends is None or self._place(value) == ends[1]


def reached(program: Program, starts: Iterable[int]) -> set[int]:
    """The nodes to which some nodes have a path that the program's tape follows, with these nodes."""
    blocked = program.blocked(program.session)
    found: set[int] = set()
    pending = list(starts)
    while pending:
        i = pending.pop()
        if i not in found:
            found.add(i)
            node, closed = program.nodes[i], blocked.get(i, ())
            pending += [node.inputs[a] for a in node.active if a not in closed]
            pending += node.body
    return found

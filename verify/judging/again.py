"""Runs a function once more, at any point, as it ran when it was recorded.

Variables and gtape's random streams start in the state of the recorded run, and get their present state back at the
end. Only the calls of `Again.later` start in the state after the recorded run, as the user's next calls would.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gtape import nest
from gtape.ops.random.draws import continue_streams, draws_freely, streams
from gtape.recording.trace import (
    Conversion,
    assignments_made,
    conversions_made,
    floats_in,
    has_long_numbers,
    stops_made,
)
from gtape.recording.undoing import repeating
from gtape.symbolic.build import build
from gtape.symbolic.program import Node, Program
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.verify.judging.recording import Recording, TracingTape

__all__ = ["Again", "Ran"]


class Ran(NamedTuple):
    """A run of a function.

    Attributes
    ----------
    tape : TracingTape
        It keeps the records of the tensors.
    inputs, outputs : lists of tensors
    """

    tape: TracingTape
    inputs: list[Tensor]
    outputs: list[Tensor]

    def program(self) -> Program:
        """The program of the run."""
        return build([(t._record, t._value) for t in self.outputs], self.inputs)


_LATER = 8  # calls after the recorded run, because few draws, such as those of a dropout, may be equal by chance


class Again:
    """A recorded function that can run again; the caller stops the tapes."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._before: dict[int, Any] = {}
        for made in assignments_made(recording.tape._session):
            self._before.setdefault(id(made.variable), (made.variable, made.state))
        self._draws = streams() != recording.streams  # otherwise other threads may draw from them

    def __call__(self, point: list[Any]) -> list[Any] | None:
        """The floating-point outputs at a point; None if the function raises or returns something else."""
        return self._outputs(self._run([convert_to_tensor(x) for x in point]))

    def later(self, point: list[Any], *, seeded: bool) -> list[list[Any] | None]:
        """The outputs of calls that follow the recorded run, each in the state that the one before left.

        Empty if the recorded run changed no state, or, without `seeded`, only the state of seeded streams. The changes
        of state are undone.
        """
        draws = self._draws if seeded else draws_freely(self.recording.streams)
        if not (draws or self._before):
            return []
        with repeating():
            return [self._outputs(self._made([convert_to_tensor(x) for x in point])) for _ in range(_LATER)]

    def _outputs(self, made: list[Any] | None) -> list[Any] | None:
        """The floating-point outputs of a run; None if they do not fit those of the recorded run."""
        if made is None:
            return None
        outputs = self.recording.outputs
        kept = [np.asarray(t._value) for t in made if isinstance(t, Tensor) and t._layout.inexact]
        fits = len(kept) == len(outputs) and all(v.shape == t._layout.shape for v, t in zip(kept, outputs, strict=True))
        return kept if fits else None

    def recorded(self, point: list[Any]) -> Program | None:
        """The program of a run at a point; None if the function raises or returns something else."""
        ran = self.ran(point)
        return None if ran is None else ran.program()

    def ran(self, point: list[Any]) -> Ran | None:
        """The tensors of a run at a point; None if the function raises or returns something else.

        Values that left the recorded run through `gtape.stop_gradient` are held, because they are constants on purpose.
        """
        tape, inputs, made = self._taped(point)
        if made is None:
            return None
        kept = [t for t in made if isinstance(t, Tensor) and t._layout.inexact]
        if [t._layout.shape for t in kept] != [t._layout.shape for t in self.recording.outputs]:
            return None
        return Ran(tape, inputs, kept)

    def _taped(self, point: list[Any]) -> tuple[Any, list[Tensor], list[Any] | None]:
        """The tape of a run at a point, with its inputs and outputs; None for the outputs if the function raises."""
        with TracingTape(persistent=True) as tape:
            session: Any = tape._session
            session.held = self._held
            inputs = [convert_to_tensor(x) for x in point]
            tape.watch(inputs)
            return tape, inputs, self._run(inputs)

    @cached_property
    def _repeated(self) -> Counter[Any]:
        """The lines of the conversions of a second run at the recorded point, with their numbers."""
        tape, _, _ = self._taped([np.asarray(t._value) for t in self.recording.inputs])
        return Counter(c.line for c in conversions_made(tape._session))

    def repeats(self, c: Conversion) -> bool:
        """Whether a second call converts a value in the same place, as a function without a memory does."""
        made = Counter(d.line for d in conversions_made(self.recording.tape._session))
        return self._repeated[c.line] >= made[c.line]

    @cached_property
    def _held(self) -> dict[int, Any]:
        """The values that left the recorded run through `gtape.stop_gradient` alone, by the place of the conversion."""
        session = self.recording.tape._session
        made = conversions_made(session) if stops_made(session) else []
        return {k: c.value for k, c in enumerate(made) if self.is_stopped(c)}

    def is_stopped(self, c: Conversion) -> bool:
        """Whether each path from a converted value to the sources ends at `gtape.stop_gradient`.

        Other ends are short numbers, as people write them, because a long number may have left on another path.
        """
        program = build([(c.record, c.value)], self.recording.inputs)
        pending, seen, stops = list(program.outputs), set[int](), False
        while pending:
            node = program.nodes[pending.pop()]
            if node.index in seen:
                continue
            seen.add(node.index)
            if node.kind == "op" and "stop" in node.prim.roles:
                stops = True
                continue
            if node.kind == "leaf" or any(map(has_long_numbers, _numbers_in(node))):
                return False
            pending += [*node.inputs, *node.body]
        return stops

    def kept(self, program: Program) -> Node | None:
        """An op of the recorded call whose result the function uses again in a new run; None without such an op.

        Parameters
        ----------
        program : Program
            As recorded.
        """
        with TracingTape(persistent=True) as tape:
            point = [wrap(t._value) for t in self.recording.inputs]
            tape.watch(point)
            made = self._run(point) or []
        again = build([(t._record, t._value) for t in made if isinstance(t, Tensor)], point)
        known = {n.seq for n in again.nodes if n.kind != "const"}
        return next((n for n in program.nodes if n.kind == "op" and n.seq in known), None)

    def _run(self, point: list[Any]) -> list[Any] | None:
        """Run the function; None if it raises."""
        after = [(v, v._state()) for v, _ in self._before.values()]
        stand = streams() if self._draws else None
        try:
            self._rewind(list(self._before.values()), self.recording.streams)
            return self._made(point)
        finally:
            self._rewind(after, stand)

    def _made(self, point: list[Any]) -> list[Any] | None:
        """What the function returns in the present state; None if it raises."""
        try:
            return nest.flatten(self.recording.function(*point))
        except Exception:  # the function of a user may raise anything
            return None

    def _rewind(self, states: list[Any], stand: Any) -> None:
        for variable, state in states:
            variable._restore(state)
        if self._draws:
            continue_streams(stand)


def _numbers_in(node: Node) -> list[Any]:
    """The floating numbers of a node that no op computed."""
    found = [node.output] if node.kind == "const" else floats_in(node.params)
    return [v for v in map(np.asarray, found) if v.dtype.kind in "fc"]

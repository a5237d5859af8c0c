"""Runs a function once more, at any point, as it ran when it was recorded.

Variables and gtape's random streams start in the state of the recorded run, and get their present state back at the
end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import nest
from gtape.ops.random.draws import continue_streams, streams
from gtape.recording.trace import assignments_made
from gtape.symbolic.build import build
from gtape.symbolic.program import Node, Program
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.verify.judging.recording import Recording, TracingTape

__all__ = ["Again"]


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
        made = self._run([convert_to_tensor(x) for x in point])
        if made is None:
            return None
        outputs = self.recording.outputs
        kept = [np.asarray(t._value) for t in made if isinstance(t, Tensor) and t._layout.inexact]
        fits = len(kept) == len(outputs) and all(v.shape == t._layout.shape for v, t in zip(kept, outputs, strict=True))
        return kept if fits else None

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
            return nest.flatten(self.recording.function(*point))
        except Exception:
            return None
        finally:
            self._rewind(after, stand)

    def _rewind(self, states: list[Any], stand: Any) -> None:
        for variable, state in states:
            variable._restore(state)
        if self._draws:
            continue_streams(stand)

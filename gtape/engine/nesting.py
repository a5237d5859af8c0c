"""How tapes and accumulators that follow one tensor are nested.

In forward over reverse mode no tape of the user's records how a cotangent depends on an output of its op. A rule that
needs this dependence (see `gtape.engine.slopes`) lets the accumulator open a session that records it.
"""

from __future__ import annotations

from typing import Any

from gtape.recording import record
from gtape.recording.record import COT, LEAF, SEQ, STEP, TAPES, Session, Stack, TapeSet, get_stack
from gtape.tensors.tensor import Tensor

__all__ = ["Nesting", "follows_slopes"]


class Nesting:
    """How tapes and accumulators follow a tensor that forward mode moves.

    Attributes
    ----------
    outside : bool
        Whether tapes or accumulators around an accumulator follow the tensor, and so differentiate its tangents.
    inside : bool
        Whether other tapes follow the tensor, whose gradients the accumulators then move.
    """

    __slots__ = ("_accumulator", "_stack", "_x", "inside", "outside")

    def __init__(self, stack: Stack, x: Tensor) -> None:
        self._stack, self._x = stack, x
        assert x._record is not None
        followers = [s for s in stack.sessions if s in x._record[TAPES].sessions and not s.of_slopes]
        accumulators = [s for s in followers if s.forward is not None]
        around = {s for a in accumulators for s in a.forward.outer}
        self._accumulator = accumulators[0]
        self.outside = any(s in around for s in followers)
        self.inside = any(s.forward is None and s not in around for s in followers)

    def follow_slopes(self) -> bool:
        """Let a session of the accumulator record all that follows from the tensor, for `slope`; False if none can."""
        stack, push = self._stack, self._accumulator.forward
        if stack is not get_stack() or record.is_traced():
            return False
        with record.sharing.now:
            return self._follow_slopes(push)

    def _follow_slopes(self, push: Any) -> bool:
        session = push.slopes
        if session is None:
            session = push.slopes = Session()
            session.of_slopes, session.watch_accessed = True, False
            record.enter(session)
        if session not in get_stack().sessions:
            return False
        r = self._x._record
        assert r is not None
        if session in r[TAPES].sessions:
            return True
        if r[STEP] is None:
            r[COT] = LEAF
        else:  # a result of another tape, which still needs the record
            session.stops |= {r[SEQ]}
        for other in (session, *r[TAPES].sessions):
            other.shared = True
        r[TAPES] = TapeSet((*[s for s in r[TAPES].sessions if s.live], session))
        return True


def follows_slopes(x: Any) -> bool:
    """Whether a session that `Nesting.follow_slopes` opened follows a tensor now."""
    r = x._record if isinstance(x, Tensor) else None
    return r is not None and any(s.of_slopes and s in r[TAPES].sessions for s in get_stack().sessions)

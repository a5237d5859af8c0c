"""What one recorded op keeps, which tapes keep it, and the stack of active tapes.

A record is a plain list, because nothing else in Python is both mutable and as cheap to make (a slotted object costs
twice as much, and recording is the hot path). Its fields, in order:

====== ========= ==========================================================================================
index  name      what it holds
====== ========= ==========================================================================================
0      SEQ       minus a running number, unique: the newest record is the smallest, as ``heapq`` wants it
1      COT       the cotangent that a running sweep has gathered so far (None otherwise; LEAF in a leaf, which
                 sweeps of several threads may share, so that theirs is kept elsewhere)
2      STEP      ``step(g, ins, out)`` -> cotangents of the parents: a step, or a function that has its step as an
                 attribute, see `step_of`; None for a leaf
3      PARENTS   the one parent record, or a tuple of records aligned with ``STEP.active``; of a generated function's
                 two the first alone; `parents_of` makes them alike
4      INS       the tensors that the rule reads: None, one, or a tuple with None where it does not read; `inputs_of`
                 makes them all alike
5      OUT       the raw output, if the rule reads it. For a binary op of a generated function whose rule reads both
                 inputs but not the output: the second input (a tuple would cost the collector as much as a record)
6      TAPES     the set of recording sessions that hold this record
7      OTHER     the second of those two parents, or None
8      TRACE     what only a check needs: all inputs, the output, the user's source line (None unless asked for)
9      TANGENTS  forward mode: {session: tangent}, or None
====== ========= ==========================================================================================

Records without a check and forward mode stop after OTHER. A record hangs from the tensors that it made and from the
records of their consumers, so dead work is freed at once and without the collector.
"""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable
from contextvars import Context, ContextVar, copy_context
from types import FunctionType
from typing import Any

import numpy as np

from gtape.base.blocks import Leaving
from gtape.base.locks import sharing

__all__ = [
    "ANCHOR",
    "COT",
    "INS",
    "LEAF",
    "NO_TAPES",
    "OTHER",
    "OUT",
    "PARENTS",
    "SEQ",
    "STEP",
    "TANGENTS",
    "TAPES",
    "TRACE",
    "Session",
    "Stack",
    "TapeSet",
    "active",
    "adopt_thread",
    "clear_below",
    "close",
    "count",
    "directly",
    "empty",
    "enter",
    "for_a_check_alone",
    "forget_parents",
    "get_stack",
    "idle_stack",
    "leaf",
    "leave",
    "off",
    "parents_of",
    "peek",
    "record_of",
    "restore_stack",
    "set_stack",
    "sharing",
    "should_track",
    "step_of",
]  # fmt: skip

SEQ, COT, STEP, PARENTS, INS, OUT, TAPES, OTHER, TRACE, TANGENTS = range(10)

Record = list[Any]


class _Leaf:
    __slots__ = ()

    def __repr__(self) -> str:
        return "LEAF"


LEAF = _Leaf()
# Stands where an output would in the leaves that a check makes of constants.
ANCHOR = object()

# Counts down: a plain min-heap of records then yields the newest first.
count = itertools.count(0, -1)


class TapeSet:
    """An immutable set of sessions; the recording path compares it by identity first."""

    __slots__ = ("__weakref__", "sessions")

    def __init__(self, sessions: Iterable[Session] = ()) -> None:
        self.sessions = frozenset(sessions)


NO_TAPES = TapeSet()
_NEVER = TapeSet()  # equal to no record's set: sends the fast path of every op to `record_one`


class Session:
    """One recording of one tape, from its first op to its use, reset or death.

    A tape that is reset or used up starts another session, so whatever it held before is a constant afterwards.
    """

    # Defaults stand on the class: a tape makes a session in every training step.
    live = True
    trace = False
    forward: Any = None
    # Whether every result is tracked, so that the session's end frees all that hangs from them.
    exact = False
    # Whether it does so only because results outlived recent sessions.
    tracks_for_now = False
    # `shared`: another session may hold some of these records. `selects`: a selecting op (where, max, gather) was
    # recorded. The short sweep needs both to be False.
    shared = False
    selects = False
    # Numbers of records that this session takes for leaves: results of other tapes that were watched.
    stops: frozenset[int] = frozenset()
    plain = True
    # Whether a custom gradient was recorded, whose function is the user's.
    custom = False
    limit = 1024
    watch_accessed = True
    tracked: Any = ()
    # While it is active: the stack that it made when it was entered, the one before, and the newest one that holds it,
    # by a weak reference, where others were entered inside.
    inside: Stack | None = None
    before: Stack | None = None
    top: Any = None
    # Tells when the `with` statement that entered it is over; see `gtape.base.blocks`.
    watch: Any = None

    def __init__(
        self, *, trace: bool = False, forward: Any = None, exact: bool = False, tracks_for_now: bool = False
    ) -> None:
        if trace or exact or tracks_for_now or forward is not None:
            self.trace = trace
            self.forward = forward
            self.exact = exact or tracks_for_now
            self.tracks_for_now = tracks_for_now
            self.plain = False
        self.alone = TapeSet((self,))
        self.variables: dict[int, Any] = {}
        # Taken by the one call that may use the recording up, whatever other threads do: a list's pop is atomic.
        self.unused = [True]

    def leave(self) -> None:
        """Make this session inactive, see `leave`."""
        leave(self)

    def track(self, tensor: Any) -> None:
        """Remember a result weakly, to make it a constant when the session ends; the dead are forgotten, amortised."""
        tracked = self.tracked
        if tracked.__class__ is tuple:
            tracked = self.tracked = []
        tracked.append(weakref.ref(tensor))
        if len(tracked) > self.limit:
            tracked[:] = [ref for ref in tracked if ref() is not None]
            self.limit = 2 * len(tracked) + 1024


class Stack:
    """The tapes that are active in one thread, as the recording path wants to see them.

    A new one is made whenever a tape is entered, left, paused or reset. Between those it only loses what was left
    elsewhere: by another thread, in a copy of the context, or because the tape died.
    """

    __slots__ = ("__weakref__", "meets", "note", "probe", "recording", "run", "sessions", "tapes", "trace", "tracker")

    def __init__(
        self, sessions: tuple[Session, ...], run: Callable[..., Any], probe: dict[int, Any] | None = None
    ) -> None:
        self.sessions = sessions
        # Variables that are read go here too, while a custom gradient wants to know them.
        self.probe = probe
        self.run = run
        self.meets: dict[TapeSet, TapeSet] = {}
        # The fast path records where an input's set *is* `tapes`; everything else goes the general way.
        self.tapes = _NEVER
        self.tracker: Any = None
        # Called with each result, if a session tracks all results.
        self.note: Any = None
        self.trace = False
        if not sessions:
            self.recording = NO_TAPES
        elif len(sessions) == 1:
            session = sessions[0]
            self.recording = session.alone
            self.trace = session.trace
            if not session.trace and session.forward is None:
                self.tracker = session
                if session.exact:
                    self.note = session.track
                else:
                    self.tapes = session.alone
        else:
            self.recording = TapeSet(sessions)
            newest = weakref.ref(self)
            for session in sessions:
                session.shared = True
                session.top = newest
                self.trace = self.trace or session.trace

    def drop(self, session: Session) -> None:
        """Forget a session that was left; ops that run meanwhile are recorded by it or not."""
        if session in self.sessions:
            with sharing:  # or two that are dropped at once would bring one another back
                self._drop(session)

    def _drop(self, session: Session) -> None:
        rest = tuple([s for s in self.sessions if s is not session])
        if len(rest) == len(self.sessions):
            return
        made = Stack(rest, self.run, self.probe)
        self.tapes, self.tracker, self.note = made.tapes, made.tracker, made.note
        self.trace, self.sessions, self.meets, self.recording = made.trace, rest, {}, made.recording

    def clear(self) -> None:
        """Forget the only session."""
        self.tapes = _NEVER
        self.tracker = self.note = None
        self.trace, self.sessions, self.recording = False, (), NO_TAPES
        if self.meets:
            self.meets = {}

    def become(self, other: Stack) -> None:
        """Forget the session that this stack has on top of another one."""
        self.tapes, self.tracker, self.note = other.tapes, other.tracker, other.note
        self.trace, self.sessions, self.meets, self.recording = other.trace, other.sessions, {}, other.recording

    def meet(self, tapes: TapeSet) -> TapeSet:
        """Those of `tapes` that are recording now."""
        if tapes is self.recording or not self.sessions:
            return self.recording  # an idle stack stays: it must keep nothing of the tapes it is asked about
        found = self.meets.get(tapes)
        if found is None:
            common = tapes.sessions & self.recording.sessions
            found = NO_TAPES if not common else self.recording if len(common) == len(self.sessions) else TapeSet(common)
            if len(self.meets) > 256:
                self.meets.clear()
            self.meets[tapes] = found
        return found

    def join(self, some: TapeSet, others: TapeSet) -> TapeSet:
        """The tapes of either of two sets that `meet` gave."""
        if others is some or not others.sessions - some.sessions:
            return some
        if not some.sessions:
            return others
        found = some.sessions | others.sessions
        return self.recording if len(found) == len(self.sessions) else TapeSet(found)


def directly(function: Callable[..., Any], *args: Any, **params: Any) -> Any:
    return function(*args, **params)


def _quiet_runner() -> Callable[..., Any]:
    # NumPy's error state is a context variable: kernels run in a context of their own where it is off, which costs
    # 20 ns a call (np.errstate: 1,200). Like TensorFlow, ops give inf and NaN without a warning.
    quiet: Context = copy_context()
    quiet.run(np.seterr, all="ignore")
    # A context is not entered twice, and what runs in there is quiet already.
    quiet.run(_stack.set, Stack((), directly))
    return quiet.run


# The stack where a tape is active, otherwise None: contexts are copied into other threads (by asyncio.to_thread and web
# servers), and kernels of two threads cannot run in one context.
_stack: ContextVar[Stack | None] = ContextVar("gtape_stack", default=None)
peek = _stack.get


class _Own(threading.local):
    idle: Stack | None = None


_own = _Own()


def idle_stack() -> Stack:
    """The stack of this thread where no tape is active."""
    idle = _own.idle
    if idle is None:
        idle = _own.idle = Stack((), _quiet_runner())
    return idle


def adopt_thread(error: RuntimeError) -> Stack:
    """Give this thread a runner of its own, the tapes as they are, after an op raised; raises any other error again.

    A thread that was handed a copy of a context (asyncio.to_thread) finds the stack of the tapes that were open there,
    and two threads cannot be in one context. To look for that before each op would cost as much as a small kernel.
    """
    if not (error.args and str(error.args[0]).startswith("cannot enter context")):
        raise error
    foreign = get_stack()
    own = Stack(foreign.sessions, idle_stack().run, foreign.probe)
    _stack.set(own)
    return own


def get_stack() -> Stack:
    """The stack of this thread's context; idle when no tape is active."""
    return _stack.get() or idle_stack()


def set_stack(sessions: tuple[Session, ...], probe: dict[int, Any] | None = None) -> None:
    """Make `sessions` the active ones of this thread."""
    before = get_stack()
    if probe is None:
        probe = before.probe
    if sessions or probe is not None or before.run is directly:
        restore_stack(Stack(sessions, before.run, probe))
    else:
        _stack.set(None)


class off:
    """Let no tape record for the length of a `with` block, or only some.

    A class of its own rather than a `gtape.base.blocks.block`, because forward mode enters one for each op.

    Parameters
    ----------
    sessions : tuple of Session
        Those that go on recording.
    probe : dict, optional
        Gathers the variables that are read inside, by number.
    """

    __slots__ = ("__weakref__", "_before", "_probe", "_sessions", "_statement", "_watch")

    _watch: Any  # set by `Leaving`

    def __init__(self, sessions: tuple[Session, ...] = (), probe: dict[int, Any] | None = None) -> None:
        self._sessions = sessions
        self._probe = probe

    def __enter__(self) -> None:
        self._before = _stack.get()
        self._statement, self._watch = self._watch, None
        self._statement.held = self
        set_stack(self._sessions, self._probe)

    def leave(self) -> None:
        """Go back to the stack from before the block."""
        now, idle = self._before, idle_stack()
        _stack.set(now)
        if now is not None and now.run is not directly and now.run.__class__ is not idle.run.__class__:
            now.run = idle.run  # a check of all kernels began or ended meanwhile

    def _exit(self, *exc: Any) -> None:
        self.leave()
        self._statement.held = None

    __exit__ = Leaving(_exit)


def enter(session: Session, watch: Any = None) -> None:
    """Make a session active in this context, on top of those that are; the caller holds `sharing`.

    Parameters
    ----------
    session : Session
        One that is not active.
    watch : weak reference, optional
        What stands for the `with` statement; see `gtape.base.blocks`.
    """
    before = _stack.get() or idle_stack()
    sessions: tuple[Session, ...] = (session,)
    if before.sessions:
        for s in before.sessions:
            if s.inside is None:  # left elsewhere
                before.drop(s)
        sessions = (*before.sessions, session)
    inside = Stack(sessions, before.run, before.probe)
    try:
        session.before, session.inside = before, inside
        if watch is not None:
            session.watch, watch.held = watch, session
        _stack.set(inside)
    except BaseException:
        leave(session)
        raise


def leave(session: Session) -> None:
    """Make a session inactive, wherever it is: in this context, its copies, other threads and stacks on top of it.

    What an interrupt cuts short is done when it is called again.
    """
    inside, before = session.inside, session.before
    if inside is None or before is None:
        return
    now = _stack.get()
    if now is inside:
        if before.sessions or before.probe is not None or before.run is directly:
            restore_stack(before)
        else:
            _stack.set(None)
    elif now is not None and session in now.sessions:  # left in another order than entered
        now.drop(session)
    if len(inside.sessions) == 1:
        inside.clear()
    else:
        if now is inside and inside.sessions[:-1] == before.sessions:  # the usual case; dropping takes longer
            inside.become(before)
        inside.drop(session)
    if session.top is not None:
        newest = session.top()
        if newest is not None and newest is not inside:
            newest.drop(session)
        session.top = None
    watch = session.watch
    if watch is not None:
        watch.held = session.watch = None
    session.inside = session.before = None


def restore_stack(stack: Stack) -> None:
    """Go back to a stack that `get_stack` gave earlier in this thread."""
    for s in stack.sessions:
        if s.inside is None:
            stack.drop(s)
    if stack.sessions or stack.probe is not None or stack.run is directly:
        run = (peek() or stack).run
        if run.__class__ is not stack.run.__class__:  # a check of all kernels began or ended meanwhile
            stack.run = run
        _stack.set(stack)
    else:
        _stack.set(None)


def active() -> Stack | None:
    """The stack if any tape is active in this thread, otherwise None."""
    stack = get_stack()
    return stack if stack.sessions else None


def leaf(tapes: TapeSet = NO_TAPES) -> Record:
    """A record without parents: something that is watched."""
    return [next(count), LEAF, None, (), None, None, tapes, None, None, None]


def record_of(x: Any) -> Record:
    """The record of a tensor or variable; a leaf that no tape watches where it had none."""
    r: Record | None = x._record
    if r is None:
        with sharing:
            r = x._record
            if r is None:
                r = x._record = leaf()
    return r


def parents_of(record: Record) -> tuple[Record, ...]:
    """The records of the active inputs, in the order of ``STEP.active``."""
    parents: Any = record[PARENTS]
    if parents.__class__ is not list:
        return parents  # type: ignore[no-any-return]
    other = record[OTHER]
    return (parents,) if other is None else (parents, other)


def step_of(record: Record) -> Any:
    """The step of a record, which a generated function carries as an attribute; None for a leaf."""
    step: Any = record[STEP]
    return step.step if step.__class__ is FunctionType else step  # type: ignore[attr-defined]


def for_a_check_alone(record: Record) -> bool:
    """Whether a record is there for the verify flag only: to the tapes its result is a constant."""
    if record[STEP] is None:
        return record[OUT] is ANCHOR
    if step_of(record).prim is None:  # one output of several
        (record,) = parents_of(record)
    return len(record) > TRACE and record[TRACE] is not None and bool(record[TRACE].idle)


_EMPTY = (None, None, (), None, None, NO_TAPES, None)


def empty(record: Record) -> None:
    """Drop all that a record keeps alive; its identity stays."""
    record[COT:] = _EMPTY


def forget_parents(record: Record) -> None:
    """Make a leaf of a record, which keeps its tapes and tangents and forgets what made it."""
    record[COT:TAPES] = LEAF, None, (), None, None
    record[OTHER] = None


def clear_below(pending: list[Any], *, spare: bool) -> None:
    """Empty records and all that led to them; with `spare` those that an open session holds stay as they are."""
    while pending:
        r = pending.pop()
        if r is None or r[STEP] is None or (spare and any(s.live for s in r[TAPES].sessions)):
            continue
        parents = parents_of(r)
        empty(r)
        pending.extend(parents)


class _Care:
    """Whether sessions track every result by a weak reference.

    Tracking doubles the cost of recording, so it is off until a tensor is found to outlive its tape: the session's own
    TapeSet then outlives the session, because a record holds it. The records that hold it are searched for and emptied,
    and the next 64 sessions track.
    """

    __slots__ = ("sessions_left",)

    def __init__(self) -> None:
        self.sessions_left = 0


_care = _Care()


def should_track() -> bool:
    """Whether a session that starts now is to track all results, since results outlived recent ones."""
    if _care.sessions_left:
        _care.sessions_left -= 1
        return True
    return False


def _forget(variables: dict[int, Any], alone: TapeSet) -> None:
    """Let variables be watched by a session no longer."""
    for v in variables.values():
        if v._record[TAPES] is alone:
            v._record[TAPES] = NO_TAPES


def _disconnect(tracked: Any) -> bool:
    """Make constants of results that no open session holds; whether any had been made by an op."""
    outlived = False
    for ref in tracked:
        tensor = ref()
        if tensor is None:
            continue
        record = tensor._record
        if record is None:
            continue
        open_sessions = [s for s in record[TAPES].sessions if s.live]
        if open_sessions:
            if len(open_sessions) < len(record[TAPES].sessions):
                record[TAPES] = TapeSet(open_sessions)
        elif record[STEP] is None and not record[PARENTS]:
            tensor._record = None
        else:
            empty(record)
            tensor._record = None
            outlived = True
    return outlived


def _empty_holders(alone: TapeSet | None) -> bool:
    """Empty the records of ops that hold a session's TapeSet; whether there was one."""
    found = False
    for r in gc.get_referrers(alone):
        if r.__class__ is list and len(r) > TAPES and r[TAPES] is alone and r[STEP] is not None:
            empty(r)
            found = True
    return found


def close(session: Session) -> None:
    """End a session: empty every record that no other open session holds.

    Keeping a loss for a log then keeps a number, not a graph. Records inside the graph need no visit: they hang
    from the results that are still there.
    """
    if session.inside is not None:
        leave(session)
    if not session.live:
        return
    session.live = False
    alone, session.alone = session.alone, NO_TAPES  # it refers back to the session: no cycle may outlive it
    variables, session.variables = session.variables, {}
    tracked, session.tracked = session.tracked, ()
    outlived = False
    if variables or tracked:
        with sharing:
            _forget(variables, alone)
            outlived = bool(tracked) and _disconnect(tracked)
    if session.plain:
        # Not by a count of references: how many an interpreter takes for itself is its own affair.
        left = weakref.ref(alone)
        del alone
        if left() is not None:
            outlived = _empty_holders(left()) or outlived
    if outlived and (session.plain or session.tracks_for_now):
        _care.sessions_left = 64

"""Records of ops, the sessions of tapes that hold them, and the stack of active tapes.

A record is a plain list, because nothing else in Python is both mutable and as cheap to make (a slotted object costs
twice as much, and recording is the hot path). Its fields, in order:

====== ========= ==========================================================================================
index  name      content
====== ========= ==========================================================================================
0      SEQ       a unique number that counts down: the newest record is the smallest, as ``heapq`` needs
1      COT       the cotangent gathered so far by a running sweep, otherwise None. LEAF in a leaf, because sweeps
                 of several threads may share a leaf; each sweep keeps the cotangents of leaves itself
2      STEP      ``step(g, ins, out)`` -> cotangents of the parents: a step, or a function that has its step as an
                 attribute, see `step_of`; None for a leaf
3      PARENTS   the only parent record, the first of two, or a tuple of records aligned with ``STEP.active``;
                 `parents_of` gives a tuple for each
4      INS       the tensors that the rule reads: None, a tensor, or a tuple with None for each unread input;
                 `inputs_of` gives a tuple for each
5      OUT       the raw output, if the rule reads it. For a binary op of a generated function whose rule reads both
                 inputs but not the output: the second input (a tuple would cost the collector as much as a record)
6      TAPES     the set of recording sessions that hold this record
7      OTHER     the second of two parents; SEVERAL if PARENTS is a tuple; PASSES if the only parent takes the
                 cotangent unchanged; otherwise None
8      TRACE     all inputs, the output, the user's source line: only for a check, otherwise None
9      TANGENTS  forward mode: {session: tangent}, or None
====== ========= ==========================================================================================

Without a check and forward mode, the record of an op ends after OTHER. Only the output tensors and the records of their
consumers refer to a record. So unused results are freed at once, without the collector.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, ContextVar, copy_context
from functools import partial
from types import FunctionType, MappingProxyType
from typing import Any

import numpy as np

from gtape.base.blocks import Leaving
from gtape.base.freed_memory import keep_freed_memory
from gtape.base.locks import sharing

__all__ = [
    "ANCHOR", "COT", "INS", "LEAF", "MOST_WATCHED", "NO_TAPES", "OTHER", "OUT", "PARENTS", "PASSES", "SEQ", "SEVERAL",
    "STEP", "TANGENTS", "TAPES", "TRACE", "Session", "Stack", "TapeSet", "active", "adopt_thread", "assigned_later",
    "begin", "checked_later", "clear_below", "close", "computed_anew", "count", "decided_later", "directly",
    "done_later", "drawn_later", "empty", "enter", "for_a_check_alone", "forget_parents", "get_stack", "idle_in",
    "idle_stack", "is_live", "is_traced", "leaf", "leave", "maker_of", "note_asked", "note_read", "off", "own",
    "parents_of", "peek", "record_of", "refuse_in_traced_calls", "restore_stack", "set_stack", "sharing",
    "should_track", "step_of", "watched_leaf",
]  # fmt: skip

SEQ, COT, STEP, PARENTS, INS, OUT, TAPES, OTHER, TRACE, TANGENTS = range(10)

Record = list[Any]


class _Leaf:
    __slots__ = ()

    def __repr__(self) -> str:
        return "LEAF"


LEAF = _Leaf()
# The OTHER of an op's record whose parents are a tuple; sweeps tell by one comparison how many parents there are.
SEVERAL: Any = ()
# The OTHER of an op's record whose step returns its cotangent, as for `x + constant`; a sweep need not call the step.
PASSES = object()
# The tensors that a tape may watch if calls of compiled functions are to be recorded as one.
MOST_WATCHED = 8
# The OUT of the leaves that a check makes of constants.
ANCHOR = object()

# Counts down: a plain min-heap of records then yields the newest first. A range, because `itertools.count` takes longer
# for steps other than 1.
count = iter(range(0, -(1 << 62), -1))


class TapeSet:
    """An immutable set of sessions. The recording path compares sets by identity first."""

    __slots__ = ("__weakref__", "sessions")

    def __init__(self, sessions: Iterable[Session] = ()) -> None:
        self.sessions = frozenset(sessions)


NO_TAPES = TapeSet()
_NEVER = TapeSet()  # no record has this set, so the fast path leaves every op to `record_one`


class Session:
    """One recording of one tape: from its first op until it is used or reset, or its tape is freed.

    A tape that is reset or used up starts another session. Results of the old session are constants afterwards.
    """

    # Attributes that few sessions change have their defaults in the class, because a tape makes a session in every
    # training step. Attributes that all sessions change are set when a session is made, because a first assignment
    # later takes ten times as long.
    trace = False
    # For a check: the thread that made the session.
    thread = 0
    forward: Any = None
    # Whether every result is tracked, so that the end of the session frees all graphs.
    exact = False
    # Whether results are tracked only because results outlived recent sessions.
    tracks_for_now = False
    # `shared`: another session may hold some of these records. `mixed`: a record of this session has a parent that only
    # another session holds. `special`: an op was recorded that has several outputs, rows as its gradient, or a function
    # of the user as its rule. The short sweep needs all to be False.
    shared = False
    mixed = False
    special = False
    # Whether a selecting op (where, max, gather) was recorded. If so, a sweep that meets NaN or infinity is repeated
    # with masks.
    selects = False
    # The sessions that recorded together with this session, and the number of closed sessions when those that are over
    # were last dropped.
    beside: tuple[Session, ...]
    filtered = -1
    # Sequence numbers of records that are leaves for this session: watched results of other tapes.
    stops: frozenset[int] = frozenset()
    plain = True
    # Whether a whole call of a compiled function was recorded (see `gtape.engine.whole_calls`), whether one of these
    # calls had several results, and whether ops replaced one of these calls.
    calls = several = split = False
    # The first tensors that were watched, at most one more than `MOST_WATCHED`, and all of them in a traced call, which
    # asks for all.
    watched: tuple[Any, ...] = ()
    all_watched: list[Any] | None = None
    # Whether a custom gradient was recorded. If so, a sweep calls a function of the user.
    custom = False
    # Whether an accumulator opened the session for the slopes of cotangents (see `gtape.engine.nesting`).
    of_slopes = False
    # For a check: whether values that may have come back are findings.
    strict = False
    # Whether `gtape.verify.check` made the session. `check` itself looks for gradients without a record.
    of_check = False
    # For a check: whether ops on results of all other sessions are recorded, too, although no gradient reaches these.
    adopts = False
    limit = 1024
    watch_accessed = True
    tracked: Any
    # While the session is active: the stack made on entry, and the stack before. If other sessions were entered inside,
    # also a weak reference to the newest stack that holds this session.
    inside: Stack | None
    before: Stack | None
    top: Any
    # Reports the end of the session's `with` statement, see `gtape.base.blocks`.
    watch: Any
    # For a check: the tensors whose truth value Python took, and the tensors that became a number or an array. They
    # refer back to the session, until the session is closed.
    branches: Any = ()
    conversions: Any = ()
    # For a check: the number of the first conversion of a source, and the constants that were alive before it. The same
    # for the first conversion of any tensor, if the check is strict.
    alive: Any = None
    alive_first: Any = None
    # For a check: the indices and masks that decisions gave, because the program may read their sizes.
    decisions: Any = ()
    # For a check that runs a function again: the values to which conversions hold, by the place of the conversion.
    held: Any = MappingProxyType({})
    # For a check: the results of `gtape.stop_gradient`.
    stopped: Any = ()
    # For a check: the assigned variables, the values that variables took, and the values of watched tensors.
    assignments: Any = ()
    starts: Any = ()
    entries: Any = ()
    # For a check: records that ended with inner tapes, by the identities of their values, which the records keep.
    ended: Any = MappingProxyType({})

    def __init__(
        self, *, trace: bool = False, forward: Any = None, exact: bool = False, tracks_for_now: bool = False
    ) -> None:
        if trace or exact or tracks_for_now or forward is not None:
            self.trace = trace
            if trace:
                self.thread = threading.get_ident()
            self.forward = forward
            self.exact = exact or tracks_for_now
            self.tracks_for_now = tracks_for_now
            self.plain = False
        self.live = True
        self.inside = self.before = self.top = self.watch = None
        self.tracked = self.beside = ()
        self.alone = TapeSet((self,))
        self.variables: dict[int, Any] = {}
        # The one call that may use the recording pops this list. A list, because its pop is atomic among threads.
        self.unused = [True]

    def __reduce__(self) -> Any:
        return _ended, (self.stops,)  # a symbolic program knows sessions by identity, and asks for nothing else

    def leave(self) -> None:
        """Make this session inactive, see the function `leave`."""
        leave(self)

    def is_simple(self) -> bool:
        """Whether the short sweep can pass the records: no open session shares them, and no op needs the full sweep."""
        if self.shared or self.special or self.mixed:
            return False
        if self.beside:
            self.beside = tuple([s for s in self.beside if s.live])
        return not self.beside

    def note_watched(self, tensor: Any) -> None:
        """Track a watched tensor. The first few are kept in `watched`, too; all in a traced call."""
        ref = weakref.ref(tensor)
        if self.all_watched is not None:
            self.all_watched.append(ref)
        if len(self.watched) <= MOST_WATCHED:
            self.watched = (*self.watched, ref)
        if self.tracked.__class__ is tuple:
            self.tracked = [ref]
        else:
            self.track(tensor)

    def track(self, tensor: Any) -> None:
        """Keep a weak reference to a result, which becomes a constant when the session ends. Drop dead references."""
        tracked = self.tracked
        if tracked.__class__ is tuple:
            tracked = self.tracked = []
        tracked.append(weakref.ref(tensor))
        if len(tracked) > self.limit:
            tracked[:] = [ref for ref in tracked if ref() is not None]
            self.limit = 2 * len(tracked) + 1024


def _ended(stops: frozenset[int]) -> Session:
    """A session that is over, for pickles."""
    made = Session()
    made.live, made.stops = False, stops
    return made


def _track_in(sessions: tuple[Session, ...], tensor: Any) -> None:
    ref = weakref.ref(tensor)
    for session in sessions:
        tracked = session.tracked
        if tracked.__class__ is list and len(tracked) < session.limit:  # the usual case of `Session.track`
            tracked.append(ref)
        else:
            session.track(tensor)


_closings = [0]  # how many sessions were closed; a lost count among threads only delays dropping them


class Stack:
    """The active tapes of one thread, in the form that the recording path needs.

    Entering, leaving, pausing or resetting a tape makes a new stack. An existing stack can only lose sessions: because
    another thread or a copy of the context left them, or because their tape was freed.

    Parameters
    ----------
    sessions : tuple of Session
    run : callable
        Runs kernels quietly.
    probe : dict, optional
    joined : Session, optional
        The one of the sessions that joins the others, if the others were the sessions of a stack.
    """

    __slots__ = (
        "__weakref__",
        "deriving",
        "meets",
        "note",
        "probe",
        "push",
        "quick",
        "recording",
        "run",
        "sessions",
        "tapes",
        "trace",
        "tracker",
    )

    def __init__(
        self,
        sessions: tuple[Session, ...],
        run: Callable[..., Any],
        probe: dict[int, Any] | None = None,
        joined: Session | None = None,
    ) -> None:
        self.sessions = sessions
        # Gathers the variables that are read while a custom gradient runs its function, and in a traced call.
        self.probe = probe
        self.run = run
        self.meets: dict[TapeSet, TapeSet] = {}
        # The fast path records an op if the sets of its inputs *are* `tapes`. All other ops take the general way, as do
        # all ops in a check and in forward mode.
        self.tapes = _NEVER
        # The same set if no listener waits for results, otherwise a set that no record has. Generated functions compare
        # this set first, because the comparison replaces a test of `note`.
        self.quick = _NEVER
        self.tracker: Any = None
        # Called with each result if a session tracks all results or if there are several sessions.
        self.note: Any = None
        # Called with each op that is not recorded by the fast path, if the only session is that of forward mode.
        self.push: Any = None
        self.trace = False
        # In a check, while a rule runs: the op of the user's to which the rule belongs, and its line.
        self.deriving: tuple[str, Any] | None = None
        if not sessions:
            self.recording = NO_TAPES
        elif len(sessions) == 1:
            session = sessions[0]
            self.recording = session.alone
            self.trace = session.trace
            if not session.trace and session.forward is None:
                self.tapes = session.alone
                self.tracker = session
                if session.exact:
                    self.note = session.track
                else:
                    self.quick = session.alone
            elif not session.trace:
                self.push = session.forward.push
        else:
            self.recording = TapeSet(sessions)
            newest = weakref.ref(self)
            plain = True
            # With many nested tapes, a search among all pairs at each entry would take cubic time.
            closed, fresh = _closings[0], joined is not None and not joined.beside
            for session in sessions:
                if fresh and session is not joined and session.filtered == closed:
                    session.beside = (*session.beside, joined)  # type: ignore[arg-type]
                else:
                    others = {*session.beside, *sessions} if session.beside else sessions
                    session.beside = tuple([s for s in others if s.live and s is not session])
                    session.filtered = closed
                session.top = newest
                self.trace = self.trace or session.trace
                plain = plain and session.forward is None
            if plain and not self.trace:
                self.tapes = self.recording
                self.note = partial(_track_in, sessions)

    def selects(self) -> None:
        """Note in the sessions that a selecting op was recorded."""
        for session in self.sessions:
            session.selects = True

    def drop(self, session: Session) -> None:
        """Remove a session that was left. Ops that run meanwhile may or may not be recorded."""
        if session in self.sessions:
            with sharing:  # otherwise two threads that drop sessions at the same time would undo each other's change
                self._drop(session)

    def _drop(self, session: Session) -> None:
        rest = tuple([s for s in self.sessions if s is not session])
        if len(rest) == len(self.sessions):
            return
        made = Stack(rest, self.run, self.probe)
        self.tapes, self.tracker, self.note, self.push = made.tapes, made.tracker, made.note, made.push
        self.quick = made.quick
        self.trace, self.sessions, self.meets, self.recording = made.trace, rest, {}, made.recording

    def clear(self) -> None:
        """Remove the only session."""
        self.tapes = self.quick = _NEVER
        self.tracker = self.note = self.push = None
        self.trace, self.sessions, self.recording = False, (), NO_TAPES
        if self.meets:
            self.meets = {}

    def become(self, other: Stack) -> None:
        """Remove the session that this stack has in addition to `other`."""
        self.tapes, self.tracker, self.note, self.push = other.tapes, other.tracker, other.note, other.push
        self.quick = other.quick
        self.trace, self.sessions, self.meets, self.recording = other.trace, other.sessions, {}, other.recording

    def meet(self, tapes: TapeSet) -> TapeSet:
        """The sessions of `tapes` that are recording now."""
        if tapes is self.recording or not self.sessions:
            return self.recording  # an idle stack must not keep ended tapes alive in `meets`
        found = self.meets.get(tapes)
        if found is None:
            common = tapes.sessions & self.recording.sessions
            if tapes.sessions and self.trace:
                common |= {s for s in self.sessions if s.adopts}
            found = NO_TAPES if not common else self.recording if len(common) == len(self.sessions) else TapeSet(common)
            if len(self.meets) > 256:
                self.meets.clear()
            self.meets[tapes] = found
        return found

    def without(self, some: TapeSet, others: TapeSet) -> TapeSet:
        """The sessions of `some` that are not in `others`; both are sets that `meet` returned."""
        found = some.sessions - others.sessions
        return NO_TAPES if not found else some if len(found) == len(some.sessions) else TapeSet(found)

    def join(self, some: TapeSet, others: TapeSet) -> TapeSet:
        """The union of two sets that `meet` returned."""
        if others is some or not others.sessions - some.sessions:
            return some
        if not some.sessions:
            return others
        found = some.sessions | others.sessions
        return self.recording if len(found) == len(self.sessions) else TapeSet(found)


def directly(function: Callable[..., Any], *args: Any, **params: Any) -> Any:
    return function(*args, **params)


def _quiet_runner() -> Callable[..., Any]:
    # Like TensorFlow, ops give inf and NaN without a warning. NumPy's error state is a context variable, so kernels run
    # in a context of their own without warnings. A call costs 20 ns (np.errstate: 1,200).
    quiet: Context = copy_context()
    quiet.run(np.seterr, all="ignore")
    # Ops inside this context call kernels directly, because a context cannot be entered twice.
    quiet.run(_stack.set, Stack((), directly))
    return quiet.run


keep_freed_memory()  # before the first kernel runs

# The stack while a tape is active, otherwise None. Contexts are copied into other threads (by asyncio.to_thread and web
# servers), and kernels of two threads cannot run in one context.
_stack: ContextVar[Stack | None] = ContextVar("gtape_stack", default=None)
peek = _stack.get


class _Own(threading.local):
    idle: Stack | None = None


own = _Own()


def idle_stack() -> Stack:
    """The stack of this thread while no tape is active."""
    idle = own.idle
    if idle is None:
        idle = own.idle = Stack((), _quiet_runner())
    return idle


def adopt_thread(error: RuntimeError) -> Stack:
    """After an op raised an error, give this thread its own runner with the same tapes. Other errors are raised again.

    A thread that runs in a copy of a context (asyncio.to_thread) finds the stack of the other thread, and two threads
    cannot be in one context. The repair follows an error, because a test before each op would cost as much as a small
    kernel.
    """
    if not (error.args and str(error.args[0]).startswith("cannot enter context")):
        raise error
    foreign = get_stack()
    own = Stack(foreign.sessions, idle_stack().run, foreign.probe)
    _stack.set(own)
    return own


def get_stack() -> Stack:
    """The stack of this thread's context. The stack is idle if no tape is active."""
    return _stack.get() or idle_stack()


def set_stack(sessions: tuple[Session, ...], probe: dict[int, Any] | None = None) -> None:
    """Make `sessions` the active sessions of this thread."""
    before = get_stack()
    if probe is None:
        probe = before.probe
    if sessions or probe is not None or before.run is directly:
        restore_stack(Stack(sessions, before.run, probe))
    else:
        _stack.set(None)


class off:
    """Let only some sessions, or none, record during a `with` block.

    The class does not use `gtape.base.blocks.block`, because forward mode enters this block for each op and `block` is
    slower.

    Parameters
    ----------
    sessions : tuple of Session
        The sessions that continue recording.
    probe : dict, optional
        Gains the variables that are read inside, by number.
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
        """Restore the stack from before the block."""
        now, idle = self._before, idle_stack()
        _stack.set(now)
        if now is not None and now.run is not directly and now.run.__class__ is not idle.run.__class__:
            now.run = idle.run  # because a check of all kernels may begin or end meanwhile

    def _exit(self, *exc: Any) -> None:
        self.leave()
        self._statement.held = None

    __exit__ = Leaving(_exit)


def enter(session: Session, watch: Any = None) -> None:
    """Make a session active in this context, on top of the active sessions. The caller holds `sharing`.

    Parameters
    ----------
    session : Session
        An inactive session.
    watch : object, optional
        Stands for the `with` statement; see `gtape.base.blocks`.
    """
    before = _stack.get()
    if before is None:
        before = idle_stack()
    else:
        _begin_in_traced_call(before, session)
    sessions: tuple[Session, ...] = (session,)
    if before.sessions:
        for s in before.sessions:
            if s.inside is None:  # a session that was left elsewhere
                before.drop(s)
        sessions = (*before.sessions, session)
    inside = Stack(sessions, before.run, before.probe, session)
    try:
        session.before, session.inside = before, inside
        if watch is not None:
            session.watch, watch.held = watch, session
        _stack.set(inside)
    except BaseException:
        leave(session)
        raise


def leave(session: Session) -> None:
    """Make a session inactive in this context, its copies, other threads, and stacks on top of it.

    After an interrupt in the middle of a call, a second call completes the first.
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
    elif now is not None and session in now.sessions:  # sessions may be left in another order than entered
        now.drop(session)
    if len(inside.sessions) == 1:
        inside.clear()
    else:
        if now is inside and inside.sessions[:-1] == before.sessions:  # for speed, because `drop` takes longer
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
    """Restore a stack that `get_stack` returned earlier in this thread."""
    for s in stack.sessions:
        if s.inside is None:
            stack.drop(s)
    if stack.sessions or stack.probe is not None or stack.run is directly:
        run = (peek() or stack).run
        if run.__class__ is not stack.run.__class__:  # because a check of all kernels began or ended meanwhile
            stack.run = run
        _stack.set(stack)
    else:
        _stack.set(None)


def _begin_in_traced_call(stack: Stack, session: Session) -> None:
    note = getattr(stack.run, "begin", None)
    if note is not None:
        note(session)


def begin(session: Session) -> None:
    """Let a function that is being compiled know a session that begins before it is entered."""
    stack = _stack.get()
    if stack is not None:
        _begin_in_traced_call(stack, session)


def refuse_in_traced_calls(reason: str, session: Session | None = None, *, where: bool = False) -> None:
    """End the tracing of a compiled function whose work later calls of a program cannot repeat.

    Call this function before any change.

    Parameters
    ----------
    reason : str
    session : Session, optional
        The tracing ends only if this session began before the traced call: the arguments of the call are new tensors,
        which this session did not record, and later calls of the program do not reach the session.
    where : bool
        Whether the reason names the op and the user's line.
    """
    stack = _stack.get()
    refuse = None if stack is None else getattr(stack.run, "refuse", None)
    if refuse is None or (session is not None and session in stack.run.sessions):  # type: ignore[union-attr]
        return
    refuse(reason, where=where)


def is_traced() -> bool:
    """Whether a function is being compiled."""
    stack = _stack.get()
    return stack is not None and hasattr(stack.run, "draw")


def note_read(stack: Stack, tensors: Iterable[Any]) -> None:
    """Note in a traced call that an op reads tensors which may be constants; of no effect outside of tracing."""
    note = getattr(stack.run, "note_read", None)
    if note is not None:
        note(tensors)


def note_asked(tensors: Iterable[Any]) -> None:
    """Note in a traced call that its tapes are asked about tensors which may be constants, or follow these."""
    stack = _stack.get()
    note = None if stack is None else getattr(stack.run, "note_asked", None)
    if note is not None:
        note(tensors)


def checked_later(check: Callable[..., None], tensors: list[Any]) -> bool:
    """Let each call of a function that is being compiled check values. False if no function is being compiled.

    Parameters
    ----------
    check : callable
        Takes the raw values of the tensors, and raises an error for wrong ones. The function may not hold a tensor.
    tensors : list of Tensor
    """
    stack = _stack.get()
    noted = None if stack is None else getattr(stack.run, "check", None)
    if noted is None:
        return False
    noted(check, tensors)
    return True


def decided_later(work: Callable[..., Any], tensors: Sequence[Any]) -> Any:
    """Let each call of a function that is being compiled compute indices or truth values anew.

    Parameters
    ----------
    work : callable
        Takes the arrays of the tensors, and returns an array. The function may not hold the value of a tensor.
    tensors : sequence of Tensor

    Returns
    -------
    Tensor or None
        None if no function is being compiled, or if all tensors are constants of the function.
    """
    stack = _stack.get()
    noted = None if stack is None else getattr(stack.run, "decide", None)
    return None if noted is None else noted(work, tensors)


def drawn_later(source: Any, words: Callable[[Any], Any], draw: Callable[[Any], Any], changed: Any = ()) -> Any:
    """Let each call of a function that is being compiled draw random numbers. None if no function is being compiled.

    A call takes the words of all draws at its start, when it reads variables, and draws the numbers where it needs them
    first, because the numbers of all draws together may take more memory than the rest of the call.

    Parameters
    ----------
    source : object
        The source of the numbers, with the methods `copy`, `state` and `restore`. Draws that follow each other have the
        same object as source.
    words : callable
        Returns an array that selects the stream of the next draw, always of one shape and dtype, given the source or a
        copy of it.
    draw : callable
        Returns an array of random numbers, given an array of `words`. Equal words give equal numbers.
    changed : sequence of Variable
        The variables that hold the state of the source.

    Returns
    -------
    raw value or None
    """
    stack = _stack.get()
    noted = None if stack is None else getattr(stack.run, "draw", None)
    return None if noted is None else noted(source, words, draw, changed)


def assigned_later(variable: Any, value: Any) -> bool:
    """Let each call of a function that is being compiled assign a variable. False if no function is being compiled.

    Parameters
    ----------
    variable : Variable
    value : Tensor
        The result of ops, which each call repeats.
    """
    stack = _stack.get()
    noted = None if stack is None else getattr(stack.run, "assign", None)
    if noted is None:
        return False
    noted(variable, value, None, of_ops=True)
    return True


def computed_anew(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function whose results each call of a function that is being compiled computes again.

    Otherwise the program would keep equal results of the first computation, and with them their memory.
    """
    stack = _stack.get()
    anew = None if stack is None else getattr(stack.run, "computed_anew", None)
    return function(*args, **kwargs) if anew is None else anew(function, *args, **kwargs)


def done_later(function: Callable[..., None], tensors: list[Any], changed: Callable[[], list[Any]]) -> bool:
    """Let each call of a function that is being compiled end with a call. False if no function is being compiled.

    Parameters
    ----------
    function : callable
        Takes a list like `tensors`.
    tensors : list
        Tensors, and other objects, which are the same at each call.
    changed : callable
        Returns the variables that the function may change.
    """
    stack = _stack.get()
    later = None if stack is None else getattr(stack.run, "later", None)
    if later is None:
        return False
    later(function, tensors, changed())
    return True


def active() -> Stack | None:
    """The stack if a tape is active in this thread, otherwise None."""
    stack = get_stack()
    return stack if stack.sessions else None


def leaf(tapes: TapeSet = NO_TAPES) -> Record:
    """A record without parents, for example of a watched tensor."""
    return [next(count), LEAF, None, (), None, None, tapes, None, None, None]


def record_of(x: Any) -> Record:
    """The record of a tensor or variable. Without a record, a new leaf that no tape watches."""
    r: Record | None = x._record
    if r is None:
        with sharing:
            r = x._record
            if r is None:
                r = x._record = leaf()
    return r


def parents_of(record: Record) -> tuple[Record, ...]:
    """The records of the active inputs in the order of ``STEP.active``."""
    parents: Any = record[PARENTS]
    if parents.__class__ is not list:
        return parents  # type: ignore[no-any-return]
    other = record[OTHER]
    return (parents, other) if other.__class__ is list else (parents,)


def step_of(record: Record) -> Any:
    """The step of a record; None for a leaf. A generated function has the step as an attribute."""
    step: Any = record[STEP]
    return step.step if step.__class__ is FunctionType else step  # type: ignore[attr-defined]


def for_a_check_alone(record: Record) -> bool:
    """Whether a record exists only for the verify flag. For the tapes its result is a constant."""
    if record[STEP] is None:
        return record[OUT] is ANCHOR
    idle = idle_in(record)
    return bool(idle.sessions) and record[TAPES].sessions <= idle.sessions


def idle_in(record: Record) -> TapeSet:
    """The sessions for which a recorded value is a constant that only their checks follow.

    An inner tape may follow a constant of the outer tapes, and ops on it. The outer tapes hold no records of these ops,
    but their checks need them.
    """
    if record[STEP] is None:
        made = None if record[OUT] is ANCHOR else maker_of(record)
        return NO_TAPES if made is None or made is record else made[TAPES]
    if step_of(record).prim is None:  # one output of an op with several
        (record,) = parents_of(record)
    trace = record[TRACE] if len(record) > TRACE else None
    return NO_TAPES if trace is None else trace.idle


def is_live(tapes: TapeSet) -> bool:
    """Whether some sessions are still open."""
    return any([s.live for s in tapes.sessions])  # noqa: C419 - a list is quicker


def watched_leaf(record: Record | None) -> Record:
    """A new leaf for a watched tensor. If the tensor was recorded for a check alone, the leaf keeps that record.

    For the tapes that recorded it the tensor stays a constant, but a check needs the op that made it.
    """
    made = leaf()
    if record is not None and record[STEP] is not None:
        made[SEQ], made[INS] = record[SEQ], record
    return made


def maker_of(record: Record | None) -> Record | None:
    """The record of the op whose result a leaf stands for, see `watched_leaf`; any other record unchanged."""
    if record is None or record[STEP] is not None or record[INS] is None:
        return record
    made: Record = record[INS]
    return made if made[STEP] is not None else record


_EMPTY = (None, None, (), None, None, NO_TAPES, None)


def empty(record: Record) -> None:
    """Drop all references of a record, but keep its sequence number."""
    record[COT:] = _EMPTY


def forget_parents(record: Record) -> None:
    """Make a record a leaf that keeps its tapes and tangents."""
    record[COT:TAPES] = LEAF, None, (), None, None
    record[OTHER] = None


def clear_below(pending: list[Any], *, spare: bool) -> None:
    """Empty records and all their ancestors. With `spare`, records that an open session holds stay unchanged."""
    ended = None  # a set without an open session
    while pending:
        r = pending.pop()
        if r is None or r[STEP] is None:
            continue
        tapes = r[TAPES]
        if spare:
            if tapes is not ended and is_live(tapes):
                continue
            ended = tapes
            if is_live(idle_in(r)):
                continue
        parents = parents_of(r)
        empty(r)
        pending.extend(parents)


class _Care:
    """The decision whether sessions track every result by a weak reference.

    Tracking doubles the cost of recording, so it is off until a tensor outlives its tape. The session's own TapeSet
    then outlives the session, because a record holds the set. A search empties the records that hold the set, and the
    next 64 sessions track.

    Most results that outlive a tape without a call of gradient() are freed a moment later, with the same function. The
    search takes as long as a collection, so it waits until the next tape begins or ends.
    """

    __slots__ = ("sessions_left", "waiting")

    def __init__(self) -> None:
        self.sessions_left = 0
        # Weak references to the TapeSets of dead tapes, and to results that such tapes tracked.
        self.waiting: tuple[Any, ...] = ()

    def search(self) -> None:
        """Empty the records that hold the TapeSets of dead tapes."""
        waiting, self.waiting = self.waiting, ()
        for ref in waiting:
            found = ref()
            if found is not None and (found.__class__ is not TapeSet or _empty_holders(found)):
                self.sessions_left = 64


_care = _Care()


def should_track() -> bool:
    """Whether a session that starts now tracks all results, because results outlived recent sessions."""
    if _care.waiting:
        _care.search()
    if _care.sessions_left:
        _care.sessions_left -= 1
        return True
    return False


def _forget(variables: dict[int, Any], alone: TapeSet) -> None:
    """Remove a session from the variables that it watches."""
    for v in variables.values():
        if v._record[TAPES] is alone:
            v._record[TAPES] = NO_TAPES


def _left_to_checks(tensor: Any, record: Record) -> Record | None:
    """The record of a tensor after the end of all sessions that hold it; None if no check needs the op.

    It is another record, because the sweeps of the outer tapes may meet the old one, and it is not theirs.
    """
    idle = idle_in(record)
    live = [s for s in idle.sessions if s.live]
    if not live:
        return None
    if record[STEP] is None:
        return maker_of(record)
    made = list(record)
    made[TAPES] = TapeSet(live)
    for session in live:
        session.track(tensor)
    return made


def _disconnect(tracked: Any) -> Any:
    """Turn results that no open session holds into constants. Returns a weak reference to an op's result, or None."""
    outlived = None
    whole = None  # a set of open sessions
    for ref in tracked:
        tensor = ref()
        if tensor is None:
            continue
        record = tensor._record
        if record is None or record[TAPES] is whole:
            continue
        tapes = record[TAPES]
        open_sessions = [s for s in tapes.sessions if s.live]
        if open_sessions:
            if len(open_sessions) < len(tapes.sessions):
                record[TAPES] = TapeSet(open_sessions)
            else:
                whole = tapes
        elif record[STEP] is None and not record[PARENTS]:
            tensor._record = _left_to_checks(tensor, record)
        else:
            tensor._record = _left_to_checks(tensor, record)
            if tensor._record is None:
                empty(record)
                outlived = ref
    return outlived


def _empty_holders(alone: TapeSet | None) -> bool:
    """Empty the records of ops that hold a session's TapeSet. True if there were any."""
    found = False
    for r in gc.get_referrers(alone):
        if (
            r.__class__ is list
            and len(r) > TAPES
            and r[TAPES] is alone
            and r[STEP] is not None
            and not is_live(idle_in(r))
        ):
            empty(r)
            found = True
    return found


def close(session: Session, *, unused: bool = False) -> None:
    """End a session: empty every record that no other open session holds.

    A loss kept for a log then has no graph. Records inside the graph are freed together with the records of the results
    that are still alive.

    Parameters
    ----------
    session : Session
    unused : bool
        Whether the tape is freed before any call of gradient(). Records that no list contains may then be emptied
        later, when the next tape begins or ends.
    """
    if session.inside is not None:
        leave(session)
    if not session.live:
        return
    session.live = False
    _closings[0] += 1
    if session.trace:
        session.branches = session.conversions = session.assignments = session.starts = session.entries = ()
        session.decisions = ()
        session.alive = session.alive_first = None
    alone, session.alone = session.alone, NO_TAPES  # breaks the cycle of TapeSet and session
    variables, session.variables = session.variables, {}
    tracked, session.tracked = session.tracked, ()
    session.beside = ()
    outlived = None
    if variables or tracked:
        with sharing.now:
            _forget(variables, alone)
            outlived = _disconnect(tracked) if tracked else None
    if session.plain:
        # The test uses a weak reference, because reference counts differ between interpreters. Results that were
        # tracked because of several tapes are no reason to track the next sessions.
        outlived = weakref.ref(alone)
        del alone
    elif not session.tracks_for_now:
        outlived = None
    if _care.waiting:
        _care.search()
    if outlived is not None and outlived() is not None:
        _care.waiting = (*_care.waiting, outlived)
        if not unused:
            _care.search()

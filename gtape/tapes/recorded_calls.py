"""Calls of compiled functions under a tape: one record for the whole call, whose backward step is compiled, too.

The call is traced under the tape itself, so that the traced ops make the records of eager ones. A sweep over these
records is traced then. A call under several tapes, in forward mode or in a check runs eagerly, and so does a function
with several results that depend on what the tape watches, with custom gradients, or with lookups.
"""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

import numpy as np

from gtape.base.escaping import plain
from gtape.base.locks import Lock
from gtape.engine.call import new_record
from gtape.engine.full_sweep import full_sweep
from gtape.engine.requests import one_of
from gtape.engine.sweep import short_sweep
from gtape.engine.whole_calls import Ops, WholeCall
from gtape.engine.worlds import NUMPY
from gtape.recording import record
from gtape.recording.record import MOST_WATCHED, NO_TAPES, STEP, TAPES, Record, Session, Stack
from gtape.tapes.forms import LATER, Results, form_of, outputs_of, traced
from gtape.tapes.inner_loops import Doubt
from gtape.tapes.program import GENERATION, Program, is_current
from gtape.tapes.rewriting import forget_values
from gtape.tapes.traced_records import Graph, SweepNodes, interned
from gtape.tapes.traced_values import Node, Raw, Traced, Untraceable
from gtape.tapes.tracing import Tracer, tracing
from gtape.tensors.tensor import Tensor

__all__ = ["RecordedCalls"]

_MOST_KINDS = 64  # kinds of arguments that one function keeps
_MOST_FAILURES = 3  # calls that fail for their values before a kind of arguments is never traced again
_MOST_GUARDS = 16  # calls for which a program is not valid before it may be given up

_MOST_TIMES = 8  # times that a kind of arguments is traced again for tensors that a tape watches
_MOST_TENSORS = 10_000  # tensors that are told apart

_QUIET = type(copy_context().run)  # of the function that runs kernels while nothing checks them
_FLAGS = ("selects", "shared", "mixed", "custom")


def _outcome(program: Program, raws: Sequence[Any]) -> tuple[Any, ...]:
    """The raw results of a program; raises what the eager call words."""
    try:
        return program.run(*raws)
    except Doubt:
        return program.again(raws)


# ---------------------------------------------------------------------------------------------- sweeps


class _CompiledSweep:
    """The sweep over the ops of a call.

    Parameters
    ----------
    program : Program
        Takes the cotangent and the values that the sweep reads, returns a cotangent for each parent.
    seed : raw value
        A cotangent of the layout that the program takes.
    ops : Ops
        For cotangents that the program does not take.
    parents : int
        Their number.
    full : bool
        Whether the program has the bits of the full sweep alone.
    """

    __slots__ = ("_form", "_full", "_ops", "_parents", "_program")

    def __init__(self, program: Program, seed: Any, ops: Ops, parents: int, full: bool) -> None:
        self._program, self._ops, self._parents, self._full = program, ops, parents, full
        self._form = None if seed.__class__ is float else (seed.__class__, seed.dtype, seed.shape)

    def __call__(self, g: Any, ins: Any, out: Any) -> Sequence[Any]:
        if self._form is None:
            if g.__class__ is np.float64:  # of a sweep that computes with NumPy's numbers
                g = float(g)
            fits = g.__class__ is float
        else:
            fits = isinstance(g, (np.ndarray, np.generic)) and (g.__class__, g.dtype, g.shape) == self._form
        if fits:
            try:
                return _outcome(self._program, (g, *out))
            except Exception:  # a guard, or an error that the eager sweep words
                pass
        return self._by_ops(g, ins)

    def _by_ops(self, g: Any, ins: Any) -> Sequence[Any]:
        """The cotangents by an eager sweep over the ops."""
        session = Session()
        leaves = [record.leaf(session.alone) for _ in range(self._parents)]
        start = self._ops.records(ins, leaves, session.alone)
        if self._full:
            return full_sweep(NUMPY, session, [(start, g)], leaves)[0]
        return short_sweep([(start, g)], leaves)


# ---------------------------------------------------------------------------------------------- traced calls


class _Refusal:
    """A kind of arguments that runs eagerly under a tape."""

    def __init__(self, reason: str, held: list[Any]) -> None:
        self.reason, self.held, self.generation = reason, held, GENERATION.number


class _Recorded(Results):
    """A kind of call under a tape.

    Attributes
    ----------
    program : Program
        Returns the results, and the values that the sweep reads.
    variables : list of (Variable, Layout, bool)
        The variables that the call reads, and whether the tape watches each.
    step, sweep : WholeCall and Program, or None
        The backward step, and its program; None if no result depends on what the tape watches.
    place : int
        Of the tensor among the results that gets the record.
    edges : list of int
        For each parent of the record the number of the input.
    watched : list of int
        The inputs that tapes inside of the call watch.
    flags : list of str
        What the call sets in a session.
    seen : _Seen
    again : int
        How often the call was traced again, because a tape watched tensors that existed before.
    """

    seen: _Seen
    program: Program
    variables: list[tuple[Any, Any, bool]]
    step: WholeCall | None = None
    sweep: Program | None = None
    place = 0
    edges: Sequence[int] = ()
    watched: Sequence[int] = ()
    flags: Sequence[str] = ()

    def __init__(self, made: Any, outputs: list[Any], held: list[Any]) -> None:
        super().__init__(made, outputs)
        self.held, self.generation = held, GENERATION.number
        self.calls = self.failures = self.again = 0

    def attach(self, stack: Stack, ins: tuple[Tensor, ...], out: Tensor, kept: tuple[Any, ...]) -> None:
        """Give the result its record."""
        session = stack.tracker
        for flag in self.flags:
            setattr(session, flag, True)
        if any([ins[k]._record[STEP] is not None for k in self.watched]):  # noqa: C419
            session.shared = True
        session.calls = True
        parents: list[Any] = [ins[k]._record for k in self.edges]
        out._record = new_record(self.step, parents, ins, kept, stack.recording)
        if stack.note is not None:
            stack.note(out)


class _Values:
    """Computes the values between the ops of a call; made only when a sweep asks for the ops."""

    __slots__ = ("_inputs", "_name", "_nodes", "_program", "_values")

    def __init__(self, inputs: list[Node], nodes: list[Node], values: list[Any], name: str) -> None:
        self._inputs, self._nodes, self._values, self._name = inputs, nodes, values, name
        self._program: Program | None = None

    def __call__(self, raws: Sequence[Any]) -> tuple[Any, ...]:
        program = self._program
        if program is None:
            wanted = [v for v in self._values if v.__class__ is Node]
            program = self._program = Program(self._inputs, self._nodes, wanted, self._name)
        made = iter(record.get_stack().run(_outcome, program, raws))
        return tuple([next(made) if v.__class__ is Node else v for v in self._values])


# ---------------------------------------------------------------------------------------------- calls


class RecordedCalls:
    """Runs one compiled function under tapes.

    Parameters
    ----------
    function : callable
    name : str
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function, self._name = function, name
        self._known: OrderedDict[Any, _Recorded | _Refusal] = OrderedDict()
        self._failures: dict[Any, int] = {}
        self._lock = Lock()

    def __call__(self, stack: Stack, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the call, recorded; NotImplemented for a call that runs eagerly."""
        session = stack.tracker
        if session is None or session.inside is not stack or stack.probe is not None:
            return NotImplemented
        if stack.run.__class__ is not _QUIET:  # every kernel is to be checked, or another function is being traced
            return NotImplemented
        tensors: list[Tensor] = []
        held: list[Any] = []
        try:
            key: Any = [form_of(x, tensors, held) for x in args]
            key += [(k, form_of(kwargs[k], tensors, held)) for k in sorted(kwargs)]
        except (Untraceable, TypeError, RecursionError):  # arguments that no program takes
            return NotImplemented
        active = [_is_active(stack, t) for t in tensors]
        if None in active or len(session.watched) > MOST_WATCHED:
            return NotImplemented
        key = (session.watch_accessed, *active, *key)
        try:
            found: Any = self._known.get(key)
        except TypeError:  # an argument cannot be a key
            return NotImplemented
        if not _holds(found, session):
            found = self._compiled(key, session, args, kwargs, active, held)
        return self._run(key, found, stack, tensors) if found.__class__ is _Recorded else NotImplemented

    def _run(self, key: Any, found: _Recorded, stack: Stack, tensors: list[Tensor]) -> Any:
        ins = [*tensors]
        found.calls += 1
        for v, layout, active in found.variables:
            if v._tensor_layout is not layout:
                return NotImplemented
            t = v._as_tensor()
            if _is_active(stack, t) is not active:
                return NotImplemented
            ins.append(t)
        try:
            made = stack.run(_outcome, found.program, [t._value for t in ins])
        except Exception:  # a guard, or an error that the eager call words
            found.failures += 1
            if found.failures > _MOST_GUARDS and 2 * found.failures > found.calls:
                self._known[key] = _Refusal("does what depends on the values of tensors", found.held)
            return NotImplemented
        leaves = found.leaves(made[: found.count])
        if found.step is not None:
            found.attach(stack, tuple(ins), leaves[found.place], made[found.count :])
        return found.packed(leaves)

    def _compiled(self, key: Any, session: Session, args: Any, kwargs: Any, active: list[Any], held: list[Any]) -> Any:
        with self._lock:
            found: Any = self._known.get(key)
            if _holds(found, session):
                return found
            again = found.again + 1 if found.__class__ is _Recorded else 0
            if again > _MOST_TIMES:
                return None
            made: Any
            reason = "raises an error while it is traced"
            try:
                made = self._traced(session, args, kwargs, active, held)
            except Untraceable as e:
                reason = str(e)
                made = None if reason in LATER else _Refusal(reason, held)
            if made is None:
                failed = self._failures[key] = self._failures.get(key, 0) + 1
                if failed < _MOST_FAILURES:
                    return None
                made = _Refusal(reason, held)
            if made.__class__ is _Recorded:
                made.again = again
            self._failures.pop(key, None)
            self._known[key] = made
            self._drop_oldest()
            return made

    def lines(self) -> list[str]:
        """A line for each kind of call under a tape, for a summary."""
        found = []
        for made in list(self._known.values()):
            if made.__class__ is _Refusal:
                found.append(f"under a tape, eager: {made.reason}")
                continue
            p, sweep = made.program, made.sweep  # type: ignore[union-attr]
            swept = "" if sweep is None else f", {sweep.kept} of {sweep.traced} in the sweep"
            found.append(f"under a tape, compiled: {p.kept} of {p.traced} operations{swept}; {p.summary()}")
        return found

    def _drop_oldest(self) -> None:
        """Keep the bound of kinds; the caller holds the lock."""
        while len(self._known) > _MOST_KINDS:
            self._known.popitem(last=False)

    def _traced(self, session: Session, args: Any, kwargs: Any, active: list[Any], held: list[Any]) -> Any:
        """The call as programs; None if its values prevent the tracing."""
        before = {flag: getattr(session, flag) for flag in _FLAGS}
        watched = session.watched
        try:
            for flag in _FLAGS:
                setattr(session, flag, False)
            with tracing(session) as tracer:
                found = self._programs(tracer, session, args, kwargs, active, held)
            if found is not None:
                found.seen = _Seen(watched)
            return found
        finally:
            session.watched = watched
            for flag, value in before.items():
                setattr(session, flag, value)

    def _programs(
        self, tracer: Tracer, session: Session, args: Any, kwargs: Any, active: list[Any], held: list[Any]
    ) -> _Recorded | None:
        since, watched = next(record.count), session.watched
        given: list[Traced] = []
        args, kwargs = traced(args, tracer, given), {k: traced(kwargs[k], tracer, given) for k in sorted(kwargs)}
        for t, recorded in zip(given, active, strict=True):
            if recorded:
                t._record = record.leaf(session.alone)
        try:
            made = self._function(*args, **kwargs)
        except Exception:
            if tracer.error is None and (tracer.reason is None or tracer.reason in LATER):
                return None
            made = None
        _go_on(tracer, session)
        if session.watched is not watched:
            raise Untraceable("watches a tensor with a tape around the call")
        outputs, tensors = outputs_of(made, tracer)
        found = _Recorded(made, outputs, held)
        found.flags = [flag for flag in _FLAGS if getattr(session, flag)]
        found.variables = [
            (v, v._tensor_layout, v._layout.inexact and session in v._record[TAPES].sessions) for v in tracer.variables
        ]
        inputs, nodes = list(tracer.inputs), list(tracer.nodes)
        outs = [t._value.node for t in tensors]
        name = plain(self._name)
        recorded = [k for k, t in enumerate(tensors) if t._record is not None and session in t._record[TAPES].sessions]
        if not recorded:
            found.program = Program(inputs, nodes, outs, name)
            return found
        if len(recorded) > 1:
            raise Untraceable("has several results that depend on what the tape watches")
        result = tensors[recorded[0]]
        found.place = found.places[recorded[0]]
        variables = {len(given) + k: v for k, (v, _, on) in enumerate(found.variables) if on}
        graph = Graph(session, since, given, variables)
        graph.gather(result._record)
        found.edges = graph.edges
        found.watched = [k for k, t in enumerate(given) if active[k] and t._record[TAPES] is not session.alone]
        ops, values = graph.ops()
        cotangents, seed = _swept(tracer, session, result, graph.leaves, bool(found.flags))
        _go_on(tracer, session)
        parts = SweepNodes(tracer.nodes[len(nodes) :], seed)
        wanted = [parts.stand_in(c) for c in cotangents]
        read = list(parts.read)
        sweep = found.sweep = Program([seed, *parts.read.values()], parts.nodes, wanted, f"{name}_backward")
        forget_values([*parts.nodes, *parts.read.values()])
        found.program = Program(inputs, nodes, outs + read, name)
        floats = any(n.sample.__class__ is float for n in (seed, *parts.nodes, *read))
        forget_values([*inputs, *nodes])
        whole = Ops(ops, _Values(inputs, nodes, values, name))
        compiled = _CompiledSweep(sweep, seed.sample, whole, len(graph.edges), bool(found.flags))
        found.step = WholeCall(self._name, whole, compiled, full=bool(found.flags) or not floats)
        return found


def _go_on(tracer: Tracer, session: Session) -> None:
    """Raise Untraceable if a traced call cannot be repeated by programs."""
    if tracer.error is not None or tracer.reason is not None or tracer.assigned or session.custom:
        raise Untraceable(tracer.reason or "does what no recorded program repeats")


def _swept(
    tracer: Tracer, session: Session, result: Traced, sources: list[Record], full: bool
) -> tuple[list[Node], Node]:
    """The cotangents of a sweep, and the cotangent at its start."""
    layout = interned(result._layout)
    seed = tracer.input(one_of(layout)._value)  # type: ignore[union-attr]
    with record.off(probe={}):
        made = tracer.sweep(session, result._record, seed, sources, full=full)
    nodes = []
    for c in made:
        if c is None or not isinstance(c, (Raw, float, np.ndarray, np.generic)):
            raise Untraceable("has a gradient that is no array")
        nodes.append((c if c.__class__ is Raw else tracer.constant(c)).node)
    return nodes, seed.node


def _holds(found: Any, session: Session) -> bool:
    """Whether the program, or the refusal, for a kind of arguments holds for a call under a tape."""
    return is_current(found) and (found.__class__ is _Refusal or found.seen.allows(session.watched))


def _is_active(stack: Stack, t: Tensor) -> bool | None:
    """Whether the tape records ops on a tensor; None where a longer search has to decide."""
    r = t._record
    if r is None or r[TAPES] is NO_TAPES:
        return False
    if r[TAPES] is stack.recording:
        return bool(t._layout.inexact)
    return None if stack.meet(r[TAPES]).sessions else False


class _Seen:
    """The tensors that a traced call may have read as constants: those that exist since then.

    If a tape watches one of them later, the function has to be traced again, to find out whether it reads it. Tensors
    that the tape watched in the traced call are known not to be read.

    Parameters
    ----------
    watched : tuple of weakref.ref
        What the tape watched in the traced call.
    """

    __slots__ = ("_old", "_watched")

    def __init__(self, watched: tuple[Any, ...]) -> None:
        self._watched = watched
        kinds = {Tensor, *Tensor.__subclasses__()}
        # The collector does not list the objects of `gc.freeze`.
        known = None if gc.get_freeze_count() else [o for o in gc.get_objects() if type(o) in kinds]
        few = known is not None and len(known) < _MOST_TENSORS
        self._old = {id(o): weakref.ref(o) for o in known} if few else None  # type: ignore[union-attr]

    def allows(self, watched: tuple[Any, ...]) -> bool:
        """Whether the traced call read none of the watched tensors."""
        return all([self._is_new(ref()) for ref in watched])  # noqa: C419 - a list is quicker

    def _is_new(self, t: Any) -> bool:
        if t is None or any([ref() is t for ref in self._watched]):  # noqa: C419
            return True
        if self._old is None:
            return False
        ref = self._old.get(id(t))
        return ref is None or ref() is not t

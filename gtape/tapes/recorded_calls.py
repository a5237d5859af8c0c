"""Calls of compiled functions under a tape: one record for the whole call, with a compiled backward step.

The call is traced under the tape itself, so that traced ops make the same records as eager ops. Then a sweep over these
records is traced. Each pattern (the set of results that have a cotangent) needs a sweep of its own. The likely pattern
gets its sweep at once. When another pattern occurs, the call is traced again to get one.

Calls under several tapes, in forward mode or in a check run eagerly, and so do functions with custom gradients or
lookups.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.escaping import plain
from gtape.base.locks import Lock
from gtape.base.own_files import raised_by_user
from gtape.engine.call import new_record
from gtape.engine.full_sweep import full_sweep
from gtape.engine.requests import one_of
from gtape.engine.sweep import short_sweep
from gtape.engine.whole_calls import Ops, PartOfCall, WholeCall
from gtape.engine.worlds import NUMPY
from gtape.recording import record
from gtape.recording.record import (
    MOST_WATCHED,
    NO_TAPES,
    OTHER,
    PARENTS,
    SEQ,
    SEVERAL,
    STEP,
    TAPES,
    Session,
    Stack,
)
from gtape.tapes.assigning import tracing_call
from gtape.tapes.drawn import Draw, SeedsOfPython, go_back, sources_of, states
from gtape.tapes.forms import Results, are_different, form_of, form_of_owner, outputs_of, repeated
from gtape.tapes.kinds import (
    GENERATION,
    LATER,
    OF_TWO_NAMES,
    TWO_NAMES,
    First,
    Invalid,
    Kinds,
    Refusal,
    TooDeep,
    TwoNames,
    by_other_ways,
    invalid_by,
    is_current,
    note_invalid,
)
from gtape.tapes.lives import is_large
from gtape.tapes.program import Program
from gtape.tapes.rewriting import forget_values
from gtape.tapes.seen_constants import SeenConstants, SeenTensors
from gtape.tapes.traced_arguments import TracedArguments
from gtape.tapes.traced_records import Graph, SweepNodes, interned
from gtape.tapes.traced_values import Node, Raw, Traced, Untraceable
from gtape.tapes.tracing import Tracer
from gtape.tensors.tensor import Tensor

__all__ = ["RecordedCalls"]

_MOST_TIMES = 8  # times that a kind of arguments is traced again for tensors that a tape watches
_MOST_PATTERNS = 4  # of results with a cotangent for which a call has a sweep
_MOST_ASKED = 4  # programs of a sweep before sweeps that need only some of its cotangents compute all

_QUIET = type(copy_context().run)  # the class of the runner of kernels while no check replaces the runner
_FLAGS = ("selects", "shared", "mixed", "custom")


# ---------------------------------------------------------------------------------------------- sweeps


class _Seed:
    """The form of a cotangent that a program takes.

    Parameters
    ----------
    like : raw value
        A cotangent with the layout of the form.
    """

    __slots__ = ("_form",)

    def __init__(self, like: Any) -> None:
        self._form = None if like.__class__ is float else (like.__class__, like.dtype, like.shape)

    def taken(self, g: Any) -> Any:
        """The cotangent as the program takes it; None if the program does not take it."""
        if self._form is None:
            if g.__class__ is np.float64:  # a cotangent from a sweep that computes with NumPy's numbers
                return float(g)
            return g if g.__class__ is float else None
        fits = isinstance(g, (np.ndarray, np.generic)) and (g.__class__, g.dtype, g.shape) == self._form
        return g if fits else None


def _by_ops(ops: Ops, parents: int, ins: Any, gs: Sequence[tuple[int, Any]], *, full: bool) -> Sequence[Any]:
    """The cotangents of the parents, by an eager sweep over the ops.

    Parameters
    ----------
    ops : Ops
    parents : int
        The number of parents.
    ins : tuple of Tensor
        The inputs of the call.
    gs : sequence of (int, raw value)
        The indices of results with a cotangent, and the cotangents.
    full : bool
        Whether the full sweep is used.
    """
    session = Session()
    leaves = [record.leaf(session.alone) for _ in range(parents)]
    results, _ = ops.records(ins, leaves, session.alone)
    seeds = [(results[i], g) for i, g in gs]
    return full_sweep(NUMPY, session, seeds, leaves)[0] if full else short_sweep(seeds, leaves)


class _Cotangents:
    """The programs of one traced sweep.

    Parameters
    ----------
    make : callable
        Returns the program that returns the values of some nodes.
    separate : dict of int to Node
        The cotangents of the parents that get one: one for each use of an input.
    sums : dict of int to Node
        One cotangent for each input, in the place of the first use: the sum over its uses. Empty if no input has
        several uses.
    large : bool
        Whether a sweep that needs only some of the cotangents gets a program for these, because the others would take
        memory until the program ends.
    """

    __slots__ = ("_large", "_lock", "_make", "_programs", "_separate", "_sums", "_usual", "summed")

    def __init__(
        self, make: Callable[[list[Node]], Program], separate: dict[int, Node], sums: dict[int, Node], *, large: bool
    ) -> None:
        # None after the last program is made, because the function and the nodes hold the nodes of the sweep.
        self._make: Callable[[list[Node]], Program] | None = make
        self._separate, self._sums, self._large = separate, sums, large
        self.summed = bool(sums)
        # By whether the cotangents are summed, and by the parents that the sweep asks for, None for all.
        self._programs: dict[tuple[bool, frozenset[int] | None], tuple[list[int], Program]] = {}
        self._lock = Lock()
        self._usual = self._of(self.summed, None)

    @property
    def program(self) -> Program:
        """The program that most sweeps run."""
        return self._usual[1]

    def _of(self, together: bool, asked: frozenset[int] | None) -> tuple[list[int], Program]:
        """The parents that get a cotangent, and the program that returns the cotangents in this order."""
        found = self._programs.get((together, asked))
        if found is None and asked is not None and len(self._programs) >= _MOST_ASKED:
            return self._of(together, None)
        if found is None:
            with self._lock:  # because a program gives names to its nodes
                found = self._made(together, asked)
        return found

    def _made(self, together: bool, asked: frozenset[int] | None) -> tuple[list[int], Program]:
        """As `_of`, under the lock."""
        found = self._programs.get((together, asked))
        if found is None:
            assert self._make is not None
            nodes = self._sums if together else self._separate
            places = [k for k in nodes if asked is None or k in asked]
            found = places, self._make([nodes[k] for k in places])
            self._programs[together, asked] = found
            if not (together or self._large):
                self._make, self._separate, self._sums = None, {}, {}
        return found

    def put(self, raws: list[Any], made: list[Any], *, together: bool, asked: frozenset[int] | None) -> None:
        """Put the cotangents of the parents into `made`, sums into the place of the first use. May empty `raws`."""
        if not self._large:
            asked = None
        if asked is None and (together or not self.summed):
            places, program = self._usual
        elif asked is not None and asked.isdisjoint(self._separate):
            return
        else:
            places, program = self._of(together and self.summed, asked)
        for k, c in zip(places, program.outcome(raws), strict=True):
            made[k] = c


class _CompiledSweep:
    """The sweep over the ops of a call with one result.

    Parameters
    ----------
    cotangents : _Cotangents
        Its programs take the cotangent and the values that the sweep reads.
    seed : raw value
        A cotangent of the layout that the program takes.
    ops : Ops
        For cotangents that the program does not take.
    parents : int
        The number of parents.
    full : bool
        Whether the program gives the same bits only as the full sweep.
    """

    __slots__ = ("_cotangents", "_full", "_ops", "_parents", "_seed")

    def __init__(self, cotangents: _Cotangents, seed: Any, ops: Ops, parents: int, full: bool) -> None:
        self._cotangents, self._ops, self._parents, self._full = cotangents, ops, parents, full
        self._seed = _Seed(seed)

    def __call__(
        self, g: Any, ins: Any, out: Any, *, together: bool = False, spend: bool = False, asked: Any = None
    ) -> Sequence[Any]:
        taken = self._seed.taken(g)
        if taken is not None:
            made: list[Any] = [None] * self._parents
            raws = [taken, *out]
            if spend:
                out.clear()
            try:
                self._cotangents.put(raws, made, together=together, asked=asked)
                return made
            except Exception:  # a guard, or an error that the eager sweep raises with its own message
                pass
        return _by_ops(self._ops, self._parents, ins, [(0, g)], full=self._full)


class _OnePattern:
    """The sweep of a call with several results for one pattern.

    Parameters
    ----------
    cotangents : _Cotangents
        Its programs take the cotangents of the results and the values that the sweep reads.
    seeds : list of _Seed
    reads : list of int
        The places, among the values of the record, of the values that the programs take.
    """

    __slots__ = ("_cotangents", "_reads", "_seeds")

    def __init__(self, cotangents: _Cotangents, seeds: list[_Seed], reads: list[int]) -> None:
        self._cotangents, self._seeds, self._reads = cotangents, seeds, reads

    def found(self, gs: list[Any], out: Any, made: list[Any], *, together: bool, spend: bool, asked: Any) -> bool:
        """Put the cotangents of the parents into `made`. Returns False if the program is not valid.

        With `spend`, the method empties `out`.
        """
        taken = [seed.taken(g) for seed, g in zip(self._seeds, gs, strict=True)]
        if any([g is None for g in taken]):  # noqa: C419 - a list is quicker
            return False
        raws = [*taken, *[out[k] for k in self._reads]]
        if spend:
            out.clear()
        try:
            self._cotangents.put(raws, made, together=together, asked=asked)
        except Exception:  # a guard, or an error that the eager sweep raises with its own message
            return False
        return True


class _Patterns:
    """The sweeps over the ops of a call with several results, by pattern.

    Parameters
    ----------
    known : dict of tuple of int to _OnePattern
        The sweeps by the indices of results that have a cotangent.
    ops, parents, full
        As in `_CompiledSweep`.

    Attributes
    ----------
    missing : set of tuple of int
        The patterns that occurred without a sweep.
    """

    __slots__ = ("_full", "_ops", "_parents", "known", "missing")

    def __init__(self, known: dict[Any, _OnePattern], ops: Ops, parents: int, full: bool) -> None:
        self.known, self._ops, self._parents, self._full = known, ops, parents, full
        self.missing: set[Any] = set()

    def __call__(
        self, g: Any, ins: Any, out: Any, *, together: bool = False, spend: bool = False, asked: Any = None
    ) -> Sequence[Any]:
        results = sorted(g.parts)
        pattern = self.known.get(tuple(results))
        made: list[Any] = [None] * self._parents
        if pattern is None:
            if len(self.known) + len(self.missing) < _MOST_PATTERNS:
                self.missing.add(tuple(results))
        elif pattern.found([g.parts[i] for i in results], out, made, together=together, spend=spend, asked=asked):
            return made
        return _by_ops(self._ops, self._parents, ins, [(i, g.parts[i]) for i in results], full=self._full)

    def fully(self, g: Any, ins: Any, out: Any) -> Sequence[Any]:
        """The cotangents of the full sweep, because no program gives them."""
        return _by_ops(self._ops, self._parents, ins, sorted(g.parts.items()), full=True)


# ---------------------------------------------------------------------------------------------- traced calls


class _Recorded(Results):
    """A kind of call under a tape, compiled.

    Attributes
    ----------
    program : Program
        Returns the results, and the values that the sweep reads.
    variables : list of (Variable, Layout, bool)
        The variables that the call reads, and whether the tape watches each.
    step : WholeCall or None
        The backward step; None if no result depends on a watched tensor.
    sweeps : list of Program
        The sweeps of the backward step.
    parts : list of PartOfCall
        The steps of the records of single results; empty if there is one result.
    records : list of (int, int)
        The indices of results that get a record, with the number of the record.
    edges : list of int
        For each parent of the record the number of its input.
    watched : list of int
        The inputs that tapes inside of the call watch.
    flags : list of str
        The attributes of a session that the call sets.
    sources : list
        The places where the call draws random numbers.
    seen : _Seen
    outside : SeenTensors or None
        The tensors that no call may give as arguments, because tapes inside of the traced call read them as constants.
    again : int
        How often the call was traced again, because a tape watched tensors that the traced call read as constants.
    """

    seen: _Seen
    outside: SeenTensors | None = None
    program: Program
    variables: list[tuple[Any, Any, bool]]
    step: WholeCall | None = None
    sweeps: Sequence[Program] = ()
    parts: Sequence[PartOfCall] = ()
    records: Sequence[tuple[int, int]] = ()
    edges: Sequence[int] = ()
    watched: Sequence[int] = ()
    flags: Sequence[str] = ()
    sources: Sequence[Any] = ()
    decided_at = ""

    def __init__(self, made: Any, outputs: list[Any], held: list[Any]) -> None:
        super().__init__(made, outputs)
        self.held, self.generation = held, GENERATION.number
        self.calls = self.failures = self.wasted = self.again = 0
        self.noted = False  # whether a warning said that most calls are invalid

    @property
    def missing(self) -> Any:
        """The patterns that occurred without a sweep."""
        return self.step.sweep.missing if self.parts else ()  # type: ignore[union-attr]

    def attach(self, stack: Stack, ins: tuple[Tensor, ...], leaves: list[Tensor], kept: Sequence[Any]) -> None:
        """Give the results their records."""
        session = stack.tracker
        for flag in self.flags:
            setattr(session, flag, True)
        if any([ins[k]._record[STEP] is not None for k in self.watched]):  # noqa: C419
            session.shared = True
        session.calls = True
        parents: list[Any] = [ins[k]._record for k in self.edges]
        recording = stack.recording
        whole = new_record(self.step, parents, ins, kept, recording)
        made = [whole]
        if self.parts or self.step.waits:  # type: ignore[union-attr]
            whole[PARENTS], whole[OTHER] = tuple(parents), SEVERAL  # one form, because some may get no cotangent
        if self.parts:
            session.several = True
            first = whole[SEQ]
            whole[SEQ] = first + self.step.ops.offset_of_call  # type: ignore[union-attr]
            made = [[first + p.offset, None, p, whole, None, None, recording, None] for p in self.parts]
        for place, k in self.records:
            leaves[place]._record = made[k]
            if stack.note is not None:
                stack.note(leaves[place])


class _Values:
    """Computes the values between the ops of a call. Made when a sweep needs the ops."""

    __slots__ = ("_inputs", "_name", "_nodes", "_program", "_values")

    def __init__(self, inputs: list[Node], nodes: list[Node], values: list[Any], name: str) -> None:
        self._inputs, self._nodes, self._values, self._name = inputs, nodes, values, name
        self._program: Program | None = None

    def __call__(self, raws: Sequence[Any]) -> tuple[Any, ...]:
        program = self._program
        if program is None:
            wanted = [v for v in self._values if v.__class__ is Node]
            program = self._program = Program(self._inputs, self._nodes, wanted, self._name, again=True)
        made = iter(record.get_stack().run(program.outcome, raws))
        return tuple([next(made) if v.__class__ is Node else v for v in self._values])


# ---------------------------------------------------------------------------------------------- calls


class RecordedCalls:
    """Runs one compiled function under tapes.

    Parameters
    ----------
    function : callable
    name : str
    kinds : Kinds
        Keeps the programs.
    keeps_order : bool
        As for `Compiler`.
    names : tuple of str
        The names of the positional parameters, for messages.
    note_unusual : callable
        Takes the arguments of a call that no program takes.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, kinds: Kinds, keeps_order: bool,
        names: tuple[str, ...], note_unusual: Callable[[tuple[Any, ...], dict[str, Any], int], None],
    ) -> None:  # fmt: skip
        self._function, self._name, self._kinds, self._note_unusual = function, name, kinds, note_unusual
        self._known = kinds.known
        self._keeps_order, self._names = keeps_order, names

    def __call__(self, stack: Stack, args: tuple[Any, ...], kwargs: dict[str, Any], owned: int) -> Any:
        """The result of the call, recorded; NotImplemented if the call has to run eagerly."""
        session = stack.tracker
        if session is None or session.inside is not stack or stack.probe is not None:
            return NotImplemented
        if stack.run.__class__ is not _QUIET:  # a check wants every kernel, or another function is being traced
            return NotImplemented
        tensors: list[Tensor] = []
        held: list[Any] = []
        if kwargs and not self._keeps_order:
            kwargs = dict(sorted(kwargs.items()))
        try:
            key: Any = [form_of_owner(x, tensors, held) for x in args[:owned]]
            key += [form_of(x, tensors, held) for x in args[owned:]]
            key += [(k, form_of(x, tensors, held)) for k, x in kwargs.items()]
        except (Untraceable, TypeError, RecursionError):  # no program takes these arguments
            self._note_unusual(args, kwargs, owned)
            return NotImplemented
        active = [_is_active(stack, t) for t in tensors]
        if None in active or len(session.watched) > MOST_WATCHED:
            return NotImplemented
        key = (session.watch_accessed, *active, *key)
        if len(tensors) > 1 and not are_different(tensors):
            key = (repeated(tensors), key)
        try:
            found: Any = self._known.get(key)
        except TypeError:  # an argument cannot be a key
            self._note_unusual(args, kwargs, owned)
            return NotImplemented
        if not _holds(found, session):
            found = self._compiled(key, session, tensors, args, kwargs, active, held, first=True)
        if found.__class__ is not _Recorded:
            if found.__class__ is First:
                return found.result
            return self._kinds.eagerly(self._function, args, kwargs, [(key, found)])
        made = self._run(found, stack, tensors)
        refusals: list[tuple[Any, Any]] = []
        if made.__class__ is Invalid:

            def find(way: Any) -> Any:
                other: Any = self._known.get(way)
                if not _holds(other, session):
                    other = self._compiled(way, session, tensors, args, kwargs, active, held)
                if other.__class__ is _Recorded:
                    return other
                refusals.append((way, other))
                return None

            made = by_other_ways(key, made, find, lambda other: self._run(other, stack, tensors))
        if made is TWO_NAMES:
            self._kinds.warn(OF_TWO_NAMES)
            return NotImplemented
        if made.__class__ is not Invalid:
            return made
        # An error of the call is no reason to give up a program.
        result = self._kinds.eagerly(self._function, args, kwargs, refusals)
        if note_invalid(found, made):
            if made.wasteful:
                self._kinds.refuse(key, made.reason_of(found), found)
            self._kinds.warn(made.reason_of(found))
        return result

    def _run(self, found: _Recorded, stack: Stack, tensors: list[Tensor]) -> Any:
        """The result of a call; NotImplemented if it has to run eagerly.

        An `Invalid` if the program is not valid for it, TWO_NAMES because of the identity of an argument.
        """
        if found.outside is not None and found.outside.has_any(tensors):
            return TWO_NAMES
        before = states(found.sources) if found.sources else ()
        made = self._outcome(found, stack, tensors)
        if before and (made is NotImplemented or made.__class__ is Invalid):
            go_back(found.sources, before)
        return made

    def _outcome(self, found: _Recorded, stack: Stack, tensors: list[Tensor]) -> Any:
        ins = [*tensors]
        found.calls += 1
        for v, layout, active in found.variables:
            if v._tensor_layout is not layout:
                return NotImplemented
            t = v._as_tensor()
            if _is_active(stack, t) is not active:
                return NotImplemented
            ins.append(t)
        if found.parts and not found.step.ops.has_numbers(next(record.count)):  # type: ignore[union-attr]
            return NotImplemented
        try:
            made = stack.run(found.program.outcome, [t._value for t in ins])
        except Exception as e:  # if the user's call is wrong, the eager call raises the error with its own message
            return invalid_by(e)
        leaves = found.leaves(made[: found.count])
        if found.step is not None:
            kept = made[found.count :]
            found.attach(stack, tuple(ins), leaves, list(kept) if found.step.spends else kept)
        return found.packed(leaves)

    def _compiled(
        self, key: Any, session: Session, tensors: list[Tensor], args: Any, kwargs: Any, active: list[Any],
        held: list[Any], *, first: bool = False,
    ) -> Any:  # fmt: skip
        def make(found: Any) -> Any:
            again = 0
            asked: list[Any] = []
            if found.__class__ is _Recorded:
                again = found.again + 1
                asked = [*found.step.sweep.known, *found.missing] if found.step and found.parts else []
            if again > _MOST_TIMES:
                return None
            seeds = SeedsOfPython()
            try:
                made = self._traced(session, tensors, args, kwargs, active, held, asked)
            except TwoNames:
                seeds.restore()
                self._kinds.warn(OF_TWO_NAMES)
                return None
            except Untraceable as e:
                seeds.restore()
                return Refusal(str(e), held, later=str(e) in LATER)
            except TooDeep:
                seeds.restore()
                return Refusal("recurses too deeply while it is traced", held, later=True, pending=True, deep=True)
            if made is None:
                seeds.restore()
                return Refusal("raises an error while it is traced", held, later=True, pending=True)
            made.again = again
            return made

        call = (lambda: self._function(*args, **kwargs)) if first else None
        return self._kinds.made(key, lambda found: _holds(found, session), make, call)

    def programs(self) -> list[Program]:
        """The programs of calls under a tape, the newest last."""
        return [made.program for made in list(self._known.values()) if made.__class__ is _Recorded]

    def lines(self) -> list[str]:
        """Lines for a summary, one for each kind of call under a tape."""
        found = []
        for made in list(self._known.values()):
            if made.__class__ is Refusal:
                found.append(f"under a tape, eager: {made.reason}")
                continue
            p = made.program
            swept = "".join([f", {s.kept} of {s.traced} in the sweep" for s in made.sweeps])
            eager = f", eager for {made.failures} calls" if made.failures else ""
            found.append(f"under a tape, compiled: {p.kept} of {p.traced} operations{swept}; {p.summary()}{eager}")
        return found

    def _traced(
        self, session: Session, tensors: list[Tensor], args: Any, kwargs: Any, active: list[Any], held: list[Any],
        asked: list[Any],
    ) -> Any:  # fmt: skip
        """The call as programs, with sweeps for some patterns; None if the values prevent the tracing."""
        before = {flag: getattr(session, flag) for flag in _FLAGS}
        watched = session.watched
        try:
            for flag in _FLAGS:
                setattr(session, flag, False)
            with tracing_call(tensors, self._name, session) as tracer:
                found = self._programs(tracer, session, tensors, args, kwargs, active, held, asked)
            if found is not None:
                found.outside = tracer.outside().kept()
                found.seen = _Seen(tracer.seen, watched)
            return found
        finally:
            session.watched = watched
            for flag, value in before.items():
                setattr(session, flag, value)

    def _programs(
        self, tracer: Tracer, session: Session, originals: list[Tensor], args: Any, kwargs: Any, active: list[Any],
        held: list[Any], asked: list[Any],
    ) -> _Recorded | None:  # fmt: skip
        since, watched = next(record.count), session.watched
        arguments = TracedArguments(args, kwargs, tracer)
        given = arguments.given
        for t, recorded in zip(given, active, strict=True):
            if recorded:
                t._record = record.leaf(session.alone)
        try:
            made = self._function(*arguments.args, **arguments.kwargs)
        except BaseException as e:
            if not (by_user := raised_by_user(e)) and not isinstance(e, Exception):
                raise
            if tracer.error is None and tracer.reason is None:
                if tracer.outside().has_any_now(originals):
                    raise TwoNames from None
                if by_user:
                    tracer.ended = True
                    raise
            if tracer.error is None and (tracer.reason is None or tracer.reason in LATER):
                if isinstance(e, RecursionError):
                    raise TooDeep from None
                return None
            made = None
        if tracer.error is not None:
            raise tracer.error from None
        tracer.finish()
        _go_on(tracer, session)
        if session.watched is not watched:
            raise Untraceable("watches a tensor with a tape from before the call")
        if any([_is_of(session, t) for t in nest.flatten(made) if t.__class__ is Tensor]):  # noqa: C419
            raise Untraceable("returns a tensor of the tape that is no argument")
        outputs, tensors = outputs_of(made, tracer)
        arguments.refuse_changes(self._name, self._names)
        found = _Recorded(made, outputs, held)
        found.decided_at = tracer.decided_at()
        found.flags = [flag for flag in _FLAGS if getattr(session, flag)]
        found.variables = [
            (
                v,
                v._tensor_layout,
                v._layout.inexact and v.__class__ is not Draw and session in v._record[TAPES].sessions,
            )
            for v in tracer.variables
        ]
        found.sources = sources_of(tracer.variables)
        inputs, nodes = list(tracer.inputs), list(tracer.nodes)
        outs = [t._value.node for t in tensors]
        name = plain(self._name)
        recorded = [k for k, t in enumerate(tensors) if _is_of(session, t)]
        variables = {len(given) + k: v for k, (v, _, on) in enumerate(found.variables) if on}
        graph = Graph(session, since, given, variables)
        results: list[Traced] = []  # of ops
        starts: dict[int, int] = {}  # the numbers of these results by the identities of their records
        found.records = []
        for k in recorded:
            t = tensors[k]
            number = starts.setdefault(id(t._record), len(results))
            if number == len(results):
                results.append(t)
            found.records.append((found.places[k], number))
        if not results:
            found.program = Program(inputs, nodes, outs, name)
            return found
        graph.gather([t._record for t in results])
        found.edges = graph.edges
        found.watched = [k for k, t in enumerate(given) if active[k] and t._record[TAPES] is not session.alone]
        ops, values = graph.ops()
        full = bool(found.flags)
        several = len(results) > 1
        sweeps: dict[Any, _Swept] = {}
        asked = [pattern for pattern in asked if max(pattern, default=0) < len(results)]  # other values, other results
        for pattern in (asked or _likely(results)) if several else [(0,)]:
            chosen = [results[i] for i in pattern]
            sweeps[pattern] = _Swept(tracer, session, chosen, graph, f"{name}_backward", full=full)
        _go_on(tracer, session)
        if len(tracer.variables) > len(found.variables):
            raise Untraceable("reads a variable or draws random numbers in its gradient alone")
        read = list(dict.fromkeys([n for s in sweeps.values() for n in s.read]))
        found.program = Program(inputs, nodes, outs + read, name)
        floats = any([s.floats for s in sweeps.values()]) or any([n.sample.__class__ is float for n in read])  # noqa: C419
        places = {n: k for k, n in enumerate(read)}
        whole = Ops(ops, _Values(inputs, nodes, values, name), [graph.number(t._record) for t in results])
        compiled: Any
        if several:
            found.parts = [PartOfCall(i, offset) for i, offset in enumerate(whole.offsets)]
            known = {pattern: s.as_pattern(places) for pattern, s in sweeps.items()}
            compiled = _Patterns(known, whole, len(graph.edges), full)
        else:
            (swept,) = sweeps.values()
            if len(swept.places) < len(graph.edges):
                raise Untraceable("has an input without a gradient")
            compiled = _CompiledSweep(swept.cotangents, swept.seeds[0], whole, len(graph.edges), full)
        forget_values([*inputs, *nodes])
        found.sweeps = [s.cotangents.program for s in sweeps.values()]
        sums = any([s.cotangents.summed for s in sweeps.values()])  # noqa: C419 - a list is quicker
        uses = graph.uses() if sums else []
        spends = any([s.spends for s in sweeps.values()])  # noqa: C419 - a list is quicker
        found.step = WholeCall(
            self._name, whole, compiled, full=full or not floats, several=several, uses=uses, spends=spends
        )
        return found


def _likely(results: list[Traced]) -> list[tuple[int, ...]]:
    """The likely patterns. A number beside arrays is a loss; otherwise all results have cotangents."""
    numbers = [i for i, t in enumerate(results) if not t._layout.shape]
    if 0 < len(numbers) < len(results):
        return [(i,) for i in numbers[:_MOST_PATTERNS]]
    return [tuple(range(len(results)))]


def _go_on(tracer: Tracer, session: Session) -> None:
    """Raise Untraceable if programs cannot repeat a traced call."""
    if tracer.reason is not None or tracer.assigned or tracer.later_calls or session.custom:
        others = "calls a function at its end" if tracer.later_calls else "has a custom gradient"
        raise Untraceable(tracer.reason or ("assigns a variable" if tracer.assigned else others))


class _Swept:
    """The program of a traced sweep over a traced call.

    Parameters
    ----------
    tracer : Tracer
    session : Session
    results : list of Traced
        The results that the sweep starts from.
    graph : Graph
    name : str
    full : bool
        Whether the programs give the same bits as the full sweep.

    Attributes
    ----------
    cotangents : _Cotangents
        Its programs take a cotangent for each result, and the values of `read`.
    seeds : list of raw values
        Cotangents of the layouts that the programs take.
    places : list of int
        The indices of leaves that have a cotangent.
    read : list of Node
        The nodes of the call whose values the sweep reads.
    floats : bool
        Whether the sweep computes with Python's floats.
    spends : bool
        Whether the programs free the values of `read` that only they hold, each after its last read.
    """

    def __init__(
        self, tracer: Tracer, session: Session, results: list[Traced], graph: Graph, name: str, *, full: bool
    ) -> None:
        start = len(tracer.nodes)
        seeds = [tracer.input(one_of(interned(t._layout))._value) for t in results]  # type: ignore[union-attr]
        with record.off(probe={}):
            pairs = [(t._record, seed) for t, seed in zip(results, seeds, strict=True)]
            found = tracer.sweep(session, pairs, graph.leaves, full=full)
        self.places = [k for k, c in enumerate(found) if c is not None]
        made: dict[int, Raw] = {}
        for k in self.places:
            c = found[k]
            if not isinstance(c, (Raw, float, np.ndarray, np.generic)):
                raise Untraceable("has a gradient that is no array")
            made[k] = c if c.__class__ is Raw else tracer.constant(c)
        if not made:
            raise Untraceable("has a result without a gradient")
        end = len(tracer.nodes)
        sums = _sums(tracer, made, graph.uses())
        given = [seed.node for seed in seeds]
        self.seeds = [node.sample for node in given]
        parts = SweepNodes(_early(tracer.nodes[start:end], tracer.nodes[end:]), given)
        separate = {k: parts.stand_in(made[k].node) for k in self.places}
        self.read = list(parts.read)
        self.floats = any([n.sample.__class__ is float for n in (*given, *parts.nodes)])  # noqa: C419
        inputs = [*given, *parts.read.values()]
        spends = self.spends = any([is_large(n) for n in self.read])  # noqa: C419 - a list is quicker
        again = False

        def make(outputs: list[Node]) -> Program:
            nonlocal again
            program = Program(inputs, parts.nodes, outputs, name, again=again, spends=spends)
            again = True
            return program

        totals = {k: parts.stand_in(c.node) for k, c in sums.items()}
        self.cotangents = _Cotangents(make, separate, totals, large=spends)
        forget_values([*parts.nodes, *parts.read.values()])

    def as_pattern(self, places: dict[Node, int]) -> _OnePattern:
        """The sweep of a call with several results, whose record keeps its values at given places."""
        seeds = [_Seed(seed) for seed in self.seeds]
        return _OnePattern(self.cotangents, seeds, [places[n] for n in self.read])


def _sums(tracer: Tracer, made: dict[int, Raw], uses: list[list[int]]) -> dict[int, Raw]:
    """The sums of cotangents over the uses of each input, by the first use; empty if no input has several uses.

    The order of the terms is that of the eager sweep. Cotangents whose elements have different orders in memory stay
    separate, because the order of the eager sum depends on the other cotangents of the input.
    """
    sums = dict(made)
    for places in uses:
        terms = [k for k in places if k in made]
        if len(terms) < 2 or len({_form(made[k].node.sample) for k in terms}) > 1:
            continue
        total: Any = made[terms[0]]
        for k in terms[1:]:
            total = tracer.call(np.add if isinstance(total.node.sample, np.ndarray) else operator.add, (total, made[k]))
            del sums[k]
        sums[terms[0]] = total
    return sums if len(sums) < len(made) else {}


def _early(nodes: list[Node], sums: list[Node]) -> list[Node]:
    """The nodes of a sweep with each sum directly after its terms, so that the terms live no longer."""
    places = {node: k for k, node in enumerate(nodes)}
    after: dict[int, list[Node]] = {}
    for node in sums:
        place = places[node] = max([places.get(a, -1) for a in node.args if a.__class__ is Node], default=-1)
        after.setdefault(place, []).append(node)
    made = after.get(-1, [])
    for k, node in enumerate(nodes):
        made += [node, *after.get(k, ())]
    return made


def _form(sample: Any) -> Any:
    """The class of a value; of an array, also its layout in memory."""
    kind = sample.__class__
    return (kind, sample.shape, sample.strides, sample.dtype) if isinstance(sample, np.ndarray) else kind


def _holds(found: Any, session: Session) -> bool:
    """Whether the program or the refusal for a kind of arguments is valid for a call under a tape."""
    if not is_current(found) or found.__class__ is Refusal:
        return is_current(found)
    return not found.missing and bool(found.seen.allows(session.watched))


def _is_of(session: Session, t: Tensor) -> bool:
    """Whether a tape recorded or watches a tensor."""
    return t._record is not None and session in t._record[TAPES].sessions


def _is_active(stack: Stack, t: Tensor) -> bool | None:
    """Whether the tape records ops on a tensor; None if only a longer search can tell."""
    r = t._record
    if r is None or r[TAPES] is NO_TAPES:
        return False
    if r[TAPES] is stack.recording:
        return bool(t._layout.inexact)
    return None if stack.meet(r[TAPES]).sessions else False


class _Seen:
    """The tensors that a traced call may have read as constants.

    If a tape watches one of them later, the function has to be traced again, under this tape.

    Parameters
    ----------
    constants : SeenConstants
        Of the traced call.
    watched : tuple of weakref.ref
        The tensors that the tape watched in the traced call, which are no constants.
    """

    __slots__ = ("_constants", "_watched")

    def __init__(self, constants: SeenConstants, watched: tuple[Any, ...]) -> None:
        self._constants, self._watched = constants, watched

    def allows(self, watched: tuple[Any, ...]) -> bool:
        """Whether the traced call read none of the watched tensors."""
        return all([self._is_unread(ref()) for ref in watched])  # noqa: C419 - a list is quicker

    def _is_unread(self, t: Any) -> bool:
        if t is None or t._value not in self._constants:
            return True
        return any([ref() is t for ref in self._watched])  # noqa: C419

"""Values that left the tape and came back: a function that depends on its arguments in a way that no tape records.

For `check`, `exact` and `judge`, the function runs again at a moved point, and so does the recorded program. Where a
value came back as a constant, the program keeps the old value and the function does not. Most values leave through a
variable, or by conversions such as ``float(x)``, ``x.numpy()`` and ``np.asarray(x)``, each of which the recording
notes.

Under the flag the program cannot run again. A constant that certainly holds the number or array that left, or elements
of it (see `Conversion.found_in`), has come back, and the program computes it from the value that left. Such a constant
may still change no derivative, as the maximum that a logsumexp subtracts and adds. Nothing shows whether other values
came back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from gtape import nest
from gtape.base.escaping import place_text
from gtape.base.quiet import quietly
from gtape.recording.record import SEQ, STEP, TAPES, off
from gtape.recording.trace import (
    Conversion,
    Return,
    assignments_made,
    conversions_made,
    entries_made,
    floats_in,
    has_long_numbers,
    is_older,
    starts_made,
    stops_made,
)
from gtape.recording.undoing import repeating
from gtape.symbolic.build import build
from gtape.symbolic.program import Node, Program
from gtape.tensors.tensor import convert_to_tensor, is_tensor, wrap
from gtape.tensors.variable import Variable
from gtape.verify.judging.again import Again
from gtape.verify.judging.branches_beside import BranchesBeside
from gtape.verify.judging.connected import bodiless, followed, order_of
from gtape.verify.judging.idle import changes, differ, moves_with_params
from gtape.verify.judging.moved import Comparison, Outcome
from gtape.verify.judging.reads import Reads, reached
from gtape.verify.judging.recording import Recording, TracingTape
from gtape.verify.judging.returns import Returns, followed_through
from gtape.verify.oracles.enclosures import is_floating
from gtape.verify.verdicts.verdict import Finding, Report, merged

__all__ = ["Left", "add_values_left", "any_seeds", "later_numbers", "other_numbers", "values_left"]

_UNSEEN = (
    "such as a new variable that starts with one of their values, a number that an op reads from them, or a branch "
    "that only this point takes"
)
_REPLACED = (
    "a value leaves the tape here, and comes back as a later value of the source, whose earlier value the target reads "
    "too, so the gradient is the derivative by neither of them; keep the later value in a tensor, or write "
    "gtape.stop_gradient where the target is to take a value as a constant"
)
_OTHER_BRANCH = (
    "Python takes another branch at all points beside this one, where the function has other values than the record of "
    "this branch, so the record does not tell its derivative; choose by gtape's ops, or take another point"
)
_UNSHOWN = {
    Outcome.UNSTEADY: "the function is not deterministic",
    Outcome.NOWHERE: "the function cannot run at a moved point",
    Outcome.OPEN: "its effect is too small, or follows no power of the move",
}
# The cause that findings about such a value share in a campaign, because the point decides which of them shows.
_COMES_BACK = "a value leaves the tape here, and comes back as a constant"
_ADVICE = "keep the computation in gtape's ops, or give its derivative by gtape.custom_gradient"


def values_left(recording: Recording, order: int, branches: BranchesBeside | None = None) -> list[Finding]:
    """The finding about a value that left the tape and came back; empty if no value did.

    Parameters
    ----------
    recording : Recording
    order : int
    branches : BranchesBeside, optional
        As for `add_values_left`.

    Returns
    -------
    list of Finding
        `unconnected` if the function and the recorded program have different derivatives, as moved points show;
        `undecided` if a value left and the function cannot be compared, because it raises there or is not
        deterministic.
    """
    parted = _body_left(recording.tape._session, recording.inputs, recording.outputs, order)
    return _came_back_beside(recording, order, branches) if parted is None else [parted]


def add_values_left(report: Report, recording: Recording, order: int, branches: BranchesBeside | None = None) -> None:
    """Add the findings of `values_left` to a report.

    Parameters
    ----------
    branches : BranchesBeside, optional
        The branches at a tie. If only the tie itself takes its branch, the function differs from its program at all
        moved points, so that the branches beside the tie tell whether values left.
    """
    parted = _body_left(recording.tape._session, recording.inputs, recording.outputs, order)
    if parted is None:
        report.extend(Report(findings=_came_back_beside(recording, order, branches)))
    else:
        _add_parted(report, parted)


def _add_parted(report: Report, parted: Finding) -> None:
    """Add the finding about a custom gradient whose body computes partly outside the tape.

    The gradient was compared with that of another function, so findings about its rule are dropped.
    """
    report.findings = [*[f for f in report.findings if f.verdict != "rule" or f.op != parted.op], parted]


def _came_back_beside(recording: Recording, order: int, branches: BranchesBeside | None) -> list[Finding]:
    """As `_came_back`, by recordings beside a tie whose branch only the tie takes."""
    beside = branches.recordings() if branches is not None and branches.isolated else []
    return merged([f for one in beside or [recording] for f in _came_back(one, order)])


def _came_back(recording: Recording, order: int) -> list[Finding]:
    """As `values_left`, for values that left outside of custom gradients."""
    session = recording.tape._session
    # The value of a variable counts only if an op reads it.
    conversions = [c for c in conversions_made(session) if not c.by_variable]
    made = [c for c in conversions if not c.inside]  # a custom gradient is judged by itself
    lines = list(dict.fromkeys(c.line for c in made or assignments_made(session)))

    def told(verdict: str, how: str, cause: str | None = None) -> list[Finding]:
        return [Finding(verdict, order=order, line=lines[0] if lines else None, reason=how, cause=cause)]

    def leaves(how: str) -> str:
        more = f" (or at one of {len(lines) - 1} more places)" if len(lines) > 1 else ""
        return f"a value leaves the tape here{more}, and {how}"

    with off(), quietly():
        comparison = _compared(recording, order, by_customs=len(made) < len(conversions))
        outcome = Outcome.UNSTEADY
        if not made or comparison.is_deterministic():
            outcome = comparison.outcome(left=bool(made))
        if made and outcome in _UNSHOWN:
            shown = [] if outcome is Outcome.UNSTEADY else _certain(recording, order, comparison)
            return shown or told("undecided", leaves(f"nothing shows if it comes back, because {_UNSHOWN[outcome]}"))
        if outcome is Outcome.UNSTEADY:
            return _unlike(order)
        if outcome is not Outcome.APART:
            return _certain(recording, order, comparison) or _kept(recording, order, comparison)
        if not (made or comparison.is_deterministic()):
            return _unlike(order)
        kept = comparison.again.kept(recording.program())
    if kept is not None:
        reason = (
            f"the function keeps the result of {kept.name} and uses it in its next call, so each call computes "
            "another function, and nothing shows if a value leaves the tape and comes back; compute the result anew in "
            "each call"
        )
        return _certain(recording, order, comparison) or [Finding("undecided", order=order, at=kept, reason=reason)]
    if made and comparison.branches:
        return told("unconnected", leaves(_OTHER_BRANCH))
    if made:
        meant = "or by gtape.stop_gradient if it is meant as a constant"
        return told(
            "unconnected",
            leaves(f"comes back as a constant, on which the function depends; {_ADVICE}, {meant}"),
            _COMES_BACK,
        )
    where = "through the variable that is assigned here" if lines else _UNSEEN
    return told(
        "unconnected", f"the function depends on its arguments in a way that no tape records, {where}; {_ADVICE}"
    )


def _compared(recording: Recording, order: int, *, by_customs: bool) -> Comparison:
    """The comparison of a function with its program.

    Values that `gtape.stop_gradient` stopped before they left are constants on purpose.

    Parameters
    ----------
    by_customs : bool
        Whether functions of custom gradients made conversions.
    """
    session, again, program = recording.tape._session, Again(recording), recording.program()
    anew = frozenset([n.index for n in program.nodes if n.kind == "custom"]) if by_customs else frozenset[int]()
    left = [c for c in conversions_made(session) if c.returns]
    constants = [v for v in stops_made(session) if v is not None]
    constants += [r.constant for r in _certain_of([c for c in left if again.is_stopped(c)])]
    returned = _certain_of([c for c in left if not _follows(c, session, recording.inputs)])
    moving = None
    if returned:
        ends = [(t._record, t._value) for t in recording.outputs]
        moving = build(ends, recording.inputs, session, Returns(returned, recording.inputs))
    closed = not (conversions_made(session) or starts_made(session) or assignments_made(session))
    return Comparison(again, program, order, anew, {id(v) for v in constants}, moving, closed=closed)


class _Ends(NamedTuple):
    """The tensors or variables between which a program runs."""

    inputs: list[Any]
    outputs: list[Any]


class _Body:
    """The function of one custom gradient, which runs again in place of `Again`."""

    def __init__(self, node: Node) -> None:
        function, args, kwargs = node.call
        flat = nest.flatten(list(args))
        self._places = [k for k, x in enumerate(flat) if is_tensor(x) and x._layout.inexact]
        self._run: Callable[[list[Any]], Any] = lambda given: function(
            *nest.pack_sequence_as(list(args), given), **kwargs
        )[0]
        self._given = [convert_to_tensor(x) if is_tensor(x) else x for x in flat]
        outputs = node.output if isinstance(node.output, tuple) else (node.output,)
        self.recording = _Ends(
            [wrap(self._given[k]._value) for k in self._places], [wrap(v) for v in outputs if is_floating(v)]
        )

    def recorded(self, point: list[Any]) -> Program | None:
        """As `Again.recorded`."""
        given = list(self._given)
        with repeating(), TracingTape(persistent=True) as tape:
            for k, x in zip(self._places, point, strict=True):
                given[k] = convert_to_tensor(x)
            inputs = [given[k] for k in self._places]
            tape.watch(inputs)
            try:
                made = [convert_to_tensor(t) for t in nest.flatten(self._run(given))]
            except Exception:
                return None
        return build([(t._record, t._value) for t in made if t._layout.inexact], inputs)

    def __call__(self, point: list[Any]) -> list[Any] | None:
        """The floating-point results at a point; None if the function raises."""
        program = self.recorded(point)
        return None if program is None else [np.asarray(program.nodes[i].output) for i in program.outputs]

    def is_apart(self, order: int) -> bool:
        """Whether values that left come back, so that the recorded body may have another derivative."""
        program = self.recorded([np.asarray(t._value) for t in self.recording.inputs])
        if program is None:
            return True
        return Comparison(self, program, order).outcome(left=False) in (Outcome.APART, Outcome.OPEN, Outcome.UNSTEADY)


def _body_left(session: Any, inputs: list[Any], outputs: list[Any], order: int) -> Finding | None:
    """The finding for a custom gradient whose body computes partly outside the tape, so that the recorded body is
    another function.

    Parameters
    ----------
    session : Session
    inputs, outputs : lists of tensors or variables
    order : int
        The order of the derivative that is checked. If the outputs hold gradients, it counts from their function.
    """
    if not any(c.inside and not c.by_variable for c in conversions_made(session)):
        return None
    with off(), quietly():
        program = build([(t._record, t._value) for t in outputs], inputs, session)
        program.outputs = [i for i in program.primals if is_floating(program.nodes[i].output)]
        for node in program.nodes:
            judged = node.kind == "custom" and node.prim.declared is None and not bodiless(program, order, [node])
            if judged and _Body(node).is_apart(order):
                reason = f"the body of {node.name} leaves the tape in part (through .numpy()?), so its gradient "
                return Finding("undecided", order=order, at=node, reason=f"{reason}cannot be checked")
    return None


def other_numbers(recording: Recording, order: int) -> list[Finding]:
    """The finding about a function that differs from call to call; empty if a second call returns the same numbers.

    The second call begins in the state of the first one.
    """
    with off(), quietly():
        if Comparison(Again(recording), recording.program(), order).is_deterministic():
            return []
    return _unlike(order)


def later_numbers(recording: Recording, order: int, *, seeded: bool) -> list[Finding]:
    """The finding about a function whose next calls return other numbers, because each call changes state.

    Parameters
    ----------
    recording : Recording
    order : int
    seeded : bool
        Whether draws from seeded streams count. The seed gives their numbers, so one call has a derivative; a number
        from elsewhere may belong to another call.
    """
    with off(), quietly():
        again = Again(recording)
        comparison = Comparison(again, recording.program(), order)
        if all(map(comparison.are_recorded, again.later(comparison.here, seeded=seeded))):
            return []
    return _unlike(order)


def _unlike(order: int) -> list[Finding]:
    """The finding about a function that differs from call to call."""
    reason = (
        "a second call of the function at the same point returns other numbers, or raises an error, so its calls have "
        "different derivatives; draw its random numbers from a fixed seed, and let it change nothing outside"
    )
    return [Finding("undecided", order=order, reason=reason)]


def _certain(recording: Recording, order: int, comparison: Comparison) -> list[Finding]:
    """The findings about values that certainly came back, whose effect may be too small for moved points to show.

    A constant that holds the same number in all moved runs is the user's own, and has this number by chance.
    """
    session = recording.tape._session
    targets = _targets(recording, order)
    left = Left(session, recording.inputs, targets, still=comparison.still(), repeats=comparison.again.repeats)
    if not left:
        return []

    def made(returns: Returns) -> Program:
        return build([(t._record, t._value) for t in targets], recording.inputs, session, returns)

    program = made(left.returns())
    found = left.findings(program, any_seeds(program), made, strict=False)[0]
    return [f for f in found if f.verdict != "undecided"]  # the moved points showed no difference


def _kept(recording: Recording, order: int, comparison: Comparison) -> list[Finding]:
    """The finding about a value that left in the first call alone, and may be kept for later calls, as by a cache."""
    targets = _targets(recording, order)
    left = Left(recording.tape._session, recording.inputs, targets)
    if not left:  # most functions, and the program of the targets takes as long to build as the function to run
        return []
    kept = left.kept(recording.of_level(targets), comparison.again.repeats)
    reason = (
        "a value leaves the tape here in the first call alone, and a constant may keep it for later calls, so nothing "
        "shows if the value comes back; compute the constant anew in each call, or before the first one"
    )
    return [Finding("undecided", order=order, line=c.line, reason=reason) for c in kept[:1]]


def _targets(recording: Recording, order: int) -> list[Any]:
    return [t for t in recording.levels[order - 1] if t is not None and t._record is not None]


def any_seeds(program: Program) -> list[Any]:
    """Random cotangents of the outputs, for a derivative of many rows."""
    rng = np.random.default_rng(len(program))
    return [rng.uniform(1.0, 2.0, program.nodes[i].shape) for i in program.outputs]


class Left:
    """The values that left a tape under the flag before its targets were computed.

    Parameters
    ----------
    session : Session
    sources, targets : lists of tensors or variables
    stops : frozenset of int
        As for `Program.stops`.
    still : collection of int
        The identities of constants that stay as they are where the function runs again.
    repeats : callable, optional
        Whether a conversion happens again there. A constant that stays then holds no value that left.
    """

    def __init__(
        self,
        session: Any,
        sources: list[Any],
        targets: list[Any],
        stops: frozenset[int] = frozenset(),
        *,
        still: Collection[int] = (),
        repeats: Callable[[Conversion], bool] = lambda _: False,
    ) -> None:
        self._still, self._repeats = still, repeats
        # Targets that no tape recorded. Only their age tells if a value that left can have come back in them.
        self._unrecorded = [t for t in targets if _is_unrecorded(t, session)]
        numbers = [t._record[SEQ] for t in targets if t._record is not None] + [-math.inf for _ in self._unrecorded]
        before = [c for c in conversions_made(session) if numbers and c.number > min(numbers)]
        starts = starts_made(session)
        self._conversions: list[Conversion] = []
        self._by_way: list[Conversion] = []  # values that variables took, behind other values that left
        for c in before:
            if c.inside:
                continue
            if _follows(c, session, sources) or any(_holds(c, first, starts) for first in self._conversions):
                self._conversions.append(c)
            elif c.by_variable and _follows(c, session, sources, _certain_of([*self._conversions, *self._by_way])):
                self._by_way.append(c)
        self._inside = any(c.inside for c in before)
        self._session, self._sources, self._targets = session, sources, targets
        self._reads = Reads(session, sources, targets, stops) if self._conversions and starts else None

    def __bool__(self) -> bool:
        return bool(self._conversions) or self._inside

    def add_parted(self, report: Report, order: int) -> None:
        """Add the finding about a custom gradient whose body computes partly outside the tape, if there is one.

        Parameters
        ----------
        report : Report
        order : int
            The order of the derivative that is checked.
        """
        parted = _body_left(self._session, self._sources, self._targets, order) if self._inside else None
        if parted is not None:
            _add_parted(report, parted)

    def returned(self, *, certain: bool = True) -> list[Return]:
        """The constants that hold values which left: the certain ones, or all."""
        return [r for c in self._conversions for r in c.returns if (r.certain or not certain) and self._moves(r)]

    def kept(self, program: Program, repeats: Callable[[Conversion], bool]) -> list[Conversion]:
        """The conversions of one call alone whose numbers a constant of the program may hold.

        Parameters
        ----------
        program : Program
            Of the targets.
        repeats : callable
            Whether a conversion happens again in a second call.
        """
        some = [c for c in self._conversions if not (c.is_whole or c.is_shown or c.by_library or c.by_variable)]
        return [c for c in some if (c.returns or self._has_function_of(c, program)) and not repeats(c)]

    def _moves(self, r: Return) -> bool:
        """Whether a constant may hold a value that left, because the constant moves, or the function has a memory."""
        return id(r.constant) not in self._still or not self._repeats(r.conversion)

    def returns(self, *, certain: bool = True, by_first: bool = False) -> Returns:
        """The constants that hold values which left, as `build` takes them.

        Parameters
        ----------
        certain : bool
            As for `returned`.
        by_first : bool
            As for `Returns`.
        """
        found = self.returned(certain=certain) + (_certain_of(self._by_way) if by_first else [])
        return Returns(found, self._sources, self._reads, by_first=by_first)

    def findings(
        self, program: Program, seeds: list[Any], widened: Callable[[Returns], Program], *, strict: bool
    ) -> tuple[list[Finding], int]:
        """The findings about values that came back, and the number of values that may have come back.

        Parameters
        ----------
        program : Program
            Of the targets; it holds the certain returns.
        seeds : list of arrays or None
            The cotangent of each output.
        widened : callable
            Makes the program with other returns.
        strict : bool
            Whether a value that may have come back is a finding.

        Returns
        -------
        findings : list of Finding
            `unconnected` for each value that came back; under `strict`, `undecided` for values that may have come back.
        count : int
            The number of conversions before the target, after which another constant entered the program.
        """
        if not self._conversions or not program.outputs:
            return [], 0
        order = order_of(program)
        nodes = [program.nodes[i] for i in program.ancestors(program.outputs)]
        back = {r.conversion: None for r, _ in program.returned.values()}
        findings = []
        changed = changes(program, seeds) if program.returned else False
        if changed is not False:
            # A number that is equal by chance counts as a return, too, if this explains why nothing changes.
            every = widened(self.returns(certain=False))
            if len(every.returned) > len(program.returned):
                by_every = changes(every, seeds)
                changed = by_every and changed
        if changed is not False:
            by_each = {c: changes(program, seeds, [c]) for c in back}
            moving = {c: by for c, by in by_each.items() if by is not False} or dict.fromkeys(back, changed)
            findings += [
                self._told_of(c, program, nodes, order) if by else _unsure(c, order) for c, by in moving.items()
            ]
        if self._reads:
            findings += self._replaced(widened(self.returns(by_first=True)), seeds, back, order)
        for c in self._conversions:
            for node in nodes:
                back_here = [r for r in c.returns if r.certain and self._moves(r)]
                if any(v is r.constant for v in floats_in(node.params) for r in back_here):
                    back[c] = None
                    if order > 1 or moves_with_params(node, program, [r.constant for r in c.returns]):
                        findings.append(_told(c, node, order))
        open_ = [c for c in self._conversions if not (c.is_whole or c.by_step) and self._is_open(c, program)]
        if strict and open_:
            lines = list(dict.fromkeys(c.line for c in open_))
            more = f" (and at {len(lines) - 1} more places)" if len(lines) > 1 else ""
            reason = (
                f"a value leaves the tape here{more}, and later a constant enters the program: nothing shows if it "
                f"comes back as a function of this value; {_ADVICE}"
            )
            findings.append(Finding("undecided", order=order, line=lines[0], reason=reason))
        return findings, len(open_)

    def _replaced(
        self, program: Program, seeds: list[Any], direct: Collection[Conversion], order: int
    ) -> list[Finding]:
        """The findings about values of sources that were computed from earlier values, if the targets read both.

        Parameters
        ----------
        program : Program
            With the later values of the sources as values that left.
        seeds : list of arrays or None
        direct : collection of Conversion
            The values that come back without a source, about which other findings tell.
        order : int
        """
        reads = self._reads
        if reads is None or len(program.outputs) != len(seeds):
            return []
        nodes = program.nodes
        read = {i for found in program.sources for i in found if reads.is_read(nodes[i].output)}
        opened = followed_through(program)
        later = {i for i in read if i in program.returned and len(read & reached(opened, [i])) > 1}
        found = {program.returned[i][0].conversion: None for i in sorted(later)}
        behind = {r.conversion for r, _ in program.returned.values()}.difference(found, direct)

        def by(values: set[int], only: Collection[Conversion] = ()) -> Program:
            made = followed_through(program, only)
            made.sources = [[i for i in nodes if i in values] for nodes in made.sources]
            return made

        def moves(some: Collection[Conversion]) -> bool | None:
            return differ(program, by(read, {*some, *behind}), seeds)

        moved = moves(found) if found else False
        if moved is False:
            return []
        pairs = zip(self._sources, program.sources, strict=True)
        last = {i for s, ends in pairs for i in ends if reads.is_last(s._record[SEQ], nodes[i].output)}
        not_last = differ(program, by(last), seeds)
        if not_last is False:
            return []
        if not (moved and not_last):
            return [_unsure(c, order) for c in found][:1]
        lines = dict.fromkeys(c.line for c in [c for c in found if moves([c])] or found)
        return [Finding("unconnected", order=order, line=line, reason=_REPLACED) for line in lines]

    def _told_of(self, c: Conversion, program: Program, nodes: list[Node], order: int) -> Finding:
        """The finding about a value that came back and changes the exact derivative."""
        if not self._may_be_offset(c, program):
            return _told(c, _reader_of(program, nodes, c), order)
        reason = (
            "a value leaves the tape here, and comes back as a constant; later another constant enters "
            f"the program: nothing shows if both together change nothing; {_ADVICE}"
        )
        return Finding("undecided", order=order, line=c.line, reason=reason)

    def _may_be_offset(self, c: Conversion, program: Program) -> bool:
        """Whether an unknown constant, such as the logarithm of a scale, may undo the change by a value that came back.

        Functions of numbers with many digits have many digits, so a number with few digits is the user's own. A value
        that a variable took is no number in the user's hands, so another value must have left for such a constant.
        """
        if c.by_variable:
            sources = [d for d in self._conversions if not (d.by_variable or d.is_shown or d.is_whole)]
        else:
            sources = [c]
        return any(self._has_function_of(d, program) for d in sources)

    def _has_function_of(self, c: Conversion, program: Program) -> bool:
        """Whether a constant of unknown origin, which may be a function of a value that left, entered the program."""
        size, long = np.size(c.value), has_long_numbers(np.asarray(c.value))
        later = [n for n in program.nodes if n.kind == "op" and n.index not in program.returned and n.seq < c.number]
        read = [program.nodes[j] for n in later for j in n.inputs]
        unknown = [n.output for n in read if n.kind == "const"] + [v for n in later for v in floats_in(n.params)]
        return any(
            np.size(v) <= size and np.asarray(v).dtype.kind in "fc" and (not long or has_long_numbers(np.asarray(v)))
            for v in unknown
            if not any(v is r.constant for r in self.returned())
        )

    def _is_open(self, c: Conversion, program: Program) -> bool:
        """Whether a constant of unknown origin entered the program after a value had left.

        A derivative depends on the constants of its targets, even if its own ops read none of them.
        """
        if c.is_shown:
            return False
        if not (c.by_library or c.by_variable) and any(self._may_hold(t, c) for t in self._unrecorded):
            return True
        known = [r.constant for r in self.returned()]
        entered = starts_made(self._session) + ([] if c.by_library or c.by_variable else entries_made(self._session))
        later = [v for v, number in entered if number < c.number]
        sources = {i for found in program.sources for i in found}
        if self._reads is not None:  # earlier values of the sources are no constants of unknown origin
            sources.update(
                n.index for n in program.nodes if n.kind == "leaf" and self._reads.is_earlier(n.seq, n.output)
            )
        for i in program.ancestors([*program.outputs, *program.differentiated]):
            node = program.nodes[i]
            if node.kind == "leaf" and i not in sources and any(node.output is v for v in later):
                return True
            if (
                c.by_library
                or c.by_variable
                or node.kind != "op"
                or node.index in program.returned
                or node.seq > c.number
            ):
                continue
            if any(not any(v is k for k in known) for v in floats_in(node.params)):
                return True
            # The cotangents or tangents that a gradient was given, which its rules read as leaves; 1 by default.
            given = () if node.mark is None else (*node.mark.cotangents, *node.mark.tangents)
            constants = [n for n in [program.nodes[j] for j in node.inputs] if n.kind == "const"] + [
                n for n in [program.nodes[j] for j in given if j not in sources]
                if n.kind in ("const", "leaf") and not any(n.output is k for k in known) and not np.all(n.output == 1)
            ]  # fmt: skip
            if any(is_floating(n.output) for n in constants):
                return True
        return False

    def _may_hold(self, target: Any, c: Conversion) -> bool:
        """Whether a target that no tape recorded may be a function of a value that left."""
        value = target._value
        if isinstance(target, Variable):
            return any(value is v and number < c.number for v, number in starts_made(self._session))
        return not (is_older(self._session, c, value) or any(value is v for v in stops_made(self._session)))


def _is_unrecorded(target: Any, session: Any) -> bool:
    """Whether no op and no leaf of a tape is the record of a target."""
    record = target._record
    return record is None or (record[STEP] is None and session not in record[TAPES].sessions)


def _told(c: Conversion, op: Node | None, order: int) -> Finding:
    where = "" if op is None else f" of {op.name}" + (f" ({place_text(op.line)})" if op.line else "")
    reason = (
        f"a value leaves the tape here, and comes back as a constant{where}, on which the target depends; {_ADVICE}, "
        "or by gtape.stop_gradient if it is meant as a constant"
    )
    return Finding("unconnected", order=order, line=c.line, reason=reason, cause=_COMES_BACK)


def _unsure(c: Conversion, order: int) -> Finding:
    """The finding about a value that came back, if no precision shows whether the exact derivative changes."""
    reason = (
        "a value leaves the tape here, and comes back as a constant: nothing shows if the derivative depends on it, "
        f"because the exact derivative stays open; {_ADVICE}, or by gtape.stop_gradient if it is meant as a constant"
    )
    return Finding("undecided", order=order, line=c.line, reason=reason)


def _reader_of(program: Program, nodes: list[Node], c: Conversion) -> Node | None:
    """The first op that reads a constant which holds a value that left."""
    constants = {i for i, (r, last) in program.returned.items() if last and r.conversion is c}
    return next((n for n in nodes if n.kind == "op" and not constants.isdisjoint(n.inputs)), None)


def _holds(made: Conversion, first: Conversion, starts: list[tuple[Any, int]]) -> bool:
    """Whether a converted value is that of a constant or variable which holds a value that left before.

    Nothing tells which variables hold what the library read, so each value counts that a variable took afterwards.
    """
    if any(r.certain and made.value is r.constant for r in first.returns):
        return True
    return (
        first.by_library
        and not first.is_shown
        and any(made.value is v and number < first.number for v, number in starts)
    )


def _certain_of(conversions: list[Conversion]) -> list[Return]:
    """The constants that certainly hold values which left."""
    return [r for c in conversions for r in c.returns if r.certain]


def _follows(made: Conversion, session: Any, sources: list[Any], returned: Sequence[Return] = ()) -> bool:
    """Whether a tape has a path from a converted value back to a source, also through values that left before."""
    program = build([(made.record, made.value)], sources, session, Returns(returned, sources) if returned else None)
    return program.outputs[0] in followed(followed_through(program) if program.returned else program)

"""Rows of a higher derivative that no tape recorded: zeros, unless the jets of the function say otherwise.

The derivative of a linear function is a constant, so no row of the next derivative has a record. A custom gradient that
computes through NumPy has no record either, but its next derivative may differ from zero.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from gtape.recording.trace import conversions_made
from gtape.symbolic.balls import Undecided, digits, objects
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.blame import lost_derivatives, lost_slopes
from gtape.verify.causes.jumps import has_values
from gtape.verify.causes.outside import is_at_an_end
from gtape.verify.causes.sides import Sides
from gtape.verify.causes.source_text import place_of
from gtape.verify.judging.connected import undecidable
from gtape.verify.judging.ladder import PRECISIONS, climb
from gtape.verify.judging.recording import Recording
from gtape.verify.oracles.enclosures import directions, inner, is_floating, jet_world
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.verdicts.verdict import Finding

__all__ = ["Unrecorded", "named_by_rules", "unrecorded"]

_MOST = 64  # elements that are evaluated one by one
_BITS_BESIDE = (
    256  # beside a point, an enclosure of 0 may be this many bits below the largest values, and half of it wide
)
_NO_PATH = "the tape found no path to this source, but the exact derivative is not zero"


class Unrecorded(NamedTuple):
    """The rows without a record of one order.

    Attributes
    ----------
    places : list of (number of the tensor in the level below, index of its element)
    rows : dict
        Place -> for each source, the exact enclosures, or None for zeros; only rows that are not zero.
    finding : Finding or None
        Why the rows are undecided.
    beside : bool
        Whether the rows are limits of derivatives beside the point, because an op has none at the point.
    """

    places: list[tuple[int, tuple[int, ...]]]
    rows: dict[tuple[int, tuple[int, ...]], list[Any]]
    finding: Finding | None
    beside: bool = False

    def findings(self, order: int) -> list[Finding]:
        """The findings about gtape's own derivative, which is None in these rows."""
        if self.finding is not None:
            if self.finding.reason.startswith(_NO_PATH):  # certain, but without exact numbers
                return [Finding("unconnected", order=order, reason=_NO_PATH)]
            return [self.finding]
        found = []
        for row in self.rows.values():
            for s, exact in enumerate(row):
                for index, e in np.ndenumerate(objects(exact)) if exact is not None else ():
                    if e != 0:
                        found.append(Finding("unconnected", order=order, element=(s, index), exact=digits(e),
                                             reason=_NO_PATH))  # fmt: skip
        return found


def named_by_rules(recording: Recording, found: list[Finding]) -> list[Finding]:
    """The findings of `Unrecorded`, or findings about rules that hide their results from an outer tape, or with the
    custom gradients that do.
    """
    lost = [f for f in found if f.verdict == "unconnected"]
    if not lost:
        return found
    first, others = lost[0], [f for f in found if f.verdict != "unconnected"]
    culprits = lost_derivatives(recording.program())
    if culprits:
        reason = "the gradient is a constant on the tape, but the function has this derivative"
        return others + [_about(first, "rule", node, f"{reason}: {why}") for node, why in culprits]
    levels = reversed(recording.levels[: first.order - 1])  # a level below may have lost the record of this one
    hidden = next((made for level in levels if (made := lost_slopes(recording.of_level(level)))), [])
    return others + [_about(f, f.verdict, node, f"{f.reason}: {why}") for node, why in hidden for f in lost] or found


def _about(f: Finding, verdict: str, node: Node, reason: str) -> Finding:
    """A finding about the op to blame, with the element of another finding."""
    made = Finding(verdict, order=f.order, at=node, element=f.element, exact=f.exact, reason=reason)
    if node.kind == "custom" and node.call is not None:
        made.defined = place_of(node.call[0])
    return made


def unrecorded(
    recording: Recording,
    order: int,
    precisions: Iterable[int] = PRECISIONS,
    tight: Callable[[Any], bool] = lambda row: True,
) -> Unrecorded:
    """The rows of the derivative of some order that no tape recorded.

    Parameters
    ----------
    recording : Recording
    order : int
        At most that of the recording.
    precisions : iterable of int, optional
        The bits to try.
    tight : callable, optional
        Whether the enclosures of a row and source, or None for zeros, are narrow enough.
    """
    if order == 1:
        return Unrecorded([], {}, None)
    level = recording.levels[order - 1]
    numbers = [i for i, t in enumerate(level) if not recording.has_record(t)]
    places = [(i, index) for i in numbers for index in np.ndindex(*recording.shape_of_level(i, order))]
    program = recording.program()
    if not places or not any(program.sources):
        return Unrecorded(places, {}, None)
    unknown = _unknown(recording, program, order)
    if unknown is not None:
        return Unrecorded(places, {}, unknown)
    if any(n.kind == "custom" and n.prim.declared is not None for n in program.nodes):
        return Unrecorded(places, {}, None)  # its derivative is defined by the tape's record, not by its body
    rows: dict[Any, list[Any]] = {}

    def attempt(bits: int, _: list[str]) -> bool | None:
        rows.clear()
        jets = _Jets(program, order, bits)
        wrong = [i for i in numbers if not jets.is_zero(jets.along(_random(recording, i, order, jets.oracle.rng)))]
        some = [(i, index) for i, index in places if i in wrong]
        size = sum(t._layout.size for t in recording.inputs)
        if some and any(t._layout.complex for t in recording.inputs):
            raise TooDeep(f"{_NO_PATH}, and elements by complex numbers are not evaluated one by one")
        if len(some) * size > _MOST:
            raise TooDeep(f"{_NO_PATH}, and {len(some) * size} elements are not evaluated one by one")
        for place in some:
            row = [jets.row(_arguments(recording, *place, order), s) for s in range(len(recording.inputs))]
            if any(made is not None for made in row):
                rows[place] = row
        return True if all(tight(made) for row in rows.values() for made in row) else None

    with np.errstate(all="ignore"):
        _, finding = climb(program, order, attempt, precisions)
        nowhere = finding is not None and (finding.verdict == "domain" or is_at_an_end(finding))
        if nowhere and _vanish_beside(recording, numbers, order):
            rows.clear()
            finding = None  # as of 0 * sqrt(x) at 0
        limits = _limits_beside(recording, places) if nowhere and finding is not None and order == 2 else None
        if limits is not None and all(tight(made) for row in limits.values() for made in row):
            return Unrecorded(places, limits, None, beside=True)  # as of cos(sqrt(x)) at 0
    if finding is not None and finding.verdict == "domain":
        reason = f"the derivatives that no tape recorded are not known: {finding.reason}"
        finding = Finding("undecided", order=order, op=finding.op, line=finding.line, reason=reason)
    elif finding is not None and finding.verdict != "undecided":
        finding = None  # a tie, which lower orders report
    return Unrecorded(places, rows if finding is None else {}, finding)


def _vanish_beside(recording: Recording, numbers: list[int], order: int) -> bool:
    """Whether all rows are zero on all sides on which the jets are finite, of a point at which they are not."""
    program, vanished = recording.program(), list[bool]()

    def vanish(beside: Oracle) -> bool:
        jets = _Jets(program, order, _BITS_BESIDE, beside)
        made = [jets.along(_random(recording, i, order, beside.rng)) for i in numbers]
        if all(e.is_finite() for e in made):
            vanished.append(all(map(jets.is_zero, made)))
        return all(vanished)

    with contextlib.suppress(ArithmeticError, Undecided):
        return Sides(program, lambda: _oracle(program), lambda oracle: []).holds(vanish) and bool(vanished)
    return False


def _limits_beside(
    recording: Recording, places: list[tuple[int, tuple[int, ...]]]
) -> dict[tuple[int, tuple[int, ...]], list[Any]] | None:
    """The rows of the second derivative as limits on all sides of a point at which the jets are not finite; None if a
    row, or the first derivative, has no limit.
    """
    program, n = recording.program(), len(recording.inputs)
    size = sum(t._layout.size for t in recording.inputs)
    if len(places) * size > _MOST or any(t._layout.complex for t in recording.inputs) or not has_values(program):
        return None

    def limits(fixed: list[tuple[int, tuple[int, ...]]]) -> list[Any] | None:
        def derivative(beside: Oracle) -> list[Any]:
            jets = _Jets(program, 1 + len(fixed), 0, beside)
            return [jets.elements(fixed, s) for s in range(n)]

        shapes = [program.nodes[nodes[0]].shape if nodes else None for nodes in program.sources]
        return Sides(program, lambda: _oracle(program), derivative).agreed(shapes)

    if limits([]) is None:
        return None
    rows = {place: limits(_arguments(recording, *place, 2)) for place in places}
    known = {place: row for place, row in rows.items() if row is not None}
    return known if len(known) == len(rows) else None


def _oracle(program: Program) -> Oracle:
    return Oracle(program, [np.ones_like(np.asarray(program.nodes[i].output)) for i in program.outputs])


class _Jets:
    """The jets of a function, in one direction for each order of the derivative.

    Parameters
    ----------
    bits : int
        The precision in force.
    oracle : Oracle, optional
        With the values of all nodes at another point.
    """

    def __init__(self, program: Program, order: int, bits: int, oracle: Oracle | None = None) -> None:
        self.program, self.order, self.bits = program, order, bits
        self.oracle = oracle or _oracle(program)
        if oracle is None:
            self.oracle.evaluate()

    def along(self, moves: Iterable[dict[int, Any]]) -> arb:
        """The derivative along directions, each as source -> direction."""
        program, k = self.program, self.order
        tangents: dict[int, list[Any]] = {}
        for bit, move in enumerate(moves):
            for s, u in move.items():
                for i in program.sources[s]:
                    tangents.setdefault(i, [None] * k)[bit] = u
        only, sessions = program.ancestors(program.outputs), (None,) * k
        given = self.oracle.exact_marks(tangents, only, sessions=sessions)
        env = self.oracle.jets(k, tangents, only, given, sessions)
        total = arb(0)
        for i in program.outputs:
            if is_floating(program.nodes[i].output):
                made = jet_world(k).component(env[i], (1 << k) - 1)
                total = total + inner(np.ones(np.shape(made), dtype=int).astype(object), made)
        return total

    def is_zero(self, e: arb) -> bool:
        """Whether an enclosure holds exactly 0; raises ArithmeticError if the enclosure is too wide to tell."""
        if not e.is_finite():
            raise ArithmeticError("a value along the program is not finite")
        if not e.contains(0):
            return False
        if not e.is_exact() and float(e.rad()) > 2.0 ** -min(self.bits // 2, 1000):
            raise ArithmeticError("the enclosures are too wide")
        return True

    def row(self, fixed: list[tuple[int, tuple[int, ...]]], source: int) -> Any:
        """The derivatives by one source of an element of the derivative below; None if all are zero."""
        made = self.elements(fixed, source)
        return None if made is None or all(self.is_zero(e) for e in made.ravel().tolist()) else made

    def elements(self, fixed: list[tuple[int, tuple[int, ...]]], source: int) -> Any:
        """As `row`, with zeros; None for a source that the program does not use."""
        shape = self.program.nodes[self.program.sources[source][0]].shape if self.program.sources[source] else None
        if shape is None:
            return None
        moves = [{s: _unit(self._shape(s), index)} for s, index in fixed]
        made = np.empty(shape, dtype=object)
        for index in np.ndindex(*shape):
            made[index] = self.along([*moves, {source: _unit(shape, index)}])
        return made

    def _shape(self, source: int) -> tuple[int, ...]:
        nodes = self.program.sources[source]
        return self.program.nodes[nodes[0]].shape if nodes else ()


def _unknown(recording: Recording, program: Program, order: int) -> Finding | None:
    """The finding for a function whose derivatives cannot be found."""
    for finding in undecidable(program, order):
        return finding
    customs = [n for n in program.nodes if n.kind == "custom" and n.prim.declared is not None]
    if customs and any(made.inside for made in conversions_made(recording.tape._session)):
        reason = (
            f"the declared gradient of {customs[0].name} leaves the tape (through .numpy()?), so its "
            "derivative cannot be found"
        )
        return Finding("undecided", order=order, at=customs[0], reason=reason)
    return None


def _unit(shape: tuple[int, ...], index: tuple[int, ...]) -> Any:
    u = np.zeros(shape, dtype=object)
    u[...] = 0
    u[index] = 1
    return u


def _chain(recording: Recording, i: int, order: int) -> list[int]:
    """The arguments of the derivatives of lower orders, lowest order first, from the number of a tensor."""
    n = len(recording.inputs)
    return [i // n**k % n for k in reversed(range(order - 1))]


def _arguments(recording: Recording, i: int, index: tuple[int, ...], order: int) -> list[tuple[int, tuple[int, ...]]]:
    """The argument and the element of each derivative below a row."""
    found, place = [], 0
    for s in _chain(recording, i, order):
        rank = len(recording.inputs[s]._layout.shape)
        found.append((s, index[place : place + rank]))
        place += rank
    return found


def _random(recording: Recording, i: int, order: int, rng: Any) -> Iterator[dict[int, Any]]:
    """Random directions for all rows of a tensor."""
    layouts = [t._layout for t in recording.inputs]
    for s in _chain(recording, i, order):
        yield {s: directions(layouts[s].shape, rng, complex=layouts[s].complex)}
    yield {s: directions(layout.shape, rng, complex=layout.complex) for s, layout in enumerate(layouts)}

"""A judgement: compares a claimed derivative of a program with the exact one.

The order of work: compute the exact derivative with its certificate, at rising precision; compare the floats with it
within the bounds; for numbers out of bounds, search the op to blame.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import (
    Undecided,
    assumed,
    digits,
    infinities_as_limits,
    objects,
    precision,
    sides_of_zeros,
    ties_assumed,
    to_float,
)
from gtape.symbolic.implicit import ZERO_SINGULAR_VALUES, bases_turned, degenerate_noted, values_alone
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.inputs import (
    MOVES,
    half_unit_moves,
    moves,
    moves_in_floats,
    moves_of_decimals,
    nearby,
    nearby_alone,
)
from gtape.verify.bounds.local import Local
from gtape.verify.bounds.noise import MANY_RUNS, RUNS, SPREADS, coarsest, dtypes_along, reached_from, spreads
from gtape.verify.bounds.noise_world import NoiseWorld
from gtape.verify.bounds.real_moves import RealMoves, eliminations, real_moves
from gtape.verify.causes.choices import choices_met, decides_at_ties, tied_decisions
from gtape.verify.causes.complex_parts import in_parts
from gtape.verify.causes.conventions import (
    flipped_branches,
    has_a_value_alone,
    inputs_at_kinks,
    is_on_a_cut,
    kinks_met,
)
from gtape.verify.causes.crossings import Crossed, crossed_elements, crosses_kinks
from gtape.verify.causes.customs import agrees_along, faulty_beside, faulty_forwards, lies_between, slopes_of_custom
from gtape.verify.causes.deciders import Deciders
from gtape.verify.causes.effort import is_quick
from gtape.verify.causes.flips import across, branches_of_rounding, crossing, follows, moved_across, other_branches
from gtape.verify.causes.float_range import left_the_range, without_slope
from gtape.verify.causes.jumps import has_values
from gtape.verify.causes.outside import (
    infinite_slopes,
    is_at_an_end,
    lacks_a_slope,
    masked_by_infinities,
    not_differentiable,
    outside,
    shown_by,
)
from gtape.verify.causes.quotients import with_quotients
from gtape.verify.causes.second_runs import name_second_runs
from gtape.verify.causes.sides import Sides
from gtape.verify.causes.stops import pass_stops
from gtape.verify.causes.whole_function import (
    as_a_whole,
    crosses_smoothly,
    lie_between_sides,
    outside_of_sides,
    without_derivative,
)
from gtape.verify.judging.comparison import (
    MOVED_BEYOND,
    Causes,
    Comparison,
    Distances,
    Told,
    Wrong,
    cancellation,
    distances,
    fewest_digits,
    worst_of,
)
from gtape.verify.judging.connected import order_of, undecidable, unimplemented
from gtape.verify.judging.ladder import FEWER_BITS, MANY_BITS, PRECISIONS, TIES, beyond_the_rules, climb, no_derivative
from gtape.verify.judging.moved_together import apart_from_moved
from gtape.verify.oracles.certificates import Failure, inside_of
from gtape.verify.oracles.enclosures import BALLS, is_floating, turned
from gtape.verify.oracles.oracle import Oracle, TooDeep, factorises, uses_vectors
from gtape.verify.oracles.replay import Shared
from gtape.verify.verdicts.ulp import digits_of, spacing
from gtape.verify.verdicts.verdict import Cause, Finding, Report

__all__ = ["MANY", "Judgement", "Suspect", "first_bits", "nodes_of", "precisions_of", "terms_within", "to_blame"]

# Larger programs are not evaluated next to a point without a derivative: those of elementary functions, and others.
_FEW, _FEW_SLOW = 100_000, 2_000
_MANY_PAIRS = 16  # of sides of a custom gradient, so that their sums do not agree by chance
_FEW_LOST = 8  # values outside of their range that are tried
# An underflow explains an error if the most that it loses moves the number by this share of the error; the rest leaves
# room for other underflows.
_EXPLAINS = 2.0**-10
_NEARBY = 16  # moves of the inputs that may cross a kink
_TOGETHER = 48  # moves of the inputs with which claims are compared as a whole
_BUILD = 32  # of these moves, from which the direction follows
_SOME = 200  # programs with more numbers than this move their inputs in floats first
MANY = 2_000  # programs with more numbers than this move their inputs in floats
_PART = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")
_FARTHER = 2300  # an exponent of infinities other than the usual one
_LOST = frozenset({"cancellation", "unstable"})  # verdicts that stand only if the number compared with is a limit
_TRACE = 2.0**-90  # smaller relative disagreements come from the tiny moves that break ties
_BIG = 20_000  # programs with more numbers than this are tried up to 800 bits only


class Suspect(NamedTuple):
    """A possible reason for numbers beyond their bounds.

    Attributes
    ----------
    cause : Cause
    nodes : list of Node
        The nodes of its op and line.
    place : tuple of int or None
        The worst element of these nodes; None for all elements.
    lost : float or None
        The most that an underflow loses.
    """

    cause: Cause
    nodes: list[Node]
    place: Any = None
    lost: float | None = None


class Judgement(Causes):
    """The comparison of a claimed derivative with the exact one; `Gradient` and `Tangent` define which derivative.

    Parameters
    ----------
    got : list of arrays or None
        The claimed numbers.
    locally : bool
        Whether to check every op and rule by itself, too.
    """

    dtype = np.dtype(np.float64)
    excuses_bases = False  # True if a choice among many bases may explain wrong numbers
    by_source = True  # False if the numbers are one sum over all sources
    left_out: frozenset[int] = frozenset()  # the sources whose numbers are not compared
    shared: Shared | None = None  # data that the rows of a derivative share
    row: list[Any] | None = None  # the cotangents of the row, if the mode has rows
    crossed = False  # whether the exact numbers are those on the side of a kink that rounding chose
    checked_ops: Local | None = None  # the checks of single ops, if the mode has them

    def __init__(self, program: Program, got: list[Any], *, locally: bool = True) -> None:
        pass_stops(program)
        self.program, self.got, self.locally = program, got, locally
        self.order = order_of(program)
        self.open = unimplemented(program)
        self.last: Oracle | None = None
        self.excused: list[Failure] = []  # certificates that failed at kinks of custom gradients alone

    # -- supplied by each mode

    def oracle(self) -> Oracle:
        """A new oracle, without values."""
        raise NotImplementedError

    def derivative(self, oracle: Oracle) -> list[Any]:
        """The exact derivative, from an oracle with the values of all nodes."""
        raise NotImplementedError

    def beside(self, oracle: Oracle) -> list[Any]:
        """The exact derivative at a point next to a kink, from an oracle with the values of all nodes there."""
        raise NotImplementedError

    def shapes(self) -> list[tuple[int, ...] | None]:
        """The shapes of the numbers; None for a source without a node."""
        nodes = self.program.nodes
        return [nodes[s[0]].shape if s else None for s in self.program.sources]

    def certified(self, oracle: Oracle, report: Report) -> tuple[list[Any], list[Failure]]:
        """The exact derivative, in the convention of `got`, and the certificates that failed."""
        raise NotImplementedError

    def blamed(self, oracle: Oracle, failures: list[Failure]) -> list[Finding]:
        """The findings for certificates that failed."""
        raise NotImplementedError

    def moving(self, oracle: Oracle, start: dict[int, Any], number: int) -> list[Any]:
        """The first-order move of the exact derivative when inputs move, as node -> move; each move has a number."""
        raise NotImplementedError

    def nudged(self, world: Any) -> list[Any]:
        """The derivative in a noisy world."""
        raise NotImplementedError

    def beside_along(self) -> Callable[[Oracle, list[Any]], arb] | None:
        """As `beside`, along a direction of all sources; None if `beside` is as cheap."""
        return None

    def floats_beside(self, moves: dict[int, Any]) -> list[Any] | None:
        """As `beside`, in floats at a moved point, with new decisions; None for derivatives without this."""
        return None

    def way(self) -> list[Any] | None:
        """The direction of each source along which the numbers are derivatives; None for those by each source."""
        return None

    def suspects(self, oracle: Oracle, wrong: Wrong) -> list[Suspect]:
        """The possible reasons for numbers beyond their bounds, the likeliest first."""
        raise NotImplementedError

    def otherwise(self) -> Cause:
        """The cause of numbers beyond their bounds that no suspect explains."""
        raise NotImplementedError

    def local(self, exact: dict[int, Any]) -> list[Finding]:
        """The findings about single ops, from the exact values of all nodes."""
        raise NotImplementedError

    # -- questions of a comparison

    def moved(self, count: int) -> list[Any]:
        made, size = None, self.program.size
        if count == MOVES[0] and size <= _SOME:
            return []
        if count > MOVES[0] and size <= MANY:
            made = moves(self.program, self.moved_along, count, self.moved_apart)
        if made is not None:
            return made
        return moves_in_floats(self.program, self.nudged, count)

    def moved_decimals(self) -> list[Any]:
        return moves_of_decimals(self.program, self.moved_along) if self.program.size <= MANY else []

    def moved_along(self, start: dict[int, Any], number: int) -> list[Any]:
        """As `moving`, from the exact values that the comparison knows."""
        return self.moving(self._oracle(), start, number)

    def moved_apart(self, moves: list[tuple[list[int], int, float]]) -> list[list[Any]] | None:
        """The results of `moved_along` for numbers that move one after another; None if these need a call each."""
        return None

    def nearby(self, count: int, times: float = 1.0) -> list[Any]:
        many = times * math.sqrt(max(1, self.roundings()))
        return nearby(self._oracle(), self.derivative, count, many) if self.program.size <= _BIG else []

    def far(self, count: int) -> list[Any]:
        return self.nearby(count, SPREADS)

    def alone(self, s: int, place: tuple[int, ...]) -> list[list[Any]]:
        if not self.by_source or self.program.size > _BIG:
            return []
        many = SPREADS * math.sqrt(max(1, self.roundings()))
        return nearby_alone(self._oracle(), self.derivative, s, place, many)

    def real_moves(self) -> list[RealMoves]:
        if self.program.size > MANY or self.kinks(self._oracle()):
            return []
        # The ties of moved values are none of the derivative's.
        apart = contextlib.nullcontext() if assumed.get("ties") is None else ties_assumed()
        with apart:
            return list(real_moves(self._oracle(), self.derivative, math.sqrt(max(1, self.roundings()))))

    def kinked(self) -> bool:
        if any(n.kind == "op" and n.prim.kind == "implicit" for n in self.program.nodes):
            return True  # at equal eigenvalues, the derivative of what depends on single vectors takes any value
        return bool(self.kinks(self._oracle()))

    def kinks(self, oracle: Oracle) -> list[Finding]:
        """The kinks that ops meet, searched once for all rows, because kinks depend on no cotangent.

        Parameters
        ----------
        oracle : Oracle
            With the exact values of all nodes.
        """
        known = oracle.shared or Shared()
        return [copy(f) for f in known.get("kinks", lambda: kinks_met(self.program, oracle, self.order))]

    def smooth(self) -> bool:
        return not any(n.kind == "op" and (n.prim.kinks or n.prim.selects) for n in self.program.nodes)

    def flipped(self) -> list[tuple[Cause, list[Any]]]:
        oracle = self._oracle()
        settled = self._settled(oracle) or oracle
        found = other_branches(self.program, settled, self._on_branches, self.got, self._crossed(settled))
        if self.claimed:
            found += [(moved_across(n), self._on_branches(settled)) for n in settled.flips[:1]]
            found += self._across_kinks(oracle)
        return found

    def by_roundings(self) -> list[tuple[Cause | None, list[Any]]]:
        oracle = self._oracle()
        settled = self._settled(oracle) or oracle
        crossed = self._crossed(settled)
        found = [
            (self._underflow(settled, [c.node for c in crossed.values()]), made)
            for made in branches_of_rounding(self.program, settled, self._on_branches, crossed)
        ]
        if settled is not oracle:
            found.append((self._underflow(oracle, oracle.flips), self._on_branches(oracle)))
        return found

    def _underflow(self, oracle: Oracle, crossed: list[Node]) -> Cause | None:
        """The first underflow before ops at kinks whose inputs rounding moved by less than the smallest normal number;
        otherwise None.
        """
        inputs = {j for n in crossed for j in n.inputs if is_floating(self.program.nodes[j].output)}
        for j in inputs:
            value = np.asarray(self.program.nodes[j].output)
            gap = np.abs(to_float(objects(BALLS.lift(value) - oracle.env[j]))) if value.dtype.kind == "f" else np.inf
            if not (gap < np.finfo(value.dtype).tiny).all():
                return None
        before = set(self.program.ancestors(inputs))
        for cause, lost in itertools.islice(left_the_range(self.program, oracle), _FEW_LOST):
            if lost is not None and any(n.index in before for n in nodes_of(self.program, cause)):
                return cause
        return None

    def _crossed(self, oracle: Oracle) -> dict[int, Crossed]:
        """The ops with kinks that rounding crossed."""
        return self._reached(oracle, flipped_branches(self.program, oracle))

    def _reached(self, oracle: Oracle, nodes: list[Node]) -> dict[int, Crossed]:
        return crossed_elements(self.program, oracle, nodes, SPREADS * math.sqrt(max(1, self.roundings())))

    def _settled(self, oracle: Oracle) -> Oracle | None:
        """An oracle with the exact outcome of each decision that rounding changed, but no move of the inputs changes;
        None without such decisions.
        """
        if not oracle.flips or oracle.broken:
            return None
        known = oracle.shared or Shared()
        found = known.get("settled", lambda: self._settle(oracle))
        if found is None:
            return None
        made = oracle.anew()
        made.env, made.flips, made.shared = found.env, found.flips, None
        return made

    def _settle(self, oracle: Oracle) -> Oracle | None:
        crossed = self._reached(oracle, oracle.flips)
        far = [c.node for c in crossed.values() if not c.is_near]
        if not far:
            return None
        made = crossing(self.program, oracle, far, {c.node.index: c.mask & ~c.near for c in crossed.values()})
        made.flips += [n for n in far if crossed[n.index].near.any()]
        return made

    def _on_branches(self, oracle: Oracle) -> list[Any]:
        """The exact derivative with other outcomes of decisions.

        The backward ops of an inner gradient hold the recorded outcomes, so jets of its primal serve, if the gradient
        has few elements.
        """
        if self.order > 1:
            with contextlib.suppress(TooDeep):
                return self.beside(oracle)
        return self.derivative(oracle)

    def _by_exact_decisions(self, oracle: Oracle, exact: list[Any]) -> list[Any]:
        """The exact derivative with the exact outcome of each decision that rounding changed; `exact` where nothing is
        defined there, or arrays have other shapes.

        A claim is compared with the function, not with the recorded run.
        """
        if oracle.flips and not oracle.broken:
            with contextlib.suppress(ArithmeticError, ValueError, IndexError, TypeError):
                return self._on_branches(crossing(self.program, oracle, oracle.flips))
        return exact

    def _across_kinks(self, oracle: Oracle) -> list[tuple[Cause, list[Any]]]:
        """The derivatives beside kinks that half a unit in the inputs crosses, if the claims follow them."""
        if self.smooth() or self.program.size > _FEW_SLOW:
            return []
        if any(g is not None and np.iscomplexobj(g) for g in self.got):
            return []
        here = self.derivative(oracle)
        found: list[tuple[Cause, list[Any]]] = []
        for move in half_unit_moves(self.program, _NEARBY):
            there = across(self.program, oracle, self._on_branches, move)
            if there is None:
                continue
            if follows(self.got, there, here) and not follows(self.got, here, there):
                reason = MOVED_BEYOND
                if crosses_kinks(self.program, oracle, move):
                    reason = "half a unit in the inputs moves the function to the other side of a kink"
                found.append((("conditioning", reason, None, None), there))
        return found

    def followed(self, s: int) -> tuple[Any, float] | None:
        return None if self.checked_ops is None else self.checked_ops.follows(s)

    def roundings(self) -> int:
        return sum(n.kind == "op" for n in self.program.nodes)

    def declared(self) -> float:
        world = NoiseWorld(np.random.default_rng(7), self.dtype)
        self.nudged(world)
        return world.declared

    def coarser(self) -> list[tuple[Any, list[Any]]]:
        made: dict[int, tuple[Any, set[int]]] = {}
        for i, dtype in dtypes_along(self.program).items():
            made.setdefault(digits_of(dtype), (dtype, set()))[1].add(i)
        if len(made) < 2:
            return []
        dtypes = [made[bits] for bits in sorted(made, reverse=True)[1:]]
        return [(dtype, reached_from(self.nudged, self.dtype, nodes)) for dtype, nodes in dtypes]

    def left(self, s: int, mask: Any, off: Any = None) -> Iterator[tuple[Cause, Any]]:
        known = False
        for cause, lost in itertools.islice(left_the_range(self.program, self._oracle()), _FEW_LOST):
            reached = self._reached_by(cause, lost, None if off is None else {s: off * _EXPLAINS})[s]
            some = mask if reached is None else mask & reached
            if lost is None or some.any():
                known, mask = True, mask & ~some
                yield cause, some
            if lost is None or not mask.any():
                return
        beyond = None if known else self.overflow()
        if beyond is not None:
            reached = self._reached_by(beyond, None)[s]
            yield beyond, mask if reached is None else mask & reached

    def _reached_by(self, cause: Cause, lost: float | None, least: dict[int, Any] | None = None) -> list[Any]:
        """As `reached_from`, for what an underflow loses, or for an overflow."""
        nodes = {n.index for n in nodes_of(self.program, cause)}
        return reached_from(self.nudged, self.dtype, nodes, by=lost, least=None if lost is None else least)

    def beyond_range(self, oracle: Oracle, wrong: Wrong) -> list[Suspect]:
        """The first value, slope or cotangent outside of its range that explains wrong numbers; none or one.

        A saturated unit underflows, too, and nothing depends on what it loses. Other underflows lose less than a wrong
        number lacks.
        """
        for cause, lost in itertools.islice(left_the_range(self.program, oracle), _FEW_LOST):
            suspect = Suspect(cause, nodes_of(self.program, cause), lost=lost)
            reached = None if lost is None else self._reached_by_suspect(suspect, wrong)
            if reached is None or (wrong.mask & reached).any():
                return [suspect]
        return []

    def _reached_by_suspect(self, suspect: Suspect, wrong: Wrong) -> Any:
        """The mask of the numbers that a suspect may have made wrong; None for all."""
        if suspect.lost is not None:
            with np.errstate(all="ignore"):
                off = np.abs(wrong.got - wrong.exact)
            least = np.where(np.isfinite(off), off, 0.0) * _EXPLAINS  # a quotient by 0 makes any underflow infinite
            return self._reached_by(suspect.cause, suspect.lost, {wrong.source: least})[wrong.source]
        inside = {i for n in suspect.nodes for i in (n.index, *n.body)}
        return reached_from(self.nudged, self.dtype, inside, suspect.place)[wrong.source]

    def overflow(self) -> Cause | None:
        """The first overflow of floats where no exact number leaves the range of its dtype."""
        return None

    def wrong(self, wrong: Wrong) -> list[Told]:
        told, open_ = [], wrong.mask
        for suspect in self.suspects(self._oracle(), wrong):
            verdict, reason, op, line = suspect.cause
            # First the sources that the worst element of the suspect reaches, then those of its other elements.
            for at in dict.fromkeys((suspect.place, None)):
                reached = self._reached_by_suspect(suspect._replace(place=at), wrong)
                mask = open_ if reached is None else open_ & reached
                told.append(Told(mask, verdict, reason, op, line, False if verdict == "range" else None))
                open_ = open_ & ~mask
        if open_.any():
            verdict, reason, op, line = self.otherwise()
            told.append(Told(open_, verdict, reason, op, line))
        return told

    def _oracle(self) -> Oracle:
        assert self.last is not None
        return self.last

    # -- the order of work

    def report(self) -> Report:
        """An empty report."""
        return Report(coverage={"ops": sum(n.kind == "op" for n in self.program.nodes), "rules": 0})

    def shortly(self) -> Report | None:
        """The report by a shorter way; None if the full check has to decide."""
        return None

    def examine(self) -> Report:
        """Compare the numbers with the exact ones, or say why no exact ones exist."""
        report = self.at_the_point()
        self.by_sides(report)
        self.by_sides_of_lost(report)
        if self.program.recomputed and not self.claimed:
            name_second_runs(self.program, report, self.order)
        return report

    def by_sides(self, report: Report) -> None:
        """Compare with the limits on all sides, where an op has no finite derivative but the function as a whole has.

        So sqrt(x * x)² has the derivative of x² at 0. This method changes the findings of the report.
        """
        # Skip equal eigenvalues, for which no op is to blame, because points next to them take too long.
        nowhere = next(filter(lacks_a_slope, report.findings), None)
        known = [g for g in self.got if g is not None]
        others = [f for f in report.findings if f is not nowhere and not f.ok]
        if nowhere is None or others or not has_values(self.program):
            return
        if not known:
            self.by_missing(report, nowhere)
            return
        # At higher orders there are as many rows as arguments, and each is evaluated beside the point.
        rows = 1 if self.order == 1 else sum(map(np.size, known))
        if self.program.size * rows > (_FEW if is_quick(self.program) else _FEW_SLOW):
            return
        certified = _CertifiedBeside(self)
        sides = Sides(self.program, self.oracle, certified, self._beside_along(), self.shared, way=self.way())
        limits = sides.agreed([None if g is None else np.shape(g) for g in self.got])
        if limits is None:
            if not (sides.open or sides.unbounded or sides.jumps):
                self.by_intervals(report, nowhere, sides, certified)
            return
        if not certified.done:
            return
        report.checked = sum(map(np.size, known))
        if certified.findings:
            report.findings[report.findings.index(nowhere)] = certified.findings[0]
            report.findings += certified.findings[1:]
            return
        words = "the function as a whole has a derivative here: all one-sided derivatives agree"
        many = math.sqrt(max(1, self.roundings()))
        moved: list[Any] | None = None
        wrong: list[tuple[float, int, tuple[int, ...], int]] = []  # of the worst element of each array, and their count
        cancelled: list[Finding] = []
        for s, (e, g) in enumerate(zip(limits, self.got, strict=True)):
            if e is None:
                continue
            g = np.asarray(g)
            far = distances(turned(e) if g.dtype.kind == "c" else e, g)
            report.max_ulp = max(report.max_ulp, float(np.max(far.ulps, initial=0.0)))
            # A limit of 0 is known up to the size of the derivative at the step.
            zero = np.asarray(_MAY_BE_0(objects(e)), dtype=bool) & (g == 0)
            beyond = np.asarray(~(far.off + far.radius <= many * far.tight)) & ~zero
            if (beyond & np.isfinite(g)).any():
                moved = sides.moved(limits, MOVES[0]) if moved is None else moved
                beyond = beyond & ~(far.off + far.radius <= many * (far.tight + moved[s]))
            if not self.claimed and (beyond & np.isfinite(g)).any():
                beyond = beyond & ~self.reached(s, far.off + far.radius, far.high, g.dtype)
                if nowhere.ulps is None:  # otherwise the op's own number is wrong by so much
                    found, mask = self.cancelled(s, limits[s], g, far, beyond)
                    cancelled += found
                    beyond = beyond & ~mask
            if beyond.any():
                ulps = np.where(beyond, np.nan_to_num(far.ulps, nan=np.inf), -1.0)
                at = tuple(int(i) for i in np.unravel_index(int(np.argmax(ulps)), ulps.shape))
                wrong.append((float(ulps[at]), s, at, int(beyond.sum())))
        index = report.findings.index(nowhere)
        if wrong and is_at_an_end(nowhere):
            return  # the numbers may be right where more bits are exact
        if wrong:
            ulps_off, s, at, _ = max(wrong, key=lambda w: w[0])
            number = np.asarray(self.got[s])[at].item()
            verdict = "convention" if self.claimed and np.isfinite(number) else "domain"
            which = "the claim is" if self.claimed else f"{nowhere.reason}, which gives"
            report.findings[index] = Finding(
                verdict, order=self.order, op=nowhere.op, line=nowhere.line, element=(s, at), got=number,
                exact=digits(limits[s][at]), ulps=ulps_off, count=sum(w[3] for w in wrong), ok=False,
                inside=False if verdict == "convention" else None,
                reason=f"{words}, but {which} another number",
            )  # fmt: skip
            return
        passed = f"{nowhere.reason}; but {words}"
        report.findings[index] = Finding(
            "convention", order=self.order, op=nowhere.op, line=nowhere.line, inside=True, reason=passed
        )
        report.findings += cancelled

    def by_intervals(self, report: Report, nowhere: Finding, sides: Sides, certified: _CertifiedBeside) -> None:
        """As `by_sides`, where the sides differ: numbers within the intervals of the whole function are conventions.

        So a custom gradient may return 0 for sqrt(sum(x * x)) at 0, as that of the norm does.
        """
        if any(g is not None and not np.isfinite(g).all() for g in self.got):
            return
        got = [None if g is None else np.asarray(g) for g in self.got]
        if self.claimed:
            wrong = outside_of_sides(sides, got, nowhere, self.order)
            inside = wrong is not None and not wrong
        else:
            wrong, inside = [], lie_between_sides(sides, got)
        if not (inside or wrong) or not certified.done or certified.findings:
            return
        if wrong:
            at = report.findings.index(nowhere)
            report.findings[at : at + 1] = wrong
            return
        report.checked = sum(int(np.size(g)) for g in self.got if g is not None)
        passed = f"{nowhere.reason}; but the number lies between the one-sided derivatives of the function as a whole"
        report.findings[report.findings.index(nowhere)] = Finding(
            "convention", order=self.order, op=nowhere.op, line=nowhere.line, inside=True, reason=passed
        )

    def cancelled(self, s: int, limits: Any, g: Any, far: Distances, beyond: Any) -> tuple[list[Finding], Any]:
        """The numbers beyond their bounds that the program's own roundings explain: findings, and a mask.

        The exact inputs at which ops have infinite slopes are without noise. Beside them the slopes are finite, so that
        noise would explain each number that a tape loses there.

        Parameters
        ----------
        s : int
            The array.
        limits, g : arrays
            The exact numbers, and those of the program.
        far : Distances
        beyond : bool array
        """
        mask = noise = np.zeros(np.shape(g))
        held = infinite_slopes(self.program, {} if self.last is None else self.last.env)
        for runs in (RUNS, MANY_RUNS):
            spread = spreads(self.nudged, coarsest(self.program), runs, held=held)
            if spread[s] is not None:
                noise = np.maximum(noise, np.where(np.isfinite(spread[s]), spread[s], 0.0))
            mask = np.asarray(beyond & np.isfinite(g) & (far.high != 0) & (far.off + far.radius <= far.tight + noise))
            if (mask == beyond).all():
                break
        lost = np.log2(np.maximum(np.where(np.isfinite(far.ulps), far.ulps, np.inf), 1.0))
        most = digits_of(g.dtype)
        found = []
        for ok, some in ((False, mask & (lost > most / 2)), (True, mask & (lost <= most / 2))):
            if some.any():
                shown = worst_of(s, some, far.ulps, g, limits, noise)
                right = fewest_digits(some, far.off, far.high, g.dtype)
                told = Told(some, "cancellation", "", ok=ok)
                found.append(cancellation(self.order, shown, told, lost, most, right))
        return found, mask

    def beside_kinks(self, met: list[Finding]) -> list[Any] | None:
        """How far roundings may carry numbers of another program from the derivatives beside a kink; None for none.

        These are half a unit in the inputs, and the roundings of this program that cross no kink: a rounding across
        it would explain any number.

        Parameters
        ----------
        met : list of Finding
            The kinks.
        """
        bounds = self.bounds(RUNS)
        if bounds is None:
            return None
        held = inputs_at_kinks(self.program, self._oracle().env, met)
        noise = spreads(self.nudged, coarsest(self.program), RUNS, held=held)
        found: list[Any] = [
            None if a is None or b is None else np.fmin(a, b) for a, b in zip(bounds, noise, strict=True)
        ]
        small = self.program.size <= MANY  # larger programs move in floats, which cross kinks
        moved = (moves(self.program, self.moved_along, MOVES[1], self.moved_apart) if small else None) or []
        many = math.sqrt(max(1, self.roundings()))
        for s, m in enumerate(moved):
            if m is not None and found[s] is not None:
                found[s] = np.maximum(found[s], many * np.where(np.isfinite(m), m, 0.0))
        return found

    def reached(self, s: int, off: Any, high: Any, dtype: Any) -> Any:
        """Whether the program's own roundings explain distances from limits of 0.

        A zero has no digits of its own, so its error is measured against the numbers that cancel.
        """
        spread = self.bounds(RUNS) if (high == 0).any() else None
        if spread is None or spread[s] is None:
            return np.zeros(np.shape(off), dtype=bool)
        room = SPREADS * spacing(self.largest_float(), dtype)
        with np.errstate(invalid="ignore"):
            return np.asarray((high == 0) & (off <= np.minimum(room, spread[s])))

    def largest_float(self) -> float:
        """The largest finite magnitude among the floats of the program."""
        parts = [v for n in self.program.nodes for v in (n.output if isinstance(n.output, tuple) else (n.output,))]
        sizes = [np.abs(v) for v in map(np.asarray, parts) if v.dtype.kind in "fc"]
        return max([float(np.max(v, initial=0.0, where=np.isfinite(v))) for v in sizes], default=0.0)

    def by_sides_of_lost(self, report: Report) -> None:
        """As `by_sides`, for numbers that the rule of an op without a derivative lost, although the mirror has a number
        by convention there.
        """
        lost = next((f for f in report.findings if f.verdict == "unstable" and not f.ok), None)
        if lost is None or self.claimed or not self.loses_without_slope():
            return
        nowhere = not_differentiable(self.program, self.order)
        if nowhere is None or not lacks_a_slope(nowhere) or (nowhere.op, nowhere.line) != (lost.op, lost.line):
            return
        told = self.report()
        told.findings = [nowhere]
        self.by_sides(told)
        if told.findings[0] is not nowhere:
            report.findings = [*told.findings, *[f for f in report.findings if f.ok]]

    def loses_without_slope(self) -> bool:
        """Whether the first rule that makes infinity or NaN of finite numbers is that of an op without a derivative."""
        return False

    def by_missing(self, report: Report, nowhere: Finding) -> None:
        """As `by_sides`, for derivatives that are all missing: right where the function as a whole has zeros."""
        shapes = self.shapes()
        if self.program.size * max(1, sum(map(math.prod, filter(None, shapes)))) > _FEW_SLOW:
            return
        limits = self.sides().agreed(shapes)
        if limits is not None and all(e is None or all(x.contains(0) for x in objects(e).ravel()) for e in limits):
            passed = f"{nowhere.reason}; but the function as a whole has a derivative of 0 here"
            report.findings[report.findings.index(nowhere)] = Finding(
                "convention", order=self.order, op=nowhere.op, line=nowhere.line, inside=True, reason=passed
            )

    def _beside_along(self) -> Callable[[Oracle, list[Any]], arb] | None:
        return self.beside_along() if self.order > 1 else None

    def at_the_point(self) -> Report:
        """The report of the comparison with derivatives at the point itself."""
        report = self.report()
        report.findings += undecidable(self.program, self.order)
        if self.open and not report.findings:
            return self.about_the_rest()
        if report.findings or (self.got and all(g is not None and np.size(g) == 0 for g in self.got)):
            return report  # nothing to compare: infinities such as an empty maximum do not matter
        if self.shared is not None and self.shared.limits is not None:  # an earlier row was right only by limits
            limit = self.by_limits(self.shared.limits)
            if limit is not None and limit.ok:
                return limit
        bad = outside(self.program, self.got)
        if bad is None:
            found = self.compared()
            # Infinities that a selection switches off matter where enclosures of its derivatives need them.
            open_ = any(
                (f.verdict in ("domain", "undecided") and f.got is None) or (f.verdict == "rule" and f.op is None)
                for f in found.findings
            )
            return (self.by_limits() if open_ else None) or found
        limit = self.by_limits()
        if limit is not None:
            return limit
        reasons, _ = self.degenerate_along()
        if reasons:
            report.findings += self.at_meeting_values() or [no_derivative(reasons, self.order)]
            return report
        bad.order = self.order
        if bad.verdict not in ("range", "unstable"):
            report.findings.append(bad)
            return report
        # An overflow along the way is excused if the exact derivative overflows, too.
        inside = self.compared()
        if self.claimed:  # a value along this program explains no finite number of another library
            lost = [
                f
                for f in inside.findings
                if f.got is not None and not np.isfinite(f.got) and f.verdict != "range" and self._is_used(f)
            ]
            if lost:
                inside.findings = [shown_by(bad, lost), *[f for f in inside.findings if f not in lost]]
            return inside
        if all(f.ok or f.verdict == "range" for f in inside.findings):
            return inside
        report.findings.append(shown_by(bad, inside.findings))
        report.checked, report.max_ulp = inside.checked, inside.max_ulp
        return report

    def _is_used(self, found: Finding) -> bool:
        """Whether the program uses the source of a number; no value along the program reaches the number otherwise."""
        return found.element is None or bool(self.program.sources[found.element[0]])

    def by_limits(self, bits: int = 0) -> Report | None:
        """The comparison with infinities as limits; None without infinities, or if the comparison neither passes nor
        names an op.

        Parameters
        ----------
        bits : int
            The precision that another row needed.
        """
        if not masked_by_infinities(self.program, self.got):
            return None
        with infinities_as_limits():
            limit = self.compared(bits)
        if not limit.ok and not any(f.verdict == "rule" and f.op for f in limit.findings):
            if not all(f.ok or f.verdict in _LOST for f in limit.findings):
                return None
            shared, self.shared = self.shared, None  # which holds the values for the first of the two numbers
            try:
                with infinities_as_limits(_FARTHER):
                    farther = self.compared(bits)
            finally:
                self.shared = shared
            if _told(farther) != _told(limit):  # there is no limit with which the numbers were compared
                return None
        limit.coverage["limits"] = 1
        if limit.ok and self.shared is not None:
            self.shared.limits = limit.coverage["bits"]
        return limit

    def about_the_rest(self) -> Report:
        """The report on the sources whose derivative is implemented; the other sources are undecided."""
        findings, self.open = self.open, {}
        self.got = [None if s in findings else g for s, g in enumerate(self.got)]
        self.left_out = frozenset(findings)
        report = self.examine() if self.by_source and any(g is not None for g in self.got) else self.report()
        report.findings += findings.values()
        return report

    def compared(self, bits: int = 0) -> Report:
        """The report of the comparison at rising precision, from some bits on."""
        report = self.report()
        precisions = [p for p in precisions_of(self.program) if p >= bits]
        by_values = follows_values_alone(self.program, self.order, self.oracle)

        def attempt(bits: int, degenerate: list[str]) -> bool:
            report.coverage["bits"] = bits
            with values_alone() if by_values else contextlib.nullcontext():
                self.at(report, degenerate)
            return True

        def otherwise() -> Finding | None:
            return self.without_slope(report.coverage["bits"])

        _, said = climb(self.program, self.order, attempt, precisions, otherwise=otherwise)
        if said is not None:
            degenerate = said.verdict == "domain" and self.last is not None and self.order == 1
            met = [f for f in report.findings if said.op is not None and _names_the_same(f, said)]
            for f in met:  # the kink of the op that compares these numbers
                f.reason += f"; {said.reason}"
            report.findings += [] if met else (self.at_meeting_values() if degenerate else []) or [said]
        return report

    def at_meeting_values(self) -> list[Finding]:
        """The findings for ops whose rules are wrong, if outputs of another op have no derivative."""
        reasons, oracle = self.degenerate_along()
        if not reasons or len(oracle.env) < len(self.program.nodes):
            return []
        with precision(TIES), ties_assumed():
            return self.wrong_beside(oracle)

    def at(self, report: Report, degenerate: list[str]) -> None:
        """The whole check at the precision in force; raises ArithmeticError if the precision does not decide."""
        program, order = self.program, self.order
        self.crossed, self.excused = False, []
        oracle = self.last = self.oracle()
        # A single row asks for the same kinks several times, too.
        oracle.shared = Shared() if self.shared is None else self.shared
        around = None
        oracle.evaluate_once()
        exact, failures = self.certified(oracle, report)
        agreed = not failures
        derivative: Callable[[Oracle], list[Any]] = self.derivative
        if degenerate and failures and order > 1:
            exact, failures, derivative = self.through_equal_values(oracle, exact, failures)
        if any(f.mark is not None for f in failures):
            oracle, exact, failures = self.with_broken_ties(report, oracle, exact, failures)
        if any(f.mark is not None for f in failures):
            oracle, exact, failures = self.with_crossed_kinks(report, oracle, exact, failures)
        one_sided: Sides | None = None
        kinked: list[Finding] = []
        zeros = zeros_of_singular_values(oracle, order) if ZERO_SINGULAR_VALUES in degenerate else []
        if degenerate and ((failures and order > 1) or depends_on_bases(self.oracle, exact, derivative)):
            report.findings = self.wrong_beside(oracle)
            around = None if report.findings else self.sides().around()
            if around is not None:
                exact, failures = around, []
            else:
                if zeros and not (report.findings or failures):
                    one_sided = self.with_one_sided_derivatives(exact)
                if one_sided is None:
                    report.findings = report.findings or [no_derivative(degenerate, order)]
                    return
                kinked = zeros
        if zeros and not kinked and values_depend_on_bases(self.oracle, oracle):
            kinked = zeros
        if failures:
            report.findings = self.blamed(oracle, failures)
            self.measure_at_zeros(report.findings)
            report.checked = sum(np.size(g) for g in self.got if g is not None)
            report.max_ulp = max([f.ulps for f in report.findings if f.ulps is not None], default=0.0)
            return
        excused, self.excused = self.excused, []
        try:
            settled = self._settled(oracle)
            exact = exact if settled is None else self._on_branches(settled)
            exact = self._by_exact_decisions(oracle, exact) if self.claimed else exact
        except (ValueError, IndexError, TypeError):
            report.findings = [Finding("undecided", order=order, at=oracle.flips[0], reason=_OTHER_SHAPES)]
            return
        met = self.kinks(oracle)
        choices, guards = choices_met(program, oracle, order, self.derivative)
        met += choices + kinked
        if self.shared is not None:
            others = degenerate or oracle.flips or oracle.read or oracle.broken or not agreed
            self.shared.calm = not (met or guards or others or decides_at_ties(program, oracle))
        got = self.got
        alone = [f for f in met if has_a_value_alone(f)]
        met = [f for f in met if f not in alone]
        without = self.sides().alone() if alone else []
        if without:  # otherwise the function as a whole has values on a side
            alone, exact, got = without_derivative(without, alone, exact, got, order, claimed=self.claimed)
        if (met or guards) and not self.crossed:
            sides = one_sided or self.sides()
            near = [e if e is None or not oracle.broken else _blurred(objects(e)) for e in exact]
            met, near, got = as_a_whole(
                sides, near, got, met, order, guards=guards, claimed=self.claimed,
                rounding=lambda: self.beside_kinks(met) if self.claimed else self.bounds(RUNS),
                deciders=Deciders(program, oracle, self.beside, sides.split),
            )  # fmt: skip
            if guards:
                met, near = with_quotients(sides, near, exact, got, met, guards, order, claimed=self.claimed)
            exact = near if self.claimed or not oracle.broken else exact
            excused = [] if sides.compared else excused
        elif excused and not self.crossed:  # kinks of the bodies that cancel each other
            outside_of_limits = self.sides().limits(exact)
            excused = [] if outside_of_limits is not None and not any(outside_of_limits) else excused
        if excused:  # nothing judged the conventions of these custom gradients
            report.findings = self.blamed(oracle, excused)
            return
        local = self.local(oracle.env) if self.locally else ()
        compared = Comparison(order, self)
        compared.numbers([None if s in self.left_out else e for s, e in enumerate(exact)], got)
        if compared.undecided:
            raise ArithmeticError(f"{compared.undecided} elements have enclosures that are too wide")
        if not local:
            self.keep(exact, compared)
        findings = compared.findings
        findings += self.apart_from_moved(exact, got, findings)
        report.checked, report.max_ulp = compared.checked, compared.worst
        if around is not None and not self.claimed:
            for f in findings:
                if not f.ok:
                    f.verdict, f.reason = "domain", beyond_the_rules(degenerate)
        if self.excuses_bases and degenerate and not all(f.ok for f in findings):
            report.findings = [no_derivative(degenerate, order)]
            return
        followed = [] if oracle.broken else [program.nodes[i] for i in oracle.read]
        for node in [*(oracle if settled is None else settled).flips, *followed]:
            reason = f"rounding decided {node.name} differently from the exact values"
            findings.append(Finding("conditioning", order=order, at=node, reason=reason))
        findings += met + (alone if without else [])
        for f in local:
            f.order = order
            findings.append(f)
        report.findings = findings

    def with_one_sided_derivatives(self, exact: list[Any]) -> Sides | None:
        """The sides of the point, if the function as a whole is continuous there and has finite one-sided derivatives.

        Parameters
        ----------
        exact : list of object arrays of enclosures, or None
            The derivative by the conventions of the ops.
        """
        sides = self.sides()
        sides.looks_for_poles = True
        has_limits = sides.limits(in_parts(sides.split, exact)) is not None
        return sides if has_limits and not sides.jumps else None

    def measure_at_zeros(self, findings: list[Finding]) -> None:
        """Measure wrong numbers in place of exact zeros by the terms that cancel to the zeros, in place.

        A zero has no digits of its own, so that a distance from it in its own units says nothing.
        """
        terms: list[Any] | None = None
        for f in findings:
            if f.element is None or f.ulps is None or not isinstance(f.got, float) or not math.isfinite(f.got):
                continue
            s, index = f.element
            if f.got == 0 or f.exact is None or float(f.exact) != 0 or not isinstance(s, int):
                continue
            if terms is None:
                try:
                    terms = self.terms()
                except (ArithmeticError, ValueError, TypeError, IndexError, TooDeep):  # as a wrong rule may raise
                    return
            dtype = np.asarray(self.got[s]).dtype
            sizes = terms[s] if terms else None
            size = 0.0 if sizes is None else float(np.broadcast_to(sizes, np.shape(self.got[s]))[index])
            if 0 < size < math.inf:
                f.ulps = abs(f.got) / (2.0 ** (1 - digits_of(dtype)) * size)
            else:
                f.ulps = math.inf
                f.reason += "; the distance in ULP is infinite, because all terms of the exact derivative are 0, too"

    def apart_from_moved(self, exact: list[Any], got: list[Any], findings: list[Finding]) -> list[Finding]:
        """The finding that no moved inputs have all claims together, although they excuse each claim by itself.

        Moved inputs keep the decisions of a program, and a stable elimination moves more than its inputs. So programs
        with kinks, decisions or eliminations are left out.
        """
        excused = [f for f in findings if f.ok and f.verdict == "conditioning" and f.element is not None]
        real = all(g is None or np.asarray(g).dtype.kind == "f" for g in got)
        if not self.claimed or not excused or not real or self.order > 1 or self.program.size > _SOME:
            return []
        ops = [n for n in self.program.nodes if n.kind == "op"]
        if any(n.prim.kinks or not (isinstance(n.output, tuple) or is_floating(n.output)) for n in ops):
            return []
        if self.kinked() or eliminations(self._oracle()):
            return []
        moved = self.nearby(_TOGETHER, SPREADS)
        count = min([len(m) for m in moved if m is not None], default=0)
        rows = [[None if m is None else m[k] for m in moved] for k in range(count)]
        with np.errstate(all="ignore"):
            rounded = [self.nudged(NoiseWorld(np.random.default_rng(k), self.dtype)) for k in range(RUNS)]
        apart = apart_from_moved(got, rows[:_BUILD], [*rows[_BUILD:], *rounded])
        if apart is None:
            return []
        s, index = excused[0].element or (0, ())
        reason = (
            f"moves of the inputs by half a unit excuse each number by itself, but not all at once: the sum of {apart} "
            f"times the elements is {apart.low:.6g} at all moved inputs, and the claims give {apart.claimed:.6g}"
        )
        number, truth = np.asarray(got[s])[index].item(), digits(objects(exact[s])[index])
        return [Finding("rule", order=1, element=(s, index), got=number, exact=truth, reason=reason)]

    def sides(self) -> Sides:
        """The derivatives at points next to the recorded one."""
        along = self._beside_along()
        return Sides(
            self.program, self.oracle, self.beside, along, self.shared, self.row, self.floats_beside, self.order,
            self.way(),
        )  # fmt: skip

    def cuts_met(self) -> list[Finding] | None:
        """The findings for ops on branch cuts, as if all zeros were positive; none if the function as a whole is smooth
        across the cuts. None without cuts, or if it is open.
        """
        with precision(PRECISIONS[0]), contextlib.suppress(ArithmeticError, TooDeep):
            oracle = self.oracle()
            oracle.evaluate_once()
            met = [f for f in kinks_met(self.program, oracle, self.order) if is_on_a_cut(f)]
            if not met:
                return None
            with sides_of_zeros():
                other = self.oracle()
                other.evaluate()
                signed = self.derivative(other)
            return [] if crosses_smoothly(self.sides(), self.derivative(oracle), signed) else met
        return None

    def all_meet_kinks(self, oracle: Oracle, customs: list[Node]) -> bool:
        """Whether there are custom gradients, and each has an op at a kink, or a decision at a tie, in its body."""
        return bool(customs) and len(self.at_kinks(oracle, customs)) == len(customs)

    def at_kinks(self, oracle: Oracle, customs: list[Node]) -> list[Node]:
        """The custom gradients with an op at a kink, or a decision at a tie, in their bodies."""
        if not customs:
            return []
        program = self.program
        met = {(f.op, f.line) for f in self.kinks(oracle)}
        inside = [inside_of(oracle, node) for node in customs]
        found = [any((program.nodes[i].name, program.nodes[i].line) in met for i in body) for body in inside]
        if not all(found):
            tied = {n.index for n in tied_decisions(program, oracle)}
            found = [one or not tied.isdisjoint(body) for one, body in zip(found, inside, strict=True)]
        return [node for node, one in zip(customs, found, strict=True) if one]

    def all_may_be_conventions(self, oracle: Oracle, customs: list[Node]) -> bool:
        """Whether custom gradients are right beside the inputs of their calls, and at them like conventions."""
        return all(self._may_be_convention(oracle, node) for node in customs)

    def _may_be_convention(self, oracle: Oracle, node: Node) -> bool:
        here, slopes = slopes_of_custom(oracle, node), list[list[Any]]()

        def right(beside: Oracle) -> bool:
            slopes.append(slopes_of_custom(beside, node))
            return not faulty_forwards(beside, transposed=False, among={node.index})

        if not self.sides().holds(right, node) or not lies_between(here, slopes):
            return False
        return agrees_along(here, slopes) or (
            self.sides().holds(right, node, pairs=_MANY_PAIRS) and agrees_along(here, slopes)
        )

    def through_equal_values(
        self, oracle: Oracle, exact: list[Any], failures: list[Failure]
    ) -> tuple[list[Any], list[Failure], Callable[[Oracle], list[Any]]]:
        """The derivative by jets alone, and how it is found; the arguments if the gradient has too many elements.

        At equal eigenvalues the records of an inner gradient hold slopes as rounded constants, so they certify nothing.
        """
        try:
            return self.beside(oracle), [], self.beside
        except Undecided:
            raise
        except (TooDeep, ArithmeticError):
            return exact, failures, self.derivative

    def keep(self, exact: list[Any], compared: Comparison) -> None:
        """Keep exact numbers, if other numbers may be compared with them."""

    def with_broken_ties(
        self, report: Report, oracle: Oracle, exact: list[Any], failures: list[Failure]
    ) -> tuple[Oracle, list[Any], list[Failure]]:
        """Certify the inner gradients with ties broken as rounding broke them; returns the arguments if that fails.

        Inner gradients depend on no cotangent, so that those of a program without ties fail again in each row.
        """
        again = self.oracle()
        again.broken = True
        again.shared = rows = None if self.shared is None else self.shared.get("with broken ties", Shared)
        if rows is not None and rows.known("inner gradients fail") and not oracle.flips and not self.kinks(oracle):
            return oracle, exact, failures
        try:
            again.evaluate_once()
            made, left = self.certified(again, report)
        except ArithmeticError:
            return oracle, exact, failures
        if any(f.error > _TRACE for f in left):
            if rows is not None and any(f.mark is not None and f.error > _TRACE for f in left):
                rows.get("inner gradients fail", lambda: True)
            return oracle, exact, failures
        self.last = again
        return again, made, []

    def with_crossed_kinks(
        self, report: Report, oracle: Oracle, exact: list[Any], failures: list[Failure]
    ) -> tuple[Oracle, list[Any], list[Failure]]:
        """Certify the inner gradients on the branches that rounding chose; returns the arguments if that fails.

        The backward ops of an inner gradient hold masks. If rounding moved the input of an op to the other side of its
        kink, the masks belong to that side, whereas the exact op stays on its own side. The exact derivative is then
        the derivative of the primal, if the gradient has few elements.
        """
        rows = oracle.shared or Shared()
        crossed = rows.get("flipped branches", lambda: flipped_branches(self.program, oracle))
        if not crossed:
            return oracle, exact, failures
        try:
            again = crossing(self.program, oracle, crossed)
            made, left = self.certified(again, report)
        except ArithmeticError:
            return oracle, exact, failures
        if left:
            return oracle, exact, failures
        try:
            return oracle, self.beside(oracle), []
        except (TooDeep, ArithmeticError):
            self.last, self.crossed = again, True
            return again, made, []

    def without_slope(self, bits: int) -> Finding | None:
        """The finding for an op without a finite derivative at its exact inputs; None if exact values are unknown."""
        oracle = self.last
        if oracle is None or len(oracle.env) < len(self.program.nodes) or self.program.size > _BIG:
            return None
        with precision(TIES), ties_assumed(), contextlib.suppress(ArithmeticError):
            return without_slope(self.program, oracle, self.order, bits)
        return None

    def degenerate_along(self) -> tuple[list[str], Oracle]:
        """Why outputs of ops along the way are not differentiable, up to the first value that cannot be followed."""
        oracle = self.oracle()
        with precision(TIES), ties_assumed(), degenerate_noted() as reasons, contextlib.suppress(ArithmeticError):
            oracle.evaluate()
        return list(reasons), oracle

    def wrong_beside(self, oracle: Oracle) -> list[Finding]:
        """The findings for ops whose rules are wrong, at a point without a derivative."""
        if self.order > 1:
            return []
        failures = faulty_beside(oracle)
        reason = "the rule of {0} is not the derivative of {0} (relative error {1:.3g} along a random direction)"
        found = [
            Finding("rule", order=1, at=f.node, reason=reason.format(f.node.name, f.error))
            for f in failures
            if f.node is not None
        ]
        return found + [f for f in self.local(oracle.env) if self.locally and not f.ok]


_OTHER_SHAPES = (
    "rounding decided this op, and no move of the inputs changes the decision; with the exact outcome the derivatives "
    "cannot be evaluated, because arrays have other shapes"
)
_MAY_BE_0 = np.frompyfunc(lambda x: x == 0 if isinstance(x, int) else x.contains(0), 1, 1)


class _CertifiedBeside:
    """The derivative beside the recorded point, by the rules, certified by the mirrors at the first of the points.

    Attributes
    ----------
    findings : list of Finding
        About wrong rules.
    done : bool
        Whether a point decided that the rules are right, or which are wrong.
    """

    def __init__(self, judgement: Judgement) -> None:
        self.judgement = judgement
        self.findings: list[Finding] = []
        self.done = judgement.order > 1  # because the mirrors alone give the derivative there

    def __call__(self, oracle: Oracle) -> list[Any]:
        if self.done:
            return self.judgement.beside(oracle)
        try:
            made, failures = self.judgement.certified(oracle, Report())
            self.findings = self.judgement.blamed(oracle, failures) if failures else []
        except ArithmeticError:  # the next point may decide
            return self.judgement.beside(oracle)
        self.done = True
        # A wrong custom gradient and its body, which the other points take, have different derivatives.
        return self.judgement.beside(oracle) if failures else made


def depends_on_bases(oracle: Callable[[], Oracle], here: list[Any], derivative: Callable[[Oracle], list[Any]]) -> bool:
    """Whether another choice of the vectors of equal eigenvalues changes a derivative.

    Parameters
    ----------
    oracle : callable
        Returns a new oracle.
    here : list of object arrays or None
        The derivative with the usual choice.
    derivative : callable
        Takes an oracle with the values of all nodes.
    """
    with bases_turned():
        try:
            other = oracle()
            other.evaluate()
            there = derivative(other)
        except Undecided:
            raise
        except ArithmeticError:
            return True
    return any(a is not b if a is None or b is None else _differ(a, b) for a, b in zip(here, there, strict=True))


def values_depend_on_bases(oracle: Callable[[], Oracle], here: Oracle) -> bool:
    """Whether another choice of the vectors of singular values 0 changes the function itself.

    Parameters
    ----------
    oracle : callable
        Returns a new oracle.
    here : Oracle
        With the values of all nodes for the usual choice.
    """
    if not uses_vectors(here):
        return False
    with bases_turned():
        other = oracle()
        try:
            other.evaluate()
        except Undecided:
            raise
        except ArithmeticError:
            return False
    program = here.program
    read = [(i, here.cotangent(i) != 0 if i in program.outputs else True) for i in program.primals]
    return any(_differ(np.where(mask, here.env[i], 0), np.where(mask, other.env[i], 0)) for i, mask in read)


def zeros_of_singular_values(oracle: Oracle, order: int) -> list[Finding]:
    """A `convention` finding for each op along the way that has singular values 0.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    order : int
    """
    found = []
    for node in filter(factorises, oracle.program.nodes):
        with degenerate_noted() as reasons:
            node.apply(BALLS, [oracle.env[j] for j in node.inputs])
        if ZERO_SINGULAR_VALUES in reasons:
            found.append(Finding("convention", order=order, at=node, inside=True, reason=ZERO_SINGULAR_VALUES))
    return found


def precisions_of(program: Program) -> tuple[int, ...]:
    """The numbers of bits that are tried for the derivative of a program."""
    if program.size > _BIG:
        return PRECISIONS[:2]
    return MANY_BITS if program.size <= _SOME and is_quick(program) else PRECISIONS


def first_bits(program: Program) -> int:
    """The number of bits that is tried first for a whole derivative."""
    return FEWER_BITS if program.size > _BIG and order_of(program) == 1 else PRECISIONS[0]


def follows_values_alone(program: Program, order: int, oracle: Callable[[], Oracle]) -> bool:
    """Whether jets may follow the values of factorisations alone, because nothing depends on their vectors."""
    return order > 1 and any(map(factorises, program.nodes)) and not uses_vectors(oracle())


def terms_within(program: Program, terms: list[Any], made: Callable[[], list[Any]]) -> list[Any]:
    """The sizes of terms, in a program with a factorisation at most the largest of the exact numbers that a sweep made.

    Roundings part equal eigenvalues, and a rule divides by their distance, so that the roundings of its terms say
    nothing about the size of the terms.
    """
    if not any(n.kind == "op" and n.prim.kind == "implicit" for n in program.nodes):
        return terms
    with np.errstate(all="ignore"):
        sizes = [np.abs(to_float(objects(a))) for a in made() if a is not None]
    most = max([float(np.max(v, initial=0.0, where=np.isfinite(v))) for v in sizes], default=0.0)
    return [None if t is None else np.minimum(t, most) for t in terms]


def _names_the_same(a: Finding, b: Finding) -> bool:
    """Whether two findings give the same verdict about one op at one line."""
    return (a.verdict, a.op, a.line, a.order) == (b.verdict, b.op, b.line, b.order)


def _told(report: Report) -> list[tuple[Any, ...]]:
    """What a report says of each element, with rounded exact numbers."""
    return sorted((f.verdict, f.ok, f.op or "", str(f.element), _rounded(f.exact)) for f in report.findings)


def _rounded(exact: str | None) -> str:
    """An exact number, or the parts of a complex one, with the digits of a float, or all digits beyond all floats."""
    parts = _PART.findall(exact or "")
    return " ".join([f"{float(part):.15g}" if math.isfinite(float(part)) else part for part in parts])


def _blurred(e: Any) -> Any:
    """Enclosures that hold the exact numbers of a program whose ties were broken by traces."""
    most = arb(
        max([abs(v).upper() if isinstance(v, acb) else arb(v).abs_upper() for v in e.ravel().tolist()], default=0)
    )
    made = np.empty(e.shape, dtype=object)
    for index in np.ndindex(*e.shape):
        made[index] = e[index] + arb(0, (abs(e[index]) * arb(_TRACE) + most * arb(_TRACE) ** 1.5).upper())
    return made


def nodes_of(program: Program, cause: Cause) -> list[Node]:
    """The nodes that a cause names."""
    return [n for n in program.nodes if n.prim is not None and (n.name, n.line) == cause[2:]]


def to_blame(program: Program, f: Finding) -> Suspect:
    """A finding about an op as a suspect."""
    cause = (f.verdict, f.reason, f.op, f.line)
    return Suspect(cause, nodes_of(program, cause), f.element and f.element[1])


def _differ(a: Any, b: Any) -> bool:
    """True unless every pair of enclosures overlaps."""
    for p, q in zip(objects(a).ravel().tolist(), objects(b).ravel().tolist(), strict=True):
        gap = p - q
        if not (gap.is_finite() and gap.contains(0) if isinstance(gap, (arb, acb)) else gap == 0):
            return True
    return False

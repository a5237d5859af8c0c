"""Decisions at a tie inside a program (`where(x > 0, ...)` at 0, a floor, an argmax), and their other outcomes.

No table lists ties. The program is evaluated exactly one small step to either side of the point: a comparison, a cast
or a step function with another outcome there, although its inputs hardly moved, is at a tie. The program with the
other outcome then shows if the tie matters, and the derivatives on both sides.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import Undecided, assumed, meets, objects, precision, radius, ties_assumed, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.beside import OtherShapes, beside, scale_of
from gtape.verify.causes.still import still
from gtape.verify.oracles.certificates import directions_of
from gtape.verify.oracles.enclosures import BALLS, inner, is_floating, jet_world
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.oracles.replay import Shared, decided_anew, is_step
from gtape.verify.verdicts.ulp import spacing, widest
from gtape.verify.verdicts.verdict import Finding

__all__ = [
    "choices_met", "decides_at_ties", "jumps", "may_decide", "may_jump", "tied_decisions", "values_beside", "varying",
    "words_of",
]  # fmt: skip

# Number of ties that are also tried one by one, because each try takes one or two replays.
_MANY = 4
_BITS = 600
_MOST_BITS = 6000
_FEW = 2000  # programs with more numbers are evaluated with few bits only
_WAYS = 3  # directions of several elements
_BITS_WITH_TIES = 1500  # so that numbers which differ by the step are no ties
_STEP = arb(2) ** -400
_NEAR = arb(2) ** -200
Derivative = Callable[[Oracle], list[Any]]


def choices_met(
    program: Program, oracle: Oracle, order: int, derivative: Derivative
) -> tuple[list[Finding], list[Finding]]:
    """A `convention` finding for each decision at a tie whose other outcome gives another value or derivative.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes, for the recorded decisions.
    derivative : callable
        Oracle with the values of all nodes -> the exact derivative, as a list of object arrays or None.

    Returns
    -------
    findings : list of Finding
    guards : list of Finding
        Instead, for a decision that keeps the program off a point where a value or derivative is not defined, as
        ``where(x == 0, 1, sin(x) / x)`` does. It matters only if the function as a whole has limits there.
    """
    tied = _tied_decisions(program, oracle)
    if not tied:
        return [], []
    oracle = _by_bodies(program, oracle)
    here = _Outcome(program, oracle, derivative)
    said = _what_it_changes(program, oracle, derivative, tied, here)
    if said is None:
        return [], []  # all ties together change nothing
    if said is _GUARD:
        node = tied[0][0]
        return [], [Finding("convention", order=order, at=node, inside=True, reason=f"{words_of(node)}: {said}")]
    alone = [t for t in tied[:_MANY] if _what_it_changes(program, oracle, derivative, [t], here) is not None]
    blamed = [*(alone or tied[:1]), *(tied[_MANY:] if alone else [])] if len(tied) > 1 else tied
    findings: dict[Any, Finding] = {}
    for node, _ in blamed:
        reason = f"{words_of(node)}: {said}"
        found = Finding("convention", order=order, at=node, inside=True, reason=reason)
        findings.setdefault((node.name, node.line), found)
    return list(findings.values()), []


def _by_bodies(program: Program, oracle: Oracle) -> Oracle:
    """An oracle with the same values that differentiates the bodies of custom gradients.

    The function that gives a custom gradient need not read a decision of the body, so that its numbers stay the same
    with another outcome.
    """
    if not any(n.kind == "custom" and n.prim.declared is None for n in program.nodes):
        return oracle
    again = oracle.anew()
    again.by_bodies = True
    again.env, again.flips, again.read = oracle.env, oracle.flips, oracle.read
    again.broken, again.elsewhere = oracle.broken, oracle.elsewhere
    return again


def decides_at_ties(program: Program, oracle: Oracle) -> bool:
    """Whether a decision of a program may be at a tie."""
    return bool(_suspects(program, oracle))


def tied_decisions(program: Program, oracle: Oracle) -> list[Node]:
    """The decisions at a tie, whether their other outcomes matter or not."""
    return [node for node, _ in _tied_decisions(program, oracle)]


def _tied_decisions(program: Program, oracle: Oracle) -> list[tuple[Node, list[Any]]]:
    """The decisions at a tie that outputs read, each with its outcomes before and behind the point."""
    suspects = _suspects(program, oracle)
    if not suspects:
        return []
    reached, moving = set(program.ancestors([*program.outputs, *program.differentiated])), varying(program)
    suspects = [n for n in suspects if n.index in reached and n.index in moving and n not in oracle.flips]
    return _tied(program, oracle, suspects)


def _suspects(program: Program, oracle: Oracle) -> list[Node]:
    known = oracle.shared or Shared()  # ties depend on no cotangent
    found: list[Node] = known.get("ties", lambda: [n for n in program.nodes if _may_be_tied(program, n, oracle)])
    return found


def varying(program: Program) -> set[int]:
    """The nodes that depend on a source."""
    found = {i for nodes in program.sources for i in nodes}
    for node in program.nodes:
        if not found.isdisjoint(node.inputs) or not found.isdisjoint(node.body):
            found.add(node.index)
    return found


# ------------------------------------------------------------------------------------------------ is it tied


def may_decide(program: Program, node: Node) -> bool:
    """True if an op decides a truth value, an index or an integer from floats."""
    if node.kind != "op" or not any(is_floating(program.nodes[j].output) for j in node.inputs):
        return False
    if isinstance(node.output, tuple) or np.asarray(node.output).dtype.kind == "c":
        return False
    return is_step(node) or (
        not is_floating(node.output) and bool(node.prim.kinks or node.prim.roles & {"conversion", "decision"})
    )


def _may_be_tied(program: Program, node: Node, oracle: Oracle) -> bool:
    """A quick test for ties: another outcome at the next float, or equal elements."""
    if not may_decide(program, node):
        return False
    if "comparison" in node.prim.roles:
        return _equal(node, oracle) is not None
    values = [np.asarray(program.nodes[j].output) for j in node.inputs]
    if not all(np.isfinite(v).all() for v in values if v.dtype.kind == "f"):
        return False
    if node.prim.kind != "elementwise" and "conversion" not in node.prim.roles:
        if "decision" in node.prim.roles:
            return True
        equal = any(np.unique(v).size < v.size for v in values if v.dtype.kind == "f")
        return equal and _changes_apart(program, node, oracle, values)
    return any((made != np.asarray(node.output)).any() for made in _at_next_floats(node, values))


def _at_next_floats(node: Node, values: list[Any]) -> Iterator[Any]:
    """What the kernel of an elementwise op gives if one of its inputs moves to the next floats below or above."""
    for k, v in enumerate(values):
        for towards in (-np.inf, np.inf) if v.dtype.kind == "f" else ():
            moved = [np.nextafter(w, w.dtype.type(towards)) if i == k else w for i, w in enumerate(values)]
            with np.errstate(all="ignore"):
                yield np.asarray(node.prim.kernel(*moved, **node.params))


def may_jump(program: Program, node: Node) -> bool:
    """A quick test for a jump of the value of an op that has a derivative, such as sign at 0."""
    if node.kind != "op" or node.prim.kind != "elementwise" or not node.prim.kinks or isinstance(node.output, tuple):
        return False
    values, here = [np.asarray(program.nodes[j].output) for j in node.inputs], np.asarray(node.output)
    if here.dtype.kind != "f" or any(v.dtype.kind == "c" for v in values):
        return False
    room = math.sqrt(float(np.finfo(here.dtype).eps)) * np.maximum(np.abs(here), 1.0)
    with np.errstate(all="ignore"):
        return any((np.abs(made - here) > room).any() for made in _at_next_floats(node, values))


def _changes_apart(program: Program, node: Node, oracle: Oracle, values: list[Any]) -> bool:
    """Whether a decision has another outcome if each number that may move goes its own way by a few units.

    Equal numbers that do not move, such as results of a relu that is off, are not a tie.
    """
    rng, known = np.random.default_rng(43), dict[int, Any]()
    steps = []
    for j, v in zip(node.inputs, values, strict=True):
        apart = 1.0 + rng.permutation(v.size).reshape(v.shape)  # all different, so that each tie breaks on one side
        still_here = still(program, oracle.env, known, j)
        steps.append(np.where(still_here, 0.0, apart * spacing(v, np.float64)) if v.dtype.kind == "f" else None)
    for sign in (-1, 1):
        moved = [v if s is None else widest(v) + sign * s for v, s in zip(values, steps, strict=True)]
        with np.errstate(all="ignore"):
            if not all(np.isfinite(v).all() for v in moved):
                return True  # beyond the largest float all numbers are equal
            if (np.asarray(node.prim.kernel(*moved, **node.params)) != np.asarray(node.output)).any():
                return True
    return False


def _equal(node: Node, oracle: Oracle) -> Any:
    """The mask of the pairs in a comparison that may be equal; None without any."""
    mask = np.broadcast_to(meets(*[objects(oracle.env[j]) for j in node.inputs]), node.shape)
    return mask if mask.any() else None


def _tied(program: Program, oracle: Oracle, suspects: list[Node]) -> list[tuple[Node, list[Any]]]:
    """The decisions at a tie, each with its outcomes before and behind the point."""
    sides = values_beside(program, oracle)
    found = []
    for node in suspects:
        if any(s is None for s in sides):  # only comparisons of equal numbers need no values of the sides
            mask = _equal(node, oracle) if "comparison" in node.prim.roles else None
            outcomes = [] if mask is None else [np.where(mask, ~np.asarray(node.output), node.output)] * len(sides)
        else:
            outcomes = [np.asarray(s[node.index]) for s in sides if s is not None]
            if not all(_close(program, node, oracle.env, s) for s in sides):
                continue
        if any(_other(o, node.output) for o in outcomes):
            found.append((node, outcomes))
    return found


def values_beside(program: Program, oracle: Oracle) -> list[dict[int, Any] | None]:
    """Exact values of all nodes before and behind the point along some directions, with new decisions.

    None where a decision stays undecided.
    """
    # Several elements may change together so that nothing changes, so they move along directions of their own.
    several = sum(int(np.size(program.nodes[nodes[0]].output)) for nodes in program.sources if nodes) > 1
    ways = range(_WAYS if several and program.size <= _FEW else 1)
    with precision(_BITS if assumed.get("ties") is None else _BITS_WITH_TIES):
        sides = [_beside(program, oracle, sign, way) for way in ways for sign in (-1, 1)]
    if None in sides and program.size <= _FEW:  # such as x and tanh(x) beside 0, or numbers that stay equal
        with precision(_MOST_BITS), ties_assumed():
            sides = [_beside(program, oracle, sign, way) for way in ways for sign in (-1, 1)]
    return sides


def _other(outcome: Any, recorded: Any) -> bool:
    outcome = to_float(outcome) if np.asarray(outcome).dtype == object else np.asarray(outcome)
    return outcome.shape != np.shape(recorded) or bool((outcome != np.asarray(recorded)).any())


def _beside(program: Program, oracle: Oracle, sign: int, way: int) -> dict[int, Any] | None:
    """Exact values of all nodes one step off the point, with new decisions; None if one stays undecided."""
    rng, number = np.random.default_rng(29 + way), 0
    moves: dict[int, Any] = {}
    for nodes in program.sources:
        steps: dict[tuple[int, ...], Any] = {}  # one for all reads of a variable
        for i in nodes:
            shape = program.nodes[i].shape
            # All elements move the same way, then neighbours opposite ways, then each at random.
            places = np.arange(number, number + math.prod(shape)).reshape(shape)
            number += places.size
            signs = (
                np.ones(shape, int) if way == 0 else 1 - 2 * (places % 2) if way == 1 else rng.choice([-1, 1], shape)
            )
            direction = steps.setdefault(shape, objects(np.asarray(signs * rng.integers(1, 2**12, shape))))
            moves[i] = objects(sign * _STEP * direction * scale_of(oracle.env[i]))
    try:
        return beside(program, oracle.env, moves)
    except OtherShapes:
        return None


def _close(program: Program, node: Node, here: dict[int, Any], there: Any) -> bool:
    """True if all inputs of an op hardly change from the point to the step."""
    for j in node.inputs:
        a, b = here[j], there[j]
        if a is b:
            continue
        if np.shape(a) != np.shape(b):
            return False
        if not is_floating(program.nodes[j].output):
            if (np.asarray(a) != np.asarray(b)).any():
                return False
        elif not _are_near(a, b):
            return False
    return True


def _are_near(here: Any, there: Any) -> bool:
    """Whether floats differ by no more than a step may change them."""
    for p, q in zip(objects(here).ravel().tolist(), objects(there).ravel().tolist(), strict=True):
        gap = arb(p - q) if isinstance(p - q, int) else p - q  # of casts from integers
        if not gap.is_finite() or abs(gap) > _NEAR * (1 + abs(p)):  # an enclosure may be wider than that
            return False
    return True


def jumps(here: Any, there: Any) -> bool:
    """Whether floats beside the point differ from those at the point by more than a step may change them.

    Numbers that are not finite at both places count as equal, because infinity hides what changes.
    """
    if np.shape(here) != np.shape(there):
        return True
    mask = _finite(here) & _finite(there)
    return not _are_near(objects(here)[mask], objects(there)[mask])


def _finite(x: Any) -> Any:
    known = [isinstance(e, int) or e.is_finite() for e in objects(x).ravel().tolist()]
    return np.array(known, np.bool_).reshape(np.shape(x))


# ------------------------------------------------------------------------------------------------ does it matter


class _Outcome:
    """The outputs of a program and its derivatives, for one set of decisions."""

    def __init__(self, program: Program, oracle: Oracle, derivative: Derivative) -> None:
        self.values = [oracle.env[i] for i in program.outputs]
        oracle.switched_off = {}
        self.slopes = derivative(oracle)
        self.inner = _inner(program, oracle)
        self.switched_off = oracle.switched_off


def _inner(program: Program, oracle: Oracle) -> list[Any]:
    """Value, first and second derivatives of the primals of inner gradients, along random directions.

    The primals serve here because the recorded backward ops hold the masks of the recorded outcomes.
    """
    marks = {n.mark.key: n.mark for n in program.nodes if n.mark is not None}
    found: list[Any] = []
    for mark in list(marks.values())[:_MANY]:
        rng = np.random.default_rng(31)
        tangents: dict[int, list[Any]] = {}
        for k, nodes in enumerate((program.sources, mark.sources)):
            for group in nodes:
                for i in group:
                    tangents.setdefault(i, [None, None])[k] = directions_of(program.nodes[i], rng)
        with contextlib.suppress(TooDeep):
            inside = program.ancestors(mark.targets)
            env = oracle.jets(2, tangents, inside, None, (program.session, mark.session))
            for t, c in zip(mark.targets, oracle.cotangents_of(mark), strict=True):
                weights = np.broadcast_to(objects(c), program.nodes[t].shape)
                found += [objects(inner(weights, jet_world(2).component(env[t], m))) for m in range(4)]
    return found


def _what_it_changes(
    program: Program, oracle: Oracle, derivative: Derivative, group: list[tuple[Node, list[Any]]], here: _Outcome
) -> str | None:
    """The change of values and derivatives by other outcomes, in words; None without a change."""
    for first in range(0, len(group[0][1]), 2):
        said = _what_sides_change(program, oracle, derivative, group, here, (first, first + 1))
        if said is not None:
            return said
    return None


def _what_sides_change(
    program: Program, oracle: Oracle, derivative: Derivative, group: list[tuple[Node, list[Any]]], here: _Outcome,
    pair: tuple[int, int],
) -> str | None:  # fmt: skip
    """As `_what_it_changes`, for the outcomes before and behind the point along one direction."""
    sides: list[_Outcome | None] = []
    for side in pair:
        outcomes = {node.index: o[side] for node, o in group if _other(o[side], node.output)}
        if not outcomes:
            sides.append(here)
            continue
        try:
            sides.append(_with(program, oracle, derivative, outcomes))
        except (ArithmeticError, Undecided):
            sides.append(None)
        except (ValueError, IndexError, TypeError):
            return "with the other outcome it has other shapes; the derivative is that of the outcome taken"
    for what, of in (("derivative", "slopes"), ("value", "values"), ("inner gradient", "inner")):
        at = _apart(getattr(here, of), [getattr(s, of) for s in sides if s is not None])
        if at is _NOWHERE:
            return _GUARD
        if at is not None:
            if of == "inner":
                return "the inner gradient, or its derivative, differs before or behind the point"
            k, index = at
            where = f"{'source' if of == 'slopes' else 'output'} {k}, element {list(index)}"
            shown = ["not defined" if s is None else _number(getattr(s, of)[k], index) for s in sides]
            now = _number(getattr(here, of)[k], index)
            before, behind = f"{shown[0]} with the outcome before the point", f"{shown[1]} with the outcome behind it"
            return f"the {what} ({where}) is {before}, {behind}, and {now} here"
    return _GUARD if any(s is None or _switches_otherwise(here, s) for s in sides) else None


def _switches_otherwise(here: _Outcome, there: _Outcome) -> bool:
    """Whether other elements have slopes that are not finite, which factors of 0 hide, although limits may differ."""
    mine, theirs = here.switched_off, there.switched_off
    return any(np.not_equal(mine.get(i, False), theirs.get(i, False)).any() for i in mine.keys() | theirs.keys())


_GUARD = "with the other outcome, a value or derivative is not defined here"
_NOWHERE: tuple[int, tuple[int, ...]] = -1, ()


def _number(x: Any, index: tuple[int, ...]) -> str:
    return "none" if x is None else f"{to_float(objects(x))[index]:.6g}"


def words_of(node: Node) -> str:
    """A decision at a tie, in words."""
    if "comparison" in node.prim.roles:
        return f"{node.name} of equal numbers"
    if node.prim.kinks and isinstance(node.prim.kinks[0], str):
        return f"{node.name} at a jump or tie ({node.prim.kinks[0]})"
    return f"{node.name} at a jump"


def _with(program: Program, oracle: Oracle, derivative: Derivative, outcomes: dict[int, Any]) -> _Outcome:
    """The program at the point itself, with other outcomes of some decisions and of all nodes that depend on these."""
    recorded = {}
    again = oracle.anew()
    again.env = {}
    try:
        for node in program.nodes:
            i = node.index
            if i in outcomes:
                value = outcomes[i]
            elif all(again.env[j] is oracle.env[j] for j in (*node.inputs, *node.body)):
                again.env[i] = oracle.env[i]
                continue
            elif node.kind == "op" and not is_floating(node.output):
                value = decided_anew(node, [again.env[j] for j in node.inputs])
            else:
                again.env[i] = program.step(BALLS, node, again.env)
                continue
            if is_floating(node.output):
                again.flips.append(node)
            recorded[i] = node.output
            node.output = value if np.asarray(value).dtype != object else to_float(value)
            again.env[i] = value
        return _Outcome(program, again, derivative)
    finally:
        for i, output in recorded.items():
            program.nodes[i].output = output


def _apart(here: list[Any], others: list[list[Any]]) -> tuple[int, tuple[int, ...]] | None:
    """The first certainly different element as (array, index); `_NOWHERE` if a difference is not finite."""
    found = None
    for other in others:
        for k, (p, q) in enumerate(zip(here, other, strict=True)):
            if p is None or q is None:
                continue
            p, q = objects(p), objects(q)
            if p.shape != q.shape:
                raise ValueError(f"shapes {p.shape} and {q.shape}")
            for index in np.ndindex(*p.shape):
                gap = p[index] - q[index]
                if isinstance(gap, int):  # of casts from integers
                    gap = arb(gap)
                if gap == 0:
                    continue
                if not gap.is_finite():
                    return _NOWHERE
                if found is None and not gap.contains(0) and radius(gap).item() < 1e300:
                    found = k, index
    return found

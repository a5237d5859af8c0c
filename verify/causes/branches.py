"""Python branches on recorded values, and numbers that Python reads: at a tie the outcome taken is a convention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from gtape.recording.trace import branches_taken
from gtape.symbolic.balls import objects, precision
from gtape.symbolic.build import build
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.choices import jumps, may_decide, may_jump, tied_decisions, values_beside, varying, words_of
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.verdicts.verdict import Finding

__all__ = ["branches_met", "isolated_branches"]

_BITS = (200, 800)
# Numbers that were computed in two ways overlap at any precision.
_AGREE = 2.0**-256


def branches_met(session: Any, sources: list[Any], order: int = 1) -> list[Finding]:
    """The findings about the branches that Python took while a tape recorded.

    Parameters
    ----------
    session : Session
    sources : list of tensors or variables
    order : int
        For the findings.

    Returns
    -------
    list of Finding
        `convention` for a branch on a comparison of equal numbers or a number read at a jump, `conditioning` for one
        that rounding decided against the exact values; each once per line of the user's code.
    """
    return [found for found, _ in _met(session, sources, order)]


def isolated_branches(session: Any, sources: list[Any], order: int = 1) -> list[Finding]:
    """The branches among `branches_met` that only the point itself takes, such as that of ``x == 0`` at 0.

    Beside the point the comparison has another outcome on both sides, so that the derivative of such a branch is no
    limit of derivatives.
    """
    return [found for found, isolated in _met(session, sources, order) if isolated]


def _met(session: Any, sources: list[Any], order: int) -> list[tuple[Finding, bool]]:
    """The findings of `branches_met`, each with whether only the point itself takes the branch."""
    taken = _without_narrow_floats(branches_taken(session), sources, session)
    if not taken:
        return []
    program = build([(r, v) for r, v, *_ in taken], sources, session)
    asked = [
        _Asked(i, line, read) for i, (_, _, line, read) in zip(reversed(program.outputs), reversed(taken), strict=True)
    ]
    moving = varying(program)
    asked = [a for a in asked if a.index in moving]
    deciding = {a.index: [n for n in _deciding(program, a.index) if n.index in moving] for a in asked}
    stepping = [a for a in asked if _steps(program, a, moving)]
    if not (any(deciding.values()) or stepping):
        return []
    with np.errstate(all="ignore"):
        for bits in _BITS:
            with precision(bits):
                try:
                    oracle = _evaluated(program)
                    env = oracle.env
                    found = [(a, n, how) for a in asked for n in deciding[a.index] if (how := _decided(n, env, bits))]
                except ArithmeticError:
                    continue
                break
        else:
            return []
        told: dict[Any, tuple[Finding, bool]] = {}

        def tell(a: _Asked, node: Node, verdict: str, reason: str, isolated: bool) -> None:
            if (a.line, verdict) not in told or (isolated and not told[a.line, verdict][1]):
                op = node.name if node.kind == "op" else None
                made = Finding(verdict, order=order, op=op, line=a.line, inside=None, reason=reason)
                told[a.line, verdict] = made, isolated

        # A comparison at a tie may leave an integer the same.
        found = [(a, n, how) for a, n, how in found if a.read is bool or how[0] != "convention"]
        for a, n, (verdict, reason) in found:
            tell(a, n, verdict, reason, verdict == "convention" and _is_isolated(n, env))
        if stepping:
            known = {a.index for a, *_ in found}
            for a, n, verdict, reason, isolated in _read_at_steps(program, oracle, stepping, moving):
                if a.index not in known:
                    tell(a, n, verdict, reason, isolated)
    return list(told.values())


def _without_narrow_floats(taken: list[Any], sources: list[Any], session: Any) -> list[Any]:
    """The reads but those of floats that depend on a format such as bfloat16, which exact arithmetic does not follow.

    Each number of such a format is a step. The comparison with moved points tells whether a value came back.
    """
    if not any(read is float for *_, read in taken):
        return taken
    program = build([(r, v) for r, v, *_ in taken], sources, session)
    narrow = {n.index for n in program.nodes if not isinstance(n.output, tuple) and _is_narrow(n.output)}
    outputs = program.outputs[-len(taken) :]
    return [
        one
        for i, one in zip(outputs, taken, strict=True)
        if one[-1] is not float or narrow.isdisjoint((i, *program.ancestors([i])))
    ]


def _is_narrow(value: Any) -> bool:
    return np.asarray(value).dtype.kind not in "biufc"


@dataclass(frozen=True)
class _Asked:
    """A node whose truth value or numbers Python read, with the user's line, and bool, int or float."""

    index: int
    line: Any
    read: type

    @property
    def words(self) -> str:
        if self.read is bool:
            return "this branch"
        return f"{'an integer' if self.read is int else 'a number'} that the program reads here"

    def is_kept(self, node: Node, here: Any, there: Any) -> bool:
        """Whether Python reads the same from the exact value of a node beside the point as it read in the run.

        A float beside the point is compared with the exact one at the point, because every step changes it a little.
        """
        if self.read is float:
            return not jumps(here, there)
        return np.array_equal(self.of(there), self.of(node.output))

    def of(self, value: Any) -> Any:
        """The truth values or integers that Python reads from a value.

        Raises an `ArithmeticError` where an enclosure holds several outcomes.
        """
        if np.asarray(value).dtype != object:
            return np.asarray(value) != 0 if self.read is bool else np.trunc(value)
        made = np.empty(np.size(value))
        for k, e in enumerate(np.ravel(value).tolist()):
            made[k] = _truth(e) if self.read is bool else _whole(e)
        return made.reshape(np.shape(value))


def _truth(e: Any) -> float:
    if e == 0 or e != 0:
        return float(e != 0)
    raise ArithmeticError("a truth value stays open")


def _whole(e: Any) -> float:
    """A real number without its fraction, as by `int`."""
    found = arb(e).floor().unique_fmpz() if e >= 0 else arb(e).ceil().unique_fmpz()
    if found is None:
        raise ArithmeticError("an integer stays open")
    return float(int(found))


def _steps(program: Program, asked: _Asked, moving: set[int]) -> bool:
    """Whether what was read is to be compared with its values beside the point.

    A truth value that depends on comparisons alone is at a tie where a comparison is.
    """
    if is_floating(program.nodes[asked.index].output) and asked.read is not float:
        return not np.iscomplexobj(program.nodes[asked.index].output)
    before = [program.nodes[j] for j in program.ancestors([asked.index]) if j in moving]
    if asked.read is float:
        return any(may_decide(program, n) or may_jump(program, n) for n in before)
    return any(may_decide(program, n) and (asked.read is int or not _is_comparison(n)) for n in before)


def _read_at_steps(
    program: Program, oracle: Oracle, asked: list[_Asked], moving: set[int]
) -> Iterator[tuple[_Asked, Node, str, str, bool]]:
    """What Python read differently beside the point: for each the deciding op, verdict, reason, and if it is isolated.

    Steps before the conversion decide here, such as floor or argmax, or the conversion itself.
    """
    try:
        tied = {n.index: n for n in tied_decisions(program, oracle)}
        before = {a.index: set(program.ancestors([a.index])) for a in asked}
        flipped = {n.index: n for n in oracle.flips}
        jumping = {n.index: n for n in program.nodes if n.index in moving and may_jump(program, n)}
        deciding = tied.keys() | jumping.keys() | flipped.keys()
        asked = [a for a in asked if a.read is not float or not before[a.index].isdisjoint(deciding)]
        sides = values_beside(program, oracle) if asked else []
    except ArithmeticError:
        return
    for a in asked:
        node = program.nodes[a.index]
        flips = [n for i, n in flipped.items() if i in before[a.index]]
        if flips and a.read is not float:
            yield a, flips[0], "conditioning", _by_rounding(flips[0], a), False
            continue
        try:
            same = [None if s is None else a.is_kept(node, oracle.env[a.index], s[a.index]) for s in sides]
        except ArithmeticError:
            continue
        ties = [n for i, n in (tied | (jumping if a.read is float else {})).items() if i in before[a.index]]
        if False not in same and not (None in same and ties):
            continue
        if flips:
            yield a, flips[0], "conditioning", _by_rounding(flips[0], a), False
            continue
        who = words_of(ties[-1]) if ties else f"a number at a jump of Python's {a.read.__name__}"
        reason = f"{a.words} depends on {who}: the derivative is that of the outcome taken"
        yield a, ties[-1] if ties else node, "convention", reason, not any(s is not False for s in same)


def _by_rounding(node: Node, asked: _Asked) -> str:
    return f"rounding decided {node.name}, on which {asked.words} depends, differently from exact values"


def _is_isolated(node: Node, env: dict[int, Any]) -> bool:
    """Whether a comparison has another outcome on both sides of a tie."""
    a, b = [np.broadcast_to(objects(env[j]), node.shape).ravel().tolist() for j in node.inputs]
    sides = [bool(node.prim.kernel(np.float64(more), np.float64(not more))) for more in (True, False)]
    ties = [was for x, y, was in zip(a, b, np.ravel(node.output).tolist(), strict=True) if _is_tie(x - y, x)]
    return any(was not in sides for was in ties)


def _is_tie(gap: Any, x: Any) -> bool:
    return bool(gap == 0) or bool(abs(gap) < _AGREE * (1 + abs(x)))


def _is_comparison(node: Node) -> bool:
    return node.kind == "op" and "comparison" in node.prim.roles


def _deciding(program: Program, i: int) -> list[Node]:
    """The comparisons of floats that a truth value depends on, through truth values and integers."""
    found, pending, seen = [], [i], set()
    while pending:
        node = program.nodes[pending.pop()]
        if node.index in seen or is_floating(node.output):
            continue
        seen.add(node.index)
        if _is_comparison(node) and any(is_floating(program.nodes[j].output) for j in node.inputs):
            found.append(node)
        pending.extend(node.inputs)
    return found


def _evaluated(program: Program) -> Oracle:
    """An oracle with the exact values of all nodes; comparisons as recorded."""
    oracle = Oracle(program, [None] * len(program.outputs))
    oracle.flips = []
    for node in program.nodes:
        recorded = _is_comparison(node)
        oracle.env[node.index] = BALLS.lift(node.output) if recorded else oracle.value_of(node, oracle.env)
    return oracle


def _decided(node: Node, env: dict[int, Any], bits: int) -> tuple[str, str] | None:
    """Verdict and reason if a comparison is a tie or was flipped by rounding, else None; raises while undecided."""
    a, b = [np.broadcast_to(objects(env[j]), node.shape).ravel().tolist() for j in node.inputs]
    for x, y, was in zip(a, b, np.ravel(node.output).tolist(), strict=True):
        gap = x - y
        if gap == 0 or (bits >= _BITS[-1] and abs(gap) < _AGREE * (1 + abs(x))):
            reason = f"this branch depends on {node.name} of equal numbers: the derivative is that of the branch taken"
            return "convention", reason
        if not (gap > 0 or gap < 0):
            raise ArithmeticError("a comparison stays open")
        exact = bool(node.prim.kernel(np.float64(gap > 0), np.float64(gap < 0)))
        if exact != was:
            return (
                "conditioning",
                f"rounding decided {node.name}, on which this branch depends, differently from exact values",
            )
    return None

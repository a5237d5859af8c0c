"""Python branches on recorded values: at a tie the derivative of the branch taken is a convention."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.recording.trace import branches_taken
from gtape.symbolic.balls import objects, precision
from gtape.symbolic.build import build
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.choices import varying
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
        `convention` for a branch on a comparison of equal numbers, `conditioning` for a branch that rounding decided
        against the exact values; each once per line of the user's code.
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
    taken = branches_taken(session)
    if not taken:
        return []
    program = build([(r, v) for r, v, _ in taken], sources, session)
    asked = {i: line for i, (_, _, line) in zip(reversed(program.outputs), reversed(taken), strict=True)}
    moving = varying(program)
    deciding = {i: [n for n in _deciding(program, i) if n.index in moving] for i in asked}
    if not any(deciding.values()):
        return []
    with np.errstate(all="ignore"):
        for bits in _BITS:
            with precision(bits):
                try:
                    env = _values(program)
                    found = [(asked[i], n, how) for i in asked for n in deciding[i] if (how := _decided(n, env, bits))]
                except ArithmeticError:
                    continue
                break
        else:
            return []
    told: dict[Any, tuple[Finding, bool]] = {}
    for line, n, (verdict, reason) in found:
        isolated = verdict == "convention" and _is_isolated(n, env)
        if (line, verdict) not in told or (isolated and not told[line, verdict][1]):
            made = Finding(verdict, order=order, op=n.name, line=line, inside=None, reason=reason)
            told[line, verdict] = made, isolated
    return list(told.values())


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


def _values(program: Program) -> dict[int, Any]:
    """Exact values of all nodes; comparisons as recorded."""
    oracle = Oracle(program, [None] * len(program.outputs))
    for node in program.nodes:
        recorded = _is_comparison(node)
        oracle.env[node.index] = BALLS.lift(node.output) if recorded else oracle.value_of(node, oracle.env)
    return oracle.env


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

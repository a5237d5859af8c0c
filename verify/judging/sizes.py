"""Sizes of arrays that are constants in the record, although a decision at a tie gives others beside the point.

Python reads a size by ``len(x)``, ``x.shape`` or `gtape.size`. Where a mask picks other elements beside the point, the
function reads another size there than its record holds, so that the record tells nothing about the sides of the tie.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.base.quiet import quietly
from gtape.engine.worlds import COMPLEX
from gtape.recording.record import off
from gtape.recording.trace import conversions_made, decisions_made
from gtape.symbolic.balls import precision
from gtape.symbolic.build import build
from gtape.symbolic.program import Program
from gtape.tensors.tensor import convert_to_tensor
from gtape.verify.causes.branches import branches_met
from gtape.verify.causes.choices import tied_decisions
from gtape.verify.judging.again import Again
from gtape.verify.judging.random_moves import random_moves
from gtape.verify.judging.recording import Recording
from gtape.verify.oracles.enclosures import is_floating
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.verdicts.ulp import spacing, widest
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = ["leave_sizes_open", "sizes_left"]

_WAYS = 4  # directions
_ROUNDINGS = 64.0  # ULP by which function and record may round differently
_BITS = 400
_OTHER_SIZES = (
    "beside this point a decision gives arrays of other sizes, and the function reads other sizes (by len, shape or "
    "gtape.size) than the record holds, so the derivatives there are not known"
)


def leave_sizes_open(report: Report, recording: Recording) -> None:
    """Replace the findings about a tie by `undecided` if the record holds sizes that are others beside the point."""
    if not any(f.verdict == "convention" for f in report.findings):
        report.findings += sizes_left(recording, recording.order) if report.ok else []
        return
    with off(), quietly():
        apart = _is_apart(recording, recording.program())
    if not apart:
        return
    tied = next(f for f in report.findings if f.verdict == "convention")
    left = [f for f in report.findings if f.ok or not (f.verdict == "convention" or (f.verdict == "rule" and not f.op))]
    found = Finding("undecided", order=tied.order, op=tied.op, line=tied.line, reason=_OTHER_SIZES)
    report.findings[:] = [*left, found]


def sizes_left(recording: Recording, order: int) -> list[Finding]:
    """The finding about a size that the function reads from a decision at a tie, which the outputs need not read.

    No value may have left the tape in another way, and Python may have taken no branch at a tie, because function and
    record then differ beside the point anyway.

    Returns
    -------
    list of Finding
        `undecided`, with the decision and its line; empty if the function reads no other sizes beside the point.
    """
    session = recording.tape._session
    decisions = decisions_made(session)
    if not decisions or any(not c.is_whole for c in conversions_made(session)):
        return []
    ends = [(t._record, t._value) for t in recording.outputs]
    program = build(ends + [(r, v) for r, v, _ in decisions], recording.inputs, session)
    with off(), quietly(), np.errstate(all="ignore"):
        tied = _tied(program)
        told = [
            Finding("undecided", order=order, op=tied[i], line=line, reason=_OTHER_SIZES)
            for i, (*_, line) in zip(reversed(program.outputs), reversed(decisions), strict=False)
            if i in tied
        ]
        if not told or branches_met(session, recording.inputs, order):
            return []
        return told[-1:] if _is_apart(recording, program) else []


def _tied(program: Program) -> dict[int, str]:
    """The outputs of a program that depend on a decision at a tie, each with the op that decides."""
    try:
        with precision(_BITS):
            oracle = Oracle(program, [None] * len(program.outputs))
            oracle.evaluate()
            tied = {n.index: n.name for n in tied_decisions(program, oracle)}
    except ArithmeticError:
        return {}
    before = {i: tied.keys() & set(program.ancestors([i])) for i in program.outputs}
    return {i: tied[min(known)] for i, known in before.items() if known}


def _is_apart(recording: Recording, program: Program) -> bool:
    """Whether function and record differ at points beside, where arrays of the record have other shapes.

    Parameters
    ----------
    program : Program
        Its first outputs are those of the function.
    """
    if not any(n.kind == "op" and "decision" in n.prim.roles for n in program.nodes):
        return False
    again = Again(recording)
    here = [np.asarray(t._value) for t in recording.inputs]
    for way in range(_WAYS):
        rng = np.random.default_rng(67 + way)
        moves = [random_moves(x, rng) for x in here]
        for sign in (-1.0, 1.0):
            point = [(x + sign * _step(x) * u).astype(x.dtype) for x, u in zip(here, moves, strict=True)]
            made = _replayed(program, point)
            function = None if made is None else again(point)
            if made is not None and function is not None and not all(map(_are_equal, function, made[: len(function)])):
                return True
    return False


def _step(x: Any) -> Any:
    """How far each element moves."""
    return math.sqrt(float(np.finfo(x.dtype).eps)) * np.where(x == 0, 1.0, np.abs(x))


def _replayed(program: Program, point: list[Any]) -> list[Any] | None:
    """The floating-point outputs of a program at a point at which arrays have other shapes than recorded; else None."""
    values = [convert_to_tensor(x)._value for x in point]
    env: dict[int, Any] = {i: x for nodes, x in zip(program.sources, values, strict=True) for i in nodes}
    try:
        for node in program.nodes:
            if node.index not in env:
                env[node.index] = node.output if node.kind in ("leaf", "const") else program.step(COMPLEX, node, env)
    except Exception:  # an op does not take the other shapes
        return None
    if all(isinstance(env[n.index], tuple) or np.shape(env[n.index]) == n.shape for n in program.nodes):
        return None
    return [np.asarray(env[i]) for i in program.outputs if is_floating(program.nodes[i].output)]


def _are_equal(function: Any, record: Any) -> bool:
    """Whether outputs of function and record are equal up to roundings."""
    if np.shape(function) != np.shape(record):
        return False
    a, b = widest(function), widest(record)
    with np.errstate(all="ignore"):
        room = _ROUNDINGS * spacing(np.maximum(np.abs(a), np.abs(b)), np.asarray(function).dtype)
        return bool(((np.abs(a - b) <= room) | ~np.isfinite(a) | ~np.isfinite(b)).all())

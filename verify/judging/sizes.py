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
from gtape.symbolic.program import Program
from gtape.tensors.tensor import convert_to_tensor
from gtape.verify.judging.again import Again
from gtape.verify.judging.recording import Recording
from gtape.verify.oracles.enclosures import is_floating
from gtape.verify.verdicts.ulp import spacing, widest
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = ["leave_sizes_open"]

_WAYS = 4  # directions
_ROUNDINGS = 64.0  # ULP by which function and record may round differently


def leave_sizes_open(report: Report, recording: Recording) -> None:
    """Replace the findings about a tie by `undecided` if the record holds sizes that are others beside the point."""
    if not any(f.verdict == "convention" for f in report.findings):
        return
    with off(), quietly():
        apart = _is_apart(recording)
    if not apart:
        return
    tied = next(f for f in report.findings if f.verdict == "convention")
    reason = (
        "beside this point a decision gives arrays of other sizes, and the function reads other sizes (by len, shape "
        "or gtape.size) than the record holds, so the derivatives there are not known"
    )
    left = [f for f in report.findings if f.ok or not (f.verdict == "convention" or (f.verdict == "rule" and not f.op))]
    found = Finding("undecided", order=tied.order, op=tied.op, line=tied.line, reason=reason)
    report.findings[:] = [*left, found]


def _is_apart(recording: Recording) -> bool:
    """Whether function and record differ at points beside, where arrays of the record have other shapes."""
    program = recording.program()
    if not any(n.kind == "op" and "decision" in n.prim.roles for n in program.nodes):
        return False
    again = Again(recording)
    here = [np.asarray(t._value) for t in recording.inputs]
    for way in range(_WAYS):
        rng = np.random.default_rng(67 + way)
        moves = [rng.uniform(0.5, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape) for x in here]
        for sign in (-1.0, 1.0):
            point = [(x + sign * _step(x) * u).astype(x.dtype) for x, u in zip(here, moves, strict=True)]
            made = _replayed(program, point)
            function = None if made is None else again(point)
            if made is not None and function is not None and not all(map(_are_equal, function, made)):
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

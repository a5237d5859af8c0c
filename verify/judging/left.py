"""Values that left the tape and came back: a function that depends on its arguments in a way that no tape records.

A value leaves by ``float(x)``, ``x.numpy()``, ``np.asarray(x)`` and their like, each of which the recording notes. For
`check` and its like, the function then runs again at moved points, and so does the recorded program. Where a value came
back as a constant, the program keeps the old value and the function does not.

Under the flag the program cannot run again. A constant of the program that is certainly the number or array that left
(see `Conversion.is_in`) has come back. Of other values nothing shows whether they did.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import nest
from gtape.base.escaping import place_text
from gtape.base.quiet import quietly
from gtape.engine.worlds import COMPLEX
from gtape.recording.record import off
from gtape.recording.trace import Conversion, conversions_made
from gtape.symbolic.build import build
from gtape.symbolic.program import Node, Program
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.tensors.variable import Variable
from gtape.verify.judging.connected import followed, order_of
from gtape.verify.judging.recording import Recording
from gtape.verify.oracles.enclosures import is_floating
from gtape.verify.verdicts.ulp import spacing, widest
from gtape.verify.verdicts.verdict import Finding

__all__ = ["values_left", "values_that_returned"]

_ROUNDINGS = 64.0  # ULP by which both may round differently, because a function may compute with `math`
_SHARE = 2.0**-10  # of the change between the points
_ADVICE = "keep the computation in gtape's ops, or give its derivative by gtape.custom_gradient"


def values_left(recording: Recording, order: int) -> list[Finding]:
    """The finding about a value that left the tape and came back; empty if none did.

    Parameters
    ----------
    recording : Recording
    order : int

    Returns
    -------
    list of Finding
        `unconnected` if the function and the recorded program differ at moved points; `undecided` if the function
        cannot be compared, because it raises there or is not deterministic.
    """
    conversions = conversions_made(recording.tape._session)
    made = [c for c in conversions if not c.inside]  # a custom gradient is judged by itself
    if not made:
        return []
    lines = list(dict.fromkeys(c.line for c in made))
    more = f" (or at one of {len(lines) - 1} more places)" if len(lines) > 1 else ""

    def told(verdict: str, how: str) -> Finding:
        reason = f"a value leaves the tape here{more}, {how}"
        return Finding(verdict, order=order, line=lines[0], reason=reason)

    program = recording.program()
    anew = len(made) < len(conversions)
    with off(), quietly():
        here = [np.asarray(t._value) for t in recording.inputs]
        before = [np.asarray(t._value) for t in recording.outputs]
        again = _function(recording, here)
        if again is None or any(_differ(a, b) for a, b in zip(again, before, strict=True)):
            return [told("undecided", "and the function is not deterministic, so that nothing shows if it comes back")]
        apart = []
        for sign in (-1, 1):
            point = _moved(here, sign)
            there = _function(recording, point)
            if there is None:
                continue
            along = _program(program, point, anew)
            if along is None or len(along) != len(there):
                continue
            apart.append(any(_beyond(f, p, b) for f, p, b in zip(there, along, before, strict=True)))
    if not apart:
        return [
            told("undecided", "and the function cannot run at a moved point, so that nothing shows if it comes back")
        ]
    if not all(apart):  # on one side Python took another branch
        return []
    return [told("unconnected", f"and comes back as a constant, on which the function depends; {_ADVICE}")]


def values_that_returned(
    session: Any, program: Program, sources: list[Any], newest: int | None, *, strict: bool
) -> tuple[list[Finding], int]:
    """The findings about values that left a tape under the flag, and the number of those that may have come back.

    Parameters
    ----------
    program : Program
        Of the targets.
    sources : list of tensors or variables
    newest : int or None
        The number of the newest target's record; None without any.
    strict : bool
        Whether a value that may have come back is a finding.

    Returns
    -------
    findings : list of Finding
        `unconnected` for each value that came back; under `strict`, `undecided` for values that may have.
    count : int
        The number of conversions before the target, after which a constant entered the program.
    """
    made = [
        c
        for c in conversions_made(session)
        if not (c.inside or c.by_library) and newest is not None and c.number > newest
    ]
    if not made or not program.outputs:
        return [], 0
    nodes = [program.nodes[i] for i in program.ancestors(program.outputs)]
    order = order_of(program)
    constants = [n for n in nodes if n.kind == "const"]
    readers = [(n, program.nodes[j]) for n in nodes for j in n.inputs if program.nodes[j].kind == "const"]
    findings, open_ = [], []
    for c in made:
        if not _follows(c, session, sources):
            continue
        back = [n for n in constants if any(n.output is r for r in c.returns)]
        if back:
            op = next((n for n, read in readers if any(read is b for b in back)), None)
            where = "" if op is None else f" of {op.name}" + (f" ({place_text(op.line)})" if op.line else "")
            reason = (
                f"a value leaves the tape here, and comes back as a constant{where}, on which the target depends; "
                f"{_ADVICE}, or by gtape.stop_gradient if it is meant as a constant"
            )
            findings.append(Finding("unconnected", order=order, line=c.line, reason=reason))
        elif any(n.seq < c.number for n, _ in readers):
            open_.append(c)
    if strict and open_:
        lines = list(dict.fromkeys(c.line for c in open_))
        more = f" (and at {len(lines) - 1} more places)" if len(lines) > 1 else ""
        reason = (
            f"a value leaves the tape here{more}, and later a constant enters the program: nothing shows if it comes "
            f"back as a function of this value; {_ADVICE}"
        )
        findings.append(Finding("undecided", order=order, line=lines[0], reason=reason))
    return findings, len(open_)


def _follows(made: Conversion, session: Any, sources: list[Any]) -> bool:
    """Whether a tape has a path from a converted value back to a source."""
    program = build([(made.record, made.value)], sources, session)
    return program.outputs[0] in followed(program)


def _moved(here: list[Any], sign: int) -> list[Any]:
    """A point close to the recorded one: each element moves by a share of its size, a 0 by the share itself."""
    rng = np.random.default_rng(41)
    made = []
    for x in here:
        share = float(np.finfo(x.dtype).eps) ** 0.25  # far from rounding and from other branches
        by = sign * share * rng.uniform(0.5, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape)
        made.append((x + by * np.where(x == 0, 1.0, np.abs(x))).astype(x.dtype))
    return made


def _function(recording: Recording, point: list[Any]) -> list[Any] | None:
    """The floating-point outputs of the function at a point; None if it raises or returns something else."""
    try:
        made = nest.flatten(recording.function(*[convert_to_tensor(x) for x in point]))
    except Exception:
        return None
    kept = [np.asarray(t._value) for t in made if isinstance(t, Tensor) and t._layout.inexact]
    fits = len(kept) == len(recording.outputs) and all(
        v.shape == t._layout.shape for v, t in zip(kept, recording.outputs, strict=True)
    )
    return kept if fits else None


def _program(program: Program, point: list[Any], anew: bool) -> list[Any] | None:
    """The outputs of the recorded program at a point; None if its ops do not fit there.

    Parameters
    ----------
    anew : bool
        Whether functions of custom gradients run again, because their recorded bodies hold values that left the tape.
    """
    env: dict[int, Any] = {i: x for nodes, x in zip(program.sources, point, strict=True) for i in nodes}
    try:
        for node in program.nodes:
            if node.index not in env:
                if node.kind in ("leaf", "const"):
                    env[node.index] = node.output
                elif node.kind == "custom" and anew:
                    env[node.index] = _body(node, env)
                else:
                    env[node.index] = program.step(COMPLEX, node, env)
    except Exception:
        return None
    return [np.asarray(env[i]) for i in program.outputs if is_floating(program.nodes[i].output)]


def _body(node: Node, env: dict[int, Any]) -> Any:
    """What the function of a custom gradient returns for other values of its inputs."""
    function, args, kwargs = node.call
    flat = nest.flatten(list(args))
    fresh = [
        wrap(np.asarray(env[j])) if isinstance(x, (Tensor, Variable)) else x
        for x, j in zip(flat, node.inputs[: len(flat)], strict=True)
    ]
    y, _ = function(*nest.pack_sequence_as(list(args), fresh), **kwargs)
    made = [convert_to_tensor(t)._value for t in nest.flatten(y)]
    return tuple(made) if isinstance(node.output, tuple) else made[0]


def _beyond(f: Any, p: Any, before: Any) -> bool:
    """True if function and program differ by more than rounding and by more than a small share of their change."""
    unit = spacing(np.abs(widest(before)), before.dtype)
    f, p, before = widest(f), widest(p), widest(before)
    if f.shape != p.shape:
        return True
    good = np.isfinite(f) & np.isfinite(p) & np.isfinite(before)
    f, p, before, unit = f[good], p[good], before[good], unit[good]
    change = np.maximum(np.abs(f - before), np.abs(p - before))
    return bool((np.abs(f - p) > _SHARE * change + _ROUNDINGS * unit).any())


def _differ(a: Any, b: Any) -> bool:
    return a.shape != b.shape or not np.array_equal(a, b, equal_nan=True)

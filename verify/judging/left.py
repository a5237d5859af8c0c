"""Values that left the tape and came back: a function that depends on its arguments in a way that no tape records.

For `check` and its like, the function runs again at a moved point, and so does the recorded program. Where a value came
back as a constant, the program keeps the old value and the function does not. Most values leave by ``float(x)``,
``x.numpy()``, ``np.asarray(x)`` and their like, each of which the recording notes, or through a variable.

Under the flag the program cannot run again. A constant of the program that is certainly the number or array that left
(see `Conversion.is_in`) has come back; it may still change no derivative, as the maximum that a logsumexp subtracts and
adds. Of other values nothing shows whether they came back.
"""

from __future__ import annotations

from typing import Any

from gtape.base.escaping import place_text
from gtape.base.quiet import quietly
from gtape.recording.record import off
from gtape.recording.trace import Conversion, assignments_made, conversions_made
from gtape.symbolic.build import build
from gtape.symbolic.program import Program
from gtape.verify.judging.again import Again
from gtape.verify.judging.connected import followed, order_of
from gtape.verify.judging.idle import are_idle
from gtape.verify.judging.moved import Comparison
from gtape.verify.judging.recording import Recording
from gtape.verify.verdicts.verdict import Finding

__all__ = ["values_left", "values_that_returned"]

_UNSEEN = (
    "such as a new variable that starts with a value of theirs, a number that an op reads from them, or a branch that "
    "only this point takes"
)
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
        `unconnected` if the function and the recorded program have different derivatives, as moved points show;
        `undecided` if a value left and the function cannot be compared, because it raises there or is not
        deterministic.
    """
    session = recording.tape._session
    conversions = conversions_made(session)
    made = [c for c in conversions if not c.inside]  # a custom gradient is judged by itself
    lines = list(dict.fromkeys(c.line for c in made or assignments_made(session)))

    def told(verdict: str, how: str) -> list[Finding]:
        return [Finding(verdict, order=order, line=lines[0] if lines else None, reason=how)]

    def leaves(how: str) -> str:
        more = f" (or at one of {len(lines) - 1} more places)" if len(lines) > 1 else ""
        return f"a value leaves the tape here{more}, and {how}"

    with off(), quietly():
        comparison = Comparison(Again(recording), recording.program(), order, anew=len(made) < len(conversions))
        if made and not comparison.is_deterministic():
            how = "the function is not deterministic, so that nothing shows if it comes back"
            return told("undecided", leaves(how))
        apart = comparison.is_apart(by_law_only=not made)
        if made and apart is None:
            how = "the function cannot run at a moved point, so that nothing shows if it comes back"
            return told("undecided", leaves(how))
        if not apart or not (made or comparison.is_deterministic()):
            return []
    if made:
        return told("unconnected", leaves(f"comes back as a constant, on which the function depends; {_ADVICE}"))
    where = "through the variable that is assigned here" if lines else _UNSEEN
    return told(
        "unconnected", f"the function depends on its arguments in a way that no tape records, {where}; {_ADVICE}"
    )


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
        if back and not (order == 1 and are_idle(program, back)):
            op = next((n for n, read in readers if any(read is b for b in back)), None)
            where = "" if op is None else f" of {op.name}" + (f" ({place_text(op.line)})" if op.line else "")
            reason = (
                f"a value leaves the tape here, and comes back as a constant{where}, on which the target depends; "
                f"{_ADVICE}, or by gtape.stop_gradient if it is meant as a constant"
            )
            findings.append(Finding("unconnected", order=order, line=c.line, reason=reason))
        elif any(n.seq < c.number and not any(read is b for b in back) for n, read in readers):
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

"""Explains findings: witnesses, the places of custom gradients, and what to write instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.deadline import OutOfTime
from gtape.symbolic.balls import Undecided, objects, precision, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.rewrites import Rewrites
from gtape.verify.causes.source_text import place_of
from gtape.verify.causes.witness import add_witnesses
from gtape.verify.oracles.enclosures import BALLS
from gtape.verify.oracles.replay import Shared
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = ["explain"]

# Values of one function differ by less than this share, except where the kernel loses digits.
_APART = 2.0**-7
_FAR = 1e6  # ULP: errors above this get a hint even if the problem itself loses the digits


def explain(program: Program, report: Report, *, forward: bool = False, shared: Shared | None = None) -> None:
    """Complete the findings of a report: a witness, the place of a custom gradient, and what to write instead.

    Parameters
    ----------
    report : Report
        Its findings are changed in place.
    forward : bool
        Whether the findings are about forward mode.
    shared : Shared, optional
        The data that the rows of this program share.
    """
    if not report.ok:
        try:
            add_witnesses(program, report, forward=forward, shared=shared)
        except OutOfTime:  # the findings stand without a witness
            for f in report.findings:
                if not f.ok and f.verdict in ("rule", "unstable") and f.witness is None:
                    f.without_witness = "the budget of time was used up"
    _add_replacements(program, report)
    for f in report.findings:
        f.rule_of = next((n.rule_of for n in program.nodes if (n.name, n.line) == (f.op, f.line)), None)
        if not f.ok and f.verdict in ("rule", "unstable") and f.op is not None:
            _add_correction(program, f)


def _add_correction(program: Program, f: Finding) -> None:
    """Add the text to write instead of a wrong rule, and the line that defines a custom gradient."""
    node = next((n for n in program.nodes if n.kind in ("op", "custom") and (n.name, n.line) == (f.op, f.line)), None)
    if node is None:
        return
    if node.kind == "custom":
        f.defined = place_of(node.call[0])
    if f.instead is None and f.verdict == "unstable" and node.kind == "op" and node.prim.place.outside:
        f.instead = f"write a rule that keeps the digits, by an op with an accurate kernel, in {node.prim.declaration}"
    if f.instead is not None or f.verdict != "rule":
        return
    if node.kind == "custom":
        f.instead = (
            f"return the derivative of what {node.name} computes, or, if another function is meant, say why: "
            "@gtape.custom_gradient(declared='...')"
        )
    elif node.prim.place.outside:
        f.instead = f"{_fault_of(program, node)} in {node.prim.declaration}"
    else:
        f.instead = "this is a fault of gtape, unless the rule was changed: please report it with the witness"


def _fault_of(program: Program, node: Node) -> str:
    """The function to correct in the declaration of a user's op: the rule, unless kernel and mirror differ in value."""
    try:
        with precision(200):
            exact = node.apply(BALLS, [BALLS.lift(np.asarray(program.nodes[i].output)) for i in node.inputs])
            pairs = zip(_parts(exact), _parts(node.output), strict=True)
            far = [(e, y) for e, y in pairs if (abs(e - y) > _APART * (abs(e) + abs(y))).any()]
    except (Undecided, ArithmeticError, NotImplementedError):  # no exact value to compare with
        return "correct the rule"
    if not far:
        return "correct the rule"
    e, y = far[0]
    at = np.unravel_index(np.argmax(abs(e - y)), e.shape)
    return f"the mirror gives {e[at]:.6g} and the kernel {y[at]:.6g} at one point: correct one of them"


def _parts(value: Any) -> list[Any]:
    return [to_float(objects(v)) for v in (value if isinstance(value, (tuple, list)) else (value,))]


def _add_replacements(program: Program, report: Report) -> None:
    """Append a better formula to a finding's reason if there is one that helps at this point."""
    rewrites = Rewrites(program)
    for f in report.findings:
        lost = f.verdict in ("domain", "range", "unstable", "cancellation") and not f.ok
        if not lost and not (f.verdict in ("cancellation", "conditioning") and f.ulps is not None and f.ulps > _FAR):
            continue
        text = rewrites.best(f)
        if text is not None and f.instead != text:
            f.reason += f"; {text}"
            f.instead = text

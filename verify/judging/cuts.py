"""Checks at points on branch cuts, where the signs of zeros tell the side."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import objects, sides_of_zeros
from gtape.symbolic.program import Node, Program
from gtape.verify.judging.judgement import Judgement
from gtape.verify.oracles.enclosures import BALLS, is_complex, is_floating
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = ["goes_by_signs", "on_a_cut", "to_the_cut"]

_SEEN = 2.0**-60  # the least relative jump
_BESIDE = arb(2) ** -15_000  # a bound on how far the numbers of `balls.sides_of_zeros` are from those on the cut


def to_the_cut(x: Any) -> Any:
    """The limit on one side of a cut, from a number inside of `balls.sides_of_zeros`."""
    if isinstance(x, acb):
        return acb(to_the_cut(x.real), to_the_cut(x.imag))
    size = abs(arb(x))
    return arb(0) if size < _BESIDE else arb(x) + arb(0, (size * _BESIDE).upper())


def goes_by_signs(program: Program) -> bool:
    """Whether the values of an op are those of the side that the signs of zeros tell, and not of the side that numbers
    without signs take.
    """
    for node in program.nodes:
        if node.kind == "op" and (is_complex(node.output) or "cut" in node.prim.roles):
            for k, (a, b) in enumerate(zip(*_on_both_sides(program, node), strict=True)):
                if _jumps(a, b):
                    value = objects(BALLS.lift(np.asarray(node.output))).ravel()[k]
                    if abs(b - value) < abs(a - value):
                        return True
    return False


def _on_both_sides(program: Program, node: Node) -> tuple[list[Any], list[Any]]:
    """The exact values of an op at its recorded inputs, without and with the signs of zeros; none if it has none."""
    if node.kind != "op" or node.prim.kind != "elementwise" or not is_floating(node.output):
        return [], []
    inputs = [np.asarray(program.nodes[i].output) for i in node.inputs]
    if not any(((x.real == 0) | (x.imag == 0)).any() for x in inputs):
        return [], []
    try:
        plain = node.apply(BALLS, [BALLS.lift(x) for x in inputs])
        with sides_of_zeros():
            sided = node.apply(BALLS, [BALLS.lift(x) for x in inputs])
    except (ArithmeticError, TypeError, ValueError):
        return [], []
    return objects(plain).ravel().tolist(), objects(sided).ravel().tolist()


def _jumps(plain: Any, sided: Any) -> bool:
    return bool(abs(plain - sided) > _SEEN * abs(plain))


def _depends_on_side(program: Program, node: Node) -> bool:
    """Whether the signs of zeros among the recorded inputs of an op decide its exact value."""
    return any(map(_jumps, *_on_both_sides(program, node)))


def on_a_cut(judgement: Judgement, first: Report) -> Report | None:
    """The report of a check with signed zeros on their side of a branch cut; None unless it is better than the first.

    Other findings, such as a cancellation elsewhere in the program, may still fail this check.
    """
    program = judgement.program
    values = [np.asarray(n.output) for n in program.nodes if not isinstance(n.output, tuple)]
    signed = [
        program.nodes[i].output for n in program.nodes if n.kind == "op" and "cut" in n.prim.roles for i in n.inputs
    ]
    below = any(((y == 0) & np.signbit(y)).any() for y in signed)
    if not below and not any(v.dtype.kind == "c" and ((v.real == 0) | (v.imag == 0)).any() for v in values):
        return None
    with sides_of_zeros():
        report = judgement.examine()
    if not report.ok:
        worst = min(f.gravity for f in first.findings)
        if min(f.gravity for f in report.findings) <= worst:
            return None
        undecided = any(f.verdict == "undecided" for f in report.findings)
        ops = {f.op for f in first.findings if f.gravity == worst}
        if undecided and not ops <= {n.name for n in program.nodes if _depends_on_side(program, n)}:
            return None  # the first check knows more
    tells = "value and derivative are those of the side that the sign of a zero tells"
    met = judgement.cuts_met()
    if met is None:
        met = [Finding("convention", order=judgement.order, inside=True, reason=f"on a branch cut: {tells}")]
    else:
        for f in met:
            f.reason += f"; {tells}"
    report.findings += met
    return report

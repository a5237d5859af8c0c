"""Stable replacements for textbook formulas that lose digits, overflow or leave the domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.program import Node, Program
from gtape.verify.verdicts.verdict import Report

__all__ = ["add_advice"]

# A pattern is an op with patterns for its inputs, a number, or a capital letter, which always stands for one thing.
X, Y = "X", "Y"


def _squares(of: Any) -> tuple[Any, ...]:
    """The ways to write a square."""
    return ("square", of), ("multiply", of, of), ("pow", of, 2)


_INSTEAD: list[tuple[tuple[Any, ...], str]] = [
    (("log", ("subtract", 1, ("sigmoid", X))), "log(1 - sigmoid(x)) is gtape.math.log_sigmoid(-x)"),
    (("log", ("sigmoid", X)), "log(sigmoid(x)) is gtape.math.log_sigmoid(x)"),
    (("log", ("softmax", X)), "log(softmax(x)) is gtape.nn.log_softmax(x)"),
    (("log", ("sum", ("exp", X))), "log(sum(exp(x))) is gtape.reduce_logsumexp(x)"),
    (("log", ("add", 1, ("exp", X))), "log(1 + exp(x)) is gtape.math.softplus(x)"),
    (("log", ("add", 1, X)), "log(1 + x) is gtape.math.log1p(x)"),
    (("log", ("subtract", 1, X)), "log(1 - x) is gtape.math.log1p(-x)"),
    (("log", ("det", X)), "log(det(a)) is gtape.linalg.slogdet(a)[1]"),
    (("divide", ("exp", X), ("sum", ("exp", X))), "exp(x) / sum(exp(x)) is gtape.nn.softmax(x)"),
    (("divide", 1, ("add", 1, ("exp", X))), "1 / (1 + exp(-x)) is gtape.sigmoid(x)"),
    *((("sqrt", s), "sqrt(x**2) is gtape.abs(x)") for s in _squares(X)),
    *((("sqrt", ("sum", s)), "sqrt(sum(x**2)) is gtape.norm(x), whose gradient at 0 is 0") for s in _squares(X)),
    *(
        (("sqrt", ("add", s, t)), "sqrt(x**2 + y**2) is gtape.math.hypot(x, y)")
        for s in _squares(X)
        for t in _squares(Y)
    ),
    (("subtract", ("exp", X), 1), "exp(x) - 1 is gtape.math.expm1(x)"),
    (("subtract", 1, ("cos", X)), "1 - cos(x) is 2 * sin(x / 2)**2"),
    (("subtract", 1, ("sigmoid", X)), "1 - sigmoid(x) is sigmoid(-x)"),
    (("subtract", 1, ("erf", X)), "1 - erf(x) is gtape.math.erfc(x)"),
    *((("subtract", 1, s), "1 - tanh(x)**2 is 1 / cosh(x)**2") for s in _squares(("tanh", X))),
    *(
        (("subtract", ("reduce_mean", s), t), "mean(x**2) - mean(x)**2 is gtape.math.reduce_variance(x)")
        for s in _squares(X)
        for t in _squares(("reduce_mean", X))
    ),
]

_EITHER_WAY = frozenset({"add", "multiply"})
_FAR = 1e6  # ULP: errors above this get a hint even if the problem itself loses the digits


def add_advice(program: Program, report: Report) -> None:
    """Append a stable replacement to a finding's reason if its op is part of a known formula.

    Parameters
    ----------
    program : Program
    report : Report
        Its findings are changed in place.
    """
    known: list[tuple[set[int], str]] | None = None
    for f in report.findings:
        lost = f.verdict in ("domain", "range", "unstable", "cancellation") and not f.ok
        if not lost and not (f.verdict in ("cancellation", "conditioning") and f.ulps is not None and f.ulps > _FAR):
            continue
        if known is None:
            known = _found(program)
        blamed = {n.index for n in program.nodes if n.name == f.op and n.line == f.line}
        text = next((text for places, text in known if f.op is None or places & blamed), None)
        if text is not None:
            f.reason += f"; {text}"


def _found(program: Program) -> list[tuple[set[int], str]]:
    """The known formulas in a program: their nodes and the replacement."""
    found = []
    for node in program.nodes:
        for pattern, text in _INSTEAD:
            places: set[int] = set()
            if node.name == pattern[0] and _matches(program, node, pattern, {}, places):
                found.append((places, text))
                break
    return found


def _matches(program: Program, node: Node, pattern: Any, bound: dict[str, Node], places: set[int]) -> bool:
    if isinstance(pattern, int):
        value = node.output
        return node.kind in ("const", "leaf") and not isinstance(value, tuple) and bool(np.all(value == pattern))
    if isinstance(pattern, str):
        if pattern in bound:
            return _same(program, bound[pattern], node)
        bound[pattern] = node
        return True
    while (
        node.kind == "op"
        and node.name != pattern[0]
        and node.prim.kind == "linear"
        and node.prim.rounding.kind == "exact"
    ):
        node = program.nodes[node.inputs[0]]  # an op that only moves numbers
    if node.kind != "op" or node.name != pattern[0]:
        return False
    orders = [pattern[1:], pattern[:0:-1]] if node.name in _EITHER_WAY else [pattern[1:]]
    inputs = [program.nodes[j] for j in node.inputs[: len(pattern) - 1]]
    for order in orders:
        tried, seen = dict(bound), set(places)
        if all(_matches(program, n, p, tried, seen) for n, p in zip(inputs, order, strict=True)):
            bound.update(tried)
            places |= seen | {node.index}
            return True
    return False


def _same(program: Program, a: Node, b: Node) -> bool:
    """True if two nodes are the same, or the same op on the same inputs."""
    if a.index == b.index:
        return True
    if a.kind != "op" or b.kind != "op" or a.name != b.name or repr(a.params) != repr(b.params):
        return False
    pairs = zip(a.inputs, b.inputs, strict=True)
    return all(_same(program, program.nodes[i], program.nodes[j]) for i, j in pairs)

"""A certificate failed: which op is to blame, and which element shows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.balls import digits, to_float
from gtape.symbolic.program import Program, build
from gtape.tape import GradientTape
from gtape.tensor import convert_to_tensor, wrap
from gtape.verify.oracle import Failure, Oracle, TooDeep, turned
from gtape.verify.verdict import Finding

__all__ = ["blame"]


def blame(program: Program, oracle: Oracle, failures: list[Failure], got: list[Any], order: int) -> list[Finding]:
    """A certificate failed: find the op, and an element that shows it."""
    try:
        faulty = oracle.faulty_rules()
    except ArithmeticError:
        faulty = []
    customs = [n for n in program.nodes if n.kind == "custom" and n.prim.declared is None]
    element, exact, value = _wrong_element(program, oracle, got)
    findings = []
    for f in faulty:
        node = f.node
        assert node is not None
        findings.append(
            Finding(
                "rule", order=order, op=node.name, line=node.line, element=element, got=value, exact=exact,
                reason=f"the rule of {node.name} is not the derivative of its mirror (relative error {f.error:.3g})",
            )
        )  # fmt: skip
    mark = next((f.mark for f in failures if f.mark is not None), None)
    if not findings and not customs and mark is not None:
        for node in _wrong_when_differentiated(program, mark):
            findings.append(
                Finding(
                    "rule", order=order, op=node.name, line=node.line, element=element, got=value, exact=exact,
                    reason=f"the rule of {node.name} is right in value, but its own derivative is wrong",
                )
            )  # fmt: skip
    if not findings:
        node = customs[0] if customs else None if mark is not None else failures[0].node
        name = None if node is None else node.name
        what = (
            f"the gradient that {name} returns is not the derivative of its body"
            if customs
            else f"the {failures[0].what} disagrees with the mirrors"
        )
        findings.append(
            Finding(
                "rule",
                order=order,
                op=name,
                line=None if node is None else node.line,
                element=element,
                got=value,
                exact=exact,
                reason=f"{what} (relative error {failures[0].error:.3g})",
            )
        )
    return findings


def _wrong_when_differentiated(program: Program, mark: Any) -> list[Any]:
    """The ops of an inner gradient whose rule, alone and at the recorded inputs, has a wrong derivative."""
    found: dict[str, Any] = {}
    for i in program.ancestors(mark.targets):
        node = program.nodes[i]
        if node.kind != "op" or not node.active or isinstance(node.output, tuple) or node.name in found:
            continue
        inputs = [wrap(np.asarray(program.nodes[j].output)) for j in node.inputs]
        sources = [inputs[a] for a in node.active]
        with GradientTape(verify=True) as outer:
            outer.watch(sources)
            with GradientTape(verify=False) as inner:
                inner.watch(sources)
                y = node.prim(*inputs, **node.params)
            # A lookup's gradient comes as slices.
            first = [convert_to_tensor(g) for g in inner.gradient(y, sources) if g is not None]
        alone = build([(g._record, g._value) for g in first], sources)
        if not any(n.mark is not None for n in alone.nodes):
            continue
        oracle = Oracle(alone, [np.ones_like(np.asarray(g._value)) for g in first])
        try:
            oracle.evaluate()
            if oracle.certify(oracle.replay()):
                found[node.name] = node
        except (ArithmeticError, TooDeep):
            continue
    return list(found.values())


def _wrong_element(program: Program, oracle: Oracle, got: list[Any], limit: int = 32) -> tuple[Any, Any, Any]:
    """The element that is furthest from the exact value, among the first few."""
    best: tuple[float, Any, Any, Any] = (-1.0, None, None, None)
    for s, g in enumerate(got):
        if g is None:
            continue
        g = np.asarray(g)
        for index in list(np.ndindex(*g.shape))[:limit]:
            try:
                x = oracle.along(s, index)
            except (ArithmeticError, TooDeep):
                continue
            x = turned(x).item() if g.dtype.kind == "c" else x
            high = to_float(x).item()
            off = abs(g[index].item() - high) / max(abs(high), 1e-300) if np.isfinite(g[index]) else np.inf
            if off > best[0]:
                best = (off, (s, index), digits(x), g[index].item())
    return best[1], best[2], best[3]

"""Tests if a check can follow a program: recorded paths from targets to sources, and ops with exact values."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.build import build
from gtape.symbolic.mirrors import has_mirror, without_mirror
from gtape.symbolic.program import Program
from gtape.verify.verdicts.verdict import Finding

__all__ = ["bodiless", "depth_of", "followed", "order_of", "undecidable", "unimplemented", "without_idle_targets"]


def followed(program: Program) -> set[int]:
    """The nodes from which the tape that takes the gradient has a path back to a source.

    Returns
    -------
    set of int
        Node indices, including the sources.
    """
    blocked = program.blocked(program.session)
    found = {i for nodes in program.sources for i in nodes}
    for node in program.nodes:
        if node.index in found:
            continue
        closed = blocked.get(node.index, ())
        by_inputs = any(node.inputs[a] in found for a in node.active if a not in closed)
        if by_inputs or not found.isdisjoint(node.body):
            found.add(node.index)
    return found


def without_idle_targets(
    pairs: list[tuple[Any, Any]],
    sources: list[Any],
    session: Any,
    stops: frozenset[int] = frozenset(),
    returns: Any = None,
) -> tuple[Program, list[Any]]:
    """The program of some targets, except unconnected targets whose values a check cannot follow.

    An infinity or a NaN in an unconnected target is not a fault, because the gradient is None at any value.

    Parameters
    ----------
    pairs : list of (tensor or variable, cotangent)
    sources : list of tensors or variables
    session : Session
        The session of the tape that takes the gradient.
    stops : frozenset of int
        As for `Program.stops`.
    returns : Returns, optional
        As for `build`.

    Returns
    -------
    program : Program
    cotangents : list
        The cotangents of its outputs.
    """

    def made(some: list[tuple[Any, Any]]) -> Program:
        program = build([(t._record, t._value) for t, _ in some], sources, session, returns)
        program.stops = stops
        own = [n for n in program.nodes if n.mark is not None and n.mark.session is session]
        known = followed(program) if own else set()
        for node in own:
            if node.index not in known:  # a derivative that the tape took outside of its own block is a constant for it
                node.mark = None
        return program

    program = made(pairs)
    reached = followed(program)
    kept = [
        pair for pair, i in zip(pairs, program.outputs, strict=True) if i in reached or not _beyond_checks(program, i)
    ]
    if len(kept) < len(pairs):
        program = made(kept)
    return program, [c for _, c in kept]


def _beyond_checks(program: Program, output: int) -> bool:
    """True if a value on the way to an output is infinite, NaN or of a kind that no check covers."""
    inside = [program.nodes[i] for i in program.ancestors([output])]
    for node in inside:
        for v in node.output if isinstance(node.output, tuple) else (node.output,):
            v = np.asarray(v)
            if v.dtype.kind in "fc" and not np.isfinite(v).all():
                return True
    return bool(undecidable(program, 1, inside))


def order_of(program: Program) -> int:
    """The order of a program's gradient as a derivative: 2 if the program takes a gradient itself, else 1."""
    return 2 if any(n.mark is not None for n in program.nodes) else 1


def depth_of(program: Program) -> int:
    """The order of a program's gradient, with all gradients of gradients counted."""
    depths: list[int] = []
    for node in program.nodes:
        below = [depths[i] for i in (*node.inputs, *node.body)]
        if node.mark is not None:
            below.append(1 + max((depths[i] for i in node.mark.targets), default=0))
        depths.append(max(below, default=0))
    return 1 + max((depths[i] for i in program.outputs), default=0)


def undecidable(program: Program, order: int, among: list[Any] | None = None) -> list[Finding]:
    """Findings for nodes of a program, or of `among`, that have no exact value or derivative."""
    nodes = program.nodes if among is None else among

    def finding(n: Any, reason: str) -> Finding:
        return Finding("undecided", order=order, at=n, reason=reason)

    found = bodiless(program, order, nodes)
    if found:
        return found
    for n in nodes:
        if not isinstance(n.output, tuple) and _is_bfloat16(np.asarray(n.output).dtype):
            reason = "bfloat16 is not checked: its ops run in float32 and are rounded; check the program in float32"
            return [finding(n, reason)]
        if n.kind == "op" and not has_mirror(n.name):
            reason = f"{without_mirror(n.name)}, so there is no exact value to compare with"
            return [finding(n, reason)]
    return []


def _is_bfloat16(dtype: Any) -> bool:
    return bool(dtype.kind == "V" and dtype.name == "bfloat16")  # the kind first, because NumPy makes names slowly


def bodiless(program: Program, order: int, among: list[Any] | None = None) -> list[Finding]:
    """Findings for custom gradients, all or those in `among`, whose bodies leave the tape."""
    return [
        Finding(
            "undecided",
            order=order,
            at=n,
            reason=f"the body of {n.name} leaves the tape (through .numpy()?), so its gradient cannot be checked",
        )
        for n in (program.nodes if among is None else among)
        if n.kind == "custom" and n.prim.declared is None and not _body_connected(program, n)
    ]


def unimplemented(program: Program) -> dict[int, Finding]:
    """The sources that vary an argument by which an op has a derivative that gtape does not implement.

    Parameters
    ----------
    program : Program

    Returns
    -------
    dict
        Source -> an undecided finding.
    """
    nodes = program.nodes
    if not any(n.kind == "op" and n.prim.missing for n in nodes):
        return {}
    moving: dict[int, set[int]] = {}
    for s, sources in enumerate(program.sources):
        for i in sources:
            moving.setdefault(i, set()).add(s)
    blocked = program.blocked(program.session)
    found: dict[int, Finding] = {}
    for i in program.ancestors(program.outputs):
        node = nodes[i]
        closed = blocked.get(i, ())
        reached = moving.setdefault(i, set())
        for a, j in enumerate(node.inputs):
            if a in node.active:
                reached |= set() if a in closed else moving[j]
            elif node.kind == "op" and a in node.prim.missing and moving[j] and _follows(program, node, a):
                reached |= moving[j]
                reason = f"the derivative of {node.name} by {node.prim.argument(a)} is not implemented"
                for s in moving[j] - found.keys():
                    found[s] = Finding("undecided", order=order_of(program), at=node, element=(s, ()), reason=reason)
        for j in node.body:
            reached |= moving[j]
    return found


def _follows(program: Program, node: Any, argument: int) -> bool:
    """Whether the tape that takes the gradient follows an argument back to its sources, rule or no rule."""
    session = program.session
    if session is None:
        return True
    stopped = node.seq in program.stops or node.seq in session.stops
    return not stopped and bool(node.flows) and session in (node.flows[argument] or ())


def _body_connected(program: Program, node: Any) -> bool:
    inputs = {node.inputs[a] for a in node.active}
    return bool(inputs & set(program.ancestors(node.body)))

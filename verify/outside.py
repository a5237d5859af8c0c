"""Where there is no derivative to compare with: values or derivatives along the way that are not finite."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.program import Program
from gtape.verify.ulp import widest
from gtape.verify.verdict import Finding
from gtape.worlds import COMPLEX

__all__ = ["masked_by_infinities", "not_differentiable", "outside"]


def not_differentiable(program: Program, order: int) -> Finding | None:
    """Where a derivative along the way is not finite, so that no precision decides: the end of a domain, or a NaN."""
    for node in program.nodes:
        if node.kind in ("leaf", "const") and not isinstance(node.output, tuple):
            v = np.asarray(node.output)
            if v.dtype.kind in "fc" and not np.isfinite(v).all():
                return Finding(
                    "domain", order=order, reason=f"an input holds {'NaN' if np.isnan(v).any() else 'infinity'}"
                )
        if node.kind != "op" or node.prim.kind != "elementwise" or not node.active:
            continue
        values = [np.asarray(program.nodes[j].output) for j in node.inputs]
        for a in node.active:
            p = node.prim.partials[a]
            if (
                callable(p)
                and not np.isfinite(widest(p(COMPLEX, np.asarray(node.output), *values, **node.params))).all()
            ):
                return Finding(
                    "domain",
                    order=order,
                    op=node.name,
                    line=node.line,
                    reason=f"the derivative of {node.name} is not finite at its inputs",
                )
    return None


def outside(program: Program, got: list[Any]) -> Finding | None:
    """A value along the program that is not finite, so that there is no derivative to compare with."""
    for node in program.nodes:
        values = node.output if isinstance(node.output, tuple) else (node.output,)
        for v in values:
            v = np.asarray(v)
            if v.dtype.kind not in "fc" or np.isfinite(v).all() or _asked_for(node):
                continue
            if node.kind in ("leaf", "const"):
                if not _matters(program, node, got):
                    continue
                return Finding(
                    "domain", reason=f"an input holds {'NaN' if np.isnan(v).any() else 'infinity'}", ok=False
                )
            if _matters(program, node, got):
                inputs = [np.asarray(program.nodes[j].output) for j in node.inputs]
                overflow = not np.isnan(v).any() and all(np.isfinite(x).all() for x in inputs if x.dtype.kind in "fc")
                where = f"{node.name} gives {'NaN' if np.isnan(v).any() else 'infinity'} at its inputs"
                if overflow and not _at_pole(node, inputs):
                    return Finding(
                        "range",
                        op=node.name,
                        line=node.line,
                        reason=f"{where}: a value along the way overflows {v.dtype.name}",
                        ok=False,
                    )
                return Finding(
                    "domain",
                    op=node.name,
                    line=node.line,
                    reason=f"{where}: there the function is not defined or not differentiable",
                )
    return None


def masked_by_infinities(program: Program, got: list[Any]) -> bool:
    """Whether constants are infinite and all that came out is finite, as behind a softmax with a mask of -inf.

    At an infinite point itself there is no derivative.
    """
    infinite = [
        n.index
        for n in program.nodes
        if n.kind in ("leaf", "const") and np.asarray(n.output).dtype.kind == "f" and np.isinf(n.output).any()
    ]
    if not infinite or any(i in nodes for i in infinite for nodes in program.sources):
        return False
    known = [np.asarray(g) for g in got if g is not None]
    return bool(known) and all(np.isfinite(g).all() for g in known)


def _asked_for(node: Any) -> bool:
    """Whether an infinity is a constant that an op was told to put there, as the logarithm of no terms is, or moved."""
    if node.kind != "op":
        return False
    moves = node.prim.kind == "linear" and node.prim.ulps == 0
    return moves or (node.prim.name == "pad" and not np.isfinite(node.params["value"]))


def _at_pole(node: Any, inputs: list[Any]) -> bool:
    if node.prim is None or node.prim.kind != "elementwise":
        return False
    for x, interval in zip(inputs, node.prim.domain.intervals, strict=False):
        if x.dtype.kind == "c" and np.isin(np.abs(x), (0.0, 1.0)).any():
            return True  # where the poles of the elementary functions lie
        if x.dtype.kind == "f" and any(float(v) not in interval or v in (interval.lo, interval.hi) for v in x.ravel()):
            return True
    return False


def _matters(program: Program, node: Any, got: list[Any]) -> bool:
    # What a selection switched off does not matter: then every number that came out is finite.
    return (
        not all(g is None or np.isfinite(np.asarray(g)).all() for g in got)
        or not any(g is not None for g in got)
        or not _switched_off(program, node)
    )


def _switched_off(program: Program, node: Any) -> bool:
    """Whether every way from a node to the outputs passes a selection."""
    open_nodes = {node.index}
    for n in program.nodes[node.index + 1 :]:
        if n.kind == "op" and n.prim.selects:
            continue
        if any(i in open_nodes for i in n.inputs):
            open_nodes.add(n.index)
    return not (open_nodes & set(program.outputs))

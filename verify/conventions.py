"""Kinks and ties that a program meets: what the op returns there, and the one-sided derivatives around it."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
from flint import arb

from gtape.primitive import REGISTRY
from gtape.symbolic.balls import Undecided, objects, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.enclosures import BALLS, is_complex, jet_world
from gtape.verify.oracle import Oracle
from gtape.verify.ties import ties_met
from gtape.verify.verdict import Finding
from gtape.worlds import NUMPY

__all__ = ["flipped_branch", "kinks_met"]

_STEP = arb(2) ** -160
_UNBOUNDED = 2.0**100


def _partials(node: Node, xs: list[Any], active: tuple[int, ...]) -> list[Any]:
    """The partials of an elementwise op at balls, by the mirror's own derivative."""
    world = jet_world(1)
    found = []
    for a in active:
        arguments = [
            world.jet(x, np.broadcast_to(np.asarray(1).astype(object), np.shape(x))) if i == a else x
            for i, x in enumerate(xs)
        ]
        found.append(world.component(getattr(world, node.prim.name)(*arguments, **node.params), 1))
    return found


def _around(node: Node, at: list[Any], a: int) -> list[float]:
    """The partial by argument `a` in the smooth regions that meet at a point."""
    found = []
    for signs in itertools.product((-1, 0, 1), repeat=len(at)):
        if not any(signs):
            continue
        moved = [x + sign * _STEP * (1 + abs(x[0])) if sign else x for x, sign in zip(at, signs, strict=True)]
        try:
            found.append(float(to_float(_partials(node, moved, (a,))[0])[0]))
        except ArithmeticError:
            continue
    return found


def kinks_met(program: Program, oracle: Oracle, order: int) -> list[Finding]:
    """A `convention` finding for every op that was evaluated exactly at a kink."""
    findings = []
    for node in program.nodes:
        if node.kind != "op" or node.prim.kind != "elementwise" or not node.prim.kinks or not node.active:
            continue
        if is_complex(node.output):
            continue  # branch cuts: what an op does there is its value's own convention
        xs = [objects(oracle.env[j]) for j in node.inputs]
        hit = _where_kinked(node, xs)
        if hit is None:
            continue
        at = [objects(np.broadcast_to(x, node.shape))[hit].reshape(-1)[:1] if node.shape else x.reshape(1) for x in xs]
        for a in node.active:
            try:
                value = float(to_float(_partials(node, at, (a,))[0])[0])
                sides = []
                for sign in (-1, 1):
                    moved = [x + sign * _STEP * (1 + abs(x[0])) if i == a else x for i, x in enumerate(at)]
                    sides.append(float(to_float(_partials(node, moved, (a,))[0])[0]))
            except ArithmeticError:
                continue
            low, high = min(sides), max(sides)
            if low == high == value:
                continue
            inside: bool | None = low <= value <= high
            if not inside and len(at) > 1:  # where several arguments meet, all of them may move
                around = _around(node, at, a)
                inside = bool(around) and min(around) <= value <= max(around)
            if max(abs(low), abs(high)) > _UNBOUNDED * max(1.0, abs(value)):
                inside = None  # a pole that the op fills in: no one-sided derivative is finite
            findings.append(
                Finding(
                    "convention",
                    order=order,
                    op=node.name,
                    line=node.line,
                    got=value,
                    inside=inside,
                    reason=f"a kink: {sides[0]:.6g} on the left, {sides[1]:.6g} on the right, here {value:.6g}",
                )
            )
            break
    return findings + ties_met(program, oracle, order)


def _where_kinked(node: Node, xs: list[Any]) -> Any:
    points = [k for k in node.prim.kinks if isinstance(k, (int, float))]
    if points and len(xs) == 1:
        recorded = np.frompyfunc(lambda e: any(e == p for p in points), 1, 1)(xs[0])
        mask = np.asarray(recorded, dtype=bool)
        return mask if mask.any() else None
    if node.prim.kinks == ("x == y == 0",):
        mask = np.asarray(np.frompyfunc(lambda p, q: bool(p == 0 and q == 0), 2, 1)(*xs), dtype=bool)
        return np.broadcast_to(mask, node.shape) if mask.any() else None
    if len(xs) >= 2:
        pairs = [(0, 1)] if len(xs) == 2 else [(0, 1), (0, 2)] if node.prim.name != "where" else []
        for i, j in pairs:
            mask = np.asarray(np.frompyfunc(lambda p, q: bool(p == q), 2, 1)(xs[i], xs[j]), dtype=bool)
            if mask.any():
                return np.broadcast_to(mask, node.shape)
    return None


def _partial_here(p: Any, node: Node, recorded: list[Any]) -> Any:
    """A partial at the recorded inputs, exactly where these are finite."""
    values = [np.asarray(node.output), *recorded]
    if all(np.isfinite(v).all() for v in values if v.dtype.kind == "f"):
        with contextlib.suppress(ArithmeticError):
            return to_float(objects(p(BALLS, *[BALLS.lift(v) for v in values], **node.params)))
    with np.errstate(all="ignore"):
        return np.asarray(p(NUMPY, *values, **node.params), dtype=np.float64)


def flipped_branch(program: Program, oracle: Oracle) -> Node | None:
    """The first op whose recorded inputs lie on another branch than the exact ones."""
    for node in program.nodes:
        if node.kind != "op":
            continue
        if is_complex(node.output):
            continue
        if node.prim.kind == "elementwise" and (node.prim.selects or node.prim.kinks) and node.active:
            recorded = [np.asarray(program.nodes[j].output) for j in node.inputs]
            exact = [oracle.env[j] for j in node.inputs]
            for a in node.active:
                p = node.prim.partials[a]
                if not callable(p):
                    continue
                # In balls on both sides: a rule that is wrong in floats has taken no other branch.
                here = _partial_here(p, node, recorded)
                there = to_float(objects(p(BALLS, oracle.env[node.index], *exact, **node.params)))
                if (np.abs(here - there) > 1e-3 * np.maximum(1.0, np.abs(there))).any():
                    return node
        if f"{node.name}_share" in REGISTRY and np.size(node.output):
            # Rounding may have made a tie, or have broken one: the shares of the elements say which are the greatest.
            share = REGISTRY[f"{node.name}_share"]
            params = {p: node.params[p] for p in share.params}
            here = getattr(NUMPY, share.name)(*[np.asarray(program.nodes[j].output) for j in node.inputs], **params)
            try:
                there = to_float(objects(getattr(BALLS, share.name)(*[oracle.env[j] for j in node.inputs], **params)))
            except Undecided:
                continue
            if (np.abs(here - there) > 1e-3).any():  # shares are 1, 1/2, 1/3 ..., or 0
                return node
    return None if not oracle.flips else oracle.flips[0]

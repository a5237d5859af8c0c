"""The exact derivative on the other side of each kink that rounding crossed.

Floats that cross a kink follow another branch than the exact values do. Their derivative may then be that of the other
branch. This number is excused if moves of the inputs cross the kink, too (`crossings`). Otherwise the program's own
arithmetic loses the digits. Any other number has no excuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.deadline import tick
from gtape.symbolic.balls import Undecided, objects, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.noise import read_by
from gtape.verify.causes.beside import beside, decided_as
from gtape.verify.causes.crossings import Crossed
from gtape.verify.oracles.enclosures import BALLS, is_floating, turned
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import decided_anew, is_step
from gtape.verify.verdicts.verdict import Cause

__all__ = ["across", "branches_of_rounding", "crossing", "follows", "moved_across", "other_branches"]

_CLEARLY = 2.0**-20  # the relative distance of derivatives on two sides of a kink
_MANY = 4  # up to this many crossings are also tried one by one


def other_branches(
    program: Program,
    oracle: Oracle,
    derivative: Callable[[Oracle], list[Any]],
    got: list[Any],
    crossed: dict[int, Crossed],
) -> list[tuple[Cause, list[Any]]]:
    """The derivatives with other outcomes at the kinks that rounding crossed, and moves of the inputs, too; each with
    its cause.

    Parameters
    ----------
    program : Program
    oracle : Oracle
        With the exact values of all nodes. Its flips are decisions that moves of the inputs change.
    derivative : callable
        Oracle with the values of all nodes -> the exact derivative, as a list of object arrays or None.
    got : list of arrays or None
        The numbers that may be one of these derivatives. At a kink of a single number all of them are on one side.
    crossed : dict
        The elements that crossed kinks, by op.
    """
    near = [c.node for c in crossed.values() if c.near.any()]
    masks = {i: c.near for i, c in crossed.items() if not c.is_near}
    # The exact derivative already follows the recorded decisions, so that their other outcome is the exact one.
    groups = [near] if near else []
    groups += [[n] for n in near[:_MANY]] if len(near) > 1 else []
    groups += [[n] for n in oracle.flips[:_MANY]]
    found: list[tuple[Cause, list[Any]]] = []
    here = derivative(oracle) if groups else []
    for group in groups:
        made = _crossed_to(program, oracle, derivative, group, masks)
        if made is None:
            continue
        if len(group) == 1 and np.size(group[0].output) == 1 and not follows(got, made, here):
            continue
        node = next((n for n in group if n.rule_of is None), group[0])
        found.append((moved_across(node), made))
    return found


def moved_across(node: Node) -> Cause:
    """The cause of numbers on the side of a kink to which rounding moved an op, if moves of the inputs do, too."""
    name = node.rule_of or node.name  # the op that the user called
    return "conditioning", f"rounding moved {name} to the other side of its kink", name, node.line


def branches_of_rounding(
    program: Program, oracle: Oracle, derivative: Callable[[Oracle], list[Any]], crossed: dict[int, Crossed]
) -> list[list[Any]]:
    """The derivatives with other outcomes at kinks that rounding crossed, but no move of the inputs.

    Parameters
    ----------
    program, oracle, derivative, crossed
        As for `other_branches`.
    """
    far = [c.node for c in crossed.values() if not c.is_near]
    groups = [[c.node for c in crossed.values()]] if far else []
    groups += [[n] for n in far[:_MANY]] if len(crossed) > 1 else []
    made = [_crossed_to(program, oracle, derivative, group) for group in groups]
    return [m for m in made if m is not None]


def _crossed_to(
    program: Program, oracle: Oracle, derivative: Callable[[Oracle], list[Any]], group: list[Node],
    masks: dict[int, Any] | None = None,
) -> list[Any] | None:  # fmt: skip
    """The derivative with other outcomes; None if nothing is defined there, or arrays have other shapes."""
    try:
        return derivative(crossing(program, oracle, group, masks))
    except (ArithmeticError, Undecided, ValueError, IndexError, TypeError):
        return None


def across(
    program: Program, oracle: Oracle, derivative: Callable[[Oracle], list[Any]], moves: dict[int, Any]
) -> list[Any] | None:
    """The exact derivative at moved inputs, where all decisions and step functions are made anew.

    None if it is not defined there.

    Parameters
    ----------
    program : Program
    oracle : Oracle
        With the exact values of all nodes.
    derivative : callable
        Oracle with the values of all nodes -> the exact derivative, as a list of object arrays or None.
    moves : dict
        Node of an input -> how far it moves.
    """
    there = beside(program, oracle.env, moves)
    if there is None:
        return None
    again = oracle.anew()
    again.env = there
    try:
        with decided_as(program, there):
            return derivative(again)
    except (ArithmeticError, ValueError, IndexError, TypeError):
        return None


def follows(got: list[Any], there: list[Any], here: list[Any]) -> bool:
    """Whether numbers are nearer to one derivative than to another one, in all elements in which the two differ.

    Sources without a number, or without a derivative on one side, do not count.
    """
    for g, *both in zip(got, there, here, strict=True):
        if g is None or any(e is None for e in both):
            continue
        p, q = (to_float(turned(e) if np.iscomplexobj(g) else objects(e)) for e in both)
        with np.errstate(all="ignore"):
            apart = np.abs(p - q) > _CLEARLY * (np.abs(p) + np.abs(q))
            if (apart & ~(np.abs(g - p) < np.abs(g - q))).any():
                return False
    return True


def crossing(program: Program, oracle: Oracle, group: list[Node], masks: dict[int, Any] | None = None) -> Oracle:
    """An oracle with the values of all nodes, in which the nodes of a group have another outcome.

    The recorded inputs of such a node lie on the other side of its kink, so the node reads them in place of the exact
    ones.

    Parameters
    ----------
    program : Program
    oracle : Oracle
        With the exact values of all nodes.
    group : list of Node
    masks : dict, optional
        Node -> the mask of the elements that have another outcome; by default all.
    """
    again, masks = oracle.anew(), masks or {}
    kinked = [n for n in group if n not in oracle.flips]
    again.read = {n.index: _inputs_across(program, oracle, n, masks.get(n.index)) for n in kinked}
    again.flips = [n for n in oracle.flips if n not in group]
    for node in program.nodes:
        tick()
        i = node.index
        still = all(again.env[j] is oracle.env[j] for j in (*node.inputs, *node.body))
        if i in again.read:
            again.env[i] = node.apply(BALLS, again.read[i])
        elif node in group:
            arguments = [again.env[j] for j in node.inputs]
            made = node.apply(BALLS, arguments) if is_step(node) else decided_anew(node, arguments)
            again.env[i] = made if i not in masks else np.where(masks[i], made, oracle.env[i])
        elif still:
            again.env[i] = oracle.env[i]
        elif node.kind == "op" and not is_floating(node.output):  # a decision that depends on another outcome
            again.env[i] = decided_anew(node, [again.env[j] for j in node.inputs])
        else:
            again.env[i] = program.step(BALLS, node, again.env)
    return again


def _inputs_across(program: Program, oracle: Oracle, node: Node, mask: Any) -> list[Any]:
    """The inputs of an op: the recorded ones for the masked elements, the exact ones for the others."""
    recorded = [BALLS.lift(np.asarray(program.nodes[j].output)) for j in node.inputs]
    if mask is None:
        return recorded
    exact = [oracle.env[j] for j in node.inputs]
    if node.prim.kind != "elementwise":  # the mask tells elements of the first input
        return [objects(np.where(mask, recorded[0], exact[0])), *exact[1:]]
    return [
        objects(np.where(read_by(np.shape(x), mask), r, x)) if np.shape(x) else r if mask.any() else x
        for r, x in zip(recorded, exact, strict=True)
    ]

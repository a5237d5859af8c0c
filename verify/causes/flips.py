"""The exact derivative on the other side of each kink that rounding crossed.

Floats that cross a kink follow another branch than the exact values do. Their derivative may then be that of the other
branch, and this number is excused; any other number is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.deadline import tick
from gtape.symbolic.balls import Undecided, objects, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.beside import beside, decided_as
from gtape.verify.causes.conventions import flipped_branches
from gtape.verify.oracles.enclosures import BALLS, is_floating, turned
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import decided_anew, is_step
from gtape.verify.verdicts.verdict import Cause

__all__ = ["across", "crossing", "follows", "other_branches"]

_CLEARLY = 2.0**-20  # the relative distance of derivatives on two sides of a kink
_MANY = 4  # up to this many crossings are also tried one by one


def other_branches(
    program: Program, oracle: Oracle, derivative: Callable[[Oracle], list[Any]], got: list[Any]
) -> list[tuple[Cause, list[Any]]]:
    """The derivatives with other outcomes at the kinks that rounding crossed, each with its cause.

    Parameters
    ----------
    program : Program
    oracle : Oracle
        With the exact values of all nodes.
    derivative : callable
        Oracle with the values of all nodes -> the exact derivative, as a list of object arrays or None.
    got : list of arrays or None
        The numbers that may be one of these derivatives. At a kink of a single number all of them are on one side.
    """
    crossed = flipped_branches(program, oracle)
    # The exact derivative already follows the recorded decisions, so that their other outcome is the exact one.
    groups = [crossed] if crossed else []
    groups += [[n] for n in crossed[:_MANY]] if len(crossed) > 1 else []
    groups += [[n] for n in oracle.flips[:_MANY]]
    found: list[tuple[Cause, list[Any]]] = []
    here = derivative(oracle) if groups else []
    for group in groups:
        try:
            made = derivative(crossing(program, oracle, group))
        except (ArithmeticError, Undecided, ValueError, IndexError, TypeError):
            continue  # with the other outcome nothing is defined, or arrays have other shapes
        if len(group) == 1 and np.size(group[0].output) == 1 and not follows(got, made, here):
            continue
        node = next((n for n in group if n.rule_of is None), group[0])
        name = node.rule_of or node.name  # the op that the user called
        reason = f"rounding moved {name} to the other side of its kink"
        found.append((("conditioning", reason, name, node.line), made))
    return found


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


def crossing(program: Program, oracle: Oracle, group: list[Node]) -> Oracle:
    """An oracle with the values of all nodes, in which the nodes of a group have another outcome.

    The recorded inputs of such a node lie on the other side of its kink, so the node reads them in place of the exact
    ones.
    """
    again = oracle.anew()
    kinked = [n for n in group if n not in oracle.flips]
    again.read = {n.index: [BALLS.lift(np.asarray(program.nodes[j].output)) for j in n.inputs] for n in kinked}
    again.flips = [n for n in oracle.flips if n not in group]
    for node in program.nodes:
        tick()
        i = node.index
        still = all(again.env[j] is oracle.env[j] for j in (*node.inputs, *node.body))
        if i in again.read:
            again.env[i] = node.apply(BALLS, again.read[i])
        elif node in group:
            arguments = [again.env[j] for j in node.inputs]
            again.env[i] = node.apply(BALLS, arguments) if is_step(node) else decided_anew(node, arguments)
        elif still:
            again.env[i] = oracle.env[i]
        elif node.kind == "op" and not is_floating(node.output):  # a decision that depends on another outcome
            again.env[i] = decided_anew(node, [again.env[j] for j in node.inputs])
        else:
            again.env[i] = program.step(BALLS, node, again.env)
    return again

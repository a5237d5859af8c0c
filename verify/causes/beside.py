"""The exact values of a program at a point beside its own, with new decisions.

Comparisons, masks and step functions may have other outcomes there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import Undecided, objects
from gtape.symbolic.program import Node, Program
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.oracles.replay import decided_anew, is_step

__all__ = ["beside", "scale_of"]


def scale_of(x: Any) -> Any:
    """The size of each element, to scale its step; for a 0 the smallest nonzero size, at most 1."""
    sizes = [abs(e) if isinstance(e, acb) else abs(arb(e)) for e in objects(x).ravel().tolist()]
    least = arb(1)
    for size in sizes:
        if size != 0 and size < least:
            least = size
    made = np.empty(len(sizes), dtype=object)
    made[:] = [size if size != 0 else least for size in sizes]
    return made.reshape(np.shape(x))


def beside(
    program: Program,
    here: dict[int, Any],
    moves: dict[int, Any],
    *,
    decided: bool = False,
    only: Iterable[int] | None = None,
) -> dict[int, Any] | None:
    """Exact values of all nodes at a moved point, with new decisions; None if one stays undecided or is undefined.

    Parameters
    ----------
    program : Program
    here : dict
        The exact values of all nodes at the point.
    moves : dict
        Node of a source -> how far it moves.
    decided : bool
        Whether to raise `Undecided` for a decision that stays undecided, because other settings may decide it.
    only : iterable of int, optional
        The nodes to evaluate, in order, with all nodes that they depend on; all nodes by default.
    """
    env = {i: objects(objects(here[i]) + move) for i, move in moves.items()}
    blocked = program.blocked(program.session)
    stepped: set[int] = set()
    for node in program.nodes if only is None else [program.nodes[i] for i in only]:
        if node.index in env:
            continue
        try:
            closed = blocked.get(node.index, frozenset())
            env[node.index] = _value_beside(node, env, here, closed, program, stepped)
        except Undecided as e:
            if decided and not e.hopeless:
                raise
            return None
        except (ArithmeticError, ValueError, TypeError, IndexError):
            return None
        if _is_stepped(node, env, here, program, stepped):
            stepped.add(node.index)
    return env


def _value_beside(
    node: Node, env: dict[int, Any], here: dict[int, Any], closed: Any, program: Program, stepped: set[int]
) -> Any:
    if node.kind != "op":
        return program.step(BALLS, node, env)
    if "stop" in node.prim.roles:
        return here[node.index]
    # An input that no tape follows is a constant, unless decisions give it. A decision reads all of its inputs.
    smooth = node.prim.differentiable and is_floating(node.output)
    still = {
        j
        for a, j in enumerate(node.inputs)
        if is_floating(program.nodes[j].output)
        and j not in stepped
        and (a in closed or (smooth and node.prim.connected(a) and a not in node.active))
    }
    arguments = [here[j] if j in still else env[j] for j in node.inputs]
    if all(env[j] is here[j] for j in node.inputs):
        return here[node.index]
    return decided_anew(node, arguments) if not is_floating(node.output) else node.apply(BALLS, arguments)


def _is_stepped(node: Node, env: dict[int, Any], here: dict[int, Any], program: Program, stepped: set[int]) -> bool:
    """Whether decisions or step functions of what moves give a number that no tape follows, such as a mask."""
    if node.kind != "op" or node.active or not is_floating(node.output) or env[node.index] is here[node.index]:
        return False
    moved = [j for j in node.inputs if env[j] is not here[j]]
    return is_step(node) or any(j in stepped or not is_floating(program.nodes[j].output) for j in moved)

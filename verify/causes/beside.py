"""The exact values of a program at a point beside its own, with new decisions.

Comparisons, masks and step functions may have other outcomes there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import Undecided, objects
from gtape.symbolic.program import Node, Program
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.oracles.replay import decided_anew, is_step

__all__ = ["OtherShapes", "beside", "decided_as", "read_beside", "reshaped", "scale_of"]


class OtherShapes(Exception):
    """Beside the point an array has another shape than recorded, so that an op or a rule fails.

    Sizes that an op resolved when it ran, such as the -1 of a reshape, are constants in the record.

    Parameters
    ----------
    node : Node
        The first op that gets such an array, or the op that fails.
    """

    def __init__(self, node: Node, fails: bool = False) -> None:
        what = f"{node.name} fails on" if fails else "the derivatives cannot be evaluated for"
        super().__init__(
            f"with the other outcome of a decision, {what} an array of another shape, because sizes are constants in "
            "the record, so the number may be wrong"
        )


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

    Raises
    ------
    OtherShapes
        If an op fails, or may have read sizes that are constants here, on an array of another shape than recorded.
    """
    env = {i: objects(objects(here[i]) + move) for i, move in moves.items()}
    blocked = program.blocked(program.session)
    stepped: set[int] = set()
    gradients = _gradients_that_decide(program)
    for node in program.nodes if only is None else [program.nodes[i] for i in only]:
        if node.index in env:
            continue
        try:
            closed = blocked.get(node.index, frozenset())
            known = _gradient_beside(node, env, here, program) if node.index in gradients else None
            value = _value_beside(node, env, here, closed, program, stepped) if known is None else known
            env[node.index] = value
        except Undecided as e:
            if decided and not e.hopeless:
                raise
            return None
        except ArithmeticError:
            return None
        except (ValueError, TypeError, IndexError):
            if reshaped(program, node, env):
                raise OtherShapes(node, fails=True) from None
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


def reshaped(program: Program, node: Node, env: dict[int, Any]) -> bool:
    """Whether an input of a node has another shape than recorded."""
    return any(np.shape(env[j]) != program.nodes[j].shape for j in node.inputs if not isinstance(env[j], tuple))


def _is_stepped(node: Node, env: dict[int, Any], here: dict[int, Any], program: Program, stepped: set[int]) -> bool:
    """Whether decisions or step functions of what moves give a number that no tape follows, such as a mask."""
    if node.kind != "op" or node.active or not is_floating(node.output) or env[node.index] is here[node.index]:
        return False
    moved = [j for j in node.inputs if env[j] is not here[j]]
    return is_step(node) or any(j in stepped or not is_floating(program.nodes[j].output) for j in moved)


def _gradients_that_decide(program: Program) -> set[int]:
    """The inner gradients that decisions or step functions depend on."""
    if all(n.mark is None for n in program.nodes):
        return set()
    decisions = [n.index for n in program.nodes if n.kind == "op" and (not is_floating(n.output) or is_step(n))]
    return {i for i in program.ancestors(decisions) if program.nodes[i].mark is not None}


def _gradient_beside(node: Node, env: dict[int, Any], here: dict[int, Any], program: Program) -> Any:
    """The value of an inner gradient by jets of its primal, because its backward ops keep the masks of the point.

    None if jets do not give it.
    """
    oracle = Oracle(program, [])
    oracle.env, oracle.elsewhere = env, here
    if oracle.followed(node) is None:
        return None
    try:
        with decided_as(program, env):
            return oracle.exact_marks({}, [node.index], sessions=())[node.index]
    except (KeyError, TooDeep):
        return None


def read_beside(program: Program, targets: Iterable[int]) -> list[int]:
    """The nodes that `beside` evaluates for some targets, in order: those that primals of inner gradients need, too."""
    needed = set(program.ancestors(targets))
    pending = needed if needed & _gradients_that_decide(program) else set()
    while pending:
        marks = [program.nodes[i].mark for i in pending]
        pending = set(program.ancestors([i for mark in marks if mark is not None for i in mark.reads])) - needed
        needed |= pending
    return sorted(needed)


@contextlib.contextmanager
def decided_as(program: Program, env: dict[int, Any]) -> Iterator[None]:
    """Replace recorded decisions by those of other values, because rules and jets read the recorded ones.

    Parameters
    ----------
    program : Program
    env : dict
        The values of all nodes, or of those that are read.
    """
    recorded = {}
    try:
        for node in program.nodes:
            if node.kind != "op" or isinstance(node.output, tuple) or is_floating(node.output):
                continue
            if node.index in env:
                recorded[node.index] = node.output
                node.output = np.asarray(env[node.index]).astype(np.asarray(node.output).dtype)
        yield
    finally:
        for i, output in recorded.items():
            program.nodes[i].output = output

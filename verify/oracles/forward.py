"""One forward walk over a recorded program: tangents in floats, with noise, or as jets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gtape.base.deadline import tick
from gtape.symbolic.program import Node, Program

__all__ = ["Pushing", "forward"]


class Pushing:
    """The arithmetic of a forward walk: how a tangent passes through an op; None stands for no tangent."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._blocked = program.blocked(program.session)

    def leaf(self, node: Node) -> Any:
        """The tangent of an input or constant, before the node's own tangent in `start` is added."""
        return None

    def arriving(self, node: Node, moving: dict[int, Any]) -> list[Any]:
        """The tangent of each input of a node; None where the accumulator does not follow the input."""
        closed = self._blocked.get(node.index, ())
        return [moving.get(j) if a in node.active and a not in closed else None for a, j in enumerate(node.inputs)]

    def op(self, node: Node, moving: dict[int, Any]) -> Any:
        """The tangent of an op's output."""
        ts = self.arriving(node, moving) if node.active else []
        return None if all(t is None for t in ts) else self.rule(node, ts)

    def rule(self, node: Node, ts: list[Any]) -> Any:
        """The tangent of an op's output by the op's own rule, from the tangents of its inputs."""
        raise NotImplementedError

    def through_body(self, node: Node) -> bool:
        """Whether the walk goes through the body of a custom gradient."""
        return node.prim.declared is None

    def custom(self, node: Node, moving: dict[int, Any]) -> Any:
        """The tangent of a custom gradient's output, if the walk does not go through the body."""
        raise NotImplementedError

    def add(self, t: Any, own: Any) -> Any:
        """The sum of the tangent that arrives at a node and the node's own from `start`."""
        return own if t is None else t + own


def forward(
    program: Program,
    start: dict[int, Any],
    pushing: Pushing,
    only: Iterable[int] | None = None,
    given: dict[int, Any] | None = None,
) -> dict[int, Any]:
    """Walk forwards over a program.

    Parameters
    ----------
    start : dict
        Node -> its own tangent, added to the tangent that arrives.
    only : iterable of int, optional
        Nodes in order; all of them by default.
    given : dict, optional
        The tangents of some nodes, taken as they are.

    Returns
    -------
    dict
        Node -> its tangent, or None.
    """
    moving: dict[int, Any] = dict(given or {})
    for i in range(len(program.nodes)) if only is None else only:
        if i in moving:
            continue
        tick()
        node = program.nodes[i]
        if node.kind == "item":
            whole = moving.get(node.inputs[0])
            t = None if whole is None else whole[node.params["index"]]
        elif node.kind == "custom" and pushing.through_body(node):
            parts = [moving.get(j) for j in node.body]
            t = tuple(parts) if isinstance(node.output, tuple) else parts[0]
        elif node.kind == "custom":
            t = pushing.custom(node, moving)
        else:
            t = pushing.op(node, moving) if node.kind == "op" else pushing.leaf(node)
        moving[i] = pushing.add(t, start[i]) if start.get(i) is not None else t
    return moving

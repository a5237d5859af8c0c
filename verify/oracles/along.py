"""The derivative of an op's mirror along a direction, if the mirror is linear in each argument that moves.

The derivative is the mirror itself with the direction in place of one argument, summed over the arguments. This is
quicker than jets, because jets of large arrays take longer to make than to multiply.
"""

from __future__ import annotations

from typing import Any

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors import has_mirror
from gtape.symbolic.mirrors.registry import MULTILINEAR
from gtape.symbolic.program import Node

__all__ = ["is_linear", "multilinear"]


def is_linear(node: Node, moving: list[int] | tuple[int, ...]) -> bool:
    """Whether the mirror of an op is linear in each of some arguments."""
    name = node.prim.name
    return bool(moving) and has_mirror(name) and set(moving) <= set(MULTILINEAR.get(name, ()))


def multilinear(world: Any, node: Node, xs: list[Any], tangents: dict[int, Any]) -> Any:
    """The derivative of an op's mirror along tangents of arguments in each of which it is linear.

    Parameters
    ----------
    world : BallWorld
    node : Node
    xs : list of arrays
        All arguments in the world.
    tangents : dict
        Argument -> its tangent.
    """
    total: Any = None
    for a, t in tangents.items():
        part = objects(node.apply(world, [t if b == a else x for b, x in enumerate(xs)]))
        total = part if total is None else objects(total + part)
    return total

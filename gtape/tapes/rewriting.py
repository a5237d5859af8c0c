"""Rewrites of a traced call that keep every bit: equal calls are shared, and calls that no result needs are left out.

Constants are folded while the function is traced, because an op on constants notes nothing.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gtape.tapes.tracing import Node

__all__ = ["constant_key", "needed", "reads", "reads_of", "shared"]

_SMALL = 65  # elements of constants that are compared


def _key_of(a: Any, same: dict[int, Node]) -> Any:
    if a.__class__ is Node:
        return ("node", id(same.get(id(a), a)))
    if a.__class__ in (list, tuple):
        return (a.__class__, *[_key_of(b, same) for b in a])
    if a.__class__ in (int, bool, str, type(None)):
        return (a.__class__, a)
    return constant_key(a)


def constant_key(a: Any) -> Any:
    """Equal for constants of the same bits."""
    if a.__class__ is float:
        return (float, a.hex())
    if isinstance(a, (np.generic, np.ndarray)) and a.size < _SMALL and a.dtype.kind != "O":
        return (a.__class__, a.dtype.str, a.shape, a.tobytes())
    return ("object", id(a))


def _is_one(a: Any, other: Any, made: Any) -> bool:
    """Whether a product with a constant is the other factor: each number is 1, and shape and dtype stay."""
    if a.__class__ is Node or other.__class__ is not Node or other.sample.__class__ is not made.__class__:
        return False
    if a.__class__ not in (int, float) and not isinstance(a, (np.generic, np.ndarray)):
        return False
    if np.shape(other.sample) != np.shape(made) or np.asarray(other.sample).dtype != np.asarray(made).dtype:
        return False
    return bool(np.all(np.equal(a, 1)))


def _factor(node: Node) -> Node | None:
    """The factor that a product with ones leaves as it is."""
    if node.function not in (operator.mul, np.multiply) or node.words or len(node.args) != 2:
        return None
    a, b = node.args
    return b if _is_one(a, b, node.sample) else a if _is_one(b, a, node.sample) else None


def _replaced(a: Any, same: dict[int, Node]) -> Any:
    if a.__class__ is Node:
        return same.get(id(a), a)
    if a.__class__ in (list, tuple):
        return a.__class__([_replaced(b, same) for b in a])
    return a


def shared(nodes: list[Node], outputs: list[Node]) -> tuple[list[Node], list[Node]]:
    """One node for all equal calls."""
    same: dict[int, Node] = {}
    known: dict[Any, Node] = {}
    kept = []
    for node in nodes:
        words = tuple(sorted((k, _key_of(v, same)) for k, v in node.words.items()))
        key = (id(node.function), tuple([_key_of(a, same) for a in node.args]), repr(words))
        first = known.get(key)
        if first is not None:
            same[id(node)] = first
            continue
        node.args = _replaced(node.args, same)
        factor = _factor(node)
        if factor is not None:
            same[id(node)] = factor
            continue
        node.words = {k: _replaced(v, same) for k, v in node.words.items()}
        known[key] = node
        kept.append(node)
    return kept, [same.get(id(o), o) for o in outputs]


def reads(a: Any, found: list[Node]) -> list[Node]:
    if a.__class__ is Node:
        found.append(a)
    elif a.__class__ in (list, tuple):
        for b in a:
            reads(b, found)
    return found


def reads_of(node: Node) -> list[Node]:
    return reads([*node.args, *node.words.values()], [])


def needed(nodes: list[Node], outputs: list[Node]) -> list[Node]:
    """The nodes that the outputs depend on, and all guards."""
    live = {id(o) for o in outputs}
    kept = []
    for node in reversed(nodes):
        if node.guards or id(node) in live:
            live.update([id(a) for a in reads_of(node)])
            kept.append(node)
    return kept[::-1]

"""Rewrites of a traced call that keep every bit: equal calls are shared, and calls that no result needs are left out.

Constants are folded while the function is traced, because an op on constants notes nothing.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gtape.tapes.tracing import Node

__all__ = ["constant_key", "forget_values", "needed", "reads", "reads_of", "shared"]

_SMALL = 65  # elements of constants that are compared


def _key_of(a: Any, same: dict[int, Node]) -> Any:
    kind = a.__class__
    if kind is Node:
        return same.get(id(a), a)
    if kind in (list, tuple):
        return (kind, *[_key_of(b, same) for b in a])
    if kind in (int, bool, str, type(None)):
        return (kind, a)
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


_PRODUCTS = frozenset({operator.mul, np.multiply})


def _factor(node: Node) -> Node | None:
    """The factor that a product with ones leaves as it is."""
    if node.words or len(node.args) != 2:
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
        args, words = node.args, node.words
        key: Any = (id(node.function), *[same.get(id(a), a) if a.__class__ is Node else _key_of(a, same) for a in args])
        if words:
            key = (key, *[(k, _key_of(words[k], same)) for k in sorted(words)])
        first = known.get(key)
        if first is not None:
            same[id(node)] = first
            continue
        if same:
            node.args = args = _replaced(args, same)
        factor = _factor(node) if node.function in _PRODUCTS else None
        if factor is not None:
            same[id(node)] = factor
            continue
        if words and same:
            node.words = {k: _replaced(v, same) for k, v in words.items()}
        node.reads = None
        known[key] = node
        kept.append(node)
    return kept, [same.get(id(o), o) for o in outputs]


def reads(a: Any, found: list[Node]) -> list[Node]:
    """Append the nodes in an argument."""
    if a.__class__ is Node:
        found.append(a)
    elif a.__class__ in (list, tuple):
        for b in a:
            reads(b, found)
    return found


def reads_of(node: Node) -> list[Node]:
    """The nodes among the arguments of a node."""
    found = node.reads
    if found is None:
        found = node.reads = []
        for a in (*node.args, *node.words.values()) if node.words else node.args:
            kind = a.__class__
            if kind is Node:
                found.append(a)
            elif kind is list or kind is tuple:
                reads(a, found)
    return found


def needed(nodes: list[Node], outputs: list[Node]) -> list[Node]:
    """The nodes that the outputs depend on, and all guards."""
    live = {id(o) for o in outputs}
    kept = []
    for node in reversed(nodes):
        if node.guards or id(node) in live:
            for a in reads_of(node):
                live.add(id(a))
            kept.append(node)
    return kept[::-1]


def forget_values(nodes: list[Node]) -> None:
    """Keep the layouts of the values of the traced call, but not its numbers."""
    known: dict[Any, Any] = {}
    for node in nodes:
        sample = node.sample
        if sample.__class__ is np.ndarray and sample.dtype.kind != "O":
            key = (sample.shape, sample.strides, sample.dtype.char)
            if key not in known:
                known[key] = np.lib.stride_tricks.as_strided(np.zeros(1, sample.dtype), sample.shape, sample.strides)
            node.sample = known[key]

"""Rewrites of a traced call that keep every bit: share equal calls, and drop calls that no result needs.

Tracing itself folds constants, because an op on constants makes no node.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gtape.tapes.traced_values import Node

__all__ = ["constant_key", "forget_values", "needed", "reads", "reads_of", "replaced", "shared"]

_SMALL = 65  # elements of the largest constants that are compared


def _key_of(a: Any, same: dict[Node, Node]) -> Any:
    kind = a.__class__
    if kind is Node:
        return same.get(a, a)
    if kind in (list, tuple):
        return (kind, *[_key_of(b, same) for b in a])
    if kind in (int, bool, str, type(None)):
        return (kind, a)
    return constant_key(a)


def constant_key(a: Any) -> Any:
    """A key that is equal for constants with the same bits in the same order in memory, which results take over."""
    if a.__class__ is float:
        return (float, a or a.hex())
    if isinstance(a, np.floating):  # the usual constant beside arrays, whose class gives dtype and shape
        return (a.__class__, a.tobytes())
    if isinstance(a, (np.generic, np.ndarray)) and a.size < _SMALL and a.dtype.kind != "O":
        return (a.__class__, a.dtype.str, a.shape, a.strides if a.ndim > 1 else None, a.tobytes())
    return ("object", id(a))


def _is_one(a: Any, other: Any, made: Any, ones: dict[int, bool]) -> bool:
    """Whether a factor of a product changes nothing: all its numbers are 1, and shape, dtype and memory order stay.

    A later sum adds the numbers in the order of the memory, and BLAS takes another way for numbers that lie apart.
    A complex 1 has an imaginary part 0, whose products with the other factor change signs of zeros and infinities.

    `ones` caches whether all numbers of a constant are 1.
    """
    if a.__class__ is Node or other.__class__ is not Node:
        return False
    found = ones.get(id(a))
    if found is None:
        if a.__class__ in (int, float) or isinstance(a, (np.number, np.bool_)):
            found = bool(a == 1)  # without a call of NumPy's, because each op may have a number of its own
        else:
            found = isinstance(a, (np.generic, np.ndarray)) and bool(np.all(np.equal(a, 1)))
        ones[id(a)] = found
    if not found or other.sample.__class__ is not made.__class__:
        return False
    x, y = np.asarray(other.sample), np.asarray(made)
    return x.shape == y.shape and x.dtype == y.dtype and x.strides == y.strides and y.dtype.kind != "c"


_PRODUCTS = frozenset({operator.mul, np.multiply})


def _factor(node: Node, ones: dict[int, bool]) -> Node | None:
    """The factor that a product with ones returns unchanged."""
    if node.words or len(node.args) != 2:
        return None
    a, b = node.args
    return b if _is_one(a, b, node.sample, ones) else a if _is_one(b, a, node.sample, ones) else None


def replaced(a: Any, same: dict[Node, Node]) -> Any:
    """An argument with some of its nodes replaced."""
    if a.__class__ is Node:
        return same.get(a, a)
    if a.__class__ in (list, tuple):
        return a.__class__([replaced(b, same) for b in a])
    return a


def _brings_together(function: Any, a: Node, b: Node, x: Node, y: Node, passing: set[Node]) -> bool:
    """Whether the operands `a` and `b` of a matrix product had memories of their own, and `x` and `y` would share one.

    BLAS has another routine for a matrix by its own transpose, which rounds otherwise.
    """
    if function.__class__ is np.ufunc:
        if function.signature is None:
            return False
    elif function in _OPERATORS:
        return False
    if any([n.sample.__class__ is not np.ndarray or n.sample.ndim < 2 for n in (x, y)]):  # noqa: C419
        return False
    return _root(x, passing) is _root(y, passing) and not np.may_share_memory(a.sample, b.sample)


_OPERATORS = frozenset({operator.add, operator.sub, operator.mul, operator.truediv, operator.pow})


def _source(node: Node, passing: set[Node]) -> Node | None:
    """The array of which a node is a view, or which it passes on; None for a node with memory of its own."""
    if node.sample.__class__ is not np.ndarray or (node.sample.base is None and node not in passing):
        return None
    read = [a for a in node.args if a.__class__ is Node]
    return read[0] if len(read) == 1 else None


def _root(node: Node, passing: set[Node]) -> Node:
    """The node whose memory a node shows."""
    source = _source(node, passing)
    return node if source is None else _root(source, passing)


def _is_from_outside(node: Node, passing: set[Node]) -> bool:
    """Whether a node shows the memory of an array that is given to the program, which other arrays may share."""
    return node.sample.__class__ is np.ndarray and _root(node, passing).function is None


def _apart(node: Node, traced: Node, made: list[Node], passing: set[Node]) -> Node:
    """The same numbers as those of a node, in memory of their own; `made` gains new nodes.

    Parameters
    ----------
    node, traced : Node
        With equal numbers; `traced` was an operand in the traced call.
    """
    source = _source(node, passing)
    function, args = node.function, node.args
    if source is not None:
        part = _apart(source, source, made, passing)
        args = tuple([part if a is source else a for a in args])
    elif function is None:  # an input of the program, as that of a product with ones
        function, args = _copied, (node,)
    other = Node(function, args, node.words, traced.sample, node.text)
    other.alone = True
    made.append(other)
    return other


def _copied(a: Any) -> Any:
    return np.multiply(a, a.dtype.type(1))  # in the memory order of the product with ones; a plain 1 is an integer


def shared(nodes: list[Node], outputs: list[Node], *, again: bool = False) -> tuple[list[Node], list[Node]]:
    """The nodes with equal calls replaced by one node. The list `nodes` gains new nodes that its nodes read.

    Parameters
    ----------
    again : bool
        Whether the nodes were shared before, so that they may have lost the values of the traced call.
    """
    same: dict[Node, Node] = {}
    known: dict[Any, Node] = {}
    constants: dict[int, Any] = {}  # keys by the identities of constants, which the nodes keep alive
    ones: dict[int, bool] = {}
    more: dict[Node, list[Node]] = {}  # new nodes before a node
    passing: set[Node] = set()  # nodes that pass on the array that they get
    kept: list[Node] = []
    for node in nodes:
        args, words, function = node.args, node.words, node.function
        count = 0 if words else len(args)
        if count == 1 and args[0].__class__ is Node:  # a usual case
            (a,) = args
            x = same.get(a, a)
            if a.sample is node.sample:
                passing.add(node)
            equal = known.setdefault((id(function), x), node)
            if equal is not node and not node.alone:
                same[node] = equal
                continue
            if x is not a:
                node.args = (x,)
            kept.append(node)
            continue
        if count == 2 and args[0].__class__ is args[1].__class__ is Node:  # a usual case
            a, b = args
            x, y = same.get(a, a), same.get(b, b)
            if same and not again and _brings_together(function, a, b, x, y, passing):
                node.args = (x, _apart(y, b, more.setdefault(node, []), passing))
                kept += [*more[node], node]
                continue
            pair = (id(function), x, y)
            equal = known.setdefault(pair, node)
            if equal is not node and not node.alone:
                same[node] = equal
                continue
            if x is not a or y is not b:
                node.args = (x, y)
            kept.append(node)
            continue
        key: list[Any] = [id(function)]
        changed = constant = False
        for a in args:
            if a.__class__ is Node:
                b = same.get(a)
                if b is not None:
                    a, changed = b, True
                key.append(a)
                continue
            constant = True
            k = id(a)
            if k not in constants:
                found = _key_of(a, same)
                if a.__class__ is list or a.__class__ is tuple:
                    changed = True
                else:
                    constants[k] = found
                key.append(found)
            else:
                key.append(constants[k])
        if words:
            key += [(k, _key_of(words[k], same)) for k in sorted(words)]
        place = tuple(key)
        first = known.get(place)
        if first is not None and not node.alone:
            same[node] = first
            continue
        if changed:
            node.args = replaced(args, same)
            given = [(i, a) for i, a in enumerate(args) if a.__class__ is Node]
            if len(given) == 2 and not again:
                (k, a), (i, b) = given
                if _brings_together(function, a, b, node.args[k], node.args[i], passing):
                    part = _apart(node.args[i], b, more.setdefault(node, []), passing)
                    node.args = (*node.args[:i], part, *node.args[i + 1 :])
                    kept += [*more[node], node]
                    continue
        factor = _factor(node, ones) if constant and function in _PRODUCTS else None
        if factor is not None and not _is_from_outside(factor, passing):
            same[node] = factor
            continue
        if words and same:
            node.words = {k: replaced(v, same) for k, v in words.items()}
        known[place] = node
        kept.append(node)
    if more:  # other programs are made of the same nodes
        nodes[:] = [n for node in nodes for n in (*more.get(node, ()), node)]
    return kept, [same.get(o, o) for o in outputs]


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
    args, words = node.args, node.words
    known = node.reads
    if known is not None and known[0] is args and known[1] is words:
        return known[2]
    found: list[Node] = []
    for a in (*args, *words.values()) if words else args:
        kind = a.__class__
        if kind is Node:
            found.append(a)
        elif kind is list or kind is tuple:
            reads(a, found)
    node.reads = (args, words, found)
    return found


def needed(nodes: list[Node], outputs: list[Node]) -> list[Node]:
    """The nodes that the outputs depend on, and all guards."""
    live = set(outputs)
    kept = []
    for node in reversed(nodes):
        if node in live or node.guards:
            kept.append(node)
            for a in node.args:
                if a.__class__ is Node:
                    live.add(a)
                elif a.__class__ is list or a.__class__ is tuple:
                    live.update(reads(a, []))
            for a in node.words.values() if node.words else ():
                live.update(reads(a, []))
    return kept[::-1]


def forget_values(nodes: list[Node]) -> None:
    """Drop the values of the traced call and keep their layouts."""
    known: dict[Any, Any] = {}
    for node in nodes:
        sample = node.sample
        if sample.__class__ is np.ndarray and sample.dtype.kind != "O":
            key = (sample.shape, sample.strides, sample.dtype.char)
            if key not in known:
                known[key] = np.lib.stride_tricks.as_strided(np.zeros(1, sample.dtype), sample.shape, sample.strides)
            node.sample = known[key]

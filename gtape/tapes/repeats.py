"""Finds repeated blocks of nodes, as tracing makes them of a loop, so that a back end writes each block once.

Two nodes are alike if a program would call them in the same way: they have the same function, results and constants of
the same form, and operands at the same distance. Repeated rows of alike nodes are blocks, in any program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.tapes.learned import PLAIN
from gtape.tapes.rewriting import constant_key, reads, reads_of
from gtape.tapes.traced_values import Node

__all__ = ["Block", "Instance", "in_blocks"]

_FEWEST = 96  # programs with fewer nodes are not searched
_GRAM = 6  # nodes in a row that have to repeat for a period
_LENGTH = 48  # nodes of a block, at most, if that many repeat; the greatest distance of an operand that counts
_COPIES = 4  # blocks in a row that are worth a function
_PERIODS = 8  # periods that are tried
_LARGE = 4096  # elements of the values that no block contains, because their memory has other rules


class Block:
    """Nodes that repeat, as a program of their own.

    Attributes
    ----------
    inputs : list of Node
        The inputs stand for values that copies read from outside, and for constants that differ between copies.
    nodes : list of Node
    outputs : list of int
        The positions of nodes that are read outside of the block in at least one copy.
    """

    __slots__ = ("inputs", "nodes", "outputs", "written")

    def __init__(self, inputs: list[Node], nodes: list[Node], outputs: list[int]) -> None:
        self.inputs, self.nodes, self.outputs = inputs, nodes, outputs
        self.written: Any = None  # the code that a back end writes


class Instance:
    """One copy of a block.

    Attributes
    ----------
    block : Block
    inputs : list
        For each input of the block a node or a constant.
    nodes : list of Node
    """

    __slots__ = ("block", "inputs", "nodes")

    def __init__(self, block: Block, inputs: list[Any], nodes: list[Node]) -> None:
        self.block, self.inputs, self.nodes = block, inputs, nodes

    @property
    def outputs(self) -> list[Node]:
        """The nodes at the positions of the block's outputs."""
        return [self.nodes[j] for j in self.block.outputs]


# ---------------------------------------------------------------------------------------------- likeness


def _form(value: Any) -> Any:
    """The properties of a result or constant on which a call depends; None if no block may contain the value."""
    kind = value.__class__
    if kind is float or kind is bool:
        return kind
    if kind is np.ndarray:
        if value.size >= _LARGE or value.dtype.kind not in "fb":
            return None
        return (value.shape, value.strides, value.dtype.char)
    return kind if isinstance(value, np.generic) else None


def _constant_form(a: Any) -> Any:
    """The form of an operand other than a node; None if no block may contain the operand."""
    kind = a.__class__
    if kind is int or kind is bool or kind is str or a is None:
        return (kind, a)
    if kind is tuple:
        return (tuple, repr(a)) if all([v.__class__ in (int, bool) for v in a]) else None  # noqa: C419
    return _form(a)


def _words_form(words: dict[str, Any]) -> Any:
    """The form of keyword arguments; None if no block may contain them."""
    if any([v.__class__ not in PLAIN for v in words.values()]):  # noqa: C419 - a list is quicker
        return None
    return tuple(sorted([(k, repr(v)) for k, v in words.items()]))


def _tokens(nodes: list[Node], kept: set[int]) -> np.ndarray[Any, Any]:
    """A number for each node, equal for nodes that are called alike. Sets the `place` of every node to its index."""
    known: dict[tuple[Any, ...], int] = {}
    constants: dict[int, Any] = {}  # the forms of constants, which the nodes hold
    tokens = []
    for i, node in enumerate(nodes):
        node.place = i
        sample = node.sample
        form = sample.__class__ if sample.__class__ is float else _form(sample)
        args = node.args
        if len(args) == 2 and args[0].__class__ is args[1].__class__ is Node and form is not None and not node.words:
            x, y = args[0].place, args[1].place  # a usual case
            farthest = max(i - _LENGTH, 0)
            x, y = i - x if x >= farthest else 0, i - y if y >= farthest else 0
            try:
                token = -1 - i if id(node) in kept else known.setdefault((node.function, form, x, y), len(known))
            except TypeError:  # a function without a hash
                token = -1 - i
            tokens.append(token)
            continue
        words = _words_form(node.words) if node.words else ()
        key: list[Any] | None = [node.function, form, words]
        if (form is None and not node.guards) or words is None or id(node) in kept:
            key = None
        for a in args if key is not None else ():
            if a.__class__ is Node:
                near = i - a.place
                key.append(near if near <= _LENGTH and a.place >= 0 else 0)  # type: ignore[union-attr]
                continue
            k = id(a)
            if k not in constants:
                constants[k] = _constant_form(a)
            if constants[k] is None:
                key = None
                break
            key.append(constants[k])  # type: ignore[union-attr]
        try:
            tokens.append(-1 - i if key is None else known.setdefault(tuple(key), len(known)))
        except TypeError:  # a function without a hash
            tokens.append(-1 - i)
    return np.array(tokens, np.int64)


# ---------------------------------------------------------------------------------------------- periods


def _periods(tokens: np.ndarray[Any, Any]) -> list[int]:
    """The distances at which rows of tokens recur most often."""
    n = len(tokens) - _GRAM + 1
    mixed = tokens.astype(np.uint64)
    grams = np.zeros(n, np.uint64)
    for k in range(_GRAM):
        grams = grams * np.uint64(0x9E3779B97F4A7C15) + mixed[k : k + n]
    order = np.argsort(grams, kind="stable")
    again = grams[order[1:]] == grams[order[:-1]]
    counts = np.bincount((order[1:] - order[:-1])[again])
    best = np.argsort(-counts, kind="stable")[:_PERIODS]
    return [int(p) for p in best if counts[p] >= _COPIES]


def _segments(tokens: np.ndarray[Any, Any]) -> list[tuple[int, int, int]]:
    """The repeated blocks: for each series the start, the length of a block, and the number of blocks."""
    free = np.ones(len(tokens), bool)
    found = []
    for p in _periods(tokens):
        alike = (tokens[p:] == tokens[:-p]) & free[p:] & free[:-p]
        edges = np.flatnonzero(np.diff(alike.astype(np.int8), prepend=0, append=0))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            repeats = (end - start) // p + 1
            length = p * max(1, min(_LENGTH // p, repeats // _COPIES))
            count = repeats * p // length
            if count >= _COPIES and free[start : start + count * length].all():
                free[start : start + count * length] = False
                found.append((start, length, count))
    return sorted(found)


# ---------------------------------------------------------------------------------------------- blocks


def _column(values: list[Any]) -> Any:
    """A key that is equal for operands that agree in every copy."""
    return tuple([id(v) if v.__class__ is Node else constant_key(v) for v in values])


def _is_one(values: list[Any]) -> bool:
    """Whether a constant is the same in each copy."""
    first = values[0]
    if all([v is first for v in values]):  # noqa: C419 - a list is quicker
        return True
    key = constant_key(first)
    return all(constant_key(v) == key for v in values)


def _fits(nodes: list[Node], start: int, model: int, length: int) -> bool:
    """Whether the distant operands of one copy are at the same positions as in another copy."""
    for j in range(length):
        for a, b in zip(nodes[start + j].args, nodes[model + j].args, strict=True):
            if a.__class__ is Node:
                x, y = a.place - start, b.place - model
                if (x if x >= 0 else -1) != (y if y >= 0 else -1):
                    return False
    return True


def _block(nodes: list[Node], starts: list[int], length: int, outputs: list[int]) -> list[Instance]:
    """The copies of a block that start at the given places."""
    model = starts[0]
    slots: dict[Any, int] = {}
    columns: list[list[Any]] = []
    inputs: list[Node] = []
    made: list[Node] = []
    for j in range(length):
        node = nodes[model + j]
        args: list[Any] = []
        for k, a in enumerate(node.args):
            if a.__class__ is Node and a.place >= model:
                args.append(made[a.place - model])
                continue
            if a.__class__ is not Node and _form(a) is None:
                args.append(a)
                continue
            values = [nodes[s + j].args[k] for s in starts]
            if a.__class__ is not Node and _is_one(values):
                args.append(a)
                continue
            key = _column(values)
            slot = slots.setdefault(key, len(columns))
            if slot == len(columns):
                columns.append(values)
                sample = a.sample if a.__class__ is Node else a
                inputs.append(Node(None, (), {}, sample, None))
            args.append(inputs[slot])
        made.append(Node(node.function, tuple(args), node.words, node.sample, node.text))
        made[-1].guards = node.guards
    block = Block(inputs, made, outputs)
    given = list(zip(*columns, strict=True)) or [()] * len(starts)
    return [Instance(block, list(x), nodes[s : s + length]) for x, s in zip(given, starts, strict=True)]


def _read_outside(nodes: list[Node], owner: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The places of nodes that are read outside of their copy, given the number of the copy of each node."""
    counts: list[int] = []
    places: list[int] = []
    for node in nodes:
        if node.words:
            read = [a.place for a in reads_of(node)]
        else:  # without the lists of `reads_of`, because nobody reads the copies again
            read = []
            for a in node.args:
                if a.__class__ is Node:
                    read.append(a.place)
                elif a.__class__ is list or a.__class__ is tuple:
                    read += [b.place for b in reads(a, [])]
        counts.append(len(read))
        places += read
    at = np.array(places, np.int64)
    out = (at >= 0) & (owner[at] >= 0) & (owner[at] != np.repeat(owner, counts))
    read_there = np.zeros(len(owner), bool)
    read_there[at[out]] = True
    return np.flatnonzero(read_there)


def in_blocks(nodes: list[Node], outputs: list[Node]) -> list[Any]:
    """The nodes in their order, in lists, with copies of blocks between them."""
    if len(nodes) < _FEWEST:
        return [nodes]
    segments = _segments(_tokens(nodes, {id(o) for o in outputs}))
    owner = np.full(len(nodes), -1, np.int64)
    places: list[tuple[list[int], int]] = []
    copies = 0
    for start, length, count in segments:
        starts = [start + k * length for k in range(count)]
        if length > _LENGTH:
            starts = [s for s in starts if _fits(nodes, s, starts[-1], length)]
        if len(starts) < _COPIES:
            continue
        places.append((starts, length))
        for s in starts:
            owner[s : s + length] = copies
            copies += 1
    if not places:
        return [nodes]
    read = _read_outside(nodes, owner)
    parts: list[Any] = []
    end = 0
    for starts, length in places:
        mine = read[(read >= starts[0]) & (read < starts[-1] + length)]
        mine = mine[owner[mine] >= 0]
        instances = _block(nodes, starts, length, sorted(set(((mine - starts[0]) % length).tolist())))
        for s, instance in zip(starts, instances, strict=True):
            if s > end:
                parts.append(nodes[end:s])
            parts.append(instance)
            end = s + length
    if end < len(nodes):
        parts.append(nodes[end:])
    return parts

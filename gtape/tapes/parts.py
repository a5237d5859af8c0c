"""Parts of a program, which group nodes of one kind, and what NumPy does with the memory of a node's operands."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import numpy as np

from gtape.tapes.rewriting import reads_of
from gtape.tapes.traced_values import Node
from gtape.tapes.ufuncs import ufunc_of

__all__ = [
    "CALL", "LARGE", "SIGNS", "WALK", "Part", "array_ufunc", "elements_of_block", "elides", "may_show",
    "orders_unknown", "overwrites", "sign_of", "worth_blocks",
]  # fmt: skip

CALL, WALK = "call", "walk"
_BLOCK = 1 << 17  # bytes of a block, so that a dozen blocks fit the caches, and calls cost little
LARGE = 4096  # elements above which a fresh array costs more than the search for an old one
_ELIDED = 1 << 18  # bytes of the smallest arrays that NumPy's operators overwrite


class Part:
    """Nodes that form one piece of the program.

    Attributes
    ----------
    kind : hashable
        `CALL`, `WALK`, or a kind of blocks that the back end gives.
    nodes : list of Node
    """

    __slots__ = ("kind", "nodes")

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.nodes: list[Node] = []

    @property
    def in_blocks(self) -> bool:
        """Whether the nodes run in blocks of their arrays."""
        return self.kind not in (CALL, WALK)


def worth_blocks(part: Part) -> Part:
    """A part, called if it has too few nodes for blocks."""
    if part.in_blocks and len(part.nodes) < 2:
        part.kind = CALL
    return part


def array_ufunc(node: Node) -> np.ufunc | None:
    """The ufunc that computes the array of a node; None for other nodes."""
    sample = node.sample
    if sample.__class__ is not np.ndarray or node.words:
        return None
    ufunc = ufunc_of(node.function)
    return ufunc if ufunc is not None and ufunc.nin == len(node.args) else None


def may_show(node: Node) -> bool:
    """Whether a call of a node may return a view of an operand: no ufunc does, and no number is a view."""
    array = node.sample.__class__ is tuple or isinstance(node.sample, np.ndarray)
    return array and array_ufunc(node) is None


def elements_of_block(nodes: list[Node]) -> int:
    """The number of elements of one block, for nodes that run in blocks."""
    read = [a.sample if a.__class__ is Node else a for n in nodes for a in (n, *n.args)]
    return _BLOCK // max([a.itemsize for a in read if isinstance(a, np.ndarray)])


_COMMUTATIVE = frozenset({np.add, np.multiply, operator.add, operator.mul})
_OPERATORS = frozenset({operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv})
SIGNS: dict[Any, str] = {np.add: "+", np.subtract: "-", np.multiply: "*", np.divide: "/"}


def sign_of(node: Node) -> str | None:
    """The operator that gives the same bits as a ufunc in less time; None without one."""
    sign = SIGNS.get(node.function)
    if sign is None or node.words or len(node.args) != 2:
        return None
    kinds = {(a.sample if a.__class__ is Node else a).__class__ for a in node.args}
    if kinds == {np.float32} or kinds == {np.float64}:  # NumPy's scalars, for which ufuncs make arrays
        return sign
    some = any([a.__class__ is Node and isinstance(a.sample, np.ndarray) for a in node.args])  # noqa: C419
    plain = all([a.__class__ is Node or isinstance(a, (np.generic, np.ndarray)) for a in node.args])  # noqa: C419
    return sign if some and plain else None


def elides(node: Node, a: Node) -> bool:
    """Whether NumPy's operator writes a result into the memory of an operand that has no name and no other reader."""
    if array_ufunc(node) not in SIGNS or (node.text is None and sign_of(node) is None):
        return False
    commutes = node.function in _COMMUTATIVE
    return node.sample.nbytes >= _ELIDED and overwrites(node.sample, a.sample) and (a is node.args[0] or commutes)


def orders_unknown(nodes: list[Node], outputs: list[Node]) -> bool:
    """Whether the order in memory of a large array depends on whether an operand has a name in the eager call.

    NumPy's operators overwrite a large operand without a name, so the result has the operand's order. Traced values all
    have names, so the traced result has the order that NumPy chooses for a new array.
    """
    doubts: list[Node] = []
    for node in nodes:
        sample = node.sample
        if node.text is None or sample.__class__ is not np.ndarray or sample.nbytes < _ELIDED or sample.ndim < 2:
            continue
        function = node.function
        if function in SIGNS or function in _OPERATORS:
            for a in node.args if function in _COMMUTATIVE else node.args[:1]:
                if a.__class__ is Node and a.function is not None:
                    old = a.sample
                    alike = isinstance(old, np.ndarray) and old.shape == sample.shape and old.dtype == sample.dtype
                    if alike and old.strides != sample.strides and old.flags.owndata:
                        doubts.append(a)
    if not doubts:
        return False
    readers = Counter([id(a) for node in nodes for a in reads_of(node)])
    kept = {id(o) for o in outputs}
    return any([readers[id(a)] == 1 and id(a) not in kept for a in doubts])  # noqa: C419 - a list is quicker


def overwrites(made: Any, a: Any) -> bool:
    """Whether a result fits exactly into the memory of an operand."""
    return bool(a.shape == made.shape and a.strides == made.strides and a.dtype == made.dtype)

"""Parts of a program, which group nodes of one kind, and what NumPy does with the memory of a node's operands."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gtape.tapes.traced_values import Node
from gtape.tapes.ufuncs import ufunc_of

__all__ = [
    "CALL", "LARGE", "SIGNS", "WALK", "Part", "array_ufunc", "elements_of_block", "elides", "may_show", "overwrites",
    "sign_of", "worth_blocks",
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


def overwrites(made: Any, a: Any) -> bool:
    """Whether a result fits exactly into the memory of an operand."""
    return bool(a.shape == made.shape and a.strides == made.strides and a.dtype == made.dtype)

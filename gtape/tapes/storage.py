"""Where nodes that run in blocks store their results and their temporary arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gtape.tapes.parts import array_ufunc, elements_of_block
from gtape.tapes.rewriting import reads_of
from gtape.tapes.traced_values import Node
from gtape.tapes.ufuncs import EXACT

__all__ = ["Storage"]


class Storage:
    """Where blocks store their arrays, which all have one shape.

    Parameters
    ----------
    nodes : list of Node
        The nodes of the blocks.
    results : list of Node
        The nodes that others read.
    free : iterable of Node
        Arrays from outside of the blocks that only the blocks still read, and that they may overwrite.

    Attributes
    ----------
    taken : dict
        The arrays from outside that results overwrite, by the identities of the results.
    places : dict
        The names of the other values by the identities of their nodes: "o0" for new arrays, "t0" for temporary arrays
        of one block, "m0" for arrays that kernels make.
    fresh : list of Node
        The results in new arrays, in the order of the names.
    temporaries : str
        The characters of the dtypes of temporary arrays.
    made : list of Node
        For each name of arrays that kernels make, a value with this name.
    """

    def __init__(self, nodes: list[Node], results: list[Node], free: Iterable[Node]) -> None:
        self._nodes = nodes
        self._wanted = {id(n) for n in results}
        inputs = {id(a): a for a in free}
        inside = {id(n): n for n in nodes if id(n) not in self._wanted}
        last: dict[int, int] = {k: i for i, n in enumerate(nodes) for k in [id(n), *[id(a) for a in reads_of(n)]]}
        self._last = last
        ends: list[list[Node]] = [[] for _ in nodes]
        over: list[list[Node]] = [[] for _ in nodes]
        for k, a in inputs.items():
            ends[last[k]].append(a)
        for k, a in inside.items():
            over[last[k]].append(a)
        self.taken: dict[int, Node] = {}
        self._take(ends)
        self.places: dict[int, str] = {}
        self.fresh: list[Node] = []
        self.temporaries = ""
        self.made: list[Node] = []
        self._place(over)

    @staticmethod
    def _is_early(node: Node) -> bool:
        """Whether a node may store its result where it reads an operand for the last time."""
        ufunc = array_ufunc(node)
        return ufunc is None or ufunc in EXACT  # the result of a kernel is copied after it is complete

    def _take(self, ends: list[list[Node]]) -> None:
        """Find the arrays from outside that results overwrite."""
        waiting: dict[str, list[Node]] = {}
        for node, over in zip(self._nodes, ends, strict=True):
            early = self._is_early(node)
            for a in over if early else ():
                waiting.setdefault(a.sample.dtype.char, []).append(a)
            alike = waiting.get(node.sample.dtype.char)
            if alike and id(node) in self._wanted:
                self.taken[id(node)] = alike.pop()
            for a in () if early else over:
                waiting.setdefault(a.sample.dtype.char, []).append(a)

    def _limits(self) -> list[dict[str, int]]:
        """For each node the place up to which a temporary value may stay in a new array, by characters of dtypes."""
        limits: list[dict[str, int]] = []
        known: dict[str, int] = {}
        for i in range(len(self._nodes) - 1, -1, -1):
            limits.append(known)
            node = self._nodes[i]
            if id(node) in self._wanted and id(node) not in self.taken:
                known = {**known, node.sample.dtype.char: i if self._is_early(node) else i - 1}
        return limits[::-1]

    def _place(self, ends: list[list[Node]]) -> None:
        """Find the places of results in new arrays and of values that only the blocks read."""
        free: dict[str, list[str]] = {}
        fresh: dict[str, list[str]] = {}  # new arrays without a result so far; temporary values may use them
        count = 0
        for node in self._nodes:
            if id(node) in self._wanted and id(node) not in self.taken:
                fresh.setdefault(node.sample.dtype.char, []).append(f"o{count}")
                count += 1
        owners: dict[str, Node] = {}
        for node, over, limit in zip(self._nodes, ends, self._limits(), strict=True):
            early = self._is_early(node)
            char = node.sample.dtype.char
            gone = [a for a in over if a is not node]
            if early:
                self._release(gone, free, fresh)
            key = id(node)
            if key in self._wanted:
                if key not in self.taken:
                    place = self.places[key] = fresh[char].pop()
                    owners[place] = node
            elif array_ufunc(node) is None:
                names = free.setdefault("m", [])
                if not names:
                    names.append(f"m{len(self.made)}")
                    self.made.append(node)
                self.places[key] = names.pop()
            elif free.get(char):
                self.places[key] = free[char].pop()
            elif fresh.get(char) and self._last[key] <= limit[char]:
                self.places[key] = fresh[char].pop()
            else:
                self.places[key] = f"t{len(self.temporaries)}"
                self.temporaries += char
            if not early:
                self._release(gone, free, fresh)
            self._release([a for a in over if a is node], free, fresh)
        self.fresh = [owners[f"o{k}"] for k in range(count)]

    def _release(self, over: list[Node], free: dict[str, list[str]], fresh: dict[str, list[str]]) -> None:
        for a in over:
            place = self.places[id(a)]
            kind, char = place[0], a.sample.dtype.char
            (fresh[char] if kind == "o" else free.setdefault("m" if kind == "m" else char, [])).append(place)

    @property
    def nbytes(self) -> int:
        """The bytes of the new arrays and of the temporary arrays."""
        step = elements_of_block(self._nodes)
        size = self._nodes[0].sample.size
        small = sum([np.dtype(c).itemsize for c in self.temporaries]) + sum([n.sample.itemsize for n in self.made])
        return int(sum([n.sample.nbytes for n in self.fresh]) + min(step, size) * small)

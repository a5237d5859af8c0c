"""How long the values of a program live, and how much memory they take at a time."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from gtape.tapes.parts import CALL, LARGE, Part, array_ufunc, elides, may_show, overwrites, worth_blocks
from gtape.tapes.rewriting import reads_of
from gtape.tapes.storage import Storage
from gtape.tapes.traced_values import Node
from gtape.tapes.ufuncs import EXACT

__all__ = ["Lives", "find_roots", "is_large"]

_COUNTED = 128  # elements of the smallest arrays that count beside large ones, because there may be many


def _arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays in a value."""
    parts = value if value.__class__ is tuple else (value,)
    return [part for part in parts if isinstance(part, np.ndarray)]


def _nbytes(value: Any) -> int:
    """The bytes of memory behind a value. Elements along a stride of 0 share theirs."""
    total = 0
    for a in _arrays(value):
        size = a.itemsize
        for n, step in zip(a.shape, a.strides, strict=True):
            size *= n if step else 1
        total += size
    return total


def _size(value: Any) -> int:
    """The number of elements of arrays."""
    kind = value.__class__
    return value.size if kind is np.ndarray else sum([a.size for a in _arrays(value)]) if kind is tuple else 1


def is_large(node: Node) -> bool:
    """Whether a node has a large value."""
    return _size(node.sample) >= LARGE


# Stands for the node itself, which would be a cycle and so outlive its program.
_ITSELF = Node(None, (), {}, None, None)


def _root(node: Node) -> Node:
    """The node whose memory a node shows. Has to be found before the node loses its value."""
    found = node.root
    if found is None:
        made = node if node.function is None or not may_show(node) else _shown_by(node)
        found = node.root = _ITSELF if made is node else made
    return node if found is _ITSELF else found


def _shown_by(node: Node) -> Node:
    own = _arrays(node.sample)
    for a in reads_of(node):
        theirs = _arrays(a.sample)
        if any([np.may_share_memory(x, y) for x in own for y in theirs]):  # noqa: C419 - a list is quicker
            return _root(a)
    return node


def find_roots(nodes: list[Node]) -> None:
    """Find the roots of all nodes of a program with large values, before the nodes lose their values."""
    if any([is_large(n) for n in nodes]):  # noqa: C419 - a list is quicker
        for node in nodes:
            _root(node)


class Lives:
    """The lives of a program's large values.

    Parameters
    ----------
    nodes, outputs : list of Node
    kind_of : callable
        The kind of a node's part.
    held : collection of int
        The identities of nodes whose values are stored elsewhere.
    spent : sequence of Node
        The inputs that end with their last read. All others outlive the program.

    Attributes
    ----------
    weights : dict
        The bytes of each large value by the identity of its node. Views have none.
    before : dict
        The live bytes before each node, if the nodes are called one by one in their order.
    peak : int
        The greatest number of live bytes then.
    """

    def __init__(
        self,
        nodes: list[Node],
        outputs: list[Node],
        kind_of: Callable[[Node], Any],
        held: Container[int],
        spent: Sequence[Node] = (),
    ) -> None:
        self._held = held
        self._results = {id(o) for o in outputs}
        self.weights: dict[int, int] = {}
        self.before: dict[int, int] = {}
        self.peak = 0
        if not spent and not any([is_large(n) and id(n) not in held for n in nodes]):  # noqa: C419 - a list is quicker
            return
        self.weights = {id(n): _nbytes(n.sample) for n in spent}
        self._given = sum(self.weights.values())
        for node in nodes:
            if _size(node.sample) < _COUNTED or id(node) in held:
                continue
            if kind_of(node) != CALL:
                node.root = _ITSELF  # blocks store their results in arrays of their own
            if _root(node) is node:
                self.weights[id(node)] = _nbytes(node.sample)
        self._reads: dict[int, list[int]] = {}
        self._readers: dict[int, list[Node]] = {}
        self._kept = {id(_root(o)) for o in outputs}
        for node in nodes:
            for k in self._read(node):
                self._readers.setdefault(k, []).append(node)
        whole = Part(CALL)
        whole.nodes = nodes
        (self.peak,) = self._run([whole], self.before)

    def _read(self, node: Node) -> list[int]:
        """The identities of the large values that a node reads, maybe through views."""
        found = self._reads.get(id(node))
        if found is None:
            weights = self.weights
            found = self._reads[id(node)] = []
            for a in reads_of(node):
                k = id(a) if id(a) in weights else id(_root(a))
                if k in weights and k not in found:
                    found.append(k)
        return found

    def ends(self, node: Node) -> list[int]:
        """The identities of the large values that nobody needs after a node, in the order of the nodes."""
        return [k for k in self._read(node) if k not in self._kept and self._readers[k][-1] is node]

    def earlier(self, ends: list[int]) -> list[Node]:
        """The readers of large values other than the last one."""
        return [n for k in ends for n in self._readers[k][:-1]]

    def keeps_peak(self, parts: list[Part]) -> bool:
        """Whether parts need no more memory than the nodes one by one.

        Kernels take memory of unknown size while they run, so that they too must not start with more live bytes.
        """
        before: dict[int, int] = {}
        if max(self._run(parts, before)) > self.peak:
            return False
        own = self.before
        return all(
            [before[k] <= own[k] for part in parts if part.kind == CALL for k in self._takers(part.nodes)]  # noqa: C419
        )

    def split(self, parts: list[Part]) -> list[Part]:
        """Parts whose blocks are halved until none raises the peak."""
        while True:
            high = [p.in_blocks and n > self.peak for p, n in zip(parts, self._run(parts, {}), strict=True)]
            if not any(high):
                return parts
            parts = [half for p, over in zip(parts, high, strict=True) for half in (_halves(p) if over else [p])]

    def _takers(self, nodes: list[Node]) -> list[int]:
        """The identities of calls of kernels that read or make large values."""
        weights = self.weights
        return [
            id(n) for n in nodes
            if array_ufunc(n) is None and _root(n) is n and (id(n) in weights or self._read(n))
        ]  # fmt: skip

    def _run(self, parts: list[Part], before: dict[int, int]) -> list[int]:
        """The peaks of live bytes of parts. Notes the live bytes before each node."""
        weights, held, kept = self.weights, self._held, self._kept
        last: dict[int, int] = {}
        shown: set[int] = set(self._results)
        time = 0
        for part in parts:
            for node in part.nodes:
                for k in self._read(node):
                    last[k] = time
                if part.kind == CALL and id(node) not in held and may_show(node):
                    shown.update([id(a) for a in reads_of(node)])
                time += not part.in_blocks
            time += part.in_blocks
        live, time = self._given, 0
        peaks: list[int] = []
        owned: set[int] = set()  # the identities of arrays that a result may overwrite
        for part in parts:
            peak = live
            if part.in_blocks:
                inside = {id(n) for n in part.nodes}
                over: dict[int, Node] = {}
                for node in part.nodes:
                    before[id(node)] = live
                    over.update([(id(a), a) for a in reads_of(node) if id(a) in owned and last[id(a)] == time])
                results = [n for n in part.nodes if id(n) in kept or last.get(id(n), 0) > time]
                stored = Storage(part.nodes, results, over.values())
                peaks.append(live + stored.nbytes)
                live += sum([weights[id(n)] for n in stored.fresh])
                ended = {k for n in part.nodes for k in self._read(n) if last[k] == time and k not in kept}
                live -= sum([weights[k] for k in ended - inside - {id(a) for a in stored.taken.values()}])
                owned.update([id(n) for n in results if id(n) not in shown])
                time += 1
                continue
            unnamed: Node | None = None  # the newest node, if its line may become part of the next one
            for node in part.nodes:
                key = id(node)
                before[key] = live
                ended = {k for k in self._read(node) if last[k] == time and k not in kept}
                weight = weights.get(key, 0)
                if weight:
                    ufunc = array_ufunc(node)
                    for a in reads_of(node) if ufunc in EXACT and node.sample.size >= LARGE else ():
                        if id(a) in ended and id(a) in owned and overwrites(node.sample, a.sample):
                            ended.discard(id(a))
                            weight = 0
                            break
                    own = id(unnamed)
                    if weight and unnamed in reads_of(node) and own in ended - shown and elides(node, unnamed):
                        ended.discard(own)
                        weight = 0
                    live += weight
                    peak = max(peak, live)
                    if ufunc is not None and key not in shown:
                        owned.add(key)
                    if key not in last and key not in kept:
                        ended.add(key)
                unnamed = None if ended or key not in weights else node
                live -= sum([weights[k] for k in ended])
                time += 1
            peaks.append(peak)
        return peaks


def _halves(part: Part) -> list[Part]:
    """A part that runs in blocks as two parts."""
    half = len(part.nodes) // 2
    made = [Part(part.kind), Part(part.kind)]
    made[0].nodes, made[1].nodes = part.nodes[:half], part.nodes[half:]
    return [worth_blocks(p) for p in made]

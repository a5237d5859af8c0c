"""The order of a program's work: the nodes in parts, chosen so that no grouping raises the peak of live memory.

A part that collects nodes of one kind saves time, but it also delays other nodes, whose operands then live longer.
"""

from __future__ import annotations

import bisect
import operator
from collections.abc import Callable, Container, Iterable
from typing import Any

import numpy as np

from gtape.tapes.rewriting import reads_of
from gtape.tapes.traced_values import Node
from gtape.tapes.ufuncs import EXACT, ufunc_of

__all__ = [
    "CALL", "LARGE", "SIGNS", "WALK", "Part", "Storage", "array_ufunc", "elements_of_block", "elides", "find_roots",
    "in_order", "may_show", "overwrites", "sign_of",
]  # fmt: skip

CALL, WALK = "call", "walk"
_BLOCK = 1 << 17  # bytes of a block, so that a dozen blocks fit the caches, and calls cost little
LARGE = 4096  # elements above which a fresh array costs more than the search for an old one
_ELIDED = 1 << 18  # bytes of the smallest arrays that NumPy's operators overwrite
_COUNTED = 128  # elements of the smallest arrays that count beside large ones, because there may be many


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


# ---------------------------------------------------------------------------------------------- live memory


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
    if any([_size(n.sample) >= LARGE for n in nodes]):  # noqa: C419 - a list is quicker
        for node in nodes:
            _root(node)


class _Lives:
    """The lives of a program's large values.

    Parameters
    ----------
    nodes, outputs : list of Node
    kind_of : callable
        The kind of a node's part.
    held : collection of int
        The identities of nodes whose values are stored elsewhere.

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
        self, nodes: list[Node], outputs: list[Node], kind_of: Callable[[Node], Any], held: Container[int]
    ) -> None:
        self._held = held
        self._results = {id(o) for o in outputs}
        self.weights: dict[int, int] = {}
        self.before: dict[int, int] = {}
        self.peak = 0
        if not any([_size(n.sample) >= LARGE and id(n) not in held for n in nodes]):  # noqa: C419 - a list is quicker
            return
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
        live = time = 0
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
    return [_worth_blocks(p) for p in made]


def _worth_blocks(part: Part) -> Part:
    """A part, called if it has too few nodes for blocks."""
    if part.in_blocks and len(part.nodes) < 2:
        part.kind = CALL
    return part


def overwrites(made: Any, a: Any) -> bool:
    """Whether a result fits exactly into the memory of an operand."""
    return bool(a.shape == made.shape and a.strides == made.strides and a.dtype == made.dtype)


# ---------------------------------------------------------------------------------------------- parts


def in_order(
    nodes: list[Node], outputs: list[Node], kind_of: Callable[[Node], Any], held: Container[int] = frozenset()
) -> list[Part]:
    """The nodes in few parts, each of one kind, whose peak of live memory is not above that of the nodes one by one.

    Parameters
    ----------
    nodes, outputs : list of Node
    kind_of : callable
        The kind of a node's part.
    held : collection of int
        The identities of nodes whose values lie in memory that the program keeps.
    """
    lives = _Lives(nodes, outputs, kind_of, held)
    parts = _in_turns(nodes, kind_of, None)
    if not lives.weights or lives.keeps_peak(parts):
        return parts
    parts = lives.split(_in_turns(nodes, kind_of, lives))
    if lives.keeps_peak(parts):
        return parts
    parts = []
    for node in nodes:
        kind = WALK if kind_of(node) == WALK else CALL
        if not parts or parts[-1].kind != kind:
            parts.append(Part(kind))
        parts[-1].nodes.append(node)
    return parts


def _in_turns(nodes: list[Node], kind_of: Callable[[Node], Any], lives: _Lives | None) -> list[Part]:
    """The nodes in parts, each in the first part of its kind in which it comes after those that it reads.

    With `lives`, nodes that start or end large values stay in their order. The others only move to the front, and each
    large value ends where it did.
    """
    parts: list[Part] = []
    at: dict[int, int] = {}
    places: dict[Any, list[int]] = {}
    newest: Node | None = None  # the newest node that starts or ends a large value
    for node in nodes:
        kind = kind_of(node)
        before = reads_of(node)
        if lives is not None:
            ends = lives.ends(node)
            if ends or id(node) in lives.weights:
                before = [*before, *lives.earlier(ends), *([] if newest is None else [newest])]
                newest = node
        first = 0
        for a in before:
            k = at.get(id(a))
            if k is not None:
                k += parts[k].kind != kind
                if k > first:
                    first = k
        known = places.setdefault(kind, [])
        i = bisect.bisect_left(known, first)
        if i == len(known):
            known.append(len(parts))
            parts.append(Part(kind))
        k = at[id(node)] = known[i]
        parts[k].nodes.append(node)
    return [_worth_blocks(p) for p in parts]

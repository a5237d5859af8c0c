"""Cuts a program of large arrays into programs of few elements, where elements do not depend on each other.

Elementwise ops treat each element by itself, and a sum over all elements sends the same cotangent to each. So some
elements make a program of their own, whose check needs memory for these elements only. The ops that sum the elements
are checked once, over whole arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gtape.declare.primitives import REGISTRY, Primitive
from gtape.engine.rules import RuleStep
from gtape.engine.worlds import COMPLEX
from gtape.symbolic.program import Node, Program
from gtape.verify.judging.connected import followed
from gtape.verify.oracles.replay import longest_sum

__all__ = ["Chunk", "Chunks", "chunks_of"]

# Smaller chunks cost more checks of some milliseconds each; larger ones cost memory, because all values live at once.
_NUMBERS = 2048
_LARGE = 8 * _NUMBERS

_ROWS, _WHOLE, _TOTAL = "rows", "whole", "total"


class Chunk(NamedTuple):
    """Some elements of a program as a program, with their cotangents and claimed results."""

    program: Program
    seeds: list[Any]
    got: list[Any]
    place: slice


class Chunks:
    """The division of a program into chunks.

    Attributes
    ----------
    axis : int
        The axis along which the arrays are cut.
    length : int
        Number of rows along this axis.
    """

    def __init__(self, program: Program, kinds: list[str], shape: tuple[int, ...], axis: int) -> None:
        self.program, self.kinds, self.shape, self.axis = program, kinds, shape, axis
        self.length = shape[axis]
        self._step = max(1, _NUMBERS * self.length // math.prod(shape))

    def __len__(self) -> int:
        return -(-self.length // self._step)

    def cut(self, seeds: list[Any], got: list[Any]) -> Iterator[Chunk]:
        """Yield the chunks.

        Parameters
        ----------
        seeds : list of arrays or None
            Cotangent of each output.
        got : list of arrays or None
            The claimed gradient of each source.
        """
        for start in range(0, self.length, self._step):
            place = slice(start, min(start + self._step, self.length))
            program = _Copy(self, place).program
            parts = [
                c if c is None or self.kinds[i] != _ROWS else self.part(np.broadcast_to(c, self.shape), place)
                for i, c in zip(self.program.outputs, seeds, strict=True)
            ]
            yield Chunk(program, parts, [None if g is None else self.part(g, place) for g in got], place)

    def part(self, x: Any, place: slice) -> Any:
        """Some rows of an array."""
        return np.asarray(x)[(slice(None),) * self.axis + (place,)]

    def outside(self, finding: Any, place: slice) -> None:
        """Move the element of a chunk's finding to its place in the whole array."""
        if isinstance(finding.element, tuple) and len(finding.element[1]) == len(self.shape):
            of, index = finding.element
            moved = index[self.axis] + place.start
            finding.element = (of, (*index[: self.axis], moved, *index[self.axis + 1 :]))

    def used(self, parts: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """(op, argument) -> longest sum in the whole program, for each rule that took part in a chunk."""
        found: dict[tuple[str, int], int] = {}
        for node in self.program.nodes:
            for a in node.active if node.kind == "op" else ():
                key = (node.name, a)
                if (key if node.prim.mean_of is None else (REGISTRY["divide"].name, 0)) in parts:
                    n = longest_sum(node, self.program.nodes[node.inputs[a]].shape)
                    found[key] = max(found.get(key, 1), n)
        return found

    def rest(self) -> Program:
        """The program of the sums over all elements and the ops after them, on the recorded arrays."""
        return _Rest(self).program


class _Copy:
    """The program of one chunk: the same nodes with the values of the chunk."""

    def __init__(self, chunks: Chunks, place: slice) -> None:
        self.chunks, self.place = chunks, place
        self.program = Program()
        self.moved: dict[int, int] = {}
        old = chunks.program
        for node in old.nodes:
            self.node(node)
        self.program.outputs = [self.moved[i] for i in old.outputs]
        self.program.sources = [[self.moved[i] for i in nodes] for nodes in old.sources]
        self.program.session, self.program.stops = old.session, old.stops

    def node(self, node: Node) -> None:
        chunks = self.chunks
        kind = chunks.kinds[node.index]
        if kind == _ROWS:
            made = self.put(node, chunks.part(node.output, self.place))
            if node.kind == "op" and "spread" in node.prim.roles:
                made.params = {**node.params, "shape": np.shape(made.output)}
                made.step = RuleStep(node.prim, node.active, made.params, None, None)
        elif kind == _WHOLE:
            self.put(node, node.output)
        elif node.prim.mean_of is not None:
            self.mean(node, node.prim.mean_of)
        else:
            inputs = [self.program.nodes[self.moved[j]].output for j in node.inputs]
            self.put(node, _computed(node.prim, inputs, node.params, node.output))

    def put(self, node: Node, output: Any) -> Node:
        made = _copied(node, len(self.program.nodes), output)
        made.inputs = tuple([self.moved[j] for j in node.inputs])
        if node.mark is not None:
            m = node.mark
            made.mark = m._replace(
                targets=[self.moved[i] for i in m.targets],
                cotangents=[self.moved[i] for i in m.cotangents],
                sources=[[self.moved[i] for i in nodes] for nodes in m.sources],
                tangents=[self.moved[i] for i in m.tangents],
            )
        self.program.nodes.append(made)
        self.program.add_number(made)
        self.moved[node.index] = made.index
        return made

    def mean(self, node: Node, sums: Primitive) -> None:
        """Write the mean as a sum over the chunk's rows, divided by the number of all elements."""
        nodes = self.program.nodes
        (whole,) = [self.chunks.program.nodes[j].output for j in node.inputs]
        (x,) = [self.moved[j] for j in node.inputs]
        total = _copied(node, len(nodes), _computed(sums, [nodes[x].output], node.params, node.output))
        total.prim, total.inputs = sums, (x,)
        total.step = RuleStep(total.prim, node.active, node.params, None, None)
        n = Node(len(nodes) + 1, "const", np.asarray(np.size(whole) // np.size(node.output), total.output.dtype))
        divide = REGISTRY["divide"]
        quotient = _copied(node, len(nodes) + 2, _computed(divide, [total.output, n.output], {}, node.output))
        quotient.prim, quotient.inputs, quotient.params = divide, (total.index, n.index), {}
        quotient.step = RuleStep(quotient.prim, node.active, {}, None, None)
        quotient.flows = (*node.flows, None) if node.flows else ()
        nodes += [total, n, quotient]
        self.program.add_number(quotient)
        self.moved[node.index] = quotient.index


class _Rest:
    """The sums of a program and the ops after them; the summed arrays are leaves."""

    def __init__(self, chunks: Chunks) -> None:
        old, kinds = chunks.program, chunks.kinds
        self.program = Program()
        moved: dict[int, int] = {}
        wanted = {j for n in old.nodes if kinds[n.index] == _TOTAL for j in (n.index, *n.inputs)} | set(old.outputs)
        for node in old.nodes:
            if node.index not in wanted:
                continue
            index = moved[node.index] = len(self.program.nodes)
            if kinds[node.index] == _TOTAL:
                made = _copied(node, index, node.output)
                made.inputs = tuple([moved[j] for j in node.inputs])
            else:
                made = Node(index, "leaf", node.output, node.seq)
            self.program.nodes.append(made)
        self.program.outputs = [moved[i] for i in old.outputs]
        self.program.sources = []
        self.program.session, self.program.stops = old.session, old.stops


def _copied(node: Node, index: int, output: Any) -> Node:
    made = Node(index, node.kind, output, node.seq)
    made.prim, made.step, made.active, made.flows = node.prim, node.step, node.active, node.flows
    made.params, made.line = node.params, node.line
    return made


def _computed(prim: Primitive, inputs: list[Any], params: dict[str, Any], like: Any) -> Any:
    """The result of an op for other inputs, in the recorded dtype."""
    with np.errstate(all="ignore"):
        return np.asarray(getattr(COMPLEX, prim.name)(*map(np.asarray, inputs), **params), dtype=np.asarray(like).dtype)


def chunks_of(program: Program) -> Chunks | None:
    """The chunks of a program of large arrays; None for a small program, or if elements depend on each other."""
    sizes = {n.shape for nodes in program.sources for n in [program.nodes[i] for i in nodes]}
    shape = max(sizes, key=lambda s: math.prod(s), default=())
    if len(sizes) != 1 or math.prod(shape) < _LARGE:
        return None
    axis = int(np.argmax(shape))
    kinds: list[str] = []
    for node in program.nodes:
        kind = _kind_of(node, program, kinds, shape, axis)
        if kind is None:
            return None
        kinds.append(kind)
    if any(kinds[i] != _ROWS for nodes in program.sources for i in nodes):
        return None
    reached = followed(program)
    if any(kinds[i] == _WHOLE and i in reached for i in range(len(kinds))):
        return None
    found = Chunks(program, kinds, shape, axis)
    return found if len(found) > 1 else None


def _kind_of(node: Node, program: Program, kinds: list[str], shape: tuple[int, ...], axis: int) -> str | None:
    """The kind of a node: a value for each row, one for all rows, or a sum over all rows; None for other nodes."""
    if node.kind in ("leaf", "const"):
        return _of_a_value(np.shape(node.output), shape, axis)
    if node.kind != "op" or isinstance(node.output, tuple):
        return None
    if node.mark is not None and node.mark.form in ("jacobian", "batch_jacobian"):
        return None  # its rows are not those of its sources
    given = {kinds[j] for j in node.inputs}
    if node.prim.kind == "elementwise" or "pointwise" in node.prim.roles:
        if _TOTAL in given:
            return _TOTAL if _is_linear(node, [kinds[j] for j in node.inputs]) else None
        if _ROWS in given:
            return _ROWS if node.shape == shape else None
        return _WHOLE if _of_a_value(node.shape, shape, axis) == _WHOLE else None
    sums = "total" in node.prim.roles
    if sums or node.prim.mean_of is not None:
        if given == {_TOTAL}:
            return _TOTAL if sums else None
        summed = {a % len(shape) for a in np.atleast_1d(node.params["axis"]).tolist()}
        if given != {_ROWS} or axis not in summed:
            return None
        return _TOTAL if sums or _divides(program, node) else None
    if "spread" in node.prim.roles and given == {_WHOLE}:
        return _ROWS if node.shape == shape else _of_a_value(node.shape, shape, axis)
    if given == {_TOTAL} and _adds(node):
        return _TOTAL
    return None


def _divides(program: Program, node: Node) -> bool:
    """True if a mean can be written as a quotient: the count is exact in the dtype, and the node is not an inner
    gradient.
    """
    n = program.nodes[node.inputs[0]]
    count = math.prod(n.shape) // max(1, math.prod(node.shape))
    dtype = np.asarray(node.output).dtype
    return dtype.kind == "f" and count < 2 ** (np.finfo(dtype).nmant + 1) and node.mark is None


def _is_linear(node: Node, kinds: list[str]) -> bool:
    """True if an op is linear in its sums over all rows, so that sums over some rows have the same derivative."""
    if _adds(node):
        return _ROWS not in kinds
    totals = [i for i, kind in enumerate(kinds) if kind == _TOTAL]
    return kinds.count(_WHOLE) == len(kinds) - 1 and set(totals) <= set(node.prim.linear_in)


def _adds(node: Node) -> bool:
    """True if an op adds, subtracts or only moves numbers, which commutes with the sum over all rows."""
    if node.prim.kind == "elementwise":
        return all(isinstance(p, int) and p != 0 for p in node.prim.rules)
    return not node.prim.roles.isdisjoint({"conversion", "flat", "read"})


def _of_a_value(own: tuple[int, ...], shape: tuple[int, ...], axis: int) -> str | None:
    if own == shape:
        return _ROWS
    aligned = axis - (len(shape) - len(own))
    return _WHOLE if len(own) <= len(shape) and (aligned < 0 or own[aligned] == 1) else None

"""Writes constants that hold values which left the tape as ops on these values, which a tape may follow or not.

Without these ops a program keeps such a constant as a plain number, whose origin is unknown.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from gtape.declare.primitives import REGISTRY, Primitive
from gtape.engine.rules import RuleStep
from gtape.recording.record import SEQ
from gtape.recording.trace import Return
from gtape.symbolic.program import Node, Program
from gtape.verify.judging.reads import Reads

__all__ = ["Returns", "followed_through"]


class Returns:
    """The constants and variables' values of a program that hold values which left the tape.

    Parameters
    ----------
    found : iterable of Return
    sources : list of tensors or variables
        The values of the sources are the point of the derivative, wherever these values came from.
    reads : Reads, optional
        The values of the sources that the targets read. Values before the first of them are no point of the derivative.
    by_first : bool
        Whether values that the sources took after this first one count as values that left, too.
    """

    def __init__(
        self, found: Iterable[Return], sources: list[Any], reads: Reads | None = None, *, by_first: bool = False
    ) -> None:
        self._found: dict[int, list[Return]] = {}
        for r in sorted(found, key=lambda r: r.conversion.by_step):
            self._found.setdefault(id(r.constant), []).append(r)
        self._sources = {s._record[SEQ] for s in sources if s._record is not None}
        self._reads, self._by_first = reads, by_first

    def of(self, record: Any, value: Any) -> Return | None:
        """The returned value that a constant (no record) or a leaf holds; None if it holds no value that left."""
        is_source = record is not None and record[SEQ] in self._sources
        if is_source and not (self._by_first and self._reads is not None and self._reads.is_later(record[SEQ], value)):
            return None
        known: list[Return] = self._found.get(id(value), [])
        fits = [
            r for r in known
            if (record is None or record is not r.conversion.record) and (is_source or not r.conversion.by_step)
        ]  # fmt: skip
        return fits[-1] if fits else None

    def is_point(self, record: Any, value: Any) -> bool:
        """Whether a value of a source belongs to the point of the derivative."""
        return self._reads is None or not self._reads.is_earlier(record[SEQ], value)

    def nodes_of(self, found: Return, start: Node, index: int) -> list[Node]:
        """The ops that make a constant from the value that left; constants among these nodes are second inputs of the
        ops.

        Parameters
        ----------
        start : Node
            The value that left.
        index : int
            Of the first of the new nodes.
        """
        made: list[Node] = []

        def const(value: Any) -> int:
            made.append(Node(index + len(made), "const", value))
            return made[-1].index

        def op(prim: Primitive, output: Any, inputs: tuple[int, ...], active: int, **params: Any) -> int:
            node = Node(index + len(made), "op", output)
            node.prim, node.params, node.inputs, node.active = prim, params, inputs, (active,)
            node.step = RuleStep(node.prim, node.active, params, None, None)
            node.flows = (None,) * len(inputs)
            node.line = found.conversion.line
            made.append(node)
            return node.index

        constant, there = found.constant, np.asarray(found.constant)
        here, last = np.asarray(start.output), start.index
        places = found.places
        if here.dtype != there.dtype:
            with np.errstate(all="ignore"):
                here = here.astype(there.dtype)
            last = op(REGISTRY["cast"], here, (last,), 0, dtype=there.dtype)
        if not np.array_equal(places.ravel(), np.arange(here.size)):
            here = here.reshape(-1)
            last = op(REGISTRY["reshape"], here, (last,), 0, shape=here.shape)
            at = np.maximum(places, 0)
            here = here[at]
            last = op(REGISTRY["gather"], here, (last, const(at)), 0, axis=-1, size=int(np.size(start.output)))
            if (places < 0).any():
                here = np.where(places >= 0, here, there)
                last = op(REGISTRY["where"], here, (const(places >= 0), last, const(there)), 1)
        if (found.signs < 0).any():
            signs = found.signs.astype(there.dtype)
            last = op(REGISTRY["multiply"], here * signs, (last, const(signs)), 0)
        op(REGISTRY["reshape"], constant, (last,), 0, shape=there.shape)
        return made


def followed_through(program: Program, only: Collection[Any] | None = None) -> Program:
    """A copy of a program in which all tapes follow the values that left into the constants that hold them.

    A value that a source took is then no source any more. Only the tape that takes the gradient follows it, because
    the inner gradients are the numbers that their tapes returned.

    Parameters
    ----------
    only : collection of Conversion, optional
        The values that tapes follow; all by default.
    """
    open_ = {i: last for i, (r, last) in program.returned.items() if only is None or r.conversion in only}
    sources = {i for nodes in program.sources for i in nodes if i in open_}
    of_sources = {id(program.returned[i][0]) for i in sources}
    alone = {i for i in open_ if id(program.returned[i][0]) in of_sources}
    open_.update(dict.fromkeys(alone, False))  # the ops that read a source stay followed or not, as they were recorded
    made = copy.copy(program)
    if alone:  # a session of its own, because inner gradients may belong to the same tape
        made.session = copy.copy(program.session)
    sessions = {s for n in program.nodes for flow in n.flows for s in flow or ()} | {program.session, made.session}
    everywhere = frozenset(sessions | {n.mark.session for n in program.nodes if n.mark is not None})
    only_own = frozenset([made.session])
    made.nodes = []
    for node in program.nodes:
        if node.index in alone:
            opened = _opened(node, open_, only_own)
        else:
            opened = _opened(_also_of(node, program.session, only_own), open_, everywhere)
            if node.index not in open_ and not node.active and opened.active:
                open_[node.index] = True  # an op on such a constant alone, which the tape did not record
        made.nodes.append(opened)
    made.sources = [[i for i in nodes if i not in sources] for nodes in program.sources]
    made._blocked = {}
    return made


def _also_of(node: Node, session: Any, own: frozenset[Any]) -> Node:
    """A node whose inputs one more session follows wherever a session follows them."""
    if own == {session} or not any(session in (flow or ()) for flow in node.flows):
        return node
    made = copy.copy(node)
    made.flows = tuple([flow | own if session in (flow or ()) else flow for flow in node.flows])
    return made


def _opened(node: Node, open_: dict[int, bool], everywhere: frozenset[Any]) -> Node:
    """A node; its inputs are followed if it is part of such a constant, or reads such a constant."""
    more = [a for a, j in enumerate(node.inputs) if node.kind == "op" and open_.get(j) and node.prim.connected(a)]
    if node.index in open_:
        more += node.active
    if not more:
        return node
    made = copy.copy(node)
    made.active = tuple(sorted({*node.active, *more}))
    flows = list(node.flows or [everywhere] * len(node.inputs))
    for a in more:
        flows[a] = everywhere
    made.flows = tuple(flows)
    old = node.step
    made.step = RuleStep(node.prim, made.active, node.params, old.layouts, old.out_layout, old.world)
    return made

"""The records that a traced call makes for the tape around the call, and the nodes of a sweep over the records.

A later call makes equal records from its own values.
"""

from __future__ import annotations

from typing import Any

from gtape.base.escaping import plain
from gtape.base.layout import FLOAT, make_layout
from gtape.engine.call import new_record
from gtape.engine.rules import RuleStep
from gtape.engine.whole_calls import Between, OneOp
from gtape.engine.worlds import NUMPY
from gtape.recording import record
from gtape.recording.record import INS, OTHER, OUT, PARENTS, SEQ, STEP, TAPES, Record, Session, parents_of, step_of
from gtape.tapes.rewriting import reads, replaced
from gtape.tapes.traced_values import Node, Raw, Traced, Untraceable
from gtape.tensors.tensor import Tensor

__all__ = ["Graph", "SweepNodes", "interned"]


class Graph:
    """The records of the ops of a traced call.

    Parameters
    ----------
    session : Session
    since : int
        The sequence number of the newest record from before the call.
    given : list of Traced
        The arguments.
    variables : dict
        The variables that the tape watches, by the number of the input.
    """

    def __init__(self, session: Session, since: int, given: list[Traced], variables: dict[int, Any]) -> None:
        self._session, self._since = session, since
        self._arguments = {id(t): k for k, t in enumerate(given)}
        # The numbers of the inputs by the identities of their records.
        self._inputs = {id(t._record): k for k, t in enumerate(given) if t._record is not None}
        self._inputs |= {id(v._record): k for k, v in variables.items()}
        self.records: list[Record] = []  # from new to old
        self._numbers: dict[int, int] = {}  # the indices of the ops in `ops` by the identities of their records
        self.edges: list[int] = []
        self.leaves: list[Record] = []
        self._parents: dict[int, list[int | None]] = {}  # as in `OneOp`, but with the identities of records for ops

    def _is_op(self, r: Record) -> bool:
        return r[STEP] is not None and r[SEQ] < self._since

    def input_of(self, start: Record) -> int | None:
        """The number of the argument whose record a result has; None if an op made the record."""
        k = self._inputs.get(id(start))
        if k is not None and k >= len(self._arguments):
            raise Untraceable("returns a variable that the tape watches")
        return k

    def gather(self, starts: list[Record]) -> None:
        """Find the ops behind results. Each op gets its own leaf for every input that it reads."""
        if not all([self._is_op(start) for start in starts]):  # noqa: C419 - a list is quicker
            raise Untraceable("returns a tensor of the tape that is no argument")
        found = {id(start): start for start in starts}
        pending = list(starts)
        while pending:
            r = pending.pop()
            step = step_of(r)
            if step.__class__ is not RuleStep or step.world is not NUMPY or step.prim.sparse is not None:
                raise Untraceable(f"calls {_named(r)}")
            for p in parents_of(r):
                if self._session not in p[TAPES].sessions or id(p) in self._inputs or id(p) in found:
                    continue
                if not self._is_op(p):
                    raise Untraceable("depends on a tensor of the tape that is no argument")
                found[id(p)] = p
                pending.append(p)
        self.records = sorted(found.values(), key=lambda r: r[SEQ])
        self._numbers = {id(r): k for k, r in enumerate(reversed(self.records))}
        for r in self.records:
            places: list[int | None] = []
            parents = []
            for p in parents_of(r):
                k = self._inputs.get(id(p))
                if k is not None:
                    places.append(~len(self.edges))
                    self.edges.append(k)
                    p = record.leaf(self._session.alone)
                    self.leaves.append(p)
                else:
                    places.append(id(p) if id(p) in found else None)
                parents.append(p)
            self._parents[id(r)] = places
            again = new_record(r[STEP], parents, r[INS], r[OUT], r[TAPES])
            r[PARENTS], r[OTHER] = again[PARENTS], again[OTHER]
        if not self.edges:
            raise Untraceable("has a result without a gradient")

    def uses(self) -> list[list[int]]:
        """For each input the numbers of its edges."""
        found: dict[int, list[int]] = {}
        for edge, k in enumerate(self.edges):
            found.setdefault(k, []).append(edge)
        return list(found.values())

    def number(self, r: Record) -> int:
        """The index of an op in `ops`."""
        return self._numbers[id(r)]

    def ops(self) -> tuple[list[OneOp], list[Any]]:
        """The ops with their parts of the record of a later call, and the values that the records hold."""
        numbers = self._numbers
        values: list[Any] = []
        places: dict[int, int] = {}

        def number(raw: Any) -> int:
            value = raw.node if raw.__class__ is Raw else raw
            if id(value) not in places:
                places[id(value)] = len(values)
                values.append(value)
            return places[id(value)]

        def kept(t: Any) -> Any:
            if t is None or t.__class__ is Tensor:
                return t
            r = t._record
            k = self._arguments.get(id(t), None if r is None else self._inputs.get(id(r)))
            return k if k is not None else Between(number(t._value), None if r is None else numbers.get(id(r)))

        made = []
        for r in reversed(self.records):
            parents = tuple([p if p is None or p < 0 else numbers[p] for p in self._parents[id(r)]])
            step = step_of(r)
            quick = _quick_step(step, r) if step.layouts is None else None
            if quick is not None:
                made.append(OneOp(quick, parents, *_fields(step, [kept(t) for t in r[INS]], number(r[OUT]))))
                continue
            given, out = step.layouts or [t._layout for t in r[INS]], step.out_layout or r[INS][0]._layout
            ins = None if r[INS] is None else tuple([kept(t) for t in r[INS]])
            step = RuleStep(step.prim, step.active, step.params, tuple([interned(a) for a in given]), interned(out))
            made.append(OneOp(step, parents, ins, None if r[OUT] is None else number(r[OUT])))
        return made, values


def _named(r: Record) -> str:
    """An op whose record stands for more than a rule, and why."""
    step = step_of(r)
    if step.prim is None:  # one output of several
        return f"{plain(step_of(r[PARENTS]).prim.name)}, which has several results"
    if step.prim.sparse is not None:
        return f"{plain(step.prim.name)}, which has sparse gradients"
    return f"{plain(step.prim.name)}, whose record stands for more than a rule"


def _quick_step(step: RuleStep, r: Record) -> Any:
    """The step of the generated function of an elementwise op; None if the function makes no records like these."""
    k = 0 if len(r[INS]) == 1 else {(0,): 0, (1,): 1, (0, 1): 2}[step.active]
    scalar = interned(r[INS][0]._layout) is FLOAT
    return getattr(step.prim.function, "names", {}).get(f"step{k}_s" if scalar else f"step{k}")


def _fields(step: RuleStep, tensors: list[Any], value: int) -> tuple[Any, int | None, Any]:
    """INS, OUT and the second input of a record of a generated function, as in `OneOp`."""
    reads: frozenset[Any] = frozenset().union(*[step.prim.reads[i] for i in step.active])
    kept = [t for i, t in enumerate(tensors) if i in reads]
    out = value if "y" in reads else None
    if len(kept) < 2:
        return (*kept, None)[0], out, None
    return (tuple(kept), out, None) if "y" in reads else (kept[0], None, kept[1])


def interned(layout: Any) -> Any:
    """The interned layout for traced tensors, which have layouts of their own."""
    return make_layout(layout.dtype, layout.shape)


class SweepNodes:
    """Separates the nodes of a sweep from the nodes of the call.

    Parameters
    ----------
    nodes : list of Node
        The nodes of the sweep.
    given : list of Node
        The cotangents.
    """

    def __init__(self, nodes: list[Node], given: list[Node]) -> None:
        self._own = {*nodes, *given}
        self.nodes = nodes
        self.read: dict[Node, Node] = {}  # nodes of the call, each with the input of the sweep that stands for it
        for node in nodes:
            for a in (*node.args, *node.words.values()):
                for v in reads(a, []):
                    self.stand_in(v)
            node.args = replaced(node.args, self.read)
            if node.words:
                node.words = {k: replaced(v, self.read) for k, v in node.words.items()}

    def stand_in(self, node: Node) -> Node:
        """The node of the sweep that stands for a node of the call, or the node itself."""
        if node in self._own:
            return node
        if node not in self.read:
            self.read[node] = Node(None, (), {}, node.sample, None)
        return self.read[node]

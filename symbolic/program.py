"""Program: a recorded computation as a list of let-bound assignments.

Every node is assigned once, so an expression never grows: whoever evaluates a program (floats, SymPy, balls, jets)
keeps one value a node and is linear in its length. A gradient that was taken under an outer tape is there as the ops
that computed it, with a mark (`GradMark`) on each result that says of what, and with respect to what, it is the
gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.recording.record import PARENTS, SEQ, STEP, TAPES, TRACE, Session, step_of
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor

__all__ = ["GradMark", "Node", "Program", "build", "trace"]


class Node:
    """One assignment.

    Attributes
    ----------
    index : int
        Position in the program.
    kind : {"leaf", "const", "op", "custom", "item"}
    prim : Primitive or None
    inputs : tuple of int
        The nodes it reads.
    active : tuple of int
        Which inputs a gradient flows to.
    flows : tuple of frozenset or None
        For each input the tapes' sessions that follow it back; None for all.
    params : dict
        Static parameters.
    output : raw value or tuple
        What the recording computed.
    seq : int
        The record's number, which identifies it.
    line : (file, number, function) or None
        Where the user's code made it.
    """

    __slots__ = (
        "active", "body", "flows", "index", "inputs", "kind", "line", "mark", "output", "params", "prim", "pull", "seq",
    )  # fmt: skip

    def __init__(self, index: int, kind: str, output: Any, seq: int = 0) -> None:
        self.index = index
        self.kind = kind
        self.output = output
        self.seq = seq
        self.prim: Any = None
        self.pull: Any = None
        self.inputs: tuple[int, ...] = ()
        self.active: tuple[int, ...] = ()
        self.flows: tuple[Any, ...] = ()
        self.params: dict[str, Any] = {}
        self.line: Any = None
        self.body: tuple[int, ...] = ()
        self.mark: GradMark | None = None

    @property
    def name(self) -> str:
        """The op's name, or the kind of leaf; fit for messages, because a custom gradient may have any name."""
        return plain(self.prim.name) if self.prim is not None else self.kind

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.output)

    def apply(self, world: Any, arguments: list[Any]) -> Any:
        """The op in a world; where equations define the output, the recorded one says which of their solutions."""
        function = getattr(world, self.prim.name)
        if self.prim.kind != "implicit":
            return function(*arguments, **self.params)
        from gtape.symbolic.implicit import recorded

        with recorded(self.output):
            return function(*arguments, **self.params)

    def __repr__(self) -> str:
        return f"v{self.index} = {self.name}({', '.join(f'v{i}' for i in self.inputs)})"


class GradMark:
    """What a gradient node is the gradient of.

    Attributes
    ----------
    key : int
        The same for all results of one call of gradient().
    targets, cotangents, sources : lists of node indices
    which : int
        The source that this result belongs to.
    session : Session
        Of the tape that took the gradient.
    """

    __slots__ = ("cotangents", "key", "session", "sources", "targets", "which")

    def __init__(
        self,
        key: int,
        targets: list[int],
        cotangents: list[int],
        sources: list[list[int]],
        which: int,
        session: Any = None,
    ) -> None:
        self.key = key
        self.targets = targets
        self.cotangents = cotangents
        self.sources = sources
        self.which = which
        self.session = session


class Program:
    """A recorded computation.

    Attributes
    ----------
    nodes : list of Node
        In an order in which every node comes after what it reads.
    outputs : list of int
        The nodes of the targets.
    sources : list of list of int
        For each source, the nodes that are it: several where a variable was assigned between two reads.
    session : Session or None
        Of the tape that is asked for the gradient: what it did not record is constant to it. None: nothing is.
    stops : frozenset of int
        Record numbers of further constants for that gradient, such as the ``stop_gradients`` of `gtape.gradients`.

    Examples
    --------
    >>> import gtape as tf
    >>> program = tf.symbolic.trace(lambda x: tf.sin(x) * x, tf.constant(2.0))
    >>> [text for _, text in program.assignments]
    ['sin(v0)', 'multiply(v1, v0)']
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.outputs: list[int] = []
        self.sources: list[list[int]] = []
        self.by_seq: dict[int, list[int]] = {}
        self.session: Any = None
        self.stops: frozenset[int] = frozenset()
        self._blocked: dict[Any, dict[int, frozenset[int]]] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def assignments(self) -> list[tuple[str, str]]:
        """(name, right-hand side) of every op, as text."""
        return [(f"v{n.index}", _call_text(n)) for n in self.nodes if n.kind in ("op", "custom", "item")]

    def blocked(self, session: Any) -> dict[int, frozenset[int]]:
        """Node -> those of its active inputs that a tape does not follow back; nodes without any are left out.

        A tape follows neither what it did not record (it was paused, or not there yet) nor what lies behind a result
        that it watches.
        """
        if session is None:
            return {}
        if not isinstance(session, Session):
            raise TypeError(f"Program.blocked takes the session of a tape, not {shown(session)}")
        found = self._blocked.get(session)
        if found is None:
            found = self._blocked[session] = {}
            stops = self.stops.union(session.stops) if session is self.session else session.stops
            for node in self.nodes:
                inputs = node.active
                if node.seq not in stops:
                    inputs = tuple([a for a in inputs if node.flows and session not in (node.flows[a] or ())])
                if inputs:
                    found[node.index] = frozenset(inputs)
        return found

    def ancestors(self, targets: Iterable[int]) -> list[int]:
        """The nodes that the targets depend on, themselves included, in order."""
        seen: set[int] = set()
        pending = _numbers_of(targets)
        for i in pending:
            if not isinstance(i, (int, np.integer)) or isinstance(i, np.timedelta64) or not 0 <= i < len(self.nodes):
                raise ValueError(f"Program: there are nodes 0 to {len(self.nodes) - 1}, not {shown(i)}")
        while pending:
            i = pending.pop()
            if i not in seen:
                seen.add(i)
                pending.extend(self.nodes[i].inputs)
                pending.extend(self.nodes[i].body)
        return sorted(seen)

    def evaluate(
        self, world: Any, values: dict[int, Any] | None = None, only: Iterable[int] | None = None
    ) -> dict[int, Any]:
        """Run the program in a world.

        Parameters
        ----------
        world : object-array world
            Its `lift` takes recorded values, its attributes are the mirrors.
        values : dict, optional
            Given values of some nodes, in the world's own form.
        only : iterable of int, optional
            The nodes to evaluate, in order; all by default.

        Returns
        -------
        dict
            Node index -> value.
        """
        if not hasattr(world, "lift"):
            raise TypeError(f"Program.evaluate: `world` must be one of gtape.symbolic, not {shown(world)}")
        if values is not None and not isinstance(values, dict):
            raise TypeError(f"Program.evaluate: `values` must be a dict, not {shown(values)}")
        if only is not None:
            only = _numbers_of(only)
        env: dict[int, Any] = dict(values or {})
        for i in range(len(self.nodes)) if only is None else only:
            if i not in env:
                env[i] = self.step(world, self.nodes[i], env)
        return env

    def step(self, world: Any, node: Node, env: dict[int, Any]) -> Any:
        """The value of one node, from those of its inputs."""
        if not isinstance(node, Node):
            raise TypeError(f"Program.step takes a node of the program, not {shown(node)}")
        if node.kind in ("leaf", "const"):
            return world.lift(node.output)
        if node.kind == "item":
            whole = env[node.inputs[0]]
            return whole[node.params["index"]]
        if node.kind == "custom":
            made = [env[i] for i in node.body]
            return tuple(made) if isinstance(node.output, tuple) else made[0]
        return node.apply(world, [env[i] for i in node.inputs])

    def expr(self) -> Any:
        """The output as a SymPy expression in x0, x1, ... (several: a list of them); see `gtape.symbolic.display`."""
        from gtape.symbolic.display import expressions

        found = expressions(self)
        return found[0] if len(found) == 1 else found

    def latex(self) -> str:
        """The outputs in LaTeX, one line each."""
        from gtape.symbolic.display import latex

        return latex(self)

    def to_mermaid(self) -> str:
        """The program as a Mermaid flowchart."""
        from gtape.symbolic.display import mermaid

        return mermaid(self)

    def __str__(self) -> str:
        return "\n".join(f"{a} = {b}" for a, b in self.assignments)


def _numbers_of(nodes: Any) -> list[Any]:
    try:
        return list(nodes)
    except TypeError:
        raise TypeError(f"Program: a list of nodes' numbers is needed, not {shown(nodes)}") from None


def _call_text(n: Node) -> str:
    words = [f"v{i}" for i in n.inputs] + [f"{k}={v!r}" for k, v in n.params.items()]
    return f"{n.name}({', '.join(words)})"


class _Builder:
    def __init__(self) -> None:
        self.program = Program()
        self.found: dict[Any, int] = {}

    def add(self, kind: str, output: Any, seq: int) -> Node:
        node = Node(len(self.program.nodes), kind, output, seq)
        self.program.nodes.append(node)
        if kind != "const":
            self.program.by_seq.setdefault(seq, []).append(node.index)
        return node

    @staticmethod
    def _key(record: Any, value: Any) -> Any:
        if record is None:
            return ("const", id(value))
        if record[STEP] is None or not _traced(record):
            return (record[SEQ], id(value) if not isinstance(value, float) else value)  # one node for each value read
        return record[SEQ]

    def visit(self, roots: list[tuple[Any, Any]]) -> None:
        """Add the nodes of (record, value) pairs and of all that they depend on, without recursion."""
        pending = [(r, v, False) for r, v in reversed(roots)]
        while pending:
            record, value, ready = pending.pop()
            key = self._key(record, value)
            if key in self.found:
                continue
            if record is None or record[STEP] is None or not _traced(record):
                node = self.add("const" if record is None else "leaf", value, 0 if record is None else record[SEQ])
                self.found[key] = node.index
                self.keep.append(value)
                continue
            needs = _needs(record)
            if not ready:
                pending.append((record, value, True))
                pending.extend((r, v, False) for r, v in reversed(needs))
                continue
            self.finish(record, key)

    keep: list[Any]

    def finish(self, record: Any, key: Any) -> None:
        pull = step_of(record)
        if pull.prim is None:  # one output of an op with several
            parent = record[PARENTS]
            whole = self.found[parent[SEQ]]
            node = self.add("item", self.program.nodes[whole].output[pull.index], record[SEQ])
            node.inputs, node.active = (whole,), (0,)
            node.params = {"index": pull.index}
            node.line = self.program.nodes[whole].line
            self.found[key] = node.index
            return
        t = record[TRACE]
        kind = "custom" if pull.prim.kind == "custom" else "op"
        node = self.add(kind, t.output, record[SEQ])
        node.prim, node.pull, node.active, node.params, node.line = pull.prim, pull, pull.active, pull.params, t.line
        node.flows = t.flows
        node.inputs = tuple(self.found[self._key(r, x._value)] for r, x in zip(t.origins, t.inputs, strict=True))
        if kind == "custom":
            node.body = tuple(self.found[self._key(r, x._value)] for r, x in zip(t.body_origins, t.body, strict=True))
        elif t.body is not None:
            g = t.body
            node.mark = GradMark(
                id(g.targets),  # one list for all results of one call
                [self.found[self._key(r, v)] for r, v in _targets_of(g) if v is not None],
                [
                    self.found[self._key(*c)]
                    for c, (_, v) in zip(g.cotangents, _targets_of(g), strict=True)
                    if v is not None
                ],
                [self.nodes_of(r) for r, _ in g.sources],
                g.index,
                g.session,
            )
        self.found[key] = node.index

    def nodes_of(self, r: Any) -> list[int]:
        return [] if r is None else list(self.program.by_seq.get(r[SEQ], []))


def _traced(record: Any) -> bool:
    if record[STEP] is not None and step_of(record).prim is None:
        return _traced(record[PARENTS])
    return len(record) > TRACE and record[TRACE] is not None


def _needs(record: Any) -> list[tuple[Any, Any]]:
    """What must be there before a record's node can be made: (record, value) of its inputs."""
    pull = step_of(record)
    if pull.prim is None:
        return [(record[PARENTS], None)]
    t = record[TRACE]
    needs = [(r, x._value) for r, x in zip(t.origins, t.inputs, strict=True)]
    if pull.prim.kind == "custom":
        needs += [(r, x._value) for r, x in zip(t.body_origins, t.body, strict=True)]
    elif t.body is not None:
        needs += [(r, v) for r, v in _targets_of(t.body) if v is not None]
        needs += t.body.cotangents
    return needs


def _targets_of(g: Any) -> list[tuple[Any, Any]]:
    """(record, value) of what a gradient was taken of; value None for a leaf that is no source: it adds nothing."""
    sources = {r[SEQ]: value for r, value in g.sources if r is not None}
    found = []
    for r in g.targets:
        if r[STEP] is None or not _traced(r):
            found.append((r, sources.get(r[SEQ])))
        elif step_of(r).prim is None:
            found.append((r, r[PARENTS][TRACE].output[step_of(r).index]))
        else:
            found.append((r, r[TRACE].output))
    return found


def _reached(r: Any, session: Any, targets: list[Any]) -> bool:
    """Whether a tape's gradient may arrive at a source: it watches or recorded it, or it is a target itself."""
    return r is None or session is None or session in r[TAPES].sessions or any(r is t for t in targets)


def build(targets: list[tuple[Any, Any]], sources: list[Any], session: Any = None) -> Program:
    """The program that computed some targets.

    Parameters
    ----------
    targets : list of (record, value)
    sources : list of tensors or variables
    session : Session, optional
        Of the tape whose gradients are in question.

    Returns
    -------
    Program
    """
    b = _Builder()
    b.program.session = session
    b.keep = []
    b.visit([(r, v) for r, v in targets])
    for r, v in targets:
        b.program.outputs.append(b.found[b._key(r, v)])
    asked = [r for r, _ in targets]
    b.program.sources = [b.nodes_of(s._record) if _reached(s._record, session, asked) else [] for s in sources]
    return b.program


@diagnosed
def trace(f: Callable[..., Any], *args: Any) -> Program:
    """Record what a function does to its arguments.

    Parameters
    ----------
    f : callable
        Takes tensors, returns a tensor or a nest of tensors.
    *args : tensor, array or number
        Where to run it; Python floats are taken as float64.

    Returns
    -------
    Program

    Raises
    ------
    TypeError
        When the function returns what is no tensor.

    Examples
    --------
    >>> import gtape
    >>> print(gtape.symbolic.trace(lambda x: gtape.sin(x) * x, 0.5))
    v1 = sin(v0)
    v2 = multiply(v1, v0)
    """
    from gtape import nest
    from gtape.tapes.tape import GradientTape

    checks.function("trace", "f", f)
    tensors = [as_input(a) for a in args]
    with GradientTape(persistent=True, verify=True) as tape:
        tape.watch([t for t in tensors if t._aval.inexact])
        y = f(*tensors)
    outs = list(nest.flatten(y))
    for t in outs:
        if not hasattr(t, "_aval"):
            raise TypeError(f"the function returned {type(t).__name__}; it must return tensors, or a structure of them")
    program = build([(t._record, t._value) for t in outs], tensors)
    return program


def as_input(x: Any) -> Tensor:
    """A fresh tensor for one argument: numbers and lists as float64, arrays and tensors in their own dtype."""
    from gtape.tensors.tensor import is_tensor, wrap

    if is_tensor(x):
        return wrap(np.array(x._as_tensor()._value if not isinstance(x, Tensor) else x._value))
    if isinstance(x, (np.ndarray, np.generic)):
        return wrap(np.array(x))
    try:
        array = np.asarray(x)
    except (TypeError, ValueError):  # lists of different lengths
        array = np.empty((), object)
    if array.dtype == object:
        raise ValueError(f"an argument must be a tensor, an array or numbers, not {shown(x)}") from None
    return wrap(array.astype(np.float64) if array.dtype.kind in "if" and array.dtype.itemsize >= 4 else array)

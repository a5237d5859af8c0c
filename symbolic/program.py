"""Program: a recorded computation as a list of let-bound assignments.

Each node is assigned once, so expressions never grow. An evaluation (with floats, SymPy, enclosures or jets) keeps one
value for each node, and its cost is linear in the length of the program. If a gradient was taken under an outer tape,
the program contains the ops that computed the gradient. A mark (`GradMark`) on each result of the gradient names
targets and sources.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.recording.record import Session

__all__ = ["GradMark", "Node", "Program", "Recomputed"]


# Users know the nodes without an op by these words.
_WORDS = {"leaf": "input", "const": "constant"}


class Node:
    """One assignment.

    Attributes
    ----------
    index : int
        The position in the program.
    kind : {"leaf", "const", "op", "custom", "item"}
    prim : Primitive or None
    inputs : tuple of int
        The nodes that the assignment reads.
    active : tuple of int
        The inputs that a gradient flows to.
    flows : tuple of frozenset or None
        For each input the sessions of the tapes whose gradients flow back to it. None stands for all sessions.
    params : dict
        Static parameters.
    output : raw value or tuple
        The recorded result.
    seq : int
        The sequence number of the record, which identifies the record.
    line : (file, number, function) or None
        The line of the user's code that ran the op, or whose op has this op in its rule.
    rule_of : str or None
        The op of the user's code whose rule ran the op.
    call : (function, arguments, keyword arguments) or None
        The call of a custom gradient's function.
    begun : int
        The sequence number from before the function ran; the records of its body have smaller ones.
    """

    __slots__ = (
        "active", "begun", "body", "call", "flows", "index", "inputs", "kind", "line", "mark", "output", "params",
        "prim", "rule_of", "seq", "step",
    )  # fmt: skip

    def __init__(self, index: int, kind: str, output: Any, seq: int = 0) -> None:
        self.index = index
        self.kind = kind
        self.output = output
        self.seq = seq
        self.prim: Any = None
        self.step: Any = None
        self.inputs: tuple[int, ...] = ()
        self.active: tuple[int, ...] = ()
        self.flows: tuple[Any, ...] = ()
        self.params: dict[str, Any] = {}
        self.line: Any = None
        self.rule_of: str | None = None
        self.body: tuple[int, ...] = ()
        self.call: Any = None
        self.begun = 0
        self.mark: GradMark | None = None

    def __copy__(self) -> Node:
        made = Node(self.index, self.kind, self.output, self.seq)
        for name in self.__slots__:
            setattr(made, name, getattr(self, name))
        return made

    def __getstate__(self) -> Any:
        # A pickle leaves out the call of a custom gradient, because its function is mostly a closure.
        return None, {name: None if name == "call" else getattr(self, name) for name in self.__slots__}

    @property
    def name(self) -> str:
        """The op's name, or a word for a node without an op. Printable, because a custom gradient may have any name."""
        return plain(self.prim.name) if self.prim is not None else _WORDS.get(self.kind, self.kind)

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.output)

    def apply(self, world: Any, arguments: list[Any]) -> Any:
        """Run the op in a world. If equations define the output, the recorded output selects the solution."""
        function = getattr(world, self.prim.name)
        if self.prim.kind != "implicit":
            made = function(*arguments, **self.params)
        else:
            from gtape.symbolic.implicit import recorded

            with recorded(self.output):
                made = function(*arguments, **self.params)
        if self.prim.kind != "elementwise" and self.prim.place.outside and _shapes(made) != _shapes(self.output):
            shapes = f"{_shapes(made)}, and its kernel {_shapes(self.output)}"
            raise ValueError(f"the mirror of {self.prim.name!r} gives the shape {shapes}")
        return made

    def __repr__(self) -> str:
        return f"v{self.index} = {self.name}({', '.join(f'v{i}' for i in self.inputs)})"


def _shapes(value: Any) -> Any:
    return [np.shape(v) for v in value] if isinstance(value, (tuple, list)) else np.shape(value)


class GradMark(NamedTuple):
    """The targets and the source of a gradient node: a derivative that the program itself takes.

    Attributes
    ----------
    key : int
        A number that all results of one call of gradient(), jacobian() and so on share.
    targets, sources : lists of node indices
    cotangents : list of node indices
        One for each target of a gradient. Empty for other forms.
    which : int
        The source to which this result belongs.
    session : Session
        The session of the tape or accumulator that took the derivative.
    form : {"gradient", "jacobian", "batch_jacobian", "jvp"}
        The method that returned the result.
    tangents : list of node indices
        One for each source of a jvp. Empty for other forms.
    """

    key: int
    targets: list[int]
    cotangents: list[int]
    sources: list[list[int]]
    which: int
    session: Any = None
    form: str = "gradient"
    tangents: Sequence[int] = ()

    @property
    def reads(self) -> list[int]:
        """The nodes on which the derivative depends."""
        return [*self.targets, *self.cotangents, *self.tangents]


class Recomputed(NamedTuple):
    """A call of a function that the backward pass runs again.

    Attributes
    ----------
    call : (function, arguments, keyword arguments) or None
        None in a pickle, because functions are mostly closures.
    output : raw value or tuple
        The recorded results.
    name : str
    line : (file, number, function)
        The user's line.
    """

    call: Any
    output: Any
    name: str
    line: Any


class Program:
    """A recorded computation.

    Attributes
    ----------
    nodes : list of Node
        Every node comes after the nodes that it reads.
    outputs : list of int
        The nodes of the targets.
    sources : list of list of int
        For each source its nodes. There are several if a variable was assigned between two reads.
    session : Session or None
        The session of the tape that takes the gradient. Ops that the session did not record are constants. With None no
        op is a constant.
    stops : frozenset of int
        Sequence numbers of additional constants, such as the ``stop_gradients`` of `gtape.gradients`.
    returned : dict
        For each node that makes a constant from a value which left the tape (see `gtape.symbolic.build`): the `Return`,
        and whether the node is the constant itself, as ops read it.
    recomputed : list of Recomputed
        The calls of functions that the backward pass runs again. The ops of their bodies are nodes of the program.

    passes_stops : bool
        Whether a check decided which stops in the bodies of custom gradients pass derivatives on.

    A pickle keeps the program, except the functions of custom gradients.

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
        self.by_seq: dict[int, tuple[int, ...]] = {}
        self.session: Any = None
        self.stops: frozenset[int] = frozenset()
        self.returned: dict[int, tuple[Any, bool]] = {}
        self.recomputed: list[Recomputed] = []
        self.passes_stops = False
        self._blocked: dict[Any, dict[int, frozenset[int]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_blocked": {}, "recomputed": [r._replace(call=None) for r in self.recomputed]}

    def __len__(self) -> int:
        return len(self.nodes)

    def replace_steps(self, steps: dict[int, Any]) -> dict[int, Any]:
        """Give nodes other steps, and so other ops or other active inputs. Returns the steps that they had."""
        before = {}
        for i, step in steps.items():
            node = self.nodes[i]
            before[i] = node.step
            node.prim, node.step, node.active = step.prim, step, step.active
        self._blocked.clear()
        return before

    def add_number(self, node: Node) -> None:
        """Find the node by its sequence number, too."""
        self.by_seq[node.seq] = (*self.by_seq.get(node.seq, ()), node.index)

    @property
    def assignments(self) -> list[tuple[str, str]]:
        """The name and the right-hand side of every op, as text."""
        return [(f"v{n.index}", _call_text(n)) for n in self.nodes if n.kind in ("op", "custom", "item")]

    def blocked(self, session: Any) -> dict[int, frozenset[int]]:
        """For each node the active inputs to which a tape sends no gradient. Nodes without such inputs are left out.

        A tape sends no gradient through ops that it did not record (because it was paused or not yet open), nor to the
        inputs of a result that it watches.
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

    @property
    def run_by_users_rules(self) -> dict[int, list[int]]:
        """For each custom gradient the nodes that its gradient function ran, in inner gradients.

        Declared custom gradients and recomputed functions are left out, because the user means the former as they are
        and wrote the latter as values.
        """
        customs = [n for n in self.nodes if n.kind == "custom" and n.prim.declared is None and n.step.spans]
        if not customs:
            return {}
        numbered = sorted([(n.seq, n.index) for n in self.nodes if n.kind in ("op", "custom", "item")])
        seqs, found = [seq for seq, _ in numbered], {}
        for node in customs:
            if not node.step.recomputes:
                # The numbers of records fall with time.
                ranges = [(bisect_right(seqs, e), bisect_left(seqs, b)) for b, e in dict.fromkeys(node.step.spans)]
                found[node.index] = [i for first, end in ranges for _, i in numbered[first:end]]
        return found

    @property
    def size(self) -> int:
        """The number of numbers in all nodes of the program."""
        found = 0
        for n in self.nodes:
            v = n.output
            found += v.size if isinstance(v, np.ndarray) else sum(map(np.size, v)) if isinstance(v, tuple) else 1
        return found

    @property
    def differentiated(self) -> list[int]:
        """The nodes that the program itself differentiates. At order 3 they include inner gradients."""
        return list(dict.fromkeys(t for n in self.nodes if n.mark is not None for t in n.mark.targets))

    @property
    def primals(self) -> list[int]:
        """The nodes with values of the differentiated function, without gradients."""
        marked = {n.index for n in self.nodes if n.mark is not None}
        return [t for t in self.differentiated or self.outputs if not marked.intersection(self.ancestors([t]))]

    def ancestors(self, targets: Iterable[int]) -> list[int]:
        """The nodes that the targets depend on, with the targets, in order."""
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
            The world, whose `lift` converts recorded values and whose attributes are the mirrors.
        values : dict, optional
            Known values of some nodes, in the world's form.
        only : iterable of int, optional
            The nodes to evaluate, in order. By default all nodes.

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

    def step(self, world: Any, node: Node, env: dict[int, Any] | list[Any]) -> Any:
        """The value of one node from the values of its inputs."""
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
        """The output as a SymPy expression in x0, x1, ..., or a list for several; see `gtape.symbolic.display`.

        Raises
        ------
        NotImplementedError
            For an op without a closed form, such as an eigenvalue decomposition; `assignments` and `to_mermaid` show
            such a program, and `gtape.verify.exact` gives its exact derivative.
        """
        from gtape.symbolic import display

        found = display.expressions(self)
        return found[0] if len(found) == 1 else found

    def latex(self) -> str:
        """The outputs in LaTeX, one line each.

        Raises
        ------
        NotImplementedError
            As for `expr`.
        """
        from gtape.symbolic import display

        return display.latex(self)

    def to_mermaid(self) -> str:
        """The program as a Mermaid flowchart."""
        from gtape.symbolic import display

        return display.mermaid(self)

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

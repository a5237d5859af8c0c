"""Makes a `Program` from records."""

from __future__ import annotations

from typing import Any

from gtape.engine.custom import step_of_body
from gtape.recording.record import ANCHOR, INS, OUT, PARENTS, SEQ, STEP, TAPES, TRACE, step_of
from gtape.recording.trace import Return
from gtape.symbolic.program import GradMark, Node, Program, Recomputed

__all__ = ["build"]


class _Builder:
    def __init__(self, returns: Any) -> None:
        self.program = Program()
        self.returns = returns
        self.found: dict[Any, int] = {}
        self.lines: dict[Any, Any] = {}  # one object for each line of the user's code, to save memory
        self.kept: list[Any] = []  # values whose id is a key of `found`
        self.underway: set[Any] = set()  # constants with values that left the tape, not visited yet

    def add(self, kind: str, output: Any, record: Any, key: Any) -> Node:
        """The next node, and its key in `found`."""
        program = self.program
        node = Node(len(program.nodes), kind, output, 0 if record is None else record[SEQ])
        program.nodes.append(node)
        if record is not None:
            program.add_number(node)
        self.found[key] = node.index
        return node

    def number(self, record: Any, value: Any) -> int:
        """The node of a record and its value."""
        made = None if record is None else self.found.get(record[SEQ])
        return self.found[_key(record, value)] if made is None else made

    def numbers(self, record: Any) -> list[int]:
        """The nodes of a record. A leaf has a node for each value that was read from it."""
        return [] if record is None else list(self.program.by_seq.get(record[SEQ], ()))

    def points(self, record: Any) -> list[int]:
        """The nodes of a source that belong to the point of the derivative."""
        nodes, found = self.program.nodes, self.numbers(record)
        return found if self.returns is None else [i for i in found if self.returns.is_point(record, nodes[i].output)]

    def visit(self, roots: list[tuple[Any, Any]]) -> None:
        """Add the nodes of (record, value) pairs and of all their ancestors, without recursion."""
        found = self.found
        pending = [(r, v, False) for r, v in reversed(roots)]
        while pending:
            record, value, ready = pending.pop()
            if record is not None and record[SEQ] in found:
                continue
            record = _made(record)
            if not _traced(record):
                key = _key_of_input(record, value)
                if key in found:
                    continue
                back = None if self.returns is None else self.returns.of(record, value)
                if back is None or (not ready and key in self.underway):
                    self.add("const" if record is None else "leaf", value, record, key)
                    self.kept.append(value)
                elif ready:
                    self.bring_back(record, back)
                else:
                    self.underway.add(key)
                    pending += [(record, value, True), (back.conversion.record, back.conversion.value, False)]
            elif ready:
                self.finish(record)
            else:
                pending.append((record, value, True))
                pending += [(r, v, False) for r, v in reversed(_needs(record)) if r is None or r[SEQ] not in found]

    def bring_back(self, record: Any, back: Return) -> None:
        """Add the nodes of a constant, or of a variable's value, that holds a value which left the tape."""
        program = self.program
        start = program.nodes[self.number(back.conversion.record, back.conversion.value)]
        for node in self.returns.nodes_of(back, start, len(program.nodes)):
            program.nodes.append(node)
            program.returned[node.index] = back, False
        node.seq = 0 if record is None else record[SEQ]
        program.returned[node.index] = back, True
        self.found[_key(record, back.constant)] = node.index
        self.kept.append(back.constant)
        if record is not None:
            program.add_number(node)

    def finish(self, record: Any) -> None:
        """Add the node of a record whose inputs already have nodes."""
        step = step_of(record)
        if _is_recomputed(record):
            self.finish_recomputed(record, step)
            return
        if step.prim is None:  # one output of an op with several
            whole = self.program.nodes[self.found[record[PARENTS][SEQ]]]
            node = self.add("item", whole.output[step.index], record, record[SEQ])
            node.inputs, node.active, node.params, node.line = (whole.index,), (0,), {"index": step.index}, whole.line
            return
        t = record[TRACE]
        node = self.add("custom" if step.prim.kind == "custom" else "op", t.output, record, record[SEQ])
        node.prim, node.step, node.active, node.params = step.prim, step, step.active, step.params
        node.line = t.line = self.lines.setdefault(t.line, t.line)
        node.flows, node.rule_of = t.flows, t.rule_of
        node.inputs = tuple([self.number(r, x._value) for r, x in zip(t.origins, t.inputs, strict=True)])
        if node.kind == "custom":
            node.call, node.begun = t.call, t.begun
            node.body = tuple(self.number(r, x._value) for r, x in zip(t.body_origins, t.body, strict=True))
        elif t.body is not None:
            node.mark = self.mark(t.body)

    def finish_recomputed(self, record: Any, step: Any) -> None:
        """Add a result of a recomputed function as the same number as that of its body.

        The gradient is that of the body by construction, so that the ops of the body are all there is to check.
        """
        k = None if step.prim is not None else step.index
        t = record[TRACE] if k is None else record[PARENTS][TRACE]
        if k is None:
            self.program.recomputed.append(Recomputed(t.call, t.output, step_of(record).name, t.line))
            if isinstance(t.output, tuple):
                return  # each result has a record of its own
        made = step_of_body()
        node = self.add("op", t.output if k is None else t.output[k], record, record[SEQ])
        node.prim, node.step, node.active = made.prim, made, made.active
        node.line = t.line = self.lines.setdefault(t.line, t.line)
        node.flows, node.rule_of = (frozenset().union(*[f for f in t.flows if f]),), t.rule_of
        origin, x = t.body_origins[k or 0], t.body[k or 0]
        node.inputs = (self.number(origin, x._value),)

    def mark(self, g: Any) -> GradMark:
        """The mark that names the targets and sources of a derivative."""
        targets = _targets_of(g)
        cotangents = [
            self.number(*c) for (_, v), c in zip(targets, g.given, strict=g.form == "gradient") if v is not None
        ]
        return GradMark(
            id(g.targets),  # all results of one call share the list
            [self.number(r, v) for r, v in targets if v is not None],
            cotangents if g.form == "gradient" else [],
            [self.numbers(r) for r, _ in g.sources],
            g.index,
            g.session,
            g.form,
            [self.number(*t) for t in g.given] if g.form == "jvp" else [],
        )


def _key(record: Any, value: Any) -> Any:
    return record[SEQ] if _traced(record) else _key_of_input(record, value)


def _key_of_input(record: Any, value: Any) -> Any:
    if record is None:
        return ("const", id(value))
    return (record[SEQ], value if isinstance(value, float) else id(value))  # one node for each value read


def _traced(record: Any) -> bool:
    """Whether a record tells how its value was computed. None (a constant) and leaves do not."""
    if record is None or record[STEP] is None:
        return False
    if len(record) > TRACE and record[TRACE] is not None:
        return True
    return step_of(record).prim is None and _traced(record[PARENTS])


def _made(record: Any) -> Any:
    """The record of the op that made a watched constant in place of its leaf; any other record unchanged."""
    kept = record is not None and record[STEP] is None and record[OUT] is not ANCHOR and record[INS] is not None
    return record[INS] if kept else record


def _is_recomputed(record: Any) -> bool:
    """Whether a record is a call of a recomputed function, or one of its results."""
    step = step_of(record)
    if step.prim is None:
        return _is_recomputed(record[PARENTS])
    return bool(step.prim.kind == "custom" and step.recomputes)


def _needs(record: Any) -> list[tuple[Any, Any]]:
    """The (record, value) pairs of the inputs, whose nodes come before the record's node."""
    step = step_of(record)
    if step.prim is None:
        return [(record[PARENTS], None)]
    t = record[TRACE]
    needs = [(r, x._value) for r, x in zip(t.origins, t.inputs, strict=True)]
    if step.prim.kind == "custom":
        needs += [(r, x._value) for r, x in zip(t.body_origins, t.body, strict=True)]
    elif t.body is not None:
        needs += [(r, v) for r, v in _targets_of(t.body) if v is not None]
        needs += t.body.given
    return needs


def _targets_of(g: Any) -> list[tuple[Any, Any]]:
    """(record, value) of each target of a derivative. The value of a leaf that is not a source is None."""
    sources = {r[SEQ]: value for r, value in g.sources if r is not None}
    found = []
    for r in g.targets:
        if not _traced(r):
            found.append((r, sources.get(r[SEQ])))
        elif step_of(r).prim is None:
            found.append((r, r[PARENTS][TRACE].output[step_of(r).index]))
        else:
            found.append((r, r[TRACE].output))
    return found


def _reached(r: Any, session: Any, targets: list[Any]) -> bool:
    """Whether a tape's gradient may reach a source: the tape watches or recorded it, or it is itself a target."""
    return r is None or session is None or session in r[TAPES].sessions or any(r is t for t in targets)


def build(targets: list[tuple[Any, Any]], sources: list[Any], session: Any = None, returns: Any = None) -> Program:
    """The program that computed the targets.

    Parameters
    ----------
    targets : list of (record, value)
    sources : list of tensors or variables
    session : Session, optional
        The session of the tape whose gradients are checked.
    returns : object, optional
        An object with three methods: ``of(record, value)`` finds constants that hold values which left the tape,
        ``nodes_of(found, start, index)`` returns the nodes that compute such a constant from the value, and
        ``is_point(record, value)`` tells whether a value of a source belongs to the point of the derivative.
    """
    b = _Builder(returns)
    b.visit(targets)
    asked = [r for r, _ in targets]
    b.program.session = session
    b.program.outputs = [b.number(r, v) for r, v in targets]
    b.program.sources = [b.points(s._record) if _reached(s._record, session, asked) else [] for s in sources]
    return b.program

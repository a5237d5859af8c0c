"""The constants of a recorded program, beside the constants of another run of its function.

Two runs that take the same branches record the same ops. A constant that holds another number in the second run depends
on the point, so a value left the tape and came back. The numbers are compared exactly: no rounding hides a small one.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

import numpy as np

from gtape.recording.record import INS, SEQ, STEP, TRACE, step_of
from gtape.recording.trace import floats_in
from gtape.symbolic.program import Node, Program
from gtape.verify.verdicts.ulp import same_numbers

__all__ = ["Constants", "are_kept", "constants", "constants_of"]

_Place = tuple[int, int]  # a node of the first program, and which of the numbers among its parameters; -1 for its value


class Constants:
    """The constants of two runs of a function.

    Attributes
    ----------
    program : Program
        Of the second run.
    changed : dict
        The place of a constant in the first program -> its value in the first run and in the second run, as arrays.
        Only constants that differ.
    shared : dict
        The place of each constant -> its place in the second program, where it may be the result of ops on constants.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.changed: dict[_Place, tuple[Any, Any]] = {}
        self.shared: dict[_Place, _Place] = {}

    def with_values(self, values: dict[_Place, Any]) -> Program:
        """The program of the second run, with other values of some constants."""
        made = copy.copy(self.program)
        made.nodes = list(made.nodes)
        for place, value in values.items():
            i, which = self.shared[place]
            node = made.nodes[i] = copy.copy(made.nodes[i])
            if which < 0:
                node.output = value
            else:
                node.params = _replaced(node.params, which, value)
        return made

    def folded(self, index: int) -> Node:
        """A node that no source varies, as a constant of the second program."""
        self.program = copy.copy(self.program)
        self.program.nodes = list(self.program.nodes)
        old = self.program.nodes[index]
        made = self.program.nodes[index] = Node(index, "const", old.output, old.seq)
        return made

    def are_equal(self, other: Constants) -> bool:
        """Whether two runs at one point changed the same constants to the same numbers."""
        return self.changed.keys() == other.changed.keys() and all(
            same_numbers(there, other.changed[place][1]) for place, (_, there) in self.changed.items()
        )


def constants(
    program: Program, other: Program, meant: Collection[int] = (), *, bodies: bool = True
) -> Constants | None:
    """The constants of two runs; None if the runs recorded different ops.

    Constants behind `gtape.stop_gradient` change no derivative by the tape, so they are left out.

    Parameters
    ----------
    program, other : Program
    meant : collection of int
        The identities of values in the first program that are constants on purpose.
    bodies : bool
        Whether the bodies of custom gradients count, too.
    """
    if len(program.outputs) != len(other.outputs):
        return None
    sources = _numbers_of_sources(program), _numbers_of_sources(other)
    found = Constants(other)
    taken: dict[_Place, _Place] = {}
    seen: set[tuple[int, int]] = set()
    pending = list(zip(program.outputs, other.outputs, strict=True))
    while pending:
        pair = pending.pop()
        if pair in seen:
            continue
        seen.add(pair)
        i, j = pair
        a, b = program.nodes[i], found.program.nodes[j]
        if a.kind in ("leaf", "const") and _is_idle(other, j):
            b = found.folded(j)
        if sources[0].get(i) != sources[1].get(j):
            return None
        if i in sources[0]:
            continue
        values = constants_of(a), constants_of(b)
        if not _are_alike(a, b) or len(values[0]) != len(values[1]):
            return None
        for (which, here), (_, there) in zip(*values, strict=True):
            if taken.setdefault((j, which), (i, which)) != (i, which):
                return None  # one constant of the second run stands for two of the first
            if found.shared.setdefault((i, which), (j, which)) != (j, which):
                return None
            if here is there or id(here) in meant:
                continue
            here, there = np.asarray(here), np.asarray(there)
            if here.dtype != there.dtype or here.shape != there.shape:
                return None
            if not same_numbers(here, there):
                found.changed[i, which] = here, there
        if a.kind != "op" or "stop" not in a.prim.roles:
            pending += zip(a.inputs, b.inputs, strict=True)
            if bodies and len(a.body) == len(b.body):
                pending += zip(a.body, b.body, strict=True)
    return found


def are_kept(program: Program, inputs: list[Any], outputs: list[Any]) -> bool:
    """Whether another run certainly recorded the same ops and the same constants, as `constants` would find.

    The records of the run suffice, because building a program from them takes longer than this comparison. False for
    ops that need more than their records, such as custom gradients and ops with several outputs.

    Parameters
    ----------
    program : Program
    inputs, outputs : lists of tensors
        Of the other run.
    """
    if len(program.outputs) != len(outputs):
        return False
    nodes, sources = program.nodes, _numbers_of_sources(program)
    numbers = {t._record[SEQ]: s for s, t in enumerate(inputs)}
    there_of, here_of = dict[int, Any](), dict[Any, int]()  # what stands for a node in the other run, both ways
    pending = [(i, t._record, t._value) for i, t in zip(program.outputs, outputs, strict=True)]
    while pending:
        i, record, value = pending.pop()
        is_op, number = False, None
        if record is not None:
            is_op, number = record[STEP] is not None, record[SEQ]
        there: Any = number
        if not is_op:  # as `build` tells constants and the values of leaves apart
            there = number, value if number is not None and value.__class__ is float else id(value)
        if i in there_of:
            if there_of[i] != there:
                return False
            continue
        if here_of.setdefault(there, i) != i:
            return False
        there_of[i] = there
        node, source = nodes[i], sources.get(i)
        if is_op:
            if source is not None or not _is_same_op(node, record):
                return False
            if "stop" not in node.prim.roles:
                t = record[TRACE]
                pending += [(j, r, x._value) for j, r, x in zip(node.inputs, t.origins, t.inputs, strict=True)]
        elif source != numbers.get(number) or not (source is not None or _is_same_constant(node, record, value)):
            return False
    return True


def _is_same_op(node: Node, record: Any) -> bool:
    """Whether a record is certainly of the op of a node, with the same floating parameters."""
    step = step_of(record)
    if node.kind != "op" or step.prim is not node.prim or len(record) <= TRACE or record[TRACE] is None:
        return False
    t = record[TRACE]
    if len(t.inputs) != len(node.inputs) or step.active != node.active or not _have_one_layout(node.output, t.output):
        return False
    here, there = node.params, step.params
    if not (here or there):
        return True
    return (
        here.keys() == there.keys()
        and all(_same_choice(v, there[name]) for name, v in here.items())
        and all(map(_is_same_number, floats_in(here), floats_in(there)))
    )


def _is_same_constant(node: Node, record: Any, value: Any) -> bool:
    """Whether a value without an op is certainly the constant of a node."""
    is_open = record is not None and record[INS] is not None  # a watched result, which the leaf stands for
    return node.kind in ("leaf", "const") and not is_open and _is_same_number(node.output, value)


def _is_same_number(here: Any, there: Any) -> bool:
    """Whether two constants have the same dtype, shape and numbers."""
    if here is there:
        return True
    here, there = np.asarray(here), np.asarray(there)
    return bool(here.dtype == there.dtype and here.shape == there.shape and same_numbers(here, there))


def _is_idle(program: Program, index: int) -> bool:
    """Whether no source varies the result of a node.

    Ops on constants are recorded for the check alone, if the constants hold numbers with many digits that left, so one
    run may record such an op, and another run at short numbers its result alone.
    """
    node = program.nodes[index]
    if node.kind in ("leaf", "const") or isinstance(node.output, tuple):
        return False
    return _numbers_of_sources(program).keys().isdisjoint(program.ancestors([index]))


def _numbers_of_sources(program: Program) -> dict[int, int]:
    return {i: s for s, nodes in enumerate(program.sources) for i in nodes}


def constants_of(node: Node) -> list[tuple[int, Any]]:
    """The values of a node that no op computed, with places: the value of a constant, or floating parameters."""
    if node.kind in ("leaf", "const"):
        return [(-1, node.output)]
    return [] if node.kind == "item" else list(enumerate(floats_in(node.params)))


def _are_alike(a: Node, b: Node) -> bool:
    """Whether two nodes are the same op, up to numbers among its parameters."""
    constant = ("leaf", "const")
    if a.kind in constant or b.kind in constant:
        return a.kind in constant and b.kind in constant
    return (
        (a.kind, a.name, len(a.inputs), a.active) == (b.kind, b.name, len(b.inputs), b.active)
        and _have_one_layout(a.output, b.output)
        and a.params.keys() == b.params.keys()
        and all(_same_choice(v, b.params[name]) for name, v in a.params.items())
    )


def _have_one_layout(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) or isinstance(b, tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(_have_one_layout, a, b))
    if not (isinstance(a, (np.ndarray, np.generic)) and isinstance(b, (np.ndarray, np.generic))):
        a, b = np.asarray(a), np.asarray(b)
    return bool(a.shape == b.shape and a.dtype == b.dtype)


def _is_number(value: Any) -> bool:
    return bool(floats_in({"": value})) and not isinstance(value, (tuple, list))


def _same_choice(a: Any, b: Any) -> bool:
    """Whether two parameters are equal up to floating numbers, which count as constants."""
    if a is b or (_is_number(a) and _is_number(b)):
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_same_choice, a, b))
    if isinstance(a, np.ndarray):
        return same_numbers(a, b)
    return bool(a == b)


def _replaced(params: dict[str, Any], which: int, value: Any) -> dict[str, Any]:
    """Parameters with another value of one floating number, counted in the order of `floats_in`."""
    old = floats_in(params)[which]

    def changed(p: Any) -> Any:
        if p is old:
            return value if isinstance(p, np.ndarray) else type(p)(value)
        return type(p)(map(changed, p)) if type(p) in (tuple, list) else p

    return {name: changed(p) for name, p in params.items()}

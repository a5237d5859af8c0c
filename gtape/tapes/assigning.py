"""Runs of programs that read and assign variables, and what stays of a traced call that the user's own error ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from gtape.base.escaping import plain
from gtape.base.locks import lock_order, of_variable
from gtape.recording.record import idle_stack, own
from gtape.tapes.drawn import sources_of
from gtape.tapes.forms import Later, taken_later
from gtape.tapes.inner_loops import Doubt
from gtape.tapes.lent import Lent
from gtape.tapes.program import Program
from gtape.tapes.traced_values import Guard, OtherLayout, Untraceable
from gtape.tapes.tracing import Tracer, tracing
from gtape.tensors.tensor import Tensor

__all__ = ["assigned_of", "caller", "tracing_call"]

_MOST_LOCKS = 8  # the number of locks that one `with` statement takes


def assigned_of(tracer: Tracer, start: int) -> list[tuple[Any, int, int]]:
    """The assigned variables of a traced call, as `caller` takes them.

    Parameters
    ----------
    tracer : Tracer
    start : int
        The index of the first new value among the values that the program returns.
    """
    places = {v._uid: k for k, v in enumerate(tracer.variables)}
    assigned = [(v, places[uid], start + k) for k, (uid, v) in enumerate(tracer.assigned.items())]
    # Locks are always taken in the same order, so that two threads never wait for each other.
    return sorted(assigned, key=lambda entry: lock_order(entry[0]._uid))


def caller(
    program: Program, count: int, variables: Sequence[Any], assigned: Sequence[tuple[Any, int, int]]
) -> Callable[..., tuple[Any, ...]]:
    """A function that runs a program on raw arguments and the values of variables, and then assigns variables.

    Parameters
    ----------
    program : Program
    count : int
        The number of raw arguments.
    variables : sequence of Variable
        The variables that the program reads.
    assigned : sequence of (Variable, int, int)
        Each assigned variable, with the places of its old value among the values read and of its new value among the
        values returned.
    """
    xs = "".join([f"x{k}, " for k in range(count)])
    values = "".join([f"r{k}, " for k in range(len(variables))])
    space: dict[str, Any] = {"program": program, "OtherLayout": OtherLayout, "Doubt": Doubt}
    lines = _named("v", variables, space, "    ")
    space |= {f"layout{k}": v._tensor_layout for k, v in enumerate(variables)}
    others = " or ".join([f"v{k}._tensor_layout is not layout{k}" for k in range(len(variables))])
    reads = "".join([f"        r{k} = v{k}._value\n" for k in range(len(variables))])
    if not assigned:
        end = "        return made\n"
    elif len(assigned) <= _MOST_LOCKS:
        end = _stored(assigned, [f"r{old}" for _, old, _ in assigned], space, "        ", "return made")
    else:
        space["assign"] = _assigning(assigned)
        before = ", ".join([f"r{old}" for _, old, _ in assigned])
        end = f"        if assign(made, {before}):\n            return made\n"
    source = (
        f"def call(run, {xs}):\n{lines}    while True:\n"
        + (f"        if {others}:\n            raise OtherLayout\n{reads}" if variables else "")
        + f"        try:\n            made = run(program.run, {xs}{values})\n"
        + f"        except Doubt:\n            made = run(program.again, ({xs}{values}))\n{end}"
    )
    exec(compile(source, "<gtape call>", "exec"), space)
    return space["call"]  # type: ignore[no-any-return]


def _named(prefix: str, variables: Sequence[Any], space: dict[str, Any], indent: str) -> str:
    """Lines that give names to variables of arguments. All other variables have their names in `space`."""
    lent = [k for k, v in enumerate(variables) if v.__class__ is Lent]
    space |= {f"{prefix}{k}": v for k, v in enumerate(variables) if v.__class__ is not Lent}
    space |= {f"lent_{prefix}{k}": variables[k].variable for k in lent}
    return "".join([f"{indent}{prefix}{k} = lent_{prefix}{k}()\n" for k in lent])


def _stored(
    assigned: Sequence[tuple[Any, int, int]], before: Sequence[str], space: dict[str, Any], indent: str, end: str
) -> str:
    """Lines that assign variables and end, unless a variable was assigned since the program read it.

    Parameters
    ----------
    assigned : sequence of (Variable, int, int)
        As in `caller`.
    before : sequence of str
        For each assigned variable, the name of the value that the program read.
    space : dict
        Gains the objects that the lines name.
    indent, end : str
    """
    lines = _named("a", [v for v, _, _ in assigned], space, indent)
    space |= {f"lock{k}": of_variable(v._uid) for k, (v, _, _) in enumerate(assigned)}
    same = [f"a{k}._value is {old}" for k, old in enumerate(before)] + (
        ["rest(made, *others)"] if "rest" in space else []
    )
    stores = "".join([f"{indent}        a{k}._value = made[{new}]\n" for k, (_, _, new) in enumerate(assigned)])
    locks = ", ".join([f"lock{k}.now" for k in range(len(assigned))])
    return f"{lines}{indent}with {locks}:\n{indent}    if {' and '.join(same)}:\n{stores}{indent}        {end}\n"


def _assigning(assigned: Sequence[tuple[Any, int, int]]) -> Callable[..., bool]:
    """A function that assigns variables, or returns False if one was assigned since the program read it.

    The function takes the values that the program returned and the values that the program read from the variables.
    """
    some, rest = assigned[:_MOST_LOCKS], assigned[_MOST_LOCKS:]
    space: dict[str, Any] = {"rest": _assigning(rest)} if rest else {}
    before = [f"r{k}" for k in range(len(some))]
    source = (
        f"def assign(made, {', '.join(before)}{', *others' if rest else ''}):\n"
        f"{_stored(some, before, space, '    ', 'return True')}"
        "    return False\n"
    )
    exec(compile(source, "<gtape assignments>", "exec"), space)
    return space["assign"]  # type: ignore[no-any-return]


@contextmanager
def tracing_call(tensors: Sequence[Tensor], name: str, outer: Any = None) -> Iterator[Tracer]:
    """Trace one call as `tracing` does.

    If an error of the user's own code ends the call, the variables that the call assigned and the random numbers that
    it drew before the error stay changed, as after an eager call.

    Parameters
    ----------
    tensors : sequence of Tensor
        The tensors that the traced function takes.
    name : str
    outer : Session, optional
        As for `tracing`.
    """
    tracer = None
    try:
        with tracing(outer) as tracer:
            yield tracer
    finally:
        if tracer is not None and tracer.ended:
            with suppress(Guard):  # another thread changed a variable since the traced call
                _settle(tracer, [t._value for t in tensors], plain(name))


def _settle(tracer: Tracer, raws: Sequence[Any], name: str) -> None:
    """Assign variables, draw random numbers and call later functions, as far as a traced call came."""
    if not (tracer.assigned or tracer.later_calls or sources_of(tracer.variables)):
        return
    nodes = [*tracer.values, *[t._value.node for t in taken_later(tracer.later_calls)]]
    try:
        program = Program(tracer.inputs, tracer.nodes, nodes, name)
    except Untraceable:  # no eager call follows, so a sum may add its terms in another order
        program = Program(tracer.inputs, tracer.nodes, nodes, name, again=True)
    call = caller(program, len(raws), tracer.variables, assigned_of(tracer, 0))
    made = call((own.idle or idle_stack()).run, *raws)
    if tracer.later_calls:
        Later(tracer.later_calls, len(tracer.assigned))(made)

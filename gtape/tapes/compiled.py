"""Compiled functions: a program for each kind of arguments, made by one of two back ends.

With llvmlite a program is a `gtape.tapes.table.Table`, if that is worth it, otherwise a
`gtape.tapes.straight_line.StraightLine`. Both give the bits of the eager call.
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.escaping import plain
from gtape.base.layout import Layout
from gtape.base.locks import Lock, lock_order
from gtape.base.verification import BLOCKS, PROCESS, verify_mode
from gtape.declare.primitives import CHANGED, Primitive
from gtape.recording.record import idle_stack, own, peek
from gtape.tapes import inner_loops
from gtape.tapes.inner_loops import Doubt
from gtape.tapes.rewriting import forget_values, needed, shared
from gtape.tapes.straight_line import StraightLine
from gtape.tapes.table import Table
from gtape.tapes.tracing import Guard, Node, Traced, Tracer, Untraceable, tracing
from gtape.tensors.tensor import Tensor
from gtape.tensors.variable import Variable

__all__ = ["Compiler", "Program"]

_MOST_PROGRAMS = 64  # programs that one function keeps
_MOST_GUARDS = 16  # calls for which a program is not valid before it may be given up
_MOST_DOUBTS = 64  # runs after which a program leaves the table
_MOST_FAILURES = 3  # calls that fail for their values before a kind of arguments is never traced again
_NUMBERS = (bool, int, float, complex, str, bytes, type(None))

_FAILED: Any = object()
_QUIET = type(copy_context().run)  # of the function that runs kernels while nothing checks them
_new: Callable[[type], Any] = object.__new__
_generation = 0  # counts swapped kernels, because programs hold kernels


def _swapped(_: Primitive) -> None:
    global _generation
    _generation += 1


CHANGED.append(_swapped)


# ---------------------------------------------------------------------------------------------- programs


class Program:
    """One traced call as a function of raw values.

    Parameters
    ----------
    inputs : list of Node
    nodes : list of Node
        Every node comes after the nodes that it reads.
    outputs : list of Node
    name : str

    Attributes
    ----------
    source : str
        The Python source.
    run : callable
        Takes the raw inputs, returns the tuple of raw outputs; raises `Guard` where the program does not hold.
    traced, kept : int
        The number of operations in the traced call and in the program.
    """

    def __init__(self, inputs: list[Node], nodes: list[Node], outputs: list[Node], name: str) -> None:
        self.traced = len(nodes)
        nodes, outputs = shared(nodes, outputs)
        nodes = needed(nodes, outputs)
        self.kept = len(nodes)
        self.doubts = 0
        self._lines: StraightLine | None = None
        machine = inner_loops.machine()
        table = None if machine is None else Table(machine, inputs, nodes, outputs, name)
        if table is None or table.run is None:
            self._table = None
            self._given: Any = None
            self.run: Callable[..., tuple[Any, ...]] = self._straight_line(inputs, nodes, outputs, name).run
            return
        self._table = table
        forget_values([*inputs, *nodes])
        self._given = (inputs, nodes, outputs, name)
        self.run = table.run

    def _straight_line(self, *given: Any) -> StraightLine:
        made = self._lines
        if made is None:
            made = self._lines = StraightLine(*(given or self._given))
            self._given = None
        return made

    def again(self, raws: Sequence[Any]) -> tuple[Any, ...]:
        """The raw outputs without the table, which met a value that Python's floats treat in another way."""
        made = self._straight_line()
        self.doubts += 1
        if self.doubts == _MOST_DOUBTS:
            self.run = made.run
        return made.run(*raws)

    @property
    def source(self) -> str:
        """The Python source."""
        return (self._lines if self._table is None else self._table).source  # type: ignore[union-attr]

    def summary(self) -> str:
        """What one run does, and what it holds."""
        made: Any = self._lines if self._table is None else self._table
        text = f"{made.calls} calls, {made.buffers} buffers, {made.nbytes} bytes"
        if self._table is None:
            return text
        left = sorted(self._table.left.items(), key=lambda item: (-item[1], item[0]))
        text = f"{self._table.rows} rows in {self._table.walks} walks, {text}"
        if left:
            text += " (not in the table: " + ", ".join([f"{n} {word}" for word, n in left]) + ")"
        return text + (f", {self.doubts} runs without the table" if self.doubts else "")


# ---------------------------------------------------------------------------------------------- calls


class _Refusal:
    """A kind of arguments that runs eagerly."""

    def __init__(self, reason: str, held: list[Any]) -> None:
        self.reason, self.held = reason, held
        self.generation = _generation


class _Compiled:
    """A program with the variables that it reads and the structure that it returns."""

    def __init__(self, program: Program, tracer: Tracer, made: Any, outputs: list[Any], held: Any) -> None:
        self.program = program
        self.variables = [(v, v._tensor_layout) for v in tracer.variables]
        # The number of results, after which the values of the assigned variables come.
        self.count = len([o for o in outputs if o.__class__ is _Layout])
        places = {v._uid: k for k, v in enumerate(tracer.variables)}
        assigned = [(v, places[uid], self.count + k) for k, (uid, v) in enumerate(tracer.assigned.items())]
        # In the order of their locks, so that two threads never wait for each other.
        self.assigned = sorted(assigned, key=lambda entry: lock_order(entry[0]._uid))
        # Without the traced tensors, which hold every value of the traced call.
        self.structure = nest.map_structure(lambda _: 0, made) if nest.is_nested(made) else 0
        self.outputs = outputs  # a layout for each result of the program, any other result as it is
        self.held = held  # references to the objects whose identity is in the key
        self.generation = _generation
        self.calls = self.failures = 0
        leaf = not nest.is_nested(made)
        self.single = leaf and isinstance(made, Traced)
        self.nothing = made is None
        self.layout = outputs[0].layout if self.single else None
        # The class of a plain list or tuple of tensors.
        self.flat = (
            made.__class__ if made.__class__ in (list, tuple) and all(isinstance(x, Traced) for x in made) else None
        )

    def assign(self, before: Sequence[Any], raws: tuple[Any, ...], k: int = 0) -> bool:
        """Give the variables their values; False if another thread assigned one since the program read it."""
        variable, old, new = self.assigned[k]
        after = None if k + 1 == len(self.assigned) else lambda: self.assign(before, raws, k + 1)
        return bool(variable.replaced(before[old], raws[new], after))

    def results(self, raws: tuple[Any, ...]) -> Any:
        """The raw results in tensors, in the structure of the traced call."""
        if self.nothing:
            return None
        if self.single:
            return _tensor(raws[0], self.outputs[0])
        if self.flat is not None:
            return self.flat([_tensor(raw, o) for raw, o in zip(raws, self.outputs, strict=True)])
        values = iter(raws)
        leaves = [_tensor(next(values), o) if o.__class__ is _Layout else o.again() for o in self.outputs]
        return nest.pack_sequence_as(self.structure, leaves) if self.structure.__class__ is not int else leaves[0]


class _Layout:
    __slots__ = ("layout",)

    def __init__(self, layout: Any) -> None:
        self.layout = layout


class _Fixed:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def again(self) -> Any:
        """The result; a new tensor at each call, because a tape may watch it."""
        value = self.value
        return _tensor(value._value, _Layout(value._layout)) if value.__class__ is Tensor else value


def _tensor(raw: Any, place: _Layout) -> Tensor:
    t = Tensor()
    t._value, t._layout, t._record = raw, place.layout, None
    return t


class _Again(Exception):
    """The values of this call, or what it does the first time, prevent the tracing; a later call may succeed."""


class Compiler:
    """Compiles one function, once for each kind of arguments, and runs what it compiled.

    Parameters
    ----------
    function : callable
        The Python function.
    name : str
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.name = function, name
        self._known: OrderedDict[Any, _Compiled | _Refusal] = OrderedDict()
        self._failures: dict[Any, int] = {}
        self._lock = Lock()
        self._warned = False

    def __reduce__(self) -> Any:
        return Compiler, (self.function, self.name)  # a copy compiles anew

    # ------------------------------------------------------------------------------------------ calls

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function: the program if there is one for these arguments, otherwise Python."""
        if peek() is not None:  # a tape records, or another function is being traced
            return self.function(*args, **kwargs)
        raws: list[Any] = []
        held: list[Any] = []
        if kwargs:
            kwargs = dict(sorted(kwargs.items()))
        try:
            key: Any = tuple([_key(x, raws, held) for x in args])
            if len(args) == 1 and key[0].__class__ is Layout:
                (key,) = key  # because calls of one tensor are the most frequent, and a tuple costs more to look up
            if kwargs:
                key = (key, tuple([(k, _key(kwargs[k], raws, held)) for k in kwargs]))
            found = self._known.get(key)
        except (Untraceable, TypeError, RecursionError):  # arguments that no program takes
            self.warn("an argument is no tensor, number, text or structure of these")
            return self.function(*args, **kwargs)
        if found is not None and (found.generation != _generation or any(ref() is None for ref in found.held)):
            found = None
        if hasattr(idle_stack().run, "unchecked") or verify_mode():  # every kernel or gradient is to be checked
            return self.function(*args, **kwargs)
        if found is None:
            found = self._compile(key, args, kwargs, held)
        if found.__class__ is _Compiled:
            made = self._run(key, found, raws)
            if made is not _FAILED:
                return made
        return self.function(*args, **kwargs)

    def quick(self, args: tuple[Any, ...]) -> Any:
        """The result for tensors of a kind that was compiled before; NotImplemented for other calls."""
        if peek() is not None or BLOCKS or PROCESS:
            return NotImplemented
        alone = len(args) == 1
        if alone:
            (x,) = args
            if x.__class__ is not Tensor:
                return NotImplemented
            key: Any = x._layout
        else:
            for x in args:
                if x.__class__ is not Tensor:
                    return NotImplemented
            key = tuple([x._layout for x in args])
        found: Any = self._known.get(key)
        if found.__class__ is not _Compiled or found.generation != _generation:
            return NotImplemented
        run = (own.idle or idle_stack()).run
        if run.__class__ is not _QUIET:  # every kernel is to be checked
            return NotImplemented
        if found.variables:
            made = self._run(key, found, [x._value for x in args])
            return self.function(*args) if made is _FAILED else made
        found.calls += 1
        program = found.program.run
        try:
            made = run(program, x._value) if alone else run(program, *[x._value for x in args])
        except Exception as e:
            made = self._after(e, key, found, [x._value for x in args])
            if made is _FAILED:
                return self.function(*args)
        if found.single:
            t = _new(Tensor)
            t._value, t._layout, t._record = made[0], found.layout, None
            return t
        return found.results(made)

    def _run(self, key: Any, found: Any, raws: list[Any]) -> Any:
        """The result of a program for raw values; _FAILED where it is not valid."""
        found.calls += 1
        start = len(raws)
        while True:
            try:
                for v, layout in found.variables:
                    if v._tensor_layout is not layout:
                        raise Guard
                    raws.append(v._value)
                made = idle_stack().run(found.program.run, *raws)
            except Exception as e:  # a guard, or an error that the eager call words
                made = self._after(e, key, found, raws)
                if made is _FAILED:
                    return made
            if not found.assigned:
                return found.results(made)
            if found.assign(raws[start:], made):
                return found.results(made[: found.count])
            del raws[start:]

    def _after(self, error: Exception, key: Any, found: Any, raws: Sequence[Any]) -> Any:
        """The raw results after a program raised an error; _FAILED where it is not valid."""
        if error.__class__ is Doubt:
            try:
                return idle_stack().run(found.program.again, raws)
            except Exception:  # a guard, or an error that the eager call words
                self._count_failure(key, found)
                return _FAILED
        self._count_failure(key, found)
        return _FAILED

    def _count_failure(self, key: Any, found: Any) -> None:
        """Note a call that the program was not valid for; give the program up if most calls are so."""
        found.failures += 1
        if found.failures > _MOST_GUARDS and 2 * found.failures > found.calls:
            reason = "what it does depends on the values of tensors"
            with self._lock:
                self._known[key] = _Refusal(reason, found.held)
            self.warn(reason)

    def _compile(self, key: Any, args: Any, kwargs: Any, held: list[Any]) -> Any:
        with self._lock:
            found = self._known.get(key)
            if found is not None and found.generation == _generation and all(ref() is not None for ref in found.held):
                return found
            try:
                made: Any = self._traced(args, kwargs, held)
            except Untraceable as e:
                made = _Refusal(str(e), held)
                self.warn(str(e))
            except _Again as e:
                self._failures[key] = failed = self._failures.get(key, 0) + 1
                if failed < _MOST_FAILURES:
                    return None
                made = _Refusal(str(e), held)
                self.warn(str(e))
            self._failures.pop(key, None)
            self._known[key] = made
            self._drop_oldest()
            return made

    def _drop_oldest(self) -> None:
        """Keep the bound of programs; the caller holds the lock."""
        while len(self._known) > _MOST_PROGRAMS:
            self._known.popitem(last=False)

    def _traced(self, args: Any, kwargs: Any, held: list[Any]) -> _Compiled:
        with tracing() as tracer:
            try:
                made = self.function(*_symbolic(args, tracer), **_symbolic(kwargs, tracer))
            except Exception as e:
                if tracer.error is not None:
                    raise tracer.error from None
                if tracer.reason is None:
                    raise _Again(f"{type(e).__name__}: {e}") from None
                made = None
            if tracer.error is not None:
                raise tracer.error from None
            if tracer.reason in _LATER:
                raise _Again(tracer.reason)
            if tracer.reason is not None:
                raise Untraceable(f"it {tracer.reason}")
            outputs: list[Any] = []
            nodes = []
            for leaf in nest.flatten(made) if nest.is_nested(made) else [made]:
                if isinstance(leaf, Variable):
                    leaf = tracer.read(leaf)
                if isinstance(leaf, Traced):
                    layout = _interned(leaf._layout)
                    outputs.append(_Layout(layout))
                    nodes.append(leaf._value.node)
                elif leaf.__class__ is Tensor or isinstance(leaf, (np.ndarray, np.generic, *_NUMBERS)):
                    outputs.append(_Fixed(leaf))
                else:
                    raise Untraceable(f"it returns {type(leaf).__name__}")
        program = Program(tracer.inputs, tracer.nodes, nodes + tracer.values, plain(self.name))
        return _Compiled(program, tracer, made, outputs, held)

    def warn(self, reason: str) -> None:
        """Say once that the function runs eagerly."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{plain(self.name)} has jit_compile=True but runs eagerly, with the same result: {plain(reason)}",
                RuntimeWarning,
                stacklevel=4,
            )

    # ------------------------------------------------------------------------------------------ reports

    @property
    def source(self) -> str:
        """The source of the newest program; empty before the first."""
        found = [c for c in list(self._known.values()) if isinstance(c, _Compiled)]
        return found[-1].program.source if found else ""

    def summary(self) -> str:
        """A line for each kind of arguments."""
        lines = []
        for made in list(self._known.values()):
            if isinstance(made, _Refusal):
                lines.append(f"eager: {made.reason}")
            else:
                p = made.program
                lines.append(
                    f"compiled: {p.kept} of {p.traced} operations, {len(made.variables)} variables, "
                    f"{len(made.outputs)} results; {p.summary()}"
                    + (f", eager for {made.failures} calls" if made.failures else "")
                )
        return "\n".join(lines) or "not called yet"


# What may be otherwise at a later call: variables are made at the first, and values change.
_LATER = (
    "makes a variable", "divides by zero or overflows in the traced call",
    "has a gradient that is NaN in the traced call", "has a gradient that is infinite or NaN in the traced call",
)  # fmt: skip


def _interned(layout: Any) -> Any:
    from gtape.base.layout import make_layout

    return make_layout(layout.dtype, layout.shape)


def _key(x: Any, raws: list[Any], held: list[Any]) -> Any:
    """What of an argument decides the program; appends the raw values of its tensors."""
    if x.__class__ is Tensor:
        if x._layout.dtype.kind == "O":
            raise Untraceable("strings")
        raws.append(x._value)
        return x._layout
    if isinstance(x, Variable):
        return ("variable", x._uid, x._tensor_layout)
    if isinstance(x, (float, complex)):
        return (x.__class__, repr(x))
    if isinstance(x, _NUMBERS):
        return (x.__class__, x)
    if isinstance(x, (list, tuple)):
        return (x.__class__, *[_key(y, raws, held) for y in x])
    if x.__class__ is dict:
        return (dict, *[(k, _key(y, raws, held)) for k, y in x.items()])
    if isinstance(x, (Tensor, np.ndarray, np.generic)) or nest.is_nested(x):
        raise Untraceable("an unusual argument")
    try:
        held.append(weakref.ref(x))
    except TypeError:
        held.append(lambda: x)
    return ("object", id(x))


def _symbolic(x: Any, tracer: Any) -> Any:
    """An argument with traced tensors, in the order of `_key`."""
    if x.__class__ is Tensor:
        return Traced.of(tracer.input(x._value), x._layout)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return x.__class__(*[_symbolic(y, tracer) for y in x])
    if isinstance(x, (list, tuple)):
        return x.__class__([_symbolic(y, tracer) for y in x])
    if x.__class__ is dict:
        return {k: _symbolic(y, tracer) for k, y in x.items()}
    return x

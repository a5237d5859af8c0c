"""Compiled functions: a traced call as straight-line Python over the kernels, one for each kind of arguments.

Constants are folded while the function is traced, because an op on constants notes nothing. Equal calls of kernels are
shared, and calls that no result needs are left out. Nothing else is rewritten, so that every bit stays.
"""

from __future__ import annotations

import operator
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.escaping import plain
from gtape.base.locks import Lock
from gtape.base.verification import verify_mode
from gtape.declare.primitives import CHANGED, Primitive
from gtape.recording import record
from gtape.tapes.tracing import Guard, Node, Traced, Untraceable, tracing
from gtape.tensors.tensor import Tensor
from gtape.tensors.variable import Variable

__all__ = ["Compiler", "Program"]

_MOST_PROGRAMS = 64  # programs that one function keeps
_MOST_GUARDS = 16  # calls for which a program is not valid before it may be given up
_SMALL = 65  # elements of constants that are compared
_MOST_FAILURES = 3  # calls that fail for their values before a kind of arguments is never traced again
_NUMBERS = (bool, int, float, complex, str, bytes, type(None))

_FAILED: Any = object()
_generation = 0  # counts swapped kernels, because programs hold kernels


def _swapped(_: Primitive) -> None:
    global _generation
    _generation += 1


CHANGED.append(_swapped)


# ---------------------------------------------------------------------------------------------- source


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
        nodes, outputs = _shared(nodes, outputs)
        nodes = _needed(nodes, outputs)
        self.kept = len(nodes)
        space: dict[str, Any] = {}
        self.source = _source(inputs, nodes, outputs, space)
        exec(compile(self.source, f"<gtape program of {name}>", "exec"), space)
        self.run: Callable[..., tuple[Any, ...]] = space["program"]


def _key_of(a: Any, same: dict[int, Node]) -> Any:
    if a.__class__ is Node:
        return ("node", id(same.get(id(a), a)))
    if a.__class__ in (list, tuple):
        return (a.__class__, *[_key_of(b, same) for b in a])
    if a.__class__ in (int, bool, str, type(None)):
        return (a.__class__, a)
    return _constant_key(a)


def _constant_key(a: Any) -> Any:
    """Equal for constants of the same bits."""
    if a.__class__ is float:
        return (float, a.hex())
    if isinstance(a, (np.generic, np.ndarray)) and a.size < _SMALL and a.dtype.kind != "O":
        return (a.__class__, a.dtype.str, a.shape, a.tobytes())
    return ("object", id(a))


def _is_one(a: Any, other: Any, made: Any) -> bool:
    """Whether a product with a constant is the other factor: each number is 1, and shape and dtype stay."""
    if a.__class__ is Node or other.__class__ is not Node or other.sample.__class__ is not made.__class__:
        return False
    if a.__class__ not in (int, float) and not isinstance(a, (np.generic, np.ndarray)):
        return False
    if np.shape(other.sample) != np.shape(made) or np.asarray(other.sample).dtype != np.asarray(made).dtype:
        return False
    return bool(np.all(np.equal(a, 1)))


def _factor(node: Node) -> Node | None:
    """The factor that a product with ones leaves as it is."""
    if node.function not in (operator.mul, np.multiply) or node.words or len(node.args) != 2:
        return None
    a, b = node.args
    return b if _is_one(a, b, node.sample) else a if _is_one(b, a, node.sample) else None


def _replaced(a: Any, same: dict[int, Node]) -> Any:
    if a.__class__ is Node:
        return same.get(id(a), a)
    if a.__class__ in (list, tuple):
        return a.__class__([_replaced(b, same) for b in a])
    return a


def _shared(nodes: list[Node], outputs: list[Node]) -> tuple[list[Node], list[Node]]:
    """One node for all equal calls."""
    same: dict[int, Node] = {}
    known: dict[Any, Node] = {}
    kept = []
    for node in nodes:
        words = tuple(sorted((k, _key_of(v, same)) for k, v in node.words.items()))
        key = (id(node.function), tuple([_key_of(a, same) for a in node.args]), repr(words))
        first = known.get(key)
        if first is not None:
            same[id(node)] = first
            continue
        node.args = _replaced(node.args, same)
        factor = _factor(node)
        if factor is not None:
            same[id(node)] = factor
            continue
        node.words = {k: _replaced(v, same) for k, v in node.words.items()}
        known[key] = node
        kept.append(node)
    return kept, [same.get(id(o), o) for o in outputs]


def _reads(a: Any, found: list[Node]) -> list[Node]:
    if a.__class__ is Node:
        found.append(a)
    elif a.__class__ in (list, tuple):
        for b in a:
            _reads(b, found)
    return found


def _reads_of(node: Node) -> list[Node]:
    return _reads([*node.args, *node.words.values()], [])


def _needed(nodes: list[Node], outputs: list[Node]) -> list[Node]:
    """The nodes that the outputs depend on, and all guards."""
    live = {id(o) for o in outputs}
    kept = []
    for node in reversed(nodes):
        if node.guards or id(node) in live:
            live.update([id(a) for a in _reads_of(node)])
            kept.append(node)
    return kept[::-1]


class _Names:
    """The names in a source: variables, which are used again as soon as nothing reads them, and constants."""

    def __init__(self, space: dict[str, Any]) -> None:
        self.space = space
        self.known: dict[Any, str] = {}
        self.free: list[str] = []
        self.count = 0

    def variable(self) -> str:
        if self.free:
            return self.free.pop()
        self.count += 1
        return f"v{self.count}"

    def constant(self, value: Any) -> str:
        if value.__class__ is int:
            return f"({value!r})" if value < 0 else repr(value)
        if value.__class__ in (bool, type(None), str):
            return repr(value)
        if value.__class__ is float and np.isfinite(value):
            return f"({value!r})"
        key = _constant_key(value)
        name = self.known.get(key)
        if name is None:
            word = getattr(value, "__name__", "") if callable(value) else "c"
            name = f"{word if word.isidentifier() else 'k'}_{len(self.space)}"
            self.known[key] = name
            self.space[name] = value
        return name

    def text(self, a: Any) -> str:
        if a.__class__ is Node:
            return a.name
        if a.__class__ is list:
            return f"[{', '.join([self.text(b) for b in a])}]"
        if a.__class__ is tuple and _reads(a, []):
            return f"({', '.join([self.text(b) for b in a])},)"
        return self.constant(a)


# Ufuncs that are exact to the last bit in every loop of NumPy's, so that they may write over an operand.
_EXACT: dict[Any, Any] = {
    f: f for f in (np.add, np.subtract, np.multiply, np.divide, np.negative, np.sqrt, np.square)
} | {
    operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply, operator.truediv: np.divide,
    operator.neg: np.negative,
}  # fmt: skip
_WORTH = 4096  # elements from which a fresh array costs more than the search for an old one


_SIGNS = {np.add: "+", np.subtract: "-", np.multiply: "*", np.divide: "/"}


def _sign_of(node: Node) -> str | None:
    """The operator that calls the same ufunc in less time."""
    if node.words or len(node.args) != 2:
        return None
    some = any(a.__class__ is Node and isinstance(a.sample, np.ndarray) for a in node.args)
    plain_ones = all(a.__class__ is Node or isinstance(a, (np.generic, np.ndarray)) for a in node.args)
    return _SIGNS.get(node.function) if some and plain_ones else None


def _overwrites(node: Node, dying: list[Node], owned: set[int]) -> Node | None:
    """An operand in whose memory the result may be written."""
    made = node.sample
    if node.function not in _EXACT or not isinstance(made, np.ndarray) or made.size < _WORTH or node.words:
        return None
    for a in dying:
        if id(a) in owned and a.sample.shape == made.shape and a.sample.dtype == made.dtype:
            return a
    return None


def _source(inputs: list[Node], nodes: list[Node], outputs: list[Node], space: dict[str, Any]) -> str:
    names = _Names(space)
    for i, node in enumerate(inputs):
        node.name = f"x{i}"
    last: dict[int, int] = {}
    aliased = {id(o) for o in outputs}
    for place, node in enumerate(nodes):
        for a in _reads_of(node):
            last[id(a)] = place
            if node.function not in _EXACT or node.words:
                aliased.add(id(a))  # another function may return a view of its operand
    mine = {id(n) for n in nodes}
    owned: set[int] = set()
    kept = {id(o) for o in outputs}
    lines = []
    for place, node in enumerate(nodes):
        read = _reads_of(node)
        dying = [a for a in {id(a): a for a in read}.values() if id(a) in mine and last[id(a)] == place]
        dying = [a for a in dying if id(a) not in kept]
        words = [names.text(a) for a in node.args]
        over = _overwrites(node, dying, owned) if dying else None
        if over is not None:
            words.append(f"out={over.name}")
            text = f"{names.constant(_EXACT[node.function])}({', '.join(words)})"
        elif _sign_of(node) is not None:
            text = f"{words[0]} {_sign_of(node)} {words[1]}"
        elif node.text is not None:
            text = node.text.format(*words)
        else:
            words += [f"{k}={names.text(v)}" for k, v in node.words.items()]
            text = f"{names.constant(node.function)}({', '.join(words)})"
        if id(node) not in aliased and node.function in _EXACT and not node.words:
            owned.add(id(node))
        if node.guards:
            lines.append(text)
            names.free.extend([a.name for a in dying])
            continue
        names.free.extend([a.name for a in dying])
        node.name = names.variable()
        if id(node) not in last and id(node) not in kept:
            names.free.append(node.name)
        lines.append(f"{node.name} = {text}")
    listed = ", ".join([names.text(o) for o in outputs])
    body = "".join(f"    {line}\n" for line in lines)
    arguments = ", ".join([n.name for n in inputs])
    return f"def program({arguments}):\n{body}    return ({listed}{',' if outputs else ''})\n"


# ---------------------------------------------------------------------------------------------- calls


class _Refusal:
    """A kind of arguments that runs eagerly."""

    def __init__(self, reason: str, held: list[Any]) -> None:
        self.reason, self.held = reason, held
        self.generation = _generation


class _Compiled:
    """A program with the variables that it reads and the structure that it returns."""

    def __init__(self, program: Program, variables: list[Any], made: Any, outputs: list[Any], held: Any) -> None:
        self.program = program
        self.run = program.run
        self.variables = [(v, v._tensor_layout) for v in variables]
        # Without the traced tensors, which hold every value of the traced call.
        self.structure = nest.map_structure(lambda _: 0, made) if nest.is_nested(made) else 0
        self.outputs = outputs  # a layout for each result of the program, any other result as it is
        self.held = held  # references to the objects whose identity is in the key
        self.generation = _generation
        self.calls = self.failures = 0
        leaf = not nest.is_nested(made)
        self.single = leaf and isinstance(made, Traced)
        # The class of a plain list or tuple of tensors.
        self.flat = (
            made.__class__ if made.__class__ in (list, tuple) and all(isinstance(x, Traced) for x in made) else None
        )

    def results(self, raws: tuple[Any, ...]) -> Any:
        """The raw results in tensors, in the structure of the traced call."""
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
        if record.peek() is not None:  # a tape records, or another function is being traced
            return self.function(*args, **kwargs)
        raws: list[Any] = []
        held: list[Any] = []
        if kwargs:
            kwargs = dict(sorted(kwargs.items()))
        try:
            key: Any = tuple([_key(x, raws, held) for x in args])
            if kwargs:
                key = (key, tuple([(k, _key(kwargs[k], raws, held)) for k in kwargs]))
            found = self._known.get(key)
        except (Untraceable, TypeError, RecursionError):  # arguments that no program takes
            self.warn("an argument is no tensor, number, text or structure of these")
            return self.function(*args, **kwargs)
        if found is not None and (found.generation != _generation or any(ref() is None for ref in found.held)):
            found = None
        if hasattr(record.idle_stack().run, "unchecked") or verify_mode():  # every kernel or gradient is to be checked
            return self.function(*args, **kwargs)
        if found is None:
            found = self._compile(key, args, kwargs, held)
        if found.__class__ is _Compiled:
            made = self._run(key, found, raws)
            if made is not _FAILED:
                return made
        return self.function(*args, **kwargs)

    def quick(self, args: tuple[Any, ...]) -> Any:
        """The result for tensors of a kind that was compiled before; None for other calls, and for a result None."""
        if record.peek() is not None:
            return None
        layouts, raws = [], []
        for x in args:
            if x.__class__ is not Tensor:
                return None
            layouts.append(x._layout)
            raws.append(x._value)
        key = tuple(layouts)
        found = self._known.get(key)
        if (
            found.__class__ is not _Compiled or found.generation != _generation
            or hasattr(record.idle_stack().run, "unchecked") or verify_mode()
        ):  # fmt: skip
            return None
        made = self._run(key, found, raws)
        return self.function(*args) if made is _FAILED else made

    def _run(self, key: Any, found: Any, raws: list[Any]) -> Any:
        """The result of a program for raw values; _FAILED where it is not valid."""
        found.calls += 1
        try:
            for v, layout in found.variables:
                if v._tensor_layout is not layout:
                    raise Guard
                raws.append(v._value)
            made = record.idle_stack().run(found.run, *raws)
        except Exception:  # a guard, or an error that the eager call words
            self._count_failure(key, found)
            return _FAILED
        return found.results(made)

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
            while len(self._known) > _MOST_PROGRAMS:
                self._known.popitem(last=False)
            return made

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
        program = Program(tracer.inputs, tracer.nodes, nodes, plain(self.name))
        return _Compiled(program, tracer.variables, made, outputs, held)

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
                    f"{len(made.outputs)} results" + (f", eager for {made.failures} calls" if made.failures else "")
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

"""The forms of arguments and results of compiled functions: the parts that programs take, and keys of programs."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.layout import make_layout
from gtape.base.reference import Reference
from gtape.tapes.packing import packer, written
from gtape.tapes.traced_values import Number, Raw, Traced, Untraceable
from gtape.tapes.tracing import Tracer
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor
from gtape.tensors.variable import Variable

__all__ = [
    "Later", "Results", "are_different", "form_of", "form_of_owner", "names_of", "outputs_of", "repeated",
    "taken_later", "takes_any_names", "traced", "why_unusual",
]  # fmt: skip

_NUMBERS = (bool, int, float, complex, str, bytes, type(None))
_PLAIN = (*_NUMBERS, list, tuple)
_EXACT = frozenset({*_PLAIN, dict})
_OF_NUMPY = frozenset("?bBhHiIlLqQefdFD")  # the character codes of NumPy's numbers of which programs take any value
_EQUALITIES = [c.__eq__ for c in _NUMBERS]


class _Unusual(Untraceable):
    """An argument, or a part of the argument, selects no program.

    Parameters
    ----------
    part : object
    why : str
        The end of a sentence about the part.
    """

    def __init__(self, part: Any, why: str) -> None:
        super().__init__(why)
        self.part, self.why = part, why


def takes_any_names(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter ``**kwargs``, which shows the order of the named arguments."""
    try:
        return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a built-in function without a signature
        return True


def names_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the positional parameters of a function, for messages."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in function without a signature
        return ()
    return tuple([p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])


def form_of(x: Any, tensors: list[Tensor], held: list[Any]) -> Any:
    """The properties of an argument that select the program.

    Parameters
    ----------
    x : object
    tensors : list
        Gains the tensors in the argument.
    held : list
        Gains weak references to the objects whose identity selects the program.

    Raises
    ------
    Untraceable
        If no program takes the argument.
    """
    if x.__class__ is Tensor:
        if x._layout.dtype.kind == "O":
            raise _Unusual(x, "no program takes strings")
        tensors.append(x)
        return x._layout
    if isinstance(x, Variable):
        held.append(weakref.ref(x))
        return ("variable", x._uid, x._tensor_layout)
    if isinstance(x, np.generic) and x.dtype.char in _OF_NUMPY:
        tensors.append(_number(x))
        return ("number", x.dtype)
    if x.__class__ not in _EXACT and isinstance(x, _PLAIN):
        if isinstance(x, (list, tuple)):
            if _has_attributes(x) or not _can_be_rebuilt(x):
                raise _Unusual(x, "its elements alone do not make an equal one")  # nor a copy with traced tensors
        elif _has_attributes(x) or x.__class__.__eq__ not in _EQUALITIES:
            return _by_identity(x, held)
    if isinstance(x, (float, complex)):  # as text, because 0.0 equals -0.0; a subclass may show other digits
        return (x.__class__, (float if isinstance(x, float) else complex).__repr__(x))
    if isinstance(x, _NUMBERS):
        return (x.__class__, x)
    if isinstance(x, (list, tuple)):
        return (x.__class__, *[form_of(y, tensors, held) for y in x])
    if x.__class__ is dict:
        return (dict, *[(form_of(k, tensors, held), form_of(y, tensors, held)) for k, y in x.items()])
    if isinstance(x, (Tensor, np.ndarray, np.generic)) or nest.is_nested(x):
        raise _Unusual(x, "a program takes tensors, numbers, texts, and lists, tuples and dicts of these")
    if isinstance(x, Iterator):
        raise _Unusual(x, "each call takes other elements from it")
    if x.__class__.__hash__ is not object.__hash__:
        try:
            hash(x)
        except Exception:
            raise _Unusual(x, _why_without_hash(x)) from None
    return _by_identity(x, held)


def _why_without_hash(x: Any) -> str:
    """Why an object has no hash, as the end of a sentence."""
    for field in dataclasses.fields(x) if dataclasses.is_dataclass(x) and x.__class__.__hash__ is not None else ():
        value = getattr(x, field.name, None)
        try:
            hash(value)
        except Exception:
            return (
                f"it has no hash, because its field {field.name} holds an object of the type "
                f"{type(value).__qualname__}; programs find tensors in lists, tuples and dicts, so make it a NamedTuple"
            )
    return "it has no hash, because its contents may change"


def form_of_owner(x: Any, tensors: list[Tensor], held: list[Any]) -> Any:
    """The same as `form_of` for the instance of a method, whose attributes are read when the method is traced."""
    plain = isinstance(x, (*_PLAIN, dict, Tensor, Variable, np.ndarray, np.generic)) or nest.is_nested(x)
    return form_of(x, tensors, held) if plain else _by_identity(x, held)


def why_unusual(names: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any], owned: int) -> str:
    """Why no program takes a call, as a sentence that names the argument.

    Parameters
    ----------
    names : sequence of str
        The names of the positional parameters.
    args, kwargs
        The arguments of the call.
    owned : int
        The number of first arguments that are the instance of a method.
    """
    given = [(names[k] if k < len(names) else str(k), x) for k, x in enumerate(args)]
    for name, x in [*given[owned:], *kwargs.items()]:
        try:
            hash(form_of(x, [], []))
        except (Untraceable, TypeError, RecursionError) as e:
            return _unusual(name, x, e)
    return "the instance of the method is of an unusual type"


def _unusual(name: str, x: Any, error: Exception) -> str:
    if not isinstance(error, _Unusual):
        return f"its argument {name} cannot select a program ({type(error).__name__}: {error})"
    part = error.part
    whole = "is" if part is x else "holds an object"
    return f"its argument {name} {whole} of the type {type(part).__qualname__}: {error.why}"


def _number(x: np.generic) -> Tensor:
    """A NumPy number as what a program takes. The tensor holds the number itself, also where tensors hold floats."""
    t = Tensor()
    t._value, t._layout, t._record = x, make_layout(x.dtype, ()), None
    return t


def _has_attributes(x: Any) -> bool:
    """Whether an object of a subclass has attributes of its own, which its elements or its number do not show."""
    slots = any("__slots__" in c.__dict__ and c.__slots__ for c in x.__class__.__mro__)
    return isinstance(x, enum.Enum) or slots or bool(getattr(x, "__dict__", None))


def _can_be_rebuilt(x: Any) -> bool:
    """Whether the class of a list or tuple makes an equal one of its elements."""
    made = x.__class__
    if isinstance(x, list):
        return made.__init__ is list.__init__ and made.__new__ is list.__new__
    if hasattr(x, "_fields"):
        named = next(c for c in made.__mro__ if "_fields" in c.__dict__)
        return made.__new__ is named.__new__ and made.__init__ is object.__init__
    return made.__new__ is tuple.__new__ and made.__init__ is object.__init__


def _by_identity(x: Any, held: list[Any]) -> Any:
    try:
        held.append(weakref.ref(x))
    except TypeError:
        held.append(lambda: x)
    return ("object", id(x))


def are_different(tensors: Sequence[Tensor]) -> bool:
    """Whether no tensor occurs twice among the arguments of a call."""
    return len(set(map(id, tensors))) == len(tensors)


def repeated(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """For each tensor the index of its first occurrence: a tape in the function that watches one watches all."""
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(t), k) for k, t in enumerate(tensors)])


def traced(x: Any, tracer: Tracer, made: list[Traced], known: dict[int, Traced]) -> Any:
    """An argument with traced tensors in place of tensors.

    Parameters
    ----------
    x : object
    tracer : Tracer
    made : list
        Gains the traced tensors in the order of `form_of`.
    known : dict
        The traced tensors by the identities of the tensors. A tensor that occurs twice is one traced tensor.
    """
    if x.__class__ is Tensor:
        made.append(Traced.of(tracer.input(x._value), x._layout))
        return known.setdefault(id(x), made[-1])
    if isinstance(x, np.generic) and x.dtype.char in _OF_NUMPY:
        # Not a tensor, because operators on NumPy's numbers take the dtype of the other operand, as in eager calls.
        raw = tracer.input(x)
        made.append(Traced.of(raw, make_layout(x.dtype, ())))
        return Number(tracer, raw.node)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return x.__class__(*[traced(y, tracer, made, known) for y in x])
    if isinstance(x, (list, tuple)):
        return x.__class__([traced(y, tracer, made, known) for y in x])
    if x.__class__ is dict:
        return {k: traced(y, tracer, made, known) for k, y in x.items()}
    if isinstance(x, Variable):
        tracer.lend(x)
    return x


class _Layout:
    __slots__ = ("layout",)

    def __init__(self, layout: Any) -> None:
        self.layout = layout


class _Fixed:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def again(self) -> Any:
        """The result as a new tensor, because a tape may watch the result of each call separately."""
        value = self.value
        return _tensor(value._value, _Layout(value._layout)) if value.__class__ is Tensor else value


def interned(t: Traced) -> Any:
    """The interned layout of the tensors that a traced tensor stands for."""
    return make_layout(t._layout.dtype, t._layout.shape)


def _tensor(raw: Any, place: _Layout) -> Tensor:
    t = Tensor()
    t._value, t._layout, t._record = raw, place.layout, None
    return t


def outputs_of(made: Any, tracer: Tracer) -> tuple[list[Any], list[Traced]]:
    """What later calls return.

    Parameters
    ----------
    made : object
        The result of a traced call.
    tracer : Tracer

    Returns
    -------
    outputs : list
        For each result its origin.
    tensors : list of Traced
        The results of the program.
    """
    if tracer.failed_check:
        raise Untraceable("it catches the error of a check or an op")
    if tracer.texts and _shows_values(made, tracer.texts):
        raise Untraceable("it returns a text that may hold the value of a tensor")
    if _has_traced_key(made):
        raise Untraceable("it returns a dict with a tensor in a key")
    outputs: list[Any] = []
    tensors = []
    for leaf in nest.flatten(made) if nest.is_nested(made) else [made]:
        if isinstance(leaf, Variable):
            leaf = tracer.read(leaf)
        elif leaf.__class__ is Raw:
            leaf = leaf.as_tensor()
        if isinstance(leaf, Traced):
            outputs.append(_Layout(interned(leaf)))
            tensors.append(leaf)
        elif leaf.__class__ is Tensor:
            tracer.seen.note(leaf._value)
            outputs.append(_Fixed(leaf))
        elif isinstance(leaf, (np.ndarray, np.generic, *_NUMBERS)):
            outputs.append(_Fixed(leaf))
        else:
            raise Untraceable(f"it returns {type(leaf).__name__}")
    return outputs, tensors


def _shows_values(x: Any, texts: set[str]) -> bool:
    """Whether the result of a traced call, in which `texts` stood for tensors, may hold one of the texts.

    Every text among the leaves may hold a part of them. A key may hold one of them only whole, because keys are seldom
    made of values.
    """
    if isinstance(x, Mapping):
        keys = any([t in str(k) for k in x for t in texts])  # noqa: C419 - a list is quicker
        return keys or any([_shows_values(y, texts) for y in x.values()])  # noqa: C419
    if isinstance(x, (list, tuple)):
        return any([_shows_values(y, texts) for y in x])  # noqa: C419
    if isinstance(x, Tensor):
        return bool(x._layout.dtype.kind == "O")
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype.kind in "OSU"
    return isinstance(x, (str, bytes))


def _has_traced_key(x: Any) -> bool:
    """Whether a dict in the result of a traced call has a key with a reference to a traced tensor."""
    if isinstance(x, Mapping):
        return any([_refers_to_traced(k) for k in x]) or any([_has_traced_key(y) for y in x.values()])  # noqa: C419
    return isinstance(x, (list, tuple)) and any([_has_traced_key(y) for y in x])  # noqa: C419


def _refers_to_traced(key: Any) -> bool:
    if isinstance(key, (tuple, frozenset)):
        return any([_refers_to_traced(k) for k in key])  # noqa: C419
    return isinstance(key, Reference) and isinstance(key.deref(), Traced)


class Results:
    """The structure that a compiled function returns.

    Parameters
    ----------
    made : object
        The result of the traced call.
    outputs : list
        The first result of `outputs_of`.

    Attributes
    ----------
    single : bool
        Whether the result is a tensor of the program, whose layout is `layout`.
    places : list of int
        The indices of the `count` raw results among all outputs.
    """

    def __init__(self, made: Any, outputs: list[Any]) -> None:
        self.places = [i for i, o in enumerate(outputs) if o.__class__ is _Layout]
        self.count = len(self.places)
        nested = nest.is_nested(made)
        # The structure holds no traced tensors, because these keep every value of the traced call.
        self.structure = nest.map_structure(lambda _: 0, made) if nested else 0
        self.outputs = outputs  # a layout for each result of the program, every other result unchanged
        self.single = not nested and isinstance(made, Traced) and self.count == 1
        self.nothing = made is None
        self.layout = outputs[0].layout if self.single else None
        self._made = None if self.single or self.nothing else self._written()

    @cached_property
    def packed(self) -> Callable[[list[Any]], Any]:
        """A function that packs a flat list of results into their structure."""
        return packer(self.structure, len(self.outputs))

    def _written(self) -> Any:
        """A function of the raw results that makes the results; None if no source makes them."""
        space: dict[str, Any] = {"new": object.__new__, "Tensor": Tensor}
        lines, leaves = [], []
        count = 0
        for i, o in enumerate(self.outputs):
            kind = o.__class__
            if kind is _Layout:
                space[f"layout{i}"] = o.layout
                lines.append(f"t{i} = new(Tensor)")
                lines.append(f"t{i}._value = raws[{count}]; t{i}._layout = layout{i}; t{i}._record = None")
                leaves.append(f"t{i}")
                count += 1
            elif o.value.__class__ is Tensor:
                space[f"again{i}"] = o.again
                lines.append(f"t{i} = again{i}()")
                leaves.append(f"t{i}")
            else:
                space[f"value{i}"] = o.value
                leaves.append(f"value{i}")
        return written(self.structure, "raws", lines, leaves, space)

    def results(self, raws: tuple[Any, ...]) -> Any:
        """The raw results as tensors, in the structure of the traced call."""
        if self.nothing:
            return None
        if self.single:
            return _tensor(raws[0], self.outputs[0])
        if self._made is not None:
            return self._made(raws)
        return self.packed(self.leaves(raws))

    def leaves(self, raws: tuple[Any, ...]) -> list[Any]:
        """The results as a flat list."""
        values = iter(raws)
        made: list[Any] = []
        for o in self.outputs:
            kind = o.__class__
            if kind is _Layout:
                made.append(_tensor(next(values), o))
            else:
                made.append(o.again())
        return made


# ---------------------------------------------------------------------------------------------- later calls


def _parts(x: Any) -> list[Any]:
    """The parts of an object that a later function takes: those of IndexedSlices, or the object itself."""
    return [x.values, x.indices, x.dense_shape] if isinstance(x, IndexedSlices) else [x]


def taken_later(calls: list[tuple[Any, list[Any]]]) -> list[Traced]:
    """The traced tensors that the later functions of a call take."""
    return [t for _, given in calls for x in given for t in _parts(x) if isinstance(t, Traced)]


class Later:
    """The functions that each run of a program calls at its end.

    Parameters
    ----------
    calls : list of (callable, list)
        The functions with their arguments, as the tracer noted them.
    start : int
        The index of the first argument among the raw values that the program returns.
    """

    __slots__ = ("_calls", "_start")

    def __init__(self, calls: list[tuple[Any, list[Any]]], start: int) -> None:
        self._start = start
        self._calls: list[tuple[Any, list[list[Any]]]] = [
            (f, [[_Layout(interned(t)) if isinstance(t, Traced) else _Fixed(t) for t in _parts(x)] for x in given])
            for f, given in calls
        ]

    def __call__(self, made: Sequence[Any]) -> None:
        """Call the functions on the values that a run of the program returned."""
        values = iter(made[self._start :])
        for f, given in self._calls:
            parts = [[_tensor(next(values), p) if p.__class__ is _Layout else p.again() for p in x] for x in given]
            f([x[0] if len(x) == 1 else IndexedSlices(*x) for x in parts])

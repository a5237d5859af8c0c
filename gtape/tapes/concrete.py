"""Concrete functions, which fix one kind of arguments, and the number of traces that TensorFlow would make."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gtape import dtypes, nest
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.base.tensor_shape import TensorShape
from gtape.base.tensor_spec import TensorSpec
from gtape.errors import InvalidArgumentError
from gtape.tensors.module import Module
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.tensors.variable import Variable

__all__ = ["ConcreteFunction", "Parameters", "Traces", "bound", "check_signature", "fitted"]

_numbers = itertools.count()
_EMPTY = inspect.Parameter.empty
_VALUES = (bool, int, float, complex, str, bytes)


# ---------------------------------------------------------------------------------------------- signatures


def check_signature(signature: Any) -> tuple[Any, ...]:
    """An `input_signature` as a tuple; raises TypeError for anything else."""
    if not isinstance(signature, (list, tuple)):
        raise TypeError(f"input_signature must be either a tuple or a list, got {type(signature)}")
    wrong = [x for x in nest.flatten(signature) if not isinstance(x, TensorSpec)]
    if wrong:
        raise TypeError(
            "input_signature must be a possibly nested sequence of TensorSpec objects, got invalid args "
            f"{wrong} with types {[type(x) for x in wrong]}."
        )
    return tuple(signature)


def bound(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
    """Arguments by name, with defaults. Raises TypeError for arguments that `f` does not take."""
    signature = inspect.signature(f)
    try:
        made = signature.bind(*args, **kwargs)
    except TypeError as e:
        raise TypeError(f"Binding inputs to gtape.function failed due to `{e}`; its signature is {signature}") from None
    made.apply_defaults()
    return made


class Parameters:
    """The parameters of a function, which tell apart spellings of a call from different calls.

    Parameters
    ----------
    f : callable
    skipped : int
        The number of first parameters that calls do not give, such as 1 for a method.

    Attributes
    ----------
    optional : bool
        Whether a call may leave out an argument.
    """

    def __init__(self, f: Callable[..., Any], skipped: int = 0) -> None:
        # A wrapper may read its keywords by name, so the parameters of the function that it wraps do not count.
        parameters: list[inspect.Parameter] = []
        with contextlib.suppress(TypeError, ValueError):  # an object may describe itself wrongly
            parameters += inspect.signature(f, follow_wrapped=False).parameters.values() if _in_python(f) else ()
        parameters = parameters[skipped:]
        self._by_name = {p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
        self._names = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY or p.name in self._by_name]
        self._defaults = {p.name: p.default for p in parameters if p.default is not _EMPTY}
        self._positional = tuple([self._defaults[n] for n in self._names if n in self._defaults])
        self._required = len(self._names) - len(self._positional)
        self._keywords = {n: x for n, x in self._defaults.items() if n not in self._names}
        self.optional = bool(self._defaults)
        self._has_tensors = next(_tensors(list(self._defaults.values())), None) is not None

    def complete(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments by position where possible, with defaults; unchanged if the function does not take them."""
        if kwargs or self._keywords:
            given, others = list(args), self._keywords | kwargs
            for name in self._names[len(args) :]:
                if name in kwargs and name in self._by_name:
                    given.append(others.pop(name))
                elif name in self._defaults:
                    given.append(self._defaults[name])
                else:
                    return args, kwargs
            return tuple(given), others
        count = len(args)
        if self._required <= count < len(self._names):
            args += self._positional[count - self._required :]
        return args, kwargs

    def shortest(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of `complete` without defaults at the end.

        A tensor stays that is given twice, because the function would read its default as another tensor.
        """
        if kwargs and not self._by_name.isdisjoint(kwargs):
            return args, kwargs  # given twice, so that the function raises an error
        if self._has_tensors and _has_twice([*args, *kwargs.values()]):
            return args, kwargs
        count = len(args)
        if count <= len(self._names):
            while count > self._required and _is_default(args[count - 1], self._positional[count - 1 - self._required]):
                count -= 1
        if kwargs:
            defaults = self._keywords
            kwargs = {k: x for k, x in kwargs.items() if k not in defaults or not _is_default(x, defaults[k])}
        return args[:count], kwargs


def _tensors(x: Any) -> Iterator[Tensor]:
    """The tensors in an argument."""
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, (list, tuple, dict)):
        for y in x.values() if isinstance(x, dict) else x:
            yield from _tensors(y)


def _has_twice(x: Any) -> bool:
    """Whether an argument holds a tensor twice."""
    tensors = list(_tensors(x))
    return len(set(map(id, tensors))) < len(tensors)


def _in_python(f: Any) -> bool:
    """Whether a function is written in Python. A function written in C may refuse the defaults of its signature."""
    while isinstance(f, functools.partial):
        f = f.func
    f = getattr(f, "__func__", f)
    call = f if isinstance(f, types.FunctionType) else inspect.getattr_static(type(f), "__call__", None)
    return isinstance(call, types.FunctionType)


def _is_default(x: Any, default: Any) -> bool:
    """Whether a call may leave out an argument, because it is its default or a number or text with the same digits.

    A default without a hash stays, because its contents may have changed since the last call.
    """
    if x is default:
        return type(default).__hash__ is not None or isinstance(default, (Tensor, Variable))
    return x.__class__ is default.__class__ and x.__class__ in _VALUES and x == default and repr(x) == repr(default)


def fitted(f: Callable[..., Any], signature: tuple[Any, ...], args: Any, kwargs: Any, name: str) -> tuple[Any, Any]:
    """Arguments as tensors of an `input_signature`. All other arguments must have their default values."""
    parameters = [p for p in inspect.signature(f).parameters.values() if p.kind is not p.VAR_KEYWORD]
    open_end = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL
    name = plain(name)
    fixed = parameters[:-1] if open_end else parameters
    if len(signature) > len(fixed) and not open_end:
        raise TypeError(f"input_signature contains {len(signature) - len(fixed)} extra type constraints.")
    if len(args) > len(fixed) and not open_end:
        raise TypeError(f"{name} takes {len(fixed)} arguments by its input_signature, got {len(args)}")
    for p in fixed[len(signature) :]:
        if p.default is _EMPTY:
            raise TypeError(f"input_signature missing type constraint for {p.name}")
    if kwargs or len(args) != len(signature):
        given = bound(f, args, kwargs)
        for p in fixed[len(signature) :]:
            if given.arguments[p.name] is not p.default and given.arguments[p.name] != p.default:
                raise TypeError(
                    f"{name}: {p.name} has no constraint in the input_signature, so it is always {p.default!r}, not "
                    f"{shown(given.arguments[p.name])}"
                )
        args = given.args[: len(signature)]
    return tuple([_fit(x, spec, name, i) for i, (x, spec) in enumerate(zip(args, signature, strict=True))]), {}


def _fit(value: Any, spec: Any, name: str, place: int) -> Any:
    if not isinstance(spec, TensorSpec):
        nest.assert_same_structure(spec, value)
        pairs = zip(nest.flatten(value), nest.flatten(spec), strict=True)
        return nest.pack_sequence_as(value, [_fit(v, s, name, place) for v, s in pairs])
    if isinstance(value, Variable):
        return value
    t = value if isinstance(value, Tensor) else convert_to_tensor(value, spec.dtype)
    if not spec.is_compatible_with(t):
        raise TypeError(
            f"{name}: argument {place} is {t.dtype.name}{t.shape}, which does not fit {spec} of the input_signature"
        )
    return t


# ---------------------------------------------------------------------------------------------- traces


class Traces:
    """The kinds of arguments of the calls so far. TensorFlow would trace the function once for each kind."""

    __slots__ = ("relaxed", "seen")

    def __init__(self, relaxed: bool) -> None:
        self.relaxed = relaxed
        self.seen: dict[Any, None] = {}

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the kind of arguments of one call."""
        key = tuple([_kind(x) for x in args])
        if kwargs:
            key = (*key, tuple(sorted((k, _kind(x)) for k, x in kwargs.items())))
        if key in self.seen:
            return
        if self.relaxed and self.seen:
            if any(_covers(k, key) for k in self.seen):
                return
            alike = [k for k in self.seen if _merged(k, key) is not None]
            if alike:
                key = _merged(alike[-1], key)
        self.seen[key] = None


# All NaN have one kind, as in TensorFlow, although no NaN equals another.
_NOT_A_NUMBER = ("nan",)


def _kind(x: Any) -> Any:
    """The kind of an argument. Two arguments have equal kinds if TensorFlow would not trace the function again."""
    try:
        return _kind_of(x)
    except RecursionError:
        raise ValueError(
            "an argument of a function must not hold itself, nor be nested deeper than Python's recursion goes: "
            f"{shown(x)}"
        ) from None


def _kind_of(x: Any) -> Any:
    if x.__class__ is Tensor or isinstance(x, (Tensor, np.ndarray, np.generic)):
        return (x._layout.dtype if isinstance(x, Tensor) else x.dtype, tuple(x.shape))
    if isinstance(x, Variable):
        return ("variable", x._layout.dtype, tuple(x._layout.shape))
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes)):
        if isinstance(x, (float, complex)) and x != x:
            return _NOT_A_NUMBER
        return ("value", x)  # 1, 1.0 and True are equal, as in TensorFlow
    if isinstance(x, TensorSpec):
        return (x.dtype.dtype, None if x.shape.rank is None else tuple(x.shape))
    if isinstance(x, (list, tuple)):
        return (x.__class__, *[_kind_of(y) for y in x])
    if isinstance(x, dict):
        return (dict, *[(k, _kind_of(y)) for k, y in x.items()])
    return id(x)


def _covers(wide: Any, key: Any) -> bool:
    """Whether the key `wide`, in which sizes may be None, covers another key."""
    if isinstance(wide, tuple) and isinstance(key, tuple):
        return len(wide) == len(key) and all(_covers(a, b) for a, b in zip(wide, key, strict=True))
    return wide is None or (wide.__class__ is key.__class__ and bool(wide == key))


def _merged(a: Any, b: Any) -> Any:
    """The key that covers both keys if they differ only in sizes; otherwise None."""
    if not (isinstance(a, tuple) and isinstance(b, tuple)) or len(a) != len(b):
        return a if a.__class__ is b.__class__ and a == b else None
    if len(a) == 2 and isinstance(a[0], np.dtype) and isinstance(a[1], tuple):
        same = a[0] == b[0] and len(a[1]) == len(b[1])
        return (a[0], tuple(m if m == n else None for m, n in zip(a[1], b[1], strict=True))) if same else None
    parts = [_merged(x, y) for x, y in zip(a, b, strict=True)]
    return None if any(p is None for p in parts) else tuple(parts)


# ---------------------------------------------------------------------------------------------- concrete functions


class ConcreteFunction:
    """A `function` with everything fixed except the values of its tensors. `get_concrete_function` returns it.

    Attributes
    ----------
    name : bytes
    structured_input_signature : (tuple, dict)
        The arguments: a TensorSpec for each tensor, every other value unchanged.
    inputs : list of TensorSpec
        The tensors among the arguments.

    Examples
    --------
    >>> import gtape as tf
    >>> @tf.function
    ... def scaled(x, factor=2.0):
    ...     return factor * x
    >>> concrete = scaled.get_concrete_function(tf.TensorSpec([None], tf.float32), 3.0)
    >>> concrete(tf.constant([1.0, 2.0])).numpy()
    array([3., 6.], dtype=float32)
    >>> concrete.structured_input_signature
    ((TensorSpec(shape=(None,), dtype=gtape.float32, name='x'), 3.0), {})
    """

    def __init__(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Callable[[Any], Any]) -> None:
        self._owner = owner
        self._seen = seen
        given = bound(owner.python_function, args, kwargs)
        self._bound = given
        self._specs: dict[str, Any] = {
            n: _as_specs(x, n) if n not in _rest(given) else x for n, x in given.arguments.items()
        }
        # Only arguments that hold tensors are passed in a call.
        self._open = [n for n, x in self._specs.items() if any(isinstance(y, TensorSpec) for y in _flat(x))]
        self.name = f"__inference_{plain(getattr(owner, '__name__', 'function'))}_{next(_numbers)}".encode()
        self._made: Any = None

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional arguments, and the keyword-only arguments."""
        made = inspect.BoundArguments(self._bound.signature, self._specs)
        return made.args, made.kwargs

    @property
    def inputs(self) -> list[TensorSpec]:
        """The specs of the tensors among the arguments."""
        return [x for n in self._open for x in _flat(self._specs[n]) if isinstance(x, TensorSpec)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on the tensors of its signature, given in order or by name.

        Raises
        ------
        TypeError
            If there are too few or too many tensors, an unknown name, or a tensor of another shape.
        gtape.errors.InvalidArgumentError
            If a tensor has another dtype.
        """
        names = self._open
        if names and self._bound.signature.parameters[names[-1]].kind is inspect.Parameter.VAR_POSITIONAL:
            before = len(names) - 1
            args = (*args[:before], args[before:]) if len(args) > before else args
        given = dict(zip(names, args, strict=False)) | kwargs
        twice = [n for n in names[: len(args)] if n in kwargs]
        if len(args) > len(names) or twice or set(given) != set(names):
            raise TypeError(
                f"{self.name.decode()} takes the tensors {names}, in this order or by name; got {len(args)} "
                f"arguments and the names {sorted(kwargs)}. Every other argument is fixed"
            )
        values = dict(self._bound.arguments)
        for n in names:
            values[n] = self._taken(given[n], self._specs[n], n)
        return self._run(values)

    def _taken(self, value: Any, spec: Any, name: str) -> Any:
        if not isinstance(spec, TensorSpec):
            nest.assert_same_structure(spec, value)
            pairs = zip(nest.flatten(value), nest.flatten(spec), strict=True)
            return nest.pack_sequence_as(value, [self._taken(v, s, name) for v, s in pairs])
        if isinstance(value, Variable):
            return value
        t = value if isinstance(value, Tensor) else convert_to_tensor(value, spec.dtype)
        if t._layout.dtype != dtypes.np_dtype(spec.dtype):
            raise InvalidArgumentError(
                f"cannot compute {self.name.decode()} as input {name!r} was expected to be a {spec.dtype.name} tensor "
                f"but is a {t.dtype.name} tensor"
            )
        if not spec.shape.is_compatible_with(t.shape):
            raise TypeError(
                f"Binding inputs to {self.name.decode()} failed, because input {name!r} has the shape "
                f"{tuple(t._layout.shape)}, and {spec} is expected. Call the function itself, which traces other shapes"
            )
        return t

    def _run(self, values: dict[str, Any]) -> Any:
        made = inspect.BoundArguments(self._bound.signature, values)
        return self._owner._traced_before(made.args, made.kwargs)

    # -------------------------------------------------------------------------------------- inputs and outputs

    @property
    def variables(self) -> list[Variable]:
        """The variables that the function can reach."""
        found: dict[int, Variable] = {}
        for x in self._seen(self._owner.python_function):
            for leaf in _flat(x):
                for v in (leaf,) if isinstance(leaf, Variable) else leaf.variables if isinstance(leaf, Module) else ():
                    found.setdefault(id(v), v)
        return list(found.values())

    @property
    def trainable_variables(self) -> list[Variable]:
        """The trainable variables that the function can reach."""
        return [v for v in self.variables if v.trainable]

    @property
    def captured_inputs(self) -> list[Any]:
        """The variables that the function reads besides its arguments."""
        return list(self.variables)

    @property
    def structured_outputs(self) -> Any:
        """The result of the function, with a TensorSpec for each tensor.

        The function runs on zeros, or twice if a size is None. Afterwards the variables get their values back.
        """
        if self._made is None:
            first = self._probe(2)
            if all(s.shape.is_fully_defined() for s in self.inputs):
                self._made = (first,)
            else:
                second = self._probe(3)
                specs = [_wider(a, b) for a, b in zip(nest.flatten(first), nest.flatten(second), strict=True)]
                self._made = (nest.pack_sequence_as(first, specs) if nest.is_nested(first) else specs[0],)
        return self._made[0]

    def _probe(self, size: int) -> Any:
        def zeros(spec: Any) -> Any:
            if not isinstance(spec, TensorSpec):
                return spec
            shape = [] if spec.shape.rank is None else [size if d is None else d for d in spec.shape]
            return wrap(np.zeros(shape, dtypes.np_dtype(spec.dtype)))

        before = [(v, v.numpy()) for v in self.variables]
        try:
            values = {n: _mapped(zeros, x) if n in self._open else x for n, x in self._specs.items()}
            return _mapped(lambda y: TensorSpec.from_tensor(y) if isinstance(y, Tensor) else y, self._run(values))
        finally:
            for v, value in before:
                v._put(value)

    @property
    def outputs(self) -> list[TensorSpec]:
        """The specs of the results, in a list."""
        return [x for x in _flat(self.structured_outputs) if isinstance(x, TensorSpec)]

    @property
    def output_shapes(self) -> Any:
        """The shapes of the results."""
        return _mapped(lambda s: s.shape if isinstance(s, TensorSpec) else s, self.structured_outputs)

    @property
    def output_dtypes(self) -> Any:
        """The dtypes of the results."""
        return _mapped(lambda s: s.dtype if isinstance(s, TensorSpec) else s, self.structured_outputs)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """Text with one argument on each line."""
        kinds = {n: p.kind.name for n, p in self._bound.signature.parameters.items()}
        return "Input Parameters:\n" + "\n".join(f"  {n} ({kinds[n]}): {x!r}" for n, x in self._specs.items())

    @property
    def graph(self) -> Any:
        """Raises AttributeError, because gtape runs functions as plain Python without a graph."""
        raise AttributeError("gtape's functions run as plain Python and have no graph; call the function instead")

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.pretty_printed_signature()}>"


def _rest(given: inspect.BoundArguments) -> set[str]:
    """The names of *args and **kwargs that no call has filled."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {n for n, p in given.signature.parameters.items() if p.kind in kinds and not given.arguments.get(n)}


def _flat(x: Any) -> list[Any]:
    return nest.flatten(x) if isinstance(x, (list, tuple, dict)) else [x]


def _mapped(f: Callable[[Any], Any], x: Any) -> Any:
    return nest.map_structure(f, x) if isinstance(x, (list, tuple, dict)) else f(x)


def _as_specs(x: Any, name: str) -> Any:
    """Tensors, arrays and specs as named specs; other values unchanged."""
    if isinstance(x, dict):
        return {k: _as_specs(v, f"{name}_{k}") for k, v in x.items()}
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(_as_specs(v, f"{name}_{i}") for i, v in enumerate(x))
    if isinstance(x, TensorSpec):
        return TensorSpec(x.shape, x.dtype, x.name or name)
    if isinstance(x, (Tensor, np.ndarray, np.generic)):
        t = convert_to_tensor(x)
        return TensorSpec(t.shape, t.dtype, name)
    return x


def _wider(a: Any, b: Any) -> Any:
    if not isinstance(a, TensorSpec):
        return a
    return TensorSpec(TensorShape(a.shape).most_specific_compatible_shape(b.shape), a.dtype, a.name)

"""The signatures of functions: parameters, and arguments that fit the specs of an `input_signature`."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.base.tensor_spec import TensorSpec
from gtape.tapes.traces import kind_of
from gtape.tensors.tensor import Tensor, convert_to_tensor
from gtape.tensors.variable import Variable

__all__ = ["Parameters", "as_specs", "bound", "by_specs", "check_signature", "converted", "fitted", "naming"]

_EMPTY = inspect.Parameter.empty
_VALUES = (bool, int, float, complex, str, bytes)


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


def by_specs(value: Any, spec: Any, take: Callable[[Any, TensorSpec, str], Any], where: str) -> Any:
    """An argument with the result of `take` at each TensorSpec.

    Parameters
    ----------
    value : object
    spec : object
        A TensorSpec, or a structure of these and of fixed values. The value has this structure down to the specs.
    take : callable
        Takes a part of the value, its spec and its place.
    where : str
        The place of the value in the arguments, for messages.

    Raises
    ------
    TypeError
        If the value has another structure, or another value in the place of a fixed one.
    """
    if isinstance(spec, TensorSpec):
        return take(value, spec, where)
    if isinstance(spec, dict):
        if not isinstance(value, dict) or value.keys() != spec.keys():
            raise TypeError(f"argument {where} must be a dict with the keys {shown(list(spec))}, not {shown(value)}")
        made = copy.copy(value)  # which keeps the class
        made.update([(k, by_specs(value[k], x, take, f"{where}[{shown(k)}]")) for k, x in spec.items()])
        return made
    if isinstance(spec, (list, tuple)):
        named = hasattr(spec, "_fields")
        kind = spec.__class__ if named else list if isinstance(spec, list) else tuple
        if not isinstance(value, kind) or len(value) != len(spec):
            raise TypeError(f"argument {where} must be a {kind.__name__} of {len(spec)} parts, not {shown(value)}")
        parts = [by_specs(y, x, take, f"{where}[{k}]") for k, (y, x) in enumerate(zip(value, spec, strict=True))]
        return value.__class__(*parts) if hasattr(value, "_fields") else value.__class__(parts)
    if not _is_same_value(value, spec):
        raise TypeError(
            f"argument {where} has no constraint in the signature, so it is always {shown(spec)}, not {shown(value)}"
        )
    return value if isinstance(value, (Variable, Tensor, np.ndarray, np.generic)) else spec


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of a function before the message of a TypeError that does not name the function."""
    try:
        yield
    except TypeError as e:
        raise e if name in str(e) else TypeError(f"{name}: {e}") from None


def converted(value: Any, spec: TensorSpec, where: str) -> Any:
    """A value as a tensor of the dtype of a spec. A tensor or a variable stays as it is."""
    if isinstance(value, (Tensor, Variable)):
        return value
    try:
        return convert_to_tensor(value, spec.dtype)
    except (TypeError, ValueError) as e:
        raise TypeError(f"argument {where} does not become a tensor of {spec.dtype.name}: {e}") from None


def _fit(value: Any, spec: TensorSpec, where: str) -> Any:
    t = converted(value, spec, where)
    if not spec.is_compatible_with(t):
        raise TypeError(
            f"argument {where} is {t.dtype.name}{t.shape}, which does not fit {spec} of the input_signature"
        )
    return t


def fitted(f: Callable[..., Any], signature: tuple[Any, ...], args: Any, kwargs: Any, name: str) -> tuple[Any, Any]:
    """Arguments as tensors of an `input_signature`, by position and by name.

    An argument without a constraint must have its default value. If its default holds an array or a tensor, any values
    of the same shape fit.
    """
    parameters = inspect.signature(f).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_end = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    rest = positional[len(signature) :] + [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    if len(signature) > len(positional) and not open_end:
        raise TypeError(f"input_signature contains {len(signature) - len(positional)} extra type constraints.")
    name = plain(name)
    most = max(len(signature), len(positional))
    if len(args) > most:
        raise TypeError(f"{name} takes {most} arguments by its input_signature, got {len(args)}")
    for p in rest:
        if p.default is _EMPTY:
            raise TypeError(f"input_signature missing type constraint for {p.name}")
    with naming(name):
        # A default without a hash is given, because the contents may have changed since the function was defined.
        if kwargs or len(args) != len(signature) or any(type(p.default).__hash__ is None for p in rest):
            given = bound(f, args, kwargs)
            others = [n for p in parameters if p.kind is p.VAR_KEYWORD for n in given.arguments[p.name]]
            if others or len(given.args) < len(signature):
                wrong = f"no argument {others[0]}" if others else f"{len(signature)} arguments"
                raise TypeError(f"{name} takes {wrong} by its input_signature")
            for p in rest:
                if (x := given.arguments[p.name]) is not p.default:
                    given.arguments[p.name] = by_specs(x, as_specs(p.default, p.name), _fit, p.name)
            args, kwargs = given.args, given.kwargs
        places = [p.name for p in positional] + [f"{n}[{k}]" for n in open_end for k in range(len(signature))]
        parts = [by_specs(x, s, _fit, n) for x, s, n in zip(args, signature, places, strict=False)]
    return (*parts, *args[len(signature) :]), kwargs


def _is_same_value(x: Any, fixed: Any) -> bool:
    """Whether an argument is of the same kind as a fixed one, or an equal object of the same class."""
    if x is fixed or kind_of(x) == kind_of(fixed):
        return True
    if x.__class__ is not fixed.__class__ or isinstance(x, (Tensor, Variable, np.ndarray)):
        return False
    try:
        return bool(x == fixed)
    except Exception:  # an object may compare to what has no truth
        return False


def as_specs(x: Any, name: str) -> Any:
    """Tensors, arrays and specs as named specs; other values unchanged."""
    if isinstance(x, dict):
        return {k: as_specs(v, f"{name}_{k}") for k, v in x.items()}
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(as_specs(v, f"{name}_{i}") for i, v in enumerate(x))
    if isinstance(x, TensorSpec):
        return TensorSpec(x.shape, x.dtype, x.name or name)
    if isinstance(x, (Tensor, np.ndarray, np.generic)):
        t = convert_to_tensor(x)
        return TensorSpec(t.shape, t.dtype, name)
    return x

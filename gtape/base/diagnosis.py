"""Errors of wrong arguments. The public function catches them and raises them with its name and arguments.

A function makes only cheap checks of its arguments. Other wrong arguments fail in an inner function, with an
AttributeError, an IndexError or a NumPy error that does not name the public function and the argument. `diagnosed`
replaces these errors, and no others, by an error with both names. A successful call costs one more Python call, so
functions that take about a microsecond are not decorated.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, TypeVar

import numpy as np

from gtape import errors
from gtape.base.docstrings import completed
from gtape.base.imports import library
from gtape.base.layout import Layout
from gtape.base.own_files import OWN_FOLDERS, is_own
from gtape.base.shown import shown

__all__ = ["diagnosed", "diagnosed_methods", "diagnosis"]

# In Python's error of a call with too few, too many or unknown arguments, here of a function of the user.
_OF_COUNT = re.compile(r"\(\) (missing \d+ required|takes .*positional argument|got an unexpected keyword argument)")

# The names of sources without a file that Python and NumPy themselves write. Any other name in angle brackets, such as
# `<stdin>`, `<string>` or `<ipython-input-1>`, is of code of the user.
_NAMES_OF_LIBRARIES = ("<frozen ", "<__array_function__ ")

F = TypeVar("F", bound=Callable[..., Any])

# Errors that wrong arguments cause in inner functions.
_FOREIGN = (
    AttributeError, LookupError, ArithmeticError, MemoryError, AssertionError, NotImplementedError, RecursionError,
    NameError, StopIteration, TypeError, ValueError,
)  # fmt: skip


def diagnosed(function: F) -> F:
    """Decorate a public function, so that errors of wrong arguments name it. Its docstring is `completed`, too.

    Errors from ``raise`` statements of this library and from functions of the user are not replaced. A docstring
    without a section Returns gets the section from the annotation.

    >>> from gtape.base.diagnosis import diagnosed
    >>> @diagnosed
    ... def first(items):
    ...     return items[0]
    >>> first([3])
    3
    """

    completed(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _FOREIGN as e:
            found = diagnosis(function, args, kwargs, e)
            if found is e:
                raise
            raise found from e

    return call  # type: ignore[return-value]


def diagnosis(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], e: Exception) -> Exception:
    """The error to raise instead of `e`, which the function raised for its arguments. If `e` is clear, `e` itself."""
    last = _last(e.__traceback__)
    if last is not None and isinstance(e, TypeError | ValueError) and ("truth value" in str(e) or "__bool__" in str(e)):
        unclear = _no_flag(function, args, kwargs)
        if unclear is not None:
            return unclear
    if last is not None and _is_of_the_call(last) and isinstance(e, TypeError) and _UNKNOWN_NAME in str(e):
        return TypeError(f"{e}; the arguments that may be named are {', '.join(_named(function))}")
    if last is None or (isinstance(e, errors.OpError) or _is_meant(e, last)):
        return e
    given = ", ".join([*[_described(a) for a in args], *[f"{k}={_described(v)}" for k, v in kwargs.items()]])
    reason = str(e).strip() or type(e).__name__
    text = f"{getattr(function, '__qualname__', function.__name__)}({given}): {reason}"
    if isinstance(e, MemoryError):
        return errors.ResourceExhaustedError(f"{text}; there is no room for the result, or for an argument")
    if isinstance(e, TypeError) and _OF_COUNT.search(reason):
        return errors.OperandTypeError(text)
    if isinstance(e, TypeError | AttributeError):
        return errors.OperandTypeError(f"{text}; an argument is of a type, a dtype or a shape that it does not take")
    if isinstance(e, ValueError) and not isinstance(e, np.linalg.LinAlgError):
        return ValueError(f"{text}; an argument has a value or a shape that it does not take")
    return errors.InvalidArgumentError(f"{text}; an argument has a value or a shape that it does not take")


_UNKNOWN_NAME = "unexpected keyword argument"


def _named(function: Any) -> list[str]:
    """The names of the arguments that a call may give by name."""
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind in by_name and p.name != "self"]


def _is_of_the_call(last: TracebackType) -> bool:
    """Whether the call of a decorated function failed before the function ran."""
    return last.tb_next is None and last.tb_frame.f_code.co_filename == __file__


def _no_flag(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
    """The error for an argument whose default is a bool and which has no truth value; None if there is none."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    for name, value in bound.arguments.items():
        if isinstance(bound.signature.parameters[name].default, bool):
            try:
                bool(value)
            except (TypeError, ValueError):
                called = getattr(function, "__qualname__", function.__name__)
                return errors.OperandTypeError(f"{called}: `{name}` must be True or False, not {_described(value)}")
    return None


def _described(x: Any) -> str:
    """The text of an argument in a message. For tensors and arrays their dtype and shape."""
    # The type, because a mock with a `spec` claims by its `__class__` to be an array.
    layout = x if issubclass(type(x), np.ndarray) else getattr(x, "_layout", None)
    if isinstance(layout, Layout | np.ndarray) and not isinstance(x, type):
        return f"{type(x).__name__} of {layout.dtype} and shape {list(layout.shape)}"
    return shown(x)


@functools.cache
def _libraries() -> tuple[str, ...]:
    """The folders of NumPy, its neighbours and Python's own library."""
    sysconfig = library("sysconfig")

    found = {os.path.dirname(os.path.dirname(np.__file__)), sysconfig.get_path("stdlib"), os.path.dirname(os.__file__)}
    return tuple(os.path.abspath(p) + os.sep for p in found)


def _last(tb: TracebackType | None) -> TracebackType | None:
    """The innermost entry of a traceback; None if it leads through code of the user."""
    last = None
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        compiled = name.endswith((".pyx", ".pxd"))  # the names of files in extensions of NumPy and SciPy
        known = is_own(name) or name.startswith((*_libraries(), *_NAMES_OF_LIBRARIES)) or _is_of_own_class(tb)
        if last is not None and not compiled and not known:
            return None
        last, tb = tb, tb.tb_next
    return last


def _is_of_own_class(tb: TracebackType) -> bool:
    """Whether source without a file belongs to gtape: that of a method which `dataclasses` writes."""
    frame = tb.tb_frame
    return frame.f_code.co_filename == "<string>" and is_own(str(frame.f_globals.get("__file__", "")))


def _is_meant(e: Exception, last: TracebackType) -> bool:
    """Whether the library raised the error itself, or Python raised it for arguments that do not fit the signature."""
    if _is_of_the_call(last):
        return True  # Python's error names the function
    file = last.tb_frame.f_code.co_filename
    if isinstance(e, RecursionError) or not file.startswith(OWN_FOLDERS):
        return False  # RecursionError may come from a `raise` statement that shows a deeply nested value
    import linecache

    line = linecache.getline(file, last.tb_lineno).strip()
    return not line or line.startswith("raise ")


C = TypeVar("C", bound=type)


def diagnosed_methods(cls: C) -> C:
    """Decorate the public methods of a class, except properties and inherited methods, by `diagnosed`.

    >>> @diagnosed_methods
    ... class Row:
    ...     def first(self, items):
    ...         return items[0]
    >>> Row().first([3])
    3
    """
    for name, value in list(vars(cls).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, staticmethod | classmethod):
            setattr(cls, name, type(value)(diagnosed(value.__func__)))
        elif isinstance(value, FunctionType):
            setattr(cls, name, diagnosed(value))
    return cls

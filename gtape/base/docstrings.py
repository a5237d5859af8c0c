"""Sections that the docstrings of many public functions share. Each is written once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["completed", "documented_like"]

F = TypeVar("F", bound=Callable[..., Any])

_BEGIN = re.compile(r"\n\n(?=(?:Parameters|Returns|Raises|Notes|Examples)\n-+\n)")
_ENTRY = re.compile(r"\n(?=\S)")
_AFTER_RETURNS = re.compile(r"^( *)(?=(?:Raises|Notes|Examples)\n *-+\n)", re.MULTILINE)
_EXAMPLES = re.compile(r"^( *)Examples\n *-+\n", re.MULTILINE)


def completed(function: Any) -> None:
    """Add to a docstring the type of the result and the import of gtape, if they are missing.

    Parameters
    ----------
    function : callable
        If its docstring has no section Returns, the section with the annotated type is added. If its examples use `tf`
        without an import, the import is added.

    Examples
    --------
    >>> from gtape.base.docstrings import completed
    >>> def largest(x):
    ...     '''The largest element.
    ...
    ...     Examples
    ...     --------
    ...     >>> largest(tf.constant([1.0]))
    ...     '''
    >>> completed(largest)
    >>> ">>> import gtape as tf" in largest.__doc__
    True
    """
    text = function.__doc__
    if not text:  # `python -OO` drops docstrings
        return
    result = function.__annotations__.get("return", "Any")
    if isinstance(result, str) and result != "Any" and "Returns\n" not in text and "Yields\n" not in text:
        text = _AFTER_RETURNS.sub(rf"\1Returns\n\1-------\n\1{result}\n\n\1", text, count=1)
    if "tf." in text and "import gtape as tf" not in text:
        text = _EXAMPLES.sub(r"\g<0>\1>>> import gtape as tf\n", text)
    function.__doc__ = text


def _sections(function: Any) -> dict[str, str]:
    """The sections of a docstring by title. The text before them has the empty title."""
    head, *rest = _BEGIN.split(inspect.cleandoc(function.__doc__))
    return {"": head} | {text.partition("\n")[0]: text for text in rest}


def _entries(section: str) -> dict[str, str]:
    """The entry of each parameter in a section. An entry may explain several parameters."""
    _, _, text = section.partition("-\n")
    return {name: e for e in _ENTRY.split(text) for name in e.partition("\n")[0].partition(" :")[0].split(", ")}


def documented_like(model: Any) -> Callable[[F], F]:
    """A decorator that adds Returns, Raises and shared parameters of `model` that a docstring leaves out.

    Parameters
    ----------
    model : function
        A function with a NumPy-style docstring and the section Parameters.

    Returns
    -------
    callable
        Changes the docstring of the function that it decorates, and returns that function.

    Examples
    --------
    >>> from gtape.base.docstrings import documented_like
    >>> def least(x: list, default: int = 0) -> int:
    ...     '''The least number.
    ...
    ...     Parameters
    ...     ----------
    ...     x : list of int
    ...     default : int
    ...     '''
    >>> @documented_like(least)
    ... def greatest(x: list) -> int:
    ...     '''The greatest number.'''
    >>> print(greatest.__doc__)
    The greatest number.
    <BLANKLINE>
    Parameters
    ----------
    x : list of int
    """

    def complete(function: F) -> F:
        if function.__doc__ and model.__doc__:  # `python -OO` drops docstrings
            own, shared = _sections(function), _sections(model)
            known = _entries(shared["Parameters"]) | _entries(own.get("Parameters", ""))
            taken = dict.fromkeys(known[name] for name in function.__annotations__ if name in known)
            own["Parameters"] = "\n".join(["Parameters\n----------", *taken])
            own |= {title: shared[title] for title in ("Returns", "Raises") if title in shared and title not in own}
            order = ("", "Parameters", "Returns", "Raises", "Notes", "Examples")
            function.__doc__ = "\n\n".join(own[title] for title in order if title in own)
            completed(function)
        return function

    return complete

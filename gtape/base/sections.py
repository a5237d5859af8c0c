"""Sections of docstrings for families of classes and functions, whose members differ in a name, a line and a number."""

from __future__ import annotations

import inspect
import re
from typing import Any

__all__ = ["add_result", "add_sections"]

_AFTER_RETURNS = re.compile(r"\n\n(?=(?:Raises|Notes|Examples)\n-)")


def add_result(function: Any) -> None:
    """Add the section Returns, with the annotation of the result, to a docstring with an example and without it.

    >>> def double(x: int) -> int:
    ...     '''Twice x.
    ...
    ...     Examples
    ...     --------
    ...     >>> double(1)
    ...     2
    ...     '''
    >>> add_result(double)
    >>> "Returns\\n-------\\nint\\n\\nExamples" in double.__doc__
    True
    """
    text, kind = function.__doc__ or "", function.__annotations__.get("return", "Any")
    if "Examples\n" in text and kind != "Any" and "Returns\n" not in text:
        section = f"\n\nReturns\n-------\n{kind}\n\n"
        function.__doc__ = _AFTER_RETURNS.sub(lambda _: section, inspect.cleandoc(text), count=1)


def add_sections(thing: Any, **sections: str) -> None:
    """Add sections, such as ``Returns="Tensor"``, to the docstring of a function or class, in the given order.

    The section Examples begins with the import of gtape.

    >>> def double(x):
    ...     '''Twice x.'''
    >>> add_sections(double, Parameters="x : float", Returns="float")
    >>> print(double.__doc__)
    Twice x.
    <BLANKLINE>
    Parameters
    ----------
    x : float
    <BLANKLINE>
    Returns
    -------
    float
    """
    if thing.__doc__:  # `python -OO` drops docstrings
        parts = [inspect.cleandoc(thing.__doc__)]
        for title, text in sections.items():
            begin = ">>> import gtape as tf\n" if title == "Examples" else ""
            parts.append(f"{title}\n{'-' * len(title)}\n{begin}{text}")
        thing.__doc__ = "\n\n".join(parts)

"""Sections of docstrings for families of classes and functions that differ in a name, a line and a number."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["add_sections"]


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

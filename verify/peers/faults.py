"""One wrong number of a peer, and the words for what is wrong and where."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["WHATS", "Fault"]

# What can be wrong -> the words for it, the gravest first.
WHATS = {
    "crash": "the process crashes",
    "hang": "the call does not return",
    "raises": "an exception is raised although the derivative exists",
    "nan": "NaN although the derivative is finite",
    "infinite": "infinite although the derivative is finite",
    "opposite": "the wrong sign",
    "wrong": "a wrong number",
    "zero": "0 although the derivative is not",
    "digits": "fewer than half of the digits are right",
    "kink": "not a number between the one-sided derivatives",
}


class Fault(NamedTuple):
    """One wrong number.

    Attributes
    ----------
    library, subject, expression : str
        The peer, the function's name in the tables, and the peer's expression.
    mode : tuple of str
        The outermost differentiation first.
    by : tuple of int
        The arguments of differentiation.
    dtype : str
    what : str
        One of `WHATS`.
    place : str
        Where, in words.
    arguments : tuple of array
    element : tuple of int
        The element of the derivative.
    got : float or str
        The number, or the error.
    exact : str
        40 digits.
    why : str
        The reason why the exact number counts.
    """

    library: str
    subject: str
    expression: str
    mode: tuple[str, ...]
    by: tuple[int, ...]
    dtype: str
    what: str
    place: str
    arguments: tuple[Any, ...]
    element: tuple[int, ...]
    got: float | str
    exact: str
    why: str

    @property
    def order(self) -> int:
        """The order of the derivative."""
        return len(self.by)

"""One wrong number of a peer, with its kind and place in words."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

__all__ = ["MECHANISMS", "WHATS", "Fault", "extreme", "mechanism"]

# Each kind of fault -> the words for it, the gravest first.
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

# Each mechanism of wrong numbers -> the words for it. Kinds of faults share a mechanism, because a lost tail is 0 in
# one place and has few digits in the next, and a square that overflows gives 0 in one formula and NaN in another.
MECHANISMS = {
    "range": "only where sixth powers of the arguments leave the dtype",
    "lost": "finite and wrong",
    "not finite": "NaN or infinite",
}
_NOT_FINITE = ("nan", "infinite")


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
    mechanism : str
        The common mechanism of the wrong numbers of this mode, one of `MECHANISMS`; empty without numbers.
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
    mechanism: str = ""

    @property
    def order(self) -> int:
        """The order of the derivative."""
        return len(self.by)


def extreme(values: Any, dtype: Any) -> Any:
    """A mask of the numbers, other than 0, whose sixth powers leave the range of the dtype.

    Examples
    --------
    >>> extreme([0.0, 1e-52, 1.0, 1e51, 1e52], "float64").tolist()
    [False, True, False, False, True]
    """
    info = np.finfo(dtype)
    size = np.abs(np.asarray(values, dtype=np.float64))
    return (size != 0) & ((size < float(info.tiny) ** (1 / 6)) | (size > float(info.max) ** (1 / 6)))


def mechanism(whats: Collection[str], everywhere_extreme: bool) -> str:
    """The mechanism of wrong numbers that belong together.

    Parameters
    ----------
    whats : collection of str
        Of `WHATS`.
    everywhere_extreme : bool
        Whether all their points have an `extreme` argument.

    Examples
    --------
    >>> mechanism(["zero", "nan"], False), mechanism(["nan"], False), mechanism(["zero", "nan"], True)
    ('lost', 'not finite', 'range')
    """
    if everywhere_extreme:
        return "range"
    return "not finite" if all(w in _NOT_FINITE for w in whats) else "lost"

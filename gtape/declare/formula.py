"""Functions of one Python float by one expression, which generated functions hold in place of a call."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

__all__ = ["formula", "parts_of"]

# The argument in the source of a formula.
_ARGUMENT = "$x"


def formula(source: str, **names: Any) -> Callable[[float], float]:
    """A function of a float for `scalar` of a declaration.

    Backward steps of Python floats hold the expression itself, because a call takes as long as the arithmetic.

    Parameters
    ----------
    source : str
        A Python expression of ``$x``. Names that it assigns with ``:=`` are single letters.
    **names
        The functions and numbers that the expression reads, by names of two letters at least.

    Returns
    -------
    callable
        Takes a float and returns a float.

    Raises
    ------
    SyntaxError
        If `source` is no expression.

    Examples
    --------
    >>> import math
    >>> formula("1.0 / (c * c) if (c := cosh($x)) < 1e150 else 0.0", cosh=math.cosh)(0.0)
    1.0
    """
    space: dict[str, Any] = dict(names)
    exec(compile(f"def value(x):\n    return {source.replace(_ARGUMENT, 'x')}\n", "<gtape formula>", "exec"), space)
    made: Any = space["value"]
    made.formula = (source, names)
    return made  # type: ignore[no-any-return]


def parts_of(function: Any, argument: Any, bound: Callable[[Any], str]) -> list[Any] | None:
    """The source of a formula as words and arguments; None for any other function.

    Parameters
    ----------
    function : callable
    argument : object
        Stands in the list wherever the expression reads its argument.
    bound : callable
        Gives a function or number that the expression reads a name in the source.
    """
    found = getattr(function, "formula", None)
    if found is None:
        return None
    source, names = found
    own = {name: bound(value) for name, value in names.items()}
    source = re.sub(r"\b[a-zA-Z_]\w+", lambda m: own.get(m[0], m[0]), f"({source})")
    parts: list[Any] = []
    for word in source.split(_ARGUMENT):
        parts += [word, argument]
    return parts[:-1]

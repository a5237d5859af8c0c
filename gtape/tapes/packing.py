"""The structures that compiled functions return, built by generated functions.

A generated function of a program names the keys and classes of its structure once, so that no call walks the structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gtape import nest

__all__ = ["packer", "written"]

# A longer or deeper structure is walked at each call, because the source of its function would be long or deep.
_MOST_LEAVES = 200
_MOST_LEVELS = 30


class _Unusual(Exception):
    """No source builds the structure."""


def _source(structure: Any, leaves: Any, space: dict[str, Any], level: int = 0) -> str:
    """An expression that builds a structure.

    Parameters
    ----------
    structure : object
    leaves : iterator of str
        Expressions of the leaves, in order.
    space : dict
        Gains the objects that the expression names.
    level : int
    """
    if level > _MOST_LEVELS:
        raise _Unusual
    if not nest.is_nested(structure):
        return str(next(leaves))
    cls = structure.__class__
    if cls is dict:
        # Leaves come in the order of sorted keys, and the dict has an order of its own.
        parts = {k: _source(structure[k], leaves, space, level + 1) for k in sorted(structure)}
        return "{" + ", ".join([f"{_named(k, space)}: {parts[k]}" for k in structure]) + "}"
    named = isinstance(structure, tuple) and isinstance(getattr(structure, "_fields", None), tuple)
    if not (named or cls is list or cls is tuple):
        raise _Unusual
    inner = "".join([f"{_source(x, leaves, space, level + 1)}, " for x in structure])
    return f"[{inner}]" if cls is list else f"({inner})" if cls is tuple else f"{_named(cls, space)}({inner})"


def _named(x: Any, space: dict[str, Any]) -> str:
    name = f"k{len(space)}"
    space[name] = x
    return name


def written(
    structure: Any, parameters: str, lines: Sequence[str], leaves: Sequence[str], space: dict[str, Any]
) -> Callable[..., Any] | None:
    """A function that builds a structure; None for an unusual structure.

    Parameters
    ----------
    structure : object
    parameters : str
        The parameters of the function.
    lines : sequence of str
        Statements that compute the leaves.
    leaves : sequence of str
        For each leaf its expression.
    space : dict
        The objects that the statements name.
    """
    if len(leaves) > _MOST_LEAVES:
        return None
    try:
        expression = _source(structure, iter(leaves), space)
    except _Unusual:
        return None
    body = "".join([f"    {line}\n" for line in lines])
    exec(compile(f"def results({parameters}):\n{body}    return {expression}\n", "<gtape results>", "exec"), space)
    return space["results"]  # type: ignore[no-any-return]


def packer(structure: Any, count: int) -> Callable[[list[Any]], Any]:
    """A function that packs a flat list of `count` leaves into a structure."""
    made = written(structure, "leaves", (), [f"leaves[{k}]" for k in range(count)], {})
    return (lambda leaves: nest.pack_sequence_as(structure, leaves)) if made is None else made

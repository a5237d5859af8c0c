"""The arguments of a traced call: copies, which the function must leave as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gtape.base.escaping import plain
from gtape.tapes.forms import traced
from gtape.tapes.traced_values import Number, Traced
from gtape.tapes.tracing import Tracer

__all__ = ["TracedArguments"]


class TracedArguments:
    """The arguments of a traced call, with traced tensors in place of tensors.

    Lists and dicts are copies. A program repeats no change of them, so the function may change none.

    Parameters
    ----------
    args, kwargs
        The arguments of the call.
    tracer : Tracer

    Attributes
    ----------
    args, kwargs
        What the traced function takes.
    given : list of Traced
        The traced tensors in the order of `form_of`.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], tracer: Tracer) -> None:
        self.given: list[Traced] = []
        known: dict[int, Traced] = {}
        self.args: tuple[Any, ...] = traced(args, tracer, self.given, known)
        self.kwargs: dict[str, Any] = traced(kwargs, tracer, self.given, known)
        self._before = _contents([*self.args, *self.kwargs.values()])

    def refuse_changes(self, name: str, names: Sequence[str]) -> None:
        """Raise a ValueError if the function `name` changed a list or a dict. Its positional parameters have `names`.

        TensorFlow raises a ValueError, too.
        """
        given = [names[k] if k < len(names) else f"argument {k}" for k in range(len(self.args))] + list(self.kwargs)
        after = [*self.args, *self.kwargs.values()]
        changed = [n for n, a, b in zip(given, self._before[1], after, strict=True) if not _is_unchanged(a, b)]
        if changed:
            raise ValueError(
                f"{plain(name)} should not modify its Python input arguments, because with jit_compile=True it runs "
                f"once, and later calls repeat only its ops. It modified {plain(', '.join(changed))}: modify and "
                "return a copy, keep numbers in a gtape.Variable, or leave jit_compile out"
            )


def _contents(x: Any) -> Any:
    """The elements of lists, tuples and dicts; another object itself."""
    if isinstance(x, (list, tuple)):
        return (x.__class__, [_contents(y) for y in x])
    return (dict, {k: _contents(y) for k, y in x.items()}) if x.__class__ is dict else x


def _is_unchanged(before: Any, x: Any) -> bool:
    """Whether an argument has the contents from before the call. The order of a dict may be another."""
    if isinstance(x, (list, tuple)):
        if before.__class__ is not tuple or before[0] is not x.__class__ or len(before[1]) != len(x):
            return False
        return all([_is_unchanged(a, b) for a, b in zip(before[1], x, strict=True)])  # noqa: C419 - a list is quicker
    if x.__class__ is dict:
        if before.__class__ is not tuple or before[0] is not dict or before[1].keys() != x.keys():
            return False
        return all([_is_unchanged(before[1][k], y) for k, y in x.items()])  # noqa: C419
    if type(x) is Number and type(before) is Number:
        return x.node is before.node
    return x is before or (x.__class__ is before.__class__ in _VALUES and repr(x) == repr(before))


_VALUES = frozenset({bool, int, float, complex, str, bytes})

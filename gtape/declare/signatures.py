"""Checks the arguments that a function of a declaration takes. An error names the op and its declaration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gtape.declare.primitives import Primitive

__all__ = ["check_signature", "defaults_of", "wrong"]


def wrong(prim: Primitive, text: str) -> ValueError:
    """The error to raise for a wrong declaration."""
    return ValueError(f"{prim.declaration} is wrong: {text}")


def check_signature(
    prim: Primitive, what: str, f: Callable[..., Any], names: Sequence[str], params: Any, why: str = ""
) -> None:
    """Raise an error if a function does not take these arguments.

    Parameters
    ----------
    what : str
        The name of the function in the error.
    names : sequence of str
        The arguments by position.
    params : iterable of str
        The keyword arguments.
    why : str
        The reason for these arguments, for the end of the error.
    """
    import inspect  # not above, because `import gtape` does not need it

    asked = ", ".join([*names, *([f"*, {', '.join(params)}"] if params else [])])
    if isinstance(f, np.ufunc):
        if f.nin != len(names) or params:
            raise wrong(prim, f"{what} has to take ({asked}), but {f.__name__} takes {f.nin} arrays{why}")
        return
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # a function written in C may have no signature
        return
    try:
        signature.bind(*names, **dict.fromkeys(params))
    except TypeError as e:
        raise wrong(prim, f"{what} has to take ({asked}), but takes {signature}: {e}{why}") from None


def defaults_of(prim: Primitive) -> dict[str, Any]:
    """The parameters of a primitive that have a default in the signature of its kernel."""
    if not prim.params:
        return {}
    import inspect  # not above, because `import gtape` does not need it

    known = inspect.signature(prim.kernel).parameters
    return {p: known[p].default for p in prim.params if p in known and known[p].default is not inspect.Parameter.empty}

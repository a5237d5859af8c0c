"""Code without warnings for floating-point errors, as in ops, in the caller's own context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from gtape.base.blocks import block

__all__ = ["quiet", "quietly"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def quietly() -> AbstractContextManager[None]:
    """Let NumPy ignore floating-point errors during a block; `quiet` is the decorator.

    ``np.errstate`` is not enough, because it stays in force after an interrupt at the end of its `__enter__`.
    """
    before = np.geterr()
    return _INSIDE if before == _QUIET else _quietly(before)


_INSIDE: AbstractContextManager[None] = nullcontext()  # a block inside another one changes nothing


@block
def _quietly(before: Any) -> Iterator[None]:
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        if np.geterr() != before:  # after an interrupt in the middle of `errstate`
            np.seterr(**before)


def quiet(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let NumPy ignore floating-point errors during each call of a function."""

    @wraps(function)
    def made(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with quietly():
            return function(*args, **kwargs)

    return made


_QUIET = dict.fromkeys(np.geterr(), "ignore")

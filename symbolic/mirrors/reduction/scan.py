"""Mirrors of running sums and products: element by element, as the definitions say."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import add, mul
from typing import Any

import numpy as np

from gtape.symbolic.balls import objects, rowwise
from gtape.symbolic.mirrors.registry import array


def _scan(
    combine: Callable[[Any, Any], Any], neutral: int, exclusive: bool, reverse: bool
) -> Callable[[list[Any]], list[Any]]:
    """Combine the elements one by one, and list the total after each element (if exclusive: before each)."""

    def scan(row: list[Any]) -> list[Any]:
        total: Any = neutral
        out = []
        for v in reversed(row) if reverse else row:
            before, total = total, combine(total, v)
            out.append(before if exclusive else total)
        return out[::-1] if reverse else out

    return scan


def _shift(W: Any, x: Any, *, axis: int, by: int) -> Any:
    def move(row: list[Any]) -> list[Any]:
        n = len(row)
        return [row[i - by] if 0 <= i - by < n else 0 for i in range(n)]

    return rowwise(move, axis, x)


def _recurrence(W: Any, a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    """The recurrence s[i] = b[i] + a[i] * s[i - 1], with s[0] = b[0]; from the other end if reversed."""

    turn = slice(None, None, -1 if reverse else 1)

    def solve(factors: list[Any], terms: list[Any]) -> list[Any]:
        s = terms[turn][:1]
        for f, t in zip(factors[turn][1:], terms[turn][1:], strict=True):
            s.append(t + f * s[-1])
        return s[turn]

    return rowwise(solve, axis, a, b)


array("shift", _shift)
array("cumsum", lambda W, x, *, axis, exclusive, reverse: rowwise(_scan(add, 0, exclusive, reverse), axis, x))
array("cumprod", lambda W, x, *, axis, exclusive, reverse: rowwise(_scan(mul, 1, exclusive, reverse), axis, x))
array("linear_recurrence", _recurrence)
array("prod", lambda W, x: objects(np.multiply.reduce(W.objects(x), axis=-1)))
array("prod_others", lambda W, x: rowwise(lambda row: [prod(row[:i] + row[i + 1 :]) for i in range(len(row))], -1, x))

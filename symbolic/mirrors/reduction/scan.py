"""Mirrors of running sums and recurrences: element by element, as the definitions say."""

from __future__ import annotations

from operator import add
from typing import Any

from gtape.symbolic.balls import rowwise, running
from gtape.symbolic.mirrors.registry import array


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
array("cumsum", lambda W, x, *, axis, exclusive, reverse: rowwise(running(add, 0, exclusive, reverse), axis, x))
array("linear_recurrence", _recurrence)

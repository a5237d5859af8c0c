"""Mirrors of products: of all elements, running, and their derivatives, element by element."""

from __future__ import annotations

from math import prod
from operator import mul
from typing import Any

import numpy as np

from gtape.symbolic.balls import objects, rowwise, running
from gtape.symbolic.mirrors.registry import array


def _moved(x: list[Any], ts: tuple[list[Any], ...]) -> list[dict[int, Any]]:
    """Elements that move along directions: sets of directions, as bits, with the coefficients of their products."""
    return [{0: v, **{1 << i: t for i, t in enumerate(moves)}} for v, *moves in zip(x, *ts, strict=True)]


def _product(a: dict[int, Any], b: dict[int, Any]) -> dict[int, Any]:
    """The product of two numbers that move along directions. Squares of a direction count as 0."""
    made: dict[int, Any] = {}
    for s, u in a.items():
        for t, v in b.items():
            if not s & t:
                made[s | t] = made[s | t] + u * v if s | t in made else u * v
    return made


def _push(W: Any, x: Any, ts: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    """The part of the running products that moves along every direction."""
    ts = objects(ts)
    products = running(_product, {0: 1}, exclusive, reverse)

    def along(row: list[Any], *moves: list[Any]) -> list[Any]:
        return [made.get((1 << len(moves)) - 1, 0) for made in products(_moved(row, moves))]

    return rowwise(along, axis, x, *np.moveaxis(ts, -1, 0))


def _pull(W: Any, x: Any, gs: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    """For each element the running products that contain the element, without the element, each times its cotangent."""
    gs = objects(gs)
    turn = slice(None, None, -1 if reverse else 1)

    def back(row: list[Any], g: list[Any], *moves: list[Any]) -> list[Any]:
        moved, g = _moved(row, moves)[turn], g[turn]
        before = running(_product, {0: 1}, True, False)(moved)
        every = (1 << len(moves)) - 1
        after: dict[int, Any] = {}
        out = []
        for i in reversed(range(len(moved))):
            if not exclusive:
                after[0] = after.get(0, 0) + g[i]
            out.append(_product(before[i], after).get(every, 0))
            after = _product(moved[i], after)
            if exclusive:
                after[0] = after.get(0, 0) + g[i]
        return out if reverse else out[::-1]

    return rowwise(back, axis, x, *np.moveaxis(gs, -1, 0))


array("cumprod", lambda W, x, *, axis, exclusive, reverse: rowwise(running(mul, 1, exclusive, reverse), axis, x))
array("cumprod_push", _push)
array("cumprod_pull", _pull)
array("prod", lambda W, x: objects(np.multiply.reduce(W.objects(x), axis=-1)))
array("prod_others", lambda W, x: rowwise(lambda row: [prod(row[:i] + row[i + 1 :]) for i in range(len(row))], -1, x))

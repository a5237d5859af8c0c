"""A function of balls that remembers its results tells precisions, radii and kinds of arguments apart."""

from __future__ import annotations

from typing import Any

from flint import acb, arb

from gtape.symbolic.balls import precision
from gtape.symbolic.remembered import remembered


def test_each_result_is_computed_once_for_each_precision_and_argument() -> None:
    calls: list[Any] = []

    def zeta(s: Any, x: Any) -> Any:
        calls.append((s, x))
        return arb(s).zeta(x) if isinstance(x, arb) else acb(s).zeta(x)

    known = remembered(zeta)
    points = [
        arb(3), arb(3, 0.125), arb("inf"), arb("-inf"), arb(0, arb("inf")), arb("nan"),
        acb(3), acb(3, 1), acb(3, arb(1, 0.5)), acb(0, arb("inf")), acb(0, arb("-inf")),
    ]  # fmt: skip
    for bits in (53, 200):
        with precision(bits):
            first = [known(2, x) for x in points]
            assert [str(zeta(2, x)) for x in points] == [str(y) for y in first]
            assert all(known(2, x + 0) is y for x, y in zip(points, first, strict=True))
    assert len(calls) == 4 * len(points)
    assert known(3, arb(3)) != known(2, arb(3)) and remembered(zeta) is known

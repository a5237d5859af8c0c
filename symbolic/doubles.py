"""The world of float64 arrays: sums of products, comparisons and moves by their mirrors, with roundings of float64.

A sum of products of float32 numbers is so accurate in float64 that a first comparison needs no enclosures. Such a
comparison takes a tenth of the time, and only numbers that it leaves open need enclosures.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.objects import COMPARISONS, ObjectWorld

__all__ = ["DOUBLES", "DoubleWorld"]


class DoubleWorld(ObjectWorld):
    """The mirrors of ops on arrays that add, multiply, compare and move numbers, on arrays of float64.

    Examples
    --------
    >>> DOUBLES.matmul(np.array([[1.0, 2.0]], np.float32), np.array([[0.5], [0.25]]))
    array([[1.]])
    """

    def exact(self, x: Any) -> float:
        return float(x)

    def sign_of(self, a: Any, b: Any, relation: str) -> int:
        return int(a > b) - int(a < b)

    def mean(self, tied: list[Any]) -> Any:
        return tied[0]

    def _holds_in(self, a: np.ndarray, b: np.ndarray, relation: str) -> np.ndarray:
        return np.asarray(COMPARISONS[relation](a, b))

    def lift_floats(self, x: np.ndarray) -> np.ndarray:
        return x.astype(np.float64, copy=False)

    def objects(self, x: Any) -> np.ndarray:
        return np.asarray(x, np.float64)

    def _matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        made: np.ndarray = np.matmul(a, b)
        return made

    def _result(self, x: Any) -> Any:
        return x


DOUBLES = DoubleWorld()

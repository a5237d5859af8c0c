"""The domain of an op: data on its declaration that proofs, strategies and the census read."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

__all__ = ["ANY_REAL", "BOOLEAN", "NONNEGATIVE", "NONZERO", "OPEN_UNIT", "POSITIVE", "UNIT", "Domain", "Interval"]


class Interval:
    """The values that one argument may take: an interval of the real line without some holes.

    Parameters
    ----------
    lo, hi : float
        The ends, in the argument's units; infinite where there is no bound.
    open_lo, open_hi : bool
        Whether the end itself lies outside. At a closed end the op is defined, but may have no derivative.
    holes : tuple of float
        Interior points where the op is not defined (poles).
    whole : bool
        Whether only whole numbers are allowed (orders, degrees).

    Raises
    ------
    ValueError
        If `lo` is greater than `hi`, or one of them is NaN.
    """

    __slots__ = ("hi", "holes", "lo", "open_hi", "open_lo", "whole")

    def __init__(
        self, lo: float = -inf, hi: float = inf, *, open_lo: bool = False, open_hi: bool = False,
        holes: tuple[float, ...] = (), whole: bool = False,
    ) -> None:  # fmt: skip
        if not all(isinstance(end, (int, float, np.number)) for end in (lo, hi)) or not lo <= hi:
            raise ValueError(f"an interval needs ends in order, not lo={lo!r} and hi={hi!r}")
        self.lo, self.hi = lo, hi
        self.open_lo, self.open_hi = open_lo, open_hi
        self.holes = holes
        self.whole = whole

    def __contains__(self, x: float) -> bool:
        above = x > self.lo or (x == self.lo and not self.open_lo)
        below = x < self.hi or (x == self.hi and not self.open_hi)
        return above and below and x not in self.holes and (not self.whole or x == x // 1)

    @property
    def everywhere(self) -> bool:
        """Whether the interval holds all real numbers."""
        return self.lo == -inf and self.hi == inf and not self.holes and not self.whole

    def folded(self, x: np.ndarray) -> np.ndarray:
        """Random numbers moved into the interval. Numbers in holes stay, because random numbers rarely hit a hole."""
        if self.everywhere:
            return x
        outside = ~((x > self.lo) & (x < self.hi))
        if self.lo > -inf and self.hi < inf:
            made = self.lo + (self.hi - self.lo) * (x % 1 + (x % 1 == 0) / 2)
        elif self.lo > -inf:
            made = self.lo + np.abs(x - self.lo) + (x == self.lo)
        else:
            made = self.hi - np.abs(x - self.hi) - (x == self.hi)
        made = np.where(outside, made, x)
        return np.asarray(np.clip(np.round(made), self.lo, self.hi) if self.whole else made).astype(x.dtype)

    def __repr__(self) -> str:
        left, right = "(" if self.open_lo else "[", ")" if self.open_hi else "]"
        holes = f" without {', '.join(map(str, self.holes))}" if self.holes else ""
        return f"{'whole numbers in ' if self.whole else ''}{left}{self.lo}, {self.hi}{right}{holes}"


class Domain:
    """The domain of an op: an interval for each argument, and a condition if they depend on each other.

    Parameters
    ----------
    intervals : tuple of Interval
        An interval for each argument.
    where : callable, optional
        ``where(*arguments) -> bool`` for scalars inside the intervals, or for whole arrays if the op is not
        elementwise; None where every combination is allowed.
    fit : callable, optional
        ``fit(*arrays) -> arrays`` moves whole arrays into the domain or near the domain. Strategies need `fit`, because
        random arrays rarely lie in such a domain.
    """

    __slots__ = ("fit", "intervals", "where")

    def __init__(
        self, *intervals: Interval, where: Callable[..., Any] | None = None, fit: Callable[..., Any] | None = None
    ) -> None:
        self.intervals = intervals
        self.where = where
        self.fit = fit

    def __contains__(self, point: tuple[float, ...]) -> bool:
        inside = all(x in i for x, i in zip(point, self.intervals, strict=True))
        return inside and (self.where is None or bool(self.where(*point)))

    def interval(self, i: int) -> Interval:
        """The interval of argument `i`; the last one serves all other arguments of an op that takes any number."""
        return self.intervals[min(i, len(self.intervals) - 1)]

    def __repr__(self) -> str:
        return " x ".join(map(repr, self.intervals)) + (" with a condition" if self.where else "")


ANY_REAL = Interval()
POSITIVE = Interval(0.0, open_lo=True)
NONNEGATIVE = Interval(0.0)
NONZERO = Interval(holes=(0.0,))
UNIT = Interval(-1.0, 1.0)
OPEN_UNIT = Interval(-1.0, 1.0, open_lo=True, open_hi=True)
BOOLEAN = Interval(0.0, 1.0)

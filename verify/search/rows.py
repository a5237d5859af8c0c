"""Row: the result of the census for one partial derivative; and the largest number of points of a search."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MOST_POINTS", "Row"]

# For one primitive, because more points would take many hours and gigabytes.
MOST_POINTS = 10_000_000


class Row(NamedTuple):
    """The worst error found for one partial derivative of one primitive.

    Attributes
    ----------
    op : str
        The primitive, with its static parameters.
    name : str
        The primitive's registered name.
    argument : str
        The derivative: "0" by the first argument, "0,1" by the first, then by the second.
    order : int
    dtype : str
    points : int
        Number of compared points.
    worst_ulp : float
        The largest error outside the rule for roots, in ULP.
    where : tuple of float
        The point with the largest error.
    got, exact : float
        The returned and the exact number at this point.
    at_roots : int
        Number of points that pass only by the rule for roots.
    worst_at_roots : float
        The largest error among these.
    at_kinks : int
        Number of points where the derivative jumps and the number lies between the one-sided values.
    open : int
        Number of points of the domain without a two-sided derivative (kinks) or without a decision.
    verdict : str
        "correct" or "unstable".

    Examples
    --------
    >>> from gtape.verify import census
    >>> row = census.census(["square"], orders=(1,), points=100)[0]
    >>> row.op, row.argument, row.verdict
    ('square', '0', 'correct')
    """

    op: str
    name: str
    argument: str
    order: int
    dtype: str
    points: int
    worst_ulp: float
    where: tuple[float, ...]
    got: float
    exact: float
    at_roots: int
    worst_at_roots: float
    at_kinks: int
    open: int
    verdict: str

    @property
    def ok(self) -> bool:
        """True if the error stays within the promise (4 ULP, or the declared limit)."""
        return self.verdict == "correct"

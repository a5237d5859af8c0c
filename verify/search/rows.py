"""Row: what the census found for one partial derivative."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Row"]


class Row(NamedTuple):
    """The worst error found for one partial derivative of one primitive.

    Attributes
    ----------
    op : str
        The primitive, with its static parameters.
    name : str
        The primitive's registered name.
    argument : str
        Which derivative: "0" by the first argument, "0,1" by the first, then by the second.
    order : int
    dtype : str
    points : int
        How many points were compared.
    worst_ulp : float
        The largest error outside the rule for roots, in ULP.
    where : tuple of float
        The point that shows it.
    got, exact : float
        What was returned there, and what is exact.
    at_roots : int
        How many points pass only by the rule for roots.
    worst_at_roots : float
        The largest error among those.
    at_kinks : int
        How many points lie where the derivative jumps and pass because they lie between the one-sided values.
    open : int
        How many points of the domain have no two-sided derivative (kinks) or were not decided.
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
        """Whether the promise of 4 ULP is kept."""
        return self.verdict == "correct"

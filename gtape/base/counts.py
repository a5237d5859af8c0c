"""Numbers of things in texts for people."""

from __future__ import annotations

__all__ = ["counted"]


def counted(n: int, noun: str) -> str:
    """A number with a noun, which gets an s unless the number is 1.

    Parameters
    ----------
    n : int
    noun : str
        A word in the singular, of a regular plural.

    Examples
    --------
    >>> from gtape.base.counts import counted
    >>> counted(1, "cause"), counted(2, "cause"), counted(12_000, "row")
    ('1 cause', '2 causes', '12,000 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"

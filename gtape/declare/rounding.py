"""How an op rounds: data on its declaration, from which `gtape.verify` computes error bounds.

Every declaration states its rounding: `EXACT`, `ulps(2)`, `SUM`, `PRODUCT`, `stable(4, 1)`, `elimination(0.5, 4)` or
`growing(1)`. One rounding is half a unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = [
    "EXACT", "PRODUCT", "SUM", "Rounding", "elimination", "growing", "in_pairs", "products", "stable", "sums", "ulps",
]  # fmt: skip

Size = float | tuple[float, ...]


class Rounding:
    """The largest distance between the result of a kernel and the exact result, made by functions of this module.

    Attributes
    ----------
    kind : {"exact", "ulps", "sum", "product", "stable"}
    ulps : float
        The error of each element in units in its last place. For sums and products: the number of roundings per term.
    forward, backward : float or tuple of float
        For a stable algorithm: its error, in units in the last place of the result, and the distance, in roundings, to
        inputs for which the result would be exact. A tuple holds the coefficients of a polynomial in the length of the
        longest axis.
    by : callable or None
        ``by(*arrays, **params)`` returns the sum of the magnitudes of a result's terms. A term counts once for each
        time it is rounded.
    terms : callable or None
        ``terms(*arrays, **params)`` returns the number of terms or products in a result, if the shapes determine this
        number; for a sum in pairs, the smaller number by which its error grows.
    signed : bool
        Whether some terms of a sum are subtracted. The kernel called on magnitudes then does not give their sum.
    noise : callable or None
        ``noise(*arrays, **params)`` returns an additional absolute error of the kernel, because terms cancel or because
        the kernel leaves out digits that rounding does not determine.
    wide : bool
        Whether narrower dtypes are computed in float64 and rounded once. If so, the other attributes hold for float64.
    whole : bool
        Whether the error is relative to the largest element of the result.
    eliminates : bool
        Whether the backward error is relative to the size of the matrices, as for an elimination.
    independent : bool
        Whether errors count as independent, because the rules have many products and a sum of bounds would hide faults
        of one rounding. On 50,000 random matrices (regular, nearly singular, scaled) errors reached at most 0.8 of the
        bound.
    columns : tuple of int
        The outputs whose columns are vectors. A vector may turn by more than the first-order error.
    undetermined : callable or None
        ``undetermined(outputs, which)`` returns the columns of output `which` that rounding leaves undetermined, as a
        mask of the shape of the first output.
    parts : bool
        Whether these columns have real and imaginary parts along the axis before those of the matrix.
    feeds : int or None
        The argument whose products may be subnormal numbers that the kernel magnifies afterwards, in a recurrence or by
        a division.
    """

    __slots__ = (
        "backward", "by", "columns", "eliminates", "feeds", "forward", "independent", "kind", "noise", "parts",
        "signed", "terms", "ulps", "undetermined", "whole", "wide",
    )  # fmt: skip

    def __init__(
        self, kind: str, ulps: float = 1.0, forward: Size = 0.0, backward: Size = 0.0, *,
        by: Callable[..., Any] | None = None, terms: Callable[..., Any] | None = None,
        noise: Callable[..., Any] | None = None, signed: bool = False, wide: bool = False, whole: bool = False,
        eliminates: bool = False, independent: bool = False, columns: tuple[int, ...] = (), parts: bool = False,
        feeds: int | None = None, undetermined: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        for size in (ulps, forward, backward):
            if not all(isinstance(k, (int, float)) and 0 <= k < float("inf") for k in _coefficients(size)):
                raise ValueError(f"roundings are finite numbers that are not negative, not {size!r}")
        self.kind, self.ulps, self.forward, self.backward = kind, float(ulps), forward, backward
        self.by, self.terms, self.noise, self.signed = by, terms, noise, signed
        self.whole, self.wide, self.eliminates, self.independent = whole, wide, eliminates, independent
        self.columns, self.parts, self.feeds = columns, parts, feeds
        self.undetermined = undetermined

    def __repr__(self) -> str:
        if self.kind in ("exact", "sum", "product"):
            return self.kind.upper()
        said = f"{self.ulps:g}" if self.kind == "ulps" else f"{self.forward}, {self.backward}"
        return f"{'elimination' if self.eliminates else self.kind}({said})"

    def sizes(self, n: int) -> tuple[float, float]:
        """`forward` and `backward` if the longest axis has length `n`."""
        forward, backward = [
            sum(c * n**k for k, c in enumerate(_coefficients(size))) for size in (self.forward, self.backward)
        ]
        if self.kind != "stable":
            return forward, backward
        # The bound covers sums of n terms, with up to a sixteenth of a unit for each term.
        return forward + (n / 16 if forward > 0.5 else 0.0), backward + (n / 16 if backward else 0.0)


def _coefficients(size: Any) -> tuple[float, ...]:
    return size if isinstance(size, tuple) else (size,)


EXACT = Rounding("exact", 0.0)  # moves or chooses numbers without rounding
SUM = Rounding(kind="sum")  # a sum of terms; the kernel called on ones gives their number
PRODUCT = Rounding("product")  # a sum of products of elements of the arguments


def ulps(count: float, **more: Any) -> Rounding:
    """Each element is within `count` units in the last place of the exact one (0.5: correctly rounded).

    `more` are attributes of `Rounding`.
    """
    return Rounding("ulps", count, count, **more)


def sums(
    by: Callable[..., Any] | None = None, *, terms: Callable[..., Any] | None = None, signed: bool = False
) -> Rounding:
    """A sum. ``by(*arrays, **params)`` adds the magnitudes of the terms, each once for every rounding of the term.

    Without `by`, ``terms(*arrays, **params)`` counts the terms. `signed` says whether some of the terms are subtracted.
    """
    return Rounding(kind="sum", by=by, terms=terms, signed=signed)


def in_pairs(shape: tuple[int, ...], count: int) -> int:
    """The number of terms by which the error of ``np.add.reduce`` over `count` elements of an array grows.

    NumPy adds elements along one axis in pairs: 8 sums over each block of 128 numbers (64 complex ones), then the
    blocks as a binary tree, then the parts of 8192 numbers that pass through a buffer. An array with more than one axis
    of more than one element may be summed axis by axis, in an order that its strides decide, so `count` counts there.

    Examples
    --------
    >>> in_pairs((1000, 1), 1000), in_pairs((10, 100), 1000), in_pairs((20,), 20)
    (32, 1000, 20)
    """
    if count <= _BLOCK or max(shape) != math.prod(shape):
        return count
    return min(count, _BLOCK + math.ceil(math.log2(max(count / 64, 1))) + count // 4096)


_BLOCK = 28  # in a block: 15 additions in each of 8 sums, 3 of these sums, 7 of the rest, and the first element


def products(terms: Callable[..., Any]) -> Rounding:
    """A sum of ``terms(*arrays, **params)`` products. The number is given, because counting the products is slower."""
    return Rounding("product", terms=terms)


def stable(forward: Size, backward: Size = 0.0, **more: Any) -> Rounding:
    """A stable algorithm: within `forward` units of the exact result for inputs that are `backward` roundings away.

    Either may be a tuple: coefficients of a polynomial in the length of the longest axis. With ``by=f`` the magnitudes
    ``f(*arrays, **params)`` replace the effect of moved inputs on the result. `more` are attributes of `Rounding`. The
    figures of gtape's ops are measured on random inputs of up to 40 elements. Apart from the last digit, errors reach
    at most half of the sum of `forward` and `backward`.
    """
    return Rounding("stable", _coefficients(forward)[0], forward, backward, **more)


def elimination(forward: Size, backward: Size, **more: Any) -> Rounding:
    """An elimination or a factorisation: like `stable`, but inputs move relative to the size of their matrices."""
    return stable(forward, backward, eliminates=True, **more)


def growing(count: float = 1.0, **more: Any) -> Rounding:
    """`count` units for each element of the longest axis, forward and backward, if no better bound is known."""
    return stable((count, count), (0.0, count), **more)

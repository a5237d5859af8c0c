"""Where windows that slide over an image lie: which element each tap of each window meets."""

from __future__ import annotations

from typing import Any

__all__ = ["Sizes", "met", "places"]

Sizes = tuple[int, ...]


def places(size: Sizes, taps: Sizes, p: dict[str, Any]) -> Sizes:
    """How many windows of `taps` elements there are along each axis; `p` has strides, dilations and padding."""
    return tuple(
        (n + sum(around) - d * (k - 1) - 1) // s + 1
        for n, k, s, d, around in zip(size, taps, p["strides"], p["dilations"], p["padding"], strict=True)
    )


def met(size: Sizes, windows: Sizes, taps: Sizes, p: dict[str, Any], by_image: bool = False) -> list[list[list[Any]]]:
    """For each axis, window and tap: the place of the image that they meet in, None outside.

    With `by_image`: for each axis, place of the image and tap, the window that meets it with this tap, None where none
    does.
    """
    found = []
    for n, o, k, s, d, (before, _) in zip(
        size, windows, taps, p["strides"], p["dilations"], p["padding"], strict=True
    ):  # fmt: skip
        axis: list[list[Any]] = [[None] * k for _ in range(n if by_image else o)]
        for i in range(o):
            for j in range(k):
                at = s * i + d * j - before
                if 0 <= at < n:
                    axis[at if by_image else i][j] = i if by_image else at
        found.append(axis)
    return found

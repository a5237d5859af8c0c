"""The windows that slide over an image: the element under each tap (position in a window) of each window."""

from __future__ import annotations

from typing import Any

__all__ = ["Sizes", "met", "places"]

Sizes = tuple[int, ...]


def places(size: Sizes, taps: Sizes, p: dict[str, Any]) -> Sizes:
    """The number of windows of `taps` elements along each axis. `p` has strides, dilations and padding."""
    return tuple(
        (n + sum(around) - d * (k - 1) - 1) // s + 1
        for n, k, s, d, around in zip(size, taps, p["strides"], p["dilations"], p["padding"], strict=True)
    )


def met(size: Sizes, windows: Sizes, taps: Sizes, p: dict[str, Any], by_image: bool = False) -> list[list[list[Any]]]:
    """For each axis, window and tap: the image element under the tap; None outside of the image.

    With `by_image`, for each axis, image element and tap: the window whose tap is on the element; None if there is no
    such window.
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

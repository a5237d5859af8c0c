"""Correlation of images with filters, and its two transposes: bilinear primitives closed under derivatives.

For a position o of the output, a position k in the filter, and channels c, f, all three are derivatives of one
trilinear form::

    sum x[n, stride * o + dilation * k - before, c] * w[k, c, f] * g[n, o, f]

`correlate` is the derivative by g, `correlate_input` by x, and `correlate_filter` by w. So at every order the
derivative of each by either argument is another of the three. `correlate` is the convolution of machine learning, and
`correlate_input` the transposed convolution.
"""

from __future__ import annotations

import math
from typing import Any

from gtape.declare.conventions import PADDED
from gtape.declare.primitives import primitive
from gtape.declare.rounding import PRODUCT
from gtape.kernels import convolution as kernels
from gtape.tensors.axes import lead_of, shape_of

__all__: list[str] = []

_PARAMS = ("strides", "dilations", "padding", "groups")


# A batched cotangent has leading axes. In images the leading axes join the axis of images; in a filter, or in the
# second images of a product, they join the channels of each group.


def _with_images(xp: Any, f: Any, x: Any, ndim: int) -> Any:
    """``f(x)`` for images x and an output with one position for each image."""
    lead = lead_of(x, ndim)
    if not lead:
        return f(x)
    shape = shape_of(x)
    y = f(xp.reshape(x, shape=(math.prod(shape[: len(lead) + 1]), *shape[len(lead) + 1 :])))
    return xp.reshape(y, shape=(*shape[: len(lead) + 1], *shape_of(y)[1:]))


def _with_channels(xp: Any, f: Any, x: Any, ndim: int, groups: int, rows: bool, out_rows: bool) -> Any:
    """``f(x)`` with the leading axes moved into the last axis of x; with `rows`, into the last but one of filters."""
    lead = lead_of(x, ndim)
    if not lead:
        return f(x)
    y = f(_inwards(xp, x, len(lead), groups, rows))
    each = shape_of(x)[-2] if rows else shape_of(x)[-1] // groups
    return _outwards(xp, y, lead, each, groups, out_rows)


def _inwards(xp: Any, x: Any, k: int, groups: int, rows: bool) -> Any:
    shape = shape_of(x)
    n, size = len(shape), math.prod(shape[:k])
    if rows:  # a filter's rows belong to one group already
        moved = xp.transpose(x, perm=(*range(k, n - 2), *range(k), n - 2, n - 1))
        return xp.reshape(moved, shape=(*shape[k : n - 2], size * shape[-2], shape[-1]))
    parts = xp.reshape(x, shape=(*shape[:-1], groups, shape[-1] // groups))
    moved = xp.transpose(parts, perm=(*range(k, n), *range(k), n))
    return xp.reshape(moved, shape=(*shape[k : n - 1], size * shape[-1]))


def _outwards(xp: Any, y: Any, lead: tuple[int, ...], each: int, groups: int, rows: bool) -> Any:
    """The inverse of `_inwards`, for `each` channels in a group."""
    shape = shape_of(y)
    n, k = len(shape), len(lead)
    if rows:
        parts = xp.reshape(y, shape=(*shape[:-2], *lead, each, shape[-1]))
        at = n - 2
        return xp.transpose(parts, perm=(*range(at, at + k), *range(at), at + k, at + k + 1))
    parts = xp.reshape(y, shape=(*shape[:-1], groups, *lead, each))
    moved = xp.transpose(parts, perm=(*range(n, n + k), *range(n), n + k))
    return xp.reshape(moved, shape=(*lead, *shape[:-1], groups * each))


def _correlate(xp: Any, x: Any, w: Any, **p: Any) -> Any:
    n, groups = len(p["strides"]) + 2, p["groups"]
    if len(shape_of(w)) > n:
        return _with_channels(xp, lambda v: xp.correlate(x, v, **p), w, n, groups, False, False)
    return _with_images(xp, lambda v: xp.correlate(v, w, **p), x, n)


def _input(xp: Any, g: Any, w: Any, **p: Any) -> Any:
    n, groups = len(p["strides"]) + 2, p["groups"]
    if len(shape_of(w)) > n:
        return _with_channels(xp, lambda v: xp.correlate_input(g, v, **p), w, n, groups, True, False)
    return _with_images(xp, lambda v: xp.correlate_input(v, w, **p), g, n)


def _filter(xp: Any, x: Any, g: Any, **p: Any) -> Any:
    n, groups = len(p["strides"]) + 2, p["groups"]
    if len(shape_of(x)) > n:
        return _with_channels(xp, lambda v: xp.correlate_filter(v, g, **p), x, n, groups, False, True)
    return _with_channels(xp, lambda v: xp.correlate_filter(x, v, **p), g, n, groups, False, False)


def _space(v: Any) -> tuple[int, ...]:
    """The spatial axes of images. The first axis of images counts the images."""
    return tuple(v.shape)[1:-1]


def _taps(w: Any) -> tuple[int, ...]:
    return tuple(w.shape)[:-2]


def _geometry(
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    groups: int = 1,
    **more: Any,
) -> dict[str, Any]:
    return {"strides": strides, "dilations": dilations, "padding": padding, "groups": groups, **more}


_LINE = _geometry((1,), (1,), ((1, 1),))
_STRIDED = _geometry((2,), (1,), ((0, 1),))
_DILATED = _geometry((2,), (2,), ((2, 1),))
_GROUPED = _geometry((1,), (1,), ((0, 1),), 2)
_PLANE = _geometry((1, 2), (2, 1), ((0, 1), (1, 0)))
_CUBE = _geometry((1, 1, 1), (1, 1, 1), ((0, 0), (0, 1), (0, 0)))

correlate = primitive(
    "correlate", kernels.correlate,
    vjp=(
        lambda xp, g, y, x, w, **p: _input(xp, g, w, size=_space(x), **p),
        lambda xp, g, y, x, w, **p: _filter(xp, x, g, taps=_taps(w), **p),
    ),
    jvp=(
        lambda xp, t, y, x, w, **p: _correlate(xp, t, w, **p),
        lambda xp, t, y, x, w, **p: _correlate(xp, x, t, **p),
    ),
    reads=((1,), (0,)),  # each rule needs only the shape of its own argument
    params=_PARAMS, batched=True, rounding=PRODUCT,
    samples=(
        (((1, 3, 1), (2, 1, 2)), _LINE),
        (((2, 4, 1), (3, 1, 1)), _STRIDED),
        (((1, 3, 2), (2, 2, 1)), _DILATED),
        (((1, 2, 4), (2, 2, 2)), _GROUPED),
        (((1, 2, 2), (2, 1, 4)), _GROUPED),
        (((1, 3, 3, 1), (2, 2, 1, 1)), _PLANE),
        (((1, 2, 1, 2, 1), (1, 2, 1, 1, 1)), _CUBE),
        (((0, 3, 1), (2, 1, 1)), _LINE),
        (((1, 1, 1), (4, 1, 1)), _LINE),
    ),
    conventions=PADDED,
)  # fmt: skip

correlate_input = primitive(
    "correlate_input", kernels.correlate_input,
    vjp=(
        lambda xp, h, y, g, w, *, size, **p: _correlate(xp, h, w, **p),
        lambda xp, h, y, g, w, *, size, **p: _filter(xp, h, g, taps=_taps(w), **p),
    ),
    jvp=(
        lambda xp, t, y, g, w, **p: _input(xp, t, w, **p),
        lambda xp, t, y, g, w, **p: _input(xp, g, t, **p),
    ),
    reads=((1,), (0,)), params=("size", *_PARAMS), batched=True, rounding=PRODUCT,
    samples=(
        (((1, 4, 2), (2, 1, 2)), {"size": (3,), **_LINE}),
        (((2, 2, 1), (3, 1, 1)), {"size": (4,), **_STRIDED}),
        (((1, 2, 1), (2, 2, 1)), {"size": (3,), **_DILATED}),
        (((1, 2, 2), (2, 2, 2)), {"size": (2,), **_GROUPED}),
        (((1, 2, 4), (2, 1, 4)), {"size": (2,), **_GROUPED}),
        (((1, 2, 2, 1), (2, 2, 1, 1)), {"size": (3, 3), **_PLANE}),
        (((1, 2, 1, 2, 1), (1, 2, 1, 1, 1)), {"size": (2, 1, 2), **_CUBE}),
        (((0, 4, 1), (2, 1, 1)), {"size": (3,), **_LINE}),
    ),
    conventions=PADDED,
)  # fmt: skip

correlate_filter = primitive(
    "correlate_filter", kernels.correlate_filter,
    vjp=(
        lambda xp, h, y, x, g, *, taps, **p: _input(xp, g, h, size=_space(x), **p),
        lambda xp, h, y, x, g, *, taps, **p: _correlate(xp, x, h, **p),
    ),
    jvp=(
        lambda xp, t, y, x, g, **p: _filter(xp, t, g, **p),
        lambda xp, t, y, x, g, **p: _filter(xp, x, t, **p),
    ),
    reads=((1,), (0,)), params=("taps", *_PARAMS), batched=True, rounding=PRODUCT,
    samples=(
        (((1, 3, 1), (1, 4, 2)), {"taps": (2,), **_LINE}),
        (((2, 4, 1), (2, 2, 1)), {"taps": (3,), **_STRIDED}),
        (((1, 3, 2), (1, 2, 1)), {"taps": (2,), **_DILATED}),
        (((1, 2, 4), (1, 2, 2)), {"taps": (2,), **_GROUPED}),
        (((1, 2, 2), (1, 2, 4)), {"taps": (2,), **_GROUPED}),
        (((1, 3, 3, 1), (1, 2, 2, 1)), {"taps": (2, 2), **_PLANE}),
        (((1, 2, 1, 2, 1), (1, 2, 1, 2, 1)), {"taps": (1, 2, 1), **_CUBE}),
        (((0, 3, 1), (0, 4, 1)), {"taps": (2,), **_LINE}),
    ),
    conventions=PADDED,
)  # fmt: skip

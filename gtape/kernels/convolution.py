"""NumPy kernels of correlation: windows by strides and one BLAS product, or a sum over the elements of the filter.

All three kernels are derivatives of one trilinear form, a sum over images n, output positions o, positions k in the
filter (taps), and channels c, f::

    sum x[n, stride * o + dilation * k - before, c] * w[k, c, f] * g[n, o, f]

Elements of `x` outside the image count as zero. `correlate` is the derivative by g, `correlate_input` by x, and
`correlate_filter` by w.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

Array = Any
Sizes = tuple[int, ...]

# The size in bytes of a block of windows, small enough for the cache.
_BLOCK = 1 << 18


class Geometry(NamedTuple):
    """The movement of a filter over an image.

    Attributes
    ----------
    strides, dilations : tuple of int
        The distance between output positions, and the distance between taps, for each spatial axis.
    padding : tuple of (int, int)
        The numbers of zeros before and after the image.
    groups : int
        The number of groups of channels. Each output channel reads the channels of its group.
    """

    strides: Sizes
    dilations: Sizes
    padding: tuple[tuple[int, int], ...]
    groups: int


def output_sizes(size: Sizes, taps: Sizes, geometry: Geometry) -> Sizes:
    """The number of output positions along each axis. Below 0 if the filter is too long by more than one."""
    strides, dilations, padding, _ = geometry
    return tuple(
        [
            (n + before + behind - d * (k - 1) - 1) // s + 1
            for n, k, s, d, (before, behind) in zip(size, taps, strides, dilations, padding, strict=True)
        ]
    )


def _reach(places: Sizes, taps: Sizes, geometry: Geometry) -> Sizes:
    """The length of an image from the first to the last position that a filter touches."""
    return tuple(
        [
            s * (o - 1) + d * (k - 1) + 1 if o and k else 0
            for o, k, s, d in zip(places, taps, geometry.strides, geometry.dilations, strict=True)
        ]
    )


def _inside(size: Sizes, reach: Sizes, geometry: Geometry) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The touched part of an image, and its position in the whole touched range."""
    ends = [
        max(min(n, r - before), 0) for n, r, (before, _) in zip(size, reach, geometry.padding, strict=True)
    ]  # fmt: skip
    starts = [before for before, _ in geometry.padding]
    own = tuple([slice(0, e) for e in ends])
    there = tuple([slice(a, a + e) for a, e in zip(starts, ends, strict=True)])
    return own, there


def _is_whole(size: Sizes, reach: Sizes, geometry: Geometry) -> bool:
    """Whether the touched range lies inside the image."""
    return all(not before and r <= n for n, r, (before, _) in zip(size, reach, geometry.padding, strict=True))


def _touched(x: Array, reach: Sizes, geometry: Geometry) -> Array:
    """The touched range of the image, with zeros outside the image; a view if possible."""
    own, there = _inside(x.shape[1:-1], reach, geometry)
    if _is_whole(x.shape[1:-1], reach, geometry):
        return x[(slice(None), *own)]
    out = np.zeros((x.shape[0], *reach, x.shape[-1]), x.dtype)
    out[(slice(None), *there)] = x[(slice(None), *own)]
    return out


def _taps(taps: Sizes, places: Sizes, geometry: Geometry) -> Iterator[tuple[Sizes, tuple[slice, ...]]]:
    """Every tap, and the positions of a touched image that the tap meets."""
    for at in itertools.product(*map(range, taps)):
        yield (
            at,
            tuple(
                [
                    slice(d * k, d * k + s * (o - 1) + 1, s)
                    for k, o, s, d in zip(at, places, geometry.strides, geometry.dilations, strict=True)
                ]
            ),
        )


def _windows(x: Array, taps: Sizes, places: Sizes, geometry: Geometry) -> Array:
    """A view [n, *places, *taps, channels] of a touched image."""
    first, *steps, last = x.strides
    along = [s * d for s, d in zip(steps, geometry.strides, strict=True)]
    within = [s * d for s, d in zip(steps, geometry.dilations, strict=True)]
    shape = (x.shape[0], *places, *taps, x.shape[-1])
    return as_strided(x, shape, (first, *along, *within, last), writeable=False)


Part = tuple[slice, slice]


def _blocks(x: Array, taps: Sizes, places: Sizes, geometry: Geometry) -> Iterator[tuple[Part, Array]]:
    """Blocks of windows as rows of one matrix, which the next block overwrites, with their images and positions."""
    n, width = x.shape[0], math.prod(taps) * x.shape[-1]
    reach = _reach(places, taps, geometry)
    own, there = _inside(x.shape[1:-1], reach, geometry)
    whole = _is_whole(x.shape[1:-1], reach, geometry)
    if whole and reach == x.shape[1:-1] == places and x.flags.c_contiguous:
        yield (slice(0, n), slice(None)), x.reshape(-1, width)  # one tap and no step need no copy
        return
    row = math.prod(places[1:]) * width * x.dtype.itemsize
    step = min(n, max(1, _BLOCK // (row * places[0])))
    rows = places[0] if step > 1 else min(places[0], max(1, _BLOCK // row))
    # All blocks share one buffer, because page faults of new memory cost more than the copies.
    buffer = np.empty((step, rows, *places[1:], *taps, x.shape[-1]), x.dtype)
    # Images with the channels first are copied, too, because a window needs neighbouring channels.
    in_place = whole and x.strides[-1] == x.dtype.itemsize
    framed = None if in_place else np.zeros((step, *reach, x.shape[-1]), x.dtype)
    windows = _windows(x[(slice(None), *own)] if framed is None else framed, taps, places, geometry)
    for start in range(0, n, step):
        k = min(step, n - start)
        at = start if framed is None else 0
        if framed is not None:
            framed[(slice(0, k), *there)] = x[(slice(start, start + k), *own)]
        for first in range(0, places[0], rows):
            part = windows[at : at + k, first : first + rows]
            block = buffer[:k, : part.shape[1]]
            np.copyto(block, part)
            yield (slice(start, start + k), slice(first, first + rows)), block.reshape(-1, width)


def _in_float32(f: Callable[..., Array]) -> Callable[..., Array]:
    """A kernel that sums half precision in float32 and rounds once."""

    def kernel(a: Array, b: Array, **params: Any) -> Array:
        if a.dtype.itemsize == 2 and a.dtype.kind in "fV":  # float16, or bfloat16 of ml_dtypes
            return f(a.astype(np.float32), b.astype(np.float32), **params).astype(a.dtype)
        return f(a, b, **params)

    kernel.__name__, kernel.__doc__ = f.__name__, f.__doc__
    return kernel


def _split(a: Array, groups: int, axis: int) -> list[Array]:
    return np.split(a, groups, axis)


@_in_float32
def correlate(
    x: Array, w: Array, *, strides: Sizes, dilations: Sizes, padding: tuple[tuple[int, int], ...], groups: int
) -> Array:
    """[n, *size, c] and [*taps, c / groups, f] to [n, *places, f]."""
    geometry = Geometry(strides, dilations, padding, groups)
    n, size, taps = x.shape[0], x.shape[1:-1], w.shape[:-2]
    places = output_sizes(size, taps, geometry)
    out = np.zeros((n, *places, w.shape[-1]), np.result_type(x, w))
    if not out.size or not x.size or not w.size:
        return out
    if groups == 1:
        matrix = w.reshape(-1, w.shape[-1])
        for part, block in _blocks(x, taps, places, geometry):
            np.matmul(block, matrix, out=out[part].reshape(-1, w.shape[-1]))
        return out
    x = _touched(x, _reach(places, taps, geometry), geometry)
    if w.shape[-2] == 1:
        each = w.reshape(*taps, groups, -1)
        sums = out.reshape(n, *places, *each.shape[-2:])
        term = np.empty_like(sums)
        for at, where in _taps(taps, places, geometry):
            sums += np.multiply(x[(slice(None), *where)][..., None], each[at], out=term)
        return out
    parts = zip(_split(x, groups, -1), _split(w, groups, -1), _split(out, groups, -1), strict=True)
    for a, b, c in parts:
        c[...] = correlate(a, b, strides=strides, dilations=dilations, padding=_none(padding), groups=1)
    return out


def _fits(size: Sizes, taps: Sizes, places: Sizes, geometry: Geometry) -> None:
    made = output_sizes(size, taps, geometry)
    if made != places:
        raise ValueError(f"a filter of {taps} taps on {size} places gives {made} places, not {places}")


def _none(padding: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    return ((0, 0),) * len(padding)


@_in_float32
def correlate_input(
    g: Array, w: Array, *, size: Sizes, strides: Sizes, dilations: Sizes, padding: tuple[tuple[int, int], ...],
    groups: int,
) -> Array:  # fmt: skip
    """[n, *places, f] and [*taps, c / groups, f] to [n, *size, c]."""
    geometry = Geometry(strides, dilations, padding, groups)
    n, places, taps = g.shape[0], g.shape[1:-1], w.shape[:-2]
    _fits(size, taps, places, geometry)
    rest = [(d * (k - 1) - a, d * (k - 1) - b) for d, k, (a, b) in zip(dilations, taps, padding, strict=True)]
    if groups == 1 and all(s == 1 for s in strides) and all(p >= 0 for pair in rest for p in pair):
        # For steps of 1 this is a correlation with the reversed filter, which reads g only once.
        turned = w[(slice(None, None, -1),) * len(taps)].swapaxes(-1, -2)
        around = tuple(rest)
        return correlate(g, turned, strides=strides, dilations=dilations, padding=around, groups=1)
    reach = _reach(places, taps, geometry)
    channels = w.shape[-2] * groups
    whole = np.zeros((n, *reach, channels), np.result_type(g, w))
    if whole.size and g.size and w.size:
        if groups == 1:
            rows = np.ascontiguousarray(g).reshape(-1, g.shape[-1])
            for at, where in _taps(taps, places, geometry):
                whole[(slice(None), *where)] += (rows @ w[at].T).reshape(n, *places, channels)
        elif w.shape[-2] == 1:
            each, parts = w.reshape(*taps, groups, -1), g.reshape(n, *places, groups, -1)
            term = np.empty(parts.shape, whole.dtype)
            for at, where in _taps(taps, places, geometry):
                np.multiply(parts, each[at], out=term)
                whole[(slice(None), *where)] += term[..., 0] if term.shape[-1] == 1 else np.add.reduce(term, axis=-1)
        else:
            for a, b, c in zip(_split(g, groups, -1), _split(w, groups, -1), _split(whole, groups, -1), strict=True):
                c[...] = correlate_input(
                    a, b, size=reach, strides=strides, dilations=dilations, padding=_none(padding), groups=1
                )  # fmt: skip
    own, there = _inside(size, reach, geometry)
    if all(s.stop == n for s, n in zip(own, size, strict=True)):
        return whole[(slice(None), *there)]
    out = np.zeros((n, *size, channels), whole.dtype)
    out[(slice(None), *own)] = whole[(slice(None), *there)]
    return out


@_in_float32
def correlate_filter(
    x: Array, g: Array, *, taps: Sizes, strides: Sizes, dilations: Sizes, padding: tuple[tuple[int, int], ...],
    groups: int,
) -> Array:  # fmt: skip
    """[n, *size, c] and [n, *places, f] to [*taps, c / groups, f]."""
    geometry = Geometry(strides, dilations, padding, groups)
    places = g.shape[1:-1]
    _fits(x.shape[1:-1], taps, places, geometry)
    each, f = x.shape[-1] // groups, g.shape[-1]
    out = np.zeros((*taps, each, f), np.result_type(x, g))
    if not out.size or not x.size or not g.size:
        return out
    if groups == 1:
        sums = out.reshape(-1, f)
        for part, block in _blocks(x, taps, places, geometry):
            sums += block.T @ g[part].reshape(-1, f)
        return out
    x = _touched(x, _reach(places, taps, geometry), geometry)
    if each == 1:
        parts = g.reshape(*g.shape[:-1], groups, f // groups)
        for at, where in _taps(taps, places, geometry):
            met = x[(slice(None), *where)]
            summed = list(range(2, met.ndim + 1))  # axis 0 has the channels, axis 1 their outputs
            out[at] = np.einsum(met, [*summed, 0], parts, [*summed, 0, 1], [0, 1]).reshape(1, f)
        return out
    for a, b, c in zip(_split(x, groups, -1), _split(g, groups, -1), _split(out, groups, -1), strict=True):
        c[...] = correlate_filter(
            a, b, taps=taps, strides=strides, dilations=dilations, padding=_none(padding), groups=1
        )  # fmt: skip
    return out

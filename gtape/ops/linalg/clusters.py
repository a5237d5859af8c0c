"""Quotients by differences of eigenvalues; clusters, which are eigenvalues that differ by no more than rounding.

The vectors of a cluster are an arbitrary basis of their span, so their motion inside the span has no meaning, and the
rules of the factorisations leave it out. A function that depends only on the span keeps every derivative if the basis
rests inside the span, while the matrix of the eigenvalues, which is diagonal at the point itself, becomes full inside
the cluster: Z M - M Z = X in place of z_ij (w_j - w_i) = x_ij (Kato, "Perturbation theory for linear operators", II.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gtape.declare.conventions import PRODUCTS, RATIOS, OfArrays
from gtape.declare.domains import ANY_REAL, Domain
from gtape.declare.primitives import primitive
from gtape.declare.rounding import EXACT, stable
from gtape.engine.nesting import Nesting, follows_slopes
from gtape.engine.slopes import slope
from gtape.engine.worlds import TAPE
from gtape.kernels.double import doubled
from gtape.ops.linalg.spectra import as_column, as_row, diagonal_matrix
from gtape.recording import record
from gtape.recording.record import get_stack
from gtape.tensors.axes import shape_of
from gtape.tensors.tensor import Tensor

__all__: list[str] = []

Array = Any

# A finite bound above all numbers. Infinity is not used, because infinity times zero is NaN.
_UNKNOWN = 2.0**500
_LARGEST = float(np.finfo(np.float64).max)


# ---------------------------------------------------------------------------------------------- clusters


def least_gap(n: int, bits: int) -> float:
    """The smallest difference of `n` values, in units of the largest, at which rounding determines their vectors.

    The error of LAPACK, 8 n roundings of the matrix, turns the vectors of closer values by more than a sixteenth.
    Vectors of single precision are computed in double precision and rounded once.
    """
    return 2.0 ** (5 - bits) if bits < 53 else n * 2.0 ** (7 - bits)


def bits_of(x: Any) -> int:
    """The digits, in bits, of the numbers that a rule gets. In exact worlds 53, which use no bound."""
    while isinstance(x, tuple):
        x = x[0]
    dtype = getattr(getattr(x, "_layout", x), "dtype", None)
    return 24 if dtype in (np.dtype(np.float32), np.dtype(np.complex64)) else 53


def _within(w: Array, least: float) -> Array:
    """For each pair of different eigenvalues, whether they differ by at most `least`, in units of the largest."""
    size = np.abs(w).max(axis=-1, initial=0.0, where=np.isfinite(w))[..., None, None]
    with np.errstate(all="ignore"):
        close = np.abs(w[..., None, :] - w[..., :, None]) <= least * size
    return close & ~np.eye(w.shape[-1], dtype=bool)


def _near(w: Array, bits: int, wide: bool = False) -> Array:
    """For each pair of different eigenvalues, whether one cluster contains both. Infinity and NaN are in no cluster."""
    return _within(w, _width(w.shape[-1], bits, wide))


def _width(n: int, bits: int, wide: bool) -> float:
    return 2.0 ** ((1 - bits) / 2) if wide else least_gap(n, bits)


def _zero(w: Array, least: float) -> Array:
    """For each singular value, whether it is at most `least`, in units of the largest."""
    with np.errstate(all="ignore"):
        return np.abs(w) <= least * np.abs(w).max(axis=-1, keepdims=True, initial=0.0, where=np.isfinite(w))


def _null(w: Array, bits: int, shape: tuple[int, int], *, ties: bool = False) -> Array:
    """The singular values that are 0, if `ties`, or 0 but for roundings, if their vectors are no single pair."""
    zeros = _zero(w, 0.0 if ties else least_gap(w.shape[-1], bits))
    return zeros & ((zeros.sum(axis=-1, keepdims=True) > 1) | (shape[0] != shape[1]))


def undetermined(outputs: tuple[Array, ...], which: int) -> Array:
    """For each value in double precision, whether rounding leaves its vectors of output `which` undetermined.

    These values are in a cluster with other values, or they are singular values 0: the null space of output `which` may
    be larger, and a value of the size of rounding does not tell the sign of its left vector from that of the right one.
    """
    w, *vectors = outputs
    free: Array = _near(w, 53).any(axis=-1)
    return free | _zero(w, least_gap(w.shape[-1], 53)) if len(vectors) == 2 else free


def _part_kernel(x: Array, w: Array, *, bits: int, wide: bool) -> Array:
    return np.where(_near(w, bits, wide), x, x.dtype.type(0))


def _beside_kernel(x: Array, w: Array, *, bits: int) -> Array:
    near = _near(w, bits, wide=True)
    some = near.any(axis=-1)
    return np.where((some[..., None, :] | some[..., :, None]) & ~near, x, x.dtype.type(0))


# The numbers of pairs of which one value is in a wide cluster, and the other one is not in the same. Exact worlds have
# no such numbers, because these correct what the mean of a cluster leaves out of its values.
_beside_clusters = primitive(
    "beside_clusters", _beside_kernel,
    vjp=(lambda xp, g, y, x, w, *, bits: xp.beside_clusters(g, w, bits=bits), None),
    jvp=(lambda xp, t, y, x, w, *, bits: xp.beside_clusters(t, w, bits=bits), None),
    reads=((1,), ()), params=("bits",),
    rounding=stable(0.5, noise=lambda x, w, *, bits: _UNKNOWN * np.abs(_beside_kernel(x, w, bits=bits))),
    domain=Domain(ANY_REAL, ANY_REAL, where=lambda x, w: not _near(w, 24, wide=True).any()),
    samples=((((2, 2), (2,)), {"bits": 53}), (((2, 2, 2), (2, 2)), {"bits": 53})),
)  # fmt: skip


def _columns_kernel(x: Array, w: Array, *, bits: int) -> Array:
    return np.where(_near(w, bits, wide=True).any(axis=-1)[..., None, :], x, x.dtype.type(0))


# The columns of matrices that belong to values in wide clusters. Exact worlds have no such numbers, either.
_cluster_columns = primitive(
    "cluster_columns", _columns_kernel,
    vjp=(lambda xp, g, y, x, w, *, bits: xp.cluster_columns(g, w, bits=bits), None),
    jvp=(lambda xp, t, y, x, w, *, bits: xp.cluster_columns(t, w, bits=bits), None),
    reads=((1,), ()), params=("bits",),
    rounding=stable(0.5, noise=lambda x, w, *, bits: _UNKNOWN * np.abs(_columns_kernel(x, w, bits=bits))),
    domain=Domain(ANY_REAL, ANY_REAL, where=lambda x, w: not _near(w, 24, wide=True).any()),
    samples=((((2, 2), (2,)), {"bits": 53}), (((2, 3, 2), (2, 2)), {"bits": 53})),
)  # fmt: skip


def _of_different(w: Array, bits: int, wide: bool) -> Array:
    """For each pair of values in one cluster, whether they differ. Exact worlds have only equal values in clusters."""
    return _near(w, bits, wide) & (w[..., None, :] != w[..., :, None])


def _left_out(x: Array, w: Array, bits: int, wide: bool) -> Array:
    """The numbers of pairs of different values in one cluster. They have no effect at equal values."""
    return np.where(_of_different(w, bits, wide), _UNKNOWN * np.abs(x), 0.0)


_part = primitive(
    "cluster_part", _part_kernel,
    vjp=(lambda xp, g, y, x, w, *, bits, wide: xp.cluster_part(g, w, bits=bits, wide=wide), None),
    jvp=(lambda xp, t, y, x, w, *, bits, wide: xp.cluster_part(t, w, bits=bits, wide=wide), None),
    reads=((1,), ()), params=("bits", "wide"),
    rounding=stable(0.5, noise=lambda x, w, *, bits, wide: _left_out(x, w, bits, wide)),
    domain=Domain(ANY_REAL, ANY_REAL, where=lambda x, w: not _near(w, 24).any()),
    samples=((((2, 2), (2,)), {"bits": 53, "wide": False}), (((2, 2, 2), (2, 2)), {"bits": 53, "wide": False})),
)  # fmt: skip


def _zero_part_kernel(x: Array, w: Array, *, bits: int) -> Array:
    return np.where(_zero(w, least_gap(w.shape[-1], bits))[..., None, :], x, x.dtype.type(0))


def _near_zero(x: Array, w: Array, *, bits: int) -> Array:
    """The numbers of values that are 0 but for roundings. They have no effect at values of 0."""
    near = _zero(w, least_gap(w.shape[-1], bits)) & (w != 0)
    return np.where(near[..., None, :], _UNKNOWN * np.abs(x), 0.0)


# The columns of matrices that belong to singular values 0.
_zero_part = primitive(
    "zero_part", _zero_part_kernel,
    vjp=(lambda xp, g, y, x, w, *, bits: xp.zero_part(g, w, bits=bits), None),
    jvp=(lambda xp, t, y, x, w, *, bits: xp.zero_part(t, w, bits=bits), None),
    reads=((1,), ()), params=("bits",), rounding=stable(0.5, noise=_near_zero),
    domain=Domain(ANY_REAL, ANY_REAL, where=lambda x, w: not _zero(w, 2.0**-20).any()),
    samples=((((2, 2), (2,)), {"bits": 53}), (((2, 3, 2), (2, 2)), {"bits": 53})),
)  # fmt: skip


def _block_kernel(a: Array, u: Array, v: Array, w: Array, *, bits: int, wide: bool) -> Array:
    near = _near(w, bits, wide)
    if not near.any():
        return np.zeros(near.shape, a.dtype)
    whole = np.matmul(np.swapaxes(u, -1, -2), np.matmul(a, v))
    return np.where(near, (whole + np.swapaxes(whole, -1, -2)) / 2, 0).astype(a.dtype)


def _block_left_out(a: Array, u: Array, v: Array, w: Array, *, bits: int, wide: bool) -> Array:
    """The numbers of a block that exact worlds leave out, because its values differ."""
    return np.where(_of_different(w, bits, wide), np.abs(_block_kernel(a, u, v, w, bits=bits, wide=wide)), 0.0)


def _sizes_of_block(a: Array, u: Array, v: Array, w: Array, *, bits: int, wide: bool) -> Array:
    whole = np.matmul(np.abs(np.swapaxes(u, -1, -2)), np.matmul(np.abs(a), np.abs(v)))
    count = 2 * (a.shape[-1] + a.shape[-2])
    return np.where(_near(w, bits, wide), count * 2.0 ** (53 - bits) * (whole + np.swapaxes(whole, -1, -2)), 0.0)


def _halves(xp: Any, g: Any, w: Any, bits: int, wide: bool) -> Any:
    return xp.cluster_part(g + xp.swap_last(g), w, bits=bits, wide=wide) / 2


_block = primitive(
    "cluster_block", _block_kernel,
    vjp=(
        lambda xp, g, y, a, u, v, w, *, bits, wide: (
            xp.matmul(xp.matmul(u, _halves(xp, g, w, bits, wide)), xp.swap_last(v))
        ),
        lambda xp, g, y, a, u, v, w, *, bits, wide: xp.matmul(xp.matmul(a, v), _halves(xp, g, w, bits, wide)),
        lambda xp, g, y, a, u, v, w, *, bits, wide: (
            xp.matmul(xp.matmul(xp.swap_last(a), u), _halves(xp, g, w, bits, wide))
        ),
        None,
    ),
    jvp=(
        lambda xp, t, y, a, u, v, w, *, bits, wide: xp.cluster_block(t, u, v, w, bits=bits, wide=wide),
        lambda xp, t, y, a, u, v, w, *, bits, wide: xp.cluster_block(a, t, v, w, bits=bits, wide=wide),
        lambda xp, t, y, a, u, v, w, *, bits, wide: xp.cluster_block(a, u, t, w, bits=bits, wide=wide),
        None,
    ),
    reads=((1, 2, 3), (0, 2, 3), (0, 1, 3), ()), params=("bits", "wide"),
    rounding=stable(0.51, by=_sizes_of_block, backward=1, noise=_block_left_out), conventions=PRODUCTS,
    domain=Domain(ANY_REAL, ANY_REAL, ANY_REAL, ANY_REAL, where=lambda a, u, v, w: not _near(w, 24).any()),
    samples=(
        (((2, 2), (2, 2), (2, 2), (2,)), {"bits": 53, "wide": False}),
        (((2, 3, 2), (2, 3, 2), (2, 2, 2), (2, 2)), {"bits": 53, "wide": False}),
    ),
)  # fmt: skip


def _any_cluster(w: Any, bits: int, *, wide: bool = False) -> bool:
    """Whether some values of a tensor, which are sorted, form a cluster. In a compiled function a guard."""
    value = w._value
    if isinstance(value, np.ndarray):
        with np.errstate(all="ignore"):
            size = np.abs(value).max(axis=-1, keepdims=True, initial=0.0)
            apart = np.abs(value[..., 1:] - value[..., :-1]) > _width(value.shape[-1], bits, wide) * size
        return not apart.all() and bool(_near(value, bits, wide).any())
    with record.off():
        square = as_column(TAPE, w) - as_row(TAPE, w)
        near = TAPE.cluster_part(TAPE.ones_like(square), w, bits=bits, wide=wide)
        axes = tuple(range(len(shape_of(near))))
        return bool(TAPE.max(near, axis=axes, keepdims=False) > 0)


def _any_null(w: Any, bits: int, shape: tuple[int, int]) -> bool:
    """Whether some singular values are 0 as in `_null`. In a compiled function a guard."""
    if isinstance(w._value, np.ndarray):
        return bool(_null(w._value, bits, shape).any())
    with record.off():
        zeros = TAPE.zero_part(as_row(TAPE, TAPE.ones_like(w)), w, bits=bits)
        count = TAPE.sum(zeros, axis=(len(shape_of(zeros)) - 1,), keepdims=False)
        axes = tuple(range(len(shape_of(count))))
        return bool(TAPE.max(count, axis=axes, keepdims=False) > (1.5 if shape[0] == shape[1] else 0.5))


def spectrum(xp: Any, a: Any, u: Any, v: Any, w: Any, bits: int, *, wide: bool) -> Any:
    """The diagonal matrix of the values. Its derivative is full inside clusters."""
    return diagonal_matrix(xp, _from_matrix(xp, a, u, v, w, bits)) + xp.cluster_block(a, u, v, w, bits=bits, wide=wide)


def _from_matrix(xp: Any, a: Any, u: Any, v: Any, w: Any, bits: int) -> Any:
    """The values; for clusters the diagonal of U'AV, because turned vectors belong to these numbers.

    The derivatives are the same. But `slopes_in_clusters` may not see them, because `cluster_block` has their rest.
    """
    if not isinstance(w, Tensor) or not get_stack().sessions or not _any_cluster(w, bits):
        return w
    inside = _near(np.asarray(w._value), bits).any(axis=-1).astype(np.float64)
    diagonal = xp.diag_part(xp.matmul(xp.swap_last(u), xp.matmul(a, v)), k=0)
    return w * (1 - inside) + diagonal * inside


def _runs(near: Array) -> list[slice]:
    """The runs of sorted values of which each is near each other."""
    runs, start, n = [], 0, len(near)
    for stop in range(1, n + 1):
        if stop == n or not near[start:stop, stop].all():
            if stop - start > 1:
                runs.append(slice(start, stop))
            start = stop
    return runs


def _turned_kernel(x: Array, t: Array, u: Array, v: Array, w: Array, *, bits: int, side: str, ties: bool) -> Array:
    near = _within(w, 0.0 if ties else least_gap(w.shape[-1], bits))
    zeros = _turned_zeros(u, v, w, bits, side, ties)
    if not near.any() and not zeros.any():
        return x
    made = x.copy()
    for i in np.ndindex(*w.shape[:-1]):
        t1, u1, v1 = (y[i].astype(np.float64) for y in (t, u, v))
        downwards = w[i][0] > w[i][-1]
        for run in _runs(near[i]):
            block = u1[:, run].T @ t1 @ v1[:, run]
            if np.isfinite(block).all() and not zeros[i][run].any():
                turn = np.linalg.eigh((block + block.T) / 2)[1]
                made[i][:, run] = x[i][:, run] @ (turn[:, ::-1] if downwards else turn)
        if zeros[i].any():
            made[i][:, zeros[i]] = _null_vectors(t1, u1, v1, zeros[i], side)
    return made


def _turned_zeros(u: Array, v: Array, w: Array, bits: int, side: str, ties: bool) -> Array:
    if side == "both":
        return np.zeros(w.shape, dtype=bool)
    return _null(w, bits, (u.shape[-2], v.shape[-2]), ties=ties)


def _null_vectors(t: Array, u: Array, v: Array, zeros: Array, side: str) -> Array:
    """Vectors of the singular values 0 of A that are the singular vectors of T between the null spaces of A' and A."""
    left, right = (np.linalg.svd(y[:, ~zeros])[0][:, (~zeros).sum() :] for y in (u, v))
    block = left.T @ t @ right
    if not np.isfinite(block).all():
        return (u if side == "left" else v)[:, zeros]
    p, _, q = np.linalg.svd(block)
    return (left @ p if side == "left" else right @ q.T)[:, : zeros.sum()]


# The columns `x`, turned inside clusters of equal values so that U'TV is diagonal there. Along A + hT the values and
# vectors are then analytic in h, in sorted order. Second derivatives by T and any other direction therefore need no
# motion inside clusters, because they hold that motion times the zeros beside the diagonal of U'TV. The left and the
# right vectors of singular values 0 turn separately, in the whole null spaces. `ties` turns only values that are equal
# to the last bit: other values have first derivatives of their own, which are the diagonal of U'TV without a turn.
_turned_in_clusters = primitive(
    "turned_in_clusters", _turned_kernel, (None,) * 5, (None,) * 5, params=("bits", "side", "ties"), missing=(0,),
    rounding=stable(0.5), domain=Domain(*[ANY_REAL] * 5, where=lambda x, t, u, v, w, *_: not _near(w, 24).any()),
    samples=(
        (((2, 2), (2, 2), (2, 2), (2, 2), (2,)), {"bits": 53, "side": "both", "ties": False}),
        (((2, 3, 2), (2, 3, 2), (2, 3, 2), (2, 2, 2), (2, 2)), {"bits": 53, "side": "both", "ties": False}),
    ),
)  # fmt: skip


def turned_towards(
    xp: Any, columns: dict[str, Any], t: Callable[[], Any], u: Any, v: Any, w: Any, bits: int, values_of: Nesting | None
) -> tuple[Any, ...]:
    """The `columns` of an output by their side (left, right, or both), turned in the direction that `t` returns.

    `values_of` is None if the program gets the columns, too. If it gets only the values, near values that differ keep
    their columns, because a turn changes their first derivatives. But second derivatives of symmetric functions need
    the turn if outer tapes or accumulators differentiate the tangents, or if inner tapes lack the slopes in clusters.
    """
    known = isinstance(w._value, np.ndarray)
    ties = values_of is not None and not values_of.outside
    if values_of is not None and ties and values_of.inside:
        if known and not _any_turn(columns, u, v, w, bits, wide=True):
            return tuple(columns.values())
        ties = known and values_of.follow_slopes()
    if known and not _any_turn(columns, u, v, w, bits):
        return tuple(columns.values())
    with record.off():
        along = t()
        turned = [xp.turned_in_clusters(x, along, u, v, w, bits=bits, side=s, ties=ties) for s, x in columns.items()]
    return tuple(turned)


def _any_turn(columns: dict[str, Any], u: Any, v: Any, w: Any, bits: int, *, wide: bool = False) -> bool:
    if _any_cluster(w, bits, wide=wide):
        return True
    left, right, values = (np.asarray(y._value) for y in (u, v, w))
    return any(_turned_zeros(left, right, values, bits, side, ties=False).any() for side in columns)


# ---------------------------------------------------------------------------------------------- slopes


class Slopes(NamedTuple):
    """How the cotangents of values depend on the values of their cluster.

    Attributes
    ----------
    even : array, shape [..., n, n]
        For each pair of values in one cluster, half the slope of the difference of their cotangents by the difference.
        A function that is symmetric in the values of a cluster has one such slope for the cluster. For other pairs, the
        quotient of the differences of what the means of clusters leave out of the cotangents.
    weights : array, shape [..., n, n]
        For each such pair the reciprocal of the number of values in the cluster.
    heads : array, shape [..., n, n]
        For each such pair 1 if the second value is the first of the cluster, otherwise 0.
    zeros : array of bools, shape [..., n]
        The singular values 0 of a function that is even there, because its cotangents are 0.
    odd : array, shape [..., n]
        For each of these the slope of its cotangent by the value.
    sums : array, shape [..., n, n]
        For each pair of other singular values, the sum of what the means leave out of the cotangents, divided by the
        sum of the values; 0 for eigenvalues.
    beyond : array, shape [..., n]
        For each other singular value, what the mean leaves out of its cotangent, divided by the value.
    """

    even: Array
    weights: Array
    heads: Array
    zeros: Array
    odd: Array
    sums: Array
    beyond: Array


def slopes_in_clusters(gw: Any, w: Any, bits: int, *, shape: tuple[int, int] | None = None) -> Slopes | None:
    """The slopes of cotangents of eigenvalues, or of singular values; None without clusters or a tape.

    Cotangents that are no symmetric function of the values of a cluster differ by more than the slope times the
    difference of the values. Then their quotients have all digits, and reverse mode finds these by itself. Forward mode
    does not, because the vectors of near values rest in it.

    Parameters
    ----------
    shape : tuple of two ints, optional
        The shape of the matrices with these singular values.
    """
    pull, pushed = slope(gw, w), follows_slopes(w)
    if pull is None and not pushed:
        return None
    some_zeros = shape is not None and _any_null(w, bits, shape)
    if not some_zeros and not _any_cluster(w, bits, wide=True):
        return None
    values = np.asarray(w._value)
    n = values.shape[-1]
    least = least_gap(n, bits)
    zeros = _null(values, bits, shape) if shape is not None else np.zeros(values.shape, dtype=bool)
    even, weights, heads = np.zeros((3, *values.shape, n))
    odd, even_at_zero = np.zeros(values.shape), np.zeros(values.shape, bool)
    cotangents, apart = np.asarray(gw._value, np.float64), np.zeros(values.shape)
    clusters = np.broadcast_to(np.arange(n), values.shape).copy()

    def slopes_along(i: tuple[int, ...], ends: dict[int, float]) -> Array | None:
        if pull is None:  # the cotangents are constants
            return np.zeros(n)
        seed = np.zeros(values.shape, gw._layout.dtype)
        seed[i][list(ends)] = list(ends.values())
        c = pull(seed)
        return None if c is None else np.asarray(c, np.float64)[i]

    for i in np.ndindex(*values.shape[:-1]):
        if zeros[i].any():
            first = int(np.argmax(zeros[i]))
            c = slopes_along(i, {first: 1.0})
            if c is not None:
                g = np.abs(cotangents[i][zeros[i]])
                if (g <= 2 * least * values[i].max(initial=0.0) * abs(c[first])).all():
                    odd[i], even_at_zero[i] = np.where(zeros[i], c[first], 0.0), zeros[i]
                    apart[i] = np.where(zeros[i], cotangents[i], 0.0)
                    last = slopes_along(i, {first: 1.0, n - 1: -1.0}) if first < n - 1 else None
                    if last is not None:
                        even[i][first:, first:] = (last[first] - last[n - 1]) / 2
        left = ~even_at_zero[i]
        left = left[:, None] & left
        waiting, runs = _runs(_near(values[i], bits, wide=True) & left), []
        while waiting:
            run = waiting.pop()
            c = slopes_along(i, {run.start: 1.0, run.stop - 1: -1.0})
            if c is None:
                continue
            steady = (c[run.start] - c[run.stop - 1]) / 2
            stop = _first_of_others(values[i], cotangents[i], run, steady, bits)
            if stop is None:
                even[i][run, run] = steady
                runs.append(run)
            else:
                parts = slice(run.start, stop), slice(stop, run.stop)
                waiting += [part for part in parts if part.stop - part.start > 1]
        if pushed:
            runs = _with_quotients(runs, even[i], values[i], cotangents[i], _near(values[i], bits) & left)
        for run in runs:
            clusters[i][run] = run.start
            weights[i][run, run] = 1 / (run.stop - run.start)
            heads[i][run, run.start] = 1
            apart[i][run] = cotangents[i][run] - cotangents[i][run].mean()
    differ = clusters[..., None, :] != clusters[..., :, None]
    both_zero = even_at_zero[..., None, :] & even_at_zero[..., :, None]

    def over(x: Array, d: Array) -> Array:
        return np.divide(x, d, out=np.zeros(x.shape), where=d != 0)

    row, column, apart_row, apart_column = (
        values[..., None, :],
        values[..., None],
        apart[..., None, :],
        apart[..., None],
    )
    even = np.where(differ & ~both_zero, over(apart_row - apart_column, row - column), even)
    even[..., np.arange(n), np.arange(n)] = 0
    sums, beyond = np.zeros(even.shape), np.zeros(values.shape)
    if shape is not None:
        sums = np.where(both_zero, 0.0, over(apart_row + apart_column, row + column))
        beyond = np.where(even_at_zero, 0.0, over(apart, values))
    return Slopes(even, weights, heads, even_at_zero, odd, sums, beyond)


def _first_of_others(values: Array, cotangents: Array, run: slice, steady: float, bits: int) -> int | None:
    """Where to divide a run whose cotangents are no symmetric function with this slope; None if they are one."""
    w, g = values[run], cotangents[run]
    size = np.abs(values).max(initial=0.0, where=np.isfinite(values))
    off = np.where(np.diff(w) == 0, 0.0, np.abs(np.diff(g - steady * (w - w[0]))))
    rounded = 2.0 ** (12 - bits) * np.abs(g).max() + least_gap(len(values), bits) * size * abs(steady)
    return run.start + 1 + int(np.argmax(off)) if (off > rounded).any() else None


def _with_quotients(parts: list[slice], even: Array, values: Array, cotangents: Array, near: Array) -> list[slice]:
    """The `parts` and the runs of near values, joined where they overlap. Quotients between parts go into `even`."""
    known = np.eye(len(values), dtype=bool)
    for part in parts:
        known[part, part] = True
    joined: list[slice] = []
    for run in sorted([*parts, *_runs(near)], key=lambda r: r.start):
        if joined and run.start < joined[-1].stop:
            joined[-1] = slice(joined[-1].start, max(joined[-1].stop, run.stop))
        else:
            joined.append(run)
    row, column = cotangents[None, :] - cotangents[:, None], values[None, :] - values[:, None]
    with np.errstate(all="ignore"):
        quotients = np.divide(row, column, out=np.zeros(row.shape), where=column != 0)
    quotients = np.clip(quotients, -_LARGEST, _LARGEST)  # because infinity times a tangent of 0 is NaN
    for run in joined:
        even[run, run] = np.where(known[run, run], even[run, run], quotients[run, run])
    return joined


def motion(xp: Any, found: Slopes | None, gw: Any, a: Any, u: Any, v: Any, w: Any, bits: int) -> tuple[Any, Any]:
    """The cotangent U diag(gw) V' of `a` in two parts: a vector in place of `gw`, and a matrix to add.

    The vector has one number for a cluster, and 0 for zeros. The matrix holds what the motion inside clusters adds
    along H: U (S o U'HV) V', with the slopes S of the cotangents by the values, in place of the quotients
    (gw_j - gw_i) / (w_j - w_i) of the symmetric part of U'HV and (gw_j + gw_i) / (w_j + w_i) of the other part, which
    rounding destroys. Clusters are wide: a quotient loses more digits than the slope, which errs by the difference of
    the values. Zeros have such quotients outside the span of U and V, too. The slopes are constants, so third
    derivatives lack theirs. The matrix is None if `found` is.
    """
    if found is None:
        return gw, None

    def in_clusters(x: Any) -> Any:
        return xp.cluster_part(x, w, bits=bits, wide=True)

    def deviations(x: Any, weights: Array) -> Any:
        return xp.sum(
            in_clusters((as_column(xp, x) - as_row(xp, x)) * weights), axis=(len(shape_of(w)),), keepdims=False
        )

    apart = deviations(gw, found.weights)
    # The numbers of a cluster must be the same to the last bit, because motions of vectors would magnify differences.
    apart = apart + deviations(gw - apart, found.heads)
    u, v, moving = xp.stop_gradient(u), xp.stop_gradient(v), a - xp.stop_gradient(a)
    to_right = xp.matmul(moving, v)
    inside = xp.matmul(xp.swap_last(u), to_right)
    back = xp.swap_last(inside)
    within = (inside + back) / 2 * found.even
    within = in_clusters(within) + xp.beside_clusters(within, w, bits=bits) + diagonal_matrix(xp, apart)
    vector = gw - apart
    some_left_out = bool(found.sums.any() or found.beyond.any())
    if not some_left_out and not found.zeros.any():
        return vector, xp.matmul(xp.matmul(u, within), xp.swap_last(v))
    right, left = to_right - xp.matmul(u, inside), xp.matmul(xp.swap_last(moving), u) - xp.matmul(v, back)

    def outside_span(columns: Callable[[Any], Any], slopes: Array) -> Any:
        row = slopes[..., None, :]
        return xp.matmul(columns(right * row), xp.swap_last(v)) + xp.matmul(u, xp.swap_last(columns(left * row)))

    def of_clusters(x: Any) -> Any:
        return xp.cluster_columns(x, w, bits=bits)

    def at_zero(x: Any) -> Any:
        return xp.zero_part(x, w, bits=bits)

    beyond: Any = 0
    if some_left_out:
        turning = (inside - back) / 2 * found.sums
        columns = of_clusters(turning)
        within = within + columns + xp.swap_last(of_clusters(xp.swap_last(turning - columns)))
        beyond = outside_span(of_clusters, found.beyond)
    if found.zeros.any():
        of_zeros = xp.reshape(at_zero(as_row(xp, vector)), shape=shape_of(w)) * found.zeros.astype(np.float64)
        odd = xp.swap_last(at_zero(xp.swap_last(at_zero((inside - back) / 2 * found.odd[..., None, :]))))
        within = within + odd + diagonal_matrix(xp, of_zeros)
        beyond = beyond + outside_span(at_zero, found.odd)
        vector = vector - of_zeros
    return vector, xp.matmul(xp.matmul(u, within), xp.swap_last(v)) + beyond


# ---------------------------------------------------------------------------------------------- quotients


def _divisors(x: Array, m: Array, sign: int) -> Array:
    """The divisors m_jj - sign m_ii."""
    w = np.diagonal(m, axis1=-2, axis2=-1)
    row = w[..., None, :]
    if sign == 0:
        return np.broadcast_to(row, x.shape)
    return row - w[..., :, None] if sign == 1 else row + w[..., :, None]


def _at_rest(like: Array, size: Array, m: Array, d: Array, sign: int, bits: int, wide: bool) -> Array:
    """The positions where the solution is 0: the diagonal of differences, and clusters with `like` only rounding.

    The roundings are those of `size`. For sums and for values alone the values 0 are the cluster.
    """
    w = np.diagonal(m, axis1=-2, axis2=-1)
    if sign == 1:
        near, cluster = _near(w, bits, wide), _near(w, bits)
    else:
        zeros = _zero(w, least_gap(w.shape[-1], bits))
        near = np.broadcast_to(zeros[..., None, :] & (zeros[..., :, None] if sign else True), d.shape)
        cluster = near
    if near.any():
        with np.errstate(all="ignore"):
            # Small columns of a cluster may hold roundings of its large ones, because rounding mixes these vectors.
            largest = size.max(axis=(-2, -1), keepdims=True, initial=0.0, where=np.isfinite(size))
            allowed = np.where(cluster, np.maximum(largest, size), size)
            near = near & (np.abs(like) <= w.shape[-1] * 2.0 ** (1 - bits) * allowed)
    return near | np.eye(w.shape[-1], dtype=bool) if sign == 1 else near


def _times(z: Array, m: Array, sign: int) -> Array:
    made = np.matmul(z, m)
    return made if sign == 0 else made - sign * np.matmul(m, z)


def _over(x: Array, d: Array, rest: Array) -> Array:
    return np.divide(x, d, out=np.zeros_like(x), where=(x != 0) & ~rest)


def _quotient_kernel(x: Array, like: Array, size: Array, m: Array, *, sign: int, bits: int, wide: bool) -> Array:
    if x.dtype != np.float64:
        wider = [v.astype(np.float64) for v in (x, like, size, m)]
        return _quotient_kernel(*wider, sign=sign, bits=bits, wide=wide).astype(x.dtype)
    d = _divisors(x, m, sign)
    rest = _at_rest(like, size, m, d, sign, bits, wide)
    with np.errstate(all="ignore"):
        made = _over(x, d, rest)
        off = np.where(np.eye(m.shape[-1], dtype=bool), m.dtype.type(0), m)
        if not off.any():
            return made
        good = (np.isfinite(x).all(axis=(-2, -1)) & np.isfinite(m).all(axis=(-2, -1)))[..., None, None]
        x, off, d = np.where(good, x, 0.0), np.where(good, off, 0.0), np.where(good, d, 1.0)
        made = _coupled(x, np.where(good, m, 0.0), off, d, rest, sign)
        return np.where(good | rest, made, np.nan)


def _coupled(x: Array, m: Array, off: Array, d: Array, rest: Array, sign: int) -> Array:
    """The solution for matrices that are not diagonal, by iteration if they are nearly diagonal."""
    made = last = _over(x, d, rest)
    for _ in range(_TURNS):
        last, made = made, _over(x - _times(made, off, sign), d, rest)
        if np.array_equal(made, last):
            return made
        if not np.isfinite(made).all():
            break
    if np.abs(made - last).max() <= 4 * np.finfo(made.dtype).eps * np.abs(made).max():
        return made
    return _solved(x, m, rest, sign)


_TURNS = 8


def _solved(x: Array, m: Array, rest: Array, sign: int) -> Array:
    """The solution for matrices `m` that are far from diagonal."""
    out = np.zeros(x.shape, x.dtype)
    m, rest = np.broadcast_to(m, (*x.shape[:-2], *m.shape[-2:])), np.broadcast_to(rest, x.shape)
    for i in np.ndindex(*x.shape[:-2]):
        free = ~rest[i].ravel()
        if free.any():
            with np.errstate(all="ignore"):
                try:
                    found: Any = np.linalg.solve(system(x[i].shape, m[i], sign)[np.ix_(free, free)], x[i].ravel()[free])
                except np.linalg.LinAlgError:
                    found = np.nan
            out[i].flat[np.flatnonzero(free)] = found
    return out


def system(shape: tuple[int, ...], m: Array, sign: int) -> Array:
    """The matrix of the linear map from Z to Z M - sign M Z, with Z taken row by row."""
    rows, n = shape
    made = np.kron(np.eye(rows, dtype=int), m.T)
    return made if sign == 0 else made - sign * np.kron(m, np.eye(n, dtype=int))


def _room(x: Array, like: Array, size: Array, m: Array, *, sign: int, bits: int, wide: bool) -> Array:
    """The uncertainty of the quotients: from numbers that clusters leave out, and from roundings of full systems."""
    d = _divisors(x, m, sign)
    rest = _at_rest(like, size, m, d, sign, bits, wide)
    off = np.where(np.eye(m.shape[-1], dtype=bool), 0.0, m)
    with np.errstate(all="ignore"):
        # The quotients themselves, if they are larger than the bound: differences may be as small as any number.
        bound = np.where(d == 0, _UNKNOWN, np.clip(2 / np.abs(d), _UNKNOWN, _LARGEST))
        inside = rest & ~np.eye(m.shape[-1], dtype=bool) if sign == 1 else rest
        sizes = np.where(inside, np.abs(x) + np.abs(size), 0.0)
        if off.any():  # couples the pairs of a cluster
            sizes = np.broadcast_to(sizes.max(axis=(-2, -1), keepdims=True, initial=0.0), sizes.shape)
        room = np.where(inside, bound * sizes, 0.0)
        if not off.any():
            return room
        made = _quotient_kernel(x, like, size, m, sign=sign, bits=bits, wide=wide)
        for i in np.ndindex(*x.shape[:-2]):
            free = ~rest[i].ravel()
            whole = system(x[i].shape, m[i], sign)[np.ix_(free, free)]
            z = np.abs(made[i].ravel()[free])
            try:
                moved = np.abs(np.linalg.inv(whole)) @ (np.abs(whole) @ z + np.abs(x[i].ravel()[free]))
            except np.linalg.LinAlgError:
                moved = np.full(z.shape, np.inf)
            room[i].flat[np.flatnonzero(free)] += 2.0**-50 * len(z) * moved
    return room


def _determined(x: Array, like: Array, size: Array, m: Array) -> bool:
    """Whether all values of each matrix are apart from each other, in magnitude too, and from 0."""
    w = np.sort(np.abs(np.diagonal(m, axis1=-2, axis2=-1)), axis=-1)
    low = np.concatenate([np.zeros((*w.shape[:-1], 1)), w], axis=-1)
    with np.errstate(all="ignore"):
        return bool((np.diff(low, axis=-1) > 1e-3 * w.max(axis=-1, keepdims=True, initial=0.0)).all())


def _again(xp: Any, y: Any, x: Any, like: Any, size: Any, m: Any, **params: Any) -> Any:
    """The quotient in double precision, computed again if `y` is rounded, because the systems magnify roundings."""
    (wide,), _ = doubled(xp, y)
    return y if wide is y else xp.spectral_quotient(x, like, size, m, **params)


def _pull_matrix(xp: Any, g: Any, y: Any, x: Any, like: Any, size: Any, m: Any, **params: Any) -> Any:
    (g, x, like, size, m), home = doubled(xp, g, x, like, size, m)
    y = _again(xp, y, x, like, size, m, **params)
    h = xp.spectral_quotient(g, like, size, xp.swap_last(m), **params)
    made = -xp.matmul(xp.swap_last(y), h)
    return home(made if params["sign"] == 0 else made + params["sign"] * xp.matmul(h, xp.swap_last(y)))


def _push_matrix(xp: Any, t: Any, y: Any, x: Any, like: Any, size: Any, m: Any, **params: Any) -> Any:
    (t, x, like, size, m), home = doubled(xp, t, x, like, size, m)
    y = _again(xp, y, x, like, size, m, **params)
    made = -xp.matmul(y, t)
    made = made if params["sign"] == 0 else made + params["sign"] * xp.matmul(t, y)
    return home(xp.spectral_quotient(made, like, size, m, **params))


_spectral_quotient = primitive(
    "spectral_quotient", _quotient_kernel,
    vjp=(
        lambda xp, g, y, x, like, size, m, **p: xp.spectral_quotient(g, like, size, xp.swap_last(m), **p),
        None,
        None,
        lambda xp, g, y, x, like, size, m, **p: _pull_matrix(xp, g, y, x, like, size, m, **p),
    ),
    jvp=(
        lambda xp, t, y, x, like, size, m, **p: xp.spectral_quotient(t, like, size, m, **p),
        None,
        None,
        lambda xp, t, y, x, like, size, m, **p: _push_matrix(xp, t, y, x, like, size, m, **p),
    ),
    domain=Domain(ANY_REAL, ANY_REAL, ANY_REAL, ANY_REAL, where=_determined),
    reads=((1, 2, 3), (), (), (0, 1, 2, 3, "y")), params=("sign", "bits", "wide"),
    rounding=stable(1.51, noise=_room, wide=True),
    samples=(
        (((2, 2), (2, 2), (2, 2), (2, 2)), {"sign": 1, "bits": 53, "wide": False}),
        (((2, 2), (2, 2), (2, 2), (2, 2)), {"sign": -1, "bits": 53, "wide": False}),
        (((1, 2), (1, 2), (1, 2), (2, 2)), {"sign": 0, "bits": 53, "wide": False}),
        (((2, 2, 2),) * 4, {"sign": 1, "bits": 53, "wide": True}),
    ),
    conventions=(
        RATIOS,
        OfArrays("zero", "value", "a zero of the other sign", "zero is divided by nothing, and is +0"),
        *[
            OfArrays("zeros", "both", gives, "equal values: a number divided by their difference, infinite or NaN")
            for gives in ("a number for no limit", "an infinity of another sign", "NaN")
        ],
    ),
)  # fmt: skip


def _column_size_kernel(x: Array) -> Array:
    size = np.abs(x).max(axis=-2, keepdims=True, initial=0.0)
    exponent = np.minimum(np.frexp(size)[1], np.finfo(x.dtype).maxexp - 1)
    unknown = np.where(np.isfinite(size), size, x.dtype.type(np.nan))  # no number is a rounding error beside infinity
    return np.where(unknown > 0, np.ldexp(np.ones_like(size), exponent), unknown).astype(x.dtype, copy=False)


# Sizes only tell rounding errors from other numbers, so they are constants for derivatives.
_column_size = primitive(
    "column_size", _column_size_kernel, (None,), (None,), rounding=EXACT,
    samples=((((2, 2),), {}), (((2, 3, 1),), {})),
)  # fmt: skip


def pairs(xp: Any, *columns: Any) -> Any:
    """For each pair of columns the sum of their sizes: powers of two above the largest elements."""
    rows = [xp.column_size(g) for g in columns]
    row = sum(rows[1:], rows[0])
    return row + xp.swap_last(row)


def over_gaps(xp: Any, x: Any, size: Any, m: Any, bits: int, *, wide: bool) -> Any:
    """Solve Z M - M Z = X for Z. In clusters `x` is 0 if the function depends only on the span of its vectors.

    In clusters, elements of `x` up to the size of rounding errors (measured against `size`) count as 0. If `wide`,
    clusters have more values: those so close that rounding errors, divided twice by their differences, would destroy
    every digit of a second derivative.
    """
    return xp.spectral_quotient(x, x, size, m, sign=1, bits=bits, wide=wide)


def over_known_gaps(xp: Any, x: Any, m: Any, bits: int) -> Any:
    """Solve Z M - M Z = X for Z, with Z = 0 in clusters."""
    return xp.spectral_quotient(x, xp.zeros_like(x), xp.ones_like(x), m, sign=1, bits=bits, wide=False)


def over_sums(xp: Any, x: Any, size: Any, m: Any, bits: int) -> Any:
    """Solve Z M + M Z = X for Z, for X and Z with diagonals of 0.

    Singular values 0 are a cluster: elements of `x` up to the size of rounding errors (measured against `size`) count
    as 0 there.
    """
    return xp.off_diagonal(xp.spectral_quotient(x, x, size, m, sign=-1, bits=bits, wide=False))


def over_known_sums(xp: Any, x: Any, m: Any, bits: int) -> Any:
    """Solve Z M + M Z = X for Z, for X and Z with diagonals of 0, with Z = 0 between singular values 0."""
    made = xp.spectral_quotient(x, xp.zeros_like(x), xp.ones_like(x), m, sign=-1, bits=bits, wide=False)
    return xp.off_diagonal(made)


def over_columns(xp: Any, x: Any, like: Any, size: Any, m: Any, bits: int) -> Any:
    """Solve Z M = X for Z. Columns of values 0 are 0 if `like` has only rounding errors (measured against `size`)."""
    return xp.spectral_quotient(x, like, size, m, sign=0, bits=bits, wide=False)

"""Vectors of tiny singular values, which the rules of the singular value decomposition take together.

The vectors of a tiny value move by the reciprocal of the value, so that second derivatives of functions that depend
only on the other vectors would lose all digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.declare.primitives import primitive
from gtape.declare.rounding import EXACT
from gtape.kernels.decompositions import far_below
from gtape.ops.linalg.spectra import as_row, outside
from gtape.recording import record
from gtape.tensors.axes import shape_of

__all__: list[str] = []

Array = Any


def _kept_kernel(w: Array) -> Array:
    unknown = np.logical_or.accumulate(np.isnan(w), axis=-1)
    return np.where(unknown, np.nan, np.where(far_below(w), 0, 1)).astype(w.dtype)


# 1 for singular values, and 0 for those far below all others, whose vectors `Apart` takes together.
_kept_values = primitive(
    "kept_values", _kept_kernel, (None,), (None,), rounding=EXACT,
    role="choice", samples=((((2,),), {}), (((2, 3),), {})),
)  # fmt: skip


class Apart:
    """The vectors of tiny singular values, apart from those of the others: u_i and v_i move by x_i and y_i into them.

    The tiny values belong to a cluster: the block E of the matrix between the null spaces of U' and V', where U and V
    are the columns of the other values. A motion satisfies x_i s_i - E y_i = p_i and y_i s_i - E' x_i = q_i, whatever
    the bases of these null spaces are. In place of these equations, other rules divide by the differences of s_i and
    single tiny values. The results are the same, but derivatives of the quotients are wrong, because single vectors of
    tiny values move by reciprocals of these values.
    """

    def __init__(self, xp: Any, kept: Any, a: Any, s: Any, u: Any, v: Any) -> None:
        self.xp = xp
        self.kept, self.tiny = as_row(xp, kept), as_row(xp, 1 - kept)
        self.over = as_row(xp, kept / (s * kept + (1 - kept)))
        self.u, self.v = u * self.kept, v * self.kept
        self.tiny_u, self.tiny_v = u * self.tiny, v * self.tiny
        rest = self._outside(a, self.u)
        self.block = xp.swap_last(self._outside(xp.swap_last(rest), self.v))
        column = xp.swap_last(self.kept)
        self.together = column * self.kept + (1 - column) * (1 - self.kept)

    def _outside(self, x: Any, u: Any) -> Any:
        return outside(self.xp, outside(self.xp, x, u), u)  # twice, because the columns are rounded

    def _solved(self, p: Any, q: Any) -> tuple[Any, Any]:
        """The x and y with x S - E y = p and y S - E' x = q."""
        xp, back = self.xp, self.xp.swap_last(self.block)
        if p.__class__ is np.ndarray and p.dtype == object:
            return self._solved_exactly(p, q)
        x, y = p * self.over, q * self.over
        for _ in range(9):  # each adds the digits between a tiny value and the others, at least 6 bits
            x, y = (p + xp.matmul(self.block, y)) * self.over, (q + xp.matmul(back, x)) * self.over
        return x, y

    def _solved_exactly(self, p: Array, q: Array) -> tuple[Array, Array]:
        """The same in exact worlds, column by column: x (s^2 - E E') = s p + E q."""
        xp, back = self.xp, self.xp.swap_last(self.block)
        square, unit = xp.matmul(self.block, back), np.eye(p.shape[-2], dtype=int)
        columns: list[tuple[Array, Array]] = []
        for i in range(p.shape[-1]):
            at = (..., slice(i, i + 1))
            over = self.over[at] + self.tiny[at]  # for tiny values 1, because their columns are dropped below
            x = xp.solve(unit - square * (over * over), (p[at] + xp.matmul(self.block, q[at]) * over) * over)
            columns.append((x, (q[at] + xp.matmul(back, x)) * over))
        x, y = [np.concatenate(c, axis=-1) * self.kept for c in zip(*columns, strict=True)]
        return x, y

    def pull(self, gu: Any, gv: Any) -> Any:
        """The cotangent of the matrix for these motions."""
        xp = self.xp

        def given(g: Any, u: Any, tiny: Any) -> Any:
            turned = xp.matmul(xp.swap_last(g * self.tiny), u)
            return self._outside(g * self.kept, u) - xp.matmul(tiny, turned)

        x, y = self._solved(given(gu, self.u, self.tiny_u), given(gv, self.v, self.tiny_v))
        return xp.matmul(x, xp.swap_last(self.v)) + xp.matmul(self.u, xp.swap_last(y))

    def push(self, t: Any) -> tuple[Any, Any]:
        """These motions of both kinds of vectors for a tangent of the matrix."""
        xp = self.xp
        p = self._outside(xp.matmul(t, self.v), self.u)
        q = self._outside(xp.matmul(xp.swap_last(t), self.u), self.v)
        x, y = self._solved(p, q)
        du = x - xp.matmul(self.u, xp.matmul(xp.swap_last(x), self.tiny_u))
        dv = y - xp.matmul(self.v, xp.matmul(xp.swap_last(y), self.tiny_v))
        return du, dv


def tiny_apart(xp: Any, a: Any, s: Any, u: Any, v: Any) -> Apart | None:
    """The motions between vectors of tiny singular values and the others; None without tiny values."""
    kept = xp.kept_values(s)
    value = getattr(kept, "_value", kept)
    if isinstance(value, np.ndarray):
        some = bool((value.view(np.ndarray) == 0).any())
    else:  # a guard, because a function is compiled
        with record.off():
            some = bool(xp.min(kept, axis=tuple(range(len(shape_of(kept)))), keepdims=False) < 1)
    return Apart(xp, kept, a, s, u, v) if some else None

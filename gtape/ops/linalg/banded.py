"""Equations and products with matrices that have few diagonals."""

from __future__ import annotations

from typing import Any

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.declare.conventions import PRODUCTS, SOLUTIONS, conventional
from gtape.declare.primitives import REGISTRY, implicit
from gtape.declare.rounding import elimination
from gtape.kernels import decompositions as k
from gtape.kernels.double import doubled
from gtape.ops.linalg.diagonal import diag_embed_op, diag_part_op
from gtape.ops.linalg.equations import require_invertible, triangular_solve
from gtape.ops.linalg.matmul import swap_last
from gtape.ops.reduction.scan import shift_op
from gtape.ops.shape.shape import reshape_op
from gtape.tensors.axes import shape_of
from gtape.tensors.operands import float_operand, matrix_operand, operands
from gtape.tensors.tensor import Tensor

__all__ = ["banded_triangular_solve", "tridiagonal_matmul", "tridiagonal_solve"]


def _transposed(xp: Any, d: Any) -> Any:
    """The diagonals of the transposed matrix. The upper diagonal becomes the lower one, shifted by one place."""
    above = xp.shift(xp.strided_slice(d, key=_ROW[0]), axis=-1, by=1)
    below = xp.shift(xp.strided_slice(d, key=_ROW[2]), axis=-1, by=-1)
    return xp.concat(below, xp.strided_slice(d, key=_ROW[1]), above, axis=len(shape_of(d)) - 2)


_ROW = [((i, i + 1, 1), (None, None, 1)) for i in range(3)]


def _moved(xp: Any, x: Any, by: int) -> Any:
    return xp.shift(x, axis=-2, by=by) if by else x


def _products(xp: Any, p: Any, x: Any) -> Any:
    """The three diagonals of p x^T."""
    rows = [xp.sum(p * _moved(xp, x, by), axis=(-1,), keepdims=False) for by in (-1, 0, 1)]
    shape = shape_of(rows[0])
    return xp.concat(*[xp.reshape(r, shape=(*shape[:-1], 1, shape[-1])) for r in rows], axis=len(shape) - 1)


def _times_diagonals(xp: Any, d: Any, x: Any) -> Any:
    total = None
    for i, by in enumerate((-1, 0, 1)):
        row = xp.swap_last(xp.strided_slice(d, key=_ROW[i]))
        term = row * _moved(xp, x, by)
        total = term if total is None else total + term
    return total


def _pull_diagonals(xp: Any, g: Any, y: Any, d: Any, b: Any) -> Any:
    (g, y, d), home = doubled(xp, g, y, d)
    # The units divide last, because the quotient of a tiny row may overflow before a zero or tiny y multiplies it.
    read = _transposed(xp, _transposed(xp, d))
    units = xp.magnitude(read, axis=(-2,))
    return home(-_products(xp, xp.tridiagonal_solve(_transposed(xp, read / units), g), y) / units)


def _pull_right_side(xp: Any, g: Any, y: Any, d: Any, b: Any) -> Any:
    return xp.tridiagonal_solve(_transposed(xp, d), g)


def _push_diagonals(xp: Any, t: Any, y: Any, d: Any, b: Any) -> Any:
    (t, y, d), home = doubled(xp, t, y, d)
    return home(-xp.tridiagonal_solve(d, _times_diagonals(xp, t, y)))


_tridiagonal = implicit(
    "tridiagonal_solve", k.tridiagonal_solve,
    vjp=(_pull_diagonals, _pull_right_side), jvp=(_push_diagonals, lambda xp, t, y, d, b: xp.tridiagonal_solve(d, t)),
    reads=((0, "y"), (0,)), complex=True, rounding=elimination(0.5, 4, wide=True),
    samples=(
        (((3, 1), (1, 1)), {}),
        (((3, 2), (2, 2)), {}),
        (((3, 3), (3, 1)), {}),
        (((2, 3, 2), (2, 2, 1)), {}),
    ),
    conventions=SOLUTIONS,
)  # fmt: skip


@diagnosed
def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """Solve equations with tridiagonal matrices.

    Parameters
    ----------
    diagonals : tensor or sequence of three tensors
        "compact": shape [..., 3, m], with the upper diagonal (last element ignored), the main diagonal, and the lower
        diagonal (first element ignored). "sequence": these three as tensors of shape [..., m]; the upper and the lower
        one may have the shape [..., m - 1]. "matrix": shape [..., m, m].
    rhs : tensor, shape [..., m] or [..., m, k]
        Dtype of `diagonals`.
    diagonals_format : {"compact", "sequence", "matrix"}
    transpose_rhs : bool
        Whether a matrix `rhs` is given as [..., k, m].
    conjugate_rhs : bool
        Whether to solve for the conjugate of `rhs`.
    partial_pivoting, perturb_singular : bool
        Ignored, because rows are always exchanged where needed, and a singular matrix is an error.

    Returns
    -------
    Tensor, of the shape of `rhs` after `transpose_rhs`

    Raises
    ------
    ValueError
        If the format is unknown.
    gtape.errors.InvalidArgumentError
        If a matrix is singular, or shapes do not fit.

    Examples
    --------
    >>> tf.linalg.tridiagonal_solve([[1.0, 0.0], [2.0, 2.0], [0.0, 1.0]], [3.0, 3.0]).numpy()
    array([1., 1.], dtype=float32)
    """
    d = _compact(diagonals, diagonals_format, "tridiagonal_solve")
    d, b = operands(d, rhs)
    sd, sb = d._layout.shape, b._layout.shape
    vector = len(sb) == len(sd) - 1
    if vector:
        b = reshape_op(b, shape=(*sb, 1))
    elif transpose_rhs:
        b = swap_last(b)
    if conjugate_rhs and b._layout.complex:
        b = REGISTRY["conj"](b)
    sb = b._layout.shape
    if len(sb) < 2 or sb[-2] != sd[-1] or sb[:-2] != sd[:-2]:
        raise errors.InvalidArgumentError(
            f"tridiagonal_solve: the right-hand side of shape {list(sb)} does not fit diagonals of shape {list(sd)}"
        )
    x = require_invertible(_tridiagonal(d, b), "tridiagonal_solve", d, b)
    return reshape_op(x, shape=sb[:-1]) if vector else x


def _compact(diagonals: Any, form: str, op: str) -> Tensor:
    from gtape.ops.shape.join import concat, stack
    from gtape.ops.shape.tiling import pad

    if form == "compact":
        made = float_operand(diagonals, op)
        if made._layout.shape[-2:-1] != (3,):
            raise errors.InvalidArgumentError(
                f"{op}: compact diagonals have shape [..., 3, m], not {made._layout.tensor_shape}"
            )
        return made
    if form == "matrix":
        a = matrix_operand(diagonals, op, square=True)
        if a._layout.shape[-1] == 1:
            main = diag_part_op(a, k=0)
            return stack([main, main, main], axis=-2)
        parts = [diag_part_op(a, k=1), diag_part_op(a, k=0), diag_part_op(a, k=-1)]
    elif form == "sequence":
        if not isinstance(diagonals, (list, tuple)) or len(diagonals) != 3:
            raise ValueError(f"{op}: 'sequence' needs the three diagonals: above, main, below")
        parts = operands(*diagonals)
    else:
        raise ValueError(f"{op}: diagonals_format must be 'compact', 'sequence' or 'matrix', not {shown(form)}")
    above, main, below = parts
    m = main._layout.shape[-1]
    none = [[0, 0]] * (len(main._layout.shape) - 1)
    if above._layout.shape[-1] == m - 1:
        above = pad(above, [*none, [0, 1]])
    if below._layout.shape[-1] == m - 1:
        below = pad(below, [*none, [1, 0]])
    for part in (above, below):
        if part._layout.shape != main._layout.shape:
            raise errors.InvalidArgumentError(
                f"{op}: the diagonals have shapes {[p._layout.shape for p in parts]}; the outer ones are "
                "as long as the main one, or shorter by 1"
            )
    return concat([reshape_op(p, shape=(*p._layout.shape[:-1], 1, m)) for p in (above, main, below)], axis=-2)


@diagnosed
def banded_triangular_solve(
    bands: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve equations with a triangular matrix of few diagonals.

    Parameters
    ----------
    bands : tensor, shape [..., k, m]
        If `lower`: the main diagonal, then the diagonals below it; their first elements outside the matrix are ignored.
        Otherwise the diagonals above, the farthest first, then the main one; last elements outside the matrix are
        ignored.
    rhs : tensor, shape [..., m] or [..., m, n]
        Batch axes broadcast.
    lower : bool
    adjoint : bool
        Whether to solve with the adjoint matrix.

    Returns
    -------
    Tensor, shape [..., m] or [..., m, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the diagonal has a zero, or shapes do not fit.

    Examples
    --------
    >>> tf.linalg.banded_triangular_solve([[2.0, 3.0, 4.0], [0.0, 2.0, 3.0]], [[1.0], [1.0], [1.0]]).numpy()
    array([[0.5 ],
           [0.  ],
           [0.25]], dtype=float32)
    """
    bands, b = operands(bands, rhs)
    bands = matrix_operand(bands, "banded_triangular_solve")
    count, m = bands._layout.shape[-2:]
    if not 1 <= count <= m:
        raise errors.InvalidArgumentError(
            f"banded_triangular_solve: a matrix of {m} rows has 1 to {m} bands, not {count}"
        )
    whole = None
    for i in range(count):
        away = i if lower else count - 1 - i
        row = bands[..., i, away:] if lower else bands[..., i, : m - away]
        part = diag_embed_op(row, k=-away if lower else away, shape=(m, m))
        whole = part if whole is None else whole + part
    assert whole is not None
    sb = b._layout.shape
    vector = len(sb) == 1 or (len(sb) == len(bands._layout.shape) - 1 and sb[-1] == m != sb[-2])
    if vector:
        b = reshape_op(b, shape=(*b._layout.shape, 1))
    x = triangular_solve(whole, b, lower=lower, adjoint=adjoint)
    return reshape_op(x, shape=x._layout.shape[:-1]) if vector else x


@conventional(*PRODUCTS)
@diagnosed
@documented_like(tridiagonal_solve)
def tridiagonal_matmul(diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: str | None = None) -> Tensor:
    """The product of a tridiagonal matrix and another matrix.

    Parameters
    ----------
    rhs : tensor, shape [..., m, k]
        Dtype of `diagonals`.

    Returns
    -------
    Tensor, shape [..., m, k]

    Raises
    ------
    ValueError
        If the format is unknown.
    gtape.errors.InvalidArgumentError
        If shapes do not fit.

    Examples
    --------
    >>> tf.linalg.tridiagonal_matmul([[1.0, 0.0], [2.0, 2.0], [0.0, 1.0]], [[1.0], [1.0]]).numpy()
    array([[3.],
           [3.]], dtype=float32)
    """
    from gtape.ops.shape.tiling import pad

    d, b = operands(_compact(diagonals, diagonals_format, "tridiagonal_matmul"), rhs)
    sd, sb = d._layout.shape, b._layout.shape
    if len(sb) < 2 or sb[-2] != sd[-1]:
        raise errors.InvalidArgumentError(
            f"tridiagonal_matmul: the right-hand side of shape {list(sb)} does not fit diagonals of shape {list(sd)}"
        )
    # The outer diagonals without their ignored elements, which may be anything: 0 * NaN would be NaN.
    none = [[0, 0]] * (len(sd) - 1)
    above = pad(d[..., 0:1, :-1], [*none, [0, 1]])
    below = pad(d[..., 2:3, 1:], [*none, [1, 0]])
    above, main, below = [swap_last(x) for x in (above, d[..., 1:2, :], below)]
    up, down = shift_op(b, axis=-2, by=-1), shift_op(b, axis=-2, by=1)
    return above * up + main * b + below * down

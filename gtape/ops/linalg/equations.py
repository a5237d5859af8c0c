"""Inverses and solutions of systems of equations, general and triangular.

For a singular matrix kernels give NaN, and the public functions raise an error.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.conventions import SOLUTIONS
from gtape.declare.primitives import implicit, primitive
from gtape.declare.rounding import EXACT, elimination
from gtape.kernels import lapack
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.ops.linalg.matmul import adjoint_of
from gtape.ops.shape.broadcasting import broadcast_to_op
from gtape.tensors.operands import float_operand, matrix_operand, operands
from gtape.tensors.tensor import Tensor

__all__ = ["inv", "solve", "triangular_solve"]

# Rules divide numbers near the edge of the dtype's range by a magnitude and multiply by it again. The result does not
# depend on the magnitude, so the magnitude is a constant for derivatives.
_magnitude = primitive(
    "magnitude", lapack.scale_of, (None,), (None,),
    complex=True, rounding=EXACT, params=("axis",),
    samples=((((2, 2),), {"axis": (-2, -1)}), (((2, 3, 1),), {"axis": (-1,)})),
)  # fmt: skip


def _solved(xp: Any, g: Any, y: Any, a: Any, f: Any) -> Any:
    """The matrix -(a'^-1 g) y', with `f` as the solver, for rows of `a` of any size.

    Each row's unit divides last, because the quotient of a tiny row may overflow before a zero or tiny y multiplies it.
    """
    units = xp.magnitude(a, axis=(-1,))
    return -xp.matmul(f(xp.swap_last(a / units), g), xp.swap_last(y)) / units


_inverse = primitive(
    "inverse", lapack.inverse,
    vjp=(lambda xp, g, y, a: -xp.matmul(xp.swap_last(y), xp.matmul(g, xp.swap_last(y))),),
    jvp=(lambda xp, t, y, a: -xp.matmul(y, xp.matmul(t, y)),),
    reads=(("y",),), batched=True, complex=True, rounding=elimination(0.5, 5, wide=True),
    samples=((((1, 1),), {}), (((2, 2),), {}), (((2, 2, 2),), {})),
    conventions=SOLUTIONS,
)  # fmt: skip

_solve = implicit(
    "solve", lapack.solve,
    vjp=(
        lambda xp, g, y, a, b: _solved(xp, g, y, a, xp.solve),
        lambda xp, g, y, a, b: xp.solve(xp.swap_last(a), g),
    ),
    jvp=(
        lambda xp, t, y, a, b: -xp.solve(a, xp.matmul(t, y)),
        lambda xp, t, y, a, b: xp.solve(a, t),
    ),
    reads=((0, "y"), (0,)), batched=True, complex=True, rounding=elimination(0.5, 4, wide=True),
    samples=((((1, 1), (1, 1)), {}), (((2, 2), (2, 1)), {}), (((2, 2), (2, 2)), {}), (((2, 2, 2), (2, 2, 1)), {})),
    conventions=SOLUTIONS,
)  # fmt: skip


def _triangle(xp: Any, x: Any, lower: bool) -> Any:
    return xp.band_part(x, lower=-1, upper=0) if lower else xp.band_part(x, lower=0, upper=-1)


_triangular_solve = implicit(
    "triangular_solve", lapack.triangular_solve,
    vjp=(
        lambda xp, g, y, a, b, *, lower: _triangle(
            xp, _solved(xp, g, y, _triangle(xp, a, lower), partial(xp.triangular_solve, lower=not lower)), lower
        ),
        lambda xp, g, y, a, b, *, lower: xp.triangular_solve(xp.swap_last(a), g, lower=not lower),
    ),
    jvp=(
        lambda xp, t, y, a, b, *, lower: -xp.triangular_solve(a, xp.matmul(_triangle(xp, t, lower), y), lower=lower),
        lambda xp, t, y, a, b, *, lower: xp.triangular_solve(a, t, lower=lower),
    ),
    reads=((0, "y"), (0,)), params=("lower",), batched=True, complex=True, rounding=elimination(0.5, 1.5),
    samples=(
        (((2, 2), (2, 1)), {"lower": True}),
        (((2, 2), (2, 2)), {"lower": False}),
        (((1, 1), (1, 1)), {"lower": True}),
        (((2, 2, 2), (2, 2, 1)), {"lower": True}),
    ),
    conventions=SOLUTIONS,
)  # fmt: skip


def require_invertible(result: Tensor, op: str, *inputs: Tensor) -> Tensor:
    """Raise an error if a result is NaN for finite inputs, because kernels give NaN for a singular matrix."""
    if np.isnan(result._value).any() and all(np.isfinite(x._value).all() for x in inputs):
        raise errors.InvalidArgumentError(
            f"{op}: Input is not invertible; for a determinant and its derivatives use gtape.linalg.det, which needs "
            f"no inverse"
        )
    return result


def _pair(matrix: Any, rhs: Any, op: str) -> tuple[Tensor, Tensor]:
    """A square matrix and a right-hand side with the same batch axes."""
    matrix, rhs = operands(matrix, rhs)
    matrix, rhs = matrix_operand(matrix, op, square=True), float_operand(rhs, op)
    sa, sb = matrix._layout.shape, rhs._layout.shape
    if len(sb) < 2 or sb[-2] != sa[-1]:
        raise errors.InvalidArgumentError(
            f"{op}: the right-hand side must have shape [..., {sa[-1]}, k], not {rhs._layout.tensor_shape}"
        )
    if sa[:-2] != sb[:-2]:
        try:
            batch = broadcast_shapes(sa[:-2], sb[:-2])
        except ValueError:
            raise errors.InvalidArgumentError(
                f"{op}: the batch axes of {matrix._layout.tensor_shape} and {rhs._layout.tensor_shape} do not fit"
            ) from None
        matrix = matrix if sa[:-2] == batch else broadcast_to_op(matrix, shape=batch + sa[-2:])
        rhs = rhs if sb[:-2] == batch else broadcast_to_op(rhs, shape=batch + sb[-2:])
    return matrix, rhs


@diagnosed
def inv(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverse of each matrix.

    Parameters
    ----------
    input : tensor of floats or complex numbers, shape [..., n, n]
    adjoint : bool
        Whether to invert the adjoint matrices instead.

    Returns
    -------
    Tensor, shape [..., n, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If a matrix is singular or not square.

    Examples
    --------
    >>> tf.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).numpy()
    array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    x = matrix_operand(input, "inv", square=True)
    return require_invertible(_inverse(adjoint_of(x) if adjoint else x), "inv", x)


@diagnosed
def solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The solution x of ``matrix @ x = rhs``.

    Parameters
    ----------
    matrix : tensor of floats or complex numbers, shape [..., n, n]
    rhs : tensor, shape [..., n, k]
        Dtype of `matrix`.
    adjoint : bool
        Whether to solve with the adjoint matrices instead.

    Returns
    -------
    Tensor, shape [..., n, k]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If a matrix is singular, or shapes do not fit.

    Examples
    --------
    >>> tf.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [[1.0], [1.0]]).numpy()
    array([[0.5 ],
           [0.25]], dtype=float32)
    """
    a, b = _pair(matrix, rhs, "solve")
    return require_invertible(_solve(adjoint_of(a) if adjoint else a, b), "solve", a, b)


@diagnosed
@documented_like(solve)
def triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """The solution x of ``matrix @ x = rhs``, from one triangle of the matrix.

    Parameters
    ----------
    lower : bool
        Whether to read the lower triangle instead of the upper one.
    adjoint : bool
        Whether to solve with the adjoint of the triangle instead.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the diagonal has a zero, or shapes do not fit.

    Examples
    --------
    >>> tf.linalg.triangular_solve([[2.0, 0.0], [1.0, 4.0]], [[2.0], [5.0]]).numpy()
    array([[1.],
           [1.]], dtype=float32)
    """
    a, b = _pair(matrix, rhs, "triangular_solve")
    made = (
        _triangular_solve(adjoint_of(a), b, lower=not lower) if adjoint else _triangular_solve(a, b, lower=bool(lower))
    )
    return require_invertible(made, "triangular_solve", a, b)

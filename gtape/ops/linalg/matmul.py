"""The matrix product and the swap of the last two axes: the primitives, and the public functions made of them.

`matmul` has the semantics of ``np.matmul`` for two or more axes: leading axes are batch axes and broadcast. The rules
also work for cotangents with an additional leading axis, and all their transposes are views.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gtape import errors
from gtape.base.scalars import truth_of
from gtape.declare.conventions import PRODUCTS
from gtape.declare.primitives import REGISTRY, linear, planned, primitive
from gtape.declare.rounding import EXACT, products
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, convert_to_tensor

__all__ = ["matmul", "matrix_transpose", "matvec"]


@planned
def _swap_last(x: Any) -> Any:
    return operator.attrgetter("T") if len(x.shape) == 2 else lambda v: v.swapaxes(-1, -2)


swap_last = linear(
    "swap_last", _swap_last, lambda xp, g, x: xp.swap_last(g),
    batched=True, rounding=EXACT,
    samples=(((( 2, 3),), {}), (((1, 1),), {}), (((2, 1, 3),), {}), (((0, 2),), {})),
)  # fmt: skip

_float16 = np.dtype(np.float16)


@planned
def _matmul(a: Any, b: Any) -> Any:
    n, m = len(a.shape), len(b.shape)
    if n == 2 and m == 2 and a.dtype.char in "fdFD":
        # The product of np.matmul, with less overhead. The two treat single rows and columns differently.
        return np.dot if a.shape[0] * b.shape[1] < _LARGE or 1 in (*a.shape, *b.shape) else _large_product
    if a.dtype == _float16:
        # Half precision is summed in float32, because NumPy rounds each partial sum.
        return lambda a, b: np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(_float16)
    if m == 2 and n > 2:
        return _many_rows
    if n == 2 and m > 2 and b.shape[-1] == 1 and all(b.shape):
        return _many_columns
    return np.matmul


# From this number of elements on, the zeros that np.dot first writes into its result cost more than its overhead saves.
_LARGE = 1 << 14


def _large_product(a: Any, b: Any) -> Any:
    """The product of two matrices whose result has many elements, by the same call of BLAS as in np.dot."""
    if a.__class__ is np.ndarray and b.__class__ is np.ndarray and a.flags.forc and b.flags.forc:
        return np.matmul(a, b)
    return np.dot(a, b)  # which copies other layouts; or a traced call


def _many_rows(a: Any, b: Any) -> Any:
    """One product instead of one for each batch element, if `a` need not be copied."""
    if not a.flags.c_contiguous:
        return np.matmul(a, b)
    *batch, k = a.shape
    return np.matmul(a.reshape(math.prod(batch), k), b).reshape(*batch, b.shape[1])


def _many_columns(a: Any, b: Any) -> Any:
    """One matrix times many columns: one product with the columns as rows, transposed. The usual case in Jacobians."""
    columns = b.reshape(-1, b.shape[-2])
    return np.matmul(columns, a.T).reshape(*b.shape[:-2], a.shape[0], 1)


def _fit(xp: Any, c: Any, x: Any, batch: int) -> Any:
    """Sum over the batch axes that broadcasting added to `x`."""
    shape = tuple(x.shape)
    return c if tuple(c.shape)[batch:] == shape else xp.sum_to(c, shape=shape, batch=batch)


def _pull_left(xp: Any, g: Any, y: Any, a: Any, b: Any) -> Any:
    c = xp.matmul(g, xp.swap_last(b))
    n = len(b.shape)
    if len(a.shape) == n and (n == 2 or a.shape[:-2] == b.shape[:-2]):
        return c
    return _fit(xp, c, a, len(g.shape) - max(len(a.shape), n))


def _pull_right(xp: Any, g: Any, y: Any, a: Any, b: Any) -> Any:
    n, m = len(a.shape), len(b.shape)
    if m == 2 and n > 2:
        # The batch axes of `a` become rows of one product, because a sum of products is slower.
        sa, sg = tuple(a.shape), tuple(g.shape)
        rows = math.prod(sa[:-1])
        flat = xp.reshape(a, shape=(rows, sa[-1]))
        return xp.matmul(xp.swap_last(flat), xp.reshape(g, shape=(*sg[: len(sg) - n], rows, sg[-1])))
    c = xp.matmul(xp.swap_last(a), g)
    if n == m and (m == 2 or a.shape[:-2] == b.shape[:-2]):
        return c
    return _fit(xp, c, b, len(g.shape) - max(n, m))


matmul_op = primitive(
    "matmul", _matmul,
    vjp=(_pull_left, _pull_right),
    jvp=(lambda xp, t, y, a, b: xp.matmul(t, b), lambda xp, t, y, a, b: xp.matmul(a, t)),
    reads=((1,), (0,)),  # each rule needs only the shape of its own argument
    batched=True, complex=True, rounding=products(lambda a, b: a.shape[-1]),
    samples=(
        (((2, 3), (3, 2)), {}),
        (((1, 1), (1, 1)), {}),
        (((1, 2), (2, 1)), {}),
        (((2, 1, 2), (2, 2, 1)), {}),
        (((2, 2, 2), (2, 1)), {}),
        (((1, 2), (2, 2, 1)), {}),
        (((2, 1, 1, 2), (1, 2, 2, 1)), {}),
        (((1, 2, 2), (2, 2, 1)), {}),
        (((2, 0), (0, 3)), {}),
    ),
    conventions=PRODUCTS,
    role="broadcasts",
    misfit=lambda a, b: (
        None
        if a[-1] == b[-2]
        else f"incompatible shapes: the {a[-1]} columns of the first meet {b[-2]} rows of the second; is "
        "transpose_a=True or transpose_b=True missing?"
    ),
)  # fmt: skip


def _diagonal(d: Any, i: int, inputs: tuple[Any, ...]) -> Any:
    """For a matrix times a column, or a row times a matrix: each cotangent is a scaled row or column of the matrix."""
    matrix = inputs[1 - i]._value
    if d.ndim != 2 or matrix.ndim != 2 or d.shape[i] != 1:
        return None
    return (matrix * d)[:, :, None] if i else np.multiply(matrix, d).T[:, None, :]


matmul_op.diagonal = _diagonal


def adjoint_of(x: Tensor) -> Tensor:
    """The conjugate transpose of the last two axes. For real numbers the transpose."""
    swapped: Tensor = swap_last(x)
    return REGISTRY["conj"](swapped) if x._layout.complex else swapped


def _matrix(x: Tensor, what: str, op: str) -> Tensor:
    if len(x._layout.shape) < 2:
        raise errors.InvalidArgumentError(
            f"{op}: {what} has shape {x._layout.tensor_shape}, but two axes at least are needed; use gtape.expand_dims "
            f"to add one, "
            "gtape.linalg.matvec for a matrix times a vector, or gtape.tensordot for vectors"
        )
    return x


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """The matrix product over the last two axes.

    Parameters
    ----------
    a : tensor, shape [..., m, k]
    b : tensor, shape [..., k, n]
        Dtype of `a`. Leading axes broadcast.
    transpose_a, transpose_b : bool
        Whether to swap the last two axes of the argument first.
    adjoint_a, adjoint_b : bool
        Whether to swap the last two axes and conjugate.
    a_is_sparse, b_is_sparse, grad_a, grad_b : bool
        Ignored; TensorFlow has them.
    output_type : dtype, optional
        The dtype of the product of small integers, to which both arguments are cast first.

    Returns
    -------
    Tensor, shape [..., m, n]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an argument has fewer than two axes, or shapes or dtypes do not fit.
    ValueError
        If an argument is both transposed and adjoint.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.matmul(tf.constant([[1.0, 2.0]]), tf.constant([[3.0], [4.0]])).numpy()
    array([[11.]], dtype=float32)
    """
    if a.__class__ is not Tensor or b.__class__ is not Tensor:
        a, b = operands(a, b)
    if output_type is not None:
        from gtape.ops.shape.creation import cast

        a, b = cast(a, output_type), cast(b, output_type)
    if len(a._layout.shape) < 2 or len(b._layout.shape) < 2:
        _matrix(a, "the first argument", "matmul")
        _matrix(b, "the second argument", "matmul")
    if transpose_a is not False or adjoint_a is not False:
        a = _turned(a, transpose_a, adjoint_a, "a")
    if transpose_b is not False or adjoint_b is not False:
        b = _turned(b, transpose_b, adjoint_b, "b")
    product: Tensor = (matmul_op._function or matmul_op.function)(a, b)
    return product


def _turned(x: Tensor, transpose: Any, adjoint: Any, which: str) -> Tensor:
    """An argument of matmul after its two options are applied."""
    transpose = truth_of(transpose, "matmul", f"transpose_{which}")
    adjoint = truth_of(adjoint, "matmul", f"adjoint_{which}")
    if transpose and adjoint:
        raise ValueError(f"matmul: only one of transpose_{which} and adjoint_{which} can be True")
    turned: Tensor = adjoint_of(x) if adjoint else swap_last(x) if transpose else x
    return turned


def matrix_transpose(a: Any, name: str | None = None, conjugate: bool = False) -> Tensor:
    """Swap the last two axes.

    Parameters
    ----------
    a : tensor, shape [..., m, n]
    conjugate : bool
        Whether to conjugate complex numbers, too.

    Returns
    -------
    Tensor, shape [..., n, m]

    Raises
    ------
    ValueError
        If `a` has fewer than two axes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.matrix_transpose([[1.0, 2.0]]).numpy()
    array([[1.],
           [2.]], dtype=float32)
    """
    a = convert_to_tensor(a)
    if len(a._layout.shape) < 2:
        raise ValueError(
            f"matrix_transpose: the argument must have two axes at least; its shape is {a._layout.tensor_shape}"
        )
    swapped: Tensor = adjoint_of(a) if truth_of(conjugate, "matrix_transpose", "conjugate") else swap_last(a)
    return swapped


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of a matrix and a vector over the last axes.

    Parameters
    ----------
    a : tensor, shape [..., m, k]
    b : tensor, shape [..., k]
    transpose_a, adjoint_a : bool
        Whether to transpose (and conjugate) the matrix first.
    a_is_sparse, b_is_sparse : bool
        Ignored; TensorFlow has them.

    Returns
    -------
    Tensor, shape [..., m]

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the shapes do not fit.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.linalg.matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).numpy()
    array([3., 7.], dtype=float32)
    """
    from gtape.ops.shape.shape import reshape

    a, b = operands(a, b)
    if not b._layout.shape:
        raise errors.InvalidArgumentError("matvec: the second argument must have one axis at least; it is a scalar")
    column = reshape(b, (*b._layout.shape, 1))
    product = matmul(a, column, transpose_a=transpose_a, adjoint_a=adjoint_a)
    return reshape(product, product._layout.shape[:-1])

"""Complex numbers: their construction, their parts, and the ops that are not holomorphic.

Inside a sweep, the cotangent of z = a + ib for a real loss L is dL/da - i dL/db, so that holomorphic ops have the same
rules as for real numbers. The tape conjugates the gradients that it returns, by TensorFlow's convention. Absolute
value, angle and sign are composed of real and imaginary parts, with the accuracy and kinks of real functions of two
arguments.

References
----------
K. Kreutz-Delgado, The complex gradient operator and the CR-calculus, 2009.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.conventions import AtPoints
from gtape.declare.primitives import REGISTRY, elementwise, linear, primitive
from gtape.declare.rounding import EXACT
from gtape.errors import InvalidArgumentError, OperandTypeError
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["angle", "complex", "conj", "imag", "real"]

Array = Any
_COMPLEX_OF: dict[Any, Any] = {
    np.dtype(np.float32): np.dtype(np.complex64),
    np.dtype(np.float64): np.dtype(np.complex128),
}
_SHAPES = (((),), ((3,),), ((2, 2),))


def _complex_kernel(a: Array, b: Array) -> Array:
    # a + 1j * b is wrong here: an infinite part would make the other part NaN
    out = np.empty(np.shape(a), _COMPLEX_OF.get(np.dtype(a.dtype), np.complex64))
    out.real, out.imag = a, b
    return out[()]


def _imag_kernel(x: Array) -> Array:
    return np.imag(x) if x.dtype.kind == "c" else np.zeros_like(x)


_real = linear(
    "real", lambda x: np.real(x), lambda xp, g, x: xp.cast(g, dtype=x.dtype),
    batched=True, role=("part", "pointwise"), rounding=EXACT,
    samples=tuple((s, {}) for s in _SHAPES),
)  # fmt: skip
_imag = linear(
    "imag", _imag_kernel, lambda xp, g, x: xp.cast(xp.complex(xp.zeros_like(g), -g), dtype=x.dtype),
    batched=True, role=("part", "pointwise"), rounding=EXACT,
    samples=tuple((s, {}) for s in _SHAPES),
)  # fmt: skip
_conj = linear(
    "conj", np.conjugate, lambda xp, g, x: xp.conj(g),
    batched=True, role=("conjugate", "pointwise"), rounding=EXACT,
    samples=tuple((s, {}) for s in _SHAPES),
)  # fmt: skip
_complex = primitive(
    "complex", _complex_kernel,
    vjp=(lambda xp, g, y, a, b: xp.real(g), lambda xp, g, y, a, b: -xp.imag(g)),
    jvp=(
        lambda xp, t, y, a, b: xp.complex(t, xp.zeros_like(t)),
        lambda xp, t, y, a, b: xp.complex(xp.zeros_like(t), t),
    ),
    reads=((), ()), complex=False, batched=True, role="complex", rounding=EXACT,
    samples=tuple(((s[0], s[0]), {}) for s in _SHAPES),
)  # fmt: skip


def _number(x: Any, op: str) -> Tensor:
    t = as_operand(x)
    if t._layout.dtype.kind not in "iu" and not t._layout.inexact:
        raise OperandTypeError(f"{op} needs numbers, not {t.dtype.name}: use gtape.cast first")
    return t


@diagnosed
def real(input: Any, name: str | None = None) -> Tensor:
    """The real part.

    Parameters
    ----------
    input : tensor of complex or real numbers, any shape

    Returns
    -------
    Tensor
        float32 for complex64, float64 for complex128. Real numbers stay unchanged.

    Examples
    --------
    >>> tf.math.real(tf.constant([1 + 2j, 3 - 4j])).numpy()
    array([1., 3.])
    """
    t = _number(input, "real")
    return _real(t) if t._layout.complex else t


@diagnosed
@documented_like(real)
def imag(input: Any, name: str | None = None) -> Tensor:
    """The imaginary part.

    Returns
    -------
    Tensor
        float32 for complex64, float64 for complex128. Zeros for real numbers.

    Examples
    --------
    >>> tf.math.imag(tf.constant([1 + 2j, 3 - 4j])).numpy()
    array([ 2., -4.])
    """
    t = _number(input, "imag")
    return _imag(t) if t._layout.complex else wrap(np.zeros(t._layout.shape, t._layout.dtype))


@diagnosed
def conj(x: Any, name: str | None = None) -> Tensor:
    """The complex conjugate.

    Parameters
    ----------
    x : tensor of complex or real numbers, any shape

    Returns
    -------
    Tensor
        Dtype of `x`. Real numbers stay unchanged.

    Examples
    --------
    >>> tf.math.conj(tf.constant([1 + 2j])).numpy()
    array([1.-2.j])
    """
    t = _number(x, "conj")
    return _conj(t) if t._layout.complex else t


@diagnosed
def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """Complex numbers from their real and imaginary parts. Gradients with respect to the parts are real.

    Parameters
    ----------
    real, imag : tensor of float32 or float64
        Both of the same dtype. The shapes broadcast.

    Returns
    -------
    Tensor
        complex64 for float32, complex128 for float64.

    Raises
    ------
    TypeError
        If the parts have other dtypes, or two different ones.

    Examples
    --------
    >>> tf.complex([2.25, 3.25], [4.75, 5.75]).numpy()
    array([2.25+4.75j, 3.25+5.75j], dtype=complex64)
    """
    a, b = operands(real, imag)
    if a._layout.dtype != b._layout.dtype or a._layout.dtype not in _COMPLEX_OF:
        raise TypeError(
            f"complex takes two tensors of float32, or two of float64, not {a.dtype.name} and {b.dtype.name}: use "
            "gtape.cast first"
        )
    sa, sb = a._layout.shape, b._layout.shape
    if sa != sb:
        try:
            shape = broadcast_shapes(sa, sb)
        except ValueError:
            raise InvalidArgumentError(
                f"complex: the shapes {a._layout.tensor_shape} and {b._layout.tensor_shape} do not fit"
            ) from None
        broadcast = REGISTRY["broadcast_to"]
        a, b = [t if t._layout.shape == shape else broadcast(t, shape=shape) for t in (a, b)]
    return _complex(a, b)


# A primitive instead of a constant, because exact derivatives of later results need all digits of pi.
real_angle = elementwise(
    "real_angle", lambda x: np.where(np.less(x, 0), np.pi, 0.0).astype(x.dtype)[()], None,
    kinks=(0.0,), ulps=0.5,
    conventions=AtPoints("NaN", "0", "TensorFlow: NaN is not less than 0", lambda p, by: math.isnan(p[0])),
    summary="The angle of a real number: pi where it is negative, otherwise 0.",
)  # fmt: skip


@diagnosed
@documented_like(real)
def angle(input: Any, name: str | None = None) -> Tensor:
    """The angle (argument) of complex numbers, in (-pi, pi].

    Returns
    -------
    Tensor
        float32 for complex64, float64 for complex128. Real numbers have the constant angle 0, or pi if they are
        negative.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `input` holds integers, bools or strings.

    Examples
    --------
    >>> z = tf.constant(1 + 2j)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(z)
    ...     y = tf.math.angle(z)
    >>> tape.gradient(y, z).numpy()
    np.complex128(-0.4+0.2j)
    """
    t = _number(input, "angle")
    if t._layout.complex:
        return REGISTRY["atan2"](_imag(t), _real(t))
    if not t._layout.inexact:
        raise OperandTypeError(f"angle needs complex or floating-point numbers, not {t.dtype.name}")
    return REGISTRY["real_angle"](t)


def magnitude(z: Tensor) -> Tensor:
    """The absolute value. Its slope at 0 is 0, the subgradient of least norm."""
    return REGISTRY["hypot"](_real(z), _imag(z))


def unit(z: Tensor) -> Tensor:
    """The quotient z / abs(z), and 0 for z = 0."""
    a, b, term = _real(z), _imag(z), REGISTRY["hypot_term"]
    return _complex(term(a, b, i=1, j=0, k=1), term(a, b, i=0, j=1, k=1))


def squared_distance(x: Tensor, y: Tensor) -> Tensor:
    """The product of x - y and its conjugate, as a complex number."""
    d = REGISTRY["subtract"](x, y)
    return REGISTRY["multiply"](d, _conj(d))

"""Complex matrices as pairs ``(real, imag)``, for ops with parts stacked before the last two axes."""

from __future__ import annotations

from typing import Any

from gtape.tensors.axes import shape_of

__all__ = ["PARTS", "conjugate", "difference", "over", "parts", "product", "pulled", "scaled", "together", "total"]
NAMESPACES = None

# The keys of strided_slice for the real and the imaginary part along the axis of parts.
PARTS = tuple([((i, i + 1, 1), (None, None, 1), (None, None, 1)) for i in range(2)])


def parts(xp: Any, x: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of a value with stacked parts."""
    shape = shape_of(x)
    flat = (*shape[:-3], *shape[-2:])
    real, imag = [xp.reshape(xp.strided_slice(x, key=key), shape=flat) for key in PARTS]
    return real, imag


def together(xp: Any, x: tuple[Any, Any]) -> Any:
    """A real and an imaginary part, stacked."""
    return xp.stack(x[0], x[1], axis=-3)


def product(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The matrix product a b."""
    (ar, ai), (br, bi) = a, b
    return xp.matmul(ar, br) - xp.matmul(ai, bi), xp.matmul(ar, bi) + xp.matmul(ai, br)


def conjugate(xp: Any, a: Any) -> tuple[Any, Any]:
    """The conjugate transpose."""
    return xp.swap_last(a[0]), -xp.swap_last(a[1])


def difference(a: Any, b: Any) -> tuple[Any, Any]:
    """The difference a - b."""
    return a[0] - b[0], a[1] - b[1]


def over(a: Any, b: Any) -> tuple[Any, Any]:
    """A complex matrix divided by real numbers."""
    return a[0] / b, a[1] / b


def scaled(a: Any, b: Any) -> tuple[Any, Any]:
    """The product with complex numbers, element by element."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def total(xp: Any, x: Any) -> Any:
    """The sums of the columns as a row."""
    return xp.sum(x, axis=(-2,), keepdims=True)


def pulled(xp: Any, v: Any, g: Any) -> tuple[Any, Any]:
    """The diagonal of v* g as a row."""
    return total(xp, v[0] * g[0] + v[1] * g[1]), total(xp, v[0] * g[1] - v[1] * g[0])

"""Products: of all elements, running, and all their derivatives.

The product of all other elements is the product of the elements before times the product of those after. The
derivatives of a cumulative product of every order belong to two families of functions, which are linear in the
directions::

    cumprod_push(x, [t_1, ..., t_k])    = D^k cumprod(x)[t_1, ..., t_k]
    cumprod_pull(x, [g, t_1, ..., t_k]) = gradient with respect to x of g . D^k cumprod(x)[t_1, ..., t_k]

The families are closed: the derivative by x has one more direction, and each family is the transpose of the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.docstrings import documented_like
from gtape.base.scalars import truth_of
from gtape.declare.conventions import PRODUCTS
from gtape.declare.primitives import REGISTRY, primitive
from gtape.declare.rounding import stable
from gtape.kernels import scans as k
from gtape.ops.reduction.scan import SCANS, axis_from_end, cumsum, scan_operand, with_shape
from gtape.ops.reduction.sums import reduce_sum
from gtape.tensors.axes import axes_of, kept_shape, merged, shape_of
from gtape.tensors.tensor import Tensor

__all__ = ["cumprod", "reduce_prod"]


_ALL = (None, None, 1)


def _single(xp: Any, t: Any) -> Any:
    """One direction as a stack, along a last axis."""
    return xp.reshape(t, shape=(*shape_of(t), 1))


def _part(xp: Any, ts: Any, first: int, end: int) -> Any:
    """The directions from `first` to `end` of a stack."""
    return xp.strided_slice(ts, key=(_ALL,) * (len(shape_of(ts)) - 1) + ((first, end, 1),))


def _joined_directions(xp: Any, *stacks: Any) -> Any:
    """A stack of all directions, with the batch axis that some stacks have."""
    stacks = tuple([s for s in stacks if shape_of(s)[-1]])
    if len(stacks) == 1:
        return stacks[0]
    lead = max([shape_of(s)[:-1] for s in stacks], key=len)
    wide = [xp.broadcast_to(s, shape=(*lead, shape_of(s)[-1])) if shape_of(s)[:-1] != lead else s for s in stacks]
    return xp.concat(*wide, axis=len(lead))


def _replaced(xp: Any, ts: Any, i: int, new: Any) -> Any:
    """The stack with `new` instead of its direction `i`."""
    return _joined_directions(xp, _part(xp, ts, 0, i), new, _part(xp, ts, i + 1, shape_of(ts)[-1]))


def _push(xp: Any, x: Any, ts: Any, **scan: Any) -> Any:
    return xp.cumprod_push(with_shape(xp, x, shape_of(ts)[:-1]), ts, **scan)


def _pull(xp: Any, x: Any, gs: Any, **scan: Any) -> Any:
    return xp.cumprod_pull(with_shape(xp, x, shape_of(gs)[:-1]), gs, **scan)


def _along_each(xp: Any, form: Any, t: Any, x: Any, ts: Any, scan: dict[str, Any]) -> Any:
    """The derivative of `form` by its directions along `t`, which replace one direction after the other."""
    total = None
    for i in range(shape_of(ts)[-1]):
        term = form(xp, x, _replaced(xp, ts, i, _part(xp, t, i, i + 1)), **scan)
        total = term if total is None else total + term
    return total


def _push_transposed(xp: Any, h: Any, x: Any, ts: Any, scan: dict[str, Any]) -> Any:
    """The cotangent of each direction of `cumprod_push`: a pull along the other directions."""
    h = _single(xp, h)
    others = [_joined_directions(xp, h, *_without(xp, ts, i)) for i in range(shape_of(ts)[-1])]
    return _joined_directions(xp, *[_single(xp, _pull(xp, x, gs, **scan)) for gs in others])


def _pull_transposed(xp: Any, h: Any, x: Any, gs: Any, scan: dict[str, Any]) -> Any:
    """The cotangent of each direction of `cumprod_pull`: a push by the first one, pulls by the others."""
    h = _single(xp, h)
    made = [_push(xp, x, _joined_directions(xp, *_without(xp, gs, 0), h), **scan)]
    for i in range(1, shape_of(gs)[-1]):
        made.append(_pull(xp, x, _replaced(xp, gs, i, h), **scan))
    return _joined_directions(xp, *[_single(xp, m) for m in made])


def _without(xp: Any, ts: Any, i: int) -> tuple[Any, Any]:
    """The directions before and after direction `i` of a stack."""
    return _part(xp, ts, 0, i), _part(xp, ts, i + 1, shape_of(ts)[-1])


def _magnitudes(kernel: Any) -> Any:
    return lambda x, ts, **scan: kernel(np.abs(x), np.abs(ts), **scan)


def _directions(*counts: int) -> tuple[Any, ...]:
    """The samples of scans along numbers of directions."""
    return tuple(((*shapes, (*shapes[0], n)), scan) for n in counts for shapes, scan in SCANS)


_SCAN = ("axis", "exclusive", "reverse")

_cumprod = primitive(
    "cumprod", k.cumprod,
    (lambda xp, g, y, x, **scan: _pull(xp, x, _single(xp, g), **scan),),
    (lambda xp, t, y, x, **scan: _push(xp, x, _single(xp, t), **scan),),
    reads=((0,),), params=_SCAN, batched=True, complex=True, rounding=stable(0.5, 1),
    samples=SCANS,
)  # fmt: skip
_cumprod_push = primitive(
    "cumprod_push", k.cumprod_push,
    (
        lambda xp, g, y, x, ts, **scan: _pull(xp, x, _joined_directions(xp, _single(xp, g), ts), **scan),
        lambda xp, g, y, x, ts, **scan: _push_transposed(xp, g, x, ts, scan),
    ),
    (
        lambda xp, t, y, x, ts, **scan: _push(xp, x, _joined_directions(xp, ts, _single(xp, t)), **scan),
        lambda xp, t, y, x, ts, **scan: _along_each(xp, _push, t, x, ts, scan),
    ),
    reads=((0, 1), (0, 1)), params=_SCAN, batched=True, complex=True,
    rounding=stable(0.5, 3, by=_magnitudes(k.cumprod_push), wide=True),
    samples=_directions(1, 2),
    conventions=PRODUCTS,
)  # fmt: skip
_cumprod_pull = primitive(
    "cumprod_pull", k.cumprod_pull,
    (
        lambda xp, h, y, x, gs, **scan: _pull(xp, x, _joined_directions(xp, gs, _single(xp, h)), **scan),
        lambda xp, h, y, x, gs, **scan: _pull_transposed(xp, h, x, gs, scan),
    ),
    (
        lambda xp, t, y, x, gs, **scan: _pull(xp, x, _joined_directions(xp, gs, _single(xp, t)), **scan),
        lambda xp, t, y, x, gs, **scan: _along_each(xp, _pull, t, x, gs, scan),
    ),
    reads=((0, 1), (0, 1)), params=_SCAN, batched=True, complex=True,
    rounding=stable(0.5, 3, by=_magnitudes(k.cumprod_pull), wide=True),
    samples=_directions(1, 2),
    conventions=PRODUCTS,
)  # fmt: skip


def _prod_others_vjp(xp: Any, g: Any, x: Any) -> Any:
    before = xp.cumprod(x, axis=-1, exclusive=True, reverse=False)
    after = xp.cumprod(x, axis=-1, exclusive=True, reverse=True)
    last = {"axis": -1, "exclusive": True}
    return _pull(xp, x, _single(xp, xp.multiply_no_nan(after, g)), **last, reverse=False) + _pull(
        xp, x, _single(xp, xp.multiply_no_nan(before, g)), **last, reverse=True
    )


_LAST_SAMPLES: tuple[Any, ...] = ((((3,),), {}), (((4,),), {}), (((1,),), {}), (((2, 3),), {}), (((2,),), {}))

_prod_others = primitive(
    "prod_others", k.products_of_others,
    (lambda xp, g, y, x: _prod_others_vjp(xp, g, x),),
    # The jvp equals the vjp, because the Hessian of the product is symmetric.
    (lambda xp, t, y, x: _prod_others_vjp(xp, t, x),),
    reads=((0,),), batched=True, complex=True, rounding=stable(0.5, 1),
    samples=_LAST_SAMPLES,
    conventions=PRODUCTS,
)  # fmt: skip
_prod = primitive(
    "prod", k.product,
    (lambda xp, g, y, x: xp.reshape(g, shape=(*shape_of(g), 1)) * xp.prod_others(x),),
    (lambda xp, t, y, x: xp.sum(xp.multiply_no_nan(xp.prod_others(x), t), axis=(-1,), keepdims=False),),
    reads=((0,),), batched=True, complex=True, role="product", rounding=stable(0.5, 1),
    samples=(*_LAST_SAMPLES, (((0,),), {})),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- public functions


@documented_like(cumsum)
def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running products along an axis. The gradient is exact at zeros, too.

    Parameters
    ----------
    exclusive : bool
        Whether to leave out the element itself. The first result is then 1.

    Examples
    --------
    >>> tf.math.cumprod([2.0, 3.0, 4.0]).numpy()
    array([ 2.,  6., 24.], dtype=float32)
    """
    t = scan_operand(x, "cumprod")
    return _cumprod(
        t,
        axis=axis_from_end(axis, t, "cumprod"),
        exclusive=truth_of(exclusive, "cumprod", "exclusive"),
        reverse=truth_of(reverse, "cumprod", "reverse"),
    )


@documented_like(reduce_sum)
def reduce_prod(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The product of the elements along axes. The gradient is exact with any number of zeros.

    Examples
    --------
    >>> float(tf.reduce_prod([2.0, 3.0, 4.0]))
    24.0
    """
    t = scan_operand(input_tensor, "reduce_prod")
    shape = t._layout.shape
    axes = axes_of(axis, t.ndim)
    y: Tensor = _prod(merged(t, axes))
    return (
        REGISTRY["reshape"](y, shape=kept_shape(shape, axes))
        if axes and truth_of(keepdims, "reduce_prod", "keepdims")
        else y
    )

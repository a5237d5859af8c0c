"""Mirrors declared together with their op, kept until `gtape.symbolic` loads, because declaring must not load SymPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gtape.declare.primitives import Primitive
from gtape.declare.registry import REGISTRY, Place
from gtape.declare.signatures import check_signature

__all__ = ["Mirror", "hand_over", "mirror"]


class Mirror(NamedTuple):
    """The arguments of one call of `mirror`."""

    prim: Primitive
    function: Callable[..., Any]
    complex: Callable[..., Any] | None
    solved: Callable[..., Any] | None
    argument: int
    shapes: Callable[..., Any] | None
    place: Place


_waiting: dict[str, Mirror] = {}
_receiver: Callable[[Mirror], None] | None = None


def mirror(
    op: Primitive | str, function: Callable[..., Any], *, complex: Callable[..., Any] | None = None,
    solved: Callable[..., Any] | None = None, argument: int = 0, shapes: Callable[..., Any] | None = None,
) -> None:  # fmt: skip
    """Declare the mirror of an op: an independent textbook definition for proofs and checks.

    Parameters
    ----------
    op : Primitive or str
        An op that your module declares.
    function : callable
        For an elementwise op ``function(*symbols, **params) -> sympy.Expr``; for a kinked op a ``Piecewise``, whose
        branch at the kink gives the convention. For another op ``function(W, *object_arrays, **params)``:
        ``W.exp(x)`` and so on apply other mirrors, and plain NumPy moves elements.
    complex : callable, optional
        The definition for complex symbols, if `function` depends on signs.
    solved : callable, optional
        For an implicit op ``solved(W, y, *object_arrays, **params) -> (y, x)``: the output with its structure (such as
        zeros of a triangular matrix), and the argument that leads to it. Proofs then run in the entries of the output.
    argument : int
        The index of the argument that `solved` gives.
    shapes : callable, optional
        ``shapes(*shapes, **params)`` returns the shape of the output, or a tuple of shapes. Needed if `function` has no
        closed form.

    Raises
    ------
    ValueError
        If there is no such op, another module declares it, or the function does not take the arguments of the op.

    Examples
    --------
    ``declare.mirror(log_cosh, lambda x: sp.log(sp.cosh(x)))`` stands below the declaration of `log_cosh`. Only the
    module that declares an op may declare its mirror:

    >>> from gtape import declare
    >>> declare.mirror("sin", lambda x: x)
    Traceback (most recent call last):
    ValueError: ... gives 'sin' a mirror, but ... declares this op: give the mirror there
    """
    name = op.name if isinstance(op, Primitive) else op
    if not isinstance(name, str) or name not in REGISTRY:
        raise ValueError(f"there is no primitive {name!r} to give a mirror: declare it first")
    if not callable(function):
        raise ValueError(f"the mirror of {name!r} has to be a function, not {function!r}")
    prim, here = REGISTRY[name], Place.of_caller()
    if here.module != prim.module:
        raise ValueError(f"{here} gives {name!r} a mirror, but {prim.place} declares this op: give the mirror there")
    if (solved is not None or shapes is not None) and prim.kind == "elementwise":
        raise ValueError(f"the mirror of {name!r} is that of an elementwise op: it takes no `solved` and no `shapes`")
    if complex is not None and prim.kind != "elementwise":
        raise ValueError(f"the mirror of {name!r} is not that of an elementwise op: it takes no `complex`")
    xs = ["xs"] if prim.variadic else ["x"] if prim.arity == 1 else [f"x{i}" for i in range(prim.arity)]
    first = [] if prim.kind == "elementwise" else ["W"]
    check_signature(prim, "the mirror", function, [*first, *xs], prim.params)
    if complex is not None:
        check_signature(prim, "the mirror for complex numbers", complex, xs, prim.params)
    if solved is not None:
        check_signature(prim, "`solved` of the mirror", solved, ["W", "y", *xs], prim.params)
    if shapes is not None:
        check_signature(prim, "`shapes` of the mirror", shapes, xs, prim.params)
    made = Mirror(prim, function, complex, solved, argument, shapes, here)
    if _receiver is None:
        _waiting[name] = made
    else:
        _receiver(made)


def hand_over(receiver: Callable[[Mirror], None]) -> None:
    """Pass all waiting mirrors to `receiver`, and from now on each new mirror."""
    global _receiver
    _receiver = receiver
    while _waiting:
        receiver(_waiting.popitem()[1])

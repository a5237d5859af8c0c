"""The table of mirrors: an independent textbook definition of every primitive.

Two kinds of line fill it. ``scalar(name, f)`` gives an elementwise primitive as a SymPy expression in SymPy symbols.
``array(name, f)`` gives any other primitive as a function ``f(W, *object_arrays, **params)``. Here ``W`` is the world
of object arrays: ``W.exp(x)`` and so on apply other mirrors, and plain NumPy moves elements.
``parametrised(name, index, f)`` adds the equation that defines the output of an implicit primitive, for its proof.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from numbers import Number
from typing import Any

from sympy import Basic

from gtape.declare.mirrors import Mirror, hand_over

__all__ = [
    "ARRAYS", "COMPLEX", "MULTILINEAR", "OUTPUT_SHAPES", "PARAMETRISED", "SCALARS", "array", "parametrised", "scalar",
    "without_formula",
]  # fmt: skip

SCALARS: dict[str, Callable[..., Any]] = {}
COMPLEX: dict[str, Callable[..., Any]] = {}
ARRAYS: dict[str, Callable[..., Any]] = {}
PARAMETRISED: dict[str, tuple[int, Callable[..., Any]]] = {}
OUTPUT_SHAPES: dict[str, Callable[..., Any]] = {}
MULTILINEAR: dict[str, tuple[int, ...]] = {}


def _put(table: dict[str, Callable[..., Any]], name: str, f: Callable[..., Any]) -> None:
    if name in SCALARS or name in ARRAYS:
        raise ValueError(f"the mirror of {name!r} is declared twice")
    table[name] = f


def scalar(name: str, f: Callable[..., Any], *, complex: Callable[..., Any] | None = None) -> None:
    """Declare the mirror of an elementwise primitive.

    Parameters
    ----------
    name : str
        The primitive's registered name.
    f : callable
        ``f(*symbols) -> sympy.Expr``. A kinked op is a ``Piecewise`` whose branch at the kink gives its convention.
    complex : callable, optional
        The definition for complex symbols. Needed if `f` uses the sign of a symbol, or a branch other than the
        principal one.
    """
    _put(SCALARS, name, f)
    if complex is not None:
        COMPLEX[name] = complex


def array(name: str, f: Callable[..., Any], *, linear: tuple[int, ...] = ()) -> None:
    """Declare the mirror of a primitive that is not elementwise: ``f(W, *object_arrays, **params)``.

    Parameters
    ----------
    name : str
        The primitive's registered name.
    f : callable
    linear : tuple of int
        The arguments in which `f` is linear. The derivative by one of them is `f` with a direction in its place, and
        needs no jets.
    """
    _put(ARRAYS, name, f)
    if linear:
        MULTILINEAR[name] = linear


def parametrised(name: str, index: int, f: Callable[..., Any], *, shapes: Callable[..., Any] | None = None) -> None:
    """Declare the equation of an implicit primitive, solved for one of its inputs.

    Parameters
    ----------
    name : str
        The primitive's registered name.
    index : int
        The argument that the equation is solved for.
    f : callable
        ``f(W, y, *object_arrays, **params) -> (y, x)`` maps generic entries to a `y` with the structure of an output
        (such as a triangle), and to the argument `index` whose output is `y`. `f` does not read this argument.
    shapes : callable, optional
        ``shapes(*shapes, **params)`` returns the shape of the output, or a tuple of shapes for several outputs. Needed
        if the mirror has no closed form, because the mirror then cannot run on symbols.
    """
    if name in PARAMETRISED:
        raise ValueError(f"the parametrised mirror of {name!r} is declared twice")
    PARAMETRISED[name] = (index, f)
    if shapes is not None:
        OUTPUT_SHAPES[name] = shapes


def without_formula(name: str) -> NotImplementedError:
    """The error of a mirror that computes numbers only, in the world of symbols."""
    return NotImplementedError(
        f"{name} has no closed form in symbols: `Program.assignments` and `Program.to_mermaid` show the program "
        "without formulas, and `gtape.verify.exact` gives its exact derivative at a point"
    )


def _of_symbols(made: Mirror, f: Callable[..., Any]) -> Callable[..., Any]:
    """A mirror of symbols from outside gtape, whose errors name it."""

    @wraps(f)
    def apply(*symbols: Any, **params: Any) -> Any:
        try:
            result = f(*symbols, **params)
        except Exception as e:
            raise _failed(made, f"raises {type(e).__name__}: {e}") from e
        if not isinstance(result, (Basic, Number)):  # strings in particular, which SymPy would evaluate
            raise _failed(made, f"returns {type(result).__name__}, not an expression")
        return result

    return apply


def _of_arrays(made: Mirror, f: Callable[..., Any]) -> Callable[..., Any]:
    """A mirror of arrays from outside gtape, whose errors name it."""

    @wraps(f)
    def apply(*args: Any, **params: Any) -> Any:
        try:
            return f(*args, **params)
        except (TypeError, AttributeError, NameError) as e:
            # An error inside a world may be that of a number that does not decide a comparison.
            mine = e.__traceback__ is not None and e.__traceback__.tb_next
            if not mine or mine.tb_next is not None:
                raise
            raise _failed(made, f"raises {type(e).__name__}: {e}") from e

    return apply


def _failed(made: Mirror, what: str) -> ValueError:
    with_what = "with SymPy" if made.prim.kind == "elementwise" else "with the functions of W"
    return ValueError(f"the mirror of {made.prim.name} ({made.place}) {what}; a mirror is written {with_what}")


def _adopt(made: Mirror) -> None:
    """Register a mirror declared with its op outside gtape, in place of the mirror declared earlier."""
    name = made.prim.name
    for table in (SCALARS, COMPLEX, ARRAYS, PARAMETRISED, OUTPUT_SHAPES, MULTILINEAR):
        table.pop(name, None)
    if made.prim.kind == "elementwise":
        scalar(name, _of_symbols(made, made.function), complex=made.complex and _of_symbols(made, made.complex))
        return
    array(name, _of_arrays(made, made.function))
    if made.solved is not None:
        parametrised(name, made.argument, made.solved, shapes=made.shapes)


hand_over(_adopt)

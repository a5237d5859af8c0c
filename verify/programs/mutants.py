"""Plants faults in rules and kernels, which checks must find.

`planted` replaces one rule of one primitive and restores it at the end. The transforms are the ways in which derivative
rules of the big libraries have been wrong: a relative error of any size, a lost factor or sign, a missing case, a
residual that a second derivative treats as constant.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gtape.declare.domains import BOOLEAN, Interval
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.engine.worlds import COMPLEX, NUMPY, TAPE
from gtape.symbolic.balls import objects
from gtape.tensors.tensor import Tensor, wrap
from gtape.verify.search.subjects import parameters_of

__all__ = [
    "TRANSFORMS", "arguments_of", "bar", "example", "formula", "planted", "planted_kernel", "planted_rule", "scaled",
]  # fmt: skip

Transform = Callable[[Any, Callable[[], Any], Callable[..., Any], tuple[Any, ...], int], Any]


def bar(dtype: Any, n: int = 1) -> float:
    """The smallest relative error that checks must find in any single rule whose longest sum has `n` terms.

    Examples
    --------
    >>> bar("float64"), bar("float32")
    (1e-14, 1e-06)
    """
    return max(1e-14, 4 * n * 2.0**-53) if np.dtype(dtype).itemsize == 8 else max(1e-6, 4 * n * 2.0**-24)


def arguments_of(prim: Primitive) -> list[int]:
    """The arguments with a rule; only 0 for a variadic primitive."""
    return [0] if prim.variadic else [i for i, r in enumerate(prim.rules) if r is not None]


def example(prim: Primitive, dtype: Any, rng: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Arguments well inside the domain of a primitive, at which each of its rules contributes.

    Returns
    -------
    arrays : list of ndarray
    params : dict
    """
    if prim.kind != "elementwise":

        def size(sample: Any) -> int:
            return sum(math.prod(a.shape if isinstance(a, np.ndarray) else a) for a in sample[0])

        shapes, params = max((s for s in prim.samples or () if size(s) <= 40), key=size)
        arrays = [a if isinstance(a, np.ndarray) else _matrix(a, rng).astype(dtype) for a in shapes]
        return [_well_conditioned(a) for a in arrays] if prim.domain.where is not None else arrays, params
    params = parameters_of(prim)
    for _ in range(20):  # draws, until every rule contributes
        arrays = _operands(prim, dtype, rng)
        with np.errstate(all="ignore"):
            y = prim.kernel(*arrays, **params)
            if all(np.any(p(NUMPY, y, *arrays, **params)) for p in prim.rules if callable(p)):
                break
    return arrays, params


def _operands(prim: Primitive, dtype: Any, rng: Any) -> list[np.ndarray]:
    arrays = []
    inner = prim.random if isinstance(prim.random, Interval) else None
    for interval in [inner or i for i in prim.domain.intervals]:
        if interval is BOOLEAN:
            arrays.append(np.array([True, False, True, True, False]))
            continue
        if interval.whole:
            arrays.append(rng.integers(max(interval.lo, 0), min(interval.hi, 3) + 1, 5).astype(dtype))
            continue
        low, high = max(interval.lo, -3.0), min(interval.hi, 3.0)
        x = rng.uniform(low + 0.2, high - 0.2, 5)
        if interval.lo == -np.inf and interval.hi == np.inf:
            x = rng.uniform(0.2, 1.2, 5) * np.array([1, -1, 1, -1, 1])
        arrays.append(x.astype(dtype))
    if prim.domain.where is not None:
        whole = [interval.whole for interval in prim.domain.intervals]
        arrays = [a if w else np.abs(a) + a.dtype.type(0.1) for a, w in zip(arrays, whole, strict=True)]
    return arrays


def _matrix(shape: tuple[int, ...], rng: Any) -> np.ndarray:
    x = np.asarray(rng.uniform(0.5, 1.5, shape))
    if x.ndim >= 2 and shape[-1] == shape[-2]:
        x = x + np.swapaxes(x, -1, -2) + 3 * np.eye(shape[-1])
    return x


def _well_conditioned(a: np.ndarray) -> np.ndarray:
    """A matrix far from those of lower rank, because near them the bound of a rule is wider than a small fault."""
    oblong = a.ndim >= 2 and a.shape[-1] != a.shape[-2] and a.dtype.kind == "f"
    return a + a.dtype.type(3) * np.eye(*a.shape[-2:], dtype=a.dtype) if oblong else a


# ------------------------------------------------------------------------------------------------ transforms


def _times(r: Any, f: float, like: Any) -> Any:
    """`r` times a number, in the world of `r`; integers and masks take the dtype of the arguments."""
    if isinstance(r, (list, tuple)):
        return type(r)([None if e is None else _times(e, f, like) for e in r])
    if isinstance(r, np.ndarray) and r.dtype == object:
        return objects(r * f)
    if isinstance(r, (np.ndarray, np.generic)) and r.dtype.kind in "biu":
        dtype = next(
            (
                np.dtype(x.dtype)
                for x in like
                if not isinstance(x, Tensor) and getattr(getattr(x, "dtype", None), "kind", "") == "f"
            ),
            np.dtype(float),
        )
        return r.astype(dtype) * dtype.type(f)
    if isinstance(r, np.generic):
        return np.multiply(r, r.dtype.type(f))
    return r * f


def scaled(factor: float) -> Transform:
    """The rule times `factor`."""

    def transform(xp: Any, value: Callable[[], Any], rule: Any, args: tuple[Any, ...], i: int) -> Any:
        return _times(value(), factor, args)

    return transform


def _zero(xp: Any, value: Callable[[], Any], rule: Any, args: tuple[Any, ...], i: int) -> Any:
    return _times(value(), 0, args)


def _constant_residual(xp: Any, value: Callable[[], Any], rule: Any, args: tuple[Any, ...], i: int) -> Any:
    """The right value as a constant, which hides the rule from an outer tape."""
    r = value()
    return wrap(r._value) if isinstance(r, Tensor) else r


TRANSFORMS: dict[str, Transform] = {
    "sign": scaled(-1.0),  # m2
    "factor 2": scaled(2.0),  # m1
    "missing case": _zero,  # m16
    "constant residual": _constant_residual,  # m9
}


# ------------------------------------------------------------------------------------------------ planting


@contextlib.contextmanager
def planted(name: str, argument: int, transform: Transform, *, worlds: str = "all") -> Iterator[Primitive]:
    """Replace one rule of one primitive by a faulty rule inside a block.

    Parameters
    ----------
    name : str
        The primitive.
    argument : int
        The argument of the rule, as from `arguments_of`.
    transform : callable
        ``transform(xp, value, rule, args, argument)`` returns the faulty value; ``value()`` is the right one.
    worlds : {"all", "floats"}
        "all": wrong everywhere. "floats": wrong in NumPy and on the tape, right in exact arithmetic, like a bad kernel.

    Yields
    ------
    Primitive

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(0.5)
    >>> with planted("sin", 0, scaled(2.0)), tf.GradientTape() as tape:
    ...     y = tf.sin(x)
    ...     g = tape.gradient(y, x)
    >>> round(float(g), 4)
    1.7552
    """
    if worlds not in ("all", "floats"):
        raise ValueError(f"worlds is 'all' or 'floats', not {worlds!r}")

    def wrong(rule: Any) -> Any:
        def f(xp: Any, *args: Any, **params: Any) -> Any:
            def value() -> Any:
                return rule(xp, *args, **params) if callable(rule) else rule

            if worlds == "floats" and xp is not NUMPY and xp is not COMPLEX and xp is not TAPE:
                return value()
            return transform(xp, value, rule, args, argument)

        return f

    # A transform may read values that the declared partial does not read.
    with planted_rule(name, argument, wrong, reads_all=REGISTRY[name].partials is not None) as prim:
        yield prim


@contextlib.contextmanager
def planted_rule(
    name: str, argument: int, wrong: Callable[[Any], Any], *, direction: str = "vjp", reads_all: bool = False
) -> Iterator[Primitive]:
    """Replace one rule of one primitive inside a block by another rule.

    Parameters
    ----------
    name, argument
        As for `planted`.
    wrong : callable
        Takes the declared rule, and returns the rule to put in its place.
    direction : {"vjp", "jvp"}
        "vjp" replaces the rule of reverse mode; an elementwise primitive has one rule for both modes.
    reads_all : bool
        Whether a record keeps the output and all inputs for the rule, even those that the declared rule does not read.

    Yields
    ------
    Primitive

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(0.5)
    >>> with planted_rule("sin", 0, lambda rule: lambda xp, y, x: xp.sin(x)), tf.GradientTape() as tape:
    ...     y = tf.sin(x)
    ...     g = tape.gradient(y, x)
    >>> round(float(g), 4)
    0.4794
    """
    if direction not in ("vjp", "jvp"):
        raise ValueError(f"direction is 'vjp' or 'jvp', not {direction!r}")
    prim = REGISTRY[name]

    def opaque(rule: Any) -> Any:
        """The other rule, marked as never to be compiled to source, because compiled functions outlive the block."""
        made = wrong(rule)
        with contextlib.suppress(AttributeError):  # an int has no attributes
            made.opaque = True
        return made

    before = {slot: getattr(prim, slot) for slot in ("partials", "vjp", "jvp", "scalar", "reads")}
    for slot in ("partials", "vjp") if direction == "vjp" else ("jvp",):
        old = before[slot]
        if isinstance(old, tuple):
            setattr(prim, slot, tuple([opaque(r) if i == argument else r for i, r in enumerate(old)]))
        elif callable(old):
            setattr(prim, slot, opaque(old))
    if reads_all:
        everything = frozenset(["y", *range(len(prim.rules))])
        prim.reads = [everything] * len(prim.rules)
    try:
        yield prim
    finally:
        for slot, old in before.items():
            setattr(prim, slot, old)
        prim.plans.clear()


def formula(f: Callable[..., Any]) -> Transform:
    """A transform that puts ``f(xp, y, *x)`` in the place of a partial.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(20.0, dtype=tf.float64)
    >>> with planted("tanh", 0, formula(lambda xp, y, x: 1 - y * y)), tf.GradientTape() as tape:
    ...     y = tf.tanh(x)
    ...     g = tape.gradient(y, x)
    >>> float(g)
    0.0
    """

    def transform(xp: Any, value: Callable[[], Any], rule: Any, args: tuple[Any, ...], i: int) -> Any:
        return f(xp, *args)

    return transform


@contextlib.contextmanager
def planted_kernel(name: str, wrong: float | Callable[..., Any]) -> Iterator[Primitive]:
    """Multiply the results of a primitive's kernel by a factor inside a block, or put another kernel in its place.

    Parameters
    ----------
    name : str
        The primitive.
    wrong : float or callable
        The factor, or the other kernel, ``wrong(*arrays, **params)``.

    Yields
    ------
    Primitive

    Examples
    --------
    >>> import gtape as tf
    >>> with planted_kernel("sin", lambda x: x):
    ...     y = tf.sin(0.5)
    >>> float(y)
    0.5
    """
    prim = REGISTRY[name]
    kernel, scalar = prim.kernel, prim.scalar

    def multiplied(*args: Any, **params: Any) -> Any:
        return _times(kernel(*args, **params), wrong, args)  # type: ignore[arg-type]

    prim.kernel, prim.scalar = wrong if callable(wrong) else multiplied, None
    try:
        yield prim
    finally:
        prim.kernel, prim.scalar = kernel, scalar

"""The conventions of all ops at kinks and at the ends of their domains, as a table and as a page.

Declarations give the kinks (`kinks`) and the domain (`domain`) of an op. The tape gives the results there, and the
exact derivative one step away gives both sides, so that no convention is written down twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import gtape
from gtape.declare.conventions import COMPLEX_NUMBERS, FUNCTIONS, AtPoints, Noted, OfArrays
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.namespaces import catalogue
from gtape.tapes.tape import GradientTape
from gtape.tensors.tensor import wrap
from gtape.verify.judging.api import exact
from gtape.verify.search.subjects import parameters_of

__all__ = ["Convention", "End", "conventions", "ends", "page", "without_derivative"]

_STEP = 2.0**-40
_UNBOUNDED = 2.0**19
_FAR = 100.0  # ends farther out limit the promised accuracy, not the domain of the function

# A point for each phrase that declarations use for a kink; lists are vectors.
_MET: dict[str, tuple[Any, ...]] = {
    "x == y": (2.0, 2.0),
    "x == y == 0": (0.0, 0.0),
    "y == 0": (1.0, 0.0),
    "y == 0 and x < 0": (0.0, -1.0),
    "x == low": (1.0, 1.0, 3.0),
    "x == high": (3.0, 1.0, 3.0),
    "x == 0 and y <= 1": (0.0, 1.0),
    "x < 0": (-2.0, 3.0),
    "x == 0 and y <= 0": (0.0, 0.0),
    "x == 0 and y <= -1": (0.0, -1.0),
    "x / y whole": (4.0, 2.0),
    "x whole": (2.0,),
    "x halfway between whole numbers": (2.5,),
    "all elements are 0": ([0.0, 0.0],),
    "two elements are equal": ([2.0, 2.0],),
    "two elements are equal and extreme": ([2.0, 2.0],),
    "two elements of a segment are equal and extreme": ([2.0, 2.0],),
    "two elements of a window are equal": ([2.0, 2.0],),
}


class Convention(NamedTuple):
    """The result of an op at a kink, and its derivatives by one argument.

    Attributes
    ----------
    op : str
        The public name.
    where : str
        The kink in the words of the declaration.
    at : tuple
        A point at the kink; lists are vectors, whose first element varies.
    argument : int
        The argument of the derivatives.
    value, derivative : float
        The results of gtape there.
    left, right : float or None
        The exact derivative one step to either side; infinite if unbounded, None if undefined.
    """

    op: str
    where: str
    at: tuple[Any, ...]
    argument: int
    value: float
    derivative: float
    left: float | None
    right: float | None

    @property
    def inside(self) -> bool | None:
        """True if the derivative lies between the one-sided ones; None if one of these is infinite or undefined."""
        if self.left is None or self.right is None or not (math.isfinite(self.left) and math.isfinite(self.right)):
            return None
        low, high = min(self.left, self.right), max(self.left, self.right)
        margin = 1e-9 * max(1.0, abs(low), abs(high))
        return low - margin <= self.derivative <= high + margin


class End(NamedTuple):
    """The results of an op at an end of its domain, or at a hole in it.

    Attributes
    ----------
    op : str
    at : tuple of float
    argument : int
        The argument whose interval ends here.
    value, derivative : float
        The results of gtape there.
    beyond : tuple of float or None
        A point outside, beyond this end; None at a hole.
    """

    op: str
    at: tuple[float, ...]
    argument: int
    value: float
    derivative: float
    beyond: tuple[float, ...] | None


def function(op: str) -> Callable[..., Any]:
    """The function behind a row of the table, with static parameters if it needs some."""
    shown: dict[str, Callable[..., Any]] = dict(p.shown for p in REGISTRY.values() if p.shown is not None)
    if op in shown:
        return shown[op]
    prim = REGISTRY[op]
    params = parameters_of(prim)
    return lambda *args: prim(*args, **params)


def at_point(f: Callable[..., Any], at: tuple[Any, ...], argument: int, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Value and derivative by one argument (its first element) from the tape; None without a derivative."""
    xs = [wrap(np.asarray(a, dtype)) for a in at]
    with GradientTape() as tape:
        tape.watch(xs)
        y = f(*xs)
    g = tape.gradient(y, xs[argument])
    value = float(np.ravel(y.numpy())[0])
    return value, None if g is None else float(np.ravel(np.asarray(g))[0])


def _moved(at: tuple[Any, ...], argument: int, step: float) -> tuple[Any, ...]:
    made = [np.array(a, dtype=np.float64) for a in at]
    made[argument].reshape(-1)[0] += step
    return tuple(made)


def _beside(f: Callable[..., Any], at: tuple[Any, ...], argument: int, sign: int) -> float | None:
    """The exact derivative one step away; infinite if it grows without bound towards the point."""
    found = []
    for step in (_STEP, _STEP / 1024):
        try:
            moved = [wrap(x) for x in _moved(at, argument, sign * step)]
            # By this argument alone, because there may be no derivative by the others.
            made = exact(lambda x, xs=moved: f(*xs[:argument], x, *xs[argument + 1 :]), moved[argument], digits=20)
        except (ArithmeticError, ValueError, TypeError):
            return None
        found.append(float(np.ravel(np.asarray(made, dtype=object))[0]))
    near, nearer = found
    if abs(nearer) > _UNBOUNDED and abs(nearer) > 2 * abs(near):
        return math.copysign(math.inf, nearer)
    return nearer


@cache
def conventions() -> tuple[Convention, ...]:
    """The results of every public op at its kinks.

    Raises
    ------
    KeyError
        If a declaration describes a kink by a phrase without a point in this module.

    Examples
    --------
    >>> row = next(c for c in conventions() if c.op == "relu")
    >>> row.at, row.derivative, row.left, row.right, row.inside
    ((0.0,), 0.0, 0.0, 1.0, True)
    """
    return tuple(sorted(_conventions(), key=lambda c: c.op))


def _conventions() -> Iterator[Convention]:
    for prim in REGISTRY.values():
        named = prim.shown
        if prim.place.outside or not prim.kinks or (named is None and (not prim.differentiable or not prim.public)):
            continue
        op, f = named or (prim.name, function(prim.name))
        for kink in prim.kinks:
            at, where = _point(prim, kink)
            for a in range(len(at)):
                if named is None and not prim.connected(a):
                    continue
                value, derivative = at_point(f, at, a)
                if derivative is None:
                    continue
                left, right = (_beside(f, at, a, sign) for sign in (-1, 1))
                yield Convention(op, where, at, a, value, derivative, left, right)


def _point(prim: Primitive, kink: Any) -> tuple[tuple[Any, ...], str]:
    if isinstance(kink, (int, float)):
        return (float(kink),), f"x = {kink:g}"
    if kink not in _MET:
        raise KeyError(f"{prim.name} declares a kink {kink!r}, for which {__name__} has no point: add a point to _MET")
    return _MET[kink], kink


@cache
def ends() -> tuple[End, ...]:
    """The results of every public elementwise op at the ends of its domain.

    Examples
    --------
    >>> row = next(e for e in ends() if e.op == "sqrt")
    >>> row.at, row.value, row.derivative, row.beyond
    ((0.0,), 0.0, inf, (-1.0,))
    """
    found = []
    for prim in sorted(REGISTRY.values(), key=lambda p: p.name):
        if prim.place.outside or prim.kind != "elementwise" or not prim.public or not prim.differentiable:
            continue
        generic = [_inside(i) for i in prim.domain.intervals]
        for a, interval in enumerate(prim.domain.intervals):
            points = [(interval.lo, interval.lo - 1.0), (interval.hi, interval.hi + 1.0)]
            if not prim.connected(a):
                continue
            for end, beyond in [*points, *[(h, None) for h in interval.holes]]:
                if abs(end) >= _FAR:
                    continue
                at = tuple(end if i == a else g for i, g in enumerate(generic))
                value, derivative = at_point(function(prim.name), at, a)
                if derivative is None:
                    continue
                outside = None if beyond is None else tuple(beyond if i == a else g for i, g in enumerate(generic))
                found.append(End(prim.name, at, a, value, derivative, outside))
    return tuple(found)


def _inside(interval: Any) -> float:
    """A number well inside an interval."""
    for x in (0.5, 1.5, -0.5, interval.lo + 0.5, interval.hi - 0.5):
        if x in interval:
            return float(x)
    return float((interval.lo + interval.hi) / 2.0)


def without_derivative() -> list[str]:
    """The public ops without any derivative, whose gradient is None."""
    return sorted(p.name for p in REGISTRY.values() if p.public and not p.differentiable and not p.place.outside)


def _number(x: float | None) -> str:
    return "-" if x is None else f"{x + 0.0:.6g}"


def _arguments(at: tuple[Any, ...]) -> str:
    def one(a: Any) -> str:
        return f"[{', '.join(map(one, a))}]" if isinstance(a, list) else _number(a)

    return ", ".join(map(one, at))


_HEAD = """# Conventions at kinks and ends

`gtape conventions docs/conventions.md` writes this page from the declarations of the ops, and a test compares the page
with the declarations. Programs read the same rows from a function:

```python
from gtape.verify.command.reference import conventions

row = next(c for c in conventions() if c.op == "relu")
print(row.at, row.left, row.derivative, row.right, row.inside)
```

```text
(0.0,) 0.0 0.0 1.0 True
```

## At kinks

At a kink an op has no derivative, only one-sided derivatives. gtape returns TensorFlow's value if this value lies
between the two, and the value of least norm otherwise. *By* is the number of the argument that varies (for a vector,
its first element varies). *Left* and *right* are the exact derivatives at a step of 2⁻⁵⁰ below and above the kink; "-"
means that the op is not defined at this step.

| op | kink | at | by | value | derivative | left | right |
|---|---|---|---|---|---|---|---|
"""

_ENDS = """
## Where a domain ends

The table shows the value, and the derivative by the argument whose domain ends, exactly at the end or at the hole of
the domain; the other arguments lie inside. Outside the domain both numbers are NaN.

| op | at | by | value | derivative |
|---|---|---|---|---|
"""

_SPECIAL = """
## NaN, infinities and signed zeros

Every value and every derivative that depends on a NaN is NaN, without a warning. A derivative that does not depend on
the argument stays: the derivative of x + y is 1 at NaN, too. The derivatives of relu, relu6, leaky_relu, elu, selu and
hard_sigmoid at NaN are NaN, because no derivative exists there; TensorFlow returns 0, 1 or the slope of one side.

At an infinity, value and derivatives are the limits of the mirror. They are NaN if there is no limit, or if the limit
depends on how several arguments approach theirs. If the value is NaN for this reason, the derivatives may be NaN, too.
At a signed zero, value and derivatives are the limits from the side of the sign, or from inside if the domain ends at
0. The result keeps the sign: 1/(-0) is -inf, atan(-0) is -0.

The table lists the exceptions. Names in *italics* are internal ops, which appear in derivatives only.

| op | at | gives | because |
|---|---|---|---|
"""

_NOTED = """
These are further conventions, about choices between elements and about outputs that are integers:

| op or function | convention |
|---|---|
"""

_ARRAYS = """
Ops of arrays (sums, products, softmax, norms, convolutions, segments, linear algebra), functions composed of these ops,
and ops of complex numbers follow the same rules, with special values in one element or in all elements of an argument.
The next table lists the exceptions. The column *of* says whether a row is about the value or about the derivatives (vjp
and jvp). *Equal infinities* means several equal infinities in one argument, *zeros* an argument of zeros only. In a row
with NaN a limit exists, but floats do not always reach the limit; such a row allows NaN or the limit, and no other
number. A row about an op holds for the functions composed of the op, too: convolutions, losses, layers, variances,
solvers. `linalg.inv`, `linalg.solve` and similar functions may raise InvalidArgumentError instead of returning NaN.

| op or function | at | of | gives | because |
|---|---|---|---|---|
"""

_NONE = """
## Without a derivative

The gradient of these ops is None at all points: {}.
"""


def _stated(kind: type[Any]) -> dict[Any, str]:
    """The conventions of a kind, each with the names of the ops and functions that state it."""
    for space in (gtape, gtape.keras):  # their functions are imported on first use
        for name in dir(space):
            getattr(space, name)
    known = {*catalogue.names_in(), *dir(gtape.debugging)}
    found: dict[Any, list[str]] = {}
    for prim in REGISTRY.values():
        for c in () if prim.place.outside else prim.conventions:
            public = prim.name if prim.public or prim.name in known else prim.shown and prim.shown[0].split()[0]
            found.setdefault(c, []).append(public or f"*{prim.name}*")
    for name, conventions in sorted(FUNCTIONS.items()):
        for c in conventions:
            found.setdefault(c, []).append(name)
    for c in COMPLEX_NUMBERS:
        found[c] = ["all ops of complex numbers"]
    return {c: ", ".join(dict.fromkeys(names)) for c, names in found.items() if isinstance(c, kind)}


def page() -> str:
    """The reference page, in Markdown.

    Examples
    --------
    >>> page().splitlines()[0]
    '# Conventions at kinks and ends'
    """
    text = _HEAD
    for c in conventions():
        text += (
            f"| {c.op} | {c.where} | {_arguments(c.at)} | {c.argument + 1} | {_number(c.value)} | "
            f"{_number(c.derivative)} | {_number(c.left)} | {_number(c.right)} |\n"
        )
    text += _ENDS
    for e in ends():
        text += f"| {e.op} | {_arguments(e.at)} | {e.argument + 1} | {_number(e.value)} | {_number(e.derivative)} |\n"
    text += _SPECIAL
    for row, ops in _stated(AtPoints).items():
        text += f"| {ops} | {row.where} | {row.gives} | {row.reason} |\n"
    text += _ARRAYS
    for kept, ops in _stated(OfArrays).items():
        of = "value, derivative" if kept.of == "both" else kept.of
        text += f"| {ops} | {kept.at} | {of} | {kept.gives} | {kept.reason} |\n"
    text += _NOTED
    for noted, ops in _stated(Noted).items():
        text += f"| {ops} | {noted.text} |\n"
    return text + _NONE.format(", ".join(without_derivative()))

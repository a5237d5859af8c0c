"""Jets: a value with its derivatives along k directions, each taken once (e_i * e_i = 0).

A jet has 2**k components, one for each set of directions, numbered by bitmask: k = 1 is (value, d), k = 2 the
hyper-dual (value, du, dv, dudv). Components are enclosures (balls) or any other numbers. The Python integer 0 stands
for a component that is zero by construction. Times infinity it stays zero, unlike a computed ball 0. Constants are
plain balls, because they need no derivatives.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from gtape.symbolic import balls

__all__ = ["Jet", "compose", "jet_class", "multi_indices"]

ZERO = 0  # compared by identity, because CPython keeps one object for small integers


@cache
def _splits(size: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each set s of directions, by bitmasks below `size`, the pairs (t, s without t)."""
    return tuple(tuple((t, s ^ t) for t in range(s + 1) if t & s == t) for s in range(size))


def _product(a: Any, b: Any) -> Any:
    """The components of a product."""
    if len(a) == 4:
        (v, p, q, r), (w, e, f, g) = a, b
        if not (p is ZERO or q is ZERO or r is ZERO or e is ZERO or f is ZERO or g is ZERO):
            return v * w, p * w + v * e, q * w + v * f, r * w + p * f + q * e + v * g
    out = [a[0] * b[0]]
    for pairs in _splits(len(a))[1:]:
        total: Any = ZERO
        for s, t in pairs:
            x, y = a[s], b[t]
            if x is not ZERO and y is not ZERO:
                total = x * y if total is ZERO else total + x * y
        out.append(total)
    return out


def _quotient(a: Any, b: Any) -> Any:
    """The components of the quotient q, one after the other from q * b = a."""
    below = b[0]
    q = [a[0] / below]
    for s, pairs in enumerate(_splits(len(a))[1:], 1):
        total = a[s]
        for t, rest in pairs[:-1]:  # the last pair is q[s] itself
            x, y = q[t], b[rest]
            if x is not ZERO and y is not ZERO:
                total = total - x * y
        q.append(ZERO if total is ZERO else total / below)
    return q


def _operator(with_number: Callable[..., Any], with_jet: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """An operator of jets, from its function of components and a number, and its function of two jets' components."""

    def operate(self: Jet, other: Any) -> Any:
        if other.__class__ is self.__class__ and with_jet is not None:
            return self.__class__(*with_jet(self.components, other.components))
        if isinstance(other, Jet):
            raise TypeError(f"jets of {self.k} and {other.k} directions do not mix; build all inputs in one JetWorld")
        if isinstance(other, np.ndarray):
            return NotImplemented
        return self.__class__(*with_number(self.components, other))

    return operate


def _comparison(relation: Callable[..., bool]) -> Callable[..., bool]:
    return lambda jet, other: relation(jet.components[0], value_of(other))


class Jet:
    """A truncated number: the sum of ``c[s] * e_s`` over the sets s of directions.

    Parameters
    ----------
    *components
        2**k numbers by bitmask. `jet_class` returns the class for a fixed k.
    """

    __slots__ = ("components",)
    k: int = -1
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *components: Any) -> None:
        self.components = components

    @property
    def value(self) -> Any:
        """The component without directions."""
        return self.components[0]

    def __repr__(self) -> str:
        return f"Jet({', '.join(map(str, self.components))})"

    __add__ = __radd__ = _operator(lambda a, x: (a[0] + x, *a[1:]), partial(map, operator.add))
    __sub__ = _operator(lambda a, x: (a[0] - x, *a[1:]), partial(map, operator.sub))
    __rsub__ = _operator(lambda a, x: (x - a[0], *map(operator.neg, a[1:])))
    __mul__ = __rmul__ = _operator(lambda a, x: (a[0] * x, *[ZERO if c is ZERO else c * x for c in a[1:]]), _product)
    __truediv__ = _operator(lambda a, x: (a[0] / x, *[ZERO if c is ZERO else c / x for c in a[1:]]), _quotient)
    __rtruediv__ = _operator(lambda a, x: _quotient((x, *[ZERO] * (len(a) - 1)), a))
    __lt__ = _comparison(balls.less)
    __le__ = _comparison(balls.less_equal)
    __gt__ = _comparison(balls.greater)
    __ge__ = _comparison(balls.greater_equal)
    __eq__ = _comparison(balls.equal)
    __ne__ = _comparison(balls.not_equal)

    def __neg__(self) -> Any:
        return self.__class__(*map(operator.neg, self.components))

    def __pos__(self) -> Any:
        return self

    def __pow__(self, n: Any) -> Any:
        if not isinstance(n, int):
            raise TypeError(f"a jet takes integer powers only, got {n!r}; use the world's power function")
        if n < 0:
            return 1 / self ** (-n)
        return balls.integer_power(self, n) if n else self.value**0


class _Jet1(Jet):
    __slots__ = ()
    k = 1

    # Programs mostly use these special cases, because they take a third of the time of the general case.

    def __add__(self, other: Any) -> Any:
        if other.__class__ is _Jet1:
            v, d = self.components
            w, e = other.components
            return _Jet1(v + w, d + e)
        return Jet.__add__(self, other)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        if other.__class__ is _Jet1:
            v, d = self.components
            w, e = other.components
            return _Jet1(v * w, d * w + v * e)
        return Jet.__mul__(self, other)

    __rmul__ = __mul__


@cache
def jet_class(k: int) -> type[Jet]:
    """The class of jets in `k` directions."""
    if k == 1:
        return _Jet1
    if k < 1:
        raise ValueError(f"jets need at least one direction, got {k}")
    return type(f"_Jet{k}", (Jet,), {"__slots__": (), "k": k})


def value_of(x: Any) -> Any:
    """The value of a jet. The value of a number is the number."""
    return x.components[0] if isinstance(x, Jet) else x


def multi_indices(n: int, k: int) -> list[tuple[int, ...]]:
    """The partial derivatives of n arguments that jets in k directions need: sorted argument numbers, by order.

    Examples
    --------
    >>> multi_indices(2, 2)
    [(), (0,), (1,), (0, 0), (0, 1), (1, 1)]
    """
    return [m for order in range(k + 1) for m in product(range(n), repeat=order) if list(m) == sorted(m)]


def _partitions(s: int) -> list[list[int]]:
    """The partitions of a set of directions into blocks, all as bitmasks."""
    if not s:
        return [[]]
    first = s & -s
    rest = s ^ first
    out = []
    t = rest
    while True:
        out += [[first | t, *others] for others in _partitions(rest ^ t)]
        if not t:
            return out
        t = (t - 1) & rest


@cache
def _plan(n: int, k: int) -> tuple[tuple[tuple[int, tuple[tuple[int, int], ...]], ...], ...]:
    """The chain rule: for each set of directions the terms (number of the partial, factors (argument, set))."""
    where = {m: i for i, m in enumerate(multi_indices(n, k))}
    plan = []
    for s in range(1, 1 << k):
        terms = []
        for blocks in _partitions(s):
            for chosen in product(range(n), repeat=len(blocks)):
                terms.append((where[tuple(sorted(chosen))], tuple(zip(chosen, blocks, strict=True))))
        plan.append(tuple(terms))
    return tuple(plan)


def compose(k: int, n: int) -> Callable[..., Jet]:
    """The chain rule for a function of `n` jets in `k` directions.

    Returns
    -------
    callable
        ``(partials, *components) -> Jet``, for the partial derivatives in the order of `multi_indices` and the
        components of each argument.
    """
    make = jet_class(k)

    def one(partials: Sequence[Any], x: Any) -> Jet:
        return make(partials[0], partials[1] * x[1])

    def two(partials: Sequence[Any], x: Any) -> Jet:
        f, slope, bend = partials
        _, u, v, w = x
        cross = ZERO if u is ZERO or v is ZERO else bend * (u * v)
        if w is not ZERO:
            cross = slope * w + cross
        return make(f, ZERO if u is ZERO else slope * u, ZERO if v is ZERO else slope * v, cross)

    def general(partials: Sequence[Any], *xs: Any) -> Jet:
        out = [partials[0]]
        for terms in plan:
            total: Any = ZERO
            for number, factors in terms:
                term: Any = None
                for argument, s in factors:
                    c = xs[argument][s]
                    if c is ZERO:
                        break
                    term = c if term is None else term * c
                else:
                    term = partials[number] * term
                    total = term if total is ZERO else total + term
            out.append(total)
        return make(*out)

    if n == 1 and k <= 2:
        return one if k == 1 else two
    plan = _plan(n, k)
    return general

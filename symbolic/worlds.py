"""The worlds of enclosures (balls) and jets, in which mirrors and rules run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import (
    AGAINST,
    RELATIONS,
    Undecided,
    assumed,
    box,
    equal,
    filled,
    lift_balls,
    lift_complex,
    mapped,
    objects,
)
from gtape.symbolic.expressions import SymPyWorld
from gtape.symbolic.infinities import apart, at_infinities, elementwise_at_infinities, truly_infinite
from gtape.symbolic.jets import ZERO, Jet, jet_class, value_of
from gtape.symbolic.matrices import matmul_components
from gtape.symbolic.objects import COMPARISONS, ObjectWorld
from gtape.symbolic.scalars import jet_function, template
from gtape.tensors.argument_checks import whole

__all__ = ["BallWorld", "JetWorld", "ObjectWorld", "SymPyWorld"]


class BallWorld(ObjectWorld):
    """The world of balls: rigorous enclosures of exact numbers, at the current precision (`precision`).

    Examples
    --------
    >>> from gtape.symbolic.balls import precision, to_float
    >>> W = BallWorld()
    >>> with precision(200):
    ...     y = W.multiply(W.pi, W.lift(np.array([1.0, 0.5])))
    >>> to_float(y).tolist()
    [3.141592653589793, 1.5707963267948966]
    """

    exact = staticmethod(arb)
    lift_floats = staticmethod(lift_balls)
    lift_complex = staticmethod(lift_complex)

    def _elementwise(self, name: str) -> Callable[..., np.ndarray]:
        apply = super()._elementwise(name)
        if not apart():
            return apply
        return lambda *args, **params: elementwise_at_infinities(
            partial(apply, **params), list(map(self.objects, args))
        )

    def _arraywise(self, name: str) -> Callable[..., Any]:
        apply = super()._arraywise(name)
        if not apart():
            return apply
        return lambda *xs, **params: at_infinities(partial(apply, **params), list(map(self._argument, xs)))

    def _arithmetic(self, *xs: Any, ufunc: np.ufunc, scalar: Callable[..., Any]) -> np.ndarray:
        apply = partial(super()._arithmetic, ufunc=ufunc, scalar=scalar)
        return elementwise_at_infinities(apply, list(map(self.objects, xs))) if apart() else apply(*xs)

    def divide(self, a: Any, b: Any) -> np.ndarray:
        """The quotient a / b, elementwise. Integers divide exactly."""
        apply = super().divide
        return elementwise_at_infinities(apply, [self.objects(a), self.objects(b)]) if apart() else apply(a, b)

    def scalar_function(
        self, mirror: Callable[..., Any], arity: int, params: dict[str, Any], kind: str = "arb"
    ) -> tuple[Callable[..., Any], bool]:
        """The mirror compiled for balls."""
        made = template(mirror, arity, params, kind)
        return made.balls, made.boolean

    def sign_of(self, a: Any, b: Any, relation: str) -> int:
        """The sign of a - b. Raises `Undecided` if the balls do not decide it."""
        if assumed.get("limits") is not None:  # equal infinities are tied
            a, b = truly_infinite(box(a)).item(), truly_infinite(box(b)).item()
        if a < b:
            return -1
        if a > b:
            return 1
        if equal(a, b):
            return 0
        raise Undecided(relation, a, b)

    def mean(self, tied: list[Any]) -> Any:
        """One of the tied balls, because they stand for the same number."""
        return tied[0]

    def holds(self, a: Any, b: Any, relation: str) -> bool:
        """Whether a relation holds for all numbers in the balls. Raises `Undecided` if only for some."""
        return RELATIONS[relation](value_of(a), value_of(b))

    def _holds_in(self, a: np.ndarray, b: np.ndarray, relation: str) -> np.ndarray:
        if apart():
            a, b = truly_infinite(a), truly_infinite(b)
        made = objects(COMPARISONS[relation](a, b)).astype(bool)
        open_ = ~(made | objects(COMPARISONS[AGAINST[relation]](a, b)).astype(bool))
        if open_.any():
            a, b = np.broadcast_arrays(a, b)
            made[open_] = super()._holds_in(a[open_], b[open_], relation)
        return made

    def _matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.from_components(matmul_components(self.components_of(a), self.components_of(b)))


# A jet has 2**k parts.
_MOST_DIRECTIONS = 16


class JetWorld(BallWorld):
    """The world of jets in `k` directions over balls: values with exact derivatives, by no rule of the tape.

    Parameters
    ----------
    k : int
        The number of directions: 1 for first derivatives, 2 for second derivatives, and so on.

    Examples
    --------
    >>> from gtape.symbolic.balls import to_float
    >>> W = JetWorld(1)
    >>> x = W.jet(np.array([3.0, 4.0]), np.array([1.0, 0.0]))
    >>> to_float(W.component(W.multiply(x, x), 1)).tolist()
    [6.0, 0.0]
    """

    def __init__(self, k: int) -> None:
        self.k = k = whole(self, "k", k, least=1)
        if k > _MOST_DIRECTIONS:
            raise ValueError(f"JetWorld: a jet in {k} directions has 2**{k} components; {_MOST_DIRECTIONS} is the most")
        self.make = jet_class(k)
        self._constant_tail = (ZERO,) * ((1 << k) - 1)

    def jet(self, value: Any, *tangents: Any) -> np.ndarray:
        """Inputs with their tangents in each direction.

        Parameters
        ----------
        value : array of floats or balls
        *tangents : `k` arrays of that shape, or None
            The tangent in each direction. None, or an element that is exactly 0, means constant in this direction.

        Returns
        -------
        object ndarray
            Jets, or plain balls where all tangents are 0.
        """
        if len(tangents) != self.k:
            raise ValueError(f"this world has {self.k} directions, got {len(tangents)} tangents")
        value = self.objects(value)
        if self.k == 1 and tangents[0] is not None:
            make = self.make
            column = np.broadcast_to(self.objects(tangents[0]), value.shape).ravel().tolist()
            made = [
                v if c == 0 else make(v, arb(c) if isinstance(c, int) else c)
                for v, c in zip(value.ravel().tolist(), column, strict=True)
            ]
            return filled(made, value.shape)
        columns: list[list[Any]] = [[ZERO] * value.size for _ in range(1 << self.k)]
        for i, t in enumerate(tangents):
            if t is not None:
                column = np.broadcast_to(self.objects(t), value.shape).ravel().tolist()
                # integers become balls, because Python would divide them as floats
                columns[1 << i] = [ZERO if c == 0 else arb(c) if isinstance(c, int) else c for c in column]
        columns[0] = value.ravel().tolist()
        return self._join(columns, value.shape)

    @property
    def plain(self) -> BallWorld:
        """The world of balls."""
        return BallWorld()

    def component(self, x: Any, directions: int) -> np.ndarray:
        """One component of every element by bitmask: 0 for the value, 1 for the first direction, 3 for the first two.

        Returns
        -------
        object ndarray of arb
        """
        of: np.ndarray = self.objects(x)
        flat = of.ravel().tolist()
        if not directions and set(map(type, flat)) <= {arb, acb}:
            return of
        nothing = arb(0)
        picked = [e.components[directions] if isinstance(e, Jet) else nothing if directions else e for e in flat]
        return filled([c if isinstance(c, (arb, acb)) else arb(c) for c in picked], of.shape)

    def components_of(self, x: np.ndarray) -> list[Any]:
        """The components as object arrays. None for a component that is zero everywhere by construction."""
        rest = self._constant_tail
        flat = [e.components if isinstance(e, Jet) else (e, *rest) for e in x.ravel().tolist()]
        first, *others = zip(*flat, strict=True) if flat else ((), *[(ZERO,)] * len(rest))
        return [filled(first, x.shape), *[None if all(c is ZERO for c in o) else filled(o, x.shape) for o in others]]

    def from_components(self, components: list[Any]) -> np.ndarray:
        """An array from its components."""
        first = objects(components[0])
        columns = [[ZERO] * first.size if c is None else objects(c).ravel().tolist() for c in components]
        return self._join(columns, first.shape)

    def _join(self, columns: list[list[Any]], shape: tuple[int, ...]) -> np.ndarray:
        make = self.make
        if any(all(x is not ZERO for x in column) for column in columns[1:]):
            return filled(list(map(make, *columns)), shape)
        made = [make(*c) if any(x is not ZERO for x in c[1:]) else c[0] for c in zip(*columns, strict=True)]
        return filled(made, shape)

    def scalar_function(
        self, mirror: Callable[..., Any], arity: int, params: dict[str, Any], kind: str = "arb"
    ) -> tuple[Callable[..., Any], bool]:
        """The mirror and its derivatives, compiled for jets. A condition depends only on values."""
        made = template(mirror, arity, params, kind)
        if made.boolean:
            return (lambda *xs: made.balls(*map(value_of, xs))), True
        return jet_function(made, self.k), False

    def _holds_in(self, a: np.ndarray, b: np.ndarray, relation: str) -> np.ndarray:
        return super()._holds_in(mapped(value_of, a), mapped(value_of, b), relation)

    def sign_of(self, a: Any, b: Any, relation: str) -> int:
        """The sign of the difference of the values. Raises `Undecided` if the balls do not decide it."""
        return super().sign_of(value_of(a), value_of(b), relation)

    def mean(self, tied: list[Any]) -> Any:
        """The common value, with the mean of the derivatives."""
        if not any(isinstance(x, Jet) for x in tied):
            return tied[0]
        parts = zip(*[x.components[1:] if isinstance(x, Jet) else self._constant_tail for x in tied], strict=True)
        return self.make(value_of(tied[0]), *[ZERO if all(c is ZERO for c in p) else sum(p) / len(tied) for p in parts])

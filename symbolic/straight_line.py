"""Straight-line code: one Python function of the scalar operations of a computation in balls.

Mirrors and rules move arrays of scalars in NumPy. For a few numbers the moves take longer than the arithmetic. So a
frequent computation runs once on `Written` scalars, which note each operation. `Code.function` makes a function that
does the same operations on balls in the same order, and nothing else.

The function is correct for all numbers, because a written scalar has no value on which a rule could branch. Each
comparison raises `NotStraight`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from gtape.declare.primitives import REGISTRY
from gtape.symbolic.balls import mapped, objects
from gtape.symbolic.jets import ZERO, Jet, compose
from gtape.symbolic.mirrors.registry import ARRAYS
from gtape.symbolic.scalars import Template, template
from gtape.symbolic.worlds import BallWorld, JetWorld

__all__ = ["Code", "NotStraight", "Written", "WrittenBalls", "WrittenJets"]

_MOST = 20_000  # operations


class NotStraight(Exception):
    """A computation branches on numbers, or has too many operations."""


def _branches(self: Any, *_: Any) -> Any:
    raise NotStraight("a number decides what is computed")


def _operator(symbol: str, *, swapped: bool = False) -> Callable[..., Any]:
    def operate(self: Written, other: Any) -> Any:
        if isinstance(other, (np.ndarray, Jet)):
            return NotImplemented
        return self.code.operation(symbol, other, self) if swapped else self.code.operation(symbol, self, other)

    return operate


class Written:
    """The result of one operation of a `Code`, in place of a ball."""

    __slots__ = ("code", "place")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, code: Code, place: int) -> None:
        self.code, self.place = code, place

    __add__, __radd__ = _operator("+"), _operator("+", swapped=True)
    __sub__, __rsub__ = _operator("-"), _operator("-", swapped=True)
    __mul__, __rmul__ = _operator("*"), _operator("*", swapped=True)
    __truediv__, __rtruediv__ = _operator("/"), _operator("/", swapped=True)
    __bool__ = __float__ = __int__ = __index__ = _branches
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _branches

    def __neg__(self) -> Written:
        return self.code.line(f"-{self}", self)

    def __abs__(self) -> Written:
        return self.code.line(f"abs({self})", self)

    def __pow__(self, n: Any) -> Written:
        if n.__class__ is not int:
            raise NotStraight("a power that is no integer")
        return self.code.line(f"{self} ** {n}", self)

    def __str__(self) -> str:
        return f"v{self.place}"


class Code:
    """The operations of a computation of scalars.

    Examples
    --------
    >>> from flint import arb
    >>> code = Code()
    >>> x, y = code.inputs(2)
    >>> code.function([x * y + x])([arb(2), arb(3)])
    [8.00000000000000]
    """

    def __init__(self) -> None:
        self.count = 0
        self.lines: list[tuple[str, tuple[Written, ...]]] = []
        self.known: dict[str, Written] = {}
        self.namespace: dict[str, Any] = {}
        self._names: dict[Any, str] = {}
        self._kept: list[Any] = []  # objects whose id is a key of `_names`
        self.worlds: list[Any] = []  # the worlds that write into this code

    def __enter__(self) -> Code:
        return self

    def __exit__(self, *exc: object) -> None:
        """Drop the results and worlds. They refer back to the code, and cycles would be left to the collector."""
        for kept in (self.lines, self.known, self._kept, *[vars(world) for world in self.worlds], self.worlds):
            kept.clear()

    def inputs(self, count: int) -> list[Written]:
        """The arguments of the function. Called once, before all operations."""
        if count > _MOST:
            raise NotStraight("too many arguments")
        self.count = count
        self.lines = [("", ())] * count
        return [Written(self, i) for i in range(count)]

    def line(self, text: str, *operands: Written) -> Written:
        """The result of an operation. Equal text has the same result."""
        made = self.known.get(text)
        if made is None:
            if len(self.lines) - self.count >= _MOST:
                raise NotStraight("too many operations")
            made = self.known[text] = Written(self, len(self.lines))
            self.lines.append((text, operands))
        return made

    def operation(self, symbol: str, a: Any, b: Any) -> Any:
        """The result of an operator with at least one written operand."""
        if symbol == "+":
            if a is ZERO:
                return b
            if b is ZERO:
                return a
        return self.line(f"{self.text(a)} {symbol} {self.text(b)}", *[v for v in (a, b) if v.__class__ is Written])

    def calls(self, function: Callable[..., Any], count: int, *xs: Any) -> Any:
        """The result of a function of balls. A tuple of `count` results if there are several."""
        arguments = ", ".join(map(self.text, xs))
        text = f"{self._named('f', function)}({arguments})"
        whole = self.line(text, *[x for x in xs if x.__class__ is Written])
        return whole if count == 1 else tuple([self.line(f"{whole}[{i}]", whole) for i in range(count)])

    def text(self, x: Any) -> str:
        """A scalar in the code: a result, or a number that is known exactly."""
        if x.__class__ is Written:
            return str(x)
        if isinstance(x, (int, np.integer)):
            return f"({int(x)})"
        if x.__class__ is arb and x.is_exact():
            return self._named("k", x)
        raise NotStraight(f"a scalar of type {type(x).__name__}")

    def _named(self, letter: str, x: Any) -> str:
        name = self._names.get(id(x))
        if name is None:
            name = self._names[id(x)] = f"{letter}{len(self._kept)}"
            self._kept.append(x)
            self.namespace[name] = x
        return name

    def function(self, results: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
        """The function that takes a list of inputs and returns a list of results, without unneeded operations.

        Integers among the results become balls.
        """
        results = [x if x.__class__ is Written else arb(x) for x in results]
        wanted, pending = set(), [x for x in results if x.__class__ is Written]
        while pending:
            place = pending.pop().place
            if place not in wanted:
                wanted.add(place)
                pending.extend(self.lines[place][1])
        lines = [f"    v{i} = {text}" for i, (text, _) in enumerate(self.lines) if text and i in wanted]
        taken = "".join([f"v{i}, " for i in range(self.count)])
        head = ["def straight(xs):", *([f"    {taken}= xs"] if self.count else [])]
        source = "\n".join([*head, *lines, f"    return [{', '.join(map(self.text, results))}]"])
        exec(compile(source, "<straight line>", "exec"), self.namespace)
        made: Callable[[list[Any]], list[Any]] = self.namespace["straight"]
        return made


def _without_exponents(mirror: Callable[..., Any], arity: int, params: dict[str, Any], kind: str) -> Template:
    """The template of a mirror, if the mirror computes the same for all numbers."""
    made = template(mirror, arity, params, kind)
    if kind != "arb" or made.boolean or made.exponents:
        raise NotStraight("a mirror that looks at its arguments")
    return made


class _World(BallWorld):
    """The common part of both worlds of written scalars."""

    code: Code

    def _arraywise(self, name: str) -> Callable[..., Any]:
        home = ARRAYS[name].__module__
        own = home.startswith(_OWN) and (home.removeprefix(_LINALG) in _PLAIN or not home.startswith(_LINALG))
        if not (own and REGISTRY[name].differentiable):
            raise NotStraight(f"the mirror of {name} may look at its arguments")
        return super()._arraywise(name)

    def _matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return objects(np.matmul(a, b))

    def sign_of(self, a: Any, b: Any, relation: str) -> int:
        raise NotStraight("a comparison")

    def _holds_in(self, a: np.ndarray, b: np.ndarray, relation: str) -> np.ndarray:
        raise NotStraight("a comparison")

    def holds(self, a: Any, b: Any, relation: str) -> bool:
        raise NotStraight("a comparison")


# Most mirrors of linear algebra, and mirrors from outside gtape, may test the type of a scalar.
_OWN, _LINALG = "gtape.symbolic.mirrors.", "gtape.symbolic.mirrors.linalg"
_PLAIN = (".diagonal", ".matmul", ".matrix_products")


class WrittenBalls(_World):
    """The world of written scalars."""

    def __init__(self, code: Code) -> None:
        self.code = code
        code.worlds.append(self)

    def scalar_function(
        self, mirror: Callable[..., Any], arity: int, params: dict[str, Any], kind: str = "arb"
    ) -> tuple[Callable[..., Any], bool]:
        made = _without_exponents(mirror, arity, params, kind)
        return partial(self.code.calls, made.balls, 1), False


class WrittenJets(_World, JetWorld):
    """The world of jets in one direction with written components."""

    def __init__(self, code: Code) -> None:
        super().__init__(1)
        self.code = code
        code.worlds.append(self)

    @property
    def plain(self) -> BallWorld:
        return WrittenBalls(self.code)

    def jet(self, value: Any, *tangents: Any) -> np.ndarray:
        """Values with tangents. Each tangent counts as different from 0."""
        return mapped(self.make, value, tangents[0])

    def component(self, x: Any, directions: int) -> np.ndarray:
        def pick(e: Any) -> Any:
            return e.components[directions] if isinstance(e, Jet) else ZERO if directions else e

        return mapped(pick, objects(x))

    def scalar_function(
        self, mirror: Callable[..., Any], arity: int, params: dict[str, Any], kind: str = "arb"
    ) -> tuple[Callable[..., Any], bool]:
        made = _without_exponents(mirror, arity, params, kind)

        def apply(*xs: Any) -> Any:
            active = tuple([i for i, x in enumerate(xs) if isinstance(x, Jet)])
            values = [x.components[0] if isinstance(x, Jet) else x for x in xs]
            if not active:
                return self.code.calls(made.balls, 1, *values)
            partials = self.code.calls(made.jets(active, 1, ()), 1 + len(active), *values)
            return compose(1, len(active))(partials, *[xs[i].components for i in active])

        return apply, False

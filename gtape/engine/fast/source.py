"""Rules compiled to Python source, in a world that writes the primitives that a rule calls instead of computing.

A backward step is then one Python function of kernels and operators, and the derivative has one definition only.
`gtape.engine.fast.elementwise` writes steps for operands of any common shape. `gtape.engine.fast.steps` writes steps
for operands of known shapes, because the rules of other ops decide by shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

import numpy as np

from gtape.base.layout import FLOAT
from gtape.base.shown import shown
from gtape.declare.formula import parts_of
from gtape.declare.primitives import Primitive
from gtape.engine.rules import absorb_zeros
from gtape.engine.worlds import NUMPY, named, off_python

__all__ = ["Expression", "Untraceable", "Writer", "kernel_for"]


class Untraceable(TypeError):
    """A rule depends on values, so it cannot be compiled."""


def _with(kernel: Callable[..., Any], params: dict[str, Any]) -> Callable[..., Any]:
    return lambda *args: kernel(*args, **params)


def kernel_for(prim: Primitive, operands: Any, params: dict[str, Any]) -> Callable[..., Any]:
    """The kernel of a primitive for operands of one layout, without parameters.

    Parameters
    ----------
    operands : sequence of Layout or array
        Only the shapes and dtypes of the operands are used.
    params : dict
        The static parameters.

    Returns
    -------
    callable
        A function of raw values only.
    """
    planned = getattr(prim.kernel, "planned", None)
    if planned is None and not params:
        return prim.kernel
    made: Any = planned(*operands, **params) if planned is not None else _with(prim.kernel, params)
    if made.__class__ is FunctionType:
        made.__name__ = prim.name  # tracebacks and checks show the name
    return made  # type: ignore[no-any-return]


class Expression:
    """A value in a rule that is being compiled: its expression, and a sample if shapes are known."""

    __slots__ = ("name", "notes", "parts", "uses", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, notes: Writer, parts: list[Any], value: Any, name: str | None = None) -> None:
        self.notes = notes
        self.parts = parts
        self.value = value
        self.name = name
        self.uses = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return () if self._sample().__class__ is float else self.value.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return FLOAT.dtype if self._sample().__class__ is float else self.value.dtype

    def _sample(self) -> Any:
        if self.value is None:
            raise Untraceable("a rule asks for a shape or a dtype")
        return self.value

    def absorbed(self, xp: Any, g: Expression) -> Expression:
        """The source of `gtape.engine.rules.absorb_zeros`."""
        return self.notes.hold(g, self)

    def _refuse(self, *_: Any) -> Any:
        raise Untraceable("a rule compares or indexes values, or takes a power or a magnitude by an operator")

    __bool__ = __float__ = __int__ = __index__ = __iter__ = __len__ = __getitem__ = __array__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __pow__ = __abs__ = _refuse

    def __add__(self, o: Any) -> Expression:
        return self.notes.infix("+", self, o)

    def __radd__(self, o: Any) -> Expression:
        return self.notes.infix("+", o, self)

    def __sub__(self, o: Any) -> Expression:
        return self.notes.infix("-", self, o)

    def __rsub__(self, o: Any) -> Expression:
        return self.notes.infix("-", o, self)

    def __mul__(self, o: Any) -> Expression:
        return self.notes.infix("*", self, o)

    def __rmul__(self, o: Any) -> Expression:
        return self.notes.infix("*", o, self)

    def __truediv__(self, o: Any) -> Expression:
        return self.notes.infix("/", self, o)

    def __rtruediv__(self, o: Any) -> Expression:
        return self.notes.infix("/", o, self)

    def __neg__(self) -> Expression:
        return self.notes.note(["-", self], None if self.value is None else -self.value)


_INFIX: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


class Writer:
    """The world in which the rules of `user` are compiled.

    Parameters
    ----------
    user : Primitive
        The primitive whose rules are compiled. Each primitive that the rules call lists `user` in its `users`, because
        a kernel may be swapped.
    scalars : bool
        Whether the values are Python floats. If so, the source calls `Primitive.scalar` of primitives that have one.
    """

    # The source that loads the value of an input of a record, after the name of the input.
    load = "._value"

    def __init__(self, user: Primitive, *, scalars: bool = False) -> None:
        self._user = user
        self._scalars = scalars
        self._lines: list[str] = []
        self._names: dict[str, Any] = {}

    def value(self, name: str, sample: Any = None) -> Expression:
        """An argument or a loaded input of the function."""
        return Expression(self, [], sample, name)

    def bound(self, value: Any) -> str:
        """A new name in the source for a kernel or an array."""
        name = f"k{len(self._names)}"
        self._names[name] = value
        return name

    def note(self, parts: list[Any], value: Any) -> Expression:
        """A new value, from the parts of its expression and its sample."""
        if value is not None and value.__class__ is not float and not isinstance(value, (np.ndarray, np.generic)):
            raise Untraceable("a rule calls a primitive with several results")
        for p in parts:
            if p.__class__ is Expression:
                p.uses += 1
        return Expression(self, parts, value)

    def infix(self, sign: str, a: Any, b: Any) -> Expression:
        """The source of an operator on two values, or on a value and a number."""
        x, y = [v.value if v.__class__ is Expression else v for v in (a, b)]
        made = None if x is None or y is None else _INFIX[sign](x, y)
        return self.note([self._operand(a, b), f" {sign} ", self._operand(b, a)], made)

    def hold(self, g: Expression, c: Expression) -> Expression:
        """The value of `gtape.engine.rules.absorb_zeros`."""
        if self._scalars:
            return self.note([c, " if ", c, " == ", c, " or ", g, " else 0.0"], c.value)
        return self.note([f"{self.bound(absorb_zeros)}({self.bound(NUMPY)}, ", g, ", ", c, ")"], c.value)

    def _operand(self, x: Any, other: Any) -> Any:
        if x.__class__ is Expression:
            return x
        if not isinstance(x, (int, float)) or isinstance(x, bool):
            raise Untraceable(f"a rule may use integers and the constants of the namespace, not {shown(x)}")
        sample = other.value
        if sample is not None and sample.__class__ is not float and sample.dtype.kind == "f":
            return self.bound(np.full((), x, sample.dtype))  # NumPy handles its own numbers faster than Python's
        return repr(x)

    def __getattr__(self, name: str) -> Any:
        prim = named(name)
        if isinstance(prim, float):
            return prim

        def call(*args: Any, **params: Any) -> Expression:
            for a in args:
                if a.__class__ is not Expression and (not isinstance(a, (int, float)) or isinstance(a, bool)):
                    raise Untraceable(f"a rule passes {shown(a)} to {name}")
            prim.users.add(self._user)
            values = [a.value if a.__class__ is Expression else a for a in args]
            # NumPy's floats, because kernels of arrays accept Python floats, while the functions of the world refuse
            # them.
            lifts = prim.kind != "elementwise" and "selection" not in prim.roles
            lifts = lifts and all(a.__class__ is Expression and a.value is not None for a in args)
            kernel, made = self._called(prim, [off_python(v) for v in values] if lifts else values, params)
            if len(args) == 1 and args[0].__class__ is Expression:
                parts = parts_of(kernel, args[0], self.bound)
                if parts is not None:
                    return self.note(parts, made)
            words: list[Any] = [f"{self.bound(kernel)}("]
            for a, v in zip(args, values, strict=True):
                word = a if a.__class__ is Expression else repr(a)
                words += [self.bound(np.float64), "(", word, "), "] if lifts and v.__class__ is float else [word, ", "]
            words[-1] = words[-1][:-2]
            return self.note([*words, ")"], made)

        return call

    def _called(self, prim: Primitive, values: list[Any], params: dict[str, Any]) -> tuple[Callable[..., Any], Any]:
        """The function to call, and its result for the samples."""
        if all(isinstance(v, (np.ndarray, np.generic)) for v in values):
            kernel = kernel_for(prim, values, params)
            return kernel, kernel(*values)
        kernel = prim.scalar if self._scalars and prim.scalar is not None else getattr(NUMPY, prim.name)
        if params:
            kernel = _with(getattr(NUMPY, prim.name), params)
        return kernel, None if any(v is None for v in values) else kernel(*values)

    def _written(self, x: Expression) -> str:
        """The expression of a value. Values used once are nested inside, so that NumPy can reuse their memory."""
        words = []
        for p in x.parts:
            if p.__class__ is not Expression:
                words.append(p)
            elif p.name is None and p.uses == 1:
                words.append(f"({self._written(p)})")
            else:
                words.append(self._named(p))
        return "".join(words)

    def _named(self, x: Expression) -> str:
        if x.name is None:
            text = self._written(x)
            x.name = f"v{len(self._lines)}"
            self._lines.append(f"{x.name} = {text}")
        return x.name

    def function(self, loads: Iterable[str], results: list[Expression], file: str) -> Any:
        """The function ``step(g, ins, out)`` that computes `results` after the lines `loads`."""
        if not all(r.__class__ is Expression for r in results):
            raise Untraceable("a rule makes something else than a value")
        for r in results:
            r.uses += 1
        # The result of arithmetic is a new array. If nothing else uses the array, the sweep may overwrite it.
        fresh = tuple([r.name is None and r.uses == 1 and _is_arithmetic(r.parts) for r in results])
        texts = [self._written(r) if r.name is None and r.uses == 1 else self._named(r) for r in results]
        answer = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
        body = "".join(f"    {line}\n" for line in [*loads, *self._lines])
        exec(compile(f"def step(g, ins, out):\n{body}    return {answer}\n", file, "exec"), self._names)
        made: Any = self._names["step"]
        made.fresh = fresh
        return made


def _is_arithmetic(parts: list[Any]) -> bool:
    """Whether an expression is an operation with a Python operator, which makes a new array."""
    if len(parts) == 2:
        return parts[0].__class__ is str and parts[0] == "-"
    return len(parts) == 3 and parts[1].__class__ is str and parts[1].strip() in _INFIX

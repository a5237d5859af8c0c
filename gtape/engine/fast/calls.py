"""A rule in the tape world as a list of the ops that it calls, and as a function that calls them.

In the tape world a rule calls the functions of tensors, which record. One run of the rule on samples notes these calls,
with tensors for the numbers in the rule. So the function makes the same records as the rule.
`gtape.engine.fast.inlined` replaces the calls by their kernels and records.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gtape.declare.primitives import REGISTRY, Primitive
from gtape.engine.fast.source import Expression, Untraceable
from gtape.engine.rules import absorb_zeros
from gtape.engine.worlds import NUMPY, TAPE, named
from gtape.tensors.tensor import Tensor, as_operand, wrap

__all__ = ["Call", "Calls", "bound"]

# For each operator in the source of a rule: the primitive and the function of values.
_SIGNS: dict[str, tuple[Callable[[], Primitive], Callable[[Any, Any], Any]]] = {
    "+": (lambda: REGISTRY["add"], operator.add),
    "-": (lambda: REGISTRY["subtract"], operator.sub),
    "*": (lambda: REGISTRY["multiply"], operator.mul),
    "/": (lambda: REGISTRY["divide"], operator.truediv),
}


class Call(NamedTuple):
    """One call of a rule.

    Attributes
    ----------
    name : str
        The name of the result.
    prim : Primitive or None
        None for `gtape.engine.rules.absorb_zeros`, whose operands are the cotangent and its product with a slope.
    operands : tuple
        Names of values, and tensors for the rule's numbers.
    params : dict
    """

    name: str
    prim: Primitive | None
    operands: tuple[str | Tensor, ...]
    params: dict[str, Any]


class Calls:
    """The world in which a rule of `user` becomes a list of calls of functions of tensors."""

    # The source that loads the value of an input, after the name of the input.
    load = ""

    def __init__(self, user: Primitive) -> None:
        self._user = user
        self.calls: list[Call] = []
        self.samples: dict[str, Any] = {}

    def value(self, name: str, sample: Any) -> Expression:
        """An argument or a loaded input of the function."""
        self.samples[name] = sample
        return Expression(self, [], sample, name)  # type: ignore[arg-type]

    def _called(self, prim: Primitive | None, operands: list[Any], params: dict[str, Any], sample: Any) -> Expression:
        if sample.__class__ is not float and not isinstance(sample, (np.ndarray, np.generic)):
            raise Untraceable("a rule calls a primitive with several results")
        if prim is not None:
            if "selection" in prim.roles:
                raise Untraceable("a rule selects elements")
            prim.users.add(self._user)
        like = next((v for v in operands if v.__class__ is Expression), None)
        name = f"v{len(self.calls)}"
        self.calls.append(Call(name, prim, tuple([self._operand(v, like) for v in operands]), params))
        return self.value(name, sample)

    def _operand(self, v: Any, like: Any) -> Any:
        if v.__class__ is Expression:
            return v.name
        if not isinstance(v, (int, float)) or isinstance(v, bool):
            raise Untraceable("a rule may use integers and the constants of the namespace")
        return as_operand(v, wrap(like.value))

    def infix(self, sign: str, a: Any, b: Any) -> Expression:
        """The call of an operator on two values, or on a value and a number."""
        found, compute = _SIGNS[sign]
        sample = compute(*[v.value if v.__class__ is Expression else v for v in (a, b)])
        return self._called(found(), [a, b], {}, sample)

    def note(self, parts: list[Any], value: Any) -> Expression:
        """The call of the negative of a value."""
        return self._called(REGISTRY["negative"], [parts[1]], {}, value)

    def hold(self, g: Expression, c: Expression) -> Expression:
        """The call of `gtape.engine.rules.absorb_zeros`."""
        return self._called(None, [g, c], {}, c.value)

    def __getattr__(self, name: str) -> Any:
        prim = named(name)
        if isinstance(prim, float):
            return prim

        def call(*args: Any, **params: Any) -> Expression:
            sample = getattr(NUMPY, name)(*[a.value if a.__class__ is Expression else a for a in args], **params)
            return self._called(prim, list(args), params, sample)

        return call

    def function(self, loads: list[str], results: list[Expression], names: dict[str, Any], file: str) -> Any:
        """The function ``step(g, record)`` of tensors that returns the cotangents as a tuple.

        Parameters
        ----------
        loads : list of str
            The lines that load the values that the rule reads.
        results : list of Expression
        names : dict
            The values of the names in `loads`. Gains the names of the calls.
        file : str
            The file name for tracebacks.
        """
        if not all(r.__class__ is Expression for r in results):
            raise Untraceable("a rule makes something else than a value")
        lines = [*loads]
        for call in self.calls:
            words = [v if v.__class__ is str else bound(names, v) for v in call.operands]
            words += [f"{k}={bound(names, v)}" for k, v in call.params.items()]
            if call.prim is None:
                function = bound(names, absorb_zeros)
                words = [bound(names, TAPE), *words]
            else:
                function = bound(names, call.prim.function)
            lines.append(f"{call.name} = {function}({', '.join(words)})")
        body = "".join(f"    {line}\n" for line in lines)
        answer = "".join(f"{r.name}, " for r in results)
        exec(compile(f"def step(g, record):\n{body}    return ({answer})\n", file, "exec"), names)
        return names["step"]


def bound(names: dict[str, Any], value: Any) -> str:
    """A new name in the source for a function, a tensor or a number."""
    name = f"k{len(names)}"
    names[name] = value
    return name

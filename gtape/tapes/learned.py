"""Facts about ops and rules on operands of one kind, by which a tracer notes later ops faster.

The way an op calls its kernel, and the calls that a rule makes, depend only on shapes and dtypes, unless there is a
guard. So later operands with the shapes and dtypes of the first operands lead to the same calls.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["PLAIN", "Op", "Rule", "distinct", "rule_of"]

# The types of keyword arguments for which a call may be repeated unchanged.
PLAIN = (int, bool, str, type(None), tuple)

# Operators of two numbers or one, which need no context for Python floats.
_OPERATORS = frozenset({operator.add, operator.sub, operator.mul, operator.truediv, operator.neg})


class Op:
    """The way an op calls its kernel.

    Attributes
    ----------
    function : callable
    text : str or None
    layout : Layout
        Of the traced result.
    kind : type
        The class of the result of the function.
    finishes : bool
        Whether the result becomes a Python float.
    lifted : bool
        Whether Python floats go to the kernel as NumPy scalars.
    bare : bool
        Whether the function takes Python floats and needs no context.
    quick : bool
        Whether the eager op is recorded by the generated function of an elementwise op.
    plain : bool
        Whether no operand is complex or of half precision.
    steps : dict of int to (step, sequence of bool or None, bool)
        By the operands that are recorded, as bits: the backward step of the record (None for an op that is recorded in
        another way), the operands that the record keeps, and whether it keeps the result.
    """

    __slots__ = ("bare", "finishes", "function", "kind", "layout", "lifted", "plain", "quick", "steps", "text")

    def __init__(self, function: Any, text: str | None, layout: Any, kind: Any) -> None:
        self.function, self.text, self.layout, self.kind = function, text, layout, kind
        self.bare = kind is float
        self.lifted = self.quick = self.plain = self.finishes = False
        self.steps: dict[int, Any] = {}


class Rule:
    """The calls that a rule makes, with numbers for operands. The rule's arguments come first, then earlier results.

    Attributes
    ----------
    calls : list of (function, operands, constants, words, text, bare)
        A negative operand counts the constants from the end. `bare` calls operators of Python floats.
    results : list of int
    """

    __slots__ = ("calls", "results")

    def __init__(self, calls: list[Any], results: list[int]) -> None:
        self.calls, self.results = calls, results


def distinct(value: Any) -> Any:
    """The same constant as another object, so that the tracer can tell it from equal ones among the operands of calls.

    An array keeps its memory order, because BLAS rounds otherwise in another order.
    """
    if value.__class__ is float:
        return value * 1.0
    return value.view() if value.__class__ is np.ndarray else value.copy()


def rule_of(given: Sequence[Any], nodes: Sequence[Any], results: Sequence[Any]) -> Rule | None:
    """The `Rule` of a rule that was run.

    Parameters
    ----------
    given : sequence
        The arguments of the rule: nodes, constants that occur only once, and None.
    nodes : sequence of Node
        The nodes that the rule noted.
    results : sequence of Node

    Returns
    -------
    Rule or None
        None if the calls may depend on values.
    """
    places = {id(x): k for k, x in enumerate(given) if x is not None}
    folds = any(isinstance(x, (float, np.generic, np.ndarray)) for x in given)
    calls: list[Any] = []
    for node in nodes:
        if node.guards or node.sample.__class__ is tuple:
            return None
        operands, constants = [], []
        for a in node.args:
            k = places.get(id(a))
            if k is None:
                if a.__class__ is node.__class__ or a.__class__ is list or (folds and a.__class__ not in PLAIN):
                    return None
                constants.append(a)
                k = -len(constants)
            operands.append(k)
        if any([v.__class__ not in PLAIN for v in node.words.values()]):  # noqa: C419 - a list is quicker
            return None
        places[id(node)] = len(given) + len(calls)
        values = [node.sample, *[a.sample if a.__class__ is node.__class__ else a for a in node.args]]
        bare = node.function in _OPERATORS and not node.words and all(v.__class__ is float for v in values)
        calls.append((node.function, operands, constants[::-1], node.words, node.text, bare))
    found = [places.get(id(r)) for r in results]
    return None if None in found else Rule(calls, found)  # type: ignore[arg-type]

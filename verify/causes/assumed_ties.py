"""Names the ops that compare numbers which no precision parts, and the elements that count as equal."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from gtape.base.counts import counted
from gtape.base.escaping import place_text
from gtape.symbolic.balls import objects, ties_assumed
from gtape.symbolic.program import Node, Program
from gtape.verify.oracles.backward import by_rule
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.verdicts.verdict import Finding

__all__ = ["taken_as_ties"]

_FEW = 3  # pairs, and further ops, that a reason names


def taken_as_ties(program: Program, order: int, bits: int) -> Finding:
    """The finding for numbers that were taken as ties, with the first op that compares some, and their elements.

    Call it at the precision of the comparison. The program runs again op by op, because the numbers that a whole
    computation notes say nothing about the op.

    Parameters
    ----------
    order : int
        The order of the derivative.
    bits : int
        The precision in force.
    """
    agreed = f"agree to {bits // 3} bits and were taken as ties"
    met = _ops_at_ties(program)
    if not met:
        reason = f"two numbers that the derivative compares {agreed}"
        return Finding("convention", order=order, inside=True, reason=reason, cause="ties")
    node, pairs = met[0]
    told = list(dict.fromkeys(pairs))
    more = len(told) - _FEW
    words = "; ".join(told[:_FEW]) + (f"; and {counted(more, 'more pair')}" if more > 0 else "")
    reason = f"{node.name} compares numbers that {agreed}: {words}"
    others = list(dict.fromkeys([(n.name, n.line) for n, _ in met]))[1:]
    if others:
        named = [name if line is None else f"{name} ({place_text(line)})" for name, line in others[:_FEW]]
        rest = [f"{len(others) - _FEW} more"] if len(others) > _FEW else []
        reason += f". The same holds for {', '.join([*named, *rest])}"
    return Finding("convention", order=order, at=node, inside=True, reason=reason, cause="ties")


def _ops_at_ties(program: Program) -> list[tuple[Node, list[str]]]:
    """Each op that compares numbers which count as equal, in its value or in its rule, with the pairs in words."""
    env: dict[int, Any] = {}
    found = list[tuple[Node, list[str]]]()
    for node in program.nodes:
        with ties_assumed() as noted:
            try:
                env[node.index] = program.step(BALLS, node, env)
                if node.kind == "op" and node.active and is_floating(node.output):
                    with contextlib.suppress(ArithmeticError):
                        _run_rule(program, node, env)
            except (ArithmeticError, ValueError, TypeError, IndexError, KeyError):
                break  # the values after this op are not known
        if noted and node.kind == "op":
            places = _places(node, [env[j] for j in node.inputs])
            found.append((node, [words for a, b in noted for words in _in_words(places, a, b)]))
    return found


def _run_rule(program: Program, node: Node, env: dict[int, Any]) -> None:
    """Run the rule of an op for cotangents of ones."""
    y = env[node.index]
    g = tuple([_ones(v) for v in y]) if isinstance(y, tuple) else _ones(y)
    by_rule(BALLS, node, g, y, [env[j] for j in node.inputs], [program.nodes[j].output for j in node.inputs])


def _ones(v: Any) -> Any:
    return objects(BALLS.lift(np.ones(np.shape(v))))


def _places(node: Node, inputs: list[Any]) -> dict[int, list[str]]:
    """The identity of each number among the inputs of an op -> its places in words; equal floats may be one number."""
    found: dict[int, list[str]] = {}
    for a, x in enumerate(inputs):
        of = f" of argument {a}" if len(node.inputs) > 1 else ""
        if isinstance(x, tuple) or np.asarray(x).dtype != object:
            continue
        for index, e in np.ndenumerate(objects(x)):
            place = f"element {list(index)}{of}" if index else f"argument {a}" if of else "the argument"
            found.setdefault(id(e), []).append(place)
    return found


def _in_words(places: dict[int, list[str]], a: Any, b: Any) -> list[str]:
    """The pairs of places, or of a place and a number, that two equal numbers stand for."""
    firsts, seconds = sorted([places.get(id(e)) or [_number(e)] for e in (a, b)])
    if len(firsts) != len(seconds):
        most = max(len(firsts), len(seconds))
        firsts, seconds = [(some * most)[:most] for some in (firsts, seconds)]
    return [f"{first} and {second}" for first, second in zip(firsts, seconds, strict=True)]


def _number(e: Any) -> str:
    return str(e) if isinstance(e, int) else f"the number {float(e):.6g}"

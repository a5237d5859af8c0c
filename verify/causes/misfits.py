"""Rules that raise an error, or give a cotangent of another shape or dtype than their argument.

No number of such a rule can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gtape.base.layout import make_layout
from gtape.engine.rules import PartialOutputs, RuleStep, cotangents, world_for
from gtape.symbolic.balls import objects
from gtape.symbolic.program import Node, Program
from gtape.verify.oracles.backward import by_rule, by_user
from gtape.verify.oracles.enclosures import BALLS
from gtape.verify.verdicts.verdict import Finding

__all__ = ["misfits", "mistyped"]


def misfits(program: Program, order: int = 1) -> list[Finding]:
    """A finding for each op of a program with a rule that raises, or gives a wrong shape, at the recorded numbers.

    Parameters
    ----------
    program : Program
    order : int
        The order of the findings.
    """
    found = []
    for node in program.nodes:
        if node.kind not in ("op", "custom") or not node.active:
            continue
        why = next(_faults(program, node) if node.kind == "op" else _faults_of_shape(program, node), None)
        if why is not None:
            found.append(_finding(node, why, order, "the rule gives no number to compare"))
        elif node.kind == "custom":
            found += _mistyped(node, order)
    return found


def mistyped(program: Program, order: int = 1) -> list[Finding]:
    """A finding for each custom gradient whose last call returned another dtype than that of its input.

    Parameters
    ----------
    program, order
        As for `misfits`.
    """
    return [f for node in program.nodes if node.kind == "custom" for f in _mistyped(node, order)]


def _mistyped(node: Node, order: int) -> list[Finding]:
    """The finding for a custom gradient whose last call returned a wrong dtype, in a list; an empty list for others."""
    why = next((why for a in node.active if (why := node.step.misfit(a)) is not None), None)
    if why is None:
        return []
    made = _finding(node, why, order, "the dtype is wrong at every point")
    made.instead = "return a gradient of the input's dtype"
    return [made]


def _finding(node: Node, why: str, order: int, without_witness: str) -> Finding:
    made = Finding("rule", order=order, op=node.name, line=node.line, reason=why)
    made.without_witness = without_witness
    return made


def _faults(program: Program, node: Node) -> Iterator[str]:
    """Describe the faults of the rules of a node."""
    prim = node.prim
    # Arrays, because a rule may read the shape, which a number does not have.
    xs = tuple([np.asarray(program.nodes[i].output) for i in node.inputs])
    layouts = tuple([_layout(x) for x in xs])
    several = isinstance(node.output, (tuple, list))
    parts = tuple([np.asarray(p) for p in (node.output if several else (node.output,))])
    outs = tuple([_layout(p) for p in parts])
    world = world_for(prim, layouts)
    for i in node.active:
        if prim.variadic or not callable(prim.rules[i]):
            continue
        step = RuleStep(prim, (i,), node.params, layouts, outs if several else outs[0])
        # A Jacobian pulls back several cotangents at once, along a leading axis.
        for lead in ((), (7,)) if prim.batched and not several else ((),):
            gs = [np.ones((*lead, *o.shape), o.dtype) for o in outs]
            try:
                with np.errstate(all="ignore"):
                    made = cotangents(
                        world, step, tuple(gs) if several else gs[0], parts if several else parts[0], xs,
                        layouts=layouts, out_shape=() if several else outs[0].shape, batch=bool(lead),
                    )[0]  # fmt: skip
            except Exception as e:  # any error, because the rule may be anything
                yield f"the rule of {node.name} for argument {i} raises {type(e).__name__}: {e}"
                continue
            shape = getattr(made, "shape", None)
            if isinstance(shape, tuple) and shape != (*lead, *layouts[i].shape):
                yield (
                    f"the rule of {node.name} gives a cotangent of shape {list(shape[len(lead) :])} for argument {i}, "
                    f"whose shape is {list(layouts[i].shape)}"
                )
            elif getattr(made, "dtype", layouts[i].dtype).kind == "c" and not layouts[i].complex:
                yield f"the rule of {node.name} gives a complex cotangent for argument {i}, which is real"
    why = _raised_exactly(node, xs)
    if why is not None:
        yield f"in exact arithmetic, the rule of {node.name} raises {why}"


def _raised_exactly(node: Node, xs: tuple[Any, ...]) -> str | None:
    """The error of a rule that floats can run, and balls cannot: an order that has no mirror, a function of NumPy's."""
    several = isinstance(node.output, tuple)
    y: Any = tuple([BALLS.lift(o) for o in node.output]) if several else BALLS.lift(node.output)
    ones = [objects(BALLS.lift(np.ones_like(v))) for v in PartialOutputs.of(node.output).values()]
    try:
        by_rule(BALLS, node, tuple(ones) if several else ones[0], y, [BALLS.lift(x) for x in xs], xs)
    except ArithmeticError:  # another precision may decide
        return None
    except Exception as e:  # any error, because the rule may be anything
        return f"{type(e).__name__}: {e}"
    return None


def _faults_of_shape(program: Program, node: Node) -> Iterator[str]:
    """Describe the wrong shapes of a custom gradient; an error of the user's function stays itself."""
    run = node.step.recorded
    if run is None:
        outs = node.output if isinstance(node.output, tuple) else (node.output,)
        ones = PartialOutputs({k: np.ones(np.shape(o)) for k, o in enumerate(outs)})
        made = by_user(node, ones if len(outs) > 1 else ones.parts[0])
    else:  # without another call
        made = [None if run.made[a] is None else np.asarray(run.made[a]._value) for a in node.active]
    for a, c in zip(node.active, made, strict=True):
        wanted = program.nodes[node.inputs[a]].shape
        if isinstance(c, (np.ndarray, np.generic, float)) and np.shape(c) != wanted:
            yield (
                f"the gradient that {node.name} returns for input {a} has shape {np.shape(c)}, and the input has shape "
                f"{wanted}"
            )


def _layout(x: Any) -> Any:
    x = np.asarray(x)
    return make_layout(x.dtype, x.shape)

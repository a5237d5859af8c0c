"""What the gradient of a custom gradient owes to the rounding of values that its body saved as arrays or numbers.

A body may save its result by ``.numpy()``, as a hyperbolic tangent does for ``1 - s * s``. The saved number is rounded,
and the formula magnifies its half unit. The body runs again with saved numbers that are moved by a unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import nest
from gtape.engine.rules import PartialOutputs
from gtape.recording.record import STEP
from gtape.recording.trace import conversions_made
from gtape.recording.undoing import repeating
from gtape.symbolic.program import Node
from gtape.tapes.tape import GradientTape
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.tensors.variable import Variable
from gtape.verify.oracles.replay import as_recorded
from gtape.verify.verdicts.ulp import same_numbers, spacing, widest

__all__ = ["moves_by_saved"]


def moves_by_saved(program: Any, node: Node, g: Any) -> list[Any] | None:
    """How far the gradient by each active input moves, as arrays or None; None if the body saved no result of an op.

    Parameters
    ----------
    program : Program
    node : Node
        Of a custom gradient.
    g : cotangent of its outputs
    """
    outs = node.output if isinstance(node.output, tuple) else (node.output,)
    parts = PartialOutputs.filled(g, node.output) if isinstance(g, PartialOutputs) else g
    parts = parts if isinstance(parts, tuple) else (parts,)
    given = [as_recorded(p, np.asarray(o)) for p, o in zip(parts, outs, strict=True)]
    try:
        with repeating():
            made, saved = _gradient(program, node, given, {})
            recorded = [_value(v) for v in node.step.rerun([wrap(v) for v in given])]
            if not saved or len(recorded) != len(made) or not all(map(_are_same, recorded, made)):
                return None  # no rounded number was saved, or the function computes other numbers in each call
            moved, _ = _gradient(program, node, given, saved)
    except Exception:
        return None
    return [None if made[a] is None else widest(moved[a]) - widest(made[a]) for a in node.active]


def _gradient(program: Any, node: Node, given: list[Any], held: dict[int, Any]) -> tuple[list[Any], dict[int, Any]]:
    """The gradient of a second call, and the moved numbers that the body saves, by the place of the conversion."""
    function, args, kwargs = node.call
    flat = nest.flatten(list(args))
    with GradientTape(persistent=True, verify=True) as tape:
        session: Any = tape._session
        session.held = held
        fresh = [
            wrap(np.asarray(program.nodes[j].output)) if isinstance(x, (Tensor, Variable)) else x
            for x, j in zip(flat, node.inputs[: len(flat)], strict=True)
        ]
        tape.watch([x for x in fresh if isinstance(x, Tensor) and x._layout.inexact])
        _, back = function(*nest.pack_sequence_as(list(args), fresh), **kwargs)
        made = [_value(v) for v in nest.flatten(back(*[wrap(v) for v in given]))]
    moved = {}
    for k, c in enumerate(conversions_made(session)):
        value = np.asarray(c.value)
        if c.record[STEP] is not None and value.dtype.kind == "f":
            # By a whole unit, because half of one rounds back; towards 0, because 1 may be the largest result.
            moved[k] = (widest(value) - np.sign(widest(value)) * spacing(widest(value), value.dtype)).astype(
                value.dtype
            )
    return made, moved


def _value(v: Any) -> Any:
    return None if v is None else np.asarray(convert_to_tensor(v)._value)


def _are_same(a: Any, b: Any) -> bool:
    return a is b if a is None or b is None else same_numbers(a, b)

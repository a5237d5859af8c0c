"""Shows a program: its outputs in LaTeX, its assignments as text, and a diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from gtape.base.escaping import mermaid_text
from gtape.symbolic.expressions import SymPyWorld

if TYPE_CHECKING:
    from gtape.symbolic.program import Node, Program

__all__ = ["expressions", "latex", "mermaid"]


def _symbols(node: Node, name: str) -> Any:
    shape = np.shape(node.output)
    made = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        made[index] = sp.Symbol(name + "".join(f"_{i}" for i in index), real=True)
    return made


def expressions(program: Program) -> list[Any]:
    """The outputs as SymPy expressions, with one symbol for each element of each input.

    Returns
    -------
    list
        One object array for each output, or the expression itself for a scalar. The branches are those of the
        recording.

    Examples
    --------
    >>> import gtape
    >>> program = gtape.symbolic.trace(lambda x: gtape.sin(x) * x, 0.5)
    >>> program.expr()
    x0*sin(x0)
    """
    values: dict[int, Any] = {}
    samples: dict[sp.Symbol, sp.Rational] = {}
    for k, nodes in enumerate(program.sources):
        for i in nodes:
            node = program.nodes[i]
            values[i] = _symbols(node, f"x{k}")
            recorded = np.asarray(node.output, dtype=np.float64)
            for index in np.ndindex(*recorded.shape):
                samples[values[i][index]] = sp.Rational(float(recorded[index]))
    world = SymPyWorld(samples=samples)
    env = program.evaluate(world, values)
    found = [env[i] for i in program.outputs]
    return [e[()] if isinstance(e, np.ndarray) and not e.ndim else e for e in found]


def latex(program: Program) -> str:
    """The outputs in LaTeX, one line each."""
    lines = []
    for e in expressions(program):
        lines.append(sp.latex(sp.Array(e.tolist()) if isinstance(e, np.ndarray) else e))
    return "\n".join(lines)


def mermaid(program: Program) -> str:
    """The program as a Mermaid flowchart of inputs, constants and ops, with marks on gradient nodes."""
    lines = ["flowchart TD"]
    outputs = set(program.outputs)
    for n in program.nodes:
        label = mermaid_text(n.name if n.kind != "const" else _short(n.output))
        if n.kind == "leaf":
            shape = f'(["x: {list(n.shape)}"])'
        elif n.mark is not None:
            shape = f'{{{{"gradient: {label}"}}}}'
        elif n.index in outputs:
            shape = f'[["{label}"]]'
        else:
            shape = f'["{label}"]'
        lines.append(f"  v{n.index}{shape}")
        lines += [f"  v{i} --> v{n.index}" for i in dict.fromkeys(n.inputs)]
    return "\n".join(lines)


def _short(value: Any) -> str:
    a = np.asarray(value)
    return f"{a:.6g}" if not a.ndim and a.dtype.kind == "f" else f"{a.dtype}{list(a.shape)}"

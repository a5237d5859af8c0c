"""Shows a program: its outputs in LaTeX, its assignments as text, and a diagram."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from gtape.base.escaping import mermaid_text
from gtape.symbolic.balls import mapped, objects
from gtape.symbolic.expressions import SymPyWorld

if TYPE_CHECKING:
    from gtape.symbolic.program import Node, Program

__all__ = ["expressions", "latex", "mermaid"]


def _symbols(node: Node, name: str) -> Any:
    recorded = np.asarray(node.output)
    real = None if recorded.dtype.kind == "c" else True
    made = np.empty(recorded.shape, dtype=object)
    for index in np.ndindex(*recorded.shape):
        made[index] = sp.Symbol(name + "".join(f"_{i}" for i in index), real=real)
    return made


def expressions(program: Program) -> list[Any]:
    """The outputs as SymPy expressions, with one symbol for each element of each input.

    Returns
    -------
    list
        One object array for each output, or the expression itself for a scalar. The branches are those of the
        recording. A symbol for a complex number is not declared real, others are.

    Examples
    --------
    >>> import gtape
    >>> program = gtape.symbolic.trace(lambda x: gtape.sin(x) * x, 0.5)
    >>> program.expr()
    x0*sin(x0)
    >>> gtape.symbolic.trace(lambda z: gtape.math.conj(z) * z, 1 + 2j).expr()
    x0*conjugate(x0)
    """
    values: dict[int, Any] = {}
    samples: dict[sp.Symbol, sp.Expr] = {}
    lifts = SymPyWorld()
    for k, nodes in enumerate(program.sources):
        for i in nodes:
            values[i] = _symbols(program.nodes[i], f"x{k}")
            recorded = lifts.objects(program.nodes[i].output)
            for index in np.ndindex(*recorded.shape):
                samples[values[i][index]] = sp.sympify(recorded[index])
    world = SymPyWorld(samples=samples)
    env: dict[int, Any] = dict(values)
    for node in program.nodes:
        if node.index not in env:
            env[node.index] = world.lift(node.output) if _is_step(program, node) else program.step(world, node, env)
    names = _of_parts(s for s in samples if s.is_real is None)
    found = [objects(env[i]) if _kinds(program.nodes[i]) == {"b"} else world.objects(env[i]) for i in program.outputs]
    return [_mapped(lambda e: sp.sympify(e).subs(names), e) for e in found]


def _is_step(program: Program, node: Node) -> bool:
    """Whether integers or truth values come from other numbers, so that they are constant on the recorded branch."""
    if node.kind != "op":
        return False
    made, given = _kinds(node), set[str]().union(*[_kinds(program.nodes[j]) for j in node.inputs])
    return made == {"b"} or (made <= set("biu") and not given <= set("biu"))


def _kinds(node: Node) -> set[str]:
    """The kinds of the dtypes of the outputs of a node."""
    return {np.asarray(v).dtype.kind for v in (node.output if isinstance(node.output, tuple) else (node.output,))}


def _of_parts(symbols: Iterable[sp.Symbol]) -> dict[Any, Any]:
    """The modulus and the argument of each complex symbol, by its real and imaginary parts."""
    names: dict[Any, Any] = {}
    for z in symbols:
        names[sp.sqrt(sp.re(z) ** 2 + sp.im(z) ** 2)] = sp.Abs(z)
        names[sp.atan2(sp.im(z), sp.re(z))] = sp.arg(z)
    return names


def _mapped(function: Any, values: Any) -> Any:
    made = mapped(function, values)
    return made if made.ndim else made[()]


def latex(program: Program) -> str:
    """The outputs in LaTeX, one line each."""
    return "\n".join(map(_latex, expressions(program)))


def _latex(e: Any) -> str:
    if not isinstance(e, np.ndarray):
        return str(sp.latex(e))
    # SymPy prints no empty Array.
    return str(sp.latex(sp.Array(e.tolist()) if e.size else sp.Matrix(0, 0, [])))


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

"""Counterexamples as Python source that runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from gtape.verify.causes.source_text import IMPORTS, declaring

__all__ = ["counterexample"]


def _array(values: np.ndarray) -> str:
    dtype = "" if values.dtype == np.float64 else f", dtype={str(values.dtype)!r}"
    reshape = "" if np.array(values.tolist()).shape == values.shape else f".reshape({values.shape})"
    return f"np.array({values.tolist()!r}{dtype}){reshape}"


def _parameter(value: Any) -> str:
    return f"np.dtype({value.name!r})" if isinstance(value, np.dtype) else repr(value)


def _at(cell: Any, array: np.ndarray, point: Any) -> str:
    """Source of an array of expressions at a point."""
    found = [sp.sympify(e) for e in array.ravel()]
    real = not cell.complex or all(not e.has(sp.I) and all(s.is_real for s in e.free_symbols) for e in found)
    kind, dtype = (float, np.float64) if real else (complex, np.complex128)
    values = [kind(e.xreplace(point)) for e in found]
    return f"tf.constant({_array(np.array(values, dtype=dtype).reshape(array.shape))})"


def counterexample(cell: Any, identity: Any, point: Any, what: str) -> str:
    """Source that computes the result of a rule at a point where the result is wrong.

    Parameters
    ----------
    cell : Cell
    identity : Identity
        The wrong identity.
    point : mapping of symbols to rational numbers
        Values of the cell's variables and the seeds.
    what : str
        The fault, for the comment on top.
    """
    prim, arguments = cell.prim, identity.arguments
    names = [f"x{i}" for i in range(len(cell.xs))]
    call = ", ".join([*names, *[f"{k}={_parameter(v)}" for k, v in cell.params.items()]])
    which = "argument " + " and ".join(map(str, arguments))
    declared = declaring(prim)
    imports = IMPORTS if declared.startswith(IMPORTS) else "import numpy as np\n"
    lines = [
        f"# {identity.direction} of {prim.name}, {which}: {' '.join(what.split())}",
        *imports.splitlines(),
        "import gtape as tf",
        "from gtape.namespaces.catalogue import load",
        "from gtape.declare.primitives import REGISTRY",
        *declared.removeprefix(IMPORTS).splitlines(),
        "",
        "load()",
    ]
    for name, x in zip(names, cell.xs, strict=True):
        lines.append(f"{name} = {_at(cell, x, point) if x.dtype == object else f'tf.constant({_array(x)})'}")
    chosen = f"[{', '.join(names[i] for i in arguments)}]"
    seeds = ", ".join(_at(cell, s, point) for s in identity.seeds)
    asked = []
    if identity.direction == "jvp":
        asked.append(f"with tf.autodiff.ForwardAccumulator({chosen}, [{seeds}]) as acc:")
        asked.append(f"    y = REGISTRY[{prim.name!r}]({call})")
        asked.append("slopes = acc.jvp(y)")
    else:
        asked += ["with tf.GradientTape() as tape:", f"    tape.watch({chosen})"]
        asked.append(f"    y = REGISTRY[{prim.name!r}]({call})")
        y, g = ("list(y)", f"[{seeds}]") if cell.several else ("y", seeds)
        asked.append(f"slopes = tape.gradient({y}, {chosen}, output_gradients={g})")
    if identity.fault:  # the slopes are right, their own derivative is wrong
        lines += ["with tf.GradientTape() as outer:", f"    outer.watch({chosen})", *[f"    {line}" for line in asked]]
        lines.append(f"print(outer.gradient(slopes, {chosen}))")
    else:
        lines += [*asked, "print(slopes)"]
    return "\n".join(lines) + "\n"

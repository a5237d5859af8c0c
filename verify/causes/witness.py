"""Writes a minimal program, as text that runs, which shows a wrong op."""

from __future__ import annotations

import itertools
import warnings
from contextvars import ContextVar
from typing import Any

import numpy as np

from gtape.errors import VerificationError
from gtape.symbolic.program import Node, Program
from gtape.verify.verdicts.naming import importing
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = ["add_witnesses"]

# True while a witness runs for a test, because this check needs no witness of its own.
_trying: ContextVar[bool] = ContextVar("gtape_trying_a_witness", default=False)
_ELEMENTS = 8  # number of single elements tried before the op with all its inputs
_LARGEST = 64
_MANY = 4  # ops with a witness per report

_TEXT = """\
import numpy as np
import gtape
from gtape.declare.primitives import REGISTRY
{imports}
xs = [{inputs}]
with gtape.GradientTape(verify=True) as tape:
    tape.watch([x for x in xs if x.dtype.is_floating or x.dtype.is_complex])
    y = REGISTRY[{name!r}]({arguments})
tape.gradient(y, xs{seeds})
"""


def add_witnesses(program: Program, report: Report) -> None:
    """Give each op to blame a witness: the op alone, at a single element if one suffices.

    Parameters
    ----------
    report : Report
        Its findings are changed in place. A custom gradient gets none, because its code is the user's.
    """
    if _trying.get():
        return
    made: dict[Any, str | None] = {}
    for finding in report.findings:
        if finding.ok or finding.verdict not in ("rule", "unstable") or finding.witness is not None:
            continue
        key = finding.op, finding.line
        if key not in made and len(made) < _MANY:
            node = next((n for n in program.nodes if n.kind == "op" and (n.name, n.line) == key), None)
            made[key] = None if node is None else _witness(program, node, finding)
        finding.witness = made.get(key)


def _witness(program: Program, node: Node, finding: Finding) -> str | None:
    inputs = [np.asarray(program.nodes[j].output) for j in node.inputs]
    candidates = []
    if node.prim.kind == "elementwise" and node.shape:
        spread = [np.broadcast_to(x, node.shape) for x in inputs]
        where = finding.element[1] if finding.element is not None and isinstance(finding.element[0], str) else ()
        here = len(where) == len(node.shape) and all(i < n for i, n in zip(where, node.shape, strict=True))
        places = [where] if here else list(itertools.islice(np.ndindex(*node.shape), _ELEMENTS))
        candidates = [[x[place] for x in spread] for place in places]
    if sum(x.size for x in inputs) <= _LARGEST:
        candidates.append(inputs)
    for candidate in candidates:
        text = _text(node, candidate)
        if _shows(text):
            return text
    return None


def _text(node: Node, inputs: list[Any]) -> str:
    written = [
        f"gtape.constant(np.array({np.asarray(x).tolist()!r}, dtype={np.asarray(x).dtype.name!r}))" for x in inputs
    ]
    words = ", ".join(["*xs", *[f"{k}={v!r}" for k, v in node.params.items()]])
    seeds = ""
    if not isinstance(node.output, tuple):
        shape = np.broadcast_shapes(*map(np.shape, inputs)) if node.prim.kind == "elementwise" else node.shape
        dtype = np.asarray(node.output).dtype.name
        n = int(np.prod(shape))
        if n > 1:  # unequal weights, because the derivative of a sum of probabilities is 0
            seeds = f", output_gradients=np.arange(1, {n + 1}).reshape({shape}).astype({dtype!r})"
    return _TEXT.format(
        inputs=", ".join(written), name=node.name, arguments=words, seeds=seeds,
        imports=importing(node.prim),
    )  # fmt: skip


def _shows(text: str) -> bool:
    """True if the text runs and raises a VerificationError with a fitting verdict."""
    before = _trying.get()
    try:
        _trying.set(True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, "<witness>", "exec"), {})
    except VerificationError as e:
        # Refuse a domain error, because then the op alone does not show the fault.
        return e.report.verdict in ("rule", "unstable", "undecided")
    except Exception:
        return False
    finally:
        _trying.set(before)
    return False

"""The derivatives that a plain tape returns for a recorded program.

A tape under a check records more and sweeps in a more general way than a plain tape. So the ops of the program run once
more, on a plain tape, and the check compares its numbers with the numbers of the plain tape. So it finds faults in code
that only plain tapes run: the functions that are generated for each op, the short sweep, the diagonal start of a
Jacobian.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from gtape.base.quiet import quietly
from gtape.recording.record import Session, off
from gtape.symbolic.program import Node, Program
from gtape.tapes.tape import GradientTape
from gtape.tensors.tensor import Tensor, wrap
from gtape.verify.bounds.local import Floats
from gtape.verify.judging.recording import raw
from gtape.verify.oracles.backward import gradient
from gtape.verify.verdicts.ulp import same_numbers, widest

__all__ = ["Plain", "rows_apart"]


class _PlainTape(GradientTape):
    """A tape of one derivative, which always takes the shortest ways, whatever ran before."""

    # A finalizer in C, because Python drops an interrupt that arrives inside a finalizer in Python. `off()` closes this
    # tape.
    __del__ = object.__hash__  # type: ignore[assignment]

    def _new_session(self) -> Session:
        return Session()

    def _mode(self) -> Any:
        return False


class Plain:
    """The gradients of a program by plain tapes, for the rows of one derivative.

    Parameters
    ----------
    program : Program
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._rows: Any = None
        self._begun = False

    def row(self, seeds: list[Any]) -> list[Any] | None:
        """The gradient of a row; None if a plain tape cannot run the program, or ran it for an earlier row."""
        if not seeds:
            return None
        (only, *others) = seeds
        place = None if others or only is None else _place(np.asarray(only))
        if not self._begun:
            self._begun = True
            with off(), quietly(), suppress(Exception):  # an op that cannot run again stays unchecked here
                if place is None:
                    return _gradient(self.program, seeds)
                self._rows = _jacobian(self.program)
        if self._rows is None or place is None:
            return None
        return [None if j is None else j[place] for j in self._rows]


def rows_apart(program: Program) -> Iterator[tuple[list[Any], list[Any], list[Any]]]:
    """Yield the rows of a plain tape's Jacobian that may not be the gradients of the rows, for small programs only.

    Yields
    ------
    seeds : list of arrays
    plain, swept : lists of arrays or None
        The row, and the gradient by the sweep in floats.
    """
    if len(program.outputs) != 1 or not _is_small(program):
        return
    value = np.asarray(program.nodes[program.outputs[0]].output)
    rows = None
    with off(), quietly(), suppress(Exception):
        rows = _jacobian(program)
    if rows is None:
        return
    weights = np.asarray(np.random.default_rng(31).normal(size=value.shape), value.dtype)
    with quietly():
        if all(map(partial(_is_sum, weights), rows, gradient(program, [weights], Floats(program)))):
            return
    for place in np.ndindex(*value.shape):
        seed = np.zeros_like(value)
        seed[place] = 1
        with quietly():
            swept = gradient(program, [seed], Floats(program))
        yield [seed], [None if j is None else j[place] for j in rows], swept


def _is_sum(weights: Any, rows: Any, expected: Any) -> bool:
    """True if the weighted sum of rows is a gradient, up to the rounding of this sum."""
    if rows is None or expected is None:
        return True
    along = np.tensordot(weights, widest(rows), weights.ndim)
    if along.shape != np.shape(expected):  # a rule of a wrong shape
        return False
    size = np.tensordot(np.abs(weights), np.abs(widest(rows)), weights.ndim)
    apart = np.abs(along - widest(expected)) > _ROUNDED * float(np.finfo(weights.dtype).eps) * size
    return not (apart & np.isfinite(along) & np.isfinite(expected)).any()


# Jacobians of at most this many rows and columns, and the part of all terms that rounding may move.
_FEW_ROWS, _FEW_COLUMNS, _ROUNDED = 64, 4096, 2.0**10


def _is_small(program: Program) -> bool:
    shapes = [program.nodes[nodes[0]].shape for nodes in program.sources if nodes]
    rows = math.prod(program.nodes[program.outputs[0]].shape)
    values = [v for n in program.nodes for v in (n.output if isinstance(n.output, tuple) else (n.output,))]
    return (
        1 < rows <= _FEW_ROWS
        and max(map(math.prod, shapes), default=0) <= _FEW_COLUMNS
        and sum(map(np.size, values)) <= 4 * _FEW_COLUMNS
        and all(np.asarray(v).dtype.kind != "c" for v in values)
    )


def _place(seed: Any) -> tuple[int, ...] | None:
    """The place of the single 1 among zeros; None for other seeds."""
    found: Any = np.argwhere(seed) if seed.size > 1 else []
    return tuple(found[0].tolist()) if len(found) == 1 and seed[tuple(found[0])] == 1 else None


def _gradient(program: Program, seeds: list[Any]) -> list[Any] | None:
    with _PlainTape() as tape:
        ran = _run(program, tape)
    if ran is None:
        return None
    outputs, leaves = ran
    flat = [x for xs in leaves for x in xs]
    if len(seeds) == 1 and seeds[0] is not None and np.all(seeds[0] == 1):  # the default, which has a way of its own
        return _by_source(tape.gradient(outputs[0], flat), leaves)
    kept = [(y, wrap(_given(y, c))) for y, c in zip(outputs, seeds, strict=True) if c is not None]
    made = tape.gradient([y for y, _ in kept], flat, output_gradients=[c for _, c in kept])
    return _by_source(made, leaves)


def _given(y: Tensor, seed: Any) -> Any:
    """The cotangent that a tape takes for the seed of a sweep, which is its conjugate."""
    made = np.empty(y._layout.shape, y._layout.dtype)
    made[...] = np.conj(seed) if y._layout.complex else seed
    return made


def _jacobian(program: Program) -> list[Any] | None:
    with _PlainTape() as tape:
        ran = _run(program, tape)
    if ran is None:
        return None
    (output,), leaves = ran
    return _by_source(tape.jacobian(output, [x for xs in leaves for x in xs]), leaves)


def _run(program: Program, tape: GradientTape) -> tuple[list[Tensor], list[list[Tensor]]] | None:
    """Run the ops of a program on a tape: outputs, and the leaves of each source; None if a tape alone cannot."""
    sources = {i for nodes in program.sources for i in nodes}
    if (
        program.blocked(program.session)
        or any(n.kind == "custom" for n in program.nodes)
        or any(program.nodes[i].kind not in ("leaf", "const") for i in sources)
    ):
        return None
    env: dict[int, Any] = {}
    for node in _as_recorded(program):
        if node.kind in ("leaf", "const"):
            made: Any = wrap(node.output)
            if node.index in sources:
                tape.watch(made)
        elif node.kind == "item":
            made = env[node.inputs[0]][node.params["index"]]
        else:
            made = node.prim(*[env[j] for j in node.inputs], **node.params)
        env[node.index] = made
    for i in program.outputs:
        if not same_numbers(np.asarray(raw(env[i])), np.asarray(program.nodes[i].output)):
            return None  # scalars may be rounded in another way, after which a branch may differ
    return [env[i] for i in program.outputs], [[env[i] for i in nodes] for nodes in program.sources]


def _as_recorded(program: Program) -> list[Node]:
    """The nodes in the order in which the user's code ran them, because a sweep adds cotangents in this order."""
    if program.returned:  # values that left the tape, whose nodes have no place in this order
        return program.nodes
    return sorted(program.nodes, key=lambda node: (node.kind not in ("leaf", "const"), -node.seq))


def _by_source(made: list[Any], leaves: list[list[Tensor]]) -> list[Any]:
    """The sum over the leaves of each source."""
    parts = iter([raw(g) for g in made])
    found: list[Any] = []
    for xs in leaves:
        known = [g for g in [next(parts) for _ in xs] if g is not None]
        found.append(sum(known[1:], known[0]) if known else None)
    return found

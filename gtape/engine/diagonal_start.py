"""The first backward steps of a Jacobian, while its cotangents form a diagonal matrix.

A Jacobian starts from the identity: n cotangents of n numbers. Elementwise ops keep the matrix diagonal, so n numbers
are enough. The next matrix product then scales rows, while a general sweep would multiply two matrices.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from gtape.engine.rules import inputs_of
from gtape.recording.record import INS, OTHER, OUT, PARENTS, SEQ, STEP, Record, step_of

__all__ = ["dense", "diagonal_start"]


def dense(d: Any) -> Any:
    """The cotangents whose diagonal is `d`, stacked along a new leading axis."""
    if not isinstance(d, np.ndarray):  # a value of a traced call
        return d.through(dense)
    n = d.size
    whole = np.zeros((n, *d.shape), d.dtype)
    whole.reshape(-1)[:: n + 1] = d.ravel()
    return whole


def diagonal_start(start: Record, ones: Any, wanted: set[int]) -> tuple[list[tuple[Record, Any]], dict[int, Any]]:
    """Sweep back from a target while the cotangents are diagonal.

    Parameters
    ----------
    start : Record
        The target's record. The short sweep must be possible for its tape.
    ones : array
        An array in the target's shape, with more than one element.
    wanted : set of int
        The sequence numbers of the sources' records.

    Returns
    -------
    seeds : list of (record, cotangents)
        The records from which `short_sweep` continues, with stacked cotangents.
    found : dict
        The diagonals that arrived at sources, by sequence number.
    """
    waiting: dict[int, tuple[Record, Any]] = {start[SEQ]: (start, ones)}
    heap = [start[SEQ]]
    seeds: list[tuple[Record, Any]] = []
    found: dict[int, Any] = {}
    while heap:
        seq = heappop(heap)
        r, d = waiting.pop(seq)
        function = r[STEP]
        if function is None:
            if seq in wanted:
                found[seq] = d
            continue
        step = step_of(r)
        parents: Any = r[PARENTS]
        if parents.__class__ is list:
            parents = (parents, r[OTHER]) if r[OTHER].__class__ is list else (parents,)
        made: Any
        if step.layouts is None or _is_elementwise(step):
            # A function for a known layout may be written for rows of cotangents.
            made = (function if step.layouts is None else step)(d, r[INS], r[OUT])
            if len(parents) == 1:
                made = (made,)
        elif "flat" in step.prim.roles:
            made = (d.reshape(step.layouts[0].shape),)
        else:
            products = _products(r, step, d, parents, wanted)
            if products is None:
                seeds.append((r, dense(d)))  # `short_sweep` notes the cotangent if the record is a source
                continue
            seeds.extend(products)
            parents = made = ()
        if seq in wanted:
            found[seq] = d
        for parent, c in zip(parents, made, strict=True):
            number = parent[SEQ]
            if number in waiting:
                waiting[number] = (parent, waiting[number][1] + c)
            else:
                waiting[number] = (parent, c)
                heappush(heap, number)
    return seeds, found


def _is_elementwise(step: Any) -> bool:
    """Whether an op works on each element alone, so that its cotangents stay diagonal.

    Generated functions, whose operands all have the layout of the output, always do.

    The answer depends on the op and its operands only, and not on the way in which the op was recorded, because the
    order of sums depends on the answer, and compiled calls make records in another way.
    """
    if step.prim.partials is None:
        return False
    shape = step.out_layout.shape
    return all([step.layouts[i].shape == shape for i in step.active])  # noqa: C419 - a list is quicker


def _products(
    r: Record, step: Any, d: Any, parents: tuple[Record, ...], wanted: set[int]
) -> list[tuple[Record, Any]] | None:
    """The cotangents of the parents by the op's own rule for diagonals; None if a parent has none."""
    short = step.prim.diagonal
    if short is None:
        return None
    made = []
    inputs = inputs_of(r, len(step.layouts))
    for i, parent in zip(step.active, parents, strict=True):
        if parent[STEP] is None and parent[SEQ] not in wanted:
            continue
        c = short(d, i, inputs)
        if c is None:
            return None
        made.append((parent, c))
    return made

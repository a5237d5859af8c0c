"""The first steps back of a Jacobian: cotangents that are the rows of a diagonal stay so through elementwise ops.

A Jacobian starts from the identity, n cotangents of n numbers. As far as ops are elementwise, n numbers do for all of
them; and the product with a matrix that comes next scales its rows, where a general sweep would multiply two matrices.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from gtape.engine.rules import inputs_of
from gtape.recording.record import INS, OUT, SEQ, STEP, Record, parents_of, step_of

__all__ = ["dense", "diagonal_start"]


def dense(d: Any) -> Any:
    """The cotangents that `d` is the diagonal of, stacked along a new leading axis."""
    n = d.size
    whole = np.zeros((n, *d.shape), d.dtype)
    whole.reshape(-1)[:: n + 1] = d.ravel()
    return whole


def diagonal_start(start: Record, ones: Any, wanted: set[int]) -> tuple[list[tuple[Record, Any]], dict[int, Any]]:
    """Go back from a target while one number an element is enough.

    Parameters
    ----------
    start : Record
        The target's; its sweep is the short one.
    ones : array
        Of the target's shape, with more than one element.
    wanted : set of int
        The numbers of the sources' records.

    Returns
    -------
    seeds : list of (record, cotangents)
        Where the sweep goes on, with stacked cotangents.
    found : dict
        For sources that were passed or reached on the way, the diagonal that arrived so.
    """
    waiting: dict[int, tuple[Record, Any]] = {start[SEQ]: (start, ones)}
    heap = [start[SEQ]]
    seeds: list[tuple[Record, Any]] = []
    found: dict[int, Any] = {}
    while heap:
        seq = heappop(heap)
        r, d = waiting.pop(seq)
        function, step = r[STEP], step_of(r)
        parents = parents_of(r)
        made: Any
        if step is None:
            made = ()
        elif step.layouts is None:  # elementwise
            made = function(d, r[INS], r[OUT])
            made = (made,) if len(parents) == 1 else made
        elif "reshape" in step.prim.roles:
            made = (d.reshape(step.layouts[0].shape),)
        else:
            seeds.extend(_products(r, d, parents, wanted) or [(r, dense(d))])
            continue
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


def _products(r: Record, d: Any, parents: tuple[Record, ...], wanted: set[int]) -> list[tuple[Record, Any]] | None:
    """The cotangents of the parents where the op has a short way for a diagonal; None where it has not for one."""
    step = step_of(r)
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

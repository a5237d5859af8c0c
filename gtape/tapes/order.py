"""The order of a program's work: the nodes in parts, chosen so that no grouping raises the peak of live memory.

A part that collects nodes of one kind saves time, but it also delays other nodes, whose operands then live longer.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Container, Sequence
from typing import Any

from gtape.tapes.lives import Lives
from gtape.tapes.parts import CALL, WALK, Part, worth_blocks
from gtape.tapes.rewriting import reads_of
from gtape.tapes.traced_values import Node

__all__ = ["in_order"]


def in_order(
    nodes: list[Node],
    outputs: list[Node],
    kind_of: Callable[[Node], Any],
    held: Container[int] = frozenset(),
    spent: Sequence[Node] = (),
) -> list[Part]:
    """The nodes in few parts, each of one kind, whose peak of live memory is not above that of the nodes one by one.

    Parameters
    ----------
    nodes, outputs : list of Node
    kind_of : callable
        The kind of a node's part.
    held : collection of int
        The identities of nodes whose values lie in memory that the program keeps.
    spent : sequence of Node
        The inputs that end with their last read.
    """
    lives = Lives(nodes, outputs, kind_of, held, spent)
    parts = _in_turns(nodes, kind_of, None)
    if not lives.weights or lives.keeps_peak(parts):
        return parts
    parts = lives.split(_in_turns(nodes, kind_of, lives))
    if lives.keeps_peak(parts):
        return parts
    parts = []
    for node in nodes:
        kind = WALK if kind_of(node) == WALK else CALL
        if not parts or parts[-1].kind != kind:
            parts.append(Part(kind))
        parts[-1].nodes.append(node)
    return parts


def _in_turns(nodes: list[Node], kind_of: Callable[[Node], Any], lives: Lives | None) -> list[Part]:
    """The nodes in parts, each in the first part of its kind in which it comes after those that it reads.

    With `lives`, nodes that start or end large values stay in their order. The others only move to the front, and each
    large value ends where it did.
    """
    parts: list[Part] = []
    at: dict[int, int] = {}
    places: dict[Any, list[int]] = {}
    newest: Node | None = None  # the newest node that starts or ends a large value
    for node in nodes:
        kind = kind_of(node)
        before = reads_of(node)
        if lives is not None:
            ends = lives.ends(node)
            if ends or id(node) in lives.weights:
                before = [*before, *lives.earlier(ends), *([] if newest is None else [newest])]
                newest = node
        first = 0
        for a in before:
            k = at.get(id(a))
            if k is not None:
                k += parts[k].kind != kind
                if k > first:
                    first = k
        known = places.setdefault(kind, [])
        i = bisect.bisect_left(known, first)
        if i == len(known):
            known.append(len(parts))
            parts.append(Part(kind))
        k = at[id(node)] = known[i]
        parts[k].nodes.append(node)
    return [worth_blocks(p) for p in parts]

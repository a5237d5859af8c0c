"""The reverse sweep: cotangents flow from the targets to the sources, newest record first, without recursion.

`short_sweep` is for the usual case (one tape, no outer tape): it gathers cotangents in the records themselves, and
empties each record as it passes if the tape is used up. `full_sweep` does everything else: any world, several tapes,
persistent ones, batched cotangents, and the masks that keep what a selection made zero at zero.
"""

from __future__ import annotations

import threading
from heapq import heappop, heappush, heappushpop
from types import FunctionType
from typing import Any

import numpy as np

from gtape import record as record_module
from gtape.aval import aval_of
from gtape.indexed_slices import SparseCotangent
from gtape.pulls import (
    RULES_ALONE,
    ItemPull,
    Pull,
    Slots,
    cotangents,
    cotangents_at_home,
    inputs_of,
    item_of,
    output_of,
)  # fmt: skip
from gtape.record import COT, INS, LEAF, NO_TAPES, PULL, SEQ, TAPES, Record, Session, get_stack, parents_of
from gtape.tensor import Tensor, wrap
from gtape.worlds import NUMPY, TAPE

__all__ = ["batches_as_is", "full_sweep", "keeping", "short_sweep", "stack_in"]

_NOTHING = ()


class _Capture:
    """Stands in for the pull of a source that is not a leaf, and notes its cotangent on the way."""

    __slots__ = ("cotangent", "pull")

    def __init__(self, pull: Any) -> None:
        self.pull = pull
        self.cotangent: Any = None

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        self.cotangent = g
        return self.pull(g, ins, out)


def _float64(v: Any) -> Any:
    return np.float64(v) if v.__class__ is float else v


def _pull_in_numpy(record: Record, g: Any) -> Any:
    """The backward step of a scalar record with NumPy scalars, for when Python floats raised (1.0 / 0.0)."""
    pull = record[PULL]
    if pull.__class__ is _Capture:
        pull = record[PULL] = pull.pull
    ins = inputs_of(record, len(pull.prim.rules))
    avals = pull.avals or tuple(aval_of(0.0) for _ in ins)
    xs = tuple([a if t is None else _float64(t._value) for t, a in zip(ins, avals, strict=True)])
    shape = getattr(pull.out_aval, "shape", ())
    made = cotangents(NUMPY, pull, _float64(g), _float64(output_of(record)), xs, avals=avals, out_shape=shape)
    made = [float(c) if isinstance(c, np.float64) else c for c in made]
    return made[0] if len(made) == 1 else made


# One sweep at a time gathers cotangents in records that are there to stay.
keeping = threading.Lock()


def short_sweep(seeds: list[tuple[Record, Any]], sources: list[Record], *, keep: bool = False) -> list[Any]:
    """Cotangents of `sources`, in the NumPy world; uses the records up.

    Parameters
    ----------
    seeds : list of (record, cotangent)
        Where the sweep starts.
    sources : list of records
        Leaves or interior records; may repeat.
    keep : bool
        Whether the records stay as they are; the caller holds `keeping` then.

    Returns
    -------
    list
        One raw cotangent each, None where nothing arrived.
    """
    captures: dict[int, _Capture] = {}
    for s in sources:
        if s[PULL] is not None and s[PULL].__class__ is not _Capture:
            captures[id(s)] = s[PULL] = _Capture(s[PULL])
    leaves: dict[int, Any] = {}
    heap: list[Record] = []
    for r, g in seeds:
        if r[COT] is LEAF:
            leaves[r[SEQ]] = leaves[r[SEQ]] + g if r[SEQ] in leaves else g
        elif r[COT] is None:
            r[COT] = g
            heappush(heap, r)
        else:
            r[COT] = r[COT] + g
    record = heappop(heap) if heap else None
    g = record[1] if record is not None else None
    try:
        while record is not None:
            _, _, pull, parents, ins, out, _, other = record
            try:
                made = pull(g, ins, out)
            except (ArithmeticError, ValueError):
                if not isinstance(pull.pull if pull.__class__ is _Capture else pull, (FunctionType, Pull)):
                    raise  # not a scalar op that Python refused, but something of the user's
                made = _pull_in_numpy(record, g)
            record[1] = None
            if not keep:
                record[2] = record[4] = record[5] = None
                record[3] = _NOTHING
                record[6] = NO_TAPES
            if parents.__class__ is list:
                if other is not None:
                    if not keep:
                        record[7] = None
                    first, made = made
                    old = parents[1]
                    if old is None:
                        parents[1] = first
                        heappush(heap, parents)
                    elif old is LEAF:
                        seq = parents[0]
                        leaves[seq] = leaves[seq] + first if seq in leaves else first
                    else:
                        parents[1] = old + first
                    parents = other
                old = parents[1]
                if old is None:
                    if not heap:  # a chain needs no heap: the only open record is the next one
                        record = parents
                        g = made
                        continue
                    parents[1] = made
                    record = heappushpop(heap, parents)
                    g = record[1]
                    continue
                if old is LEAF:
                    seq = parents[0]
                    leaves[seq] = leaves[seq] + made if seq in leaves else made
                else:
                    parents[1] = old + made
            else:
                for parent, cotangent in zip(parents, made, strict=True):
                    old = parent[1]
                    if old is None:
                        parent[1] = cotangent
                        heappush(heap, parent)
                    elif old is LEAF:
                        seq = parent[0]
                        leaves[seq] = leaves[seq] + cotangent if seq in leaves else cotangent
                    else:
                        parent[1] = old + cotangent
            if not heap:
                break
            record = heappop(heap)
            g = record[1]
    except BaseException:
        if keep:
            for r in [*heap, record] if record is not None else heap:
                r[COT] = None
            for s in sources:
                if s[PULL].__class__ is _Capture:
                    s[PULL] = s[PULL].pull
        else:
            record_module.empty_below([record, *heap], spare=False)  # what an interrupted sweep leaves is used up
        raise
    result = []
    for s in sources:
        capture = captures.get(id(s))
        if capture is None:
            result.append(leaves.get(s[SEQ]))
        else:
            result.append(capture.cotangent)
            if s[PULL] is capture:
                s[PULL] = capture.pull
    return result


def batches_as_is(session: Session, start: Record) -> bool:
    """Whether every backward step from a record on takes cotangents with one more leading axis just as it is.

    Those of generated functions do, as nothing is broadcast there, and rules declared as `batched`.
    """
    seen = set()
    pending = [start]
    while pending:
        r = pending.pop()
        pull = r[PULL]
        if pull is None or r[SEQ] in seen:
            continue
        seen.add(r[SEQ])
        if r[TAPES] is not session.alone:
            return False
        general = getattr(pull, "general", None)
        if general is not None:
            pull = r[PULL] = general  # it was written for one cotangent of one shape
        if pull.__class__ is not FunctionType and not (pull.__class__ in RULES_ALONE and pull.prim.batched):
            return False
        pending.extend(parents_of(r))
    return True


# ---------------------------------------------------------------------------------------------- the full sweep


def _values(world: Any, ins: Any, avals: tuple[Any, ...]) -> tuple[Any, ...]:
    if ins is None:
        return avals
    if world is TAPE:
        return tuple([a if t is None else t for t, a in zip(ins, avals, strict=True)])
    return tuple([a if t is None else _float64(t._value) for t, a in zip(ins, avals, strict=True)])


def _kept(record: Record, avals: tuple[Any, ...]) -> tuple[Any, ...] | None:
    return None if record[INS] is None else inputs_of(record, len(avals))


def _output(world: Any, record: Record) -> Any:
    out = output_of(record)
    if out is None:
        return None
    if world is TAPE:
        if out.__class__ is tuple:
            several = tuple([wrap(v) for v in out])
            for i, o in enumerate(several):
                if o._aval.inexact:
                    o._record = item_of(record, i)
            return several
        t = wrap(out)
        t._record = record  # the same tensor as far as differentiation goes
        return t
    return _float64(out)


def _alive(pull: Any, mask: Any, record: Record, avals: tuple[Any, ...]) -> list[Any]:
    """As `_alive_here`, without warnings."""
    alive: list[Any] = get_stack().run(_alive_here, pull, mask, record, avals)
    return alive


def _alive_here(pull: Any, mask: Any, record: Record, avals: tuple[Any, ...]) -> list[Any]:
    """Which elements of each active input a living cotangent can reach, given which elements of the output live."""
    prim = pull.prim
    out_shape = pull.out_aval.shape if pull.out_aval is not None else avals[0].shape
    # Generic numbers in [1, 2): ones would cancel in a rule that subtracts (softmax), and look dead.
    n = int(np.prod(out_shape, dtype=np.int64))
    alive = (1.0 + np.arange(1, n + 1) * 0.6180339887498949 % 1.0).reshape(out_shape)
    if (pull.out_aval if pull.out_aval is not None else avals[0]).complex:
        alive = alive * (1 + 0.5j)  # both parts live
    if mask is not None:
        alive = np.where(mask, alive, 0.0)
    values = _values(NUMPY, _kept(record, avals), avals)
    if prim.partials is not None and not prim.selects:
        return [None if mask is None else NUMPY.sum_to(alive, shape=avals[i].shape, batch=0) != 0 for i in pull.active]
    if not prim.selects:
        # Only the structure matters: what is not finite or happens to be zero stands for a generic number.
        values = tuple([np.where(np.isfinite(v) & (v != 0), v, 1.0) if _is_float(v) else v for v in values])
    out = _output(NUMPY, record)
    if out is not None and not prim.selects and _is_float(out):
        out = np.where(np.isfinite(out) & (out != 0), out, 1.0)
    made = cotangents_at_home(NUMPY, pull, alive, out, values, avals=avals, out_shape=tuple(out_shape))
    return [np.asarray(c) != 0 for c in made]


def _is_float(v: Any) -> bool:
    return isinstance(v, (np.ndarray, np.generic)) and v.dtype.kind in "fc"


def _slices(world: Any, g: Any, k: int) -> list[Any]:
    if g.__class__ is tuple:
        return [tuple([part[i] for part in g]) for i in range(k)]
    return [g[i] for i in range(k)]


def _row_by_row(world: Any, pull: Any, g: Any, batch: int) -> list[Any]:
    """A custom gradient's function is written for one cotangent: call it for each of a batch."""
    rows = [pull.cotangents(world, row) for row in _slices(world, g, batch)]
    made: list[Any] = []
    for column in zip(*rows, strict=True):
        some = next((c for c in column if c is not None), None)
        filled = [world.zeros_like(some) if c is None else c for c in column] if some is not None else None
        made.append(None if filled is None else stack_in(world, filled))
    return made


def _no_rows(world: Any, aval: Any) -> Any:
    """What a batch of no cotangents makes."""
    empty = np.zeros((0, *aval.shape), aval.dtype)
    return wrap(empty) if world is TAPE else empty


def stack_in(world: Any, parts: list[Any]) -> Any:
    """Values of a world, stacked along a new leading axis."""
    if world is TAPE:
        from gtape.ops.join import stack

        return stack(parts)
    return np.stack([np.asarray(p) for p in parts])


def full_sweep(
    world: Any,
    session: Session,
    seeds: list[tuple[Record, Any]],
    sources: list[Record],
    *,
    batch: int | None = None,
    masked: bool = False,
    sparse: bool = True,
    stops: frozenset[int] = frozenset(),
) -> tuple[list[Any], list[Record]]:
    """Cotangents of `sources` in the NumPy or the tape world; the records stay as they are.

    Parameters
    ----------
    world : NUMPY or TAPE
    session : Session
        Only records that this session holds are followed.
    seeds, sources
        As for `short_sweep`.
    batch : int, optional
        Number of independent cotangents along a leading axis.
    masked : bool
        Carry along which elements a selection made zero, and keep them so.
    sparse : bool
        Whether a lookup directly on a source may give a SparseCotangent.
    stops : set of int
        Sequence numbers of records that count as leaves.

    Returns
    -------
    cotangents : list
        One each, None where nothing arrived.
    visited : list of records
    """
    anchored = _Anchor(record_module.get_stack()) if world is TAPE and record_module.get_stack().trace else None
    stops = stops | session.stops
    cots: dict[int, Any] = {}
    masks: dict[int, Any] = {}
    waiting: dict[int, Record] = {}
    heap: list[int] = []
    wanted = {s[SEQ]: s for s in sources}
    found: dict[int, Any] = {}
    visited: list[Record] = []

    def arrive(record: Record, g: Any, mask: Any) -> None:
        seq = record[SEQ]
        if seq in cots:
            cots[seq] = cots[seq] + g
            old = masks.get(seq)
            masks[seq] = None if old is None or mask is None else old | mask
        else:
            cots[seq] = g
            masks[seq] = mask
            waiting[seq] = record
            heappush(heap, seq)

    for r, g in seeds:
        arrive(r, g, None)
    while heap:
        seq = heappop(heap)
        record = waiting.pop(seq)
        g, mask = cots.pop(seq), masks.pop(seq)
        pull = record[PULL]
        if seq in wanted and (pull is not None or record is wanted[seq]):  # an anchor stands for a source, but is none
            found[seq] = g
        visited.append(record)
        if pull is None or seq in stops or session not in record[TAPES].sessions:
            continue  # a leaf, or made while this tape was paused
        listed = parents_of(record)
        if not any(session in p[TAPES].sessions for p in listed):
            continue
        if pull.__class__ is ItemPull:
            arrive(listed[0], Slots({pull.index: g}), None)  # a mask is of one output
            continue
        prim = pull.prim
        if isinstance(g, SparseCotangent):
            if _is_read(pull) and _asked(listed[0], wanted):
                arrive(listed[0], g, None)
                continue
            g = g.dense(world)
        if prim.kind == "custom":
            if isinstance(g, Slots):
                g = _fill_slots(world, g, pull.out_aval, batch)
            if batch == 0:
                continue  # an empty target: nothing can be asked of a function that is written for one cotangent
            made = pull.cotangents(world, g, sparse=sparse) if batch is None else _row_by_row(world, pull, g, batch)
            for parent, c in zip(listed, made, strict=True):
                if c is not None and session in parent[TAPES].sessions:
                    arrive(parent, c, None)
            continue
        direct = _asked(listed[0], wanted) or _read_of_asked(listed[0], wanted)  # a lookup in what is asked for
        if prim.sparse is not None and sparse and batch is None and direct:
            indices = inputs_of(record, 2)[1]._value
            arrive(listed[0], prim.sparse(g, indices, pull.avals[0]), None)
            continue
        avals = pull.avals
        if avals is None:  # made by a generated function: all inputs look like the output
            aval = _fast_aval(record, g, batch)
            avals = (aval,) * len(prim.rules)
        out_aval = pull.out_aval
        out_shape = out_aval.shape if hasattr(out_aval, "shape") else avals[0].shape
        if isinstance(g, Slots):
            g = _fill_slots(world, g, out_aval, batch)
        ins = _kept(record, avals)
        y = _output(world, record)
        xs = _values(world, ins, avals)
        if anchored is not None:
            g, y, xs = anchored(g), anchored(y), tuple([anchored(x) for x in xs])
        live: list[Any] | None = None
        if masked and batch is None and (prim.selects or mask is not None) and not isinstance(g, tuple):
            live = _alive(pull if pull.avals is not None else _Described(pull, avals), mask, record, avals)
        elementwise_mask = mask if prim.partials is not None else None
        if batch is not None and not _takes_batches(world, prim):
            rows = [
                cotangents_at_home(world, pull, row, y, xs, avals=avals, out_shape=out_shape)
                for row in _slices(world, g, batch)
            ]
            made = (
                [stack_in(world, list(column)) for column in zip(*rows, strict=True)]
                if rows
                else [_no_rows(world, avals[i]) for i in pull.active]
            )
        else:
            made = cotangents_at_home(
                world, pull, g, y, xs, avals=avals, out_shape=out_shape, batch=batch is not None, mask=elementwise_mask,
            )  # fmt: skip
        for k, (parent, c) in enumerate(zip(listed, made, strict=True)):
            if session in parent[TAPES].sessions and c is not None:
                m = None if live is None else live[k]
                if m is not None and m.all():
                    m = None
                if m is not None and prim.partials is None:
                    c = world.where(m, c, 0)
                arrive(parent, c, m)
    return [found.get(s[SEQ]) for s in sources], visited


def _takes_batches(world: Any, prim: Any) -> bool:
    """Whether a rule takes a batch of cotangents as it is.

    Where an outer tape records it, a rule of several operands becomes ops on one with the batch and one without. Those
    of one element each, linear ones and products of matrices are differentiated then; others were not made for it.
    """
    if world is TAPE and prim.kind not in ("elementwise", "linear") and prim.name != "matmul":
        return False
    return bool(prim.batched)


def _asked(record: Record, wanted: dict[int, Record]) -> bool:
    """Whether a cotangent ends at a record, or is asked for there."""
    return record[PULL] is None or record[SEQ] in wanted


def _read_of_asked(record: Record, wanted: dict[int, Record]) -> bool:
    """Whether a record is a read of one for which that is so."""
    return _is_read(record[PULL]) and _asked(parents_of(record)[0], wanted)


def _is_read(pull: Any) -> bool:
    """Whether a backward step is that of an identity, which is how variables are read."""
    prim = None if pull is None else pull.prim  # None for one output of several
    return prim is not None and prim.name == "identity" and prim.kind != "custom"


class _Anchor:
    """Makes leaves of the constants that a backward pass reads while an outer tape traces it.

    What a rule computes from constants alone (1/d, say) is rounded; unrecorded, it would be an exact number to the
    oracle.
    """

    __slots__ = ("known", "stack")

    def __init__(self, stack: Any) -> None:
        self.stack = stack
        self.known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, t: Any) -> Any:
        if t.__class__ is tuple:
            return tuple([self(e) for e in t])
        if (
            t.__class__ is not Tensor
            or not t._aval.inexact
            or (t._record is not None and self.stack.meet(t._record[TAPES]).sessions)
        ):
            return t
        found = self.known.get(id(t))
        if found is None:
            leaf = wrap(t._value)
            leaf._record = record_module.leaf(self.stack.recording)
            if t._record is not None:  # a constant for the outer tape, yet made by ops that the oracle should know
                leaf._record[SEQ], leaf._record[INS] = t._record[SEQ], t._record
            found = self.known[id(t)] = (leaf, t)
        return found[0]


class _Described:
    """A generated pull with the shapes that the general one carries."""

    __slots__ = ("active", "avals", "out_aval", "params", "prim")

    def __init__(self, pull: Any, avals: tuple[Any, ...]) -> None:
        self.prim, self.active, self.params = pull.prim, pull.active, pull.params
        self.avals = avals
        self.out_aval = avals[0]


def _fast_aval(record: Record, g: Any, batch: int | None) -> Any:
    for t in inputs_of(record, len(record[PULL].prim.rules)):
        if t is not None:
            return t._aval
    out = output_of(record)
    if out is not None:
        return aval_of(out)
    # Nothing is kept (add, negative): the cotangent has the shape of the inputs, or broadcasts to it.
    if isinstance(g, Tensor):
        return g._aval if batch is None else aval_of(np.empty(g._aval.shape[1:], g._aval.dtype))
    return aval_of(g if batch is None else g[0])


def _fill_slots(world: Any, slots: Slots, avals: Any, batch: int | None = None) -> tuple[Any, ...]:
    filled = []
    for i, aval in enumerate(avals):
        g = slots.parts.get(i)
        if g is None:
            zero = np.zeros(aval.shape if batch is None else (batch, *aval.shape), aval.dtype)
            g = wrap(zero) if world is TAPE else zero
        filled.append(g)
    return tuple(filled)

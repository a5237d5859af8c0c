"""The general reverse sweep: for any world, several tapes, custom gradients, selections, batches.

The sweep keeps the cotangents itself and leaves the records unchanged, so that several sweeps may pass the same
records. With masks, an element that a selection made zero stays zero even if a slope is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from heapq import heappop, heappush
from typing import Any

import numpy as np

from gtape.base import late
from gtape.base.escaping import plain
from gtape.base.layout import layout_of
from gtape.base.quiet import quietly
from gtape.engine.rules import PartialOutputs, PartStep, RuleStep, inputs_of, output_of, part_of, reached
from gtape.engine.sparse import SparseCotangent
from gtape.engine.whole_calls import WholeCall, put_ops, split_calls
from gtape.engine.worlds import NUMPY, TAPE
from gtape.errors import InvalidArgumentError
from gtape.recording import record as record_module
from gtape.recording.record import (
    ANCHOR,
    INS,
    OUT,
    SEQ,
    STEP,
    TAPES,
    TRACE,
    Record,
    Session,
    Stack,
    get_stack,
    parents_of,
    step_of,
)
from gtape.tensors.axes import shape_of
from gtape.tensors.operands import FAILURES
from gtape.tensors.tensor import Tensor, wrap

__all__ = [
    "Anchor", "Sweep", "alive", "full_sweep", "is_finite", "layout_of_operands", "output_in", "runner_for", "stack_in",
    "values_in",
]  # fmt: skip


class Sweep:
    """One sweep: the cotangents that have arrived, and the records that still have to be passed."""

    def __init__(
        self,
        world: Any,
        session: Session,
        sources: list[Record],
        *,
        batch: int | None,
        masked: bool,
        sparse: bool,
        stops: frozenset[int],
    ) -> None:
        self.world, self.session = world, session
        self.batch, self.masked, self.sparse = batch, masked, sparse
        self.stops = stops | session.stops
        stack = get_stack()
        self.anchored = Anchor(stack) if world is TAPE and stack.trace else None
        self.wanted = {s[SEQ]: s for s in sources}
        self.found: dict[int, Any] = {}
        self.visited: list[Record] = []
        self._cots: dict[int, Any] = {}
        self._masks: dict[int, Any] = {}
        self._waiting: dict[int, Record] = {}
        self._heap: list[int] = []
        self.misshapen: str | None = None  # the fault of the first custom gradient with a wrong shape
        self.mistyped: str | None = None  # the fault of the first custom gradient with a wrong dtype

    def arrive(self, record: Record, g: Any, mask: Any = None) -> None:
        """Add a cotangent to the cotangent of a record. `mask` is True for live elements, None if all are live."""
        seq = record[SEQ]
        if seq in self._cots:
            if self.mistyped is not None and _dtype_of(g) != _dtype_of(self._cots[seq]):
                raise InvalidArgumentError(f"{self.mistyped}; it cannot be added to another gradient")
            self._cots[seq] = self._cots[seq] + g
            old = self._masks.get(seq)
            self._masks[seq] = None if old is None or mask is None else old | mask
        else:
            self._cots[seq] = g
            self._masks[seq] = mask
            self._waiting[seq] = record
            heappush(self._heap, seq)

    def run(self) -> None:
        """Pass the records, newest first, until no record is left."""
        if self.anchored is None:
            self._run()
            return
        stack = self.anchored.stack
        before = stack.deriving
        try:
            self._run()
        finally:
            stack.deriving = before

    def _run(self) -> None:
        while self._heap:
            seq = heappop(self._heap)
            record = self._waiting.pop(seq)
            g, mask = self._cots.pop(seq), self._masks.pop(seq)
            step = record[STEP]
            # An anchor has the number of a source but is not the source.
            if seq in self.wanted and (step is not None or record is self.wanted[seq]):
                self.found[seq] = g
            self.visited.append(record)
            if step is None or seq in self.stops or self.session not in record[TAPES].sessions:
                continue  # a leaf, or a record made while this tape was paused
            if step.__class__ is WholeCall:
                if step.several or self._takes_whole(step, g):
                    self._pass_whole(record, g)
                    continue
                put_ops(record)
            parents = parents_of(record)
            if any([self.session in p[TAPES].sessions for p in parents]):  # noqa: C419 - a list is quicker
                self.pass_on(record, parents, g, mask)

    @property
    def meets_whole_calls(self) -> bool:
        """Whether the sweep uses the compiled steps of whole calls."""
        return self.world is NUMPY and self.batch is None and not self.masked

    def _takes_whole(self, step: WholeCall, g: Any) -> bool:
        return self.meets_whole_calls and step.full and g.__class__ is not SparseCotangent

    def _pass_whole(self, record: Record, g: Any) -> None:
        """Pass a cotangent through a whole call of a compiled function."""
        step, parents = record[STEP], parents_of(record)
        given = (g, record[INS], record[OUT])
        if step.full:
            made = step.cotangents(given, parents, lambda p: p[SEQ] in self._cots, asks=self._asks)
        else:
            made = step.sweep.fully(*given)
        for parent, c in zip(parents, made, strict=True):
            if c is not None and self.session in parent[TAPES].sessions:
                self.arrive(parent, c)

    def _asks(self, record: Record) -> bool:
        """Whether the sweep does more than drop the cotangent of a record."""
        return record[STEP] is not None or record[SEQ] in self.wanted

    def pass_on(self, record: Record, parents: tuple[Record, ...], g: Any, mask: Any) -> None:
        """Pass the cotangent that arrived at a record to its parents."""
        step = step_of(record)
        if isinstance(step, PartStep):
            if isinstance(g, SparseCotangent):  # from a lookup in one output, which is itself a source
                g = self._dense(g)
            self.arrive(parents[0], PartialOutputs({step.index: g}))  # without its mask, which is for one output
            return
        if isinstance(g, SparseCotangent):
            if _is_read(step) and _asked(parents[0], self.wanted):
                self.arrive(parents[0], g)
                return
            g = self._dense(g)
        prim = step.prim
        if prim.kind == "custom":
            self._pass_custom(step, parents, g)
            return
        try:
            if prim.sparse is not None and self.sparse and self.batch is None and self._asks_directly(parents[0]):
                indices = inputs_of(record, 2)[1]._value
                self.arrive(parents[0], prim.sparse(g, indices, step.layouts[0]))
            else:
                self._pass_by_rules(record, step, parents, g, mask)
        except FAILURES as e:
            if self.misshapen is None:
                raise
            raise InvalidArgumentError(f"{self.misshapen}; the rule of {prim.name} cannot take it: {e}") from e

    def _dense(self, g: SparseCotangent) -> Any:
        """The rows of a cotangent as a whole array."""
        try:
            return g.dense(self.world)
        except (*FAILURES, InvalidArgumentError) as e:
            if self.misshapen is None:
                raise
            raise InvalidArgumentError(self.misshapen) from e

    def _asks_directly(self, parent: Record) -> bool:
        """Whether the array of a lookup, or the variable behind this array, is a source or leaf."""
        return _asked(parent, self.wanted) or _read_of_asked(parent, self.wanted)

    def _pass_custom(self, step: Any, parents: tuple[Record, ...], g: Any) -> None:
        g = self._filled(g, step.out_layout)
        if self.batch == 0:
            return  # an empty target has no cotangent to call the function with
        try:
            made = self._made_by_user(step, g)
        except (*FAILURES, InvalidArgumentError) as e:
            if self.mistyped is None or g.__class__ is tuple or _dtype_of(g) == step.out_layout.dtype:
                raise
            name = plain(step.prim.name)
            raise InvalidArgumentError(f"{self.mistyped}; the gradient function of {name} cannot take it: {e}") from e
        for parent, c, i in zip(parents, made, step.active, strict=True):
            if c is not None and self.session in parent[TAPES].sessions:
                self.misshapen = self.misshapen or _misshapen(step, i, c, 0 if self.batch is None else 1)
                self.mistyped = self.mistyped or step.misfit(i)
                self.arrive(parent, c)

    def _made_by_user(self, step: Any, g: Any) -> list[Any]:
        """The cotangents that the user's function returns."""
        of_check = self.session.of_check
        if self.batch is None:
            # A check needs the ops of this run, because another run may find another state.
            keep = self.session.trace and (self.world is NUMPY or of_check)
            made: list[Any] = step.cotangents(self.world, g, sparse=self.sparse, keep=keep, repeats=of_check)
            return made
        made = _row_by_row(self.world, step, g, self.batch, of_check=of_check)
        if not self.session.trace:
            step.recorded = None  # only a check needs it
        return made

    def _filled(self, g: Any, layouts: Any) -> Any:
        """A cotangent, with zeros for the missing parts of an op with several outputs."""
        leading = () if self.batch is None else (self.batch,)
        return PartialOutputs.filled(g, layouts, lambda layout: _zeros(self.world, layout, *leading))

    def _pass_by_rules(self, record: Record, step: RuleStep, parents: tuple[Record, ...], g: Any, mask: Any) -> None:
        world, batch = self.world, self.batch
        prim = step.prim
        if step.layouts is None:
            step = step.on(layout_of_operands(record, g, batch))
        if g.__class__ is PartialOutputs:
            g = self._filled(g, step.out_layout)
        elif self.mistyped is not None and _reads(record) and _dtype_of(g) != step.out_layout.dtype:
            raise InvalidArgumentError(f"{self.mistyped}; the rule of {prim.name} cannot take it")
        y = output_in(world, record)
        xs = values_in(world, record, step)
        if self.anchored is not None:
            g, y, xs = self.anchored(g), self.anchored(y), tuple([self.anchored(x) for x in xs])
            self.anchored.stack.deriving = _origin(record, prim)
        elementwise = prim.partials is not None
        live: tuple[Any, ...] | None = None
        if self.masked and batch is None and (prim.selects or mask is not None) and not isinstance(g, tuple):
            live = get_stack().run(alive, step, mask, values_in(NUMPY, record, step), output_in(NUMPY, record))
        if batch is not None and not _takes_batches(world, prim):
            made = self._each_row(step, g, y, xs)
        else:
            masks = live if elementwise and mask is not None else None
            made = step.cotangents(world, g, y, xs, batch=batch is not None, masks=masks)
            if elementwise and masks is not live and not all(map(is_finite, made)):
                made = step.cotangents(world, g, y, xs, masks=live)  # an infinity meets the zero of a selection
        if self.anchored is not None:
            self.anchored.stack.deriving = None
        layouts: Any = step.layouts
        for k, (parent, c) in enumerate(zip(parents, made, strict=True)):
            m = None if live is None else live[k]
            if self.session in parent[TAPES].sessions and c is not None:
                if m is not None and elementwise:
                    m = NUMPY.sum_to(np.where(m, 1.0, 0.0), shape=layouts[step.active[k]].shape, batch=0) != 0
                if m is not None and m.all():
                    m = None
                if m is not None and not elementwise:
                    c = world.where(m, c, 0)
                self.arrive(parent, c, m)

    def _each_row(self, step: RuleStep, g: Any, y: Any, xs: Any) -> list[Any]:
        """The cotangents of a batch, by one call of the rule for each row."""
        rows = [step.cotangents(self.world, row, y, xs) for row in _slices(g, self.batch or 0)]
        if not rows:
            return [_zeros(self.world, step.layouts[i], 0) for i in step.active]  # type: ignore[index]
        return [stack_in(self.world, list(column)) for column in zip(*rows, strict=True)]


def _origin(record: Record, prim: Any) -> tuple[str, Any] | None:
    """The op of the user's code that called a traced op, perhaps by its rule, and the line of this code."""
    trace = record[TRACE] if len(record) > TRACE else None
    return None if trace is None else (trace.rule_of or prim.name, trace.line)


def _misshapen(step: Any, i: int, made: Any, leading: int) -> str | None:
    """A description of the wrong shape, or row, of a custom gradient for input `i`; None if both are right."""
    name, wanted = plain(step.prim.name), step.layouts[i].shape
    if made.__class__ is SparseCotangent:
        beyond = made.indices[made.indices >= wanted[0]] if wanted else made.indices
        if not beyond.size:
            return None
        row = beyond.flat[0]
        return f"the gradient that {name} returns for input {i} has the row {row}, and the input has shape {wanted}"
    shape = shape_of(made)[leading:]
    if shape == wanted:
        return None
    return f"the gradient that {name} returns for input {i} has shape {shape}, and the input has shape {wanted}"


def _reads(record: Record) -> bool:
    """Whether the rule of a record reads numbers. Other rules pass a cotangent of any dtype on."""
    return record[INS] is not None or record[OUT] is not None


def _dtype_of(g: Any) -> Any:
    """The dtype of a cotangent; None for those of several outputs."""
    if g.__class__ is PartialOutputs:
        return None
    values = g.values if g.__class__ is SparseCotangent else g
    return values._layout.dtype if values.__class__ is Tensor else layout_of(values).dtype


def _quietly(function: Callable[..., Any], *args: Any, **params: Any) -> Any:
    with quietly():
        return function(*args, **params)


def runner_for(stack: Stack, session: Session) -> Callable[..., Any]:
    """A function that runs sweeps of raw values in the quiet context, or in the caller's for user functions."""
    if not session.custom:
        return stack.run
    of_a_check = getattr(stack.run, "in_place", None)
    return _quietly if of_a_check is None else of_a_check(_quietly)


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
    masks: Sequence[Any] | None = None,
    kind: type[Sweep] = Sweep,
) -> tuple[list[Any], list[Record]]:
    """Cotangents of `sources` in the NumPy or the tape world. The records stay unchanged.

    Parameters
    ----------
    world : NUMPY or TAPE
    session : Session
        The sweep follows only records that this session holds.
    seeds, sources
        As in `gtape.engine.sweep.short_sweep`.
    batch : int, optional
        The number of independent cotangents along a leading axis.
    masked : bool
        Whether elements that a selection made zero are tracked and stay zero.
    sparse : bool
        Whether a lookup directly on a source may give a SparseCotangent.
    stops : set of int
        Sequence numbers of records that count as leaves.
    masks : sequence of bool arrays or None, optional
        For each seed the elements that are live; None if all are.
    kind : type, optional
        A subclass of `Sweep` that passes some records in its own way.

    Returns
    -------
    cotangents : list
        One for each source, None if no cotangent arrived.
    visited : list of records
    """
    sweep = kind(world, session, sources, batch=batch, masked=masked, sparse=sparse, stops=stops)
    if session.several and not sweep.meets_whole_calls:
        split_calls([*[r for r, _ in seeds], *sources])
    for (r, g), mask in zip(seeds, masks or [None] * len(seeds), strict=True):
        sweep.arrive(r, g, None if mask is None or mask.all() else mask)
    sweep.run()
    if batch is not None and sweep.misshapen is not None:  # because a Jacobian has a shape
        raise InvalidArgumentError(sweep.misshapen)
    return [sweep.found.get(s[SEQ]) for s in sources], sweep.visited


def values_in(world: Any, record: Record, step: RuleStep) -> tuple[Any, ...]:
    """The inputs of a record as values of a world. Inputs that the record does not keep become layouts."""
    layouts: Any = step.layouts
    if record[INS] is None:
        return layouts  # type: ignore[no-any-return]
    pairs = zip(inputs_of(record, len(layouts)), layouts, strict=True)
    if world is TAPE:
        return tuple([a if t is None else t for t, a in pairs])
    return tuple([a if t is None else world.lift(t._value) for t, a in pairs])


def output_in(world: Any, record: Record) -> Any:
    """The output of a record as a value of a world, or a tuple of values; None if the record does not keep it."""
    out = output_of(record)
    if out is None:
        return None
    if world is TAPE:
        if out.__class__ is tuple:
            several = tuple([wrap(v) for v in out])
            for i, o in enumerate(several):
                if o._layout.inexact:
                    o._record = part_of(record, i)
            return several
        t = wrap(out)
        t._record = record  # for differentiation, the value is the op's own output
        return t
    return world.lift(out)


def is_finite(c: Any) -> bool:
    """Whether a cotangent, or None, is without NaN and infinities."""
    if isinstance(c, SparseCotangent):
        c = c.values
    if isinstance(c, Tensor):
        c = c._value
    return c is None or bool(np.isfinite(c).all())


def alive(step: RuleStep, mask: Any, values: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
    """For each active input, a mask of elements that the live elements of the output's cotangent can reach.

    The masks of an elementwise op have the shape of the output. None stands for a mask without a dead element.
    """
    prim, layouts = step.prim, step.layouts
    assert layouts is not None
    out_shape = step.out_layout.shape
    # Random numbers in [1, 2), because ones, or numbers at equal distances, would cancel in a rule that subtracts
    # (softmax, variance) and look dead.
    n = int(np.prod(out_shape, dtype=np.int64))
    living = 1.0 + _random(n, 0).reshape(out_shape)
    if step.out_layout.complex:
        living = living * (1 + 0.5j)  # both the real and the imaginary part are live
    if mask is not None:
        living = np.where(mask, living, 0.0)
    if prim.partials is not None and not prim.selects:
        return (mask,) * len(step.active)
    if not prim.selects:
        # Generic values, because an element is not dead if its slope is zero by chance at the recorded values.
        values = tuple([_generic(v, i) for i, v in enumerate(values, 1)])
        out = _generic(out, len(values) + 1)
    made = step.cotangents(NUMPY, living, out, values, whole=prim.partials is not None)
    return tuple(reached(prim, made, living, values))


_KEPT = 4096  # so many random numbers of each kind are kept


@cache
def _kept(salt: int) -> Any:
    return np.random.default_rng((23, salt)).random(_KEPT)


def _random(n: int, salt: int) -> Any:
    """The first `n` of a fixed sequence of random numbers in [0, 1); each `salt` has a sequence of its own."""
    return _kept(salt)[:n] if n <= _KEPT else np.random.default_rng((23, salt)).random(n)


def _generic(v: Any, salt: int) -> Any:
    """Unrelated numbers near 1 in place of floats. Any other value stays unchanged."""
    if v.__class__ is tuple:
        return tuple([_generic(part, salt + i) for i, part in enumerate(v)])
    if not isinstance(v, (np.ndarray, np.generic)) or v.dtype.kind not in "fcV":
        return v
    made = 0.75 + _random(v.size, salt) / 2
    return (made * (1 + 0.5j) if v.dtype.kind == "c" else made).reshape(v.shape).astype(v.dtype)


def _slices(g: Any, k: int) -> list[Any]:
    if g.__class__ is tuple:
        return [tuple([part[i] for part in g]) for i in range(k)]
    return [g[i] for i in range(k)]


def _row_by_row(world: Any, step: Any, g: Any, batch: int, *, of_check: bool) -> list[Any]:
    """The gradients of a batch, by one call of the custom gradient's function for each row.

    A check keeps the ops of the first call, and may repeat those of an earlier one.
    """
    if world is TAPE:
        rows = step.rows_on_tape(_slices(g, batch), keep=of_check)
    else:
        first, *others = _slices(g, batch)
        rows = [step.cotangents(world, first, keep=bool(others), repeats=of_check)]
        rows += [step.again(world, row) for row in others]
    made: list[Any] = []
    for column in zip(*rows, strict=True):
        some = next((c for c in column if c is not None), None)
        filled = [world.zeros_like(some) if c is None else c for c in column] if some is not None else None
        made.append(None if filled is None else stack_in(world, filled))
    return made


def _zeros(world: Any, layout: Any, *leading: int) -> Any:
    """Zeros of a layout, with a leading axis for a batch."""
    zeros = np.zeros((*leading, *layout.shape), layout.dtype)
    return wrap(zeros) if world is TAPE else zeros


def stack_in(world: Any, parts: list[Any]) -> Any:
    """Values of a world, stacked along a new leading axis."""
    if world is TAPE:
        return late.find_op("stack")(parts)
    return np.stack([np.asarray(p) for p in parts])


def _takes_batches(world: Any, prim: Any) -> bool:
    """Whether a rule accepts a batch of cotangents.

    Under an outer tape, the rule becomes recorded ops on one operand with the batch axis and one without. These ops can
    be differentiated if they are elementwise, linear, or broadcast (products of matrices). The rules of other ops do
    not expect the axis.
    """
    if world is TAPE and prim.kind not in ("elementwise", "linear") and "broadcasts" not in prim.roles:
        return False
    return bool(prim.batched)


def _asked(record: Record, wanted: dict[int, Record]) -> bool:
    """Whether a record is a leaf or a source."""
    return record[STEP] is None or record[SEQ] in wanted


def _read_of_asked(record: Record, wanted: dict[int, Record]) -> bool:
    """Whether a record is a read of a variable that is a leaf or source."""
    return _is_read(step_of(record)) and _asked(parents_of(record)[0], wanted)


def _is_read(step: Any) -> bool:
    """Whether a step is the identity by which variables are read."""
    prim = None if step is None else step.prim  # None for one output of several
    return prim is not None and "read" in prim.roles


class Anchor:
    """Makes leaves of the constants that a backward pass, or forward mode, reads while an outer tape traces the pass.

    Without leaves, ops on constants would not be recorded, and the oracle would treat numbers that a rule computes from
    constants, such as 1/d, as exact.
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
            or not t._layout.inexact
            or (t._record is not None and self.stack.meet(t._record[TAPES]).sessions)
        ):
            return t
        found = self.known.get(id(t))
        if found is None:
            leaf = wrap(t._value)
            leaf._record = record_module.leaf(self.stack.recording)
            leaf._record[OUT] = ANCHOR
            made = self.made(t)
            if made is not None:  # a constant for the outer tape, but the oracle needs the ops that made the constant
                leaf._record[SEQ], leaf._record[INS] = made[SEQ], made
            found = self.known[id(t)] = (leaf, t)
        return found[0]

    def made(self, t: Any) -> Any:
        """The record of a constant, or the copy of a record that ended with an inner tape."""
        r = record_module.maker_of(t._record)
        if r is None or r[STEP] is None:
            for session in self.stack.sessions:
                copy = session.ended.get(id(t._value))
                if copy is not None:
                    return copy
        return r


def layout_of_operands(record: Record, g: Any, batch: int | None) -> Any:
    """The layout of the operands of a generated function. All operands have the same layout."""
    for t in inputs_of(record, len(step_of(record).prim.rules)):
        if t is not None:
            return t._layout
    out = output_of(record)
    if out is not None:
        return layout_of(out)
    # The record keeps no value (add, negative), so the shape comes from the cotangent.
    if isinstance(g, Tensor):
        return g._layout if batch is None else layout_of(np.empty(g._layout.shape[1:], g._layout.dtype))
    return layout_of(g if batch is None else np.empty(g.shape[1:], g.dtype))

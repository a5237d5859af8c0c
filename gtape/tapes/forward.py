"""Forward mode: tangents are computed along with the values, and ForwardAccumulator collects them."""

from __future__ import annotations

import weakref
from types import BuiltinMethodType
from typing import Any, TypeVar, overload

import numpy as np

from gtape import errors, nest
from gtape.base import late
from gtape.base.blocks import Leaving
from gtape.base.imports import library
from gtape.base.layout import FLOAT, Layout, layout_of
from gtape.base.shown import shown
from gtape.base.verification import Options, is_switched_off, verify_mode
from gtape.engine.fast.layouts import key_of
from gtape.engine.fast.source import Writer
from gtape.engine.fast.steps import FAMILIAR, FAULTS, MOST_ELEMENTS, remember, sample_of
from gtape.engine.full_sweep import Anchor
from gtape.engine.requests import UnconnectedGradients, wants_zeros, zeros_for
from gtape.engine.rules import absorb_zeros, undecided
from gtape.engine.worlds import TAPE
from gtape.recording import record
from gtape.recording.record import COT, LEAF, PARENTS, STEP, TANGENTS, TAPES, TRACE, Session, TapeSet, step_of
from gtape.recording.trace import note_entry
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.operands import FAILURES
from gtape.tensors.tensor import Tensor, constant
from gtape.tensors.variable import Variable

__all__ = ["ForwardAccumulator", "jvp_of"]

_K = TypeVar("_K")

_count = record.count


def jvp_of(
    xp: Any, prim: Any, tangents: list[Any], y: Any, xs: tuple[Any, ...], params: dict[str, Any],
    out_shape: tuple[int, ...],
) -> Any:  # fmt: skip
    """The tangent of an op's output in the world `xp`; None if no connected input has a tangent.

    `tangents` has a tangent or None for each argument. `y` and `xs` are the output and the inputs as values of `xp`.
    """
    if prim.variadic:
        if all(t is None for t in tangents):
            return None
        filled = [xp.zeros_like(x) if t is None else t for t, x in zip(tangents, xs, strict=True)]
        if prim.jvp is not None:
            return prim.jvp(xp, filled, y, *xs, **params)
        return getattr(xp, prim.name)(*filled, **params)
    total = None
    for i, t in enumerate(tangents):
        if t is None or not prim.connected(i):
            continue
        if prim.partials is not None:
            p = prim.partials[i]
            if p.__class__ is int:
                c = t if p == 1 else -t if p == -1 else xp.zeros_like(t) if p == 0 else t * p
            else:
                slope = p(xp, y, *xs, **params)
                c = t * slope
                if prim.zero_absorbs:
                    c = absorb_zeros(xp, t, c)
                if prim.selects:
                    mask = getattr(slope, "_value", slope)
                    if hasattr(mask, "dtype") and mask.dtype.kind in "bif":
                        taken, unknown = np.asarray(mask) != 0, undecided(prim, xs)
                        c = xp.where(taken if unknown is None else taken | unknown, c, 0)
            if tuple(getattr(c, "shape", ())) != out_shape:  # NumPy makes a bare object of a 0-d object array
                c = xp.broadcast_to(c, shape=out_shape)
        elif prim.kind == "linear":
            c = getattr(xp, prim.name)(t, **params)
        else:
            c = prim.jvp[i](xp, t, y, *xs, **params)
        total = c if total is None else total + c
    return total


class _Pushed:
    """The tangents of one op for operands of one layout. After some calls one generated function computes them."""

    __slots__ = ("calls_left", "function")

    def __init__(self, prim: Any, layouts: list[Layout], out: Any) -> None:
        special = out.__class__ is tuple or prim.selects or prim.kind == "custom" or not out._layout.inexact
        self.calls_left = 0 if special or any([a.no_kernel or a is FLOAT for a in layouts]) else FAMILIAR  # noqa: C419
        self.function: Any = None

    def meet(self, stack: record.Stack, prim: Any, tensors: Any, pushes: int, params: Any, out: Tensor) -> None:
        """Count a call. The last counted call generates the function, if the rules allow it."""
        self.calls_left -= 1
        if not self.calls_left:
            active = [i for i in range(len(tensors)) if pushes >> i & 1 and prim.connected(i)]
            self.function = stack.run(_written, prim, active, [t._layout for t in tensors], params, out._layout)


def _written(prim: Any, active: list[int], layouts: list[Layout], params: dict[str, Any], out: Layout) -> Any:
    """The forward rule as one function of raw tangents, operands and output; None if the rule depends on values."""
    if prim.variadic or prim.opaque or sum([a.size for a in (*layouts, out)]) > MOST_ELEMENTS:
        return None
    notes = Writer(prim)
    xs = tuple([notes.value(f"x{i}", sample_of(a)) for i, a in enumerate(layouts)])
    loads = [f"x{i} = ins[{i}]._value" for i in range(len(layouts))]
    tangents = [notes.value(f"t{i}", sample_of(a)) if i in active else None for i, a in enumerate(layouts)]
    loads += [f"t{i} = g[{i}]._value" for i in active]
    try:
        made = jvp_of(notes, prim, tangents, notes.value("out", sample_of(out)), xs, params, out.shape)
        if made is None or layout_of(made.value) is not out or made.value.__class__ is not sample_of(out).__class__:
            return None
        return notes.function(loads, [made], f"<gtape tangents of {prim.name}>")
    except FAULTS:
        return None  # the general way runs the rule again, which then raises its own error


class _Push:
    """The part of a forward accumulator that a session calls for each op.

    The session does not call the accumulator itself, because the accumulator holds the session, and the cycle would
    keep both alive.
    """

    __slots__ = ("outer", "session", "slopes")

    def __init__(self) -> None:
        self.session: Any = None  # later a weak reference
        self.outer: tuple[Session, ...] = ()
        self.slopes: Session | None = None  # opened by `gtape.engine.nesting`

    def tangent(self, x: Any) -> Tensor | None:
        """The tangent of a tensor or variable; None without one."""
        r = x._record
        if r is None or len(r) <= TANGENTS or r[TANGENTS] is None:
            return None
        found: Tensor | None = r[TANGENTS].get(self.session())
        return found

    def push(self, stack: record.Stack, prim: Any, tensors: Any, params: dict[str, Any], out: Any) -> bool:
        """Compute the tangent of one op of arrays if nothing else records. False leaves the op to `advance`."""
        session = self.session()
        tangents: list[Any] = []
        key: Any = []
        pushes, bit = 0, 1
        for t in tensors:
            key.append(t._layout)
            r = t._record
            found: Any = None
            if r is not None and len(r) > TANGENTS and r[TANGENTS] is not None:
                found = r[TANGENTS].get(session)
                if found is not None:
                    pushes |= bit
            tangents.append(found)
            bit += bit
        if not pushes or stack.run.__class__ is not BuiltinMethodType:
            return False
        key.append(pushes)
        key = key_of(tuple(key), params) if params else tuple(key)
        if key is None:
            return False
        known = prim.layouts.get("forward")
        if known is None:
            known = prim.layouts.setdefault("forward", {})
        found = known.get(key)
        if found is None:
            found = remember(known, key, _Pushed(prim, [t._layout for t in tensors], out))
        if found.calls_left:
            found.meet(stack, prim, tensors, pushes, params, out)
        if found.function is None:
            return False
        made = Tensor()
        try:
            made._value = stack.run(found.function, tangents, tensors, out._value)
        except (*FAILURES, RuntimeError):
            return False  # the general way raises the error
        made._layout = out._layout
        made._record = None
        # No tape passes this record: a leaf with a tangent.
        out._record = [next(_count), LEAF, None, (), None, None, stack.recording, None, None, {session: made}]
        session.track(out)
        return True

    def advance(self, prim: Any, tensors: Any, params: dict[str, Any], out: Any, made: Any) -> None:
        """Compute the tangent of one op. Called where the op is recorded."""
        tangents = [self.tangent(t) if t._layout.inexact else None for t in tensors]
        outs = out if out.__class__ is tuple else (out,)
        # A check also records casts to integers, which have no tangent.
        if all(t is None for t in tangents) or not any(o._layout.inexact for o in outs):
            return
        outer = self.outer
        if outer:  # sessions other than the paused ones
            sessions = record.get_stack().sessions
            outer = tuple([s for s in outer if s in sessions])
        with record.off(outer):
            stack = record.get_stack()
            if stack.trace:
                anchored = Anchor(stack)
                tangents, tensors, out = [anchored(t) for t in tangents], tuple(map(anchored, tensors)), anchored(out)
            if prim.kind == "custom":
                tangent = prim.jvp_custom(tangents, tensors, out)
            else:
                shape = out._layout.shape if isinstance(out, Tensor) else ()
                tangent = jvp_of(TAPE, prim, tangents, out, tuple(tensors), params, shape)
        if tangent is None:
            return
        if out.__class__ is tuple:
            for o, t in zip(outs, tangent, strict=True):
                if o._record is not None and t is not None and o._layout.inexact:
                    _set_tangent(o._record, self.session(), t)
        else:
            _set_tangent(made, self.session(), tangent)


class ForwardAccumulator:
    """Computes Jacobian-vector products while the program runs.

    Parameters
    ----------
    primals : tensor, variable or nest
        The inputs.
    tangents : tensor or nest
        The direction: the same structure as `primals`; Python numbers take the primal's dtype.

    Raises
    ------
    ValueError
        If structures or dtypes differ, or a primal occurs twice.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.constant(3.0)
    >>> with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
    ...     y = x * x
    >>> acc.jvp(y).numpy()
    np.float32(6.0)
    """

    _watch: Any = None  # the `with` statement that is entering this accumulator

    def __init__(self, primals: Any, tangents: Any) -> None:
        pairs = [(primals, tangents)]
        if not (primals.__class__ is Tensor and tangents.__class__ is Tensor):
            nest.assert_same_structure(primals, tangents)
            pairs = list(zip(nest.flatten(primals), nest.flatten(tangents), strict=True))
        self._given: list[dict[Session, Tensor]] = []  # the tangents of the primals' records
        self._mode = verify_mode()
        self._push = _Push()
        self._session = Session(forward=self._push, trace=bool(self._mode))
        if self._mode:
            self._session.strict = Options.of(self._mode).strict
        self._push.session = weakref.ref(self._session)
        record.begin(self._session)
        self._directions: list[tuple[Any, Tensor]] = []  # for checks only
        self._session.watch_accessed = False
        self._since = next(record.count)  # older than all tangents
        seen: set[int] = set()
        for p, t in pairs:
            if not isinstance(p, (Tensor, Variable)):
                raise ValueError(f"a primal must be a tensor or a variable, not {type(p).__name__}")
            if id(p) in seen:
                raise ValueError(
                    f"Tensor {shown(p)} was specified as a primal multiple times. This may indicate an error. If it "
                    "was intended, please sum the corresponding tangents."
                )
            seen.add(id(p))
            if not p._layout.inexact:
                logging = library("logging")

                logging.getLogger("gtape").warning(
                    "The dtype of the watched primal must be floating (e.g. gtape.float32), got %r", p.dtype
                )
                continue
            if isinstance(t, (Tensor, Variable)):
                tangent = t if isinstance(t, Tensor) else t._as_tensor()
                if tangent._layout.dtype != p._layout.dtype:
                    raise ValueError(
                        f"the tangent is {tangent.dtype.name} but its primal is {p.dtype.name}: cast one of them"
                    )
            else:
                tangent = constant(t, p.dtype)
            self._follow(p, tangent)

    def _follow(self, primal: Any, tangent: Tensor) -> None:
        with record.sharing.now:  # because other threads may watch the primal at the same time
            self._follow_alone(primal, tangent)

    def _follow_alone(self, primal: Any, tangent: Tensor) -> None:
        record.note_asked([primal])
        r = primal._record
        if r is None or record.for_a_check_alone(r):
            r = primal._record = record.watched_leaf(r)
        elif r[STEP] is None:
            r[COT] = LEAF
        else:  # a result of a tape, whose short sweep does not know tangents
            for other in r[TAPES].sessions:
                other.shared = True
        _set_tangent(r, self._session, tangent)
        self._given.append(r[TANGENTS])
        stack = record.get_stack()
        if self._mode or stack.trace:
            self._directions.append((primal, tangent))
            note_entry(stack, primal)
        live = [s for s in r[TAPES].sessions if s.live]
        r[TAPES] = TapeSet((*live, self._session)) if live else self._session.alone

    def __copy__(self) -> ForwardAccumulator:
        return self  # the accumulator itself, because the end of a copy would end the session of both

    def __deepcopy__(self, memo: Any) -> ForwardAccumulator:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a ForwardAccumulator cannot be pickled: take the products first, and pickle those")

    def __enter__(self) -> ForwardAccumulator:
        entered = None
        try:
            with record.sharing.now:  # only one of several threads may enter
                session = self._session
                if session.inside is not None:
                    raise ValueError("Accumulator is already recording.")
                record.refuse_in_traced_calls("enters a forward accumulator from before the call", session)
                watch, self._watch = self._watch, None
                record.enter(session, watch)
                entered = session
                self._push.outer = () if session.before is None else session.before.sessions
        except BaseException:
            if entered is not None:  # after an interrupt `__exit__` may not follow
                record.leave(entered)
            raise
        return self

    def _exit(self, *exc: Any) -> None:
        slopes = self._push.slopes
        if slopes is not None:
            record.close(slopes)
            self._push.slopes = None
        if self._session.inside is not None:
            record.leave(self._session)
            self._push.outer = ()

    __exit__ = Leaving(_exit)

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is None or record is None:  # modules lose their names when the interpreter ends
            return
        record.close(session)
        # A variable outlives the accumulator and must not gather its tangents.
        for tangents in self._given:  # no weak references, because the collector has cleared them by now
            tangents.pop(session, None)

    def _looked_up(self, x: Any, zero: bool) -> Any:
        # A method, because a recursive inner function would be a cycle that holds the accumulator.
        if isinstance(x, IndexedSlices):  # IndexedSlices are linear in their rows
            rows = self._looked_up(x.values, zero)
            return None if rows is None else IndexedSlices(rows, x.indices, x.dense_shape)
        if not isinstance(x, (Tensor, Variable)):
            raise errors.NotATensorError(f"jvp() looks up tensors and variables, not {type(x).__name__} ({shown(x)})")
        record.note_asked([x])
        found = self._push.tangent(x)
        left = found is None and bool(self._session.conversions)  # the target may depend on values that left
        if self._mode and x._layout.inexact and (left or _traced(x._record)) and not is_switched_off():
            late.flag.check_jvp(
                self._session,
                [p for p, _ in self._directions],
                [t for _, t in self._directions],
                x,
                found,
                mode=self._mode,
            )
        if found is None and zero:
            return zeros_for(x)
        if found is not None and self._directions and record.get_stack().trace:
            found = self._noted(x, found)
        return found

    def _noted(self, x: Any, found: Tensor) -> Tensor:
        """A tangent, noted for the check of an outer tape."""
        from gtape.engine.gradient_nodes import note_gradients

        primals, tangents = map(list, zip(*self._directions, strict=True))
        made = note_gradients(self._session, [record.record_of(x)], tangents, primals, [found], "jvp", self._since)
        return made[0]  # type: ignore[no-any-return]

    # The annotation is `Any` or `Tensor`, because a tangent may be None or IndexedSlices.
    @overload
    def jvp(self, primals: Tensor | Variable, unconnected_gradients: Any = ...) -> Tensor | Any: ...
    @overload
    def jvp(self, primals: list[Any], unconnected_gradients: Any = ...) -> list[Tensor | Any]: ...
    @overload
    def jvp(self, primals: tuple[Any, ...], unconnected_gradients: Any = ...) -> tuple[Tensor | Any, ...]: ...
    @overload
    def jvp(self, primals: dict[_K, Any], unconnected_gradients: Any = ...) -> dict[_K, Tensor | Any]: ...
    @overload
    def jvp(self, primals: Any, unconnected_gradients: Any = ...) -> Any: ...
    def jvp(self, primals: Any, unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """The tangents of tensors that the block computed.

        Parameters
        ----------
        primals : tensor, variable, IndexedSlices or nest
            The tensors to look up.
        unconnected_gradients : UnconnectedGradients or {"none", "zero"}

        Returns
        -------
        tensor, IndexedSlices, None or nest
            In the structure of `primals`.

        Raises
        ------
        ValueError
            If `unconnected_gradients` has an unknown value.
        TypeError
            If a primal is not a tensor.
        """
        record.refuse_in_traced_calls("asks a forward accumulator from before the call", self._session)
        try:
            zero = wants_zeros(unconnected_gradients)
        except ValueError:  # TensorFlow has another message here
            raise ValueError(f"{shown(unconnected_gradients)} is not a valid UnconnectedGradients") from None
        if primals.__class__ is Tensor:
            return self._looked_up(primals, zero)
        return nest.map_structure(lambda x: self._looked_up(x, zero), primals)


def _traced(r: Any) -> bool:
    """Whether a record has a trace that a check reads."""
    if r is None or r[STEP] is None:
        return False
    if step_of(r).prim is None:  # one output of an op with several
        r = r[PARENTS]
    return len(r) > TRACE and r[TRACE] is not None


def _set_tangent(r: Any, session: Session, tangent: Tensor) -> None:
    while len(r) <= TANGENTS:
        r.append(None)
    if r[TANGENTS] is None:
        r[TANGENTS] = {}
    r[TANGENTS][session] = tangent

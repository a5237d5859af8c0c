"""Runs a function once with traced values, and notes the calls of kernels that compute its results.

Every operation on a traced value becomes a node, and is also computed for the arguments of the traced call. An op makes
one node, with the kernel of the eager call. The rules of a sweep run in a world of their own, so that every op of a
cotangent makes a node.
"""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from gtape.base.collector import collector_delayed
from gtape.base.layout import FLOAT, Layout, layout_of
from gtape.base.own_files import is_own
from gtape.declare.primitives import Primitive
from gtape.engine.call import attach, connections, kernel_of, new_record, record_any
from gtape.engine.diagonal_start import diagonal_start
from gtape.engine.full_sweep import Sweep, alive, full_sweep
from gtape.engine.jacobians import from_identity
from gtape.engine.rules import RuleStep, plan_for
from gtape.engine.sweep import short_sweep
from gtape.engine.worlds import FLOATS, NUMPY, NumPyWorld, off_python, scalar_of
from gtape.recording import record
from gtape.recording.record import INS, NO_TAPES, OUT, SEQ, STEP, TAPES
from gtape.tapes.drawn import Draw
from gtape.tapes.learned import Op, Rule, distinct, rule_of
from gtape.tapes.lent import Lent
from gtape.tapes.seen_constants import SeenConstants, SeenTensors
from gtape.tapes.traced_values import NO_WORDS, Node, Raw, Traced, Untraceable, asked_by, same_shape
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["Tracer", "tracing"]

_MOST_DECISIONS = 3  # places of decisions in a message
# The greatest number of assigned variables. They are assigned together under all their locks, one nested call for each.
_MOST_ASSIGNED = 100
_new: Callable[[type], Any] = object.__new__


def _assigned_by_library() -> bool:
    """Whether a file of the library calls the method that assigns a variable."""
    frame: Any = sys._getframe()
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    variables = None if frame is None else frame.f_globals  # the module of the method that notes the assignment
    while frame is not None and frame.f_globals is variables:
        frame = frame.f_back
    return frame is not None and is_own(frame.f_code.co_filename)


class _TracedWorld(NumPyWorld):
    """The NumPy world, in which calls with traced values make nodes.

    Parameters
    ----------
    lift : callable
        Converts raw values for a sweep. The full sweep converts Python floats to NumPy scalars.
    """

    def __init__(self, lift: Callable[[Any], Any]) -> None:
        self.lift = lift  # type: ignore[assignment]

    def _function(self, prim: Primitive) -> Callable[..., Any]:
        lift = self.lift

        def f(*args: Any, **params: Any) -> Any:
            tracer = _tracer_of(args)
            if tracer is None:
                with np.errstate(all="ignore"):  # the sweep of a trace runs outside of the context without warnings
                    return getattr(NUMPY, prim.name)(*args, **params)
            args = tuple([lift(a) for a in args])
            called = _in_numpy_world(prim, [_sample(a) for a in args], params)
            # Outside of its domain a scalar function raises an error, and eager code takes the kernel for this number.
            return tracer.call(called, args, params, now=getattr(NUMPY, prim.name) if called is prim.scalar else None)

        return f


def _tracer_of(args: Any) -> Any:
    for a in args:
        if a.__class__ is Raw:
            return a.tracer
        if a.__class__ in (list, tuple):
            found = _tracer_of(a)
            if found is not None:
                return found
    return None


def _in_numpy_world(prim: Primitive, samples: list[Any], params: dict[str, Any]) -> Callable[..., Any]:
    """The kernel that the function of the NumPy world calls for these samples, or else the function."""
    function: Callable[..., Any] = getattr(NUMPY, prim.name)
    if "selection" in prim.roles:
        return function
    scalar = scalar_of(prim)
    if scalar is not None and not params and all([s.__class__ in FLOATS for s in samples]):  # noqa: C419
        return scalar if _numbers_only(samples) else function
    return function if any([s.__class__ in (float, list, tuple) for s in samples]) else prim.kernel  # noqa: C419


def _same_value(v: Any) -> Any:
    return v


def _lifted(v: Any) -> Any:
    if v.__class__ is Raw:
        return v.tracer.call(np.float64, (v,)) if v.node.sample.__class__ is float else v
    return off_python(v)


_TRACED = _TracedWorld(_same_value)
_TRACED_FULL = _TracedWorld(_lifted)


def _numbers_only(values: Sequence[Any]) -> bool:
    return all([v.__class__ is float for v in values])  # noqa: C419 - a list is quicker


class Tracer:
    """One traced call: its nodes, and the variables that it reads.

    The tracer replaces the function that runs kernels, because sweeps use this function, too.

    Parameters
    ----------
    run : callable
        Runs kernels quietly.
    outer : Session, optional
        The session of the tape that records the traced call.
    """

    def __init__(self, run: Callable[..., Any], outer: Any = None) -> None:
        self.true_run, self.outer = run, outer
        self.nodes: list[Node] = []
        self.inputs: list[Node] = []
        self.variables: list[Any] = []
        self._lent: dict[int, Lent] = {}  # the variables among the arguments, by number
        self.assigned: dict[int, Any] = {}  # the assigned variables by number
        # Functions to call at the end of each call, with their lists of tensors and other objects.
        self.later_calls: list[tuple[Callable[..., None], list[Any]]] = []
        self._changed: set[int] = set()  # the numbers of the variables that these functions may change
        self._reads: dict[int, Raw] = {}
        self.parts_of_variables: list[Raw] = []  # the values of `variable[key]`
        self._copies: dict[Any, Any] = {}  # copies of the sources of random numbers
        self._apart: dict[Layout, Layout] = {}
        self._ops: dict[Any, Op] = {}
        self._steps: dict[Any, Any] = {}
        self.rules: dict[Any, Rule | None] = {}
        self.sessions: set[Any] = set()  # the sessions of tapes and accumulators that began in the call
        self.seen = SeenConstants()  # complete only for a call under a tape
        self._outside = SeenTensors()
        self.reason: str | None = None
        self.error: BaseException | None = None
        self.open = True
        # Whether a ufunc may overwrite a traced value. Views of the value then keep the old numbers, so this may be
        # True only if the result of the traced call is compared with a plain call.
        self.writes_over = False
        self.ended = False  # whether an error of the user's own code ended the call, so that no eager call follows
        # Where the call decides by values, and where it guards shapes that may depend on values.
        self.decisions: dict[str, None] = {}
        self.shapes: dict[str, None] = {}
        self.texts: set[str] = set()  # the texts that stand for traced tensors, which users print
        self.failed_check = False  # whether a check or an op raised an error, which the function may catch

    def apart(self, layout: Layout) -> Layout:
        """The layout of traced tensors, not interned.

        Quick functions compare layouts before classes, so traced tensors need layouts of their own.
        """
        found = self._apart.get(layout)
        if found is None:
            found = self._apart[layout] = layout.apart()
            self._apart[found] = found
        return found

    # ------------------------------------------------------------------------------------------ notes

    def refuse(self, reason: str, *, where: bool = False) -> None:
        """Mark the call as impossible to compile. With `where` the reason names the op and the user's line."""
        if not self.open:
            raise RuntimeError("this tensor belongs to the tracing of a function, which is over: return it instead")
        self.reason = self.reason or reason + (asked_by(sys._getframe()) if where else "")
        raise Untraceable(reason)

    def wrong(self, error: BaseException) -> BaseException:
        """Note an error that has to reach the user."""
        self.error = error
        return error

    def begin(self, session: Any) -> None:
        """Note a session that begins in the call."""
        session.all_watched = []
        self.sessions.add(session)

    def note_read(self, tensors: Sequence[Tensor]) -> None:
        """Note that an op reads tensors, see `gtape.recording.record.note_read`."""
        for t in tensors:
            self.seen.note(t._value)
        if self._records():
            self._outside.note(tensors)

    def note_asked(self, tensors: Iterable[Any]) -> None:
        """Note that a tape of the call is asked about tensors, see `gtape.recording.record.note_asked`."""
        self._outside.note(tensors)

    def _records(self) -> bool:
        """Whether a tape of the call would record an op whose operand were an argument."""
        stack = record.peek()
        return stack is not None and any([s is not self.outer for s in stack.sessions])  # noqa: C419

    def outside(self) -> SeenTensors:
        """The tensors from outside that the call reads, as far as its own tapes would record them."""
        for session in self.sessions:
            self._outside.note([ref() for ref in session.all_watched or session.watched])
        return self._outside

    def finish(self) -> None:
        """Mark the call as impossible to compile if its tapes may be asked later, because programs record nothing."""
        if self.reason is None and any([s.live for s in self.sessions]):  # noqa: C419 - a list is quicker
            gc.collect()  # because a cycle may keep a tape that nobody reaches
            if any([s.live for s in self.sessions]):  # noqa: C419
                self.reason = "uses a tape or a forward accumulator that outlives the call"

    def input(self, sample: Any) -> Raw:
        """The next input of the program."""
        node = Node(None, (), {}, sample, None)
        self.inputs.append(node)
        return Raw(self, node)

    def call(self, function: Any, args: Sequence[Any], words: Any = None, text: Any = None, *, now: Any = None) -> Any:
        """Make a node for a call, and make the call for the traced values, by the function `now` if it is given."""
        if not self.open:
            self.refuse("")
        words = words or NO_WORDS
        noted = tuple([_noted(a) for a in args])
        noted_words = {k: _noted(v) for k, v in words.items()} if words else NO_WORDS
        samples = [_sample(a) for a in args]
        sample_words = {k: _sample(v) for k, v in words.items()} if words else NO_WORDS
        try:
            made = self.true_run(now or function, *samples, **sample_words)
        except ArithmeticError:
            self.refuse("divides by zero or overflows in the traced call")
        return self.result(Node(function, noted, noted_words, made, text))

    def of_two(self, function: Any, a: Node, b: Node, text: str) -> Any:
        """The same as `call` for an operator of two traced values, which is the most frequent call in sweeps."""
        if not self.open:
            self.refuse("")
        try:
            made = self.true_run(function, a.sample, b.sample)
        except ArithmeticError:
            self.refuse("divides by zero or overflows in the traced call")
        return self.result(Node(function, (a, b), NO_WORDS, made, text))

    def result(self, node: Node) -> Any:
        """The value of a new node; a tuple of values for a tuple."""
        self.nodes.append(node)
        whole = Raw(self, node)
        if node.sample.__class__ is not tuple:
            return whole
        parts: list[Any] = []
        for i, part in enumerate(node.sample):
            if part is None:
                parts.append(None)
                continue
            item = Node(operator.getitem, (node, i), {}, part, "{}[{}]")
            self.nodes.append(item)
            parts.append(Raw(self, item))
        return tuple(parts)

    def computed_anew(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function whose nodes are not shared with equal ones, see `gtape.recording.record.computed_anew`."""
        start = len(self.nodes)
        made = function(*args, **kwargs)
        for node in self.nodes[start:]:
            node.alone = True
        return made

    def constant(self, value: Any) -> Any:
        """A constant as a value of the program."""
        return self.result(Node(_same_value, (value,), {}, value, None))

    def guard_shape(self, value: Raw, shape: tuple[int, ...]) -> None:
        """Make a guard for a shape that may depend on values, because Python's code sees the shape."""
        if len(self.shapes) < _MOST_DECISIONS:
            self.shapes[asked_by(sys._getframe())] = None
        self.guard(same_shape, value, shape)

    def note_decision(self) -> None:
        """Note the op and the user's line that read a value, for the message that the program is seldom valid."""
        if len(self.decisions) < _MOST_DECISIONS:
            self.decisions[asked_by(sys._getframe())] = None

    def decided_at(self) -> str:
        """The end of the sentence that the call decides by values: where, and how to avoid this."""
        found, how = (self.decisions, "it reads them") if self.decisions else (self.shapes, "they decide on a shape")
        if not found:
            return ""
        return f": {how}{','.join(found)}; gtape.gather, gtape.where and gtape.one_hot take values without reading them"

    def guard(self, check: Callable[..., None], value: Raw, expected: Any) -> None:
        """Make a guard for a decision by a value."""
        node = Node(check, (value.node, expected), {}, None, None)
        node.guards = True
        self.nodes.append(node)

    def draw(self, source: Any, words: Callable[[Any], Any], draw: Callable[[Any], Any], changed: Sequence[Any]) -> Any:
        """Note random numbers, see `gtape.recording.record.drawn_later`. The traced call draws from a copied source."""
        if not self.open:
            self.refuse("")
        copied = self._copies.get(source)
        if copied is None:
            copied = self._copies[source] = source.copy()
        chosen = self.input(words(copied))
        self.variables.append(Draw(source, words, chosen.node.sample))
        self._changed.update([v._uid for v in changed])
        return self.call(draw, (chosen,))

    def check(self, check: Callable[..., None], tensors: Sequence[Tensor]) -> None:
        """Note a check of values, see `gtape.recording.record.checked_later`."""
        if not self.open:
            self.refuse("")
        values = [t._value for t in tensors]
        try:
            self.true_run(check, *[_sample(v) for v in values])
        except Exception:
            self.failed_check = True
            raise
        if _tracer_of(values) is None:
            return  # constants pass at each call
        node = Node(check, tuple([_noted(v) for v in values]), {}, None, None)
        node.guards = True
        self.nodes.append(node)

    def decide(self, work: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
        """Note indices or truth values that each call computes, see `gtape.recording.record.decided_later`."""
        values = [t._value for t in tensors]
        if _tracer_of(values) is None:
            return None
        self.note_read(tensors)

        def decision(*given: Any) -> Any:
            return work(*[np.asarray(v) for v in given])

        try:
            made = self.call(decision, values)
        except Untraceable:
            raise
        except Exception:
            self.failed_check = True
            raise
        self.guard_shape(made, made.shape)
        return made.as_tensor()

    # ------------------------------------------------------------------------------------------ ops

    def op(self, prim: Primitive, tensors: Sequence[Tensor], params: dict[str, Any]) -> Any:
        """Make a node for one op, and a record for the tapes inside of the function."""
        if not self.open:
            self.refuse("")
        stack = record.peek() or record.idle_stack()
        if stack.sessions and (self.outer is None or self._records()):
            self._outside.note(tensors)
        key = (prim, *[t._layout for t in tensors]) if not params else None
        known = self._ops.get(key)
        if known is not None:
            out = self._again(known, tensors)
            if out is not None:
                if not stack.sessions:
                    return out
                if stack.tapes is stack.recording and known.plain:  # neither a check nor forward mode
                    return self._record(stack, known, prim, tensors, out)
                return self._recorded(stack, prim, tensors, params, out)
        if self.outer is not None:
            self.seen.note([*tensors])
        out = self._first(prim, tensors, params, key)
        return self._recorded(stack, prim, tensors, params, out) if stack.sessions else out

    def _recorded(
        self, stack: record.Stack, prim: Primitive, tensors: Sequence[Tensor], params: dict[str, Any], out: Any
    ) -> Any:
        """The result of an op with its records, in the general way."""
        if stack.trace:
            self.refuse("checks its gradients")
        forward = stack.tapes is not stack.recording and any([s.forward is not None for s in stack.sessions])  # noqa: C419
        if forward and (prim.selects or prim.kind == "custom"):
            self.refuse("pushes tangents through a selection or a custom gradient")
        if any([t._layout.no_kernel for t in tensors]):  # noqa: C419 - a list is quicker
            self.refuse("differentiates complex numbers or half precision")
        if _is_quick(prim, tensors) and not forward:
            return self._record_quick(stack, prim, tensors, out)
        return record_any(stack, prim, tensors, params, out)

    def _first(self, prim: Primitive, tensors: Sequence[Tensor], params: dict[str, Any], key: Any) -> Any:
        """The result of an op on operands of a new kind. Notes how the op calls its kernel."""
        values = [t._value for t in tensors]
        for v in values:
            if v.__class__ is Raw and v.tracer is not self:  # from another function, which is usually over
                v.tracer.refuse("uses a tensor of another function that is being traced")
                self.refuse("uses a tensor of another function that is being traced")
        samples = [_sample(v) for v in values]
        raises = _may_raise(prim, tensors)
        try:
            made = self.true_run(prim.function, *[wrap(s) for s in samples], **params)
        except Exception:
            self.failed_check = self.failed_check or (raises and _tracer_of(values) is not None)
            raise
        if raises and not prim.place.outside:  # at each call, even if nothing reads the result
            key = None
            self.check(partial(prim.kernel, **params), tensors)  # a function of its own, so that the calls stay apart
        several = made.__class__ is tuple
        expected = tuple([t._value for t in made]) if several else made._value
        raws = self._kernel_call(prim, tensors, values, samples, params, expected)
        if several:
            for r, t in zip(raws, made, strict=True):
                if not prim.differentiable:
                    self.guard_shape(r, t._layout.shape)
            return tuple([Traced.of(r, t._layout) for r, t in zip(raws, made, strict=True)])
        if prim.partials is None and not prim.differentiable:
            self.guard_shape(raws, made._layout.shape)
        elif key is not None and prim.kind != "custom":
            node = raws.node
            # Eager code chooses by the value between a scalar function and its kernel.
            finishes = node.function is float and not (prim.scalar is not None and prim.inlined)
            if finishes and node.args[0].__class__ is Node and len(node.args) == 1:
                node = node.args[0]
            if node.function is prim.scalar or node.function is prim.kernel:
                op = Op(node.function, node.text, self.apart(made._layout), node.sample.__class__)
                op.finishes = node is not raws.node
                op.lifted = not op.bare and any([s.__class__ is float for s in samples])  # noqa: C419 - a list is quicker
                op.quick = _is_quick(prim, tensors)
                op.plain = not any([t._layout.no_kernel for t in tensors])  # noqa: C419
                self._ops[key] = op
        return Traced.of(raws, made._layout)

    def _again(self, op: Op, tensors: Sequence[Tensor]) -> Traced | None:
        """The result of an op on operands of a known kind; None if the general way is needed."""
        args: list[Any] = []
        samples: list[Any] = []
        for t in tensors:
            v = t._value
            if v.__class__ is Raw:
                node = v.node
                if op.lifted and node.sample.__class__ is float:
                    node = self.call(np.float64, (v,)).node
                args.append(node)
                samples.append(node.sample)
            else:
                if self.outer is not None:
                    self.seen.note(v)
                if op.lifted:
                    v = off_python(v)
                args.append(v)
                samples.append(v)
        layout = op.layout
        try:
            made = op.function(*samples) if op.bare else self.true_run(op.function, *samples)
        except Exception:  # the general way raises the error with its own message
            return None
        if made.__class__ is not op.kind:
            return None
        if not op.bare and (made.dtype is not layout.dtype or made.shape != layout.shape):
            return None
        node = Node(op.function, tuple(args), NO_WORDS, made, op.text)
        self.nodes.append(node)
        if op.finishes:
            node = Node(float, (node,), NO_WORDS, float(made), None)
            self.nodes.append(node)
        out: Traced = _new(Traced)
        out._value = Raw(self, node)
        out._layout = layout
        out._record = None
        return out

    def _kernel_call(
        self, prim: Primitive, tensors: Sequence[Tensor], values: list[Any], samples: list[Any],
        params: dict[str, Any], expected: Any,
    ) -> Any:  # fmt: skip
        """The kernel call that an eager op makes, or the call of the whole op if the kernel alone is not enough."""
        noted = tuple([_noted(v) for v in values])
        if (
            _numbers_only(samples) and expected.__class__ is float and prim.scalar is not None and prim.inlined
            and _has_quick(prim, tensors)
        ):  # fmt: skip
            text = None
            if prim.infix:
                text = f"{{}} {prim.infix} {{}}" if len(samples) == 2 else f"{prim.infix}{{}}"
            try:
                same = _same(prim.scalar(*samples), expected)
            except (ValueError, ArithmeticError):
                same = True  # eager code takes the kernel for this number, and the function for others
            if same:
                return self.result(Node(prim.scalar, noted, {}, expected, text))
        kernel = kernel_of(prim, tensors)
        lifted = [np.float64(s) if s.__class__ is float else s for s in samples]
        try:
            made = None if kernel is None else self.true_run(kernel, *lifted, **params)
        except Exception:
            made = None
        if made.__class__ is not tuple and made is not None:
            result = made
            finish: Callable[[Any], Any] | None = None
            if expected.__class__ is float and made.__class__ is not float:
                finish, made = float, float(made)
            elif isinstance(made, np.ndarray) and not made.ndim:
                finish, made = _element, made[()]
            if _same(made, expected):
                inner = [
                    self.call(np.float64, (v,)).node if v.__class__ is Raw and s.__class__ is float
                    else np.float64(s) if s.__class__ is float else _noted(v)
                    for v, s in zip(values, samples, strict=True)
                ]  # fmt: skip
                raw = self.result(Node(kernel, tuple(inner), dict(params), result, None))
                return raw if finish is None else self.result(Node(finish, (raw.node,), {}, expected, None))

        def whole(*raws: Any) -> Any:
            result = prim.function(*[wrap(r) for r in raws], **params)
            return tuple([t._value for t in result]) if result.__class__ is tuple else result._value

        whole.__name__ = prim.name
        return self.result(Node(whole, noted, {}, expected, None))

    def _record_quick(self, stack: record.Stack, prim: Primitive, tensors: Sequence[Tensor], out: Any) -> Any:
        """A record like that of an elementwise op's quick function. Its step fits operands of any shape."""
        active, parents, tapes, _ = connections(stack, prim, tensors, out._layout.inexact)
        if not tapes.sessions:
            return out
        recorded = [t for t in tensors if t._record is not None and t._record[TAPES] is not NO_TAPES]
        if not active or len(active) < len(recorded):  # an operand without a gradient needs the general way
            return record_any(stack, prim, tensors, {}, out)
        made = new_record(self._step(prim, active), parents, tuple(tensors), out._value, tapes)
        attach(stack, made, tensors, out, None)
        return out

    def _step(self, prim: Primitive, active: tuple[int, ...]) -> Any:
        """The step of the quick function of an elementwise op."""
        known = self._steps.get((prim, active))
        if known is not None:
            return known
        fixed = RuleStep(prim, active, {}, None, None)

        def step(g: Any, ins: Any, value: Any) -> Any:
            made = fixed.on(layout_of(ins[0]._value) if not isinstance(ins[0]._value, Raw) else ins[0]._layout)
            found = made.cotangents(_TRACED, g, value, tuple([t._value for t in ins]))
            return found[0] if len(found) == 1 else found

        step.step, step.prim = fixed, prim  # type: ignore[attr-defined]
        self._steps[prim, active] = step
        return step

    def _record(self, stack: record.Stack, op: Op, prim: Primitive, tensors: Sequence[Tensor], out: Traced) -> Any:
        """The record of a known op, if all sessions hold the operands that are recorded."""
        recording = stack.recording
        parents = []
        bits, place = 0, 1
        for t in tensors:
            r = t._record
            if r is not None and r[TAPES] is not NO_TAPES:
                if r[TAPES] is not recording:
                    return self._recorded(stack, prim, tensors, {}, out)
                parents.append(r)
                bits |= place
            place <<= 1
        if not bits:
            return self._recorded(stack, prim, tensors, {}, out)
        found = op.steps.get(bits)
        if found is None:
            found = op.steps[bits] = self._step_of(op, prim, tensors, bits, out)
        step, keep, reads_y = found
        if step is None:
            return self._recorded(stack, prim, tensors, {}, out)
        ins = None
        if keep is not None:
            ins = tuple(tensors) if op.quick else tuple([t if k else None for t, k in zip(tensors, keep, strict=True)])
        if prim.selects:  # before the result has a record, because an interrupt may follow
            for session in recording.sessions:
                session.selects = True
        out._record = new_record(step, parents, ins, out._value if reads_y else None, recording)
        if stack.note is not None:
            stack.note(out)
        return out

    def _step_of(self, op: Op, prim: Primitive, tensors: Sequence[Tensor], bits: int, out: Traced) -> Any:
        """The step of the record of a known op, with what the record keeps; None for the general way."""
        active = tuple([i for i in range(len(tensors)) if bits >> i & 1])
        inexact = out._layout.inexact and all([tensors[i]._layout.inexact for i in active])  # noqa: C419
        if not inexact or prim.sparse is not None or not all([prim.connected(i) for i in active]):  # noqa: C419
            return None, None, False
        if op.quick:
            return self._step(prim, active), True, True
        plan = plan_for(prim, active, len(tensors))
        layouts = tuple([t._layout for t in tensors])
        return RuleStep(prim, plan.active, {}, layouts, out._layout), plan.keep, plan.reads_y

    def later(self, function: Callable[..., None], tensors: list[Any], changed: list[Any]) -> None:
        """Note a function that each call of the program calls at its end, see `gtape.recording.record.done_later`."""
        if self.outer is not None:
            self.refuse("changes variables under a tape")
        self.later_calls.append((function, tensors))
        self._changed.update([v._uid for v in changed])

    def lend(self, variable: Any) -> None:
        """Note a variable among the arguments, which the program may hold only weakly."""
        self._lent[variable._uid] = Lent(variable)

    def read(self, variable: Any) -> Traced:
        """The value of a variable."""
        if variable._uid in self._changed:
            self.refuse("reads a variable after an optimizer or a draw of random numbers changed it")
        raw = self._reads.get(variable._uid)
        if raw is None:
            if variable._layout.dtype.kind == "O":
                self.refuse("reads a variable of strings")
            raw = self._reads[variable._uid] = self.input(variable._value)
            self.variables.append(self._lent.get(variable._uid, variable))
        return Traced.of(raw, variable._tensor_layout)

    def assign(self, variable: Any, t: Tensor, kernel: Any, *, of_ops: bool = False) -> None:
        """Note the assignment of a value to a variable, or of a kernel's result for its old value and the given one.

        Assignments by the library are noted only if the value is known to come from ops (`of_ops`), because other
        values depend on what no program reads.
        """
        if t._layout.shape != variable._layout.shape:
            self.refuse("assigns a value of another shape to a variable")
        if variable._layout.dtype.kind == "O":
            self.refuse("assigns a variable of strings")
        if self.later_calls:
            self.refuse("assigns a variable after an optimizer changed variables")
        if not of_ops and _assigned_by_library():
            self.refuse("assigns a variable inside of a function of the library")
        if len(self.assigned) >= _MOST_ASSIGNED and variable._uid not in self.assigned:
            self.refuse(f"assigns more than {_MOST_ASSIGNED} variables")
        old = self.read(variable)._value
        value = t._value
        if kernel is not None:
            raw = self.call(kernel, (old, value))
        elif value.__class__ is Raw:
            raw = value
        else:
            own = value.copy() if isinstance(value, np.ndarray) else value  # because the array may belong to the user
            raw = self.constant(own)
        if variable._tensor_layout is FLOAT and raw.node.sample.__class__ is not float:
            raw = self.call(float, (raw,))
        elif isinstance(raw.node.sample, np.ndarray) and not raw.node.sample.ndim:
            raw = raw[()]
        self._reads[variable._uid] = raw
        self.assigned[variable._uid] = self._lent.get(variable._uid, variable)

    @property
    def values(self) -> list[Node]:
        """The nodes of the values of the assigned variables, in the order of `assigned`."""
        return [self._reads[uid].node for uid in self.assigned]

    # ------------------------------------------------------------------------------------------ sweeps

    def in_place(self, _: Any) -> Tracer:
        """The runner of sweeps that call functions of the user."""
        return self

    def __call__(self, function: Any, *args: Any, **params: Any) -> Any:
        """Run a kernel on constants, or a sweep."""
        if function is short_sweep:
            return self._short(*args, **params)
        if function is full_sweep:
            return self._full(*args, **params)
        if function is from_identity:
            return self._identity(*args)
        if function is alive:
            return self.call(function, args)
        if _tracer_of(args) is not None:
            self.refuse(f"calls {getattr(function, '__name__', 'a kernel')} outside of an op")
        self.seen.note(args)
        if self._records():
            self._outside.note_values(args)
        return self.true_run(function, *args, **params)

    def sweep(self, session: Any, seeds: list[tuple[Any, Raw]], sources: list[Any], *, full: bool) -> list[Any]:
        """The cotangents of sources, by a sweep of a session around the call. By the full sweep if requested."""
        world = _TRACED_FULL if full else _TRACED
        return full_sweep(world, session, seeds, sources, sparse=False, kind=_Sweep)[0]

    def _short(self, seeds: list[Any], sources: list[Any], *, keep: bool = False, batch: int | None = None) -> Any:
        sessions = {s for r, _ in seeds for s in r[TAPES].sessions}
        if not sessions:
            found = {r[SEQ]: g for r, g in seeds}
            return [found.get(s[SEQ]) for s in sources]
        session = next(iter(sessions))
        return full_sweep(_TRACED, session, seeds, sources, batch=batch, sparse=False, kind=_Sweep)[0]

    def _full(self, world: Any, session: Any, seeds: Any, sources: Any, **how: Any) -> Any:
        if how.get("masked"):
            self.refuse("has a gradient that is infinite or NaN in the traced call")
        if world is not NUMPY:
            self.refuse("sweeps in another world")
        return full_sweep(_TRACED_FULL, session, seeds, sources, kind=_Sweep, **how)

    def _identity(self, start: Any, layout: Any, sources: list[Any]) -> Any:
        """The same as `gtape.engine.jacobians.from_identity`, for traced values."""
        n = layout.size
        if n < 2:
            seed = np.eye(n, dtype=layout.dtype).reshape((n, *layout.shape))
            return self._short([(start, seed)], sources, batch=n)
        seeds, found = diagonal_start(start, np.ones(layout.shape, layout.dtype), {s[SEQ] for s in sources})
        made = self._short(seeds, sources, batch=n) if seeds else [None] * len(sources)
        for i, s in enumerate(sources):
            d = found.get(s[SEQ])
            if d is not None:
                from gtape.engine.diagonal_start import dense

                made[i] = dense(d) if made[i] is None else made[i] + dense(d)
        return made

    def stamp(self, rule: Rule, given: list[Any]) -> list[Raw] | None:
        """Repeat the calls that a rule made before, on other values of the same kinds.

        Returns the results; None, without nodes, if a call raises an error because of its values.
        """
        known = given
        start = len(self.nodes)
        values = [a.sample if a.__class__ is Node else a for a in given]
        nodes, run = self.nodes, self.true_run
        for function, operands, constants, words, text, bare in rule.calls:
            if constants:
                args = tuple([known[k] if k >= 0 else constants[k] for k in operands])
                samples = [values[k] if k >= 0 else constants[k] for k in operands]
            else:
                args = tuple([known[k] for k in operands])
                samples = [values[k] for k in operands]
            try:
                made = function(*samples) if bare else run(function, *samples, **words)
            except (ArithmeticError, ValueError):  # outside of the domain of a function of Python floats
                del nodes[start:]
                return None
            node = Node(function, args, words, made, text)
            nodes.append(node)
            known.append(node)
            values.append(made)
        return [Raw(self, known[k]) for k in rule.results]


class _Sweep(Sweep):
    """A sweep of traced values that repeats the calls of a known rule instead of running the rule."""

    def pass_on(self, record: Any, parents: Any, g: Any, mask: Any) -> None:
        """Pass the cotangent that arrived at a record to its parents."""
        whole = record[STEP]
        kind = whole.__class__
        step = whole.step if kind is FunctionType else whole
        # A custom gradient may have returned a cotangent that no later rule takes, which the general way reports.
        alone = self.batch is not None or mask is not None or self.misshapen is not None or self.mistyped is not None
        if alone or g.__class__ is not Raw or kind not in _STEPS or _makes_other_calls(step):
            super().pass_on(record, parents, g, mask)
            return
        tracer, node, ins, out = g.tracer, g.node, record[INS], record[OUT]
        # An op on only constants that the tape watches has the record of an eager op.
        if ins.__class__ is not tuple and (ins is not None or step.layouts is None):
            super().pass_on(record, parents, g, mask)
            return
        lift = self.world.lift
        given = [node, out.node if out.__class__ is Raw else lift(out)]
        kinds = 0
        if ins is not None:
            for t in ins:
                kinds *= 4
                v = None if t is None else t._value
                if v.__class__ is Raw:
                    kinds += 1
                    v = v.node
                elif v is not None:
                    kinds += 2
                    v = lift(v)
                given.append(v)
        # The places of operands that occur twice are noted, because the operands of calls do not tell them apart.
        same = None
        if len(set(map(id, given))) < len(given):
            places = {id(v): k for k, v in enumerate(given)}
            same = tuple([places[id(v)] for v in given])
        sample = node.sample
        form = float if sample.__class__ is float else (sample.__class__, sample.shape, sample.dtype.char)
        layout = None if ins is None or step.layouts is not None else ins[0]._layout
        key = (whole, lift, layout, kinds, same, form)
        rule = tracer.rules.get(key, _UNKNOWN)
        made: list[Any] | None
        if rule is _UNKNOWN:
            made = self._learned(key, step if layout is None else step.on(layout), record, g)
        else:
            made = None if rule is None else tracer.stamp(rule, given)
        if made is None:
            super().pass_on(record, parents, g, mask)
            return
        session = self.session
        for parent, c in zip(parents, made, strict=True):
            if c is not None and session in parent[TAPES].sessions:
                self.arrive(parent, c)

    def _learned(self, key: Any, step: Any, record: Any, g: Any) -> list[Any]:
        """The cotangents by the rule. The tracer keeps the calls of the rule for repetition."""
        tracer, lift = g.tracer, self.world.lift
        out, xs = record[OUT], step.layouts
        y = out if out.__class__ is Raw else lift(out)
        given = [
            None if t is None else t._value if t._value.__class__ is Raw else distinct(lift(t._value))
            for t in record[INS] or ()
        ]  # fmt: skip
        start = len(tracer.nodes)
        lifted = lift(y)
        if given:
            xs = tuple([a if v is None else lift(v) for v, a in zip(given, xs, strict=True)])
        made = step.cotangents(self.world, g, lifted, xs)
        nodes = [c.node if c.__class__ is Raw else None for c in made]
        tracer.rules[key] = rule_of([_noted(v) for v in (g, y, *given)], tracer.nodes[start:], nodes)
        return made  # type: ignore[no-any-return]


def _makes_other_calls(step: RuleStep) -> bool:
    """Whether a step may call other kernels for operands of the same kinds."""
    return bool(step.params) or step.prim.kind == "custom" or step.prim.sparse is not None


_STEPS = (RuleStep, FunctionType)
_UNKNOWN: Any = object()


def _element(v: Any) -> Any:
    return v[()]


def _may_raise(prim: Primitive, tensors: Sequence[Tensor]) -> bool:
    """Whether the kernel of an op may raise an error because of a value, such as an integer divisor of 0.

    Other ops raise such errors in checks of their own. The kernels of ops from outside of gtape are unknown.
    """
    if prim.kernel.__class__ is np.ufunc:
        return False
    whole = prim.kind == "elementwise" and len(tensors) > 1
    return prim.place.outside or (whole and all([t._layout.dtype.kind in "iu" for t in tensors]))  # noqa: C419


def _has_quick(prim: Primitive, tensors: Sequence[Tensor]) -> bool:
    """Whether an eager call with these operands uses the generated function of an elementwise op."""
    if prim.kind != "elementwise" or len(tensors) > 2 or prim.params or "selection" in prim.roles:
        return False
    first, last = tensors[0]._layout, tensors[-1]._layout
    return first.dtype == last.dtype and first.shape == last.shape and not prim.opaque


def _is_quick(prim: Primitive, tensors: Sequence[Tensor]) -> bool:
    """Whether the generated function records the call, too, as that of an op which selects nothing."""
    return not prim.selects and _has_quick(prim, tensors)


def _same(a: Any, b: Any) -> bool:
    """Whether two raw values have the same bits and the same form."""
    if a.__class__ is not b.__class__:
        return False
    x, y = np.asarray(a), np.asarray(b)
    return x.dtype == y.dtype and x.shape == y.shape and x.dtype.kind != "O" and x.tobytes() == y.tobytes()


def _noted(a: Any) -> Any:
    if a.__class__ is Raw:
        return a.node
    if a.__class__ in (list, tuple):
        return a.__class__([_noted(b) for b in a])
    return a


def _sample(a: Any) -> Any:
    if a.__class__ is Raw:
        return a.node.sample
    if a.__class__ in (list, tuple):
        return a.__class__([_sample(b) for b in a])
    return a


@contextmanager
def tracing(outer: Any = None) -> Iterator[Tracer]:
    """Trace the ops of this thread during a block.

    Parameters
    ----------
    outer : Session, optional
        The session of the tape that records the traced call.
    """
    idle = record.idle_stack()
    run = idle.run
    tracer = Tracer(run, outer)
    with collector_delayed(), record.off(() if outer is None else (outer,), probe={}):
        idle.run = record.get_stack().run = tracer
        try:
            yield tracer
        finally:
            tracer.open = False
            idle.run = run  # before `off` ends, because `off` passes this function to the stack from before the block

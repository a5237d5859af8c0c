"""Runs a function once with traced values, and notes the calls of kernels that compute its results.

A traced tensor holds a `Raw` in place of its array. A `Raw` notes every operation as a node, and computes it for the
arguments of the traced call, too. Ops note one node each, with the kernel that eager calls take. The rules of a sweep
run in a world of their own, so that cotangents are noted op by op. A decision that the library takes by a value becomes
a guard: the program is valid only while the decision is the same.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np

from gtape import errors
from gtape.base.layout import FLOAT, Layout, layout_of
from gtape.base.own_files import is_own
from gtape.base.python_values import adapted
from gtape.declare.primitives import Primitive
from gtape.engine.call import attach, connections, new_record, record_any
from gtape.engine.diagonal_start import diagonal_start
from gtape.engine.full_sweep import Sweep, alive, full_sweep
from gtape.engine.jacobians import from_identity
from gtape.engine.rules import RuleStep, absorb_zeros, plan_for
from gtape.engine.sparse import SparseCotangent
from gtape.engine.sweep import short_sweep
from gtape.engine.worlds import NUMPY, NumPyWorld, off_python
from gtape.recording import record
from gtape.recording.record import INS, NO_TAPES, OUT, SEQ, STEP, TAPES, step_of
from gtape.tapes.learned import Op, Rule, distinct, rule_of
from gtape.tensors.tensor import Tensor, wrap

__all__ = ["ABSORBED", "NO_NAN", "SAME_TRUTH", "Guard", "Node", "Raw", "Traced", "Tracer", "Untraceable", "tracing"]


# Variables take their values together, under the locks of all, each inside a call that holds the one before.
_MOST_ASSIGNED = 100


class Untraceable(Exception):
    """The function, or this call of it, cannot be compiled."""


class Guard(Exception):
    """A compiled program met a value by which the library decides otherwise than in the traced call."""


class Node:
    """One operation of a traced function.

    Attributes
    ----------
    function : callable
    args : tuple
        Nodes, constants, and lists and tuples of these.
    words : dict
        Keyword arguments.
    text : str or None
        The operation as source, with a place for each argument.
    sample : raw value
        The result in the traced call.
    guards : bool
        Whether it computes nothing, but raises `Guard`.
    reads : list of Node or None
        The nodes among the arguments, as soon as they are known.
    place : int
        Where in its program it stands, as soon as that is known; -1 for an input.
    """

    __slots__ = ("args", "function", "guards", "name", "place", "reads", "sample", "text", "words")

    def __init__(self, function: Any, args: tuple[Any, ...], words: dict[str, Any], sample: Any, text: Any) -> None:
        self.function, self.args, self.words, self.sample, self.text = function, args, words, sample, text
        self.guards = False
        self.name = ""
        self.place = -1
        self.reads: list[Node] | None = None


def _same_truth(value: Any, expected: bool) -> None:
    if bool(value) is not expected:
        raise Guard


def _same_number(value: Any, expected: Any) -> None:
    if value != expected:
        raise Guard


def _same_array(value: Any, expected: Any) -> None:
    if not np.array_equal(value, expected):
        raise Guard


def _same_shape(value: Any, expected: tuple[int, ...]) -> None:
    if np.shape(value) != expected:
        raise Guard


def _assigned_by_library() -> bool:
    """Whether a file of the library calls the method that assigns a variable."""
    frame: Any = sys._getframe()
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    variables = None if frame is None else frame.f_globals  # the module whose method notes the assignment
    while frame is not None and frame.f_globals is variables:
        frame = frame.f_back
    return frame is not None and is_own(frame.f_code.co_filename)


def _by_library(depth: int = 2) -> bool:
    """Whether the innermost caller outside this module is a file of the library."""
    frame: Any = sys._getframe(depth)
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    return frame is not None and is_own(frame.f_code.co_filename)


# The methods of arrays whose result has a shape that only shapes and dtypes decide.
_METHODS = frozenset([method.__name__ for method in (
    np.ndarray.all, np.ndarray.any, np.ndarray.argmax, np.ndarray.argmin, np.ndarray.astype, np.ndarray.conj,
    np.ndarray.copy, np.ndarray.item, np.ndarray.max, np.ndarray.mean, np.ndarray.min, np.ndarray.ravel,
    np.ndarray.reshape, np.ndarray.sum, np.ndarray.squeeze, np.ndarray.swapaxes, np.ndarray.transpose,
)])  # fmt: skip
# The same for functions of NumPy.
_FUNCTIONS = frozenset({
    np.all, np.any, np.argmax, np.array_equal, np.broadcast_to, np.concatenate, np.copy, np.dot, np.einsum,
    np.expand_dims, np.flip, np.max, np.mean, np.min, np.moveaxis, np.ones_like, np.prod, np.ravel, np.reshape,
    np.squeeze, np.stack, np.sum, np.swapaxes, np.take, np.take_along_axis, np.trace, np.transpose, np.where,
    np.zeros_like,
})  # fmt: skip
_STATIC = frozenset({np.ndim, np.shape, np.size})
_MOST_GUARDED = 64  # elements of an array of whole numbers that a guard compares


def _absorbed(g: Any, c: Any) -> Any:
    return absorb_zeros(NUMPY, g, c)


def _no_nan(value: Any, _: Any) -> None:
    if not (value == value if value.__class__ is float else np.equal(value, value).all()):
        raise Guard


# The functions that the table knows: they change no number but NaN, or none.
ABSORBED, NO_NAN, SAME_TRUTH = _absorbed, _no_nan, _same_truth


def _infix(function: Callable[..., Any], sign: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    text = f"{{}} {sign} {{}}"

    def forward(self: Raw, other: Any) -> Any:
        if other.__class__ is Raw:
            return self.tracer.of_two(function, self.node, other.node, text)
        if isinstance(other, SparseCotangent):
            self.tracer.refuse("has a gradient of rows (IndexedSlices)")
        return self.tracer.call(function, (self, other), text=text)

    def backward(self: Raw, other: Any) -> Any:
        return self.tracer.call(function, (other, self), text=text)

    return forward, backward


class Raw:
    """A raw value of a traced call.

    Parameters
    ----------
    tracer : Tracer
    node : Node
    """

    __slots__ = ("node", "tracer")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000

    def __init__(self, tracer: Tracer, node: Node) -> None:
        self.tracer, self.node = tracer, node

    @property
    def shape(self) -> Any:
        return np.shape(self.node.sample)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.size(self.node.sample))

    @property
    def dtype(self) -> Any:
        sample = self.node.sample
        return FLOAT.dtype if sample.__class__ is float else sample.dtype

    __add__, __radd__ = _infix(operator.add, "+")
    __sub__, __rsub__ = _infix(operator.sub, "-")
    __mul__, __rmul__ = _infix(operator.mul, "*")
    __truediv__, __rtruediv__ = _infix(operator.truediv, "/")
    __floordiv__, __rfloordiv__ = _infix(operator.floordiv, "//")
    __mod__, __rmod__ = _infix(operator.mod, "%")
    __pow__, __rpow__ = _infix(operator.pow, "**")
    __matmul__, __rmatmul__ = _infix(operator.matmul, "@")
    __and__, __rand__ = _infix(operator.and_, "&")
    __or__, __ror__ = _infix(operator.or_, "|")
    __lt__, __gt__ = _infix(operator.lt, "<")[0], _infix(operator.gt, ">")[0]
    __le__, __ge__ = _infix(operator.le, "<=")[0], _infix(operator.ge, ">=")[0]
    __eq__ = _infix(operator.eq, "==")[0]
    __ne__ = _infix(operator.ne, "!=")[0]

    def __neg__(self) -> Any:
        return self.tracer.call(operator.neg, (self,), text="-{}")

    def __invert__(self) -> Any:
        return self.tracer.call(operator.invert, (self,), text="~{}")

    def __abs__(self) -> Any:
        return self.tracer.call(abs, (self,))

    def __getitem__(self, key: Any) -> Any:
        if any(isinstance(k, (Raw, list, np.ndarray)) for k in (key if isinstance(key, tuple) else (key,))):
            self.tracer.refuse("indexes an array by values")
        return self.tracer.call(operator.getitem, (self, key))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in _METHODS:
            if hasattr(self.node.sample, name):
                self.tracer.refuse(f"uses .{name} of a value")
            raise AttributeError(name)
        method = operator.methodcaller
        tracer = self.tracer

        def call(*args: Any, **words: Any) -> Any:
            if any(isinstance(a, Raw) for a in (*args, *words.values())):
                tracer.refuse(f"calls .{name} with values")
            return tracer.call(method(name, *args, **words), (self,))

        return call

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **words: Any) -> Any:
        if "out" in words or method == "at":
            self.tracer.refuse("changes an array in place")
        return self.tracer.call(ufunc if method == "__call__" else getattr(ufunc, method), inputs, words)

    def __array_function__(self, function: Any, types: Any, args: Any, words: Any) -> Any:
        if function in _STATIC:
            return function(self.node.sample)
        if function not in _FUNCTIONS or (function is np.where and len(args) < 3):
            self.tracer.refuse(f"calls numpy.{getattr(function, '__name__', '?')} of a value")
        return self.tracer.call(function, tuple(args), words)

    def __array__(self, *_: Any, **__: Any) -> Any:
        sample = np.asarray(self.node.sample)
        if sample.dtype.kind not in "iub" or sample.size > _MOST_GUARDED:
            self.tracer.refuse("needs the values of a tensor")
        self.tracer.guard(_same_array, self, sample)
        return sample.copy()

    def __bool__(self) -> bool:
        made = bool(self.node.sample)
        self.tracer.guard(_same_truth, self, made)
        return made

    def __int__(self) -> int:
        made = int(self.node.sample)
        self.tracer.guard(_same_number, self, self.node.sample)
        return made

    __index__ = __int__

    def __float__(self) -> float:
        self.tracer.refuse("needs the value of a number")
        return 0.0

    def __len__(self) -> int:
        return len(self.node.sample)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def absorbed(self, _: Any, g: Any) -> Any:
        """`absorb_zeros` of a cotangent, this slope times `g`."""
        text = "{1} if {1} == {1} or {0} else 0.0" if self.node.sample.__class__ is float else None
        return self.tracer.call(_absorbed, (g, self), text=text)

    def as_tensor(self) -> Traced:
        """The value in a tensor."""
        sample = self.node.sample
        layout = layout_of(wrap(sample)._value)
        raw = self
        if layout.shape == () and isinstance(sample, np.ndarray):
            raw = raw[()]
        if layout is FLOAT and raw.node.sample.__class__ is not float:
            raw = self.tracer.call(float, (raw,))
        return Traced.of(raw, layout)

    def adapted(self, dtype: Any) -> Traced:
        """The value as the operand of an op of another dtype."""
        raw = self if self.dtype == dtype else self.tracer.call(adapted, (self, dtype))
        return raw.as_tensor()

    def through(self, function: Callable[..., Any]) -> Any:
        """The result of a function of the array."""
        return self.tracer.call(function, (self,))


class Traced(Tensor):
    """A tensor of a traced call."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    _is_gtape_tensor = True

    @classmethod
    def of(cls, raw: Raw, layout: Layout) -> Traced:
        made = cls()
        made._value = raw
        made._layout = raw.tracer.apart(layout)
        made._record = None
        return made

    def _as_tensor(self) -> Traced:
        return self

    as_tensor = _as_tensor

    def applied(self, prim: Primitive, tensors: Sequence[Tensor], params: dict[str, Any]) -> Any:
        """The result of an op of which this tensor is an operand."""
        return self._value.tracer.op(prim, tensors, params)

    def absorbed(self, _: Any, g: Any) -> Traced:
        """`absorb_zeros`, which changes no number but NaN."""
        if not np.all(np.equal(self._value.node.sample, self._value.node.sample)):
            self._value.tracer.refuse("has a gradient that is NaN in the traced call")
        self._value.tracer.guard(_no_nan, self._value, None)
        return self

    def _leaves(self, how: str) -> Any:
        self._value.tracer.refuse(f"reads the value of a tensor by {how}")

    def numpy(self) -> Any:
        return self._leaves(".numpy()")

    def __bool__(self) -> bool:
        if self._layout.size != 1:
            return super().__bool__()
        if _by_library():
            return bool(self._value)
        raise self._value.tracer.wrong(
            errors.OperatorNotAllowedInGraphError(
                "a function with jit_compile=True is run once for all values of its tensors, so that Python's `if`, "
                "`while`, `and`, `or` and `not` cannot ask for the truth of a tensor: write gtape.where(condition, a, "
                "b), gtape.cond(condition, f, g), gtape.while_loop or gtape.logical_and, or leave jit_compile out"
            )
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if not _by_library():
            self._leaves("NumPy")
        return np.array(self._value.__array__(), dtype=dtype)

    def _scalar(self, what: type, name: str) -> Any:
        if not _by_library(3) or what not in (int, float):
            self._leaves(what.__name__)
        return what(self._value)

    def __repr__(self) -> str:
        return f"<gtape.Tensor of a traced call: shape={self.shape}, dtype={self.dtype.name}>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> Any:
        return self._leaves("pickle")


class _TracedWorld(NumPyWorld):
    """The NumPy world, in which calls with traced values are noted.

    Parameters
    ----------
    lift : callable
        What a sweep makes of raw values: the full sweep makes NumPy scalars of Python floats.
    """

    def __init__(self, lift: Callable[[Any], Any]) -> None:
        self.lift = lift  # type: ignore[assignment]

    def _function(self, prim: Primitive) -> Callable[..., Any]:
        lift = self.lift

        def f(*args: Any, **params: Any) -> Any:
            tracer = _tracer_of(args)
            if tracer is None:
                return getattr(NUMPY, prim.name)(*args, **params)
            args = tuple([lift(a) for a in args])
            return tracer.call(_in_numpy_world(prim, [_sample(a) for a in args], params), args, params)

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
    """What the function of the NumPy world calls in the end."""
    if "selection" not in prim.roles:
        if not any(s.__class__ in (float, list, tuple) for s in samples):
            return prim.kernel
        if prim.scalar is not None and not params and prim.kind == "elementwise" and _numbers_only(samples):
            return prim.scalar
    return getattr(NUMPY, prim.name)  # type: ignore[no-any-return]


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

    It takes the place of the function that runs kernels, because sweeps go through that function, too.

    Parameters
    ----------
    run : callable
        Runs kernels quietly.
    outer : Session, optional
        Of the tape that records the traced call.
    """

    def __init__(self, run: Callable[..., Any], outer: Any = None) -> None:
        self.true_run, self.outer = run, outer
        self.nodes: list[Node] = []
        self.inputs: list[Node] = []
        self.variables: list[Any] = []
        self.assigned: dict[int, Any] = {}  # the variables that take a value, by number
        self._reads: dict[int, Raw] = {}
        self._apart: dict[Layout, Layout] = {}
        self._ops: dict[Any, Op] = {}
        self._steps: dict[Any, Any] = {}
        self.rules: dict[Any, Rule | None] = {}
        self.reason: str | None = None
        self.error: BaseException | None = None
        self.open = True

    def apart(self, layout: Layout) -> Layout:
        """The layout of traced tensors.

        Not interned, because quick functions compare layouts before classes.
        """
        found = self._apart.get(layout)
        if found is None:
            found = self._apart[layout] = layout.apart()
            self._apart[found] = found
        return found

    # ------------------------------------------------------------------------------------------ notes

    def refuse(self, reason: str) -> None:
        """Give the compilation up."""
        if not self.open:
            raise RuntimeError("this tensor belongs to the tracing of a function, which is over: return it instead")
        self.reason = self.reason or reason
        raise Untraceable(reason)

    def wrong(self, error: BaseException) -> BaseException:
        """Note an error that the user has to know of."""
        self.error = error
        return error

    def input(self, sample: Any) -> Raw:
        """The next input of the program."""
        node = Node(None, (), {}, sample, None)
        self.inputs.append(node)
        return Raw(self, node)

    def call(self, function: Any, args: Sequence[Any], words: Any = None, text: Any = None) -> Any:
        """Note a call, and make it for the traced values."""
        if not self.open:
            self.refuse("")
        words = words or {}
        noted = tuple([_noted(a) for a in args])
        noted_words = {k: _noted(v) for k, v in words.items()}
        samples = [_sample(a) for a in args]
        sample_words = {k: _sample(v) for k, v in words.items()}
        try:
            made = self.true_run(function, *samples, **sample_words)
        except ArithmeticError:
            self.refuse("divides by zero or overflows in the traced call")
        return self.result(Node(function, noted, noted_words, made, text))

    def of_two(self, function: Any, a: Node, b: Node, text: str) -> Any:
        """`call` for an operator of two traced values, which is the most frequent call in sweeps."""
        if not self.open:
            self.refuse("")
        try:
            made = self.true_run(function, a.sample, b.sample)
        except ArithmeticError:
            self.refuse("divides by zero or overflows in the traced call")
        return self.result(Node(function, (a, b), {}, made, text))

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

    def constant(self, value: Any) -> Any:
        """A constant as a value of the program."""
        return self.result(Node(_same_value, (value,), {}, value, None))

    def guard(self, check: Callable[..., None], value: Raw, expected: Any) -> None:
        """Note a decision by a value."""
        node = Node(check, (value.node, expected), {}, None, None)
        node.guards = True
        self.nodes.append(node)

    # ------------------------------------------------------------------------------------------ ops

    def op(self, prim: Primitive, tensors: Sequence[Tensor], params: dict[str, Any]) -> Any:
        """Note one op, and record it for the tapes inside of the function."""
        if not self.open:
            self.refuse("")
        stack = record.get_stack()
        if stack.sessions:
            if stack.trace:
                self.refuse("checks its gradients")
            forward = stack.tapes is not stack.recording and any([s.forward is not None for s in stack.sessions])  # noqa: C419
            if forward and (prim.selects or prim.kind == "custom"):
                self.refuse("pushes tangents through a selection or a custom gradient")
            if any([t._layout.slow_path for t in tensors]):  # noqa: C419 - a list is quicker
                self.refuse("differentiates complex numbers or half precision")
        key = (prim, *[t._layout for t in tensors]) if not params else None
        known = self._ops.get(key)
        out = None if known is None else self._again(known, tensors)
        if out is None:
            out = self._first(prim, tensors, params, key)
        if not stack.sessions:
            return out
        if known is not None and stack.tapes is stack.recording and not prim.selects:
            return self._record(stack, prim, tensors, out, known.quick)
        if _is_quick(prim, tensors) and not forward:
            return self._record_quick(stack, prim, tensors, out)
        return record_any(stack, prim, tensors, params, out)

    def _first(self, prim: Primitive, tensors: Sequence[Tensor], params: dict[str, Any], key: Any) -> Any:
        """The result of an op on operands of a kind, after which the tracer knows how the op calls its kernel."""
        values = [t._value for t in tensors]
        samples = [_sample(v) for v in values]
        made = self.true_run(prim.function, *[wrap(s) for s in samples], **params)
        several = made.__class__ is tuple
        expected = tuple([t._value for t in made]) if several else made._value
        raws = self._kernel_call(prim, tensors, values, samples, params, expected)
        if several:
            for r, t in zip(raws, made, strict=True):
                if not prim.differentiable:
                    self.guard(_same_shape, r, t._layout.shape)
            return tuple([Traced.of(r, t._layout) for r, t in zip(raws, made, strict=True)])
        if prim.partials is None and not prim.differentiable:
            self.guard(_same_shape, raws, made._layout.shape)
        elif key is not None and prim.kind != "custom":
            node = raws.node
            if node.function is prim.scalar or node.function is prim.kernel:
                op = Op(node.function, node.text, made._layout, expected.__class__)
                op.lifted = not op.bare and any([s.__class__ is float for s in samples])  # noqa: C419 - a list is quicker
                op.quick = _is_quick(prim, tensors)
                self._ops[key] = op
        return Traced.of(raws, made._layout)

    def _again(self, op: Op, tensors: Sequence[Tensor]) -> Traced | None:
        """The result of an op on operands of a known kind; None for the general way."""
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
                if op.lifted:
                    v = off_python(v)
                args.append(v)
                samples.append(v)
        try:
            made = op.function(*samples) if op.bare else self.true_run(op.function, *samples)
        except Exception:  # which the general way words
            return None
        if not op.fits(made):
            return None
        node = Node(op.function, tuple(args), {}, made, op.text)
        self.nodes.append(node)
        return Traced.of(Raw(self, node), op.layout)

    def _kernel_call(
        self, prim: Primitive, tensors: Sequence[Tensor], values: list[Any], samples: list[Any],
        params: dict[str, Any], expected: Any,
    ) -> Any:  # fmt: skip
        """The call of the kernel that an eager op makes, or of the whole op if the kernel alone does not suffice."""
        noted = tuple([_noted(v) for v in values])
        if (
            _numbers_only(samples) and expected.__class__ is float and prim.scalar is not None and prim.inlined
            and _is_quick(prim, tensors)
        ):  # fmt: skip
            text = None
            if prim.infix:
                text = f"{{}} {prim.infix} {{}}" if len(samples) == 2 else f"{prim.infix}{{}}"
            try:
                same = _same(prim.scalar(*samples), expected)
            except (ValueError, ArithmeticError):
                same = False
            if same:
                return self.result(Node(prim.scalar, noted, {}, expected, text))
        kernel = prim.kernel
        lifted = [np.float64(s) if s.__class__ is float else s for s in samples]
        try:
            made = self.true_run(kernel, *lifted, **params)
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
        """The record that the quick function of an elementwise op makes, whose step fits operands of any shape."""
        active, parents, tapes, _ = connections(stack, prim, tensors, out._layout.inexact)
        if not tapes.sessions:
            return out
        recorded = [t for t in tensors if t._record is not None and t._record[TAPES] is not NO_TAPES]
        if not active or len(active) < len(recorded):  # an operand without a gradient takes the general way
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

    def _record(self, stack: record.Stack, prim: Primitive, tensors: Sequence[Tensor], out: Any, quick: bool) -> Any:
        """`record_any` and `_record_quick` for operands that all sessions hold."""
        recording = stack.recording
        active: list[int] = []
        parents = []
        for i, t in enumerate(tensors):
            r = t._record
            if r is None or r[TAPES] is NO_TAPES:
                continue
            if r[TAPES] is not recording or not t._layout.inexact or not prim.connected(i):
                active = []
                break
            active.append(i)
            parents.append(r)
        if not active or not out._layout.inexact:
            return (self._record_quick if quick else _record_generally)(stack, prim, tensors, out)
        place = tuple(active)
        if quick:
            out._record = new_record(self._step(prim, place), parents, tuple(tensors), out._value, recording)
        else:
            plan = plan_for(prim, place, len(tensors))
            layouts = tuple([t._layout for t in tensors])
            key = (prim, place, layouts)
            step = self._steps.get(key)
            if step is None:
                step = self._steps[key] = RuleStep(prim, plan.active, {}, layouts, out._layout)
            keep = plan.keep
            ins = None if keep is None else tuple([t if keep[k] else None for k, t in enumerate(tensors)])
            out._record = new_record(step, parents, ins, out._value if plan.reads_y else None, recording)
        if stack.note is not None:
            stack.note(out)
        return out

    def read(self, variable: Any) -> Traced:
        """The value of a variable."""
        raw = self._reads.get(variable._uid)
        if raw is None:
            if variable._layout.dtype.kind == "O":
                self.refuse("reads a variable of strings")
            raw = self._reads[variable._uid] = self.input(variable._value)
            self.variables.append(variable)
        return Traced.of(raw, variable._tensor_layout)

    def assign(self, variable: Any, t: Tensor, kernel: Any) -> None:
        """Note that a variable takes a value, or the value of a kernel of its old value and the given one.

        Only for assignments of the user's, because the library's own depend on values that no program reads.
        """
        if _assigned_by_library() or variable._layout.dtype.kind == "O" or t._layout.shape != variable._layout.shape:
            self.refuse("assigns a variable")
        if len(self.assigned) >= _MOST_ASSIGNED and variable._uid not in self.assigned:
            self.refuse(f"assigns more than {_MOST_ASSIGNED} variables")
        old = self.read(variable)._value
        value = t._value
        if kernel is not None:
            raw = self.call(kernel, (old, value))
        elif value.__class__ is Raw:
            raw = value
        else:
            own = value.copy() if isinstance(value, np.ndarray) else value  # because it may be an array of the user's
            raw = self.constant(own)
        if variable._tensor_layout is FLOAT and raw.node.sample.__class__ is not float:
            raw = self.call(float, (raw,))
        elif isinstance(raw.node.sample, np.ndarray) and not raw.node.sample.ndim:
            raw = raw[()]
        self._reads[variable._uid] = raw
        self.assigned[variable._uid] = variable

    @property
    def values(self) -> list[Node]:
        """The nodes of the values that the assigned variables take, in the order of `assigned`."""
        return [self._reads[uid].node for uid in self.assigned]

    # ------------------------------------------------------------------------------------------ sweeps

    def in_place(self, _: Any) -> Tracer:
        """The runner of sweeps that call functions of the user's."""
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
        return self.true_run(function, *args, **params)

    def sweep(self, session: Any, start: Any, seed: Raw, sources: list[Any], *, full: bool) -> list[Any]:
        """The cotangents of sources by a sweep of a session around the call; those of the full sweep if asked."""
        world, kind = (_TRACED_FULL, Sweep) if full else (_TRACED, _Sweep)
        return full_sweep(world, session, [(start, seed)], sources, sparse=False, kind=kind)[0]

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
        return full_sweep(_TRACED_FULL, session, seeds, sources, **how)

    def _identity(self, start: Any, layout: Any, sources: list[Any]) -> Any:
        """`gtape.engine.jacobians.from_identity` for traced values."""
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

    def stamp(self, rule: Rule, given: list[Any]) -> list[Raw]:
        """The results of the calls that a rule made before, for other values of the same kinds."""
        known = given
        for function, operands, constants, words, text in rule.calls:
            args = tuple([known[k] if k >= 0 else constants[k] for k in operands])
            samples = [a.sample if a.__class__ is Node else a for a in args]
            try:
                made = self.true_run(function, *samples, **words)
            except ArithmeticError:
                self.refuse("divides by zero or overflows in the traced call")
            node = Node(function, args, words, made, text)
            self.nodes.append(node)
            known.append(node)
        return [Raw(self, known[k]) for k in rule.results]


class _Sweep(Sweep):
    """A sweep of traced values, which notes the calls of a rule that it knows without the rule."""

    def pass_on(self, record: Any, parents: Any, g: Any, mask: Any) -> None:
        """Pass the cotangent that arrived at a record to its parents."""
        whole = record[STEP]
        if self.batch is not None or g.__class__ is not Raw or mask is not None or whole.__class__ not in _STEPS:
            super().pass_on(record, parents, g, mask)
            return
        step = step_of(record)
        tracer, node, ins, out = g.tracer, g.node, record[INS], record[OUT]
        alone = step.params or step.prim.kind == "custom" or step.prim.sparse is not None
        # An op on constants alone, which the tape watches, has the record of an eager op.
        if alone or (ins.__class__ is not tuple and (ins is not None or step.layouts is None)):
            super().pass_on(record, parents, g, mask)
            return
        given = [node, out.node if out.__class__ is Raw else out]
        kinds = 0
        for t in ins or ():
            v = None if t is None else t._value
            given.append(v.node if v.__class__ is Raw else v)
            kinds = 4 * kinds + (0 if t is None else 1 if v.__class__ is Raw else 2)
        # An operand that is there twice is not known again among the operands of the calls, so its places are noted.
        places = {id(v): k for k, v in enumerate(given)}
        same = None if len(places) == len(given) else tuple([places[id(v)] for v in given])
        sample = node.sample
        form = float if sample.__class__ is float else (sample.__class__, sample.shape, sample.dtype.char)
        layout = None if ins is None or step.layouts is not None else ins[0]._layout
        key = (whole, layout, kinds, same, form)
        rule = tracer.rules.get(key, _UNKNOWN)
        if rule is None:
            super().pass_on(record, parents, g, mask)
            return
        if rule is _UNKNOWN:
            made = self._learned(key, step if layout is None else step.on(layout), record, g)
        else:
            made = tracer.stamp(rule, given)
        for parent, c in zip(parents, made, strict=True):
            if c is not None and self.session in parent[TAPES].sessions:
                self.arrive(parent, c)

    def _learned(self, key: Any, step: Any, record: Any, g: Any) -> list[Any]:
        """The cotangents by the rule, whose calls the tracer then knows."""
        tracer = g.tracer
        y, xs = record[OUT], step.layouts
        given = [
            None if t is None else t._value if t._value.__class__ is Raw else distinct(t._value)
            for t in record[INS] or ()
        ]  # fmt: skip
        start = len(tracer.nodes)
        if given:
            xs = tuple([a if v is None else v for v, a in zip(given, xs, strict=True)])
        made = step.cotangents(self.world, g, y, xs)
        nodes = [c.node if c.__class__ is Raw else None for c in made]
        tracer.rules[key] = rule_of([_noted(v) for v in (g, y, *given)], tracer.nodes[start:], nodes)
        return made  # type: ignore[no-any-return]


_STEPS = (RuleStep, FunctionType)
_UNKNOWN: Any = object()


def _record_generally(stack: record.Stack, prim: Primitive, tensors: Sequence[Tensor], out: Any) -> Any:
    return record_any(stack, prim, tensors, {}, out)


def _element(v: Any) -> Any:
    return v[()]


def _is_quick(prim: Primitive, tensors: Sequence[Tensor]) -> bool:
    """Whether an eager call of these operands goes through the generated function of an elementwise op."""
    if prim.kind != "elementwise" or len(tensors) > 2 or prim.params or prim.selects or "selection" in prim.roles:
        return False
    first, last = tensors[0]._layout, tensors[-1]._layout
    return first.dtype == last.dtype and first.shape == last.shape and not prim.opaque


def _same(a: Any, b: Any) -> bool:
    """Whether two raw values are the same bits in the same form."""
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
        Of the tape that records the traced call.
    """
    idle = record.idle_stack()
    run = idle.run
    tracer = Tracer(run, outer)
    with record.off(() if outer is None else (outer,), probe={}):
        idle.run = record.get_stack().run = tracer
        try:
            yield tracer
        finally:
            tracer.open = False
            idle.run = run  # before the end of `off`, which gives this function to the stack from before the block

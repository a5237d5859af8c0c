"""The values of a traced call. A tensor holds a `Raw` in place of its array, and the `Raw` notes each use.

A decision that the library makes by a value becomes a guard, because the program is valid only for this decision.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gtape import errors
from gtape.base.escaping import place_text
from gtape.base.layout import FLOAT, Layout, layout_of
from gtape.base.own_files import is_own, is_users
from gtape.base.python_values import adapted
from gtape.declare.primitives import Primitive
from gtape.engine.rules import absorb_zeros
from gtape.engine.sparse import SparseCotangent
from gtape.engine.worlds import NUMPY
from gtape.tensors.tensor import Tensor, wrap
from gtape.tensors.variable import Variable
from gtape.tensors.variable_parts import CHANGES_PARTS

__all__ = [
    "ABSORBED", "NO_NAN", "NO_WORDS", "SAME_TRUTH", "Guard", "Node", "Number", "OtherLayout", "OtherOrder", "Raw",
    "Traced", "Untraceable", "asked_by", "same_shape",
]  # fmt: skip


class Untraceable(Exception):
    """The function, or this call of the function, cannot be compiled."""


class Guard(Exception):
    """A compiled program met a value by which the library decides otherwise than in the traced call."""


class OtherOrder(Guard):
    """The elements of an argument lie in memory in another order than in the traced call."""


class OtherLayout(Guard):
    """A variable has another shape than in the traced call."""


NO_WORDS: dict[str, Any] = {}  # the keyword arguments of most nodes; nothing changes them


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
        Whether the operation computes nothing and may raise `Guard`.
    reads : (tuple, dict, list of Node) or None
        The nodes among the arguments, after they are found, with the `args` and `words` in which they were found. They
        hold only for these two objects, because rewrites give a node others; see `gtape.tapes.rewriting.reads_of`.
    place : int
        The index of the node in its program, after it is known; -1 for an input.
    alone : bool
        Whether the operation stays, although an equal one exists.
    root : Node or None
        The node whose memory the result shows, after it is found; see `gtape.tapes.lives`.
    """

    __slots__ = ("alone", "args", "function", "guards", "name", "place", "reads", "root", "sample", "text", "words")

    def __init__(self, function: Any, args: tuple[Any, ...], words: dict[str, Any], sample: Any, text: Any) -> None:
        self.function, self.args, self.words, self.sample, self.text = function, args, words, sample, text
        self.guards = self.alone = False
        self.name = ""
        self.place = -1
        self.reads: tuple[tuple[Any, ...], dict[str, Any], list[Node]] | None = None
        self.root: Node | None = None


def _same_truth(value: Any, expected: bool) -> None:
    if bool(value) is not expected:
        raise Guard


def _same_number(value: Any, expected: Any) -> None:
    if value != expected:
        raise Guard


def _same_text(value: Any, expected: tuple[type[np.generic], Callable[..., str], tuple[str, ...], str]) -> None:
    kind, show, spec, text = expected
    if show(kind(value), *spec) != text:
        raise Guard


def _same_array(value: Any, expected: Any) -> None:
    if not np.array_equal(value, expected):
        raise Guard


def same_shape(value: Any, expected: tuple[int, ...]) -> None:
    """Raise `Guard` if a value has another shape."""
    if np.shape(value) != expected:
        raise Guard


def _by_library(depth: int = 2) -> bool:
    """Whether the innermost caller outside this module is a file of the library."""
    frame: Any = sys._getframe(depth)
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    return frame is not None and is_own(frame.f_code.co_filename)


def _method_of_variable(frame: Any) -> Any:
    """The method of a variable that the user's code calls, as a frame; None if the code calls another function."""
    inner = None
    while frame is not None and not is_users(frame.f_code.co_filename):
        inner, frame = frame, frame.f_back
    return inner if inner is not None and isinstance(inner.f_locals.get("self"), Variable) else None


def asked_by(frame: Any) -> str:
    """Which function of the library reads a value in a trace, and the user's line that calls the function, as text."""
    name = None
    asking = frame.f_globals
    while frame is not None and not is_users(frame.f_code.co_filename):
        code = frame.f_code
        outside = is_own(code.co_filename) and frame.f_globals is not globals() and frame.f_globals is not asking
        if outside and code.co_name == Tensor.__getitem__.__name__:
            name = "an index in square brackets"
        elif outside and not code.co_name.startswith(("_", "<")):
            # A public function runs inside `diagnosed`, whose variable holds the function.
            called = frame.f_locals.get("function")
            name = getattr(called, "__name__", code.co_name)
        frame = frame.f_back
    words = "" if name is None else f" in {name}"
    if frame is None:
        return words
    return f"{words} ({place_text((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))})"


# The methods of arrays whose result has a shape that depends only on shapes and dtypes.
_METHODS = frozenset([method.__name__ for method in (
    np.ndarray.all, np.ndarray.any, np.ndarray.argmax, np.ndarray.argmin, np.ndarray.astype, np.ndarray.conj,
    np.ndarray.copy, np.ndarray.item, np.ndarray.max, np.ndarray.mean, np.ndarray.min, np.ndarray.ravel,
    np.ndarray.reshape, np.ndarray.sum, np.ndarray.squeeze, np.ndarray.swapaxes, np.ndarray.transpose,
)])  # fmt: skip
# The functions of NumPy whose result has a shape that depends only on shapes and dtypes.
_FUNCTIONS = frozenset({
    np.all, np.any, np.argmax, np.array_equal, np.broadcast_to, np.concatenate, np.copy, np.dot, np.einsum,
    np.expand_dims, np.flip, np.max, np.mean, np.min, np.moveaxis, np.ones_like, np.prod, np.ravel, np.reshape,
    np.squeeze, np.stack, np.sum, np.swapaxes, np.take, np.take_along_axis, np.trace, np.transpose, np.where,
    np.zeros_like,
})  # fmt: skip
_STATIC = frozenset({np.ndim, np.result_type, np.shape, np.size})
_SEQUENCES = (list, tuple, str, bytes, bytearray, deque)  # a product with an integer repeats them
_MOST_GUARDED = 64  # elements of the largest integer array that a guard compares


def _absorbed(g: Any, c: Any) -> Any:
    return absorb_zeros(NUMPY, g, c)


def _no_nan(value: Any, _: Any) -> None:
    if not (value == value if value.__class__ is float else np.equal(value, value).all()):
        raise Guard


# The functions of `absorb_zeros` that the table knows: they change only NaN, or nothing.
ABSORBED, NO_NAN, SAME_TRUTH = _absorbed, _no_nan, _same_truth


@functools.cache
def _method(name: str) -> Any:
    """A call of a method without arguments, one object for each method, so that equal calls can be recognised."""
    return operator.methodcaller(name)


def _infix(function: Callable[..., Any], sign: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    text = f"{{}} {sign} {{}}"

    def forward(self: Raw, other: Any) -> Any:
        if other.__class__ is Raw:
            return self.tracer.of_two(function, self.node, other.node, text)
        if isinstance(other, SparseCotangent):
            self.tracer.refuse("has a gradient of rows (IndexedSlices)")
        if hasattr(type(other), "_is_gtape_tensor"):  # beside one of NumPy's numbers among the arguments
            return NotImplemented
        return _like(self, self.tracer.call(function, (self, other), text=text))

    def backward(self: Raw, other: Any) -> Any:
        if hasattr(type(other), "_is_gtape_tensor"):
            return NotImplemented
        return _like(self, self.tracer.call(function, (other, self), text=text))

    return forward, backward


# An operator of an array and a traced value calls the ufunc.
_OF_ARRAYS: dict[Any, str] = {
    np.add: "{} + {}", np.subtract: "{} - {}", np.multiply: "{} * {}", np.divide: "{} / {}",
}  # fmt: skip


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

    def __init__(self, tracer: Any, node: Node) -> None:
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
        return _like(self, self.tracer.call(operator.neg, (self,), text="-{}"))

    def __invert__(self) -> Any:
        return self.tracer.call(operator.invert, (self,), text="~{}")

    def __abs__(self) -> Any:
        return _like(self, self.tracer.call(abs, (self,)))

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
        tracer = self.tracer

        def call(*args: Any, **words: Any) -> Any:
            if any(isinstance(a, Raw) for a in (*args, *words.values())):
                tracer.refuse(f"calls .{name} with values")
            plain = not args and not words
            return tracer.call(_method(name) if plain else operator.methodcaller(name, *args, **words), (self,))

        return call

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **words: Any) -> Any:
        out = words.pop("out", None)
        if out is not None and self.tracer.writes_over and method == "__call__" and out[0].__class__ is Raw:
            out[0].node = self.tracer.call(ufunc, inputs, words).node
            return out[0]
        if out is not None or method == "at":
            self.tracer.refuse("changes an array in place")
        if method != "__call__":
            return self.tracer.call(getattr(ufunc, method), inputs, words)
        text = None if words or inputs[0].__class__ is Raw else _OF_ARRAYS.get(ufunc)
        return _like(self, self.tracer.call(ufunc, inputs, words, text))

    def __array_function__(self, function: Any, types: Any, args: Any, words: Any) -> Any:
        if function in _STATIC:
            return function(*[a.node.sample if a.__class__ is Raw else a for a in args], **words)
        if function not in _FUNCTIONS or (function is np.where and len(args) < 3):
            self.tracer.refuse(f"calls numpy.{getattr(function, '__name__', '?')} of a value")
        return self.tracer.call(function, tuple(args), words)

    def __array__(self, *_: Any, **__: Any) -> Any:
        sample = np.asarray(self.node.sample)
        if sample.dtype.kind not in "iub" or sample.size > _MOST_GUARDED:
            self.tracer.refuse(f"needs the values of a tensor{asked_by(sys._getframe())}")
        self.tracer.note_decision()
        self.tracer.guard(_same_array, self, sample)
        return sample.copy()

    def __bool__(self) -> bool:
        made = bool(self.node.sample)
        self.tracer.note_decision()
        self.tracer.guard(_same_truth, self, made)
        return made

    def __int__(self) -> int:
        return self._whole(int)

    def __index__(self) -> int:
        return self._whole(operator.index)  # which refuses floats and bools as it does in eager calls

    def _whole(self, convert: Callable[[Any], int]) -> int:
        made = convert(self.node.sample)
        self.tracer.note_decision()
        self.tracer.guard(_same_number, self, self.node.sample)
        return made

    def __float__(self) -> float:
        self.tracer.refuse(f"needs the value of a number{asked_by(sys._getframe())}")
        return 0.0

    def __repr__(self) -> str:
        made = f"<NumPy number of a traced call: dtype={self.dtype.name}>"
        self.tracer.texts.add(made)
        return made

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        if spec:
            self.tracer.refuse(f"reads the value of a number by the format {spec!r}")
        return repr(self)

    def __reduce__(self) -> Any:
        return self.tracer.refuse("reads the value of a number by pickle")

    def __len__(self) -> int:
        return len(self.node.sample)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def absorbed(self, _: Any, g: Any) -> Any:
        """`absorb_zeros` of a cotangent that is this slope times `g`."""
        text = "{1} if {1} == {1} or {0} else 0.0" if self.node.sample.__class__ is float else None
        return self.tracer.call(_absorbed, (g, self), text=text)

    def as_tensor(self) -> Traced:
        """The value as a tensor."""
        sample = self.node.sample
        layout = layout_of(wrap(sample)._value)
        raw = self
        if layout.shape == () and isinstance(sample, np.ndarray):
            raw = raw[()]
        if layout is FLOAT and raw.node.sample.__class__ is not float:
            raw = self.tracer.call(float, (raw,))
        return Traced.of(raw, layout)

    def adapted(self, dtype: Any) -> Traced:
        """The value as an operand of an op with another dtype."""
        raw = self if self.dtype == dtype else self.tracer.call(adapted, (self, dtype))
        return raw.as_tensor()

    def through(self, function: Callable[..., Any]) -> Any:
        """The result of a function of the array."""
        return self.tracer.call(function, (self,))


class Number(Raw):
    """One of NumPy's numbers among the arguments, or a number that the function computes from these.

    The function's own code sees the class of the number, because it may decide by `isinstance`.
    """

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        of_user = is_users(sys._getframe(1).f_code.co_filename)
        return type(self.node.sample) if of_user else Raw

    def __mul__(self, other: Any) -> Any:
        return other * self.__index__() if self._repeats(other) else Raw.__mul__(self, other)

    def __rmul__(self, other: Any) -> Any:
        return other * self.__index__() if self._repeats(other) else Raw.__rmul__(self, other)

    def _repeats(self, other: Any) -> bool:
        """Whether a product with `other` is a repeated sequence, whose length shows the number."""
        return isinstance(other, _SEQUENCES) and isinstance(self.node.sample, np.integer)

    def __repr__(self) -> str:
        return self._text(repr)

    def __str__(self) -> str:
        return self._text(str)

    def __format__(self, spec: str) -> str:
        return self._text(format, spec)

    def _text(self, show: Callable[..., str], *spec: str) -> str:
        """A text of the number, which makes a program one for the numbers with this text."""
        sample: Any = self.node.sample
        made = show(sample, *spec)
        self.tracer.note_decision()
        self.tracer.guard(_same_text, self, (type(sample), show, spec, made))
        return made


def _like(raw: Raw, made: Any) -> Any:
    """A result of an operator on a traced value: a number of a number."""
    if type(raw) is Number and type(made) is Raw and isinstance(made.node.sample, np.generic):
        return Number(made.tracer, made.node)
    return made


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
        """The result of an op that has this tensor as an operand."""
        return self._value.tracer.op(prim, tensors, params)

    def absorbed(self, _: Any, g: Any) -> Traced:
        """`absorb_zeros`, which changes no number but NaN."""
        if not np.all(np.equal(self._value.node.sample, self._value.node.sample)):
            self._value.tracer.refuse("has a gradient that is NaN in the traced call")
        self._value.tracer.guard(_no_nan, self._value, None)
        return self

    def as_part_of_variable(self) -> Traced:
        """This tensor, as a part of a variable, which refuses assignments."""
        self._value.tracer.parts_of_variables.append(self._value)
        return self

    @property
    def assign(self) -> Any:
        """The tracing ends, because no program changes a part of a variable. Other tensors cannot be assigned."""
        return self._changed_in_part("assign")

    @property
    def assign_add(self) -> Any:
        """As for `assign`."""
        return self._changed_in_part("assign_add")

    @property
    def assign_sub(self) -> Any:
        """As for `assign`."""
        return self._changed_in_part("assign_sub")

    def _changed_in_part(self, name: str) -> Any:
        if any([raw is self._value for raw in self._value.tracer.parts_of_variables]):  # noqa: C419 - a list is quicker
            self._value.tracer.refuse(CHANGES_PARTS)
        raise AttributeError(f"{Tensor.__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _leaves(self, how: str) -> Any:
        frame = _method_of_variable(sys._getframe())
        what = "tensor" if frame is None else "variable"
        self._value.tracer.refuse(f"reads the value of a {what} by {how}{asked_by(frame or sys._getframe())}")

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
        made = f"<gtape.Tensor of a traced call: shape={self.shape}, dtype={self.dtype.name}>"
        self._value.tracer.texts.add(made)
        return made

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return self._leaves(f"the format {spec!r}") if spec else repr(self)

    def __reduce__(self) -> Any:
        return self._leaves("pickle")

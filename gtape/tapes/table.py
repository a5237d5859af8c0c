"""The back end with the extra `compile`: a table of calls of NumPy's inner loops for small values.

A node whose value is small and whose function is a ufunc becomes a row of the table: a loop and the addresses of its
operands in one block of memory. Machine code walks over the rows. Other nodes are Python calls between two walks, as in
the default back end. A kernel that calls only ufuncs, without loops, becomes several rows.
"""

from __future__ import annotations

import math
import operator
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np

from gtape.declare.primitives import CHANGED
from gtape.tapes import inner_loops
from gtape.tapes.inner_loops import (
    FROM_ARRAY,
    FROM_FLOAT,
    FROM_NARROW,
    FROM_TRUTH,
    TO_FLOAT,
    TO_NARROW,
    TO_NUMPY_TRUTH,
    TO_TRUTH,
    TO_WIDE,
    Doubt,
)
from gtape.tapes.known_kernels import known_kernels
from gtape.tapes.order import in_order
from gtape.tapes.parts import CALL, WALK, Part
from gtape.tapes.python_source import Writer, block_of, framed, spent_of
from gtape.tapes.repeats import Block, Instance, in_blocks
from gtape.tapes.rewriting import constant_key, forget_values, reads_of, shared
from gtape.tapes.traced_values import ABSORBED, NO_NAN, SAME_TRUTH, Node
from gtape.tapes.tracing import Tracer
from gtape.tapes.ufuncs import EXACT, keeps_bits_anywhere, same_bits, ufunc_of

__all__ = ["Table"]

_MOST_ELEMENTS = 2048  # elements of an array in the table, because in longer loops NumPy's own call costs little
_MOST_WIDE = 16384  # elements of an array that calls read and the table computes from constants and small values
_MOST_TURNS = 128  # rows of one op with operands that are spread over the result
_WORTH = 300  # nanoseconds that a walk must save
_LINE = 64  # bytes to which arrays are aligned
_WORDS = 8  # of a row: code, data, lengths, strides, operands

_TRUTHS: dict[Any, np.ufunc] = {
    operator.and_: np.logical_and, operator.or_: np.logical_or, operator.invert: np.logical_not,
    np.bitwise_and: np.logical_and, np.bitwise_or: np.logical_or, np.invert: np.logical_not,
}  # fmt: skip
_SINGLE = frozenset({np.add, np.subtract, np.multiply, np.divide, np.negative})
_FLAT = frozenset({np.reshape, np.ravel, np.squeeze, np.expand_dims})
_SIZES = {"d": 8, "f": 4, "?": 1}
_TAKEN = {"d": FROM_FLOAT, "f": FROM_NARROW, "?": FROM_TRUTH}
_GIVEN = {
    ("d", float): TO_FLOAT, ("?", bool): TO_TRUTH, ("d", np.generic): TO_WIDE, ("f", np.generic): TO_NARROW,
    ("?", np.generic): TO_NUMPY_TRUTH,
}  # fmt: skip


class Form:
    """The form of a value that the table may store.

    Attributes
    ----------
    char : str
        The character of the dtype.
    shape : tuple of int
    size : int
    kind : type
        float, bool, np.generic or np.ndarray.
    strides : tuple of int or None
        The strides of an array with an unusual order of elements; None for the usual order.
    """

    __slots__ = ("char", "kind", "nbytes", "shape", "size", "strides")

    def __init__(self, char: str, shape: tuple[int, ...], size: int, kind: type, strides: Any = None) -> None:
        self.char, self.shape, self.size, self.kind, self.strides = char, shape, size, kind, strides
        self.nbytes = size * _SIZES[char]


_FORMS: dict[Any, Form] = {
    float: Form("d", (), 1, float), bool: Form("?", (), 1, bool), np.float64: Form("d", (), 1, np.generic),
    np.float32: Form("f", (), 1, np.generic), np.bool_: Form("?", (), 1, np.generic),
}  # fmt: skip
_NATIVE = {np.dtype(c): c for c in _SIZES}


def _form(sample: Any) -> Form | None:
    """The form of a value; None if the table cannot store the value."""
    found = _FORMS.get(sample.__class__)
    if found is not None or sample.__class__ is not np.ndarray:
        return found
    char = _NATIVE.get(sample.dtype)
    if char is None or not 0 < sample.size <= _MOST_ELEMENTS or not sample.flags.c_contiguous:
        return None
    shape = sample.shape
    found = _arrays.get((char, shape))
    if found is None:
        if len(_arrays) > _MOST_FORMS:
            _arrays.clear()
        found = _arrays[char, shape] = Form(char, shape, sample.size, np.ndarray)
    return found


def _wide_form(sample: Any) -> Form | None:
    """The form of an array that is too large to enter or leave the table; None for any other value."""
    if sample.__class__ is not np.ndarray or not _MOST_ELEMENTS < sample.size <= _MOST_WIDE:
        return None
    char = _NATIVE.get(sample.dtype)
    # The stride of an axis with one element has no meaning.
    strides = tuple([step if n > 1 else sample.itemsize for n, step in zip(sample.shape, sample.strides, strict=True)])
    if char is None or not sample.transpose(_order(strides)).flags.c_contiguous:
        return None
    return Form(char, sample.shape, sample.size, np.ndarray, strides)


def _order(strides: tuple[int, ...]) -> list[int]:
    """The axes of an array in the order in which they lie in memory."""
    return sorted(range(len(strides)), key=lambda k: -strides[k])


_arrays: dict[Any, Form] = {}
_MOST_FORMS = 4096


def _known(sample: Any) -> Form:
    """The form of a value that the table can store."""
    found = _form(sample)
    assert found is not None
    return found


class _Step:
    """The rows of a node, or the node whose memory it shares.

    Attributes
    ----------
    rows : list of (loop, data, address of the length, address of the steps, operands, name)
        An operand is a node, a constant of the table, a part of one of these, or None for the result.
    of : Node or None
        The node whose memory this node shares.
    form : Form
    repeats : bool
        Whether all elements share one number in memory.
    exact : bool
        Whether the rows may overwrite an operand.
    saves : int
        The nanoseconds, roughly, that Python would take more.
    """

    __slots__ = ("exact", "form", "of", "repeats", "rows", "saves")

    def __init__(self, form: Form, rows: Any = (), of: Any = None, repeats: bool = False, exact: bool = False) -> None:
        self.form, self.rows, self.of, self.repeats, self.exact = form, rows, of, repeats, exact
        self.saves = 0


class _Constant:
    """A constant in the table."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _At:
    """A part of an operand, or of the result for None, that starts some bytes after its beginning."""

    __slots__ = ("of", "offset")

    def __init__(self, of: Any, offset: int) -> None:
        self.of, self.offset = of, offset


# Whether the collector may run while a walk makes a tuple of its results. The collector may run code of the user.
_COLLECTS = sys.version_info < (3, 12)


class _Flag:
    """The memory in which a row sets the flag of doubt."""


_FLAG = _Flag()
_NOTHING: Any = ()  # of nodes without rows
_ALONE: Any = (None,)  # of nodes whose rows depend on more than their function and the forms of operands


# ---------------------------------------------------------------------------------------------- from nodes to rows

_resolved: dict[Any, str | None] = {}


def _signature(ufunc: np.ufunc, kinds: tuple[Any, ...]) -> str | None:
    """The loop that NumPy chooses for dtypes. `float` and `int` stand for Python's numbers."""
    key = (ufunc, kinds)
    if key not in _resolved:
        try:
            found = ufunc.resolve_dtypes((*[k if isinstance(k, type) else np.dtype(k) for k in kinds], None))
            _resolved[key] = "".join([d.char for d in found[:-1]]) + "->" + found[-1].char
        except Exception:
            _resolved[key] = None
    return _resolved[key]


class Lowering:
    """Finds the step of each node.

    Parameters
    ----------
    machine : Machine
    """

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.steps: dict[int, _Step] = {}
        self.forms: dict[int, Form | None] = {}
        self._lines: dict[Any, Any] = {}
        self._constants: dict[Any, _Constant] = {}
        kernels = known_kernels()
        self.scalars, self.linear = kernels.scalars, kernels.linear

    def form(self, node: Node) -> Form | None:
        """The form of a node's value."""
        key = id(node)
        if key not in self.forms:
            self.forms[key] = _form(node.sample)
        return self.forms[key]

    def step(self, node: Node) -> _Step | None:
        """The step of a node whose operands have steps; None for a call."""
        made = self._guard(node) if node.guards else self._step_by_line(node)
        if made is not None:
            self.steps[id(node)] = made
            self.forms[id(node)] = made.form
        return made

    def _step_by_line(self, node: Node) -> _Step | None:
        """The step of a node. Nodes with the same function and operands of the same forms have the same row."""
        args = node.args
        form = self.form(node)
        if form is None or node.words or len(args) > 3:
            return self._step(node, form)
        key: list[Any] = [node.function, form]
        steps, forms = self.steps, self.forms
        for a in args:
            if a.__class__ is Node:
                step = steps.get(id(a))
                key += (forms.get(id(a)) or self.form(a), False) if step is None else (step.form, step.repeats)
            else:
                key += (a.__class__, (a.dtype, a.shape) if a.__class__ is np.ndarray else None)
        place = tuple(key)
        try:
            line = self._lines.get(place)
        except TypeError:  # a function without a hash
            return self._step(node, form)
        if line is None:
            made = self._step(node, form)
            self._lines[place] = self._line(node, form, made)
            return made
        if line is _ALONE:
            return self._step(node, form)
        if line is _NOTHING:
            return None
        (code, data, dims, strides, before, name), chars, exact, saves = line
        operands: list[Any] = [*args, *before[len(args) :]]
        for i, a in enumerate(args):
            if a.__class__ is not Node:
                operands[i] = self._constant(a, chars[i])
                if operands[i] is None:
                    return None
        found = _Step(form, [(code, data, dims, strides, operands, name)], exact=exact)
        found.saves = saves
        return found

    def _line(self, node: Node, form: Form, made: _Step | None) -> Any:
        """What the step of a node says about the steps of nodes with the same function and forms."""
        if made is None:
            elementwise = ufunc_of(node.function) is not None or (form.kind is float and node.function in self.scalars)
            return _NOTHING if elementwise else _ALONE
        if len(made.rows) != 1 or made.of is not None or made.repeats or made.form is not form:
            return _ALONE
        row, n = made.rows[0], len(node.args)
        given, rest = row[4][:n], row[4][n:]
        for a, b in zip(node.args, given, strict=True):
            if b is not a if a.__class__ is Node else b.__class__ is not _Constant:
                return _ALONE
        if any([b is not None and b is not _FLAG for b in rest]):  # noqa: C419 - a list is quicker
            return _ALONE
        chars = [np.dtype(b.value.dtype).char if b.__class__ is _Constant else "" for b in given]
        return row, chars, made.exact, made.saves

    def _step(self, node: Node, form: Form | None) -> _Step | None:
        f, args = node.function, node.args
        prim = self.linear.get(id(f))
        if prim is not None and len(args) == 1 and args[0].__class__ is Node:
            return self._renamed(node, form, args[0], "spread" in prim.roles)
        ufunc = ufunc_of(f)
        if form is None:
            wide = None if ufunc is None or node.words else _wide_form(node.sample)
            return None if wide is None or ufunc is None else self._ufunc(node, ufunc, wide)
        if form.char == "?" and f in _TRUTHS:
            ufunc = _TRUTHS[f]
        if ufunc is not None:
            return None if node.words else self._ufunc(node, ufunc, form)
        if f is np.where:
            return self._where(node, form)
        if f in (np.any, np.all) and len(args) == 1:
            return self._truth(form, args[0], f.__name__, node.words)
        if f is ABSORBED and node.args[1].__class__ is Node and self.form(node.args[1]) is form:
            return self._without_nan(node.args[1])
        if f in (float, np.float64, np.float32) and len(args) == 1 and args[0].__class__ is Node:
            return self._converted(form, args[0])
        if f in (np.ones_like, np.zeros_like, np.full_like) and not node.words:
            return None
        if form.kind is float and f in self.scalars and not node.words:
            return self._alone(node, form)
        if f.__class__ is operator.methodcaller:
            made, given = cast(Any, f.__reduce__())
            if made is not operator.methodcaller:  # with keywords
                return None
            name, *rest = given
            if name in ("any", "all") and not rest:
                return self._truth(form, args[0], name, node.words)
            if name == "astype" and len(rest) == 1:
                return self._converted(form, args[0])
            return self._renamed(node, form, args[0], False) if getattr(np, name, None) in _FLAT else None
        if f in _FLAT:
            return self._renamed(node, form, args[0], False)
        if f is operator.getitem and args[1] == () and args[0].__class__ is Node:
            return self._renamed(node, form, args[0], False)
        if getattr(f, "__name__", "") == "reduce":
            reduced = f.__self__
            if reduced in (np.logical_or, np.logical_and) and len(args) == 1:
                return self._truth(form, args[0], "any" if reduced is np.logical_or else "all", node.words)
            return self._sum(node, form) if reduced is np.add else None
        return self._element(node, form) if getattr(f, "__name__", "") == "_element" else None

    # ------------------------------------------------------------------------------------------ operands

    def _repeats(self, a: Any) -> bool:
        step = self.steps.get(id(a)) if a.__class__ is Node else None
        return step is not None and step.repeats

    def _constant(self, value: Any, char: str) -> _Constant | None:
        """A constant in the dtype of a loop."""
        if value.__class__ in (int, float, bool):
            try:
                return _Constant(np.dtype(char).type(value))
            except (OverflowError, ValueError):
                return None
        if isinstance(value, (np.generic, np.ndarray)) and value.dtype.char == char and value.size <= _MOST_WIDE:
            return _Constant(value)
        return None

    def _kind(self, a: Any) -> Any:
        """The key for a loop: the character of a dtype, or a Python type."""
        if a.__class__ is Node:
            form = self.form(a)
            return None if form is None else form.kind if form.kind is float else form.char
        if a.__class__ in (int, float):
            return a.__class__
        return a.dtype.char if isinstance(a, (np.generic, np.ndarray)) else None

    def _operand(self, a: Any, char: str, form: Form, exact: bool) -> tuple[Any, int] | None:
        """An operand and its step in bytes, for a result of the given form."""
        if a.__class__ is Node:
            have = self.form(a)
            if have is None or have.char != char:
                return None
            shape, size = have.shape, have.size
            if self._repeats(a) and size > 1:
                return (a, 0) if exact and shape == form.shape else None
        else:
            a = self._constant(a, char)
            if a is None:
                return None
            shape, size = np.shape(a.value), np.size(a.value)
        if shape == form.shape:
            return a, (_SIZES[char] if shape else 0)
        return (a, 0) if shape == () or (size == 1 and exact and len(shape) <= len(form.shape)) else None

    def _rows(
        self, found: Any, operands: Any, signature: str, form: Form, name: str, *, exact: bool, spreads: bool = False
    ) -> _Step | None:
        """A step with one row of NumPy's loop, or with several rows if `spreads` allows them."""
        if signature[-1] != form.char:
            return None
        if form.strides is not None:
            return self._spread(found, operands, signature, form, name, exact=exact) if spreads else None
        given, strides = [], []
        for a, char in zip(operands, signature, strict=False):
            operand = self._operand(a, char, form, exact)
            if operand is None:
                return self._spread(found, operands, signature, form, name, exact=exact) if spreads else None
            given.append(operand[0])
            strides.append(operand[1])
        steps = inner_loops.steps((*strides, _SIZES[form.char]))
        return _Step(form, [(*found, inner_loops.dims(form.size), steps, [*given, None], name)], exact=exact)

    def _arranged(self, value: Any, char: str, order: list[int]) -> tuple[_Constant, tuple[int, ...]] | None:
        """A constant whose memory has the given order of axes, and its shape with all of these axes."""
        if isinstance(value, np.ndarray) and value.ndim and not any(value.strides):
            value = value.reshape(-1)[0]
        known = self._constant(value, char)
        if known is None:
            return None
        shape = np.shape(known.value)
        own = (1,) * (len(order) - len(shape)) + shape
        if sum([n > 1 for n in own]) < 2 or order == sorted(order):
            return known, own
        key = (id(value), tuple(order))  # the nodes keep the value alive
        made = self._constants.get(key)
        if made is None:
            made = self._constants[key] = _Constant(np.ascontiguousarray(known.value.reshape(own).transpose(order)))
        return made, own

    def _spread(self, found: Any, operands: Any, signature: str, form: Form, name: str, *, exact: bool) -> _Step | None:
        """A step with a row for each index of the first axes in memory, for operands spread along these axes."""
        order = list(range(len(form.shape))) if form.strides is None else _order(form.strides)
        shape = tuple([form.shape[k] for k in order])
        given: list[Any] = []
        shapes: list[tuple[int, ...]] = []
        for a, char in zip(operands, signature, strict=False):
            if a.__class__ is Node:
                have = self.form(a)
                if have is None or have.char != char or self._repeats(a):
                    return None
                own = (1,) * (len(order) - len(have.shape)) + have.shape
                if have.strides is not None:
                    if have.strides != form.strides:
                        return None
                elif order != sorted(order) and sum([n > 1 for n in own]) > 1:  # one long axis has no order
                    return None
                given.append(a)
            else:
                found_constant = self._arranged(a, char, order)
                if found_constant is None:
                    return None
                a, own = found_constant
                given.append(a)
            shapes.append(tuple([own[k] for k in order]))
        for k in range(len(shape)):
            if all([s[k:] == shape[k:] or math.prod(s[k:]) == 1 for s in shapes]):  # noqa: C419
                break
        else:
            return None
        turns = math.prod(shape[:k])
        if turns > _MOST_TURNS:
            return None
        n = form.size // turns
        offsets, strides = [], []
        for s, char in zip(shapes, signature, strict=False):
            size = _SIZES[char]
            starts = np.arange(math.prod(s[:k])).reshape(s[:k]) * (math.prod(s[k:]) * size)
            offsets.append(np.broadcast_to(starts, shape[:k]).ravel().tolist())
            strides.append(size if s[k:] == shape[k:] else 0)
        out = _SIZES[form.char]
        dims, steps = inner_loops.dims(n), inner_loops.steps((*strides, out))
        rows = [
            (
                *found, dims, steps,
                [*[_At(a, o[r]) for a, o in zip(given, offsets, strict=True)], _At(None, r * n * out)], name,
            )
            for r in range(turns)
        ]  # fmt: skip
        return _Step(form, rows, exact=exact)

    # ------------------------------------------------------------------------------------------ kinds of nodes

    def _ufunc(self, node: Node, ufunc: np.ufunc, form: Form) -> _Step | None:
        """The step of a ufunc."""
        args = node.args
        if len(args) != ufunc.nin or len(args) > 3:
            return None
        kinds = tuple([self._kind(a) for a in args])
        if None in kinds:
            return None
        signature = _signature(ufunc, kinds)
        if signature is None:
            return None
        python = form.kind is float
        name = ufunc.__name__
        if ufunc in _SINGLE and form.size == 1 and form.char in "df" and set(signature) <= {form.char, "-", ">"}:
            divides = python and ufunc is np.divide
            code = self.machine.address("divide_python" if divides else f"{name}_{form.char}")
            step = self._rows((code, 0), args, signature, form, name, exact=True)
            if step is not None:
                if divides:
                    step.rows[0][4].append(_FLAG)
                step.saves = 40 if python else 80 if form.kind is np.generic else 250
            return step
        if python and ufunc is not np.absolute:
            return None
        found = inner_loops.loop(ufunc, signature)
        if found is None:
            return None
        exact = ufunc in EXACT
        spreads = form.kind is np.ndarray and (exact or keeps_bits_anywhere(ufunc, signature.partition("->")[0]))
        step = self._rows(found, args, signature, form, ufunc.__name__, exact=exact, spreads=spreads)
        if step is not None:
            step.saves = 40 if form.kind in (float, bool) else 220 + 30 * len(step.rows)
        return step

    def _alone(self, node: Node, form: Form) -> _Step | None:
        """The step of a function of Python floats."""
        if not all(self._kind(a) is float for a in node.args) or len(node.args) > 2:
            return None
        found = inner_loops.alone(node.function, len(node.args))
        if found is None:
            return None
        step = self._rows(
            found, list(node.args), "d" * len(node.args) + "->d", form, node.function.__name__, exact=False
        )
        if step is not None:
            step.rows[0][4].append(_FLAG)
            step.saves = 60
        return step

    def _where(self, node: Node, form: Form) -> _Step | None:
        if len(node.args) != 3 or node.words or form.char not in "df?":
            return None
        condition, a, b = node.args
        if self._kind(condition) != "?" or not any(self._kind(x) == form.char for x in (a, b)):
            return None
        if any(self._kind(x) not in (form.char, float, int) for x in (a, b)):
            return None
        if any(x.__class__ is Node and self._kind(x) is float for x in (a, b)) and form.char != "d":
            return None
        found = (self.machine.address("where_" + ("b" if form.char == "?" else form.char)), 0)
        step = self._rows(
            found, [condition, a, b], "?" + 2 * form.char + "->" + form.char, form, np.where.__name__, exact=True
        )
        if step is not None:
            step.exact = False  # no row can overwrite an operand of another size
            step.saves = 500
        return step

    def _converted(self, form: Form, a: Any) -> _Step | None:
        have = self.form(a)
        if have is None or have.shape != form.shape or "?" in (have.char, form.char):
            return None
        if have.char == form.char:
            return _Step(form, of=a, repeats=self._repeats(a))
        if self._repeats(a):
            return None
        name = "widen" if form.char == "d" else "narrow"
        step = self._rows((self.machine.address(name), 0), [a], f"{have.char}->{form.char}", form, name, exact=False)
        if step is not None:
            step.saves = 200
        return step

    def _renamed(self, node: Node, form: Form | None, a: Node, spreads: bool) -> _Step | None:
        """The step of the same numbers in another shape, or of one number repeated."""
        have = self.form(a)
        if have is None or self._repeats(a):
            return None
        if spreads and have.size == 1 and node.sample.__class__ is np.ndarray:
            sample = node.sample
            if sample.dtype.char != have.char or not 0 < sample.size <= _MOST_ELEMENTS:
                return None
            step = _Step(Form(have.char, sample.shape, sample.size, np.ndarray), of=a, repeats=sample.size > 1)
            step.saves = 300
            return step
        if form is None or form.char != have.char or form.size != have.size:
            return None
        if form.size > 1 and (not form.shape or spreads):
            return None
        return _Step(form, of=a)

    def _guard(self, node: Node) -> _Step | None:
        """The step of a check. Where the check fails, the table sets the flag of doubt."""
        a = node.args[0]
        if a.__class__ is not Node:
            return None  # such as the bound that an assertion compares with
        if node.function is NO_NAN:
            return self._without_nan(a)
        form = self.form(a)
        if node.function not in (SAME_TRUTH, _taken) or form is None or form.char != "?" or form.size != 1:
            return None
        code = self.machine.address("doubt_other")
        operands = [a, _Constant(np.bool_(node.args[1])), _FLAG]
        step = _Step(
            form, [(code, 0, inner_loops.dims(1), inner_loops.steps((0, 0, 0)), operands, "doubt_other")], of=a
        )
        step.saves = 100
        return step

    def _truth(self, form: Form, a: Any, name: str, words: dict[str, Any]) -> _Step | None:
        """The step of `any` or `all` over all elements."""
        have = self.form(a) if a.__class__ is Node else None
        if have is None or have.char != "?" or form.char != "?" or form.shape or self._repeats(a):
            return None
        if any([v not in (None, False) for k, v in words.items() if k != "axis"]):  # noqa: C419
            return None
        first = (
            self.machine.address("copy_b"), 0, inner_loops.dims(1), inner_loops.steps((0, 1)),
            [_Constant(np.bool_(name == "all")), None], "start",
        )  # fmt: skip
        row = (
            self.machine.address(name), 0, inner_loops.dims(have.size), inner_loops.steps((0, 1, 0)), [None, a, None],
            name,
        )  # fmt: skip
        step = _Step(form, [first, row])
        step.saves = 800
        return step

    def _without_nan(self, a: Node) -> _Step | None:
        """The step of the same numbers with a doubt if one is NaN."""
        form = self.form(a)
        if form is None or form.char == "?" or self._repeats(a):
            return None
        steps = inner_loops.steps((_SIZES[form.char], 0))
        code = self.machine.address(f"doubt_nan_{form.char}")
        step = _Step(form, [(code, 0, inner_loops.dims(form.size), steps, [a, _FLAG], "doubt_nan")], of=a)
        step.saves = 100 if form.kind is float else 500
        return step

    def _element(self, node: Node, form: Form) -> _Step | None:
        a = node.args[0]
        return self._renamed(node, form, a, False) if a.__class__ is Node else None

    def _sum(self, node: Node, form: Form) -> _Step | None:
        """The step of a sum of all elements, or along the first or the last axes."""
        if len(node.args) != 1 or node.args[0].__class__ is not Node:
            return None
        words = dict(node.words)
        a = node.args[0]
        have = self.form(a)
        axis, dtype = words.pop("axis", 0), words.pop("dtype", None)
        if have is None or have.kind is not np.ndarray or self._repeats(a) or have.char not in "df":
            return None
        if have.strides is not None or dtype not in (None, np.dtype(have.char)) or form.char != have.char:
            return None
        if words.pop("out", None) is not None or words.pop("keepdims", False) not in (True, False) or words:
            return None
        n = len(have.shape)
        axes = range(n) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        summed = tuple(sorted([k % max(n, 1) for k in axes]))
        start = inner_loops.sum_starts_at(have.char)
        found = inner_loops.loop(np.add, have.char * 2 + "->" + have.char)
        if start is None or found is None or not summed:
            return None
        size = _SIZES[have.char]
        first = (
            self.machine.address(f"copy_{have.char}"), 0, inner_loops.dims(form.size), inner_loops.steps((0, size)),
            [_Constant(np.dtype(have.char).type(start)), None], "start",
        )  # fmt: skip
        if len(summed) == n:
            turns = [(None, a, None)]
        else:
            if form.kind is not np.ndarray or not inner_loops.sums_in_turns(have.char, have.shape, summed):
                return None
            turns = self._turns(a, have, summed, form.size)
        across = len(summed) < n and summed[0] == 0
        length = form.size if across else have.size // form.size
        steps = inner_loops.steps((size, size, size) if across else (0, size, 0))
        dims = inner_loops.dims(length)
        step = _Step(form, [first, *[(*found, dims, steps, [*turn], "add.reduce") for turn in turns]])
        step.saves = 600 + 30 * len(turns)
        return step

    def _turns(self, a: Node, have: Form, summed: tuple[int, ...], n: int) -> list[tuple[Any, Any, Any]]:
        """The operands of the rows of a sum with `n` results along the first or the last axes."""
        size = _SIZES[have.char]
        rest = have.size // n
        if summed[0] == 0:
            return [(None, _At(a, k * n * size), None) for k in range(rest)]
        return [(_At(None, k * size), _At(a, k * rest * size), _At(None, k * size)) for k in range(n)]


# ---------------------------------------------------------------------------------------------- lines of ufuncs

_MOST_TEMPLATES = 512
_templates: OrderedDict[Any, Any] = OrderedDict()
CHANGED.append(lambda _: _templates.clear())


def _quietly(function: Callable[..., Any], *args: Any, **words: Any) -> Any:
    with np.errstate(all="ignore"):
        return function(*args, **words)


def _taken(value: Any, expected: bool) -> None:
    """Raise `Doubt` if a kernel takes another branch than in the traced call."""
    if bool(value) is not expected:
        raise Doubt


def _template(machine: Any, node: Node) -> tuple[list[Node], list[Node], Node] | None:
    """The inputs, nodes and result of a kernel that only calls ops of the table; None for other kernels.

    A branch that depends on values becomes a check.
    """
    tracer = Tracer(_quietly)
    tracer.writes_over = True  # safe because the result is compared below
    given = [tracer.input(a.sample) if a.__class__ is Node else a for a in node.args]
    try:
        made = node.function(*given, **node.words)
        out = made.node
        passes_on = not any([n is out for n in tracer.nodes])  # noqa: C419 - a list is quicker
        if passes_on or out.sample.__class__ is not node.sample.__class__ or not same_bits(out.sample, node.sample):
            return None
    except Exception:  # the kernel does something that a table cannot do
        return None
    finally:
        tracer.open = False
    lowering = Lowering(machine)
    for n in tracer.nodes:
        if n.guards and n.function is SAME_TRUTH:
            n.function = _taken
        if lowering.step(n) is None:
            return None
    forget_values([*tracer.inputs, *tracer.nodes])
    return tracer.inputs, tracer.nodes, out


def _key_of(node: Node, lowering: Lowering) -> Any:
    key: list[Any] = [node.function]
    for a in node.args:
        form = lowering.form(a) if a.__class__ is Node else None
        if form is None:
            if a.__class__ is Node:
                return None
            key.append(constant_key(a))
        else:
            key += [form.char, form.shape, form.kind]
    return (*key, repr(sorted(node.words.items())) if node.words else "")


def expanded(machine: Any, nodes: list[Node], changed: list[tuple[Node, tuple[Any, ...]]]) -> list[Node]:
    """The nodes with the ufuncs of kernels in place of the kernels. Notes the original nodes."""
    kernels = known_kernels().others
    lowering = Lowering(machine)
    made: list[Node] = []
    for node in nodes:
        if id(node.function) not in kernels or lowering.form(node) is None or id(node.function) in lowering.linear:
            made.append(node)
            continue
        key = _key_of(node, lowering)
        if key is None:
            made.append(node)
            continue
        try:
            if key not in _templates:
                _templates[key] = _template(machine, node)
                if len(_templates) > _MOST_TEMPLATES:
                    _templates.popitem(last=False)
            template = _templates[key]
        except (TypeError, KeyError):  # a parameter without a hash, or a template that another thread dropped
            template = None
        if template is None:
            made.append(node)
            continue
        inputs, inner, out = template
        places = dict(zip([id(i) for i in inputs], [a for a in node.args if a.__class__ is Node], strict=True))
        for n in inner:
            new = node if n is out else Node(n.function, (), {}, n.sample, n.text)
            args = tuple([places.get(id(a), a) if a.__class__ is Node else a for a in n.args])
            if new is node:
                changed.append((node, (node.function, node.args, node.words, node.text)))
            new.guards = n.guards
            new.function, new.args, new.words, new.text = n.function, args, n.words, n.text
            places[id(n)] = new
            made.append(new)
    return made


# ---------------------------------------------------------------------------------------------- the order of the work


def _worth(nodes: list[Node], outputs: list[Node], steps: dict[int, _Step], spent: list[Node]) -> list[Part]:
    """The parts, after dropping walks that cost more than they save."""
    others = {id(n): block_of(n) for n in nodes if id(n) not in steps}

    def kind(node: Node) -> Any:
        return WALK if id(node) in steps else others.get(id(node), CALL)

    _settle(nodes, outputs, steps)
    while True:
        parts = in_order(nodes, outputs, kind, steps, spent)
        poor = [p for p in parts if p.kind == WALK and sum([steps[id(n)].saves for n in p.nodes]) < _WORTH]
        if not poor:
            return parts
        for part in poor:
            for node in part.nodes:
                del steps[id(node)]
        _settle(nodes, outputs, steps)


def _holds(node: Node, steps: dict[int, _Step]) -> bool:
    """Whether the operands of a step are in the table or have a form that the table can store."""
    return all([id(a) in steps or _form(a.sample) is not None for a in reads_of(node)])  # noqa: C419 - a list is quicker


def _in_table(step: _Step, steps: dict[int, _Step]) -> bool:
    """Whether the memory that a step renames, maybe through other renames, belongs to the table."""
    while step.of is not None:
        renamed = steps.get(id(step.of))
        if renamed is None:
            return False
        step = renamed
    return True


def _settle(nodes: list[Node], outputs: list[Node], steps: dict[int, _Step]) -> None:
    """Drop steps whose operands are not in the table, and steps of memory that only Python reads."""
    called = {id(o) for o in outputs}
    for o in outputs:
        if id(o) in steps and steps[id(o)].form.size > _MOST_ELEMENTS:  # copying costs more than the walk saves
            del steps[id(o)]
    for node in reversed(nodes):
        step = steps.get(id(node))
        if step is not None and step.of is None:
            continue
        if step is not None and id(node) in called and not _in_table(step, steps):
            del steps[id(node)]
            step = None
        if step is None or id(node) in called:
            called.update([id(a) for a in reads_of(node)])
    for node in nodes:
        if id(node) in steps and not _holds(node, steps):
            del steps[id(node)]


# ---------------------------------------------------------------------------------------------- memory


class _Space:
    """Allocates places in a program's memory, in bytes. A place is free again after the last read of its value."""

    def __init__(self) -> None:
        self.size = 0
        self.free: dict[int, list[int]] = {}
        self.constants: dict[Any, int] = {}
        self.contents: list[tuple[int, Any]] = []

    @staticmethod
    def _room(nbytes: int) -> int:
        # With a gap, because some of NumPy's loops treat adjacent arrays as overlapping and then compute differently.
        return 16 if nbytes <= 8 else -(-nbytes // _LINE) * _LINE + _LINE

    def take(self, nbytes: int) -> int:
        room = self._room(nbytes)
        kept = self.free.get(room)
        if kept:
            return kept.pop()
        if room > 16:
            self.size = -(-self.size // _LINE) * _LINE
        place = self.size
        self.size += room
        return place

    def give_back(self, place: int, nbytes: int) -> None:
        self.free.setdefault(self._room(nbytes), []).append(place)

    def constant(self, value: Any) -> int:
        key = constant_key(value)
        place = self.constants.get(key)
        if place is None:
            array = np.ascontiguousarray(value)
            place = self.size = -(-self.size // _LINE) * _LINE if array.nbytes > 8 else self.size
            self.size += self._room(array.nbytes)
            self.constants[key] = place
            self.contents.append((place, array))
        return place


class _Fields:
    """The words of a plan. Addresses count from the start of the plan, or from the values, which follow the plan."""

    def __init__(self) -> None:
        self._words: list[int] = []  # the newest words
        self._known: list[Any] = []  # arrays of earlier words
        self._count = 0
        self.of_plan: list[int] = []
        self.of_values: list[int] = []
        self.rows: list[tuple[int, int]] = []

    def put(self, words: Iterable[int], of_plan: Iterable[int] = (), of_values: Iterable[int] = ()) -> int:
        """Append words and the places of the addresses among them. Returns the start of the words in bytes."""
        start = self._count + len(self._words)
        self._words.extend(words)
        self.of_plan.extend([start + k for k in of_plan])
        self.of_values.extend([start + k for k in of_values])
        return 8 * start

    def put_rows(self, words: Any) -> int:
        """Append rows from an array of words. All operands of the rows are addresses of values."""
        start = self._count + len(self._words)
        self._known += [np.array(self._words, np.int64), words]
        self._count, self._words = start + len(words), []
        self.rows.append((start, len(words)))
        return 8 * start

    @property
    def words(self) -> Any:
        """All words, as an array."""
        return np.concatenate([*self._known, np.array(self._words, np.int64)])

    def addresses(self) -> tuple[Any, Any]:
        """The places of the addresses of the plan, and of those of values."""
        own = [
            (start + np.arange(0, count, _WORDS)[:, None] + np.arange(4, _WORDS)).ravel() for start, count in self.rows
        ]
        return np.array(self.of_plan, np.int64), np.concatenate([np.array(self.of_values, np.int64), *own])


_REST: tuple[tuple[int, ...], ...] = ((0,) * 4, (0,) * 3, (0,) * 2, (0,), ())  # zeros, by the number of operands


class _Walk:
    """One walk: the values that enter, the values that leave, and the rows as words, with names for comments."""

    __slots__ = ("_known", "gives", "rows", "start", "takes", "words")

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.words: list[int] = []  # the words of the newest rows
        self._known: list[Any] = []  # arrays of the words of earlier rows
        self.start = 0  # the start of the rows in words
        self.takes: list[Node] = []
        self.gives: list[Node] = []

    def add(self, words: Any) -> None:
        """Append the words of many rows as an array."""
        self._known += [np.array(self.words, np.int64), words]
        self.words = []

    def all_words(self) -> Any:
        """The words of all rows."""
        return np.concatenate([*self._known, np.array(self.words, np.int64)])


def _enters(item: Instance, lowering: Lowering) -> bool:
    """Whether every node of a copy of a block has rows. If so, notes the form of each result."""
    steps, block = lowering.steps, item.block
    if id(block.nodes[-1]) not in steps:
        if not all([lowering.form(a) is not None for a in block.inputs]):  # noqa: C419 - a list is quicker
            return False
        if not all([lowering.step(node) is not None for node in block.nodes]):  # noqa: C419
            return False
        if any([steps[id(block.nodes[j])].of is not None for j in block.outputs]):  # noqa: C419
            return False
    for a in item.inputs:
        step = steps.get(id(a)) if a.__class__ is Node else None
        if step is not None and step.repeats:
            return False
    for j in block.outputs:
        steps[id(item.nodes[j])] = _Step(steps[id(block.nodes[j])].form)
    return True


class _Rows:
    """The rows of a block. Numbers stand for the places of operands: inputs, results, and fixed places.

    Parameters
    ----------
    table : Table
    block : Block

    Attributes
    ----------
    heads : array
        The code, data, lengths and strides of each row.
    operands, offsets : array
        For each row the numbers of places, and offsets in bytes from these places.
    fixed : list of int
        The places of constants and of temporary values.
    sizes : list of int
        The bytes of each result.
    labels : list of (name, number of operands)
    """

    __slots__ = ("fixed", "heads", "labels", "offsets", "operands", "sizes")

    def __init__(self, table: Table, block: Block) -> None:
        steps, root, space = table.steps, table.root, table.space
        numbers = {id(n): k for k, n in enumerate(block.inputs)}
        results = [block.nodes[j] for j in block.outputs]
        numbers.update({id(n): len(numbers) + k for k, n in enumerate(results)})
        self.sizes = [steps[id(n)].form.nbytes for n in results]
        pinned = set(numbers)
        local = _Space()
        fixed: dict[Any, int] = {}  # numbers of fixed places; temporary values count in the order of their places
        held: dict[int, int] = {}
        last = {id(root(a)): t for t, node in enumerate(block.nodes) for a in reads_of(node)}
        heads: list[Any] = []
        operands: list[list[int]] = []
        offsets: list[list[int]] = []
        self.labels = []

        def number(place: Any) -> int:
            return fixed.setdefault(place, len(pinned) + len(fixed))

        rest = number(("constant", 0))
        for t, node in enumerate(block.nodes):
            step = steps[id(node)]
            dying = {id(r): r for r in [root(a) for a in reads_of(node)] if last[id(r)] == t and id(r) not in pinned}
            for k, r in list(dying.items()):
                if step.exact and table.is_alike(r, step.form):
                    local.give_back(held[k], step.form.nbytes)
                    del dying[k]
            if step.of is None and id(node) not in pinned:
                held[id(node)] = local.take(step.form.nbytes)
                numbers[id(node)] = number(("temporary", held[id(node)]))
            for code, data, dims, strides, given, name in step.rows:
                heads.append((code, data, dims, strides))
                whole = [a.of if a.__class__ is _At else a for a in given]
                row = [
                    numbers[id(node)] if a is None
                    else numbers[id(root(a))] if a.__class__ is Node
                    else number(("constant", table.flag if a is _FLAG else space.constant(a.value)))
                    for a in whole
                ]  # fmt: skip
                operands.append(row + [rest] * (4 - len(row)))
                behind = [a.offset if a.__class__ is _At else 0 for a in given]
                offsets.append(behind + [0] * (4 - len(row)))
                self.labels.append(table.label(name, len(given)))
            for k, r in dying.items():
                local.give_back(held[k], table.form(r).nbytes)
            if step.of is None and id(node) not in last and id(node) not in pinned:
                local.give_back(held[id(node)], step.form.nbytes)
        start = space.take(max(local.size, 1))
        self.fixed = [place + start if kind == "temporary" else place for kind, place in fixed]
        self.heads, self.operands = np.array(heads, np.int64), np.array(operands)
        self.offsets = np.array(offsets, np.int64)

    def words(self, places: list[list[int]]) -> Any:
        """The words of copies of the block, given the places of the inputs and results of each copy."""
        known = np.array([p + self.fixed for p in places], np.int64)
        made = np.empty((len(places), *self.heads.shape[:1], _WORDS), np.int64)
        made[:, :, :4] = self.heads
        made[:, :, 4:] = known[:, self.operands] + self.offsets
        return made.ravel()


class Table:
    """A program as walks over rows, with calls of Python's between them.

    Parameters
    ----------
    machine : Machine
    inputs, nodes, outputs : list of Node
        As in `gtape.tapes.program.Program`.
    name : str
    spends : bool
        As in `gtape.tapes.program.Program`.

    Attributes
    ----------
    run : callable or None
        Takes raw inputs, returns the tuple of raw outputs. Raises `Doubt` if Python has to do the work. None if no walk
        pays.
    rows, walks, calls, buffers, nbytes : int
        The numbers of rows, walks, Python calls and buffers, and the bytes that the program keeps.
    left : dict
        The number of Python calls of each function.
    """

    def __init__(
        self,
        machine: Any,
        inputs: list[Node],
        nodes: list[Node],
        outputs: list[Node],
        name: str,
        *,
        spends: bool = False,
    ) -> None:
        self.machine = machine
        self.run: Callable[..., tuple[Any, ...]] | None = None
        self.rows = self.walks = self.calls = self.buffers = self.nbytes = 0
        self.left: dict[str, int] = {}
        self.space = _Space()
        self.flag = self.space.take(8)
        self._places: dict[int, int] = {}
        self._shown: dict[int, Node] = {}  # arrays in memory that Python reads
        self._walks: dict[int, _Walk] = {}
        self._known: dict[Any, Any] = {}
        self._renamed: dict[int, Node] = {}
        changed: list[tuple[Node, tuple[Any, ...]]] = []
        nodes = expanded(machine, nodes, changed)
        before = [(node, node.args, node.words) for node in nodes] if changed else []
        if changed:  # kernels may share calls, as the derivatives of several orders do
            nodes, outputs = shared(nodes, outputs, again=True)
        parts = self._of_blocks(in_blocks(nodes, outputs), outputs)
        if parts is None:
            lowering = Lowering(machine)
            for node in nodes:
                lowering.step(node)
            self.steps = lowering.steps
            parts = _worth(nodes, outputs, self.steps, spent_of(inputs, spends))
            if any([p.kind == WALK for p in parts]):  # noqa: C419 - a list is quicker
                self._lay_out(parts, outputs)
        if self._walks:
            self._write(inputs, parts, outputs, name, spends)
        del self.steps
        for node, args, words in before:
            node.args, node.words = args, words
        for node, was in changed:
            node.function, node.args, node.words, node.text = was

    @property
    def source(self) -> str:
        """The Python source. Comments show the rows of each walk, with the places of their operands in memory."""
        lines = []
        for name, start, rows in self._listing:
            lines.append(f"# {name} walks {len(rows)} rows:\n")
            for k, (word, count) in enumerate(rows):
                at = self._words[start + _WORDS * k + 4 : start + _WORDS * k + 4 + count].tolist()
                lines.append(f"#     {word}({', '.join([str(a) for a in at])})\n")
        return "".join(lines) + self._text

    # ------------------------------------------------------------------------------------------ places

    def root(self, node: Node) -> Node:
        """The node whose memory holds a value."""
        return self._renamed.get(id(node), node)

    def _find_roots(self) -> None:
        """Find the roots of all nodes that share memory, in the order of the steps, after the last step is dropped."""
        renamed = self._renamed = {}
        for key, step in self.steps.items():
            of = step.of
            if of is not None:
                renamed[key] = renamed.get(id(of), of)

    def _lay_out(self, parts: list[Part], outputs: list[Node]) -> None:
        """Find the rows, and allocate a place in memory for each value."""
        self._find_roots()
        steps, space, renamed = self.steps, self.space, self._renamed
        last: dict[int, int] = {}
        shown: list[Node] = [o for o in outputs if id(o) in steps]
        writer: dict[int, int] = {}
        time = 0
        for k, part in enumerate(parts):
            if part.kind != WALK:
                time += len(part.nodes)
                shown += [a for node in part.nodes for a in reads_of(node) if id(a) in steps]
                continue
            for node in part.nodes:
                time += 1
                writer[id(node)] = k
                for a in reads_of(node):
                    key = id(a)
                    if key in renamed:
                        key = id(renamed[key])
                    last[key] = time
        pinned: set[int] = set()
        gives: dict[int, dict[int, Node]] = {}
        for a in shown:
            pinned.add(id(self.root(a)))
            if steps[id(a)].form.kind is np.ndarray:
                self._shown[id(a)] = a
            else:
                gives.setdefault(writer[id(a)], {})[id(a)] = a
        time = 0
        for k, part in enumerate(parts):
            if part.kind != WALK:
                time += len(part.nodes)
                continue
            walk = self._walks[k] = _Walk()
            places = self._places
            for node in part.nodes:
                for a in reads_of(node):
                    key = id(a)
                    if key in renamed:
                        a = renamed[key]
                        key = id(a)
                    if key not in steps and key not in places:
                        places[key] = space.take(_known(a.sample).nbytes)
                        walk.takes.append(a)
            for node in part.nodes:
                time += 1
                self._put(walk, node, steps[id(node)], last, pinned, time)
            walk.gives = list(gives.get(k, {}).values())

    def _put(self, walk: _Walk, node: Node, step: _Step, last: dict[int, int], pinned: set[int], time: int) -> None:
        """Append the rows of a node."""
        space, places, renamed = self.space, self._places, self._renamed
        dying: list[Node] = []
        for a in reads_of(node):
            key = id(a)
            if key in renamed:
                a = renamed[key]
                key = id(a)
            if last[key] == time and key not in pinned and a not in dying:
                dying.append(a)
        if step.exact and dying:
            form = step.form
            alike = [r for r in dying if self.is_alike(r, form)]
            self._free(alike)
            dying = [r for r in dying if r not in alike]
        place = 0
        if step.of is None:
            place = places[id(node)] = space.take(step.form.nbytes)
        words = walk.words
        for code, data, dims, steps, operands, name in step.rows:
            words += (code, data, dims, steps)
            for a in operands:
                if a is None:
                    words.append(place)
                elif a.__class__ is Node:
                    key = id(a)
                    words.append(places[id(renamed[key]) if key in renamed else key])
                elif a.__class__ is _At:
                    of = a.of
                    start = place if of is None else places[id(self.root(of))] if of.__class__ is Node else None
                    words.append(a.offset + (space.constant(of.value) if start is None else start))
                else:
                    words.append(self.flag if a is _FLAG else space.constant(a.value))
            words += _REST[len(operands)]
            walk.rows.append(self.label(name, len(operands)))
        if dying:
            self._free(dying)
        if step.of is None and id(node) not in last and id(node) not in pinned:
            space.give_back(place, step.form.nbytes)

    def form(self, root: Node) -> Form:
        """The form of the value of a root node."""
        step = self.steps.get(id(root))
        return _known(root.sample) if step is None else step.form

    def is_alike(self, root: Node, form: Form) -> bool:
        """Whether a value of the given form fits into the memory of a root node."""
        own = self.form(root)
        return own.nbytes == form.nbytes and own.char == form.char and own.strides == form.strides

    def label(self, name: str, count: int) -> Any:
        """The name of a row and the number of its operands, as one object for all such rows."""
        made = (name, count)
        return self._known.setdefault(made, made)

    def _free(self, dying: list[Node]) -> None:
        for r in dying:
            self.space.give_back(self._places[id(r)], self.form(r).nbytes)

    # ------------------------------------------------------------------------------------------ repeated blocks

    def _of_blocks(self, items: list[Any], outputs: list[Node]) -> list[Part] | None:
        """One walk over the rows of blocks and the rows of the nodes between blocks.

        None if there are no blocks, or if a Python call stands between rows.
        """
        if len(items) == 1:
            return None
        lowering = Lowering(self.machine)
        steps = self.steps = lowering.steps
        for item in items:
            if item.__class__ is Instance:
                if not _enters(item, lowering):
                    return None
            elif not all([lowering.step(node) is not None for node in item]):  # noqa: C419 - a list is quicker
                return None
        self._find_roots()
        if any([id(o) in steps and id(self.root(o)) not in steps for o in outputs]):  # noqa: C419
            return None
        if any([id(o) in steps and steps[id(o)].form.size > _MOST_ELEMENTS for o in outputs]):  # noqa: C419
            return None
        self._lay_out_blocks(items, [o for o in outputs if id(o) in steps])
        return [Part(WALK)]

    def _lay_out_blocks(self, items: list[Any], outputs: list[Node]) -> None:
        """Find the rows, and allocate a place in memory for each value."""
        walk = self._walks[0] = _Walk()
        steps, places, space, root = self.steps, self._places, self.space, self.root
        last: dict[int, int] = {}
        time = 0
        for item in items:
            for read in [item.inputs] if item.__class__ is Instance else [reads_of(node) for node in item]:
                time += 1
                for a in read:
                    if a.__class__ is Node:
                        r = root(a)
                        last[id(r)] = time
                        if id(r) not in steps and id(r) not in places:
                            places[id(r)] = space.take(_known(r.sample).nbytes)
                            walk.takes.append(r)
        pinned = {id(root(o)) for o in outputs}
        time = 0
        copies: list[list[int]] = []  # the places of the copies of one block, copy after copy
        for k, item in enumerate(items):
            if item.__class__ is not Instance:
                for node in item:
                    time += 1
                    self._put(walk, node, steps[id(node)], last, pinned, time)
                continue
            time += 1
            rows = item.block.written
            if rows is None:
                rows = item.block.written = _Rows(self, item.block)
            given = [places[id(root(a))] if a.__class__ is Node else space.constant(a) for a in item.inputs]
            made = [space.take(n) for n in rows.sizes]
            copies.append(given + made)
            for node, place in zip(item.outputs, made, strict=True):
                places[id(node)] = place
                if id(node) not in last:
                    space.give_back(place, steps[id(node)].form.nbytes)
            self._free(list({
                id(r): r for r in [root(a) for a in item.inputs if a.__class__ is Node]
                if last[id(r)] == time and id(r) not in pinned
            }.values()))  # fmt: skip
            after = items[k + 1] if k + 1 < len(items) else None
            if after.__class__ is not Instance or after.block is not item.block:
                walk.add(rows.words(copies))
                walk.rows += rows.labels * len(copies)
                copies = []
        for o in outputs:
            if steps[id(o)].form.kind is np.ndarray:
                self._shown[id(o)] = o
            elif o not in walk.gives:
                walk.gives.append(o)

    # ------------------------------------------------------------------------------------------ the program

    def _write(self, inputs: list[Node], parts: list[Part], outputs: list[Node], name: str, spends: bool) -> None:
        steps = self.steps
        fields = _Fields()
        starts = [self._segment(walk, fields) for walk in self._walks.values()]
        views = list(self._shown.values())
        space: dict[str, Any] = {}
        writer = Writer(inputs, parts, outputs, space, steps, spent_of(inputs, spends))
        for i, a in enumerate(views):
            a.name = f"m{i}"
        borrowed: set[int] = set()  # results of calls that may be views of the memory
        walks: list[str] = []
        for k, part in enumerate(parts):
            if part.kind == WALK:
                walks.append(f"w{len(walks)}")
                self._line(writer, part, self._walks[k], walks[-1])
                continue
            for node in part.nodes:
                if any([id(a) in self._shown or id(a) in borrowed for a in reads_of(node)]):  # noqa: C419
                    borrowed.add(id(node))
                word = getattr(node.function, "__name__", "function")
                self.left[word] = self.left.get(word, 0) + 1
            writer.write(part)
            self.calls += len(part.nodes)
        listed = []
        for o in outputs:
            text = writer.names.text(o)
            if id(o) in self._shown:
                text += ".copy()"
            elif id(o) in borrowed:
                text = f"own({text}, memory)"
            listed.append(text)
        instance = self._instances(fields, starts, views, writer.buffers)
        space.update(free=[instance()], buffers=instance, own=_own)
        held = ["memory", *walks, *[a.name for a in views]]
        self.walks = len(walks)
        self.rows = sum([len(w.rows) for w in self._walks.values()])
        self.buffers = len(writer.buffers) + len(views)
        self.nbytes += writer.nbytes
        several = len(self._walks[0].gives) > 1 if 0 in self._walks else True
        if len(walks) == len(parts) == 1 and not views and not (several and _COLLECTS):
            # Python runs a single walk that returns numbers without a switch to another thread.
            space["w0"] = space["free"][0][1]
            space["memory"] = space["free"][0][0]
            held = []
        end = f"return ({', '.join(listed)}{',' if outputs else ''})"
        self._text = framed(writer, inputs, end, space, held, spends=spends)
        exec(compile(self._text, f"<gtape program of {name}>", "exec"), space)
        self.run = space["program"]
        self._listing = [(w, k.start, k.rows) for w, k in zip(walks, self._walks.values(), strict=True)]
        del self._walks, self.space, self._shown, self._places, self._known

    def _line(self, writer: Writer, part: Part, walk: _Walk, name: str) -> None:
        """Write the line of a walk."""
        taken = ", ".join([a.name for a in walk.takes])
        writer.place += len(part.nodes)
        writer.release([a for a in walk.takes if writer.is_over(a)])
        given = [writer.define(a) for a in walk.gives]
        writer.lines.append(f"{', '.join(given)} = {name}({taken})" if given else f"{name}({taken})")
        writer.spend(walk.takes)

    def _segment(self, walk: _Walk, fields: _Fields) -> int:
        """Append the words of a walk. Returns the start of its segment."""
        start = fields.put_rows(walk.all_words())
        walk.start = start // 8
        taken: list[tuple[Any, ...]] = []
        for node in walk.takes:
            form = _known(node.sample)
            place = self._places[id(node)]
            if form.kind is np.ndarray:
                shape = fields.put(form.shape)
                descr = id(np.dtype(form.char))
                taken.append(([FROM_ARRAY, place, form.nbytes, len(form.shape), shape, descr, 0, 0], (4,), (1,)))
            else:
                taken.append(([_TAKEN[form.char], place, 0, 0, 0, 0, 0, 0], (), (1,)))
        ins = [fields.put(*words) for words in taken]
        forms = [self.steps[id(a)].form for a in walk.gives]
        outs = [
            fields.put((_GIVEN[form.char, form.kind], self._places[id(self.root(a))]), (), (1,))
            for a, form in zip(walk.gives, forms, strict=True)
        ]
        words = [len(walk.rows), start, len(ins), ins[0] if ins else 0, len(outs), outs[0] if outs else 0]
        return fields.put([*words, self.flag, 0], (1, 3, 5), (6,))

    def _instances(self, fields: _Fields, starts: list[int], views: list[Node], buffers: list[Any]) -> Any:
        """A function that makes the memory of one run, with its walks and arrays."""
        words = fields.words
        head = -(-words.nbytes // _LINE) * _LINE
        shift = np.zeros(len(words), np.int64)
        of_plan, of_values = fields.addresses()
        shift[of_plan] = 1
        shift[of_values] = 1
        words[of_values] += head
        total, size = head + self.space.size, words.nbytes
        self._words = words
        self.nbytes = total
        contents = [(head + place, array.tobytes()) for place, array in self.space.contents]
        shown = [(head + self._places[id(self.root(a))], self.steps[id(a)]) for a in views]
        arrays = [
            (s.form.shape, np.dtype(s.form.char), place, (0,) * len(s.form.shape) if s.repeats else s.form.strides)
            for place, s in shown
        ]
        entry = self.machine.entry

        def instance() -> tuple[Any, ...]:
            raw = np.zeros(total + _LINE, np.uint8)
            skip = -raw.ctypes.data % _LINE
            memory = raw[skip : skip + total]
            start = memory.ctypes.data
            memory[:size].view(np.int64)[:] = words + shift * start
            for place, content in contents:
                memory[place : place + len(content)] = np.frombuffer(content, np.uint8)
            return (
                memory, *[entry(start + s) for s in starts],
                *[np.ndarray(shape, dtype, memory, place, strides) for shape, dtype, place, strides in arrays],
                *[np.empty(shape, dtype) for shape, dtype in buffers],
            )  # fmt: skip

        return instance


def _own(value: Any, memory: Any) -> Any:
    """A result, copied if its memory belongs to a program. Elements that share their memory still share it."""
    if not isinstance(value, np.ndarray) or value.base is None or not np.may_share_memory(value, memory):
        return value
    if all(value.strides):
        return value.copy("K")
    return np.broadcast_to(value[tuple([slice(None if step else 1) for step in value.strides])].copy("K"), value.shape)

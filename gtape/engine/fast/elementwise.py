"""From a declaration to the function that users call.

For each elementwise primitive of one or two arguments Python source is generated: operands of one shape and dtype, at
most one plain tape, no detours. The source holds the rule's partial too (see `gtape.engine.fast.source`), so that
the backward step of an op is one Python call. Everything else goes through closures of the same
form, or `gtape.engine.call.apply`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base import late
from gtape.base.layout import FLOAT64_SCALAR
from gtape.declare.primitive import Primitive
from gtape.engine.call import apply, record_op, refuse
from gtape.engine.fast.layouts import one_operand, two_operands
from gtape.engine.fast.source import Notes
from gtape.engine.rules import by_slope
from gtape.recording import record
from gtape.tensors.operands import check_dtypes, operands
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["make_function", "make_general"]


def _make_pull(prim: Primitive, active: tuple[int, ...], scalars: bool = False) -> tuple[Any, frozenset[Any]]:
    """The function ``pull(g, ins, out)`` for the given active arguments, all of one shape, and what it reads."""
    notes = Notes(prim, scalars=scalars)
    xs = [notes.value(f"x{i}") for i in range(len(prim.rules))]
    made = [by_slope(notes, prim, i, notes.value("g"), notes.value("out"), xs, {}, Notes.hold) for i in active]
    reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in active])
    only = [i for i in range(len(xs)) if i in reads]
    loads = [f"x{i} = {kept}._value" for i, kept in zip(only, _places(only, reads), strict=True)]
    pull = notes.function(loads, made, f"<gtape rule of {prim.name}>")
    pull.prim, pull.active, pull.params, pull.avals, pull.out_aval = prim, active, {}, None, None
    pull.general = None
    pull.single = only[0] if len(only) == 1 else None
    pull.pair = len(only) == 2 and "y" not in reads
    return pull, reads


_UNARY = """
def {name}(x, name=None):
    try:
        av = x._aval
    except AttributeError:
        return {name}(operand(x))
    s = peek() or idle()
    t = Tensor()
    v = x._value
    if av is FLOAT:  # a tensor, then: variables have an Aval of their own
        try:
            t._value = {scalar}
        except Failed:
            t._value = float(s.run(kernel, float64(v)))
        except RuntimeError as e:
            settle(e)
            return {name}(x)
        t._aval = FLOAT
        r = x._record
        if r is None:
            t._record = None
            return t
        tapes = s.tapes
        if r[6] is tapes:
            t._record = [next(count), None, pull_s, r, {ins}, {out}, tapes, None]{mark}
            return t
    else:
        if x.__class__ is not Tensor:
            return {name}(operand(x))
        t._aval = av
        if not {accepts}:
            return refuse(prim, [x])
        try:
            t._value = {array}
        except TypeError:  # no such loop, as for the sign of a bool
            return refuse(prim, [x])
        except RuntimeError as e:
            settle(e)
            return {name}(x)
        r = x._record
        if r is None:
            t._record = None
            return t if av.inexact else refuse_bool(prim, t, [x])
        tapes = s.tapes
        if r[6] is tapes and av.inexact:
            t._record = [next(count), None, pull, r, {ins}, {out}, tapes, None]{mark}
            return t
    t._record = None
    return general(s, prim, (x,), {{}}, t)
"""

_BINARY = """
def {name}(x, y, name=None):
    try:
        av = x._aval
        if av is not y._aval:
            return mixed(x, y)
    except AttributeError:
        x, y = both(x, y)
        return {name}(x, y)
    s = peek() or idle()
    t = Tensor()
    a = x._value
    b = y._value
    if av is FLOAT:  # tensors, then: variables have an Aval of their own
        try:
            v = t._value = {scalar}
        except Failed:
            v = t._value = s.run(kernel, float64(a), float64(b)).item()
        except RuntimeError as e:
            settle(e)
            return {name}(x, y)
        t._aval = {float_aval}
        ra = x._record
        rb = y._record
        tapes = s.tapes
        if rb is None:
            if ra is None:
                t._record = None
                return t
            if ra[6] is tapes{d0}:
                t._record = [next(count), None, pull0_s, ra, {ins0}, {out0}, tapes, None]{mark}
                return t
        elif ra is None:
            if rb[6] is tapes{d1}:
                t._record = [next(count), None, pull1_s, rb, {ins1}, {out1}, tapes, None]{mark}
                return t
        elif ra[6] is tapes and rb[6] is tapes{d2}:
            t._record = [next(count), None, pull01_s, ra, {ins2}, {out2}, tapes, rb]{mark}
            return t
    else:
        if x.__class__ is not Tensor:
            return mixed(x, y)
        if not {accepts}:
            return refuse(prim, [x, y])
        try:
            v = t._value = {array}
        except TypeError:  # no such loop, as for the difference of bools
            return refuse(prim, [x, y])
        except RuntimeError as e:
            settle(e)
            return {name}(x, y)
        t._aval = {array_aval}
        ra = x._record
        rb = y._record
        tapes = s.tapes
        if rb is None:
            if ra is None:
                t._record = None
                return t if av.inexact else refuse_bool(prim, t, [x, y])
            if ra[6] is tapes and av.inexact{d0}:
                t._record = [next(count), None, pull0, ra, {ins0}, {out0}, tapes, None]{mark}
                return t
        elif ra is None:
            if rb[6] is tapes and av.inexact{d1}:
                t._record = [next(count), None, pull1, rb, {ins1}, {out1}, tapes, None]{mark}
                return t
        elif ra[6] is tapes and rb[6] is tapes and av.inexact{d2}:
            t._record = [next(count), None, pull01, ra, {ins2}, {out2}, tapes, rb]{mark}
            return t
    t._record = None
    return general(s, prim, (x, y), {{}}, t)
"""


def _accepts(prim: Primitive) -> str:
    """The test that an operand's Aval passes if the kernel can run on it as it is; the rest is for `refuse`."""
    if prim.complex is True:
        return "True" if prim.ints else "av.inexact"
    return "not av.special" if prim.ints else "av.real"


def _refuse_bool(prim: Primitive, t: Tensor, tensors: list[Tensor]) -> Tensor:
    """NumPy adds and compares bools as if they were numbers; TensorFlow does not."""
    if tensors[0]._aval.dtype.kind == "b":
        check_dtypes(prim, tensors)
    return t


def _named(source: str, prim: Primitive) -> str:
    """The source of a function of `x` and `y` with the argument names of the declaration."""
    names = dict(zip(("x", "y"), prim.arguments, strict=False))
    # A local variable of the template that an argument is called like makes way for it.
    for taken in set(prim.arguments) - {"x", "y"}:
        names.setdefault(taken, f"{taken}_")
    return re.sub(r"\b\w+\b", lambda m: names.get(m[0], m[0]), source)


def _base_names(prim: Primitive) -> dict[str, Any]:
    return {
        "Failed": (ValueError, ArithmeticError),
        "FLOAT": FLOAT64_SCALAR,
        "Tensor": Tensor,
        "mixed": two_operands(prim) if len(prim.rules) == 2 else None,
        "both": operands,
        "refuse": refuse,
        "refuse_bool": _refuse_bool,
        "count": record.count,
        "float64": np.float64,
        "general": record_op,
        "idle": record.idle_stack,
        "kernel": prim.kernel,
        "operand": as_operand,
        "peek": record.peek,
        "prim": prim,
        "settle": record.settle,
        "scalar_kernel": prim.scalar,
    }


def _places(only: list[int], reads: frozenset[Any]) -> list[str]:
    """Where a record keeps the inputs that its rules read."""
    if len(only) < 2:
        return ["ins"] * len(only)
    return ["ins", "out"] if "y" not in reads else ["ins[0]", "ins[1]"]


def _fields(reads: frozenset[Any], arguments: tuple[str, ...]) -> tuple[str, str]:
    """Source of what a record keeps: of two inputs the second stands where the output would."""
    kept = [a for i, a in enumerate(arguments) if i in reads]
    out = "t._value" if "y" in reads else "None"
    if len(kept) < 2:
        return (*kept, "None")[0], out
    return ("(x, y)", out) if "y" in reads else (kept[0], kept[1])


def _unary_source(prim: Primitive) -> tuple[str, dict[str, Any]]:
    """The source of the function of one argument, and what its names stand for."""
    space = _base_names(prim)
    space["pull"], reads = _make_pull(prim, (0,))
    space["pull_s"], _ = _make_pull(prim, (0,), scalars=True)
    ins, out = _fields(reads, ("x",))
    if prim.scalar is None or not prim.inlined:
        scalar = "float(s.run(kernel, float64(v)))"
    else:
        scalar = f"{prim.infix}v" if prim.infix else "scalar_kernel(v)"
    source = _UNARY.format(
        name=prim.name, scalar=scalar, array="s.run(kernel, v)", ins=ins, out=out,
        accepts=_accepts(prim), mark="; s.tracker.selects = True" if prim.selects else "",
    )  # fmt: skip
    return _named(source, prim), space


def _binary_source(prim: Primitive) -> tuple[str, dict[str, Any]]:
    """The source of the function of two arguments, and what its names stand for."""
    space = _base_names(prim)
    words: dict[str, str] = {}
    for k, active in enumerate(((0,), (1,), (0, 1))):
        if all(prim.connected(i) for i in active):
            space[("pull0", "pull1", "pull01")[k]], reads = _make_pull(prim, active)
            space[("pull0_s", "pull1_s", "pull01_s")[k]], _ = _make_pull(prim, active, scalars=True)
            words[f"ins{k}"], words[f"out{k}"] = _fields(reads, ("x", "y"))
            words[f"d{k}"] = ""
        else:
            words[f"ins{k}"] = words[f"out{k}"] = "None"
            words[f"d{k}"] = " and False"
    if prim.scalar is None or not prim.inlined:
        scalar = "s.run(kernel, float64(a), float64(b)).item()"
    else:
        scalar = f"a {prim.infix} b" if prim.infix else "scalar_kernel(a, b)"
    source = _BINARY.format(
        name=prim.name, scalar=scalar, array="s.run(kernel, a, b)", float_aval="FLOAT", array_aval="av",
        accepts=_accepts(prim), mark="; s.tracker.selects = True" if prim.selects else "",
        **words,
    )  # fmt: skip
    return _named(source, prim), space


def _source(prim: Primitive) -> tuple[str, dict[str, Any]] | None:
    """The source of the quick function of a primitive; None where the primitive goes the general way."""
    n = len(prim.rules)
    if prim.kind != "elementwise" or prim.params or "selection" in prim.roles or prim.opaque or n > 2:
        return None
    if not any(prim.connected(i) for i in range(n)):
        return None
    return _unary_source(prim) if n == 1 else _binary_source(prim)


class _NoOperand:
    """Stands where a function that only passes its operands on names `Tensor`: no operand is of this class."""

    __slots__ = ("_value",)


def _make_quick(prim: Primitive, source: str, space: dict[str, Any]) -> Callable[..., Any]:
    """Compile the source. The function's attribute ``renew()`` lets it follow a kernel or a rule that was swapped."""
    exec(compile(source, f"<gtape op {prim.name}>", "exec"), space)
    made: Callable[..., Any] = space[prim.name]

    def renew() -> None:
        try:
            wanted = _source(prim)
        except (AttributeError, TypeError):  # a rule that cannot be written down, put there to be caught when it runs
            wanted = None
        if wanted is not None and wanted[0] == source:
            space.update(wanted[1])
            space[prim.name] = made
            return
        # The code stays and finds no operand for itself, so that every call goes to the function that it should be.
        instead = make_general(prim) if wanted is None else _make_quick(prim, *wanted)
        space.update({
            "FLOAT": _NoOperand, "Tensor": _NoOperand, "both": lambda x, y: (x, y), "mixed": instead,
            "operand": lambda x: x, prim.name: instead,
        })  # fmt: skip

    made.renew = renew  # type: ignore[attr-defined]
    return made


def _with_arguments(prim: Primitive, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same with the argument names of the declaration, so that help() and editors show them."""
    listed = ", ".join(prim.arguments)
    space: dict[str, Any] = {"function": function}
    source = f"def {prim.name}({listed}, name=None):\n    return function({listed})\n"
    exec(compile(source, f"<gtape op {prim.name}>", "exec"), space)
    made: Callable[..., Any] = space[prim.name]
    return made


def _with_words(prim: Primitive, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let tensors be passed by the argument names of the declaration, and static parameters by position."""
    names = prim.arguments
    n = len(names)
    params = prim.params

    def call(*args: Any, name: str | None = None, **words: Any) -> Any:
        if len(args) > n:
            extra = args[n:]
            if len(extra) == len(params) + 1 and (extra[-1] is None or isinstance(extra[-1], str)):
                extra = extra[:-1]  # TensorFlow's `name`
            if len(extra) > len(params):
                raise TypeError(f"{prim.name}() takes {n + len(params)} arguments, got {len(args)}")
            words.update(zip(params, extra, strict=False))
            args = args[:n]
        elif len(args) < n:
            missing = [a for a in names[len(args) :] if a not in words]
            if missing:
                raise TypeError(f"{prim.name}() misses {', '.join(missing)}")
            args = (*args, *[words.pop(a) for a in names[len(args) :]])
        unknown = [w for w in words if w not in params]
        if unknown:
            raise TypeError(f"{prim.name}() got an unexpected keyword argument {unknown[0]!r}")
        return function(*args, **words)

    return call


def make_general(prim: Primitive) -> Callable[..., Any]:
    """The function of tensors that goes the general way, which looks rules and kernels up when it is called."""
    if prim.kind != "elementwise" and not prim.variadic:
        if len(prim.rules) == 1:
            return one_operand(prim)
        if len(prim.rules) == 2 and not prim.params and prim.connected(0) and prim.connected(1):
            return two_operands(prim)

    def function(*args: Any, name: str | None = None, **params: Any) -> Any:
        return apply(prim, args, params)

    made: Any = function
    if prim.kind == "elementwise":
        made = _with_words(prim, function) if prim.params else _with_arguments(prim, function)
    made.renew = lambda: None
    return made  # type: ignore[no-any-return]


def make_function(prim: Primitive) -> Callable[..., Any]:
    """Generate the function of tensors for a primitive, with its public docstring."""
    written = _source(prim)
    made = make_general(prim) if written is None else _make_quick(prim, *written)
    late.describe(made, prim)
    return made

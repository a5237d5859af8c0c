"""From a declaration to the function that users call.

For each elementwise primitive of one or two arguments Python source is generated: operands of one shape and dtype, at
most one plain tape, no detours. The rule's partial is traced to an expression and inlined, so that the backward step
of an op is one Python call. Everything else goes through closures of the same form, or `gtape.dispatch.apply`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape import record
from gtape.aval import FLOAT64_SCALAR
from gtape.dispatch import apply, record_op, refuse
from gtape.layouts import one_operand, two_operands
from gtape.operands import check_dtypes, operands
from gtape.primitive import CONSTANTS, REGISTRY, Primitive
from gtape.pulls import held
from gtape.tensor import Tensor, as_operand
from gtape.worlds import NUMPY

__all__ = ["make_function", "make_general"]


class _Source:
    """A value in a rule that is being traced to Python source."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    @staticmethod
    def of(x: Any) -> str:
        if isinstance(x, _Source):
            return x.text
        if isinstance(x, (int, float)):  # floats only in a rule that somebody swapped in to be caught
            return repr(float(x)) if isinstance(x, float) else repr(int(x))
        raise TypeError(f"a rule may use integers and the constants of the namespace, not {x!r}")

    def __add__(self, o: Any) -> _Source:
        return _Source(f"({self.text} + {self.of(o)})")

    def __radd__(self, o: Any) -> _Source:
        return _Source(f"({self.of(o)} + {self.text})")

    def __sub__(self, o: Any) -> _Source:
        return _Source(f"({self.text} - {self.of(o)})")

    def __rsub__(self, o: Any) -> _Source:
        return _Source(f"({self.of(o)} - {self.text})")

    def __mul__(self, o: Any) -> _Source:
        return _Source(f"({self.text} * {self.of(o)})")

    def __rmul__(self, o: Any) -> _Source:
        return _Source(f"({self.of(o)} * {self.text})")

    def __truediv__(self, o: Any) -> _Source:
        return _Source(f"({self.text} / {self.of(o)})")

    def __rtruediv__(self, o: Any) -> _Source:
        return _Source(f"({self.of(o)} / {self.text})")

    def __neg__(self) -> _Source:
        return _Source(f"(-{self.text})")


class _SourceWorld:
    """The namespace that writes a rule of `user` down as source; collects the names that the source needs.

    With `scalars` the functions are the kernels for Python floats where an op has one.
    """

    def __init__(self, user: Primitive, scalars: bool = False) -> None:
        self.names: dict[str, Any] = {}
        self.user = user
        self.scalars = scalars

    def __getattr__(self, name: str) -> Any:
        if name in CONSTANTS:
            self.names[f"c_{name}"] = CONSTANTS[name]
            return _Source(f"c_{name}")
        if name not in REGISTRY:
            raise AttributeError(f"a rule asks for {name!r}, which is no primitive and no constant")

        def call(*args: Any, **params: Any) -> _Source:
            REGISTRY[name].users.add(self.user)
            kernel = REGISTRY[name].scalar if self.scalars else None
            self.names[f"xp_{name}"] = getattr(NUMPY, name) if kernel is None or params else kernel
            words = [_Source.of(a) for a in args] + [f"{k}={v!r}" for k, v in params.items()]
            return _Source(f"xp_{name}({', '.join(words)})")

        return call


def _pull_source(prim: Primitive, active: tuple[int, ...], scalars: bool) -> tuple[str, dict[str, Any], frozenset[Any]]:
    """Source of ``pull(g, ins, out)`` for the given active arguments, the names it needs, and what it reads."""
    world = _SourceWorld(prim, scalars)
    n = len(prim.rules)
    symbols = [_Source(f"x{i}") for i in range(n)]
    terms = []
    for i in active:
        p = prim.rules[i]
        if p.__class__ is int:
            terms.append({1: "g", -1: "-g", 0: "zeros_like(g)"}.get(p, f"g * {p}"))
            continue
        e = p(world, _Source("out"), *symbols)
        term = f"g * {_Source.of(e)}"
        if prim.holds_zero and scalars:
            term = f"(c if (c := {term}) == c or g else 0.0)"
        elif prim.holds_zero:
            world.names["held"], world.names["xp"] = held, NUMPY
            term = f"held(xp, g, {term})"
        terms.append(term)
    reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in active])
    only = [i for i in range(n) if i in reads]
    loads = ""
    for i, kept in zip(only, _places(only, reads), strict=True):
        loads += f"    x{i} = {kept}._value\n"
    value = terms[0] if len(terms) == 1 else f"({', '.join(terms)})"
    if "zeros_like(g)" in terms:
        world.names["zeros_like"] = NUMPY.zeros_like
    return f"def pull(g, ins, out):\n{loads}    return {value}\n", world.names, reads


def _make_pull(prim: Primitive, active: tuple[int, ...], scalars: bool = False) -> tuple[Any, frozenset[Any]]:
    source, names, reads = _pull_source(prim, active, scalars)
    space = dict(names)
    exec(compile(source, f"<gtape rule of {prim.name}>", "exec"), space)
    pull = space["pull"]
    pull.prim, pull.active, pull.params, pull.avals, pull.out_aval = prim, active, {}, None, None
    pull.general = None
    only = sorted(reads - {"y"})
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


def _make_unary(prim: Primitive) -> Callable[..., Any]:
    space = _base_names(prim)
    if prim.connected(0):
        space["pull"], reads = _make_pull(prim, (0,))
        space["pull_s"], _ = _make_pull(prim, (0,), scalars=True)
        ins, out = _fields(reads, ("x",))
    else:
        return make_general(prim)
    if prim.scalar is None or not prim.inlined:
        scalar = "float(s.run(kernel, float64(v)))"
    else:
        scalar = f"{prim.infix}v" if prim.infix else "scalar_kernel(v)"
    source = _UNARY.format(
        name=prim.name, scalar=scalar, array="s.run(kernel, v)", ins=ins, out=out,
        accepts=_accepts(prim), mark="; s.tracker.selects = True" if prim.selects else "",
    )  # fmt: skip
    exec(compile(_named(source, prim), f"<gtape op {prim.name}>", "exec"), space)
    made: Callable[..., Any] = space[prim.name]
    return made


def _make_binary(prim: Primitive) -> Callable[..., Any]:
    space = _base_names(prim)
    if not (prim.connected(0) or prim.connected(1)):
        return make_general(prim)
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
    exec(compile(_named(source, prim), f"<gtape op {prim.name}>", "exec"), space)
    made: Callable[..., Any] = space[prim.name]
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
    """The function of tensors that goes the general way, which asks rules and kernels when it is called."""
    if prim.kind != "elementwise" and not prim.variadic:
        if len(prim.rules) == 1:
            return one_operand(prim)
        if len(prim.rules) == 2 and not prim.params and prim.connected(0) and prim.connected(1):
            return two_operands(prim)

    def function(*args: Any, name: str | None = None, **params: Any) -> Any:
        return apply(prim, args, params)

    if prim.kind == "elementwise":
        return _with_words(prim, function) if prim.params else _with_arguments(prim, function)
    return function


def make_function(prim: Primitive) -> Callable[..., Any]:
    """Generate the function of tensors for a primitive, with its public docstring."""
    fast = prim.kind == "elementwise" and not prim.params and prim.name != "where" and not prim.opaque
    n = len(prim.rules)
    made = _make_unary(prim) if fast and n == 1 else _make_binary(prim) if fast and n == 2 else make_general(prim)
    from gtape.docstring import docstring_of

    made.__doc__ = docstring_of(prim)
    made.__module__ = "gtape.math"
    made.__qualname__ = made.__name__ = prim.name
    return made

"""Makes the function that users call from a declaration.

Python source is generated for each elementwise primitive of one or two arguments. The function handles operands of one
shape and dtype, and at most one plain tape. Partials are written to source, too (see `gtape.engine.fast.source`), so
that the backward step of an op is one Python call. Other calls and ops use `gtape.engine.fast.layouts` or
`gtape.engine.call.apply`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gtape.base import late
from gtape.base.layout import FLOAT
from gtape.declare.primitives import Primitive
from gtape.declare.quickest import quickest
from gtape.declare.signatures import defaults_of
from gtape.engine.call import apply, record_one, refuse
from gtape.engine.fast.layouts import one_operand, two_operands
from gtape.engine.fast.source import Untraceable, Writer
from gtape.engine.rules import RuleStep, by_slope
from gtape.recording import record
from gtape.tensors.operands import check_dtypes, operands
from gtape.tensors.tensor import Tensor, as_operand, number_beside
from gtape.tensors.variable import Variable

__all__ = ["fields", "make_function", "make_general", "on_floats"]


def _make_step(prim: Primitive, active: tuple[int, ...], scalars: bool) -> tuple[Any, frozenset[Any]]:
    """The function ``step(g, ins, out)`` for active arguments of one layout, and the values that the step reads."""
    notes = Writer(prim, scalars=scalars)
    xs = [notes.value(f"x{i}") for i in range(len(prim.rules))]
    made = [by_slope(notes, prim, i, notes.value("g"), notes.value("out"), xs, {}, Writer.hold) for i in active]
    reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in active])
    only = tuple([i for i in range(len(xs)) if i in reads])
    loads = [f"x{i} = {kept}._value" for i, kept in zip(only, _places(only, reads), strict=True)]
    step = notes.function(loads, made, f"<gtape rule of {prim.name}>")
    step.step = RuleStep(prim, active, {}, None, None, keeps=only)
    return step, reads


# The only place where quick functions make a record.
_RECORD = "t._record = [next(count), None, {step}, {parent}, {ins}, {out}, tapes, {other}]{mark}"

# The part after the computation, for Python floats and for arrays, in the quick function and in `noted`.
_UNARY_END = """\
        r = x._record
        if r is None:
            t._record = None
            return {unrecorded}
        tapes = s.{tapes}
        if r[{TAPES}] is tapes{smooth}:
            {record0}
            return t
"""

_BINARY_END = """\
        ra = x._record
        rb = y._record
        tapes = s.{tapes}
        if rb is None:
            if ra is None:
                t._record = None
                return {unrecorded}
            if ra[{TAPES}] is tapes{smooth}{unless0}:
                {record0}
                return t
        elif ra is None:
            if rb[{TAPES}] is tapes{smooth}{unless1}:
                {record1}
                return t
        elif ra[{TAPES}] is tapes and rb[{TAPES}] is tapes{smooth}{unless2}:
            {record2}
            return t
"""

# Records a result for tapes that listen to each record, because the quick function has not recorded it.
_NOTED = """
def noted(s, t, {operands}):
    if s.probe is not None:
        read(s, t, {operands})
    av = t._layout
    if av is FLOAT:
{scalar_noted}    else:
{array_noted}    t._record = None
    return general(s, prim, ({operands},), {{}}, t)
"""

# The test of the operands of an array's kernel, and the choice of the kernel if an operator is faster for scalars.
_CHOICE = """\
        if not {accepts}:
            return refuse(prim, {operands})
"""

_CHOICE_WITH_OPERATOR = """\
        chosen = kernel
        if not av.plain:
            if not {accepts}:
                return refuse(prim, {operands})
            if av.real:
                chosen = quick_kernel
"""

_UNARY = """
def {name}(x, name=None):
    try:
        av = x._layout
    except AttributeError:
        return {name}(operand(x))
    s = peek() or idle()
    t = Tensor()
    v = x._value
    if av is FLOAT:  # a tensor, because variables have a Layout of their own
        try:
            t._value = {scalar}
        except Failed:
            t._value = float(s.run(kernel, float64(v)))
        except RuntimeError as e:
            adopt_thread(e)
            return {name}(x)
        t._layout = FLOAT
{scalar_end}    else:
        if x.__class__ is not Tensor:
            return elsewhere(operand(x))
        t._layout = av
{choice}        try:
            t._value = s.run({kernel}, v)
        except TypeError:  # no such loop, as for the sign of a bool
            return refuse(prim, [x])
        except RuntimeError as e:
            adopt_thread(e)
            return {name}(x)
{array_end}    if s.note is not None:
        return noted(s, t, x)
    t._record = None
    return general(s, prim, (x,), {{}}, t)
"""

_BINARY = """
def {name}(x, y, name=None):
    if y.__class__ is not Tensor:  # before the attempt below, because its failure costs more
        if y.__class__ is float or y.__class__ is int:
            if x.__class__ is Variable:
                x = x._as_tensor()
            if x.__class__ is Tensor:
                y = number_beside(y, x._layout)
    try:
        av = x._layout
        if av is not y._layout:
            return mixed(x, y)
    except AttributeError:
        x, y = both(x, y)
        return {name}(x, y)
    s = peek() or idle()
    t = Tensor()
    a = x._value
    b = y._value
    if av is FLOAT:  # tensors, because variables have a Layout of their own
        try:
            t._value = {scalar}
        except Failed:
            t._value = s.run(kernel, float64(a), float64(b)).item()
        except RuntimeError as e:
            adopt_thread(e)
            return {name}(x, y)
        t._layout = FLOAT
{scalar_end}    else:
        if x.__class__ is not Tensor:
            return mixed(x, y)
{choice}        try:
            t._value = s.run({kernel}, a, b)
        except TypeError:  # no such loop, as for the difference of bools
            return refuse(prim, [x, y])
        except RuntimeError as e:
            adopt_thread(e)
            return {name}(x, y)
        t._layout = av
{array_end}    if s.note is not None:
        return noted(s, t, x, y)
    t._record = None
    return general(s, prim, (x, y), {{}}, t)
"""


def _accepts(prim: Primitive) -> str:
    """The source of the test for operands that the kernel takes unchanged. `refuse` handles the others."""
    if prim.complex is True:
        return "True" if prim.ints else "av.inexact"
    return "not av.no_kernel" if prim.ints else "av.real"


def _refuse_bool(prim: Primitive, t: Tensor, tensors: list[Tensor]) -> Tensor:
    """Return `t`, but raise an error for bools, because NumPy adds and compares bools, and TensorFlow does not."""
    if tensors[0]._layout.dtype.kind == "b":
        check_dtypes(prim, tensors)
    return t


def _read(stack: record.Stack, t: Tensor, *tensors: Tensor) -> Tensor:
    """Let a traced call know the operands of an op whose kernel it does not see; returns the result `t`."""
    record.note_read(stack, tensors)
    return t


def _named(source: str, prim: Primitive) -> str:
    """The source of a function of `x` and `y` with the argument names of the declaration."""
    names = dict(zip(("x", "y"), prim.arguments, strict=False))
    # A local variable of the template with the name of an argument gets another name.
    for taken in set(prim.arguments) - {"x", "y"}:
        names.setdefault(taken, f"{taken}_")
    return re.sub(r"\b\w+\b", lambda m: names.get(m[0], m[0]), source)


def _base_names(prim: Primitive) -> dict[str, Any]:
    return {
        "Failed": (ValueError, ArithmeticError),
        "FLOAT": FLOAT,
        "Tensor": Tensor,
        "Variable": Variable,
        "mixed": two_operands(prim) if len(prim.rules) == 2 else None,
        "both": operands,
        "refuse": refuse,
        "refuse_bool": _refuse_bool,
        "read": _read,
        "count": record.count,
        "passes": record.PASSES,
        "float64": np.float64,
        "number_beside": number_beside,
        "general": record_one,
        "idle": record.idle_stack,
        "kernel": prim.kernel,
        "operand": as_operand,
        "peek": record.peek,
        "prim": prim,
        "adopt_thread": record.adopt_thread,
        "scalar_kernel": prim.scalar,
        "quick_kernel": quickest(prim.kernel),
    }


def _places(only: tuple[int, ...], reads: frozenset[Any]) -> list[str]:
    """The places in a record of the inputs that its rules read."""
    if len(only) < 2:
        return ["ins"] * len(only)
    return ["ins", "out"] if "y" not in reads else ["ins[0]", "ins[1]"]


def fields(reads: frozenset[Any], arguments: Sequence[str], value: str) -> tuple[str, str]:
    """The source of INS and OUT in the record of a quick function.

    OUT holds the second of two inputs if the rules do not read the output.

    Parameters
    ----------
    reads : frozenset
        The values that the rules of the active arguments read.
    arguments : sequence of str
        The source of the operands.
    value : str
        The source of the raw output.
    """
    kept = [a for i, a in enumerate(arguments) if i in reads]
    out = value if "y" in reads else "None"
    if len(kept) < 2:
        return (*kept, "None")[0], out
    return (f"({', '.join(kept)})", out) if "y" in reads else (kept[0], kept[1])


def _ends_of(prim: Primitive, space: dict[str, Any], scalars: bool) -> tuple[str, str]:
    """The ends of a quick function and of `noted`, for Python floats or for arrays. Adds steps to the names."""
    n = len(prim.rules)
    cases = (((0,), "r", "None"),) if n == 1 else (((0,), "ra", "None"), ((1,), "rb", "None"), ((0, 1), "ra", "rb"))
    operands = "[x]" if n == 1 else "[x, y]"
    words: dict[str, Any] = {
        "TAPES": record.TAPES,
        "smooth": "" if scalars else " and av.inexact",
        # A traced call does not see kernels of Python floats, so quick functions tell which operands these read.
        "unrecorded": f"t if s.probe is None else read(s, t, {operands[1:-1]})"
        if scalars
        else f"t if av.inexact else refuse_bool(prim, t, {operands})",
    }
    for k, (active, parent, other) in enumerate(cases):
        step = f"step{k}_s" if scalars else f"step{k}"
        ins = out = "None"
        connected = all(prim.connected(i) for i in active)
        if connected:
            space[step], reads = _make_step(prim, active, scalars)
            ins, out = fields(reads, ("x", "y")[:n], "t._value")
            # The step returns its cotangent, see `PASSES`.
            slope: Any = prim.partials[active[0]]  # type: ignore[index]
            if len(active) == 1 and slope.__class__ is int and slope == 1:
                other = "passes"
        words[f"unless{k}"] = "" if connected else " and False"
        words[f"record{k}"] = _RECORD.format(
            step=step, parent=parent, ins=ins, out=out, other=other,
            mark="; s.selects()" if prim.selects else "",
        )  # fmt: skip
    end = _UNARY_END if n == 1 else _BINARY_END
    quick = end.format(**words, tapes="quick")
    words.update({name: f"{line}; s.note(t)" for name, line in words.items() if name.startswith("record")})
    return quick, end.format(**words, tapes="tapes")


def on_floats(prim: Primitive, words: list[str], scalar: str) -> str:
    """The source of the computation on Python floats, for a primitive with a function `scalar`."""
    if prim.infix:
        return f"{prim.infix}{words[0]}" if len(words) == 1 else f"{words[0]} {prim.infix} {words[1]}"
    return f"{scalar}({', '.join(words)})"


def _scalar_source(prim: Primitive) -> str:
    """The source of the computation on Python floats in a quick function."""
    words = ["v"] if len(prim.rules) == 1 else ["a", "b"]
    if prim.scalar is not None and prim.inlined:
        return on_floats(prim, words, "scalar_kernel")
    return f"float(s.run(kernel, {', '.join(f'float64({v})' for v in words)}))"


def _source(prim: Primitive) -> tuple[str, dict[str, Any]] | None:
    """The source of the quick function of a primitive, and the values of its names.

    None if the primitive needs the general way.
    """
    n = len(prim.rules)
    if prim.kind != "elementwise" or prim.params or "selection" in prim.roles or prim.opaque or n > 2:
        return None
    if not any(prim.connected(i) for i in range(n)):
        return None
    space = _base_names(prim)
    (scalar_end, scalar_noted), (array_end, array_noted) = [_ends_of(prim, space, scalars) for scalars in (True, False)]
    operands = "x" if n == 1 else "x, y"
    operator = quickest(prim.kernel) is not prim.kernel
    choice = (_CHOICE_WITH_OPERATOR if operator else _CHOICE).format(accepts=_accepts(prim), operands=f"[{operands}]")
    source = (_UNARY if n == 1 else _BINARY).format(
        name=prim.name, scalar=_scalar_source(prim), choice=choice, kernel="chosen" if operator else "kernel",
        scalar_end=scalar_end, array_end=array_end,
    )  # fmt: skip
    source += _NOTED.format(operands=operands, scalar_noted=scalar_noted, array_noted=array_noted)
    return _named(source, prim), space


class _NoOperand:
    """Replaces `Tensor` in an outdated function. Every operand then fails the test, and the call is forwarded."""

    __slots__ = ("_value",)


def _make_quick(prim: Primitive, source: str, space: dict[str, Any]) -> Callable[..., Any]:
    """Compile the source. After a swap of a kernel or rule, the attribute ``renew()`` renews the function."""
    exec(compile(source, f"<gtape op {prim.name}>", "exec"), space)
    made: Any = space[prim.name]
    made.names = space  # `gtape.engine.fast.inlined` reads the steps here
    if space["mixed"] is not None:
        space["mixed"].join(made)

    def elsewhere(x: Any) -> Any:
        return made(x) if x.__class__ is Tensor else x.applied(prim, (x,), {})

    space["elsewhere"] = elsewhere

    def renew() -> None:
        try:
            wanted = _source(prim)
        except (AttributeError, TypeError):  # a faulty rule, which raises when it runs
            wanted = None
        if wanted is not None and wanted[0] == source:
            space.update(wanted[1])
            space.update({"elsewhere": elsewhere, prim.name: made})
            if space["mixed"] is not None:
                space["mixed"].join(made)
            made.names = space
            return
        # Other modules hold this function, so its code stays and forwards every call to the new function.
        instead = make_general(prim) if wanted is None else _make_quick(prim, *wanted)
        space.update({
            "FLOAT": _NoOperand, "Tensor": _NoOperand, "both": lambda x, y: (x, y), "mixed": instead,
            "elsewhere": instead, "operand": lambda x: x, prim.name: instead,
        })  # fmt: skip
        made.names = getattr(instead, "names", {})

    made.renew = renew
    return made  # type: ignore[no-any-return]


def _with_arguments(prim: Primitive, function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function the argument names of the declaration, because help() and editors show the names."""
    listed = ", ".join(prim.arguments)
    space: dict[str, Any] = {"function": function}
    source = f"def {prim.name}({listed}, name=None):\n    return function({listed})\n"
    exec(compile(source, f"<gtape op {prim.name}>", "exec"), space)
    made: Callable[..., Any] = space[prim.name]
    return made


def _with_words(prim: Primitive, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function take tensors by the argument names of the declaration, and static parameters by position."""
    names = prim.arguments
    n = len(names)
    params = prim.params

    def call(*args: Any, name: str | None = None, **words: Any) -> Any:
        if len(args) > n:
            extra = args[n:]
            if len(extra) == len(params) + 1 and (extra[-1] is None or isinstance(extra[-1], str)):
                extra = extra[:-1]  # the argument `name` of TensorFlow
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
    """The function of tensors that always goes the general way."""
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


def _holds_integers(shape: Any) -> bool:
    return isinstance(shape, np.ndarray) and shape.dtype.kind in "biu"


def _for_users(prim: Primitive, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an op from outside gtape, with conversions that gtape's public functions do elsewhere.

    A parameter that the call leaves out gets the default of the kernel, because rules have no defaults. An operand for
    which all samples have integers keeps its integers. All other operands adopt the dtype of the first tensor.
    """
    defaults = defaults_of(prim)
    params, n = prim.params, prim.arity
    samples = [] if prim.kind == "elementwise" or prim.variadic else [shapes for shapes, _ in prim.samples or ()]
    whole = {i for i in range(n) if samples and all(_holds_integers(shapes[i]) for shapes in samples)}
    if not whole and (not params or prim.variadic):
        return function

    def call(*args: Any, **words: Any) -> Any:
        if len(args) > n + len(params):
            raise TypeError(f"{prim.name}() takes {n + len(params)} arguments, got {len(args)}")
        words = {**defaults, **dict(zip(params, args[n:], strict=False)), **words}
        missing = [p for p in params if p not in words]
        if missing:
            raise TypeError(f"{prim.name}() misses {', '.join(missing)}")
        return function(*[as_operand(a) if i in whole else a for i, a in enumerate(args[:n])], **words)

    made: Any = call
    made.renew = function.renew  # type: ignore[attr-defined]
    return made  # type: ignore[no-any-return]


def _source_or_none(prim: Primitive) -> tuple[str, dict[str, Any]] | None:
    """`_source`; None, too, for a rule from outside gtape that source cannot state, because it runs as it stands."""
    try:
        return _source(prim)
    except Untraceable:
        if not prim.place.outside:
            raise
        return None


def make_function(prim: Primitive) -> Callable[..., Any]:
    """Generate the function of tensors for a primitive, with its public docstring."""
    written = _source_or_none(prim)
    made = make_general(prim) if written is None else _make_quick(prim, *written)
    if prim.place.outside:
        made = _for_users(prim, made)
    late.describe(made, prim)
    return made

"""Backward steps for operands of known shapes, written down from the rules.

A rule decides by shapes alone what to do, so for operands of one layout it always does the same: it is run once on
stand-ins that note every primitive it calls, and the notes become a straight-line function. The rule stays the only
text of the derivative; this only saves the deciding, which costs more than the arithmetic where tensors are small.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from gtape import record
from gtape.aval import FLOAT64_SCALAR, Aval
from gtape.primitive import CONSTANTS, REGISTRY, Primitive
from gtape.pulls import held
from gtape.worlds import NUMPY

__all__ = ["Known", "kernel_for", "remember", "step_for"]

# A sample run of the rule must not cost more than the op itself ever did.
_MOST_ELEMENTS = 1 << 20


class Untraceable(Exception):
    """The rule asks for something that only values can answer."""


class _Noted:
    """A value in a rule that is being written down: a sample, and the name of the variable that holds it."""

    __slots__ = ("notes", "text", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, notes: _Notes, text: str, value: Any) -> None:
        self.notes, self.text, self.value = notes, text, value

    @property
    def shape(self) -> tuple[int, ...]:
        return getattr(self.value, "shape", ())

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return FLOAT64_SCALAR.dtype if self.value.__class__ is float else self.value.dtype

    def _refuse(self, *_: Any) -> Any:
        raise Untraceable("a rule compares or indexes values")

    __bool__ = __float__ = __int__ = __index__ = __iter__ = __len__ = __getitem__ = __array__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse

    def __add__(self, o: Any) -> _Noted:
        return self.notes.infix("+", self, o)

    def __radd__(self, o: Any) -> _Noted:
        return self.notes.infix("+", o, self)

    def __sub__(self, o: Any) -> _Noted:
        return self.notes.infix("-", self, o)

    def __rsub__(self, o: Any) -> _Noted:
        return self.notes.infix("-", o, self)

    def __mul__(self, o: Any) -> _Noted:
        return self.notes.infix("*", self, o)

    def __rmul__(self, o: Any) -> _Noted:
        return self.notes.infix("*", o, self)

    def __truediv__(self, o: Any) -> _Noted:
        return self.notes.infix("/", self, o)

    def __rtruediv__(self, o: Any) -> _Noted:
        return self.notes.infix("/", o, self)

    def __neg__(self) -> _Noted:
        return self.notes.line(f"-{self.text}", -self.value)


class _Notes:
    """The world in which a rule is written down: runs each primitive on the samples and notes the call."""

    def __init__(self, user: Primitive) -> None:
        self._user = user
        self._lines: list[str] = []
        self._names: dict[str, Any] = {}

    def bound(self, value: Any) -> str:
        """A name of the source for a kernel, or a number in the dtype it meets."""
        name = f"k{len(self._names)}"
        self._names[name] = value
        return name

    def line(self, expression: str, value: Any) -> _Noted:
        if value.__class__ is not float and not isinstance(value, (np.ndarray, np.generic)):
            raise Untraceable("a rule calls a primitive with several results")
        name = f"v{len(self._lines)}"
        self._lines.append(f"{name} = {expression}")
        return _Noted(self, name, value)

    def infix(self, sign: str, a: Any, b: Any) -> _Noted:
        x, y = self._operand(a, b), self._operand(b, a)
        value_a, value_b = getattr(a, "value", a), getattr(b, "value", b)
        made = {
            "+": lambda: value_a + value_b, "-": lambda: value_a - value_b,
            "*": lambda: value_a * value_b, "/": lambda: value_a / value_b,
        }[sign]()  # fmt: skip
        return self.line(f"{x} {sign} {y}", made)

    def _operand(self, x: Any, other: Any) -> str:
        if x.__class__ is _Noted:
            return x.text
        if not isinstance(x, (int, float)) or isinstance(x, bool):
            raise Untraceable(f"a rule computes with {x!r}")
        if other.__class__ is _Noted and other.value.__class__ is not float and other.dtype.kind == "f":
            return self.bound(np.full((), x, other.dtype))  # NumPy takes its own numbers sooner than Python's
        return repr(x)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in CONSTANTS:
            return CONSTANTS[name]
        prim = REGISTRY.get(name)
        if prim is None:
            raise AttributeError(f"a rule asks for {name!r}, which is no primitive and no constant")

        def call(*args: Any, **params: Any) -> _Noted:
            texts = []
            for a in args:
                if a.__class__ is not _Noted and (not isinstance(a, (int, float)) or isinstance(a, bool)):
                    raise Untraceable(f"a rule passes {a!r} to {name}")
                texts.append(a.text if a.__class__ is _Noted else repr(a))
            values = [a.value if a.__class__ is _Noted else a for a in args]
            prim.users.add(self._user)
            plain = any(not isinstance(v, (np.ndarray, np.generic)) for v in values)
            kernel = getattr(NUMPY, name) if plain else kernel_for(prim, values, params)
            if plain and params:
                kernel = _with(kernel, params)
            return self.line(f"{self.bound(kernel)}({', '.join(texts)})", kernel(*values))

        return call

    def source(self, loads: list[str], results: list[_Noted]) -> str:
        texts = [r.text for r in results]
        answer = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
        body = "".join(f"    {line}\n" for line in [*loads, *self._lines])
        return f"def pull(g, ins, out):\n{body}    return {answer}\n"

    def names(self) -> dict[str, Any]:
        return self._names


def _with(kernel: Callable[..., Any], params: dict[str, Any]) -> Callable[..., Any]:
    return lambda *args: kernel(*args, **params)


def kernel_for(prim: Primitive, operands: Any, params: dict[str, Any]) -> Callable[..., Any]:
    """The kernel of a primitive for operands of one layout, without parameters.

    Parameters
    ----------
    prim : Primitive
    operands : sequence of Aval or array
        Only shapes and dtypes are looked at.
    params : dict
        The static parameters.

    Returns
    -------
    callable
        Of the raw values alone.
    """
    planned = getattr(prim.kernel, "planned", None)
    if planned is None and not params:
        return prim.kernel
    made: Any = planned(*operands, **params) if planned is not None else _with(prim.kernel, params)
    if made.__class__ is FunctionType:
        made.__name__ = prim.name  # what tracebacks and checks show
    return made  # type: ignore[no-any-return]


def _sample(aval: Aval) -> Any:
    if aval is FLOAT64_SCALAR:
        return 1.0
    return np.ones(aval.shape, aval.dtype)[()]


def step_for(pull: Any) -> Callable[..., Any] | None:
    """The backward step of `pull`, for operands of its shapes, as one function; None if its rules look at values.

    Parameters
    ----------
    pull : Pull
        Made for real operands (no complex numbers, no half precision) and one output.

    Returns
    -------
    function or None
        ``step(g, ins, out)``, with what `pull` knows as attributes, and `pull` itself as ``general``.
    """
    prim: Primitive = pull.prim
    if prim.variadic or prim.opaque or sum(a.size for a in (*pull.avals, pull.out_aval)) > _MOST_ELEMENTS:
        return None
    notes = _Notes(prim)
    try:
        loads, results = _written(notes, pull)
    except (Untraceable, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, np.linalg.LinAlgError):
        return None  # the general way, then, which raises what there is to raise
    space = notes.names()
    exec(compile(notes.source(loads, results), f"<gtape step of {prim.name}>", "exec"), space)
    step: Any = space["pull"]
    step.prim, step.active, step.params, step.general = prim, pull.active, pull.params, pull
    step.avals, step.out_aval, step.single, step.pair = pull.avals, pull.out_aval, None, False
    return step  # type: ignore[no-any-return]


def _written(notes: _Notes, pull: Any) -> tuple[list[str], list[_Noted]]:
    prim: Primitive = pull.prim
    reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in pull.active])
    g = _Noted(notes, "g", _sample(pull.out_aval))
    y = _Noted(notes, "out", _sample(pull.out_aval)) if "y" in reads else None
    xs: list[Any] = list(pull.avals)
    loads = []
    for i, aval in enumerate(pull.avals):
        if i in reads:
            xs[i] = _Noted(notes, f"x{i}", _sample(aval))
            loads.append(f"x{i} = ins[{i}]._value")
    results: list[Any] = []
    for i in pull.active:
        if prim.partials is not None:
            results.append(_elementwise(notes, pull, i, g, y, xs))
        elif prim.kind == "linear":
            results.append(prim.vjp[i](notes, g, xs[i], **pull.params))
        else:
            results.append(prim.vjp[i](notes, g, y, *xs, **pull.params))
    if not all(r.__class__ is _Noted for r in results):
        raise Untraceable("a rule makes something else than a value")
    return loads, results


def _elementwise(notes: _Notes, pull: Any, i: int, g: _Noted, y: Any, xs: list[Any]) -> Any:
    prim = pull.prim
    p = prim.partials[i]
    if p.__class__ is int:
        c = g if p == 1 else -g if p == -1 else notes.zeros_like(g) if p == 0 else g * p
    else:
        c = g * p(notes, y, *xs, **pull.params)
        if prim.holds_zero:
            c = notes.line(f"{notes.bound(held)}({notes.bound(NUMPY)}, g, {c.text})", c.value)
    own = pull.avals[i].shape
    return c if own == pull.out_aval.shape else notes.sum_to(c, shape=own, batch=0)


# How many layouts of an op are remembered, and how often one is met before its backward step is written down, which
# takes as long as some hundred steps.
_MOST_KNOWN = 512
_FAMILIAR = 8


def remember(known: dict[Any, Any], layout: Any, found: Any) -> Any:
    """Keep what was found out about a layout; returns it."""
    if len(known) >= _MOST_KNOWN:  # programs with ever new shapes must not fill the memory
        known.clear()
    known[layout] = found
    return found


class Known:
    """What was found out about operands of one layout: a backward step for each plan, the kernel, the result's Aval."""

    __slots__ = ("aval", "kernel", "params", "steps", "unfamiliar")

    def __init__(self, steps: list[Any], kernel: Any = None, aval: Any = None, params: Any = None) -> None:
        self.steps = steps
        self.kernel = kernel
        self.aval = aval
        self.params = params
        # Complex numbers and half precision are left to the general steps.
        detour = any(a.detour for step in steps if step is not None for a in step.avals)
        self.unfamiliar = 0 if detour else _FAMILIAR

    def meet(self, s: record.Stack) -> None:
        """Count down; then replace the steps by functions written for this layout, where the rules allow it."""
        self.unfamiliar -= 1
        if not self.unfamiliar:
            self.steps = [step and (s.run(step_for, step) or step) for step in self.steps]

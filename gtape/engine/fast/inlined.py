"""A rule in the tape world as one function of kernels and records, without calls of functions of tensors.

The records depend on the inputs that are recorded, so a rule has a function for each combination of recorded inputs.
The function makes the same records as the calls, but makes tensors only for results and for values that a record keeps.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.layout import FLOAT, Layout, layout_of
from gtape.declare.primitives import CHANGED, Primitive
from gtape.engine.fast.calls import Call, Calls, bound
from gtape.engine.fast.elementwise import fields, on_floats
from gtape.engine.fast.layouts import key_of
from gtape.engine.fast.source import Expression, kernel_for
from gtape.engine.fast.steps import remember, step_for
from gtape.engine.rules import RuleStep, plan_for
from gtape.recording.record import NO_TAPES, SEVERAL, TAPES, count
from gtape.tensors.operands import FAILURES
from gtape.tensors.tensor import Tensor

__all__ = ["Inlined"]

_FAILED = (*FAILURES, ArithmeticError, RuntimeError)

# Rules whose functions contain kernels and steps. A swapped declaration makes these functions outdated.
_all: weakref.WeakSet[Inlined] = weakref.WeakSet()


def _forget(_: Primitive) -> None:
    for rule in list(_all):
        rule.variants.clear()


CHANGED.append(_forget)


class Inlined:
    """One rule for operands of known layouts.

    Parameters
    ----------
    notes : Calls
    results : list of Expression
    calls : callable
        ``calls(g, record)`` calls the functions of tensors. The sweep uses this function for records of other sessions,
        and if a kernel fails.
    """

    __slots__ = ("__weakref__", "calls", "file", "inputs", "notes", "results", "variants")

    def __init__(self, notes: Calls, results: list[Expression], calls: Callable[..., Any], file: str) -> None:
        self.notes, self.results, self.calls, self.file = notes, results, calls, file
        # The names of the tensors that the rule reads.
        self.inputs = [name for name in notes.samples if name not in {call.name for call in notes.calls}]
        # The functions by the recorded inputs, as bits.
        self.variants: dict[int, Callable[..., Any]] = {}
        _all.add(self)

    def function(self, loads: list[str], names: dict[str, Any]) -> Any:
        """The function ``step(g, record, s)`` for a stack `s`, which returns the cotangents as a tuple.

        Parameters
        ----------
        loads : list of str
            The lines that load the inputs from the record.
        names : dict
            The values of names in `loads`.
        """
        lines = [
            "if g.__class__ is not Tensor or g._layout is not layout: return calls(g, record)",
            "tapes = s.tapes",
            *loads,
            "kind = 0",
        ]
        for i, name in enumerate(self.inputs):
            lines += [
                f"r = {name}._record",
                "if r is not None:",
                f"    if r[{TAPES}] is tapes: kind |= {1 << i}",
                f"    elif r[{TAPES}] is not nothing: return calls(g, record)",
            ]
        lines += [
            "function = variants.get(kind)",
            "try:",
            "    if function is None: function = variants[kind] = s.run(write, kind)",
            f"    return function({', '.join(self.inputs)}, record, s, tapes)",
            "except Failed:",
            "    return calls(g, record)",
        ]
        space: dict[str, Any] = {
            **names, "nothing": NO_TAPES, "calls": self.calls, "variants": self.variants, "write": self._variant,
            "Failed": _FAILED, "Tensor": Tensor, "layout": layout_of(self.notes.samples["g"]),
        }  # fmt: skip
        body = "".join(f"    {line}\n" for line in lines)
        exec(compile(f"def step(g, record, s):\n{body}", self.file, "exec"), space)
        return space["step"]

    def _variant(self, kind: int) -> Callable[..., Any]:
        recorded = {name for i, name in enumerate(self.inputs) if kind >> i & 1}
        return _Lines(self, recorded).function()


class _Lines:
    """The source of one function."""

    def __init__(self, rule: Inlined, recorded: set[str]) -> None:
        self._rule = rule
        self._recorded = recorded
        self._names: dict[str, Any] = {
            "Tensor": Tensor, "count": count, "float64": np.float64, "calls": rule.calls, "several": SEVERAL,
        }  # fmt: skip
        self._lines = ["run = s.run"]
        self._layouts = {name: layout_of(sample) for name, sample in rule.notes.samples.items()}
        self._tensors = set(rule.inputs)
        # For results of `absorb_zeros`, the value with which they are equal.
        self._same: dict[str, str] = {}
        for name in rule.inputs:
            self._lines.append(f"{name}_v = {name}._value")
            if name in recorded:
                self._lines.append(f"{name}_r = {name}._record")

    def function(self) -> Callable[..., Any]:
        """The function ``step(*inputs, record, s, tapes)``."""
        for call in self._rule.notes.calls:
            operands: list[Any] = [self._same.get(v, v) if v.__class__ is str else v for v in call.operands]
            if call.prim is None:
                self._hold(call.name, operands[1])
            elif self._takes(call, call.prim, operands):
                self._inline(call, call.prim, operands)
            else:
                self._call(call, call.prim, operands)
        names: list[Any] = [r.name for r in self._rule.results]
        answer = "".join([f"{self._tensor(self._same.get(name, name))}, " for name in names])
        body = "".join(f"    {line}\n" for line in self._lines)
        head = f"def step({', '.join(self._rule.inputs)}, record, s, tapes):\n"
        exec(compile(f"{head}{body}    return ({answer})\n", self._rule.file, "exec"), self._names)
        made: Callable[..., Any] = self._names["step"]
        return made

    def _layout(self, v: Any) -> Layout:
        found: Layout = self._layouts[v] if v.__class__ is str else v._layout
        return found

    def _value(self, v: Any, *, as_array: bool) -> str:
        """The raw value of an operand. With `as_array`, in the form that kernels take."""
        if v.__class__ is not str:
            return bound(self._names, np.float64(v._value) if as_array and v._layout is FLOAT else v._value)
        return f"float64({v}_v)" if as_array and self._layouts[v] is FLOAT else f"{v}_v"

    def _tensor(self, v: Any) -> str:
        """An operand or result as a tensor, which is made before the first record that keeps it."""
        if v.__class__ is not str:
            return bound(self._names, v)
        if v not in self._tensors:
            self._tensors.add(v)
            self._lines += [
                f"{v} = Tensor()",
                f"{v}._value = {v}_v",
                f"{v}._layout = {bound(self._names, self._layouts[v])}",
                f"{v}._record = {f'{v}_r' if v in self._recorded else None}",
            ]
        return str(v)

    def _hold(self, name: str, c: str) -> None:
        """The line of `absorb_zeros`. Numbers without a NaN stay unchanged."""
        self._same[name] = c
        if self._layouts[c] is FLOAT:
            self._lines.append(f"if {c}_v != {c}_v: return calls(g, record)")
        elif self._layouts[c].size:
            self._lines += [
                f"top = {c}_v.item({c}_v.argmax())",
                "if top != top: return calls(g, record)",
            ]

    def _active(self, prim: Primitive, operands: list[Any]) -> tuple[int, ...]:
        recorded = self._recorded
        return tuple([i for i, v in enumerate(operands) if v.__class__ is str and v in recorded and prim.connected(i)])

    def _takes(self, call: Call, prim: Primitive, operands: list[Any]) -> bool:
        """Whether a call reduces to a kernel and, for recorded operands, a record of the usual form."""
        if prim.variadic or prim.opaque or prim.selects or prim.kind == "custom" or len(prim.rules) != len(operands):
            return False
        out = self._layouts[call.name]
        for a in (out, *map(self._layout, operands)):
            if a.dtype != out.dtype or not a.real:
                return False
        if not out.shape and out is not FLOAT and isinstance(self._rule.notes.samples[call.name], np.ndarray):
            return False
        some = any([v.__class__ is str and v in self._recorded for v in operands])  # noqa: C419
        return not some or bool(self._active(prim, operands))

    def _inline(self, call: Call, prim: Primitive, operands: list[Any]) -> None:
        name, out = call.name, self._layouts[call.name]
        layouts = tuple([self._layout(v) for v in operands])
        alike = prim.kind == "elementwise" and not call.params and len(operands) < 3 and all(a is out for a in layouts)
        if alike and out is FLOAT and prim.scalar is not None:
            self._names[f"{name}_scalar"] = prim.scalar
            words = [self._value(v, as_array=False) for v in operands]
            self._lines.append(f"{name}_v = {on_floats(prim, words, f'{name}_scalar')}")
        else:
            kernel = bound(self._names, prim.kernel if alike else kernel_for(prim, layouts, call.params))
            words = [self._value(v, as_array=True) for v in operands]
            made = f"run({', '.join([kernel, *words])})"
            self._lines.append(f"{name}_v = {f'float({made})' if out is FLOAT else made}")
        active = self._active(prim, operands)
        if active:
            self._record(call, prim, operands, active, alike)

    def _record(self, call: Call, prim: Primitive, operands: list[Any], active: tuple[int, ...], alike: bool) -> None:
        """The line that makes the record. Operands with equal layouts have the record of the quick function."""
        name, out = call.name, self._layouts[call.name]
        step = None
        if alike:
            k = 0 if len(operands) == 1 else {(0,): 0, (1,): 1, (0, 1): 2}[active]
            known = getattr(prim.function, "names", {})
            step = known.get(f"step{k}_s" if out is FLOAT else f"step{k}")
        if step is not None:
            reads: frozenset[Any] = frozenset().union(*[prim.reads[i] for i in active])
            kept = [self._tensor(v) if i in reads else "None" for i, v in enumerate(operands)]
            ins, value = fields(reads, kept, f"{name}_v")
        else:
            layouts = tuple([self._layout(v) for v in operands])
            step = _shared_step(prim, active, layouts, call.params, out)
            plan = plan_for(prim, active, len(operands))
            ins = "None"
            if plan.keep is not None:
                kept = [self._tensor(v) if keep else "None" for v, keep in zip(operands, plan.keep, strict=True)]
                ins = f"({', '.join(kept)},)"
            value = f"{name}_v" if plan.reads_y else "None"
        parents = [f"{operands[i]}_r" for i in active]
        first, other = (f"({', '.join(parents)})", "several") if len(parents) > 2 else (*parents, "None")[:2]
        self._recorded.add(name)
        self._lines.append(
            f"{name}_r = [next(count), None, {bound(self._names, step)}, {first}, {ins}, {value}, tapes, {other}]"
        )

    def _call(self, call: Call, prim: Primitive, operands: list[Any]) -> None:
        """The line that calls a function of tensors."""
        name = call.name
        words = [self._tensor(v) for v in operands]
        words += [f"{k}={bound(self._names, v)}" for k, v in call.params.items()]
        self._lines += [
            f"{name} = {bound(self._names, prim.function)}({', '.join(words)})",
            f"{name}_v, {name}_r = {name}._value, {name}._record",
        ]
        self._tensors.add(name)
        if any([v.__class__ is str and v in self._recorded for v in operands]):  # noqa: C419
            self._recorded.add(name)
            self._lines.append(f"if {name}_r is None or {name}_r[{TAPES}] is not tapes: return calls(g, record)")


def _shared_step(
    prim: Primitive, active: tuple[int, ...], layouts: tuple[Layout, ...], params: dict[str, Any], out: Layout
) -> Any:
    """The backward step of an op for operands of these layouts. All rules that call the op share the step."""
    known = prim.layouts.setdefault("inlined", {})
    key = key_of((active, *layouts), params)
    found = None if key is None else known.get(key)
    if found is None:
        made = RuleStep(prim, active, params, layouts, out)
        found = step_for(made) or made
        if key is not None:
            remember(known, key, found)
    return found

"""Runs a function of tensors once and differentiates it by gtape: the rows that a check compares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.shown import shown
from gtape.base.verification import MOST_NESTED
from gtape.errors import UnimplementedError
from gtape.ops.random.draws import streams
from gtape.recording.record import STEP, Session, off
from gtape.symbolic.build import build
from gtape.symbolic.program import Program
from gtape.symbolic.tracing import as_input
from gtape.tapes.tape import GradientTape
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor, convert_to_tensor, is_tensor
from gtape.verify.judging.connected import bodiless, unimplemented
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = ["Recording", "TracingTape", "checked_order", "raw", "refuse_complex_jacobian"]


class TracingTape(GradientTape):
    """A tape that records all values for a check and runs no check itself."""

    def _new_session(self) -> Session:
        session = Session(trace=True, exact=True)
        session.watch_accessed = self._watch_accessed
        session.of_check = True
        return session

    def _mode(self) -> Any:
        return False


def checked_order(order: int) -> int:
    """The order of a derivative as an int; raises ValueError outside 1 to `MOST_NESTED`."""
    if not isinstance(order, (int, np.integer)) or isinstance(order, bool) or not 1 <= order <= MOST_NESTED:
        raise ValueError(f"order is a whole number from 1 to {MOST_NESTED}, not {shown(order)}")
    return int(order)


def _input(i: int, a: Any) -> Tensor:
    """Argument number `i` as a fresh tensor."""
    if not isinstance(a, (bool, int, float, complex, np.ndarray, np.generic, list, tuple)) and not is_tensor(a):
        raise TypeError(f"argument {i} is {shown(a)}, of type {type(a).__name__}; give a number, an array or a tensor")
    if hasattr(a, "_fields"):
        raise TypeError(
            f"argument {i} is {shown(a)}, a tuple with names; give its parts as arguments of their own, and let the "
            f"function make the {type(a).__name__}"
        )
    try:
        return as_input(a)
    except ValueError as e:
        raise ValueError(f"argument {i} is not an array of numbers of gtape's dtypes: {e}") from None


class Recording:
    """A function run once, differentiated `order` times by gtape, with every row of the last derivative."""

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], order: int) -> None:
        if not callable(f):
            raise TypeError(f"the first argument is a function of tensors, not {type(f).__name__}")
        if not args:
            raise TypeError("give the function's arguments too: the numbers or arrays at which it is differentiated")
        self.inputs = [_input(i, a) for i, a in enumerate(args)]
        for i, t in enumerate(self.inputs):
            if not t._layout.inexact:
                raise TypeError(
                    f"argument {i} is {t.dtype.name}: derivatives are with respect to floating-point arguments; "
                    "let the function hold the others"
                )
        self.function = f
        self._program: Program | None = None
        self.streams = streams()  # where the random draws of the function start
        with off():
            self._run(f, order)

    def _run(self, f: Callable[..., Any], order: int) -> None:
        tapes = [TracingTape(persistent=True) for _ in range(order)]
        entered = []
        try:
            for tape in tapes:
                tape.__enter__()
                tape.watch(self.inputs)
                entered.append(tape)
            level: list[Any] = _floating(nest.flatten(f(*self.inputs)))
            self.outputs = level
            self.levels = [level]
            for depth in range(order - 1, 0, -1):
                entered.pop().__exit__(None, None, None)
                level = self._derive(tapes[depth], level, depth == order - 1)
                self.levels.append(level)
        finally:
            for tape in reversed(entered):
                tape.__exit__(None, None, None)
        self.tape = tapes[0]
        self.level = level
        self.order = order

    def _derive(self, tape: GradientTape, level: list[Any], first: bool) -> list[Any]:
        """The next derivative: one tensor for each element of the last one and each input."""
        if first:
            # The gradient of a lookup is IndexedSlices, but the next derivative needs the dense tensor.
            made = [
                convert_to_tensor(g) if isinstance(g, IndexedSlices) else g for g in tape.gradient(level, self.inputs)
            ]
        else:
            made = []
            for t in level:
                if t is None:
                    made += [None] * len(self.inputs)
                    continue
                made += tape.jacobian(t, self.inputs)
        return list(made)

    def program(self) -> Program:
        """The program of the function itself, which is made once."""
        if self._program is None:
            self._program = build([(t._record, t._value) for t in self.outputs], self.inputs)
        return self._program

    def of_level(self, level: list[Any]) -> Program:
        """The program of a level: the function's outputs, or a derivative."""
        kept = [t for t in level if self.has_record(t)]
        if level is self.outputs and len(kept) == len(level):
            return self.program()
        return build([(t._record, t._value) for t in kept], self.inputs)

    def has_record(self, t: Any) -> bool:
        """Whether a tensor of a level below may depend on the inputs; a Jacobian gives its target a leaf."""
        r = None if t is None else t._record
        return r is not None and (r[STEP] is not None or any(r is x._record for x in self.inputs))

    def bodiless(self) -> list[Finding]:
        """Findings for custom gradients whose bodies leave the tape."""
        return bodiless(self.program(), self.order)

    def undecided(self, *, last: bool = False) -> list[Finding]:
        """Findings for derivatives that gtape does not implement, below the last derivative or including it."""
        for level in self.levels if last else self.levels[:-1]:
            found = unimplemented(self.of_level(level))
            if found:
                for finding in found.values():
                    finding.order, finding.element = self.order, None
                return list(found.values())
        return []

    def programs(self, order: int | None = None) -> Any:
        """Yield (place, program, seeds, gtape's own row) of one order: once at order 1, else for each element below."""
        level = self.levels[(order or self.order) - 1]
        if order == 1 or self.order == 1:
            got = self.tape.gradient(level, self.inputs)
            yield (), self.program(), [np.ones(t._layout.shape, t._layout.dtype) for t in level], [raw(g) for g in got]
            return
        for i, t in enumerate(level):
            if not self.has_record(t):
                continue
            program = build([(t._record, t._value)], self.inputs)
            if t._layout.complex or any(x._layout.complex for x in self.inputs):
                yield from self._complex_rows(i, t, program)
                continue
            rows = self.tape.jacobian(t, self.inputs)
            for index in np.ndindex(*t._layout.shape):
                seed = np.zeros(t._layout.shape, t._layout.dtype)
                seed[index] = 1
                yield (i, index), program, [seed], [None if r is None else np.asarray(raw(r))[index] for r in rows]

    def _complex_rows(self, i: int, t: Tensor, program: Program) -> Any:
        """Yield the gradients of real and imaginary part of each element, because no complex Jacobian exists."""
        for index in np.ndindex(*t._layout.shape):
            for weight in (1, 1j) if t._layout.complex else (1,):
                seed = np.zeros(t._layout.shape, t._layout.dtype)
                seed[index] = weight
                got = self.tape.gradient(t, self.inputs, output_gradients=convert_to_tensor(seed))
                yield (i, index), program, [np.conj(seed)], [raw(g) for g in got]

    def place(self, report: Report, place: tuple[Any, ...], order: int | None = None) -> None:
        """Add order and row of a higher derivative to the findings; `place` comes from `programs`."""
        row, order = "", order or self.order
        if place:
            level, index = place
            arguments = [str(level // len(self.inputs) ** k % len(self.inputs)) for k in reversed(range(order - 1))]
            row = f"; in the row of argument {' and '.join(arguments)}, element {list(index)}"
        for finding in report.findings:
            finding.order = order
            if finding.element is not None and isinstance(finding.element[0], int):
                finding.reason += row

    def assemble(self, rows: dict[Any, list[Any]], zero: Any) -> Any:
        """Put rows into the structure of the derivative: an array, or nested tuples of arrays for several arguments."""
        shapes = [t._layout.shape for t in self.inputs]
        n = len(shapes)
        if self.order == 1:
            flat = [_filled(r, s, zero) for r, s in zip(rows[()], shapes, strict=True)]
            return flat[0] if n == 1 else tuple(flat)
        blocks = []
        for i in range(len(self.level)):
            outer = self.shape_of_level(i)
            for k, s in enumerate(shapes):
                block = np.empty(outer + s, dtype=object)
                for index in np.ndindex(*outer):
                    row = rows.get((i, index))
                    block[index] = _filled(None if row is None else row[k], s, zero)[() if not s else ...]
                blocks.append(block)
        return _nested(blocks, n, self.order)

    def shape_of_level(self, i: int, order: int | None = None) -> tuple[int, ...]:
        """The shape of tensor number `i` of the derivatives below some order."""
        shapes = [t._layout.shape for t in self.inputs]
        n = len(shapes)
        outer: tuple[int, ...] = ()
        for _ in range((order or self.order) - 1):
            outer = shapes[i % n] + outer
            i //= n
        return outer


def _floating(outputs: list[Any]) -> list[Any]:
    if any(not isinstance(t, Tensor) for t in outputs):
        bad = next(t for t in outputs if not isinstance(t, Tensor))
        raise TypeError(f"the function returned {type(bad).__name__}; it must return tensors, or a structure of them")
    kept = [t for t in outputs if t._layout.inexact]
    if not kept:
        raise TypeError("the function returned no floating-point tensor: there is nothing to differentiate")
    return kept


def _filled(row: Any, shape: tuple[int, ...], zero: Any) -> Any:
    """A row as an object array, so that an ExactNumber keeps its radius; zeros where the row is None."""
    if isinstance(row, np.ndarray):
        return row
    made = np.empty(shape, dtype=object)
    made[...] = zero if row is None else row
    return made


def _nested(blocks: list[Any], n: int, order: int) -> Any:
    if n == 1:
        return blocks[0]
    if order == 1:
        return tuple(blocks)
    size = len(blocks) // n
    return tuple(_nested(blocks[i * size : (i + 1) * size], n, order - 1) for i in range(n))


def raw(g: Any) -> Any:
    """A gradient as an array; None for None."""
    if g is None:
        return None
    return np.asarray(g._as_tensor()._value if not isinstance(g, Tensor) else g._value)


def refuse_complex_jacobian(recording: Recording, order: int) -> None:
    """Refuse second and higher derivatives with respect to complex arguments."""
    if order > 1 and any(t._layout.complex for t in recording.inputs):
        raise UnimplementedError(
            "a function of complex numbers has no complex Hessian: `check` takes order=2; for the numbers themselves, "
            "differentiate by real and imaginary parts joined by gtape.complex"
        )

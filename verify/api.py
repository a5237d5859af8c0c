"""check, judge and exact: the questions that a researcher asks about one function at one point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import acb, arb

from gtape import nest, record
from gtape.errors import UnimplementedError
from gtape.indexed_slices import IndexedSlices
from gtape.record import Session
from gtape.symbolic.balls import Undecided, digits, objects, precision, radius, to_float
from gtape.symbolic.program import Node, Program, as_input, build
from gtape.tape import GradientTape
from gtape.tensor import Tensor, convert_to_tensor
from gtape.verify.certificates import certify
from gtape.verify.enclosures import turned
from gtape.verify.examine import PRECISIONS, examine
from gtape.verify.oracle import Oracle, TooDeep
from gtape.verify.ulp import widest
from gtape.verify.verdict import Finding, Report

__all__ = ["ExactNumber", "check", "exact", "judge"]


class _TracingTape(GradientTape):
    """Keeps what a check needs, and checks nothing itself."""

    def _new_session(self) -> Session:
        session = Session(trace=True, exact=True)
        session.watch_accessed = self._watch_accessed
        return session

    def _mode(self) -> Any:
        return False


class ExactNumber(str):
    """A decimal number, with the radius of the ball that encloses the true one.

    Attributes
    ----------
    radius : float
        How far the true value may be from this one at most.
    """

    radius: float

    def __new__(cls, ball: Any, n: int) -> ExactNumber:
        made = super().__new__(cls, digits(ball, n))
        rounding = float(abs(ball)) * 10.0 ** (1 - n)
        made.radius = radius(ball).item() + rounding
        return made


def _validated(order: int) -> int:
    if order not in (1, 2, 3):
        raise ValueError(f"order is 1, 2 or 3, not {order!r}")
    return order


class _Recording:
    """A function run once, differentiated `order` times by gtape, with every row of the last derivative."""

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], order: int) -> None:
        if not callable(f):
            raise TypeError(f"the first argument is a function of tensors, not {type(f).__name__}")
        if not args:
            raise TypeError("give the function's arguments too: check(f, x, ...)")
        self.inputs = [as_input(a) for a in args]
        for i, t in enumerate(self.inputs):
            if not t._aval.inexact:
                raise TypeError(
                    f"argument {i} is {t.dtype.name}: derivatives are with respect to floating-point arguments; "
                    "close over the others"
                )
        before = record.get_stack()
        record.set_stack(())
        try:
            self._run(f, order)
        finally:
            record.restore_stack(before)

    def _run(self, f: Callable[..., Any], order: int) -> None:
        tapes = [_TracingTape(persistent=True) for _ in range(order)]
        entered = []
        try:
            for tape in tapes:
                tape.__enter__()
                tape.watch(self.inputs)
                entered.append(tape)
            level: list[Any] = _floating(nest.flatten(f(*self.inputs)))
            self.rows: list[tuple[tuple[Any, ...], Any]] = []
            for depth in range(order - 1, 0, -1):
                entered.pop().__exit__(None, None, None)
                level = self._derive(tapes[depth], level, depth == order - 1)
        finally:
            for tape in reversed(entered):
                tape.__exit__(None, None, None)
        self.tape = tapes[0]
        self.level = level
        self.order = order

    def _derive(self, tape: GradientTape, level: list[Any], first: bool) -> list[Any]:
        """The next derivative: one tensor for each element of the last one and each input."""
        if first:
            # The gradient of a lookup comes as rows; the next derivative is of all of it.
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

    def programs(self) -> Any:
        """For each tensor of the last level and each of its elements: (place, program, seeds, gtape's own row)."""
        if self.order == 1:
            got = self.tape.gradient(self.level, self.inputs)
            program = build([(t._record, t._value) for t in self.level], self.inputs)
            yield (), program, [np.ones(t._aval.shape, t._aval.dtype) for t in self.level], [_raw(g) for g in got]
            return
        for i, t in enumerate(self.level):
            if t is None or t._record is None:
                continue
            program = build([(t._record, t._value)], self.inputs)
            if t._aval.complex or any(x._aval.complex for x in self.inputs):
                yield from self._complex_rows(i, t, program)
                continue
            rows = self.tape.jacobian(t, self.inputs)
            for index in np.ndindex(*t._aval.shape):
                seed = np.zeros(t._aval.shape, t._aval.dtype)
                seed[index] = 1
                yield (i, index), program, [seed], [None if r is None else np.asarray(_raw(r))[index] for r in rows]

    def _complex_rows(self, i: int, t: Tensor, program: Program) -> Any:
        """The gradients of the real and of the imaginary part of each element: there is no complex Jacobian."""
        for index in np.ndindex(*t._aval.shape):
            for weight in (1, 1j) if t._aval.complex else (1,):
                seed = np.zeros(t._aval.shape, t._aval.dtype)
                seed[index] = weight
                got = self.tape.gradient(t, self.inputs, output_gradients=convert_to_tensor(seed))
                yield (i, index), program, [np.conj(seed)], [_raw(g) for g in got]

    def assemble(self, rows: dict[Any, list[Any]], zero: Any) -> Any:
        """Put rows into the structure of the derivative: an array, or nested tuples of arrays for several arguments."""
        shapes = [t._aval.shape for t in self.inputs]
        n = len(shapes)
        if self.order == 1:
            flat = [np.asarray(_filled(r, s, zero)) for r, s in zip(rows[()], shapes, strict=True)]
            return flat[0] if n == 1 else tuple(flat)
        blocks = []
        for i, t in enumerate(self.level):
            outer = self._shape_of_level(i)
            for k, s in enumerate(shapes):
                block = np.empty(outer + s, dtype=object)
                for index in np.ndindex(*outer):
                    row = rows.get((i, index)) if t is not None else None
                    block[index] = _filled(None if row is None else row[k], s, zero)
                blocks.append(block)
        return _nested(blocks, n, self.order)

    def _shape_of_level(self, i: int) -> tuple[int, ...]:
        shapes = [t._aval.shape for t in self.inputs]
        n = len(shapes)
        outer: tuple[int, ...] = ()
        for _ in range(self.order - 1):
            outer = shapes[i % n] + outer
            i //= n
        return outer


def _floating(outputs: list[Any]) -> list[Any]:
    if any(not isinstance(t, Tensor) for t in outputs):
        bad = next(t for t in outputs if not isinstance(t, Tensor))
        raise TypeError(f"the function returned {type(bad).__name__}; it must return tensors, or a structure of them")
    kept = [t for t in outputs if t._aval.inexact]
    if not kept:
        raise TypeError("the function returned no floating-point tensor: there is nothing to differentiate")
    return kept


def _filled(row: Any, shape: tuple[int, ...], zero: Any) -> Any:
    if row is not None:
        return row
    made = np.empty(shape, dtype=object)
    made[...] = zero
    return made if shape else zero


def _nested(blocks: list[Any], n: int, order: int) -> Any:
    if n == 1:
        return blocks[0]
    if order == 1:
        return tuple(blocks)
    size = len(blocks) // n
    return tuple(_nested(blocks[i * size : (i + 1) * size], n, order - 1) for i in range(n))


def _raw(g: Any) -> Any:
    if g is None:
        return None
    return np.asarray(g._as_tensor()._value if not isinstance(g, Tensor) else g._value)


def check(f: Callable[..., Any], *args: Any, order: int = 1) -> Report:
    """Check gtape's own derivatives of a function at a point against the exact ones.

    Parameters
    ----------
    f : callable
        Takes tensors, returns a tensor or a structure of tensors; the derivative is that of the sum of all outputs.
    *args : tensors, arrays or numbers
        Where; Python numbers are float64.
    order : {1, 2, 3}
        1 checks the gradient, 2 the Hessian, 3 all third derivatives.

    Returns
    -------
    Report

    Raises
    ------
    TypeError
        For arguments or results that are no floating-point tensors.

    Examples
    --------
    >>> import gtape
    >>> gtape.verify.check(lambda x: gtape.tanh(x) * x, 20.0, order=2).verdict
    'correct'
    """
    recording = _Recording(f, args, _validated(order))
    report = Report()
    for _, program, seeds, got in recording.programs():
        one = examine(program, seeds, got, locally=not report.checked)
        for finding in one.findings:
            finding.order = order
        report.extend(one)
    return report


def exact(f: Callable[..., Any], *args: Any, order: int = 1, digits: int = 50) -> Any:
    """The exact derivative of a function at a point, as decimal numbers with radii.

    Parameters
    ----------
    f, *args, order
        As for `check`.
    digits : int
        How many significant decimal digits.

    Returns
    -------
    array of ExactNumber, or tuple of these
        Order 1: one array for one argument, a tuple for several; order 2: the Hessian, shape of the first followed by
        the shape of the second argument, in a tuple of tuples for several arguments.

    Raises
    ------
    ArithmeticError
        Where the derivative does not exist, or is not decided at the highest precision.

    Examples
    --------
    >>> import gtape
    >>> str(gtape.verify.exact(gtape.tanh, 20.0, digits=25)[()])
    '1.699341702116635583692883e-17'
    """
    if isinstance(digits, bool) or not isinstance(digits, int) or digits < 1:
        raise ValueError(f"digits is a positive whole number, not {digits!r}")
    recording = _Recording(f, args, _validated(order))
    _no_complex_jacobian(recording, order)
    rows: dict[Any, list[Any]] = {}
    zero = ExactNumber(arb(0), digits)
    for place, program, seeds, _ in recording.programs():
        balls = _exact_row(program, seeds, digits)
        row: list[Any] = []
        for b, t in zip(balls, recording.inputs, strict=True):
            if b is None:
                row.append(None)
                continue
            made = np.empty(t._aval.shape, dtype=object)
            b = turned(b) if t._aval.complex else objects(b)
            for index in np.ndindex(*t._aval.shape):
                made[index] = ExactNumber(b[index], digits)
            row.append(made if t._aval.shape else made[()])
        rows[place] = row
    result = recording.assemble(rows, zero)
    return result


def _no_complex_jacobian(recording: _Recording, order: int) -> None:
    if order > 1 and any(t._aval.complex for t in recording.inputs):
        raise UnimplementedError(
            "a function of complex numbers has no complex Hessian: `check` takes order=2; for the numbers themselves, "
            "differentiate by real and imaginary parts joined by gtape.complex"
        )


def _exact_row(program: Program, seeds: list[Any], wanted: int) -> list[Any]:
    reason: Any = "the precision did not suffice"
    for bits in (
        max(200, int(wanted * 3.4) + 80),
        *[p for p in (*PRECISIONS, 51200) if p > wanted * 3.4 + 80 and p > 200],
    ):
        with precision(bits):
            oracle = Oracle(program, seeds)
            try:
                oracle.evaluate()
                made = oracle.replay()
                if certify(oracle, made):
                    made = [None if g is None else _by_jets(oracle, s, np.shape(g)) for s, g in enumerate(made)]
            except TooDeep as e:
                raise ArithmeticError(str(e)) from None
            except (Undecided, ArithmeticError) as e:
                reason = e
                continue
            if all(_tight(g, wanted) for g in made):
                return made
    raise ArithmeticError(f"the exact derivative is not decided at {bits} bits: {reason}")


def _by_jets(oracle: Oracle, source: int, shape: tuple[int, ...]) -> Any:
    made = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        made[index] = oracle.along(source, index)
    return made


def _tight(g: Any, wanted: int) -> bool:
    if g is None:
        return True
    for ball in objects(g).ravel().tolist():
        b = ball if isinstance(ball, (arb, acb)) else arb(ball)
        if not b.is_finite():
            return False
        loose = not b.is_exact() and b.rel_accuracy_bits() < wanted * 3.33
        # A ball around 0 that stays: far below what any float can hold it is 0.
        if loose and not (b.contains(0) and radius(b).item() < 1e-320):
            return False
    return True


def judge(f: Callable[..., Any], args: Any, claimed: Any, order: int = 1) -> Report:
    """Judge somebody else's numbers for a derivative: those of another library, or worked out by hand.

    Parameters
    ----------
    f : callable
        The function, written with gtape.
    args : tuple or single argument
        Where.
    claimed : array, or tuple of arrays
        The derivative that is claimed, in the structure that `exact` returns.
    order : {1, 2, 3}

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If `claimed` has another structure or shape.

    Examples
    --------
    >>> import gtape
    >>> gtape.verify.judge(gtape.tanh, 20.0, 0.0).verdict
    'unstable'
    """
    arguments = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    recording = _Recording(f, arguments, _validated(order))
    _no_complex_jacobian(recording, order)
    shapes = [t._aval.shape for t in recording.inputs]
    blocks = _blocks(claimed, shapes, order, "claimed")
    report = Report()
    seen: set[Any] = set()
    n = len(shapes)
    for place, program, seeds, _ in recording.programs():
        if order == 1:
            row = [np.asarray(b) for b in blocks]
        else:
            i, index = place
            seen.add(place)
            row = [np.asarray(blocks[i * n + k][index]) for k in range(n)]
        row = [_in_dtype(r, t) for r, t in zip(row, recording.inputs, strict=True)]
        one = examine(program, seeds, row, locally=False)
        one.findings = [_cause(program, seeds, x, row) for x in one.findings]
        for finding in one.findings:
            finding.order = order
        report.extend(one)
    if order > 1:
        _judge_rest(recording, blocks, seen, n, order, report)
    return report


def _judge_rest(recording: _Recording, blocks: list[Any], seen: set[Any], n: int, order: int, report: Report) -> None:
    """Rows that are identically zero: what is claimed there must be zero, too."""
    for i in range(len(blocks) // n):
        for index in np.ndindex(*recording._shape_of_level(i)):
            if (i, index) in seen:
                continue
            for k in range(n):
                row = np.asarray(blocks[i * n + k][index], dtype=np.float64)
                report.checked += row.size
                if (row != 0).any() or np.isnan(row).any():
                    report.findings.append(
                        Finding(
                            "rule",
                            order=order,
                            element=(k, index),
                            got=float(row.ravel()[int(np.argmax(np.abs(row.ravel())))]),
                            exact="0",
                            reason="this derivative is identically zero",
                        )
                    )


def _in_dtype(row: Any, t: Tensor) -> Any:
    return row.astype(t._aval.dtype) if row.dtype != t._aval.dtype and row.dtype.kind in "iufb" else row


def _blocks(
    claimed: Any, shapes: list[tuple[int, ...]], order: int, where: str, outer: tuple[int, ...] = ()
) -> list[Any]:
    n = len(shapes)
    parts: list[Any]
    if n > 1:
        if not isinstance(claimed, (tuple, list)) or len(claimed) != n:
            raise ValueError(f"{where}: expected a tuple of {n}, one for each argument, got {_describe(claimed)}")
        parts = list(claimed)
    else:
        parts = [claimed]
    made = []
    for k, (part, s) in enumerate(zip(parts, shapes, strict=True)):
        name = f"{where}[{k}]" if n > 1 else where
        if order > 1 and n > 1:
            made += _blocks(part, shapes, order - 1, name, outer + s)
            continue
        shape = outer + s * (order if n == 1 else 1)
        array = np.asarray(part._value if isinstance(part, Tensor) else part)
        if array.dtype == object:
            array = array.astype(np.float64)
        if array.shape != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
        made.append(array)
    return made


def _describe(x: Any) -> str:
    return f"a {type(x).__name__} of {len(x)}" if isinstance(x, (tuple, list)) else f"a {type(x).__name__}"


# ------------------------------------------------------------------------------------------ the cause of a wrong claim


def _cause(program: Program, seeds: list[Any], finding: Finding, row: list[Any]) -> Finding:
    """What is wrong with a claimed number that is not the exact one: an algebra, lost digits, or another convention."""
    if finding.verdict not in ("unstable", "rule") or finding.element is None or finding.exact is None:
        return finding
    s, index = finding.element
    interval = None if isinstance(finding.got, complex) else _one_sided(program, seeds, s, index)
    if interval is not None:
        low, high = interval
        got = float(finding.got)
        inside = low <= got <= high
        finding.verdict = "convention"
        finding.inside = inside
        finding.ok = inside
        finding.reason = (
            f"at a kink: the one-sided derivatives span [{low!r}, {high!r}], "
            f"the claimed value lies {'inside' if inside else 'outside'}"
        )
        return finding
    got, truth = finding.got, _parsed(finding.exact)
    scale = _scale(program)
    if not np.isfinite(got):
        finding.verdict, finding.reason = (
            "unstable",
            "not finite, though the derivative is: something overflows, or is divided by zero, inside a finite result",
        )
    elif got == 0.0 and truth != 0.0 and abs(truth) <= 2.0**-20 * scale:
        finding.verdict, finding.reason = (
            "unstable",
            "zero, though the derivative is not: its tail is lost by cancellation or underflow",
        )
    elif abs(got - truth) <= 2.0**-36 * max(scale, abs(truth)):
        finding.verdict, finding.reason = "unstable", "the formula loses digits that the problem does not"
    else:
        finding.verdict, finding.reason = (
            "rule",
            "not the derivative of this function: the difference is too large for rounding",
        )
    return finding


def _parsed(text: str) -> Any:
    """The number that `digits` wrote."""
    return complex(*map(float, text.strip("()").replace("j", "").split(","))) if "j" in text else float(text)


def _scale(program: Program) -> float:
    """The largest magnitude along the program: what cancellation can leave an error of."""
    largest = 1.0
    for node in program.nodes:
        v = np.zeros(1) if isinstance(node.output, tuple) else np.abs(widest(node.output))
        finite = np.abs(v[np.isfinite(v)]) if v.ndim else np.abs(v.reshape(1)[np.isfinite(v.reshape(1))])
        if finite.size:
            largest = max(largest, float(np.max(finite)))
    return largest


def _one_sided(program: Program, seeds: list[Any], s: int, index: tuple[int, ...]) -> tuple[float, float] | None:
    """The derivatives just left and right of the point, if they differ.

    What differs less in a smaller step is no jump, but the slope of the derivative (x³ at 0).
    """
    near = _sides(program, seeds, s, index, 600)
    if near is None or not near[1] - near[0] > 1e-9 * max(abs(near[0]), abs(near[1])):
        return None
    nearer = _sides(program, seeds, s, index, 602)
    return near if nearer is None or nearer[1] - nearer[0] > 0.9 * (near[1] - near[0]) else None


def _sides(program: Program, seeds: list[Any], s: int, index: tuple[int, ...], step: int) -> tuple[float, float] | None:
    """The lesser and the greater of the derivatives 2**-step left and right of the point."""
    sides = []
    with precision(800):
        for sign in (-1, 1):
            oracle = Oracle(program, seeds)
            for i in program.sources[s]:
                x = objects(np.array(_lifted(program.nodes[i].output), dtype=object))
                x = x.copy()
                x[index] = x[index] + sign * arb(2) ** -step
                oracle.env[i] = x
            try:
                for node in program.nodes:
                    if node.index not in oracle.env:
                        oracle.env[node.index] = _decided_here(oracle, node)
                made = oracle.replay()[s]
                if made is None:
                    return None
                sides.append(float(to_float(objects(made))[index]))
            except ArithmeticError:
                return None
    return min(sides), max(sides)


def _decided_here(oracle: Oracle, node: Node) -> Any:
    """The value of a node beside the recorded point: comparisons and places are decided anew there."""
    from gtape.verify.enclosures import BALLS

    if node.kind == "op" and not node.prim.differentiable and (node.prim.kinks or node.prim.kind == "elementwise"):
        output = node.output if isinstance(node.output, np.ndarray) else np.asarray(node.output)
        if output.dtype.kind in "biu" and node.name != "cast":
            exact = getattr(BALLS, node.prim.name)(*[oracle.env[i] for i in node.inputs], **node.params)
            return np.asarray(exact).astype(output.dtype)
    return oracle.value_of(node, oracle.env)


def _lifted(value: Any) -> Any:
    """A recorded value as balls."""
    from gtape.verify.enclosures import BALLS

    return BALLS.lift(np.asarray(value))

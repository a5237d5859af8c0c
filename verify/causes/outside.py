"""Points without a derivative to compare with, because a value or derivative along the way is infinite or NaN."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import ctx

from gtape.engine.worlds import COMPLEX
from gtape.symbolic.balls import Undecided, digits, finite_ball, objects, precision, ties_assumed
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.local import finite
from gtape.verify.bounds.noise import read_by
from gtape.verify.causes.customs import is_right_exactly
from gtape.verify.causes.ends import END, Ends, further_bits
from gtape.verify.oracles.certificates import directions_of, has_finite_slope
from gtape.verify.oracles.enclosures import BALLS, jet_world
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import Replay
from gtape.verify.verdicts.exponents import readable
from gtape.verify.verdicts.ulp import widest
from gtape.verify.verdicts.verdict import Finding

__all__ = [
    "at_an_end", "called", "infinite_slopes", "is_at_an_end", "lacks_a_slope", "masked_by_infinities",
    "not_differentiable", "outside", "shown_by",
]  # fmt: skip

_LOOKED_AT = 64  # elements without a finite slope in floats of which the first one at fault is searched
_BITS = 3200  # for the exact values of nodes that overflow or cancel in floats


def not_differentiable(program: Program, order: int, bits: int = _BITS) -> Finding | None:
    """The finding for the first input or partial that is infinite or NaN, so that no precision decides.

    It is undecided if the exact inputs of the op may have a finite partial, as far as this number of bits tells.
    """
    ends, left = Ends(program, bits), None
    for node in program.nodes:
        if node.kind in ("leaf", "const") and not isinstance(node.output, tuple):
            v = np.asarray(node.output)
            if v.dtype.kind in "fc" and not np.isfinite(v).all():
                return Finding("domain", order=order, reason=_held(node, v))
        if node.kind != "op" or not node.active:
            continue
        if node.prim.kind != "elementwise":
            left = left or _left_open(program, node, ends, order)
            continue
        values = [np.asarray(program.nodes[j].output) for j in node.inputs]
        for a in node.active:
            p, slope = node.prim.partials[a], _slope(node, a, values)
            if slope is None:
                continue
            for place in map(tuple, np.argwhere(~np.isfinite(slope))[:_LOOKED_AT].tolist()):
                if _overflows(node, p, values, place):
                    continue
                by = f" by argument {a}" if len(values) > 1 else ""
                what = f"the derivative of {called(node, values, place)}{by} is {slope[place].item()!r}"
                if ends.are_open(node, place):
                    left = left or at_an_end(node, place, what, bits, order)
                elif left is None or ends.known(node, place) is not None:  # otherwise the op before may be in range
                    reason = f"{what}: {node.name} is not differentiable there"
                    return Finding("domain", order=order, at=node, element=("value", place), reason=reason)
    return left


def _slope(node: Node, a: int, values: list[Any]) -> Any:
    """The slopes of an elementwise op by argument `a` in floats, at its recorded inputs; None for a constant slope."""
    p = node.prim.partials[a]
    if not callable(p):
        return None
    return np.broadcast_to(widest(p(COMPLEX, np.asarray(node.output), *values, **node.params)), node.shape)


def infinite_slopes(program: Program, exact: dict[int, Any]) -> dict[int, Any]:
    """The inputs of elementwise ops at which slopes are not finite, without inputs that rounding has changed.

    Parameters
    ----------
    exact : dict
        Node -> its exact value, as far as known.

    Returns
    -------
    dict
        Node -> a mask of its elements.
    """
    found: dict[int, Any] = {}
    for node in program.nodes:
        if node.kind != "op" or node.prim.kind != "elementwise":
            continue
        values = [np.asarray(program.nodes[j].output) for j in node.inputs]
        with np.errstate(all="ignore"):
            slopes = [slope for a in node.active if (slope := _slope(node, a, values)) is not None]
        steep = np.zeros(node.shape, np.bool_)
        for slope in slopes:
            steep |= ~np.isfinite(slope)
        for j, v in zip(node.inputs, values, strict=True) if steep.any() else ():
            mask = read_by(v.shape, steep)
            found[j] = found.get(j, False) | (mask & ~_rounded(v, exact[j]) if j in exact else mask)
    return found


def _left_open(program: Program, node: Node, ends: Ends, order: int) -> Finding | None:
    """The finding for an op of whole arrays that is not finite, but may be so at its exact inputs."""
    inputs = [np.asarray(program.nodes[j].output) for j in node.inputs]
    if not all(np.isfinite(x).all() for x in inputs if x.dtype.kind in "fc"):
        return None
    for v in map(np.asarray, node.output if isinstance(node.output, tuple) else (node.output,)):
        if v.dtype.kind in "fc" and not np.isfinite(v).all() and ends.are_open(node, ()):
            place = _first(~np.isfinite(v))
            return at_an_end(node, place, f"{called(node, inputs, place)} is {v[place].item()!r}", ends.bits, order)
    return None


def at_an_end(node: Node, place: tuple[int, ...], what: str, bits: int, order: int = 1) -> Finding:
    """The finding for an op of which no precision tells whether its exact input lies at an end of its domain."""
    reason = f"{what}, but it stays open at {bits} bits whether {node.name} has a derivative there: {END}"
    return Finding("undecided", order=order, at=node, element=("value", place), reason=reason, ok=False)


def lacks_a_slope(finding: Finding) -> bool:
    """Whether a finding names an op that has no finite derivative at its recorded inputs."""
    return finding.op is not None and (finding.verdict == "domain" or is_at_an_end(finding))


def is_at_an_end(finding: Finding) -> bool:
    """Whether a finding comes from `at_an_end`."""
    return finding.verdict == "undecided" and finding.reason.endswith(END)


def _overflows(node: Node, partial: Callable[..., Any], values: list[Any], place: tuple[int, ...]) -> bool:
    """Whether a partial of one element is infinite or NaN in floats alone, because a number on the way overflowed."""
    xs = [np.broadcast_to(v, node.shape)[place] for v in values]
    if not all(np.isfinite(x) for x in xs):
        return True  # the op that gave the infinity is to blame, unless it overflowed
    for bits in (ctx.prec, _BITS):  # the second, because few bits enclose exp(1e100) by all positive numbers
        with precision(bits), contextlib.suppress(ArithmeticError, Undecided, ValueError, TypeError):
            balls = [objects(BALLS.lift(np.asarray(x))) for x in xs]
            y = node.apply(BALLS, balls)
            if all(map(finite_ball, objects(partial(BALLS, y, *balls, **node.params)).ravel().tolist())):
                return True
    return False


def outside(program: Program, got: list[Any]) -> Finding | None:
    """The finding for the first infinity or NaN along the program, where no derivative exists to compare with."""
    for node in program.nodes:
        values = node.output if isinstance(node.output, tuple) else (node.output,)
        for k, v in enumerate(values):
            v = np.asarray(v)
            if v.dtype.kind not in "fc" or np.isfinite(v).all() or _asked_for(node):
                continue
            if node.kind in ("leaf", "const"):
                if not _matters(program, node, got):
                    continue
                readers = [n for n in program.nodes[node.index + 1 :] if node.index in n.inputs]
                by_custom = _by_custom(program, readers[0]) if node.kind == "const" and readers else None
                return by_custom or Finding("domain", reason=_held(node, v), ok=False)
            if _matters(program, node, got):
                return _by_custom(program, node) or _described(program, *_origin(program, node, v, k))
    return None


def _origin(program: Program, node: Node, v: Any, k: int) -> tuple[Node, Any, int]:
    """The first op inside a custom gradient that gave an infinity or NaN, with the output and its number.

    Only ops have exact values of their own. Any other node stands for itself.
    """
    if node.kind != "custom":
        return node, v, k
    for inner in [program.nodes[i] for i in program.ancestors(node.body)]:
        values = inner.output if isinstance(inner.output, tuple) else (inner.output,)
        for place, made in enumerate(map(np.asarray, values)):
            if inner.kind == "op" and made.dtype.kind in "fc" and not (np.isfinite(made).all() or _asked_for(inner)):
                return inner, made, place
    return node, v, k


def _held(node: Node, v: Any) -> str:
    return f"{'an input' if node.kind == 'leaf' else 'a constant'} holds {'NaN' if np.isnan(v).any() else 'infinity'}"


def _by_custom(program: Program, node: Node) -> Finding | None:
    """The finding for an op of a custom gradient's function that is not finite, although the derivative of the custom
    gradient's body is; None for any other op, and for a function that is right in exact arithmetic.
    """
    customs = [n for n in program.nodes if n.kind == "custom" and n.prim.declared is None and _is_inside(node, n)]
    if not customs:
        return None
    oracle = Oracle(program, [])
    with precision(_BITS), ties_assumed(), contextlib.suppress(ArithmeticError):
        oracle.evaluate(program.ancestors([i for n in customs for i in (n.index, *n.body)]))
        for n in customs:
            if has_finite_slope(oracle, n) and not is_right_exactly(oracle, n):
                reason = f"the gradient that {n.name} returns is not finite, but the derivative of its body is"
                return Finding("rule", at=n, reason=reason, ok=False)
    return None


def _is_inside(node: Node, custom: Node) -> bool:
    """Whether the line that called an op lies in the function of a custom gradient."""
    code = getattr(custom.step.grad_fn, "__code__", None)
    if code is None or node.line is None:
        return False
    numbers = [n for _, _, n in code.co_lines() if n is not None]
    file, number, name = node.line
    return bool(file == code.co_filename and name == code.co_name and min(numbers) <= number <= max(numbers))


def _described(program: Program, node: Node, v: Any, k: int) -> Finding:
    """The finding for an infinity or NaN in output `k` of a node: op, element and exact value."""
    inputs = [np.asarray(program.nodes[j].output) for j in node.inputs]
    place = _first(~np.isfinite(v))
    came = v[place].item()
    what = f"{called(node, inputs, place)} is {came!r}"
    for bits in (_BITS, *further_bits(program)):
        made = _exact_output(program, node, k, bits)
        if (made is not None and finite_ball(made[place])) or not Ends(program, bits).are_open(node, place):
            break
    else:
        return at_an_end(node, place, what, bits)
    ball = made[place] if made is not None and finite_ball(made[place]) else None
    exact, short = (None, "") if ball is None else (digits(ball), readable(digits(ball, 6)))

    def finding(verdict: str, reason: str) -> Finding:
        return Finding(
            verdict,
            at=node,
            element=("value", place),
            got=None if verdict == "range" else came,
            exact=None if verdict in ("domain", "range") else exact,
            reason=reason,
            ok=False,
        )

    overflow = not np.isnan(v).any() and all(np.isfinite(x).all() for x in inputs if x.dtype.kind in "fc")
    elementwise = node.prim is not None and node.prim.kind == "elementwise"
    undefined = ball is None and not (elementwise and _defined_at(node, inputs, place))
    # The maximum of nothing is -inf, which is no pole.
    pole = _at_pole(node, inputs, place) or (undefined and all(x.size for x in inputs))
    if overflow and not pole:
        exactly = f", exactly {short}" if short else ""
        return finding("range", f"{what}{exactly}: a value along the way overflows {v.dtype.name}")
    if exact is not None and made is not None and _undefined_beside(node, made, place):
        exact = None  # without meaning, because the factorisation failed at another element
    if ball is not None and exact is not None and all(np.isfinite(x).all() for x in inputs if x.dtype.kind in "fc"):
        if abs(ball) > float(np.finfo(v.dtype).max):
            return finding("range", f"{what}, exactly {short}: a value along the way overflows {v.dtype.name}")
        if _moved(program, node, bits):
            lost = f"rounding before {node.name} lost the digits that its input exactly has"
            return finding("unstable", f"{what}, exactly {short}: {lost}")
        if node.prim.kind != "elementwise":
            if not _has_slope(program, node):
                return finding("domain", f"{what}, and the exact value has no finite derivative there")
            return finding("unstable", f"{what}, exactly {short}: it is lost inside {node.name}")
        if _defined_at(node, inputs, place):
            return finding("rule", f"{what}, exactly {short}: {node.name} is defined there, so its kernel is wrong")
    return finding("domain", f"{what}: there {node.name} is not defined, or not differentiable")


def shown_by(bad: Finding, findings: list[Finding]) -> Finding:
    """The finding for a value along the way, with the worst element of the result added.

    Parameters
    ----------
    bad : Finding
        From `outside`, with verdict "range" or "unstable".
    findings : list of Finding
        From comparing the result with the exact one. A "domain" finding among them is returned instead.
    """
    for f in findings:
        if f.verdict == "domain":
            return f
    shown = max(
        (f for f in findings if f.got is not None and isinstance(f.element, tuple) and f.element[0] != "value"),
        key=lambda f: (not np.isfinite(f.got), f.ulps or 0.0),
        default=None,
    )
    if shown is not None:
        bad.element, bad.got, bad.exact, bad.ulps = shown.element, shown.got, shown.exact, shown.ulps
    return bad


def _first(mask: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])


def called(node: Node, inputs: list[Any], place: tuple[int, ...]) -> str:
    """An op as text: with the inputs of one element if it is elementwise, else with the place of the element."""
    if node.prim is None or node.prim.kind != "elementwise":
        return f"{node.name}, element {list(place)},"
    words = [repr(np.broadcast_to(x, node.shape)[place].item()) for x in inputs]
    words += [f"{k}={v!r}" for k, v in node.params.items()]
    return f"{node.name}({', '.join(words)})"


def _defined_at(node: Node, inputs: list[Any], place: tuple[int, ...]) -> bool:
    """True if an elementwise op has a finite exact value at its recorded inputs."""
    if node.prim is None or node.prim.kind != "elementwise":
        return False
    here = [np.broadcast_to(x, node.shape)[place] for x in inputs]
    if _at_pole(node, inputs, place):
        return False
    at = [BALLS.lift(x) for x in here]
    with precision(_BITS), ties_assumed(), contextlib.suppress(ArithmeticError):
        return finite_ball(objects(node.apply(BALLS, at)).item())
    return False


def _moved(program: Program, node: Node, bits: int) -> bool:
    """True if rounding has changed the inputs of an op."""
    replay = Replay(program, [])
    with precision(bits), ties_assumed(), contextlib.suppress(ArithmeticError):
        replay.evaluate(program.ancestors(node.inputs))
        return any(_rounded(np.asarray(program.nodes[j].output), replay.env[j]).any() for j in node.inputs)
    return False


def _rounded(recorded: Any, exact: Any) -> Any:
    """The mask of the recorded numbers that certainly differ from the exact ones."""
    pairs = zip(objects(BALLS.lift(recorded)).ravel().tolist(), objects(exact).ravel().tolist(), strict=True)
    gaps = [here - exactly for here, exactly in pairs]
    rounded = [gap != 0 and not (hasattr(gap, "contains") and gap.contains(0)) for gap in gaps]
    return np.array(rounded, np.bool_).reshape(np.shape(recorded))


def _exact_output(program: Program, node: Node, k: int, bits: int) -> Any:
    """The exact value of output `k` of an op; None if undecided."""
    replay = Replay(program, [])
    with precision(bits), ties_assumed(), contextlib.suppress(ArithmeticError):
        replay.evaluate(program.ancestors([node.index]))
        made = replay.env[node.index]
        return objects(made[k] if isinstance(made, tuple) else made)
    return None


def _has_slope(program: Program, node: Node) -> bool:
    """Whether the exact outputs of an op have finite derivatives along a random direction."""
    replay, world = Replay(program, []), jet_world(1)
    with precision(_BITS), ties_assumed(), contextlib.suppress(ArithmeticError):
        replay.evaluate(program.ancestors(node.inputs))
        arguments = [replay.env[j] for j in node.inputs]
        for a in node.active:
            arguments[a] = world.jet(arguments[a], directions_of(program.nodes[node.inputs[a]], replay.rng))
        made = node.apply(world, arguments)
        slopes = [objects(world.component(v, 1)) for v in (made if isinstance(made, tuple) else (made,))]
        return all(finite_ball(e) for v in slopes for e in v.ravel().tolist())
    return False


def _undefined_beside(node: Node, made: Any, place: tuple[int, ...]) -> bool:
    """True if another element of the same matrix is undefined, as after a failed factorisation."""
    if node.prim is None or node.prim.kind == "elementwise":
        return False
    return not all(map(finite_ball, objects(made[place[:-2]]).ravel().tolist()))


def masked_by_infinities(program: Program, got: list[Any]) -> bool:
    """True if sources or constants are infinite but all results are finite, as behind a softmax with a mask of -inf.

    The limits of values and derivatives may exist there. False if a value that is differentiated is NaN, because the
    function is not defined then.
    """
    given = [n for n in program.nodes if n.kind in ("leaf", "const") and np.asarray(n.output).dtype.kind == "f"]
    if not any(np.isinf(n.output).any() for n in given):
        return False
    values = [np.asarray(program.nodes[i].output) for i in program.outputs]
    if any(np.isnan(v).any() for v in values if v.dtype.kind in "fc"):
        return False
    known = [np.asarray(g) for g in got if g is not None]
    return all(np.isfinite(g).all() for g in known)


def _asked_for(node: Any) -> bool:
    """True if an exact op only moves infinities, or fills in an infinite constant by its parameter `value`."""
    if node.kind != "op":
        return False
    filling = node.params.get("value")
    if node.prim.rounding.kind != "exact":
        return False
    return node.prim.kind == "linear" or (isinstance(filling, float) and not np.isfinite(filling))


def _at_pole(node: Any, inputs: list[Any], place: tuple[int, ...]) -> bool:
    if node.prim is None or node.prim.kind != "elementwise":
        return False
    allowed = node.prim.domain.where
    if allowed is not None and all(x.dtype.kind == "f" for x in inputs):
        point = [float(np.broadcast_to(x, node.shape)[place]) for x in inputs]
        if not allowed(*point):
            return True
    for x, interval in zip(inputs, node.prim.domain.intervals, strict=False):
        if x.dtype.kind == "c" and np.isin(np.abs(x), (0.0, 1.0)).any():
            return True  # the poles of the elementary functions have modulus 0 or 1
        if x.dtype.kind == "f" and any(float(v) not in interval or v in (interval.lo, interval.hi) for v in x.ravel()):
            return True
    return False


def _matters(program: Program, node: Any, got: list[Any]) -> bool:
    # A value that a selection switched off does not matter if every number of the result is finite.
    return (
        not all(g is None or np.isfinite(np.asarray(g)).all() for g in got)
        or not any(g is not None for g in got)
        or not _switched_off(program, node)
    )


def _may_switch_off(node: Any, n: Node) -> bool:
    """Whether an op does not read the value of a node if its own result is finite.

    A factorisation, or an op that takes one triangle, does not read the NaN of the other triangle.
    """
    passes_nan = n.prim.kind in ("implicit", "linear") and node.index in n.inputs
    return n.prim.selects or (passes_nan and bool(np.isnan(node.output).any()))


def _switched_off(program: Program, node: Any) -> bool:
    """True if every path from a node to the outputs passes a selection of finite numbers."""
    open_nodes = {node.index}
    for n in program.nodes[node.index + 1 :]:
        outs = n.output if isinstance(n.output, tuple) else (n.output,)
        if n.kind == "op" and _may_switch_off(node, n) and finite(*outs):
            continue
        if any(i in open_nodes for i in n.inputs):
            open_nodes.add(n.index)
    return not (open_nodes & set(program.outputs))

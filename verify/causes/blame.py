"""Finds the ops to blame for a failed certificate, and an element that shows the error."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb

from gtape import nest
from gtape.base.verification import verifying
from gtape.engine.custom import custom_gradient
from gtape.recording.record import for_a_check_alone
from gtape.recording.undoing import repeating
from gtape.symbolic.balls import objects, precision, to_double_double
from gtape.symbolic.build import build
from gtape.symbolic.program import Node, Program
from gtape.tapes.forward import ForwardAccumulator
from gtape.tapes.tape import GradientTape
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.tensors.variable import Variable
from gtape.verify.causes.customs import (
    changing,
    faulty_customs,
    faulty_inside,
    inner_culprits,
    innermost,
    is_rounded,
    only_rounded,
    read_from_outside,
    unlike_body,
)
from gtape.verify.causes.float_range import left_the_range
from gtape.verify.oracles.certificates import Failure, certify, faulty_rules
from gtape.verify.oracles.enclosures import directions, inner, is_complex, jet_world, magnitude, turned
from gtape.verify.oracles.oracle import SWEPT, Oracle, TooDeep, varies
from gtape.verify.oracles.replay import Shared
from gtape.verify.verdicts.ulp import ROUNDINGS, ulps_between
from gtape.verify.verdicts.verdict import Finding

__all__ = ["CHANGES", "blame", "culprits", "lost_derivatives", "lost_slopes"]

# Number of sources searched for a wrong element, the likeliest first.
_SOURCES = 64
_SLOPES = 200  # bits with which derivatives of custom gradients are compared
CHANGES = "changes from call to call: it returns other numbers when it runs again"
_ELEMENTS = 64  # up to this many elements are evaluated one by one


def blame(
    program: Program,
    oracle: Oracle,
    failures: list[Failure],
    got: list[Any],
    order: int,
    trusted: frozenset[int] = frozenset(),
    harmless: Callable[..., Any] | None = None,
) -> list[Finding]:
    """Find the ops to blame for failed certificates, and an element that shows the error.

    Parameters
    ----------
    oracle : Oracle
        After its replay.
    got : list of arrays or None
        The judged numbers of each source.
    trusted : frozenset of int
        Custom gradients that differ from their bodies at kinks of the bodies alone, by conventions of their own.
    harmless : callable, optional
        ``harmless(s, exact, faulty)`` returns the mask of the numbers of source `s` whose errors have other causes than
        the nodes `faulty`, the ops to blame.

    Returns
    -------
    list of Finding
        One for each op to blame, or one finding without an op if none is found.
    """
    found = culprits(program, oracle, failures, trusted)
    faulty = frozenset([node.index for node, _ in found if node is not None])
    kept = None if harmless is None else functools.partial(harmless, faulty=faulty)
    wrong = _wrong_elements(program, oracle, got, trusted, kept)
    shown = wrong[0] | {"count": len(wrong)} if wrong else _shown(oracle, got)
    beyond = next(left_the_range(program, oracle), None) if all(node is None for node, _ in found) else None
    if beyond is not None:  # the backward ops of an inner gradient hold what became of numbers outside of their range
        (verdict, reason, op, line), _ = beyond
        return [Finding(verdict, order=order, op=op, line=line, reason=reason, ok=False, **shown)]
    findings = []
    for node, reason in found:
        told = shown
        if wrong and len(found) > 1 and node is not None:  # no element of another op; not all, if there are many
            own = [w for w in wrong[:_ELEMENTS] if _reaches(oracle, w["element"], node)]
            told = own[0] | ({"count": len(own)} if len(wrong) <= _ELEMENTS else {}) if own else {}
        verdict = "unconnected" if node is not None and reason == _reads(node) else "rule"
        if "element" in told and told.get("got") is None:
            reason += f"; source {told['element'][0]} got no gradient at all"
        findings.append(Finding(verdict, order=order, at=node, reason=reason, **told))
    return findings


def culprits(
    program: Program, oracle: Oracle, failures: list[Failure], trusted: frozenset[int] = frozenset()
) -> list[tuple[Node | None, str]]:
    """The ops to blame for failed certificates as (node, reason): at least one pair, with None for an unknown op.

    Parameters
    ----------
    oracle : Oracle
        After its replay.
    trusted : frozenset of int
        As for `blame`.
    """
    try:
        rules = faulty_rules(oracle)
    except ArithmeticError:
        rules = []
    found: list[tuple[Node | None, str]] = _named(rules)
    mark = next((f.mark for f in failures if f.mark is not None), None)
    customs = faulty_customs(oracle, without=trusted)
    # Roundings of right ones, as of a value that a container keeps, are no cause beside a wrong one.
    wrong = [f for f in customs if not is_rounded(f)]
    for f in wrong:
        found += _inside_of_custom(oracle, f)
    # A gradient that goes through NumPy has right digits, but its own derivative is lost.
    lost = faulty_customs(oracle, slopes=True) if mark is not None and not wrong else []
    if not found and mark is not None:
        found += [_lost_slope(f) for f in innermost(oracle, [f for f in lost if not is_rounded(f)], lambda f: f.node)]
        rows = oracle.shared or Shared()
        for node, times in [] if found else rows.get("wrong when differentiated", lambda: _wrong_inside(program)):
            which = "its own derivative" if times == 1 else f"its own derivative of order {times}"
            what = f"the rule of {node.name}" if node.kind == "op" else f"the gradient that {node.name} returns"
            found.append((node, f"{what} is right in value, but {which} is wrong"))
    if not found:
        found += [_lost_slope(f) for f in lost] or [one for f in customs for one in _inside_of_custom(oracle, f)]
    if not found:  # each rule is right by the arguments of its function
        found += [(n, _reads(n)) for n in program.nodes if n.kind == "custom" and read_from_outside(program, n)]
    if not found:
        # A custom gradient is the likeliest culprit, because the searches above may not follow it.
        users = [n for n in program.nodes if n.kind == "custom" and n.prim.declared is None]
        likely = users[0] if users else None if mark is not None else failures[0].node
        what = f"the {failures[0].what} is not the exact one ({_by(failures[0])})"
        found.append((likely, what))
    return found


def _inside_of_custom(oracle: Oracle, f: Failure) -> list[tuple[Node | None, str]]:
    """The ops to blame for a wrong custom gradient: those in its body, or the custom gradient itself."""
    assert f.node is not None
    if _changes(f):
        return [(f.node, f"the gradient that {f.node.name} returns {CHANGES} ({_by(f)})")]
    deeper = inner_culprits(oracle, f.node) or _named(faulty_inside(oracle, f.node))
    beyond = f"; {_reads(f.node)}" if read_from_outside(oracle.program, f.node) else ""
    return [*deeper] or [(f.node, f"{unlike_body(oracle, f.node, _by(f))}{beyond}")]


def _reads(node: Node) -> str:
    """The fault of a custom gradient that reads more than its arguments."""
    return (
        f"{node.name} uses a tensor from outside that depends on a source, and its gradient function returns no "
        "gradient for this tensor: pass the tensor as an argument"
    )


def _changes(f: Failure) -> bool:
    """Whether a wrong custom gradient returns other numbers, by a share of its error, when it runs again."""
    node = f.node
    assert node is not None
    outs = node.output if isinstance(node.output, tuple) else (node.output,)
    ones = tuple([np.ones_like(o) for o in outs])
    try:
        return bool(changing([node], lambda _: ones if isinstance(node.output, tuple) else ones[0], f.error))
    except Exception:  # the function of a user may raise anything
        return False


def _lost_slope(f: Failure) -> tuple[Node | None, str]:
    """A custom gradient with a wrong derivative, and the reason."""
    assert f.node is not None
    reason = f"the gradient that {f.node.name} returns is right in value, but its own derivative is not that of"
    return f.node, f"{reason} its body ({_by(f)})"


def _by(failure: Failure) -> str:
    return f"relative error {failure.shown:.3g} {failure.place}"


def _named(rules: list[Failure]) -> list[tuple[Node | None, str]]:
    """Ops with a wrong rule, each with the reason."""
    return [
        (f.node, f"the rule of {f.node.name} is not the derivative of {f.node.name} ({_by(f)})")
        for f in rules
        if f.node is not None
    ]


_RIGHT_IN_VALUE = "the rule of {} is right in value, but its own derivative is wrong"


def lost_derivatives(program: Program) -> list[tuple[Node, str]]:
    """The ops of a program whose rules have a wrong derivative, each with the reason."""
    return [(n, _RIGHT_IN_VALUE.format(n.name)) for n, _ in _wrong_when_differentiated(program, program.outputs)]


def lost_slopes(program: Program) -> list[tuple[Node, str]]:
    """The custom gradients that are right in value, but whose own derivative is wrong, each with the reason.

    The gradient of the program need not have a record, as if custom gradients compute through NumPy.
    """
    rng = np.random.default_rng(len(program))
    outputs = [np.asarray(program.nodes[i].output) for i in program.outputs]
    oracle = Oracle(program, [rng.uniform(1.0, 2.0, y.shape) if y.dtype.kind in "fc" else None for y in outputs])
    with precision(_SLOPES), np.errstate(all="ignore"):
        try:
            oracle.replay()
            failures = [f for f in faulty_customs(oracle, slopes=True) if not is_rounded(f)]
        except (ArithmeticError, TooDeep):
            return []
    found = [_lost_slope(f) for f in innermost(oracle, failures, lambda f: f.node)]
    return [(node, reason) for node, reason in found if node is not None]


def _wrong_when_differentiated(program: Program, targets: list[int]) -> list[tuple[Node, int]]:
    """The ops behind some nodes whose rule has a wrong derivative, tested alone at the recorded inputs.

    Returns
    -------
    list of (Node, int)
        The node, and the order of the rule's derivative that is wrong: the lowest, because an op that is wrong later
        may only use one that is wrong earlier.
    """
    inside = program.ancestors(targets)
    ways = (False, True) if any(n.mark is not None and n.mark.form == "jvp" for n in program.nodes) else (False,)
    for times in range(1, max(1, _nesting(program)) + 1):
        found: dict[str, tuple[Node, int]] = {}
        for i in inside:
            node = program.nodes[i]
            if node.kind not in ("op", "custom") or not node.active or node.name in found:
                continue
            lost = times == 1 and node.kind == "op" and _loses_its_cotangent(program, node)
            if lost or any(_wrong_alone(program, node, times, forward=forward) for forward in ways):
                found[node.name] = node, times
        if found:
            return list(found.values())
    return []


def _wrong_inside(program: Program) -> list[tuple[Node, int]]:
    """As `_wrong_when_differentiated`, for the ops behind all inner gradients, which depend on no cotangent."""
    return _wrong_when_differentiated(program, sorted(program.differentiated))


def _nesting(program: Program) -> int:
    """How many gradients of a program are nested in each other."""
    depths: list[int] = []
    for node in program.nodes:
        below = max([depths[i] for i in (*node.inputs, *node.body)], default=0)
        if node.mark is not None:
            below = max(below, 1 + max([depths[i] for i in node.mark.targets], default=0))
        depths.append(below)
    return max(depths, default=0)


def _wrong_alone(program: Program, node: Node, times: int, *, forward: bool) -> bool:
    """True if a derivative of an op, differentiated `times` times, is certainly wrong at the recorded inputs.

    Parameters
    ----------
    forward : bool
        Whether the first derivative is that of forward mode.
    """
    try:
        sources, run = _alone(program, node)
    except (TypeError, ValueError):
        return False
    if not sources:
        return False
    level = run if not forward else lambda: _tangents(sources, run)
    for _ in range(times - 1 if forward else times):
        level = functools.partial(_gradients, sources, level)
    with repeating(), GradientTape(verify=True) as tape:
        tape.watch(sources)
        made = level()
    alone = build([(g._record, g._value) for g in made], sources)
    if not any(n.mark is not None for n in alone.nodes):
        return False
    return _is_wrong(alone, made)


def _loses_its_cotangent(program: Program, node: Node) -> bool:
    """True if an op's rule is certainly wrong when it is differentiated by the cotangent that arrives, too."""
    inputs = [wrap(np.asarray(program.nodes[j].output)) for j in node.inputs]
    sources = [inputs[a] for a in node.active]
    outputs = node.output if isinstance(node.output, tuple) else (node.output,)
    weights = [wrap(np.ones_like(y)) for y in map(np.asarray, outputs) if y.dtype.kind in "fc"]
    with GradientTape(verify=True) as outer:
        outer.watch([*sources, *weights])
        with GradientTape(verify=False) as inner_tape:
            inner_tape.watch(sources)
            y = _floating(node.prim(*inputs, **node.params))
        # A lookup's gradient comes as slices.
        made = inner_tape.gradient(y, sources, output_gradients=weights)
        first = [convert_to_tensor(g) for g in made if g is not None]
    if any(g._record is None or for_a_check_alone(g._record) for g in first):  # a rule that hides even its cotangent
        return True
    alone = build([(g._record, g._value) for g in first], [*sources, *weights])
    if not any(n.mark is not None for n in alone.nodes):
        return False
    return _is_wrong(alone, first)


def _is_wrong(alone: Program, made: list[Any]) -> bool:
    """True if the gradient of the sum of a program's outputs is certainly wrong, by more than roundings."""
    oracle = Oracle(alone, [np.ones_like(np.asarray(g._value)) for g in made])
    try:
        oracle.evaluate()
        failures = certify(oracle, oracle.replay())
        small = only_rounded(oracle, failures, ROUNDINGS) if failures else 0.0
        return any(f.error > small for f in failures)
    except (ArithmeticError, TooDeep):
        return False


def _gradients(sources: list[Any], run: Callable[[], list[Any]]) -> list[Any]:
    """The gradients of all that a function returns; dense, although a lookup's gradient comes as slices."""
    with GradientTape(verify=False) as tape:
        tape.watch(sources)
        made = run()
    return [convert_to_tensor(g) for g in tape.gradient(made, sources) if g is not None]


def _tangents(sources: list[Any], run: Callable[[], list[Any]]) -> list[Any]:
    """The tangents of all that a function returns along ones."""
    ones = [wrap(np.ones_like(np.asarray(s._value))) for s in sources]
    with verifying(False), ForwardAccumulator(sources, ones) as accumulator:
        made = run()
    return [t for t in accumulator.jvp(made) if t is not None]


def _alone(program: Program, node: Node) -> tuple[list[Any], Callable[[], list[Any]]]:
    """Fresh tensors for the inputs by which an op is differentiated, and a function that runs the op on them."""
    if node.kind == "op":
        inputs = [wrap(np.asarray(program.nodes[j].output)) for j in node.inputs]
        return [inputs[a] for a in node.active], lambda: _floating(node.prim(*inputs, **node.params))
    function, args, kwargs = node.call
    flat = [wrap(x._value) if isinstance(x, (Tensor, Variable)) else x for x in nest.flatten(list(args))]
    fresh = nest.pack_sequence_as(list(args), flat)
    sources = [x for x in flat if isinstance(x, Tensor) and x._layout.inexact]

    def run() -> list[Any]:
        alone: Callable[..., Any] = custom_gradient(function, declared=node.prim.declared)
        return _floating(alone(*fresh, **kwargs))

    return sources, run


def _floating(outputs: Any) -> list[Any]:
    return [t for t in nest.flatten(outputs) if t._layout.inexact]


def _wrong_elements(
    program: Program,
    oracle: Oracle,
    got: list[Any],
    trusted: frozenset[int],
    harmless: Callable[[int, Any], Any] | None,
) -> list[dict[str, Any]]:
    """Each wrong element as fields of a finding, the farthest one first; none where evaluating all would take long."""
    sizes = [_count(oracle, s) if nodes else 0 for s, nodes in enumerate(program.sources)]
    exact: list[Any] | None = None
    try:
        if sum(sizes) > _ELEMENTS or trusted:
            if not any(g is not None and np.iscomplexobj(g) for g in got):
                exact = _by_bodies(program, oracle, trusted)
            if exact is None:
                return []
        elif sum(sizes) > SWEPT:
            exact = oracle.by_sweeps()
        every = [
            _compared(oracle, got, s, index, exact)
            for s, size in enumerate(sizes)
            if size
            for index in np.ndindex(*_shape(oracle, s))
        ]
    except (ArithmeticError, TooDeep):
        return []
    wrong = [w for w in every if w and w.get("ulps", np.inf) > ROUNDINGS]
    if harmless is not None and len(wrong) > 1:
        wrong = _without_harmless(wrong, every, got, harmless) or wrong
    return sorted(wrong, key=lambda w: -w.get("ulps", np.inf))


def _without_harmless(
    wrong: list[dict[str, Any]], every: list[dict[str, Any]], got: list[Any], harmless: Callable[[int, Any], Any]
) -> list[dict[str, Any]]:
    """The wrong elements without those whose errors have other causes, such as roundings that the problem magnifies."""
    masks: dict[int, Any] = {}
    for s in {w["element"][0] for w in wrong if "got" in w}:
        exact = np.full(np.shape(got[s]), arb("nan"), dtype=object)
        for w in every:
            if w and w["element"][0] == s:
                exact[w["element"][1]] = w["exact"]
        masks[s] = harmless(s, exact)
    return [w for w in wrong if w["element"][0] not in masks or not masks[w["element"][0]][w["element"][1]]]


def _by_bodies(program: Program, oracle: Oracle, trusted: frozenset[int]) -> list[Any] | None:
    """The gradient through the bodies of all custom gradients but the trusted ones; None if another rule is wrong."""
    right = Oracle(program, oracle.seeds, by_bodies=True)
    right.trusted = trusted
    right.evaluate()
    exact = right.replay()
    wrong = faulty_rules(right) if trusted else certify(right, exact)
    return None if wrong else exact


def _reaches(oracle: Oracle, place: tuple[int, tuple[int, ...]], node: Node) -> bool:
    """Whether an input of an op moves with an element of a source."""
    s, index = place
    sources = oracle.program.sources[s]
    way = objects(np.zeros(_shape(oracle, s), dtype=int).astype(object))
    way[index] = 1
    only = oracle.program.ancestors(node.inputs)
    try:
        moved = oracle.jets(1, {i: [way] for i in sources}, only)
    except (ArithmeticError, TooDeep):
        return True
    world = jet_world(1)
    return any(
        varies(moved[j]) and any(e != 0 for e in objects(world.component(moved[j], 1)).ravel().tolist())
        for j in node.inputs
    )


def _shown(oracle: Oracle, got: list[Any]) -> dict[str, Any]:
    """A wrong element with its number, the exact number and their distance, as fields of a finding."""
    try:
        replayed = oracle.replay()
    except ArithmeticError:
        return {}
    found: list[tuple[float, int, Any]] = []
    for s in _likely_first(oracle, got):
        off, places = _suspected(oracle, replayed, s)
        if off > 0:
            found.append((off, s, places))
    if not found:
        return {}
    _, s, places = max(found, key=lambda one: one[:2])
    while len(places) > 1:
        halves = np.array_split(places, 2)
        places = max(halves, key=lambda half: _off(oracle, replayed, s, half))
    return _compared(oracle, got, s, tuple(int(i) for i in np.unravel_index(int(places[0]), _shape(oracle, s))))


def _suspected(oracle: Oracle, replayed: list[Any], s: int) -> tuple[float, Any]:
    """The error of a gradient along random directions of some elements of a source, and the places of these elements:
    all, or only those with the replayed gradient 0, whose errors others may hide.
    """
    every = np.arange(_count(oracle, s))
    off = _off(oracle, replayed, s, every)
    if replayed[s] is None or off > 0:
        return off, every
    zeros = every[np.equal(objects(replayed[s]).ravel(), 0).astype(bool)]
    return (_off(oracle, replayed, s, zeros), zeros) if 0 < zeros.size < every.size else (off, every)


def _likely_first(oracle: Oracle, got: list[Any]) -> list[int]:
    sources = [s for s, nodes in enumerate(oracle.program.sources) if nodes and _count(oracle, s)]
    return sorted(sources, key=lambda s: got[s] is not None)[:_SOURCES]


def _shape(oracle: Oracle, s: int) -> tuple[int, ...]:
    return oracle.program.nodes[oracle.program.sources[s][0]].shape


def _count(oracle: Oracle, s: int) -> int:
    return int(np.prod(_shape(oracle, s)))


def _off(oracle: Oracle, replayed: list[Any], s: int, places: Any) -> float:
    """The relative error of the replayed gradient along a random direction of some elements."""
    node = oracle.program.nodes[oracle.program.sources[s][0]]
    u = np.zeros(_count(oracle, s), dtype=object)
    u[...] = 0
    u[places] = directions((len(places),), oracle.rng, complex=is_complex(node.output))
    u = u.reshape(node.shape)
    try:
        exact = oracle.slope(s, u)
    except (ArithmeticError, TooDeep):
        return 0.0
    made = replayed[s]
    difference = exact if made is None else inner(u, made) - exact
    if not difference.is_finite() or difference.contains(0):
        return 0.0
    size = abs(exact) if made is None else magnitude(u, made) + abs(exact)
    return float(abs(difference) / size)


def _compared(
    oracle: Oracle, got: list[Any], s: int, index: tuple[int, ...], exact: list[Any] | None = None
) -> dict[str, Any]:
    """One element as fields of a finding, with its exact number from `exact` if given; none for a missing 0."""
    if exact is not None:
        x = arb(0) if exact[s] is None else objects(np.broadcast_to(objects(exact[s]), _shape(oracle, s)))[index]
    else:
        try:
            x = oracle.along(s, index)
        except (ArithmeticError, TooDeep):
            return {}
    if got[s] is None:
        return {} if x == 0 else {"element": (s, index), "exact": x}
    g = np.asarray(got[s])
    x = turned(x).item() if g.dtype.kind == "c" else x
    high, low = to_double_double(objects(x))
    ulps = float(ulps_between(g[index], high, low, g.dtype))
    return {"element": (s, index), "got": g[index].item(), "exact": x, "ulps": ulps}

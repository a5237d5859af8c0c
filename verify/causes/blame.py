"""Finds the ops to blame for a failed certificate, and an element that shows the error."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.balls import digits, objects, to_double_double
from gtape.symbolic.build import build
from gtape.symbolic.program import Node, Program
from gtape.tapes.tape import GradientTape
from gtape.tensors.tensor import convert_to_tensor, wrap
from gtape.verify.causes.customs import faulty_customs, faulty_inside, inner_culprits
from gtape.verify.oracles.certificates import Failure, certify, faulty_rules
from gtape.verify.oracles.enclosures import directions, inner, is_complex, magnitude, turned
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.verdicts.ulp import ulps_between
from gtape.verify.verdicts.verdict import Finding

__all__ = ["blame", "culprits", "lost_derivatives"]

# Number of sources searched for a wrong element, the likeliest first.
_SOURCES = 64


def blame(program: Program, oracle: Oracle, failures: list[Failure], got: list[Any], order: int) -> list[Finding]:
    """Find the ops to blame for failed certificates, and an element that shows the error.

    Parameters
    ----------
    oracle : Oracle
        After its replay.
    got : list of arrays or None
        The judged numbers of each source.

    Returns
    -------
    list of Finding
        One for each op to blame, or one finding without an op if none is found.
    """
    shown = _shown(oracle, got)
    if "element" in shown and shown.get("got") is None:
        nothing = f"; source {shown['element'][0]} got no gradient at all"
    else:
        nothing = ""
    return [
        Finding("rule", order=order, at=node, reason=reason + nothing, **shown)
        for node, reason in culprits(program, oracle, failures)
    ]


def culprits(program: Program, oracle: Oracle, failures: list[Failure]) -> list[tuple[Node | None, str]]:
    """The ops to blame for failed certificates as (node, reason): at least one pair, with None for an unknown op.

    Parameters
    ----------
    oracle : Oracle
        After its replay.
    """
    try:
        rules = faulty_rules(oracle)
    except ArithmeticError:
        rules = []
    found: list[tuple[Node | None, str]] = _named(rules)
    for f in faulty_customs(oracle):
        assert f.node is not None
        deeper = inner_culprits(oracle, f.node) or _named(faulty_inside(oracle, f.node))
        if deeper:
            found += deeper
            continue
        reason = f"the gradient that {f.node.name} returns is not the derivative of its body"
        found.append((f.node, f"{reason} ({_by(f)})"))
    mark = next((f.mark for f in failures if f.mark is not None), None)
    if not found and mark is not None:
        for f in faulty_customs(oracle, slopes=True):
            assert f.node is not None
            reason = f"the gradient that {f.node.name} returns is right in value, but its own derivative is not that of"
            found.append((f.node, f"{reason} its body ({_by(f)})"))
        for node in _wrong_when_differentiated(program, mark.targets):
            found.append((node, _RIGHT_IN_VALUE.format(node.name)))
    if not found:
        # A custom gradient is the likeliest culprit, because the searches above may not follow it.
        customs = [n for n in program.nodes if n.kind == "custom" and n.prim.declared is None]
        likely = customs[0] if customs else None if mark is not None else failures[0].node
        what = f"the {failures[0].what} disagrees with the mirrors ({_by(failures[0])})"
        found.append((likely, what))
    return found


def _by(failure: Failure) -> str:
    return f"relative error {failure.error:.3g} along a random direction"


def _named(rules: list[Failure]) -> list[tuple[Node | None, str]]:
    """Ops with a wrong rule, each with the reason."""
    return [
        (f.node, f"the rule of {f.node.name} is not the derivative of its mirror ({_by(f)})")
        for f in rules
        if f.node is not None
    ]


_RIGHT_IN_VALUE = "the rule of {} is right in value, but its own derivative is wrong"


def lost_derivatives(program: Program) -> list[tuple[Node, str]]:
    """The ops of a program whose rules have a wrong derivative, each with the reason."""
    return [(n, _RIGHT_IN_VALUE.format(n.name)) for n in _wrong_when_differentiated(program, program.outputs)]


def _wrong_when_differentiated(program: Program, targets: list[int]) -> list[Node]:
    """The ops behind some nodes whose rule has a wrong derivative, tested alone at the recorded inputs."""
    found: dict[str, Any] = {}
    for i in program.ancestors(targets):
        node = program.nodes[i]
        if node.kind != "op" or not node.active or isinstance(node.output, tuple) or node.name in found:
            continue
        inputs = [wrap(np.asarray(program.nodes[j].output)) for j in node.inputs]
        sources = [inputs[a] for a in node.active]
        weight = wrap(np.ones_like(np.asarray(node.output)))
        with GradientTape(verify=True) as outer:
            outer.watch([*sources, weight])
            with GradientTape(verify=False) as inner_tape:
                inner_tape.watch(sources)
                y = node.prim(*inputs, **node.params)
            # A lookup's gradient comes as slices.
            made = inner_tape.gradient(y, sources, output_gradients=weight)
            first = [convert_to_tensor(g) for g in made if g is not None]
        if any(g._record is None for g in first):  # a rule that hides even what arrives
            found[node.name] = node
            continue
        sources = [*sources, weight]
        alone = build([(g._record, g._value) for g in first], sources)
        if not any(n.mark is not None for n in alone.nodes):
            continue
        oracle = Oracle(alone, [np.ones_like(np.asarray(g._value)) for g in first])
        try:
            oracle.evaluate()
            if certify(oracle, oracle.replay()):
                found[node.name] = node
        except (ArithmeticError, TooDeep):
            continue
    return list(found.values())


def _shown(oracle: Oracle, got: list[Any]) -> dict[str, Any]:
    """A wrong element with its number, the exact number and their distance, as fields of a finding."""
    try:
        replayed = oracle.replay()
    except ArithmeticError:
        return {}
    found: list[tuple[float, int]] = []
    for s in _likely_first(oracle, got):
        off = _off(oracle, replayed, s, np.arange(_count(oracle, s)))
        if off > 0:
            found.append((off, s))
    if not found:
        return {}
    s = max(found)[1]
    places = np.arange(_count(oracle, s))
    while len(places) > 1:
        halves = np.array_split(places, 2)
        places = max(halves, key=lambda half: _off(oracle, replayed, s, half))
    return _compared(oracle, got, s, tuple(int(i) for i in np.unravel_index(int(places[0]), _shape(oracle, s))))


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


def _compared(oracle: Oracle, got: list[Any], s: int, index: tuple[int, ...]) -> dict[str, Any]:
    try:
        x = oracle.along(s, index)
    except (ArithmeticError, TooDeep):
        return {}
    if got[s] is None:
        return {"element": (s, index), "exact": digits(x)}
    g = np.asarray(got[s])
    x = turned(x).item() if g.dtype.kind == "c" else x
    high, low = to_double_double(objects(x))
    ulps = float(ulps_between(g[index], high, low, g.dtype))
    return {"element": (s, index), "got": g[index].item(), "exact": digits(x), "ulps": ulps}

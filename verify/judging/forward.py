"""Tangents of a program as forward mode computes them: exactly, with noise, and op by op."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from gtape.base.deadline import tick
from gtape.engine.worlds import COMPLEX
from gtape.recording.undoing import repeating
from gtape.symbolic.balls import Undecided, objects
from gtape.symbolic.program import Node, Program
from gtape.tapes.forward import jvp_of
from gtape.tensors.tensor import wrap
from gtape.verify.bounds.excess import excess
from gtape.verify.bounds.local import Local, finite, shown
from gtape.verify.bounds.noise import noisy_values
from gtape.verify.bounds.running_error import Err, ErrorWorld
from gtape.verify.bounds.terms import TermWorld, sizes_of, values_with_errors, without_error
from gtape.verify.causes.customs import ones_like
from gtape.verify.oracles.along import is_linear, multilinear
from gtape.verify.oracles.enclosures import BALLS, is_complex, is_floating, jet_world, plus, zeros
from gtape.verify.oracles.forward import Pushing, forward
from gtape.verify.oracles.oracle import Oracle, TooDeep, factorises
from gtape.verify.verdicts.ulp import spacing, widest
from gtape.verify.verdicts.verdict import Finding

__all__ = ["ForwardOracle", "check_forward_rules", "check_tangents_locally", "noisy_tangent", "terms_of_tangent"]

_CLOSE = 64.0  # units of the largest value


class ForwardOracle(Oracle):
    """The oracle of forward mode, which transposes the cotangents that a declared custom gradient returns."""

    def __init__(self, program: Program, seeds: list[Any]) -> None:
        super().__init__(program, seeds)
        self.switched = True  # assumed, because no replay has looked

    def _declared(self, k: int, node: Node, env: dict[int, Any]) -> Any:
        if k > 1:
            return super()._declared(k, node, env)
        if is_complex(node.output) or any(is_complex(self.program.nodes[j].output) for j in node.inputs):
            raise TooDeep(f"the declared custom gradient {node.name!r} of complex numbers is not followed forwards")
        world, ones = jet_world(1), ones_like(node)
        sub, outputs, values = self.custom_back(node, ones)
        back = Oracle(sub, [])
        back.env = values
        start: dict[int, Any] = {}
        for a, o in zip(node.active, outputs, strict=True):
            if o is not None:
                t = world.component(env[node.inputs[a]], 1)
                start[o] = plus(start[o], t) if o in start else t
        arrived = back.sweep(start)
        outs = self.env[node.index] if isinstance(node.output, tuple) else (self.env[node.index],)
        made = []
        for one, v in zip(ones, outs, strict=True):
            here = [i for i, known in values.items() if known is one and i in arrived]
            made.append(world.jet(v, arrived[here[0]] if here else zeros(np.shape(v))))
        return tuple(made) if isinstance(node.output, tuple) else made[0]


def _pushed(world: Any, node: Node, ts: list[Any], y: Any, xs: tuple[Any, ...]) -> Any:
    """The tangent of one op by its own rule, in a world."""
    shape = () if isinstance(y, tuple) else tuple(np.shape(y))
    return jvp_of(world, node.prim, ts, y, xs, node.params, shape)


def _through_custom(node: Node, ts: list[Any]) -> Any:
    """The tangent of a custom gradient's output in floats, as forward mode computes it."""
    outs = node.output if isinstance(node.output, tuple) else (node.output,)
    dtype = np.asarray(outs[0]).dtype
    tensors = [None if t is None else wrap(np.asarray(t).astype(dtype)) for t in ts]
    out: Any = tuple([wrap(o) for o in outs]) if isinstance(node.output, tuple) else wrap(outs[0])
    with repeating():
        made = node.step.jvp_custom(tensors, (), out)
    if made is None:
        return None
    return tuple([m if m is None else np.asarray(m._value) for m in made]) if isinstance(out, tuple) else made._value


class _Noisy(Pushing):
    """Tangents in a noisy world; a custom gradient has the tangent of its body."""

    def __init__(self, program: Program, world: Any) -> None:
        super().__init__(program)
        self.world, self.env = world, noisy_values(program, world)

    def op(self, node: Node, moving: dict[int, Any]) -> Any:
        t = super().op(node, moving)
        if t is None and node.index in self.world.nudged_nodes and not isinstance(node.output, tuple):
            t = np.zeros(node.shape)  # a path that a rule lost
        return t if t is None else self.world.nudge(node.index, t)

    def custom(self, node: Node, moving: dict[int, Any]) -> Any:
        return _through_custom(node, self.arriving(node, moving))

    def rule(self, node: Node, ts: list[Any]) -> Any:
        t = _pushed(self.world, node, ts, self.env[node.index], tuple([self.env[j] for j in node.inputs]))
        if node.prim.kind == "linear" or t is None:
            return t
        return tuple([self.world.rounded(v) for v in t]) if isinstance(t, tuple) else self.world.rounded(t)


class _OfTerms(_Noisy):
    """Tangents with the errors of their terms."""

    def __init__(self, program: Program, world: TermWorld) -> None:
        Pushing.__init__(self, program)
        self.world, self.env = world, values_with_errors(program, world)

    def op(self, node: Node, moving: dict[int, Any]) -> Any:
        return Pushing.op(self, node, moving)

    def custom(self, node: Node, moving: dict[int, Any]) -> Any:
        return _through_custom(node, [t if t is None else without_error(t) for t in self.arriving(node, moving)])


class _Local(Pushing):
    """Tangents in floats, each compared with the op's exact tangent for the tangents that arrived."""

    def __init__(self, local: Local) -> None:
        super().__init__(local.program)
        self.local = local

    def through_body(self, node: Node) -> bool:
        return False

    def custom(self, node: Node, moving: dict[int, Any]) -> Any:
        return _through_custom(node, self.arriving(node, moving))

    def rule(self, node: Node, ts: list[Any]) -> Any:
        return _one_op(self.local, node, ts)


def noisy_tangent(program: Program, tangents: list[Any], world: Any) -> Any:
    """The tangent of the output in a noisy world; a custom gradient has the tangent of its body.

    Parameters
    ----------
    tangents : list of arrays
        One for each source.
    world : NoiseWorld
    """
    start = {i: widest(t) for nodes, t in zip(program.sources, tangents, strict=True) for i in nodes}
    found = forward(program, start, _Noisy(program, world))[program.outputs[0]]
    return np.zeros(program.nodes[program.outputs[0]].shape) if found is None else widest(found)


def terms_of_tangent(program: Program, tangents: list[Any], exact: dict[int, Any]) -> list[Any]:
    """The sizes of the terms of each element of the output's tangent, in a list.

    Parameters
    ----------
    tangents : list of arrays
        One for each source.
    exact : dict
        Exact values of the program's nodes.
    """
    start = {i: widest(t) for nodes, t in zip(program.sources, tangents, strict=True) for i in nodes}
    return sizes_of(lambda world: [forward(program, start, _OfTerms(program, world))[program.outputs[0]]], exact)


def check_tangents_locally(program: Program, tangents: list[Any], exact: dict[int, Any]) -> list[Finding]:
    """Check every op, and every tangent that its rule makes, at the recorded numbers.

    Parameters
    ----------
    tangents : list of arrays
        One for each source.
    exact : dict
        Exact values of the program's nodes, at the precision in force.

    Returns
    -------
    list of Finding
        Empty if all numbers are within bounds.
    """
    local = Local(program, exact)
    local.values()
    start = {i: np.asarray(t) for nodes, t in zip(program.sources, tangents, strict=True) for i in nodes}
    forward(program, start, _Local(local))
    return local.findings


def check_forward_rules(program: Program) -> list[Finding]:
    """Check the rules of forward mode that no gradient uses: rules that are declared in addition to the rules of
    reverse mode.

    Each op is checked by itself, along one random direction, once for each shape of its inputs, because a right
    gradient says nothing about these rules.

    Returns
    -------
    list of Finding
        Empty if all tangents are within bounds.
    """
    local = Local(program, {})
    rng = np.random.default_rng(0)
    known = set()
    for node in program.nodes:
        if node.kind != "op" or not node.active or not _apart(node) or (factorises(node) and _has_close_values(node)):
            continue
        values = [local.arrays[j] for j in node.inputs]
        key = (node.name, repr(node.params), node.active, tuple([(v.shape, v.dtype.name) for v in values]))
        if key in known:
            continue
        known.add(key)
        tick()
        # Equal eigenvalues, for example, leave the mirror's tangent undecided; the check of the gradient decides then.
        with contextlib.suppress(Undecided):
            _one_op(local, node, [_direction(v, rng) if a in node.active else None for a, v in enumerate(values)])
    return local.findings


def _has_close_values(node: Node) -> bool:
    """Whether eigenvalues or singular values are equal up to rounding, so that their vectors may be any in a plane.

    The tangent of a single value then depends on the vectors, and the check of the gradient decides.
    """
    values = np.asarray(node.output[0] if isinstance(node.output, tuple) else node.output)
    if values.dtype.kind not in "fc" or values.ndim == 0 or values.shape[-1] < 2:
        return False
    room = _CLOSE * float(np.finfo(values.dtype).eps) * np.max(np.abs(values), axis=-1, initial=0.0)
    gaps = np.abs(values[..., :, None] - values[..., None, :])
    gaps[..., np.arange(values.shape[-1]), np.arange(values.shape[-1])] = np.inf
    return bool((gaps.min(axis=(-2, -1)) <= room).any())


def _apart(node: Node) -> bool:
    """Whether an op has a rule of forward mode of its own; others derive theirs from the rules of reverse mode."""
    jvp = node.prim.jvp
    return node.prim.kind in ("general", "implicit") and isinstance(jvp, tuple) and any(map(callable, jvp))


def _direction(v: Any, rng: Any) -> Any:
    t = rng.uniform(0.5, 1.5, v.shape)
    return (t + 1j * rng.uniform(0.5, 1.5, v.shape) if v.dtype.kind == "c" else t).astype(v.dtype)


def _exact_tangents(local: Local, task: Any, tangents: dict[int, Any]) -> list[Any]:
    """The derivative of an op's mirror at its recorded inputs along tangents of some arguments, for each output."""
    node, xs = task.node, [local.balls(task, a) for a in range(len(task.values))]
    ts = {a: BALLS.lift(t) for a, t in tangents.items()}
    if is_linear(node, list(ts)):
        return [multilinear(BALLS, node, xs, ts)]
    world = jet_world(1)
    y = node.apply(world, [world.jet(x, ts[a]) if a in ts else x for a, x in enumerate(xs)])
    return [objects(world.component(v, 1)) for v in (y if isinstance(y, tuple) else (y,))]


def _one_op(local: Local, node: Node, ts: list[Any]) -> Any:
    """One op's tangent as forward mode computes it; adds a finding if the tangent exceeds its bound."""
    task = local.alone(node)
    values = task.values
    several = isinstance(node.output, tuple)
    outputs = tuple([np.asarray(v) for v in node.output]) if several else (np.asarray(node.output),)
    ts = [None if t is None else np.asarray(t) for t in ts]
    made = _pushed(COMPLEX, node, ts, outputs if several else outputs[0], tuple(values))
    parts = made if isinstance(made, tuple) else (made,)
    if made is None or not is_floating(node.output) or not finite(*values, *outputs, *[t for t in ts if t is not None]):
        return made
    along = _exact_tangents(local, task, {a: t for a, t in enumerate(ts) if t is not None and node.prim.connected(a)})
    dtype = next(v.dtype for v in outputs if v.dtype.kind in "fc")
    own = task.own_error()
    rounded = tuple([Err(v, e, dtype) for v, e in zip(outputs, own if several else (own,), strict=True)])
    wrapped = tuple([Err(v, 0.0, v.dtype) if v.dtype.kind in "fc" else v for v in values])
    errors = [None if t is None else Err(t, 0.0, dtype) for t in ts]
    bounds = _pushed(ErrorWorld(dtype), node, errors, rounded if several else rounded[0], wrapped)
    each = zip(along, parts, bounds if several else (bounds,), strict=True)
    for k, (exact, t, b) in enumerate(each):
        t = np.asarray(t)
        exact = objects(np.broadcast_to(exact, t.shape))
        bound = (b.e if isinstance(b, Err) else 0.0) + spacing(0.0, dtype)
        worst = excess(t, exact, bound)
        if worst is not None:
            reason = (
                f"the tangent that {node.name} makes, at its recorded inputs, is {worst[0]:.3g} times its bound off"
            )
            local.wrong(node, (1, node.index, k), reason, element=("tangent", worst[1]), **shown(t, exact, worst[1]))
    return made

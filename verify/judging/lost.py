"""Derivatives that no tape follows: a gradient without a record, although the function has a second derivative."""

from __future__ import annotations

import numpy as np
from flint import arb

from gtape.recording.record import off
from gtape.symbolic.balls import objects, precision
from gtape.symbolic.build import build
from gtape.verify.causes.blame import lost_derivatives
from gtape.verify.judging.recording import Recording
from gtape.verify.oracles.certificates import directions_of
from gtape.verify.oracles.enclosures import inner, is_complex, is_floating, jet_world
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.verdicts.verdict import Finding

__all__ = ["lost_rows"]

_BITS = 200


def lost_rows(recording: Recording) -> list[Finding]:
    """The findings for gradients that are constants on the tape, but not exactly.

    A rule that hides what it makes from an outer tape makes such gradients. Jets of the function along two random
    directions tell.

    Parameters
    ----------
    recording : Recording
        Of order 2.
    """
    level = recording.levels[1]
    lost = [i for i, g in enumerate(level) if g is not None and g._record is None and g._layout.inexact]
    if not lost:
        return []
    program = build([(t._record, t._value) for t in recording.outputs], recording.inputs)
    if any(is_complex(n.output) for n in program.nodes if is_floating(n.output)):
        return []
    only, world = program.ancestors(program.outputs), jet_world(2)
    found = []
    with off(), precision(_BITS):
        oracle = Oracle(program, [])
        try:
            oracle.evaluate()
            for i in lost:
                tangents = {}
                for s, nodes in enumerate(program.sources):
                    if nodes:
                        v = directions_of(program.nodes[nodes[0]], oracle.rng)
                        u = directions_of(program.nodes[nodes[0]], oracle.rng) if s == i else None
                        tangents.update({j: [u, v] for j in nodes})
                env = oracle.jets(2, tangents, only, None, (program.session, program.session))
                total = arb(0)
                for o in program.outputs:
                    along = objects(world.component(env[o], 3))
                    total = total + inner(np.ones(np.shape(along), dtype=object), along)
                if total.is_finite() and not total.contains(0):
                    found.append(i)
        except (ArithmeticError, TooDeep):
            return []
    if not found:
        return []
    reason = f"the gradient by argument {found[0]} is a constant on the tape, but the function has a second derivative"
    culprits = lost_derivatives(program)
    return [Finding("rule", order=2, at=n, reason=f"{reason}: {why}") for n, why in culprits] or [
        Finding("unconnected", order=2, reason=reason)
    ]

"""What the verify flag does for forward mode: a jvp against the jets of the mirrors."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from gtape import record
from gtape.forward import jvp_of
from gtape.symbolic.balls import Undecided, digits, objects, precision, radius, ties_assumed, to_double_double
from gtape.symbolic.implicit import bases_turned, degenerate_noted
from gtape.symbolic.program import Program, build
from gtape.verify.noise_world import NoiseWorld, spread_of
from gtape.verify.certificates import certify_marks
from gtape.verify.comparison import ROUNDINGS
from gtape.verify.enclosures import jet_world
from gtape.verify.examine import PRECISIONS, TIES, _degenerate, differ, settle
from gtape.verify.noise import RUNS, SPREADS
from gtape.verify.oracle import Oracle, TooDeep
from gtape.verify.ulp import spacing, ulps_between, widest
from gtape.verify.verdict import Finding, Report

__all__ = ["check_jvp"]


def check_jvp(primals: list[Any], tangents: list[Any], target: Any, got: Any, *, strict: bool) -> None:
    """Compare one tangent with the exact directional derivative.

    Parameters
    ----------
    primals, tangents : lists of tensors
        The inputs and the direction.
    target : tensor
        What was asked for.
    got : tensor
        Its tangent.
    strict : bool
        Whether what is undecided raises.

    Raises
    ------
    VerificationError
        If it is not the exact one.
    """
    before = record.get_stack()
    record.set_stack(())
    try:
        with np.errstate(all="ignore"):
            program = build([(target._record, target._value)], primals)
            report = _examine(program, [np.asarray(t._value) for t in tangents], np.asarray(got._value))
    finally:
        record.restore_stack(before)
    settle(report, strict=strict)


def _examine(program: Program, tangents: list[Any], got: Any) -> Report:
    reason: Any = ""
    for node in program.nodes:
        values = node.output if isinstance(node.output, tuple) else (node.output,)
        if any(np.asarray(v).dtype.kind in "fc" and not np.isfinite(v).all() for v in values):
            return Report(
                [
                    Finding(
                        "domain",
                        op=node.name,
                        line=node.line,
                        reason=f"{node.name} is not finite, so there is no derivative to compare with",
                    )
                ]
            )
    for bits in PRECISIONS:
        # As in reverse mode: equal numbers that were computed in two ways overlap at any precision.
        ties: Any = ties_assumed() if bits >= TIES else contextlib.nullcontext()
        with precision(bits), ties, degenerate_noted() as degenerate:
            oracle = Oracle(program, [None])
            try:
                oracle.evaluate()
                directions = {
                    i: [objects(_lift(t))] for nodes, t in zip(program.sources, tangents, strict=True) for i in nodes
                }
                only = program.ancestors(program.outputs)
                env = oracle.jets(1, directions, only)
                failures = certify_marks(oracle, 1, directions, env, only)
                exact = objects(jet_world(1).component(env[program.outputs[0]], 1))
                if degenerate and _depends_on_bases(program, directions, exact):
                    break
            except TooDeep as e:
                return Report([Finding("undecided", reason=str(e))])
            except (Undecided, ArithmeticError) as e:
                reason = e
                continue
            if failures and degenerate:
                break
            if failures:
                culprit = failures[0].node
                name = None if culprit is None else culprit.name
                return Report(
                    [
                        Finding(
                            "rule",
                            order=2,
                            op=name,
                            reason=f"the {failures[0].what} disagrees with the mirrors "
                            f"(relative error {failures[0].error:.3g})",
                        )
                    ]
                )
            report = _compare(program, exact, got, tangents)
            if report is not None and degenerate and not report.ok:
                break
            if report is not None:
                report.coverage["bits"] = bits
                return report
            reason = "the enclosure is too wide"
    if degenerate:
        return Report([_degenerate(degenerate, 1)])
    return Report([Finding("undecided", reason=f"{reason} at {PRECISIONS[-1]} bits")])


def _depends_on_bases(program: Program, directions: dict[int, Any], exact: Any) -> bool:
    """Whether a derivative is another one where vectors of equal eigenvalues are chosen in another way."""
    with bases_turned():
        other = Oracle(program, [None])
        other.evaluate()
        env = other.jets(1, directions, program.ancestors(program.outputs))
    return differ(exact, jet_world(1).component(env[program.outputs[0]], 1))


def _lift(t: Any) -> Any:
    from gtape.verify.enclosures import BALLS

    return BALLS.lift(np.asarray(t))


def _compare(program: Program, exact: Any, got: Any, tangents: list[Any]) -> Report | None:
    high, low = to_double_double(exact)
    rad = radius(exact)
    dtype = got.dtype
    off = np.abs((widest(got) - high) - low)
    tight = ROUNDINGS * spacing(high, dtype) + spacing(0.0, dtype)
    ulps = ulps_between(got, high, low, dtype)
    worst = float(np.max(ulps, initial=0.0))
    if (off + rad <= tight).all():
        return Report(checked=got.size, max_ulp=worst)
    allowed = tight + _global_bound(program, tangents, dtype)
    if (off + rad <= allowed).all():
        return Report(
            [Finding("conditioning", reason="the problem itself loses digits: the error is within the global bound")],
            checked=got.size,
            max_ulp=worst,
        )
    outside = (off - rad > allowed) | ~np.isfinite(got)
    if not outside.any():
        return None
    index = (
        np.unravel_index(int(np.argmax(np.where(outside, np.nan_to_num(ulps, posinf=1e300), -1.0))), got.shape)
        if got.ndim
        else ()
    )
    names = sorted({n.name for n in program.nodes if n.kind in ("op", "custom") and n.active})
    return Report(
        [
            Finding(
                "rule",
                op=names[0] if len(names) == 1 else None,
                element=(0, tuple(int(i) for i in index)),
                got=got[index].item(),
                exact=digits(exact[index]),
                ulps=float(ulps[index]),
                reason=f"the forward-mode derivative is not the exact one; ops on the way: {', '.join(names)}",
            )
        ],
        checked=got.size,
        max_ulp=worst,
    )


def _global_bound(program: Program, tangents: list[Any], dtype: Any) -> Any:
    world = NoiseWorld(np.random.default_rng(11), dtype)
    runs = []
    for _ in range(RUNS + 1):
        runs.append(_noisy_jvp(program, tangents, world))
        world.again()
    return SPREADS * spread_of(runs[1:], runs[0])


def _noisy_jvp(program: Program, tangents: list[Any], world: Any) -> Any:
    env: dict[int, Any] = {}
    moving: dict[int, Any] = {i: widest(t) for nodes, t in zip(program.sources, tangents, strict=True) for i in nodes}
    for node in program.nodes:
        i = node.index
        several = isinstance(node.output, tuple)
        fixed = node.kind == "op" and not several and np.asarray(node.output).dtype.kind not in "fc"
        env[i] = np.asarray(node.output) if fixed else program.step(world, node, env)
        if node.kind == "custom":
            moved = [moving.get(j) for j in node.body]
            moving[i] = tuple(moved) if isinstance(node.output, tuple) else moved[0]
        elif node.kind == "item":
            whole = moving.get(node.inputs[0])
            moving[i] = None if whole is None else whole[node.params["index"]]
        elif node.kind == "op" and node.active:
            ts = [moving.get(j) if a in node.active else None for a, j in enumerate(node.inputs)]
            if any(t is not None for t in ts):
                shape = () if isinstance(env[i], tuple) else np.shape(env[i])
                t = jvp_of(world, node.prim, ts, env[i], tuple([env[j] for j in node.inputs]), node.params, shape)
                if node.prim.kind != "linear" and t is not None:
                    t = tuple([world.rounded(v) for v in t]) if isinstance(t, tuple) else world.rounded(t)
                moving[i] = t if i not in moving or t is None else moving[i] + t
    found = moving.get(program.outputs[0])
    return np.zeros(np.shape(env[program.outputs[0]])) if found is None else widest(found)

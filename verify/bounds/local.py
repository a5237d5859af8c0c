"""The local check: every recorded op, rule and sum of cotangents, at its recorded inputs, within its own bound.

Its bounds do not depend on the rest of the program, so that they stay tight for long programs and show small faults in
kernels and rules.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from gtape.base.deadline import tick
from gtape.engine.rules import PartialOutputs
from gtape.engine.worlds import COMPLEX
from gtape.symbolic.balls import digits, infinities_as_limits, objects, radius, to_double_double, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.bounds import local_error
from gtape.verify.bounds.running_error import Err, ErrorWorld, Independent
from gtape.verify.oracles.backward import Algebra, by_rule, by_user, gradient, kept_off
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.verdicts.ulp import spacing, ulps_between, widest
from gtape.verify.verdicts.verdict import Finding

__all__ = ["Local", "check_locally", "excess", "finite", "shown"]


def check_locally(program: Program, seeds: list[Any], exact: dict[int, Any] | None = None) -> list[Finding]:
    """Check every op and every rule of a program.

    Parameters
    ----------
    seeds : list of arrays
        The cotangent of each output.
    exact : dict, optional
        Exact values of the program's nodes, at the precision in force. Those of inputs, and of ops on inputs alone,
        are reused, because they are exact at recorded inputs, too.

    Returns
    -------
    list of Finding
        Empty if all numbers are within bounds.
    """
    return Local(program, exact or {}).run(seeds)


class Local(Algebra):
    """One pass over a program, forwards and backwards, which share exact values.

    Parameters
    ----------
    exact : dict
        As for `check_locally`.
    """

    def __init__(self, program: Program, exact: dict[int, Any]) -> None:
        self.program = program
        self.findings: list[Finding] = []
        given = {n.index for n in program.nodes if n.kind in ("leaf", "const")}
        self.lifted = {i: exact[i] for i in given if i in exact}
        self.exact = {
            n.index: exact[n.index]
            for n in program.nodes
            if n.kind == "op" and n.index in exact and given.issuperset(n.inputs)
        }
        self.bounds: dict[int, Any] = {}
        self.limits: dict[int, tuple[Any, Any]] = {}
        self.terms: dict[int, list[Any]] = {}

    def run(self, seeds: list[Any]) -> list[Finding]:
        self.values()
        self.sweep(seeds)
        return self.findings

    def values(self) -> None:
        """Check the value or decision of each op."""
        for node in self.program.nodes:
            tick()
            if node.kind == "op" and is_floating(node.output) and node.prim.differentiable:
                self.value(node)
            elif node.kind == "op" and not isinstance(node.output, tuple) and not is_floating(node.output):
                self.decision(node)

    # -- forwards

    def inputs(self, node: Node) -> list[Any]:
        return [np.asarray(self.program.nodes[j].output) for j in node.inputs]

    def balls(self, j: int) -> Any:
        """The recorded value of a node, exactly."""
        found = self.lifted.get(j)
        if found is None:
            found = self.lifted[j] = BALLS.lift(np.asarray(self.program.nodes[j].output))
        return found

    def at_inputs(self, node: Node) -> Any:
        """The exact value of an op at its recorded inputs."""
        found = self.exact.get(node.index)
        if found is None:
            found = node.apply(BALLS, [self.balls(j) for j in node.inputs])
            self.exact[node.index] = found
        return found

    def own_error(self, node: Node) -> Any:
        """The bound on the op's own rounding error; a tuple for several outputs."""
        found = self.bounds.get(node.index)
        if found is None:
            several = isinstance(node.output, tuple)
            y = tuple([_f64(v) for v in node.output]) if several else _f64(node.output)
            dtype = np.asarray(node.output[0] if several else node.output).dtype
            if "conversion" in node.prim.roles:
                found = spacing(y, dtype) / 2 * 1.0001
            else:
                found = local_error(node.prim, [_f64(v) for v in self.inputs(node)], y, node.params, dtype)
            self.bounds[node.index] = found
        return found

    def beside_infinities(self, node: Node) -> tuple[Any, Any]:
        """The value of an op at infinite inputs, by limits, and its bound, infinite for the elements that they reach.

        None where an output overflows, or where infinities give no limit.
        """
        if node.index not in self.limits:
            self.limits[node.index] = None, None
            with contextlib.suppress(ArithmeticError):
                self.limits[node.index] = self._by_limits(node)
        return self.limits[node.index]

    def _by_limits(self, node: Node) -> tuple[Any, Any]:
        values = self.inputs(node)
        # Elementwise ops are compared at finite inputs only, because a special function of a number beyond all floats
        # may take too long.
        apart = node.prim.kind == "elementwise"
        with infinities_as_limits():
            exact = node.apply(BALLS, [BALLS.lift(_held(v) if apart else v) for v in values])
        bound = self.own_error(node)
        if apart:
            touched = [~np.isfinite(v) for v in values if v.dtype.kind in "fc"]
            return exact, np.where(np.logical_or.reduce(np.broadcast_arrays(*touched)) | np.isnan(bound), np.inf, bound)
        several = isinstance(node.output, tuple)
        if any(map(_overflown, node.output, exact)) if several else _overflown(node.output, exact):
            return None, None
        bounds = [np.where(np.isnan(b), np.inf, b) for b in (bound if several else (bound,))]
        return exact, tuple(bounds) if several else bounds[0]

    def wrong(self, node: Node, reason: str, **found: Any) -> None:
        """Add a finding for a wrong op, rule or sum of cotangents."""
        verdict = "rule"
        if outside_its_domain(node.prim, self.inputs(node)):
            verdict = "domain"
            reason = f"{node.name} is given an array outside its domain, such as one that is not symmetric; {reason}"
        self.findings.append(Finding(verdict, at=node, reason=reason, **found))

    def value(self, node: Node) -> None:
        """Compare an op's result with its exact value at its recorded inputs."""
        outputs = node.output if isinstance(node.output, tuple) else (node.output,)
        if not finite(*self.inputs(node), *outputs):
            exact, bound = self.beside_infinities(node)
        else:
            exact, bound = self.at_inputs(node), self.own_error(node)
        if exact is None:
            return
        if not isinstance(node.output, tuple):
            exact, bound = (exact,), (bound,)
        for y, e, b in zip(outputs, exact, bound, strict=True):
            y = np.asarray(y)
            worst = excess(y, objects(e), b + spacing(0.0, y.dtype))
            if worst is not None:
                reason = f"the value of {node.name} at its recorded inputs is {worst[0]:.3g} times its bound off"
                self.wrong(node, reason, element=("value", worst[1]), **shown(y, objects(e), worst[1]))

    def decision(self, node: Node) -> None:
        """Compare a decision (a comparison, an index, an order) with the exact one at the recorded inputs."""
        inputs = self.inputs(node)
        kinds = {np.asarray(v).dtype.kind for v in inputs}
        if "conversion" in node.prim.roles or "f" not in kinds or not kinds <= set("fbiu") or not finite(*inputs):
            return
        exact = np.asarray(getattr(BALLS, node.prim.name)(*[self.balls(j) for j in node.inputs], **node.params))
        wrong = np.argwhere(exact.astype(np.int64) != np.asarray(node.output))
        if len(wrong):
            at = tuple(wrong[0].tolist())
            got = np.asarray(node.output)[at]
            reason = f"{node.name} at its recorded inputs is {int(exact[at])}, not {got}"
            self.wrong(node, reason, element=("value", at), got=got.item(), exact=str(int(exact[at])))

    # -- backwards

    def sweep(self, seeds: list[Any]) -> None:
        gradient(self.program, seeds, self)

    def arrive(self, cotangents: dict[int, Any], j: int, c: Any) -> None:
        self.terms.setdefault(j, []).append(c)
        super().arrive(cotangents, j, c if isinstance(c, PartialOutputs) else np.asarray(c))

    def reached(self, node: Node, g: Any) -> None:
        if len(self.terms[node.index]) > 2 and not isinstance(g, PartialOutputs):
            self.sum(node, g, self.terms[node.index])

    def custom(self, node: Node, g: Any) -> list[Any] | None:
        return by_user(node, g)  # judged as a whole, elsewhere

    def rule(self, node: Node, g: Any) -> list[Any]:
        """Run an op's rule as the tape does, and compare the results with the same rule in enclosures."""
        values = self.inputs(node)
        several = isinstance(node.output, tuple)
        outputs = tuple([np.asarray(v) for v in node.output]) if several else (np.asarray(node.output),)
        parts = tuple([np.asarray(v) for v in PartialOutputs.filled(g, outputs)]) if several else (np.asarray(g),)
        dtype = next((v.dtype for v in outputs if v.dtype.kind in "fc"), np.dtype(np.float64))

        def ran(world: Any, gs: Any, ys: Any, xs: Any, live: Any = None) -> list[Any]:
            g, y = (tuple(gs), tuple(ys)) if several else (gs[0], ys[0])
            return by_rule(world, node, g, y, xs, values, live)

        float_g = [_scalar(v) for v in parts]
        floats = COMPLEX, float_g, [_scalar(v) for v in outputs], [_scalar(v) for v in values]
        made = ran(*floats)
        ordinary = finite(*parts, *values, *outputs)
        if not ordinary and node.prim.kind == "elementwise":
            self.finite_part(node, parts[0], values, outputs[0])
            return kept_off(made, parts[0], again=lambda live: ran(*floats, live))
        enclosed = self.enclosed(node, outputs) if ordinary else self.by_limits(node)
        if enclosed is None:
            return made
        exact_y, exact_xs, own = enclosed
        err = Independent if node.prim.rounding.independent else Err
        try:
            with infinities_as_limits():
                exact_g = [objects(BALLS.lift(v)) for v in parts]
            exact = ran(BALLS, exact_g, exact_y, exact_xs)
        except ArithmeticError:
            if ordinary:
                raise
            return made  # these infinities give no limit
        bounded = ran(
            ErrorWorld(dtype, err),
            [err(v, 0.0, dtype) for v in parts],
            [err(v, e, dtype) for v, e in zip(outputs, own, strict=True)],
            (err(v, 0.0, v.dtype) if v.dtype.kind in "fc" else v for v in values),
        )
        for a, c, e, b in zip(node.active, made, exact, bounded, strict=True):
            if c is float_g[0] and e is exact_g[0]:
                continue  # the rule returns the cotangent unchanged, in floats and in enclosures
            if c is not None:
                error = b.e * b.margin if isinstance(b, Err) else 0.0
                if not ordinary:  # no bound is known for elements that an infinity reaches
                    error = np.where(np.isnan(error), np.inf, error)
                self.cotangent(node, a, np.asarray(c), objects(e), error + spacing(0.0, dtype))
        return made

    def enclosed(self, node: Node, outputs: tuple[Any, ...]) -> tuple[Any, list[Any], Any]:
        """The exact outputs and inputs that a rule reads, and the errors of the recorded outputs."""
        xs = [self.balls(j) for j in node.inputs]
        # The rule of a factorisation takes its recorded output as one more exact input, because the output's error,
        # checked above, may be much larger than the rule's own.
        if node.prim.kind == "implicit" or node.prim.rounding.eliminates:
            return [objects(BALLS.lift(v)) for v in outputs], xs, (0.0,) * len(outputs)
        exact, own = self.at_inputs(node), self.own_error(node)
        return (exact, xs, own) if isinstance(node.output, tuple) else ([exact], xs, (own,))

    def by_limits(self, node: Node) -> tuple[Any, list[Any], Any] | None:
        """As `enclosed`, for an op that an infinity reaches; None without a limit."""
        exact, own = self.beside_infinities(node)
        if exact is None or node.prim.kind == "implicit" or node.prim.rounding.eliminates:
            return None
        with infinities_as_limits():
            xs = [BALLS.lift(v) for v in self.inputs(node)]
        return (exact, xs, own) if isinstance(node.output, tuple) else ([exact], xs, (own,))

    def finite_part(self, node: Node, g: Any, values: list[Any], y: Any) -> None:
        """Compare an elementwise rule at the elements with finite values only."""
        g, *spread = [np.broadcast_to(v, y.shape) for v in (g, *values)]
        if "selection" in node.prim.roles:  # the branch not taken may be infinite or NaN
            taken, left, right = spread
            spread = [taken, np.where(taken, left, left.dtype.type(0)), np.where(taken, right.dtype.type(0), right)]
        good = np.logical_and.reduce([np.isfinite(v) for v in (g, y, *spread)])
        if not good.any() or y.dtype.kind not in "fc":
            return
        g, y, xs = g[good], y[good], [v[good] for v in spread]
        made = by_rule(COMPLEX, node, g, y, xs, xs)
        balls = [BALLS.lift(v) for v in xs]
        exact_y = getattr(BALLS, node.prim.name)(*balls, **node.params)
        exact = by_rule(BALLS, node, BALLS.lift(g), exact_y, balls, xs)
        own = local_error(node.prim, [_f64(v) for v in xs], _f64(y), node.params, y.dtype)
        wrapped = [Err(v, 0.0, v.dtype) if v.dtype.kind in "fc" else v for v in xs]
        bounded = by_rule(ErrorWorld(y.dtype), node, Err(g, 0.0, y.dtype), Err(y, own, y.dtype), wrapped, xs)
        for a, c, e, b in zip(node.active, made, exact, bounded, strict=True):
            bound = (b.e if isinstance(b, Err) else 0.0) + spacing(0.0, y.dtype)
            self.cotangent(node, a, np.asarray(c), objects(e), bound)

    def cotangent(self, node: Node, a: int, c: Any, exact: Any, bound: Any) -> None:
        if c.size == 0:
            return
        if exact.shape != c.shape:
            reason = (
                f"the derivative of {node.name} with respect to its argument {a} has shape {c.shape}, not {exact.shape}"
            )
            self.wrong(node, reason)
            return
        worst = excess(c, exact, bound)
        if worst is not None:
            reason = (
                f"the derivative of {node.name} with respect to its argument {a}, at its recorded inputs, "
                f"is {worst[0]:.3g} times its bound off"
            )
            self.wrong(node, reason, element=(f"argument {a}", worst[1]), **shown(c, exact, worst[1]))

    def sum(self, node: Node, g: Any, parts: list[Any]) -> None:
        """Check the sum of the cotangents from several consumers."""
        if not finite(g, *parts):
            return
        dtype = np.asarray(g).dtype
        size = np.add.reduce([np.abs(_f64(p)) for p in parts])
        bound = (len(parts) - 1) * spacing(1.0, dtype) / 2 * size + spacing(0.0, dtype)
        exact = objects(BALLS.lift(np.asarray(parts[0])))
        for p in parts[1:]:
            exact = exact + objects(BALLS.lift(np.asarray(p)))
        worst = excess(g, exact, bound)
        if worst is not None:
            reason = f"the sum of {len(parts)} cotangents is {worst[0]:.3g} times its bound off"
            self.wrong(node, reason, element=("sum", worst[1]), **shown(np.asarray(g), exact, worst[1]))


_TINIEST = float(np.finfo(np.float64).smallest_subnormal)
_BEYOND = 2.0**1000


def _held(v: Any) -> Any:
    """An array with 1 for each infinity and NaN."""
    v = np.asarray(v)
    return v if v.dtype.kind not in "fc" else np.where(np.isfinite(v), v, v.dtype.type(1))


def _overflown(y: Any, exact: Any) -> bool:
    """True if an output is infinite although its limit is not."""
    y = np.asarray(y)
    if y.dtype.kind not in "fc":
        return False
    return any(not np.isfinite(v) and abs(e) < _BEYOND for v, e in zip(y.ravel(), objects(exact).ravel(), strict=True))


def _f64(x: Any) -> Any:
    x = np.asarray(x)
    return widest(x) if x.dtype.kind in "fc" else x


def _scalar(v: Any) -> Any:
    v = np.asarray(v)
    return v[()] if not v.ndim else v


def shown(got: Any, exact: Any, index: tuple[int, ...]) -> dict[str, Any]:
    """A wrong number, the exact one and their distance, as fields of a finding."""
    exact = objects(exact)[index]
    high, low = to_double_double(exact)
    ulps = float(ulps_between(got[index], high, low, got.dtype))
    return {"got": got[index].item(), "exact": digits(exact), "ulps": ulps}


def excess(got: Any, exact: Any, bound: Any) -> tuple[float, tuple[int, ...]] | None:
    """The worst element outside its bound: (error divided by bound, index)."""
    exact = objects(exact)
    high = to_float(exact).ravel()
    with np.errstate(all="ignore"):
        off = np.abs(widest(got).ravel() - high)
        bound = np.broadcast_to(bound, np.shape(got)).ravel()
        # First without radii and digits beyond float64 (at most half a unit); elements that are not clearly inside are
        # compared again with both.
        half = np.maximum(spacing(high, np.float64) / 2, _TINIEST)
        over = np.flatnonzero((off + half > bound) & np.isfinite(off) & np.isfinite(bound))
        if not over.size:
            return None
        doubtful = exact.ravel()[over]
        _, low = to_double_double(doubtful)
        off = np.abs((widest(got).ravel()[over] - high[over]) - low) - radius(doubtful)
        ratio = off / bound[over]
    worst = int(np.argmax(ratio))
    if not ratio[worst] > 1:
        return None
    index = np.unravel_index(over[worst], np.shape(got))
    return float(ratio[worst]), tuple(int(i) for i in index)


def outside_its_domain(prim: Any, arrays: list[Any]) -> bool:
    """True if arrays are further from the thin domain of an op (such as symmetric matrices) than rounding explains.

    A product that is symmetric up to its last bits counts as inside, so that a fault there is still reported.
    """
    domain = prim.domain
    if prim.kind == "elementwise" or domain.fit is None or domain.where is None or domain.where(*arrays):
        return False
    for a, near in zip(arrays, domain.fit(*arrays), strict=True):
        far = np.max(np.abs(_f64(a) - _f64(near)), initial=0.0)
        if far > 1000 * a.shape[-1] * np.finfo(a.dtype).eps * np.max(np.abs(_f64(a)), initial=0.0):
            return True
    return False


def finite(*arrays: Any) -> bool:
    return all(np.isfinite(a).all() for a in arrays if np.asarray(a).dtype.kind in "fc")

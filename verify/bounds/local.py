"""The local check: every recorded op, rule and sum of cotangents, at its recorded inputs, within its own bound.

It needs no knowledge of the rest of the program, so its bounds stay tight however long the program is: it is what
finds a small fault in a kernel or a rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.engine.rules import cotangents
from gtape.engine.worlds import COMPLEX, NUMPY
from gtape.symbolic.balls import digits, objects, radius, to_double_double, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.bounds import local_error
from gtape.verify.bounds.running_error import Err, ErrorWorld, Independent
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.oracles.replay import Shape
from gtape.verify.verdicts.ulp import spacing, ulps_between, widest
from gtape.verify.verdicts.verdict import Finding

__all__ = ["Local", "check_locally", "excess", "finite", "shown"]


def check_locally(program: Program, seeds: list[Any], exact: dict[int, Any] | None = None) -> list[Finding]:
    """Look at every op and every rule of a program.

    Parameters
    ----------
    program : Program
    seeds : list of arrays
        The cotangent of each output.
    exact : dict, optional
        Exact values of the program's nodes, at the precision in force: those of inputs, and of what is computed
        from inputs alone, are exact at recorded inputs, too.

    Returns
    -------
    list of Finding
        Empty where all is within bounds.
    """
    return Local(program, exact or {}).run(seeds)


class Local:
    """One pass over a program, forwards and backwards; what is lifted or evaluated exactly is kept for both.

    Parameters
    ----------
    program : Program
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

    def run(self, seeds: list[Any]) -> list[Finding]:
        self.values()
        self.sweep(seeds)
        return self.findings

    def values(self) -> None:
        """Look at what each op computed or decided."""
        for node in self.program.nodes:
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
        """The bound on what the op itself commits; a tuple for several outputs."""
        found = self.bounds.get(node.index)
        if found is None:
            several = isinstance(node.output, tuple)
            y = tuple([_f64(v) for v in node.output]) if several else _f64(node.output)
            dtype = np.asarray(node.output[0] if several else node.output).dtype
            if "cast" in node.prim.roles:
                found = spacing(y, dtype) / 2 * 1.0001
            else:
                found = local_error(node.prim, [_f64(v) for v in self.inputs(node)], y, node.params, dtype)
            self.bounds[node.index] = found
        return found

    def wrong(self, node: Node, reason: str, **found: Any) -> None:
        """Note that an op, one of its rules or a sum behind it is off."""
        verdict = "rule"
        if outside_its_domain(node.prim, self.inputs(node)):
            verdict = "domain"
            reason = f"{node.name} is given an array outside its domain, such as one that is not symmetric; {reason}"
        self.findings.append(Finding(verdict, op=node.name, line=node.line, reason=reason, **found))

    def value(self, node: Node) -> None:
        """Is the op's result its exact value at its recorded inputs?"""
        outputs = node.output if isinstance(node.output, tuple) else (node.output,)
        if not finite(*self.inputs(node), *outputs):
            return
        exact, bound = self.at_inputs(node), self.own_error(node)
        if not isinstance(node.output, tuple):
            exact, bound = (exact,), (bound,)
        for y, e, b in zip(outputs, exact, bound, strict=True):
            y = np.asarray(y)
            worst = excess(y, objects(e), b + spacing(0.0, y.dtype))
            if worst is not None:
                reason = f"the value of {node.name} at its recorded inputs is {worst[0]:.3g} times its bound off"
                self.wrong(node, reason, element=("value", worst[1]), **shown(y, objects(e), worst[1]))

    def decision(self, node: Node) -> None:
        """Is what was decided (a comparison, a place, an order) what the op decides at its recorded inputs, exactly?"""
        inputs = self.inputs(node)
        kinds = {np.asarray(v).dtype.kind for v in inputs}
        if "cast" in node.prim.roles or "f" not in kinds or not kinds <= set("fbiu") or not finite(*inputs):
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
        program = self.program
        cots: dict[int, Any] = {}
        terms: dict[int, list[Any]] = {}

        def arrive(j: int, c: Any) -> None:
            if isinstance(c, dict):
                cots[j] = {
                    **cots.get(j, {}),
                    **{k: cots[j][k] + g if k in cots.get(j, {}) else g for k, g in c.items()},
                }
                return
            c = np.asarray(c)
            terms.setdefault(j, []).append(c)
            cots[j] = cots[j] + c if j in cots else c

        for i, c in zip(program.outputs, seeds, strict=True):
            if c is not None:
                arrive(i, np.broadcast_to(np.asarray(c), program.nodes[i].shape))
        blocked = program.blocked(program.session)
        for i in reversed(program.ancestors(program.outputs)):
            node = program.nodes[i]
            g = cots.get(i)
            if g is None:
                continue
            if len(terms.get(i, ())) > 2:
                self.sum(node, g, terms[i])
            closed = blocked.get(i, ())
            if node.kind in ("leaf", "const") or len(closed) == len(node.active):
                continue
            if node.kind == "item":
                arrive(node.inputs[0], {node.params["index"]: g})
                continue
            made = self.custom(node, g) if node.kind == "custom" else self.rule(node, g)
            for a, c in zip(node.active, made, strict=True):
                if c is not None and a not in closed:
                    arrive(node.inputs[a], c)

    def custom(self, node: Node, g: Any) -> list[Any]:
        """What a custom gradient hands back; it is judged as a whole elsewhere."""
        if isinstance(g, dict):
            g = tuple([g.get(k, np.zeros_like(v)) for k, v in enumerate(node.output)])
        made: list[Any] = node.pull.cotangents(NUMPY, g)
        return made

    def rule(self, node: Node, g: Any) -> list[Any]:
        """Run an op's rule as the tape does, and compare with the same rule in balls."""
        values = self.inputs(node)
        several = isinstance(node.output, tuple)
        outputs = tuple([np.asarray(v) for v in node.output]) if several else (np.asarray(node.output),)
        dtype = next((v.dtype for v in outputs if v.dtype.kind in "fc"), np.dtype(np.float64))
        out_shape = () if several else outputs[0].shape
        y = tuple([_scalar(v) for v in outputs]) if several else _scalar(outputs[0])
        parts = (
            tuple([np.asarray(g.get(k, np.zeros_like(v))) for k, v in enumerate(outputs)])
            if several
            else (np.asarray(g),)
        )
        g = parts if several else _scalar(parts[0])
        stand_ins = tuple([_Like(v) for v in values])
        made = cotangents(
            COMPLEX, node.pull, g, y, tuple([_scalar(v) for v in values]), avals=stand_ins, out_shape=out_shape
        )
        if not finite(*parts, *values, *outputs):
            if node.prim.kind == "elementwise":
                self.finite_part(node, parts[0], values, outputs[0])
                # What a selection switched off stays off through a partial that is not finite there.
                made = [c if np.shape(c) != np.shape(g) else np.where(np.asarray(g) == 0, 0, c) for c in made]
            return made
        exact_g = tuple([objects(BALLS.lift(v)) for v in parts])
        # The rule of a factorisation reads its output, whose own error, looked at before, may be much larger than what
        # the rule commits: its recorded output is one more input, exact as it stands.
        given = node.prim.kind == "implicit" or node.prim.rounding.eliminates
        lifted = tuple([objects(BALLS.lift(v)) for v in outputs]) if given else ()
        exact_y = (lifted if several else lifted[0]) if given else self.at_inputs(node)
        shapes = tuple([Shape(v.shape, v.dtype) for v in values])
        exact = cotangents(
            BALLS,
            node.pull,
            exact_g if several else exact_g[0],
            exact_y,
            shapes if node.prim.kind == "linear" else tuple([self.balls(j) for j in node.inputs]),
            avals=shapes,
            out_shape=out_shape,
        )
        err = Independent if node.prim.rounding.independent else Err
        world = ErrorWorld(dtype, err)
        own: Any = (0.0,) * len(outputs) if given else self.own_error(node)
        own = own if several or given else (own,)
        rounded = tuple([err(v, e, dtype) for v, e in zip(outputs, own, strict=True)])
        wrapped = tuple([err(v, 0.0, v.dtype) if v.dtype.kind in "fc" else v for v in values])
        error_g = tuple([err(v, 0.0, dtype) for v in parts])
        bounded = cotangents(
            world,
            node.pull,
            error_g if several else error_g[0],
            rounded if several else rounded[0],
            wrapped,
            avals=stand_ins,
            out_shape=out_shape,
        )
        for a, c, e, b in zip(node.active, made, exact, bounded, strict=True):
            if c is g and not several and e is exact_g[0]:
                continue  # handed on as it came, in floats as in balls
            if c is not None:
                error = b.e * b.margin if isinstance(b, Err) else 0.0
                self.cotangent(node, a, np.asarray(c), objects(e), error + spacing(0.0, dtype))
        return made

    def finite_part(self, node: Node, g: Any, values: list[Any], y: Any) -> None:
        """An elementwise rule at those elements where all is finite."""
        g, *spread = [np.broadcast_to(v, y.shape) for v in (g, *values)]
        if "selection" in node.prim.roles:  # what is not taken may be anything
            taken, left, right = spread
            spread = [taken, np.where(taken, left, left.dtype.type(0)), np.where(taken, right.dtype.type(0), right)]
        good = np.logical_and.reduce([np.isfinite(v) for v in (g, y, *spread)])
        if not good.any() or y.dtype.kind not in "fc":
            return
        g, y, xs = g[good], y[good], [v[good] for v in spread]
        stand_ins = tuple([_Like(v) for v in xs])
        made = cotangents(COMPLEX, node.pull, g, y, tuple(xs), avals=stand_ins, out_shape=y.shape)
        balls = [BALLS.lift(v) for v in xs]
        exact_y = getattr(BALLS, node.prim.name)(*balls, **node.params)
        exact = cotangents(BALLS, node.pull, BALLS.lift(g), exact_y, tuple(balls), avals=stand_ins, out_shape=y.shape)
        own = local_error(node.prim, [_f64(v) for v in xs], _f64(y), node.params, y.dtype)
        wrapped = tuple([Err(v, 0.0, v.dtype) if v.dtype.kind in "fc" else v for v in xs])
        bounded = cotangents(
            ErrorWorld(y.dtype), node.pull, Err(g, 0.0, y.dtype), Err(y, own, y.dtype), wrapped,
            avals=stand_ins, out_shape=y.shape,
        )  # fmt: skip
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
        """The sum of what several consumers sent back."""
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


class _Like:
    """Shape and dtype of an input."""

    __slots__ = ("dtype", "shape")

    def __init__(self, v: Any) -> None:
        self.shape = v.shape
        self.dtype = v.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)


def _f64(x: Any) -> Any:
    x = np.asarray(x)
    return widest(x) if x.dtype.kind in "fc" else x


def _scalar(v: Any) -> Any:
    v = np.asarray(v)
    return v[()] if not v.ndim else v


def shown(got: Any, exact: Any, index: tuple[int, ...]) -> dict[str, Any]:
    """A number that is off, the exact one, and how far they are apart."""
    exact = objects(exact)[index]
    high, low = to_double_double(exact)
    ulps = float(ulps_between(got[index], high, low, got.dtype))
    return {"got": got[index].item(), "exact": digits(exact), "ulps": ulps}


def excess(got: Any, exact: Any, bound: Any) -> tuple[float, tuple[int, ...]] | None:
    """The worst element that lies outside its bound: (how many times the bound, index)."""
    exact = objects(exact)
    high = to_float(exact).ravel()
    with np.errstate(all="ignore"):
        off = np.abs(widest(got).ravel() - high)
        bound = np.broadcast_to(bound, np.shape(got)).ravel()
        # First without the digits beyond float64, which are half a unit at most, and without the radii; what is not
        # clearly inside is looked at again.
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
    """Whether arrays are further from the thin domain of an op (the symmetric matrices, say) than rounding takes them.

    Rounding is no excuse for a fault: a product that is symmetric up to its last bits counts as inside.
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

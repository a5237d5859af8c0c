"""The local check: every recorded op, rule and sum of cotangents, at its recorded inputs, within its own bound.

These bounds do not depend on the rest of the program, so they stay tight for long programs and show small faults in
kernels and rules. Small elementwise ops with the same primitive are checked as one array, because a long program of
scalars would otherwise spend its time between NumPy calls.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from gtape.base.deadline import tick
from gtape.engine.rules import PartialOutputs
from gtape.engine.worlds import COMPLEX
from gtape.symbolic.balls import digits, infinities_as_limits, objects, to_double_double
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.bounds import local_error, outside_its_domain
from gtape.verify.bounds.excess import beyond, rounded
from gtape.verify.bounds.local_in_floats import clearly_inside, sum_is_inside
from gtape.verify.bounds.running_error import Err, ErrorWorld, Independent
from gtape.verify.oracles.backward import Algebra, by_rule, by_user, gradient, kept_off, left_out
from gtape.verify.oracles.enclosures import BALLS
from gtape.verify.oracles.replay import is_step, longest_sum
from gtape.verify.verdicts.ulp import ROUNDINGS, spacing, ulps_between, widest
from gtape.verify.verdicts.verdict import Finding

__all__ = [
    "Floats", "Local", "added_terms", "check_locally", "declares_much", "finite", "shown",
]  # fmt: skip


def check_locally(program: Program, seeds: list[Any], exact: dict[int, Any] | None = None) -> list[Finding]:
    """Check every op and every rule of a program.

    Parameters
    ----------
    seeds : list of arrays
        The cotangent of each output. Seeds with zeros, such as those of one row of a Jacobian, leave parts of a rule
        unused; the rules are then also checked with random cotangents of all outputs.
    exact : dict, optional
        Exact values of the program's nodes, at the precision in force. Those of inputs, and of ops on inputs alone,
        are reused, because they are exact at recorded inputs, too.

    Returns
    -------
    list of Finding
        Empty if all numbers are within bounds.
    """
    return Local(program, exact or {}).run(seeds)


class Floats(Algebra):
    """The arithmetic of a sweep in floats: the ops' own rules, as the tape runs them.

    Attributes
    ----------
    kept : dict
        Node -> (the cotangent that arrived, the cotangents of the node's active inputs).
    terms : dict
        Node -> the cotangents from its consumers.
    totals : dict
        Node -> the sum of these cotangents, if there are more than two.
    """

    kept: dict[int, tuple[Any, list[Any]]]

    def __init__(self, program: Program, values: list[Any] | None = None) -> None:
        self.kept = {}
        self.terms: dict[int, list[Any]] = {}
        self.totals: dict[int, Any] = {}
        self.values = _arrays(program) if values is None else values

    def arrive(self, cotangents: dict[int, Any], j: int, c: Any) -> None:
        self.terms.setdefault(j, []).append(c)
        super().arrive(cotangents, j, c if isinstance(c, PartialOutputs) else np.asarray(c))

    def reached(self, node: Node, g: Any) -> None:
        if len(self.terms[node.index]) > 2 and not isinstance(g, PartialOutputs):
            self.totals[node.index] = np.asarray(g)

    def custom(self, node: Node, g: Any) -> list[Any] | None:
        return by_user(node, g)  # `customs` judges a custom gradient as a whole

    def rule(self, node: Node, g: Any) -> list[Any]:
        values, y = [self.values[j] for j in node.inputs], self.values[node.index]
        if isinstance(y, tuple):
            g, y = tuple(map(_scalar, PartialOutputs.filled(g, y))), tuple(map(_scalar, y))
        else:
            g, y = _scalar(g), _scalar(y)
        xs = [_scalar(v) for v in values]
        made = by_rule(COMPLEX, node, g, y, xs, values)
        if node.prim.kind != "elementwise" or finite(*[c for c in made if c is not None]) or finite(g, y, *values):
            return made

        def again(live: Any) -> list[Any]:
            return by_rule(COMPLEX, node, g, y, xs, values, live)

        return kept_off(made, g, again=again, left=lambda: left_out(node, y, xs))


class _Task:
    """The ops that are checked at once: one, or small elementwise ops of one kind, laid end to end.

    Attributes
    ----------
    members : list of Node
    node : Node
        The first member.
    values : list of arrays
        The inputs.
    output : array or tuple of arrays
    sweeps : list of (cotangents, made)
        For each sweep that reached the op: one cotangent for each output, and the cotangents of the active inputs.
    """

    def __init__(
        self, members: list[Node], values: list[Any], output: Any, sweeps: list[tuple[Any, list[Any]]]
    ) -> None:
        self.members, self.node = members, members[0]
        self.values, self.output, self.sweeps = values, output, sweeps
        self.exact: Any = None
        self.bound: Any = None
        self.limits: tuple[Any, Any] | None = None

    @property
    def several(self) -> bool:
        return isinstance(self.output, tuple)

    @property
    def outputs(self) -> tuple[Any, ...]:
        return self.output if isinstance(self.output, tuple) else (self.output,)

    @property
    def takes_its_output(self) -> bool:
        """Whether the rule takes the recorded output as one more exact input. The rule of a factorisation does, because
        the error of the output, which has a check of its own, may be much larger than the error of the rule.
        """
        return self.node.prim.kind == "implicit" or bool(self.node.prim.rounding.eliminates)

    def own_error(self) -> Any:
        """The bound on the op's own rounding error; a tuple for several outputs."""
        if self.bound is None:
            y = tuple([_f64(v) for v in self.output]) if self.several else _f64(self.output)
            dtype = self.outputs[0].dtype
            if "conversion" in self.node.prim.roles:
                self.bound = spacing(y, dtype) / 2 * 1.0001
            else:
                values = [_f64(v) for v in self.values]
                self.bound = local_error(self.node.prim, values, y, self.node.params, dtype)
        return self.bound

    def beside_infinities(self) -> tuple[Any, Any]:
        """The value of an op at infinite inputs, by limits, and its bound, which is infinite for elements that an
        infinity reaches.

        None where an output overflows, or where infinities give no limit.
        """
        if self.limits is None:
            self.limits = None, None
            with contextlib.suppress(ArithmeticError):
                self.limits = self._by_limits()
        return self.limits

    def _by_limits(self) -> tuple[Any, Any]:
        # Elementwise ops are compared at finite inputs only, because a special function of a number beyond all floats
        # may take too long.
        apart = self.node.prim.kind == "elementwise"
        with infinities_as_limits():
            exact = self.node.apply(BALLS, [BALLS.lift(_held(v) if apart else v) for v in self.values])
        bound = self.own_error()
        if apart:
            touched = [~np.isfinite(v) for v in self.values if v.dtype.kind in "fc"]
            return exact, np.where(np.logical_or.reduce(np.broadcast_arrays(*touched)) | np.isnan(bound), np.inf, bound)
        if any(map(_overflown, self.outputs, exact if self.several else (exact,))):
            return None, None
        bounds = [np.where(np.isnan(b), np.inf, b) for b in (bound if self.several else (bound,))]
        return exact, tuple(bounds) if self.several else bounds[0]


class Local:
    """The checks of one program's ops and rules, which share exact values.

    Parameters
    ----------
    exact : dict
        As for `check_locally`.
    arrays : list, optional
        The recorded values of the program, if they are known as arrays.

    Attributes
    ----------
    gradient : list of arrays or None
        The gradient by the sweep in floats, after `run`.
    """

    def __init__(self, program: Program, exact: dict[int, Any], arrays: list[Any] | None = None) -> None:
        self.program = program
        self.arrays = _arrays(program) if arrays is None else arrays
        self.gradient: list[Any] = []
        given = {n.index for n in program.nodes if n.kind in ("leaf", "const")}
        self.lifted = {i: exact[i] for i in given if i in exact}
        self.known = {
            n.index: exact[n.index]
            for n in program.nodes
            if n.kind == "op" and n.index in exact and given.issuperset(n.inputs) and not is_step(n)
        }
        self._added = 0.0
        self._found: list[tuple[tuple[int, ...], Finding]] = []
        self._waiting: list[_Waiting] = []
        self._count = 0
        self._tasks: dict[int, _Task] = {}

    def run(self, seeds: list[Any], swept: Floats | None = None) -> list[Finding]:
        """Check every op and every rule; `swept` is the sweep with these cotangents, if it ran before."""
        sweeps = [Floats(self.program, self.arrays) if swept is None else swept]
        self.gradient = gradient(self.program, seeds, sweeps[0]) if swept is None else self.gradient
        dense = _dense(self.program, seeds)
        if dense is not None:
            sweeps.append(Floats(self.program, self.arrays))
            gradient(self.program, dense, sweeps[1])
        for task in self.tasks(sweeps):
            tick()
            if self.clearly_inside(task):
                continue
            self.value(task)
            for back in task.sweeps:
                self.rule(task, *back)
        self.decisions()
        for sweep in sweeps:
            self.sums(sweep)
        return self.findings

    def follows(self, s: int) -> tuple[Any, float] | None:
        """The gradient by source `s` in floats, if every op and rule is within its bound, and its error in ULP if all
        roundings are independent and none is magnified; else None."""
        if self.findings or any(n.kind == "custom" for n in self.program.nodes):
            return None
        if not self._added:
            self._added = max(ROUNDINGS, self._declared()) * added_terms(self.program)
        return self.gradient[s], self._added

    def _declared(self) -> float:
        """The largest error in ULP that an elementwise op declares for its value, if more than `ROUNDINGS`."""
        most = 0.0
        if not any(n.kind == "op" and declares_much(n.prim) for n in self.program.nodes):
            return most
        for task in self.tasks([], declares_much):
            if task.output.size and finite(*task.values, task.output):
                ulps = task.own_error() / spacing(task.output, task.output.dtype)
                most = max(most, float(np.max(ulps, initial=0.0, where=np.isfinite(ulps))))
        return most

    def values(self) -> None:
        """Check the value or decision of each op."""
        for task in self.tasks([]):
            tick()
            self.value(task)
        self.decisions()

    @property
    def findings(self) -> list[Finding]:
        """The findings up to now: values in the order of the program, then rules and sums in the reverse order."""
        self._compare_all()
        return [finding for _, finding in sorted(self._found, key=lambda pair: pair[0])]

    # -- what is checked

    def tasks(self, sweeps: list[Floats], only: Callable[[Any], bool] | None = None) -> Iterable[_Task]:
        """Each op with a floating-point result, alone or with others like it; of some primitives alone with `only`."""
        alike: dict[Any, list[Node]] = {}
        for node in self.program.nodes:
            if node.kind != "op" or not self.floats(node) or (only is not None and not only(node.prim)):
                continue
            if not node.prim.differentiable:
                if is_step(node):
                    yield self.alone(node)
                continue
            key = self._kind(node, sweeps)
            if key is None:
                yield self.alone(node, sweeps)
            else:
                alike.setdefault(key, []).append(node)
        for members in alike.values():
            if len(members) > 1:
                task = self._together(members, sweeps)
                arrays = [*task.values, task.output, *[v for gs, made in task.sweeps for v in (*gs, *made)]]
                good = np.logical_and.reduce([np.isfinite(v) for v in arrays if v is not None and v.dtype.kind in "fc"])
                good = np.logical_and.reduceat(good, _starts(members, good.size == len(members)))
                apart = [n for n, ordinary in zip(members, good.tolist(), strict=True) if not ordinary]
                members = [n for n, ordinary in zip(members, good.tolist(), strict=True) if ordinary]
                for node in apart:
                    yield self.alone(node, sweeps)
                if apart and len(members) > 1:
                    task = self._together(members, sweeps)
            if len(members) > 1:
                yield task
            elif members:
                yield self.alone(members[0], sweeps)

    def floats(self, node: Node) -> bool:
        """Whether an output of a node holds floats or complex numbers."""
        y = self.arrays[node.index]
        return any([v.dtype.kind in "fc" for v in y] if y.__class__ is tuple else (y.dtype.kind in "fc",))

    def _kind(self, node: Node, sweeps: list[Floats]) -> Any:
        """The key of ops that are checked together; None for an op that is checked alone."""
        y = self.arrays[node.index]
        if node.prim.kind != "elementwise" or y.__class__ is tuple or not 0 < y.size <= _SMALL:
            return None
        inputs = [self.arrays[j] for j in node.inputs]
        for a, v in enumerate(inputs):
            if v.shape != y.shape and (v.size != 1 or a in node.active):
                return None
        params = None
        if node.params:
            try:
                params = tuple(node.params.items())
                hash(params)
            except TypeError:
                return None
        reached = tuple([node.index in s.kept for s in sweeps])
        return id(node.prim), params, node.active, reached, y.dtype, tuple([v.dtype for v in inputs])

    def _together(self, members: list[Node], sweeps: list[Floats]) -> _Task:
        """One task for ops of one kind."""
        outputs = [self.arrays[n.index] for n in members]
        scalars = all(not y.ndim for y in outputs)

        def joined(parts: Iterable[Any]) -> Any:
            parts = list(parts)
            if scalars and (made := np.array(parts)).ndim == 1:
                return made
            spread = [
                np.broadcast_to(v, y.shape) if np.shape(v) != y.shape else v
                for v, y in zip(parts, outputs, strict=True)
            ]
            return np.concatenate([np.ravel(v) for v in spread])

        values = [joined([self.arrays[n.inputs[a]] for n in members]) for a in range(len(members[0].inputs))]
        backs = []
        for s in sweeps:
            kept = [s.kept[n.index] for n in members] if members[0].index in s.kept else []
            if kept:
                made = zip(*[m for _, m in kept], strict=True)
                parts = [None if any(c is None for c in cs) else joined(cs) for cs in made]
                backs.append(((joined([g for g, _ in kept]),), parts))
        return _Task(members, values, joined(outputs), backs)

    def alone(self, node: Node, sweeps: Iterable[Floats] = ()) -> _Task:
        """The task of one op."""
        task = self._tasks.get(node.index)
        if task is None:
            task = self._tasks[node.index] = _Task(
                [node], [self.arrays[j] for j in node.inputs], self.arrays[node.index], []
            )
            for s in sweeps:
                if node.index in s.kept:
                    g, made = s.kept[node.index]
                    parts = PartialOutputs.filled(g, task.output) if task.several else (g,)
                    task.sweeps.append((tuple(map(np.asarray, parts)), made))
        return task

    def balls(self, task: _Task, a: int) -> Any:
        """Input `a` of a task as recorded, exactly."""
        if len(task.members) > 1:
            return BALLS.lift(task.values[a])
        j = task.node.inputs[a]
        found = self.lifted.get(j)
        if found is None:
            found = self.lifted[j] = BALLS.lift(self.arrays[j])
        return found

    def at_inputs(self, task: _Task) -> Any:
        """The exact value of an op at its recorded inputs."""
        if task.exact is None:
            known = self.known.get(task.node.index) if len(task.members) == 1 else None
            if known is None:
                known = task.node.apply(BALLS, [self.balls(task, a) for a in range(len(task.values))])
            task.exact = known
        return task.exact

    def clearly_inside(self, task: _Task) -> bool:
        """Whether an op with long arrays is certainly within its bounds, as arithmetic of wider floats shows."""
        return clearly_inside(task, self.allowed_by_rule)

    # -- forwards

    def value(self, task: _Task) -> None:
        """Compare results with the exact values at the recorded inputs."""
        if not finite(*task.values, *task.outputs):
            exact, bound = task.beside_infinities()
        else:
            exact, bound = self.at_inputs(task), None
        if exact is None:
            return

        def allowed(k: int) -> Any:
            own = task.own_error() if bound is None else bound
            return (own[k] if task.several else own) + spacing(0.0, task.outputs[k].dtype)

        for k, (y, e) in enumerate(zip(task.outputs, exact if task.several else (exact,), strict=True)):
            self.compare(task, (0,), "value", "", y, objects(e), partial(allowed, k))

    def decisions(self) -> None:
        """Compare decisions (comparisons, indices, orders) with the exact ones at the recorded inputs."""
        for node in self.program.nodes:
            if node.kind == "op" and not isinstance(node.output, tuple) and not self.floats(node):
                tick()
                self.decision(node)

    def decision(self, node: Node) -> None:
        inputs, output = [self.arrays[j] for j in node.inputs], self.arrays[node.index]
        kinds = {v.dtype.kind for v in inputs}
        if "f" not in kinds or not kinds <= set("fbiu") or not finite(*inputs):
            return
        task = self.alone(node)
        balls = [self.balls(task, a) for a in range(len(inputs))]
        exact = np.asarray(getattr(BALLS, node.prim.name)(*balls, **node.params))
        if "conversion" in node.prim.roles and output.dtype.kind in "iu":
            held = np.iinfo(output.dtype)  # a float outside the range of the integers converts to an arbitrary one
            exact = np.where((exact >= held.min) & (exact <= held.max), exact, output)
        wrong = np.argwhere(exact.astype(object) != output.astype(object))
        if len(wrong):
            at = tuple(wrong[0].tolist())
            got = np.asarray(node.output)[at]
            reason = f"{node.name} at its recorded inputs is {int(exact[at])}, not {got}"
            self.wrong(node, (0, node.index), reason, element=("value", at), got=got.item(), exact=str(int(exact[at])))

    # -- backwards

    def rule(self, task: _Task, parts: tuple[Any, ...], made: list[Any]) -> None:
        """Compare the results of an op's rule in floats with its results in enclosures."""
        node, values, several = task.node, task.values, task.several
        ordinary = finite(*parts, *values, *task.outputs)
        if not ordinary and node.prim.kind == "elementwise":
            self.finite_part(task, parts[0])
            return
        enclosed = self.enclosed(task) if ordinary else self.by_limits(task)
        if enclosed is None:
            return
        exact_y, exact_xs = enclosed
        try:
            with infinities_as_limits():
                exact_g = [objects(BALLS.lift(v)) for v in parts]
            g, y = (tuple(exact_g), tuple(exact_y)) if several else (exact_g[0], exact_y[0])
            exact = by_rule(BALLS, node, g, y, exact_xs, values)
        except ArithmeticError:
            if ordinary:
                raise
            return  # these infinities give no limit
        # A rule may return the cotangent unchanged, in floats and in enclosures.
        same = [e is exact_g[0] and c is not None and _same_bits(c, parts[0]) for c, e in zip(made, exact, strict=True)]
        self.rule_with(task, parts, [None if s else c for s, c in zip(same, made, strict=True)], exact, ordinary)

    def rule_with(
        self, task: _Task, parts: tuple[Any, ...], made: list[Any], exact: list[Any], ordinary: bool = True
    ) -> None:
        """As `rule`, with the results of the rule in enclosures.

        Parameters
        ----------
        made : list of arrays or None
            None for a result that is not compared.
        ordinary : bool
            Whether all numbers at the op are finite.
        """
        allowed = self.allowed_by_rule(task, parts, ordinary)
        for k, (a, c, e) in enumerate(zip(task.node.active, made, exact, strict=True)):
            if c is not None:
                self.cotangent(task, a, np.asarray(c), objects(e), partial(allowed, k))

    def allowed_by_rule(self, task: _Task, parts: tuple[Any, ...], ordinary: bool = True) -> Callable[[int], Any]:
        """The bounds on the results of a rule with the cotangents `parts`, by the number of the active argument.

        Parameters
        ----------
        ordinary : bool
            Whether all numbers at the op are finite.
        """
        node, values, outputs = task.node, task.values, task.outputs
        dtype = next((v.dtype for v in outputs if v.dtype.kind in "fc"), np.dtype(np.float64))
        err = Independent if node.prim.rounding.independent else Err

        @cache
        def bounded() -> list[Any]:
            own = self.own_errors(task, ordinary)
            gs = tuple([err(v, 0.0, dtype) for v in parts])
            ys = tuple([err(v, e, dtype) for v, e in zip(outputs, own, strict=True)])
            xs = [err(v, 0.0, v.dtype) if v.dtype.kind in "fc" else v for v in values]
            g, y = (gs, ys) if task.several else (gs[0], ys[0])
            return by_rule(ErrorWorld(dtype, err), node, g, y, xs, values)

        def allowed(k: int) -> Any:
            b = bounded()[k]
            error = b.e * b.margin if isinstance(b, Err) else 0.0
            if not ordinary:  # no bound is known for elements that an infinity reaches
                error = np.where(np.isnan(error), np.inf, error)
            return error + spacing(0.0, dtype)

        return allowed

    def enclosed(self, task: _Task) -> tuple[Any, list[Any]]:
        """The exact outputs and inputs that a rule reads."""
        xs = [self.balls(task, a) for a in range(len(task.values))]
        if task.takes_its_output:
            return [objects(BALLS.lift(v)) for v in task.outputs], xs
        exact = self.at_inputs(task)
        return (exact if task.several else [exact]), xs

    def by_limits(self, task: _Task) -> tuple[Any, list[Any]] | None:
        """As `enclosed`, for an op that an infinity reaches; None without a limit."""
        exact, _ = task.beside_infinities()
        if exact is None or task.takes_its_output:
            return None
        with infinities_as_limits():
            xs = [BALLS.lift(v) for v in task.values]
        return (exact if task.several else [exact]), xs

    @staticmethod
    def own_errors(task: _Task, ordinary: bool) -> tuple[Any, ...]:
        """The errors of the recorded outputs that a rule reads."""
        if task.takes_its_output:
            return (0.0,) * len(task.outputs)
        own: Any = task.own_error() if ordinary else task.beside_infinities()[1]
        return own if task.several else (own,)

    def finite_part(self, task: _Task, g: Any) -> None:
        """Compare an elementwise rule at the elements with finite values only."""
        node, y = task.node, task.output
        g, *spread = [np.broadcast_to(v, y.shape) for v in (g, *task.values)]
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

        @cache
        def bounded() -> list[Any]:
            own = local_error(node.prim, [_f64(v) for v in xs], _f64(y), node.params, y.dtype)
            wrapped = [Err(v, 0.0, v.dtype) if v.dtype.kind in "fc" else v for v in xs]
            return by_rule(ErrorWorld(y.dtype), node, Err(g, 0.0, y.dtype), Err(y, own, y.dtype), wrapped, xs)

        def allowed(k: int) -> Any:
            b = bounded()[k]
            return (b.e if isinstance(b, Err) else 0.0) + spacing(0.0, y.dtype)

        for k, (a, c, e) in enumerate(zip(node.active, made, exact, strict=True)):
            self.cotangent(task, a, np.asarray(c), objects(e), partial(allowed, k))

    def cotangent(self, task: _Task, a: int, c: Any, exact: Any, bound: Callable[[], Any]) -> None:
        """Compare the cotangent of input `a` with the exact one."""
        if c.size == 0:
            return
        node, what = task.node, f"the derivative of {task.node.name} with respect to its argument {a}"
        if exact.shape != c.shape:
            self.wrong(node, (1, -node.index, 1, a), f"{what} has shape {c.shape}, not {exact.shape}")
            return
        self.compare(task, (1, 1, a), f"argument {a}", "", c, exact, bound)

    def sums(self, sweep: Floats) -> None:
        """Check the sums of cotangents from several consumers."""
        alike: dict[Any, list[int]] = {}
        for i, g in sweep.totals.items():
            if finite(g, *sweep.terms[i]):
                alone = i if g.ndim else None  # sums of as many single numbers are checked together
                alike.setdefault((alone, g.dtype, len(sweep.terms[i])), []).append(i)
        for (alone, dtype, count), members in alike.items():
            columns: Any = zip(*[sweep.terms[i] for i in members], strict=True)
            parts = sweep.terms[alone] if alone is not None else [np.array(c) for c in columns]
            g = sweep.totals[alone] if alone is not None else np.array([sweep.totals[i] for i in members])
            bound = partial(_of_sum, parts, dtype)
            if sum_is_inside(g, list(map(np.asarray, parts)), bound):
                continue
            exact = objects(BALLS.lift(np.asarray(parts[0])))
            for p in parts[1:]:
                exact = exact + objects(BALLS.lift(np.asarray(p)))
            task = _Task([self.program.nodes[i] for i in members], [], g, [])
            what = f"the sum of {count} cotangents"
            self.compare(task, (1, 0), "total", what, g, exact, bound)

    # -- comparisons

    def compare(
        self, task: _Task, place: tuple[int, ...], element: str, what: str, got: Any, exact: Any,
        bound: Callable[[], Any],
    ) -> None:  # fmt: skip
        """Note an array to compare; small arrays wait, because comparing many arrays at once is quicker.

        Parameters
        ----------
        place : tuple of int
            Pass, then the order among the findings of one op.
        element, what : str
            The array, for the finding and in its reason.
        bound : callable
            Gives the bound, which is needed only if a number is not the exact one, correctly rounded.
        """
        self._waiting.append(_Waiting(task, place, element, what, got, exact, bound))
        self._count += got.size
        if self._count > _ENOUGH:
            self._compare_all()

    def _compare_all(self) -> None:
        waiting, self._waiting, self._count = self._waiting, [], 0
        for dtype in dict.fromkeys([w.got.dtype for w in waiting if w.got.dtype.kind in "fc"]):
            some = [w for w in waiting if w.got.dtype == dtype and w.got.size]
            if not some:
                continue
            got = np.concatenate([w.got.ravel() for w in some])
            exact = np.concatenate([objects(w.exact).ravel() for w in some])
            # No bound is less than half a unit, except of ops that return floats exactly.
            off = np.flatnonzero(got != rounded(exact, dtype))
            if not off.size:
                continue
            whose = np.searchsorted(np.cumsum([w.got.size for w in some]), off, side="right")
            start = 0
            for k, w in enumerate(some):
                mine = off[whose == k]
                if mine.size:
                    bound = np.broadcast_to(w.bound(), w.got.shape).ravel()[mine - start]
                    over, ratio = beyond(widest(got[mine]), exact[mine], bound)
                    if over.size:
                        self._exceeded(w, mine[over] - start, ratio)
                start += w.got.size

    def _exceeded(self, w: _Waiting, over: Any, ratio: Any) -> None:
        """Add a finding for each op of a task with elements out of bounds."""
        members = w.task.members
        starts = _starts(members, w.got.size == len(members)) if len(members) > 1 else np.zeros(1, np.intp)
        whose = np.searchsorted(starts, over, side="right") - 1
        for k in np.unique(whose).tolist():
            mine = np.flatnonzero(whose == k)
            worst = mine[int(np.argmax(ratio[mine]))]
            node, flat = members[k], int(over[worst])
            shape = w.got.shape if len(members) == 1 else node.shape
            index = tuple(int(i) for i in np.unravel_index(flat - int(starts[k]), shape))
            words = {"value": f"the value of {node.name} at its recorded inputs", "total": w.what}.get(
                w.element, f"the derivative of {node.name} with respect to its {w.element}, at its recorded inputs,"
            )
            far = f"{ratio[worst]:.3g} times its bound off" if np.isfinite(ratio[worst]) else "not the exact one"
            reason = f"{words} is {far}"
            place = (w.place[0], node.index if w.place[0] == 0 else -node.index, *w.place[1:])
            self.wrong(
                node,
                place,
                reason,
                element=(w.element, index),
                **shown(w.got.ravel(), objects(w.exact).ravel(), (flat,)),
            )

    def wrong(self, node: Node, place: tuple[int, ...], reason: str, **found: Any) -> None:
        """Add a finding for a wrong op, rule or sum of cotangents."""
        verdict = "rule"
        inputs = [self.arrays[j] for j in node.inputs]
        if outside_its_domain(node.prim, inputs, np.result_type(np.float16, *inputs)):
            verdict = "domain"
            reason = f"{node.name} is given an array outside its domain, such as one that is not symmetric; {reason}"
        if all(known != place for known, _ in self._found):
            self._found.append((place, Finding(verdict, at=node, reason=reason, **found)))


class _Waiting(NamedTuple):
    """An array that waits for its comparison; see `Local.compare`."""

    task: _Task
    place: tuple[int, ...]
    element: str
    what: str
    got: Any
    exact: Any
    bound: Callable[[], Any]


# Elementwise ops with at most this many numbers are checked together; a comparison waits for this many numbers.
_SMALL, _ENOUGH = 64, 4096
_BEYOND = 2.0**1000


def added_terms(program: Program) -> float:
    """The root of the number of terms that the ops of a program sum, by which independent roundings grow."""
    nodes = program.nodes
    terms = 0
    for n in nodes:
        if n.kind == "op" and n.inputs:
            alone = n.prim.kind == "elementwise" and not np.ndim(n.output)  # a scalar is a sum of one term
            terms += 1 if alone else max([longest_sum(n, nodes[j].shape) for j in n.inputs])
    return math.sqrt(max(1, terms))


def declares_much(prim: Any) -> bool:
    """Whether the bound on an elementwise op's own error may exceed `ROUNDINGS` units in the last place."""
    close = prim.rounding.noise is None and (prim.public or prim.ulps <= 0.5) and prim.ulps < ROUNDINGS - 0.5
    return prim.kind == "elementwise" and not close


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


def _arrays(program: Program) -> list[Any]:
    """The recorded values of a program as arrays; tuples of them for several outputs."""
    return [
        tuple(map(np.asarray, n.output)) if isinstance(n.output, tuple) else np.asarray(n.output) for n in program.nodes
    ]


def _of_sum(parts: list[Any], dtype: Any) -> Any:
    """The bound on the error of a sum of arrays."""
    size = np.add.reduce([np.abs(_f64(p)) for p in parts])
    return (len(parts) - 1) * spacing(1.0, dtype) / 2 * size + spacing(0.0, dtype)


def _starts(members: list[Node], scalars: bool = False) -> Any:
    """The place of each op's first number in a task."""
    if scalars:
        return np.arange(len(members))
    sizes = [np.size(n.output) for n in members]
    return np.cumsum([0, *sizes[:-1]])


def _dense(program: Program, seeds: list[Any]) -> list[Any] | None:
    """Random cotangents of all outputs; None if those given are all different from 0."""
    if all(c is not None and np.all(c) for c in seeds):
        return None
    rng = np.random.default_rng(29)
    made = []
    for i in program.outputs:
        y = np.asarray(program.nodes[i].output)
        c: Any = rng.normal(size=y.shape)
        made.append(np.asarray(c + 1j * rng.normal(size=y.shape) if y.dtype.kind == "c" else c, y.dtype))
    return made


def _same_bits(c: Any, g: Any) -> bool:
    """True if a rule returned its cotangent unchanged."""
    return c is g or np.array_equal(np.asarray(c), g)


def finite(*arrays: Any) -> bool:
    """Whether all floats and complex numbers are finite."""
    for a in arrays:
        kind = (a if isinstance(a, (np.ndarray, np.generic)) else np.asarray(a)).dtype.kind
        if kind == "f" and not np.ndim(a):
            if not math.isfinite(a):
                return False
        elif kind in "fc" and not np.isfinite(a).all():
            return False
    return True

"""examine: compares a claimed gradient of a program with the exact one, large arrays in chunks."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from flint import arb

from gtape.base.quiet import quietly
from gtape.engine.rules import PartialOutputs
from gtape.engine.worlds import COMPLEX
from gtape.recording.record import off
from gtape.symbolic.balls import precision
from gtape.symbolic.implicit import degenerate_noted
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.inputs import moved_element, moved_element_in_floats, moved_gradient
from gtape.verify.bounds.local import Floats, Local, check_locally
from gtape.verify.bounds.noise import global_bounds, noisy_gradient, reached_from
from gtape.verify.bounds.noise_world import MovedWorld
from gtape.verify.bounds.terms import terms_of_gradient
from gtape.verify.causes.advice import explain
from gtape.verify.causes.blame import CHANGES, blame
from gtape.verify.causes.customs import (
    CHANGE,
    changing,
    faulty_customs,
    faulty_forwards,
    least_stable,
    losing_digits,
    not_finite,
    only_rounded,
)
from gtape.verify.causes.declared_rules import gradient_without_losses, losing_rules_of_ops
from gtape.verify.causes.float_range import (
    lost_by_a_rule,
    lost_without_slope,
    overflow_inside,
    overflows_in_floats,
)
from gtape.verify.causes.misfits import misfits, mistyped
from gtape.verify.judging import ordinary
from gtape.verify.judging.chunks import Chunks, chunks_of
from gtape.verify.judging.comparison import Comparison, Distances, Harmless, Told, Wrong, by_fault
from gtape.verify.judging.connected import order_of
from gtape.verify.judging.cuts import on_a_cut
from gtape.verify.judging.judgement import MANY, Judgement, Suspect, first_bits, nodes_of, terms_within, to_blame
from gtape.verify.judging.ladder import PRECISIONS, climb
from gtape.verify.judging.plain import Plain, rows_apart
from gtape.verify.judging.progress import shown
from gtape.verify.oracles.backward import gradient
from gtape.verify.oracles.certificates import Failure, certify, faulty_rules, roundings_of
from gtape.verify.oracles.enclosures import is_floating
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.oracles.replay import Shared
from gtape.verify.verdicts.ulp import ROUNDINGS, digits_of, same_numbers
from gtape.verify.verdicts.verdict import Cause, Finding, Report

__all__ = ["UNSTABLE", "Gradient", "Rows", "examine"]

UNSTABLE = "the rule is right, but its formula loses digits that the problem does not"

_WRONG_BELOW = "a lower order found its gradient wrong, so the numbers of this order were not examined further"


class Gradient(Judgement):
    """The judgement of the gradient of a program.

    Parameters
    ----------
    seeds : list of arrays or None
        Cotangent of each output.
    got, locally
        As for `Judgement`.
    shared : Shared, optional
        The data that the rows of this program share.
    """

    def __init__(
        self,
        program: Program,
        seeds: list[Any],
        got: list[Any],
        *,
        locally: bool,
        shared: Shared | None = None,
    ) -> None:
        super().__init__(program, got, locally=locally)
        self.seeds = self.row = seeds
        self.shared = shared
        self.known: ordinary.Checked | None = None

    def oracle(self) -> Oracle:
        return Oracle(self.program, self.seeds)

    def derivative(self, oracle: Oracle) -> list[Any]:
        return oracle.replay()

    def beside(self, oracle: Oracle) -> list[Any]:
        if self.order > 1:
            # The backward ops of an inner gradient hold the masks of the recorded point, so jets of its primal serve.
            return oracle.by_jets()
        return oracle.replay_by_bodies()

    def beside_along(self) -> Callable[[Oracle, list[Any]], arb]:
        return Oracle.slope_of_all

    def floats_beside(self, moves: dict[int, Any]) -> list[Any] | None:
        env: dict[int, Any] = {}
        try:
            with np.errstate(all="ignore"):
                for node in self.program.nodes:
                    x = np.asarray(node.output) if node.kind in ("leaf", "const") else node.output
                    if node.index in moves:
                        size = np.where(x == 0, 1.0, np.abs(x))
                        env[node.index] = (x + moves[node.index] * size).astype(np.result_type(x, np.float64))
                    elif node.kind in ("leaf", "const"):
                        env[node.index] = x.astype(np.float64) if x.dtype.kind == "f" else x
                    else:
                        env[node.index] = self.program.step(COMPLEX, node, env)
                return gradient(self.program, self.seeds, Floats(self.program, list(env.values())))
        except Exception:  # an op may not take the dtype, or other decisions give other shapes
            return None

    def certified(self, oracle: Oracle, report: Report) -> tuple[list[Any], list[Failure]]:
        exact = oracle.replay()
        failures = certify(oracle, exact)
        report.used, report.coverage["rules"] = oracle.used(), len(oracle.made)
        small = only_rounded(oracle, failures, ROUNDINGS) if failures else 0.0
        if small:
            by_bodies = Oracle(self.program, self.seeds, by_bodies=True)
            by_bodies.evaluate()
            exact = by_bodies.replay()
            # The recorded ops of an inner gradient still hold the users' functions.
            failures = failures if any(f.mark is None or f.error > small for f in certify(by_bodies, exact)) else []
        elif failures and self._only_at_kinks(oracle):
            self.excused, failures = failures, []
        return exact, failures

    def _only_at_kinks(self, oracle: Oracle) -> bool:
        """Whether all that fails are custom gradients at kinks of their bodies, with conventions of their own.

        The whole function then judges their numbers.
        """
        if oracle.elsewhere is not None:
            return False
        users = [n for n in self.program.nodes if n.kind == "custom" and n.prim.declared is None]
        wrong = [f.node for f in faulty_customs(oracle) if f.node is not None]
        if not wrong:  # the cotangent of an inner gradient may be 0 at the kink
            wrong = [node for node, _ in faulty_forwards(oracle, transposed=False)]
        if (wrong and not self.all_meet_kinks(oracle, wrong)) or faulty_rules(oracle):
            return False
        # All are right in value, so that only derivatives of their own differ from those of the branches taken.
        if not wrong and not (self.order > 1 and self.at_kinks(oracle, users)):
            return False
        try:
            # A series in place of a gradient has rounded constants, and differs from the gradient beside the point.
            room = ROUNDINGS * min(map(roundings_of, users), default=0.0)
            held = self.sides().holds(lambda beside: self._is_right_beside(beside, room))
            return held and self.all_may_be_conventions(oracle, wrong)
        except (ArithmeticError, ValueError, TypeError, IndexError):  # the function may make other shapes there
            return False

    def _is_right_beside(self, beside: Oracle, room: float) -> bool:
        """Whether the custom gradients and the rules are right beside the point, up to an error."""
        if all(f.error <= room for f in certify(beside, beside.replay())):
            return True
        if self.order == 1:
            return False
        # The backward ops of an inner gradient may hold the masks of the recorded point, so each op is compared alone.
        wrong = faulty_rules(beside) or faulty_forwards(beside, transposed=False) or faulty_customs(beside, slopes=True)
        return not wrong

    def blamed(self, oracle: Oracle, failures: list[Failure]) -> list[Finding]:
        known = self._wrong_below()
        if known:
            return [Finding("rule", order=self.order, at=node, reason=_WRONG_BELOW) for node in known]
        trusted = self._conventions(oracle)
        return blame(self.program, oracle, failures, self.got, self.order, trusted, self._harmless(oracle, trusted))

    def _wrong_below(self) -> list[Node]:
        """The custom gradients that a lower order found wrong, if a sweep through their bodies agrees with the mirrors.

        The inner gradients of the program are derivatives of lower orders, so their failures are known already.
        """
        below = frozenset() if self.shared is None else self.shared.wrong_below
        users = [n for n in self.program.nodes if n.kind == "custom" and below and n.prim.declared is None]
        wrong = [n for n in users if (n.name, n.line) in below]
        if not wrong:
            return []
        trusted = frozenset([n.index for n in users if n not in wrong])
        by_bodies = self._through_bodies(trusted)
        try:
            left = certify(by_bodies, by_bodies.replay())
        except (ArithmeticError, ValueError, TypeError, IndexError, TooDeep):  # a wrong rule may give other shapes
            return []
        return [] if any(f.mark is None for f in left) else list({(n.name, n.line): n for n in wrong}.values())

    def _through_bodies(self, trusted: frozenset[int]) -> Oracle:
        """An oracle that takes the bodies of all custom gradients but the trusted ones, with the values of all nodes.

        Parameters
        ----------
        trusted : frozenset of int
            As for `blame`.
        """
        by_bodies = Oracle(self.program, self.seeds, by_bodies=True)
        by_bodies.trusted = trusted
        if self.shared is not None:
            by_bodies.shared = self.shared.get(("through bodies", trusted), Shared)
        by_bodies.evaluate_once()
        return by_bodies

    def _harmless(self, oracle: Oracle, trusted: frozenset[int]) -> Callable[[int, Any, frozenset[int]], Any]:
        """A function of a source, its exact numbers and the faulty nodes: which numbers are right or have a harmless
        cause.

        The bounds are those of the right derivative, because the inputs move a wrong one by other amounts. The bounds
        of one row show whether they excuse errors of these nodes; in other rows, no bound is asked for such errors.
        `Harmless.mask` tells which errors of one row need the costly bounds.

        Parameters
        ----------
        oracle : Oracle
            After its replay by the wrong rules.
        trusted : frozenset of int
            As for `blame`.
        """
        compared, known = Harmless(self.order, self), list[Oracle]()
        beyond = set[frozenset[int]]() if self.shared is None else self.shared.beyond
        made = functools.cache(oracle.replay)

        def harmless(s: int, exact: Any, faulty: frozenset[int]) -> Any:
            got, before = np.asarray(self.got[s]), self.last
            try:
                by_rules = made()[s] if faulty and got.dtype.kind == "f" else None
                comparable = by_rules is not None and np.shape(by_rules) == got.shape
                explained = by_fault(by_rules, exact, got) if comparable else np.False_
                if not known:
                    by_bodies = self._through_bodies(trusted)
                    by_bodies.replay()
                    known.append(by_bodies)
                self.last = known[0]
                mask = compared.mask(s, exact, got, explained, beyond=faulty in beyond)
                if explained.any() and not (mask & explained).any():
                    beyond.add(faulty)
                return mask
            except (ArithmeticError, ValueError, TypeError, IndexError, TooDeep):  # a wrong rule may give other shapes
                return np.zeros(got.shape, np.bool_)
            finally:
                self.last = before

        return harmless

    def _conventions(self, oracle: Oracle) -> frozenset[int]:
        """The custom gradients that differ from their bodies at kinks alone, if others are wrong beside them."""
        wrong = [f.node for f in faulty_customs(oracle) if f.node is not None]
        if len(wrong) < 2:
            return frozenset()
        try:
            met = [n for n in self.at_kinks(oracle, wrong) if self.all_may_be_conventions(oracle, [n])]
        except (ArithmeticError, ValueError, TypeError, IndexError):  # the functions may make other shapes there
            return frozenset()
        return frozenset([n.index for n in met]) if len(met) < len(wrong) else frozenset()

    def examine(self) -> Report:
        lost = not self.claimed and any(g is not None and not np.isfinite(g).all() for g in self.got)
        if lost and any(n.kind == "custom" and n.prim.declared is None for n in self.program.nodes):

            def attempt(bits: int, _: list[str]) -> tuple[Finding | None]:
                return (not_finite(self.program, self.seeds, self.got, self.order),)

            found, _ = climb(self.program, self.order, attempt, PRECISIONS[:2])
            if found is not None and found[0] is not None:
                report = self.report()
                report.findings.append(found[0])
                report.checked = sum(int(np.size(g)) for g in self.got if g is not None)
                report.max_ulp = math.inf
                return report
        return super().examine()

    def shortly(self) -> Report | None:
        if self.claimed:
            return None
        # Numbers of a wrong shape may be equal to the exact ones, such as ones, and numbers of a wrong dtype close.
        misfit = misfits if self._has_wrong_shapes() else mistyped
        found = misfit(self.program, self.order)
        if found:
            report = self.report()
            report.findings = found
            return report
        if any(g is None for g in self.got):
            return None
        known = None if self.locally or self.shared is None else self.shared.compared
        if known is not None and known[0] is self.seeds:
            return self._as_compared(*known[1:])
        if self.order > 2:
            return None
        bits = first_bits(self.program)
        with precision(bits), degenerate_noted() as degenerate:
            checked = self._checked()
            if (
                degenerate
                or checked is None
                or any(np.shape(e) != g.shape for e, g in zip(checked.gradient, self.got, strict=True))
            ):
                return None
            report, far = checked.report(), checked.distances(self.got)
            worst = max([float(d.ulps.max()) for d in far])
            if not all((d.off + d.radius <= d.tight).all() for d in far):
                compared = self._beyond_roundings(checked, far)
                if compared is None:
                    return None
                worst, report.findings = compared.worst, compared.findings
            if self.order > 1 and self.shared is not None and not self.shared.calm:
                checked.share(self.shared)
        report.checked, report.max_ulp = sum(g.size for g in self.got), worst
        report.coverage["bits"] = bits
        return report

    def _has_wrong_shapes(self) -> bool:
        """Whether a gradient has another shape than its source."""
        return any(
            g is not None and bool(nodes) and np.shape(g) != self.program.nodes[nodes[0]].shape
            for g, nodes in zip(self.got, self.program.sources, strict=True)
        )

    def keep(self, exact: list[Any], compared: Comparison) -> None:
        if self.shared is not None and self.shared.calm and all(e is not None for e in exact):
            self.shared.compared = self.seeds, exact, compared.answers

    def _as_compared(self, exact: list[Any], answers: dict[Any, Any]) -> Report | None:
        """The report on other numbers of a row that was compared before; None if not all of them are harmless."""
        with precision(PRECISIONS[0]):
            compared = Comparison(self.order, self, answers)
            if not self._is_harmless(compared, exact):
                return None
        report = self.report()
        report.findings, report.checked, report.max_ulp = compared.findings, compared.checked, compared.worst
        return report

    def _checked(self) -> ordinary.Checked | None:
        """The exact gradient by the short way. If ops need no check, only kept results for these cotangents count."""
        if self.locally:
            made = ordinary.checked(self.program, self.seeds)
            if self.shared is not None:
                self.shared.short = made or False
            return made
        if self.shared is None:
            return None
        if self.shared.short is None:  # the first row of a program whose ops another one has, too
            self.shared.short = ordinary.checked(self.program, self.seeds, locally=False) or False
        known: ordinary.Checked | Literal[False] = self.shared.short
        return known if known and known.given is self.seeds else None

    def _beyond_roundings(self, checked: ordinary.Checked, far: list[Distances]) -> Comparison | None:
        """The comparison of numbers beyond the tight bound; None if not all of them are harmless."""
        compared = Comparison(self.order, self, checked.answers)
        self.known = checked
        harmless = self._is_harmless(compared, checked.gradient, far)
        self.known = None
        return compared if harmless else None

    def _is_harmless(self, compared: Comparison, exact: list[Any], far: list[Distances] | None = None) -> bool:
        """Compare the numbers, and tell whether all are right or excused."""
        try:
            compared.numbers(exact, self.got, far)
            return not compared.undecided and all(f.ok for f in compared.findings)
        except ArithmeticError:
            return False
        finally:
            self.last = None

    def _oracle(self) -> Oracle:
        if self.last is None and self.known is not None:
            self.last = self.known.oracle()
        elif self.last is None:
            self.last = oracle = self.oracle()
            oracle.shared = self.shared
            oracle.evaluate_once()
            oracle.replay()
        return super()._oracle()

    def bounds(self, runs: int) -> list[Any] | None:
        return global_bounds(self.program, self.seeds, runs, shared=self.shared)

    def moving(self, oracle: Oracle, start: dict[int, Any], number: int) -> list[Any]:
        return moved_gradient(oracle, start, number)

    def moved_along(self, start: dict[int, Any], number: int) -> list[Any]:
        if self.known is not None:
            with contextlib.suppress(ordinary.Apart):
                return self.known.moved(start)
        return super().moved_along(start, number)

    def moved_apart(self, moves: list[tuple[list[int], int, float]]) -> list[list[Any]] | None:
        if isinstance(self.known, ordinary.Straightly):
            with contextlib.suppress(ordinary.Apart):
                return self.known.moved_apart(moves)
        return super().moved_apart(moves)

    def moved_element(self, s: int, place: tuple[int, ...]) -> float:
        node = self.program.nodes[self.program.sources[s][0]]
        many = np.size(node.output) > 1 and np.asarray(node.output).dtype.kind == "f"
        if many and self.program.size > MANY:
            return moved_element_in_floats(self.program, self.nudged, s, place)
        return moved_element(self._oracle(), s, place) if many else 0.0

    def terms(self) -> list[Any]:
        return self.sizes_of_terms(of_any_formula=False)

    def sizes_of_terms(self, *, of_any_formula: bool) -> list[Any]:
        """As `gtape.verify.bounds.terms.terms_of_gradient`, within the numbers that a factorisation allows."""

        def made() -> list[Any]:
            parts = [c for g, cs in self._oracle().made.values() for c in (g, *cs) if c is not None]
            return [v for c in parts for v in PartialOutputs.of(c).values()]

        oracle = self._oracle()
        kept = (oracle.shared or Shared()).get
        terms = terms_of_gradient(self.program, self.seeds, oracle.env, kept, of_any_formula=of_any_formula)
        return terms_within(self.program, terms, made)

    def nudged(self, world: Any) -> list[Any]:
        if self.known is not None and isinstance(world, MovedWorld):
            return self.known.moved_in_floats(world)
        return noisy_gradient(self.program, self.seeds, world, self.shared)

    def local(self, exact: dict[int, Any]) -> list[Finding]:
        if self.checked_ops is not None and not self.checked_ops.findings:
            return []  # with fewer bits, each op was within its bound
        self.checked_ops = Local(self.program, exact)
        found = self.checked_ops.run(self.seeds)
        if self.shared is not None and not found:
            self.shared.ops = self.checked_ops
        return found

    def followed(self, s: int) -> tuple[Any, float] | None:
        if self.known is not None:
            return self.known.follows(s)
        ops = None if self.shared is None else self.shared.ops
        if self.checked_ops is None and ops is not None:  # the first row checked the ops; run this row in floats
            ops.gradient = gradient(self.program, self.seeds, Floats(self.program, ops.arrays))
            self.checked_ops = ops
        return super().followed(s)

    def in_floats(self, s: int) -> Any:
        with np.errstate(all="ignore"):
            return gradient(self.program, self.seeds, Floats(self.program))[s]

    def overflow(self) -> Cause | None:
        return overflows_in_floats(self.program, self.seeds)

    def loses_without_slope(self) -> bool:
        return lost_without_slope(self.program, self.seeds, self._oracle())

    def suspects(self, oracle: Oracle, wrong: Wrong) -> list[Suspect]:
        found = [to_blame(self.program, f) for f in check_locally(self.program, self.seeds)]
        found += self.beyond_range(oracle, wrong)
        if not found:
            found = [to_blame(self.program, f) for f in misfits(self.program, self.order)]
        lost = None if found else lost_by_a_rule(self.program, self.seeds)
        if lost is not None:
            found.append(Suspect(lost, nodes_of(self.program, lost)))
        found += [Suspect(told, nodes) for told, nodes in self._coarse()]
        # The ops are within their bounds, so that a custom gradient may be unstable.
        custom = least_stable(oracle) if any(n.kind == "custom" for n in self.program.nodes) else None
        if custom is not None:
            overflow = overflow_inside(oracle, custom)
            told: Cause = "unstable", overflow or UNSTABLE, custom.name, custom.line
            # No underflow along the way explains infinities and NaN.
            first = overflow is not None and any(g is not None and not np.isfinite(g).all() for g in self.got)
            found.insert(0 if first else len(found), Suspect(told, [custom]))
        return found

    def lossy_rules(self) -> list[tuple[Cause, list[Any]]]:
        found = [] if self.claimed else [*self._coarse(), *self._rounded()]
        return [
            (told, reached_from(self.nudged, self.dtype, {i for n in nodes for i in (n.index, *n.body)}))
            for told, nodes in found
        ]

    def losing_rules(self) -> list[tuple[Cause, list[Any]]]:
        if self.claimed or not any(n.kind == "custom" and n.prim.declared is None for n in self.program.nodes):
            return []
        found = []
        for node in losing_digits(self._oracle()):
            reason = f"the formula of the gradient that {node.name} returns loses digits that its body does not"
            told: Cause = "cancellation", reason, node.name, node.line
            found.append((told, reached_from(self.nudged, self.dtype, {node.index, *node.body})))
        return found

    def without_losses(self) -> list[tuple[str, Any, list[Any]]]:
        found = list[tuple[str, Any, list[Any]]]()
        for nodes in [] if self.claimed else losing_rules_of_ops(self.program, self.seeds):
            numbers = gradient_without_losses(self.program, self.seeds, nodes)
            if numbers is not None:
                found.append((nodes[0].name, nodes[0].line, numbers))
        return found

    def _coarse(self) -> list[tuple[Cause, list[Node]]]:
        """The custom gradients of inner gradients whose rule computes in a coarser dtype than the program.

        Each comes with the nodes in this dtype.
        """
        nodes, made = self.program.nodes, list[tuple[Cause, list[Node]]]()
        for i, run in self.program.run_by_users_rules.items():
            finest = [digits_of(a.dtype) for a in nodes[i].step.layouts if a.dtype.kind in "fc"]
            floating = [(nodes[k], np.asarray(nodes[k].output).dtype) for k in run if _is_one_float(nodes[k])]
            coarse = [(n, dtype) for n, dtype in floating if digits_of(dtype) < min(finest, default=0)]
            if coarse:
                dtype = min([dtype for _, dtype in coarse], key=digits_of)
                reason = f"the rule computes in {dtype.name}, and so loses digits that the problem does not"
                told: Cause = "unstable", reason, nodes[i].name, nodes[i].line
                made.append((told, [n for n, _ in coarse]))
        return made

    def _rounded(self) -> list[tuple[Cause, list[Node]]]:
        """The custom gradients that differ from the derivative of their body by more than a few roundings of one op.

        Their error is small enough to come from rounded constants, so that it is no wrong rule. Each comes with its
        node.
        """
        made = list[tuple[Cause, list[Node]]]()
        with contextlib.suppress(ArithmeticError):  # the precision in force does not decide
            for f in faulty_customs(self._oracle()):
                if f.node is not None and f.error > roundings_of(f.node):
                    by = f"relative error {f.shown:.3g} {f.place}"
                    reason = f"the gradient that {f.node.name} returns loses digits that its body does not ({by})"
                    made.append((("unstable", reason, f.node.name, f.node.line), [f.node]))
        return made

    def otherwise(self) -> Cause:
        return "unstable", UNSTABLE, None, None

    def wrong(self, wrong: Wrong) -> list[Told]:
        users = [n for n in self.program.nodes if n.kind == "custom" and n.prim.declared is None]
        changed = self._changed(users, wrong) if users and not self.claimed else []
        if not changed:
            return super().wrong(wrong)
        names = list(dict.fromkeys(n.name for n in changed))
        one = changed[0] if len(names) == 1 else None
        who = f"the gradient that {names[0]} returns" if one else f"a gradient that one of {', '.join(names)} returns"
        name, line = (None, None) if one is None else (one.name, one.line)
        return [Told(wrong.mask, "rule", f"{who} {CHANGES}", name, line)]

    def _changed(self, users: list[Node], wrong: Wrong) -> list[Node]:
        """The custom gradients of which one returned other numbers on the tape than it returns now.

        A formula that loses digits loses the same digits in each run.
        """
        floats = Floats(self.program)
        with np.errstate(all="ignore"):
            again = gradient(self.program, self.seeds, floats)[wrong.source]
            if again is None or np.shape(again) != np.shape(wrong.got):
                return []
            off, now = np.abs(wrong.got - wrong.exact), np.abs(np.asarray(again) - wrong.exact)
            error = np.max(np.where(wrong.mask & (off > 0), off / np.abs(wrong.exact), 0.0))
            other = (wrong.mask & (now <= off * CHANGE)).any()
        reached = [n for n in users if n.index in floats.kept]
        return changing(reached, lambda n: floats.kept[n.index][0], float(error)) or (reached if other else [])


def examine(
    program: Program,
    seeds: list[Any],
    got: list[Any],
    *,
    locally: bool = True,
    judgement_of: Callable[..., Judgement] = Gradient,
    shared: Shared | None = None,
) -> Report:
    """Compare a claimed gradient of a program with the exact one.

    Parameters
    ----------
    seeds : list of arrays or None
        Cotangent of each output.
    got : list of arrays or None
        The claimed gradient of each source.
    locally : bool
        Whether to check every op and rule by itself, too.
    judgement_of : callable
        Makes the judgement: `Gradient`, or a class made from it.
    shared : Shared, optional
        The data that the rows of this program share.
    """
    chunks = chunks_of(program)
    if chunks is not None:
        return _in_chunks(chunks, seeds, got, locally, judgement_of)
    with off(), quietly():
        judgement = judgement_of(program, seeds, got, locally=locally, shared=shared)
        try:
            report = judgement.shortly() or judgement.examine()
        except Exception:  # a rule of wrong shape raises anywhere
            found = misfits(program, order_of(program))
            if not found:
                raise
            return Report(findings=found)
        if report.verdict in ("rule", "unstable"):
            report = on_a_cut(judgement, report) or report
        explain(program, report, shared=shared)
        return report


class Rows:
    """Examines rows of derivatives one after another, and keeps the data that the rows of one program share.

    Parameters
    ----------
    judgement_of : callable
        Makes the judgement.
    plain : bool
        Whether the numbers are gtape's own, so that a plain tape must return the same.
    """

    def __init__(self, judgement_of: Callable[..., Judgement] = Gradient, *, plain: bool = True) -> None:
        self._judgement_of = judgement_of
        self._compares = plain
        self._program: Program | None = None
        self.shared = Shared()
        self._wrong: frozenset[tuple[str | None, Any]] = frozenset()
        self._plain: Plain | None = None

    def know(self, findings: list[Finding]) -> None:
        """Take note of the wrong rules of one order, so that no row of a higher order searches them again."""
        self._wrong |= {(f.op, f.line) for f in findings if f.verdict == "rule" and not f.ok and f.op is not None}

    def as_plain(self, seeds: list[Any], got: list[Any]) -> bool | None:
        """Whether a plain tape returns the same row, bit for bit; None if no plain tape ran."""
        plain = None if self._plain is None else self._plain.row(seeds)
        return None if plain is None else _same(plain, got)

    def examine(self, program: Program, seeds: list[Any], got: list[Any], *, locally: bool) -> Report:
        """As `examine`, for the next row."""
        new = program is not self._program
        if new:
            self._program, self.shared = program, Shared()
            self.shared.wrong_below = self._wrong
            self._plain = Plain(program) if self._compares else None
        judged = self._judge(seeds, got, locally=locally)
        if self._plain is None or not judged.ok:
            return judged
        plain = self._plain.row(seeds)
        if plain is not None:
            judged.findings += self._apart(seeds, plain, got)
            judged.coverage["plain"] = 1
        for row in rows_apart(program) if new and locally and judged.ok else ():
            judged.findings += self._apart(*row)
            if not judged.ok:
                break
        return judged

    def _apart(self, seeds: list[Any], plain: list[Any], got: list[Any]) -> list[Finding]:
        """A finding if the numbers of a plain tape are wrong, but the numbers of the check are right."""
        plain = [None if q is None else p for p, q in zip(plain, got, strict=True)]
        if _same(plain, got):
            return []
        assert self._program is not None
        wrong = [f for f in self._judge(seeds, plain, locally=False).findings if not f.ok]
        if not wrong or not self._judge(seeds, got, locally=False).ok:
            return []
        f = wrong[0]
        # At a point outside of a domain, numbers are compared with one-sided limits, which hold no bound of roundings.
        if f.verdict == "domain":
            with np.errstate(all="ignore"):
                if _only_rounded(plain, got, global_bounds(self._program, seeds)):
                    return []
        if f.verdict == "cancellation":  # both lose digits, one more than half of them, the other less
            return [f]
        reason = "a plain tape returns this number, and a tape under a check the exact one: a fault of gtape itself"
        found = Finding("rule", order=f.order, element=f.element, got=f.got, exact=f.exact, ulps=f.ulps, reason=reason)
        found.without_witness = "no single op is wrong"
        return [found]

    def _judge(self, seeds: list[Any], got: list[Any], *, locally: bool) -> Report:
        assert self._program is not None
        return examine(self._program, seeds, got, locally=locally, judgement_of=self._judgement_of, shared=self.shared)


def _only_rounded(a: list[Any], b: list[Any], bounds: list[Any]) -> bool:
    """True if two gradients differ by no more than the bounds of their roundings, where both have numbers."""
    pairs = [(p, q, e) for p, q, e in zip(a, b, bounds, strict=True) if p is not None and q is not None]
    return all(e is not None and (np.abs(np.subtract(p, q)) <= e).all() for p, q, e in pairs)


def _same(a: list[Any], b: list[Any]) -> bool:
    """True if two gradients agree bit for bit, where both have numbers."""
    return all(p is None or q is None or same_numbers(p, q) for p, q in zip(a, b, strict=True))


def _in_chunks(
    chunks: Chunks, seeds: list[Any], got: list[Any], locally: bool, judgement_of: Callable[..., Judgement]
) -> Report:
    """Examine chunk by chunk; stop after the first chunk with wrong elements."""
    program = chunks.program
    report = Report()
    told: dict[Any, Finding] = {}
    with contextlib.closing(shown(chunks.cut(seeds, got), len(chunks), "checking a gradient exactly")) as cut:
        for chunk in cut:
            one = examine(chunk.program, chunk.seeds, chunk.got, locally=locally, judgement_of=judgement_of)
            found, one.findings = one.findings, []
            counted = dict(report.coverage)
            report.extend(one)
            for name in ("ops", "rules", "bits"):  # the same in every chunk, so not added up
                if name in one.coverage:
                    report.coverage[name] = max(counted.get(name, 0), one.coverage[name])
            for f in found:
                chunks.outside(f, chunk.place)
                known = told.setdefault((f.key, f.element and f.element[0]), f)
                if known is not f and f.element is not None:
                    known.absorb(f)
            wrong = [f for f in found if not f.ok and f.verdict != "undecided"]  # an undecided chunk only warns
            if wrong:
                if chunk.place.stop < chunks.length:
                    worst = min(wrong, key=lambda f: f.gravity)
                    left = f"rows after row {chunk.place.stop - 1} along axis {chunks.axis} were not checked"
                    worst.reason += f"; {left}"
                break
    report.findings = list(told.values())
    report.used = chunks.used(report.used)
    if locally:
        with np.errstate(all="ignore"), precision(PRECISIONS[0]):
            for f in check_locally(chunks.rest(), seeds):
                f.order = order_of(program)
                report.findings.append(f)
        explain(program, report)
    return report


def _is_one_float(node: Node) -> bool:
    return not isinstance(node.output, tuple) and is_floating(node.output)

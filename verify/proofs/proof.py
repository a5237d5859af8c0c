"""Proofs: compare the rules of a primitive with ``sympy.diff`` of its mirror, on symbols.

Every vjp and jvp rule runs in the world of SymPy expressions, on generic symbols. Its difference from ``sympy.diff`` of
the mirror must be zero, and a normal form must show this (see `proof_normal`). No NumPy kernel runs. All orders follow,
because rules are made of primitives, whose rules are proved in the same way.
"""

from __future__ import annotations

import difflib
import time
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from gtape.base.diagnosis import diagnosed
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.namespaces import catalogue
from gtape.symbolic import mirrors
from gtape.symbolic.mirrors.registry import ARRAYS, SCALARS
from gtape.verify.proofs.proof_cells import Setting, boxed, settings, unseen
from gtape.verify.proofs.proof_complex import complex_cells
from gtape.verify.proofs.proof_normal import Zero, agree
from gtape.verify.proofs.proof_rational import nodes
from gtape.verify.proofs.proof_rules import Cell, Identity, cells
from gtape.verify.proofs.proof_text import counterexample
from gtape.verify.verdicts.naming import made_of

__all__ = ["Case", "Proof", "prove"]


class Case(NamedTuple):
    """One identity: a rule, in one direction, for one argument, at given shapes and parameters, on one cell of the
    domain.

    Attributes
    ----------
    shapes : tuple of tuple of int
    params : dict
    cell : tuple of str
        The decisions taken; the identity holds where all of them have the same outcome.
    direction : {"vjp", "jvp"}
    argument : int
    how : str
        How the identity was decided: "as built", "expand", "numerator", "normal form", "normal form, by signs" are
        proofs; "points" is agreement at exact points only; "refuted", "fault" and "open" are failures.
    seconds : float
    rule, slope : sympy.Expr or None
        One element of the rule's result and of the derivative of the mirror, on this cell.
    """

    shapes: tuple[Any, ...]
    params: dict[str, Any]
    cell: tuple[str, ...]
    direction: str
    argument: int
    how: str
    seconds: float
    rule: Any = None
    slope: Any = None

    @property
    def proved(self) -> bool:
        """True if the identity is proved."""
        return self.how not in ("points", "refuted", "fault", "open")

    def __repr__(self) -> str:
        where = f" where {', '.join(self.cell)}" if self.cell else ""
        params = f" {self.params}" if self.params else ""
        what = f"{self.direction} of argument {self.argument} at {self.shapes}{params}{where}"
        return f"<{what}: {self.how}, {self.seconds:.3f} s>"


class Proof:
    """The proof of one primitive, or its failure.

    Attributes
    ----------
    name : str
    cases : list of Case
    counterexample : str or None
        Python source that runs and shows the fault.
    unseen : tuple of str
        Why the cases do not cover all inputs: branches of the mirror that no point reached, and conditions of mirror or
        rules that could not be solved.

    Examples
    --------
    >>> import gtape
    >>> proof = gtape.verify.prove("sin")
    >>> proof.name, proof.proved, proof.counterexample
    ('sin', True, None)
    """

    __slots__ = ("cases", "counterexample", "name", "unseen")

    def __init__(
        self, name: str, cases: list[Case], counterexample: str | None = None, unseen: tuple[str, ...] = ()
    ) -> None:
        if not isinstance(cases, list | tuple) or any(not isinstance(c, Case) for c in cases):
            raise TypeError(f"a Proof takes a list of cases, not {shown(cases)}; gtape.verify.prove makes proofs")
        self.name, self.cases, self.counterexample, self.unseen = name, cases, counterexample, unseen

    @property
    def proved(self) -> bool:
        """True if there are cases, all are proved, and no branch is unseen."""
        return bool(self.cases) and all(c.proved for c in self.cases) and not self.unseen

    @property
    def certified(self) -> bool:
        """True if there are cases, all are proved or confirmed at exact points, and no branch is unseen."""
        return bool(self.cases) and all(c.proved or c.how == "points" for c in self.cases) and not self.unseen

    @property
    def seconds(self) -> float:
        """The time of all cases."""
        return sum(c.seconds for c in self.cases)

    @property
    def state(self) -> str:
        """The outcome in a word: "proved", "certified" (at exact points only), "refuted" or "open"."""
        known = {"proved": self.proved, "certified": self.certified, "refuted": self.counterexample is not None}
        return next((word for word, holds in known.items() if holds), "open")

    def text(self) -> str:
        """The proof to read: the mirror, the rules, each branch, and how each identity was decided.

        Examples
        --------
        >>> import gtape
        >>> print(gtape.verify.prove("sin").text().splitlines()[0])
        sin: proved
        """
        from gtape.verify.proofs.proof_page import page

        return page(self)

    def latex(self) -> str:
        """The proof as a section in LaTeX, which needs the package amsmath.

        Examples
        --------
        >>> import gtape
        >>> print(gtape.verify.prove("sin").latex().splitlines()[1])
        \\section*{sin: proved}
        """
        from gtape.verify.proofs.proof_page import latex_page

        return latex_page(self)

    def __repr__(self) -> str:
        return f"<Proof of {self.name}: {self.state}, {len(self.cases)} cases, {self.seconds:.2f} s>"


@diagnosed
def prove(name: str, *, seconds: float = 30.0) -> Proof:
    """Prove the derivative rules of a primitive.

    Parameters
    ----------
    name : str
        The primitive's registered name.
    seconds : float
        The time limit of one identity, which is then only tested at exact points.

    Raises
    ------
    TypeError
        If `name` is not a string.
    ValueError
        For an unknown name, a primitive without derivative or mirror, or a time limit that is not a positive number.

    Examples
    --------
    >>> from gtape.verify.proofs.proof import prove
    >>> prove("sin").proved
    True
    """
    if not isinstance(name, str):
        raise TypeError(f"prove() takes the name of a primitive, such as 'tanh', not {shown(name)}")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ValueError(f"seconds is a positive number, not {shown(seconds)}")
    catalogue.load()
    mirrors.load()
    prim = REGISTRY.get(name)
    if prim is None:
        close = difflib.get_close_matches(name, list(REGISTRY), 3)
        hint = f"did you mean {' or '.join(close)}?" if close else "gtape.declare.primitives.REGISTRY has the names"
        if isinstance(name, str) and made_of(name):
            hint = f"the function of that name is made of {', '.join(made_of(name))}"
        raise ValueError(f"no primitive is named {shown(name)}; {hint}")
    if not prim.differentiable:
        raise ValueError(f"{name} is declared not differentiable, so it has no rules to prove")
    if name not in SCALARS and name not in ARRAYS:
        raise ValueError(f"{mirrors.without_mirror(name)}, so there is nothing to prove it against")
    run = _Run(prim, seconds)
    missing: list[str] = []
    visited: dict[str, list[tuple[Setting, list[dict[Any, Any]]]]] = {}
    for setting in () if "complex" in prim.roles else settings(prim):
        points: list[dict[Any, Any]] = []
        for cell, todo in cells(setting):
            run.cell(cell, todo)
            points += cell.points
        missing += setting.missing
        visited.setdefault(repr(setting.params), []).append((setting, points))
        if run.counterexample is not None:
            return Proof(name, run.cases, run.counterexample)
    missing += [m for pairs in visited.values() for m in unseen(prim, pairs[0][0].params, pairs)]
    for cell, todo in complex_cells(prim):
        run.cell(cell, todo)
        if run.counterexample is not None:
            return Proof(name, run.cases, run.counterexample)
    return Proof(name, run.cases, None, tuple(dict.fromkeys(missing)))


class _Run:
    """The state of the proof of one primitive."""

    def __init__(self, prim: Primitive, seconds: float) -> None:
        self.prim, self.zero = prim, Zero(seconds)
        self.cases: list[Case] = []
        self.counterexample: str | None = None

    def cell(self, cell: Cell, todo: list[Identity]) -> None:
        """Decide all identities on one cell."""
        for identity in todo:
            start = time.perf_counter()
            how = self.identity(cell, identity)
            seconds = (time.perf_counter() - start) / len(identity.arguments)
            rule, slope = _shown(identity)
            for i in identity.arguments:
                case = Case(
                    cell.shapes, cell.params, cell.key() or (), identity.direction, i, how, seconds, rule, slope
                )  # fmt: skip
                self.cases.append(case)

    def identity(self, cell: Cell, identity: Identity) -> str:
        """Decide one identity; the result says how."""
        got, expected = identity.got, identity.expected
        fault = next((m for m in got if isinstance(m, Exception)), None)
        if fault is not None:
            return self.refute(cell, identity, f"the rule raises {type(fault).__name__}: {fault}")
        if any(m is None for m in got):
            return self.refute(cell, identity, "the rule gives nothing")
        shapes = [np.shape(m) for m in got], [e.shape for e in expected]
        if shapes[0] != shapes[1]:
            return self.refute(cell, identity, f"the rule gives the shape {shapes[0][0]}, not {shapes[1][0]}")
        hows = ["as built"]
        for m, e in zip(got, expected, strict=True):
            for at in np.ndindex(*e.shape):
                left, right = sp.sympify(boxed(m)[at], strict=True), sp.sympify(e[at], strict=True)
                hows.append(self.element(cell, identity, at, left, right))
                if hows[-1] in ("refuted", "open"):
                    return hows[-1]
        return max(hows, key=_HOW.index)

    def element(self, cell: Cell, identity: Identity, at: tuple[int, ...], got: Any, expected: Any) -> str:
        """Decide one element of a result."""
        residual = cell.residual(got, expected)
        quick = self.zero.quick(residual, identity.linear)
        if quick is not None:
            return quick
        points = [_with_seeds(p, identity.linear, k) for k, p in enumerate(cell.nearby())]
        tested = True
        try:
            if not nodes(residual).isdisjoint((sp.nan, sp.zoo, sp.oo)):
                raise ArithmeticError(f"{residual} is not finite")
            wrong = agree(residual, points, complex=cell.complex)
        except (ArithmeticError, NotImplementedError, ValueError):  # undefined there, or a function without balls
            tested, wrong = False, None
        if wrong is not None:
            left, right = (sp.N(e.xreplace(wrong), 20) for e in (got, expected))
            what = f"the rule gives {left} for element {at}, the mirror's derivative is {right}"
            if self.prim.kind == "implicit" and identity.direction == "vjp":
                what = f"<rule(g), dA> is {left}, <g, dL> is {right}"
            return self.refute(cell, identity, identity.fault or f"off by {sp.N(left - right, 10)}: {what}", wrong)
        how = self.zero.prove(residual, identity.linear, cell.by_signs)
        return how if how is not None else "points" if tested else "open"

    def refute(self, cell: Cell, identity: Identity, what: str, point: Any = None) -> str:
        """Keep the first counterexample."""
        if self.counterexample is None:
            at = point or _with_seeds(cell.points[0], identity.linear, 0)
            self.counterexample = counterexample(cell, identity, at, what)
        return "refuted" if point is not None else "fault"


def _shown(identity: Identity) -> tuple[Any, Any]:
    """An element of the rule's result with an expected value other than 0, and this value; None after a fault."""
    zero: tuple[Any, Any] = (None, None)
    for got, expected in zip(identity.got, identity.expected, strict=False):
        if isinstance(got, Exception) or got is None or np.shape(got) != expected.shape:
            return None, None
        for at in np.ndindex(*expected.shape):
            pair = sp.sympify(boxed(got)[at]), sp.sympify(expected[at])
            if pair[1] != 0:
                return pair
            zero = pair
    return zero


_HOW = ("as built", "expand", "numerator", "normal form", "normal form, by signs", "points", "open", "fault", "refuted")


def _with_seeds(point: dict[Any, Any], seeds: list[Any], k: int) -> dict[Any, Any]:
    return {**point, **{s: sp.Rational(2 * j + 3 + k, 7 + 2 * k) * (-1) ** (j + k) for j, s in enumerate(seeds)}}

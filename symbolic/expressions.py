"""The world of SymPy expressions, with sample points that decide branches.

A proof runs a rule on symbols. If a mirror branches, the sample point decides the branch, and the decision is recorded.
The proof then holds for all inputs with the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import sympy as sp
from flint import acb, arb

from gtape.base.shown import shown
from gtape.symbolic.balls import Undecided, mapped, precision
from gtape.symbolic.compile import compile_balls
from gtape.symbolic.complex_scalars import is_complex
from gtape.symbolic.functions import outermost, plain
from gtape.symbolic.mirrors.registry import COMPLEX, SCALARS
from gtape.symbolic.objects import ObjectWorld
from gtape.symbolic.scalars import exact_rational, template
from gtape.symbolic.special_functions import PowerAtZero

__all__ = ["Decision", "SymPyWorld"]

_SIGNS = {-1: "<", 0: "==", 1: ">"}
_BITS = (64, 200, 800, 3200)


class Decision:
    """A relation between expressions that was decided at the sample point.

    Attributes
    ----------
    left, right : sympy.Expr
    sign : int
        The sign of left - right at the sample: -1, 0 or 1. The sign 0 holds only at the sample, not on an open set
        around it.
    """

    __slots__ = ("left", "right", "sign")

    def __init__(self, left: Any, right: Any, sign: int) -> None:
        self.left, self.right, self.sign = left, right, sign

    def __str__(self) -> str:
        return f"{self.left} {_SIGNS[self.sign]} {self.right}"

    __repr__ = __str__


class SymPyWorld(ObjectWorld):
    """The world of SymPy expressions.

    Parameters
    ----------
    samples : mapping of sympy.Symbol to rational numbers, optional
        The sample point, which decides comparisons. Without it, a comparison that depends on the values of the symbols
        raises `Undecided`. With it, results of real numbers contain no Piecewise, Abs, sign, Max, Min or floor. A
        symbol that is not declared real may have a complex sample, a + I b.

    Attributes
    ----------
    decisions : list of Decision
        The relations decided at the sample, in order, each once.
    steps : dict of sympy.Expr
        The differences whose signs show between which whole numbers an expression lies, with this expression. Each
        whole number has other differences.

    Examples
    --------
    >>> x = sp.Symbol("x", real=True)
    >>> W = SymPyWorld(samples={x: 2})
    >>> W.max_along(np.array([x, x**2 / 8], dtype=object)).item()
    x
    >>> W.decisions
    [x**2/8 < x]
    """

    symbolic = True

    def __init__(self, samples: Mapping[sp.Symbol, Any] | None = None) -> None:
        if samples is not None and not isinstance(samples, Mapping):
            raise TypeError(f"SymPyWorld: `samples` must be a dict of numbers by symbols, not {shown(samples)}")
        self.samples = {s: self.exact(v) for s, v in (samples or {}).items()}
        for s, v in self.samples.items():
            parts = v.as_real_imag() if s.is_real is None and isinstance(v, sp.Expr) else (v,)
            if not all(getattr(part, "is_Rational", False) for part in parts):
                raise ValueError(f"the sample of {shown(s)} must be a rational number, got {shown(v)}")
        self.decisions: list[Decision] = []
        self.whole_steps: dict[Any, Any] = {}
        self._signs: dict[Any, int] = {}

    def exact(self, x: Any) -> Any:
        """A number as a SymPy number. A float becomes the rational that it equals."""
        if isinstance(x, np.generic):
            x = x.item()
        try:
            return exact_rational(x) if isinstance(x, float) else sp.sympify(x, strict=True)
        except (RecursionError, sp.SympifyError):
            raise ValueError(f"a number is needed, not {shown(x)}") from None

    def lift_floats(self, x: np.ndarray) -> np.ndarray:
        """Floats as rationals."""
        return mapped(exact_rational, x.astype(np.float64))

    def lift_complex(self, x: np.ndarray) -> np.ndarray:
        """Complex numbers as rationals a + I b."""
        parts = x.astype(np.complex128)
        return mapped(lambda a, b: a + sp.I * b, self.lift_floats(parts.real), self.lift_floats(parts.imag))

    def scalar_function(
        self, mirror: Callable[..., Any], arity: int, params: dict[str, Any], kind: str = "arb"
    ) -> tuple[Callable[..., Any], bool]:
        """The mirror with expressions in place of its symbols and with resolved branches."""
        made = template(mirror, arity, params, kind)
        # Abs and sign are functions of complex numbers, too, and have no branches there.
        expression = made.plain if self.samples and kind == "arb" else made.expression
        branches = expression.has(sp.Piecewise, sp.floor, sp.ceiling)

        def apply(*xs: Any) -> Any:
            put = {s: x if isinstance(x, sp.Basic) else self.exact(x) for s, x in zip(made.symbols, xs, strict=True)}
            return self._resolve(expression, put) if branches else expression.xreplace(put)

        return apply, made.boolean

    def _elementwise(self, name: str) -> Callable[..., np.ndarray]:
        of_real = super()._elementwise(name)
        mirror = COMPLEX.get(name, SCALARS[name])

        def apply(*args: Any, **params: Any) -> np.ndarray:
            arrays = [self.objects(a) for a in args]
            if not any(map(is_complex, arrays)):
                return of_real(*args, **params)
            function, boolean = self.scalar_function(mirror, len(arrays), params, "acb")
            out = mapped(function, *arrays)
            return (out != 0).astype(bool) if boolean else out

        return apply

    # -- branches

    def _resolve(self, e: Any, put: Mapping[sp.Symbol, Any]) -> Any:
        steps = (sp.Piecewise, sp.floor, sp.ceiling) if self.samples else (sp.Piecewise,)
        chosen = {node: sp.Dummy() for node in outermost(e, steps)}
        values = {d: self._branch(node, put) for node, d in chosen.items()}
        return e.xreplace(chosen).xreplace({**put, **values})

    def _branch(self, node: Any, put: Mapping[sp.Symbol, Any]) -> Any:
        if isinstance(node, sp.Piecewise):
            for arm, condition in node.args:
                if self._truth(condition, put):
                    # A formula shows the power itself.
                    return self._resolve(arm.replace(PowerAtZero, lambda *args: PowerAtZero(*args).doit()), put)
            return sp.nan
        inner = self._resolve(node.args[0], put)
        here = inner.xreplace(self.samples)
        step = node.func(here)
        if not step.is_Integer:
            step = _whole(node.func, here)
        if step is None:
            raise Undecided(str(node.func), inner, "its sample", hopeless=True)
        other = step + (1 if isinstance(node, sp.floor) else -1)
        self.whole_steps |= {inner - step: inner, inner - other: inner}
        if self.sign_of(inner, step, "=="):  # inside the step, not on its edge
            self.sign_of(inner, other, "<")
        return step

    def _truth(self, condition: Any, put: Mapping[sp.Symbol, Any]) -> bool:
        if condition == sp.true:
            return True
        if condition == sp.false:
            return False
        if isinstance(condition, sp.And):
            return all(self._truth(c, put) for c in condition.args)
        if isinstance(condition, sp.Or):
            return any(self._truth(c, put) for c in condition.args)
        if isinstance(condition, sp.Not):
            return not self._truth(condition.args[0], put)
        left, right = (self._resolve(a, put) for a in condition.args)
        return self.holds(left, right, condition.rel_op)

    # -- signs

    def sign_of(self, a: Any, b: Any, relation: str) -> int:
        """The sign of a - b, for all values of the symbols or at the sample (which is recorded as a decision)."""
        left, right = self.exact(a), self.exact(b)
        difference = left - right
        sign = self._signs.get(difference)
        if sign is not None:
            return sign
        if not difference.free_symbols:
            sign = _number_sign(difference, relation)
        elif self.samples and difference.free_symbols <= self.samples.keys():
            sign = _number_sign(difference.xreplace(self.samples), relation)
            if sign is not None and (sign or sp.expand(difference) != 0):  # otherwise the sign holds for all values
                self.decisions.append(Decision(left, right, sign))
        else:
            known = {difference.is_positive: 1, difference.is_negative: -1, difference.is_zero: 0}
            sign = known.get(True)
        if sign is None:
            raise Undecided(relation, left, right, hopeless=True)
        self._signs[difference] = sign
        return sign


def _whole(step: Any, value: Any) -> Any:
    """The floor or ceiling of a constant expression; None if it is not real or undecided at 3200 bits."""
    for ball in _enclosures(value):
        if not isinstance(ball, arb):
            return None
        found = (ball.floor() if step is sp.floor else ball.ceil()).unique_fmpz()
        if found is not None:
            return sp.Integer(int(found))
    return None


def _number_sign(value: Any, relation: str) -> int | None:
    """The exact sign of a constant expression; None if it is undecided at 3200 bits, or not real.

    If only equality is asked for, the sign of a complex number other than 0 counts as 1.
    """
    if value.is_Rational:
        return int(sp.sign(value))
    if value in (sp.oo, -sp.oo):
        return 1 if value == sp.oo else -1
    for ball in _enclosures(value):
        if isinstance(ball, acb):
            if not ball.contains(0) and ball.is_finite():
                return 1 if relation in ("==", "!=") else None
        elif ball > 0:
            return 1
        elif ball < 0:
            return -1
        if ball == 0:
            return 0
    return 0 if sp.expand(value) == 0 or sp.nsimplify(value).is_zero else None


def _enclosures(value: Any) -> Iterator[arb | acb]:
    """Enclosures of a constant expression at rising precision, in the precision in force; real ones if it is real."""
    number: Callable[[], Any]
    if value.has(sp.I):
        unit = sp.Dummy()  # because constants are compiled as real balls
        of_unit = compile_balls((unit,), value.xreplace({sp.I: unit}), kind="acb")
        number = partial(of_unit, acb(0, 1))
    else:
        number = compile_balls((), plain(value))
    for bits in _BITS:
        with precision(bits):
            ball = number()
            is_real = isinstance(ball, acb) and (value.is_extended_real or ball.imag == 0)
            yield ball.real if is_real else ball

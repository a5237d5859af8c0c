"""SymPy expressions as Python functions of enclosures (balls).

Constants are exact: integers stay integers, and other constants are balls at the precision of the call. Shared
subexpressions are computed once. Only the branch of a Piecewise that applies is computed. If the balls do not decide
the branch, the function raises `Undecided`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

import sympy as sp
from flint import acb, arb, ctx, fmpq
from sympy.core.relational import Relational

from gtape.symbolic import balls
from gtape.symbolic.balls import AGAINST, integer_power, whole_number
from gtape.symbolic.functions import Removable, outermost
from gtape.symbolic.remembered import remembered
from gtape.symbolic.special_functions import CosineOfPi, HurwitzZeta, ScaledBesselK, SineOfPi, far_erfc

__all__ = ["compile_balls"]


class _Constants(dict[int, tuple[Any, ...]]):
    """The constants of one compiled function, by precision."""

    def __init__(self, make: Callable[[], tuple[Any, ...]]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, bits: int) -> tuple[Any, ...]:
        if len(self) > 32:
            self.clear()
        made = self[bits] = self.make()
        return made


_BEYOND_FLOATS = arb(2) ** 1100


def _polygamma(n: Any, x: Any) -> Any:
    x = arb(x)
    if n == 0:
        return x.digamma()
    k = whole_number(n, 199)
    if k is None or k < 0:
        if max(abs(x), abs(arb(n))) > _BEYOND_FLOATS:  # FLINT would not return
            raise ArithmeticError("polygamma of a fractional order is not evaluated beyond all floats")
        return acb(x).polygamma(n).real
    if x > 0:  # zeta is faster
        return (-1) ** (k + 1) * arb.fac_ui(k) * arb(k + 1).zeta(x)
    if x < 0:  # reflected, because acb's own function is useless for large negative numbers
        cot = x.cot_pi()
        part = sum((c * integer_power(cot, i) if i else arb(c) for i, c in enumerate(_cotangent(k)) if c), arb(0))
        return -arb.fac_ui(k) * arb(k + 1).zeta(1 - x) - arb.pi() ** (k + 1) * part
    return acb(x).polygamma(k).real


@cache
def _cotangent(n: int) -> list[int]:
    """The n-th derivative of cot as a polynomial in cot: each derivative is -(1 + cot²) p'."""
    p = [0, 1]
    for _ in range(n):
        slope = [i * c for i, c in enumerate(p)][1:]
        p = [-(slope[i] if i < len(slope) else 0) - (slope[i - 2] if i > 1 else 0) for i in range(len(p) + 1)]
    return p


def _power(x: Any, y: Any) -> Any:
    """The real power. A negative base needs an exact integer exponent. 0**0 is 1."""
    x = arb(x)
    if x.is_exact() or not x.contains(0):
        return x**y
    n = whole_number(y, 2**62)  # because arb's own power is NaN for a ball around 0
    if n is None:
        if not (balls.greater(arb(y), 0) and balls.equal(x, 0)):
            return x**y
        return arb(0).union(abs(x).upper() ** y)  # a tie with 0 is assumed
    return integer_power(x, n) if n > 0 else arb(1) if n == 0 else 1 / integer_power(x, -n)


def _complex_power(x: Any, y: Any) -> Any:
    """The principal power. An exact integer exponent needs no logarithm."""
    n = whole_number(y, 64)
    if n is None:
        return acb(x) ** y
    return integer_power(acb(x), n) if n > 0 else acb(1) if n == 0 else 1 / integer_power(acb(x), -n)


def _erfc(x: Any) -> Any:
    return far_erfc(x * x) if isinstance(x, arb) and x > 1000 else x.erfc()


def _besselk(n: Any, x: Any) -> Any:
    x = arb(x)
    return x.bessel_k(arb(n)) if ctx.prec <= 400 else (-x).exp() * ScaledBesselK.ball(n, x)


def _bessely(n: Any, x: Any) -> Any:
    x = arb(x)
    return arb("nan") if x < 0 else x.bessel_y(n)  # flint's is 0 at -inf


def _sign(x: Any) -> Any:
    return arb(1) if balls.greater(x, 0) else arb(0) if balls.equal(x, 0) else arb(-1)


def _extremum(better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda first, *others: reduce(better, others, arb(first))


def _truncation(nearest: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        x = arb(x)
        y = nearest(x)
        if y.is_exact():
            return y
        whole = (x.mid() + arb(1) / 2).floor()  # the ball contains an integer, so the side is undecided
        if not x.rad() < 0.25 or not balls.tied(x, whole):  # a wide ball contains several integers
            raise balls.Undecided(f"{nearest.__name__} of", x, "")
        return whole

    return step


# Methods of balls for SymPy's functions of one argument with another name.
_OF_ONE_ARGUMENT = """
exp log sin cos tan cot sec csc asin acos atan sinh cosh tanh coth sech csch asinh acosh atanh
erf erfi erfinv erfcinv gamma sinc digamma loggamma=lgamma Si=si Ci=ci Shi=shi Chi=chi Ei=ei
"""
_METHODS = {
    getattr(sp, name): method or name for name, _, method in (w.partition("=") for w in _OF_ONE_ARGUMENT.split())
}

_CALLS: dict[Any, Callable[..., Any]] = {
    sp.erfc: lambda x: _erfc(x if isinstance(x, (arb, acb)) else arb(x)),
    sp.polygamma: _polygamma,
    sp.zeta: lambda s, a=1: HurwitzZeta.ball(0, s, a),
    sp.sign: _sign,
    sp.Max: _extremum(arb.max),
    sp.Min: _extremum(arb.min),
    sp.floor: _truncation(arb.floor),
    sp.ceiling: _truncation(arb.ceil),
    sp.atan2: lambda y, x: arb.atan2(arb(y), arb(x)),
    sp.LambertW: lambda x, branch=0: arb(x).lambertw(branch),
    sp.besselj: lambda n, x: arb(x).bessel_j(n),
    sp.bessely: _bessely,
    sp.besseli: lambda n, x: arb(x).bessel_i(n),
    sp.besselk: _besselk,
    sp.lowergamma: lambda s, x: arb(x).gamma_lower(s),
    sp.uppergamma: lambda s, x: arb(x).gamma_upper(s),
    sp.polylog: lambda s, x: arb(x).polylog(s),
    sp.beta: lambda a, b: arb(a).gamma() * arb(b).gamma() * (arb(a) + b).rgamma(),
    sp.expint: lambda n, x: arb(x).expint(n),
    sp.fresnels: lambda x: arb(x).fresnel_s(),
    sp.fresnelc: lambda x: arb(x).fresnel_c(),
    sp.betainc: lambda a, b, low, high: arb(high).beta_lower(a, b) - arb(low).beta_lower(a, b),
    sp.betainc_regularized: lambda a, b, low, high: (
        arb(high).beta_lower(a, b, regularized=True) - arb(low).beta_lower(a, b, regularized=True)
    ),
}

# Results of these functions also depend on the assumed ties.
_DECISIONS = (sp.sign, sp.Max, sp.Min, sp.floor, sp.ceiling)

_CONSTANTS = {
    sp.pi: "arb.pi()",
    sp.E: "arb.const_e()",
    sp.EulerGamma: "arb.const_euler()",
    sp.Catalan: "arb.const_catalan()",
    sp.GoldenRatio: "((1 + arb(5).sqrt()) / 2)",
    sp.oo: "arb('inf')",
    sp.S.NegativeInfinity: "arb('-inf')",
    sp.zoo: "arb('nan')",
    sp.nan: "arb('nan')",
    sp.S.ImaginaryUnit: "arb('nan')",  # a real function has no value there; a complex one: see `_Writer.kind`
}

# The names of comparisons of balls in compiled functions.
_RELATIONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}

_PARTS: dict[Any, str] = {sp.re: ".real", sp.im: ".imag", sp.conjugate: ".conjugate()"}

_NAMESPACE: dict[str, Any] = {
    "acb": acb,
    "arb": arb,
    "ctx": ctx,
    "fmpq": fmpq,
    "power": _power,
    "integer_power": integer_power,
    **{name: balls.RELATIONS[relation] for relation, name in _RELATIONS.items()},
    **{f"call_{kind.__name__}": f if kind in _DECISIONS else remembered(f) for kind, f in _CALLS.items()},
}


def _in_half_turns(e: Any) -> Any:
    """An expression with sines and cosines of multiples of pi as functions of the multiples."""
    if not e.has(sp.pi):
        return e
    turned = {}
    for kind, of_pi in ((sp.sin, SineOfPi), (sp.cos, CosineOfPi)):
        for wave in e.atoms(kind):
            angle = wave.args[0]
            if angle.is_Mul and sp.pi in angle.args and angle.free_symbols:
                turned[wave] = of_pi(angle / sp.pi)
    return e.xreplace(turned)


class _Point:
    """The value of a `Removable`, computed and compiled on first use."""

    def __init__(self, node: Removable, symbols: Sequence[sp.Symbol], kind: str) -> None:
        self.node, self.symbols, self.kind = node, symbols, kind
        self.function: Callable[..., Any] | None = None

    def __call__(self, *values: Any) -> Any:
        if self.function is None:
            self.function = compile_balls(self.symbols, self.node.limit(), kind=self.kind)
        return self.function(*values)


class _Writer:
    """Writes the body of one function: statements for Piecewise and shared subexpressions, expressions for the rest."""

    def __init__(self, symbols: Sequence[sp.Symbol], constant: bool = False, kind: str = "arb") -> None:
        self.symbols = tuple(symbols)
        self.kind = kind  # the type of the arguments: arb or acb
        self.real = True if kind == "arb" else None
        self.arguments = [f"a{i}" for i in range(len(symbols))]
        self.names: dict[Any, str] = dict(zip(symbols, self.arguments, strict=True))
        self.constants: dict[Any, str] = {}
        self.namespace = dict(_NAMESPACE)
        if kind == "acb":
            self.namespace["power"] = _complex_power
        self.lines: list[str] = []
        self.constant = constant
        self.count = 0

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # -- statements

    def block(self, expressions: Sequence[Any], targets: Sequence[str], indent: str) -> None:
        """Statements that assign the values of `expressions` to `targets`."""
        opaque: dict[Any, sp.Symbol] = {}
        groups: dict[Any, list[tuple[Any, str]]] = {}
        for e in expressions:
            for node in outermost(e, (sp.Piecewise, Removable)):
                if node in opaque:
                    continue
                name = self.fresh("p")
                opaque[node] = sp.Dummy(name, real=self.real)
                self.names[opaque[node]] = name
                if isinstance(node, Removable):
                    self.namespace[f"at_{name}"] = _Point(node, self.symbols, self.kind)
                    self.lines.append(f"{indent}{name} = at_{name}({', '.join(self.arguments)})")
                else:
                    groups.setdefault(tuple(c for _, c in node.args), []).append((node, name))
        for conditions, members in groups.items():
            word = "if"
            for i, condition in enumerate(conditions):
                test = "True" if condition == sp.true else self.condition(condition)
                self.lines.append(f"{indent}else:" if test == "True" and i else f"{indent}{word} {test}:")
                self.block([n.args[i].expr for n, _ in members], [t for _, t in members], indent + "    ")
                word = "elif"
                if test == "True":
                    break
            else:  # no branch applies outside the domain
                self.lines.append(f"{indent}else:")
                self.lines += [f"{indent}    {t} = arb('nan')" for _, t in members]
        flat = [_in_half_turns(e.xreplace(opaque)) for e in expressions]
        shared, reduced = sp.cse(flat, symbols=(sp.Dummy(self.fresh("t"), real=self.real) for _ in iter(int, 1)))
        for symbol, value in shared:
            self.names[symbol] = symbol.name
            self.lines.append(f"{indent}{symbol.name} = {self.write(value)}")
        for target, value in zip(targets, reduced, strict=True):
            code = self.literal(value) if value.is_Integer else self.write(value)
            self.lines.append(f"{indent}{target} = {code}")

    def condition(self, c: Any) -> str:
        if isinstance(c, Relational):
            return self.relation(c)
        if isinstance(c, (sp.And, sp.Or)):
            word = " and " if isinstance(c, sp.And) else " or "
            return "(" + word.join(self.condition(a) for a in c.args) + ")"
        if isinstance(c, sp.Not):
            return f"(not {self.condition(c.args[0])})"
        if c in (sp.true, sp.false):
            return str(bool(c))
        raise NotImplementedError(
            f"no translation of the condition {c} ({type(c).__name__}); write it with relations, And, Or, Not"
        )

    def relation(self, c: Any) -> str:
        """A comparison. Balls compare in place first, because most comparisons decide and a call takes longer."""
        left, right = [self.write(a) for a in c.args]
        called = f"{_RELATIONS[c.rel_op]}({left}, {right})"
        if not all(a.is_Integer or code.isidentifier() for a, code in zip(c.args, (left, right), strict=True)):
            return called
        if c.rel_op not in AGAINST or self.kind != "arb":
            return called
        x, y = [self.whole(a) if a.is_Integer else code for a, code in zip(c.args, (left, right), strict=True)]
        return f"({x} {c.rel_op} {y} or (not {x} {AGAINST[c.rel_op]} {y} and {called}))"

    def whole(self, n: Any) -> str:
        """A name for an integer as a ball, because balls compare faster with balls."""
        name = f"whole_{int(n)}".replace("-", "minus_")
        self.namespace[name] = arb(int(n))
        return name

    # -- expressions

    def literal(self, value: Any) -> str:
        """A constant as a ball, kept for the precision of the call."""
        if self.constant:
            return f"(arb({value.p}) / {value.q})" if value.is_Rational else self.write(value)
        return self.constants.setdefault(value, f"k{len(self.constants)}")

    def write(self, e: Any) -> str:
        name = self.names.get(e)
        if name is not None:
            return name
        if e is sp.I and self.kind == "acb":
            return "acb(0, 1)"
        if e in _CONSTANTS:
            return _CONSTANTS[e] if self.constant else self.literal(e)
        if e.is_Integer:
            return str(int(e)) if e >= 0 else f"({int(e)})"
        if e.is_Float:
            e = sp.Rational(e)  # exactly the binary number
        if e.is_Rational or (not self.constant and not e.free_symbols):
            return self.literal(e)
        if e.is_Add:
            return self.sum(e)
        if e.is_Mul:
            return self.product(e)
        if e.is_Pow:
            return self.power(e.base, e.exp)
        if isinstance(e, (sp.Piecewise, Removable)):
            raise NotImplementedError(f"a Piecewise cannot stand inside the condition of another one: {e}")
        return self.function(e)

    def ball(self, e: Any) -> str:
        """`e` as an object with methods, which a plain integer lacks."""
        return self.literal(e) if e.is_Integer else self.write(e)

    def sum(self, e: Any) -> str:
        terms = sorted(e.args, key=lambda t: t.could_extract_minus_sign())
        code = self.ball(terms[0]) if terms[0].is_Integer and self.constant else self.write(terms[0])
        for t in terms[1:]:
            negative = t.could_extract_minus_sign() and (t.is_Mul or t.is_number)
            code += f" - {self.write(-t)}" if negative else f" + {self.write(t)}"
        return f"({code})"

    def product(self, e: Any) -> str:
        coefficient, rest = e.as_coeff_Mul()
        if not coefficient.is_Rational:  # an infinite coefficient
            return "(" + " * ".join(self.ball(f) for f in e.args) + ")"
        up, down = [], []
        for f in sp.Mul.make_args(rest):
            if f.is_Pow and f.exp.is_Rational and f.exp.is_negative and f.exp != sp.Rational(-1, 2):
                down.append(self.power(f.base, -f.exp))
            else:
                up.append(self.write(f))
        p, q = int(coefficient.p), int(coefficient.q)
        sign = "-" if p < 0 and abs(p) == 1 and up else ""
        if abs(p) != 1 or not up:
            up.insert(0, f"({p})" if up or not self.constant else f"arb({p})")
        if q != 1:
            down.insert(0, str(q))
        code = sign + " * ".join(up)
        if down:
            code += f" / ({' * '.join(down)})" if len(down) > 1 else f" / {down[0]}"
        return f"({code})"

    def power(self, base: Any, exponent: Any) -> str:
        if base == sp.E:
            return f"{self.ball(exponent)}.exp()"
        code = self.ball(base)
        if exponent.is_Integer:
            n = int(exponent)
            if n < 0:
                return f"(1 / {self.power(base, -exponent)})"
            if n == 1:
                return code
            if n <= 3 and base in self.names:
                return "(" + " * ".join([code] * n) + ")"
            return f"integer_power({code}, {n})" if n <= 64 else f"{code} ** {n}"
        if exponent == sp.Rational(1, 2):
            return f"{code}.sqrt()"
        if exponent == sp.Rational(-1, 2):
            return f"{code}.rsqrt()"
        if exponent.is_Rational:
            if exponent.is_negative:
                return f"(1 / {self.power(base, -exponent)})"
            return f"({code} ** fmpq({exponent.p}, {exponent.q}))"
        return f"power({code}, {self.write(exponent)})"

    def function(self, e: Any) -> str:
        if isinstance(e, sp.Abs):
            return f"abs({self.ball(e.args[0])})"
        if self.kind == "acb" and e.func in _PARTS:
            return f"acb(acb({self.write(e.args[0])}){_PARTS[e.func]})"
        own = getattr(e.func, "ball", None)
        if own is not None:  # functions of gtape.symbolic.special_functions evaluate themselves
            self.namespace[f"own_{e.func.__name__}"] = remembered(own)
            return f"own_{e.func.__name__}({', '.join(self.write(a) for a in e.args)})"
        method = _METHODS.get(e.func)
        if method and len(e.args) == 1:
            return f"{self.ball(e.args[0])}.{method}()"
        if e.func in _CALLS:
            return f"call_{e.func.__name__}({', '.join(self.write(a) for a in e.args)})"
        raise NotImplementedError(
            f"no ball evaluation of {type(e).__name__} in {e}; write the mirror with functions that have one"
        )

    # -- the complete function

    def finish(self, targets: Sequence[str], single: bool) -> Callable[..., Any]:
        head = [f"def compiled({', '.join(self.arguments)}):"]
        head += [f"    if {a}.__class__ is not {self.kind}: {a} = {self.kind}({a})" for a in self.arguments]
        if self.constants:
            values = tuple(self.constants)
            makers = [_constant(v) for v in values]
            self.namespace["constants"] = _Constants(lambda: tuple(m() for m in makers))
            head.append(f"    {', '.join(self.constants.values())}, = constants[ctx.prec]")
        result = targets[0] if single else f"({', '.join(targets)},)"
        source = "\n".join([*head, *self.lines, f"    return {result}"])
        exec(compile(source, "<mirror>", "exec"), self.namespace)
        function: Callable[..., Any] = self.namespace["compiled"]
        function.__doc__ = source
        return function


def _constant(value: Any) -> Callable[[], Any]:
    """A function that returns a constant as a ball at the current precision."""
    if value.is_Rational:
        p, q = int(value.p), int(value.q)
        return (lambda: arb(p)) if q == 1 else (lambda: arb(p) / q)
    writer = _Writer((), constant=True)
    writer.lines.append(f"    c = {writer.write(value)}")
    return writer.finish(["c"], single=True)


def compile_balls(symbols: Sequence[sp.Symbol], expression: Any, *, kind: str = "arb") -> Callable[..., Any]:
    """A Python function of balls that evaluates an expression at the precision of each call.

    Parameters
    ----------
    symbols : sequence of sympy.Symbol
        The arguments, in order.
    expression : sympy.Expr or sequence of them
        For a sequence the function returns a tuple, and common parts are computed once.
    kind : {"arb", "acb"}, keyword only
        Whether the arguments are real or complex balls.

    Returns
    -------
    callable
        A function of ``flint.arb`` (ints are converted) that returns an ``arb`` or a tuple of them. Its ``__doc__`` is
        its source.

    Raises
    ------
    NotImplementedError
        If the expression contains a function that balls lack.
    Undecided
        From the returned function, if the balls do not decide a branch.

    Examples
    --------
    >>> from flint import arb
    >>> x = sp.Symbol("x", real=True)
    >>> compile_balls([x], sp.exp(x) / 3)(arb(0))
    [0.333333333333333 +/- 3.71e-16]
    """
    single = not isinstance(expression, (list, tuple))
    expressions = [sp.sympify(e, strict=True) for e in ([expression] if single else expression)]
    unknown = set().union(*(e.free_symbols for e in expressions)) - set(symbols)
    if unknown:
        raise ValueError(f"the expression has symbols that are not arguments: {', '.join(sorted(map(str, unknown)))}")
    writer = _Writer(symbols, kind=kind)
    targets = [f"y{i}" for i in range(len(expressions))]
    writer.block(expressions, targets, "    ")
    return writer.finish(targets, single)

"""The ways in which derivative rules go wrong, as operators that plant a fault wherever it fits.

The operators m1 to m18 are modelled on bugs of the big libraries. Some change one place of a rule's source, others
the value of a whole rule or a kernel. `mutants_of` gives every mutant of one primitive.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from gtape.declare.primitives import Primitive
from gtape.engine.worlds import COMPLEX, NUMPY
from gtape.verify.programs.mutants import (
    TRANSFORMS,
    Transform,
    arguments_of,
    bar,
    formula,
    planted,
    planted_kernel,
    planted_rule,
    scaled,
)  # fmt: skip
from gtape.verify.programs.textbook import textbook_slope
from gtape.verify.search.rule_source import KINDS, changed, changes, rule_node
from gtape.verify.search.subjects import subjects

__all__ = ["OPERATORS", "Mutant", "mutants_of"]

SMALL = "relative error 1e-14"
FORWARD = "m15 one mode wrong, the other right"

# Each operator in words, in the order of the table.
OPERATORS = (
    "m1 drop a factor", "m1 factor 2", "m2 flip a sign", "m3 m4 m18 textbook formula",
    "m5 input for output, or output for input", "m6 swap arguments", "m7 sum over one axis only",
    "m8 overwrite instead of accumulate", "m9 residual constant at second order", "m10 product rule by division",
    "m11 multiply instead of select", "m12 kink off by a step", "m12 outside the interval at a kink",
    "m13 special value as a constant", "m14 axis, order or side", FORWARD, "m16 missing case",
    "m17 state kept from the call before", SMALL,
)  # fmt: skip


class Mutant(NamedTuple):
    """One fault in one rule.

    Attributes
    ----------
    op : str
        The primitive.
    argument : int
        The argument of the rule.
    operator : str
        One of `OPERATORS`.
    text : str
        The fault in words or source.
    plant : callable
        Returns a context manager that plants the fault inside a block.

    Examples
    --------
    >>> from gtape.declare.primitives import REGISTRY
    >>> import gtape.ops.elementwise.hyperbolic
    >>> mutant = next(m for m in mutants_of(REGISTRY["tanh"]) if "textbook" in m.operator)
    >>> mutant.text
    'sech2(x) is 1 - tanh(x)**2'
    """

    op: str
    argument: int
    operator: str
    text: str
    plant: Callable[[], AbstractContextManager[Any]]


def mutants_of(prim: Primitive) -> list[Mutant]:
    """Every mutant of a differentiable primitive, equivalent ones included.

    Examples
    --------
    >>> from gtape.declare.primitives import REGISTRY
    >>> import gtape.ops.elementwise.hyperbolic
    >>> sorted({m.operator.split()[0] for m in mutants_of(REGISTRY["tanh"])})
    ['m1', 'm13', 'm16', 'm17', 'm2', 'm3', 'm5', 'm9', 'relative']
    """
    found: list[Mutant] = []
    for i in arguments_of(prim):
        found += _of_source(prim, i)
        found += _of_value(prim, i)
        if prim.kind == "elementwise":
            found += _of_elementwise(prim, i)
    found += _of_kernel(prim)
    if prim.kind in ("general", "implicit") and isinstance(prim.jvp, tuple):
        found += [
            Mutant(
                prim.name, i, FORWARD, "the rule of forward mode times 2", _later_rule(prim.name, i, _doubled, "jvp")
            )
            for i, rule in enumerate(prim.jvp)
            if callable(rule)
        ]
    order = {name: k for k, name in enumerate(OPERATORS)}
    return sorted(found, key=lambda m: (m.argument, order[m.operator]))


# ------------------------------------------------------------------------------------------------ by the source


def _later_rule(name: str, i: int, wrong: Callable[[Any], Any], direction: str = "vjp") -> Any:
    return lambda: planted_rule(name, i, wrong, direction=direction)


def _doubled(rule: Any) -> Any:
    def doubled(*args: Any, **params: Any) -> Any:
        made = rule(*args, **params)
        return tuple([m * 2 for m in made]) if isinstance(made, tuple) else made * 2

    return doubled


def _of_source(prim: Primitive, i: int) -> list[Mutant]:
    rule = prim.rules[i]
    if not callable(rule):
        return []
    found = []
    for change in changes(rule):

        def wrong(declared: Any, change: Any = change) -> Any:
            return changed(declared, change)

        text = f"{change.before} is {change.after}"
        found.append(Mutant(prim.name, i, KINDS[change.kind], text, _later_rule(prim.name, i, wrong)))
    return found


# ------------------------------------------------------------------------------------------------ by the value


def _later(name: str, i: int, transform: Transform, worlds: str = "all") -> Any:
    return lambda: planted(name, i, transform, worlds=worlds)


def _of_value(prim: Primitive, i: int) -> list[Mutant]:
    name, small = prim.name, bar("float64")
    faults: list[tuple[str, str, Any]] = [
        ("m1 factor 2", "the rule times 2", _later(name, i, TRANSFORMS["factor 2"])),
        ("m2 flip a sign", "the rule times -1", _later(name, i, TRANSFORMS["sign"])),
        ("m16 missing case", "the rule times 0", _later(name, i, TRANSFORMS["missing case"])),
        (
            "m9 residual constant at second order", "the rule's value as a constant",
            _later(name, i, TRANSFORMS["constant residual"]),
        ),
        (SMALL, f"the rule times 1 + {small:g}", _later(name, i, scaled(1 + small))),
    ]  # fmt: skip
    if callable(prim.rules[i]) and not prim.variadic:
        faults.append(("m17 state kept from the call before", "the value of the first call", _kept(name, i)))
    divided = _by_division(prim)
    if divided is not None:
        faults.append(("m10 product rule by division", "the product divided by the factor", _later(name, i, divided)))
    return [Mutant(name, i, operator, text, plant) for operator, text, plant in faults]


def _in_floats(xp: Any) -> bool:
    """Whether a world computes with arrays of floats, without records."""
    return xp is NUMPY or xp is COMPLEX


def _kept(name: str, i: int) -> Any:
    """A rule that returns the value of its first call for ever, in the right shape."""

    kept: list[Any] = []

    def remembers(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        right = value()
        if not _in_floats(xp) or not isinstance(right, (np.ndarray, np.generic, float)):
            return right
        if not kept:
            kept.append(np.array(right))
        return np.resize(kept[0], np.shape(right)).astype(np.asarray(right).dtype)

    return _later(name, i, remembers)


def _floats_only(f: Callable[..., Any]) -> Transform:
    """A formula in the world of floats; the declared rule in other worlds, because they do not divide by 0."""

    def transform(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        if not _in_floats(xp):
            return value()
        with np.errstate(all="ignore"):
            return f(i, value, *args)

    return transform


def _by_division(prim: Primitive) -> Transform | None:
    """The rule of a product, written as the product divided by the factor; None for other ops."""
    if "product" not in prim.roles:
        return None
    if prim.kind == "elementwise":
        return _floats_only(lambda i, value, y, *xs: np.asarray(y) / xs[i])
    return _floats_only(lambda i, value, g, y, x: np.expand_dims(np.asarray(g * y), -1) / x)


# ------------------------------------------------------------------------------------------------ elementwise


def _of_elementwise(prim: Primitive, i: int) -> list[Mutant]:
    name = prim.name
    found = []
    for subject in subjects([name])[:1]:
        made = textbook_slope(prim, i, subject.params) if callable(prim.rules[i]) else None
        if made is not None:
            rule, text = made
            source = _formula_of(prim.rules[i])
            found.append(
                Mutant(
                    name, i, "m3 m4 m18 textbook formula", f"{source} is {text}",
                    _later(name, i, formula(rule), "floats"),
                )
            )  # fmt: skip
    points = [float(p) for p in prim.special if isinstance(p, (int, float)) and math.isfinite(p)]
    if prim.arity == 1 and callable(prim.rules[i]) and points:
        found.append(
            Mutant(
                name, i, "m13 special value as a constant", f"the slope at {points[0]:g} has a branch of its own",
                _later(name, i, _branch(points[0]), "floats"),
            )
        )  # fmt: skip
    kinks = [float(p) for p in prim.kinks if isinstance(p, (int, float))]
    for kink in kinks if prim.arity == 1 else ():
        found.append(
            Mutant(
                name, i, "m12 outside the interval at a kink", f"the slope at {kink:g} is 1000 larger",
                _later(name, i, _off(kink)),
            )
        )  # fmt: skip
        found.append(
            Mutant(
                name, i, "m12 kink off by a step", f"the slope beside {kink:g} is that of the other side",
                _later(name, i, _late(prim, kink)),
            )
        )  # fmt: skip
    return found


def _formula_of(rule: Any) -> str:
    """The formula of a rule, as its source has it."""
    node = rule_node(rule)
    return ast.unparse(node.body).replace("xp.", "") if isinstance(node, ast.Lambda) else "the rule"


def _branch(point: float) -> Transform:
    """A rule with the right value, but with the derivative of a constant at one point."""

    def transform(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        right = value()
        if _in_floats(xp):
            return right
        constant = TRANSFORMS["constant residual"](xp, lambda: right, rule, args, i)
        return xp.where(xp.equal(args[1], point), constant, right)

    return transform


def _off(kink: float) -> Transform:
    return _floats_only(lambda i, value, y, *xs: np.where(np.asarray(xs[0]) == kink, value() + 1000.0, value()))


def _late(prim: Primitive, kink: float) -> Transform:
    def transform(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        if not _in_floats(xp):
            return value()
        x = np.asarray(args[1])
        step = 2.0**-10 * max(abs(kink), 1.0)
        beside = (x > kink) & (x < kink + step)
        with np.errstate(all="ignore"):
            moved = np.asarray(np.where(beside, kink - step, x), x.dtype)
            other = rule(xp, prim.kernel(moved), moved)
        return np.where(beside, other, value())

    return transform


# ------------------------------------------------------------------------------------------------ kernels


def _first_only(x: Any, *, shape: Any, batch: int) -> Any:
    x = np.asarray(x)
    have = np.shape(x)
    full = have[:batch] + (1,) * (len(have) - batch - len(shape)) + tuple(shape)
    keep = [slice(0, 1) if f == 1 and n else slice(None) for f, n in zip(full, have, strict=True)]
    return x[tuple(keep)].reshape(have[:batch] + tuple(shape))


def _overwrite(x: Any, indices: Any, *, size: int) -> Any:
    made = np.zeros((size, *np.shape(x)[1:]), np.asarray(x).dtype)
    made[np.asarray(indices)] = x
    return made


def _of_kernel(prim: Primitive) -> list[Mutant]:
    """Faults of the two kernels with which gradients are summed."""
    kernel: Callable[..., Any]
    if "narrow" in prim.roles:
        operator, text, kernel = "m7 sum over one axis only", "the first element in place of the sum", _first_only
    elif "accumulate" in prim.roles:
        operator, text, kernel = "m8 overwrite instead of accumulate", "the last of equal indices wins", _overwrite
    else:
        return []
    return [Mutant(prim.name, 0, operator, text, lambda: planted_kernel(prim.name, kernel))]

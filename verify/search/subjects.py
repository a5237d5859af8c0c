"""Elementwise primitives with static parameters for tests, and their derivatives by the tape.

Only rules choose the parameters of slopes such as ``erf_derivative(n=2)``, so this module runs the rules to find the
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gtape.base.shown import shown
from gtape.declare.domains import BOOLEAN
from gtape.declare.primitives import CONSTANTS, REGISTRY, Primitive
from gtape.declare.signatures import defaults_of
from gtape.engine.declarations import calls_of
from gtape.engine.worlds import NUMPY
from gtape.namespaces import catalogue
from gtape.symbolic.mirrors import load
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.scalars import Template, template
from gtape.tapes.forward import ForwardAccumulator
from gtape.tapes.tape import GradientTape
from gtape.tensors.argument_checks import each
from gtape.tensors.tensor import wrap

__all__ = ["Subject", "asked_by", "parameters_of", "subject_of", "subjects"]

_DEPTH = 4  # order of derivatives searched for parameters


class Subject:
    """An elementwise primitive with its static parameters.

    Attributes
    ----------
    prim : Primitive
    params : dict
        Static keyword parameters of every call.
    active : tuple of int
        The arguments with a derivative.
    kinked : bool
        True if the primitive, or a slope in its first derivatives, has kinks.
    """

    __slots__ = ("active", "kinked", "params", "prim")

    def __init__(self, prim: Primitive, params: dict[str, Any] | None = None) -> None:
        if prim.kind != "elementwise":
            raise ValueError(f"{prim.name} is not elementwise ({prim.kind}); only elementwise primitives have partials")
        missing = set(prim.params) - set(params or {})
        if missing:
            raise ValueError(f"{prim.name} needs the static parameters {', '.join(sorted(missing))}")
        self.prim = prim
        self.params = dict(params or {})
        self.active = tuple(i for i in range(prim.arity) if prim.connected(i) and not self.boolean(i))

        self.kinked = bool(prim.kinks) or any(REGISTRY[name].kinks for name, _ in asked_by(prim, self.params))

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v}" for k, v in self.params.items())
        return f"{self.prim.name}({inside})" if inside else self.prim.name

    @property
    def template(self) -> Template | None:
        """The mirror on plain symbols; None for a mirror without an expression."""
        load()
        mirror = SCALARS.get(self.prim.name)
        return None if mirror is None else template(mirror, self.prim.arity, self.params)

    def boolean(self, i: int) -> bool:
        """True if argument `i` is a condition."""
        return self.prim.domain.intervals[i] is BOOLEAN

    def arguments(self, xs: Sequence[Any], dtype: Any) -> list[np.ndarray]:
        """The arguments as arrays of the dtypes that a call takes."""
        return [np.asarray(x).astype(np.bool_ if self.boolean(i) else dtype) for i, x in enumerate(xs)]

    def value(self, xs: Sequence[Any]) -> Any:
        """The kernel's value."""
        with np.errstate(all="ignore"):
            return self.prim.kernel(*xs, **self.params)

    # -- derivatives as the library forms them; the gradient of the sum holds those of all elements

    def first(self, xs: Sequence[Any]) -> dict[tuple[int, ...], Any]:
        """First partials by reverse mode: ``{(i,): array}``."""
        tensors = [wrap(x) for x in xs]
        chosen = [tensors[i] for i in self.active]
        with GradientTape() as tape:
            for t in chosen:
                tape.watch(t)
            y = self.prim.function(*tensors, **self.params)
        return dict(zip([(i,) for i in self.active], map(_array, tape.gradient(y, chosen)), strict=True))

    def second(self, xs: Sequence[Any]) -> dict[tuple[int, ...], Any]:
        """Second partials by nested tapes, mixed ones in both sequences: ``{(i, j): array}``, d/dx_j of d/dx_i."""
        tensors = [wrap(x) for x in xs]
        chosen = [tensors[i] for i in self.active]
        found: dict[tuple[int, ...], Any] = {}
        with GradientTape(persistent=True) as outer:
            for t in chosen:
                outer.watch(t)
            with GradientTape() as inner:
                for t in chosen:
                    inner.watch(t)
                y = self.prim.function(*tensors, **self.params)
            slopes = inner.gradient(y, chosen)
        for i, slope in zip(self.active, slopes, strict=True):
            rows = [None] * len(chosen) if slope is None else outer.gradient(slope, chosen)
            found.update({(i, j): _array(r) for j, r in zip(self.active, rows, strict=True)})
        return found

    def forward(self, xs: Sequence[Any]) -> dict[tuple[int, ...], Any]:
        """First partials by forward mode."""
        tensors = [wrap(x) for x in xs]
        found: dict[tuple[int, ...], Any] = {}
        for i in self.active:
            with ForwardAccumulator(tensors[i], wrap(np.ones_like(xs[i]))) as acc:
                y = self.prim.function(*tensors, **self.params)
            found[(i,)] = _array(acc.jvp(y))
        return found

    def forward_over_reverse(self, xs: Sequence[Any]) -> dict[tuple[int, ...], Any]:
        """Second partials by forward mode over a tape."""
        tensors = [wrap(x) for x in xs]
        chosen = [tensors[i] for i in self.active]
        found: dict[tuple[int, ...], Any] = {}
        for j in self.active:
            with ForwardAccumulator(tensors[j], wrap(np.ones_like(xs[j]))) as acc:
                with GradientTape() as tape:
                    for t in chosen:
                        tape.watch(t)
                    y = self.prim.function(*tensors, **self.params)
                slopes = tape.gradient(y, chosen)
            for i, slope in zip(self.active, slopes, strict=True):
                found[i, j] = None if slope is None else _array(acc.jvp(slope))
        return found


def _array(t: Any) -> Any:
    return None if t is None else np.asarray(t.numpy())


class _Spy:
    """A world that only notes the primitives that a rule calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        if name in CONSTANTS:
            return _ANYTHING

        def note(*args: Any, **params: Any) -> Any:
            self.asked.append((name, params))
            return self.value_of(name, args, params)

        return note

    def value_of(self, name: str, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """What a primitive returns to the rule."""
        return _ANYTHING


class _NumberSpy(_Spy):
    """The same with numbers, for rules that compare values or ask for shapes."""

    def value_of(self, name: str, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return getattr(NUMPY, name)(*args, **params)


class _Anything:
    """A stand-in for every value in a rule."""

    def _same(self, *_: Any) -> Any:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _same
    __neg__ = __abs__ = __pow__ = _same


_ANYTHING = _Anything()


def _defaults(prim: Primitive) -> dict[str, Any] | None:
    """The default parameters of a primitive; None if a parameter has no default, because the rules choose it."""
    found = defaults_of(prim)
    return found if len(found) == len(prim.params) else None


def asked_by(prim: Primitive, params: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The primitives that the partials of `prim` call, with their parameters."""
    found: list[tuple[str, dict[str, Any]]] = []
    for rule in prim.partials or ():
        if callable(rule):
            spy = _Spy()
            try:
                rule(spy, _ANYTHING, *[_ANYTHING] * prim.arity, **params)
            except (TypeError, AttributeError):
                spy = _NumberSpy()
                for arrays, _ in calls_of(prim, params)[:1]:
                    with np.errstate(all="ignore"):
                        rule(spy, prim.kernel(*arrays, **params), *arrays, **params)
            found += spy.asked
    return found


def _all() -> tuple[Subject, ...]:
    catalogue.load()
    return _found(REGISTRY.version)


@lru_cache(maxsize=1)
def _found(version: int) -> tuple[Subject, ...]:
    wanted = [p for p in REGISTRY.values() if p.kind == "elementwise" and p.differentiable]
    found: dict[tuple[str, Any], dict[str, Any]] = {}
    front = []
    for p in wanted:
        params = _defaults(p)
        if params is not None:
            found[p.name, tuple(sorted(params.items()))] = params
            front.append((p, params))
    # Parameters from first derivatives; then one set for each primitive that only higher derivatives reach.
    seen = dict(found)
    for depth in range(1, _DEPTH + 1):
        named = {name for name, _ in found}
        following = []
        for p, params in front:
            for name, asked in asked_by(p, params):
                key = (name, tuple(sorted(asked.items())))
                q = REGISTRY[name]
                if key in seen or q.kind != "elementwise" or not q.differentiable:
                    continue
                seen[key] = asked
                following.append((q, asked))
                if depth == 1 or name not in named:
                    found[key] = asked
        front = following
    missing = {p.name for p in wanted} - {name for name, _ in found}
    if missing:
        raise ValueError(
            f"no rule leads to {', '.join(sorted(missing))}, so their static parameters are unknown; "
            "give their kernels defaults"
        )
    order = {p.name: i for i, p in enumerate(REGISTRY.values())}
    return tuple(
        Subject(REGISTRY[name], params)
        for (name, _), params in sorted(found.items(), key=lambda e: (order[e[0][0]], str(e[0][1])))
    )


def subject_of(name: str, params: dict[str, Any]) -> Subject:
    """The subject of a primitive with the given static parameters."""
    return next(s for s in subjects([name]) if s.params == params)


def subjects(names: Sequence[str] | None = None) -> list[Subject]:
    """Every differentiable elementwise primitive, once for each set of static parameters that first derivatives use.

    Parameters
    ----------
    names : sequence of str, optional
        Only these primitives.

    Raises
    ------
    ValueError
        For a name that is not the name of a differentiable elementwise primitive.

    Examples
    --------
    >>> [str(s) for s in subjects(["sin"])]
    ['sin']
    """
    made = _all()
    if names is None:
        return list(made)
    known = {s.prim.name for s in made}
    names = each("subjects", "names", names, "a list of names of primitives")
    for name in names:
        if not isinstance(name, str) or name not in known:
            if isinstance(name, str) and name in REGISTRY:
                raise ValueError(
                    f"{name!r} is a primitive, but not a differentiable elementwise one: it has no row in the census; "
                    f"`gtape verify {name}` checks differentiable primitives of all kinds"
                )
            raise ValueError(f"there is no primitive named {shown(name)}; `gtape census` without names lists all")
    chosen = set(names)
    return [s for s in made if s.prim.name in chosen]


def parameters_of(prim: Primitive) -> dict[str, Any]:
    """The first static parameters with which a first derivative uses an elementwise primitive."""
    return next((s.params for s in _all() if s.prim is prim), {}) if prim.params else {}

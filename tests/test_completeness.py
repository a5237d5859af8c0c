"""Nothing is missing: every primitive has all that its declaration promises, and rules are written as rules are."""

from __future__ import annotations

import ast
import copy
import doctest
import inspect
import itertools
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gtape
from gtape.declare.domains import Domain, Interval
from gtape.declare.primitives import CONSTANTS, REGISTRY, Primitive
from gtape.namespaces import catalogue
from gtape.symbolic import mirrors
from gtape.symbolic.mirrors.registry import ARRAYS, PARAMETRISED, SCALARS

catalogue.load()
mirrors.load()

PRIMITIVES = sorted(REGISTRY)
DIFFERENTIABLE = [n for n in PRIMITIVES if REGISTRY[n].differentiable]
NAMESPACES: dict[str, tuple[str | None, Any]] = {
    "gtape": (None, gtape),
    "gtape.math": ("math", gtape.math),
    "gtape.nn": ("nn", gtape.nn),
    "gtape.linalg": ("linalg", gtape.linalg),
    "gtape.image": ("image", gtape.image),
}


# ---------------------------------------------------------------------------------------------- mirrors


def test_every_primitive_has_a_mirror_and_every_mirror_a_primitive() -> None:
    assert set(REGISTRY) == set(SCALARS) | set(ARRAYS)
    assert not set(SCALARS) & set(ARRAYS)


def test_implicit_primitives_are_parametrised_and_no_others() -> None:
    assert {n for n, p in REGISTRY.items() if p.kind == "implicit"} == set(PARAMETRISED)


# ---------------------------------------------------------------------------------------------- declarations


@pytest.mark.parametrize("name", PRIMITIVES)
def test_the_domain_can_be_drawn_from(name: str) -> None:
    prim = REGISTRY[name]
    assert isinstance(prim.domain, Domain)
    if prim.kind == "elementwise":
        assert len(prim.domain.intervals) == len(prim.rules)
    for interval in prim.domain.intervals:
        assert isinstance(interval, Interval)
        assert interval.lo < interval.hi
        assert all(interval.lo < h < interval.hi for h in interval.holes)
    if len(prim.domain.intervals) == 1:
        for kink in prim.kinks:
            assert isinstance(kink, str) or prim.domain.intervals[0].lo <= kink <= prim.domain.intervals[0].hi


@pytest.mark.parametrize("name", [n for n in PRIMITIVES if REGISTRY[n].public])
def test_public_primitives_have_a_summary(name: str) -> None:
    summary = REGISTRY[name].summary
    assert summary and summary[0] == summary[0].strip() and summary.endswith(".")


def _runnable(text: str, name: str) -> None:
    parser = doctest.DocTestParser()
    test = parser.get_doctest(text, {}, name, None, 0)
    assert test.examples, f"the docstring of {name} has no example"
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert not result.failed, "".join(said)


@pytest.mark.parametrize("name", [n for n in PRIMITIVES if REGISTRY[n].public and REGISTRY[n].kind == "elementwise"])
def test_public_elementwise_primitives_have_an_example_that_runs(name: str) -> None:
    prim = REGISTRY[name]
    assert prim.example is not None
    _runnable(prim.function.__doc__ or "", name)


def _called() -> Iterator[str]:
    """The names that gtape's modules read: variables, attributes such as ``xp.sum``, and items of the registry."""
    for path in Path(gtape.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield node.id
            elif isinstance(node, ast.Attribute):
                yield node.attr
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                yield str(node.slice.value)


@pytest.mark.slow
def test_a_primitive_without_an_example_is_called_by_another_function() -> None:
    """A public op whose example is forgotten would have no name, because a primitive is public if it has an example."""
    called = set(_called())
    bound = {
        n: v for p in REGISTRY.values() for v, x in vars(sys.modules[p.module]).items() if x is p for n in [p.name]
    }
    private = [n for n in PRIMITIVES if not REGISTRY[n].public and not REGISTRY[n].place.outside]
    assert [n for n in private if not {n, bound.get(n)} & called] == []


@pytest.mark.parametrize("name", [n for n in PRIMITIVES if REGISTRY[n].kind != "elementwise"])
def test_other_primitives_have_samples(name: str) -> None:
    prim = REGISTRY[name]
    assert prim.samples
    for values, params in prim.samples:
        assert isinstance(values, tuple) and isinstance(params, dict)
        assert prim.variadic or len(values) == len(prim.rules)
        assert set(params) == set(prim.params)


def test_samples_hold_more_than_one_shape() -> None:
    few = [n for n in PRIMITIVES if REGISTRY[n].kind != "elementwise" and len(REGISTRY[n].samples or ()) < 2]
    assert not few


@pytest.mark.parametrize("name", PRIMITIVES)
def test_names_of_parameters_are_the_kernel_s(name: str) -> None:
    prim = REGISTRY[name]
    code = getattr(prim.kernel, "__code__", None)
    if code is not None:
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        assert code.co_flags & 0x08 or set(prim.params) <= set(known)


# ---------------------------------------------------------------------------------------------- public functions


def _public_functions() -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for namespace, (key, module) in NAMESPACES.items():
        for name in catalogue.names_in(key):
            value = getattr(module, name)
            if callable(value) and id(value) not in seen:
                seen.add(id(value))
                yield f"{namespace}.{name}", value
    for name in gtape.__all__:
        value = getattr(gtape, name)
        if callable(value) and not isinstance(value, type) and id(value) not in seen:
            seen.add(id(value))
            yield f"gtape.{name}", value


PUBLIC = dict(_public_functions())


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_function_has_a_docstring_with_an_example_that_runs(name: str) -> None:
    text = PUBLIC[name].__doc__
    assert text, f"{name} has no docstring"
    _runnable(text, name)


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_say_what_goes_in_and_out(name: str) -> None:
    text = PUBLIC[name].__doc__ or ""
    # The ignored `name` of every op is explained once, in the docstring of the package.
    if set(inspect.signature(PUBLIC[name]).parameters) - {"name"}:
        assert "Parameters\n" in text
    assert "Returns\n" in text or "Yields\n" in text or "Raises\n" in text


# ---------------------------------------------------------------------------------------------- how rules are written


def _rules(prim: Primitive) -> Iterator[Any]:
    for entries in (prim.partials, prim.vjp, prim.jvp):
        for rule in entries if isinstance(entries, tuple) else (entries,):
            if callable(rule):
                yield rule


_FOLDER = Path(gtape.__file__).parent / "ops"
_Function = ast.FunctionDef | ast.Lambda


def _written_rules() -> dict[tuple[str, int], list[_Function]]:
    """Every function of the ops that takes a namespace `xp`, by file and line."""
    found: dict[tuple[str, int], list[_Function]] = {}
    for path in _FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, _Function) and [a.arg for a in node.args.args[:1]] == ["xp"]:
                first = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", ())]])
                found.setdefault((str(path), first), []).append(node)
    return found


WRITTEN = _written_rules()


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_every_rule_is_among_those_that_are_read_here(name: str) -> None:
    for rule in _rules(REGISTRY[name]):
        f = inspect.unwrap(getattr(rule, "func", rule))
        assert (f.__code__.co_filename, f.__code__.co_firstlineno) in WRITTEN, f.__qualname__


@pytest.mark.parametrize("place", WRITTEN, ids=lambda p: f"{Path(p[0]).stem}-{p[1]}")
def test_rules_are_exact_and_closed(place: tuple[str, int]) -> None:
    for rule in WRITTEN[place]:
        body = rule.body if isinstance(rule.body, list) else [rule.body]
        for node in itertools.chain.from_iterable(map(ast.walk, body)):
            if isinstance(node, ast.Constant):
                assert not isinstance(node.value, (float, complex)), "a rule must not round: write integers"
            if isinstance(node, (ast.BinOp, ast.AugAssign)):
                assert not isinstance(node.op, ast.Pow), "a rule must be closed: write a product or a primitive for **"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "xp":
                assert node.attr in REGISTRY or node.attr in CONSTANTS, f"a rule asks for xp.{node.attr}"


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_rules_are_as_many_as_arguments(name: str) -> None:
    prim = REGISTRY[name]
    if prim.kind in ("general", "implicit"):
        assert isinstance(prim.vjp, tuple) and isinstance(prim.jvp, tuple) and len(prim.vjp) == len(prim.jvp)
        for pull, push in zip(prim.vjp, prim.jvp, strict=True):
            assert (pull is None) == (push is None), "an argument has a rule in one direction only"


def test_copies_and_pickles_of_a_primitive_are_that_primitive() -> None:
    sine = REGISTRY["sin"]
    assert copy.deepcopy(sine) is copy.copy(sine) is pickle.loads(pickle.dumps(sine)) is sine

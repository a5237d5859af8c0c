"""The calls that `fuzzing.py` makes: every public name is a target, and a seed draws the arguments.

The valid call that a drawn one starts from is the one in the docstring's example, or drawn by the names of the
parameters; then arguments are replaced, left out or added.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import json
import operator
import random
import re
import types
from typing import Any, NamedTuple

import numpy as np
from valid_values import BOUNDED, BY_NAME, MAKERS, OF_NUMPY, OPERATORS, UNARY
from wrong_values import NAMES, WRONG

import gtape as tf

# `main` runs the tests of the program that calls it and leaves with `SystemExit`; a `TestCase` is subclassed.
NOT_CALLED = {"gtape.test.main", "gtape.test.TestCase"}


class Example(NamedTuple):
    """A call in a docstring: what is run before it, the object whose method it is, and its arguments."""

    before: tuple[str, ...]
    receiver: str | None
    args: tuple[str, ...]
    words: tuple[tuple[str, str], ...]


class Target(NamedTuple):
    """Something to call: as it is printed, its namespace, its parameters and its examples."""

    path: str
    space: str
    function: Any
    method_of: str | None
    examples: tuple[Example, ...]


# Names inside these are not known where the example's lines are run one by one.
_BLOCKS = (ast.FunctionDef, ast.Lambda, ast.For, ast.With, ast.ListComp, ast.GeneratorExp, ast.DictComp)


def examples_of(text: str | None, name: str) -> tuple[Example, ...]:
    """The calls of `name` in a docstring's example."""
    found: list[Example] = []
    before: list[str] = []
    if not text or ">>>" not in text:
        return ()
    try:
        statements = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return ()
    for each in statements:
        try:
            tree = ast.parse(each.source)
        except SyntaxError:
            break
        inner = {id(n) for f in ast.walk(tree) if isinstance(f, _BLOCKS) for n in ast.walk(f) if n is not f}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or id(node) in inner:
                continue
            f = node.func
            called = f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else None
            if called != name or any(isinstance(a, ast.Starred) for a in node.args):
                continue
            receiver = ast.unparse(f.value) if isinstance(f, ast.Attribute) else None
            words = tuple((k.arg, ast.unparse(k.value)) for k in node.keywords if k.arg)
            found.append(Example(tuple(before), receiver, tuple(ast.unparse(a) for a in node.args), words))
        before.append(each.source)
    return tuple(found[:4])


def namespaces() -> dict[str, Any]:
    """Every module that is reached from `gtape` by names that `dir` lists."""
    found: dict[str, Any] = {}
    todo: list[tuple[str, Any]] = [("gtape", tf)]
    while todo:
        path, module = todo.pop()
        if path in found or any(module is m for m in found.values()):
            continue
        found[path] = module
        for name in dir(module):
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                todo.append((f"{path}.{name}", value))
    return dict(sorted(found.items()))


def targets() -> list[Target]:
    """All that is called."""
    found: list[Target] = []
    classes: dict[int, str] = {}
    seen: set[int] = set()
    for space, module in namespaces().items():
        if space == "gtape.errors":
            continue
        found.append(Target(f"getattr({space.replace('gtape', 'tf', 1)}", "attributes", None, None, ()))
        for name in dir(module):
            value = getattr(module, name)
            path = f"{space.replace('gtape', 'tf', 1)}.{name}"
            if not callable(value) or isinstance(value, types.ModuleType) or f"{space}.{name}" in NOT_CALLED:
                continue
            if isinstance(value, type) and issubclass(value, BaseException):
                continue
            if id(value) in seen:
                continue
            seen.add(id(value))
            found.append(Target(path, space, value, None, examples_of(inspect.getdoc(value), name)))
            if isinstance(value, type):
                classes[id(value)] = space
                found += methods_of(value, path, space)
    from gtape.tapes.concrete import ConcreteFunction
    from gtape.tapes.functions import Function

    for cls in (Function, ConcreteFunction):
        found += methods_of(cls, f"tf.function.{cls.__name__}", "gtape")
    for name in OPERATORS:
        for cls in ("Tensor", "Variable", "TensorShape", "IndexedSlices", "DType"):
            found.append(Target(f"operator.{name}", "operators", getattr(operator, name), cls, ()))
    for name in UNARY:
        for cls in MAKERS:
            found.append(Target(name, "operators", None, cls, ()))
    for name in OF_NUMPY:
        found.append(Target(f"np.{name}", "numpy", operator.attrgetter(name)(np), None, ()))
    return found


def methods_of(cls: type, path: str, space: str) -> list[Target]:
    """The public methods of a class and what it does when it is called."""
    found: list[Target] = []
    if cls.__name__.endswith("World"):
        return found  # what rules are run against: it gets what the rule makes, never what a user writes
    for name in dir(cls):
        if name.startswith("_") and name != "__call__":
            continue
        with contextlib.suppress(AttributeError):
            value = getattr(cls, name)
            if callable(value) and not isinstance(value, type) and getattr(value, "__doc__", None) is not None:
                text = inspect.getdoc(cls) if name == "__call__" else inspect.getdoc(value)
                found.append(Target(f"{path}#{name}", space, value, cls.__name__, examples_of(text, name)))
    return found


class Call(NamedTuple):
    """One call: what is run before it, the source of the object called, of its arguments, and how it is recorded."""

    target: str
    before: tuple[str, ...]
    function: str
    args: tuple[str, ...]
    words: tuple[tuple[str, str], ...]
    mode: str

    @property
    def line(self) -> str:
        return json.dumps([self.function, self.args, self.words, self.mode, self.before], ensure_ascii=False)

    @property
    def source(self) -> str:
        shown = ", ".join([*self.args, *[f"{k}={v}" for k, v in self.words]])
        return f"{self.function}({shown})"


def call_from(line: str) -> Call:
    function, args, words, mode, before = json.loads(line)
    return Call("", tuple(before), function, tuple(args), tuple((k, v) for k, v in words), mode)


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _valid(rng: random.Random, name: str) -> str:
    pools = [pool for pattern, pool in BY_NAME if re.fullmatch(pattern, name)]
    return rng.choice(rng.choice(pools))


def draw(rng: random.Random, target: Target) -> Call:
    """A valid call of the target, made wrong in one place or several."""
    mode = rng.choices(["plain", "tape", "accumulator"], [4, 5, 1])[0]
    before: tuple[str, ...] = ()
    if target.path.startswith("getattr("):
        how = rng.choice(["getattr", "hasattr"])
        return Call(target.path, (), how, (target.path[8:], rng.choice(NAMES)), (), mode)
    words: list[tuple[str, str]]
    function = BOUNDED.get(target.path, target.path)
    if target.space == "operators":
        receiver = rng.choice(MAKERS[str(target.method_of)])
        if target.function is None:
            return Call(target.path, (), target.path, (receiver,), (), mode)
        args = [receiver, rng.choice(WRONG)]
        if target.path == "operator.pow" and target.method_of == "TensorShape" and "2**70" in args[1]:
            args[1] = "None"  # NumPy itself raises the sizes to this power, which no memory holds
        if target.path not in ("operator.getitem", "operator.contains") and rng.random() < 0.4:
            args.reverse()
        return Call(target.path, (), target.path, tuple(args), (), mode)
    if target.examples and rng.random() < 0.75:
        example = rng.choice(target.examples)
        before, args, words = example.before, list(example.args), list(example.words)
        if target.space.startswith(("gtape.symbolic", "gtape.verify")):
            home = f"vars(__import__({target.function.__module__!r}, fromlist=['_']))"
            before = (f"globals().update({{**{home}, **globals()}})", *before)
        receiver = example.receiver or ""
    else:
        args, words, receiver = [], [], ""
        for p in _parameters(target.function):
            if p.name == "self" and target.method_of:
                continue
            if p.kind is p.VAR_POSITIONAL:
                args += [_valid(rng, p.name) for _ in range(rng.randrange(3))]
            elif p.kind is p.KEYWORD_ONLY:
                if p.default is p.empty or rng.random() < 0.3:
                    words.append((p.name, _valid(rng, p.name)))
            elif p.kind is not p.VAR_KEYWORD:
                if p.default is not p.empty and rng.random() < 0.4:
                    break
                args.append(_valid(rng, p.name))
    if target.method_of:
        method = target.path.split("#")[1]
        if not receiver:
            own = [e for e in examples_of(_class_text(target), target.method_of) if rng.random() < 0.8]
            if target.method_of in MAKERS:
                receiver = rng.choice(MAKERS[target.method_of])
            elif own:
                e = rng.choice(own)
                before = e.before
                shown = ", ".join([*e.args, *[f"{k}={v}" for k, v in e.words]])
                receiver = f"{e.receiver}.{target.method_of}({shown})" if e.receiver else f"{target.method_of}({shown})"
            else:
                receiver = target.path.split("#")[0] + "()"
        function = f"({receiver}).{method}" if method != "__call__" else f"({receiver})"
    if target.space == "numpy":
        while len(args) < 1:
            args.append("tf.constant([1.0, 2.0])")
        args[0] = rng.choice(["tf.constant([1.0, 2.0])", "tf.ones([2, 2])", "[tf.ones([2]), tf.ones([2])]"])
    for _ in range(rng.choices([1, 2, 3], [6, 2, 1])[0]):
        _spoil(rng, target, args, words)
    if target.space == "numpy" and not (args and "tf." in args[0]):
        # Without a tensor the call would not reach gtape, and NumPy itself crashes for np.repeat([1.0], 2**62).
        args[:1] = ["tf.constant([1.0, 2.0])"]
    if rng.random() < 0.25:
        _name(rng, target, args, words)
    return Call(target.path, before, function, tuple(args), tuple(words), mode)


def _class_text(target: Target) -> str | None:
    cls = target.path.split("#")[0]
    try:
        return inspect.getdoc(operator.attrgetter(cls.removeprefix("tf."))(tf))
    except AttributeError:
        return None


def _spoil(rng: random.Random, target: Target, args: list[str], words: list[tuple[str, str]]) -> None:
    """Replace, leave out or add one argument."""
    wrong = rng.choice(WRONG)
    if target.space == "numpy" and wrong.startswith("np.broadcast_to"):
        wrong = "None"  # NumPy itself goes through all of a view that no memory holds
    what = rng.random()
    here = len(args) + len(words)
    if what < 0.72 and here:
        i = rng.randrange(here)
        if i < len(args):
            args[i] = wrong
        else:
            words[i - len(args)] = (words[i - len(args)][0], wrong)
    elif what < 0.9:
        names = [p.name for p in _parameters(target.function) if p.kind is not p.VAR_POSITIONAL and p.name != "self"]
        names = [n for n in names[len(args) :] if n not in dict(words)] or ["x"]
        words.append((rng.choice(names), wrong))
        if len({k for k, _ in words}) < len(words):
            words.pop()
    elif what < 0.93 and args:
        args.pop(rng.randrange(len(args)))
    elif what < 0.96:
        args.append(wrong)
    elif not any(k == "wrong_word" for k, _ in words):
        words.append(("wrong_word", wrong))


def _name(rng: random.Random, target: Target, args: list[str], words: list[tuple[str, str]]) -> None:
    """Pass the last arguments by their names."""
    found = [p for p in _parameters(target.function) if p.name != "self" or not target.method_of][: len(args)]
    first = rng.randrange(len(args) + 1)
    if len(found) == len(args) and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in found[first:]):
        given = {k for k, _ in words}
        words[:0] = [(p.name, a) for p, a in zip(found[first:], args[first:], strict=True) if p.name not in given]
        del args[first:]

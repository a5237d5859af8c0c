"""Calls of public names with wrong arguments, drawn by a seed: what may come of one is a result or a deliberate error.

``python tests/fuzzing.py --calls 60000 --seed 1`` runs them in this process and prints one line for each that fails;
``python tests/fuzzing.py --repeat 'LINE'`` runs one again and shows its traceback. ``--namespace gtape.nn`` (more than
once, or ``-gtape.keras`` to leave one out) selects; ``numpy``, ``operators`` and ``attributes`` are namespaces too.

An argument is a piece of source, so that each call can be printed. The valid call that it starts from is the one in the
docstring's example, or drawn by the names of the parameters; then arguments are replaced, left out or added.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy  # noqa: F401 - the pieces of source below use it, as they do math and pickle
import doctest
import faulthandler
import inspect
import io
import json
import math  # noqa: F401
import operator
import os
import pickle  # noqa: F401
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import wrong_values  # noqa: E402
from wrong_values import MORE, OwnError  # noqa: E402

import gtape as tf  # noqa: E402
from gtape.recording import record  # noqa: E402

SECONDS = 5  # of this process's time that a call may take, and ten times that by the clock
MEMORY = 3 << 30  # bytes that calls may have beside what the process starts with

# ---------------------------------------------------------------------------------------------- wrong things


class RaisingArray:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise OwnError("__array__")


class RaisingLen:
    def __len__(self) -> int:
        raise OwnError("__len__")

    def __getitem__(self, i: Any) -> Any:
        raise OwnError("__getitem__")


class RaisingIndex:
    def __index__(self) -> int:
        raise OwnError("__index__")

    def __float__(self) -> float:
        raise OwnError("__float__")


class RaisingEq:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise OwnError("__eq__")

    def __bool__(self) -> bool:
        raise OwnError("__bool__")


class RaisingIter:
    def __iter__(self) -> Iterator[Any]:
        raise OwnError("__iter__")


class WrongArray:
    """Says that it is an array, and hands out none."""

    shape = (2,)
    dtype = "none"

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return "no array"


class HugeIndex:
    def __index__(self) -> int:
        return 2**70


def recursive_list() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def recursive_dict() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["a"] = made
    return made


def deep(n: int = 10_000, kind: Any = list) -> Any:
    made: Any = 1.0
    for _ in range(n):
        made = [made] if kind is list else (made,) if kind is tuple else {"a": made}
    return made


def generated() -> Iterator[float]:
    yield 1.0
    yield 2.0


def readonly() -> Any:
    made = np.ones(3)
    made.flags.writeable = False
    return made


def user_function(*args: Any, **kwargs: Any) -> Any:
    return args[0] if args else 1.0


def failing_function(*args: Any, **kwargs: Any) -> Any:
    raise OwnError("function")


def symbol(text: str) -> Any:
    import sympy

    return sympy.Symbol("s") if text == "s" else sympy.Rational(text) if "/" in text else sympy.sympify(float(text))


def array(dtype: Any, shape: Any = (2,)) -> Any:
    return np.zeros(shape, dtype)


WRONG = [
    "None", "True", "False", "0", "1", "-1", "2", "3", "-7", "100", "2**31", "2**63", "2**70", "-(2**70)", "10**400",
    "2**40", "float('nan')", "float('inf')", "-float('inf')", "1.5", "-0.0", "1e308", "1j", "complex('nan')", "''",
    "'a'", "'float32'", "'ij,jk->ik'", "'é\\0'", "b''", "b'a'", "bytearray(b'a')", "[]", "[[]]", "()", "[1, [2, 3]]",
    "[[1.0], [2.0, 3.0]]", "[None]", "[None, 1]", "['a', 1]", "[1, 2, 3]", "[1.0, 2.0]", "[-1, -1]", "[0, 0]",
    "[2**70]", "[2**40, 2**40]", "[1.5]", "[True]", "[tf.constant(1.0)]", "[tf.constant([1.0, 2.0]), 1]",
    "['a']", "[object()]", "recursive_list()", "recursive_dict()", "deep()", "deep(10_000, tuple)",
    "deep(10_000, dict)", "deep(70)", "{}", "{'a': 1}", "{1: 2.0}", "{'a': tf.constant(1.0)}", "set()", "{1, 2}",
    "frozenset([1])", "generated()", "iter([1])", "range(3)", "object()", "RaisingArray()",
    "RaisingLen()",
    "RaisingIndex()", "RaisingEq()", "RaisingIter()", "WrongArray()", "HugeIndex()", "...",
    "slice(None)", "slice(1, 'a')", "slice(0, 2**70)", "int", "float", "str", "type", "object", "list", "np.float32",
    "tf.float32", "tf.int32", "tf.string", "tf.complex64", "tf.float16", "tf.bool", "tf", "np", "math.sin",
    "user_function", "failing_function", "lambda: 1", "lambda x: x", "print", "Exception", "ValueError('x')",
    "symbol('1/3')", "symbol('s')", "symbol('2.5')", "np.nan", "np.float64(1.0)", "np.int8(-1)", "np.bool_(True)",
    "np.str_('a')", "np.bytes_(b'a')", "np.datetime64('2020-01-01')", "np.timedelta64(1)", "np.longdouble(1)",
    "array('f2')", "array('f4')", "array('f8')", "array('i1')", "array('i4')", "array('i8')", "array('u8')",
    "array('?')", "array('c8')", "array('c16')", "array('O')", "array('U3')", "array('S3')", "array('M8[s]')",
    "array('m8[s]')", "array([('a', 'f4')])", "array('g')", "array('f8', 0)", "array('f4', (0, 3))",
    "array('f4', (2, 2))", "array('f4', (2, 3, 4))", "array('f4', (1,) * 30)", "array('O', ())", "array('f8', ())",
    "readonly()", "np.broadcast_to(np.float32(1), (2, 2**40))", "np.broadcast_to(1.0, (1, 2**20, 2**20))",
    "np.ma.array([1.0, 2.0], mask=[True, False])", "np.matrix([[1.0, 2.0]])", "np.rec.array([(1, 2.0)])",
    "np.array([[1, 2], [3, 4]])[::-1, ::-1]", "np.array(['a', None], dtype=object)",
    "np.array([[1.0], 'b'], dtype=object)",
    "tf.constant('a')", "tf.constant(['a', 'b'])", "tf.constant(True)", "tf.constant([True, False])", "tf.constant(1)",
    "tf.constant([1, 2])", "tf.constant([[1, 2]])", "tf.constant(-1)", "tf.constant(2**62, tf.int64)",
    "tf.constant([1, 2], tf.uint8)",
    "tf.constant(1.0)", "tf.constant([1.0, 2.0])", "tf.constant([1.0, 2.0], tf.float64)",
    "tf.constant(1.0, tf.float64)",
    "tf.constant([[1.0, 2.0]])", "tf.constant([float('nan'), float('inf')])", "tf.zeros([0])", "tf.zeros([2, 0])",
    "tf.ones([2, 2, 2])", "tf.zeros([1] * 20)",
    "tf.constant(1j)", "tf.constant([1j, 2.0])", "tf.constant([[1j]], tf.complex64)", "tf.constant(1.0, tf.float16)",
    "tf.constant([1.0, 2.0], tf.float16)", "tf.ones([2, 2])", "tf.Variable(1.0)", "tf.Variable([1.0, 2.0])",
    "tf.Variable(1)", "tf.Variable('a')", "tf.Variable([[1.0, 2.0], [3.0, 4.0]])",
    "tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]))",
    "tf.IndexedSlices(tf.ones([1, 2]), tf.constant([5]), tf.constant([2, 2]))",
    "tf.TensorShape(None)", "tf.TensorShape([None, 2])", "tf.TensorShape([2])", "tf.TensorShape([])",
    "tf.TensorSpec([2], tf.float32)", "tf.TensorArray(tf.float32, 2)", "tf.GradientTape()", "tf.Module()",
    "tf.UnconnectedGradients.ZERO", "tf.Tensor", "tf.Variable", "tf.keras.Input([2])", "tf.keras.layers.Dense(1)",
    "tf.keras.optimizers.SGD()", "tf.data.Dataset.range(2)", "tf.random.Generator.from_seed(1)",
    *MORE,
]  # fmt: skip
NAMES = [
    "'a.b'", "''", "'.'", "'..'", "'/'", "'__wrapped__'", "'_private'", "'é'", "'\\0'", "'a' * 10_000", "'1'", "'os'",
    "'numpy'", "'np'", "'tape.x'", "'keras.layers'", "'__path__'", "'__all__'", "'__dict__'", "'ops'", "'ops.shape'",
    "'__init__'", "'getitem'", "'record'", "'lambda'", "' '", "'T'", "'bfloat16'", "'conftest'", "'tests'", "'\\ud800'",
]  # fmt: skip

# ---------------------------------------------------------------------------------------------- valid things

BY_NAME: list[tuple[str, list[str]]] = [
    (r"axis|axes|dim|batch_dims|k|num.*|size|rank|n|depth|ord|order|offset|index|i|j", ["0", "1", "-1", "None", "2"]),
    (r"shape|.*_shape|dims|size|begin|multiples|ksize|strides|.*size|perm|shift", ["[2, 2]", "[2]", "1", "[0, 1]"]),
    (r".*dtype|out_type|Tout|tf_type", ["tf.float32", "tf.float64", "tf.int32", "'float32'", "None"]),
    (r"name|message|mode|padding|reduction|method|direction|data_format", ["None", "'x'", "'SAME'", "'VALID'"]),
    (r"keepdims|.*_a|.*_b|exclusive|reverse|trainable|stable|training|persistent|.*only", ["True", "False"]),
    (r"indices|ids|.*_ids|labels|index", ["tf.constant([0, 1])", "[0]", "tf.constant(1)", "tf.constant([[0, 1]])"]),
    (r"f|fn|func|function|.*_fn|body|cond|python_function", ["lambda x: x * x", "user_function", "tf.sin"]),
    (r"seed", ["1", "[1, 2]", "None"]),
    (r"key|item|slice_spec", ["0", "slice(None)", "...", "(0, 0)", "None"]),
    (r".*", [
        "tf.constant([1.0, 2.0])", "tf.constant([[1.0, 2.0], [3.0, 4.0]])", "tf.constant(0.5)", "tf.ones([2, 2, 2, 2])",
        "tf.Variable([1.0, 2.0])", "1.0", "tf.constant([1, 2])", "[1.0, 2.0]", "tf.constant([True, False])",
    ]),
]  # fmt: skip

# How an instance is made where the example of a method shows none.
MAKERS = {
    "Tensor": ["tf.constant([1.0, 2.0])", "tf.constant(1)", "tf.constant('a')", "tf.ones([2, 2])"],
    "Variable": ["tf.Variable([1.0, 2.0])", "tf.Variable(1)", "tf.Variable([[1.0, 2.0], [3.0, 4.0]])"],
    "IndexedSlices": ["tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([2, 2]))"],
    "TensorArray": ["tf.TensorArray(tf.float32, 2)", "tf.TensorArray(tf.float32, 0, dynamic_size=True)"],
    "TensorShape": ["tf.TensorShape([2, 3])", "tf.TensorShape([None, 2])", "tf.TensorShape(None)"],
    "TensorSpec": ["tf.TensorSpec([2], tf.float32)"],
    "GradientTape": ["tf.GradientTape()", "tf.GradientTape(persistent=True)"],
    "DType": ["tf.float32", "tf.string"],
    "Module": ["tf.Module()"],
    "Generator": ["tf.random.Generator.from_seed(1)"],
    "ForwardAccumulator": ["tf.autodiff.ForwardAccumulator(tf.constant(1.0), tf.constant(1.0))"],
    "Function": ["tf.function(lambda x: x * 2.0)", "tf.function(lambda x: x, input_signature=[tf.TensorSpec([2])])"],
    "ConcreteFunction": ["tf.function(lambda x: x * 2.0).get_concrete_function(tf.TensorSpec([2]))"],
    "Dataset": ["tf.data.Dataset.range(3)", "tf.data.Dataset.from_tensor_slices([1.0, 2.0])"],
    "Program": ["tf.symbolic.trace(lambda x: x * x, 2.0)"],
    "Report": ["tf.verify.check(lambda x: x * x, 2.0)"],
    "Proof": ["tf.verify.prove('sin')"],
    "name_scope": ["tf.name_scope('a')"],
    "KerasTensor": ["tf.keras.Input([2])", "tf.keras.KerasTensor([None, 2])"],
    "Optimizer": ["tf.keras.optimizers.SGD(0.5)", "tf.keras.optimizers.Adam()"],
    "Finding": ["tf.verify.Finding('correct')", "tf.verify.check(lambda x: abs(x), 0.0).findings[0]"],
    "LogicalDevice": ["tf.config.LogicalDevice('a', 'CPU')"],
    "PhysicalDevice": ["tf.config.PhysicalDevice('a', 'CPU')"],
}
OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lt", "le", "gt", "ge",
    "eq", "ne", "getitem", "contains", "iadd", "lshift",
)  # fmt: skip
UNARY = (
    "operator.neg", "operator.pos", "operator.invert", "abs", "float", "int", "complex", "bool", "len", "list", "hash",
    "repr", "str", "round", "operator.index", "copy.copy", "copy.deepcopy", "pickle.dumps", "np.asarray", "np.array",
    "math.floor", "dir", "reversed", "iter", "next", "vars_of",
)  # fmt: skip
OF_NUMPY = (
    "add", "multiply", "matmul", "power", "sin", "sum", "mean", "reshape", "concatenate", "stack", "where", "take",
    "clip", "transpose", "swapaxes", "moveaxis", "split", "array_split", "roll", "tile", "repeat", "pad", "einsum",
    "tensordot", "dot", "cross", "kron", "sort", "argsort", "cumsum", "prod", "max", "argmax", "squeeze",
    "expand_dims", "broadcast_to", "diag", "trace", "linalg.norm", "linalg.inv", "linalg.solve", "linalg.matrix_power",
    "take_along_axis", "compress", "select", "searchsorted", "meshgrid", "rot90", "flip", "append", "isclose",
    "allclose", "array_equal", "var", "std", "linalg.svd", "linalg.qr", "hypot", "zeros_like", "full_like", "hsplit",
)  # fmt: skip
# `main` runs the tests of the program that calls it and leaves with `SystemExit`; a `TestCase` is subclassed.
NOT_CALLED = {"gtape.test.main", "gtape.test.TestCase"}


def counted(function: Any, most: int = 50) -> Any:
    """The function, of which no more than so many calls succeed; what is no function, as it is."""
    if not callable(function):
        return function
    calls = iter(range(most))

    def body(*args: Any, **kwargs: Any) -> Any:
        if next(calls, None) is None:
            raise OwnError(f"called more than {most} times")
        return function(*args, **kwargs)

    return body


def loop(*args: Any, **words: Any) -> Any:
    """`tf.while_loop` with functions that end it, because it is endless where the condition is."""
    return tf.while_loop(*map(counted, args), **{k: counted(v) for k, v in words.items()})


def small(path: str, *args: Any, **words: Any) -> Any:
    """A census with one op and few points where it would have more: it takes as long as it is told to."""
    function = operator.attrgetter(path)(tf)
    try:
        bound = inspect.signature(function).bind(*args, **words)
    except TypeError:
        return function(*args, **words)
    for name, few in (("names", ["exp"]), ("points", 20), ("processes", 1)):
        if name in bound.signature.parameters:
            value = bound.arguments.get(name)
            if value is None or (few != ["exp"] and isinstance(value, (int, np.integer)) and value > few):
                bound.arguments[name] = few
    return function(*bound.args, **bound.kwargs)


# What stands for a function that may take for ever.
BOUNDED = {
    "tf.while_loop": "loop",
    **{f"tf.verify.census.{n}": f"__import__('functools').partial(small, 'verify.census.{n}')"
       for n in ("census", "search", "survey")},
}  # fmt: skip

PLACE = vars(wrong_values) | {
    name: value for name, value in globals().items() if not name.startswith("_") and name not in ("NOT_CALLED", "PLACE")
}


def vars_of(x: Any) -> Any:
    return {n: getattr(x, n, None) for n in dir(x) if not n.startswith("__")}


PLACE["vars_of"] = vars_of


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


# ---------------------------------------------------------------------------------------------- drawing


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


# ---------------------------------------------------------------------------------------------- judging

_RAISES: dict[str, list[tuple[int, int]]] = {}
_UNPACKING = re.compile(r"zip\(\)|unpack|dictionary update sequence|is (shorter|longer) than argument")
_BINDING = re.compile(r"\(\) (missing|takes|got an unexpected|got multiple|got some positional)")
_OWN = (str(ROOT / "gtape"), str(ROOT / "symbolic"), str(ROOT / "verify"))


def _deliberate(filename: str, line: int) -> bool:
    """Whether a `raise` statement stands in this line."""
    spans = _RAISES.get(filename)
    if spans is None:
        try:
            tree = ast.parse(Path(filename).read_text())
        except (OSError, SyntaxError):
            spans = []
        else:
            spans = [(n.lineno, n.end_lineno or n.lineno) for n in ast.walk(tree) if isinstance(n, ast.Raise) and n.exc]
        _RAISES[filename] = spans
    return any(a <= line <= b for a, b in spans)


class Verdict(NamedTuple):
    """What came of a call: "" for what may be, "internal" for an error that must not get out, "raw" for one of Python's
    or NumPy's that names no argument; the class, the message and the place."""

    kind: str
    error: str
    message: str
    place: str


def judged(e: BaseException) -> Verdict:
    """What to think of an exception."""
    frames = [(f.f_code.co_filename, n) for f, n in traceback.walk_tb(e.__traceback__)]
    name = type(e).__name__
    filename, line = frames[-1]
    own = [f"{Path(f).relative_to(ROOT)}:{n}" for f, n in frames if f.startswith(_OWN)]
    generated = [f for f, n in frames if f.startswith("<gtape")]
    place = own[-1] if own else (generated or ["the call"])[-1]
    if filename != __file__ and not filename.startswith(_OWN):
        place += f" ({Path(filename).name}:{line})"
    try:
        message = str(e)
    except BaseException:
        return Verdict("internal", name, "<its message cannot be shown>", place)
    message = message[:300]
    if isinstance(e, OwnError):
        return Verdict("", name, message, place)
    if isinstance(e, (SystemExit, KeyboardInterrupt, Hang)):
        return Verdict("internal", name, message, place)
    if not own and not generated and not isinstance(e, Hang):
        return Verdict("", name, message, place)  # Python and NumPy by themselves
    here = filename in (__file__, "<string>") and not generated  # the functions of the user among the arguments
    meant = filename.startswith(_OWN) and _deliberate(filename, line)
    if not message.strip() and not isinstance(e, StopIteration):
        return Verdict("internal", name, "<no message>", place)
    bad = not isinstance(e, (TypeError, ValueError, tf.errors.OpError)) or isinstance(
        e, (np.linalg.LinAlgError, np._core._exceptions.UFuncTypeError)
    )
    if bad:
        allowed = (
            LookupError,
            AttributeError,
            ArithmeticError,
            RuntimeError,
            StopIteration,
            AssertionError,
            BufferError,
        )
        if meant and isinstance(e, allowed) and not isinstance(e, RecursionError):
            return Verdict("", name, message, place)
        return Verdict("internal", name, message, place)
    if _UNPACKING.search(message) and not meant:
        return Verdict("internal", name, message, place)
    if meant or here:
        return Verdict("", name, message, place)
    if isinstance(e, TypeError) and _BINDING.search(message):
        return Verdict("", name, message, place)
    return Verdict("raw", name, message, place)


class Hang(BaseException):
    """A call took too long."""


def _alarm(*_: Any) -> None:
    raise Hang(f"took more than {SECONDS} s")


def state() -> dict[str, Any]:
    stack = record.active()
    return {
        "active tapes": None if stack is None else stack.sessions,
        "NumPy's error state": np.geterr(),
        "warnings.filters": list(warnings.filters),
        "recursion limit": sys.getrecursionlimit(),
        "working folder": os.getcwd(),
    }


def settings_back() -> None:
    """Undo what a setting, asked for rightly, changed."""
    tf.keras.config.set_floatx("float32")
    tf.keras.config.set_epsilon(1e-7)
    tf.debugging.disable_check_numerics()
    tf.config.run_functions_eagerly(False)


def works() -> bool:
    """Whether a small gradient is right, at second order too."""
    x = tf.Variable(3.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x * x * x
        dy = inner.gradient(y, x)
    return bool(dy.numpy() == 27.0 and outer.gradient(dy, x).numpy() == 18.0)


def sources_of(values: list[Any]) -> list[Any]:
    return [v for v in values if isinstance(v, (tf.Tensor, tf.Variable)) and v.dtype.is_floating]


_READY: dict[tuple[str, ...], dict[str, Any]] = {}


def space_of(before: tuple[str, ...]) -> dict[str, Any]:
    """The names that a call sees; what an example runs before is run each time, unless it takes long."""
    if before in _READY:
        return dict(_READY[before])
    made = dict(PLACE)
    start = time.perf_counter()
    for each in before:
        exec(compile(each, "<example>", "exec"), made)
    if time.perf_counter() - start > 0.005:
        _READY[before] = dict(made)
    return made


def carried_out(call: Call, space: dict[str, Any]) -> None:
    """Make the call as its mode says, and look at the result as a user would."""
    values = [eval(a, space) for a in call.args]
    words = {k: eval(v, space) for k, v in call.words}
    function = eval(call.function, space)
    sources = sources_of([*values, *words.values()]) if call.mode != "plain" else []
    if call.mode == "accumulator" and sources:
        with tf.autodiff.ForwardAccumulator(sources[0], tf.ones_like(sources[0])) as acc:
            result = function(*values, **words)
        if isinstance(result, tf.Tensor):
            acc.jvp(result)
    elif call.mode == "tape":
        with tf.GradientTape() as tape:
            tape.watch([s for s in sources if isinstance(s, tf.Tensor)])
            result = function(*values, **words)
        if isinstance(result, tf.Tensor) and sources and result.dtype.is_floating:
            tape.gradient(result, sources)
    else:
        result = function(*values, **words)
    if isinstance(result, (tf.Tensor, tf.Variable)):
        result.numpy()
    repr(result)


def run(call: Call) -> Verdict:
    """What comes of a call, and of the state after it."""
    before = state()
    verdict = Verdict("", "", "", "")
    sink = io.StringIO()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, 10 * SECONDS)
    try:
        with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", PendingDeprecationWarning)  # what NumPy thinks of its own matrices
            try:
                space = space_of(call.before)
                carried_out(call, space)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as e:  # any class may come, and each is judged
        verdict = judged(e)
    settings_back()
    after = state()
    changed = [k for k in before if before[k] != after[k]]
    if changed:
        record.set_stack(())
        np.seterr(**before["NumPy's error state"])
        warnings.filters[:] = before["warnings.filters"]
        sys.setrecursionlimit(before["recursion limit"])
        os.chdir(before["working folder"])
        return Verdict("internal", "State", f"{', '.join(changed)} changed", verdict.place)
    if verdict.error and not works():
        return Verdict("internal", "State", "a gradient is wrong afterwards", verdict.place)
    return verdict


def limit_memory() -> None:
    with open("/proc/self/statm") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def selected(all_targets: list[Target], spaces: list[str]) -> list[Target]:
    """Those in the namespaces named, without those named with a minus."""
    without = [s[1:] for s in spaces if s.startswith("-")]
    wanted = [s for s in spaces if not s.startswith("-")]

    def inside(t: Target, name: str) -> bool:
        return t.space == name or t.space.startswith(name + ".")

    return [
        t
        for t in all_targets
        if (not wanted or any(inside(t, w) for w in wanted)) and not any(inside(t, w) for w in without)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="go on with this call, after one that ended the process")
    parser.add_argument("--namespace", action="append", default=[])
    parser.add_argument("--name", help="only targets whose path contains this")
    parser.add_argument("--repeat", help="a line that was printed")
    parser.add_argument(
        "--raw", action="store_true", help="print errors of Python and NumPy that name no argument, too"
    )
    parser.add_argument("--json", help="file for the verdicts")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _alarm)
    signal.signal(signal.SIGPROF, _alarm)
    faulthandler.enable()
    scratch = tempfile.mkdtemp()
    os.chdir(scratch)
    print(f"calls are written to {scratch}/current", file=sys.stderr)
    import scipy.linalg  # counted among what the process starts with
    import scipy.special  # noqa: F401
    import sympy  # noqa: F401

    import gtape.symbolic
    import gtape.verify  # noqa: F401

    if options.repeat:
        call = call_from(options.repeat)
        print(call.source, call.mode)
        limit_memory()
        try:
            warnings.simplefilter("error")
            carried_out(call, space_of(call.before))
        except BaseException:
            text = traceback.format_exc()
            print(text if len(text) < 6000 else text[:2000] + "\n...\n" + text[-3000:])
        print(run(call))
        return 0
    pool = selected(targets(), options.namespace)
    if options.name:
        pool = [t for t in pool if options.name in t.path]
    limit_memory()
    rng = random.Random(options.seed)
    failed: dict[tuple[str, str], list[tuple[Verdict, Call]]] = {}
    counts = {"": 0, "raw": 0, "internal": 0}
    errors: dict[str, int] = {}
    start = time.perf_counter()
    order = list(pool)
    for n in range(options.calls):
        if n % len(order) == 0:
            rng.shuffle(order)
        call = draw(rng, order[n % len(order)])
        if n < options.start:
            continue
        Path(scratch, "current").write_text(call.line)
        Path(scratch, "number").write_text(str(n))
        faulthandler.dump_traceback_later(20 * SECONDS, exit=True, file=sys.__stderr__)
        verdict = run(call)
        counts[verdict.kind] += 1
        errors[verdict.error or "result"] = errors.get(verdict.error or "result", 0) + 1
        if verdict.kind == "internal" or (options.raw and verdict.kind == "raw"):
            failed.setdefault((verdict.place, verdict.error), []).append((verdict, call))
            with open(Path(scratch, "failed"), "a") as f:
                f.write(json.dumps([verdict._asdict(), call.line]) + "\n")
    took = time.perf_counter() - start
    faulthandler.cancel_dump_traceback_later()
    for (place, error), found in sorted(failed.items(), key=lambda kv: (-len(kv[1]), kv[0])):
        shortest = min(found, key=lambda vc: len(vc[1].line))
        print(f"{len(found):5d} {shortest[0].kind} {error} at {place}: {shortest[0].message[:160]!r}")
        for _, call in [shortest, *found[:2]]:
            print(f"        {call.source[:200]}")
        print(f"      {shortest[1].line}")
    places = sum(any(v.kind == "internal" for v, _ in f) for f in failed.values())
    print(
        f"calls {options.calls}, seed {options.seed}, targets {len(pool)}, internal {counts['internal']} in {places} "
        f"places, raw {counts['raw']}, {took:.0f} s"
    )
    print(json.dumps(dict(sorted(errors.items(), key=lambda kv: -kv[1]))))
    if options.json:
        Path(options.json).write_text(json.dumps([[v._asdict(), c.line] for f in failed.values() for v, c in f]))
    return 1 if counts["internal"] else 0


if __name__ == "__main__":
    sys.exit(main())

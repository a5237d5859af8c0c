"""What gtape knows of an op stands in its declaration: the name of an op is no string anywhere else.

A table of names outside the declarations is knowledge that a new op would miss.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pytest

from gtape.declare.primitives import REGISTRY

ROOT = Path(__file__).resolve().parents[1]

# Where names of ops belong: declarations, mirrors, the names of TensorFlow, of NumPy, of Keras and of other libraries.
HOMES = (
    "gtape/ops/", "symbolic/mirrors/", "gtape/namespaces/places.py", "gtape/interop/", "gtape/keras/",
    "verify/peers/of_", "verify/peers/arrays.py", "verify/peers/functions.py",
)  # fmt: skip

# Names of ops that mean something else too: fields of a declaration, arguments, columns of a table.
WORDS = {"all", "any", "center", "complex", "order", "split"}

# Words that coincide with names of ops and mean something else where they are given to these names.
ELSEWHERE: dict[str, Collection[str]] = {
    "kind": {"sum"},  # how an op rounds
    "element": {"sum"},  # where a finding is
    "mode": {"reverse"},  # of differentiation
    "MODES": {"reverse"},
    "modes": {"reverse"},
    "arg": {"reverse", "shift"},  # names of parameters in the source of rules
    "second": {"sum", "square"},  # what a random program differentiates again
    "TRANSFORMS": {"sign"},  # kinds of planted faults
    "columns": {"where"},  # of tables
    "row": {"where"},
    "yscale": {"log"},  # of a plot
    "combine": {"exp"},  # an argument of SymPy's powsimp
    "words": {"real"},  # an assumption of SymPy
    "INSTEAD": dir(np.ndarray),  # attributes of NumPy's arrays
}
NAMES = frozenset(REGISTRY)
DECLARING = {"elementwise", "linear", "primitive", "implicit"}


def _given(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The expressions that a node assigns to, compares with, passes to or looks up in a name, with the name."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        yield from ((_named(t), node.value) for t in (node.targets if isinstance(node, ast.Assign) else [node.target]))
    elif isinstance(node, ast.Compare):
        yield from ((_named(node.left), other) for other in node.comparators)
    elif isinstance(node, ast.keyword):
        yield node.arg or "", node.value
    elif isinstance(node, ast.Subscript):
        yield _named(node.value), node.slice
    elif isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        pairs = zip(reversed(positional), reversed(node.defaults), strict=False)
        keywords = [(a, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d is not None]
        yield from ((a.arg, default) for a, default in [*pairs, *keywords])


def _named(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _names(tree: ast.Module) -> Iterator[ast.Constant]:
    """The strings of a file that are names of ops.

    Left out are `__all__` and `__slots__`, the name in a declaration, the look-up of an op to call it (not to compare
    it), and `ELSEWHERE`.
    """
    left_out: set[ast.AST] = set()
    nodes = list(ast.walk(tree))
    compared = {c for node in nodes if isinstance(node, ast.Compare) for c in (node.left, *node.comparators)}
    for node in nodes:
        for name, value in _given(node):
            looked_up = name == "REGISTRY" and isinstance(node, ast.Subscript) and node not in compared
            words = NAMES if name in ("__all__", "__slots__") or looked_up else ELSEWHERE.get(name, ())
            if words:
                left_out |= {c for c in ast.walk(value) if isinstance(c, ast.Constant) and c.value in words}
        if isinstance(node, ast.Call) and (_named(node.func) == "find_op" or _named(node.func) in DECLARING):
            left_out |= set(node.args[:1])
    for node in nodes:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        text = node.value
        listed = text.split()  # as in "sin cos".split()
        several = len(listed) > 1 and NAMES.issuperset(listed)
        if several or (text in NAMES and text not in WORDS and node not in left_out):
            yield node  # type: ignore[misc]


def _files() -> list[str]:
    found = [p.relative_to(ROOT).as_posix() for f in ("gtape", "symbolic", "verify") for p in (ROOT / f).rglob("*.py")]
    return sorted(f for f in found if not f.startswith(HOMES))


def test_no_op_is_named_outside_its_declaration_and_its_mirror() -> None:
    """All files in one test, because a run of all tests takes a part of the cases of a test that has many."""
    found = []
    for path in _files():
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        found += sorted(f"{path}, line {node.lineno}: {node.value!r}" for node in _names(tree))
    assert not found, "these name ops; write the facts into the declarations of the ops:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("TABLE = frozenset({'add', 'reshape'})", 2),
        ("if prim.name == 'where': pass", 1),
        ("REGISTRY['where'](x, y)", 0),
        ("if prim is REGISTRY['where']: pass", 1),
        ("REGISTRY = {'where': 1}", 1),
        ("TABLE = 'sin cos tanh'.split()", 1),
        ("text = 'the sum of all'", 0),
        ("late.find_op('gather')", 0),
        ("__all__ = ['exp', 'log']", 0),
        ("x = 'no_such_op'", 0),
        ("__slots__ = ('place', 'where')", 0),
        ("new = elementwise('sin', 'cos')", 1),
        ("if rounding.kind == 'sum': pass", 0),
        ("if op == 'sum' or rounding.kind == 'max': pass", 2),
        ("def f(op='reverse', *, mode='reverse'): pass", 1),
        ("f(x, combine='exp', op='exp')", 1),
        ("row['where'] + table['where']", 1),
    ],
)
def test_what_counts_as_a_name(source: str, names: int) -> None:
    assert len(list(_names(ast.parse(source)))) == names

"""What gtape knows of an op stands in its declaration: the name of an op is no string anywhere else.

A table of names outside the declarations is knowledge that a new op would miss. A file may still hold as many names as
`ALLOWED` says; the counts may only fall. `python tests/test_op_names.py` prints the counts of today.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from gtape.declare.primitives import REGISTRY

ROOT = Path(__file__).resolve().parents[1]

# Where names of ops belong: declarations, mirrors, the names of TensorFlow, of NumPy and of Keras.
HOMES = (
    "gtape/ops/", "symbolic/mirrors/", "gtape/namespaces/places.py", "gtape/interop/", "gtape/keras/",
)  # fmt: skip

# Names of ops that mean something else too: fields of a declaration, arguments, columns of a table.
WORDS = {"all", "any", "center", "complex", "order", "split"}

ALLOWED: dict[str, int] = {
    "gtape/base/layout.py": 1,
    "gtape/declare/domains.py": 1,
    "gtape/declare/primitives.py": 3,
    "gtape/declare/rounding.py": 3,
    "gtape/dtypes.py": 1,
    "gtape/engine/call.py": 1,
    "gtape/engine/declarations.py": 7,
    "gtape/engine/diagonal_start.py": 1,
    "gtape/engine/full_sweep.py": 2,
    "gtape/kernels/complex_pairs.py": 13,
    "gtape/kernels/real_pairs.py": 17,
    "gtape/tapes/control.py": 1,
    "gtape/tensors/absent.py": 12,
    "gtape/tensors/operands.py": 1,
    "gtape/tensors/operators.py": 17,
    "symbolic/expressions.py": 1,
    "symbolic/functions.py": 1,
    "verify/bounds/bounds.py": 1,
    "verify/bounds/local.py": 3,
    "verify/bounds/noise_world.py": 1,
    "verify/bounds/running_error.py": 2,
    "verify/causes/advice.py": 49,
    "verify/causes/branches.py": 4,
    "verify/causes/choices.py": 2,
    "verify/causes/float_range.py": 3,
    "verify/causes/outside.py": 1,
    "verify/command/cli.py": 2,
    "verify/command/reference.py": 13,
    "verify/command/runs.py": 1,
    "verify/judging/chunks.py": 24,
    "verify/judging/examine.py": 1,
    "verify/oracles/replay.py": 1,
    "verify/programs/mutants.py": 4,
    "verify/programs/program_builder.py": 8,
    "verify/programs/program_source.py": 2,
    "verify/programs/programs.py": 2,
    "verify/proofs/proof_cells.py": 1,
    "verify/search/doctor.py": 1,
    "verify/search/special_values.py": 137,
    "verify/search/trials.py": 4,
}


def _names(tree: ast.Module) -> Iterator[ast.Constant]:
    """The strings of a file that are names of ops; a list `__all__` and the look-up of an op to call it left out."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
                continue
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "REGISTRY":
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "find_op":
            continue
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if text in REGISTRY and text not in WORDS:
            yield node  # type: ignore[misc]
        todo.extend(ast.iter_child_nodes(node))


def _files() -> list[str]:
    found = [p.relative_to(ROOT).as_posix() for f in ("gtape", "symbolic", "verify") for p in (ROOT / f).rglob("*.py")]
    return sorted(f for f in found if not f.startswith(HOMES))


def _count(path: str) -> list[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return sorted(f"line {node.lineno}: {node.value!r}" for node in _names(tree))


@pytest.mark.parametrize("path", _files())
def test_no_op_is_named_outside_its_declaration_and_its_mirror(path: str) -> None:
    found = _count(path)
    assert len(found) <= ALLOWED.get(path, 0), (
        f"{path} names ops; say what it needs to know in their declarations: {', '.join(found)}"
    )
    assert len(found) == ALLOWED.get(path, 0), f"{path} names fewer ops than before: write {len(found)} into ALLOWED"


def test_the_list_of_exceptions_names_files_that_there_are() -> None:
    assert not [path for path in ALLOWED if path.startswith(HOMES) or not (ROOT / path).is_file()]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("TABLE = frozenset({'add', 'reshape'})", 2),
        ("if prim.name == 'where': pass", 1),
        ("REGISTRY['where'](x, y)", 0),
        ("late.find_op('gather')", 0),
        ("__all__ = ['exp', 'log']", 0),
        ("x = 'no_such_op'", 0),
    ],
)
def test_what_counts_as_a_name(source: str, names: int) -> None:
    assert len(list(_names(ast.parse(source)))) == names


if __name__ == "__main__":
    for file in _files():
        if lines := _count(file):
            print(f'    "{file}": {len(lines)},')

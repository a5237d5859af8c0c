"""Every mirror lies in the folder and file that its primitive has under gtape/ops, and no name of an op elsewhere."""

from __future__ import annotations

import ast
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from gtape.declare.registry import REGISTRY
from gtape.symbolic import mirrors
from gtape.symbolic.mirrors.registry import ARRAYS, PARAMETRISED, SCALARS
from gtape.symbolic.worlds import BallWorld, JetWorld, SymPyWorld

FOLDER = Path(mirrors.__file__).parent
OPS = {
    module: {n for n, p in REGISTRY.items() if p.module == module} for module in {p.module for p in REGISTRY.values()}
}


def test_each_file_of_ops_has_its_file_of_mirrors_and_the_other_way_round() -> None:
    files = {m.name for m in pkgutil.walk_packages(mirrors.__path__, f"{mirrors.__name__}.") if not m.ispkg}
    assert files - {f"{mirrors.__name__}.registry"} == {mirrors.place(module) for module in OPS}


@pytest.fixture(scope="module")
def declared() -> dict[str, list[str]]:
    """What each file of mirrors declares when it is imported alone."""
    script = (
        "import importlib, json, sys\n"
        "from gtape.symbolic.mirrors import registry\n"
        "found = {}\n"
        "for module in sys.argv[1:]:\n"
        "    before = {*registry.SCALARS, *registry.ARRAYS, *registry.PARAMETRISED}\n"
        "    importlib.import_module(module)\n"
        "    found[module] = sorted({*registry.SCALARS, *registry.ARRAYS, *registry.PARAMETRISED} - before)\n"
        "print(json.dumps(found))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, *sorted(map(mirrors.place, OPS))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(run.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("module", sorted(OPS))
def test_a_file_of_mirrors_declares_those_of_its_ops(module: str, declared: dict[str, list[str]]) -> None:
    assert set(declared[mirrors.place(module)]) == OPS[module]


def _trees(files: Iterator[Path]) -> Iterator[tuple[Path, ast.AST]]:
    for path in files:
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def test_no_file_of_mirrors_imports_another() -> None:
    for path, tree in _trees(FOLDER.rglob("*.py")):
        imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        others = {m for m in imported if m and m.startswith(f"{mirrors.__name__}.")}
        assert others <= {f"{mirrors.__name__}.registry"}, path


def test_outside_the_mirrors_no_string_names_an_op() -> None:
    for path, tree in _trees(p for p in FOLDER.parent.rglob("*.py") if FOLDER not in p.parents):
        words = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        # What a module exports, and an attribute, may be called as an op is; SymPy's functions take words for settings.
        assigned = [n for n in ast.walk(tree) if isinstance(n, ast.Assign)]
        exported = [n.value for n in assigned if ast.unparse(n.targets[0]) in ("__all__", "__slots__")]
        settings = [n.value for n in ast.walk(tree) if isinstance(n, ast.keyword)]
        other = {n.value for made in exported + settings for n in ast.walk(made) if isinstance(n, ast.Constant)}
        assert not (words - other) & set(REGISTRY), path


def test_worlds_have_few_ops_themselves() -> None:
    # All others are mirrors: an attribute of this name would hide them.
    native = {
        "add", "subtract", "multiply", "divide", "negative", "matmul", "where",
        "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
    }  # fmt: skip
    for world in (SymPyWorld, BallWorld, JetWorld):
        assert set(dir(world)) & set(REGISTRY) == native


def test_one_mirror_is_found_without_the_others() -> None:
    script = (
        "import sys, gtape\n"
        "from gtape.symbolic import mirrors\n"
        "assert mirrors.has_mirror('cosh') and not mirrors.has_mirror('no_such_op')\n"
        "print(*[m for m in sys.modules if m.startswith('gtape.symbolic.mirrors.')])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = set(run.stdout.split()) - {"gtape.symbolic.mirrors.registry", "gtape.symbolic.mirrors.elementwise"}
    assert found == {"gtape.symbolic.mirrors.elementwise.hyperbolic"}


def test_a_mirror_whose_file_fails_to_import_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'flint'", name="flint")

    monkeypatch.delitem(SCALARS, "cosh", raising=False)
    monkeypatch.setattr(mirrors, "import_module", fail)
    with pytest.raises(ModuleNotFoundError, match="flint"):
        mirrors.has_mirror("cosh")


def test_tables_are_complete_after_load() -> None:
    mirrors.load()
    assert set(SCALARS) | set(ARRAYS) == set(REGISTRY)
    assert set(PARAMETRISED) <= set(ARRAYS)
    assert import_module(mirrors.place("gtape.ops.linalg.lu")).__name__ == "gtape.symbolic.mirrors.linalg.lu"

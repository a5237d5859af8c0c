"""Dependencies run gtape <- symbolic <- verify, and `import gtape` is light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("gtape", "symbolic", "verify")
LAYERS = {"gtape": 0, "gtape.symbolic": 1, "gtape.verify": 2}

# The only files that may import upwards, and only inside a function: the lazy public face and the verify flag.
MAY_REACH_UP = {"gtape/__init__.py", "gtape/differentiation.py", "gtape/forward.py", "gtape/jacobians.py"}

# Loaded by NumPy or the interpreter anyway or not at all: `import gtape` must not be what pays for them.
HEAVY = {"dataclasses", "inspect", "unittest", "asyncio", "scipy", "sympy", "mpmath", "flint", "hypothesis", "rich"}


class Import(NamedTuple):
    """One imported module, and where."""

    module: str
    line: int
    lazy: bool
    relative: bool


def _imports(tree: ast.AST, lazy: bool = False) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        inside = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, lazy, False)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            # `from gtape import symbolic` names a module too.
            for name in [base, *(f"{base}.{alias.name}" for alias in node.names)]:
                yield Import(name, node.lineno, lazy, node.level > 0)
        elif isinstance(node, ast.Call) and node.args:
            called = node.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            target = node.args[0]
            if name in ("import_module", "__import__") and isinstance(target, ast.Constant):
                yield Import(str(target.value), node.lineno, lazy, str(target.value).startswith("."))
        yield from _imports(node, inside)


def layer(module: str) -> int | None:
    """Which layer a dotted name belongs to; None for what is not ours."""
    parts = module.split(".")
    if parts[0] != "gtape":
        return None
    return LAYERS.get(".".join(parts[:2]), 0)


def offences(path: str, source: str) -> list[str]:
    """What is wrong with the imports of one file, given its path from the root."""
    mine = FOLDERS.index(path.split("/")[0])
    found = []
    for module, line, lazy, relative in _imports(ast.parse(source, path)):
        theirs = layer(module)
        if relative:
            found.append(
                f"{path}:{line}: relative import of {module!r}; folders differ between checkout and installation"
            )
        elif module.split(".")[0] in FOLDERS[1:]:
            found.append(f"{path}:{line}: imports {module!r}; its name is gtape.{module}")
        elif theirs is not None and theirs > mine and not (path in MAY_REACH_UP and lazy):
            found.append(f"{path}:{line}: {FOLDERS[mine]} may not import {module}")
    return found


def files() -> list[Path]:
    """Every Python file of the three folders."""
    return sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py"))


def test_dependencies_run_one_way() -> None:
    found = [o for p in files() for o in offences(p.relative_to(ROOT).as_posix(), p.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("gtape/record.py", "from gtape import symbolic"),
        ("gtape/record.py", "def f():\n    import gtape.verify.check"),
        ("gtape/differentiation.py", "from gtape.verify import check"),
        ("gtape/tape.py", "from .nest import flatten"),
        ("gtape/ops/nn.py", "from importlib import import_module\nx = import_module('gtape.symbolic')"),
        ("symbolic/jets.py", "def f():\n    from gtape.verify.verdicts.ulp import distance"),
        ("verify/check.py", "from symbolic.jets import Jet"),
    ],
)
def test_a_wrong_edge_is_found(path: str, source: str) -> None:
    assert offences(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("gtape/differentiation.py", "def f():\n    from gtape.verify.judging.examine import check_gradient"),
        ("gtape/tape.py", "from gtape import record\nimport numpy as np"),
        ("symbolic/jets.py", "from gtape.symbolic.program import Program\nfrom gtape.declare.domains import Domain"),
        ("verify/check.py", "from gtape import tape\nfrom gtape.symbolic import jets\nfrom gtape.verify import ulp"),
    ],
)
def test_a_right_edge_is_allowed(path: str, source: str) -> None:
    assert not offences(path, source)


def test_the_allow_list_names_files_that_exist() -> None:
    assert all((ROOT / path).is_file() for path in MAY_REACH_UP)


def test_private_names_stay_in_their_module() -> None:
    found = set()
    for p in files():
        path = p.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(p.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gtape"):
                found |= {(path, a.name) for a in node.names if a.name.startswith("_") and not a.name.startswith("__")}
    assert not found, f"what other modules use has a public name: {sorted(found)}"


def test_import_loads_numpy_and_the_standard_library_only() -> None:
    script = (
        "import json, sys, numpy\n"
        "before = set(sys.modules)\n"
        "import gtape\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    loaded: list[Any] = json.loads(run.stdout)
    roots = {m.partition(".")[0] for m in loaded}
    strangers = roots - set(sys.stdlib_module_names) - {"gtape", "numpy"}
    assert not strangers, f"import gtape loads {sorted(strangers)}"
    assert not roots & HEAVY, f"import gtape loads {sorted(roots & HEAVY)}, which is slow"
    upper = [m for m in loaded if layer(m)]
    assert not upper, f"import gtape loads {upper}"

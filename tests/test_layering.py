"""Imports run one way, in one written order, and `import gtape` is light."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gtape.base import late

ROOT = Path(__file__).resolve().parents[1]

# Each room may import from those before it and from itself. A module directly under gtape/ is public: its room is
# "public", but for the four that everything else needs.
ROOMS = (
    "base", "storage", "kernels", "declare", "recording", "tensors", "engine", "ops", "tapes", "namespaces", "interop",
    "public", "keras", "symbolic", "verify",
)  # fmt: skip
BASE = ("errors", "dtypes", "nest", "typing")
# The same inside ops and verify; what lies directly in these folders comes last.
INSIDE = {
    "ops": ("elementwise", "shape", "picking", "reduction", "special", "linalg", "random", "nn", "checks"),
    "verify": (
        "verdicts", "oracles", "bounds", "causes", "judging", "search", "proofs", "programs", "peers", "campaigns",
        "reports", "command", "plugin",
    ),
}  # fmt: skip

# What only stands in for TensorFlow's surroundings: nothing of the core, of symbolic/ or of verify/ needs it.
LEAVES = ("gtape.keras", "gtape.data", "gtape.train", "gtape.test", "gtape.config")
# Two files use the library as users do: example programs, and the list of all public names.
AS_USERS = {"gtape.verify.programs.seeds", "gtape.verify.command.reference"}

MOST_LATE = 12

# Functions that import, or find, the module that their first argument names.
IMPORTERS = frozenset({"import_module", "__import__", "find_spec", "resolve_name", "run_module", "load_module"})
# Imports in generated source. A line of an example in a docstring begins with >>> and is none.
IN_SOURCE = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+(gtape(?:\.\w+)+)|(?:__import__|import_module)\([\"'](gtape(?:\.\w+)+)", re.MULTILINE
)
FROM_GTAPE = re.compile(r"^[ \t]*from[ \t]+gtape[ \t]+import[ \t]+\(?([\w, ]+)", re.MULTILINE)
# These import modules whose names they are given, or find in a table or in a folder.
LOADERS = {
    "gtape", "gtape.base.imports", "gtape.base.late", "gtape.namespaces.catalogue", "gtape.keras",
    "gtape.symbolic", "gtape.symbolic.mirrors", "gtape.verify", "gtape.verify.search.workers",
    "gtape.verify.search.loading", "gtape.verify.peers.libraries", "gtape.verify.campaigns.kinds",
}  # fmt: skip

# Loaded by NumPy or the interpreter anyway or not at all: `import gtape` must not be what pays for them.
HEAVY = {"dataclasses", "inspect", "unittest", "asyncio", "scipy", "sympy", "mpmath", "flint", "hypothesis", "rich"}


def _modules() -> dict[str, Path]:
    found = {}
    for folder, package in {"gtape": "gtape", "symbolic": "gtape.symbolic", "verify": "gtape.verify"}.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = [package, *path.relative_to(ROOT / folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


@cache
def tree_of(module: str) -> ast.Module:
    """The syntax tree of a module of ours."""
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def imports_of(module: str) -> tuple[Import, ...]:
    """The imports of a module of ours."""
    return tuple(_imports(tree_of(module)))


class Import(NamedTuple):
    """One imported module, or name of a module, and where.

    `computed`: only the beginning of its name is written. `generated`: the import stands in a string.
    """

    module: str
    name: str | None
    line: int
    relative: bool = False
    computed: bool = False
    generated: bool = False


def _imports(tree: ast.AST) -> Iterator[Import]:
    """Every import, inside functions and in strings too; those for type checkers alone excepted.

    An attribute of the module gtape counts as an import, because each of gtape's modules is imported by its first use.
    """
    importers, roots = set(IMPORTERS), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "TYPE_CHECKING" and isinstance(node.ctx, ast.Store):
            roots.add("TYPE_CHECKING")  # a module that sets the name itself may run what stands behind it
        if isinstance(node, ast.ImportFrom):
            importers |= {a.asname for a in node.names if a.name in IMPORTERS and a.asname}
        elif isinstance(node, ast.Import):
            roots |= {a.asname or "gtape" for a in node.names if a.name.split(".")[0] == "gtape"}
    yield from _imports_of(tree, importers, roots)


def _imports_of(tree: ast.AST, importers: set[str], roots: set[str]) -> Iterator[Import]:
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Name, ast.expr_context)):  # most nodes
            continue
        if isinstance(node, ast.If) and _called(node.test) == "TYPE_CHECKING" and "TYPE_CHECKING" not in roots:
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, None, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield Import(node.module or "", alias.name, node.lineno, node.level > 0)
        elif isinstance(node, ast.Call) and (given := _argument(node)) is not None:
            if _called(node.func) in importers:
                text, whole = _beginning(given)
                yield Import(text.partition(":")[0], None, node.lineno, text.startswith("."), not whole)
            elif _called(node.func) == "getattr" and _called(given) in roots and len(node.args) > 1:
                yield from _public_module(_beginning(node.args[1])[0], node.lineno)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in roots:
            yield from _public_module(node.attr, node.lineno)
        elif isinstance(node, ast.Subscript) and _called(node.value) == "modules":
            yield from (Import(m, None, node.lineno) for m in [_beginning(node.slice)[0]] if m.startswith("gtape"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = [m for pair in IN_SOURCE.findall(node.value) for m in pair if m]
            named += [
                f"gtape.{n.split()[0]}" for names in FROM_GTAPE.findall(node.value) for n in names.split(",") if n
            ]
            yield from (Import(m, None, node.lineno, generated=True) for m in named)
        pending.extend(ast.iter_child_nodes(node))


def _called(node: ast.AST) -> str:
    """The last part of a name with dots."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _argument(node: ast.Call) -> ast.AST | None:
    return node.args[0] if node.args else next((k.value for k in node.keywords if k.arg in ("name", "fullname")), None)


def _beginning(node: ast.AST) -> tuple[str, bool]:
    """The part of a text that is a constant, from its beginning, and whether this is the whole text."""
    if isinstance(node, ast.Constant):
        return str(node.value), True
    if isinstance(node, ast.JoinedStr) and node.values:
        return _beginning(node.values[0])[0], False
    if isinstance(node, ast.BinOp):
        (left, whole), right = _beginning(node.left), _beginning(node.right)
        return (left + right[0], right[1]) if whole else (left, False)
    return "", False


def _public_module(name: str, line: int) -> Iterator[Import]:
    if f"gtape.{name}" in MODULES:
        yield Import("gtape", name, line)


def _target(found: Import) -> str:
    whole = f"{found.module}.{found.name}"
    return whole if whole in MODULES else found.module


def place(module: str) -> tuple[int, ...]:
    """Where a module of ours stands in the order: the index of its room, then of the room inside it."""
    _, room, *rest = [*module.split("."), "", ""]
    if room in BASE:
        room = "base"
    if room not in ROOMS:
        room = "public"
    inside = INSIDE.get(room)
    if inside is None:
        return (ROOMS.index(room),)
    return (ROOMS.index(room), inside.index(rest[0]) if rest[0] in inside else len(inside))


def offences(module: str, imports: Iterable[Import]) -> list[str]:
    """The faults of the imports of one module."""
    found = []
    for made in imports:
        target = _target(made)
        where = f"{module}, line {made.line}: imports {target}"
        if made.computed:
            if module not in LOADERS:
                found.append(f"{where}... by a computed name; only LOADERS may, because tests cannot tell its place")
        elif made.generated:
            if place(target)[0] > place(module)[0]:  # inside a room, generated source is for users
                found.append(f"{where} in a string, which lies above")
        elif made.relative:
            found.append(f"{where} relatively; folders differ between checkout and installation")
        elif target.split(".")[0] in ("symbolic", "verify"):
            found.append(f"{where}; its name is gtape.{target}")
        elif target.split(".")[0] == "gtape" and module != "gtape" and place(target) > place(module):
            found.append(f"{where}, which lies above")
        elif target != "gtape" and module.startswith(f"{target}."):
            found.append(f"{where}, the package in which it lies; name the module that has {made.name}")
    return found


def test_no_import_runs_up() -> None:
    """All modules in one test, because a run of all tests takes a part of the cases of a test that has many."""
    found = [text for module in sorted(MODULES) for text in offences(module, imports_of(module))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("gtape.recording.record", "from gtape import symbolic"),
        ("gtape.recording.record", "def f():\n    import gtape.verify.judging.examine"),
        ("gtape.recording.record", "import gtape"),
        ("gtape.engine.differentiation", "from gtape.verify import judging"),
        ("gtape.kernels.lapack", "from gtape.tensors import tensor"),
        ("gtape.ops.elementwise.roots", "def f():\n    from gtape.ops.linalg.spectral import svd"),
        ("gtape.ops.nn.softmax", "from importlib import import_module\nx = import_module('gtape.symbolic')"),
        ("gtape.tapes.tape", "from .nest import flatten"),
        ("gtape.symbolic.jets", "def f():\n    from gtape.verify.verdicts.ulp import distance"),
        ("gtape.verify.oracles.oracle", "from gtape.verify.causes.ties import tied"),
        ("gtape.verify.judging.api", "from symbolic.jets import Jet"),
        ("gtape.symbolic.jets", "from gtape.symbolic import exact"),
        ("gtape.tapes.tape", "import importlib\nimportlib.import_module(name='gtape.verify.judging')"),
        ("gtape.tapes.tape", "from importlib import import_module as load\nload('gtape.verify')"),
        ("gtape.tapes.tape", "from importlib import import_module\nx = import_module('..verify', __package__)"),
        ("gtape.tapes.tape", "from importlib import import_module\nx = import_module(f'gtape.{room}')"),
        ("gtape.tapes.tape", "from importlib import import_module\nx = import_module('gtape.' + 'verify')"),
        ("gtape.tapes.tape", "from importlib.util import find_spec\nx = find_spec('gtape.verify')"),
        ("gtape.tapes.tape", "import pkgutil\nx = pkgutil.resolve_name('gtape.verify.judging.api:check')"),
        ("gtape.tapes.tape", "x = __import__(name='gtape.verify.judging')"),
        ("gtape.tapes.tape", "import sys\nx = sys.modules['gtape'].verify"),
        ("gtape.tapes.tape", "exec('import gtape.verify')"),
        ("gtape.tapes.tape", "exec('    from gtape import math, verify')"),
        ("gtape.tapes.tape", "x = eval(\"__import__('gtape.verify.judging')\")"),
        ("gtape.tapes.tape", "TYPE_CHECKING = True\nif TYPE_CHECKING:\n    import gtape.verify"),
        ("gtape.tapes.tape", "SOURCE = 'import numpy\\nfrom gtape.verify import check\\n'"),
        ("gtape.tapes.tape", "if TYPE_CHECKING:\n    pass\nelse:\n    import gtape.verify"),
        ("gtape.math", "import gtape\nx = gtape.verify.check"),
        ("gtape.math", "import gtape.nn as nn, gtape\nx = getattr(gtape, 'verify')"),
    ],
)
def test_a_wrong_edge_is_found(module: str, source: str) -> None:
    assert offences(module, _imports(ast.parse(source)))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("gtape.tapes.tape", "from gtape.recording import record\nimport numpy as np"),
        ("gtape.ops.linalg.spectral", "from gtape.ops.shape.join import concat"),
        ("gtape.symbolic.jets", "from gtape.symbolic.program import Program\nfrom gtape.declare.domains import Domain"),
        ("gtape.verify.judging.api", "import gtape\nfrom gtape.verify.verdicts import ulp"),
        ("gtape.verify.judging.api", "import gtape as tf\nx = tf.math.sin(tf.constant(1.0))"),
        ("gtape.keras", "from importlib import import_module\nx = import_module(f'gtape.keras.{name}')"),
        ("gtape.tapes.tape", "import typing\nif typing.TYPE_CHECKING:\n    from gtape.verify import Options"),
    ],
)
def test_a_right_edge_is_allowed(module: str, source: str) -> None:
    assert not offences(module, _imports(ast.parse(source)))


def _circle(edges: dict[str, set[str]]) -> list[str]:
    """The modules that stand in a circle of imports, or between two circles."""
    # Take away, again and again, the modules that import nothing of what is left, and those that nothing imports.
    left = dict(edges)
    while free := {m for m, targets in left.items() if not targets & set(left)} | set(left) - set().union(
        *left.values()
    ):
        for m in free:
            del left[m]
    return sorted(left)


def test_no_circles() -> None:
    # Generated source runs later or in another process.
    edges = {m: {_target(i) for i in imports_of(m) if not i.generated} & set(MODULES) - {m} for m in MODULES}
    assert not _circle(edges)


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("gtape.symbolic.build", "gtape.symbolic.program"),
        ("gtape.verify.judging.api", "gtape.verify.judging.ladder"),
        ("gtape.engine.differentiation", "gtape.recording.record"),
    ],
)
def test_a_lazy_circle_is_found(above: str, below: str) -> None:
    source = f"def f():\n    from {above} import anything"
    edges = {m: {_target(i) for i in imports_of(m)} & set(MODULES) - {m} for m in (above, below)}
    assert below in edges[above]
    edges[below] |= {_target(i) for i in _imports(ast.parse(source))}
    assert {above, below} <= set(_circle(edges))


def test_no_circles_among_the_helpers_of_tests() -> None:
    helpers = {p.stem: p for p in [*ROOT.glob("tests/*.py"), *ROOT.glob("tests/verify/*.py")] if p.stem != "conftest"}
    trees = {m: ast.parse(p.read_text(encoding="utf-8")) for m, p in helpers.items()}
    edges = {m: {i.module for i in _imports(tree)} & set(helpers) - {m} for m, tree in trees.items()}
    assert not _circle(edges)
    assert not {(m, t) for m, targets in edges.items() for t in targets if t.startswith("test_")}


def test_one_table_names_what_lies_above() -> None:
    assert len(late.PLACES) <= MOST_LATE
    for module, name in late.PLACES.values():
        assert module in MODULES, module
        defined = {getattr(n, "name", None) for n in tree_of(module).body}
        assert name is None or name in defined, f"{module} has no {name}"


def _names_a_higher_module(module: str, node: ast.AST) -> bool:
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    text = text.partition(":")[0]  # as in the "module:name" of an entry point
    if text not in MODULES or text == "gtape":
        return False
    # The names of public modules are names that users see: generated functions say that they live there.
    return place(text)[0] != ROOMS.index("public") and place(text) > place(module)


def test_no_other_file_names_a_higher_module_in_a_string() -> None:
    found = {
        f"{m}, line {getattr(node, 'lineno', 0)}"
        for m in MODULES
        if m not in ("gtape", "gtape.base.late")
        for node in ast.walk(tree_of(m))
        if _names_a_higher_module(m, node)
    }
    assert not found


@pytest.mark.parametrize("text", ["gtape.verify.judging.flag", "gtape.verify:check"])
def test_a_higher_module_in_a_string_is_found(text: str) -> None:
    assert _names_a_higher_module("gtape.tapes.tape", ast.Constant(text))
    assert not _names_a_higher_module("gtape.verify.strategies", ast.Constant(text))


def test_kernels_know_arrays_alone() -> None:
    found = []
    for module in sorted(m for m in MODULES if m.startswith("gtape.kernels.")):
        for made in imports_of(module):
            target, root = _target(made), made.module.split(".")[0]
            known = root in sys.stdlib_module_names or root in ("numpy", "scipy")
            if not (known or target == "gtape.errors" or target.startswith("gtape.kernels")):
                found.append(f"{module} imports {target}")
    assert not found, "\n".join(found)


def test_late_imports_of_other_packages_are_those_that_a_fork_waits_for() -> None:
    loaded = {"builtins", "inspect", "linecache"}  # by Python and NumPy
    found = []
    for module in MODULES:
        if module.startswith(("gtape.symbolic", "gtape.verify")) or module == "pytest_gtape":
            continue  # their modules import other packages at the top, apart from commands, which have one thread
        for function in [
            f for f in ast.walk(tree_of(module)) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]:
            statements = [n for n in ast.walk(function) if isinstance(n, (ast.Import, ast.ImportFrom))]
            late = {i.module for n in statements for i in _imports(ast.Module([n], []))}
            others = [m for m in late - loaded if m.split(".")[0] != "gtape"]
            found += [f"{module}.{function.name}: write library({m!r})" for m in others]
    assert not found, "\n".join(found)


def test_nothing_needs_the_leaves() -> None:
    core = [m for m in sorted(MODULES) if not _is_leaf(m) and m != "gtape" and m not in AS_USERS]
    found = [f"{m} imports {_target(i)}" for m in core for i in imports_of(m) if _is_leaf(_target(i))]
    assert not found, "\n".join(found)


def _is_leaf(module: str) -> bool:
    return f"{module}.".startswith(tuple(f"{leaf}." for leaf in LEAVES))


def test_what_lies_directly_under_gtape_is_public() -> None:
    import gtape

    flat = {p.stem for p in (ROOT / "gtape").glob("*.py")} - {"__init__"}
    assert flat <= set(dir(gtape)) | {"typing"}


def test_private_names_stay_in_their_module() -> None:
    found = {
        (module, made.name)
        for module in MODULES
        for made in imports_of(module)
        if made.module.startswith("gtape") and (made.name or "").startswith("_") and not made.name.startswith("__")  # type: ignore[union-attr]
    }
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
    upper = [m for m in loaded if m.startswith(("gtape.symbolic", "gtape.verify"))]
    assert not upper, f"import gtape loads {upper}"

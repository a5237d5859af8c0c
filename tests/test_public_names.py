"""What users see: each namespace lists its own public names and nothing else, and every one of them is documented."""

from __future__ import annotations

import ast
import builtins
import doctest
import enum
import importlib
import inspect
import pkgutil
import runpy
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gtape
from gtape.namespaces import catalogue, places
from gtape.namespaces.catalogue import listed


def _namespaces() -> dict[str, Any]:
    """Every module that is reached from `gtape` by names that `dir` lists."""
    found: dict[str, Any] = {}
    todo: list[tuple[str, Any]] = [("gtape", gtape)]
    while todo:
        path, module = todo.pop()
        if any(module is m for m in found.values()):
            continue
        found[path] = module
        for name in dir(module):
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                todo.append((f"{path}.{name}", value))
    return dict(sorted(found.items()))


NAMESPACES = _namespaces()


def _names() -> dict[str, Any]:
    """Every public function and class, each once."""
    found: dict[int, tuple[str, Any]] = {}
    for path, module in NAMESPACES.items():
        for name in dir(module):
            value = getattr(module, name)
            if callable(value) and not isinstance(value, types.ModuleType):
                found.setdefault(id(value), (f"{path}.{name}", value))
    return dict(found.values())


PUBLIC = _names()
OURS = {name: value for name, value in PUBLIC.items() if str(getattr(value, "__module__", "")).startswith("gtape")}
FUNCTIONS = {name: f for name, f in PUBLIC.items() if isinstance(f, types.FunctionType)}


# ---------------------------------------------------------------------------------------------- what dir() lists


@pytest.mark.parametrize("path", NAMESPACES)
def test_a_namespace_lists_only_what_is_there_and_public(path: str) -> None:
    names = dir(NAMESPACES[path])
    assert names == sorted(set(names))
    hidden = [n for n in names if n.startswith("_") and n != "__version__"]
    assert not hidden and all(hasattr(NAMESPACES[path], n) for n in names)


def test_nothing_foreign_is_listed() -> None:
    assert not {n: v.__module__ for n, v in PUBLIC.items() if n not in OURS}
    assert all(m.__name__.startswith("gtape") for m in NAMESPACES.values())
    internal = [p for p in NAMESPACES if p.split(".")[-1] in ("ops", "record", "catalogue", "primitive", "base", "np")]
    assert not internal


@pytest.mark.parametrize("path", NAMESPACES)
def test_no_module_bears_the_name_of_something_public(path: str) -> None:
    # Importing it would put the module in the place of the function, whoever imports it and whenever.
    space = NAMESPACES[path]
    modules = {m.name for m in pkgutil.iter_modules(getattr(space, "__path__", ()))}
    assert not [n for n in sorted(modules & set(dir(space))) if not isinstance(getattr(space, n), types.ModuleType)]


def test_every_public_op_is_listed_somewhere() -> None:
    spaces = {s for each in catalogue.modules().values() for s in each}
    shown = {n for space in (None, *spaces) for n in listed(space)}
    shown |= set(dir(gtape.debugging)) | set(dir(gtape.random))
    assert set(catalogue.names_in()) - shown == {"getitem"}


@pytest.mark.parametrize("path", ["gtape.math", "gtape.nn", "gtape.linalg", "gtape.image"])
def test_a_namespace_lists_no_ops_of_another(path: str) -> None:
    others = {"gtape.math": "conv2d", "gtape.nn": "erf", "gtape.linalg": "relu", "gtape.image": "erf"}
    assert others[path] not in dir(NAMESPACES[path]) and others[path] not in dir(gtape)
    assert "reshape" not in dir(NAMESPACES[path]) and "reshape" in dir(gtape)


def test_import_star_brings_names_that_shadow_no_builtin_and_load_no_sympy() -> None:
    assert not [n for n in gtape.__all__ if hasattr(builtins, n)]
    script = (
        "from gtape import *\n"
        "import sys, builtins\n"
        "assert GradientTape and Variable and reduce_sum and nn.relu and range is builtins.range\n"
        "assert 'sympy' not in sys.modules and 'importlib' not in globals() and 'os' not in globals()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("path", "name", "meant"),
    [
        ("gtape", "GradientTap", "GradientTape"),
        ("gtape", "Varible", "Variable"),
        ("gtape", "gradienttape", "GradientTape"),
        ("gtape", "reduce_sums", "reduce_sum"),
        ("gtape.math", "tahn", "tanh"),
        ("gtape.nn", "sofmax", "softmax"),
        ("gtape.linalg", "choleski", "cholesky"),
        ("gtape.keras", "Sequental", "Sequential"),
    ],
)
def test_an_unknown_name_is_an_attribute_error_that_names_its_neighbour(path: str, name: str, meant: str) -> None:
    assert not hasattr(NAMESPACES[path], name)
    with pytest.raises(AttributeError, match=rf"module '{path}' has no attribute '{name}'; did you mean .*'{meant}'"):
        getattr(NAMESPACES[path], name)


@pytest.mark.parametrize("path", ["gtape", "gtape.math", "gtape.keras"])
def test_a_name_that_is_like_nothing_has_no_neighbour(path: str) -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'qqqqqqqq'$"):
        NAMESPACES[path].qqqqqqqq  # noqa: B018
    assert not hasattr(NAMESPACES[path], "_private")


# ---------------------------------------------------------------------------------------------- docstrings


def _own_text(value: Any) -> str:
    """The docstring that a function or class has itself, not one that it inherits."""
    text = value.__dict__.get("__doc__") if isinstance(value, type) else value.__doc__
    return text or ""


def test_every_public_name_has_a_docstring_that_begins_with_one_line() -> None:
    assert {
        n for n, v in PUBLIC.items() if not (_own_text(v).strip().splitlines() or [""])[0].endswith((".", ":"))
    } == set()


def test_every_public_name_has_an_example() -> None:
    parser = doctest.DocTestParser()
    assert {n for n, v in PUBLIC.items() if not parser.get_examples(_own_text(v))} == set()


# Arguments that docstrings leave out. `name` is ignored by every op, which the docstring of the package says once.
UNDOCUMENTED = {"self", "args", "kwargs", "common", "name"}


def _takes_arguments(value: Any) -> bool:
    if isinstance(value, type):
        if issubclass(value, (BaseException, enum.Enum)) or "__init__" not in value.__dict__:
            return False
        value = value.__init__
    try:
        return bool([p for p in inspect.signature(value).parameters if p not in UNDOCUMENTED])
    except ValueError:
        return False


def test_what_takes_arguments_names_them() -> None:
    # Users do not make reports, findings and the like: these say what they hold.
    said = {n: _own_text(v) for n, v in PUBLIC.items() if _takes_arguments(v)}
    bare = {n for n, text in said.items() if "Parameters\n" not in text}
    assert {n for n in bare if not (isinstance(PUBLIC[n], type) and "Attributes\n" in said[n])} == set()


def test_the_ignored_name_of_ops_is_explained_once() -> None:
    assert "``name=``" in (gtape.__doc__ or "")
    assert not [n for n, v in PUBLIC.items() if "name : str, optional\n    Ignored" in inspect.cleandoc(_own_text(v))]


def test_every_function_says_what_it_returns() -> None:
    said = ("Returns\n", "Yields\n")
    assert {n for n, f in FUNCTIONS.items() if not any(s in _own_text(f) for s in said)} == set()


def _raises(f: Any) -> Iterator[str]:
    """What a function's own body raises, nested functions left out."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(f)))
    except (OSError, TypeError, SyntaxError):
        return
    todo: list[ast.AST] = list(tree.body[0].body) if isinstance(tree.body[0], ast.FunctionDef) else []
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield ast.unparse(node.exc.func)
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            todo.extend(ast.iter_child_nodes(node))


def test_every_function_that_raises_says_so() -> None:
    assert {n for n, f in FUNCTIONS.items() if "Raises\n" not in _own_text(f) and list(_raises(f))} == set()


@pytest.mark.parametrize(
    ("path", "name", "why"),
    [
        ("gtape", "signal", "no Fourier transforms"),
        ("gtape", "Session", "TensorFlow 1"),
        ("gtape", "grad", "tape.gradient"),
        ("gtape.linalg", "logm", "no derivative"),
        ("gtape.nn", "ctc_loss", "does not have"),
        ("gtape.keras.layers", "LSTM", "no recurrent"),
        ("gtape.keras", "mixed_precision", "loss_scale_factor"),
        ("gtape.keras.callbacks", "EarlyStopping", "subclass of Callback"),
        ("gtape.keras.losses", "CategoricalFocalCrossentropy", "any function"),
        ("gtape.train", "ExponentialMovingAverage", "use_ema"),
        ("gtape.image", "resize", "no ops on images"),
        ("gtape", "experimental", "in the namespaces"),
    ],
)
def test_what_is_left_out_is_said_to_be(path: str, name: str, why: str) -> None:
    with pytest.raises(AttributeError, match=rf"module '{path}' has no attribute '{name}': .*{why}"):
        getattr(importlib.import_module(path), name)


def test_nothing_that_is_there_is_said_to_be_left_out() -> None:
    for space, reasons in places.LEFT_OUT.items():
        module = importlib.import_module(f"gtape.{space}" if space else "gtape")
        for name in frozenset().union(*reasons.values()):
            assert not hasattr(module, name)


WRITTEN: dict[str, Any] = runpy.run_path(str(Path(__file__).parent.parent / ".ci" / "write_stubs.py"))
STUBS = WRITTEN["spaces"]()


@pytest.mark.parametrize("path", STUBS)
def test_stubs_for_editors_say_what_is_there(path: str) -> None:
    """The build writes them from the source text alone; what that gives is what there is."""
    stub, key = STUBS[path], WRITTEN["STUBS"][path]
    module = NAMESPACES[f"gtape.{key}" if key else "gtape"]
    assert sorted([*stub.imported, *stub.declared]) == dir(module)
    for name, (home, there) in stub.imported.items():
        value = getattr(module, name)
        found = getattr(importlib.import_module(home), there)
        # The class that users see is a base of the class that all tensors have.
        assert found is value or (name == "Tensor" and issubclass(found, value))
    compiled = ast.parse("".join(stub.declared.values()))
    signatures = {n.name: [a.arg for a in n.args.args] for n in compiled.body if isinstance(n, ast.FunctionDef)}
    assert signatures == {
        n: list(inspect.signature(getattr(module, n)).parameters) for n in stub.declared if n in signatures
    }
    assert {"__version__", "newaxis", *signatures} >= set(stub.declared)

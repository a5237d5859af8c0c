"""The source text of a user's function, with the imports and definitions that it needs, as a program of its own."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import symtable
import sys
import textwrap
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from gtape.base.own_files import is_own
from gtape.engine.custom import CustomGradient
from gtape.tensors.tensor import Tensor
from gtape.tensors.variable import Variable
from gtape.verify.verdicts.naming import importing

__all__ = ["IMPORTS", "declaring", "definition_of", "import_of", "literal", "place_of"]

IMPORTS = "import numpy as np\nimport gtape\n"  # the first lines of every program
_MOST = 40  # definitions of one program
_LARGEST = 64  # numbers of an array that is written out


def _plain_function(f: Any) -> Any:
    """The Python function behind a custom gradient, a method, a partial call or a callable object; None without one."""
    for _ in range(10):
        if isinstance(f, FunctionType):
            return f
        if isinstance(f, CustomGradient):
            f = f.function
        elif isinstance(f, functools.partial):
            f = f.func
        elif hasattr(f, "__func__"):
            f = f.__func__
        elif hasattr(f, "__wrapped__"):
            f = f.__wrapped__
        else:
            f = type(f).__call__ if callable(f) else None
    return None


def place_of(f: Any) -> tuple[str, int, str] | None:
    """File, line and name of a user's function, at its ``def`` or ``lambda``; None for one of gtape or without source.

    Parameters
    ----------
    f : callable
    """
    function = _plain_function(f)
    if function is None or is_own(function.__code__.co_filename):
        return None
    file, number = function.__code__.co_filename, function.__code__.co_firstlineno
    for at in range(number, number + 20):  # behind its decorators
        line = linecache.getline(file, at).strip()
        if line.startswith(("def ", "async def ")) or "lambda" in line:
            return file, at, function.__name__
    return file, number, function.__name__


def import_of(f: Any) -> tuple[str, str] | None:
    """A program that imports a function from its module, and its name there; None if its module does not hold it.

    Parameters
    ----------
    f : callable
        The function, or a custom gradient's.
    """
    function = _plain_function(f)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if function is None or module is None or module.__name__ == "__main__":
        return None
    name = function.__qualname__
    if not name.isidentifier() or _plain_function(getattr(module, name, None)) is not function:
        return None
    return f"{IMPORTS}from {module.__name__} import {name}\n", name


def definition_of(f: Any) -> tuple[str, str] | None:
    """A program that defines a custom gradient, and its name there; None if its source cannot be written down.

    Parameters
    ----------
    f : callable
        The custom gradient, or its function.
    """
    function = _plain_function(f)
    if function is None:
        return None
    made = _Program()
    name = made.function(function, f if isinstance(f, CustomGradient) else CustomGradient(function, None))
    return None if name is None else (made.text(), name)


def _declaration_of(prim: Any) -> str | None:
    """A program that declares an op of a script or notebook again, with its mirror; None if the source is unknown.

    Parameters
    ----------
    prim : Primitive
    """
    place = prim.place
    space = getattr(sys.modules.get(place.module), "__dict__", {})
    text = "".join(linecache.getlines(place.file))
    tree = _parsed(text)
    first = [] if tree is None else [s for s in tree.body if s.lineno <= place.line <= (s.end_lineno or s.lineno)]
    if tree is None or not first or not isinstance(first[0], (ast.Assign, ast.AnnAssign, ast.Expr)):
        return None
    made = _Program()
    targets = {n.id for n in ast.walk(first[0]) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    made.known |= targets
    for statement in (first[0], *[s for s in tree.body if _gives_mirror(s, targets, prim.name)]):
        made.statement(_lines_of(statement, text), space)
    return made.text()


def declaring(prim: Any) -> str:
    """The lines that declare an op again: an import, or its declaration itself; empty for an op of gtape.

    Parameters
    ----------
    prim : Primitive
    """
    line = importing(prim)
    text = _declaration_of(prim) if line.startswith("#") else None
    return line if text is None else text


def _gives_mirror(statement: ast.stmt, targets: set[str], name: str) -> bool:
    """Whether a statement is ``mirror(op, ...)`` for an op of this name."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not call.args:
        return False
    called = getattr(call.func, "attr", getattr(call.func, "id", ""))
    first = call.args[0]
    return called == "mirror" and (getattr(first, "id", None) in targets or getattr(first, "value", None) == name)


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text) if text.strip() else None
    except SyntaxError:
        return None


def _lines_of(statement: ast.stmt, text: str) -> str:
    """The source lines of a statement, with its decorators."""
    first = min([statement.lineno, *[d.lineno for d in getattr(statement, "decorator_list", ())]])
    return "\n".join(text.splitlines()[first - 1 : statement.end_lineno])


def _decorator(custom: CustomGradient) -> str:
    """The decorator that makes a custom gradient."""
    return "@gtape.custom_gradient" + (f"(declared={custom.declared!r})" if custom.declared is not None else "")


def _lambda(f: Any) -> str | None:
    """The source text of a lambda expression; None if it is unknown."""
    text = "".join(linecache.getlines(f.__code__.co_filename))
    tree = _parsed(text)
    # A lambda's instructions lie inside its body; the first ones stand for no text.
    spans = [(a, c, b, d) for a, b, c, d in f.__code__.co_positions() if None not in (a, b, c, d) and c != d]
    found = []
    for node in ast.walk(tree) if tree is not None and spans else ():
        if isinstance(node, ast.Lambda):
            body = node.body
            begin, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
            if all((a, c) >= begin and (b, d) <= end for a, c, b, d in spans):
                found.append((begin, node))
    if not found:
        return None
    return ast.get_source_segment(text, max(found, key=lambda pair: pair[0])[1])


def _names_outside(text: str) -> list[str]:
    """The names that a program reads and does not bind in a scope of its own, in alphabetical order."""
    whole = symtable.symtable(text, "<statement>", "exec")
    found = {s.get_name() for s in whole.get_symbols() if s.is_referenced()}
    pending = list(whole.get_children())
    while pending:
        table = pending.pop()
        found |= {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
        pending += table.get_children()
    return sorted(found)


class _Program:
    """Collects imports and definitions, each after the ones that it needs."""

    def __init__(self) -> None:
        self.imports: dict[str, None] = dict.fromkeys(IMPORTS.splitlines())
        self.parts: list[str] = []
        self.known: set[str] = set()

    def text(self) -> str:
        return "".join([f"{line}\n" for line in self.imports]) + "".join([f"{part}\n" for part in self.parts])

    def function(self, f: Any, custom: CustomGradient | None = None) -> str | None:
        """Add a function, or a custom gradient of it; its name, or None if its source cannot be written down."""
        if f.__name__ == "<lambda>":
            text, name = _lambda(f), "wrong" if "wrong" not in self.known else f"function{len(self.parts)}"
            if text is None:
                return None
            text = f"{name} = {text if custom is None else _decorator(custom).removeprefix('@') + f'({text})'}"
        else:
            try:
                text = textwrap.dedent(inspect.getsource(f)).strip()
            except (OSError, TypeError, SyntaxError):
                return None
            tree = _parsed(text)
            statement = tree.body[0] if tree is not None and len(tree.body) == 1 else None
            if not isinstance(statement, ast.FunctionDef):
                return None
            name = statement.name
            if custom is not None:  # its decorator may have any name
                text = "\n".join([_decorator(custom), *text.splitlines()[statement.lineno - 1 :]])
        self.known.add(name)
        try:
            self.statement(text, {**f.__globals__, **_closure(f)})
        except SyntaxError:  # a nonlocal name
            return None
        return name

    def statement(self, text: str, space: dict[str, Any]) -> None:
        """Add a statement behind all that its names stand for."""
        for name in _names_outside(text):
            if name in space:
                self.value(name, space[name])
        self.parts.append(text)

    def value(self, name: str, value: Any) -> None:
        """Add the definition of a name, as far as it can be written."""
        if name in self.known or len(self.parts) > _MOST or getattr(builtins, name, None) is value:
            return
        self.known.add(name)
        if isinstance(value, ModuleType):
            whole = value.__name__
            self.imports[f"import {whole}" if whole == name else f"import {whole} as {name}"] = None
            return
        written = literal(value)
        if written is not None:
            self.parts.append(f"{name} = {written}")
            return
        function = _plain_function(value) if not isinstance(value, type) else None
        if function is not None and not _of_a_library(function):
            made = self.function(function, value if isinstance(value, CustomGradient) else None)
            if made is not None and made != name:
                self.parts.append(f"{name} = {made}")
            return
        home, there = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        module = sys.modules.get(home or "")
        if module is not None and home != "__main__" and there.isidentifier() and getattr(module, there, None) is value:
            self.imports[f"from {home} import {there}" + (f" as {name}" if name != there else "")] = None


def _closure(f: Any) -> dict[str, Any]:
    found = {}
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _of_a_library(f: Any) -> bool:
    """Whether a function belongs to Python, gtape or an installed package, so that a program imports it."""
    top = (f.__module__ or "").partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return True
    return is_own(f.__code__.co_filename) or "site-packages" in f.__code__.co_filename


def literal(value: Any) -> str | None:
    """A small value as source text; None for any other."""
    if isinstance(value, (Tensor, Variable)):
        made = literal(np.asarray(value.numpy()))
        return made and f"gtape.{'Variable' if isinstance(value, Variable) else 'constant'}({made})"
    if isinstance(value, (np.ndarray, np.generic)):
        dtype = value.dtype
        if value.size > _LARGEST or dtype.kind not in "biufc" or not np.isfinite(value).all():
            return None
        return f"np.array({value.tolist()!r}, dtype={dtype.name!r})"
    if isinstance(value, tuple):
        parts = [literal(v) for v in value]
        return None if None in parts else f"({', '.join(map(str, parts))}{',' * (len(parts) == 1)})"
    if isinstance(value, float) and not np.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value) if value is None or isinstance(value, (bool, int, float, complex, str, bytes)) else None

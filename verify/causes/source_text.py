"""The source text of a user's function, with the imports and definitions that it needs, as a program of its own."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Callable
from enum import Enum
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from gtape.base.own_files import is_own
from gtape.dtypes import DType
from gtape.engine.custom import CustomGradient
from gtape.tensors.tensor import Tensor
from gtape.tensors.variable import Variable
from gtape.verify.causes.statements import Unwritten, has_annotations, names_outside, renamed, replaced
from gtape.verify.verdicts.naming import importing

__all__ = ["IMPORTS", "Definitions", "declaring", "import_of", "joined", "literal", "place_of"]

IMPORTS = "import numpy as np\nimport gtape\n"  # the first lines of every program
# Annotations may name what exists for type checkers alone.
_FUTURE = "from __future__ import annotations\n"
_OF_THE_PROGRAM = re.compile(r"v\d+")  # results of recorded ops in programs around the definitions
_STANDINS = ("default", "owner", "function")  # names for values that have none
_MOST = 40  # definitions of one program
_LARGEST = 64  # numbers of an array that is written out


def _plain_function(f: Any) -> Any:
    """The Python function behind a custom gradient, a method, a partial call or a callable object; None without one."""
    for _ in range(10):
        if isinstance(f, FunctionType):
            return inspect.unwrap(f)
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
    """A program that imports a function from its module, and its name; None if its module does not hold it.

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
    return f"{IMPORTS}from {module.__name__} import {name} as wrong\n", "wrong"


def declaring(prim: Any) -> str:
    """The lines that declare an op again: an import, or its declaration itself; empty for an op of gtape.

    Parameters
    ----------
    prim : Primitive
    """
    line = importing(prim)
    text = Definitions().declaration(prim.place, prim.name) if line.startswith("#") else None
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


def joined(*texts: str) -> str:
    """Programs of this module as one: what must stand first, stands there once.

    Parameters
    ----------
    texts : str
    """
    rest = [text.removeprefix(_FUTURE).removeprefix(IMPORTS) for text in texts]
    first = _FUTURE if any(text.startswith(_FUTURE) for text in texts) else ""
    return first + IMPORTS + "".join(rest)


class Definitions:
    """Collects imports and definitions, each after the ones that it needs.

    Parameters
    ----------
    used : dict, optional
        Names that the program around them uses, with their values.
    """

    def __init__(self, used: dict[str, Any] | None = None) -> None:
        self._imports: dict[str, None] = dict.fromkeys(IMPORTS.splitlines())
        self._parts: list[str] = []
        self._known: dict[str, Any] = {"np": np, "gtape": sys.modules["gtape"], **(used or {})}
        self._written: dict[tuple[int, bool], tuple[Any, str]] = {}  # functions, classes and objects
        self._open: set[int] = set()
        self._annotated = False
        self.unwritten: list[str] = []

    def text(self) -> str:
        """The program so far."""
        lines = [*self._imports, *self._parts]
        return (_FUTURE if self._annotated else "") + "".join([f"{line}\n" for line in lines])

    def custom(self, f: Any) -> str | None:
        """Add a custom gradient; the words that call it, or None if its source cannot be written down.

        Parameters
        ----------
        f : callable
            The custom gradient, or its function.
        """
        custom = f if isinstance(f, CustomGradient) else CustomGradient(f, None)
        f = custom.function
        if isinstance(f, FunctionType):
            return self._function(f, custom)
        if isinstance(f, MethodType) and getattr(type(f.__self__), f.__name__, None).__class__ is CustomGradient:
            whose = self._expression(f.__self__, "owner")
            return whose and f"{whose}.{f.__name__}"
        made = self._expression(f, "function")
        if made is None:
            return None
        name = self._free("wrong", f)
        self._parts.append(f"{name} = {_decorator(custom).removeprefix('@')}({made})")
        return name

    def declaration(self, place: Any, name: str) -> str | None:
        """Add the statements that declare an op; the program, or None if the source is unknown."""
        space = getattr(sys.modules.get(place.module), "__dict__", {})
        text = "".join(linecache.getlines(place.file))
        tree = _parsed(text)
        first = [] if tree is None else [s for s in tree.body if s.lineno <= place.line <= (s.end_lineno or s.lineno)]
        if tree is None or not first or not isinstance(first[0], (ast.Assign, ast.AnnAssign, ast.Expr)):
            return None
        targets = {n.id for n in ast.walk(first[0]) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self._known |= {target: space.get(target) for target in targets}
        for statement in (first[0], *[s for s in tree.body if _gives_mirror(s, targets, name)]):
            self._statement(_lines_of(statement, text), space)
        return self.text()

    def _function(self, f: Any, custom: CustomGradient | None = None) -> str | None:
        """Add a function, or a custom gradient of it; its name, or None if its source cannot be written down."""
        f = inspect.unwrap(f)
        known = self._written.get((id(f), custom is not None))
        if known is not None:
            return known[1]
        decorator = "" if custom is None else _decorator(custom)
        if f.__name__ == "<lambda>":
            text, own = _lambda(f), ""
            if text is None:
                return None
            text = f"({text})"
            name = self._free("wrong" if "wrong" not in self._known else f"function{len(self._parts)}", f)
            before = f"{name} = {decorator.removeprefix('@')}"
        else:
            try:
                text = textwrap.dedent(inspect.getsource(f)).strip()
            except (OSError, TypeError, SyntaxError):
                return None
            tree = _parsed(text)
            statement = tree.body[0] if tree is not None and len(tree.body) == 1 else None
            if not isinstance(statement, ast.FunctionDef):
                return None
            if custom is not None:  # its decorator may have any name
                text = "\n".join(text.splitlines()[statement.lineno - 1 :])
            own = statement.name
            name = self._free(own, f)
            before = f"{decorator}\n" if decorator else ""
        self._written[id(f), custom is not None] = f, name
        try:
            text, defaults = self._without_defaults(text, f)
            text = renamed(text, own, name) if own not in ("", name) else text
            self._statement(text, {**f.__globals__, **_closure(f)}, name, before, defaults)
        except (SyntaxError, Unwritten):  # a nonlocal name, or one that cannot be changed
            return None
        return name

    def _class(self, cls: type) -> str | None:
        """Add a class; its name, or None if it cannot be written down, or its definition has other effects."""
        known = self._written.get((id(cls), False))
        if known is not None:
            return known[1]
        try:
            text = textwrap.dedent(inspect.getsource(cls)).strip()
        except (OSError, TypeError, SyntaxError):
            return None
        tree = _parsed(text)
        statement = tree.body[0] if tree is not None and len(tree.body) == 1 else None
        if not isinstance(statement, ast.ClassDef):
            return None
        space: dict[str, Any] = dict(getattr(sys.modules.get(cls.__module__), "__dict__", {}))
        for f in map(_plain_function, vars(cls).values()):
            space |= _closure(f) if f is not None else {}
        space |= {base.__name__: base for base in cls.__bases__ if base is not object}
        if not _is_plain(cls, statement, space):
            return None
        name = self._free(statement.name, cls)
        self._written[id(cls), False] = cls, name
        try:
            self._statement(renamed(text, statement.name, name) if name != statement.name else text, space, name)
        except (SyntaxError, Unwritten):
            return None
        return name

    def _without_defaults(self, text: str, f: Any) -> tuple[str, dict[str, str]]:
        """The definition of a function with names for defaults that its surroundings gave, and what these stand for."""
        tree = ast.walk(ast.parse(text))
        args = next(n for n in tree if isinstance(n, (ast.FunctionDef, ast.Lambda))).args
        pairs = [*zip(reversed(args.defaults), reversed(f.__defaults__ or ()), strict=False)]
        pairs += [
            (d, (f.__kwdefaults__ or {})[a.arg])
            for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)
            if d is not None and a.arg in (f.__kwdefaults__ or {})
        ]
        found: list[tuple[Any, str]] = []
        defaults: dict[str, str] = {}
        for default, value in pairs:
            if any(isinstance(n, ast.Name) for n in ast.walk(default)):
                made = self._expression(value, "default")
                if made is not None:
                    found.append((default, f"_default_{len(found)}_"))
                    defaults[found[-1][1]] = made
        return replaced(text, found), defaults

    def _statement(
        self,
        text: str,
        space: dict[str, Any],
        own: str | None = None,
        before: str = "",
        defaults: dict[str, str] | None = None,
    ) -> None:
        """Add a statement, with the words before it, behind all that its names stand for."""
        for name in names_outside(text):
            if name in space and name != own:
                made = self._value(name, space[name])
                if made != name:
                    text = renamed(text, name, made)
        self._annotated |= has_annotations(text)
        for name, made in (defaults or {}).items():  # these words are the program's, so they keep their names
            text = text.replace(name, made)
        self._parts.append(before + text)

    def _free(self, name: str, value: Any) -> str:
        """The name, or one like it, that means nothing else in the program."""
        names = (name, *[f"{name}_{i}" for i in range(2, len(self._known) + 3)])
        found = next(n for n in names if n not in self._known and not _OF_THE_PROGRAM.fullmatch(n))
        self._known[found] = value
        return found

    def _value(self, name: str, value: Any) -> str:
        """Add the definition of a name, as far as it can be written; the name in the program."""
        missing = object()
        known = self._known.get(name, missing)
        if known is value or (known is missing and getattr(builtins, name, missing) is value):
            return name
        written = self._written.get((id(value), False))
        if written is not None:
            return written[1]
        free = self._free(name, value)
        if len(self._parts) > _MOST:
            self.unwritten.append(name)
            return free
        if isinstance(value, ModuleType):
            whole = value.__name__
            self._imports[f"import {whole}" if whole == free else f"import {whole} as {free}"] = None
            return free
        del self._known[free]  # a function or an object takes the name itself
        made = self._expression(value, free)
        if made is None:
            self.unwritten.append(name)
        if made is None or made == free:
            self._known[free] = value
            return free
        free = self._free(name, value)
        self._parts.append(f"{free} = {made}")
        return free

    def _expression(self, value: Any, name: str) -> str | None:
        """The words for a value, behind all that they need; None if it cannot be written down."""
        written = literal(value)
        if written is not None or id(value) in self._open or len(self._parts) > _MOST:
            return written
        self._open.add(id(value))
        try:
            return self._compound(value, name)
        finally:
            self._open.discard(id(value))

    def _compound(self, value: Any, name: str) -> str | None:
        kind = type(value)
        if kind in _CONTAINERS:
            return _container(value, lambda v: self._expression(v, name))
        if isinstance(value, Enum):
            owner = self._expression(kind, kind.__name__)
            return owner and value._name_ and f"{owner}.{value._name_}"
        if kind is functools.partial:
            parts = [self._expression(v, name) for v in (value.func, *value.args, *value.keywords.values())]
            if None in parts:
                return None
            words = [*["" for _ in range(1 + len(value.args))], *[f"{k}=" for k in value.keywords]]
            self._imports["import functools"] = None
            return f"functools.partial({', '.join([w + str(p) for w, p in zip(words, parts, strict=True)])})"
        if kind is MethodType:
            owner = self._expression(value.__self__, "owner")
            return owner and f"{owner}.{value.__name__}"
        if isinstance(value, (FunctionType, CustomGradient)) and not _of_a_library(value):
            return self.custom(value) if isinstance(value, CustomGradient) else self._function(value)
        if isinstance(value, type) and not _of_a_library(value):
            made = self._class(value)
            if made is not None:
                return made
        there = getattr(value, "__qualname__", None) or ""
        home = _home_of(value, there)
        if home is not None:
            free = self._free(name if name.isidentifier() and name not in _STANDINS else there, value)
            self._written[id(value), False] = value, free
            self._imports[f"from {home} import {there}" + (f" as {free}" if free != there else "")] = None
            return free
        return self._object(value, name)

    def _object(self, value: Any, name: str) -> str | None:
        """The words for an object of a class of the user's, with its attributes as far as they can be written."""
        known = self._written.get((id(value), False))
        cls = type(value)
        if known is not None:
            return known[1]
        if isinstance(value, (type, FunctionType)) or (_of_a_library(cls) and cls is not SimpleNamespace):
            return None
        parts: dict[str, str | None]
        if isinstance(value, tuple) and hasattr(cls, "_fields"):
            parts = {field: self._expression(getattr(value, field), name) for field in cls._fields}
        elif dataclasses.is_dataclass(cls):
            fields = dataclasses.fields(cls)
            parts = {f.name: self._expression(getattr(value, f.name, None), name) for f in fields if f.init}
        elif cls is SimpleNamespace:
            parts = {k: self._expression(v, name) for k, v in vars(value).items()}
        else:
            return self._attributes(value, name)
        owner = self._expression(cls, cls.__name__)
        if owner is None or None in parts.values():
            return None
        return f"{owner}({', '.join([f'{k}={v}' for k, v in parts.items()])})"

    def _attributes(self, value: Any, name: str) -> str | None:
        """The name of an object that is made without a call of its class, which may have effects."""
        cls = type(value)
        slots = any(vars(c).get("__slots__") for c in cls.__mro__[:-1])
        if slots or hasattr(cls, "__del__") or not hasattr(value, "__dict__"):
            return None
        try:
            object.__new__(cls)
        except TypeError:  # abstract, or laid out by C code
            return None
        owner = self._expression(cls, cls.__name__)
        if owner is None:
            return None
        free = self._free(name, value)
        self._written[id(value), False] = value, free
        pairs = [(k, self._expression(v, k)) for k, v in vars(value).items()]
        words = ", ".join([f"{k!r}: {v}" for k, v in pairs if v is not None])
        self._parts.append(f"{free} = object.__new__({owner})")
        if words:
            self._parts.append(f"vars({free}).update({{{words}}})")
        return free


def _home_of(value: Any, name: str) -> str | None:
    """The module that holds a value by its own name: the value's module or a package around it."""
    home = getattr(value, "__module__", None)
    while isinstance(home, str) and home not in ("", "__main__") and name.isidentifier():
        if getattr(sys.modules.get(home), name, None) is value:
            return home
        home = home.rpartition(".")[0]
    return None


def _is_plain(cls: type, statement: ast.ClassDef, space: dict[str, Any]) -> bool:
    """Whether the definition of a class does no more than make the class."""
    hook = getattr(cls.__init_subclass__, "__func__", None)
    words = [d.func if isinstance(d, ast.Call) else d for d in statement.decorator_list]
    first = [next(n.id for n in ast.walk(w) if isinstance(n, ast.Name)) for w in words if not isinstance(w, ast.Lambda)]
    tops = [getattr(space.get(w), "__module__", None) or getattr(space.get(w), "__name__", "") for w in first]
    return (
        (_of_a_library(type(cls)) or type(cls) is type)
        and (hook is None or _of_a_library(hook))
        and all(str(top).partition(".")[0] in sys.stdlib_module_names for top in tops)
    )


_CONTAINERS = (list, tuple, dict, set, frozenset)


def _container(value: Any, write: Callable[[Any], str | None]) -> str | None:
    """The words for a list, tuple, dict or set, by the words for its elements."""
    kind = type(value)
    if len(value) > _LARGEST:
        return None
    if kind is dict:
        pairs = [(write(k), write(v)) for k, v in value.items()]
        return None if any(None in pair for pair in pairs) else "{" + ", ".join([f"{k}: {v}" for k, v in pairs]) + "}"
    parts = [write(v) for v in value]
    if None in parts:
        return None
    inside = ", ".join(map(str, parts))
    if kind is tuple:
        return f"({inside}{',' * (len(parts) == 1)})"
    if kind is list:
        return f"[{inside}]"
    made = f"{{{inside}}}" if parts else "set()"
    return made if kind is set else f"frozenset({made})"


def _closure(f: Any) -> dict[str, Any]:
    found = {}
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _of_a_library(value: Any) -> bool:
    """Whether a function or class belongs to Python, gtape or an installed package, so that a program imports it."""
    home = getattr(value, "__module__", None) or ""
    top = home.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return True
    function = None if isinstance(value, type) else _plain_function(value)
    file = function.__code__.co_filename if function else getattr(sys.modules.get(home), "__file__", None) or ""
    return is_own(file) or "site-packages" in file


def literal(value: Any, *, around: tuple[int, ...] = ()) -> str | None:
    """A small value as source text; None for any other.

    Parameters
    ----------
    value : object
    around : tuple of int
        Containers that hold the value; one that holds itself cannot be written.
    """
    if isinstance(value, (Tensor, Variable)):
        made = literal(np.asarray(value.numpy()))
        return made and f"gtape.{'Variable' if isinstance(value, Variable) else 'constant'}({made})"
    if isinstance(value, (np.ndarray, np.generic)):
        dtype = value.dtype
        if value.size > _LARGEST or dtype.kind not in "biufc" or not np.isfinite(value).all():
            return None
        return f"np.array({value.tolist()!r}, dtype={dtype.name!r})"
    if isinstance(value, DType):
        return f"gtape.{value.name}"
    kind = type(value)
    if kind in _CONTAINERS and id(value) not in around:
        return _container(value, lambda v: literal(v, around=(*around, id(value))))
    if kind is float and not np.isfinite(value):
        return f"float({str(value)!r})"
    simple = value is None or value is Ellipsis or kind in (bool, int, float, complex, str, bytes, range)
    return repr(value) if simple else None

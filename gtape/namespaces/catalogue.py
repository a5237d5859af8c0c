"""Finds the function with a public name in the ops modules, so that a new op needs no entry in a list.

A module of `gtape.ops` or `gtape.tapes` is an ops module if it or its package states `NAMESPACES`. The module's own
statement takes precedence. `NAMESPACES = ("math",)` puts the names into `gtape.math`, an empty tuple leaves them to the
top level, and None excludes a module of helpers.

The search first reads the source texts and imports only the modules that declare the name, so that the first use of an
op imports only its own family. If the texts do not contain the name, all modules are imported.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from gtape.base.imports import import_module, library
from gtape.declare.primitives import Primitive
from gtape.namespaces import places

__all__ = [
    "find", "listed", "load", "modules", "names_in", "names_of", "namespace", "public_path", "resolve", "unknown",
]  # fmt: skip

_ROOMS = ("ops", "tapes")
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The source of each ops module, read on first use.
_texts: dict[str, bytes] = {}

# What `find` found, because a search of all texts takes milliseconds.
_found: dict[tuple[str, str | None], Any] = {}

_EXPORTED = re.compile(rb"^__all__ = \[(.*?)\]", re.MULTILINE | re.DOTALL)


def _read(folder: str, package: str, found: dict[str, bytes]) -> None:
    for entry in os.scandir(folder):
        name, kind = os.path.splitext(entry.name)
        if kind == ".py":
            with open(entry.path, "rb", buffering=0) as file:
                found[f"{package}.{name}" if name != "__init__" else package] = file.read()
        elif entry.is_dir() and name.isidentifier() and name != "__pycache__":
            _read(entry.path, f"{package}.{name}", found)


def _sources() -> dict[str, bytes]:
    if not _texts:
        found: dict[str, bytes] = {}
        try:
            for room in _ROOMS:
                _read(os.path.join(_HERE, room), f"gtape.{room}", found)
        except OSError:
            found.clear()
        stated = {name for name, text in found.items() if b"\nNAMESPACES" in text}
        listed = {n: text for n, text in found.items() if stated & {n, n.rpartition(".")[0]}}
        if not listed:  # an archive, or byte code alone
            pkgutil = library("pkgutil")

            for room in _ROOMS:
                package = import_module(f"gtape.{room}")
                listed.update((m.name, b"") for m in pkgutil.walk_packages(package.__path__, f"gtape.{room}."))
        _texts.update(sorted(listed.items()))
    return _texts


def _spaces(module: Any) -> tuple[str, ...] | None:
    """The `NAMESPACES` of an imported module or of its package; None if the module has no public names."""
    package = sys.modules[module.__name__.rpartition(".")[0]]
    found: tuple[str, ...] | None = getattr(module, "NAMESPACES", getattr(package, "NAMESPACES", None))
    return None if hasattr(module, "__path__") else found


def _declaring(name: str, *, exported: bool) -> list[str]:
    """The modules whose text declares a primitive with the name or, if `exported`, has the name in `__all__`."""
    quoted = f'"{name}"'.encode("utf-8", "surrogatepass")  # no source contains a lone surrogate
    declared = re.compile(rb"\w\(\s*" + re.escape(quoted))
    found = []
    for module, text in _sources().items():
        if quoted in text:
            listed = _EXPORTED.search(text) if exported else None
            if declared.search(text) or (listed is not None and quoted in listed[1]):
                found.append(module)
    return found


def load(name: str | None = None) -> None:
    """Import the modules that declare one primitive, or all modules, so that all primitives are declared."""
    for module in _sources() if name is None else _declaring(name, exported=False):
        import_module(module)


def modules() -> dict[str, tuple[str, ...]]:
    """The names of all ops modules, and the namespaces (besides the top level) in which their names appear."""
    load()
    found = {name: _spaces(sys.modules[name]) for name in _sources()}
    return {name: spaces for name, spaces in found.items() if spaces is not None}


def _public(module: Any) -> dict[str, Any]:
    found = {}
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if isinstance(value, Primitive):
            if value.public:
                found[value.name] = value
        elif callable(value):
            found[name] = value
    for value in list(vars(module).values()):
        if isinstance(value, Primitive) and value.public and value.module == module.__name__:
            found.setdefault(value.name, value)
    return found


def names_of(module: Any) -> set[str]:
    """The public names of one ops module."""
    return set(_public(module))


def declared(namespace: str | None = None) -> dict[str, Any]:
    """The functions of a namespace, or of all if None, by public name. A name without a function has its primitive."""
    found: dict[str, Any] = {}
    for module, spaces in modules().items():
        if namespace is None or namespace in spaces:
            for name, value in _public(sys.modules[module]).items():
                if isinstance(found.get(name), Primitive | None):  # because `find` prefers the same
                    found[name] = found.get(name, value) if isinstance(value, Primitive) else value
    return found


def names_in(namespace: str | None = None) -> list[str]:
    """The public names of a namespace ("math", "nn", "linalg"), or of all if None."""
    return sorted(declared(namespace))


def find(name: str, namespace: str | None = None) -> Any:
    """The function with a public name, in one namespace if given; None if there is none."""
    if name.startswith("_"):
        return None
    found = _found.get((name, namespace))
    if found is None:
        found = _find(name, namespace, _declaring(name, exported=True))
        if found is None:
            found = _find(name, namespace, list(modules()))
        if found is not None:
            _found[name, namespace] = found
    return found.function if isinstance(found, Primitive) else found


def _find(name: str, namespace: str | None, where: Iterable[str]) -> Any:
    found = None
    for each in where:
        module = import_module(each)
        spaces = _spaces(module)
        if spaces is not None and (namespace is None or namespace in spaces):
            value = _public(module).get(name)
            if value is not None and not isinstance(value, Primitive):
                return value  # a wrapper with TensorFlow's arguments takes precedence over the primitive that it calls
            found = found or value
    return found


def resolve(name: str, namespace: str | None = None, *, known: Callable[[], Iterable[str]] | None = None) -> Any:
    """The function with a public name, in one namespace if given.

    Raises an AttributeError for an unknown name. The error lists similar names, also among the additional names that
    `known` returns.
    """
    found = find(name, namespace)
    if found is None:
        names = {*names_in(namespace), *(known() if known else ())}
        raise unknown(f"gtape.{namespace}" if namespace else "gtape", name, names)
    return found


def namespace(space: str, names: dict[str, Any], more: Iterable[str] = ()) -> tuple[Any, Any]:
    """The `__getattr__` and the `__dir__` of a module with the ops of one namespace, "math", "nn" and so on.

    `names` are the module's globals, which keep the found functions. `more` are modules inside the namespace.
    """
    aliases, also = places.ALIASES.get(space, {}), places.ALSO_IN.get(space, frozenset())

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return __dir__()
        value = resolve(name) if name in also else resolve(aliases.get(name, name), space, known=__dir__)
        names[name] = value
        return value

    def __dir__() -> list[str]:
        return listed(space, more)

    return __getattr__, __dir__


def listed(namespace: str | None, more: Iterable[str] = ()) -> list[str]:
    """The sorted names of a namespace ("math", "nn" and so on, or None for the top level). `more` are not ops.

    >>> "erf" in listed("math"), "erf" in listed(None), "exp" in listed(None)
    (True, False, True)
    """
    found = set(more)
    for module, spaces in modules().items():
        found |= {n for n in names_of(sys.modules[module]) if places.shown(n, spaces, namespace)}
    if namespace is not None:
        others = {*places.ALIASES.get(namespace, ()), *places.ALSO_IN.get(namespace, ())}
        found |= {n for n in others if places.shown(n, (namespace,), namespace)}
    return sorted(found)


def public_path(name: str, module: str) -> str:
    """The name under which users know an op of a module.

    >>> public_path("relu", "gtape.ops.elementwise.selection")
    'tf.nn.relu'
    """
    spaces = _spaces(sys.modules[module]) if module in sys.modules else None
    space = next((s for s in (None, *(spaces or ())) if places.shown(name, spaces or (), s)), None)
    return f"tf.{space}.{name}" if space else f"tf.{name}"


def unknown(where: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that the namespace `where`, such as "gtape.math", does not have. Lists similar names.

    >>> import gtape
    >>> gtape.linalg.choleski
    Traceback (most recent call last):
    AttributeError: module 'gtape.linalg' has no attribute 'choleski'; did you mean 'cholesky'?
    """
    near: list[str] = []
    left_out = places.LEFT_OUT.get(where.removeprefix("gtape").removeprefix("."), {})
    why = next((reason for reason, names in left_out.items() if name in names), None)
    if why is None and not name.startswith("_"):
        get_close_matches = library("difflib").get_close_matches

        shapes = {k.lower(): k for k in known}
        near = [shapes[m] for m in get_close_matches(name.lower(), shapes, 3, 0.65)]
    said = [repr(n) for n in near]
    hint = f"; did you mean {' or '.join(filter(None, [', '.join(said[:-1]), said[-1]]))}?" if said else ""
    if why is not None:
        hint = f": {why}"
    # Without `obj`, because Python otherwise adds its own guess to the printed error.
    return AttributeError(f"module {where!r} has no attribute {name!r}{hint}", name=name)

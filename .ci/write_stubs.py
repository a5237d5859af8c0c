"""Write the stubs of the namespaces that look their names up when asked, so that editors and type checkers know them.

    python .ci/write_stubs.py

The build writes them into every wheel (see build_package.py), so git tracks none; run this once in a checkout that an
editor works in. The source text alone is read: a build needs neither NumPy nor gtape.
"""

from __future__ import annotations

import ast
import runpy
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PLACES: dict[str, Any] = runpy.run_path(str(ROOT / "gtape" / "namespaces" / "places.py"))

# The namespace that each stub describes; None is the top level.
STUBS = {
    "__init__": None, "image": "image", "linalg": "linalg", "math": "math", "nn": "nn",
    "namespaces/special": "math.special",
}  # fmt: skip
ROOMS = ("ops", "tapes")
DECLARES = ("elementwise", "implicit", "linear", "primitive")

_NEEDED = {"import builtins": "builtins.", "from typing import Any": "Any"}
HEAD = '"""For editors and type checkers. Written by .ci/write_stubs.py."""\n'


class Source(NamedTuple):
    """A module, read: what it exports, the generated functions of its public primitives, and its namespaces."""

    name: str
    exports: list[str]
    declares: dict[str, str]  # name: definition, but for the name
    spaces: tuple[str, ...]


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found[node.target.id] = node.value
    return found


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "frozenset":
        return set(ast.literal_eval(node.args[0]))
    return ast.literal_eval(node)


def _words(call: ast.Call, assigned: dict[str, ast.expr]) -> dict[str, ast.expr]:
    """The keywords of a call, those of a dictionary `**WORDS` of the module among them."""
    found: dict[str, ast.expr] = {}
    for keyword in call.keywords:
        given = assigned.get(getattr(keyword.value, "id", ""), keyword.value)
        if keyword.arg is not None:
            found[keyword.arg] = given
        elif isinstance(given, ast.Dict):
            found.update({_literal(k): v for k, v in zip(given.keys, given.values, strict=True) if k is not None})
        elif isinstance(given, ast.Call):
            found.update(_words(given, assigned))
    return found


def _declaration(call: ast.Call, assigned: dict[str, ast.expr], where: str) -> tuple[str, str] | None:
    """Name and definition of the function that is generated from a declaration; None without an example."""
    if not isinstance(call.args[0], ast.Constant):
        raise SystemExit(f"{where}: write the name of a primitive where it is declared, as a string")
    words, name = _words(call, assigned), str(call.args[0].value)
    if "example" not in words:  # it is not public
        return None
    if "arguments" in words:
        arguments = list(_literal(words["arguments"]))
    else:
        partials = call.args[2] if len(call.args) > 2 else words["partials"]
        partials = assigned.get(getattr(partials, "id", ""), partials)
        if isinstance(partials, ast.Call):
            raise SystemExit(f"{where}: write the partials of {name!r} as a tuple, or give its arguments=")
        arguments = ["x", "y", "z"][: len(partials.elts) if isinstance(partials, ast.Tuple) else 1]
    summary = _literal(words["summary"]) if "summary" in words else ""
    given = ["builtins.str | None" if a == "name" else "Any" for a in arguments]
    parameters = [f"{a}: {kind}" for a, kind in zip(arguments, given, strict=True)]
    parameters += [f"{p}: Any" for p in _literal(words.get("params", ast.Constant(())))]
    if "params" not in words:
        parameters.append("name: builtins.str | None = ...")
    body = textwrap.indent(f'"""{summary}"""', "    ") if summary else "    ..."
    return name, f"({', '.join(parameters)}) -> Tensor:\n{body}\n"


def read(path: Path, package: tuple[str, ...] | None) -> Source | None:
    """One module; None if it has no public names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assigned = _assigned(tree)
    spaces = _literal(assigned["NAMESPACES"]) if "NAMESPACES" in assigned else package
    if spaces is None:
        return None
    exports = _literal(assigned["__all__"]) if "__all__" in assigned else []
    declares = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DECLARES:
            made = _declaration(node, assigned, f"{path}, line {node.lineno}")
            if made is not None:
                declares[made[0]] = made[1]
    primitives = {n for n, v in assigned.items() if isinstance(v, ast.Call) and getattr(v.func, "id", "") in DECLARES}
    name = ".".join(["gtape", *path.relative_to(ROOT / "gtape").with_suffix("").parts])
    return Source(name, [n for n in exports if n not in primitives], declares, spaces)


def sources() -> Iterator[Source]:
    """All ops modules."""
    for folder in [f for room in ROOMS for f in sorted({p.parent for p in (ROOT / "gtape" / room).rglob("*.py")})]:
        stated = _assigned(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))).get("NAMESPACES")
        package = None if stated is None else _literal(stated)
        for path in sorted(folder.glob("*.py")):
            source = read(path, package) if path.stem != "__init__" else None
            if source is not None:
                yield source


class Space:
    """One namespace: where its names can be imported from, and what is declared in its stub."""

    def __init__(self) -> None:
        self.imported: dict[str, tuple[str, str]] = {}  # name here: module, name there
        self.declared: dict[str, str] = {}

    def take(self, name: str, source: Source, there: str) -> None:
        """A function goes before the primitive that it calls."""
        if there in source.exports:
            self.imported[name] = (source.name, there)
            self.declared.pop(name, None)
        elif there in source.declares and name not in self.imported:
            self.declared[name] = f"def {name}{source.declares[there]}"

    def text(self) -> str:
        """The stub."""
        lines = {
            f"from {module} import {there}" + (f" as {here}" if here != there else "")
            for here, (module, there) in self.imported.items()
        }
        said = "\n".join(self.declared[name] for name in sorted(self.declared))
        if "-> Tensor" in said:
            lines.add("from gtape.tensors.tensor import Tensor")
        # The namespace has names of Python's own, such as bool and range.
        needed = [text for text, word in _NEEDED.items() if word in said]
        names = sorted({*self.imported, *self.declared})
        quoted = textwrap.fill(", ".join(f'"{n}"' for n in names), 116, break_long_words=False)
        listed = f"__all__ = [\n{textwrap.indent(quoted, '    ')},\n]  # fmt: skip\n"
        return "\n".join([HEAD, *needed, *([""] if needed else []), *sorted(lines), "", listed, said])


def spaces() -> dict[str, Space]:
    """The namespaces, by the path of their stub below gtape/, without its ending."""
    all_sources = list(sources())
    found = {}
    for path, key in STUBS.items():
        space = found[path] = _top() if key is None else Space()
        aliases, also = PLACES["ALIASES"].get(key, {}), PLACES["ALSO_IN"].get(key, set())
        for source in all_sources:
            for name in {*source.exports, *source.declares}:
                if PLACES["shown"](name, source.spaces, key) or name in also:
                    space.take(name, source, name)
            for name, there in aliases.items():
                if key in source.spaces and PLACES["shown"](name, (key,), key):
                    space.take(name, source, there)
    found["math"].imported["special"] = ("gtape.namespaces", "special")
    return found


def _top() -> Space:
    """What the top level has besides ops, as gtape/__init__.py says it."""
    assigned = _assigned(ast.parse((ROOT / "gtape" / "__init__.py").read_text(encoding="utf-8")))
    dtypes = _assigned(ast.parse((ROOT / "gtape" / "dtypes.py").read_text(encoding="utf-8")))
    space = Space()
    for module, names in _literal(assigned["_HOMES"]).items():
        space.imported.update({n: (module, n) for n in names})
    space.imported.update({n: ("gtape", n) for n in _literal(assigned["_NAMESPACES"])})
    space.imported.update({n: ("gtape.keras", n) for n in _literal(assigned["_FROM_KERAS"])})
    for name, initializer in _literal(assigned["_INITIALIZERS"]).items():
        space.imported[name] = ("gtape.keras.initializers", initializer)
    space.imported.update({n: ("gtape.dtypes", n) for n in _literal(dtypes["__all__"])})
    space.imported["Tensor"] = ("gtape.tensors.tensor", "Tensor")
    space.imported["print"] = ("gtape.base.printing", "print_v2")
    space.declared["__version__"] = "__version__: builtins.str\n"
    space.declared["executing_eagerly"] = "def executing_eagerly() -> builtins.bool: ...\n"
    space.declared["newaxis"] = "newaxis: None\n"
    return space


def stubs() -> dict[Path, str]:
    """All stubs, by path."""
    return {ROOT / "gtape" / f"{path}.pyi": space.text() for path, space in spaces().items()}


def write(folder: Path) -> list[Path]:
    """Write all stubs below a folder that stands for the checkout; the paths of the files below it."""
    paths = []
    for path, text in stubs().items():
        paths.append(path.relative_to(ROOT))
        (folder / paths[-1]).parent.mkdir(parents=True, exist_ok=True)
        (folder / paths[-1]).write_text(text, encoding="utf-8")
    return paths


if __name__ == "__main__":
    for written in write(ROOT):
        print(written)

"""Write the stubs of the namespaces that look their names up when asked, so that editors and type checkers know them.

    python .ci/write_stubs.py

A test compares what stands there with what this would write.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import gtape  # noqa: E402  from this checkout

SPACES = {
    "__init__": gtape, "image": gtape.image, "linalg": gtape.linalg, "math": gtape.math, "nn": gtape.nn,
    "namespaces/special": gtape.math.special,
}  # fmt: skip

_NEEDED = {"import builtins": "builtins.", "from typing import Any": "Any"}
HEAD = '"""For editors and type checkers. Written by .ci/write_stubs.py."""\n'


def stub(space: Any) -> str:
    """The text of one stub: real definitions are passed on, generated functions declared."""
    passed: list[tuple[str, str, str]] = []  # module, name there, name here
    declared: list[str] = []
    for name in dir(space):
        value = getattr(space, name)
        home = _home(space, name, value)
        if home is not None:
            passed.append((*home, name))
        elif inspect.isfunction(value):
            declared.append(_declaration(name, value))
        else:
            declared.append(f"{name}: {'None' if value is None else f'builtins.{type(value).__name__}'}\n")
    lines = [
        f"from {module} import {there}" + (f" as {here}" if here != there else "")
        for module, there, here in sorted(set(passed))
    ]
    said = "".join(declared)
    if "-> Tensor" in said and not any(here == "Tensor" for *_, here in passed):
        lines.append("from gtape.tensors.tensor import Tensor")
    # The namespace has names of Python's own, such as bool and range.
    needed = [text for text, word in _NEEDED.items() if word in said]
    names = textwrap.fill(", ".join(f'"{n}"' for n in dir(space)), 116, break_long_words=False)
    listed = f"__all__ = [\n{textwrap.indent(names, '    ')},\n]  # fmt: skip\n"
    return "\n".join([HEAD, *needed, *([""] if needed else []), *sorted(set(lines)), "", listed, *declared])


def _home(space: Any, name: str, value: Any) -> tuple[str, str] | None:
    """Where a name can be imported from: (module, name there)."""
    if isinstance(value, types.ModuleType):
        package, _, last = value.__name__.rpartition(".")
        return package, last
    if isinstance(value, gtape.DType):
        return "gtape.dtypes", name
    module, there = getattr(value, "__module__", None), getattr(value, "__name__", None)
    generated = inspect.isfunction(value) and value.__code__.co_filename.startswith("<")
    if module is None or module == space.__name__ or there is None or generated:
        return None
    found = vars(sys.modules[module]).get(there)
    # The class that users see may be a base of the class that all objects have.
    same = found is value or (isinstance(value, type) and isinstance(found, type) and issubclass(found, value))
    return (module, there) if same else None


def _declaration(name: str, function: Any) -> str:
    parameters = []
    for p in inspect.signature(function).parameters.values():
        kind = "builtins.str | None" if p.name == "name" else "Any"
        text = str(p.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty))
        parameters.append(f"{text}: {kind}" + (" = ..." if p.default is not inspect.Parameter.empty else ""))
    summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    returns = "builtins.bool" if name == "executing_eagerly" else "Tensor"
    body = textwrap.indent(f'"""{summary}"""', "    ") if summary else "    ..."
    return f"def {name}({', '.join(parameters)}) -> {returns}:\n{body}\n"


def stubs() -> dict[Path, str]:
    """All stubs, by path."""
    return {ROOT / "gtape" / f"{name}.pyi": stub(space) for name, space in SPACES.items()}


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT), text.count("\n"))

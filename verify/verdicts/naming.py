"""Finds the primitives behind a typed name: a primitive, or a function made of primitives."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Any

from gtape.declare.primitives import REGISTRY, Primitive
from gtape.namespaces import catalogue

__all__ = ["importing", "made_of", "primitives_named", "primitives_of_functions", "similar"]

_DECISIONS = "gtape.ops.shape.decisions"  # what these functions call makes integers, which have no derivative
_DEPTH = 4  # levels of calls searched for primitives


def importing(prim: Primitive) -> str:
    """The line of source that declares a primitive again; empty for primitives of gtape.

    Examples
    --------
    >>> from gtape.verify.verdicts.naming import importing
    >>> importing(REGISTRY["sin"])
    ''
    """
    if not prim.place.outside:
        return ""
    if prim.module == "__main__":
        return f"# {prim.place.file} declares {prim.name}: run that file first, then this text\n"
    return f"import {prim.module}  # declares {prim.name}\n"


def made_of(name: str) -> list[str]:
    """The differentiable primitives in the code of a public function, in the order of the registry.

    Parameters
    ----------
    name : str
        A name such as "reduce_sum" or "tf.nn.conv2d"; only the part after the last dot counts.

    Examples
    --------
    >>> from gtape.verify.verdicts.naming import made_of
    >>> made_of("tf.reduce_sum"), made_of("no_such_function")
    (['sum'], [])
    """
    return _made_of(catalogue.declared().get(name.rsplit(".", 1)[-1]))


def primitives_of_functions() -> dict[str, list[str]]:
    """For each public function the differentiable primitives in its code, as `made_of` finds them."""
    return {name: _made_of(function) for name, function in catalogue.declared().items()}


def _made_of(function: Any) -> list[str]:
    found: set[str] = set()
    seen: set[int] = set()

    def look(f: Any, depth: int) -> None:
        prim = f if isinstance(f, Primitive) else Primitive.behind(f)
        if prim is not None:
            if prim.differentiable:
                found.add(prim.name)
            return
        f = inspect.unwrap(f) if callable(f) else f
        code = getattr(f, "__code__", None)
        if code is None or depth == _DEPTH or id(f) in seen or not str(f.__module__).startswith("gtape.ops"):
            return
        if f.__module__ == _DECISIONS:
            return
        seen.add(id(f))
        for word in code.co_names:
            look(f.__globals__.get(word), depth + 1)
        # Names read from a world, as in TAPE.sum(x), or from the registry.
        words = [*(code.co_names if "TAPE" in code.co_names else ()), *_texts(code, "REGISTRY")]
        for word in words:
            if word in REGISTRY and word not in f.__globals__:
                look(REGISTRY[word], depth + 1)

    look(function, 0)
    return [p for p in REGISTRY if p in found]


def _texts(code: Any, beside: str) -> list[str]:
    return [c for c in code.co_consts if isinstance(c, str)] if beside in code.co_names else []


def primitives_named(names: Iterable[str]) -> list[str]:
    """The primitives behind some names, each once; a public function stands for the primitives in its code.

    Raises
    ------
    ValueError
        For any other name; the message suggests similar names.

    Examples
    --------
    >>> from gtape.verify.verdicts.naming import primitives_named
    >>> primitives_named(["tf.math.log1p", "reduce_sum"])
    ['log1p', 'sum']
    """
    catalogue.load()
    found: dict[str, None] = {}
    for name in names:
        short = name.rsplit(".", 1)[-1]
        known = [short] if short in REGISTRY else made_of(short)
        if not known:
            raise ValueError(_unknown(name, short))
        found.update(dict.fromkeys(known))
    return list(found)


def _unknown(name: str, short: str) -> str:
    if catalogue.find(short) is not None:
        return f"{name!r} has no differentiable primitives of its own: name the ops that it calls"
    return f"there is no op named {name!r}; {similar(short, [*REGISTRY, *catalogue.names_in()])}"


def similar(name: str, known: Iterable[str]) -> str:
    """A hint at the names that resemble an unknown one.

    Examples
    --------
    >>> from gtape.verify.verdicts.naming import similar
    >>> similar("sinn", ["sin", "log"])
    'did you mean sin?'
    """
    near = list(dict.fromkeys(difflib.get_close_matches(name, list(known), 3, 0.7)))
    return f"did you mean {' or '.join(near)}?" if near else "`gtape prove` without names lists all primitives"

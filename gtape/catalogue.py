"""Which public name lives where: found in the ops modules themselves, so that a new op needs no list to be changed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from gtape.primitive import Primitive

__all__ = ["MODULES", "find", "names_in", "names_of", "resolve"]

# The ops modules, and the namespaces (besides the top level) in which their names appear.
MODULES: dict[str, tuple[str, ...]] = {
    "gtape.control": (),
    "gtape.custom": (),
    "gtape.ops.arithmetic": ("math",),
    "gtape.ops.comparison": ("math",),
    "gtape.ops.selection": ("math", "nn"),
    "gtape.ops.roots": ("math",),
    "gtape.ops.exponential": ("math",),
    "gtape.ops.circular": ("math",),
    "gtape.ops.hyperbolic": ("math",),
    "gtape.ops.error_functions": ("math",),
    "gtape.ops.activation": ("math", "nn"),
    "gtape.ops.creation": (),
    "gtape.ops.complex_parts": ("math",),
    "gtape.ops.sums": ("math",),
    "gtape.ops.extrema": ("math",),
    "gtape.ops.logsumexp": ("math",),
    "gtape.ops.norms": ("math", "linalg"),
    "gtape.ops.moments": ("math",),
    "gtape.ops.truth": ("math",),
    "gtape.ops.scan": ("math",),
    "gtape.ops.cumulative": ("math",),
    "gtape.ops.shape": (),
    "gtape.ops.broadcasting": (),
    "gtape.ops.order": (),
    "gtape.ops.join": (),
    "gtape.ops.tiling": (),
    "gtape.ops.indexing": ("math", "nn"),
    "gtape.ops.decided": (),
    "gtape.ops.gather": ("math", "nn"),
    "gtape.ops.scatter": ("math", "nn"),
    "gtape.ops.sorting": ("math", "nn"),
    "gtape.ops.matmul": ("linalg",),
    "gtape.ops.casting": (),
    "gtape.ops.combined": ("math", "nn"),
    "gtape.ops.counting": ("math",),
    "gtape.ops.partition": (),
    "gtape.ops.static": (),
    "gtape.ops.truncated": ("math",),
    "gtape.ops.segment": ("math",),
    "gtape.ops.unsorted_segment": ("math",),
    "gtape.ops.gamma": ("math",),
    "gtape.ops.error_inverses": ("math",),
    "gtape.ops.incomplete": ("math",),
    "gtape.ops.bessel": ("math", "math.special"),
    "gtape.ops.integrals": ("math", "math.special"),
    "gtape.ops.diagonal": ("linalg",),
    "gtape.ops.einsum": ("linalg",),
    "gtape.ops.equations": ("linalg",),
    "gtape.ops.cholesky": ("linalg",),
    "gtape.ops.logdet": ("linalg",),
    "gtape.ops.matrix_products": ("linalg",),
    "gtape.ops.spectral": ("linalg",),
    "gtape.ops.expm": ("linalg",),
    "gtape.ops.eig": ("linalg",),
    "gtape.ops.complex_factors": (),
    "gtape.ops.decompositions": ("linalg",),
    "gtape.ops.banded": ("linalg",),
    "gtape.ops.lu": ("linalg",),
    "gtape.ops.softmax": ("nn",),
    "gtape.ops.cross_entropy": ("nn",),
    "gtape.ops.nn": ("nn",),
    "gtape.ops.activation_functions": ("nn",),
    "gtape.ops.losses": ("nn",),
    "gtape.ops.correlation": (),
    "gtape.ops.dropout": ("nn",),
    "gtape.ops.convolution": ("nn",),
    "gtape.ops.convolution_transposed": ("nn",),
    "gtape.ops.pooling": ("nn",),
    "gtape.ops.patches": ("image",),
    "gtape.ops.blocks": ("nn",),
    "gtape.ops.normalization": ("nn",),
    "gtape.control_flow": (),
    "gtape.functional": (),
    "gtape.python_functions": (),
    "gtape.tensor_array": (),
    "gtape.ops.assertions": (),
    "gtape.ops.shape_assertions": (),
    "gtape.ops.clipping": ("linalg",),
    "gtape.ops.random_gamma": (),
    "gtape.tensor_spec": (),
}


def load() -> None:
    """Import every ops module, so that all primitives are declared."""
    for name in MODULES:
        importlib.import_module(name)


def _public(module: Any) -> dict[str, Any]:
    found = {}
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if isinstance(value, Primitive):
            if value.public:
                found[value.name] = value
        elif callable(value):
            found[name] = value
    for value in vars(module).values():
        if isinstance(value, Primitive) and value.public and value.module == module.__name__:
            found.setdefault(value.name, value)
    return found


def names_of(module: Any) -> set[str]:
    """The public names of one ops module."""
    return set(_public(module))


def names_in(namespace: str | None = None) -> list[str]:
    """The public names of a namespace ("math", "nn", "linalg"), or of all when None."""
    found: set[str] = set()
    for name, spaces in MODULES.items():
        if namespace is None or namespace in spaces:
            found |= set(_public(importlib.import_module(name)))
    return sorted(found)


def find(name: str, namespace: str | None = None) -> Any:
    """The function behind a public name, or None.

    Parameters
    ----------
    name : str
    namespace : str, optional
        Only look at what belongs there.
    """
    if name.startswith("_"):
        return None
    found = None
    for module, spaces in MODULES.items():
        if namespace is None or namespace in spaces:
            value = _public(importlib.import_module(module)).get(name)
            if value is not None and not isinstance(value, Primitive):
                return value  # a wrapper with TensorFlow's arguments goes before the primitive it calls
            found = found or value
    return None if found is None else found.function


def resolve(name: str, namespace: str | None = None, *, known: Callable[[], Iterable[str]] | None = None) -> Any:
    """The function behind a public name.

    Parameters
    ----------
    name : str
    namespace : str, optional
        Only look at what belongs there.
    known : callable, optional
        What else the namespace has, for the error.

    Raises
    ------
    AttributeError
        If there is none; it names what is spelt nearly the same.
    """
    found = find(name, namespace)
    if found is None:
        from gtape.listing import unknown

        names = {*names_in(namespace), *(known() if known else ())}
        raise unknown(f"gtape.{namespace}" if namespace else "gtape", name, names)
    return found

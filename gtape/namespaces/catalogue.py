"""Which public name lives where: found in the ops modules themselves, so that a new op needs no list to be changed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from gtape.declare.primitive import Primitive

__all__ = ["MODULES", "find", "names_in", "names_of", "resolve"]

# The ops modules, and the namespaces (besides the top level) in which their names appear.
MODULES: dict[str, tuple[str, ...]] = {
    "gtape.tapes.control": (),
    "gtape.engine.custom": (),
    "gtape.ops.elementwise.arithmetic": ("math",),
    "gtape.ops.elementwise.comparison": ("math",),
    "gtape.ops.elementwise.selection": ("math", "nn"),
    "gtape.ops.elementwise.roots": ("math",),
    "gtape.ops.elementwise.exponential": ("math",),
    "gtape.ops.elementwise.circular": ("math",),
    "gtape.ops.elementwise.hyperbolic": ("math",),
    "gtape.ops.elementwise.error_functions": ("math",),
    "gtape.ops.elementwise.activation": ("math", "nn"),
    "gtape.ops.shape.creation": (),
    "gtape.ops.elementwise.complex_parts": ("math",),
    "gtape.ops.reduction.sums": ("math",),
    "gtape.ops.reduction.extrema": ("math",),
    "gtape.ops.reduction.logsumexp": ("math",),
    "gtape.ops.reduction.norms": ("math", "linalg"),
    "gtape.ops.reduction.moments": ("math",),
    "gtape.ops.reduction.truth": ("math",),
    "gtape.ops.reduction.scan": ("math",),
    "gtape.ops.reduction.cumulative": ("math",),
    "gtape.ops.shape.shape": (),
    "gtape.ops.shape.broadcasting": (),
    "gtape.ops.shape.order": (),
    "gtape.ops.shape.join": (),
    "gtape.ops.shape.tiling": (),
    "gtape.ops.picking.indexing": ("math", "nn"),
    "gtape.ops.shape.decisions": (),
    "gtape.ops.picking.gather": ("math", "nn"),
    "gtape.ops.picking.scatter": ("math", "nn"),
    "gtape.ops.picking.sorting": ("math", "nn"),
    "gtape.ops.linalg.matmul": ("linalg",),
    "gtape.ops.shape.casting": (),
    "gtape.ops.picking.combined": ("math", "nn"),
    "gtape.ops.picking.counting": ("math",),
    "gtape.ops.picking.partition": (),
    "gtape.ops.picking.static": (),
    "gtape.ops.elementwise.truncated": ("math",),
    "gtape.ops.picking.segment": ("math",),
    "gtape.ops.picking.unsorted_segment": ("math",),
    "gtape.ops.special.gamma": ("math",),
    "gtape.ops.special.error_inverses": ("math",),
    "gtape.ops.special.incomplete": ("math",),
    "gtape.ops.special.bessel": ("math", "math.special"),
    "gtape.ops.special.integrals": ("math", "math.special"),
    "gtape.ops.linalg.diagonal": ("linalg",),
    "gtape.ops.linalg.einsum": ("linalg",),
    "gtape.ops.linalg.equations": ("linalg",),
    "gtape.ops.linalg.cholesky": ("linalg",),
    "gtape.ops.linalg.logdet": ("linalg",),
    "gtape.ops.linalg.matrix_products": ("linalg",),
    "gtape.ops.linalg.spectral": ("linalg",),
    "gtape.ops.linalg.norms": ("math", "linalg"),
    "gtape.ops.linalg.expm": ("linalg",),
    "gtape.ops.linalg.eig": ("linalg",),
    "gtape.ops.linalg.complex_factors": (),
    "gtape.ops.linalg.decompositions": ("linalg",),
    "gtape.ops.linalg.banded": ("linalg",),
    "gtape.ops.linalg.lu": ("linalg",),
    "gtape.ops.nn.softmax": ("nn",),
    "gtape.ops.nn.cross_entropy": ("nn",),
    "gtape.ops.nn.lookups": ("nn",),
    "gtape.ops.nn.activation_functions": ("nn",),
    "gtape.ops.nn.losses": ("nn",),
    "gtape.ops.nn.correlation": (),
    "gtape.ops.nn.dropout": ("nn",),
    "gtape.ops.nn.convolution": ("nn",),
    "gtape.ops.nn.convolution_transposed": ("nn",),
    "gtape.ops.nn.pooling": ("nn",),
    "gtape.ops.nn.patches": ("image",),
    "gtape.ops.shape.blocks": ("nn",),
    "gtape.ops.nn.normalization": ("nn",),
    "gtape.tapes.control_flow": (),
    "gtape.tapes.functional": (),
    "gtape.tapes.python_functions": (),
    "gtape.tapes.tensor_array": (),
    "gtape.ops.checks.assertions": (),
    "gtape.ops.checks.shape_assertions": (),
    "gtape.ops.nn.clipping": ("linalg",),
    "gtape.ops.random.random_gamma": (),
    "gtape.base.tensor_spec": (),
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
        from gtape.namespaces.listing import unknown

        names = {*names_in(namespace), *(known() if known else ())}
        raise unknown(f"gtape.{namespace}" if namespace else "gtape", name, names)
    return found

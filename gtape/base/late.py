"""Names from higher modules that lower modules need, imported on first use.

Imports run one way (see tests/test_layering.py). If a lower module must call a higher one, as a tensor calls the op
that indexes it, the lower module looks the name up here. Only this table names higher modules.
"""

from __future__ import annotations

from typing import Any

from gtape.base.imports import import_module

__all__ = ["PLACES"]

# Name: (module, name in the module). None stands for the module itself.
PLACES: dict[str, tuple[str, str | None]] = {
    "find_op": ("gtape.namespaces.catalogue", "resolve"),
    "load_ops": ("gtape.namespaces.catalogue", "load"),
    "check_declaration": ("gtape.engine.declarations", "check"),
    "places": ("gtape.namespaces.places", None),
    "make_function": ("gtape.engine.fast.elementwise", "make_function"),
    "describe": ("gtape.namespaces.docstring", "describe"),
    "getitem": ("gtape.ops.picking.indexing", "getitem"),
    "complex_parts": ("gtape.ops.elementwise.complex_parts", None),
    "numpy_protocol": ("gtape.interop.numpy_protocol", None),
    "GradientTape": ("gtape.tapes.tape", "GradientTape"),
    "refuse_in_traced_calls": ("gtape.recording.record", "refuse_in_traced_calls"),
    "flag": ("gtape.verify.judging.flag", None),
}


def __getattr__(name: str) -> Any:
    place = PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(place[0])
    value = globals()[name] = module if place[1] is None else getattr(module, place[1])
    return value

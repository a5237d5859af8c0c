"""Complex derivatives as real arrays: their real and imaginary parts lie along a new last axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import objects
from gtape.symbolic.program import Program
from gtape.verify.causes.points_beside import JOIN
from gtape.verify.oracles.enclosures import is_complex

__all__ = ["in_parts", "joined", "of_complex_outputs", "of_complex_sources", "put", "taken"]

_REAL = np.frompyfunc(lambda e: e.real if isinstance(e, acb) else e, 1, 1)
_IMAG = np.frompyfunc(lambda e: e.imag if isinstance(e, acb) else arb(0), 1, 1)


def of_complex_sources(program: Program) -> list[bool]:
    """For the derivative by each source, whether it is complex."""
    return [bool(nodes) and is_complex(program.nodes[nodes[0]].output) for nodes in program.sources]


def of_complex_outputs(program: Program) -> list[bool]:
    """For the tangent of each output, whether it is complex."""
    return [is_complex(program.nodes[i].output) for i in program.outputs]


def in_parts(split: Sequence[bool], arrays: list[Any]) -> list[Any]:
    """Derivatives with the parts of complex arrays, real and imaginary, along a new last axis; `split` tells which."""
    return [_parts(objects(a)) if is_split and a is not None else a for is_split, a in zip(split, arrays, strict=True)]


def joined(split: Sequence[bool], arrays: list[Any]) -> list[Any]:
    """The inverse of `in_parts`."""
    return [
        objects(JOIN(a[..., 0], a[..., 1])) if is_split and a is not None else a
        for is_split, a in zip(split, arrays, strict=True)
    ]


def taken(a: Any, index: tuple[int, ...]) -> Any:
    """An element; a longer index tells the part of a complex one."""
    if len(index) == np.ndim(a):
        return a[index]
    return a[index[:-1]].imag if index[-1] else a[index[:-1]].real


def put(a: Any, index: tuple[int, ...], value: Any) -> None:
    """Set an element; a longer index tells the part of a complex one."""
    if len(index) == np.ndim(a):
        a[index] = value
    else:
        e = a[index[:-1]]
        a[index[:-1]] = acb(e.real, value) if index[-1] else acb(value, e.imag)


def _parts(a: Any) -> Any:
    made = np.empty((*a.shape, 2), dtype=object)
    made[..., 0], made[..., 1] = _REAL(a), _IMAG(a)
    return made

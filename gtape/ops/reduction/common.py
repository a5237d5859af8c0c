"""The operand, the axes and the samples of all reductions."""

from __future__ import annotations

from typing import Any

from gtape.base.scalars import truth_of
from gtape.errors import OperandTypeError
from gtape.tensors.axes import axes_of
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["AXIS_SAMPLES", "KEPT_AXIS_SAMPLES", "numeric", "reduced"]
NAMESPACES = None

AXIS_SAMPLES: tuple[Any, ...] = (
    (((),), {"axis": (), "keepdims": False}),
    (((3,),), {"axis": (0,), "keepdims": False}),
    (((3,),), {"axis": (-1,), "keepdims": True}),
    (((1,),), {"axis": (-1,), "keepdims": False}),
    (((2, 3),), {"axis": (0,), "keepdims": False}),
    (((2, 2),), {"axis": (-1,), "keepdims": True}),
    (((2, 2),), {"axis": (-2, -1), "keepdims": False}),
    (((2, 1, 2),), {"axis": (0, -1), "keepdims": False}),
    (((2, 2),), {"axis": (), "keepdims": False}),
)
# The samples of primitives that always keep the reduced axes.
KEPT_AXIS_SAMPLES: Any = tuple((s, {"axis": p["axis"]}) for s, p in AXIS_SAMPLES if not p["keepdims"])


def numeric(x: Any, op: str) -> Tensor:
    """The operand of the reduction named `op`, which must hold numbers."""
    t = as_operand(x)
    if t._layout.dtype.kind not in "iufcV":
        raise OperandTypeError(
            f"{op} needs numbers, not {t.dtype.name}: use gtape.cast(x, gtape.int32) first, or reduce_any, reduce_all, "
            "math.count_nonzero"
        )
    return t


def reduced(prim: Any, t: Tensor, axis: Any, keepdims: Any) -> Tensor:
    """The primitive `prim` applied to `t`, with `axis` as users write it."""
    keep = truth_of(keepdims, prim.name, "keepdims")
    return prim.function(t, axis=axes_of(axis, len(t._layout.shape)), keepdims=keep)  # type: ignore[no-any-return]

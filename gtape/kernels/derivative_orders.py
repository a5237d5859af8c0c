"""Samples for families of derivatives: proofs and draws take their lowest orders on a vector."""

from __future__ import annotations

from typing import Any

# Samples of declarations: the shapes of the arguments, and the parameters. A family begins at order 1, or at order 2 if
# the first derivative is a primitive of its own.
FROM_ONE: Any = tuple((((5,),), {"n": n}) for n in (1, 2, 3))
FROM_TWO: Any = tuple((((5,),), {"n": n}) for n in (2, 3, 4))
ORDERS_AND_POWERS: Any = tuple((((5,),), {"n": n, "k": k}) for n in (1, 2, 3) for k in (1, 2))

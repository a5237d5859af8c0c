"""Code without warnings for floating-point errors, as in ops, in the caller's own context."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gtape.base.blocks import block

__all__ = ["quietly"]


@block
def quietly() -> Iterator[None]:
    """Let NumPy ignore floating-point errors during a block.

    ``np.errstate`` is not enough, because it stays in force after an interrupt at the end of its `__enter__`.
    """
    before = np.geterr()
    if before == _QUIET:  # the block is inside another one
        yield
        return
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        np.seterr(**before)


_QUIET = dict.fromkeys(np.geterr(), "ignore")

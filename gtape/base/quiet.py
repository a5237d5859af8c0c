"""Code in the caller's own context without warnings for floating-point errors, as in ops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gtape.base.blocks import block

__all__ = ["quietly"]


@block
def quietly() -> Iterator[None]:
    """Let NumPy ignore floating-point errors during a block.

    ``np.errstate`` alone would remain in force after an interrupt at the end of its `__enter__`.
    """
    before = np.geterr()
    if before == _QUIET:  # as in a block inside another one
        yield
        return
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        np.seterr(**before)


_QUIET = dict.fromkeys(np.geterr(), "ignore")

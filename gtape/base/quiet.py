"""Floating-point errors without a word, as ops have them, in code that runs in the caller's own context."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gtape.base.blocks import block

__all__ = ["quietly"]


@block
def quietly() -> Iterator[None]:
    """Let NumPy ignore floating-point errors for the length of a block; afterwards it does what it did before.

    ``np.errstate`` alone stays in force where an interrupt comes at the end of its `__enter__`.
    """
    before = np.geterr()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        np.seterr(**before)

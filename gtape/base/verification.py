"""The mode of verification, set by a `verifying()` block or the environment variable GTAPE_VERIFY."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from gtape.base.blocks import block
from gtape.base.shown import shown

__all__ = ["verify_mode", "verifying"]


def _of_process(text: str) -> Any:
    """The mode that a text of GTAPE_VERIFY sets: False, True or "strict"."""
    word = text.strip().lower()
    if word in ("", "0", "false", "no", "off"):
        return False
    return "strict" if word == "strict" else True


_PROCESS: Any = _of_process(os.environ.get("GTAPE_VERIFY", ""))
_blocks: dict[object, Any] = {}  # the mode of each open `verifying()` block, in any thread


@block
def verifying(mode: Any = True) -> Iterator[None]:
    """Check every gradient of every tape that is made inside the block, as ``GradientTape(verify=True)`` does.

    Parameters
    ----------
    mode : True or "strict"
        "strict": undecided gradients raise, too.

    Returns
    -------
    context manager

    Raises
    ------
    VerificationError
        From `gradient`, when a derivative is not the exact one.

    Examples
    --------
    >>> import gtape
    >>> with gtape.verifying():
    ...     x = gtape.Variable(2.0)
    ...     with gtape.GradientTape() as tape:
    ...         y = x * x
    ...     print(tape.gradient(y, x).numpy())
    4.0
    """
    if mode not in (True, "strict"):
        raise ValueError(f"verifying() takes True or 'strict', not {shown(mode)}")
    block = object()
    try:
        _blocks[block] = mode
        yield
    finally:
        _blocks.pop(block, None)  # not a Python call, so no interrupt comes before it


def verify_mode() -> Any:
    """The mode for tapes that are made now: False, True or "strict"."""
    modes = list(_blocks.values()) if _blocks else ()
    return modes[-1] if modes else _PROCESS  # another thread may leave its block between the two lines

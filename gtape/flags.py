"""Who asks for verification: a tape, a `verifying()` block, or the environment variable GTAPE_VERIFY."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from gtape.shown import shown

__all__ = ["verify_mode", "verifying"]


def _of_process(text: str) -> Any:
    """What GTAPE_VERIFY asks for: False, True or "strict"."""
    word = text.strip().lower()
    if word in ("", "0", "false", "no", "off"):
        return False
    return "strict" if word == "strict" else True


_PROCESS: Any = _of_process(os.environ.get("GTAPE_VERIFY", ""))
_blocks: list[Any] = []  # the modes of the `verifying()` blocks that are open, in any thread


@contextlib.contextmanager
def verifying(mode: Any = True) -> Iterator[None]:
    """Check every gradient of every tape that is made inside the block, as ``GradientTape(verify=True)`` does.

    Parameters
    ----------
    mode : True or "strict"
        "strict": what cannot be decided raises, too.

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
    _blocks.append(mode)
    try:
        yield
    finally:
        _blocks.remove(mode)


def verify_mode() -> Any:
    """What is asked of everything that is made now: False, True or "strict"."""
    return _blocks[-1] if _blocks else _PROCESS

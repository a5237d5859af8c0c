"""Which cases of long campaigns the usual run tries; ``GTAPE_LARGE=1`` in the environment tries all of them.

The usual run tries each op and each kind of case at least once, but not each kind of case on each op.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")
LARGE = bool(os.environ.get("GTAPE_LARGE"))

# For a test of what all tests of its file have met, which one of several processes does not see.
counts_the_whole_run = pytest.mark.skipif(
    not LARGE or int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1,
    reason="counts a whole large run in one process: GTAPE_LARGE=1, without -n or with -n 1",
)


def in_turn(kinds: Sequence[T], name: str, place: int = 0) -> Sequence[T]:
    """The kinds of cases to try on something that has a name: all, or one.

    The next place gets the next kind, and names begin at different kinds.
    """
    return kinds if LARGE else [kinds[(zlib.crc32(name.encode()) + place) % len(kinds)]]

"""Freed memory of large arrays stays with the process, because fresh memory costs more than arithmetic on it.

The C library gives large blocks back to the operating system. The next array then takes new pages, and the first access
to each page is a page fault. For ten elementwise ops on 10⁶ numbers, these faults take more than half of the time of a
gradient. The C library of Linux (glibc) keeps more free memory once a program has freed a large block: at most twice
the size of the largest such block, and blocks over 32 MB do not count (see M_MMAP_THRESHOLD in the manual page of
mallopt). So every program that has ever freed an array of 32 MB keeps up to 64 MB. Other C libraries are not affected.
"""

from __future__ import annotations

import numpy as np

__all__ = ["keep_freed_memory"]

# A little less than glibc's limit of 32 MB, because a block has a header and whole pages.
_BYTES = (1 << 25) - (1 << 14)


def keep_freed_memory() -> None:
    """Let the process keep up to 64 MB of freed memory for later arrays.

    The block is never touched, so it takes no memory. The environment variables of glibc, such as
    ``MALLOC_TRIM_THRESHOLD_``, come first: with one of them glibc ignores the sizes of freed blocks.
    """
    try:  # noqa: SIM105 - contextlib would be an import
        np.empty(_BYTES, np.uint8)
    except MemoryError:  # under a limit on address space
        pass

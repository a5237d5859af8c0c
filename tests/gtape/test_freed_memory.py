"""Memory of freed large arrays serves later arrays, so that no array waits for fresh pages."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import resource
import numpy as np
{first}
x = np.ones(10**6, np.float32)

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    kept = [np.exp(x) for _ in range(10)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(), faults()
print(sum(faults() for _ in range(10)))
"""


def faults_after(first: str, **variables: str) -> int:
    """The page faults of a hundred arrays of 4 MB, ten of which are alive at a time."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    made = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(first=first)], env={**environment, **variables}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return int(made.stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have rules of their own")
def test_later_arrays_take_the_memory_of_freed_ones() -> None:
    usual = faults_after("")
    ours = faults_after("import gtape as tf; tf.constant(1.0) + 1.0")
    assert usual > 10_000 and ours < usual / 10


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have rules of their own")
def test_the_settings_of_the_user_come_first() -> None:
    first = "import gtape as tf; tf.constant(1.0) + 1.0"
    assert faults_after(first, MALLOC_TRIM_THRESHOLD_="131072", MALLOC_MMAP_THRESHOLD_="131072") > 10_000

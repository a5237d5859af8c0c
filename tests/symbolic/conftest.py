"""Private mirrors for tests, taken out of the tables afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gtape.symbolic.mirrors.registry import ARRAYS, SCALARS


@pytest.fixture
def mirror() -> Iterator[Callable[..., str]]:
    """``mirror(f, kind="scalar") -> name``: declares a mirror under a fresh name."""
    added: list[tuple[dict[str, Any], str]] = []

    def declare(f: Any, kind: str = "scalar") -> str:
        table = SCALARS if kind == "scalar" else ARRAYS
        name = f"private_{len(added)}_for_a_test"
        table[name] = f
        added.append((table, name))
        return name

    yield declare
    for table, name in added:
        del table[name]

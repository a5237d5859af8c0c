"""Fixtures for all tests: nothing may leak from one test into the next, and Hypothesis's profiles."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import flint
import mpmath
import numpy as np
import pytest
import scipy.special  # adds warning filters of the class Warning when first imported  # noqa: F401
from hypothesis import HealthCheck, settings

# No deadline: a loaded machine is no fault of the code. `--hypothesis-profile=large` is for a night's run.
settings.register_profile("dev", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("dev"), max_examples=100, derandomize=True, print_blob=True)
settings.register_profile("large", parent=settings.get_profile("dev"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

# These add a filter for a warning of their own when they are first imported, which is no leak.
_MAY_ADD_FILTERS = {"numpy", "scipy", "sympy"}


def _active_tapes() -> Any:
    """The sessions that are recording in this thread, or None."""
    from gtape import record

    stack = record.active()
    return None if stack is None else stack.sessions


def _state() -> dict[str, Any]:
    return {
        "active tapes": _active_tapes(),
        "NumPy's error state": np.geterr(),
        "NumPy's error callback": np.geterrcall(),
        "NumPy's print options": np.get_printoptions(),
        "flint.ctx.prec": flint.ctx.prec,
        "mpmath.mp.prec": mpmath.mp.prec,
        "GTAPE_VERIFY": os.environ.get("GTAPE_VERIFY"),
    }


def _filters() -> list[Any]:
    return [f for f in warnings.filters if f[2].__module__.partition(".")[0] not in _MAY_ADD_FILTERS]


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves global state other than it found it, and put that state back for the next one."""
    before, filters = _state(), _filters()
    yield
    after = _state()
    changed = [f"{what}: {before[what]!r} -> {after[what]!r}" for what in before if before[what] != after[what]]
    if _filters() != filters:
        changed.append("warnings.filters")
    if not changed:
        return
    if after["active tapes"] != before["active tapes"]:
        from gtape import record

        record.set_stack(before["active tapes"] or ())
    np.seterr(**before["NumPy's error state"])
    np.seterrcall(before["NumPy's error callback"])
    np.set_printoptions(**{k: v for k, v in before["NumPy's print options"].items() if k != "override_repr"})
    flint.ctx.prec = before["flint.ctx.prec"]
    mpmath.mp.prec = before["mpmath.mp.prec"]
    pytest.fail("the test changed global state and did not put it back: " + "; ".join(changed), pytrace=False)

"""The back ends of compiled functions, for all tests of such functions."""

from __future__ import annotations

import pytest

from gtape.tapes import inner_loops

_TABLE = pytest.param("table", marks=pytest.mark.skipif(inner_loops.machine() is None, reason="needs llvmlite"))


@pytest.fixture(params=["python", _TABLE])
def back_end(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each back end in turn."""
    if request.param == "python":
        monkeypatch.setattr(inner_loops, "machine", lambda: None)
    return str(request.param)

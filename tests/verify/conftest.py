"""Fixtures for the tests of the verifier."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def signals_as_in_a_terminal() -> Iterator[None]:
    """A shell ignores SIGINT for what it runs in the background, nohup SIGHUP, and programs leave that as it is."""
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for s, handler in before.items():
        signal.signal(s, handler)

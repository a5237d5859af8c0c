"""Delays of the garbage collector end in every case, and leave settings of the user alone."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

import gtape as tf
from gtape.base.collector import collector_delayed


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield (700, 10, 10)
    gc.set_threshold(*before)


def test_a_delay_ends_with_the_outermost_block() -> None:
    with collector_delayed():
        with collector_delayed():
            assert gc.get_threshold()[0] > 700
        assert gc.get_threshold()[0] > 700
    assert gc.get_threshold()[0] == 700


def test_a_delay_ends_after_an_exception() -> None:
    with pytest.raises(ValueError, match="stop"), collector_delayed():
        raise ValueError("stop")
    assert gc.get_threshold()[0] == 700


def test_delays_of_two_threads_may_overlap() -> None:
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with collector_delayed():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    with collector_delayed():
        thread.start()
        assert entered.wait(10)
    assert gc.get_threshold()[0] > 700  # the other block is open
    leave.set()
    thread.join()
    assert gc.get_threshold()[0] == 700


@pytest.mark.parametrize("first", [0, 1_000_000])
def test_a_longer_or_endless_delay_of_the_user_stays(first: int) -> None:
    gc.set_threshold(first, 10, 10)
    with collector_delayed():
        assert gc.get_threshold()[0] == first
    assert gc.get_threshold()[0] == first


def test_a_threshold_that_the_user_sets_inside_stays() -> None:
    with collector_delayed():
        gc.set_threshold(123, 10, 10)
    assert gc.get_threshold()[0] == 123


def test_a_check_leaves_the_thresholds_alone(thresholds: tuple[int, int, int]) -> None:
    assert tf.verify.check(tf.sin, 0.5).ok
    with pytest.raises(ZeroDivisionError):
        tf.verify.check(lambda x: x * (1 / 0), 0.5)
    assert gc.get_threshold() == thresholds

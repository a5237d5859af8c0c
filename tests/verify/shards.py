"""Kinds of shards for tests of campaigns: cheap ones, and such as die, hang, raise or find. Loaded by ``--load``."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

from gtape.verify.campaigns.kinds import Kind, Outcome, register


def plan(settings: Any) -> Iterator[dict[str, Any]]:
    """One number in each shard."""
    for n in itertools.count(settings["seed"]):
        yield {"kind": "cheap", "n": n, "does": settings["does"], "at": settings["at"], "milliseconds": settings["ms"]}


def run(shard: dict[str, Any]) -> Outcome:
    """Count, and find something at every seventh number; misbehave at number `at`."""
    outcome, n = Outcome(), shard["n"]
    time.sleep(shard["milliseconds"] / 1000)
    if n == shard["at"]:
        _misbehave(shard["does"])
    outcome.count("numbers")
    outcome.count(f"rest: {n % 3}", n)
    outcome.worst("ULP", (n * 37 % 101) / 7)
    if n % 7 == 0:
        outcome.find("rule", f"cause {n % 5}", f"number {n}", {**shard, "n": n}, op="sin", order=1)
    if n % 11 == 0:
        outcome.find("undecided", "too hard", f"number {n} is too hard", shard, reason="eleven")
    return outcome


def _misbehave(how: str) -> None:
    if how == "raise":
        raise ArithmeticError("this shard raises")
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        while True:
            time.sleep(0.1)
    if how == "print":
        print("noise on standard output")
        os.system("echo noise in C")


KIND = Kind("cheap shards", {"seed": 0, "size": 1, "does": "", "at": -1, "ms": 0}, plan, run)
register("cheap", KIND)

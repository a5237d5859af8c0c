"""The work of one shard: from its description, plain data, to a result that is plain data, too."""

from __future__ import annotations

import contextlib
import io
import json
import random
import time
import traceback
import warnings
import zlib
from typing import Any

import numpy as np

from gtape.verify.campaigns.kinds import Outcome, Shard, kind_of, plain_data
from gtape.verify.search.loading import imported

__all__ = ["errored", "key_of", "lost", "work"]

_LONGEST = 4_000  # characters of a traceback


def key_of(shard: Shard) -> str:
    """The description as one text, equal for equal descriptions.

    Examples
    --------
    >>> from gtape.verify.campaigns.shards import key_of
    >>> key_of({"kind": "programs", "first": 0})
    '{"first":0,"kind":"programs"}'
    """
    return json.dumps(shard, sort_keys=True, separators=(",", ":"), allow_nan=False)


def work(shard: Shard) -> dict[str, Any]:
    """Do one shard in this process; an exception becomes part of the result.

    Parameters
    ----------
    shard : dict
        The description: "kind", the modules to "load", and the entries that its kind reads.

    Returns
    -------
    dict
        "status" ("done" or "error"), "counts", "largest", "findings" and "seconds"; "why" for an error.

    Examples
    --------
    >>> from gtape.verify.campaigns.shards import work
    >>> found = work({"kind": "programs", "first": 1, "count": 1, "plant": False, "special": False})
    >>> found["status"], found["counts"]["programs"], found["findings"]
    ('done', 1, [])
    """
    began = time.perf_counter()
    number = zlib.crc32(key_of(shard).encode())
    # The global generators, too, because a function that draws from them would differ from run to run.
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002
    printed = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            warnings.simplefilter("ignore")
            try:
                for module in shard.get("load", []):
                    imported(module)
                made = _result("done", kind_of(shard["kind"]).run(shard))
            except Exception as e:
                made = errored(f"{type(e).__name__}: {e}", traceback.format_exc()[-_LONGEST:])
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
    return {**made, "seconds": round(time.perf_counter() - began, 3)}


def _result(status: str, outcome: Outcome) -> dict[str, Any]:
    findings: dict[str, dict[str, Any]] = {}
    for f in outcome.findings:
        kept = findings.setdefault(f["cause"], {**f, "times": 0})
        kept["times"] += 1
    return {
        "status": status,
        "counts": dict(sorted(outcome.counts.items())),
        "largest": plain_data(dict(sorted(outcome.largest.items()))),
        "findings": list(findings.values()),
    }


def errored(why: str, trace: str = "") -> dict[str, Any]:
    """The result of a shard without an outcome."""
    made = _result("error", Outcome())
    return {**made, "why": plain_data(why), "seconds": 0.0, **({"traceback": plain_data(trace)} if trace else {})}


def lost(shard: Shard, why: str, *, late: bool) -> dict[str, Any]:
    """The result of a shard that took too long, or ended its process: a finding, because it may do so every time.

    Parameters
    ----------
    late : bool
        Whether the time of the shard was over.
    """
    outcome = Outcome()
    what = " ".join(str(shard[k]) for k in ("kind", "library", "subject", "dtype", "function", "op") if k in shard)
    how = "is not done in its time" if late else "ends its process"
    outcome.find("undecided", f"{what} {how}", f"{what} {how}: {why}", shard, reason=why)
    return {**_result("late" if late else "error", outcome), "why": plain_data(why), "seconds": 0.0}

"""Calls of public names with wrong arguments, drawn by a seed: what may come of one is a result or a deliberate error.

``python tests/fuzzing.py --calls 60000 --seed 1`` runs them in this process and prints one line for each that fails;
``python tests/fuzzing.py --repeat 'LINE'`` runs one again and shows its traceback. ``--namespace gtape.nn`` (more than
once, or ``-gtape.keras`` to leave one out) selects; ``numpy``, ``operators`` and ``attributes`` are namespaces too.

An argument is a piece of source (`wrong_values.py`, `valid_values.py`), so that each call can be printed.
`drawn_calls.py` draws the calls, and `judged_calls.py` makes and judges them.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from drawn_calls import Call, Target, call_from, draw, targets
from judged_calls import SECONDS, Verdict, alarm, carried_out, limit_memory, run, space_of


def selected(all_targets: list[Target], spaces: list[str]) -> list[Target]:
    """Those in the namespaces named, without those named with a minus."""
    without = [s[1:] for s in spaces if s.startswith("-")]
    wanted = [s for s in spaces if not s.startswith("-")]

    def inside(t: Target, name: str) -> bool:
        return t.space == name or t.space.startswith(name + ".")

    return [
        t
        for t in all_targets
        if (not wanted or any(inside(t, w) for w in wanted)) and not any(inside(t, w) for w in without)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="go on with this call, after one that ended the process")
    parser.add_argument("--namespace", action="append", default=[])
    parser.add_argument("--name", help="only targets whose path contains this")
    parser.add_argument("--repeat", help="a line that was printed")
    parser.add_argument(
        "--raw", action="store_true", help="print errors of Python and NumPy that name no argument, too"
    )
    parser.add_argument("--json", help="file for the verdicts")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, alarm)
    signal.signal(signal.SIGPROF, alarm)
    faulthandler.enable()
    scratch = tempfile.mkdtemp()
    os.chdir(scratch)
    print(f"calls are written to {scratch}/current", file=sys.stderr)
    import scipy.linalg  # counted among what the process starts with
    import scipy.special  # noqa: F401
    import sympy  # noqa: F401

    import gtape.symbolic
    import gtape.verify  # noqa: F401

    if options.repeat:
        call = call_from(options.repeat)
        print(call.source, call.mode)
        limit_memory()
        try:
            warnings.simplefilter("error")
            carried_out(call, space_of(call.before))
        except BaseException:
            text = traceback.format_exc()
            print(text if len(text) < 6000 else text[:2000] + "\n...\n" + text[-3000:])
        print(run(call))
        return 0
    pool = selected(targets(), options.namespace)
    if options.name:
        pool = [t for t in pool if options.name in t.path]
    limit_memory()
    rng = random.Random(options.seed)
    failed: dict[tuple[str, str], list[tuple[Verdict, Call]]] = {}
    counts = {"": 0, "raw": 0, "internal": 0}
    errors: dict[str, int] = {}
    start = time.perf_counter()
    order = list(pool)
    for n in range(options.calls):
        if n % len(order) == 0:
            rng.shuffle(order)
        call = draw(rng, order[n % len(order)])
        if n < options.start:
            continue
        Path(scratch, "current").write_text(call.line)
        Path(scratch, "number").write_text(str(n))
        faulthandler.dump_traceback_later(20 * SECONDS, exit=True, file=sys.__stderr__)
        verdict = run(call)
        counts[verdict.kind] += 1
        errors[verdict.error or "result"] = errors.get(verdict.error or "result", 0) + 1
        if verdict.kind == "internal" or (options.raw and verdict.kind == "raw"):
            failed.setdefault((verdict.place, verdict.error), []).append((verdict, call))
            with open(Path(scratch, "failed"), "a") as f:
                f.write(json.dumps([verdict._asdict(), call.line]) + "\n")
    took = time.perf_counter() - start
    faulthandler.cancel_dump_traceback_later()
    for (place, error), found in sorted(failed.items(), key=lambda kv: (-len(kv[1]), kv[0])):
        shortest = min(found, key=lambda vc: len(vc[1].line))
        print(f"{len(found):5d} {shortest[0].kind} {error} at {place}: {shortest[0].message[:160]!r}")
        for _, call in [shortest, *found[:2]]:
            print(f"        {call.source[:200]}")
        print(f"      {shortest[1].line}")
    places = sum(any(v.kind == "internal" for v, _ in f) for f in failed.values())
    print(
        f"calls {options.calls}, seed {options.seed}, targets {len(pool)}, internal {counts['internal']} in {places} "
        f"places, raw {counts['raw']}, {took:.0f} s"
    )
    print(json.dumps(dict(sorted(errors.items(), key=lambda kv: -kv[1]))))
    if options.json:
        Path(options.json).write_text(json.dumps([[v._asdict(), c.line] for f in failed.values() for v, c in f]))
    return 1 if counts["internal"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""The pieces of ``gtape verify``: jobs that other processes can run, and their collected outcome."""

from __future__ import annotations

import contextlib
import io
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gtape.verify.search.interrupts import Interrupts
from gtape.verify.search.pools import Harvest, run_all
from gtape.verify.verdicts.verdict import GRAVITY, Report

__all__ = ["Line", "Outcome", "jobs_of", "run"]

Job = tuple[str, str, tuple[Any, ...]]  # kind, the row it belongs to, arguments


class Line:
    """One row of the table: a primitive or a program.

    Attributes
    ----------
    name, kind : str
        The kind is that of the primitive, or "program".
    proof : str
        "proved", "certified" (agreement at exact points, without a proof), "refuted", "open", or "" if no proof was
        tried.
    page : str
        The text of the proof, if requested.
    worst : dict
        Order -> the largest error in ULP outside the rule for roots.
    verdicts : set of str
    findings : list of str
    undone : list of str
        Jobs of this row without a result, with the reasons; such a row is not ok.
    """

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.proof = self.page = ""
        self.worst: dict[int, float] = {}
        self.at_roots = self.checked = 0
        self.verdicts: set[str] = set()
        self.findings: list[str] = []
        self.undone: list[str] = []
        self.rows: list[dict[str, Any]] = []
        self.seconds = 0.0

    @property
    def verdict(self) -> str:
        """The gravest of all verdicts."""
        known = [v for v in GRAVITY if v in self.verdicts]
        return known[0] if known else "correct"

    @property
    def ok(self) -> bool:
        """True if all jobs are done, without findings."""
        return not self.findings and not self.undone

    def note(self, order: int, ulp: float, verdict: str) -> None:
        self.worst[order] = max(self.worst.get(order, 0.0), ulp)
        self.verdicts.add(verdict)

    def as_dict(self) -> dict[str, Any]:
        """The line as plain data for JSON, with infinite errors as text."""
        return {
            "name": self.name, "kind": self.kind, "proof": self.proof, "verdict": self.verdict, "ok": self.ok,
            "checked": self.checked,
            "worst_ulp": {str(k): plain_value(v) for k, v in sorted(self.worst.items())}, "at_roots": self.at_roots,
            "findings": self.findings, "undone": self.undone, "rows": self.rows, "seconds": round(self.seconds, 3),
        }  # fmt: skip


def plain_value(x: Any) -> Any:
    """A value fit for JSON: complex numbers, infinities and NaN as text."""
    if isinstance(x, complex) or (isinstance(x, float) and not np.isfinite(x)):
        return repr(x)
    if isinstance(x, (tuple, list)):
        return [plain_value(v) for v in x]
    return x


class Outcome:
    """All lines of one run, and the harvest of its jobs."""

    def __init__(self, lines: list[Line], seconds: float, harvest: Harvest) -> None:
        self.lines, self.seconds, self.harvest = lines, seconds, harvest

    @property
    def ok(self) -> bool:
        """True if all jobs are done, without findings."""
        return all(line.ok for line in self.lines)


def jobs_of(
    names: Sequence[str] = (),
    *,
    points: int,
    dtypes: tuple[str, ...] = ("float64", "float32"),
    programs: bool = True,
) -> tuple[list[Line], list[Job]]:
    """The empty lines of the table, and the jobs that fill them.

    Parameters
    ----------
    names : sequence of str
        Only these primitives, and no programs; everything if empty.
    points : int
        Points of the census for each elementwise primitive in float64. In float32 a quarter, because it has fewer
        binades. A fortieth for ops that promise 1e-12 instead of 4 ULP, because their exact derivatives take a thousand
        times as long.
    programs : bool
        True checks the example programs, too.

    Raises
    ------
    ValueError
        For a name that is not the name of a differentiable primitive.
    """
    from gtape.declare.primitives import REGISTRY
    from gtape.namespaces import catalogue
    from gtape.verify.search.subjects import subjects
    from gtape.verify.search.trials import others

    catalogue.load()
    wanted = {p.name for p in REGISTRY.values() if p.differentiable}
    if names:
        unknown = sorted(set(names) - wanted)
        if unknown:
            raise ValueError(f"not differentiable, so there is nothing to check: {', '.join(unknown)}")
        wanted = set(names)
    lines = [Line(p.name, p.kind) for p in REGISTRY.values() if p.name in wanted]
    jobs: list[Job] = [("proof", line.name, ()) for line in lines]

    def share(prim: Any, dtype: str) -> int:
        if prim.limit > 4:
            return max(points // 40, 50)
        return points if dtype == "float64" else max(points // 4, 100)

    jobs += [
        ("census", s.prim.name, (s.params, d, share(s.prim, d)))
        for s in subjects()
        if s.prim.name in wanted
        for d in dtypes
    ]
    jobs += [("trials", p.name, (dtypes,)) for p in others() if p.name in wanted]
    if programs and not names:
        from gtape.verify.programs.seeds import PROGRAMS

        lines += [Line(name, "program") for name in PROGRAMS]
        jobs += [("program", name, ()) for name in PROGRAMS]
    return lines, jobs


def _proof(name: str, form: str = "") -> dict[str, Any]:
    from gtape.verify.proofs.proof import prove

    if form not in ("", "text", "latex"):
        raise TypeError(f"form is '', 'text' or 'latex', not {form!r}")
    p = prove(name)
    page = p.latex() if form == "latex" else p.text() if form == "text" else ""
    return {
        "proof": p.state, "cases": len(p.cases), "counterexample": p.counterexample, "unseen": p.unseen, "page": page,
    }  # fmt: skip


def _census(name: str, params: dict[str, Any], dtype: str, points: int) -> list[dict[str, Any]]:
    from gtape.verify.search.census import survey
    from gtape.verify.search.subjects import subject_of

    return [r._asdict() for r in survey(subject_of(name, params), dtype=dtype, points=points)]


def _trials(name: str, dtypes: tuple[str, ...]) -> list[dict[str, Any]]:
    from gtape.declare.primitives import REGISTRY
    from gtape.verify.search.trials import MODES, random_arguments, trial

    prim = REGISTRY[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    found = []
    for sample, params in prim.samples or ():
        for dtype in dtypes:
            arrays = random_arguments(prim, sample, params, dtype, rng)
            for order in (1, 2):
                for mode in MODES:
                    report = trial(prim, arrays, params, order=order, mode=mode, rng=rng)
                    sizes = ", ".join(str(np.shape(a)) for a in arrays)
                    what = f"{name}({sizes}, {params}), {dtype}, order {order}, {mode}"
                    found.append({"what": what, "order": order, **_summary(report)})
    return found


def _summary(report: Report) -> dict[str, Any]:
    return {
        "max_ulp": report.max_ulp, "checked": report.checked, "verdict": report.verdict, "ok": report.ok,
        "findings": [str(f) for f in report.findings if not f.ok],
    }  # fmt: skip


def _program(name: str) -> dict[str, Any]:
    from gtape.verify.programs.seeds import PROGRAMS

    with contextlib.redirect_stdout(io.StringIO()):
        report = PROGRAMS[name]()
    return {**_summary(report), "orders": sorted({f.order for f in report.findings} | {1})}


_KINDS: dict[str, Callable[..., Any]] = {"proof": _proof, "census": _census, "trials": _trials, "program": _program}


def work(job: Job) -> tuple[Any, float]:
    """Do one job in this process.

    Returns
    -------
    result, seconds
        A result that is a string describes the failure of the job.
    """
    kind, name, arguments = job
    began = time.perf_counter()
    # An error in a job becomes a finding, because it must neither end the run nor stay hidden.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result: Any = _KINDS[kind](name, *arguments)
        except Exception as e:
            result = f"{kind} of {name} ended with {type(e).__name__}: {e}"
    return result, time.perf_counter() - began


def _enter(line: Line, kind: str, result: Any) -> None:
    if isinstance(result, str):
        line.verdicts.add("undecided")
        line.findings.append(result)
        line.proof = "open" if kind == "proof" else line.proof
    elif kind == "proof":
        line.proof, line.page = result["proof"], result["page"]
        if line.proof in ("refuted", "open"):
            line.verdicts.add("rule" if line.proof == "refuted" else "undecided")
            line.findings.append(
                result["counterexample"]
                or (
                    f"the proof of {line.name} does not cover all inputs: {result['unseen'][0]}"
                    if result["unseen"]
                    else f"no normal form decides all {result['cases']} cases of {line.name}"
                )
            )
    elif kind == "census":
        for row in result:
            line.rows.append({k: plain_value(v) for k, v in row.items()})
            line.note(row["order"], row["worst_ulp"], row["verdict"])
            line.checked += row["points"]
            line.at_roots += row["at_roots"]
            if row["verdict"] != "correct":
                line.findings.append(
                    f"{row['op']}, {row['dtype']}, derivative by {row['argument']} at {row['where']}: "
                    f"got {row['got']!r}, exact {row['exact']!r}, {row['worst_ulp']:.3g} ULP"
                )
    else:
        for report in result if isinstance(result, list) else [result]:
            line.note(report.get("order", max(report.get("orders", [1]))), report["max_ulp"], report["verdict"])
            line.checked += report["checked"]
            line.findings += [f"{report.get('what', line.name)}: {text}" for text in report["findings"]]


def label(job: Job) -> str:
    """The name of a job."""
    kind, name, arguments = job
    if kind != "census":
        return f"{kind} {name}"
    params, dtype, _ = arguments
    static = ", ".join(f"{k}={v!r}" for k, v in params.items())
    return f"census {name}, {dtype}" + (f", {static}" if static else "")


def run(
    lines: list[Line],
    jobs: list[Job],
    *,
    processes: int = 1,
    progress: Callable[[int, int, str], None] | None = None,
    interrupts: Interrupts | None = None,
) -> Outcome:
    """Do all jobs and fill in the lines.

    Parameters
    ----------
    processes : int
        1 uses this process only.
    progress : callable, optional
        ``progress(done, total, what)`` after each job.
    interrupts : Interrupts, optional
        The handler of signals; after a signal, the outcome holds the results so far.
    """
    by_name = {(line.name, line.kind == "program"): line for line in lines}
    began = time.perf_counter()
    harvest = run_all(
        work, [(job,) for job in jobs], [label(job) for job in jobs],
        processes=processes, progress=progress, interrupts=interrupts,
    )  # fmt: skip
    not_done = harvest.not_done()
    for i, (kind, name, arguments) in enumerate(jobs):
        line = by_name[name, kind == "program"]
        if i in harvest.values:
            result, seconds = harvest.values[i]
            line.seconds += seconds
            _enter(line, kind, result)
        else:
            line.verdicts.add("undecided")
            line.undone.append(f"{label((kind, name, arguments))}: {not_done[i]}")
    return Outcome(lines, time.perf_counter() - began, harvest)

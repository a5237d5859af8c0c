"""The commands: each runs with its parsed arguments and returns the exit status."""

from __future__ import annotations

import argparse
import math
import os
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gtape.base.counts import counted
from gtape.base.escaping import plain, plain_lines
from gtape.verify.command.output import (
    FINE,
    FOUND,
    NOT_COMPLETED,
    Usage,
    check_folder,
    check_path,
    make_folder,
    progress_bar,
    show_table,
    ulp_text,
    versions,
    write_json,
    write_text,
)
from gtape.verify.command.streams import flush, kept_for_results, say, tell
from gtape.verify.search.interrupts import Interrupts
from gtape.verify.verdicts.machine import machine

if TYPE_CHECKING:
    from gtape.verify.search.pools import Harvest

__all__ = [
    "campaign", "census", "conventions", "doctor", "mutants", "peers", "prove", "replay", "report", "table", "verify",
    "write",
]  # fmt: skip


def _primitives(options: argparse.Namespace) -> list[str]:
    """The named primitives; prints the primitives of each function above a table, but never above JSON."""
    from gtape.verify.verdicts.naming import primitives_named

    try:
        found = {name: primitives_named([name]) for name in options.names}
    except ValueError as e:
        raise Usage(str(e)) from None
    for name, known in found.items():
        quiet = options.json == "-" or getattr(options, "latex", False)
        if not quiet and name.rsplit(".", 1)[-1] not in known:
            say(f"{plain(name)} is made of {', '.join(known)}")
    flush()
    return list(dict.fromkeys(p for known in found.values() for p in known))


def _deliver(
    options: argparse.Namespace, harvest: Harvest, data: dict[str, Any], show: Callable[[], None], fine: bool
) -> int:
    """Write the file, print the table or JSON, report missing jobs; return the exit status."""
    data = {
        "versions": versions(), "machine": machine(), "command": _command_line(options),
        "ok": fine and not harvest.partial, **harvest.as_dict(), **data,
    }  # fmt: skip
    unwritten: Usage | None = None
    if options.json and options.json != "-":
        try:
            write_json(options.json, data)
        except Usage as e:  # raised after the table is printed
            unwritten = e
    remarks = harvest.remarks()
    try:
        if options.json == "-":
            write_json("-", data)
        else:
            show()
            if harvest.partial:
                say(remarks[-1])
        flush()
    finally:
        for remark in remarks:
            tell(f"gtape {options.command}: {remark}")
    if unwritten is not None:
        raise unwritten
    return NOT_COMPLETED if harvest.incomplete else FINE if fine else FOUND


def _deliver_text(json: str | None, data: dict[str, Any], path: str | None, text: str, said: str) -> int:
    """Write the data as JSON and the text to their files, or print the text; return the exit status.

    Parameters
    ----------
    said : str
        What to say about the file of the text.
    """
    if json:
        write_json(json, {"versions": versions(), **data})
    if path:
        write_text(path, text)
        say(f"{plain(path)}: {said}")
    elif json != "-":
        say(text, end="")
    return FINE


def _command_line(options: argparse.Namespace) -> list[str]:
    """The command line without options that leave the result as it is: names of files, number of processes."""
    made = ["gtape", options.command, *options.names]
    for name in (
        "points", "quick", "orders", "dtypes", "seed", "load", "tries", "operators", "ops", "modes", "programs",
        "patience", "seconds",
    ):  # fmt: skip
        value = getattr(options, name, None)
        if name == "load":
            made += [f"--load={module}" for module in value or []]
        elif isinstance(value, list):
            made += [f"--{name}", *map(str, value)] if value else []
        elif value is not None and value is not False:
            made.append(f"--{name}" if value is True else f"--{name}={value}")
    return made


def verify(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import runs
    from gtape.verify.command.verify_table import COLUMNS, Group, folded, legend

    check_path(options.json)
    points = options.points or (500 if options.quick else 10_000)
    dtypes = ("float64",) if options.quick else ("float64", "float32")
    names = _primitives(options)
    try:
        lines, jobs = runs.jobs_of(names, points=points, dtypes=dtypes)
    except ValueError as e:
        raise Usage(str(e)) from None
    with progress_bar(options) as progress:
        outcome = runs.run(lines, jobs, processes=options.processes, progress=progress, interrupts=interrupts)
    data = {
        "points": points,
        "dtypes": list(dtypes),
        "seconds": round(outcome.seconds, 1),
        "lines": [x.as_dict() for x in outcome.lines],
    }

    groups = folded(outcome.lines)
    data["groups"] = [g.as_dict() for g in groups]

    def show() -> None:
        shown = [Group(x.name, [x]) for x in outcome.lines] if options.unfolded else groups
        show_table("gtape verify", COLUMNS, [g.row() for g in shown], [g.ok for g in shown])
        for line in legend(shown):
            say(line)
        _closing(outcome, points, dtypes)

    return _deliver(options, outcome.harvest, data, show, all(not x.findings for x in lines))


def _closing(outcome: Any, points: int, dtypes: Sequence[str]) -> None:
    lines = outcome.lines
    bad = [x for x in lines if x.findings]
    undone = sum(bool(x.undone) for x in lines)
    primitives = [x for x in lines if x.kind != "program"]
    proved = sum(x.proof == "proved" for x in primitives)
    certified = sum(x.proof == "certified" for x in primitives)
    for x in bad:
        more = f" (and {len(x.findings) - 1} more)" if len(x.findings) > 1 else ""
        say(f"{plain(x.name)}: {plain_lines(x.findings[0])}{more}")
    say(
        f"{proved} of {counted(len(primitives), 'primitive')} proved"
        + (f", {certified} certified at exact points only" if certified else "")
    )
    say(
        f"{counted(sum(x.checked for x in lines), 'derivative')} compared with the exact ones, "
        f"{counted(points, 'point')} a primitive"
        f" in float64, {'a quarter in float32, ' if 'float32' in dtypes else ''}a fortieth where 1e-12 is promised; "
        f"{counted(len(lines) - len(primitives), 'program')}"
    )
    if undone:
        are = "is" if undone == 1 else "are"
        say(f"{undone} of {counted(len(lines), 'row')} {are} undecided, because not all of their jobs are done")
    found = _bad_rows(len(bad), len(lines))
    say(f"{found}, after {outcome.seconds:.0f} s")


def prove(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.declare.primitives import REGISTRY
    from gtape.namespaces import catalogue
    from gtape.verify.command import runs

    check_path(options.json)
    catalogue.load()
    names = _primitives(options)
    for name in names:
        if not REGISTRY[name].differentiable:
            raise Usage(f"{name!r} is not differentiable, so there is no rule to prove")
    wanted = [p for p in REGISTRY.values() if p.differentiable and (not names or p.name in names)]
    lines = [runs.Line(p.name, p.kind) for p in wanted]
    if options.latex and not names:
        raise Usage("--latex shows the proofs of the ops that are named: write gtape prove tanh --latex")
    form = "latex" if options.latex else "text" if names else ""
    jobs: list[runs.Job] = [("proof", p.name, (form,)) for p in wanted]
    with progress_bar(options) as progress:
        outcome = runs.run(lines, jobs, processes=options.processes, progress=progress, interrupts=interrupts)

    def show() -> None:
        if options.latex:
            say("\n\n".join(x.page for x in lines))
            return
        rows = [(x.name, x.kind, x.proof, f"{x.seconds:.2f}") for x in lines]
        show_table("gtape prove", ("op", "kind", "proof", ">seconds"), rows, [x.ok for x in lines])
        for x in lines:
            for text in x.findings:
                say(f"{plain(x.name)}: {plain_lines(text)}")
        for x in lines:
            if x.page:
                say(f"{plain_lines(x.page)}\n")
        say(f"{sum(x.proof == 'proved' for x in lines)} of {len(lines)} proved")

    data = {"proofs": [{**x.as_dict(), **({"page": x.page} if x.page else {})} for x in lines]}
    return _deliver(options, outcome.harvest, data, show, all(not x.findings for x in lines))


def census(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command.runs import plain_value
    from gtape.verify.search.census import rows_of, search

    check_path(options.json)
    if options.libraries is not None:
        return _library_census(options, interrupts)
    for name in ("exhaustive", "journal", "page", "plots"):
        if getattr(options, name):
            raise Usage(f"--{name} needs --libraries, such as --libraries gtape")
    if 3 in options.orders or {"float16", "bfloat16"} & set(options.dtypes):
        raise Usage("order 3, float16 and bfloat16 need --libraries, such as --libraries gtape")
    names = _primitives(options)
    try:
        with progress_bar(options) as progress:
            harvest = search(
                names or None, tuple(dict.fromkeys(options.orders)), tuple(dict.fromkeys(options.dtypes)),
                options.points, progress,
                processes=options.processes, seed=options.seed, interrupts=interrupts,
            )  # fmt: skip
    except ValueError as e:
        raise Usage(str(e)) from None
    rows = rows_of(harvest)

    def show() -> None:
        columns = (
            "op", "by", ">order", "dtype", ">points", ">worst ULP", "where", ">at roots", ">at kinks", "verdict",
        )  # fmt: skip
        texts = [
            (
                r.op, r.argument, str(r.order), r.dtype, str(r.points), ulp_text(r.worst_ulp),
                _place(r.where) if r.worst_ulp else "", str(r.at_roots or ""),
                str(r.at_kinks or ""), r.verdict,
            )
            for r in rows
        ]  # fmt: skip
        show_table("gtape census", columns, texts, [r.ok for r in rows])
        say("by: the argument of the derivative, counted from 0, or both arguments of a second derivative")
        if any(r.at_roots for r in rows):
            say("at roots: points near a root of the derivative, whose error an input moved by 2 ULP explains")
        if any(r.at_kinks for r in rows):
            say("at kinks: points at a kink, where the op's convention decides")
        bad = sum(not r.ok for r in rows)
        say(_bad_rows(bad, len(rows)))

    data = {"rows": [{k: plain_value(v) for k, v in r._asdict().items()} for r in rows]}
    return _deliver(options, harvest, data, show, all(r.ok for r in rows))


def _library_census(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import census_pictures
    from gtape.verify.command import library_census as made

    check_path(options.page)
    if options.plots is not None:
        census_pictures.check(options.plots)
    names = made.libraries_of(options.libraries)
    orders, dtypes = sorted(set(options.orders)), list(dict.fromkeys(options.dtypes))
    with progress_bar(options) as progress:
        rows = made.run(
            names, options.names, orders=orders, dtypes=dtypes, points=options.points, exhaustive=options.exhaustive,
            journal=options.journal, seed=options.seed, progress=progress, interrupts=interrupts,
        )  # fmt: skip
    interrupts.reporting()
    pictures = []
    if options.plots is not None:
        points = min(options.points, 2_000)
        pictures = census_pictures.plots(options.plots, names, options.names, orders, dtypes[0], points)
    if options.page:
        folder = os.path.dirname(os.path.abspath(options.page))
        shown = [os.path.relpath(p, folder) for p in pictures]
        write_text(options.page, made.page(rows, names, _command(options), options.exhaustive, shown))
    columns, lines, fine = made.table(rows, names)
    if options.json:
        write_json(options.json, {"versions": versions(), "rows": made.as_dicts(rows)})
    if options.json != "-":
        show_table("gtape census", columns, lines, fine)
    return FINE if all(fine) else FOUND


def _command(options: argparse.Namespace) -> str:
    """The command that makes a page of a census again."""
    words = ["gtape", "census", *options.names, "--libraries", options.libraries, "--dtypes", *options.dtypes]
    words += ["--orders", *map(str, options.orders)]
    words += ["--exhaustive"] if options.exhaustive else ["--points", str(options.points), "--seed", str(options.seed)]
    words += ["--page", options.page]
    return shlex.join([*words, "--plots", options.plots] if options.plots else words)


def _place(where: Sequence[float]) -> str:
    return ", ".join(f"{v:.17g}" for v in where)


def doctor(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import artifact
    from gtape.verify.search.doctor import Kernel, measure_all
    from gtape.verify.search.subjects import subjects

    check_path(options.json)
    artifact.check_folder(options.artifact)
    names = _primitives(options)
    started = None if options.artifact is None else artifact.Unfinished(options.artifact)

    def keep(kernel: Kernel) -> None:
        if started is not None:
            started.add(f"{options.points} points of {kernel.op}, {kernel.dtype}", kernel)

    try:
        every = [(str(s), d) for s in subjects(names or None) for d in ("float64", "float32")]
        kept = {k: started.get(f"{options.points} points of {', '.join(k)}") for k in every} if started else {}
        with progress_bar(options) as progress:
            harvest = measure_all(
                names or None,
                points=options.points,
                processes=options.processes,
                progress=progress,
                interrupts=interrupts,
                known={k: Kernel._make((*v[:4], tuple(v[4]))) for k, v in kept.items() if v},
                found=keep,
            )
    except ValueError as e:
        raise Usage(str(e)) from None
    found = harvest.results()
    bad = [k for k in found if not k.ok]

    def show() -> None:
        say(", ".join(f"{k} {v}" for k, v in versions().items()))
        columns = ("kernel", "dtype", ">declared ULP", ">measured", "where")
        rows = [
            (k.op, k.dtype, f"{k.declared:g}", ulp_text(k.measured), _place(k.where) if k.measured else "")
            for k in found
        ]
        show_table("gtape doctor", columns, rows, [k.ok for k in found])
        say(
            f"{len(bad)} of {len(found)} kernels are less accurate here than declared"
            if bad
            else f"all {len(found)} kernels {'measured ' if harvest.partial else ''}are as accurate as declared"
        )

    data = {"kernels": [k.as_dict() for k in found]}
    status = _deliver(options, harvest, data, show, not bad)
    if started is None:
        return status
    if harvest.partial:
        tell(
            f"gtape doctor: --artifact {plain(options.artifact)}: not all jobs are done, so that nothing was written; "
            "the same command goes on from here"
        )
        return status
    tables: dict[artifact.Command, dict[str, Any]] = {}
    own = {"ok": not bad, **harvest.as_dict(), **data}
    elementwise = list(dict.fromkeys(s.prim.name for s in subjects()))
    for command in artifact.commands(names, elementwise, options.points, options.load):
        table = own if command.name == "doctor" else started.get(shlex.join(command.arguments))
        if table is None:
            table = artifact.expected(command, options.processes)
            started.add(shlex.join(command.arguments), table)
        tables[command] = table
    files = artifact.write_folder(options.artifact, tables)
    started.end()
    if options.json != "-":
        shown = plain(options.artifact)
        say(f"{shown}: {counted(len(files), 'file')}; python {shown}/repeat.py repeats the tables")
    return status


def mutants(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import mutants

    check_path(options.json)
    names = _primitives(options)
    with progress_bar(options) as progress:
        harvest = mutants.run(
            names, tries=options.tries, operators=options.operators or [],
            processes=options.processes, progress=progress, interrupts=interrupts,
        )  # fmt: skip
    matrix = mutants.Matrix([t for trials in harvest.results() for t in trials])

    def show() -> None:
        show_table("gtape mutants", mutants.COLUMNS, matrix.rows(), matrix.fine())
        for line in [*(matrix.survivors() if options.survivors else []), *matrix.closing()]:
            say(plain_lines(line))

    return _deliver(options, harvest, matrix.as_dict(), show, matrix.ok)


def write(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command.write import test_of

    check_path(options.json)
    check_path(options.output)
    folder = os.path.dirname(options.output) or "." if options.output else None
    with kept_for_results():
        text = test_of(options.function, order=options.order, folder=folder)
    interrupts.reporting()
    data = {"function": options.function, "test": text}
    said = f"run it with python -m pytest {plain(options.output or '')}"
    return _deliver_text(options.json, data, options.output, text, said)


def conventions(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import reference

    check_path(options.json)
    check_path(options.page)
    text = reference.page()
    rows = [{"kind": "kink", **c._asdict(), "inside": c.inside} for c in reference.conventions()]
    rows += [{"kind": "end", **e._asdict()} for e in reference.ends()]
    interrupts.reporting()
    count = f"{len(reference.conventions())} kinks, {len(reference.ends())} ends"
    return _deliver_text(options.json, {"conventions": [_finite(r) for r in rows]}, options.page, text, count)


def table(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import table

    check_path(options.json)
    check_path(options.output)
    form = table.FORMATS[table.format_of(options.format, options.output)]
    points = table.points_of(options.points, options.dtype)
    orders = list(dict.fromkeys(options.order))
    try:
        with progress_bar(options) as progress:
            found = table.made(
                options.op, points, orders, argument=options.argument, dtype=options.dtype, progress=progress
            )
    except ArithmeticError as e:
        tell(f"gtape table: {plain_lines(str(e))}; nothing was written")
        return FOUND
    text = form(found)
    interrupts.reporting()
    return _deliver_text(options.json, found.as_dict(), options.output, text, counted(len(found.rows), "derivative"))


def campaign(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import campaigns

    return campaigns.run(options, interrupts)


def report(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import reports

    return reports.run(options, interrupts)


def replay(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import replay

    return replay.run(options, interrupts)


def peers(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import peers

    check_path(options.json)
    check_folder(options.output)
    known = peers.baseline_of(options.baseline)
    with progress_bar(options) as progress:
        outcome = peers.run(
            options.names, ops=options.ops, modes=options.modes, dtypes=list(dict.fromkeys(options.dtypes)),
            seconds=options.seconds, programs=options.programs, points=options.points, patience=options.patience,
            seed=options.seed, known=known, load=options.load, processes=options.processes, progress=progress,
            interrupts=interrupts,
        )  # fmt: skip
    if options.output:
        for name, text in peers.texts(outcome, known is not None).items():
            path = os.path.join(options.output, name)
            make_folder(os.path.dirname(path))
            write_text(path, text)

    def show() -> None:
        new = {c.id for c in outcome.new}
        rows = [(c.id, str(c.first.order), c.first.what, str(c.first.got)[:24], peers.short(c.first.exact),
                 "new" if known is not None and c.id in new else "") for c in outcome.causes]  # fmt: skip
        show_table(
            "gtape peers",
            ("cause", ">order", "what", ">returned", ">exact", ""),
            rows,
            [c.id not in new for c in outcome.causes],
        )
        for a in outcome.audits:
            versions_of = ", ".join(f"{k} {plain(v)}" for k, v in a.versions.items())
            say(
                f"{versions_of}: {counted(a.judged, 'derivative')} judged, {counted(len(a.causes), 'cause')}, "
                f"{counted(len(a.refused), 'function')} without some derivative, as the library says"
                + (f", {len(a.skipped)} left out for lack of time" if a.skipped else "")
            )
        for name, why in outcome.missing.items():
            say(f"{name}: not judged: {plain(why)}")

    return _deliver(options, outcome.harvest, outcome.as_dict(), show, not outcome.new)


def _bad_rows(bad: int, rows: int) -> str:
    """How many rows have findings, in words."""
    return f"{bad} of {counted(rows, 'row')} {'has' if bad == 1 else 'have'} findings" if bad else "nothing found"


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """A row with infinities as text, because JSON has none."""
    return {k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}

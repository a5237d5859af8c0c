"""The command line: ``gtape verify``, ``prove``, ``census``, ``doctor``, ``mutants``, ``conventions``, ``table``,
``write``, ``campaign``, ``report``, ``replay``, ``peers``.

Exit status: 0 fine, 1 findings, 2 wrong usage, 3 not completed (a worker process died, a job failed, or standard output
was lost), 129, 130, 143 interrupted by SIGHUP, SIGINT, SIGTERM, 141 if the reader ended before the output.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from gtape.base.escaping import plain, plain_lines
from gtape.verify.command.loading import load
from gtape.verify.command.output import (
    Usage,
    check_path,
    progress_bar,
    show_table,
    ulp_text,
    versions,
    write_json,
    write_text,
)
from gtape.verify.command.streams import OutputLost, ReaderGone, flush, open_descriptors, say, settle, tell
from gtape.verify.search.interrupts import Interrupts, ignore_at_exit
from gtape.verify.verdicts.machine import machine

if TYPE_CHECKING:
    from gtape.verify.search.pools import Harvest

__all__ = ["main"]

_FINE, _FOUND, _USAGE, _NOT_COMPLETED, _INTERRUPTED, _READER_GONE = 0, 1, 2, 3, 130, 141

_MOST_POINTS = 10_000_000  # per primitive, because more points would take many hours and gigabytes
_MOST_PROCESSES = 1_000
_MOST_SEED = 2**64 - 1
_MOST_SHARDS = 10**9
_NUMBERS = ("--points", "--processes", "--jobs", "--seed", "--shards", "--seconds", "--shard-size", "--shard-seconds")


class _Parser(argparse.ArgumentParser):
    """A parser that escapes arguments in error messages, and prints help by `say`."""

    def error(self, message: str) -> NoReturn:
        super().error(plain_lines(message))

    def print_help(self, file: Any = None) -> None:
        # Not by argparse, because it hides a failure to write the help.
        if file is None:
            say(self.format_help(), end="")
        else:
            super().print_help(file)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gtape",
        description="Checks gtape's derivatives against the exact ones.",
        epilog="Exit status: 0 fine, 1 findings, 2 wrong usage, 3 not completed: a worker process died and died again, "
        "a job failed, or standard output could not be written. 129, 130, 143: interrupted by SIGHUP, Ctrl-C, SIGTERM; "
        "what was done until then is printed and said to be partial. 141: nobody read the output to its end.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show versions and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace, Interrupts], int], summary: str
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=summary, description=summary)
        made.set_defaults(run=run)
        made.add_argument(
            "--json",
            nargs="?",
            const="-",
            metavar="FILE",
            help="write the result as JSON to FILE, or to standard output in place of the table",
        )
        made.add_argument(
            "--processes",
            "--jobs",
            type=_whole(1, _MOST_PROCESSES),
            default=min(os.cpu_count() or 1, 8),
            metavar="N",
            help="how many processes to use (default: %(default)s); 1 starts none",
        )
        made.add_argument(
            "--load",
            action="append",
            default=[],
            metavar="MODULE",
            help="import MODULE first, or the file MODULE.py, which declares ops with gtape.declare; may be repeated",
        )
        made.add_argument(
            "--no-progress",
            action="store_true",
            help="no progress bar (none is shown anyway where standard error is no terminal)",
        )
        return made

    def points(c: argparse.ArgumentParser, default: int | None, words: str) -> None:
        c.add_argument("--points", type=_whole(100, _MOST_POINTS), default=default, metavar="N", help=words)

    def names(c: argparse.ArgumentParser, words: str) -> None:
        c.add_argument("names", nargs="*", metavar="NAME", help=words)

    c = command(
        "verify", _verify, "Prove all rules, search all primitives for bad derivatives, check the example programs."
    )
    points(c, None, "points of the census for each primitive in float64, a quarter of them in float32 (default: 10000)")
    c.add_argument("--quick", action="store_true", help="500 points, float64 only")
    c.add_argument("--unfolded", action="store_true", help="a row for each primitive, internal slopes included")
    names(c, "ops, such as sin or tf.reduce_sum; all of them, and the programs, by default")

    c = command("prove", _prove, "Prove the rules of primitives against the derivatives of their mirrors.")
    names(c, "ops, such as sin or tf.reduce_sum, whose proofs are shown; all of them by default, as a table alone")
    c.add_argument("--latex", action="store_true", help="print the proofs of the named ops as sections in LaTeX")

    c = command("census", _census, "Search elementwise primitives for their worst derivatives.")
    names(c, "elementwise ops, such as sin or tf.math.log1p; all of them by default")
    points(c, 10_000, "points for each primitive and dtype (default: %(default)s)")
    c.add_argument(
        "--orders", type=int, nargs="+", choices=(1, 2, 3), default=[1, 2], metavar="K",
        help="1, 2 or both (default); with --libraries also 3",
    )  # fmt: skip
    c.add_argument(
        "--dtypes",
        nargs="+",
        choices=("float64", "float32", "complex128", "complex64", "float16", "bfloat16"),
        default=["float64"],
        metavar="D",
        help="float64 (default), float32, complex128, complex64; float16 and bfloat16 with --libraries",
    )
    c.add_argument(
        "--libraries", metavar="LIST", help="compare libraries, such as gtape,torch,jax, each in its own process"
    )
    c.add_argument("--exhaustive", action="store_true", help="with --libraries: try every number of the dtype")
    c.add_argument("--journal", metavar="FILE", help="with --libraries: keep what is done in FILE, and go on from it")
    c.add_argument("--page", metavar="FILE", help="with --libraries: write a page, Markdown with date and versions")
    c.add_argument("--plots", metavar="FOLDER", help="with --libraries: write plots of ULP against x (matplotlib)")
    c.add_argument(
        "--seed",
        type=_whole(0, _MOST_SEED),
        default=0,
        metavar="N",
        help="another seed searches other points (default: 0)",
    )

    c = command("doctor", _doctor, "Measure the declared accuracy of kernels on this machine; show versions.")
    names(c, "elementwise ops; all of them by default")
    points(c, 2_000, "points for each kernel and dtype (default: %(default)s), a fortieth where 1e-12 is promised")
    c.add_argument(
        "--artifact",
        metavar="DIR",
        help="write a new folder DIR, whole or not at all, with versions, seeds, commands and the tables of doctor, "
        "prove and census, so that others can repeat them",
    )

    c = command("mutants", _mutants, "Plant faults in the rules of ops, and count which kind of check finds them.")
    names(c, "ops, such as tanh or tf.matmul; all of them by default")
    c.add_argument(
        "--tries",
        type=_whole(1, 1000),
        default=10,
        metavar="N",
        help="the most calls of the property test and at plain random numbers (default: %(default)s)",
    )
    c.add_argument(
        "--operators",
        nargs="+",
        metavar="M",
        help="only these kinds of fault, by their number or a word of their name, such as m3 or textbook",
    )
    c.add_argument("--survivors", action="store_true", help="list the mutants that `check` missed or did not name")

    c = command("write", _write, "Write a property test of the derivatives of a function, for pytest and Hypothesis.")
    c.add_argument("function", metavar="MODULE:FUNCTION", help="such as mymodel:loss, or model.py:loss for a file")
    c.add_argument("--order", type=_whole(1, 8), default=2, metavar="K", help="the order of the check (default: 2)")
    c.add_argument("-o", "--output", metavar="FILE", help="write FILE, whole or not at all")

    c = command("conventions", _conventions, "Show what ops return at kinks and where their domains end, as a page.")
    c.add_argument("page", nargs="?", metavar="FILE", help="write the page to FILE (docs/conventions.md)")

    c = command("table", _table, "Compute exact derivatives of an op at points, for the tests of other projects.")
    c.add_argument("op", metavar="OP", help="a function of numbers, such as tanh or tf.math.betainc")
    c.add_argument(
        "--points",
        nargs="+",
        required=True,
        metavar="P",
        help="numbers (0.5, 0x1p-1), start:stop:count, or files of these; commas between the arguments of one point",
    )
    c.add_argument(
        "--order",
        type=_whole(0, 8),
        nargs="+",
        default=[1],
        metavar="K",
        help="orders from 0, the value, to 8 (default: 1)",
    )
    c.add_argument(
        "--argument", type=_whole(0, 99), default=0, metavar="I", help="differentiate by this argument (default: 0)"
    )
    c.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="default: float64")
    c.add_argument(
        "--format",
        choices=("csv", "json", "c", "python"),
        help="default: by the end of FILE (.csv, .json, .h, .py), or csv",
    )
    c.add_argument("-o", "--output", metavar="FILE", help="write FILE, whole or not at all")

    _campaign_options(
        command("campaign", _campaign, "Search for findings for as long as you like, in a journal that survives kills.")
    )

    c = command("report", _report, "Write a report of a result: JSON Lines, JUnit, SARIF, Markdown or HTML.")
    c.add_argument(
        "result", metavar="RESULT",
        help="the journal of a campaign, the file of --json of verify, prove, census or doctor, that of pytest "
        "--gtape-report, or another report",
    )  # fmt: skip
    c.add_argument(
        "--to", nargs="+", action="extend", required=True, metavar="FILE",
        help="the end says the format: .jsonl, .xml (JUnit), .sarif, .md, .html; each file is written whole or not",
    )  # fmt: skip

    c = command("replay", _replay, "Run findings, shards or a report again, and say whether they are the same.")
    c.add_argument(
        "file", metavar="FILE",
        help="a journal, a report, a file of --json, a file of --examples, or a single finding as JSON",
    )  # fmt: skip
    c.add_argument("--shard", type=_whole(0, _MOST_SHARDS), nargs="+", metavar="N", help="these shards of a journal")
    c.add_argument("--all", action="store_true", help="all shards of a journal")
    c.add_argument("--shard-seconds", type=_seconds, metavar="S", help="end a shard after S seconds (default: 600)")

    c = command("peers", _peers, "Judge the derivatives of other libraries by exact ones, each in its own process.")
    c.add_argument(
        "names", nargs="*", metavar="LIBRARY",
        help="torch, jax, tensorflow, autograd, mygrad; all that are installed by default",
    )  # fmt: skip
    c.add_argument("--ops", nargs="+", default=[], metavar="OP", help="only these functions, such as tanh or det")
    c.add_argument(
        "--modes", nargs="+", default=[], metavar="MODE", help="only these modes, such as 'forward over reverse'"
    )
    c.add_argument(
        "--dtypes", nargs="+", choices=("float64", "float32"), default=["float64", "float32"], metavar="D",
        help="float64, float32 (default: both)",
    )  # fmt: skip
    c.add_argument(
        "--seconds", type=_whole(1, 10_000_000), default=1_800, metavar="S",
        help="begin no further function after this time, shared by the libraries (default: %(default)s)",
    )  # fmt: skip
    c.add_argument("--points", type=_whole(20, 100_000), default=240, metavar="N", help="of a grid (default: 240)")
    c.add_argument(
        "--programs", type=_whole(0, 1_000_000), default=100, metavar="N", help="random programs (default: 100)"
    )
    c.add_argument(
        "--patience", type=_whole(1, 86_400), default=20, metavar="S",
        help="seconds after which a call counts as hanging (default: 20)",
    )  # fmt: skip
    c.add_argument("--seed", type=_whole(0, _MOST_SEED), default=0, metavar="N", help="of the points (default: 0)")
    c.add_argument("--baseline", metavar="FILE", help="the --json file of an earlier run; only new causes count")
    c.add_argument("-o", "--output", metavar="FOLDER", help="write findings.md and the witnesses into FOLDER")
    return parser


def _campaign_options(c: argparse.ArgumentParser) -> None:
    c.epilog = (
        "Kinds: programs (random programs without false alarms, and with planted faults), census (the worst "
        "derivative of each elementwise op), functions (the public functions of the modules of --load), mutants (every "
        "fault planted in the rules of each op), peers (the derivatives of other libraries). "
        "docs/how-to-campaign.md lists their settings."
    )
    c.add_argument("journal", metavar="JOURNAL", help="the file of the campaign: one line for each finished shard")
    c.add_argument("--only", nargs="+", action="extend", default=[], metavar="NAME", help="these ops or functions")
    c.add_argument("--kind", metavar="KIND", help="default: functions with --load, otherwise programs")
    c.add_argument("--resume", action="store_true", help="go on with the campaign of JOURNAL")
    c.add_argument("--retry-errors", action="store_true", help="run shards again that failed or took too long")
    c.add_argument("--shards", type=_whole(1, _MOST_SHARDS), metavar="N", help="how many shards the campaign has")
    c.add_argument("--seconds", type=_seconds, metavar="S", help="begin no shard after S seconds")
    c.add_argument("--shard-size", type=_whole(1, _MOST_POINTS), metavar="N", help="programs or points in a shard")
    c.add_argument("--shard-seconds", type=_seconds, metavar="S", help="end a shard after S seconds (default: 600)")
    c.add_argument("--seed", type=_whole(0, _MOST_SEED), metavar="N", help="where the search begins (default: 0)")
    c.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; may be repeated")
    c.add_argument("--examples", metavar="FILE", help="run the examples of FILE first, and add what is found to it")
    c.add_argument("--scheduler", metavar="ADDRESS", help="run on the workers of a dask scheduler, or of its file")
    c.add_argument("--strict", action="store_true", help="exit status 1 for undecided findings, too")


class _Version(argparse.Action):
    """Shows the installed versions, looked up only at ``--version``."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        say(", ".join(f"{k} {v}" for k, v in versions().items()))
        parser.exit()


def _whole(low: int, high: int) -> Callable[[str], int]:
    """A reader of integers in a range, whose error names the range."""

    def read(text: str) -> int:
        try:
            n = int(text)
        except ValueError:
            n = low - 1
        if not low <= n <= high:
            shown = text if len(text) <= 40 else f"{text[:40]}..."
            raise argparse.ArgumentTypeError(
                f"a whole number is wanted, at least {low} and at most {high}, not {shown!r}"
            )
        return n

    return read


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"a positive number of seconds is wanted, not {text[:40]!r}")
    return seconds


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.

    Returns
    -------
    int
        The exit status: 0 fine, 1 findings, 2 wrong usage, 3 not completed, 129, 130 or 143 interrupted, 141 if the
        reader ended before the output.
    """
    open_descriptors()
    if argv is None:  # run as the program, not called by another one
        ignore_at_exit()
    with Interrupts() as interrupts:
        status = _guarded(_joined(sys.argv[1:] if argv is None else argv), interrupts)
        interrupts.reporting()
        settle()
    return interrupts.status or status


def _guarded(argv: Sequence[str], interrupts: Interrupts) -> int:
    command = "gtape"
    try:
        try:
            options = _parser().parse_args(argv)
        except SystemExit as e:  # argparse has printed the error or the help
            flush()
            return int(e.code or 0)
        command = f"gtape {options.command}"
        options.line = ["gtape", *(text.lstrip(" ") for text in argv)]
        for module in options.load:
            load(module)
        status = int(options.run(options, interrupts))
        flush()
        return status
    except Usage as e:
        tell(f"{command}: {plain_lines(str(e))}")
        return _USAGE
    except KeyboardInterrupt:
        tell(f"{command}: interrupted; nothing was written")
        return _INTERRUPTED
    except ReaderGone:
        return _READER_GONE
    except OutputLost as e:
        tell(f"{command}: {e}")
        return _NOT_COMPLETED


def _joined(argv: Sequence[str]) -> list[str]:
    """The arguments changed so that argparse does not read the -1e30 of ``--points -1e30`` as an option."""
    if "table" in argv[:1]:
        # Its points are several, so a space keeps argparse from reading -1e30 or -1:1:5 as an option.
        return [f" {text}" if re.match(r"-\.?\d", text) else text for text in argv]
    found: list[str] = []
    for text in argv:
        if found and found[-1] in _NUMBERS and text[:1] == "-" != text[1:2]:
            found[-1] += f"={text}"
        else:
            found.append(text)
    return found


def _primitives(options: argparse.Namespace) -> list[str]:
    """The named primitives; prints the primitives of each function above a table, but not above JSON."""
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
    return _NOT_COMPLETED if harvest.incomplete else _FINE if fine else _FOUND


def _command_line(options: argparse.Namespace) -> list[str]:
    """The command line of the same result: without the names of files, and without the number of processes."""
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


def _verify(options: argparse.Namespace, interrupts: Interrupts) -> int:
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
        f"{proved} of {len(primitives)} primitives proved"
        + (f", {certified} certified at exact points only" if certified else "")
    )
    say(
        f"{sum(x.checked for x in lines):,} derivatives compared with the exact ones, {points:,} points a primitive"
        f" in float64, {'a quarter in float32, ' if 'float32' in dtypes else ''}a fortieth where 1e-12 is promised; "
        f"{len(lines) - len(primitives)} programs"
    )
    if undone:
        say(f"{undone} of {len(lines)} rows are undecided, because not all of their jobs are done")
    say(f"{'nothing found' if not bad else f'{len(bad)} with findings'} in {outcome.seconds:.0f} s")


def _prove(options: argparse.Namespace, interrupts: Interrupts) -> int:
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


def _census(options: argparse.Namespace, interrupts: Interrupts) -> int:
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
        say("by: the argument, counted from 0, or the two of a second derivative")
        if any(r.at_roots for r in rows):
            say("at roots: points beside a root of the derivative, exact for an input moved by 2 ULP")
        if any(r.at_kinks for r in rows):
            say("at kinks: points at a kink, where the op's convention decides")
        bad = sum(not r.ok for r in rows)
        say(f"{bad} of {len(rows)} rows with findings" if bad else "nothing found")

    data = {"rows": [{k: plain_value(v) for k, v in r._asdict().items()} for r in rows]}
    return _deliver(options, harvest, data, show, all(r.ok for r in rows))


def _library_census(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import census_pictures
    from gtape.verify.command import library_census as made

    check_path(options.page)
    names = made.libraries_of(options.libraries)
    orders, dtypes = sorted(set(options.orders)), list(dict.fromkeys(options.dtypes))
    with progress_bar(options) as progress:
        rows = made.run(
            names, options.names, orders=orders, dtypes=dtypes, points=options.points, exhaustive=options.exhaustive,
            journal=options.journal, seed=options.seed, progress=progress, interrupts=interrupts,
        )  # fmt: skip
    interrupts.reporting()
    pictures = []
    if options.plots:
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
    return _FINE if all(fine) else _FOUND


def _command(options: argparse.Namespace) -> str:
    """The command that makes a page of a census again."""
    words = ["gtape", "census", *options.names, "--libraries", options.libraries, "--dtypes", *options.dtypes]
    words += ["--orders", *map(str, options.orders)]
    words += ["--exhaustive"] if options.exhaustive else ["--points", str(options.points), "--seed", str(options.seed)]
    words += ["--page", options.page]
    return shlex.join([*words, "--plots", options.plots] if options.plots else words)


def _place(where: Sequence[float]) -> str:
    return ", ".join(f"{v:.17g}" for v in where)


def _doctor(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import artifact
    from gtape.verify.search.doctor import measure_all

    check_path(options.json)
    artifact.check_folder(options.artifact)
    names = _primitives(options)
    try:
        with progress_bar(options) as progress:
            harvest = measure_all(
                names or None,
                points=options.points,
                processes=options.processes,
                progress=progress,
                interrupts=interrupts,
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
    if options.artifact is None:
        return status
    if harvest.partial:
        tell(f"gtape doctor: --artifact {plain(options.artifact)}: nothing was written, because not all jobs are done")
        return status
    tables: dict[artifact.Command, dict[str, Any]] = {}
    own = {"ok": not bad, **harvest.as_dict(), **data}
    for command in artifact.commands(names, names, options.points, options.load):
        table = own if command.name == "doctor" else artifact.expected(command, options.processes)
        tables[command] = table
    files = artifact.write_folder(options.artifact, tables)
    if options.json != "-":
        shown = plain(options.artifact)
        say(f"{shown}: {len(files)} files; python {shown}/repeat.py repeats the tables")
    return status


def _mutants(options: argparse.Namespace, interrupts: Interrupts) -> int:
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


def _write(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command.write import test_of

    check_path(options.json)
    check_path(options.output)
    folder = os.path.dirname(options.output) or "." if options.output else None
    text = test_of(options.function, order=options.order, folder=folder)
    interrupts.reporting()
    if options.json:
        write_json(options.json, {"versions": versions(), "function": options.function, "test": text})
    if options.output:
        write_text(options.output, text)
        say(f"{plain(options.output)}: run it with python -m pytest {plain(options.output)}")
    elif options.json != "-":
        say(text, end="")
    return _FINE


def _conventions(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import reference

    check_path(options.json)
    check_path(options.page)
    text = reference.page()
    rows = [{"kind": "kink", **c._asdict(), "inside": c.inside} for c in reference.conventions()]
    rows += [{"kind": "end", **e._asdict()} for e in reference.ends()]
    interrupts.reporting()
    if options.json:
        write_json(options.json, {"versions": versions(), "conventions": [_finite(r) for r in rows]})
    if options.page:
        write_text(options.page, text)
        say(f"{plain(options.page)}: {len(reference.conventions())} kinks, {len(reference.ends())} ends")
    elif options.json != "-":
        say(text, end="")
    return _FINE


def _table(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import table

    check_path(options.json)
    check_path(options.output)
    points = table.points_of(options.points, options.dtype)
    orders = list(dict.fromkeys(options.order))
    try:
        with progress_bar(options) as progress:
            found = table.made(
                options.op, points, orders, argument=options.argument, dtype=options.dtype, progress=progress
            )
    except ArithmeticError as e:
        tell(f"gtape table: {plain_lines(str(e))}; nothing was written")
        return _FOUND
    text = table.FORMATS[table.format_of(options.format, options.output)](found)
    interrupts.reporting()
    if options.json:
        write_json(options.json, {"versions": versions(), **found.as_dict()})
    if options.output:
        write_text(options.output, text)
        say(f"{plain(options.output)}: {len(found.rows):,} derivatives")
    elif options.json != "-":
        say(text, end="")
    return _FINE


def _campaign(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import campaigns

    return campaigns.run(options, interrupts)


def _report(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import reports

    return reports.run(options, interrupts)


def _replay(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import replay

    return replay.run(options, interrupts)


def _peers(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from gtape.verify.command import peers

    check_path(options.json)
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
            os.makedirs(os.path.dirname(path), exist_ok=True)
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
            say(
                f"{', '.join(f'{k} {plain(v)}' for k, v in a.versions.items())}: {a.judged:,} derivatives judged, "
                f"{len(a.causes)} causes, {len(a.refused)} functions without some derivative by their own word"
                + (f", {len(a.skipped)} not begun in the time" if a.skipped else "")
            )
        for name, why in outcome.missing.items():
            say(f"{name}: not judged: {plain(why)}")

    return _deliver(options, outcome.harvest, outcome.as_dict(), show, not outcome.new)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """A row with infinities as text, because JSON has none."""
    return {k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


if __name__ == "__main__":
    sys.exit(main())

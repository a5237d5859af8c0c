"""The arguments of the command line: one parser for each command."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from typing import Any, NoReturn

from gtape.base.escaping import plain_lines
from gtape.verify.command import commands
from gtape.verify.command.output import versions
from gtape.verify.command.streams import say
from gtape.verify.search.rows import MOST_POINTS

__all__ = ["NUMBERS", "make_parser"]

_MOST_PROCESSES = 1_000
_MOST_SEED = 2**64 - 1
_MOST_SHARDS = 10**9
NUMBERS = ("--points", "--processes", "--jobs", "--seed", "--shards", "--seconds", "--shard-size", "--shard-seconds")


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


class _CommandParser(_Parser):
    """The parser of one command, which refuses unknown arguments itself, because its usage says what it takes."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


def make_parser() -> argparse.ArgumentParser:
    """A parser of all commands, whose result has the function of the command as `run`."""
    parser = _Parser(
        prog="gtape",
        description="Checks gtape's derivatives against the exact ones.",
        epilog="Exit status: 0 fine, 1 findings, 2 wrong usage, 3 not completed: a worker process died and died again, "
        "a job failed, or standard output could not be written. 129, 130, 143: interrupted by SIGHUP, Ctrl-C, SIGTERM; "
        "what was done until then is printed and said to be partial. 141: nobody read the output to its end.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show versions and exit")
    listed = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_CommandParser)

    def command(name: str, summary: str) -> argparse.ArgumentParser:
        made = listed.add_parser(name, help=summary, description=summary)
        made.set_defaults(run=getattr(commands, name))
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
        c.add_argument("--points", type=_whole(100, MOST_POINTS), default=default, metavar="N", help=words)

    def names(c: argparse.ArgumentParser, words: str) -> None:
        c.add_argument("names", nargs="*", metavar="NAME", help=words)

    c = command(
        "verify",
        "Prove all rules, search all primitives for bad derivatives, check the example programs.",
    )
    points(c, None, "points of the census for each primitive in float64, a quarter of them in float32 (default: 10000)")
    c.add_argument("--quick", action="store_true", help="500 points, float64 only")
    c.add_argument("--unfolded", action="store_true", help="a row for each primitive, internal slopes included")
    names(c, "ops, such as sin or tf.reduce_sum; all of them, and the programs, by default")

    c = command("prove", "Prove the rules of primitives against the derivatives of their mirrors.")
    names(c, "ops, such as sin or tf.reduce_sum, whose proofs are shown; all of them by default, as a table alone")
    c.add_argument("--latex", action="store_true", help="print the proofs of the named ops as sections in LaTeX")

    c = command("census", "Search elementwise primitives for their worst derivatives.")
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

    c = command("doctor", "Measure the declared accuracy of kernels on this machine; show versions.")
    names(c, "elementwise ops; all of them by default")
    points(c, 2_000, "points for each kernel and dtype (default: %(default)s), a fortieth where 1e-12 is promised")
    c.add_argument(
        "--artifact",
        metavar="DIR",
        help="write a new folder DIR, whole or not at all, with versions, seeds, commands and the tables of doctor, "
        "prove and census, so that others can repeat them; the same command goes on where it was ended",
    )

    c = command("mutants", "Plant faults in the rules of ops, and count which kind of check finds them.")
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

    c = command("write", "Write a property test of the derivatives of a function, for pytest and Hypothesis.")
    c.add_argument("function", metavar="MODULE:FUNCTION", help="such as mymodel:loss, or model.py:loss for a file")
    c.add_argument("--order", type=_whole(1, 8), default=2, metavar="K", help="the order of the check (default: 2)")
    c.add_argument("-o", "--output", metavar="FILE", help="write FILE, whole or not at all")

    c = command("conventions", "Show what ops return at kinks and where their domains end, as a page.")
    c.add_argument("page", nargs="?", metavar="FILE", help="write the page to FILE (docs/conventions.md)")

    c = command("table", "Compute exact derivatives of an op at points, for the tests of other projects.")
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
        command(
            "campaign",
            "Search for findings for as long as you like, in a journal that survives kills.",
        )
    )

    c = command("report", "Write a report of a result: JSON Lines, JUnit, SARIF, Markdown or HTML.")
    c.add_argument(
        "result", metavar="RESULT",
        help="the journal of a campaign, the file of --json of verify, prove, census or doctor, that of pytest "
        "--gtape-report, or another report",
    )  # fmt: skip
    c.add_argument(
        "--to", nargs="+", action="extend", required=True, metavar="FILE",
        help="the end says the format: .jsonl, .xml (JUnit), .sarif, .md, .html; each file is written whole or not",
    )  # fmt: skip

    c = command("replay", "Run findings, shards or a report again, and say whether they are the same.")
    c.add_argument(
        "file", metavar="FILE",
        help="a journal, a report, a file of --json, a file of --examples, or a single finding as JSON",
    )  # fmt: skip
    c.add_argument("--shard", type=_whole(0, _MOST_SHARDS), nargs="+", metavar="N", help="these shards of a journal")
    c.add_argument("--all", action="store_true", help="all shards of a journal")
    c.add_argument("--shard-seconds", type=_seconds, metavar="S", help="end a shard after S seconds (default: 600)")

    c = command("peers", "Judge the derivatives of other libraries by exact ones, each in its own process.")
    c.add_argument(
        "names", nargs="*", metavar="LIBRARY",
        help="torch, jax, tensorflow, autograd, mygrad; all that are installed by default",
    )  # fmt: skip
    c.add_argument("--ops", nargs="+", default=[], metavar="OP", help="only these functions, such as tanh or det")
    c.add_argument(
        "--modes", nargs="+", default=[], metavar="MODE", help="only these modes, such as 'forward over reverse'"
    )
    c.add_argument(
        "--dtypes", nargs="+", choices=("float64", "float32", "float16"), metavar="D",
        default=["float64", "float32", "float16"],
        help="float64, float32, float16 (default: all), the last for functions of numbers only",
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
    c.add_argument("--shard-size", type=_whole(1, MOST_POINTS), metavar="N", help="programs or points in a shard")
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
            shown = text.strip()  # the points of a table may be negative, so a space stands before each negative number
            shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
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

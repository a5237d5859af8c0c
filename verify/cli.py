"""The command line: ``gtape verify``, ``prove``, ``census``, ``doctor``, ``conventions``.

Exit status: 0 fine, 1 findings, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from gtape.escaping import plain, plain_lines
from gtape.verify.output import (
    Usage,
    check_path,
    progress_bar,
    show_table,
    ulp_text,
    versions,
    write_json,
    write_text,
)

__all__ = ["main"]

_FINE, _FOUND, _USAGE, _INTERRUPTED = 0, 1, 2, 130


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gtape",
        description="Checks gtape's derivatives against the exact ones.",
        epilog="Exit status: 0 fine, 1 findings, 2 wrong usage, 130 interrupted.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show versions and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
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
            type=_positive,
            default=min(os.cpu_count() or 1, 8),
            metavar="N",
            help="how many processes to use (default: %(default)s)",
        )
        made.add_argument(
            "--no-progress",
            action="store_true",
            help="no progress bar (none is shown anyway where standard error is no terminal)",
        )
        return made

    c = command(
        "verify", _verify, "Prove all rules, search all primitives for bad derivatives, check the example programs."
    )
    c.add_argument(
        "--points",
        type=_points,
        default=None,
        metavar="N",
        help="points of the census for each primitive in float64, a quarter of them in float32 (default: 10000)",
    )
    c.add_argument("--quick", action="store_true", help="500 points, float64 only")
    c.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="ops, such as sin or tf.reduce_sum; all of them, and the programs, by default",
    )

    c = command("prove", _prove, "Prove the rules of primitives against the derivatives of their mirrors.")
    c.add_argument("names", nargs="*", metavar="NAME", help="ops, such as sin or tf.reduce_sum; all of them by default")

    c = command("census", _census, "Search elementwise primitives for their worst derivatives.")
    c.add_argument(
        "names", nargs="*", metavar="NAME", help="elementwise ops, such as sin or tf.math.log1p; all of them by default"
    )
    c.add_argument(
        "--points",
        type=_points,
        default=10_000,
        metavar="N",
        help="points for each primitive and dtype (default: %(default)s)",
    )
    c.add_argument(
        "--orders", type=int, nargs="+", choices=(1, 2), default=[1, 2], metavar="K", help="1, 2 or both (default)"
    )
    c.add_argument(
        "--dtypes",
        nargs="+",
        choices=("float64", "float32", "complex128", "complex64"),
        default=["float64"],
        metavar="D",
        help="float64 (default), float32, complex128, complex64",
    )
    c.add_argument("--seed", type=int, default=0, metavar="N", help="another seed searches other points (default: 0)")

    c = command("doctor", _doctor, "Measure the declared accuracy of kernels on this machine; show versions.")
    c.add_argument("names", nargs="*", metavar="NAME", help="elementwise ops; all of them by default")
    c.add_argument(
        "--points",
        type=_points,
        default=2_000,
        metavar="N",
        help="points for each kernel and dtype (default: %(default)s), a fortieth where 1e-12 is promised",
    )

    c = command("conventions", _conventions, "Show what ops return at kinks and where their domains end, as a page.")
    c.add_argument("page", nargs="?", metavar="FILE", help="write the page to FILE (docs/conventions.md)")
    return parser


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with arguments, whatever they hold."""

    def error(self, message: str) -> NoReturn:
        super().error(plain_lines(message))


class _Version(argparse.Action):
    """Shows what is installed, looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(", ".join(f"{k} {v}" for k, v in versions().items()))
        parser.exit()


def _positive(text: str) -> int:
    try:
        n = int(text)
    except ValueError:
        n = 0
    if n < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 on is wanted, not {text!r}")
    return n


def _points(text: str) -> int:
    n = _positive(text)
    if n < 100:
        raise argparse.ArgumentTypeError(f"at least 100 points are needed to search anything, not {n}")
    return n


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.

    Returns
    -------
    int
        The exit status: 0 fine, 1 findings, 2 wrong usage.
    """
    parser = _parser()
    try:
        options = parser.parse_args(argv)
    except SystemExit as e:  # argparse has printed what is wrong, or the help
        return int(e.code or 0)
    try:
        return int(options.run(options))
    except Usage as e:
        print(f"gtape {options.command}: {plain_lines(str(e))}", file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        print(f"gtape {options.command}: interrupted; nothing was written", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # whoever read the output has gone; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FOUND


# ---------------------------------------------------------------------------------------------- commands


def _primitives(options: argparse.Namespace) -> list[str]:
    """The primitives that are named; what a function stands for is said, where there is a table to say it above."""
    from gtape.verify.naming import primitives_named

    try:
        found = {name: primitives_named([name]) for name in options.names}
    except ValueError as e:
        raise Usage(str(e)) from None
    for name, known in found.items():
        if options.json != "-" and name.rsplit(".", 1)[-1] not in known:
            print(f"{plain(name)} is made of {', '.join(known)}")
    return list(dict.fromkeys(p for known in found.values() for p in known))


def _verify(options: argparse.Namespace) -> int:
    from gtape.verify import runs

    check_path(options.json)
    points = options.points or (500 if options.quick else 10_000)
    dtypes = ("float64",) if options.quick else ("float64", "float32")
    names = _primitives(options)
    try:
        lines, jobs = runs.jobs_of(names, points=points, dtypes=dtypes)
    except ValueError as e:
        raise Usage(str(e)) from None
    with progress_bar(options) as progress:
        outcome = runs.run(lines, jobs, processes=options.processes, progress=progress)
    if options.json:
        write_json(
            options.json,
            {
                "versions": versions(),
                "points": points,
                "dtypes": list(dtypes),
                "ok": outcome.ok,
                "seconds": round(outcome.seconds, 1),
                "lines": [x.as_dict() for x in outcome.lines],
            },
        )
    if options.json != "-":
        rows = [
            (
                x.name,
                x.kind,
                x.proof,
                ulp_text(x.worst.get(1)),
                ulp_text(x.worst.get(2)),
                str(x.at_roots or ""),
                x.verdict,
            )
            for x in outcome.lines
        ]
        columns = (
            ("op", "left"),
            ("kind", "left"),
            ("proof", "left"),
            ("order 1, ULP", "right"),
            ("order 2, ULP", "right"),
            ("at roots", "right"),
            ("verdict", "left"),
        )
        show_table("gtape verify", columns, rows, [None if x.ok else "bold red" for x in outcome.lines])
        _closing(outcome, points, dtypes)
    return _FINE if outcome.ok else _FOUND


def _closing(outcome: Any, points: int, dtypes: Sequence[str]) -> None:
    lines = outcome.lines
    bad = [x for x in lines if not x.ok]
    primitives = [x for x in lines if x.kind != "program"]
    proved = sum(x.proof == "proved" for x in primitives)
    certified = sum(x.proof == "certified" for x in primitives)
    for x in bad:
        more = f" (and {len(x.findings) - 1} more)" if len(x.findings) > 1 else ""
        print(f"{plain(x.name)}: {plain_lines(x.findings[0])}{more}")
    print(
        f"{proved} of {len(primitives)} primitives proved"
        + (f", {certified} certified at exact points only" if certified else "")
    )
    print(
        f"{sum(x.checked for x in lines):,} derivatives compared with the exact ones, {points:,} points a primitive"
        f" in float64, {'a quarter in float32, ' if 'float32' in dtypes else ''}a fortieth where 1e-12 is promised; "
        f"{len(lines) - len(primitives)} programs"
    )
    print(f"{'nothing found' if not bad else f'{len(bad)} with findings'} in {outcome.seconds:.0f} s")


def _prove(options: argparse.Namespace) -> int:
    from gtape import catalogue
    from gtape.primitive import REGISTRY
    from gtape.verify import runs

    check_path(options.json)
    catalogue.load()
    names = _primitives(options)
    for name in names:
        if not REGISTRY[name].differentiable:
            raise Usage(f"{name!r} is not differentiable, so there is no rule to prove")
    wanted = [p for p in REGISTRY.values() if p.differentiable and (not names or p.name in names)]
    lines = [runs.Line(p.name, p.kind) for p in wanted]
    jobs: list[runs.Job] = [("proof", p.name, ()) for p in wanted]
    with progress_bar(options) as progress:
        outcome = runs.run(lines, jobs, processes=min(options.processes, len(jobs)), progress=progress)
    if options.json:
        write_json(options.json, {"versions": versions(), "ok": outcome.ok, "proofs": [x.as_dict() for x in lines]})
    if options.json != "-":
        rows = [(x.name, x.kind, x.proof, f"{x.seconds:.2f}") for x in lines]
        show_table(
            "gtape prove",
            (("op", "left"), ("kind", "left"), ("proof", "left"), ("seconds", "right")),
            rows,
            [None if x.ok else "bold red" for x in lines],
        )
        for x in lines:
            for text in x.findings:
                print(f"{plain(x.name)}: {plain_lines(text)}")
        print(f"{sum(x.proof == 'proved' for x in lines)} of {len(lines)} proved")
    return _FINE if outcome.ok else _FOUND


def _census(options: argparse.Namespace) -> int:
    from gtape.verify.census import census

    check_path(options.json)
    names = _primitives(options)
    try:
        with progress_bar(options) as progress:
            rows = census(
                names or None, tuple(dict.fromkeys(options.orders)), tuple(dict.fromkeys(options.dtypes)),
                options.points, progress,
                processes=options.processes, seed=options.seed,
            )  # fmt: skip
    except ValueError as e:
        raise Usage(str(e)) from None
    ok = all(r.ok for r in rows)
    if options.json:
        from gtape.verify.runs import plain_value

        write_json(
            options.json,
            {
                "versions": versions(),
                "ok": ok,
                "rows": [{k: plain_value(v) for k, v in r._asdict().items()} for r in rows],
            },
        )
    if options.json != "-":
        columns = (
            ("op", "left"),
            ("by", "left"),
            ("order", "right"),
            ("dtype", "left"),
            ("points", "right"),
            ("worst ULP", "right"),
            ("where", "left"),
            ("at roots", "right"),
            ("at kinks", "right"),
            ("verdict", "left"),
        )
        texts = [
            (
                r.op, r.argument, str(r.order), r.dtype, str(r.points), ulp_text(r.worst_ulp),
                ", ".join(f"{v:.17g}" for v in r.where) if r.worst_ulp else "", str(r.at_roots or ""),
                str(r.at_kinks or ""), r.verdict,
            )
            for r in rows
        ]  # fmt: skip
        show_table("gtape census", columns, texts, [None if r.ok else "bold red" for r in rows])
        print("by: the argument, counted from 0, or the two of a second derivative")
        if any(r.at_roots for r in rows):
            print("at roots: points beside a root of the derivative, exact for an input moved by 2 ULP")
        if any(r.at_kinks for r in rows):
            print("at kinks: points at a kink, where the op's convention decides")
        bad = sum(not r.ok for r in rows)
        print(f"{bad} of {len(rows)} rows with findings" if bad else "nothing found")
    return _FINE if ok else _FOUND


def _doctor(options: argparse.Namespace) -> int:
    from gtape.verify.doctor import examine_kernels

    check_path(options.json)
    names = _primitives(options)
    try:
        with progress_bar(options) as progress:
            found = examine_kernels(
                names or None, points=options.points, processes=options.processes, progress=progress
            )
    except ValueError as e:
        raise Usage(str(e)) from None
    bad = [k for k in found if not k.ok]
    if options.json:
        write_json(options.json, {"versions": versions(), "ok": not bad, "kernels": [k.as_dict() for k in found]})
    if options.json != "-":
        print(", ".join(f"{k} {v}" for k, v in versions().items()))
        columns = (
            ("kernel", "left"),
            ("dtype", "left"),
            ("declared ULP", "right"),
            ("measured", "right"),
            ("where", "left"),
        )
        rows = [
            (
                k.op,
                k.dtype,
                f"{k.declared:g}",
                ulp_text(k.measured),
                ", ".join(f"{v:.17g}" for v in k.where) if k.measured else "",
            )
            for k in found
        ]
        show_table("gtape doctor", columns, rows, [None if k.ok else "bold red" for k in found])
        print(
            f"{len(bad)} of {len(found)} kernels are less accurate here than declared"
            if bad
            else f"all {len(found)} kernels are as accurate as declared"
        )
    return _FINE if not bad else _FOUND


def _conventions(options: argparse.Namespace) -> int:
    from gtape.verify import reference

    check_path(options.json)
    check_path(options.page)
    if options.json:
        rows = [{"kind": "kink", **c._asdict(), "inside": c.inside} for c in reference.conventions()]
        rows += [{"kind": "end", **e._asdict()} for e in reference.ends()]
        write_json(options.json, {"versions": versions(), "conventions": [_finite(r) for r in rows]})
    text = reference.page()
    if options.page:
        write_text(options.page, text)
        print(f"{plain(options.page)}: {len(reference.conventions())} kinks, {len(reference.ends())} ends")
    elif options.json != "-":
        sys.stdout.write(text)
    return _FINE


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinities: they go as text."""
    return {k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


if __name__ == "__main__":
    sys.exit(main())

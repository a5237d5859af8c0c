"""The command line: ``gtape verify``, ``prove``, ``census``, ``doctor``, ``mutants``, ``conventions``, ``table``,
``write``, ``campaign``, ``report``, ``replay``, ``peers``.

Exit status: 0 fine, 1 findings, 2 wrong usage, 3 not completed (a worker process died, a job failed, or standard output
was lost), 129, 130, 143 interrupted by SIGHUP, SIGINT, SIGTERM, 141 if the reader of the output closed it early.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Sequence

from gtape.base.escaping import plain_lines
from gtape.verify.command.loading import load
from gtape.verify.command.output import INTERRUPTED, NOT_COMPLETED, READER_GONE, USAGE, Usage
from gtape.verify.command.parser import NUMBERS, make_parser
from gtape.verify.command.streams import (
    OutputLost,
    ReaderGone,
    flush,
    kept_for_results,
    open_descriptors,
    settle,
    tell,
    without_closed_streams,
)
from gtape.verify.search.interrupts import Interrupts

__all__ = ["main"]


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
        reader of the output closed it early.
    """
    open_descriptors()
    # Without arguments, no other program calls `main`: the process runs this command and ends.
    with Interrupts(last=argv is None) as interrupts:
        status = _guarded(_joined(sys.argv[1:] if argv is None else argv), interrupts)
        interrupts.reporting()
        settle()
    return interrupts.status or status


def _guarded(argv: Sequence[str], interrupts: Interrupts) -> int:
    command = "gtape"
    try:
        try:
            with without_closed_streams():
                options = make_parser().parse_args(argv)
        except SystemExit as e:  # argparse has printed the error or the help
            flush()
            return int(e.code or 0)
        command = f"gtape {options.command}"
        options.line = ["gtape", *(text.lstrip(" ") for text in argv)]
        with kept_for_results() if options.json == "-" else contextlib.nullcontext():
            for module in options.load:
                load(module)
            status = int(options.run(options, interrupts))
            flush()
        return status
    except Usage as e:
        tell(f"{command}: {plain_lines(str(e))}")
        return USAGE
    except KeyboardInterrupt:
        tell(f"{command}: interrupted; nothing was written")
        return INTERRUPTED
    except ReaderGone:
        return READER_GONE
    except OutputLost as e:
        tell(f"{command}: {e}")
        return NOT_COMPLETED


def _joined(argv: Sequence[str]) -> list[str]:
    """The arguments changed so that argparse does not read the -1e30 of ``--points -1e30`` as an option."""
    if "table" in argv[:1]:
        # A space in front keeps argparse from reading a point such as -1e30 or -1:1:5 as an option.
        return [f" {text}" if re.match(r"-\.?\d", text) else text for text in argv]
    found: list[str] = []
    for text in argv:
        if found and found[-1] in NUMBERS and text[:1] == "-" != text[1:2]:
            found[-1] += f"={text}"
        else:
            found.append(text)
    return found


if __name__ == "__main__":
    sys.exit(main())

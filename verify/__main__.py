"""``python -m gtape.verify`` runs ``gtape verify``, or the subcommand in its first argument."""

from __future__ import annotations

import difflib
import sys

from gtape.base.escaping import plain_lines
from gtape.verify.command.cli import main
from gtape.verify.command.output import USAGE
from gtape.verify.command.streams import tell
from gtape.verify.verdicts.naming import primitives_named

_COMMANDS = {
    "verify", "prove", "census", "doctor", "mutants", "conventions", "table", "campaign", "report", "replay", "write",
    "peers",
    "-h", "--help", "--version",
}  # fmt: skip


def _no_command(argv: list[str]) -> str | None:
    """The error about a first argument that is neither a command nor an op; None if there is no such argument."""
    if not argv or argv[0].startswith("-") or any(text.startswith("--load") for text in argv):
        return None  # a module of --load may declare the op
    try:
        primitives_named(argv[:1])
    except ValueError as e:
        commands = sorted(name for name in _COMMANDS if not name.startswith("-"))
        near = difflib.get_close_matches(argv[0], commands, 1)
        hint = f"did you mean the command {near[0]}?" if near else f"the commands are {', '.join(commands)}"
        return f"gtape: {plain_lines(str(e))}; {hint}"
    return None


if __name__ == "__main__":
    if sys.argv[1:2] == [] or sys.argv[1] not in _COMMANDS:
        error = _no_command(sys.argv[1:])
        if error is not None:
            tell(error)
            sys.exit(USAGE)
        sys.argv.insert(1, "verify")
    sys.exit(main())

"""``python -m gtape.verify`` runs ``gtape verify``, or the subcommand in its first argument."""

from __future__ import annotations

import sys

from gtape.verify.command.cli import main

_COMMANDS = {"verify", "prove", "census", "doctor", "conventions", "peers", "-h", "--help", "--version"}

if __name__ == "__main__":
    if sys.argv[1:2] == [] or sys.argv[1] not in _COMMANDS:
        sys.argv.insert(1, "verify")
    sys.exit(main())

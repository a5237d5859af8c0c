"""``python -m gtape.verify`` is ``gtape verify``; a subcommand may be named, too."""

from __future__ import annotations

import sys

from gtape.verify.cli import main

_COMMANDS = {"verify", "prove", "census", "doctor", "conventions", "-h", "--help", "--version"}

if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(arguments if arguments[:1] and arguments[0] in _COMMANDS else ["verify", *arguments]))

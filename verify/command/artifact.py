"""``gtape doctor --artifact DIR``: a folder with everything that a reviewer needs to repeat a result.

The folder appears whole or not at all: it is made next to its place under another name, and renamed when complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gtape.base.escaping import json_data, plain
from gtape.storage.files import new_file, open_regular
from gtape.verify.command.output import Usage, versions
from gtape.verify.command.own_process import table_of

__all__ = [
    "Command", "Unfinished", "check_folder", "commands", "environment", "expected", "without_times", "write_folder",
]  # fmt: skip

_UNFINISHED = "unfinished artefact"
_AT_ONCE = 20  # ops of one command of the census, because a command that is ended begins again
_TIMES = frozenset({"seconds", "versions", "machine", "command", "deaths", "jobs", "jobs_done"})


class Command(NamedTuple):
    """A command of the artefact.

    Attributes
    ----------
    name : str
        The name of its table, ``expected/NAME.json``.
    arguments : tuple of str
        The words that follow ``gtape``, without the option ``--json``.
    seed : str
        The origin of its random numbers.
    """

    name: str
    arguments: tuple[str, ...]
    seed: str


def commands(names: Sequence[str], every: Sequence[str], points: int, load: Sequence[str] = ()) -> list[Command]:
    """The commands whose tables an artefact holds.

    Parameters
    ----------
    names : sequence of str
        Elementwise primitives; all primitives if empty.
    every : sequence of str
        All elementwise primitives, for the parts of the census if `names` is empty.
    points : int
    load : sequence of str
        Modules of ``--load``.

    Examples
    --------
    >>> [c.name for c in commands(["tanh"], [], 100)]
    ['doctor', 'prove', 'census']
    >>> [c.name for c in commands([], ["tanh"] * 30, 100)]
    ['doctor', 'prove', 'census-1', 'census-2']
    """
    loads = tuple(w for module in load for w in ("--load", module))
    by_name = "each op and dtype has its own, made from their names"
    size = ("--points", str(points))
    found = [
        Command("doctor", ("doctor", *names, *size, *loads), by_name),
        Command("prove", ("prove", *names, *loads), "none: proofs are symbolic"),
    ]
    ops = names or every
    parts = [ops[k : k + _AT_ONCE] for k in range(0, len(ops), _AT_ONCE)]
    for k, part in enumerate(parts, 1):
        name = "census" if len(parts) == 1 else f"census-{k}"
        words = ("census", *part, *size, "--dtypes", "float64", "float32", "--seed", "0", *loads)
        found.append(Command(name, words, f"0; {by_name}"))
    return found


def without_times(data: Any) -> Any:
    """The data of a table without the times, which differ from run to run.

    Examples
    --------
    >>> without_times({"ok": True, "seconds": 1.5, "rows": [{"op": "tanh", "seconds": 0.1}]})
    {'ok': True, 'rows': [{'op': 'tanh'}]}
    """
    if isinstance(data, dict):
        return {k: without_times(v) for k, v in data.items() if k not in _TIMES}
    return [without_times(v) for v in data] if isinstance(data, list) else data


def environment() -> dict[str, Any]:
    """Versions, machine and commit."""
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return {
        "versions": versions(),
        "implementation": platform.python_implementation(),
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "processors": os.cpu_count(),
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "numpy_simd": _features(),
        "commit": _commit(),
    }


def _features() -> list[str]:
    """The instruction sets that NumPy uses, because its vector kernels differ between them."""
    found = np.show_config(mode="dicts").get("SIMD Extensions", {})
    return [str(x) for x in (*found.get("baseline", []), *found.get("found", []))]


def _commit() -> str | None:
    """The commit of a checkout, with a plus sign after changes; None for an installed package."""
    top = Path(__file__).resolve().parents[2]
    if not (top / ".git").exists():
        return None
    try:
        head = _git(top, "rev-parse", "HEAD")
        return head + ("+" if _git(top, "status", "--porcelain") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


def _requirements() -> str:
    """The versions of all installed packages."""
    found = {d.metadata["Name"]: d.version for d in metadata.distributions() if d.metadata["Name"]}
    return "".join(f"{name}=={version}\n" for name, version in sorted(found.items(), key=lambda p: p[0].lower()))


def expected(command: Command, processes: int) -> dict[str, Any]:
    """The table of a command, made by a process of its own.

    Raises
    ------
    Usage
        If the command fails.
    """
    status, table, complaint = table_of(command.arguments, processes)
    if status not in (0, 1):
        raise Usage(f"gtape {shlex.join(command.arguments)} ended with {status}: {complaint[-500:]}")
    found: dict[str, Any] = table
    return found


# ------------------------------------------------------------------------------------------------ going on


class Unfinished:
    """The results for an artefact whose command has not come to its end, in a file beside the folder.

    One line of JSON for each result, so that a command that was killed goes on from there. A file of another machine,
    other versions or another commit is begun anew.

    Parameters
    ----------
    folder : str
        The folder of the artefact.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.realpath(folder) + ".unfinished.jsonl"
        self._lines: dict[str, Any] = {}
        head = json.loads(_line({"gtape": _UNFINISHED, **environment()}))
        try:
            old = b""
            if os.path.lexists(self.path):
                with open_regular(self.path) as f:
                    old = f.read()
            lines = [_parsed(line) for line in old.split(b"\n")[:-1]]
            first = lines[0] if lines else {}
            if first == head:
                self._lines = {line["what"]: line["result"] for line in lines[1:] if "what" in line}
            elif old and first.get("gtape") != _UNFINISHED:
                raise Usage(f"{plain(self.path)} is in the way: gtape doctor --artifact did not write it, so move it")
            with new_file(self.path) as out:
                out.write(_line(head) + b"".join(_line({"what": k, "result": v}) for k, v in self._lines.items()))
        except OSError as e:
            raise Usage(f"{plain(self.path)} cannot be used: {e.strerror or e}") from None

    def get(self, what: str) -> Any:
        """A result of an earlier run, or None."""
        return self._lines.get(what)

    def add(self, what: str, result: Any) -> None:
        """Keep a result on the disk."""
        with open(self.path, "ab") as f:
            f.write(_line({"what": what, "result": result}))
            f.flush()
            os.fsync(f.fileno())

    def end(self) -> None:
        """Remove the file, because the artefact is complete."""
        with contextlib.suppress(OSError):
            os.remove(self.path)


def _line(data: Any) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any]:
    """The data of a line; empty for a line that was torn, or of another program."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# ------------------------------------------------------------------------------------------------ the folder

_README = """\
# What this folder is for

`gtape doctor --artifact` wrote it. It holds what is needed to repeat the tables in `expected`:

| file | what it holds |
|---|---|
| `environment.json` | versions, machine, instruction sets, commit |
| `requirements.txt` | the version of each installed package |
| `commands.json` | each command, the source of its random numbers, its exit status, its table |
| `expected/*.json` | the tables, without times |
| `repeat.py` | runs the commands again and compares |

Install the packages, then run:

    python repeat.py

It prints a line for each table and each number that differs, and its exit status is 1 if there is one. Numbers of
float32 and float64 kernels may differ on machines with other instruction sets; proofs do not.

The commands are:

{commands}
"""

_REPEAT = '''\
"""Runs the commands of this folder again, and compares their tables with the expected ones."""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LEFT_OUT = {left_out!r}


def plain(data):
    """The data without what differs from run to run."""
    if isinstance(data, dict):
        return {{k: plain(v) for k, v in data.items() if k not in LEFT_OUT}}
    return [plain(v) for v in data] if isinstance(data, list) else data


def differences(old, new, where=""):
    """Yield each place where two tables differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for k in sorted({{*old, *new}}):
            yield from differences(old.get(k), new.get(k), f"{{where}}.{{k}}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, pair in enumerate(zip(old, new)):
            yield from differences(*pair, f"{{where}}[{{i}}]")
    elif old != new:
        yield f"{{where}}: expected {{old!r}}, got {{new!r}}"


def main():
    with open(os.path.join(HERE, "commands.json"), encoding="utf-8") as f:
        commands = json.load(f)
    differ = 0
    for command in commands:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table.json")
            words = [sys.executable, "-m", "gtape.verify.command.cli", *command["arguments"]]
            subprocess.run([*words, "--json", path, "--no-progress"], stdout=subprocess.DEVNULL)
            with open(path, encoding="utf-8") as f:
                new = plain(json.load(f))
        with open(os.path.join(HERE, command["table"]), encoding="utf-8") as f:
            found = list(differences(json.load(f), new))
        print(f"{{command['table']}}: {{len(found)}} differences" if found else f"{{command['table']}}: the same")
        for text in found[:20]:
            print("  ", text)
        differ += bool(found)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
'''


def check_folder(path: str | None) -> None:
    """Check that a folder can be made, before the work starts.

    Raises
    ------
    Usage
    """
    if path is None:
        return
    shown = plain(path) or repr(path)
    try:
        target = Path(os.path.realpath(path))
        if not path or os.path.lexists(target):
            raise Usage(f"--artifact {shown} exists already: name a new folder, because an artefact is written whole")
        if not target.parent.is_dir():
            raise Usage(f"--artifact {shown} cannot be made: the folder {plain(str(target.parent))} does not exist")
        with tempfile.TemporaryDirectory(dir=target.parent):
            pass
    except (OSError, ValueError) as e:
        raise Usage(f"--artifact {shown} cannot be made: {getattr(e, 'strerror', None) or e}") from None


def write_folder(path: str, tables: dict[Command, dict[str, Any]]) -> list[str]:
    """Write an artefact whole or not at all.

    Parameters
    ----------
    path : str
        A folder that does not exist.
    tables : dict
        The table of each command.

    Returns
    -------
    list of str
        The files, by their paths inside the folder.

    Raises
    ------
    Usage
        If the folder exists, or cannot be written.
    """
    check_folder(path)
    listed = [
        {
            "command": shlex.join(["gtape", *c.arguments]), "arguments": list(c.arguments), "seed": c.seed,
            "exit_status": 0 if data.get("ok") else 1, "table": f"expected/{c.name}.json",
        }
        for c, data in tables.items()
    ]  # fmt: skip
    files = {
        "README.md": _README.format(commands="\n".join(f"    {e['command']}" for e in listed)),
        "environment.json": _json(environment()),
        "requirements.txt": _requirements(),
        "commands.json": _json(listed),
        "repeat.py": _REPEAT.format(left_out=sorted(_TIMES)),
        **{f"expected/{c.name}.json": _json(without_times(data)) for c, data in tables.items()},
    }
    target = os.path.realpath(path)
    made: str | None = None
    try:
        made = tempfile.mkdtemp(prefix=f".{os.path.basename(target)}.", dir=os.path.dirname(target))
        for name, text in files.items():
            place = os.path.join(made, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as f:
                f.write(text)
                f.flush()
                os.fsync(f.fileno())
        os.chmod(made, 0o755)
        _move(made, target)
        made = None
    except OSError as e:
        raise Usage(f"--artifact {plain(path)} cannot be written: {e.strerror or e}") from None
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
    return sorted(files)


# The last step: before this line no folder has the name.
_move: Callable[[str, str], None] = os.rename


def _json(data: Any) -> str:
    return json.dumps(json_data(data), indent=1, allow_nan=False) + "\n"

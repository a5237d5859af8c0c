"""Command lines with wrong arguments, drawn by a seed: what may come of one is an exit status, and a sentence.

``python tests/command_lines.py --calls 5000 --seed 1`` runs them and prints one line for each that fails;
``--number 17`` runs one again, with its traceback. The drawn words are options of every command with wrong values,
foreign, truncated, changed and binary files, folders, devices and pipes in the place of files, and broken streams.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "verify")]

from gtape.verify.command import cli  # noqa: E402
from gtape.verify.command.parser import make_parser  # noqa: E402

SECONDS = 60.0  # for one command
STATUSES = {0, 1, 2, 3, 130, 141}

NUMBERS = (
    "1e30", "-1", "nan", "inf", "-inf", "0", "", " ", "1e-300", "0x10", "1_0", "٣", "9" * 5000, "-0", "1.5", "1e400",
    "18446744073709551616", "True", "1,2", "None",
)  # fmt: skip
NAMES = (
    "", " ", "\x00", "a\x00b", "\x1b[31mred\x1b[0m", "\n", "a\nb", "\udcff", "ä", "\u202e", "💥", "x" * 300,
    "x" * 70_000, "-", "--", "-x", "..", ".", "/", "//", "tf.", "tf.nosuch", "tf.math", "sin.cos", "nosuch",
    "__class__", "{}", "%s", "[red]", "sin,cos", "=", "a=b", "size=", "size=nan", "size=-1", "dtypes=",
    "orders=1e30", "load=os", "none.py", ":", "a:", ":b", "os:getcwd", "os.path:join", "nosuch:f", "nosuch.py:f",
    "numpy:sin", "programs", "census", "peers", "torch", "float16", "m2",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, 1.5, "", "x", "nan", "\x00", [], {}, [[]], {"a": 1}, [None], "checkout", 1e308,
    "done", "rule", {"kind": "cheap"}, ["gtape", "verify"],
)  # fmt: skip


def bases(folder: Path) -> dict[str, list[list[str]]]:
    """Command lines that are right, and soon done, by command."""
    files = {p.name: str(p) for p in folder.iterdir()}
    load = ["--load", str(HERE / "verify" / "shards.py")]
    fake = ["--load", str(HERE / "verify" / "fake_library.py")]
    new = str(folder / "new")
    return {
        "campaign": [
            [new, *load, "--kind", "cheap", "--shards", "2", "--set", "ms=0"],
            [files["journal.jsonl"], *load, "--resume"],
            [files["journal.jsonl"], *load, "--resume", "--retry-errors", "--examples", files["examples.json"]],
            [new, *load, "--kind", "cheap", "--shards", "2", "--examples", files["examples.json"], "--only", "sin"],
            [new, *fake, "--kind", "peers", "--set", "libraries=fake", "--only", "sin", "--shards", "1"],
        ],
        "peers": [
            ["fake", *fake, "--ops", "sin", "--points", "20", "--dtypes", "float64", "--programs", "0"],
            ["fake", *fake, "--ops", "relu", "--points", "20", "--baseline", files["baseline.json"], "-o", new],
        ],
        "report": [[files[name], "--to", f"{new}.{end}"] for name in FILES for end in ("html", "md")],
        "replay": [[files[name], *load] for name in FILES if name != "baseline.json"],
        "mutants": [["sinh", "--tries", "1", "--operators", "m16"]],
        "write": [[f"{files['model.py']}:loss", "-o", f"{new}.py"], [f"{files['model.py']}:loss"]],
        "verify": [["negative", "--points", "50"], ["add", "--quick", "--unfolded"]],
        "conventions": [[], [f"{new}.md"], ["--json", new]],
        "prove": [["negative"], ["add", "--latex"]],
        "doctor": [["negative", "--points", "100"]],
        "census": [["negative", "--points", "100"], ["negative", "--points", "100", "--dtypes", "float32"]],
        "table": [["tanh", "--points", "0.5"], ["atan2", "--points", "0.5,1", "--order", "0", "-o", f"{new}.csv"]],
    }  # fmt: skip


FILES = ("journal.jsonl", "report.jsonl", "report.html", "report.sarif", "command.json", "check.json", "baseline.json")


def prepared(folder: Path) -> None:
    """Write right files of every kind."""
    from gtape.verify import check
    from gtape.verify.campaigns.examples import MARK

    load = ["--load", str(HERE / "verify" / "shards.py")]
    journal = str(folder / "journal.jsonl")
    quiet(["campaign", journal, *load, "--kind", "cheap", "--shards", "3"])
    quiet(["report", journal, "--to", *[str(folder / f"report.{end}") for end in ("jsonl", "html", "sarif")]])
    quiet(["prove", "negative", "--json", str(folder / "command.json"), "--processes", "1"])
    (folder / "check.json").write_text(json.dumps(check(lambda x: x * x, 1.0).as_dict()))
    (folder / "baseline.json").write_text(json.dumps({"causes": [{"id": "fake/relu/lost"}]}))
    shard = {"kind": "cheap", "n": 0, "at": -1, "does": "", "milliseconds": 0, "load": [load[1]]}
    example = {"cause": "c", "verdict": "rule", "text": "t", "shard": shard}
    (folder / "examples.json").write_text(json.dumps({"gtape": MARK, "format": 1, "examples": [example]}))
    (folder / "model.py").write_text("import gtape as tf\n\n\ndef loss(x):\n    return tf.reduce_sum(x * x)\n")


def quiet(argv: list[str]) -> int:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return cli.main(argv)


class Draw(NamedTuple):
    """One command line."""

    argv: list[str]
    stream: str


def drawn(number: int, seed: int, folder: Path, options: dict[str, list[argparse.Action]]) -> Draw:
    """The command line of a number; it may write a changed file into the folder."""
    rng = random.Random(f"{seed} {number}")
    known = bases(folder)
    command = rng.choice(list(known))
    words = list(rng.choice(known[command]))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        how = rng.random()
        at = rng.randrange(len(words)) if words else 0
        inputs = [i for i, w in enumerate(words) if os.path.isfile(w) and Path(w).name in (*FILES, "examples.json")]
        if how < 0.45 and inputs:
            i = rng.choice(inputs)
            words[i] = odd_file(Path(words[i]), folder, rng)
        elif how < 0.6 and words:
            words[at] = odd_word(rng, folder)
        elif how < 0.65 and at:  # not the first word, because without a name a command does all, which takes long
            del words[at]
        else:
            words += option_words(rng.choice(options[command]), rng, folder)  # last, because some take all words behind
    if command not in ("campaign", "report", "write", "table"):
        words += ["--processes", "1"]
    return Draw([command, *words], rng.choice(("plain",) * 6 + ("closed", "none", "full", "ascii", "gone")))


def option_words(option: argparse.Action, rng: random.Random, folder: Path) -> list[str]:
    """An option with as many words as it takes, or one more or less, odd ones or right ones where only some are."""
    least, most = {0: (0, 0), "?": (0, 1), "*": (0, 3), "+": (1, 3), None: (1, 1)}.get(option.nargs, (1, 1))
    count = rng.randint(least, most) if rng.random() < 0.8 else max(0, rng.choice((least - 1, most + 1)))
    words = []
    for _ in range(count):
        right = list(option.choices or ()) + ([option.default] if isinstance(option.default, int | float | str) else [])
        words.append(str(rng.choice(right)) if right and rng.random() < 0.4 else odd_word(rng, folder))
    name = rng.choice(option.option_strings)
    if len(words) == 1 and name.startswith("--") and rng.random() < 0.3:
        return [f"{name}={words[0]}"]
    return [name if rng.random() < 0.95 else name[:-1], *words]


def odd_word(rng: random.Random, folder: Path) -> str:
    return rng.choice((rng.choice(NUMBERS), rng.choice(NUMBERS), rng.choice(NAMES), rng.choice(places(folder))))


def places(folder: Path) -> list[str]:
    """What is no plain file, or one that cannot be read."""
    pipe, closed, loop = folder / "pipe", folder / "closed", folder / "loop"
    if not pipe.exists():
        os.mkfifo(pipe)
        closed.write_text("{}")
        closed.chmod(0)
        loop.symlink_to(loop)
    found = [str(folder), str(pipe), str(closed), str(loop), f"{folder}/none/file", f"{folder}/model.py/file"]
    return [
        *found,
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        f"{folder}/{'x' * 300}",
        f"{folder}/a\nb.md",
        f"{folder}/\x1b[2J.html",
    ]


def odd_file(path: Path, folder: Path, rng: random.Random) -> str:
    """A file in the place of a right one."""
    raw = path.read_bytes()
    how = rng.choice(("cut", "flip", "empty", "binary", "other", "place", "json", "json", "json", "json"))
    if how == "place":
        return rng.choice(places(folder))
    if how == "other":
        raw = (folder / rng.choice((*FILES, "examples.json", "model.py"))).read_bytes()
    elif how == "cut":
        raw = raw[: rng.randrange(len(raw))]
    elif how == "flip":
        changed = bytearray(raw)
        for _ in range(rng.choice((1, 3, 30))):
            changed[rng.randrange(len(raw))] = rng.randrange(256)
        raw = bytes(changed)
    elif how == "empty":
        raw = rng.choice((b"", b"\n", b"\0" * 100, b"\xef\xbb\xbf", b"null", b"[" * 50_000, b'{"a":' * 50_000))
    elif how == "binary":
        raw = rng.randbytes(300)
    else:
        raw = changed_json(raw, rng)
    target = folder / f"changed{path.suffix}"
    target.write_bytes(raw)
    return str(target)


def changed_json(raw: bytes, rng: random.Random) -> bytes:
    """A value of the data replaced or left out; of a line of a journal, or of the data inside a page."""
    text = raw.decode()
    lines = text.split("\n")
    fit = [i for i, line in enumerate(lines) if _parsed(line) is not None]
    if _parsed(text) is not None:
        return json.dumps(_changed(_parsed(text), rng)).encode()
    if not fit:
        return raw[: rng.randrange(len(raw))]
    i = rng.choice(fit)
    lines[i] = json.dumps(_changed(_parsed(lines[i]), rng))
    return "\n".join(lines).encode()


def _parsed(text: str) -> Any:
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _changed(data: Any, rng: random.Random) -> Any:
    made = copy.deepcopy(data)
    spots = list(_spots(made))
    for _ in range(rng.choice((1, 1, 2))):
        holder, key = rng.choice(spots)
        with contextlib.suppress(KeyError, IndexError):
            if rng.random() < 0.2:
                del holder[key]
            else:
                holder[key] = rng.choice(ODD)
    return made


def _spots(data: Any) -> Iterator[tuple[Any, Any]]:
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(pairs):
        yield data, key
        yield from _spots(value)


# ------------------------------------------------------------------------------------------------ runs


class _Stream(io.TextIOBase):
    """A stream whose writes fail."""

    encoding = "utf-8"

    def __init__(self, error: OSError) -> None:
        self.error = error

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise self.error


def _stream(name: str) -> Any:
    if name == "none":
        return None
    if name == "full":
        return _Stream(OSError(28, "No space left on device"))
    if name == "gone":
        return _Stream(BrokenPipeError(32, "Broken pipe"))
    made = io.TextIOWrapper(io.BytesIO(), "ascii" if name == "ascii" else "utf-8")
    if name == "closed":
        made.close()
    return made


class _Late(BaseException):
    pass


def outcome(draw: Draw) -> str:
    """What is wrong with the end of a command; empty if nothing is."""

    def late(*_: Any) -> None:
        raise _Late

    error = io.StringIO()
    before = signal.signal(signal.SIGALRM, late), list(sys.path), sys.stdout
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        sys.stdout = _stream(draw.stream)
        with contextlib.redirect_stderr(error):
            status = cli.main(draw.argv)
    except _Late:
        return f"takes more than {SECONDS:g} s"
    except BaseException as e:
        return f"raises {type(e).__name__}: {e}\n{traceback.format_exc()}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before[0])
        sys.path[:], sys.stdout = before[1:]
    told = error.getvalue()
    if status not in STATUSES:
        return f"ends with {status}"
    if "Traceback" in told:
        return f"prints a traceback:\n{told}"
    if any(ord(c) < 32 and c not in "\n\t" for c in told):
        return f"prints control characters: {told!r}"
    return "ends with 2, and says nothing" if status == 2 and not told.strip() else ""


def options_of() -> dict[str, list[argparse.Action]]:
    """The options of each command."""
    commands = next(a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)).choices
    # Without --artifact, because a folder that can be written takes a run of all commands.
    return {
        name: [a for a in c._actions if a.option_strings and "--artifact" not in a.option_strings]
        for name, c in commands.items()
    }


def run(calls: int, seed: int, say: Callable[[str], None], numbers: list[int] | None = None) -> int:
    """Run command lines; the number of those that failed."""
    failed = 0
    options = options_of()
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as name:
        right = Path(name) / "right"
        right.mkdir()
        prepared(right)
        assert set(bases(right)) == set(options), "each command has a right line"
        for number in numbers or range(calls):
            folder = Path(name) / "work"
            subprocess.run(["cp", "-r", str(right), str(folder)], check=True)
            for file in folder.rglob("*.json*"):
                file.write_text(file.read_text().replace(str(right), str(folder)))
            os.chdir(folder)
            try:
                draw = drawn(number, seed, folder, options)
                began = time.monotonic()
                wrong = outcome(draw)
            finally:
                os.chdir(home)
            if numbers or time.monotonic() - began > 10:
                say(f"{number}: {time.monotonic() - began:.1f} s {draw}"[:2_000])
            if wrong:
                failed += 1
                say(f"{number}, seed {seed}: {draw}"[:2_000] + f" {wrong}"[-3_000:])
            subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=True, stderr=subprocess.DEVNULL)
            subprocess.run(["rm", "-rf", str(folder)], check=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, nargs="+", help="only these")
    options = parser.parse_args()
    failed = run(options.calls, options.seed, print, options.number)
    print(f"{failed} of {options.calls} command lines fail")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""`gtape table`: numbers right to the last bit, formats that other programs read, files whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import runpy
import shlex
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb

import gtape
from gtape.symbolic.balls import precision
from gtape.verify.command import cli, table
from gtape.verify.command.output import Usage
from gtape.verify.verdicts.nearest import nearest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to-check.md"
POINTS = ("0.5", "-1.25", "3.1", "0x1p-20", "7")
# Formulas of the derivatives, written without gtape: mpmath differentiates its own functions.
REFERENCES: dict[str, Any] = {
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "sin": mpmath.sin,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
}
TWO: dict[str, Any] = {"atan2": mpmath.atan2, "betainc": lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True)}


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str]]:
    assert cli.main(["table", *arguments]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def rounded(x: Any, dtype: str) -> float:
    """The nearest float: mpmath rounds to even with the precision of the dtype; no subnormal numbers are tried."""
    with mpmath.workprec(24 if dtype == "float32" else 53):
        return float(+x)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("op", REFERENCES)
def test_numbers_are_right_to_the_last_bit(op: str, dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = lines(capsys, op, "--points", *POINTS, "--order", "0", "1", "2", "3", "--dtype", dtype)
    assert len(found) == 4 * len(POINTS)
    with mpmath.workdps(120):
        for row in found:
            x, order = float.fromhex(row["x0"]), int(row["order"])
            true = mpmath.diff(REFERENCES[op], mpmath.mpf(x), order)
            assert float.fromhex(row["derivative"]) == rounded(true, dtype), row
            assert abs(mpmath.mpf(row["exact"]) - true) <= mpmath.mpf(row["radius"]), row


@pytest.mark.parametrize(
    ("op", "point", "argument"), [("atan2", "0.3,-2", 0), ("atan2", "0.3,-2", 1), ("betainc", "2,3,0.3", 2)]
)
def test_the_argument_is_chosen(op: str, point: str, argument: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = lines(capsys, f"tf.math.{op}", "--points", point, "--argument", str(argument), "--order", "1", "2", "3")
    at = [mpmath.mpf(float(x)) for x in point.split(",")]
    with mpmath.workdps(100):
        for row in found:
            orders = tuple(int(row["order"]) * (i == argument) for i in range(len(at)))
            one = mpmath.diff(lambda x: TWO[op](*at[:argument], x, *at[argument + 1 :]), at[argument], max(orders))
            assert float.fromhex(row["derivative"]) == rounded(one, "float64")
            assert row["argument"] == str(argument)


def test_points_are_numbers_ranges_and_files(tmp_path: Path) -> None:
    file = tmp_path / "points.txt"
    file.write_text("# two arguments\n0.5, 1\n\n-1e-3 0x1p-3  # behind\n0:1:2,7\n")
    assert table.points_of([str(file)], np.float64) == [(0.5, 1.0), (-1e-3, 0.125), (0.0, 7.0), (1.0, 7.0)]
    assert table.points_of(["-1:1:3", "0.1"], np.float32) == [(-1.0,), (0.0,), (1.0,), (float(np.float32(0.1)),)]


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["no-such-file"], "neither a point nor a file"),
        (["0:1"], "start:stop:count"),
        (["0:1:0"], "count from 1"),
        (["0:1:1e3"], "neither a point"),
        (["0:1:100000,0:1:100000"], "100,000"),
        (["nan"], "not finite"),
        (["1e400"], "the point 1e400 is not finite in float64"),
        (["1", "1,2"], "more arguments"),
        (["/dev/zero"], "neither a point nor a file"),
    ],
)
def test_other_points_are_refused(texts: list[str], says: str) -> None:
    with pytest.raises(Usage, match=says):
        table.points_of(texts, np.float64)


@pytest.mark.parametrize(
    ("op", "point", "value"),
    [("sqrt", "0", 0.0), ("asin", "1", math.pi / 2), ("acosh", "1", 0.0), ("pow", "0,0.5", 0.0), ("atan2", "0,0", 0.0)],
)
def test_a_value_is_told_where_there_is_no_derivative(
    op: str, point: str, value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = lines(capsys, op, "--points", point, "--order", "0")
    assert float.fromhex(row["derivative"]) == value
    assert cli.main(["table", op, "--points", point, "--order", "0", "1"]) != 0
    assert "order 1" in capsys.readouterr().err


def test_an_infinite_value_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["table", "log", "--points", "0", "--order", "0"]) == 1
    assert "log, order 0, at 0.0: the value is -inf, which has no digits" in capsys.readouterr().err


def test_an_error_repeats_a_negative_number_as_it_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["table", "tanh", "--points", "1", "--argument", "-1"]) == 2
    assert "not '-1'" in capsys.readouterr().err


def test_points_may_be_negative_and_in_any_notation(capsys: pytest.CaptureFixture[str]) -> None:
    found = lines(capsys, "tanh", "--points", "-1e30", "-.5", "-0x1p-1", "-1:1:2")
    assert [float.fromhex(r["x0"]) for r in found] == [-1e30, -0.5, -0.5, -1.0, 1.0]
    assert float.fromhex(found[0]["derivative"]) == 0.0 and found[0]["exact"].startswith("1.29397")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_c_header_compiles(dtype: str, tmp_path: Path) -> None:
    cc = shutil.which("cc")
    if cc is None:
        pytest.skip("no C compiler")
    file = tmp_path / "exp.h"
    arguments = ["table", "exp", "--points", "0.1", "800", "-1e30", "--order", "1", "2", "--dtype", dtype]
    assert cli.main([*arguments, "-o", str(file)]) == 0
    main = tmp_path / "main.c"
    name = f"gtape_exp_0_{dtype}"
    main.write_text(
        f'#include "exp.h"\n#include "exp.h"\n#include <stdio.h>\nint main(void) {{ for (int i = 0; i < 6; i++) '
        f'printf("%d %a\\n", {name}[i].order, (double){name}[i].derivative); return 0; }}\n'
    )
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    subprocess.run([cc, "-fsyntax-only", *strict, str(file)], check=True)  # without a use of the table
    subprocess.run([cc, "-fsyntax-only", *strict, str(main)], check=True)
    subprocess.run([cc, *strict, "-o", str(tmp_path / "main"), str(main)], check=True)
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.split()
    x = float(np.dtype(dtype).type(0.1))
    with mpmath.workdps(60):
        one = rounded(mpmath.exp(x), dtype)
    assert [float.fromhex(v) for v in printed[1::2]] == [one, math.inf, 0.0] * 2
    assert printed[::2] == list("111222")


def test_python_and_json_hold_the_same_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["table", "tanh", "--points", "0.5", "20", "--order", "1", "2"]
    assert cli.main([*arguments, "-o", str(tmp_path / "tanh.py")]) == 0
    assert cli.main([*arguments, "--format", "json", "-o", str(tmp_path / "tanh.txt")]) == 0
    assert "4 derivatives" in capsys.readouterr().out
    names = runpy.run_path(str(tmp_path / "tanh.py"))
    data = json.loads((tmp_path / "tanh.txt").read_text())
    assert (names["OP"], names["ARGUMENT"], names["DTYPE"]) == ("tanh", 0, "float64")
    assert [(o, [p.hex() for p in at], d.hex(), text, r) for o, at, d, text, r in names["ROWS"]] == [
        (
            r["order"],
            [float.fromhex(p).hex() for p in r["point"]],
            float.fromhex(r["derivative"]).hex(),
            r["exact"],
            r["radius"],
        )
        for r in data["rows"]
    ]
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == data


def test_a_number_beyond_the_floats_has_a_radius_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "exp.py"
    assert cli.main(["table", "exp", "--points", "800", "-o", str(file)]) == 0
    ((_, _, derivative, text, radius),) = runpy.run_path(str(file))["ROWS"]
    with mpmath.workdps(60):
        assert abs(mpmath.mpf(text) - mpmath.exp(800)) <= mpmath.mpf(radius) < mpmath.mpf("1e309")
    assert derivative == math.inf


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["nothing_like_it", "--points", "1"], 2, "no op named"),
        (["floor", "--points", "1"], 2, "not differentiable"),
        (["cholesky", "--points", "1"], 2, "square matrices"),
        (["atan2", "--points", "1"], 2, "missing 1 required"),
        (["tanh", "--points", "1,2"], 2, "2 arguments, one more than the function takes"),
        (["tanh", "--points", "1,2,3"], 2, "takes from 1 to 2 positional arguments"),
        (["tanh", "--points", "1", "--argument", "1"], 2, "the points have 1 argument"),
        (["tanh", "--points", "1", "--order", "9"], 2, "at most 8"),
        (["log", "--points", "1", "-1"], 1, "log at -1.0: the value is NaN"),
    ],
)
def test_what_has_no_table_leaves_no_file(
    arguments: list[str], status: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "table.csv"
    file.write_text("old")
    assert cli.main(["table", *arguments, "-o", str(file)]) == status
    assert says in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"] and file.read_text() == "old"


def _exactly(x: Fraction) -> Any:
    with precision(2000):
        return arb(x.numerator) / arb(x.denominator)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_the_nearest_float_is_that_of_ieee_754(dtype: Any) -> None:
    """Halves of neighbouring floats go to the even one, and everything else to the nearest, subnormal numbers too."""
    rng = np.random.default_rng(1)
    info = np.finfo(dtype)
    some = [info.tiny, info.smallest_subnormal, dtype(1), *rng.normal(size=20).astype(dtype)]
    for x in some:
        x = dtype(x)
        up = np.nextafter(x, dtype(np.inf))
        low, high = Fraction(float(x)), Fraction(float(up))
        even = float(x) if x.view(f"u{x.itemsize}") % 2 == 0 else float(up)
        assert nearest(_exactly((low + high) / 2), dtype) == even
        assert nearest(_exactly((2 * low + high) / 3), dtype) == float(x)
        assert nearest(_exactly((low + 2 * high) / 3), dtype) == float(up)
    top = Fraction(float(info.max)) + Fraction(float(info.max) - float(np.nextafter(info.max, dtype(0)))) / 2
    assert nearest(_exactly(top), dtype) == math.inf
    assert nearest(_exactly(-top + Fraction(1, 2**200)), dtype) == -float(info.max)


def test_a_ball_that_is_too_wide_has_no_nearest_float() -> None:
    assert nearest(arb("0.5 +/- 1e-16"), np.float64) is None
    assert nearest(arb("0.5 +/- 1e-16"), np.float32) == 0.5
    assert nearest(arb("1e2000 +/- 1e2001"), np.float64) is None
    assert nearest(-(arb(10) ** 2000), np.float64) == -math.inf
    assert nearest(arb("nan"), np.float64) is None
    # Exactly between two floats, which 40 digits cannot tell, but the enclosure, a single number, can.
    x = 1.0 + 2.0**-26
    assert gtape.verify.exact(lambda x: x * x * x, x)[()].nearest() == float(3 * Fraction(x) ** 2)


def test_the_page_tells_what_the_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"^```bash\ngtape (table .*)\n```\n(?:\n```text\n((?:.*\n)*?)```)?", page, re.MULTILINE)
    assert len(commands) == 2
    for command, told in commands:
        assert cli.main(shlex.split(command)) == 0
        printed = capsys.readouterr().out
        assert not told or printed == told
    assert [p.name for p in tmp_path.iterdir()] == ["betainc.h"]

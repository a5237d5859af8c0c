"""`gtape peers` on a peer with planted faults: each is found, shown by a program of its own, and nothing else is."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from fake_library import FAKE

from gtape.verify.command import cli
from gtape.verify.command.census_pictures import plots
from gtape.verify.command.output import Usage, make_folder
from gtape.verify.peers import arrays, census, functions, libraries
from gtape.verify.peers.audit import Audit, audit, pieces, summed
from gtape.verify.peers.conversation import Conversation, Unusable
from gtape.verify.peers.faults import Fault
from gtape.verify.peers.findings import _apart, markdown, witness
from gtape.verify.peers.numbers import _mechanisms, _suspects, exact_digits, grid_of, jumps
from gtape.verify.peers.programs import translated
from gtape.verify.peers.tensors import _with_mechanisms, truth
from gtape.verify.search.partials import Exact


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    libraries.register(FAKE)


@pytest.fixture(scope="module")
def found(registered: None) -> Audit:
    return audit("fake", dtypes=("float64",), points=120, programs=0, patience=1.0)


PLANTED = {
    "tanh": ("lost", "elsewhere"),
    "sinc": ("lost", "around-0"),
    "exp": ("lost", "elsewhere"),
    "abs": ("kink", "around-0"),
    "asinh": ("range", "elsewhere"),
    "cos": ("crash", "elsewhere"),
    "log": ("hang", "elsewhere"),
    "erf": ("raises-ValueError", "elsewhere"),
    "prod": ("not-finite", "arrays"),
    "where_sqrt": ("not-finite", "arrays"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found(name: str, found: Audit) -> None:
    what, place = PLANTED[name]
    assert f"fake/{name}/{what}/{place}" in {c.id for c in found.causes}


@pytest.mark.slow
def test_nothing_else_is_found(found: Audit) -> None:
    assert {c.subject for c in found.causes} == set(PLANTED)
    assert not found.unproved
    assert not found.skipped


def test_an_exception_is_shown_at_the_simplest_point(found: Audit) -> None:
    (erf,) = [c.first for c in found.causes if c.subject == "erf"]
    assert erf.arguments == (0.5,)
    with mpmath.workdps(60):
        assert erf.exact == mpmath.nstr(2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-mpmath.mpf(0.25)), 40)


def test_a_refusal_is_no_finding_and_none_at_all_of_a_derivative_that_is_zero(found: Audit) -> None:
    assert found.refused == {"fake_peer.erfc(x)": ["derivative"]}


@pytest.mark.slow
def test_a_witness_runs_by_itself_and_prints_what_was_returned(found: Audit) -> None:
    for cause in found.causes:
        if cause.first.what in ("hang", "crash", "raises"):
            continue
        run = subprocess.run([sys.executable, "-W", "ignore", "-c", cause.source], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert float(run.stdout) == pytest.approx(cause.first.got, rel=1e-3, nan_ok=True)


def test_a_crash_and_a_hang_name_the_point(found: Audit) -> None:
    by_subject = {c.subject: c for c in found.causes}
    crash, hang = by_subject["cos"].first, by_subject["log"].first
    assert abs(float(crash.arguments[0])) > 1e100
    assert "SIGSEGV" in str(crash.got)
    assert float(hang.arguments[0]) > 1e200


def test_exact_numbers_have_40_digits() -> None:
    with mpmath.workdps(60):
        assert exact_digits("tanh", [20.0], (0,)) == mpmath.nstr(mpmath.sech(20) ** 2, 40)


@pytest.mark.parametrize("name", ["std", "norm_3"])
def test_exact_numbers_of_arrays_hold_no_rounded_constant(name: str) -> None:
    (x,) = arrays.CASES[name].inputs[0]
    with mpmath.workdps(60):
        v = [mpmath.mpf(float(a)) for a in x]
        if name == "norm_3":
            slope = v[1] * abs(v[1]) / mpmath.cbrt(mpmath.fsum(abs(a) ** 3 for a in v)) ** 2
        else:
            mean = mpmath.fsum(v) / 3
            slope = (v[1] - mean) / 3 / mpmath.sqrt(mpmath.fsum((a - mean) ** 2 for a in v) / 3)
        assert abs(mpmath.mpf(truth(name, 0, "float64", 1).blocks[(0,)][1]) - slope) < 1e-39


@pytest.mark.parametrize(
    ("exact", "right", "wrong"),
    [
        (-7.8e-308, [0.0, -0.0, 1e-300], [np.nan, np.inf, -np.inf, 1.0]),
        (0.0, [0.0, 1e-300], [np.nan, np.inf, 1.0]),
        (-1e306, [-np.inf, -1e305, np.nan], [np.inf, 0.0, 1e306, -1.0]),
    ],
)
def test_a_derivative_at_the_limits_of_the_dtype_may_end_there_but_not_elsewhere(
    exact: float, right: list[float], wrong: list[float]
) -> None:
    got = np.array([*right, *wrong])
    known = Exact(len(got))
    known.high[:], known.known[:] = exact, True
    bad = _suspects(known, got, np.dtype("float64"), np.ones(len(got)))
    assert bad.tolist() == [False] * len(right) + [True] * len(wrong)


@pytest.mark.parametrize(
    ("name", "exists"), [("bessel_i1e", False), ("softsign", False), ("sinc", True), ("tanh", True), ("power_1", True)]
)
def test_no_second_derivative_is_judged_where_it_jumps(name: str, exists: bool) -> None:
    assert bool(jumps(functions.function(name), [np.zeros(1)], (0, 0), "float64")[0]) != exists


@pytest.mark.parametrize(
    ("name", "point", "kinked"),
    [("norm", [0.0] * 3, True), ("norm_squared", [0.0] * 3, False), ("std", [1.0] * 3, True), ("std", [3.0], False)],
)
def test_a_kink_is_one_of_the_function_as_a_whole(name: str, point: list[float], kinked: bool) -> None:
    inputs = [x.tolist() for (x,) in arrays.CASES[name].inputs]
    assert truth(name, inputs.index(point), "float64", 1).kink == kinked


@pytest.mark.parametrize(("what", "expected"), [("kink", "range"), ("zero", "lost")])
def test_a_kink_is_no_ordinary_place_of_a_wrong_number(what: str, expected: str) -> None:
    case = Fault("", "norm", "", (), (0,), "float64", "zero", "", (np.full(3, 1e200),), (), 0.0, "1", "")
    other = case._replace(what=what, arguments=(np.zeros(3),))
    assert _with_mechanisms([case, other])[0].mechanism == expected


def wrong_at(*points: float, last: str = "zero", right: float | None = None) -> str:
    """The mechanism of the last of some wrong numbers, with a right one in between."""
    x = np.sort(np.array([*points, *([] if right is None else [right])]))
    wrong = {i: "zero" for i in range(len(x)) if x[i] != right} | {len(x) - 1: last}
    return _mechanisms([x], np.ones(len(x), np.bool_), wrong, "float64")[len(x) - 1]


def test_numbers_that_are_wrong_only_where_powers_leave_the_dtype_are_one_mechanism() -> None:
    assert wrong_at(1e160, 1e200) == wrong_at(1e200, last="nan") == "range"


def test_a_lost_tail_that_reaches_the_ends_of_the_dtype_stays_one_mechanism() -> None:
    assert wrong_at(1e10, 1e200) == "lost"
    assert wrong_at(1e10, 1e200, right=1e20) == "lost"  # right by chance


def test_another_sign_or_another_kind_of_number_is_another_mechanism() -> None:
    assert wrong_at(-1e10, 1e200, right=1.0) == "range"
    assert wrong_at(1e10, 1e200, right=1e20, last="nan") == "range"


def test_a_short_witness_differentiates_by_the_functions_of_the_library() -> None:
    libraries.register(FAKE._replace(name="short", short={"derivative": "fake_peer.derivative"}))
    (cause,) = audit("short", ops=("tanh",), dtypes=("float64",), points=40, programs=0).causes
    assert "print(fake_peer.derivative(f)(x))\n" in cause.source
    assert "derivative =" not in cause.source


def test_a_witness_holds_the_helpers_that_it_uses() -> None:
    made = libraries.library("torch")
    common = ("forward", "forward"), (0, 0), "float64", "zero", "elsewhere", (0.5,), (), 0.0, "3.0", ""
    uses = [Fault("torch", "custom_fourth_power", e, *common) for e in ("FourthPower.apply(x)", "torch.sin(x)")]
    assert ["class FourthPower" in witness(made, f) for f in uses] == [True, False]
    assert "class FourthPower" in made.setup


@pytest.mark.parametrize("name", ["where_exp", "where_log", "unused_quotient", "replaced_quotient", "unused_root",
                                  "powers", "norm_inside"])  # fmt: skip
def test_what_is_not_used_has_no_share_in_exact_derivatives(name: str) -> None:
    for number in range(len(arrays.CASES[name].inputs)):
        for order in (1, 2):
            known = truth(name, number, "float64", order)
            assert known.blocks and not known.kink, (number, order, known.why)


def test_half_precision_is_judged_for_functions_of_numbers() -> None:
    ops = ("exp", "sin", "prod")
    assert {p["subject"] for p in pieces(["fake"], ops=ops, dtypes=("float16",), programs=0)} == {"exp", "sin"}
    (cause,) = audit("fake", ops=ops, dtypes=("float16",), points=60, programs=0).causes
    assert cause.subject == "exp"
    assert "np.float16" in cause.source


def test_a_function_without_a_kernel_for_half_precision_is_not_judged_there() -> None:
    wide = "fake_peer.sin(x) if getattr(x, 'value', x).dtype.itemsize > 2 else fake_peer.missing(x)"
    libraries.register(FAKE._replace(name="wide", functions={"sin": wide}))
    found = audit("wide", ops=("sin",), dtypes=("float32", "float16"), points=40, programs=0)
    assert (found.causes, found.refused) == ([], {})
    assert found.judged


def test_parts_of_decompositions_and_masked_arrays_have_exact_derivatives() -> None:
    for name in ("masked_log_softmax", "norm_half", "leading_part", "conv1d_transpose"):
        for number in range(3):
            known = truth(name, min(number, len(arrays.CASES[name].inputs) - 1), "float64", 1)
            assert known.blocks and not known.kink, (name, number, known.why)


def test_a_short_witness_that_does_not_show_the_fault_is_not_used() -> None:
    libraries.register(FAKE._replace(name="other", short={"derivative": "fake_peer.sin"}))
    (cause,) = audit("other", ops=("tanh",), dtypes=("float64",), points=40, programs=0).causes
    assert "print(derivative(f, 0)(x))\n" in cause.source


def test_nan_that_the_library_documents_is_a_refusal() -> None:
    told = {"where_sqrt": ("", "https://example.org")}
    libraries.register(FAKE._replace(name="honest", documented=told))
    found = audit("honest", ops=("where_sqrt",), dtypes=("float64",), programs=0)
    assert not found.causes
    assert found.refused == {"fake_peer.where_sqrt(x)": ["rows"]}


def test_a_documented_kind_of_input_excuses_no_other() -> None:
    told = {"where_sqrt": ("equal singular values", "https://example.org")}
    libraries.register(FAKE._replace(name="partly", documented=told))
    assert audit("partly", ops=("where_sqrt",), dtypes=("float64",), programs=0).causes


def test_a_program_that_repeats_the_cause_of_a_function_is_left_out(found: Audit) -> None:
    tanh = next(c for c in found.causes if c.subject == "tanh")
    again, alone = (tanh._replace(id=f"program {p}", subject="program", place=p) for p in ("tf.tanh", "tf.cos"))
    assert summed([found._replace(causes=[tanh, again, alone])]).causes == [tanh, alone]


def test_a_title_has_the_digits_that_differ() -> None:
    assert _apart("-7.709976012836329e-10", "-7.709973930953695511677775e-10") == ("-7.709976e-10", "-7.709974e-10")
    assert _apart("nan", "4.000000000000000000000000000") == ("nan", "4")
    assert _apart("0.0", "1.111111111111111111111111111e-617") == ("0", "1.11111e-617")


def test_the_page_says_which_causes_have_the_same_wrong_numbers() -> None:
    libraries.register(FAKE._replace(name="twice", functions=dict.fromkeys(("exp", "expm1"), "fake_peer.exp(x)")))
    found = audit("twice", ops=("exp", "expm1"), dtypes=("float64",), points=40, programs=0).causes
    assert [c.subject for c in found] == ["exp", "expm1"]
    assert f"- the same wrong numbers: `{found[1].id}`\n" in markdown(found, {})


def test_grids_hold_landmarks_and_every_sign() -> None:
    x = grid_of("abs", "float64", 120, (1,)).columns[0]
    assert 0.0 in x and (x < -1e100).any() and (x > 1e100).any() and ((x != 0) & (np.abs(x) < 1e-308)).any()


@pytest.mark.parametrize("name", libraries.KNOWN)
def test_tables_name_functions_that_exist(name: str) -> None:
    made = libraries.library(name)
    for function in made.functions:
        functions.function(function)
    assert not (set(made.arrays) | set(made.documented)) - set(arrays.CASES)
    assert set(made.short) <= set(made.definitions)
    for mode in (*made.modes, *made.array_modes):
        assert set(mode) <= set(made.definitions)
    for expressions in (*made.functions.values(), *made.arrays.values()):
        for text in [expressions] if isinstance(expressions, str) else expressions:
            compile(text, "<expression>", "eval")
    compile(made.setup, "<setup>", "exec")


@pytest.mark.parametrize(
    ("name", "text"), [("torch", "torch.einsum('ij,jk->ik', v1, v2)"), ("jax", "jnp.einsum('ij,jk->ik', v1, v2)")]
)
def test_functions_of_any_number_of_arguments_are_translated(name: str, text: str) -> None:
    assert translated("tf.einsum('ij,jk->ik', v1, v2)", libraries.library(name)) == text


def test_a_peer_that_cannot_be_imported_is_said() -> None:
    broken = FAKE._replace(name="broken", imports="import no_such_module_at_all\n")
    with pytest.raises(Unusable, match="no_such_module_at_all"), Conversation(broken) as peer:
        peer.start()


def command(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    file = tmp_path / "report.json"
    options = ["--dtypes", "float64", "--points", "40", "--programs", "0", "--patience", "1", "--json", str(file)]
    options += ["--load", str(Path(__file__).with_name("fake_library.py"))]  # workers need not be forked
    status = cli.main(["peers", *arguments, *options])
    return status, json.loads(file.read_text()) if file.exists() else {}


def test_a_baseline_shows_what_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, first = command(tmp_path, "fake", "--ops", "tanh", "sin")
    assert status == 1
    assert [c["function"] for c in first["causes"]] == ["tanh"]
    known = tmp_path / "known.json"
    known.write_text(json.dumps(first))
    status, again = command(tmp_path, "fake", "--ops", "tanh", "--baseline", str(known))
    assert status == 0 and not any(c["new"] for c in again["causes"])
    status, more = command(tmp_path, "fake", "--ops", "tanh", "abs", "--baseline", str(known))
    assert status == 1 and [c["function"] for c in more["causes"] if c["new"]] == ["abs"]


@pytest.mark.parametrize("folder", ["file", "file/inner", "", "no\0name", "x" * 300])
@pytest.mark.parametrize("words", [["peers", "fake", "--output"], ["census", "sin", "--libraries", "gtape", "--plots"]])
def test_a_folder_that_cannot_be_made_ends_the_command_before_the_work(
    words: list[str], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if words[0] == "census":
        pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("kept")
    monkeypatch.chdir(tmp_path)
    for run in ("gtape.verify.command.peers.run", "gtape.verify.command.library_census.run"):
        monkeypatch.setattr(run, lambda *_, **__: pytest.fail("the work began"))
    assert cli.main([*words, folder]) == 2
    assert "cannot be the folder of the results" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "kept"


def test_a_folder_that_vanishes_during_the_work_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(Usage, match="cannot be made"):
        make_folder(str(tmp_path / "file" / "inner"))


def test_the_folder_holds_a_page_and_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, data = command(tmp_path, "fake", "--ops", "abs", "--output", str(tmp_path / "out"))
    assert status == 1
    page = (tmp_path / "out" / "findings.md").read_text()
    assert "`fake/abs/kink/around-0`" in page and "returned: `2.0`" in page
    (program,) = (tmp_path / "out" / "witnesses").iterdir()
    assert program.read_text() == data["causes"][0]["witness"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"causes": [1]}', "\x00"])
def test_a_broken_baseline_is_a_usage_error(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "known.json"
    known.write_text(content)
    assert command(tmp_path, "fake", "--ops", "sin", "--baseline", str(known))[0] == 2
    assert "baseline" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["absent", "no library"])
def test_a_library_that_is_not_there_is_a_usage_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    libraries.register(FAKE._replace(name="absent", module="no_such_module_at_all"))
    assert command(tmp_path, name)[0] == 2
    assert ("not installed" if name == "absent" else "no description") in capsys.readouterr().err


# ------------------------------------------------------------------------------------------- census of libraries


CENSUS = FAKE._replace(
    name="fakecensus",
    definitions={**FAKE.definitions, "reverse": "reverse = fake_peer.derivative\n"},
    functions={name: f"fake_peer.{name}(x)" for name in ("sin", "tanh", "square")},
)


def test_a_census_compares_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    libraries.register(CENSUS)
    rows = census.search(["gtape", "fakecensus"], ["tanh", "sin"], orders=(1,), points=150)
    ulps = {(w.library, w.op): w.ulp for w in rows}
    assert ulps["gtape", "tanh"] <= 4 and ulps["gtape", "sin"] <= 4 and ulps["fakecensus", "sin"] <= 4
    assert ulps["fakecensus", "tanh"] > 1e10


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_precise_number_is_tried(dtype: str) -> None:
    pytest.importorskip("ml_dtypes")
    (row,) = census.search(["gtape"], ["square"], orders=(1,), dtypes=[dtype], exhaustive=True)
    assert row.points == {"float16": 63488, "bfloat16": 65280}[dtype]
    assert row.ulp <= 1 and not row.error


def test_a_journal_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = str(tmp_path / "journal.jsonl")
    first = census.search(["gtape"], ["square"], orders=(1, 2), points=100, journal=journal)
    with open(journal, "a") as f:
        f.write('{"library": "gta')  # a kill in the middle of a line
    monkeypatch.setattr(Conversation, "ask", None)  # nothing is asked again
    assert census.search(["gtape"], ["square"], orders=(1, 2), points=100, journal=journal) == first


def test_a_journal_of_another_kind_is_an_error(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text("nothing\nof this kind\n")
    with pytest.raises(ValueError, match="line 1"):
        census.search(["gtape"], ["square"], journal=str(journal))


def test_the_command_writes_table_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "census.md"
    arguments = ["census", "square", "--libraries", "gtape", "--points", "100", "--page", str(out)]
    assert cli.main([*arguments, "--orders", "1", "2", "3"]) == 0
    assert "square" in capsys.readouterr().out
    assert "| square | 3 | float64 | 0.00 |" in out.read_text()


def test_the_page_names_the_command_that_makes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "census.md"
    words = ["census", "square", "--libraries", "gtape", "--dtypes", "float32", "--orders", "1"]
    words += ["--points", "100", "--seed", "3", "--page", str(out)]
    assert cli.main(words) == 0
    assert f"- command: `{shlex.join(['gtape', *words])}`\n" in out.read_text()


def test_a_picture_shows_the_largest_errors_and_is_small(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    libraries.register(CENSUS)
    (path,) = plots(str(tmp_path), ["gtape", "fakecensus"], ["tanh"], [1], "float64", 200)
    text = Path(path).read_text()
    assert "tanh, order 1, float64" in text and "fakecensus" in text
    assert len(text) < 10_000


def test_pictures_without_matplotlib_are_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("gtape.verify.command.library_census.run", lambda *_, **__: pytest.fail("the work began"))
    assert cli.main(["census", "sin", "--libraries", "gtape", "--plots", str(tmp_path)]) == 2
    assert "matplotlib" in capsys.readouterr().err
    with pytest.raises(Usage, match="matplotlib"):
        plots(str(tmp_path), ["gtape"], ["tanh"], [1], "float64", 200)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--libraries", "nowhere"],
        ["--libraries", ""],
        ["--libraries", "gtape", "--exhaustive"],
        ["--libraries", "gtape", "no_such_op"],
        ["--exhaustive"],
        ["--dtypes", "float16"],
    ],
)
def test_wrong_arguments_of_a_census(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["census", *arguments]) == 2
    assert capsys.readouterr().err

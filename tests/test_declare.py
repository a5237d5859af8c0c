"""gtape.declare: a module outside gtape declares ops in one place, and all that gtape's own ops have holds for them."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies
import numpy as np
import pytest
import warm

import gtape
from gtape import declare
from gtape.declare.primitives import REGISTRY, ROLES
from gtape.engine.declarations import calls_of, check
from gtape.engine.worlds import NUMPY, TAPE
from gtape.symbolic.mirrors import registry as mirrors
from gtape.verify import strategies
from gtape.verify.search.census import census
from gtape.verify.search.subjects import subjects

ROOT = Path(__file__).resolve().parents[1]
TEXT = (Path(__file__).parent / "theirs.py").read_text(encoding="utf-8")
NAMES = ("huber_of_theirs", "squares_of_theirs", "bends_of_theirs", "polar_of_theirs")


@pytest.fixture(autouse=True)
def _tables() -> Iterator[None]:
    """Undo what a test declares."""
    from gtape.symbolic.mirrors import load

    load()
    tables: list[dict[str, Any]] = [
        REGISTRY, mirrors.SCALARS, mirrors.COMPLEX, mirrors.ARRAYS, mirrors.PARAMETRISED, mirrors.OUTPUT_SHAPES,
    ]  # fmt: skip
    before = [dict(t) for t in tables]
    yield
    for name in set(REGISTRY) - set(before[0]):
        vars(NUMPY).pop(name, None)
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)
    REGISTRY.version += 1


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    subjects()  # what is known of all ops before is not all there is
    (tmp_path / "theirs.py").write_text(TEXT, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    yield importlib.import_module("theirs")
    sys.modules.pop("theirs", None)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        env=environment(),
    )  # fmt: skip


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(["-m", "gtape.verify.command.cli", *arguments, "--no-progress"], cwd=folder, env=environment())


# ------------------------------------------------------------------------------------------------ from end to end


def test_gradients_of_both_orders(theirs: Any) -> None:
    x, d = gtape.Variable([-3.0, 0.5, 2.0], dtype=gtape.float64), gtape.Variable(1.0, dtype=gtape.float64)
    with gtape.GradientTape(persistent=True) as outer:
        with gtape.GradientTape() as inner:
            y = theirs.huber_of_theirs(x, d)
        by_x, by_d = inner.gradient(y, [x, d])
    assert by_x.numpy().tolist() == [-1.0, 0.5, 1.0] and float(by_d) == 3.0
    assert outer.gradient(by_x, x).numpy().tolist() == [0.0, 1.0, 0.0]
    assert float(outer.gradient(by_d, d)) == -2.0
    with gtape.autodiff.ForwardAccumulator(x, gtape.ones_like(x)) as acc:
        bends = theirs.bends_of_theirs(theirs.huber_of_theirs(x, d))
    assert acc.jvp(bends).numpy().tolist() == [-1.0 + 1.0 - 2 * 0.5]


def test_the_flag_and_check_judge_them(theirs: Any) -> None:
    v = np.array([0.3, -1.2, 2.5, 0.7])
    for f in (
        lambda x: theirs.huber_of_theirs(x, np.float64(1.5)),
        lambda x: theirs.squares_of_theirs(x, axis=0, keepdims=False),
        theirs.bends_of_theirs,
        lambda x: theirs.polar_of_theirs(x[:2])[1],
    ):
        assert gtape.verify.check(f, v, order=2).ok
        x = gtape.constant(v)
        with gtape.GradientTape(verify="strict") as tape:
            tape.watch(x)
            y = f(x)
        tape.gradient(
            y, x, output_gradients=gtape.reshape(gtape.range(1.0, y.numpy().size + 1.0, dtype=x.dtype), y.shape)
        )


@pytest.mark.parametrize("name", NAMES)
def test_rules_are_proved(theirs: Any, name: str) -> None:
    assert gtape.verify.prove(name).proved


def test_strategies_and_the_census_know_them(theirs: Any) -> None:
    rows = census(["huber_of_theirs"], points=100, orders=(1, 2), processes=1)
    assert {r.order for r in rows} == {1, 2} and all(r.ok and r.points for r in rows)
    for name in NAMES:
        call = hypothesis.find(strategies.arguments(name), lambda call: True)
        assert call.prim is REGISTRY[name]
        call()
    assert hypothesis.find(strategies.op_calls(["bends_of_theirs"]), lambda call: True).prim.name == "bends_of_theirs"


@pytest.mark.slow
def test_every_command_loads_a_module(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(TEXT, encoding="utf-8")
    done = command(tmp_path, "verify", *NAMES, "--points", "100", "--load", "theirs", "--processes", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(name in done.stdout for name in NAMES) and "4 of 4 primitives proved" in done.stdout
    file = str(tmp_path / "theirs.py")
    done = command(ROOT, "prove", "bends_of_theirs", "--load", file, "--processes", "1")
    assert done.returncode == 0 and "1 of 1 proved" in done.stdout, done.stderr
    done = command(tmp_path, "census", "huber_of_theirs", "--points", "100", "--load", "theirs.py", "--processes", "1")
    assert done.returncode == 0 and "huber_of_theirs" in done.stdout, done.stderr
    done = command(tmp_path, "doctor", "huber_of_theirs", "--points", "100", "--load", "theirs", "--processes", "1")
    assert done.returncode == 0 and "huber_of_theirs" in done.stdout, done.stderr
    done = command(tmp_path, "census", "huber_of_theirs")
    assert done.returncode == 2 and "huber_of_theirs" in done.stderr


def test_what_cannot_be_loaded_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(TEXT.replace("xp.sign(x)", "xp.signum(x)"), encoding="utf-8")
    for module, words in {
        "no_such_module": "No module named 'no_such_module'",
        "no_such_file.py": "there is no such file",
        "wrong": "uses xp.signum, which is neither a primitive nor a constant; did you mean",
    }.items():
        done = command(tmp_path, "prove", "sin", "--load", module)
        assert done.returncode == 2 and words in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_nothing_loads_sympy_until_a_mirror_is_needed(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(TEXT, encoding="utf-8")
    done = run(tmp_path, "-c", "import sys, theirs; print('sympy' in sys.modules, 'gtape.symbolic' in sys.modules)")
    assert done.stdout == "False False\n", done.stderr


@pytest.mark.slow
def test_a_witness_and_a_counterexample_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrongs.py").write_text(
        "from gtape import declare\n"
        "cube = declare.elementwise('cube_of_wrongs', lambda x: x * x * x, lambda xp, y, x: 2 * x * x,\n"
        "                           domain=declare.ANY_REAL, ulps=1.0)\n"
        "declare.mirror(cube, lambda x: x**3)\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    wrongs = importlib.import_module("wrongs")
    report = gtape.verify.check(wrongs.cube, np.array([2.0]))
    witness = next(f.witness for f in report.findings if f.witness)
    done = run(tmp_path, "-c", witness)
    assert "import wrongs" in witness and "VerificationError" in done.stderr and "cube_of_wrongs" in done.stderr
    counterexample = gtape.verify.prove("cube_of_wrongs").counterexample or ""
    done = run(tmp_path, "-c", counterexample)
    assert done.returncode == 0 and "gtape.Tensor" in done.stdout, done.stderr
    sys.modules.pop("wrongs")


@pytest.mark.slow
def test_a_counterexample_about_a_script_needs_no_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import gtape\n"
        "from gtape import declare\n"
        "cube = declare.elementwise('cube_of_scripts', lambda x: x * x * x, lambda xp, y, x: 2 * x * x,\n"
        "                           domain=declare.ANY_REAL, ulps=1.0)\n"
        "declare.mirror(cube, lambda x: x**3)\n"
        "print(gtape.verify.prove('cube_of_scripts').counterexample)\n",
        encoding="utf-8",
    )
    printed = run(tmp_path, "script.py")
    (tmp_path / "script.py").unlink()
    done = run(tmp_path, "-c", printed.stdout)
    assert done.returncode == 0 and "gtape.Tensor" in done.stdout, printed.stdout + printed.stderr + done.stderr


# ------------------------------------------------------------------------------------------------ twice, and elsewhere

CELL = """
from gtape import declare
scaled = declare.elementwise(
    "scaled_of_cells", lambda x: {k} * x, lambda xp, y, x: {k} + 0 * x, domain=declare.ANY_REAL, ulps=0.5
)
declare.mirror(scaled, lambda x: {k} * x)
"""


def cell(text: str, file: str = "<cell>", module: str = "__main__") -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": module}
    exec(compile(text, file, "exec"), names)
    return names


@pytest.mark.parametrize("files", [("<cell>", "<cell>"), ("/tmp/kernel_1/11.py", "/tmp/kernel_1/22.py")])
def test_a_cell_that_runs_again_replaces_its_declaration(files: tuple[str, str]) -> None:
    x = np.array([1.0, -2.0])
    for k, file in zip((3, 5), files, strict=True):
        made = cell(CELL.format(k=k), file)["scaled"]
        assert made is REGISTRY["scaled_of_cells"]
        assert made(x).numpy().tolist() == [k, -2.0 * k]
        assert gtape.verify.check(lambda x, made=made: made(x) * made(x), x, order=2).verdict == "correct"
        assert NUMPY.scaled_of_cells(2.0) == 2.0 * k


def test_a_module_that_is_loaded_again_replaces_its_declarations(theirs: Any) -> None:
    first = theirs.bends_of_theirs
    again = importlib.reload(theirs)
    assert again.bends_of_theirs is REGISTRY["bends_of_theirs"] is not first
    assert gtape.verify.prove("bends_of_theirs").proved


def test_a_name_is_taken_by_whoever_was_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell(CELL.format(k=3), "first.py", "first")
    with pytest.raises(ValueError, match=r"'scaled_of_cells' \(second\.py, line 3\).*taken: first\.py, line 3"):
        cell(CELL.format(k=3), "second.py", "second")
    with pytest.raises(ValueError, match=r"'sin'.*is taken: .*circular\.py, line \d+ declares it first"):
        cell(CELL.format(k=3).replace("scaled_of_cells", "sin"))
    (tmp_path / "twice_over.py").write_text(CELL.format(k=3) + CELL.format(k=4), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    REGISTRY.pop("scaled_of_cells")
    with pytest.raises(ValueError, match=r"line 9.*is taken: .*twice_over\.py, line 3 declares it first"):
        importlib.import_module("twice_over")


def test_a_mirror_belongs_to_the_module_of_its_op() -> None:
    cell(CELL.format(k=3), "first.py", "first")
    with pytest.raises(ValueError, match="give the mirror there"):
        declare.mirror("scaled_of_cells", lambda x: x)
    with pytest.raises(ValueError, match="give the mirror there"):
        declare.mirror("sin", lambda x: x)
    with pytest.raises(ValueError, match=r"no primitive 'no_such_op'.*declare it first"):
        declare.mirror("no_such_op", lambda x: x)


def test_a_better_formula_is_stated_by_an_op_of_the_formula() -> None:
    """A check imports no other modules for its advice, because all of them would take a third of a second."""

    def ops(pattern: Any) -> set[str]:
        return {pattern[0]}.union(*map(ops, pattern[1:])) if isinstance(pattern, tuple) else set()

    stated = [
        (name, pattern) for name, prim in REGISTRY.items() if not prim.place.outside for pattern, *_ in prim.rewrites
    ]
    assert len(stated) > 20
    assert [name for name, pattern in stated if name not in ops(pattern)] == []


def _by_pattern(pattern: Any, letters: dict[str, Any], params: dict[str, dict[str, Any]]) -> Any:
    if isinstance(pattern, tuple):
        inputs = [_by_pattern(part, letters, params) for part in pattern[1:]]
        return REGISTRY[pattern[0]](*inputs, **params.get(pattern[0], {}))
    return letters[pattern] if isinstance(pattern, str) else gtape.constant(float(pattern), gtape.float64)


@hypothesis.given(x=hypothesis.strategies.floats(0.25, 0.75), y=hypothesis.strategies.floats(0.25, 0.75))
@hypothesis.settings(max_examples=1 + hypothesis.settings.default.max_examples // 3)
def test_each_better_formula_is_the_same_function(x: float, y: float) -> None:
    reduced = {"axis": (-1,), "keepdims": True}
    given = {"sum": reduced, "reduce_mean": reduced, "softmax": {"axis": -1}}
    tried = 0
    for prim in REGISTRY.values():
        for pattern, text, *better in prim.rewrites if not prim.place.outside else ():
            ops = set(re.findall(r"'(\w+)'", repr(pattern)))
            xs = [[x, y / 8], [y / 8, x]]
            letters = {"X": gtape.constant(xs, gtape.float64), "Y": gtape.constant(y, gtape.float64)}
            params = {k: v for op in ops for k, v in given.get(op, {}).items()}
            used = [letters[letter] for letter in ("X", "Y") if letter in ops]
            expected = _by_pattern(pattern, letters, given)
            np.testing.assert_allclose(better[0](TAPE, *used, **params), expected, rtol=1e-12, err_msg=text)
            tried += 1
    assert tried > 20


def _fails(xp: Any, x: Any) -> Any:
    raise RuntimeError("no such formula")


@pytest.mark.parametrize(
    ("better", "stated"),
    [
        ((), True),
        ((lambda xp, x: -abs(x) + xp.ln2 - xp.log1p(xp.exp(-2 * abs(x))),), True),
        ((lambda xp, x: xp.log(1 / xp.cosh(x)),), False),
        ((lambda xp, x: x,), False),
        ((_fails,), True),
    ],
)
def test_a_formula_with_a_function_is_stated_where_it_helps(better: Any, stated: bool) -> None:
    formula = (("log", ("divide", 1, ("cosh", "X"))), "log(1 / cosh(x)) is another formula", *better)
    declare.elementwise(
        "stating_of_tests", lambda x: x + x, lambda xp, y, x: 2, domain=declare.ANY_REAL, ulps=1.0, rewrites=(formula,)
    )
    declare.mirror("stating_of_tests", lambda x: 2 * x)
    found = gtape.verify.check(lambda x: gtape.math.log(1.0 / gtape.cosh(x)), 800.0).findings[0]
    assert found.instead == (formula[1] if stated else None), found


def test_ops_may_name_each_other() -> None:
    def wave(name: str, other: str, sign: int, kernel: Any) -> None:
        declare.elementwise(
            name, kernel, lambda xp, y, x: sign * getattr(xp, other)(x), domain=declare.ANY_REAL, ulps=2.0
        )

    with pytest.raises(ValueError, match=r"xp\.cos_of_tests"):
        wave("sin_of_tests", "cos_of_tests", 1, np.sin)
    assert "sin_of_tests" not in REGISTRY
    with declare.together():
        wave("sin_of_tests", "cos_of_tests", 1, np.sin)
        wave("cos_of_tests", "sin_of_tests", -1, np.cos)
    assert REGISTRY["sin_of_tests"](0.0).numpy() == 0
    with pytest.raises(ValueError, match=r"xp\.nothing_of_tests"), declare.together():
        wave("lost_of_tests", "nothing_of_tests", 1, np.sin)
    assert "lost_of_tests" not in REGISTRY


# ------------------------------------------------------------------------------------------------ wrong declarations


def square(**words: Any) -> Any:
    given = {"domain": declare.ANY_REAL, "ulps": 0.5, **words}
    kernel = given.pop("kernel", lambda x: x * x)
    partials = given.pop("partials", lambda xp, y, x: 2 * x)
    return declare.elementwise("square_of_tests", kernel, partials, **{k: v for k, v in given.items() if v is not None})


def total(**words: Any) -> Any:
    given = {
        "kernel": lambda x: np.add.reduce(x, axis=-1),
        "vjp": (lambda xp, g, y, x: xp.spread_out(g, shape=tuple(x.shape), axis=(-1,), keepdims=False),),
        "jvp": (lambda xp, t, y, x: xp.sum(t, axis=(-1,), keepdims=False),),
        "rounding": declare.growing(1),
        "samples": ((((3,),), {}),),
        **words,
    }
    kernel, vjp, jvp = given.pop("kernel"), given.pop("vjp"), given.pop("jvp")
    return declare.primitive("total_of_tests", kernel, vjp, jvp, **{k: v for k, v in given.items() if v is not None})


def flip(**words: Any) -> Any:
    given = {"kernel": lambda x: x[::-1], "rounding": declare.EXACT, "samples": ((((3,),), {}),), **words}
    transpose = given.pop("transpose", lambda xp, g, x: xp.reverse(g, axis=(0,)))
    return declare.linear("flip_of_tests", given.pop("kernel"), transpose, **given)


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: square(ulps=None), "does not say how the kernel rounds: give ulps="),
    (lambda: total(rounding=None), "does not say how the kernel rounds: give one rounding="),
    (lambda: square(ulps=None, rounding=declare.SUM), "an elementwise op has EXACT or ulps"),
    (lambda: square(ulps=-1.0), "finite numbers that are not negative"),
    (lambda: square(domain=None), "does not say where the op is defined: give domain="),
    (lambda: square(domain=declare.Domain(declare.ANY_REAL, declare.POSITIVE)), "2 intervals for 1 arguments"),
    (lambda: square(kernel=np.sqrt), r"the kernel gives NaN at \(-.*lies in its domain"),
    (lambda: square(partials=lambda xp, y, x: 0.1 * x), r"number 0\.1, which is not exact: write a quotient"),
    (lambda: square(partials=lambda xp, y, x: xp.multiply(x, np.pi)), r"number 3\.14159.*a constant of xp \(pi"),
    (lambda: square(partials=lambda xp, y, x: x * (1 / 3)), r"number 0\.333"),
    (lambda: square(partials=lambda xp, y, x: xp.twice(x)), r"uses xp\.twice, which is neither a primitive"),
    (lambda: square(partials=lambda xp, y, x: xp.sinn(x)), r"uses xp\.sinn.*did you mean sin"),
    (lambda: square(partials=lambda xp, x: 2 * x), r"the partial of argument 0 has to take \(xp, y, x\)"),
    (lambda: square(partials=lambda xp, y, x: xp.no_axes(x)), r"xp\.no_axes"),
    (lambda: square(partials=lambda xp, y, x: 1 + None), "the partial of argument 0 raises TypeError for float64"),
    (
        lambda: square(kernel=lambda x, y: x),
        r"has to take \(x\), but takes \(x, y\): .*; the declaration has 1 partial",
    ),
    (lambda: square(kernel=np.multiply), r"the kernel has to take \(x\), but multiply takes 2 arrays"),
    (lambda: square(kernel=lambda x: x.astype(np.float64)), "the kernel makes float64 of float32"),
    (lambda: square(kernel=lambda x: x.sum()), r"makes the shape \(\) of \(8,\)"),
    (lambda: square(kernel=lambda x: np.multiply(x, x, out=x)), "the kernel writes into its arguments"),
    (lambda: square(kernel=lambda x: (x, x)), "the kernel returns 2 arrays; say outputs=2"),
    (lambda: square(kernel=lambda x: 2.0), "the kernel returns float, not an array"),
    (lambda: square(kernel=lambda x: 1 // 0), "the kernel raises ZeroDivisionError"),
    (lambda: square(params=("n",), kernel=lambda x, *, n: x), r"\(xp, y, x, \*, n\)"),
    (
        lambda: square(params=("n",), kernel=lambda x, *, n: x, partials=lambda xp, y, x, *, n: n * x),
        "give the parameters n of the kernel defaults",
    ),
    (lambda: square(scalar=lambda x, y: x), r"`scalar` has to take \(x\)"),
    (
        lambda: square(role="comparision"),
        "role='comparision': known are accumulate, broadcasts, choice",
    ),
    (lambda: square(takes=("strings",)), "known are bool, string"),
    (lambda: square(colour="red"), "has unknown words: colour"),
    (lambda: total(vjp=(None, None)), "2 rules vjp, and 1 rules jvp"),
    (lambda: total(samples=None), "it has no samples"),
    (lambda: total(samples=((3,),)), "a sample is a pair"),
    (lambda: total(vjp=(lambda xp, g, x: g,)), r"the vjp of argument 0 has to take \(xp, g, y, x\)"),
    (lambda: total(vjp=(lambda xp, g, y, x: g,)), r"the vjp of argument 0 gives the shape \(\), not \(3,\)"),
    (lambda: total(jvp=(lambda xp, t, y, x: t,)), r"the jvp of argument 0 gives the shape \(3,\), not \(\)"),
    (
        lambda: total(vjp=(lambda xp, g, y, x: (lambda: xp.nowhere(g))() if g.size > 99 else xp.no_where(g),)),
        r"the vjp of argument 0 uses xp\.no_where, which is neither",
    ),
    (lambda: total(jvp=(lambda xp, t, y, x: xp.sums(t) if x.size > 99 else xp.sum(t),)), r"uses xp\.sums.*mean sum"),
    (lambda: total(kernel=lambda x: np.log(x).sum(axis=-1)), "gives NaN at negative numbers, which lie in its domain"),
    (lambda: square(kernel=lambda x: np.atleast_1d(x * x)), r"the kernel makes the shape \(1,\) of \(\)"),
    (lambda: square(rounding=declare.EXACT), "says how the kernel rounds by ulps and by rounding: leave one out"),
    (lambda: total(outputs=2), "the kernel returns 1 arrays; say outputs=1, or return 2"),
    (lambda: total(reads=((0,), (1,))), r"reads=.*one tuple for each of its 1 arguments"),
    (lambda: total(vjp=(lambda xp, g, y, x: g * x,), reads=((),)), r"reads a value that reads=\(\(\),\) does not name"),
    (lambda: total(samples=[3]), "a sample is a pair"),
    (lambda: square(partials=lambda xp, y, x: 2 * np.sinh(x)), "calls NumPy's sinh, .*: write xp.sinh"),
    (lambda: square(partials=lambda xp, y, x: 2 * np.sum(x) + x), "calls NumPy's sum, .*: write xp.sum"),
    (lambda: square(partials=lambda xp, y, x: 2 * np.fix(x)), "calls NumPy's fix, .*: write it by primitives"),
    (lambda: square(partials=lambda xp, y, x: 2 * np.sqrt(x * x)), "calls NumPy's sqrt, .*: write xp.sqrt"),
    (lambda: square(partials=lambda xp, y, x: x * 2**0.5), r"number 1\.41.*, which is not exact"),
    (lambda: square(partials=lambda xp, y, x: 2 * (x * x) ** 0.5), r"no whole number: write xp\.pow"),
    (lambda: square(partials=lambda xp, y, x: 2 * x + 0 * 2**x), r"no whole number: write xp\.pow"),
    (lambda: square(partials=lambda xp, y, x: 2 * +x), r"the operator \+ of one value, .*: write the value alone"),
    (lambda: square(partials=lambda xp, y, x: x + x // 1), r"the operator //, .*: write xp\.floordiv"),
    (lambda: square(partials=lambda xp, y, x: x + x % 1), r"the operator %, .*: write xp\.floormod"),
    (lambda: square(partials=lambda xp, y, x: 2 * xp.where(x > 0, x, x)), r"the operator >, .*: write xp\.greater"),
    (lambda: square(partials=lambda xp, y, x: 2 * xp.where(y == x, x, x)), r"the operator ==, .*: write xp\.equal"),
    (lambda: square(partials=lambda xp, y, x: 2 * x * xp.less(x, 9)), "truth values as numbers: write xp.where"),
    (lambda: square(partials=lambda xp, y, x: x.T * 2), "of argument 0, on tensors, raises AttributeError"),
    (lambda: square(partials=lambda xp, y, x: xp.cast(2 * x, dtype=np.dtype("f8"))), "makes float64 of float32"),
    (lambda: total(jvp=(lambda xp, t, y, x: x @ t,)), r"the operator @, .*: write xp\.matmul"),
    (lambda: square(domain=(0.0, 1.0)), "give an Interval or a Domain"),
    (lambda: flip(kernel=lambda x: x * x), r"the kernel is not linear: kernel\(-2 \* x\)"),
    (lambda: flip(transpose=lambda xp, g, x: g), "the transpose is not that of the kernel"),
    (lambda: declare.elementwise("lambda", np.sin, 0), "is not a valid name for a primitive"),
    (lambda: flip(rounding=None), "does not say how the kernel rounds"),
    (lambda: flip(kernel=lambda x: x[1:]), r"the transpose gives the shape \(2,\), not \(3,\)"),
    (lambda: flip(kernel=lambda x: x - x[::-1], rounding=declare.SUM), "this kernel subtracts some"),
    (lambda: declare.elementwise("not an identifier", np.sin, 0), "is not a valid name for a primitive"),
    (lambda: declare.elementwise(3, np.sin, 0), "is not a valid name for a primitive"),  # type: ignore[arg-type]
    (lambda: square(kernel="square"), "the kernel has to be a function of arrays, not 'square'"),
    (lambda: square(partials="sin"), "a rule is a function, a whole number or None, not 'sin'"),
    (lambda: square(partials=0.5), r"a rule is a function, a whole number or None, not 0\.5"),
    (lambda: total(jvp=(0.5,)), r"a rule is a function, a whole number or None, not 0\.5"),
    (lambda: square(partials=lambda xp, y, x: None), "the partial of argument 0 returns None"),
    (lambda: square(kinks=0.0), r"kinks=0\.0: write a tuple, kinks=\(0\.0,\)"),
    (lambda: square(params="beta"), r"write a tuple, params=\('beta',\)"),
    (lambda: total(samples=(((3,), {}),)), r"a sample has a tuple of shapes, such as .*, not \(3,\)"),
    (lambda: total(samples=((((3,), (3,)), {}),)), "1 arguments, and its sample .* has 2 shapes"),
]


@pytest.mark.parametrize(("make", "words"), WRONG, ids=[w for _, w in WRONG])
def test_a_wrong_declaration_is_refused(make: Callable[[], Any], words: str) -> None:
    before = dict(REGISTRY)
    with pytest.raises((ValueError, TypeError), match=words) as e:
        make()
    assert dict(REGISTRY) == before
    assert "test_declare.py, line" in str(e.value)


@pytest.mark.parametrize("make", [square, total, flip])
def test_the_same_without_its_fault_is_taken(make: Callable[[], Any]) -> None:
    made = make()
    assert made is REGISTRY[made.name]


# Rules of the square with what Python writes without a function: powers, magnitudes, places and shapes.
WRITTEN: dict[str, Callable[..., Any]] = {
    "a power": lambda xp, y, x: 2 * x**1,
    "a negative power": lambda xp, y, x: 2 / x**-1,
    "a magnitude": lambda xp, y, x: 2 * xp.sign(x) * abs(x),
    "a place": lambda xp, y, x: 2 * x[...],
    "a dtype": lambda xp, y, x: xp.cast(2 * x, dtype=x.dtype),
    "a shape": lambda xp, y, x: xp.reshape(2 * x, shape=tuple(x.shape)),
    "a number of axes": lambda xp, y, x: x.ndim * 0 + 2 * x,
    "a condition": lambda xp, y, x: 2 * x * xp.where(xp.greater(x, 0), 1, 1),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_declaration_takes_runs_in_every_world(name: str) -> None:
    square(partials=WRITTEN[name])
    declare.mirror(REGISTRY["square_of_tests"], lambda x: x**2)
    op = REGISTRY["square_of_tests"].function
    for at in (3.0, np.array([3.0, -2.0]), np.array([3.0, -2.0], np.float32)):
        x = gtape.constant(at)
        with gtape.GradientTape() as outer:
            outer.watch(x)
            with gtape.GradientTape() as inner:
                inner.watch(x)
                y = op(x)
            slope = inner.gradient(y, x)
        np.testing.assert_array_equal(slope, 2 * np.asarray(at))
        np.testing.assert_array_equal(outer.gradient(slope, x), np.full(np.shape(at), 2.0))
        assert gtape.verify.check(op, at, order=2).verdict == "correct"
    assert gtape.verify.prove("square_of_tests").proved
    assert [str(s) for s in subjects(["square_of_tests"])] == ["square_of_tests"]


def test_a_power_by_an_operator_overflows_without_an_error() -> None:
    square(kernel=lambda x: x**3, partials=lambda xp, y, x: 3 * x**2)
    x = gtape.constant(1e200, gtape.float64)
    with gtape.GradientTape() as tape:
        tape.watch(x)
        y = REGISTRY["square_of_tests"].function(x)
    assert tape.gradient(y, x).numpy() == np.inf


def test_a_rule_of_arrays_takes_powers_and_magnitudes_by_operators() -> None:
    total(
        kernel=lambda x: (x * x).sum(axis=-1),
        vjp=(lambda xp, g, y, x: 2 * x**1 * g,),
        jvp=(lambda xp, t, y, x: xp.sum(2 * xp.sign(x) * abs(x) * t, axis=(0,), keepdims=False),),
        rounding=declare.growing(1),
    )
    declare.mirror(REGISTRY["total_of_tests"], lambda W, x: (x * x).sum(axis=-1))
    op = REGISTRY["total_of_tests"].function
    assert gtape.verify.check(op, np.array([1.0, -2.0, 0.0]), order=2).verdict == "correct"
    assert gtape.verify.prove("total_of_tests").proved


def test_exact_numbers_are_fine_in_rules() -> None:
    square(partials=lambda xp, y, x: (0.5 * x + x * 1.5) + 0 * xp.pi / 2 * (1.0 - xp.ln2))


@pytest.mark.parametrize(("lo", "hi"), [(2.0, 1.0), (float("nan"), 1.0), ("0", 1.0)])
def test_an_interval_has_its_ends_in_order(lo: Any, hi: float) -> None:
    with pytest.raises(ValueError, match="ends in order"):
        declare.Interval(lo, hi)


def test_a_mirror_is_a_function() -> None:
    with pytest.raises(ValueError, match="has to be a function, not 3"):
        declare.mirror(square(), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: declare.mirror(square(), lambda x, y: x), r"the mirror has to take \(x\), but takes \(x, y\)"),
        (lambda: declare.mirror(square(), lambda x: x, complex=lambda: 1), "the mirror for complex numbers has"),
        (lambda: declare.mirror(total(), lambda x: x), r"the mirror has to take \(W, x\), but takes \(x\)"),
        (lambda: declare.mirror(total(), lambda W, x: x, solved=lambda W, y: y), r"`solved` .* take \(W, y, x\)"),
    ],
)  # fmt: skip
def test_a_mirror_takes_the_arguments_of_its_op(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"the declaration of '.*_of_tests' .* is wrong: {words}"):
        make()


@pytest.mark.parametrize(
    ("mirror", "words"),
    [
        (lambda x: np.sin(x), "raises TypeError: loop of ufunc does not support"),
        (lambda x: x / 0 + 1 / 0, "raises ZeroDivisionError: division by zero"),
        (lambda x: x.squared(), "raises AttributeError"),
        (lambda x: None, "returns NoneType, not an expression"),
        (lambda x: "x**2", "returns str, not an expression"),
    ],
    ids=["NumPy", "zero", "attribute", "None", "text"],
)
def test_a_mirror_that_fails_is_named_with_its_line_by_every_check(mirror: Any, words: str) -> None:
    op = square()
    declare.mirror(op, mirror)
    said = rf"the mirror of square_of_tests \(.*test_declare\.py, line \d+\) {words}.*; a mirror is written with SymPy"
    with pytest.raises(ValueError, match=said):
        gtape.verify.check(op, 0.5)
    with pytest.raises(ValueError, match=said):
        gtape.verify.prove("square_of_tests")
    x = gtape.Variable(0.5)
    with pytest.raises(ValueError, match=said), gtape.GradientTape(verify=True) as tape:
        y = op(x)
        tape.gradient(y, x)


def test_a_mirror_of_arrays_that_fails_is_named_with_its_line() -> None:
    total()
    declare.mirror("total_of_tests", lambda W, x: W.sum(x + None, axis=(0,), keepdims=False))
    said = r"the mirror of total_of_tests \(.*, line \d+\) raises TypeError: .* written with the functions of W"
    with pytest.raises(ValueError, match=said):
        gtape.verify.check(REGISTRY["total_of_tests"].function, np.ones(3))
    with pytest.raises(ValueError, match=said):
        gtape.verify.prove("total_of_tests")


def test_a_mirror_of_another_shape_is_named() -> None:
    op = total()
    declare.mirror(op, lambda W, x: x)
    with pytest.raises(ValueError, match=r"mirror of 'total_of_tests' gives the shape \(3,\), and its kernel \(\)"):
        gtape.verify.check(op, np.array([1.0, 2.0, 4.0]))


def test_an_op_without_a_mirror_says_how_to_declare_one() -> None:
    square()
    words = r"square_of_tests has no mirror \(declare one with gtape\.declare\.mirror\('square_of_tests', f\)\)"
    with pytest.raises(ValueError, match=words):
        gtape.verify.prove("square_of_tests")
    finding = gtape.verify.check(REGISTRY["square_of_tests"], 3.0).findings[0]
    assert finding.verdict == "undecided" and finding.reason.startswith("square_of_tests has no mirror (declare one")


# ------------------------------------------------------------------------------------------------ calls by users


def test_a_parameter_that_is_left_out_gets_the_default_of_the_kernel() -> None:
    op = declare.elementwise(
        "power_of_tests", lambda x, *, n=2: x**n, lambda xp, y, x, *, n: n * x ** (n - 1),
        params=("n",), domain=declare.POSITIVE, ulps=2,
    )  # fmt: skip
    declare.mirror(op, lambda x, *, n: x**n)
    assert gtape.verify.prove("power_of_tests").proved
    for call, slope in ((op, 6.0), (lambda x: op(x, n=3), 27.0), (lambda x: op(x, 3), 27.0)):
        x = gtape.Variable(3.0)
        with gtape.GradientTape() as tape:
            y = call(x)
        assert float(tape.gradient(y, x)) == slope and gtape.verify.check(call, 3.0, order=2).ok
    rows = declare.linear(
        "scaled_of_tests", lambda x, *, w: x * w, lambda xp, g, x, *, w: g * w,
        params=("w",), rounding=declare.ulps(1), samples=((((3,),), {"w": 2}),),
    )  # fmt: skip
    assert rows([1.0, 2.0], 3).numpy().tolist() == [3.0, 6.0]
    with pytest.raises(TypeError, match=r"scaled_of_tests\(\) misses w"):
        rows([1.0, 2.0])


def test_several_outputs_an_argument_of_integers_and_a_domain() -> None:
    def kernel(x: Any, k: Any) -> Any:
        return np.log(x), np.take(x, k, axis=-1)

    op = declare.primitive(
        "logs_and_picks", kernel,
        vjp=(lambda xp, g, y, x, k: g[0] / x + xp.scatter(g[1], k, axis=-1, size=x.shape[-1]), None),
        jvp=(lambda xp, t, y, x, k: (t / x, xp.gather(t, k, axis=-1, size=x.shape[-1])), None),
        outputs=2, domain=declare.POSITIVE, rounding=declare.ulps(2), reads=((0, 1), ()),
        samples=((((3,), np.array([0, 2, 0])), {}),),
    )  # fmt: skip
    declare.mirror(op, lambda W, x, k: (W.log(x), x[..., k]))
    assert gtape.verify.prove("logs_and_picks").proved
    places = np.array([0, 2])

    def f(x: Any) -> Any:
        logs, picked = op(x, places)
        return gtape.reduce_sum(logs * logs) + gtape.reduce_sum(picked**3)

    for order in (1, 2):
        report = gtape.verify.check(f, np.array([0.5, 2.0, 4.0]), order=order)
        assert report.ok and report.verdict == "correct", report
    call = hypothesis.find(strategies.arguments("logs_and_picks"), lambda call: True)
    assert (call.arrays[0] > 0).all() and call.arrays[1].tolist() == [0, 2, 0]


@pytest.mark.parametrize(
    "interval",
    [declare.POSITIVE, declare.NONNEGATIVE, declare.OPEN_UNIT, declare.Interval(hi=-2.0), declare.Interval(5.0, 6.0)],
)
def test_numbers_are_folded_into_an_interval(interval: declare.Interval) -> None:
    x = np.array([0.0, -2.0, 1.0, -1.0, 0.25, 5.0, 1e3, -1e3])
    folded = interval.folded(x)
    assert all(v in interval for v in folded)
    assert all(v == u for v, u in zip(folded, x, strict=True) if u in interval and interval.lo < u < interval.hi)


def test_a_refused_declaration_leaves_the_one_before() -> None:
    kept = square()
    with pytest.raises(ValueError, match="not exact"):
        square(partials=lambda xp, y, x: 0.1 * x)
    assert REGISTRY["square_of_tests"] is kept and NUMPY.square_of_tests(3.0) == 9.0


# ------------------------------------------------------------------------------------------------ gtape's own


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_declarations_of_gtape_pass_the_same_checks(name: str) -> None:
    prim = REGISTRY[name]
    if prim.kind != "elementwise" or not prim.params:
        check(prim)
    else:  # with parameters that rules choose
        check(prim, [call for s in subjects() if s.prim is prim for call in calls_of(prim, s.params)])


def test_words_are_documented() -> None:
    for word in declare.__all__:
        value = getattr(declare, word)
        assert not callable(value) or (value.__doc__ or "").strip(), word
    used = {role for prim in REGISTRY.values() for role in prim.roles}
    assert used == set(ROLES)

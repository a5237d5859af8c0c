"""How findings print: plain lines, the user's places, a witness that runs; and what pytest shows of a traceback."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp

import gtape as tf
from gtape import declare
from gtape.verify import Finding, Report

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 100
HALF = 0.5


def helper(x: Any) -> Any:
    return x * HALF


@tf.custom_gradient
def halved_wrongly(x: Any) -> Any:  # the line of the function
    scale = np.float64(2.0)
    return helper(x) * scale, lambda g: g * HALF


lambda_wrong = tf.custom_gradient(lambda x: (tf.sin(x), lambda g: g * tf.sin(x)))


@tf.custom_gradient
def two_of_them(pair: Any, factor: Any = 1.0) -> Any:
    a, b = pair
    return a * b * factor, lambda g: (g * b * factor, g * b)


def made(factor: float) -> Any:
    return {"one": tf.custom_gradient(lambda x: (x * x,
                                                 lambda g: g * x * factor))}  # fmt: skip


def plain(x: Any) -> Any:
    return tf.square(x), lambda g: g * x


def decorated(f: Any) -> Any:
    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return wrapper


class Holder:
    __slots__ = ()

    @tf.custom_gradient
    def method(self, x: Any) -> Any:
        return x * x, lambda g: g * x


def counting() -> Any:
    calls = 0

    @tf.custom_gradient
    def counted(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x * x, lambda g: g * x

    return counted


@tf.custom_gradient
def loses_digits(x: Any) -> Any:
    y = tf.tanh(x)
    return y, lambda g: g * (1.0 - y * y)


def found(f: Any, *xs: Any, forward: bool = False) -> Finding:
    """The gravest finding about a function."""
    sources = [tf.Variable(x, dtype=tf.float64) for x in xs]
    with pytest.raises(tf.VerificationError) as error, contextlib.ExitStack() as stack:
        stack.enter_context(tf.verifying())
        if forward:
            acc = stack.enter_context(tf.autodiff.ForwardAccumulator(sources, [tf.ones_like(s) for s in sources]))
            acc.jvp(f(*sources))
        tape = stack.enter_context(tf.GradientTape())
        y = f(*sources)
        tape.gradient(y, sources)
    report: Report = error.value.report
    return min(report.findings, key=lambda f: f.gravity)


CASES: dict[str, Any] = {
    "a function": (halved_wrongly, [[1.0, 2.0]]),
    "a lambda": (lambda x: lambda_wrong(x) * 2.0, [1.0]),
    "a lambda in a call, with a constant from outside": (made(3.0)["one"], [2.0]),
    "a function that is wrapped later": (tf.custom_gradient(plain), [2.0]),
    "a custom gradient in another": (lambda x: tf.recompute_grad(lambda_wrong)(x), [2.0]),
    "nested arguments": (lambda a, b: two_of_them([a, b], factor=3.0), [1.5, 2.5]),
    "an unstable gradient": (lambda x: loses_digits(x) * 2.0, [17.0]),
    "rounding before an op": (lambda x: tf.math.log(1.0 - tf.sigmoid(x)), [40.0]),
    "long arrays": (halved_wrongly, [np.linspace(0.0, 1.0, 60).tolist()]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_witness_runs_as_printed(name: str) -> None:
    f, xs = CASES[name]
    finding = found(f, *xs)
    assert finding.witness is not None and finding.without_witness is None
    assert finding.witness.rstrip() in str(finding) and max(map(len, finding.witness.splitlines())) <= COLUMNS
    with pytest.raises(tf.VerificationError) as error:
        exec(finding.witness, {})
    assert error.value.report.verdict == finding.verdict


def test_a_witness_of_forward_mode_runs_as_printed() -> None:
    finding = found(lambda x: lambda_wrong(x), 1.0, forward=True)
    assert finding.witness is not None and "ForwardAccumulator" in finding.witness
    with pytest.raises(tf.VerificationError):
        exec(finding.witness, {})


def test_a_witness_of_a_second_derivative_runs_as_printed() -> None:
    @tf.custom_gradient
    def cubed(x: Any) -> Any:
        return x * x * x, lambda g: g * tf.stop_gradient(3.0 * x * x)

    report = tf.verify.check(cubed, 2.0, order=2)
    finding = next(f for f in report.findings if f.verdict == "rule")
    assert finding.witness is not None, finding
    with pytest.raises(tf.VerificationError):
        exec(finding.witness, {})


SCRIPT = """
import gtape as tf
from gtape import declare
THREE = 3
def _cube(x):
    return x * x * x
cube = declare.elementwise(
    "cube_of_script", _cube, lambda xp, y, x: THREE * x, domain=declare.ANY_REAL, ulps=1.0
)
declare.mirror(cube, lambda x: x**THREE)

@tf.custom_gradient
def wrong(x):
    return x * x, lambda g: g * x * THREE

for f in (cube, wrong):
    try:
        x = tf.Variable([2.0, 5.0])
        with tf.GradientTape(verify=True) as tape:
            y = f(x)
        tape.gradient(y, x)
    except tf.VerificationError as error:
        with open(f"{error.report.findings[0].op}.py", "w") as file:
            file.write(error.report.findings[0].witness)
"""


def run(folder: Path, *arguments: str) -> Any:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("GTAPE_VERIFY", None)
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )  # fmt: skip


@pytest.mark.slow
def test_a_witness_about_a_script_needs_no_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    done = run(tmp_path, "script.py")
    assert done.returncode == 0, done.stderr
    (tmp_path / "script.py").unlink()
    (tmp_path / "both.py").write_text(
        "import gtape, runpy\n"
        "for name in ('cube_of_script', 'wrong'):\n"
        "    try:\n"
        "        runpy.run_path(f'{name}.py')\n"
        "    except gtape.VerificationError as error:\n"
        "        print(error.report.verdict, error.report.findings[0].op)\n",
        encoding="utf-8",
    )
    done = run(tmp_path, "both.py")
    assert done.stdout == "rule cube_of_script\nrule wrong\n", done.stderr


SURROUNDINGS = """
import dataclasses
import enum
import functools
import typing
import numpy as np
import gtape as tf
if typing.TYPE_CHECKING:
    from nowhere import Nothing
T = tf.Tensor
class Mode(enum.Enum):
    A = 1.0
class Whole(enum.IntEnum):
    ONE = 1
@dataclasses.dataclass(frozen=True)
class Scales:
    a: float
    mode: Mode = Mode.A
    most: typing.ClassVar[int] = 3
class Pair(typing.NamedTuple):
    a: float
    b: "Nothing | None" = None
class Model:
    def __init__(self):
        self.k, self.w = 1.0, tf.Variable([1.0, 2.0], dtype=tf.float64)
        self.file = open(__file__)
    def inner(self):
        @tf.custom_gradient
        def bad(x: T) -> T:
            return x * x * self.k * self.scale(), lambda g: g * x
        return bad
    def scale(self):
        return 1.0
    @tf.custom_gradient
    def method(self, x):
        return x * x * self.k, lambda g: g * x
class Layer(tf.keras.layers.Layer):
    def __init__(self, **words):
        super().__init__(**words)
        self.k = 1.0
    def call(self, x):
        @tf.custom_gradient
        def bad(x):
            return x * x * self.k, lambda g: g * x
        return bad(x)
class Called:
    def __call__(self, x):
        return x * x, lambda g: g * x
def partly(k, x):
    return x * x * k, lambda g: g * x
def reading(value, get):
    @tf.custom_gradient
    def bad(x):
        return x * x * get(value), lambda g: g * x
    return bad
def local_annotations():
    U = tf.Tensor
    @tf.custom_gradient
    def bad(x: U) -> U:
        def grad(g: U) -> T:
            y: U = g * x
            return y
        return x * x, grad
    return bad
def named_xs():
    @tf.custom_gradient
    def xs(x):
        return x * x, lambda g: g * x
    return xs
def named_tape():
    return tf.custom_gradient(lambda x, tape=tf.float64: (x * tf.cast(x, tape), lambda g: g * x))
def named_gtape():
    @tf.custom_gradient
    def gtape(x, np=T):
        return x * x, lambda g: g * x
    return gtape
def reading_taken_names():
    xs, tape, gtape, y, v3 = 1.0, 2.0, 0.5, (lambda v: v), 1.0
    @tf.custom_gradient
    def bad(x):
        return y(x * x * xs * tape * gtape * v3), lambda g: g * x
    return bad
def defaults():
    k = 1.0
    @tf.custom_gradient
    def bad(x, mode=Mode.A, *, whole=Whole.ONE, f=lambda v: v * k):
        return x * f(x) * mode.value * whole, lambda g: g * x
    return bad
def importing():
    import math
    from math import cos
    from gtape import math as of_tensors
    @tf.custom_gradient
    def bad(x):
        return of_tensors.square(x) * math.exp(0.0) * cos(0.0), lambda g: g * x
    return bad
def two_of_a_name():
    first, second = reading(1.0, lambda a: a), reading([2.0], lambda a: a[0])
    @tf.custom_gradient
    def both(x):
        return first(x) * second(x), lambda g: g * x
    return both
cases = {
    "methods": Model().inner(), "bound": Model().method, "list": reading([1.0], lambda a: a[0]),
    "dict": reading({"a": (1.0,)}, lambda a: a["a"][0]), "set": reading({1.0}, max),
    "object": tf.custom_gradient(Called()),
    "dataclass": reading(Scales(1.0), lambda s: s.a * s.mode.value), "tuple": reading(Pair(1.0), lambda p: p.a),
    "nested": reading({"a": [Scales(1.0), Mode.A]}, lambda d: d["a"][0].a), "defaults": defaults(),
    "partial": tf.custom_gradient(functools.partial(partly, 1.0)), "local annotations": local_annotations(),
    "xs": named_xs(), "tape": named_tape(), "gtape": named_gtape(), "taken": reading_taken_names(),
    "imports": importing(), "two": two_of_a_name(), "layer": Layer(dtype="float64"),
}
for name, f in cases.items():
    finding = tf.verify.check(lambda x: tf.sin(f(x)), np.array([1.0, 2.0])).findings[0]
    print(name, finding.op, finding.without_witness)
    with open(name + "_.py", "w") as file:
        file.write(finding.witness or "")
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "from __future__ import annotations\n"])
def test_a_witness_writes_down_what_surrounds_its_custom_gradient(first: str, tmp_path: Path) -> None:
    source = SURROUNDINGS if first else SURROUNDINGS.replace("Nothing | None", "float")
    (tmp_path / "script.py").write_text(first + source, encoding="utf-8")
    done = run(tmp_path, "script.py")
    assert done.returncode == 0, done.stderr
    said = {line.rsplit(" ", 2)[0]: line.rsplit(" ", 2)[1:] for line in done.stdout.splitlines()}
    assert {name: why for name, (_, why) in said.items() if why != "None"} == {}
    assert (said["object"][0], said["partial"][0]) == ("Called", "partly")
    (tmp_path / "script.py").unlink()
    (tmp_path / "all.py").write_text(
        "import glob, gtape, runpy\n"
        "for name in glob.glob('*_.py'):\n"
        "    try:\n"
        "        runpy.run_path(name, run_name='__main__')\n"
        "    except gtape.VerificationError as error:\n"
        "        print(name)\n",
        encoding="utf-8",
    )
    done = run(tmp_path, "all.py")
    assert sorted(done.stdout.splitlines()) == sorted(f"{name}_.py" for name in said), done.stderr


def test_a_finding_names_what_cannot_be_written_down() -> None:
    lock = threading.Lock()

    @tf.custom_gradient
    def bad(x: Any) -> Any:
        with lock:
            return x * x, lambda g: g * x

    assert found(bad, 3.0).without_witness == "bad depends on its surroundings: lock cannot be written down"
    itself: list[Any] = []
    itself.append(itself)

    @tf.custom_gradient
    def worse(x: Any) -> Any:
        return x * x * len(itself), lambda g: g * x

    assert "itself cannot be written down" in (found(worse, 3.0).without_witness or "")


def test_writing_a_witness_runs_no_users_registration() -> None:
    made = []

    class Base:
        def __init_subclass__(cls) -> None:
            made.append(cls)

    class Derived(Base):
        k = 1.0

    derived = Derived()

    @tf.custom_gradient
    def bad(x: Any) -> Any:
        return x * x * derived.k, lambda g: g * x

    assert "derived cannot be written down" in (found(bad, 3.0).without_witness or "") and made == [Derived]


def test_a_finding_without_a_witness_says_why() -> None:
    names: dict[str, Any] = {"tf": tf}
    exec("@tf.custom_gradient\ndef nowhere(x):\n    return x * x, lambda g: g * x", names)
    finding = found(lambda x: names["nowhere"](x), 3.0)
    assert finding.witness is None and "the source of nowhere is unknown" in str(finding)
    assert "belongs to an object" in (found(Holder().method, 3.0).without_witness or "")
    assert "depends on its surroundings" in (found(counting(), 3.0).without_witness or "")
    large = np.ones((30, 30)) + np.eye(30)

    @tf.custom_gradient
    def squared(a: Any) -> Any:
        return tf.matmul(a, a), lambda g: g

    assert "too large to be written down" in (found(squared, large).without_witness or "")


def test_a_custom_gradient_is_found_at_its_own_line() -> None:
    finding = found(lambda x: halved_wrongly(x), 1.0)
    assert finding.defined is not None and finding.line is not None
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert finding.defined[0] == __file__ and "the line of the function" in source[finding.defined[1] - 1]
    assert finding.line[:2] != finding.defined[:2]
    assert f"{__file__}:{finding.defined[1]} in halved_wrongly,\n" in str(finding)
    defined = found(lambda x: lambda_wrong(x), 1.0).defined
    assert defined is not None and source[defined[1] - 1].startswith("lambda_wrong = ")


def test_a_custom_gradient_over_another_decorator_is_found_at_its_own_line() -> None:
    @tf.custom_gradient
    @decorated
    def bad(x: Any) -> Any:  # the line of the decorated function
        return x * x, lambda g: g * x

    finding = found(lambda x: bad(x), 1.0)
    assert finding.op == "bad" and finding.defined is not None and finding.defined[2] == "bad"
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert "the line of the decorated function" in source[finding.defined[1] - 1]


def test_a_custom_gradient_is_named_after_its_object_or_partial_function() -> None:
    class Squaring:
        def __call__(self, x: Any) -> Any:
            return x * x, lambda g: g * x

    def scaled(factor: float, x: Any) -> Any:
        return factor * x * x, lambda g: g * x

    of_partial = functools.partial(functools.partial(scaled), 1.0)
    assert found(tf.custom_gradient(Squaring()), 1.0).op == "Squaring"
    assert found(tf.custom_gradient(of_partial), 1.0).op == "scaled"


def test_the_lines_of_a_finding() -> None:
    finding = found(lambda x: halved_wrongly(x), 2.0)
    lines = str(finding).split("\n")
    labels = [line[:11].strip() for line in lines[: lines.index("  witness") + 1] if line[2] != " "]
    assert labels == ["rule (order", "got", "exact", "digits", "line", "why", "instead", "witness"]
    assert lines[0] == "rule (order 1), op halved_wrongly, source 0, element []"
    assert lines[1:3] == ["  got      0.5", "  exact    1.000000000000000000000000000000000000000"]
    assert lines[3] == "  digits   0 right, 2.25e+15 ULP off"
    assert "declared='...'" in (finding.instead or "")
    assert max(map(len, str(finding).split("\n"))) <= max(COLUMNS, len(__file__) + 40)
    assert all(c.isprintable() or c == "\n" for c in str(finding)) and "\x1b" not in str(finding)


def test_an_op_of_a_rule_is_told_by_the_op_of_the_user() -> None:
    def root(x: Any) -> Any:
        return tf.sqrt(x)

    report = tf.verify.check(root, 0.0, order=3)
    line = (__file__, root.__code__.co_firstlineno + 1, "root")
    assert {(f.order, f.rule_of, f.line) for f in report.findings} == {
        (1, None, line),
        (2, "sqrt", line),
        (3, "sqrt", line),
    }
    assert "op sqrt_slope in the derivative of sqrt" in str(report)


def test_a_stable_formula_is_printed_once() -> None:
    text = str(found(lambda x: tf.math.log(1.0 - tf.sigmoid(x)), 40.0))
    assert text.count("log_sigmoid") == 1 and "\n  instead  log(1 - sigmoid(x)) is gtape.math.log_sigmoid(-x)\n" in text


def test_an_op_of_others_names_its_declaration() -> None:
    op = declare.elementwise(
        "doubled_of_findings", lambda x: x + x, lambda xp, y, x: 3 + 0 * x, domain=declare.ANY_REAL, ulps=1.0
    )
    declare.mirror(op, lambda x: 2 * x)
    text = str(found(lambda x: op(x), 1.5))
    assert "correct the rule in the declaration of 'doubled_of_findings'" in " ".join(text.split())


def test_a_mirror_of_another_function_is_named() -> None:
    op = declare.elementwise(
        "tripled_of_findings", lambda x: x + x + x, lambda xp, y, x: 3 + 0 * x, domain=declare.ANY_REAL, ulps=1.0
    )
    declare.mirror(op, lambda x: 2 * x)
    words = "the mirror gives 3 and the kernel 4.5 at one point: correct one of them in the declaration of 'tripled_"
    assert words in " ".join(str(found(lambda x: op(x), 1.5)).split())


def test_a_rule_that_divides_a_number_by_zero_raises_no_error_in_words() -> None:
    root = declare.elementwise(
        "root_of_findings", np.sqrt, lambda xp, y, x: 1 / (2 * y), domain=declare.NONNEGATIVE, ulps=1.0
    )
    declare.mirror(root, sp.sqrt)
    made = found(lambda x: tf.exp(root(x) / 10) * x, 0.0)
    text = " ".join(str(made).split())
    assert made.verdict == "domain" and "the derivative of root_of_findings(0.0) is inf" in text
    assert "ZeroDivisionError" not in text


def test_findings_and_reports_show_in_notebooks_with_markup_escaped() -> None:
    finding = Finding("rule", op="<b>", reason="a < b & c", line=("<script>", 1, "<f>"))
    for shown in (finding._repr_html_(), Report([finding])._repr_html_()):
        assert shown.startswith("<pre>") and shown.endswith("</pre>")
        inner = shown.removeprefix("<pre>").removesuffix("</pre>")
        assert "<" not in inner and "&lt;script&gt;" in inner and "a &lt; b &amp; c" in inner


def test_long_reasons_are_wrapped() -> None:
    text = str(Finding("undecided", reason="word " * 100, order=2))
    assert max(map(len, text.split("\n"))) <= COLUMNS and text.count("word") == 100


TEST = """
import gtape as tf

@tf.custom_gradient
def wrong(x):
    return x * x, lambda g: g * x

def test_gradient():
    x = tf.Variable(3.0)
    with tf.GradientTape(verify=True) as tape:
        y = wrong(x)
    tape.gradient(y, x)

def test_report():
    tf.verify.check(wrong, 3.0).raise_if_failed()
"""


def test_pytest_shows_the_users_frames_alone(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(TEST, encoding="utf-8")
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_theirs.py")
    assert "2 failed" in done.stdout, done.stdout
    assert ">       tape.gradient(y, x)\n" in done.stdout and "raise_if_failed()" in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.startswith(("gtape/", "verify/", str(ROOT)))]
    assert "def raise_if_failed" not in done.stdout and "def gradient" not in done.stdout


def test_frames_of_gtape_are_marked_for_ipython() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape(verify=True) as tape:
        y = halved_wrongly(x)
    try:
        tape.gradient(y, x)
    except tf.VerificationError as error:
        entry = error.__traceback__
    seen = []
    while entry is not None:
        seen.append((entry.tb_frame.f_code.co_filename, bool(entry.tb_frame.f_locals.get("__tracebackhide__"))))
        entry = entry.tb_next
    assert len(seen) > 2 and seen[0] == (__file__, False)
    assert all(hidden for _, hidden in seen[1:])


def test_only_roundings_that_grow_are_said_to_grow() -> None:
    def said(condition: float) -> str:
        return str(Finding("conditioning", got=1.0, exact=1.0, ulps=5.0, condition=condition))

    assert "rounding grows 26 times" in said(26.0)
    assert all("grows" not in said(condition) for condition in (0.0, 0.4, float("inf"), float("nan")))


@tf.custom_gradient
def without_a_term(x: Any) -> Any:
    return x * tf.sin(x), lambda g: g * x * tf.cos(x)


@tf.custom_gradient
def without_another(x: Any) -> Any:
    return x * tf.exp(x), lambda g: g * tf.exp(x)


@pytest.mark.parametrize("how", ["jacobian", "batch_jacobian"])
def test_one_fault_in_many_rows_is_one_finding_that_describes_the_worst_element(how: str) -> None:
    x = tf.constant(np.linspace(0.3, 2.0, 12).reshape(4, 3))
    for f, ops in ((without_a_term, 1), (lambda x: without_a_term(x) + without_another(x), 2)):
        with tf.GradientTape(verify=True) as tape:
            tape.watch(x)
            y = f(x)
        with pytest.raises(tf.VerificationError) as raised:
            getattr(tape, how)(y, x)
        findings = raised.value.report.findings
        assert [(g.verdict, g.count) for g in findings] == [("rule", 12)] * ops
        assert len({g.op for g in findings}) == ops and all(
            "relative error" in g.reason and g.element[0] == 0 for g in findings
        )


def test_reasons_that_differ_in_numbers_alone_have_one_cause() -> None:
    def found(reason: str, place: int, ulps: float) -> Finding:
        return Finding("rule", op="f", element=(0, (place,)), ulps=ulps, reason=reason)

    report = Report()
    for place, error in enumerate(("0.34", "1", "2.5e-17", "inf", "nan")):
        row = found(f"the rule of f2 is wrong (relative error {error})", place, float(place))
        report.extend(Report(findings=[row]))
    report.extend(Report(findings=[found("the rule of f3 is wrong (relative error 1)", 0, 9.0)]))
    assert [(g.count, g.element) for g in report.findings] == [(5, (0, (4,))), (1, (0, (0,)))]
    assert "error nan" in report.findings[0].reason


def test_a_fault_without_an_element_is_told_once() -> None:
    report = Report()
    for error in (0.5, 0.25):
        report.extend(Report(findings=[Finding("rule", op="f", reason=f"wrong (relative error {error})")]))
    report.extend(Report(findings=[Finding("rule", op="f", reason="wrong in another way")]))
    assert [g.reason for g in report.findings] == ["wrong (relative error 0.5)", "wrong in another way"]

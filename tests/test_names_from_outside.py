"""Names of functions, variables and files may hold anything: what gtape prints, raises, draws, writes stays its own."""

from __future__ import annotations

import html.parser
import io
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.base.escaping import json_data, mermaid_text, plain, plain_lines, rich_text
from gtape.declare.primitives import elementwise
from gtape.verify.command import cli, output
from gtape.verify.verdicts.verdict import Finding, Report

HOSTILE = [
    "[red]x[/red]",
    ":skull: [link=http://x]x[/link]",
    "\x1b[31m",
    "\x9b31m\x07\x08",
    "a\rb\nc\tFINE",
    "two\u2028lines\u2029or\x85more",
    '"]; click A "javascript:alert(1)"',
    "]\n  click v0 call x()",
    "%%{init: {}}%%",
    "`**bold**`",
    "#quot;&quot;",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    r"$\input{/etc/passwd}$",
    r"\end{document}^_&%#~{}",
    "\u202etxt.exe\u2066",
    "\ufeffzero\u200bwidth",
    "half \ud800 \udfff",
    "nul\0",
]
hostile = pytest.mark.parametrize("name", HOSTILE, ids=[str(i) for i in range(len(HOSTILE))])


def harmless(text: str) -> None:
    """Nothing in a text moves, colours or reorders anything, and every encoding has it."""
    text.encode("utf-8")
    assert all(c.isprintable() or c == "\n" for c in text), ascii(text)


def wrong(name: str) -> Any:
    """A function whose gradient is wrong, under a name."""

    def f(x: Any) -> Any:
        return x * x, lambda g: g * x

    f.__name__ = name
    return tf.custom_gradient(f)


def failed(name: str) -> Report:
    v = tf.Variable([1.0, 2.0], name=name)
    with pytest.raises(tf.VerificationError) as e, tf.GradientTape(verify=True) as tape:
        y = wrong(name)(v)
        tape.gradient(y, v)
    harmless(str(e.value))
    assert plain(name) in str(e.value) and e.value.report.verdict == "rule"
    report: Report = e.value.report
    return report


@hostile
def test_reports_and_findings_print_names_on_one_line(name: str) -> None:
    report = failed(name)
    for text in (str(report), repr(report), report.summary(), *map(str, report.findings), *map(repr, report.findings)):
        harmless(text)
    lines = str(Finding("rule", op=name, line=(name, 1, name), reason="why")).split("\n")
    assert [line[:10].strip() for line in lines] == ["rule (orde", "line", "why"]


@hostile
def test_reports_are_json_for_strict_readers(name: str) -> None:
    report = failed(name)
    for finding in report.findings:
        finding.op, finding.source, finding.line, finding.reason = name, name, (name, 1, name), name
    text = json.dumps(report.as_dict(), allow_nan=False, ensure_ascii=False)
    text.encode("utf-8")  # a half of a character would not
    assert json.loads(text)["findings"][0]["op"] == json_data(name)


@hostile
def test_undecided_gradients_warn_in_plain_words(name: str) -> None:
    def f(x: Any) -> Any:
        y = tf.constant(x.numpy() ** 2)
        return y, lambda g: g * 2.0 * x

    f.__name__ = name
    x = tf.Variable(3.0, name=name)
    with warnings.catch_warnings(record=True) as seen, tf.GradientTape(verify=True) as tape:
        warnings.simplefilter("always")
        tape.gradient(tf.custom_gradient(f)(x), x)
    assert seen
    for w in seen:
        harmless(str(w.message))


@hostile
def test_explanations_are_plain(name: str) -> None:
    x, still = tf.Variable([1.0, 2.0], name=name), tf.Variable(1.0, name=name, trainable=False)

    def f(x: Any) -> Any:
        return x * x, lambda g: g * x * 0.0

    f.__name__ = name
    with tf.GradientTape(persistent=True, verify=True) as tape:
        y = tf.custom_gradient(f)(x)
        z = tf.floor(y) * 1.0
    for target, source in ((y, x), (z, x), (y, still), ([y, z], [x, still])):
        harmless(tape.explain(target, source))


def test_an_explanation_names_source_files_plainly() -> None:
    source = "def \N{GREEK SMALL LETTER MU}(v):\n    return tf.floor(v) * v * 0.0\n"
    made: dict[str, Any] = {"tf": tf}
    exec(compile(source, "\x1b[31m/\u202eyp.elif", "exec"), made)
    x = tf.Variable(1.5)
    with tf.GradientTape(persistent=True, verify=True) as tape:
        y = tf.floor(made["μ"](x) + x)
    text = tape.explain(y, x)
    assert r"\x1b[31m/\u202eyp.elif" in text or "test_names" in text
    with tf.GradientTape(persistent=True, verify=True) as tape:
        z = made["μ"](x)
    text = tape.explain(z, x)
    harmless(text)
    assert r"\x1b[31m/\u202eyp.elif:2 in μ" in text


@hostile
def test_reprs_show_names_as_python_would(name: str) -> None:
    v = tf.Variable(1.0, name=name)
    assert repr(f"{name}:0") in repr(v)
    harmless(repr(v))
    harmless(str(v))

    def f(x: Any) -> Any:
        return x

    f.__name__ = name
    harmless(repr(tf.function(f)))
    harmless(repr(tf.keras.metrics.Mean(name=name)))
    harmless(repr(tf.keras.Input((2,), name=name.replace("/", "|"))))
    harmless(repr(tf.constant(name.encode("utf-8", "replace"))))


def test_ordinary_names_stay_as_they_are() -> None:
    v = tf.Variable(1.0, name="encoder/größe_1")
    assert repr(v) == "<gtape.Variable 'encoder/größe_1:0' shape=() dtype=float32, numpy=1.0>"
    assert plain("encoder/größe_1:0") == "encoder/größe_1:0"


@hostile
def test_errors_are_plain(name: str) -> None:
    v = tf.Variable([1.0, 2.0], name=name)

    def f(x: Any) -> Any:
        return x

    def reads(x: Any) -> Any:
        return x * v, lambda g: g

    for g in (f, reads):
        g.__name__ = name
    layer = tf.keras.layers.Dense(1, name=name.replace("/", "|"))
    layer(tf.ones([1, 2]))
    odd = type("Odd", (), {"__repr__": lambda self: name})()
    doors: list[Callable[[], Any]] = [
        lambda: v.assign([1.0]),
        lambda: v.assign(tf.constant([1, 2])),
        lambda: v.scatter_nd_update([[7]], [1.0]),
        lambda: tf.custom_gradient(f)(1.0),
        lambda: tf.custom_gradient(reads)(tf.constant(1.0)),
        lambda: tf.keras.optimizers.SGD().apply_gradients([(tf.ones([3]), v)]),
        lambda: tf.keras.optimizers.SGD().apply_gradients([(None, v)]),
        lambda: tf.Variable(1.0, name=name, synchronization="no"),
        lambda: layer(tf.ones([1, 3])),
        lambda: layer.set_weights([]),
        lambda: tf.function(f, input_signature=[tf.TensorSpec([2])])(tf.ones([3])),
        lambda: tf.function(f, input_signature=[tf.TensorSpec([2])])(1.0, 2.0),
        lambda: tf.train.load_variable(name, name),
        lambda: tf.train.Checkpoint().restore(name),
        lambda: tf.keras.Sequential([]).load_weights(name),
        lambda: tf.keras.Sequential([]).get_layer(name),
        lambda: tf.Module(name=name),
        lambda: np.frompyfunc(f, 1, 1)(v),
        lambda: tf.keras.Sequential([layer]).fit({name: tf.ones([2, 2])}, tf.ones([3, 1])),
        lambda: elementwise(name, None, ()),  # type: ignore[arg-type]
        lambda: tf.GradientTape().watch(name),  # type: ignore[arg-type]
        lambda: tf.constant(odd),
        lambda: tf.keras.layers.Dense(odd),  # type: ignore[arg-type]
        lambda: tf.keras.layers.Add.from_config({name: 1}),
    ]
    for i, door in enumerate(doors):
        with pytest.raises(Exception) as e:
            door()
        assert not isinstance(e.value, (UnicodeError, pytest.fail.Exception)), i
        harmless(str(e.value))


@hostile
def test_concrete_functions_have_names_in_bytes(name: str) -> None:
    def f(x: Any) -> Any:
        return x

    f.__name__ = name
    concrete = tf.function(f).get_concrete_function(tf.TensorSpec([2]))
    harmless(concrete.name.decode())


@hostile
def test_models_and_training_print_plain_lines(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = name.replace("/", "|")
    metric = tf.keras.metrics.MeanSquaredError(name=name)
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1, name=name)])
    model.compile("sgd", "mse", metrics=[metric])
    model.fit(tf.ones([2, 2]), tf.ones([2, 1]), verbose=1)
    model.evaluate(tf.ones([2, 2]), tf.ones([2, 1]), verbose=1)
    model.summary(line_length=400)
    out = capsys.readouterr().out
    harmless(out)
    assert plain(name) in out


# ---------------------------------------------------------------------------------------------- diagrams, formulas

NODE = re.compile(r'  v\d+(?:\(\["([^"]*)"\]\)|\[\["([^"]*)"\]\]|\["([^"]*)"\]|\{\{"([^"]*)"\}\})')
EDGE = re.compile(r"  v\d+ --> v\d+")


@hostile
def test_diagrams_hold_names_as_labels_only(name: str) -> None:
    program = tf.symbolic.trace(lambda x: wrong(name)(x) * 2.0, tf.constant([1.0, 2.0]))
    head, *lines = program.to_mermaid().split("\n")
    assert head == "flowchart TD"
    labels = []
    for line in lines:
        found = NODE.fullmatch(line)
        assert found or EDGE.fullmatch(line), line
        if found:
            labels.append(next(g for g in found.groups() if g is not None))
    for label in labels:
        harmless(label)
        assert not re.search("[<>`%&\\\\$]", label)
        assert not re.search(r"#(?!\d+;)|(?<!\d);", label), "no entities but ours"
    meant = [re.sub(r"#(\d+);", lambda m: chr(int(m[1])), label) for label in labels]
    assert plain(name) in meant


@hostile
def test_diagrams_put_into_pages_add_no_tags(name: str) -> None:
    program = tf.symbolic.trace(lambda x: wrong(name)(x) * 2.0, tf.constant([1.0, 2.0]))
    tags: list[tuple[str, Any]] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            tags.append((tag, attrs))

    text = re.sub(r" --> ", " --&gt; ", program.to_mermaid())
    Reader().feed(f'<pre class="mermaid">{text}</pre>')
    assert tags == [("pre", [("class", "mermaid")])]


@hostile
def test_formulas_and_listings_hold_no_names_of_customs_raw(name: str) -> None:
    program = tf.symbolic.trace(lambda x: wrong(name)(x) * 2.0, tf.constant([1.0, 2.0]))
    assert program.latex() == r"\left[\begin{matrix}2 x_{0 0}^{2} & 2 x_{0 1}^{2}\end{matrix}\right]"
    for text in (str(program), *map(repr, program.nodes)):
        harmless(text)


# ---------------------------------------------------------------------------------------------- the command line


@hostile
@pytest.mark.parametrize("width", [20, 1000])
def test_tables_show_names_without_markup(
    name: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    output.show_table(name, ("op", "verdict"), [(name, name)], [True])
    out = capsys.readouterr().out
    harmless(out)
    if width == 1000:
        assert out.count(plain(name)) >= 2


@hostile
def test_tables_on_terminals_too_narrow_for_them_are_plain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    for key, value in (("COLUMNS", "10"), ("TERM", "dumb")):
        monkeypatch.setenv(key, value)
    output.show_table(name, ("op", "verdict"), [(name, name)], [True])
    harmless(terminal.getvalue())


@hostile
def test_json_files_are_json_for_strict_readers(name: str, tmp_path: Path) -> None:
    output.write_json(str(tmp_path / "x.json"), {name: [name, (name, 1)]})
    found = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    found_again = json.dumps(found, ensure_ascii=False).encode("utf-8")  # a half of a character would not do
    assert json.loads(found_again) == {json_data(name): [json_data(name), [json_data(name), 1]]}


@hostile
@pytest.mark.parametrize("words", [["prove"], ["prove", "sin", "--json"], ["verify", "--points"], []])
def test_wrong_words_are_said_plainly(name: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    given = f"/no/folder/{name}" if words[-1:] == ["--json"] else name
    if "\0" in given:
        given = given.replace("\0", "")  # no word of a command line holds it
    assert cli.main([*words, given]) == 2
    said = capsys.readouterr()
    harmless(said.err)
    harmless(said.out)
    assert said.err


# ---------------------------------------------------------------------------------------------- one function a target


@hostile
def test_what_is_escaped_can_be_read_back(name: str) -> None:
    harmless(plain(name))
    assert "\n" not in plain(name)
    assert plain_lines(name).split("\n") == [plain(line) for line in name.split("\n")]
    assert rich_text(name).plain == plain(name) and not rich_text(name).spans
    assert re.sub(r"#(\d+);", lambda m: chr(int(m[1])), mermaid_text(name)) == plain(name)
    assert json_data(name).encode("utf-8")

"""Proofs: every rule is proved, and planted faults are refuted by a counterexample that runs."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sympy as sp
from campaigns import LARGE

from gtape.base.layout import make_layout
from gtape.declare.primitives import REGISTRY, implicit
from gtape.declare.rounding import stable
from gtape.engine.rules import RuleStep, cotangents
from gtape.namespaces import catalogue
from gtape.symbolic.mirrors.registry import ARRAYS, PARAMETRISED
from gtape.verify.proofs import proof_normal
from gtape.verify.proofs.proof import prove
from gtape.verify.proofs.proof_cells import Setting, boxed, breakpoints, settings
from gtape.verify.proofs.proof_rules import Cell

catalogue.load()
x, y = sp.symbols("x y", real=True)
p, q = sp.symbols("p q", positive=True)


# ---------------------------------------------------------------------------------------------- every rule

DIFFERENTIABLE = sorted(name for name, prim in REGISTRY.items() if prim.differentiable)


# `gtape verify` proves all, so the usual run takes each sixth.
@pytest.mark.parametrize("name", DIFFERENTIABLE if LARGE else DIFFERENTIABLE[::6])
def test_every_rule_is_proved(name: str) -> None:
    proof = prove(name)
    assert proof.counterexample is None, proof.counterexample
    assert proof.proved, [c for c in proof.cases if not c.proved] or proof.unseen
    prim = REGISTRY[name]
    for i in range(len(proof.cases[0].shapes)):
        if prim.connected(i) and (prim.kind == "elementwise" or prim.arity == -1):
            assert {c.direction for c in proof.cases if c.argument == i} == {"vjp", "jvp"}


def test_kinked_ops_are_proved_on_every_open_cell() -> None:
    cells = {frozenset(c.cell) for c in prove("relu6").cases if c.shapes == ((),)}
    assert len(cells) == 3
    assert len({c.cell for c in prove("clip_by_value").cases if c.shapes == ((), (), ())}) >= 4


@pytest.mark.slow
def test_no_kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a kernel ran")

    for prim in REGISTRY.values():
        monkeypatch.setattr(prim, "kernel", refuse)
    for name in ("multiply", "tanh", "maximum", "sum", "softmax", "cholesky", "concat"):
        assert prove(name).proved


@pytest.mark.parametrize(("name", "what"), [("no_such_op", "no primitive"), ("floor", "not differentiable")])
def test_names_that_cannot_be_proved(name: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        prove(name)


# ---------------------------------------------------------------------------------------------- planted faults


def _plant(monkeypatch: pytest.MonkeyPatch, name: str, **rules: Any) -> None:
    """Put other rules in the place of a primitive's, for one test."""
    prim = REGISTRY[name]
    for slot, entries in rules.items():
        monkeypatch.setattr(prim, slot, entries)


Partials = tuple[Any, ...]
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a factor dropped": ("tanh", {"partials": (lambda xp, y, x: 1 - y,)}),
    "a sign flipped": ("cos", {"partials": (lambda xp, y, x: xp.sin(x),)}),
    "arguments swapped": ("multiply", {"partials": (lambda xp, y, a, b: a, lambda xp, y, a, b: b)}),
    "one sign of two": ("subtract", {"partials": (1, 1)}),
    "a constant factor": ("square", {"partials": (lambda xp, y, x: x,)}),
    "the cotangent ignored": ("matmul", {"vjp": (lambda xp, g, y, a, b: a, lambda xp, g, y, a, b: b)}),
    "wrong in one branch": ("relu6", {"partials": (lambda xp, y, x: xp.sign(xp.relu(x)),)}),
    "wrong for negative arguments": (
        "log1p",
        {"partials": (lambda xp, y, x: xp.sqrt(xp.square(1 / (1 + x))) * xp.sign(x),)},
    ),
    "right at ones": ("divide", {"partials": (lambda xp, y, a, b: 1 / b, lambda xp, y, a, b: -a / b)}),
    "a wrong jvp": (
        "matmul",
        {"jvp": (lambda xp, t, y, a, b: xp.matmul(t, b), lambda xp, t, y, a, b: -xp.matmul(a, t))},
    ),
    "a factorisation": (
        "solve",
        {
            "vjp": (
                lambda xp, g, y, a, b: xp.matmul(xp.solve(xp.swap_last(a), g), xp.swap_last(y)),
                lambda xp, g, y, a, b: xp.solve(xp.swap_last(a), g),
            )
        },
    ),
    "half of a sum": ("softmax", {"vjp": (lambda xp, g, y, x, *, axis: g * y,)}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_refuted(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    name, rules = FAULTS[fault]
    assert prove(name).proved
    _plant(monkeypatch, name, **rules)
    proof = prove(name)
    assert not proof.proved and not proof.certified
    assert proof.counterexample is not None
    assert "gtape.Tensor" in _printed(proof.counterexample)


def test_the_counterexample_shows_the_wrong_number(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, "square", partials=(lambda xp, y, x: 3 * x,))
    source = prove("square").counterexample
    assert source is not None
    words = source.split("gives ")[1].split()
    wrong, right = float(words[0]), float(source.splitlines()[0].split()[-1])
    assert wrong == pytest.approx(1.5 * right)
    assert f"{wrong:.6g}"[:6] in _printed(source)


@pytest.mark.parametrize("name, partial", [
    ("square", lambda xp, y, x: 2 * xp.stop_gradient(x)),
    ("abs", lambda xp, y, x: xp.sign(x) + x - xp.stop_gradient(x)),
])  # fmt: skip
def test_a_rule_whose_own_derivative_is_stopped_is_refuted(
    monkeypatch: pytest.MonkeyPatch, name: str, partial: Any
) -> None:
    _plant(monkeypatch, name, partials=(partial,))
    proof = prove(name)
    assert not proof.proved and not proof.certified
    source = proof.counterexample
    assert source is not None and "under stop_gradient" in source.splitlines()[0]
    assert _printed(source) == "[None]\n" if name == "square" else "gtape.Tensor" in _printed(source)


def test_a_stopped_value_that_cancels_leaves_a_rule_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, "square", partials=(lambda xp, y, x: 2 * x + 0 * xp.stop_gradient(x),))
    assert prove("square").proved


def test_a_forgotten_unbroadcast_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    from gtape.engine import rules as pulls

    monkeypatch.setattr(pulls, "unbroadcast", lambda xp, g, shape, out_shape, batch: g)
    proof = prove("multiply")
    assert not proof.proved
    assert proof.counterexample is not None and "shape" in proof.counterexample


def test_a_rule_that_reads_what_it_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    prim = REGISTRY["multiply"]
    monkeypatch.setattr(prim, "partials", (lambda xp, y, a, b: a, lambda xp, y, a, b: a))
    assert not prove("multiply").proved


def test_agreement_that_no_form_shows_is_certified_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # atan(x) + atan(1/x) is pi/2 for positive x, which is no relation that the normal form knows
    rule = lambda xp, y, x: 2 * (xp.atan(x) + xp.atan(1 / x)) / (xp.pi * xp.ln2 * x)
    _plant(monkeypatch, "log2", partials=(rule,))
    proof = prove("log2")
    assert proof.certified and not proof.proved and proof.counterexample is None
    assert {c.how for c in proof.cases} == {"points"}


@pytest.mark.parametrize("half", ["vjp", "jvp"])
def test_a_wrong_half_of_a_factorisation_is_refuted(monkeypatch: pytest.MonkeyPatch, half: str) -> None:
    prim = REGISTRY["cholesky"]
    (rule,) = getattr(prim, half)
    _plant(monkeypatch, "cholesky", **{half: (lambda xp, g, y, a: 2 * rule(xp, g, y, a),)})
    proof = prove("cholesky")
    assert not proof.certified
    assert {c.how for c in proof.cases if c.direction != half} <= {"as built", "expand", "numerator"}
    assert proof.counterexample is not None
    assert "gtape.Tensor" in _printed(proof.counterexample)


@pytest.fixture
def polar(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A factorisation with two outputs: a vector of the plane as its length times a unit vector."""

    def kernel(x: Any) -> Any:
        r = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
        return r, x / r

    def dot(xp: Any, a: Any, b: Any) -> Any:
        return xp.sum(a * b, axis=(-1,), keepdims=True)

    def pull(xp: Any, g: Any, y: Any, x: Any) -> Any:
        (gr, gu), (r, u) = g, y
        return gr * u + (gu - u * dot(xp, u, gu)) / r

    def push(xp: Any, t: Any, y: Any, x: Any) -> Any:
        r, u = y
        return dot(xp, u, t), (t - u * dot(xp, u, t)) / r

    def solved(W: Any, y: Any, x: Any) -> Any:
        r, (h, _) = y[0], y[1]
        u = np.array([(1 - h * h) / (1 + h * h), 2 * h / (1 + h * h)], dtype=object)
        return (r, u), r * u

    def mirror(W: Any, x: Any) -> Any:
        r = W.sqrt(np.sum(x * x, keepdims=True))
        return r, x / r

    for table, value in ((ARRAYS, mirror), (PARAMETRISED, (0, solved))):
        monkeypatch.setitem(table, "polar_of_tests", value)
    made = implicit(
        "polar_of_tests",
        kernel,
        (pull,),
        (push,),
        outputs=2,
        rounding=stable(4, 4),
        samples=((((2,),), {}),),
        public=False,
    )
    yield made
    del REGISTRY["polar_of_tests"]


def test_a_factorisation_with_two_outputs(monkeypatch: pytest.MonkeyPatch, polar: Any) -> None:
    assert prove("polar_of_tests").proved
    (pull,), (push,) = polar.vjp, polar.jvp
    monkeypatch.setattr(polar, "vjp", (lambda xp, g, y, x: pull(xp, (g[0], -g[1]), y, x),))
    proof = prove("polar_of_tests")
    assert not proof.certified and "gtape.Tensor" in _printed(proof.counterexample or "")
    monkeypatch.setattr(polar, "vjp", (pull,))
    monkeypatch.setattr(polar, "jvp", (lambda xp, t, y, x: push(xp, t, y, x)[::-1],))
    assert not prove("polar_of_tests").certified


def _printed(source: str) -> str:
    """What a counterexample prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, "<counterexample>", "exec"), {})
    return out.getvalue()


def test_a_rule_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, "sin", partials=(lambda xp, y, x: xp.no_such_primitive(x),))
    proof = prove("sin")
    assert not proof.proved
    assert "no_such_primitive" in (proof.counterexample or "")


def _random_fault(rng: random.Random, partial: Callable[..., Any]) -> Callable[..., Any]:
    """The partial, spoilt in one of several ways, with the same arguments read."""
    spoil = rng.choice([lambda v: -v, lambda v: 2 * v, lambda v: v + 1, lambda v: v * v, lambda v: v / 3])

    def wrong(xp: Any, y: Any, *xs: Any, **params: Any) -> Any:
        return spoil(partial(xp, y, *xs, **params))

    return wrong


@pytest.mark.parametrize("seed", range(12))
def test_spoilt_partials_are_refuted(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    names = [
        n for n in DIFFERENTIABLE if REGISTRY[n].kind == "elementwise" and any(callable(r) for r in REGISTRY[n].rules)
    ]
    # constants and masks of 0 and 1 survive squaring and are skipped
    names = [n for n in names if not REGISTRY[n].kinks and n != "multiply_no_nan_dy"]
    name = rng.choice(names)
    partials = tuple(_random_fault(rng, r) if callable(r) else r for r in REGISTRY[name].rules)
    monkeypatch.setattr(REGISTRY[name], "partials", partials)
    proof = prove(name)
    assert not proof.proved and proof.counterexample is not None, name


# ---------------------------------------------------------------------------------------------- conditions of rules

# The conditions under which a rule for softplus is wrong.
CONDITIONS: dict[str, Callable[..., Any]] = {
    "beyond a number": lambda xp, y, x: xp.greater(x, 3),
    "far away": lambda xp, y, x: xp.greater(x, 10**4),
    "outside of a range": lambda xp, y, x: xp.greater(abs(x), 70),
    "beyond a minimum": lambda xp, y, x: xp.less(xp.minimum(x, 1000), x),
    "where a relu acts": lambda xp, y, x: xp.not_equal(xp.relu(x - 1000), 0),
    "by a sum of relus": lambda xp, y, x: xp.greater(xp.relu(x - 70) + xp.relu(x - 80), 90),
    "by a root": lambda xp, y, x: xp.greater(xp.sqrt(1 + x * x), 100),
    "beyond a constant": lambda xp, y, x: xp.greater(x, 100 * xp.pi),
    "in a narrow range": lambda xp, y, x: xp.logical_and(xp.greater(10**9 * x, 10**9), xp.less(10**9 * x, 10**9 + 1)),
}


def _where(condition: Callable[..., Any], factor: int = 2) -> tuple[Callable[..., Any]]:
    """The rule of softplus, multiplied by a factor under a condition."""
    return (lambda xp, y, x: xp.where(condition(xp, y, x), factor * xp.sigmoid(x), xp.sigmoid(x)),)


@pytest.mark.parametrize("where", CONDITIONS)
def test_a_fault_in_a_branch_of_a_rule_is_refuted(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    _plant(monkeypatch, "softplus", partials=_where(CONDITIONS[where]))
    proof = prove("softplus")
    assert proof.state == "refuted"
    assert "off by" in (proof.counterexample or "")


def test_a_fault_in_a_branch_of_two_arguments_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    by_a, by_b = REGISTRY["atan2"].partials

    def wrong(xp: Any, y: Any, a: Any, b: Any) -> Any:
        crescent = xp.logical_and(xp.less(a * a + b * b, 10**4), xp.greater(a + b, 141))
        return by_a(xp, y, a, b) * xp.where(crescent, 2 * b, b) / b

    assert prove("atan2").proved
    _plant(monkeypatch, "atan2", partials=(wrong, by_b))
    proof = prove("atan2")
    assert proof.state == "refuted" and "off by" in (proof.counterexample or "")


def test_a_fault_in_a_branch_of_a_rule_on_arrays_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = REGISTRY["matmul"].vjp

    def wrong(xp: Any, g: Any, y: Any, a: Any, b: Any) -> Any:
        return xp.matmul(g, xp.swap_last(xp.where(xp.greater(b, 90), 2 * b, b)))

    _plant(monkeypatch, "matmul", vjp=(wrong, right[1]))
    proof = prove("matmul")
    assert proof.state == "refuted" and "off by" in (proof.counterexample or "")


@pytest.mark.parametrize("where", CONDITIONS)
def test_right_branches_of_a_rule_are_proved(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    _plant(monkeypatch, "softplus", partials=_where(CONDITIONS[where], factor=1))
    assert prove("softplus").proved


def test_a_condition_that_always_holds_hides_no_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, "softplus", partials=_where(lambda xp, y, x: xp.less(xp.exp(x), 0)))
    assert prove("softplus").proved


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (lambda xp, y, x: xp.greater(xp.exp(x), 10**40), "cannot be solved for a"),
        (lambda xp, y, x: xp.greater(xp.floor(x), 100), "a rule rounds a to whole numbers"),
    ],
)
def test_a_condition_that_cannot_be_solved_leaves_the_proof_open(
    monkeypatch: pytest.MonkeyPatch, condition: Any, reason: str
) -> None:
    _plant(monkeypatch, "softplus", partials=_where(condition))
    proof = prove("softplus")
    assert proof.state == "open" and not proof.certified
    assert any(reason in text for text in proof.unseen)
    assert reason in " ".join(proof.text().split())


# ---------------------------------------------------------------------------------------------- deciding zero

ZEROS = [
    sp.tanh(x) ** 2 + 1 / sp.cosh(x) ** 2 - 1,
    sp.exp(x - y) * sp.exp(y) - sp.exp(x),
    sp.exp(x / 2) ** 2 - sp.exp(x),
    sp.exp(x / 2 + y / 3) - sp.exp(x / 2) * sp.exp(y / 3),
    sp.sin(x) ** 2 + sp.cos(x) ** 2 - 1,
    sp.tan(x) ** 2 + 1 - 1 / sp.cos(x) ** 2,
    1 / (sp.sqrt(p) * sp.sqrt(p + 2)) - 1 / sp.sqrt(p**2 + 2 * p),
    sp.sqrt(x**2 + 1) - (x**2 + 1) / sp.sqrt(x**2 + 1),
    p**y * y / p - y * p ** (y - 1),
    sp.log(p * q) - sp.log(p) - sp.log(q),
    sp.log(p**y) - y * sp.log(p),
    sp.erfc(x) + sp.erf(x) - 1,
    1 / (1 + sp.exp(-x)) - sp.exp(x) / (1 + sp.exp(x)),
    sp.sqrt(sp.pi) * sp.sqrt(2) - sp.sqrt(2 * sp.pi),
    (sp.sqrt(p) + 1) * (sp.sqrt(p) - 1) - p + 1,
    1 / (1 + sp.sqrt(1 + sp.sqrt(p))) - (sp.sqrt(1 + sp.sqrt(p)) - 1) / sp.sqrt(p),
]


@pytest.mark.parametrize("e", ZEROS, ids=str)
def test_zero_is_found(e: Any) -> None:
    assert proof_normal.is_zero_by_normal_form(e)
    assert proof_normal.agree(e, [{s: sp.Rational(5, 7) for s in e.free_symbols}]) is None


@pytest.mark.parametrize("e", ZEROS, ids=str)
def test_what_is_not_zero_is_not_proved(e: Any) -> None:
    for other in (e + sp.Rational(1, 10**30), e + x * sp.Rational(1, 10**9), 2 * e + sp.exp(x)):
        assert not proof_normal.is_zero_by_normal_form(other)
        point = {s: sp.Rational(5, 7) for s in other.free_symbols}
        assert proof_normal.agree(other, [point]) == point


@pytest.mark.parametrize(
    "e", [sp.sqrt(x**2) - x, sp.log(x**2) - 2 * sp.log(x), sp.sqrt(x * y) - sp.sqrt(x) * sp.sqrt(y)], ids=str
)
def test_identities_of_positive_numbers_are_not_claimed_for_all(e: Any) -> None:
    assert e == 0 or not proof_normal.is_zero_by_normal_form(e)


def test_nothing_hangs() -> None:
    with pytest.raises(proof_normal.OutOfTime), proof_normal.time_limit(0.05):
        while True:
            pass


# ---------------------------------------------------------------------------------------------- cells


@pytest.mark.parametrize("name", ["log", "asin", "acosh", "pow", "relu6", "divide", "atan2", "log1p"])
def test_points_lie_in_the_domain_and_off_the_kinks(name: str) -> None:
    prim = REGISTRY[name]
    for setting in settings(prim):
        for point in setting.points():
            for a in setting.arguments:
                for s in [] if a.symbols is None else a.symbols.ravel():
                    value = float(a.value(s, point[s]))
                    assert value in a.interval and value not in prim.kinks


def test_points_lie_on_both_sides_of_every_kink() -> None:
    setting = Setting(REGISTRY["relu6"], ((),), {})
    values = [float(v) for point in setting.points() for v in point.values()]
    for cut in breakpoints(REGISTRY["relu6"], {}, 1):
        assert min(values) < cut < max(values)
    assert np.diff(np.sign(np.subtract.outer(sorted(values), [0.0, 6.0])), axis=0).any(axis=0).all()


# ---------------------------------------------------------------------------------------------- batched cotangents


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if REGISTRY[n].batched])
def test_batched_rules_are_the_rules_row_by_row(name: str) -> None:
    """What jacobian relies on: with a leading axis of cotangents, each row is what the proved rule makes of it."""
    for setting in settings(REGISTRY[name]):
        cell = _first_cell(setting)
        rows = [[_symbols(f"r{k}o{j}", o.shape) for j, o in enumerate(cell.outputs)] for k in range(2)]
        whole = _pulled(cell, [np.stack([row[j] for row in rows]) for j in range(len(cell.outputs))], batch=True)
        for k, row in enumerate(rows):
            for a, b in zip(whole, _pulled(cell, row, batch=False), strict=True):
                assert np.shape(a) == (2, *np.shape(b)), setting.shapes
                for p, q in zip(boxed(a[k]).ravel(), boxed(b).ravel(), strict=True):
                    assert p == q or sp.expand(p - q) == 0, (setting.shapes, setting.params, p, q)


def _first_cell(setting: Setting) -> Cell:
    """The first cell that `cells` finds, without the identities to prove there, which take longer than the rules."""
    for point in setting.points():
        cell = Cell(setting, point)
        _pulled(cell, [_symbols(f"g{j}", o.shape) for j, o in enumerate(cell.outputs)], batch=False)
        if cell.key() is not None:
            return cell
    raise AssertionError(f"no point of {setting.shapes} lies off the kinks")


def _pulled(cell: Cell, gs: list[Any], *, batch: bool) -> list[Any]:
    """The cotangents of all active arguments."""
    arguments = cell.setting.arguments
    layouts = tuple(a.layout for a in arguments)
    active = tuple(i for i, a in enumerate(arguments) if a.symbols is not None and cell.prim.connected(i))
    outs = tuple(make_layout(np.dtype(np.float64), o.shape) for o in cell.outputs)
    step = RuleStep(cell.prim, active, cell.params, layouts, outs if cell.several else outs[0])
    g, y = (tuple(gs), tuple(cell.outputs)) if cell.several else (gs[0], cell.outputs[0])
    shape = () if cell.several else outs[0].shape
    return cotangents(cell.world, step, g, y, tuple(cell.xs), layouts=layouts, out_shape=shape, batch=batch)


def _symbols(letter: str, shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(shape, dtype=object)
    for at in np.ndindex(*shape):
        out[at] = sp.Symbol("_".join([letter, *map(str, at)]), real=True)
    return out

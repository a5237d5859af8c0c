"""Ordinary programs are checked by a short way, which finds what the full check finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.base.quiet import quietly
from gtape.declare.primitives import REGISTRY
from gtape.engine.rules import RuleStep
from gtape.engine.worlds import COMPLEX, NUMPY
from gtape.recording.record import off
from gtape.symbolic.balls import lift_balls, precision, to_float
from gtape.symbolic.program import Program
from gtape.verify import check
from gtape.verify.bounds import inputs
from gtape.verify.bounds.inputs import moved_gradient
from gtape.verify.bounds.noise import noisy_gradient
from gtape.verify.bounds.noise_world import MovedWorld
from gtape.verify.judging import comparison, ordinary, straight, structure
from gtape.verify.judging.comparison import Comparison
from gtape.verify.judging.examine import Gradient, Rows
from gtape.verify.judging.plain import Plain
from gtape.verify.judging.recording import Recording
from gtape.verify.oracles import backward
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.programs.mutants import planted, planted_kernel, scaled

X = np.array([[0.3, -1.2, 2.5], [1e-3, 40.0, -0.7]])


def network(x: Any) -> Any:
    return tf.reduce_mean(
        tf.square(tf.tanh(tf.matmul(x, X.T)) + tf.exp(-tf.reduce_sum(x, axis=1, keepdims=True) * 0.5))
    )


def cancelling(x: Any) -> Any:
    return tf.reduce_mean(tf.square(x - tf.reduce_mean(x)) * np.float32(3.3)) - tf.reduce_sum(tf.sin(x))


def used_twice(x: Any) -> Any:
    y = tf.sin(x) * x
    return tf.reduce_sum(y * y * y + y / (1.5 + x * x))


def with_zeros(x: Any) -> Any:
    """Exact zeros in the gradient: of elements that are switched off, and by terms that cancel."""
    return tf.reduce_sum(tf.nn.relu(x) * 0.3) + tf.reduce_sum(tf.exp(x[0]) * x[1] - x[1] * tf.exp(x[0]))


def pooled(x: Any) -> Any:
    """A window with numbers of a relu that is off, which are equal but never move."""
    return tf.nn.max_pool1d(tf.nn.relu(tf.reshape(x, (1, 6, 1)) - 1.0), 3, 3, "VALID") ** 2


def pendulum(q: Any, k: Any) -> Any:
    p = tf.zeros_like(q)
    for _ in range(5):
        p = p - k * tf.sin(q) * 0.1
        q = q + p * 0.1
    return q


def pendulum_alone(q: Any) -> Any:
    return pendulum(q, 1.3)


PROGRAMS = [
    (network, X), (network, X.astype(np.float32)), (cancelling, X.astype(np.float32)), (used_twice, X),
    (lambda x: tf.nn.softmax(tf.nn.relu(x)), X), (lambda x: x**3, 0.0), (lambda x: 1 - tf.cos(x), 1e-5),
    (lambda x: tf.sqrt(x), 2.0), (lambda x: tf.sort(tf.zeros_like(x) + x * x), X), (pooled, X),
    (with_zeros, X), (lambda x: tf.reduce_sum(tf.nn.relu(x) * 0.3), X),
]  # fmt: skip


def program_of(f: Any, x: Any) -> tuple[Program, list[Any]]:
    program = Recording(f, (x,), 1).program()
    return program, [np.ones_like(program.nodes[i].output) for i in program.outputs]


def arguments(f: Any, x: Any) -> Any:
    program, seeds = program_of(f, x)
    return program, [np.asarray(n.output) for n in program.nodes], seeds


def shortly(f: Any, x: Any) -> ordinary.Checked | None:
    program, seeds = program_of(f, x)
    with off(), quietly(), precision(200):
        return ordinary.checked(program, seeds)


def without_the_full_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def examine(self: Any) -> Any:
        raise AssertionError("the full check was called")

    monkeypatch.setattr(Gradient, "examine", examine)


@pytest.fixture(params=["arrays", "straight"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether a check computes in arrays of balls or by straight-line functions."""
    monkeypatch.setattr(structure, "_kept", {})
    monkeypatch.setattr(straight, "_OFTEN", 1 if request.param == "straight" else -1)
    return str(request.param)


@pytest.mark.parametrize("case", PROGRAMS)
def test_the_report_is_that_of_the_full_check(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "_kept", {})
    monkeypatch.setattr(straight, "_OFTEN", 2)
    made = [check(*case), check(*case)]
    monkeypatch.setattr(ordinary, "checked", lambda *_: None)
    full = check(*case)
    assert [r.as_dict() for r in made] == [full.as_dict()] * 2
    assert [r.used for r in made] == [full.used] * 2


def test_no_step_of_a_training_loop_needs_the_full_check(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_full_check(monkeypatch)
    x, y = tf.constant([0.0, 0.5, 1.0, 1.5]), tf.constant([1.0, 2.0, 3.0, 4.0])
    m, b = tf.Variable(0.0), tf.Variable(0.0)
    monkeypatch.setattr(structure, "_kept", {})
    for _ in range(30):
        with tf.GradientTape(verify=True) as tape:
            loss = tf.reduce_mean(tf.square(m * x + b - y))
        for v, g in zip((m, b), tape.gradient(loss, [m, b]), strict=True):
            v.assign_sub(0.05 * g)
    assert len(structure._kept) == 1


def test_a_long_chain_needs_no_full_check(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_full_check(monkeypatch)

    def chain(x: Any) -> Any:
        for _ in range(40):
            x = tf.sin(x) * 1.01
        return x

    assert check(chain, 0.5).ok


@pytest.mark.parametrize(
    "case", [(used_twice, X), (cancelling, X.astype(np.float32)), (network, X), (lambda x: tf.reduce_sum(2 * x), X)]
)
def test_inputs_move_the_gradient_as_in_the_full_check(case: Any, way: str) -> None:
    program, seeds = program_of(*case)
    with off(), quietly(), precision(200):
        made, oracle = ordinary.checked(program, seeds), Oracle(program, seeds)
        assert isinstance(made, ordinary.Straightly) == (way == "straight")
        oracle.replay()
        start = {i: np.array(made.exact[i] / 3) for i in program.sources[0]}
        for t, other in zip(made.moved(start), moved_gradient(oracle, start), strict=True):
            np.testing.assert_allclose(to_float(t), to_float(other), rtol=1e-14)


def test_numbers_that_move_one_after_another_move_the_gradient_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "_kept", {})
    monkeypatch.setattr(straight, "_OFTEN", 1)
    program, seeds = program_of(used_twice, X)
    source = program.sources[0]
    with off(), quietly(), precision(200):
        made = ordinary.checked(program, seeds)
        assert isinstance(made, ordinary.Straightly)
        apart = made.moved_apart([(source, k, 0.25) for k in (4, 0)])
        for k, (t,) in zip((4, 0), apart, strict=True):
            start = np.zeros(X.shape)
            start.flat[k] = 0.25
            (alone,) = made.moved(dict.fromkeys(source, lift_balls(start)))
            np.testing.assert_array_equal(to_float(t), to_float(alone))
            assert np.count_nonzero(to_float(t)) == 1
        with pytest.raises(ordinary.Apart):
            made.moved_apart([([program.outputs[0]], 0, 0.25)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("x", [0.7, 3.14159, 1e-3, 22.0])
@pytest.mark.parametrize("f", [lambda x: 1 - tf.cos(x), pendulum_alone, lambda x: tf.sin(50 * x) - tf.exp(x) / 7])
def test_single_numbers_get_the_findings_of_arrays(
    f: Any, x: float, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structure, "_kept", {})
    quickly = check(f, np.asarray(x, dtype))
    monkeypatch.setattr(Comparison, "_number", lambda *_: False)
    assert quickly.as_dict() == check(f, np.asarray(x, dtype)).as_dict()


def dense(x: Any) -> Any:
    w = tf.constant(np.random.default_rng(3).normal(size=(48, 48)), x.dtype)
    return tf.reduce_sum(tf.tanh(tf.matmul(x, w) / 7))


def convolved(x: Any) -> Any:
    w = tf.constant(np.random.default_rng(5).normal(size=(3, 3, 1, 4)), x.dtype)
    return tf.reduce_sum(tf.tanh(tf.nn.conv2d(tf.reshape(x[:24, :24], (1, 24, 24, 1)), w, 1, "SAME") / 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "name", "argument"), [(dense, "matmul", 0), (convolved, "correlate", 0)], ids=["matmul", "conv2d"]
)
def test_large_products_of_float32_are_compared_in_float64(
    f: Any, name: str, argument: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(7).normal(size=(48, 48)).astype(np.float32)
    made = shortly(f, x)
    assert made is not None
    (product,) = [n.index for n in made.program.nodes if n.kind == "op" and n.name == name]
    assert product in made._clearly_inside(made._swept())
    wide = shortly(f, x.astype(np.float64))
    assert wide is not None
    assert product not in wide._clearly_inside(wide._swept())
    for worlds in ("all", "floats"):
        with planted(name, argument, scaled(1 + 1e-4), worlds=worlds):
            found = [v for v in check(f, x).findings if not v.ok]
        assert {(v.verdict, v.op) for v in found} == {("rule", name)}
    monkeypatch.setattr(comparison, "_FEW", 2)  # because each element that is moved alone takes half a second
    with planted_kernel(name, 1 + 1e-4):
        found = [v for v in check(f, x).findings if not v.ok]
    assert ("rule", name) in {(v.verdict, v.op) for v in found}


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.nn.relu(x - 0.3),
        lambda x: tf.maximum(x, x[::-1]),
        lambda x: tf.reduce_max(x),
        lambda x: tf.where(x > 0, x, 2 * x),
        lambda x: tf.sort(tf.round(x / 10) + x * x * 0),
        lambda x: tf.floor(x) * x,
        lambda x: tf.complex(x, x) * 2,
        lambda x: tf.stop_gradient(x) * x,
        tf.custom_gradient(lambda x: (x * x, lambda g: 2 * x * g)),
    ],
)
def test_what_is_not_smooth_here_is_left_to_the_full_check(f: Any) -> None:
    assert shortly(f, X[0]) is None


def summed(q: Any, k: Any) -> Any:
    """Reductions of single numbers; the last op has a cotangent that does not move."""
    return tf.reduce_sum(tf.reduce_mean(pendulum(q, k)) * k)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("f", [pendulum, summed])
def test_all_moves_of_a_program_of_scalars_are_those_of_single_runs(
    f: Any, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(f, (0.7, 1.3), order)
    program = recording.of_level(recording.levels[-1][:1])
    assert inputs._is_scalar(program)

    def bounds() -> list[Any]:
        return inputs.moves_in_floats(program, lambda world: noisy_gradient(program, [np.ones(())], world))

    together = bounds()
    monkeypatch.setattr(inputs, "_is_scalar", lambda _: False)
    assert np.all(np.array(together) > 0)
    np.testing.assert_array_equal(together, bounds())


@pytest.mark.parametrize(("f", "x"), [(network, X), (cancelling, X), (used_twice, X), (pendulum_alone, 0.7)])
def test_the_structure_moves_inputs_in_floats_as_a_noisy_world_without_noise(f: Any, x: Any) -> None:
    program, arrays, seeds = arguments(f, x)
    made = structure.structure_of(program, arrays)
    assert made is not None
    source = made.sources[0]
    steps = {source: 2.0**-20 * np.ones_like(arrays[source])}
    with quietly():
        expected = noisy_gradient(program, seeds, MovedWorld(steps))
        np.testing.assert_array_equal(made.moved_in_floats(arrays, seeds, steps), expected)


@pytest.mark.parametrize("f", [lambda q: tf.reduce_sum(tf.stack([q, q])), lambda q: tf.sin(q)[None]])
def test_programs_with_arrays_are_no_programs_of_scalars(f: Any) -> None:
    assert not inputs._is_scalar(Recording(f, (0.7,), 1).program())


def test_the_numbers_of_a_plain_tape_need_no_full_check(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_full_check(monkeypatch)
    program, seeds = Recording(pendulum, (0.7, 1.3), 1).program(), [np.ones(())]
    with quietly():
        got = Plain(program).row(seeds)
        assert got is not None
        rows = Rows()
        assert rows.examine(program, seeds, got, locally=True).ok
        assert rows._apart(seeds, [np.nextafter(g, 9.0) for g in got], got) == []


@pytest.mark.slow
def test_other_numbers_of_a_second_derivative_are_compared_with_the_exact_ones_at_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, program, seeds, got = next(Recording(pendulum, (0.7, 1.3), 2).programs())
    rows = Rows()
    with quietly():
        assert rows.examine(program, seeds, got, locally=True).ok
        assert [f.verdict for f in rows._apart(seeds, [g * (1 + 1e-9) for g in got], got)] == ["rule"]
        without_the_full_check(monkeypatch)
        assert rows._apart(seeds, [np.nextafter(g, 9.0) for g in got], got) == []


@pytest.mark.parametrize("gone", [0.3, 0.0])
def test_a_wrong_zero_is_left_to_the_full_check(gone: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum at 200 bits would hide what is 1e-300 of the largest number."""
    program, seeds = program_of(lambda x: tf.reduce_sum(x * np.array([1.0, 1e-300 * gone, 2.0])), np.ones(3))
    with off(), quietly(), precision(200):
        assert ordinary.checked(program, seeds) is not None
        right = structure.cotangents

        def wrong(world: Any, *args: Any, **params: Any) -> Any:
            made = right(world, *args, **params)
            return [np.where([True, False, True], c, 0 * c) if np.size(c) == 3 else c for c in made]

        monkeypatch.setattr(structure, "cotangents", wrong)
        assert (ordinary.checked(program, seeds) is None) == (gone > 0)


def test_wrong_numbers_of_a_plain_tape_are_found() -> None:
    program, seeds = Recording(pendulum, (0.7, 1.3), 1).program(), [np.ones(())]
    with quietly():
        got = Plain(program).row(seeds)
        assert got is not None
        rows = Rows()
        assert rows.examine(program, seeds, got, locally=True).ok
        assert [f.verdict for f in rows._apart(seeds, [g * (1 + 1e-9) for g in got], got)] == ["rule"]


@pytest.mark.parametrize("f", [tf.sort, lambda x: tf.nn.max_pool1d(x[None, :, None], 2, 2, "VALID")])
def test_a_decision_at_a_tie_is_left_to_the_full_check(f: Any) -> None:
    assert shortly(f, np.array([1.0, 2.0, 4.0, 3.0])) is not None
    assert shortly(f, np.array([2.0, 2.0, 4.0, 3.0])) is None


def test_a_wrong_decision_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY["order"], "kernel", lambda x, **_: np.argsort(-x))
    found = check(tf.sort, np.array([1.0, 2.0, 4.0]))
    assert (found.verdict, found.findings[0].op) == ("rule", "order")


@pytest.mark.parametrize("x", [[1.0, np.inf], [np.nan, 1.0]], ids=["infinity", "NaN"])
def test_what_is_not_finite_is_left_to_the_full_check(x: Any) -> None:
    assert shortly(lambda x: x * x, np.array(x)) is None


def test_zeros_among_the_cotangents_are_left_to_the_full_check() -> None:
    program, seeds = program_of(lambda x: x * x, X)
    seeds[0][0, 1] = 0
    with off(), quietly(), precision(200):
        assert ordinary.checked(program, seeds) is None


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("where", ["value", "cotangent"])
def test_one_wrong_unit_in_the_last_place_is_left_to_the_full_check(where: str, monkeypatch: Any) -> None:
    program, seeds = program_of(lambda x: x * 0.3, X)
    with off(), quietly(), precision(200):
        assert ordinary.checked(program, seeds) is not None
        if where == "value":
            node = program.nodes[program.outputs[0]]
            node.output = node.output.copy()
            node.output[1, 1] = np.nextafter(node.output[1, 1], np.inf)
        else:
            for module in (structure, backward):
                right = module.cotangents

                def wrong(world: Any, *args: Any, right: Any = right, **params: Any) -> Any:
                    made = right(world, *args, **params)
                    return [np.nextafter(c, 0) for c in made] if world in (COMPLEX, NUMPY) else made

                monkeypatch.setattr(module, "cotangents", wrong)
        assert ordinary.checked(program, seeds) is None


@pytest.mark.usefixtures("way")
def test_a_wrong_rule_is_left_to_the_full_check(monkeypatch: pytest.MonkeyPatch) -> None:
    right = structure.cotangents
    with off(), quietly(), precision(200):
        assert shortly(used_twice, X) is not None
        for prim in {n.prim for n in program_of(used_twice, X)[0].nodes if n.kind == "op"}:

            def wrong(world: Any, step: RuleStep, *args: Any, prim: Any = prim, **params: Any) -> Any:
                made = right(world, step, *args, **params)
                return made if step.prim is not prim else [c + c * 2**-40 for c in made]

            monkeypatch.setattr(structure, "cotangents", wrong)
            structure._kept.clear()
            assert shortly(used_twice, X) is None


def test_one_structure_is_kept_for_other_numbers_and_another_for_other_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(structure, "_kept", {})
    with off(), quietly(), precision(200):
        for f, x, more in [
            (lambda x: tf.reduce_sum(x, axis=0), X, 1),
            (lambda x: tf.reduce_sum(x, axis=0), X + 1, 0),
            (lambda x: tf.reduce_sum(x, axis=1), X, 1),
            (lambda x: tf.reduce_sum(x, axis=1), X.astype(np.float32), 1),
            (lambda x: tf.reduce_sum(x, axis=1), X[:, :2], 1),
        ]:
            program, seeds = program_of(f, x)
            count = len(structure._kept)
            assert ordinary.checked(program, seeds) is not None
            assert len(structure._kept) == count + more


def test_few_structures_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "_kept", {})
    monkeypatch.setattr(structure, "_MOST_KEPT", 8)
    for n in range(1, 8):
        assert shortly(lambda x: x * x, np.ones(n)) is not None
        assert len(structure._kept) <= 4


@pytest.mark.parametrize("case", [*PROGRAMS[:4], (lambda x: tf.tanh(x) / (2 + tf.cos(x[:, :1])), X)])
def test_straight_line_functions_give_the_numbers_of_the_arrays(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = case
    shortly(f, x)  # loads the declarations and mirrors, after which the structures are others
    monkeypatch.setattr(straight, "_OFTEN", 2)
    monkeypatch.setattr(structure, "_kept", {})
    first = shortly(f, x)
    assert type(first) is ordinary.Checked
    with off(), quietly(), precision(200):
        arrays = ordinary.Checked(first.structure, *arguments(f, x * 0.9))
    for a, b in ((first, shortly(f, x)), (arrays, shortly(f, x * 0.9))):
        assert isinstance(b, ordinary.Straightly)
        for p, q in zip([*a.gradient, *a.exact.values()], [*b.gradient, *b.exact.values()], strict=True):
            np.testing.assert_array_equal(to_float(p), to_float(q))


@pytest.mark.parametrize("f", [lambda x: x**2.5, lambda x: tf.nn.relu(x) * x])
def test_what_reads_its_numbers_has_no_straight_line_functions(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(straight, "_OFTEN", 1)
    monkeypatch.setattr(structure, "_kept", {})
    assert type(shortly(f, np.array([0.3, 1.2]))) is ordinary.Checked


# -- second derivatives

X0 = np.array([0.3, -1.2, 0.7])

SECOND: list[tuple[Any, ...]] = [
    (lambda x: tf.tanh(tf.sin(x) * x), 0.5), (lambda x, y: tf.tanh(tf.sin(x) * y) / y, 0.5, np.float64(1.5)),
    (lambda x: tf.reduce_sum(tf.exp(tf.sin(x)) * x), X0), (lambda x: tf.exp(tf.sin(x)) * x, X0.astype(np.float32)),
    (lambda x: tf.reduce_sum(tf.tanh(tf.matmul(x, x))), np.linspace(0.1, 2, 4).reshape(2, 2)),
    (lambda x: tf.reduce_logsumexp(x * x), X0), (lambda x: tf.exp(-3 * x) + x * x, X0),
    (lambda x: 1 - tf.cos(x), 1e-5), (lambda x: x**3, 0.0),
]  # fmt: skip


def nested(x: Any) -> Any:
    """A long chain, so that rules are written as functions of balls."""
    for _ in range(40):
        x = tf.sin(x) * 1.01
    return x


def second(f: Any, *args: Any) -> tuple[Program, list[Any]]:
    """The program and the cotangents of the first row of a Hessian."""
    _, program, seeds, _ = next(Recording(f, args, 2).programs())
    return program, seeds


@pytest.mark.parametrize("case", SECOND)
def test_the_report_on_a_hessian_is_that_of_the_full_check(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as m:
        without_the_full_check(m)
        made = check(*case, order=2)
    monkeypatch.setattr(ordinary, "checked", lambda *_, **__: None)
    full = check(*case, order=2)

    def told(report: Any) -> Any:
        return [(f.verdict, f.order, f.element, f.got, f.exact, f.count) for f in report.findings]

    assert (told(made), made.checked, made.used) == (told(full), full.checked, full.used)
    assert made.coverage["ops"] == full.coverage["ops"]


def test_a_gradient_of_several_gradients_needs_no_full_check(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_full_check(monkeypatch)
    x, y = tf.Variable(0.5), tf.Variable(1.5)
    with tf.GradientTape(verify=True) as outer:
        with tf.GradientTape() as inner:
            z = tf.sin(x * y) * tf.exp(y)
        by_x, by_y = inner.gradient(z, [x, y])
    assert all(g is not None for g in outer.gradient([by_x, by_y], [x, y]))


@pytest.mark.parametrize("f", [lambda x: tf.reduce_sum(tf.exp(tf.sin(x)) * tf.tanh(x)), nested])
def test_wrong_rules_below_a_second_derivative_are_found(f: Any) -> None:
    """Each fault is in all worlds, so that the replay repeats it, and only jets of the mirrors show it."""
    x: Any = 0.5 if f is nested else X0
    program, seeds = second(f, x)
    ops = [n for n in program.nodes if n.kind == "op" and n.prim.partials is not None]
    rules = {(n.prim.name, a) for n in ops for a in n.active}
    assert len({name for name, _ in rules}) > 2
    with off(), quietly(), precision(200):
        assert ordinary.checked(program, seeds) is not None
    for name, a in sorted(rules):
        with planted(name, a, scaled(1 + 2.0**-30)):
            program, seeds = second(f, x)
            with off(), quietly(), precision(200):
                assert ordinary.checked(program, seeds) is None, (name, a)


def test_a_wrong_inner_gradient_is_left_to_the_full_check() -> None:
    program, seeds = second(lambda x: tf.reduce_sum(tf.exp(tf.sin(x)) * x), X0)
    (marked,) = [n for n in program.nodes if n.mark is not None]
    for n in program.nodes:
        if n.index in program.ancestors([marked.index]) and n.prim is REGISTRY["cos"]:
            n.prim = n.step = None
            break
    n.prim = REGISTRY["sin"]  # the ops compute a gradient, but of another function
    n.step = RuleStep(n.prim, n.active, {}, None, None)
    n.output = np.sin(program.nodes[n.inputs[0]].output)
    env = program.evaluate(NUMPY, {m.index: m.output for m in program.nodes if m.kind in ("leaf", "const")})
    for m in program.nodes:
        m.output = np.asarray(env[m.index])
    with off(), quietly(), precision(200):
        assert ordinary.checked(program, seeds) is None


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.abs(x) * x, lambda x: tf.nn.relu(x) ** 2, lambda x: tf.where(x > 0, x, -x) ** 2,
        lambda x: tf.stop_gradient(x) * x, lambda x: tf.reduce_max(x) ** 2,
    ],
)  # fmt: skip
def test_kinks_and_stops_below_a_second_derivative_are_left_to_the_full_check(f: Any) -> None:
    program, seeds = second(f, np.zeros(2))
    with off(), quietly(), precision(200):
        assert ordinary.checked(program, seeds) is None


def test_ops_that_differ_only_in_numbers_share_one_kind() -> None:
    def f(x: Any) -> Any:
        small, large = tf.nn.leaky_relu(x, alpha=0.25), tf.nn.leaky_relu(2.0 * x, alpha=0.5)
        return tf.reduce_sum(tf.sin(small) + tf.sin(large)) + tf.sin(tf.reduce_sum(x))

    program = Recording(f, (X,), 1).program()
    made = structure.structure_of(program, [np.asarray(n.output) for n in program.nodes])
    assert made is not None
    of_kind: dict[int, set[Any]] = {}
    for op in made.ops:
        n = program.nodes[op.number]
        shapes = tuple([program.nodes[j].shape for j in op.inputs])
        of_kind.setdefault(id(op.kind), set()).add((n.name, shapes, n.active, tuple(n.params.items())))
    assert all(len(found) == 1 for found in of_kind.values())
    assert len(set.union(*of_kind.values())) == len(of_kind) < len(made.ops)


def test_a_program_with_one_rough_op_among_smooth_ones_is_no_ordinary_one() -> None:
    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.sin(x) * tf.sort(x) + tf.sin(2.0 * x))

    program = Recording(f, (X,), 1).program()
    assert structure.structure_of(program, [np.asarray(n.output) for n in program.nodes]) is None

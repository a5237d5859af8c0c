"""Compiled functions after each other under tapes: the bits of eager functions, whatever is asked, in any order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape import nest
from gtape.recording.record import SEQ, parents_of
from tests.bits import bits

Body = Callable[[Any], Any]

# Functions of one tensor, each with one result or several ones.
BODIES: dict[str, Body] = {
    "one op": tf.sin,
    "a product": lambda x: tf.exp(tf.sin(x)) * x,
    "a long chain": lambda x: tf.tanh(tf.sin(tf.exp(-x * x) + x) * x - tf.cos(x)),
    "a selection": lambda x: tf.where(x > 0.5, tf.sqrt(tf.maximum(x, 0.25)), x * x),
    "two heads": lambda x: (tf.sin(x) * x, tf.cos(x)),
    "a result of a result": lambda x: (a := tf.sin(x), tf.cos(a) * x),
    "three of one": lambda x: [a := tf.exp(x * 0.5), a * a, tf.sin(a) + x],
    "many": lambda x: [tf.sin(x * float(k)) + x for k in range(1, 6)],
    "one twice": lambda x: (y := x * x, y, tf.tanh(y)),
    "with the argument": lambda x: (x, tf.tanh(x)),
    "unused ops": lambda x: (tf.sin(x), tf.stop_gradient(x) * 2.0, x * x),
}


class Step(NamedTuple):
    """One call in a script: the body, the value that the call reads, and a factor of the last result, or no factor."""

    body: str
    reads: int
    factor: int | None


def outcome(work: Callable[[], Any]) -> Any:
    """The bits of a result; the class of an error."""
    try:
        made = work()
    except Exception as e:
        return type(e).__name__
    return made if isinstance(made, str) else bits(made, alike=True)


def values_of(steps: Sequence[Step], functions: dict[str, Body], x: Any) -> list[Any]:
    """All values of a script, from old to new."""
    known = [x]
    for step in steps:
        known += nest.flatten(functions[step.body](known[-1 - step.reads % len(known)]))
        if step.factor is not None:
            known.append(known[-1] * known[step.factor % len(known)])
    return known


ASK: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "a gradient": lambda t, y, x, a: t.gradient(y, x),
    "gradients by a value, too": lambda t, y, x, a: t.gradient(y, [x, a]),
    "a gradient by a value": lambda t, y, x, a: t.gradient(y, a),
    "gradients of two": lambda t, y, x, a: t.gradient([a, y], [a, x, y]),
    "a Jacobian": lambda t, y, x, a: t.jacobian(y, x),
    "a Jacobian by a value": lambda t, y, x, a: t.jacobian(y, a),
    "a batch Jacobian": lambda t, y, x, a: t.batch_jacobian(tf.reshape(y, [-1, 1]), x),
    "an explanation": lambda t, y, x, a: t.explain(y, x),
    "an explanation by a value": lambda t, y, x, a: t.explain(y, a),
}
QUESTIONS = st.lists(st.tuples(st.sampled_from([*ASK]), st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=5)
STEPS = st.lists(
    st.builds(Step, st.sampled_from([*BODIES]), st.integers(0, 12), st.none() | st.integers(0, 12)),
    min_size=2,
    max_size=4,
)
few = settings(max_examples=settings.default.max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])


def answers(
    steps: Sequence[Step], questions: Any, functions: dict[str, Body], *, infinite: bool, persistent: bool, kept: bool
) -> list[Any]:
    """The answers of a persistent tape to all questions, or of a tape for each question."""
    x = tf.constant([-1.0, 0.0, 2.0], tf.float64)
    found: list[Any] = []
    for ask in [questions] if persistent else [[q] for q in questions]:
        with tf.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            # An infinite slope that a selection drops starts the full sweep.
            u = tf.where(x > 0.0, tf.math.log(x), x) if infinite else x * 1.5
            known = values_of(steps, functions, u)
        pairs = [(known[-1 - i % len(known)], known[-1 - k % len(known)]) for _, i, k in ask]
        if not kept:
            del known, u
        for (name, _, _), (y, a) in zip(ask, pairs, strict=True):
            found.append(outcome(lambda tape=tape, name=name, y=y, a=a: ASK[name](tape, y, x, a)))
    return found


# Not the bodies themselves, because every result of a function is a tensor of its own.
EAGER: dict[str, Body] = {name: tf.function(body) for name, body in BODIES.items()}


def compiled() -> dict[str, Body]:
    return {name: tf.function(body, jit_compile=True) for name, body in BODIES.items()}


@pytest.mark.filterwarnings("ignore:.*jit_compile=True.*:RuntimeWarning")
@given(STEPS, QUESTIONS, st.booleans(), st.booleans(), st.booleans())
@few
def test_calls_after_each_other_have_the_gradients_of_eager_calls(
    back_end: str, steps: list[Step], questions: Any, infinite: bool, persistent: bool, kept: bool
) -> None:
    functions = compiled()
    expected = answers(steps, questions, EAGER, infinite=infinite, persistent=persistent, kept=kept)
    for _ in range(3):
        assert answers(steps, questions, functions, infinite=infinite, persistent=persistent, kept=kept) == expected


@pytest.mark.filterwarnings("ignore:.*jit_compile=True.*:RuntimeWarning")
@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("first", [*BODIES])
def test_every_call_directly_after_every_other_has_the_gradients_of_eager_calls(
    first: str, infinite: bool, back_end: str
) -> None:
    functions = compiled()
    last = len(nest.flatten(BODIES[first](tf.constant(1.0)))) - 1
    for number, second in enumerate(BODIES):
        steps = [Step(first, 0, None), Step(second, number % 2 * last, None), Step(first, 0, None)]
        turned = [*ASK][number % len(ASK) :] + [*ASK][: number % len(ASK)]
        for persistent in (False, True):
            questions = [(name, 0, 2 + k) for k, name in enumerate(turned)]
            expected = answers(steps, questions, EAGER, infinite=infinite, persistent=persistent, kept=True)
            for _ in range(2):
                found = answers(steps, questions, functions, infinite=infinite, persistent=persistent, kept=True)
                assert found == expected, second


def nested(steps: Sequence[Step], after: Sequence[str], functions: dict[str, Body], watched: int, which: Any) -> Any:
    """The answers of a tape around calls and of a tape that watches a result of them, asked in turn."""
    x = tf.constant([0.5, 2.0], tf.float64)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        known = values_of(steps, functions, x)
        a = known[-1 - watched % len(known)]
        with tf.GradientTape(persistent=True) as inner:
            inner.watch(a)
            y = a * a * known[-1]
        slopes = [inner.gradient(y, a)]
        slopes += [functions[name](s) for name, s in zip(after, slopes, strict=False)]
    ask: dict[str, Callable[[], Any]] = {
        "inner": lambda: inner.gradient(y, [a, known[-1]]),
        "inner Jacobian": lambda: inner.jacobian(y, a),
        "inner explanation": lambda: inner.explain(y, a),
        "outer": lambda: outer.gradient(y, [x, a]),
        "second": lambda: outer.gradient(slopes, [x, a]),
        "second Jacobian": lambda: outer.jacobian(slopes[0], x),
        "outer explanation": lambda: outer.explain(y, x),
    }
    return [outcome(ask[name]) for name in which]


@pytest.mark.filterwarnings("ignore:.*jit_compile=True.*:RuntimeWarning")
@given(
    STEPS,
    st.lists(st.sampled_from([*BODIES]), max_size=1),
    st.integers(0, 12),
    st.lists(
        st.sampled_from(
            ["inner", "inner Jacobian", "inner explanation", "outer", "second", "second Jacobian", "outer explanation"]
        ),
        min_size=1,
        max_size=6,
    ),
)
@few
def test_a_tape_that_watches_a_result_keeps_it_whatever_else_is_asked(
    back_end: str, steps: list[Step], after: list[str], watched: int, which: list[str]
) -> None:
    functions = compiled()
    expected = nested(steps, after, EAGER, watched, which)
    for _ in range(2):
        assert nested(steps, after, functions, watched, which) == expected


def numbers_behind(starts: list[Any]) -> list[Any]:
    """The numbers of all records behind some records, each record once."""
    seen: dict[int, Any] = {}
    pending = list(starts)
    while pending:
        r = pending.pop()
        if id(r) not in seen:
            seen[id(r)] = r
            pending += parents_of(r)
    return [r[SEQ] for r in seen.values()]


@pytest.mark.parametrize(
    "bodies", [("many", "a long chain"), ("two heads", "a product"), ("a product", "three of one")]
)
def test_no_two_records_have_one_number(bodies: tuple[str, str], back_end: str) -> None:
    functions = compiled()
    x = tf.constant([0.5, 2.0], tf.float64)
    for _ in range(2):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            ys = [x]
            for name in bodies * 3:
                ys = nest.flatten(functions[name](ys[0]))
        before = numbers_behind([y._record for y in ys])
        tape.explain(ys[0], x)
        tape.jacobian(ys[-1], x)
        after = numbers_behind([y._record for y in ys])
        assert len(before) == len(set(before))
        assert len(after) == len(set(after))


def test_threads_that_ask_one_tape_get_the_answers_of_one_thread(back_end: str) -> None:
    functions = compiled()
    x = tf.constant([0.5, 2.0], tf.float64)

    def recorded(functions: dict[str, Body]) -> tuple[Any, Any, Any]:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            a, b = functions["two heads"](x)
            y = functions["a product"](a) * b
        return tape, y, a

    names = [name for name in ASK if "batch" not in name]
    tape, y, a = recorded(EAGER)
    expected = {name: outcome(lambda name=name: ASK[name](tape, y, x, a)) for name in names}  # type: ignore[misc]
    for _ in range(20):
        tape, y, a = recorded(functions)
        found: list[Any] = []
        start = threading.Barrier(4)

        def work(turn: int, tape: Any = tape, y: Any = y, a: Any = a, found: Any = found, start: Any = start) -> None:
            start.wait()
            for name in [*names[turn:], *names[:turn]]:
                found.append((name, outcome(lambda name=name: ASK[name](tape, y, x, a))))  # type: ignore[misc]

        threads = [threading.Thread(target=work, args=(2 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [(name, made) for name, made in found if made != expected[name]] == []


def test_a_result_that_no_question_reads_ends_with_its_tape(back_end: str) -> None:
    functions = compiled()
    x = tf.constant([0.5, 2.0], tf.float64)
    for _ in range(3):
        with tf.GradientTape() as tape:
            tape.watch(x)
            a, b = functions["two heads"](x)
            y = a * a
        assert tape.jacobian(y, x) is not None
        del tape
        with tf.GradientTape() as later:
            later.watch(b)
            z = b * b
        assert bits(later.gradient(z, b), alike=True) == bits(2.0 * b, alike=True)


def test_an_inner_tape_sees_no_op_from_before_it_watched_a_result(back_end: str) -> None:
    for name in ("a product", "two heads"):
        x = tf.constant([0.5, 2.0], tf.float64)
        found = []
        for f in (EAGER[name], tf.function(BODIES[name], jit_compile=True)):
            with tf.GradientTape(persistent=True) as outer:
                outer.watch(x)
                u = x * 1.5
                a = nest.flatten(f(u))[0]
                with tf.GradientTape(persistent=True) as inner:
                    inner.watch([a, u])
                    y = a * a
            answers = [outcome(lambda: outer.jacobian(y, x))]  # noqa: B023
            answers += [inner.explain(y, u), *[outcome(lambda s=s: inner.gradient(y, s)) for s in (u, a)]]  # noqa: B023
            found.append(answers)
        assert found[0] == found[1]

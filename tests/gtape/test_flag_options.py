"""Options of the flag: which verdicts raise, and what is checked."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf
from gtape.base import deadline
from gtape.base.verification import BLOCKS, FAILING, _own, restart_sample, verify_mode
from gtape.verify import Options
from gtape.verify.verdicts.collect import collecting
from gtape.verify.verdicts.verdict import GRAVITY


@tf.custom_gradient
def wrong_square(x: Any) -> Any:
    return x * x, lambda g: g * x


@tf.custom_gradient
def lossy_slope(x: Any) -> Any:
    y = tf.tanh(x)
    return y, lambda g: g * (1.0 - y * y)


def gradient(f: Any, x: float, verify: Any = None, dtype: Any = tf.float64) -> Any:
    v = tf.Variable(x, dtype=dtype)
    with tf.GradientTape(verify=verify) as tape:
        y = f(v)
    return tape.gradient(y, v)


def kink(x: Any) -> Any:
    return tf.nn.relu(x)


def far_sum(x: Any) -> Any:
    return tf.sin(x * 1e10)


def hidden(x: Any) -> Any:
    @tf.custom_gradient
    def leaves(x: Any) -> Any:
        return tf.constant(np.tanh(x.numpy())), lambda g: g

    return leaves(x)


PROGRAMS = {
    "rule": (wrong_square, 3.0), "unstable": (lossy_slope, 17.0), "convention": (kink, 0.0),
    "conditioning": (far_sum, 1.1), "undecided": (hidden, 0.5),
}  # fmt: skip
BY_DEFAULT = {"rule", "unstable"}


@pytest.mark.parametrize("verdict", PROGRAMS)
@pytest.mark.parametrize("named", [None, *PROGRAMS, ()])
def test_the_named_verdicts_raise_and_no_others(verdict: str, named: Any) -> None:
    f, x = PROGRAMS[verdict]
    raises = verdict in BY_DEFAULT if named is None else verdict == named
    warns = not raises and verdict in {*BY_DEFAULT, "undecided"}
    with warnings.catch_warnings(record=True) as told, collecting() as report:
        warnings.simplefilter("always")
        if raises:
            with pytest.raises(tf.VerificationError) as error:
                gradient(f, x, Options(fail_on=named))
            assert verdict in str(error.value)
        else:
            assert gradient(f, x, Options(fail_on=named)) is not None
    assert report.verdict == verdict
    assert bool(told) == warns
    assert all(w.filename == __file__ and verdict in str(w.message) for w in told)  # the line of the user


def test_strict_adds_undecided() -> None:
    for mode in ("strict", Options(strict=True), Options(strict=True, fail_on="rule"), Options(["undecided"])):
        with pytest.raises(tf.VerificationError, match="leaves the tape"):
            gradient(hidden, 0.5, mode)


def test_a_report_raises_for_the_named_verdicts() -> None:
    report = tf.verify.check(far_sum, 1.1)
    report.raise_if_failed()
    report.raise_if_failed(fail_on={"rule", "undecided"})
    with pytest.raises(tf.VerificationError, match="conditioning"):
        report.raise_if_failed(fail_on="conditioning")
    with pytest.raises(ValueError, match="names verdicts among"):
        report.raise_if_failed(fail_on="conditionning")


def test_the_verdicts_that_can_fail_are_those_of_findings() -> None:
    assert {g.partition("-")[0] for g in GRAVITY} - {"correct"} == set(FAILING)


def test_higher_orders_than_asked_for_are_left_out() -> None:
    def orders(f: Any, depth: int, verify: Any) -> Any:
        x = tf.Variable(2.0, dtype=tf.float64)
        with collecting() as report, tf.verifying(verify):
            tapes = [tf.GradientTape() for _ in range(depth)]
            for tape in tapes:
                tape.__enter__()
            y = f(x)
            for tape in reversed(tapes):
                tape.__exit__(None, None, None)
                y = tape.gradient(y, x)
        return report.coverage["gradients"]

    for limit, checked in {None: 3, 1: 1, 2: 2, 3: 3}.items():
        assert orders(lambda x: tf.sin(x) * x, 3, Options(order=limit)) == checked


@pytest.mark.parametrize(("digits", "raises"), [(3, False), (4, True), (None, True)])
def test_as_many_digits_are_right_as_asked_for(digits: int | None, raises: bool) -> None:
    # 1 - tanh(x)**2 at 15 is 3.74e-13, computed as a multiple of 2**-53: three digits are right.
    with warnings.catch_warnings(), collecting() as report:
        warnings.simplefilter("ignore")
        if raises:
            with pytest.raises(tf.VerificationError):
                gradient(lossy_slope, 15.0, Options(digits=digits))
        else:
            gradient(lossy_slope, 15.0, Options(digits=digits))
    finding = report.findings[0]
    exact = float(finding.exact or 0)
    assert finding.digits == pytest.approx(-np.log10(abs(float(finding.got) - exact) / exact), abs=1e-3)
    assert 3 <= finding.digits < 4 and report.ok is not raises


def test_a_badly_conditioned_number_raises_with_too_few_digits() -> None:
    assert gradient(far_sum, 1.1, Options(digits=4)) is not None
    with pytest.raises(tf.VerificationError, match=r"7 digits are\s+right, and 12 are\s+required"):
        gradient(far_sum, 1.1, Options(digits=12))
    assert gradient(tf.sin, 1.1, Options(digits=17)) is not None  # within its rounding, a number is right
    with pytest.raises(tf.VerificationError):  # a wrong rule stays wrong, however many digits are right
        gradient(tf.custom_gradient(lambda x: (x * x, lambda g: g * x * 2.00001)), 1.1, Options(digits=3))


@pytest.mark.parametrize("fail_on", [(), "rule", ("rule", "unstable")])
def test_too_few_digits_raise_whatever_fail_on_names(fail_on: Any) -> None:
    with pytest.raises(tf.VerificationError, match=r"digits are\s+right, and 12 are\s+required"):
        gradient(far_sum, 1.1, Options(fail_on, digits=12))
    assert gradient(far_sum, 1.1, Options(fail_on, digits=4)) is not None


def test_a_check_beyond_its_budget_is_undecided() -> None:
    def long(x: Any) -> Any:
        for _ in range(3000):
            x = tf.sin(x) * 1.01
        return x

    limited = Options(budget=0.05)
    begun = time.perf_counter()
    with pytest.warns(UserWarning, match="not finished within its budget of 0.05 s") as told:
        gradient(long, 0.7, limited)
    assert time.perf_counter() - begun < 20 and len(told) == 1
    for mode in (Options(budget=1e-9, strict=True), Options("undecided", budget=1e-9)):
        with pytest.raises(tf.VerificationError, match="budget"):
            gradient(tf.sin, 0.7, mode)
    with collecting() as report:
        gradient(tf.sin, 0.7, Options(budget=100))
    assert report.verdict == "correct" and report.checked == 1


def test_a_budget_leaves_the_next_check_alone() -> None:
    x = tf.constant(np.linspace(0.1, 2.0, 40).reshape(5, 8))
    square = tf.matmul(x, x, transpose_b=True) + tf.eye(5, dtype=tf.float64)
    with pytest.warns(UserWarning, match="budget"):
        gradient_of_inverse(square, Options(budget=1e-4))
    with collecting() as report:
        gradient_of_inverse(square, "strict")
    assert report.ok and report.checked == 25


@tf.custom_gradient
def cubed(x: Any) -> Any:
    return x**3, lambda g: 3.0 * g * x**2


PROGRAMS_IN_A_HURRY: dict[str, Any] = {
    "sums": lambda x: tf.reduce_sum(tf.cumsum(x)),
    "a custom gradient": lambda x: tf.reduce_sum(cubed(x) * tf.sin(x)),
    "a kink": lambda x: tf.reduce_sum(tf.abs(x - x[1]) * x),
    "a factorisation": lambda x: tf.linalg.det(tf.tensordot(x, x, 0) + tf.eye(3, dtype=x.dtype)),
}


@pytest.mark.parametrize("name", PROGRAMS_IN_A_HURRY)
def test_the_end_of_a_budget_is_the_error_of_no_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = PROGRAMS_IN_A_HURRY[name], tf.Variable([0.1, 0.2, 0.3], dtype=tf.float64)
    looks: list[float] = []

    def clock() -> float:
        return looks.pop() if looks else 1e9

    verdicts = set()
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=clock))
    for most in (*range(1, 40), *range(40, 400, 23)):
        looks[:] = [0.0] * most
        with collecting() as report, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            with tf.GradientTape(verify=Options(budget=1.0)) as tape:
                y = f(x)
            tape.gradient(y, x)
        verdicts.add(report.verdict)
    assert "undecided" in verdicts and verdicts <= {"undecided", "correct", "conditioning", "convention"}


def gradient_of_inverse(a: Any, verify: Any) -> Any:
    with tf.GradientTape(verify=verify) as tape:
        tape.watch(a)
        y = tf.linalg.inv(a)
    return tape.gradient(y, a)


def checked_calls(options: Options, calls: int = 60, *, each: bool = False) -> list[int]:
    """The checked ones of some calls from the first one, all in one block or each in a block of its own."""
    found = []
    restart_sample(options)
    with contextlib.nullcontext() if each else tf.verifying(options):
        for i in range(calls):
            with collecting() as report, tf.verifying(options) if each else contextlib.nullcontext():
                gradient(tf.square, 1.5)
            found += [i] * (report.checked > 0)
    return found


def test_the_sample_is_a_share_and_the_same_for_a_seed() -> None:
    first = checked_calls(Options(sample=0.25, seed=1))
    assert first == checked_calls(Options(sample=0.25, seed=1)) != checked_calls(Options(sample=0.25, seed=2))
    assert 5 <= len(first) <= 27
    assert len(checked_calls(Options(sample=1.0), 5)) == 5
    with collecting() as report:
        for _ in range(60):
            gradient(tf.square, 1.5, Options(sample=0.5, seed=3))
    assert 15 <= report.checked <= 45


@pytest.mark.parametrize("seed", range(4))
def test_a_block_that_is_entered_in_each_step_checks_the_sample_of_the_steps(seed: int) -> None:
    options = Options(sample=0.5, seed=seed)
    assert checked_calls(options, each=True) == checked_calls(options)


def test_equal_options_count_together_and_other_options_apart() -> None:
    whole = checked_calls(Options(sample=0.5, seed=11), 40)
    restart_sample(Options(sample=0.5, seed=11))
    found = []
    for i in range(40):
        with tf.verifying(Options(sample=0.5, seed=12)):  # has a count of its own
            gradient(tf.square, 1.5)
        with collecting() as report, tf.verifying(Options(sample=0.5, seed=11)):
            gradient(tf.square, 1.5)
        found += [i] * (report.checked > 0)
    assert found == whole


def test_jacobians_and_forward_mode_follow_the_options() -> None:
    x = tf.constant([1.0, 2.0], tf.float64)
    passing = Options("unstable")
    with tf.GradientTape(verify=passing) as tape, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tape.watch(x)
        y = wrong_square(x)
    with pytest.warns(UserWarning, match="rule"):
        assert tape.jacobian(y, x).shape == (2, 2)
    with tf.verifying(passing), tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as acc:
        y = wrong_square(x)
    with pytest.warns(UserWarning, match="rule"):
        acc.jvp(y)


# ------------------------------------------------------------------------------------------------------- regions


def test_a_region_is_switched_off_inside_a_block_and_on_again_behind_it() -> None:
    before = verify_mode()
    with tf.verifying():
        with tf.verifying(False):
            assert verify_mode() is False
            assert gradient(wrong_square, 3.0).numpy() == 3.0
            with tf.verifying("strict"), pytest.raises(tf.VerificationError):
                gradient(wrong_square, 3.0)
            with pytest.raises(tf.VerificationError):  # a tape with a mode of its own
                gradient(wrong_square, 3.0, True)
            assert verify_mode() is False
        with pytest.raises(tf.VerificationError):
            gradient(wrong_square, 3.0)
    assert verify_mode() == before


def test_the_innermost_block_decides_and_each_outer_one_comes_back() -> None:
    options = Options("rule")
    modes = [True, "strict", True, options, False, "strict"]
    blocks = [tf.verifying(m) for m in modes]
    for m, b in zip(modes, blocks, strict=True):
        b.__enter__()
        assert verify_mode() is m
    for m, b in reversed(list(zip(modes, blocks, strict=True))):
        assert verify_mode() is m
        b.__exit__(None, None, None)


def test_a_region_that_is_off_leaves_accumulators_and_tapes_from_outside_alone() -> None:
    x = tf.Variable(3.0)
    with tf.verifying():
        with tf.GradientTape() as tape:
            y = wrong_square(x)
        with tf.autodiff.ForwardAccumulator(x, tf.ones(())) as acc:
            z = wrong_square(x)
        with tf.verifying(False):
            assert tape.gradient(y, x).numpy() == 3.0 and acc.jvp(z).numpy() == 3.0
        with pytest.raises(tf.VerificationError):
            acc.jvp(z)


def test_one_thread_does_not_switch_off_the_checks_of_another() -> None:
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with tf.verifying(False):
            inside.set()
            done.wait(10)

    with tf.verifying():
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait(10)
        try:
            with pytest.raises(tf.VerificationError):
                gradient(wrong_square, 3.0)
        finally:
            done.set()
            thread.join()


# ------------------------------------------------------------------------------------- tasks, contexts, generators


def passes() -> bool:
    """Whether a wrong gradient passes without an error."""
    try:
        gradient(wrong_square, 3.0)
    except tf.VerificationError:
        return False
    return True


async def in_turn(*modes: Any) -> list[Any]:
    """The modes that tasks see inside of blocks that are all open at once; a task whose mode is None has no block.

    The tasks enter their blocks one after another, look, and leave in the order in which they entered.
    """
    entered, looked = asyncio.Barrier(len(modes)), asyncio.Barrier(len(modes))

    async def work(number: int, mode: Any) -> Any:
        for _ in range(number):
            await asyncio.sleep(0)
        with contextlib.nullcontext() if mode is None else tf.verifying(mode):
            await entered.wait()
            seen = verify_mode()
            await looked.wait()
        return seen

    return await asyncio.gather(*[work(i, m) for i, m in enumerate(modes)])


@given(modes=st.lists(st.sampled_from([True, False, "strict", None]), min_size=1, max_size=5))
def test_each_task_follows_its_own_block(modes: list[Any]) -> None:
    outside = verify_mode()
    assert asyncio.run(in_turn(*modes)) == [outside if m is None else m for m in modes]
    assert not BLOCKS


@given(
    around=st.sampled_from([True, False, "strict"]),
    modes=st.lists(st.sampled_from([True, False, "strict", None]), min_size=1, max_size=4),
)
def test_tasks_without_a_block_follow_the_block_around_the_loop(around: Any, modes: list[Any]) -> None:
    with tf.verifying(around):
        assert asyncio.run(in_turn(*modes)) == [around if m is None else m for m in modes]
        assert verify_mode() == around


def test_one_task_does_not_switch_off_the_checks_of_another() -> None:
    async def checked(inside: asyncio.Event, other: asyncio.Event) -> bool:
        with tf.verifying():
            inside.set()
            await other.wait()
            return passes()

    async def unchecked(inside: asyncio.Event, other: asyncio.Event) -> bool:
        await inside.wait()
        with tf.verifying(False):
            other.set()
            await asyncio.sleep(0)
            return passes()

    async def main() -> list[bool]:
        inside, other = asyncio.Event(), asyncio.Event()
        return list(await asyncio.gather(checked(inside, other), unchecked(inside, other)))

    assert asyncio.run(main()) == [False, True]


def test_a_task_follows_the_block_in_which_it_was_created_until_its_end() -> None:
    async def main() -> list[bool]:
        over = asyncio.Event()

        async def work() -> list[bool]:
            before = passes()
            await over.wait()
            return [before, passes()]

        with tf.verifying():
            task = asyncio.create_task(work())
            await asyncio.sleep(0)
        over.set()
        return await task

    with tf.verifying(False):
        assert asyncio.run(main()) == [False, True]


def test_work_that_a_task_hands_to_a_thread_follows_the_block_of_the_task() -> None:
    async def main() -> list[bool]:
        one_check = asyncio.Lock()  # because Python's filters of warnings are common to all threads

        async def work(mode: Any) -> bool:
            with tf.verifying(mode):
                async with one_check:
                    return await asyncio.to_thread(passes)

        return list(await asyncio.gather(work(True), work(False), work("strict")))

    assert asyncio.run(main()) == [False, True, False]


def test_a_loop_that_was_made_before_a_block_is_checked_inside() -> None:
    async def work() -> bool:
        return passes()

    with asyncio.Runner() as runner:
        runner.get_loop()  # copies the context
        with tf.verifying():
            assert runner.run(work()) is False
        with tf.verifying(False):
            assert runner.run(work()) is True


def test_tasks_with_equal_options_share_one_sample() -> None:
    options = Options(sample=0.5, seed=3)

    async def work() -> list[bool]:
        seen = []
        for _ in range(12):
            with tf.verifying(options):
                seen.append(passes())
            await asyncio.sleep(0)
        return seen

    async def main() -> list[list[bool]]:
        return list(await asyncio.gather(work(), work()))

    restart_sample(options)
    both = asyncio.run(main())
    restart_sample(options)
    alone = asyncio.run(work()) + asyncio.run(work())
    assert sum(map(sum, both)) == sum(alone) and len(set(alone)) == 2


def test_a_thread_without_a_block_follows_the_newest_one() -> None:
    with tf.verifying(False), concurrent.futures.ThreadPoolExecutor(1) as executor:
        assert executor.submit(passes).result() is True
        with tf.verifying():
            assert executor.submit(passes).result() is False


def test_a_block_ends_everywhere_if_another_context_ends_it() -> None:
    before = verify_mode()
    block = tf.verifying("strict")
    block.__enter__()
    assert verify_mode() == "strict"
    contextvars.copy_context().run(block.__exit__, None, None, None)
    assert verify_mode() == before and not BLOCKS


def test_blocks_that_overlap_leave_nothing_behind() -> None:
    before = tf.verifying()
    before.__enter__()
    for _ in range(50):
        after = tf.verifying()
        after.__enter__()
        before.__exit__(None, None, None)
        before = after
        assert len(_own.get()) <= 2
    before.__exit__(None, None, None)


def test_a_generator_that_ends_its_block_before_it_yields_leaves_its_caller_alone() -> None:
    def batches() -> Iterator[bool]:
        for _ in range(2):
            with tf.verifying():
                found = passes()
            yield found

    with tf.verifying(False):
        assert [(found, passes()) for found in batches()] == [(False, True)] * 2


def test_tapes_of_tasks_record_apart() -> None:
    x = tf.Variable(3.0)

    async def work(power: int) -> tuple[float, float, int]:
        with tf.GradientTape() as tape, tf.autodiff.ForwardAccumulator(x, tf.ones(())) as acc:
            y = tf.ones(())
            for _ in range(power):
                y = y * x
                await asyncio.sleep(0)
        return float(tape.gradient(y, x)), float(acc.jvp(y)), len(tape.watched_variables())

    async def main() -> list[tuple[float, float, int]]:
        return await asyncio.gather(*map(work, range(1, 5)))

    assert asyncio.run(main()) == [(n * 3.0 ** (n - 1), n * 3.0 ** (n - 1), 1) for n in range(1, 5)]


# ------------------------------------------------------------------------------------------------ texts and errors


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("", False), ("0", False), ("off", False), ("1", True), ("yes", True), (" STRICT ", "strict"),
        ("fail_on=rule,unstable;order=2;budget=2;sample=0.1",
         Options(["rule", "unstable"], order=2, budget=2, sample=0.1)),
        ("strict;budget=0.5", Options(strict=True, budget=0.5)), ("1; digits=6; seed=3;", Options(digits=6, seed=3)),
        ("fail_on=;strict=1", Options((), strict=True)),
    ],
)  # fmt: skip
def test_a_text_stands_for_a_mode(text: str, mode: Any) -> None:
    assert Options.from_text(text) == mode


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stict", "'stict' is unknown: write 1, strict, 0, or options such as fail_on=rule"),
        ("fail_on=rules", "names verdicts among rule, unstable, convention, .*, not 'rules'"),
        ("fail=rule", "'fail=rule' is no option: the options are fail_on, order, digits, budget, sample, seed, strict"),
        ("order=two", "order=two: 'two' is not a whole number"),
        ("budget=__import__('os')", "is not a number"),
        ("sample=0", "`sample` is a share, more than 0 and at most 1, not 0"),
        ("budget=nan", "`budget` is seconds, more than 0, not nan"),
        ("0;order=2", "switches the checks off"),
        ("order=1;order=2", "order is given twice"),
        ("order=1;strict", "'strict' is no option"),
        (";", "';' holds no word and no option: write 1, strict, 0, or"),
        (" ; ;", "holds no word and no option"),
    ],
)
def test_a_wrong_text_is_explained(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Options.from_text(text)


def test_the_environment_takes_options_and_refuses_unknown_ones() -> None:
    program = "import gtape; from gtape.base.verification import verify_mode; print(verify_mode())"

    def run(text: str) -> Any:
        env = {**os.environ, "GTAPE_VERIFY": text}
        return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)

    assert run("fail_on=unstable,rule;order=2").stdout == "Options(fail_on={'rule', 'unstable'}, order=2)\n"
    failed = run("fail_on=wrong")
    assert failed.returncode and "the environment variable GTAPE_VERIFY: " in failed.stderr
    assert "conditioning" in failed.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"fail_on": {"wrong"}}, ValueError, "names verdicts among rule, .*, not 'wrong'"),
        ({"fail_on": "correct"}, ValueError, "not 'correct'"),
        ({"fail_on": "rule,wrong"}, ValueError, "not 'wrong'"),
        ({"fail_on": 3}, TypeError, "is a set of verdicts, not 3"),
        ({"order": 0}, ValueError, "at least 1, not 0"),
        ({"order": 1.5}, TypeError, "`order` is a whole number, not 1.5"),
        ({"digits": 18}, ValueError, "from 1 to 17, not 18"),
        ({"budget": -1}, ValueError, "more than 0, not -1"),
        ({"budget": "2"}, TypeError, "`budget` is a number, not '2'"),
        ({"sample": 2}, ValueError, "at most 1, not 2"),
        ({"strict": "yes"}, TypeError, "True or False, not 'yes'"),
        ({"verdicts": ()}, TypeError, "verdicts"),
    ],
)
def test_wrong_options_are_refused(given: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        Options(**given)


def test_options_are_values() -> None:
    made = Options({"unstable", "rule"}, budget=2, sample=np.float64(0.5))
    assert made == Options(["rule", "unstable"], budget=2.0, sample=0.5) != Options()
    assert hash(made) == hash(pickle.loads(pickle.dumps(made))) and made == pickle.loads(pickle.dumps(made))
    assert eval(repr(made), {"Options": Options}) == made
    with pytest.raises(TypeError, match="immutable"):
        made.order = 2
    for refused in ("sometimes", 2, {"order": 1}, Options):
        with pytest.raises(ValueError, match=r"True or 'strict', or a gtape.verify.Options, not"):
            tf.GradientTape(verify=refused)
        with (
            pytest.raises(ValueError, match=r"True or 'strict', or a gtape.verify.Options, not"),
            tf.verifying(refused),
        ):
            pass


def test_a_string_may_list_verdicts_as_in_the_environment() -> None:
    assert Options(fail_on="rule, unstable") == Options(["rule", "unstable"])
    assert Options("rule,unstable") == Options.from_text("fail_on=rule,unstable")

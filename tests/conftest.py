"""Fixtures for all tests: nothing may leak from one test into the next, and Hypothesis's profiles."""

from __future__ import annotations

import functools
import gc
import itertools
import math
import os
import random
import re
import sys
import tempfile
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flint
import hypothesis
import mpmath
import numpy as np
import pytest
import scipy.special  # adds warning filters of the class Warning when first imported  # noqa: F401
from hypothesis import HealthCheck, Phase, settings

# Nothing may depend on chance here: Hypothesis's seeds come from the source of the tests, it has no memory of former
# runs, and no deadline, because a loaded machine is no fault of the code. `--search` draws other examples each time.
# Nothing varies the parts of an example that was found to say which ones matter, because the tests that look for an
# example would spend nine tenths of their time there.
settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, max_examples=50,
    phases=[phase for phase in Phase if phase is not Phase.explain],
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
# For a second run on other versions of Python and the libraries: `--hypothesis-profile=few`.
settings.register_profile("few", parent=settings.get_profile("fixed"), max_examples=10)
settings.load_profile("fixed")


def _without_constants_of_modules() -> None:
    """Keep Hypothesis from drawing constants out of the source of whatever local modules happen to be loaded.

    These modules differ between the processes of pytest-xdist, and between a whole run and that of one test.
    """
    try:
        from hypothesis.internal.conjecture import providers
        from hypothesis.internal.constants_ast import Constants
    except ImportError:  # old versions of Hypothesis draw none
        return
    none = Constants()
    providers._get_local_constants = lambda: none


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share", type=int, metavar="N",
        help="run one of N cases of each parametrised test, always the same, at least one; 1 runs all",
    )  # fmt: skip
    parser.addoption(
        "--every", type=int, metavar="N",
        help="run one of N tests of each file, always the same, at least one; for a second run beside a run of all",
    )  # fmt: skip
    parser.addoption(
        "--whole", action="append", default=[], metavar="PATH",
        help="of this file or folder --share and --every leave out nothing; may be given again",
    )  # fmt: skip
    parser.addoption(
        "--search", type=int, metavar="N",
        help="let Hypothesis search at random, N examples where a test usually has 50, and print what it finds",
    )  # fmt: skip


# Hypothesis 6.100 takes its own strategies for unreliable if the collector is frozen for the whole run.
FROZEN = hypothesis.__version_info__ >= (6, 150)


def pytest_collection_finish() -> None:
    """Keep the collector of cycles away from the collected tests, a large heap that each full collection would pass."""
    if FROZEN:
        gc.collect()
        gc.freeze()


def pytest_sessionfinish() -> None:
    """Collect once before pytest does, which collects five times, each time over all objects of the whole run."""
    gc.collect()
    gc.freeze()


def _compile_all_functions() -> None:
    """Give `gtape.function` the default ``jit_compile=True``, for a run of tests that say nothing about compilation."""
    from gtape.tapes import functions

    plain = functions.function

    @functools.wraps(plain)
    def function(func: Any = None, input_signature: Any = None, **options: Any) -> Any:
        return plain(func, input_signature, **{"jit_compile": True, **options})

    functions.function = function


def pytest_configure(config: pytest.Config) -> None:
    _check_share(config)
    if os.environ.get("GTAPE_TEST_JIT"):
        _compile_all_functions()
        # What draws random numbers or assigns variables is never compiled, and says so; the other tests of these
        # functions must pass all the same.
        config.addinivalue_line("filterwarnings", "ignore:.* has jit_compile=True but runs eagerly:RuntimeWarning")
    count = config.getoption("--search")
    if count is None:
        _without_constants_of_modules()
        return
    if count < 1:
        raise pytest.UsageError(f"--search needs a positive number of examples, not {count}")
    settings.register_profile(
        "search", parent=settings.get_profile("fixed"), derandomize=False, max_examples=count, print_blob=True,
        phases=list(Phase), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    settings.load_profile("search")


def _check_share(config: pytest.Config) -> None:
    shares = {option: config.getoption(option) for option in ("--share", "--every")}
    whole = config.getoption("--whole")
    if whole and all(n is None for n in shares.values()):
        raise pytest.UsageError("--whole says what --share and --every leave alone; give one of them, too")
    for option, n in shares.items():
        if n is not None and n < 1:
            raise pytest.UsageError(f"{option} needs a positive number, not {n}")
    for path in whole:
        if not (config.invocation_params.dir / path).exists():
            raise pytest.UsageError(f"--whole {path}: there is no such file or folder")


TESTS = Path(__file__).resolve().parent
# A run of all tests takes one of so many cases of each test that has more than a few, such as one for each op, and a
# single case of most slow tests and of short tests of checks, which take most of the time. These files keep all of
# theirs, because their cases were written one by one, except those that differ by a seed.
USUAL_SHARE = 40
FEW_CASES = 2
ALWAYS_WHOLE = ("contract", "seeds", "test_zoo.py", "test_docs.py", "verify/test_no_false_alarms.py")


def _runs_everything(config: pytest.Config) -> bool:
    """Whether all tests were asked for, rather than some or a search or a large run."""
    if config.getoption("--search") is not None or config.getoption("keyword") or os.environ.get("GTAPE_LARGE"):
        return False
    return {(config.invocation_params.dir / path).resolve() for path in config.args} == {TESTS}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what options leave out, and put slow tests first, so that no worker is alone with one at the end."""
    share = config.getoption("--share")
    whole = [(config.invocation_params.dir / path).resolve() for path in config.getoption("--whole")]
    usual = share is None and _runs_everything(config)
    if usual:
        share, whole = USUAL_SHARE, [TESTS / path for path in ALWAYS_WHOLE]
    if share is not None:
        shared = {p for p in {item.path for item in items} if not any(p.is_relative_to(path) for path in whole)}
        functions: dict[str, list[pytest.Item]] = {}
        for item in items:
            if item.path in shared or (usual and _is_drawn(item)):
                functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
        # By a checksum of the name, because each n-th case might be each one of the same dtype.
        left_out: set[pytest.Item] = set()
        for cases in functions.values():
            cases.sort(key=lambda item: (zlib.crc32(_name(item).encode()), item.nodeid))
            if not usual:
                left_out.update(cases[math.ceil(len(cases) / share) :])
                continue
            long = cases[0].get_closest_marker("slow") or cases[0].path.is_relative_to(TESTS / "verify")
            few = 1 if long else FEW_CASES
            if len(cases) > few:
                # From the end, because CI runs a share of each test from the beginning, too.
                left_out.update(cases[: -max(few, math.ceil(len(cases) / share))])
        _leave_out(config, items, left_out)
    if (every := config.getoption("--every")) is not None:
        _leave_out(config, items, _other_tests(items, every, whole))
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def _leave_out(config: pytest.Config, items: list[pytest.Item], left_out: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def _other_tests(items: list[pytest.Item], every: int, whole: list[Path]) -> set[pytest.Item]:
    """The cases of all but one of `every` tests of each file outside of `whole`."""
    files: dict[Path, dict[str, list[pytest.Item]]] = {}
    for item in items:
        if not any(item.path.is_relative_to(path) for path in whole):
            files.setdefault(item.path, {}).setdefault(_name(item).partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for tests in files.values():
        names = sorted(tests, key=lambda name: (zlib.crc32(name.encode()), name))
        for name in names[math.ceil(len(names) / every) :]:
            left_out.update(tests[name])
    return left_out


def _is_drawn(item: pytest.Item) -> bool:
    """Whether a case is one of those that differ by a seed."""
    return isinstance(item, pytest.Function) and hasattr(item, "callspec") and "seed" in item.callspec.params


@pytest.fixture(scope="session", autouse=True)
def compiled_once() -> Iterator[None]:
    """Where Python may not write compiled modules, the processes that tests start share them in a temporary folder.

    Each of a hundred processes would compile gtape anew, which takes half of its start.
    """
    if not sys.dont_write_bytecode or sys.pycache_prefix is not None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="gtape-tests-") as folder:
        patch.setenv("PYTHONPYCACHEPREFIX", folder)
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture(scope="module")
def few_to_collect() -> Iterator[None]:
    """Keep the collector of cycles away from what was there before, which each full collection would pass.

    For modules that call the collector, or search its objects, often.
    """
    gc.collect()
    gc.freeze()
    yield
    if not FROZEN:
        gc.unfreeze()


def _name(item: pytest.Item) -> str:
    """A test's name that is the same wherever the run was started, and in each process of pytest-xdist."""
    return item.nodeid.rpartition("tests/")[2].partition("@")[0]  # xdist may add a group's name


_FALSIFYING = re.compile(r"^(?:Falsifying example|Failing test case): \w+\((.*?)^\)$", re.M | re.S)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Below a failure that the search has found, the decorator that makes a fixed example of it."""
    report = yield
    if item.config.getoption("--search") is not None and call.excinfo is not None:
        notes = "\n".join(_notes(call.excinfo.value))
        for found in dict.fromkeys(_FALSIFYING.findall(notes)):
            arguments = " ".join(re.sub(r"#.*$", "", found, flags=re.M).split())
            report.sections.append(("fixed example to keep", f"@example({arguments.rstrip(',')})"))
    return report


def _notes(error: BaseException) -> Iterator[str]:
    yield from getattr(error, "__notes__", ())
    for inner in getattr(error, "exceptions", ()):
        yield from _notes(inner)


# These add a filter for a warning of their own when they are first imported, which is no leak.
_MAY_ADD_FILTERS = {"numpy", "scipy", "sympy"}


def _active_tapes() -> Any:
    """The sessions that are recording in this thread, or None."""
    from gtape.recording import record

    stack = record.active()
    return None if stack is None else stack.sessions


def _state() -> dict[str, Any]:
    return {
        "active tapes": _active_tapes(),
        "NumPy's error state": np.geterr(),
        "NumPy's error callback": np.geterrcall(),
        "NumPy's print options": np.get_printoptions(),
        "flint.ctx.prec": flint.ctx.prec,
        "mpmath.mp.prec": mpmath.mp.prec,
        "GTAPE_VERIFY": os.environ.get("GTAPE_VERIFY"),
    }


def _filters() -> list[Any]:
    return [f for f in warnings.filters if f[2].__module__.partition(".")[0] not in _MAY_ADD_FILTERS]


_first_states: dict[int, tuple[np.random.Generator, Any]] = {}


@pytest.fixture(autouse=True)
def no_chance(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test draws depends on its name alone: neither on the time nor on the tests that ran before it."""
    if request.config.getoption("--search") is not None:
        yield
        return
    from gtape.ops.random import draws
    from gtape.ops.random import generator as random_generator

    # The test's module has generators that all its tests draw from.
    for made in vars(request.module).values():
        if isinstance(made, np.random.Generator):
            made.bit_generator.state = _first_states.setdefault(id(made), (made, made.bit_generator.state))[1]
    number = zlib.crc32(_name(request.node).encode())
    fresh = itertools.count(number << 32)
    seeded = np.random.default_rng
    # Not the fixture `monkeypatch`: a test's own changes must be undone before `no_leaks` looks.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "default_rng", lambda seed=None: seeded(next(fresh) if seed is None else seed))
        patch.setattr(random_generator, "_global", [])
        draws._seeds.begin()
        draws.set_seed(None)
        random.seed(number)
        yield


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves global state other than it found it, and put that state back for the next one."""
    before, filters = _state(), _filters()
    yield
    after = _state()
    changed = [f"{what}: {before[what]!r} -> {after[what]!r}" for what in before if before[what] != after[what]]
    if _filters() != filters:
        changed.append("warnings.filters")
    if not changed:
        return
    if after["active tapes"] != before["active tapes"]:
        from gtape.recording import record

        record.set_stack(before["active tapes"] or ())
    np.seterr(**before["NumPy's error state"])
    np.seterrcall(before["NumPy's error callback"])
    np.set_printoptions(**{k: v for k, v in before["NumPy's print options"].items() if k != "override_repr"})
    flint.ctx.prec = before["flint.ctx.prec"]
    mpmath.mp.prec = before["mpmath.mp.prec"]
    pytest.fail("the test changed global state and did not put it back: " + "; ".join(changed), pytrace=False)

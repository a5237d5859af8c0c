"""A public name is found in the module that declares it: without a list, and without importing the others."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import gtape
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.namespaces import catalogue, places

ROOT = Path(__file__).resolve().parents[2]
SPACES = {"math", "nn", "linalg", "image", "math.special"}


def _fresh(code: str, *options: str) -> Any:
    """What the last line of output of a fresh process says, as JSON."""
    run = subprocess.run([sys.executable, *options, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


# ---------------------------------------------------------------------------------------------- the text of modules


def test_the_text_of_a_module_names_all_that_it_declares() -> None:
    for prim in REGISTRY.values():
        assert prim.module in catalogue._declaring(prim.name, exported=False) or prim.module not in catalogue.modules()
    for module in catalogue.modules():
        for name in catalogue.names_of(sys.modules[module]):
            assert module in catalogue._declaring(name, exported=True), f"{module} gives {name} without naming it"


def test_no_name_stands_for_two_functions_or_two_primitives() -> None:
    seen: dict[tuple[str, bool], str] = {}
    for module in catalogue.modules():
        for name, value in catalogue._public(sys.modules[module]).items():
            key = (name, isinstance(value, Primitive))
            assert key not in seen, f"{name} is defined in {seen[key]} and {module}"
            seen[key] = module


def test_modules_state_namespaces_that_there_are() -> None:
    stated = {space for spaces in catalogue.modules().values() for space in spaces}
    assert stated == SPACES
    assert {*places.ALIASES, *places.ALSO_IN} <= {*SPACES, "dtypes"}


def test_helpers_give_no_public_names() -> None:
    assert "gtape.ops.reduction.common" not in catalogue.modules()
    assert "gtape.tapes.forward" not in catalogue.modules()
    assert not hasattr(gtape, "reduced") and not hasattr(gtape.math, "numeric")


# ---------------------------------------------------------------------------------------------- the first use

# What the first use of an op may import from gtape.ops.
FAMILIES = {
    "tf.sin(0.5)": {"elementwise"},
    "tf.constant(1.0) + 1.0": {"elementwise"},
    "tf.nn.relu(0.5)": {"elementwise"},
    "tf.reduce_sum([1.0])": {"reduction", "elementwise", "shape"},
    "tf.matmul([[1.0]], [[1.0]])": {"linalg", "elementwise", "shape"},
    "tf.GradientTape()": set(),
}


@pytest.mark.parametrize("call", FAMILIES)
def test_the_first_use_of_an_op_imports_its_own_family(call: str) -> None:
    code = f"import gtape as tf, sys, json\n{call}\nprint(json.dumps([m for m in sys.modules if 'gtape.' in m]))"
    loaded = _fresh(code)
    families = {m.split(".")[2] for m in loaded if m.startswith("gtape.ops.")}
    assert families <= FAMILIES[call]
    assert len([m for m in loaded if m.startswith("gtape.ops.") and m.count(".") > 2]) <= 8


def test_a_rule_that_is_looked_up_by_name_imports_what_declares_it() -> None:
    code = (
        "import gtape as tf, sys, json\n"
        "from gtape.declare.primitives import REGISTRY\n"
        "prim = REGISTRY['cholesky']\n"
        "print(json.dumps([prim.module, REGISTRY.complete, 'gtape.ops.nn.pooling' in sys.modules]))"
    )
    assert _fresh(code) == ["gtape.ops.linalg.cholesky", False, False]


def test_a_check_of_lost_digits_imports_only_the_families_of_its_ops() -> None:
    code = (
        "import gtape as tf, numpy as np, json\n"
        "from gtape.declare.primitives import REGISTRY\n"
        "report = tf.verify.check(lambda x: tf.reduce_sum(((x + 1e6) - 1e6) ** 2 / tf.exp(x)), np.array([0.3, 0.1]))\n"
        "print(json.dumps([report.verdict, REGISTRY.complete]))"
    )
    assert _fresh(code) == ["cancellation", False]


def test_all_names_are_there_whatever_was_used_first() -> None:
    code = (
        "import gtape as tf, json\n"
        "from gtape.declare.primitives import REGISTRY\n"
        "tf.linalg.lu, tf.nn.conv2d, tf.where\n"
        "print(json.dumps([list(REGISTRY), len(REGISTRY), dir(tf), dir(tf.math), dir(tf.nn), 'zeta' in REGISTRY]))"
    )
    expected = [list(REGISTRY), len(REGISTRY), dir(gtape), dir(gtape.math), dir(gtape.nn), True]
    assert _fresh(code) == expected


def test_every_name_is_the_same_object_whether_or_not_all_is_loaded() -> None:
    code = (
        "import gtape as tf, json, sys\n"
        "names = json.loads(sys.argv[1])\n"
        "home = lambda f: [type(f).__name__, getattr(f, '__module__', ''), getattr(f, '__qualname__', '')]\n"
        "print(json.dumps({n: home(getattr(tf, n)) for n in names}))"
    )
    names = [n for n in sorted(catalogue.names_in()) if n != "getitem"]
    run = subprocess.run(
        [sys.executable, "-c", code, json.dumps(names)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name, found in json.loads(run.stdout).items():
        f = getattr(gtape, name)
        assert found == [type(f).__name__, getattr(f, "__module__", ""), getattr(f, "__qualname__", "")], name


def test_without_source_text_all_modules_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    known = list(catalogue._sources())
    monkeypatch.setattr(catalogue, "_texts", {})
    monkeypatch.setattr(catalogue, "_HERE", "/nowhere")
    assert set(known) <= set(catalogue._sources())
    assert not any(catalogue._sources().values())
    assert catalogue.find("sin") is gtape.sin
    assert catalogue.find("where") is gtape.where
    assert catalogue.find("no_such_op") is None
    assert {*catalogue.modules()} == {*known} - {m for m in known if catalogue._spaces(sys.modules[m]) is None}


def test_all_names_at_once_have_the_functions_that_each_name_has_alone() -> None:
    for name, found in catalogue.declared().items():
        assert (found.function if isinstance(found, Primitive) else found) is catalogue.find(name), name


def test_a_primitive_is_behind_its_function_and_behind_no_wrapper_of_it() -> None:
    assert Primitive.behind(gtape.sin) is REGISTRY["sin"]
    assert Primitive.behind(functools.wraps(gtape.sin)(lambda x: gtape.sin(2.0 * x))) is None
    assert Primitive.behind(len) is None


def test_threads_find_names_at_the_same_time() -> None:
    code = (
        "import gtape as tf, json, threading\n"
        "names = ['sin', 'matmul', 'reduce_sum', 'where', 'conv', 'gather', 'cast', 'norm'] * 3\n"
        "start, found = threading.Barrier(len(names)), []\n"
        "def look(name):\n"
        "    start.wait()\n"
        "    found.append((name, hasattr(tf, name), len(dir(tf))))\n"
        "threads = [threading.Thread(target=look, args=(n,)) for n in names]\n"
        "[t.start() for t in threads]; [t.join(60) for t in threads]\n"
        "print(json.dumps([len(found), sorted({n for n, ok, _ in found if not ok}), len({k for *_, k in found})]))"
    )
    assert _fresh(code) == [24, ["conv"], 1]


def test_a_registry_that_is_iterated_while_a_thread_declares_stays_whole() -> None:
    sizes: set[int] = set()
    threads = [threading.Thread(target=lambda: sizes.add(len(list(REGISTRY.items())))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == {len(REGISTRY)}


# ---------------------------------------------------------------------------------------------- what dir() lists


def test_each_namespace_lists_what_it_did() -> None:
    """The names of each namespace are written down in names.json; a new op adds to them, and nothing may vanish."""
    before: dict[str, list[str]] = json.loads((Path(__file__).parent / "names.json").read_text(encoding="utf-8"))
    for space, names in before.items():
        module: Any = gtape
        for part in filter(None, space.split(".")):
            module = getattr(module, part)
        assert set(names) <= set(dir(module))

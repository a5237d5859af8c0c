"""Whatever moment a saving process is killed at, what it had finished is there, and nothing else stays behind.

`test_a_killed_saver_loses_nothing` kills at random moments: 5 times, and 200 times with GTAPE_LARGE=1 in the
environment.
`test_a_saver_may_be_killed_between_any_two_steps` kills before each call that changes the folder.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import LARGE

import gtape as tf

KEPT = 3
ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs SIGKILL and fork")

# Saves for ever, and says each number once save() has returned.
SAVER = """
import os, sys
import gtape as tf

v, w = tf.Variable(0, dtype="int64"), tf.Variable(tf.zeros([20_000]))
checkpoint = tf.train.Checkpoint(v=v, w=w)
manager = tf.train.CheckpointManager(checkpoint, sys.argv[1], max_to_keep=3)
manager.restore_or_initialize()
for _ in range(int(sys.argv[2])):
    v.assign_add(1)
    w.assign(tf.fill([20_000], float(v)))
    path = manager.save()
    os.write(1, f"{int(v)} {os.path.basename(path)}\\n".encode())
"""

# Saves four times, and is killed before the n-th call that changes the folder: for every n, in a process of its own.
STEPPER = """
import os, signal, sys
import gtape as tf

def saves(folder):
    v = tf.Variable(0, dtype="int64")
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=v), folder, max_to_keep=2)
    manager.restore_or_initialize()
    for _ in range(4):
        v.assign_add(1)
        path = manager.save()
        with open(folder + ".done", "a") as f:
            f.write(f"{int(v)} {os.path.basename(path)}\\n")

def kill_at(n):
    calls = 0
    for name in ("open", "replace", "unlink", "remove", "fsync"):
        def step(*args, _real=getattr(os, name), **more):
            nonlocal calls
            calls += 1
            if calls == n:
                os.kill(os.getpid(), signal.SIGKILL)
            return _real(*args, **more)
        setattr(os, name, step)

for n in range(1, 1000):
    folder = f"{sys.argv[1]}/{n}"
    child = os.fork()
    if not child:
        os.makedirs(folder)
        kill_at(n)
        saves(folder)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def archives(folder: Path) -> set[str]:
    return {p.stem for p in folder.iterdir() if p.suffix == ".npz"}


def value_of(path: Path | str) -> int:
    return int(tf.train.load_variable(path, "v"))


def examine(folder: Path, done: list[tuple[int, str]], kept: int) -> None:
    """What has to be true after a kill, before and after another manager looks at the folder."""
    note = json.loads((folder / "checkpoint").read_bytes()) if (folder / "checkpoint").exists() else {"all": []}
    for name in note["all"]:
        assert value_of(folder / name) > 0, f"the note names {name}"
    newest = max([value_of(folder / name) for name in note["all"]], default=0)
    for number, name in done:
        assert number <= newest
        if number > newest - kept:
            assert value_of(folder / name) == number and name in note["all"]
    v = tf.Variable(-1, dtype="int64")
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=v), folder, max_to_keep=kept)
    assert manager.restore_or_initialize() == manager.latest_checkpoint == tf.train.latest_checkpoint(folder)
    assert int(v) >= max([number for number, _ in done], default=-1)
    left = [p.name for p in folder.iterdir() if p.suffix not in (".npz", "") or p.name.endswith(".part")]
    assert not left, f"left behind: {left}"
    assert archives(folder) == {Path(p).name for p in manager.checkpoints}


def test_a_killed_saver_loses_nothing(tmp_path: Path) -> None:
    moments = random.Random(0)
    done: list[tuple[int, str]] = []
    for _ in range(200 if LARGE else 5):
        child = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(tmp_path), "100000"], stdout=subprocess.PIPE, env=environment(), cwd=ROOT
        )
        out: Any = child.stdout
        with out:
            said = [out.readline() for _ in range(moments.randrange(1, 4))]
            time.sleep(moments.uniform(0.0, 0.03))
            child.send_signal(signal.SIGKILL)
            said += out.readlines()
        assert child.wait() == -signal.SIGKILL
        done += [(int(number), name.decode()) for number, name in [line.split() for line in said]]
        examine(tmp_path, done, KEPT)


@pytest.mark.slow
def test_a_saver_may_be_killed_between_any_two_steps(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", STEPPER, str(tmp_path)], env=environment(), cwd=ROOT, check=True, timeout=300)
    folders = sorted(p for p in tmp_path.iterdir() if p.is_dir())
    assert len(folders) > 50
    for folder in folders:
        log = folder.with_name(folder.name + ".done")
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        examine(folder, [(int(number), name) for number, name in [line.split() for line in lines]], kept=2)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_the_next_saver_takes_over_what_a_killed_one_had_not_noted(tmp_path: Path, at: int) -> None:
    # Killed after the archive was in its place and before the note said so.
    v = tf.Variable(0, dtype="int64")
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=v), tmp_path, max_to_keep=2)
    for number in range(1, at):
        v.assign(number)
        manager.save()
    manager._settle = lambda name: None  # type: ignore[method-assign]
    v.assign(at)
    manager.save(checkpoint_number=100)
    again = tf.train.CheckpointManager(tf.train.Checkpoint(v=v), tmp_path, max_to_keep=2)
    assert str(tmp_path / "ckpt-100") in again.checkpoints
    for number in range(200, 203):
        again.save(checkpoint_number=number)
    assert archives(tmp_path) == {"ckpt-201", "ckpt-202"}


def test_two_processes_may_save_in_one_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SAVER, str(tmp_path), "25"]
    savers = [subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), cwd=ROOT) for _ in range(2)]
    assert [len(p.communicate()[0].splitlines()) for p in savers] == [25, 25]
    assert [p.returncode for p in savers] == [0, 0]
    note = json.loads((tmp_path / "checkpoint").read_bytes())
    assert archives(tmp_path) == set(note["all"]) and len(note["all"]) == KEPT
    for name in note["all"]:
        v, w = tf.Variable(0, dtype="int64"), tf.Variable(tf.zeros([20_000]))
        tf.train.Checkpoint(v=v, w=w).restore(tmp_path / name)
        np.testing.assert_array_equal(w.numpy(), float(v))
    assert not list(tmp_path.glob("*.part"))


def test_a_manager_restores_the_newest_checkpoint_though_another_deleted_the_one_it_knew(tmp_path: Path) -> None:
    v = tf.Variable(0.0)
    saver = tf.train.CheckpointManager(tf.train.Checkpoint(v=v), tmp_path, max_to_keep=1)
    saver.save()
    late = tf.train.CheckpointManager(tf.train.Checkpoint(v=tf.Variable(-1.0)), tmp_path)
    v.assign(2.0)
    newest = saver.save()
    assert late.restore_or_initialize() == newest == late.latest_checkpoint
    assert float(late.checkpoint.v) == 2.0
    os.unlink(newest + ".npz")
    with pytest.raises(tf.errors.NotFoundError, match="ckpt-2"):
        late.restore_or_initialize()

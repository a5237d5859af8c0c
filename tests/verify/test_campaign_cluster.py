"""Campaigns on the workers of a dask scheduler, some of which are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from campaigns import LARGE

from gtape.verify.campaigns.executors import NotThere, on_scheduler
from gtape.verify.campaigns.journal import read
from gtape.verify.campaigns.running import Campaign, campaign
from gtape.verify.command import cli

distributed = pytest.importorskip("distributed")

ROOT = Path(__file__).resolve().parents[2]
CHEAP = str(Path(__file__).parent / "shards.py")
SHARDS = 10_000 if LARGE else 300

# dask's own threads and sockets end a little later than its cluster.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for workers in /proc"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes with one thread each, which are started again when they die."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as made:
            yield made


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the campaign finds undisturbed, on this machine."""
    from gtape.verify.search.loading import imported

    imported(CHEAP)
    return campaign(str(tmp_path_factory.mktemp("whole") / "journal"), cheap(), processes=2).as_dict()


def cheap() -> Campaign:
    return Campaign("cheap", {"ms": 2}, load=[CHEAP], shards=SHARDS, limit=60.0)


def workers_of(cluster: Any) -> list[int]:
    return [w.process.pid for w in cluster.workers.values() if w.process is not None and w.process.pid]


def test_a_worker_that_is_killed_twice_changes_nothing(cluster: Any, whole: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "journal"
    killed: list[int] = []

    def kill() -> None:
        for share in (0.2, 0.6):
            while not path.exists() or path.read_bytes().count(b"\n") < SHARDS * share:
                time.sleep(0.01)
            victims = [pid for pid in workers_of(cluster)[:1] if pid not in killed]
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    with on_scheduler(cluster.scheduler_address) as (executor, workers):
        found = campaign(str(path), cheap(), executor=executor, workers=workers)
    killer.join()
    assert len(killed) == 2
    assert found.as_dict() == whole


def test_the_command_uses_a_scheduler_and_its_children_end(cluster: Any, whole: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "journal"
    words = ["--load", CHEAP, "--kind", "cheap", "--set", "ms=2", "--shards", str(SHARDS), "--no-progress"]
    done = subprocess.run(
        [sys.executable, "-m", "gtape.verify", "campaign", str(path), "--scheduler", cluster.scheduler_address, *words],
        cwd=ROOT, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    from gtape.verify.campaigns.totals import totals_of

    assert totals_of(read(str(path)).in_order()).as_dict() == whole


@pytest.mark.parametrize(("does", "status"), [("hang", "late"), ("die", "error"), ("raise", "error")])
def test_a_shard_that_misbehaves_on_a_cluster_is_told(cluster: Any, does: str, status: str, tmp_path: Path) -> None:
    what = Campaign("cheap", {"does": does, "at": 3}, load=[CHEAP], shards=8, limit=5.0)
    with on_scheduler(cluster.scheduler_address) as (executor, workers):
        found = campaign(str(tmp_path / "journal"), what, executor=executor, workers=workers)
    assert found.shards == {"done": 7, status: 1}


def test_a_scheduler_that_is_not_there_is_a_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(NotThere, match="no scheduler answers"), on_scheduler(address):
        pass
    assert cli.main(["campaign", str(tmp_path / "j"), "--shards", "1", "--scheduler", "nonsense"]) == 3
    assert "no scheduler answers at nonsense" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())

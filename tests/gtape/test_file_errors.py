"""Errors of the file system: the errors that TensorFlow raises for them, which name the file and say what to do."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.base.file_errors import file_error
from gtape.storage import files
from gtape.verify.command.files import refusal

errors = tf.errors


@pytest.fixture(autouse=True)
def no_deep_folders(tmp_path: Path) -> Iterator[None]:
    """Removes folders a thousand deep, because pytest cannot on Python 3.11: `shutil.rmtree` recurses too deeply."""
    yield
    subprocess.run(["rm", "-rf", "--", tmp_path / "y"], check=True)


def checkpoint(size: int = 2) -> Any:
    return tf.train.Checkpoint(v=tf.Variable(np.ones(size)))


def model() -> Any:
    return tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])


def manager(path: Path) -> Any:
    return tf.train.CheckpointManager(checkpoint(), path.parent, checkpoint_name=path.name)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "write": lambda path: checkpoint().write(path),
    "save": lambda path: checkpoint().save(path),
    "manager": lambda path: manager(path).save(),
    "manager of a folder": lambda path: tf.train.CheckpointManager(checkpoint(), path).save(),
    "weights": lambda path: model().save_weights(path),
    "print": lambda path: tf.print("a", output_stream=f"file://{path}"),
}
OF_CHECKPOINTS = [name for name in WRITERS if name not in ("weights", "print")]
READERS: dict[str, Callable[[Path], Any]] = {
    "restore": lambda path: checkpoint().restore(path),
    "list": tf.train.list_variables,
    "load": lambda path: tf.train.load_variable(path, "v"),
    "weights": lambda path: model().load_weights(path),
}


@contextmanager
def refused(cls: type[Exception], *said: str) -> Iterator[None]:
    with pytest.raises(cls) as caught:
        yield
    text = str(caught.value)
    assert type(caught.value) is cls and len(text) < 500 and "\n" not in text
    for words in said:
        assert words in text


@pytest.mark.parametrize("name", ["x" * 300, "é" * 5000, "y/" * 700 + "z" * 400, "y/" * 50_000 + "z"])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_name_that_is_too_long_is_an_invalid_argument(tmp_path: Path, name: str, write: Callable[[Any], Any]) -> None:
    if write in (WRITERS["weights"], WRITERS["print"]) and name.startswith("y/" * 700) and len(name) < 3000:
        (tmp_path / "y").mkdir()
        files.make_folder(str(tmp_path / os.path.dirname(name)))  # these two writers make no folders
    with refused(errors.InvalidArgumentError, str(tmp_path)[:100], "...", "File name too long", "Give a shorter name"):
        write(tmp_path / name)
    assert not [p for p in tmp_path.rglob("*.*") if p.is_file()]  # a manager may have noted that it began


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_name_that_is_too_long_is_not_found(tmp_path: Path, read: Callable[[Any], Any]) -> None:
    with refused(errors.NotFoundError, "failed to find any matching files"):
        read(tmp_path / ("x" * 5000))
    assert tf.train.latest_checkpoint(tmp_path / ("x" * 5000)) is None


@pytest.mark.parametrize("write", [WRITERS[name] for name in OF_CHECKPOINTS], ids=OF_CHECKPOINTS)
def test_folders_are_made_a_thousand_deep(tmp_path: Path, write: Callable[[Any], Any]) -> None:
    folder = tmp_path / ("y/" * 1500)
    write(folder / "x")
    assert len(list(folder.rglob("*.npz"))) == 1


@pytest.mark.parametrize("write", [WRITERS[name] for name in OF_CHECKPOINTS], ids=OF_CHECKPOINTS)
@pytest.mark.parametrize("below", ["", "a/", "a/b/"])
def test_a_file_is_no_folder(tmp_path: Path, write: Callable[[Any], Any], below: str) -> None:
    (tmp_path / "file").touch()
    with refused(errors.FailedPreconditionError, f"{tmp_path}/file/{below}x", "Not a directory"):
        write(tmp_path / "file" / below / "x")


@pytest.mark.parametrize("write", [WRITERS["weights"], WRITERS["print"]], ids=["weights", "print"])
def test_a_missing_folder_is_not_found(tmp_path: Path, write: Callable[[Any], Any]) -> None:
    with refused(errors.NotFoundError, f"{tmp_path}/no/x", "No such file or directory", "Make its folder first"):
        write(tmp_path / "no" / "x")


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_folder_is_no_file(tmp_path: Path, write: Callable[[Any], Any]) -> None:
    for name in ("x", "x.npz", "x-1.npz", "x/ckpt-1.npz"):
        (tmp_path / name).mkdir()
    with refused(errors.FailedPreconditionError, str(tmp_path), "Is a directory", "Name a plain file"):
        write(tmp_path / "x")


CLASSES = {
    errno.ENOSPC: errors.ResourceExhaustedError,
    errno.EDQUOT: errors.ResourceExhaustedError,
    errno.EROFS: errors.PermissionDeniedError,
    errno.EACCES: errors.PermissionDeniedError,
    errno.EIO: errors.UnknownError,
    errno.EBUSY: errors.FailedPreconditionError,
    errno.ESTALE: errors.AbortedError,
    errno.EFBIG: errors.OutOfRangeError,
    99_999: errors.UnknownError,
}


@pytest.mark.parametrize("step", ["open", "fsync", "replace", "mkdir"])
@pytest.mark.parametrize("write", [WRITERS[name] for name in OF_CHECKPOINTS], ids=OF_CHECKPOINTS)
def test_each_step_of_writing_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Any], Any], step: str
) -> None:
    for number, cls in CLASSES.items():

        def fails(*_: Any, number: int = number, **__: Any) -> Any:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as m:
            m.setattr(os, step, fails)
            with refused(cls, str(tmp_path), "cannot be written", os.strerror(number), ". "):
                write(tmp_path / "new" / "x")
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    write(tmp_path / "new" / "x")


@pytest.mark.parametrize(
    "number, cls", [(errno.EMFILE, errors.ResourceExhaustedError), (errno.EIO, errors.UnknownError)]
)
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_opening_for_reading_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Any], Any], number: int, cls: type[Exception]
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fails)
    with refused(cls, str(tmp_path), "cannot be read", os.strerror(number)):
        read(tmp_path / "x")


def test_a_file_that_outgrows_the_limit_leaves_nothing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with refused(errors.OutOfRangeError, f"{tmp_path}/x-1.npz", "File too large"):
            checkpoint(100_000).save(tmp_path / "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert list(tmp_path.iterdir()) == []


def test_an_old_checkpoint_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tf.train.CheckpointManager(checkpoint(), tmp_path, max_to_keep=1)
    made.save()

    def fails(*_: Any, **__: Any) -> Any:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as m:
        m.setattr(os, "remove", fails)
        with refused(errors.PermissionDeniedError, "ckpt-1.npz", "cannot be removed"):
            made.save()
    assert made.checkpoints == [f"{tmp_path}/ckpt-2"] and tf.train.latest_checkpoint(tmp_path) == f"{tmp_path}/ckpt-2"


def test_each_number_of_the_system_has_an_error_with_an_advice() -> None:
    for number in errno.errorcode:
        made = file_error(OSError(number, os.strerror(number)), "run/x", "written")
        why, _, advice = str(made).removeprefix("'run/x' cannot be written: ").rpartition(". ")
        assert isinstance(made, errors.OpError) and why == os.strerror(number) and advice


def test_a_report_that_no_file_can_hold_is_refused_before_the_work(tmp_path: Path) -> None:
    assert refusal(str(tmp_path / ("x" * 300))) == "File name too long"
    assert refusal(str(tmp_path / "no" / "x")) == "its folder does not exist"
    assert refusal(str(tmp_path / "x")) is None

"""Writer and archives may come from anywhere: they do what TensorFlow's do, or are refused with one clear error."""

from __future__ import annotations

import io
import json
import logging
import os
import stat
import struct
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.storage import files

keras = tf.keras


def saved(folder: Path, value: Any = (1.0, 2.0)) -> str:
    path: str = tf.train.Checkpoint(v=tf.Variable(value)).save(folder / "ckpt")
    return path


def note(folder: Path, **said: Any) -> None:
    (folder / "checkpoint").write_text(json.dumps(said))


def manager(folder: Path, **more: Any) -> Any:
    return tf.train.CheckpointManager(tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])), folder, **more)


def member(value: Any = None, *, shape: tuple[int, ...] = (2,), descr: str = "<f4", data: bytes | None = None) -> bytes:
    """The bytes of an array in an archive, with whatever header."""
    if value is not None:
        out = io.BytesIO()
        np.save(out, value)
        return out.getvalue()
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + (b"\0" * 8 if data is None else data)


def archive(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> str:
    with zipfile.ZipFile(path, "w", compression) as f:
        for name, data in members.items():
            f.writestr(name, data)
    return str(path).removesuffix(".npz")


# ---------------------------------------------------------------------------------------------- notes


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\0",
        b"\x93NUMPY",
        b'model_checkpoint_path: "ckpt-1"\n',
        b"[]",
        b"null",
        b"3",
        b'{"newest": "ckpt-1"}',
        b'{"newest": 3, "all": {"a": 1}}',
        b'{"newest": ["ckpt-1"], "all": [1, null, {}]}',
        b"[" * 100_000,
        b'{"newest": "\\ud800", "all": ["\\u0000"]}',
    ],
)
def test_a_note_that_gtape_did_not_write_is_no_note(tmp_path: Path, content: bytes) -> None:
    saved(tmp_path)
    (tmp_path / "checkpoint").write_bytes(content)
    assert tf.train.latest_checkpoint(tmp_path) is None
    made = manager(tmp_path)
    assert made.checkpoints == [] and made.latest_checkpoint is None and made.restore_or_initialize() is None
    path = made.save()
    assert tf.train.latest_checkpoint(tmp_path) == path


def test_an_ignored_note_is_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "checkpoint").write_bytes(b"{")
    with caplog.at_level(logging.WARNING):
        tf.train.latest_checkpoint(tmp_path)
    assert str(tmp_path / "checkpoint") in caplog.text and "ignored" in caplog.text


def test_a_checkpoint_whose_file_is_gone_is_not_the_latest(tmp_path: Path) -> None:
    path = saved(tmp_path)
    os.remove(path + ".npz")
    assert tf.train.latest_checkpoint(tmp_path) is None
    assert manager(tmp_path).latest_checkpoint is None


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_note_that_is_no_file_is_no_note(tmp_path: Path, kind: str) -> None:
    (os.mkfifo if kind == "pipe" else os.mkdir)(tmp_path / "checkpoint")  # reading the pipe would wait for ever
    assert tf.train.latest_checkpoint(tmp_path) is None


@pytest.mark.parametrize("where", ["all", "doomed", "unfinished"])
@pytest.mark.parametrize("absolute", [False, True])
def test_names_in_a_note_never_lead_out_of_the_folder(tmp_path: Path, where: str, absolute: bool) -> None:
    home, folder = tmp_path / "home", tmp_path / "run"
    home.mkdir()
    folder.mkdir()
    precious = Path(saved(home) + ".npz").rename(home / "ckpt-1.npz")
    name = str(home / "ckpt-1") if absolute else "../home/ckpt-1"
    note(folder, **{"newest": name, "all": [], where: [name, f"./{name}", "..", ".", "", "\\..\\x"]})
    assert tf.train.latest_checkpoint(folder) is None
    made = manager(folder, max_to_keep=1)
    assert made.checkpoints == []
    for _ in range(3):
        made.save()
    assert precious.exists() and sorted(p.name for p in folder.iterdir()) == ["checkpoint", "ckpt-3.npz"]


def test_a_whole_path_into_the_folder_is_a_name_as_in_tensorflow(tmp_path: Path) -> None:
    path = saved(tmp_path)
    note(tmp_path, newest=path, all=[path])
    assert tf.train.latest_checkpoint(tmp_path) == path and manager(tmp_path).checkpoints == [path]


def test_a_manager_deletes_only_archives_of_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "ckpt-1.npz").write_bytes(b"a thesis")
    (tmp_path / "ckpt-x.npz").write_bytes(Path(saved(tmp_path / "else") + ".npz").read_bytes())
    (tmp_path / "other-1.npz").write_bytes((tmp_path / "ckpt-x.npz").read_bytes())
    (tmp_path / "ckpt-2.npz").symlink_to(tmp_path / "other-1.npz")
    names = ["ckpt-1", "ckpt-2", "ckpt-x", "other-1"]
    note(tmp_path, newest="other-1", all=names, doomed=names)
    made = manager(tmp_path, max_to_keep=1)
    for number in range(7, 10):
        made.save(checkpoint_number=number)
    there = {p.name for p in tmp_path.iterdir() if p.is_file()}
    assert there == {"checkpoint", "ckpt-9.npz", *[f"{name}.npz" for name in names]}


def test_an_old_checkpoint_that_is_put_back_by_hand_stays(tmp_path: Path) -> None:
    made = manager(tmp_path, max_to_keep=1)
    made.save()
    copy = (tmp_path / "ckpt-1.npz").read_bytes()
    made.save()
    time.sleep(0.05)  # clocks of file systems are coarse
    (tmp_path / "ckpt-1.npz").write_bytes(copy)
    made.save()
    manager(tmp_path, max_to_keep=1).save()
    assert (tmp_path / "ckpt-1.npz").read_bytes() == copy


def test_a_checkpoint_saved_by_hand_between_a_manager_s_own_stays_known(tmp_path: Path) -> None:
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    made = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=3)
    made.save()
    checkpoint.save(tmp_path / "ckpt")
    made.save()
    assert [Path(p).name for p in made.checkpoints] == ["ckpt-1", "ckpt-2", "ckpt-3"]


@pytest.mark.parametrize("number", [0, -1])
def test_a_manager_keeps_one_at_least(tmp_path: Path, number: int) -> None:
    with pytest.raises(ValueError, match="positive integer or None for `max_to_keep`"):
        manager(tmp_path, max_to_keep=number)


# ---------------------------------------------------------------------------------------------- writing


def test_no_link_is_followed_when_a_checkpoint_is_written(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("checkpoint", "checkpoint.part", "ckpt-1.npz", "ckpt-1.npz.part"):
        (tmp_path / name).symlink_to(precious)
    path = saved(tmp_path)
    assert precious.read_text() == "mine" and tf.train.latest_checkpoint(tmp_path) == path
    assert not (tmp_path / "checkpoint").is_symlink() and not (tmp_path / "ckpt-1.npz").is_symlink()


def test_nobody_can_guess_the_name_of_an_unfinished_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str, int, int]] = []
    replace, opened = os.replace, os.open
    flags: dict[str, int] = {}

    def watch(path: Any, flag: int, *more: Any, **words: Any) -> int:
        flags[str(path)] = flag
        return opened(path, flag, *more, **words)

    def at_end(part: str, path: str) -> None:
        seen.append((part, path, flags[part], stat.S_IMODE(os.lstat(part).st_mode)))
        replace(part, path)

    monkeypatch.setattr(os, "open", watch)
    monkeypatch.setattr(os, "replace", at_end)
    mask = os.umask(0o027)
    try:
        saved(tmp_path)
        saved(tmp_path)
    finally:
        os.umask(mask)
    assert [Path(path).name for _, path, _, _ in seen] == ["ckpt-1.npz", "checkpoint"] * 2
    assert len({part for part, _, _, _ in seen}) == 4
    for part, path, flag, mode in seen:
        assert len(Path(part).name) == len(Path(path).name) + 32 + len("..part") and mode == 0o640
        assert flag & os.O_EXCL and flag & os.O_CREAT and flag & os.O_NOFOLLOW


def test_a_failure_leaves_the_old_files_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    made = tf.train.CheckpointManager(checkpoint, tmp_path)
    path = made.save()
    before = sorted((p.name, p.read_bytes()) for p in tmp_path.iterdir())
    for name in ("fsync", "replace"):

        def fails(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as m:
            m.setattr(os, name, fails)
            with pytest.raises(
                tf.errors.ResourceExhaustedError, match=r"cannot be written: No space left on device\. Free"
            ):
                made.save()
        assert sorted((p.name, p.read_bytes()) for p in tmp_path.iterdir()) == before
        assert tf.train.latest_checkpoint(tmp_path) == made.latest_checkpoint == path
    made.save()
    assert len(made.checkpoints) == 2


def test_parts_of_dead_savers_are_removed_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    digits = "0123456789abcdef" * 2
    (tmp_path / f"ckpt-7.npz.{digits}.part").write_bytes(b"half")
    (tmp_path / f"checkpoint.{digits}.part").write_bytes(b"{")
    (tmp_path / f"thesis.{digits}.part").write_bytes(b"not ours")
    (tmp_path / f"ckpt-8.npz.{digits}.part").symlink_to(tmp_path / f"thesis.{digits}.part")
    with files.new_file(str(tmp_path / "ckpt-9.npz")) as f:
        f.write(b"still being written")
        manager(tmp_path)
        assert len(list(tmp_path.glob("ckpt-9.npz.*.part"))) == 1
    assert (tmp_path / "ckpt-9.npz").read_bytes() == b"still being written"
    left = sorted(p.name for p in tmp_path.glob("*.part"))
    assert left == [f"ckpt-8.npz.{digits}.part", f"thesis.{digits}.part"]


def test_writing_by_hand_removes_the_parts_of_dead_writers_of_the_same_file(tmp_path: Path) -> None:
    digits = "0" * 32
    for name in ("w.weights.h5", "ckpt-3.npz", "checkpoint"):
        (tmp_path / f"{name}.{digits}.part").write_bytes(b"half")
    saved(tmp_path)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save_weights(tmp_path / "w.weights.h5")
    assert not list(tmp_path.glob("*.part"))


def test_threads_that_save_one_name_leave_one_whole_file(tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def work(value: float) -> None:
        try:
            for _ in range(10):
                tf.train.Checkpoint(v=tf.Variable(tf.fill([1000], value))).write(tmp_path / "x")
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed and [p.name for p in tmp_path.iterdir()] == ["x.npz"]
    assert len(set(tf.train.load_variable(tmp_path / "x", "v").tolist())) == 1


@pytest.mark.parametrize("name", ["\ud800", "a\0b", "a\\b", "a|b", "%u0041", "%", "é\n", "x" * 300])
def test_any_name_of_a_part_comes_back(tmp_path: Path, name: str) -> None:
    v = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(**{name: v}, d={name: tf.Variable(2.0)})
    path = checkpoint.write(tmp_path / "x")
    v.assign(5.0)
    checkpoint.restore(path).assert_consumed()
    assert float(v) == 1.0 and tf.train.load_variable(path, name) == 1.0


def test_a_name_that_no_archive_holds_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too long for an archive"):
        tf.train.Checkpoint(d={"x" * 70_000: tf.Variable(1.0)}).write(tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_bfloat16_comes_back(tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    v = tf.Variable(tf.cast([1.5, -2.0], tf.bfloat16))
    checkpoint = tf.train.Checkpoint(v=v)
    path = checkpoint.write(tmp_path / "x")
    v.assign(tf.cast([0.0, 0.0], tf.bfloat16))
    checkpoint.restore(path)
    assert tf.cast(v, tf.float32).numpy().tolist() == [1.5, -2.0]


# ---------------------------------------------------------------------------------------------- reading


def all_doors(path: str) -> list[Callable[[], Any]]:
    """Everything that reads an archive."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    v = tf.Variable([1.0, 2.0])
    return [
        lambda: tf.train.Checkpoint(v=v).restore(path),
        lambda: tf.train.Checkpoint(v=v).read(path),
        lambda: tf.train.list_variables(path),
        lambda: tf.train.load_variable(path, "v"),
        lambda: model.load_weights(path + ".npz"),
    ]


def test_a_missing_archive_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none", tmp_path / "file" / "ckpt-1", tmp_path / "no" / "folder"):
        for door in all_doors(str(path)):
            with pytest.raises(tf.errors.NotFoundError, match="failed to find any matching files for .*" + path.name):
                door()


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_name_that_no_file_has_is_refused(tmp_path: Path, name: str) -> None:
    for door in all_doors(f"{tmp_path}/{name}"):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"no file can have the name '.*a\\"):
            door()
    with pytest.raises(tf.errors.InvalidArgumentError, match="no file can have the name"):
        tf.train.Checkpoint().save(f"{tmp_path}/{name}")
    assert tf.train.latest_checkpoint(f"{tmp_path}/{name}") is None


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    (os.mkfifo if kind == "pipe" else os.mkdir)(tmp_path / "x.npz")
    for door in all_doors(str(tmp_path / "x")):
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"x\.npz"):
            door()


NOT_OURS = {
    "empty": b"",
    "text": b"hello",
    "hdf5": b"\x89HDF\r\n\x1a\n" + b"\0" * 100,
    "array": member(np.ones(2)),
    "pickle": b"\x80\x04\x95",
    "end record only": b"PK\x05\x06" + b"\xff" * 18,
}


@pytest.mark.parametrize("content", NOT_OURS.values(), ids=NOT_OURS)
def test_a_foreign_file_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    for door in all_doors(str(tmp_path / "x")):
        with pytest.raises(
            tf.errors.DataLossError, match=r"x\.npz.*no checkpoint that gtape can read.*Restore another"
        ):
            door()


REFUSED = {
    "a pickle": {"v.npy": member(np.array([{}, {}], object))},
    "objects declared": {"v.npy": member(descr="|O")},
    "more declared than there is": {"v.npy": member(shape=(1 << 50,))},
    "less declared than there is": {"v.npy": member(data=b"\0" * 800)},
    "a size that overflows": {"v.npy": member(shape=(1 << 62, 1 << 62))},
    "a negative size": {"v.npy": member(shape=(-2, -1))},
    "too many axes": {"v.npy": member(shape=(1,) * 1000)},
    "records": {"v.npy": member(np.zeros(2, "f4,f4"))},
    "dates": {"v.npy": member(np.zeros(2, "M8[s]"))},
    "raw bytes": {"v.npy": member(np.zeros(2, "V7"))},
    "a size of five thousand digits": {"v.npy": member().replace(b"(2,)", b"9" * 5000).replace(b"v\0", b"\xfa\x13", 1)},
    "a header that is no literal": {"v.npy": member().replace(b"(2,)", b"f(2)")},
    "a header of Python 2": {"v.npy": member().replace(b"(2,)} ", b"(2L,)}")},
    "a header without an end": {"v.npy": member()[:20]},
    "a long header": {"v.npy": b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"\0" * 100},
    "long doubles": {"v.npy": member(descr="<f16", data=b"\0" * 32)},
    "an unknown version": {"v.npy": member().replace(b"NUMPY\x01", b"NUMPY\x09")},
    "another kind of file": {"v.npy": b"hello"},
    "nothing": {"v.npy": b""},
}


@pytest.mark.parametrize("members", REFUSED.values(), ids=REFUSED)
def test_an_array_that_is_not_as_declared_is_refused(tmp_path: Path, members: dict[str, bytes]) -> None:
    path = archive(tmp_path / "x.npz", members)
    for door in all_doors(path)[:4]:
        with pytest.raises(tf.errors.DataLossError, match=r"x\.npz") as e:
            door()
        assert len(str(e.value)) < 1000


@pytest.mark.parametrize("name", ["readme.txt", "v", "a/../../v"])
def test_an_archive_with_other_members_is_refused(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "x.npz", {"v.npy": member(), name: b"x"})
    for door in all_doors(path):
        with pytest.raises(tf.errors.DataLossError, match="that gtape does not write"):
            door()


def damaged(content: bytes) -> list[bytes]:
    rng = np.random.default_rng(0)
    made = [content[:n] for n in range(0, len(content), 7)]
    for _ in range(600):
        bent = bytearray(content)
        bent[rng.integers(len(bent))] = rng.integers(256)
        made.append(bytes(bent))
    return made


def test_a_damaged_archive_gives_its_values_or_one_error_and_changes_nothing(tmp_path: Path) -> None:
    path = Path(saved(tmp_path) + ".npz")
    refused = 0
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        v = tf.Variable([7.0, 8.0])
        try:
            tf.train.Checkpoint(v=v).restore(tmp_path / "ckpt-1")
            wanted = [[1.0, 2.0], [7.0, 8.0]]  # the second: its name was damaged, so it is not what is asked for
        except (tf.errors.DataLossError, ValueError) as e:  # ValueError: another shape or dtype, well declared
            assert "ckpt-1.npz" in str(e) and type(e) in (tf.errors.DataLossError, ValueError)
            wanted = [[7.0, 8.0]]
            refused += 1
        assert v.numpy().tolist() in wanted
    assert refused > 200


def test_only_what_is_asked_for_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "x.npz", {f"{name}.npy": member(np.ones(2, "f4")) for name in "uvw"})
    read: list[tuple[int, ...]] = []
    real = np.lib.format.read_array
    monkeypatch.setattr(np.lib.format, "read_array", lambda f, **more: read.append((1,)) or real(f, **more))  # type: ignore[func-returns-value]
    tf.train.list_variables(path)
    assert len(read) == 0
    tf.train.load_variable(path, "w")
    assert len(read) == 1
    tf.train.Checkpoint(v=tf.Variable([0.0, 0.0])).restore(path)
    assert len(read) == 2


def test_a_bomb_does_not_go_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = 1 << 33
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as f, f.open("v.npy", "w", force_zip64=True) as g:
        g.write(member(shape=(big // 4,), data=b""))
        for _ in range(1 << 6):
            g.write(b"\0" * (1 << 20))
    # The sizes are declared in the list of members at the end.
    content = out.getvalue().replace(struct.pack("<Q", (1 << 26) + 128), struct.pack("<Q", big + 128))
    (tmp_path / "x.npz").write_bytes(content)
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("it was read"))
    model = keras.Sequential([keras.layers.Dense(1)])  # not built: what it needs is not known
    archive(
        tmp_path / "m.npz", {"layer-0/kernel.npy".replace("/", "|"): member(np.zeros(1 << 20))}, zipfile.ZIP_DEFLATED
    )
    with pytest.raises((ValueError, tf.errors.DataLossError)):
        tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).restore(tmp_path / "x")
    with pytest.raises(tf.errors.DataLossError):
        tf.train.load_variable(tmp_path / "x", "v")
    with pytest.raises(tf.errors.DataLossError, match="is compressed"):
        model.load_weights(tmp_path / "m.npz")


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    archive(path, {f"{name}.npy": member(np.zeros(1000)) for name in "uv"})
    with zipfile.ZipFile(path) as f:
        infos = f.infolist()
    content = bytearray(path.read_bytes())
    size = infos[1].header_offset
    # The second entry of the list of members points to the first array; then the second array is cut out.
    first = content.index(b"PK\x01\x02")
    second = content.index(b"PK\x01\x02", first + 4)
    content[second + 42 : second + 46] = struct.pack("<I", 0)
    end = content.index(b"PK\x05\x06")
    content[end + 16 : end + 20] = struct.pack("<I", size)
    path.write_bytes(content[:size] + content[first:])
    with pytest.raises(tf.errors.DataLossError, match=r"x\.npz"):
        tf.train.list_variables(tmp_path / "x")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_to_compress_are_refused(tmp_path: Path, compression: int) -> None:
    path = archive(tmp_path / "x.npz", {"v.npy": member()}, compression)
    (tmp_path / "x.npz").write_bytes((tmp_path / "x.npz").read_bytes().replace(b"NUMPY", b"XXXXX"))
    for door in all_doors(path):
        with pytest.raises(tf.errors.DataLossError, match="compressed in a way"):
            door()


def test_numbers_of_the_other_byte_order_are_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.npz", {"v.npy": member(np.array([3.0, 4.0], ">f4"))})
    v = tf.Variable([0.0, 0.0])
    tf.train.Checkpoint(v=v).restore(path)
    assert v.numpy().tolist() == [3.0, 4.0]


def test_compressed_numbers_are_read_into_variables_of_their_shape(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", v=np.array([3.0, 4.0], "f4"))
    v = tf.Variable([0.0, 0.0])
    tf.train.Checkpoint(v=v).restore(tmp_path / "x")
    assert v.numpy().tolist() == [3.0, 4.0]
    with pytest.raises(tf.errors.DataLossError, match=r"np\.savez"):
        tf.train.load_variable(tmp_path / "x", "v")


@pytest.mark.parametrize(
    ("held", "variable"),
    [(np.ones(3, "f4"), [1.0, 2.0]), (np.ones(2, "c8"), [1.0, 2.0]), (np.array([b"a.", b"b."]), [1.0, 2.0]),
     (np.ones(2, "f4"), ["a", "b"]), (np.array([0.5, 1.5]), [1, 2])],
)  # fmt: skip
def test_values_that_do_not_fit_leave_all_variables_as_they_were(tmp_path: Path, held: Any, variable: Any) -> None:
    path = archive(tmp_path / "x.npz", {"a.npy": member(np.float32(5.0)), "v.npy": member(held)})
    a, v = tf.Variable(1.0), tf.Variable(variable)
    before = v.numpy().tolist()
    with pytest.raises((ValueError, TypeError)):
        tf.train.Checkpoint(a=a, v=v).restore(path)
    assert float(a) == 1.0 and v.numpy().tolist() == before

"""``gtape.train``: checkpoints. A checkpoint is a NumPy archive with the values of all variables that objects hold."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from gtape.base.escaping import plain
from gtape.base.file_errors import translated
from gtape.base.shown import shown
from gtape.errors import InvalidArgumentError, NotFoundError, OpError
from gtape.storage.archives import Archive, is_archive, open_archive, path_text, write_archive
from gtape.storage.checkpoint_notes import NOTE, Note, read_note, write_note
from gtape.storage.files import hold, make_folder, part_stem, remove_stale_parts
from gtape.tensors import argument_checks as checks
from gtape.tensors.module import Module
from gtape.tensors.variable import Variable

__all__ = ["Checkpoint", "CheckpointManager", "latest_checkpoint", "list_variables", "load_variable"]

_ENDING = ".npz"

__dir__ = __all__.copy  # the names for `dir`, which sorts them


if not TYPE_CHECKING:  # because a type checker that sees this function accepts any name

    def __getattr__(name: str) -> NoReturn:
        from gtape.namespaces.catalogue import unknown

        raise unknown("gtape.train", name, __all__)


# ---------------------------------------------------------------------------------------------- variables of objects


# Private attributes of gtape's own classes. `_variables` comes last, because `add_weight` made these variables last.
_INTERNAL = frozenset({
    "_added", "_chosen", "_graph", "_graph_layers", "_losses", "_made", "_means", "_penalties", "_pending", "_sequence",
    "_settings", "_symbolic", "_tracker",
})  # fmt: skip


def _children(x: Any) -> Iterator[tuple[str, Any]]:
    """The parts of an object, with their names in the paths of variables."""
    if isinstance(x, (list, tuple)):
        yield from ((str(i), part) for i, part in enumerate(x))
    elif isinstance(x, dict):
        yield from ((_escaped(str(k)), x[k]) for k in sorted(x, key=str))
    elif isinstance(x, Checkpoint):
        yield from sorted(x._objects.items())
    elif callable(getattr(x, "save_own_variables", None)):  # an optimizer
        yield from ((str(i), v) for i, v in enumerate(x.variables))
    elif isinstance(x, Module):
        inside = vars(x)
        # The layers of a Sequential, or of a graph.
        listed: Any = getattr(x, "layers", ()) if "_sequence" in inside else inside.get("_graph_layers", ())
        yield from ((f"layer-{i}", part) for i, part in enumerate(listed))
        named = sorted(inside.keys() - _INTERNAL, key=lambda name: (name.startswith("_"), name))
        yield from ((name, inside[name]) for name in named)
        yield "_made", inside.get("_made", [])
    elif hasattr(x, "_variables") and isinstance(x._variables, list):  # a metric
        yield from ((str(i), v) for i, (v, _) in enumerate(x._variables))


def _escaped(key: str) -> str:
    """A key of a dict, escaped for use as one part of a path."""
    return key.replace("%", "%25").replace("/", "%2F").replace("|", "%7C")


def _held(x: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Every variable and every unbuilt part of an object with its path, each once."""
    seen = set() if seen is None else seen
    if id(x) in seen:
        return
    seen.add(id(x))
    if isinstance(x, Variable):
        yield path, x
        return
    if getattr(x, "built", True) is False:
        yield path, x
    for name, part in _children(x):
        if not isinstance(part, (str, bytes, int, float, np.ndarray)):
            yield from _held(part, f"{path}/{name}" if path else name, seen)


def values_of(x: Any) -> dict[str, Any]:
    """The values of all variables of an object by path."""
    values: dict[str, Any] = {}
    for path, v in _held(x):
        if path in values:
            raise ValueError(
                f"two variables would be kept under the name {path!r}: rename one of the keys it is made of"
            )
        if isinstance(v, Variable):
            values[path] = v.numpy()
    return values


class _Status:
    """The outcome of a restoration of values."""

    def __init__(self, unused: set[str], missing: set[str]) -> None:
        self._unused, self._missing = unused, missing

    def assert_consumed(self) -> _Status:
        """Raise AssertionError unless every value found its variable, and every variable a value."""
        if self._unused or self._missing:
            raise AssertionError(
                f"values without a variable so far: {sorted(self._unused)}; variables without a value: "
                f"{sorted(self._missing)}"
            )
        return self

    def assert_existing_objects_matched(self) -> _Status:
        """Raise AssertionError unless every variable found a value."""
        if self._missing:
            raise AssertionError(f"variables without a value: {sorted(self._missing)}")
        return self

    def assert_nontrivial_match(self) -> _Status:
        """The same as `assert_existing_objects_matched`."""
        return self.assert_existing_objects_matched()

    def expect_partial(self) -> _Status:
        """Return the status itself, because gtape never warns about unused values."""
        return self

    initialize_or_restore = run_restore_ops = expect_partial


def restore_values(x: Any, path: str) -> _Status:
    """Assign the values of an archive to the variables of an object: all of them or, after an exception, none.

    Unbuilt parts get their values when they make their variables. Raises a ValueError for a value of another shape.
    """
    with open_archive(path) as archive:
        unused, missing = set(archive.names), set()
        found: list[tuple[Variable, str]] = []
        unmade: list[tuple[str, Any]] = []
        for where, part in list(_held(x)):
            if not isinstance(part, Variable):
                unmade.append((where, part))
            elif where in archive:
                _check_fit(part, where, archive)
                found.append((part, where))
                unused.discard(where)
            else:
                missing.add(where)
        values = [v._incoming(archive.read(where, wanted=v._layout.shape)) for v, where in found]
        later = {
            name: archive.read(name)
            for name in archive.names
            if name in unused and any(not where or name.startswith(f"{where}/") for where, _ in unmade)
        }
    for (v, _), value in zip(found, values, strict=True):
        v.assign(value)
    for where, part in unmade:
        part.__dict__["_pending"] = _when_built(where, later, unused)
    return _Status(unused, missing)


def _check_fit(v: Variable, name: str, archive: Archive) -> None:
    """Compare the declared shapes and dtypes of an archive with a variable, before any data are read."""
    declared = archive.member(name)
    if not v.shape.is_compatible_with(declared.shape):
        raise ValueError(
            f"Cannot assign value to variable '{plain(v.name)}': Shape mismatch. The variable shape {v.shape}, and the "
            f"shape {declared.shape} of '{plain(name)}' in {plain(archive.path)} are incompatible."
        )
    held = {"S": "string", "V": "bfloat16"}.get(declared.dtype.kind, declared.dtype.name)
    if (held == "string") != (v.dtype.name == "string") or (declared.dtype.kind == "c" and not v.dtype.is_complex):
        raise ValueError(
            f"Cannot assign value to variable '{plain(v.name)}' of dtype {v.dtype.name}: '{plain(name)}' in "
            f"{plain(archive.path)} is {held}. Restore into a variable of that dtype"
        )


def _when_built(path: str, values: dict[str, Any], unused: set[str]) -> Callable[[Any], None]:
    def put(part: Any) -> None:
        for where, inner in list(_held(part, path)):
            if not isinstance(inner, Variable):
                inner.__dict__["_pending"] = _when_built(where, values, unused)
            elif where in values and where in unused:  # inner layers with used values may have been trained since
                inner.assign(values[where])
                unused.discard(where)

    return put


# ---------------------------------------------------------------------------------------------- files


class Checkpoint:
    """The state of objects: modules, layers, models, optimizers, metrics, variables, or lists and dicts of these.

    Parameters
    ----------
    root : object, optional
        Its parts are kept without a prefix.
    **kwargs : object
        Objects to keep, by name.

    Attributes
    ----------
    save_counter : Variable
        The number of calls of `save`.

    Examples
    --------
    >>> import tempfile
    >>> import gtape as tf
    >>> v = tf.Variable(1.0)
    >>> checkpoint = tf.train.Checkpoint(v=v)
    >>> path = checkpoint.save(tempfile.mkdtemp() + "/ckpt")
    >>> v.assign(5.0).numpy()
    np.float32(5.0)
    >>> status = checkpoint.restore(path)
    >>> v.numpy()
    np.float32(1.0)
    """

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        self._objects: dict[str, Any] = dict(kwargs)
        if root is not None:
            self._objects |= {k: v for k, v in _children(root) if k not in kwargs}
        self._objects.setdefault("save_counter", Variable(0, trainable=False, dtype="int64", name="save_counter"))

    def __getattr__(self, name: str) -> Any:
        objects = self.__dict__.get("_objects", {})
        if name in objects:
            return objects[name]
        raise AttributeError(f"this checkpoint keeps {sorted(objects)}, and no {name!r}")

    def write(self, file_prefix: Any, options: Any = None) -> str:
        """Write the values to a file with this name, without a number. Returns the path for `restore`.

        Parameters
        ----------
        file_prefix : str or path
        options : object, optional
            Ignored; TensorFlow has it.

        Raises
        ------
        gtape.errors.OpError
            If the file cannot be written. The class is TensorFlow's for the cause, such as ResourceExhaustedError for a
            full disk. The old file stays.
        """
        return self._write(path_text(file_prefix))

    def _write(self, path: str, before: Callable[[], None] | None = None) -> str:
        """Like `write`, but calls `before` when all data are written, just before the new file replaces the old one."""
        values = values_of(self)
        with translated(path + _ENDING, "written"):
            make_folder(os.path.dirname(path) or os.curdir)
        write_archive(path + _ENDING, values, before)
        return path

    def save(self, file_prefix: Any, options: Any = None) -> str:
        """Like `write`, with the next number in the name. Notes the file as the newest in its directory."""
        self.save_counter.assign_add(1)
        path = self._write(f"{path_text(file_prefix)}-{int(self.save_counter)}")
        folder, name = os.path.split(path)
        begin = part_stem(name.rpartition("-")[0] + "-")
        remove_stale_parts(folder or os.curdir, lambda stem: stem.startswith(begin))
        with hold(folder or os.curdir):
            note = read_note(folder) or Note()
            unfinished, doomed = ([n for n in names if n != name] for names in (note.unfinished, note.doomed))
            write_note(folder, Note(name, [name], unfinished, doomed))
        return path

    def read(self, save_path: Any, options: Any = None) -> _Status:
        """Restore the values that `write` wrote.

        Parameters
        ----------
        save_path : str or path
        options : object, optional
            Ignored; TensorFlow has it.

        Returns
        -------
        status
            With `assert_consumed`, `assert_existing_objects_matched` and `expect_partial`. An object without variables,
            such as a layer before its first call, gets its values when it makes them.

        Raises
        ------
        gtape.errors.NotFoundError
            If there is no such file.
        gtape.errors.DataLossError
            If the file is damaged, or is not a checkpoint of gtape.
        ValueError
            If a variable has another shape. After any exception, all variables keep their old values.
        """
        return restore_values(self, path_text(save_path) + _ENDING)

    def restore(self, save_path: Any, options: Any = None) -> _Status:
        """Like `read`, for files of `save` and `write`. None stands for no checkpoint and changes nothing."""
        return _Status(set(), set()) if save_path is None else self.read(save_path, options)


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """The newest checkpoint in a directory.

    Parameters
    ----------
    checkpoint_dir : str or path
    latest_filename : str, optional
        The name of the file that notes the newest checkpoint, "checkpoint" by default.

    Returns
    -------
    str or None
        None if the directory has no checkpoint.

    Examples
    --------
    >>> import tempfile
    >>> import gtape as tf
    >>> print(tf.train.latest_checkpoint(tempfile.mkdtemp()))
    None
    """
    try:
        directory = path_text(checkpoint_dir)
        filename = (None if latest_filename is None else path_text(latest_filename)) or NOTE
    except InvalidArgumentError:
        return None
    note = read_note(directory, filename)
    if note is None or note.newest is None:
        return None
    path = os.path.join(directory, note.newest)
    return path if os.path.isfile(path + _ENDING) else None


def _file_of(ckpt_dir_or_file: Any) -> str:
    """The archive of a checkpoint, or of the newest checkpoint in a directory."""
    path = path_text(ckpt_dir_or_file)
    return (latest_checkpoint(path) or path if os.path.isdir(path) else path) + _ENDING


def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """The names and shapes of the values in a checkpoint.

    Parameters
    ----------
    ckpt_dir_or_file : str or path

    Returns
    -------
    list of (str, list of int)

    Examples
    --------
    >>> import tempfile
    >>> import gtape as tf
    >>> path = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).save(tempfile.mkdtemp() + "/ckpt")
    >>> tf.train.list_variables(path)
    [('save_counter', []), ('v', [2])]
    """
    with open_archive(_file_of(ckpt_dir_or_file)) as archive:
        return sorted((name, list(archive.member(name).shape)) for name in archive.names)


def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """The value of one variable in a checkpoint.

    Parameters
    ----------
    ckpt_dir_or_file : str or path
    name : str
        A name that `list_variables` returns.

    Returns
    -------
    ndarray

    Raises
    ------
    gtape.errors.NotFoundError
        If no value has this name.

    Examples
    --------
    >>> import tempfile
    >>> import gtape as tf
    >>> path = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).save(tempfile.mkdtemp() + "/ckpt")
    >>> tf.train.load_variable(path, "v")
    array([1., 2.], dtype=float32)
    """
    with open_archive(_file_of(ckpt_dir_or_file)) as archive:
        if not isinstance(name, str):
            raise TypeError(f"load_variable: `name` must be a string, not {shown(name)}")
        if name not in archive:
            raise NotFoundError(f"Key {plain(name)} not found in checkpoint; there are {sorted(archive.names)}")
        return archive.read(name)


class CheckpointManager:
    """Keeps the last few checkpoints in a directory.

    A checkpoint is on the disk when `save` returns and stays there until it is too old, even if the process is killed.
    Several processes may save in one directory. Only gtape's archives named `checkpoint_name` are deleted.

    Parameters
    ----------
    checkpoint : Checkpoint
    directory : str or path
    max_to_keep : int or None
        None keeps all.
    keep_checkpoint_every_n_hours, step_counter, checkpoint_interval, init_fn
        Ignored; TensorFlow has them.
    checkpoint_name : str

    Raises
    ------
    ValueError
        If `max_to_keep` is below 1.

    Examples
    --------
    >>> import tempfile
    >>> import gtape as tf
    >>> checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    >>> manager = tf.train.CheckpointManager(checkpoint, tempfile.mkdtemp(), max_to_keep=2)
    >>> paths = [manager.save() for _ in range(3)]
    >>> manager.checkpoints == paths[1:], manager.latest_checkpoint == paths[2]
    (True, True)
    """

    def __init__(
        self, checkpoint: Checkpoint, directory: Any, max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: Any = None, checkpoint_name: str = "ckpt", step_counter: Any = None,
        checkpoint_interval: Any = None, init_fn: Any = None,
    ) -> None:  # fmt: skip
        if not isinstance(checkpoint, Checkpoint):
            raise TypeError(f"CheckpointManager: `checkpoint` must be a Checkpoint, not {shown(checkpoint)}")
        try:
            self._keep = None if max_to_keep is None else checks.whole(self, "max_to_keep", max_to_keep, least=1)
        except ValueError:
            raise ValueError(
                f"Expected a positive integer or None for `max_to_keep`, got {shown(max_to_keep)}."
            ) from None
        self.checkpoint, self.directory = checkpoint, path_text(directory)
        self._prefix = os.path.join(self.directory, path_text(checkpoint_name))
        self._begin = os.path.basename(self._prefix) + "-"
        self._head = self._prefix[: len(self._prefix) + 1 - len(self._begin)]
        self._folder = os.path.dirname(self._prefix) or os.curdir
        self._kept: list[str] = []
        self._newest: str | None = None
        note = self._look()
        if os.path.isdir(self._folder):
            begin = part_stem(self._begin)
            remove_stale_parts(self._folder, lambda stem: stem == NOTE or stem.startswith(begin))
            if note.doomed:  # a process was killed before it deleted these files
                with suppress(OpError), hold(self._folder):
                    note = read_note(self._folder) or Note()
                    self._delete(self._doomed(note, note.kept))

    def _exists(self, name: str) -> bool:
        return os.path.isfile(os.path.join(self._folder, name + _ENDING))

    def _is_own(self, name: str) -> bool:
        """Whether this manager may have made a file with this name."""
        return name.startswith(self._begin) and re.fullmatch("-?[0-9]+", name[len(self._begin) :]) is not None

    def _there(self, known: list[str], note: Note, finished: str | None = None) -> list[str]:
        """The checkpoints in the directory from old to new: the known ones, and those that other processes noted.

        A checkpoint that a killed process finished without a note stands before the newest one, so that it is deleted
        in time, too.
        """
        names = [n for n in known if n not in note.kept] + note.kept
        lost = [n for n in note.unfinished if n not in names and self._is_own(n)]
        names = [*names[:-1], *lost, *names[-1:]]
        names = [n for n in names if n != finished] + ([] if finished is None else [finished])
        return [n for n in names if self._exists(n)]

    def _look(self) -> Note:
        """Read which checkpoints exist now. Returns the note that names them."""
        note = read_note(self._folder) or Note()
        self._kept = self._there(self._kept, note)
        self._newest = next((n for n in (note.newest, *note.kept[::-1]) if n in self._kept), None)
        return note

    def _announce(self, name: str) -> None:
        """Note a checkpoint as unfinished, so that other processes know its owner if this one is killed."""
        with hold(self._folder):
            note = read_note(self._folder) or Note()
            if name not in note.unfinished:
                note.unfinished.append(name)
            write_note(self._folder, note)

    def _settle(self, finished: str) -> None:
        """Note a new checkpoint and delete old ones. The note drops the old ones before they are deleted."""
        with hold(self._folder):
            note = read_note(self._folder) or Note()
            kept = self._there(self._kept, note, finished)
            own = [n for n in kept if self._is_own(n)]
            old = [] if self._keep is None else own[: -self._keep]
            kept = [n for n in kept if n not in old]
            doomed = list(dict.fromkeys([*self._doomed(note, kept), *filter(self._is_archive, old)]))
            # The file of another manager exists before the other manager notes the file.
            unfinished = [
                n for n in note.unfinished
                if self._is_coming(n) or (self._exists(n) and n not in kept and n not in doomed)
            ]  # fmt: skip
            write_note(self._folder, Note(kept[-1] if kept else None, kept, unfinished, doomed))
            self._kept, self._newest = kept, kept[-1] if kept else None
            self._delete(doomed)

    def _doomed(self, note: Note, kept: list[str]) -> list[str]:
        """The names of files that a note dooms, without files that changed since, such as copies put back by hand."""
        found = []
        for name in note.doomed:
            with suppress(OSError):
                changed = os.stat(os.path.join(self._folder, name + _ENDING)).st_ctime_ns
                if name not in kept and changed <= note.written and (not self._is_own(name) or self._is_archive(name)):
                    found.append(name)
        return found

    def _is_archive(self, name: str) -> bool:
        return is_archive(os.path.join(self._folder, name + _ENDING))

    def _is_coming(self, name: str) -> bool:
        """Whether a process is writing a file. Killed processes leave names without files."""
        begin = part_stem(name + _ENDING) + "."
        return any(other.startswith(begin) and other.endswith(".part") for other in os.listdir(self._folder))

    def _delete(self, names: list[str]) -> None:
        for name in names:
            if self._is_own(name) and self._is_archive(name):
                path = os.path.join(self._folder, name + _ENDING)
                with translated(path, "removed"), suppress(FileNotFoundError):
                    os.remove(path)

    @property
    def checkpoints(self) -> list[str]:
        """The kept checkpoints from old to new."""
        return [self._head + name for name in self._kept]

    @property
    def latest_checkpoint(self) -> str | None:
        """The newest checkpoint; None if no checkpoint exists."""
        return None if self._newest is None else self._head + self._newest

    def save(self, checkpoint_number: int | None = None, check_interval: bool = True, options: Any = None) -> str:
        """Save, delete old checkpoints, and return the path for `restore`.

        Parameters
        ----------
        checkpoint_number : int, optional
            The next number by default.
        check_interval, options
            Ignored; TensorFlow has them.
        """
        counter = self.checkpoint.save_counter
        if checkpoint_number is not None:
            counter.assign(checks.whole(self, "checkpoint_number", checkpoint_number) - 1)
        counter.assign_add(1)
        path = f"{self._prefix}-{int(counter)}"
        name = os.path.basename(path)
        self.checkpoint._write(path, lambda: self._announce(name))
        self._settle(name)
        return path

    def restore_or_initialize(self) -> str | None:
        """Restore the newest checkpoint, if one exists. Returns its path.

        Raises
        ------
        gtape.errors.OpError, ValueError
            As `Checkpoint.read` does.
        """
        while (newest := self.latest_checkpoint) is not None:
            try:
                self.checkpoint.restore(newest)
                break
            except NotFoundError:  # another process has saved newer checkpoints since, and has deleted this one
                self._look()
                if self.latest_checkpoint in (None, newest):
                    raise
        return newest

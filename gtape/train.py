"""``gtape.train``: checkpoints. The values of all variables that objects hold, in one NumPy archive for each."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gtape.errors import NotFoundError
from gtape.module import Module
from gtape.variable import Variable

__all__ = ["Checkpoint", "CheckpointManager", "latest_checkpoint", "list_variables", "load_variable"]

_ENDING = ".npz"
_NOTE = "checkpoint"  # the file in a directory that names its newest checkpoint


def __dir__() -> list[str]:
    return sorted(__all__)


# ---------------------------------------------------------------------------------------------- what objects hold


# What gtape's own classes keep for themselves in attributes; variables that `add_weight` made come last.
_INTERNAL = frozenset({
    "_added", "_chosen", "_graph", "_graph_layers", "_losses", "_made", "_means", "_penalties", "_pending", "_sequence",
    "_settings", "_symbolic", "_tracker",
})  # fmt: skip


def _children(x: Any) -> Iterator[tuple[str, Any]]:
    """The parts of an object, by the names under which their variables are kept."""
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
        listed: Any = (
            getattr(x, "layers", ()) if "_sequence" in inside else inside.get("_graph_layers", ())
        )  # of a Sequential, of a graph
        yield from ((f"layer-{i}", part) for i, part in enumerate(listed))
        named = sorted(inside.keys() - _INTERNAL, key=lambda name: (name.startswith("_"), name))
        yield from ((name, inside[name]) for name in named)
        yield "_made", inside.get("_made", [])
    elif hasattr(x, "_variables") and isinstance(x._variables, list):  # a metric
        yield from ((str(i), v) for i, (v, _) in enumerate(x._variables))


def _escaped(key: str) -> str:
    """A key of a dict as one part of a path."""
    return key.replace("%", "%25").replace("/", "%2F").replace("|", "%7C")


def _held(x: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Every variable, and every part that has not made its variables yet, with its path; each once."""
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
    """The values of all variables of an object, by path."""
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
    """What became of the values that were restored."""

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
        """The same, for a whole object."""
        return self.assert_existing_objects_matched()

    def expect_partial(self) -> _Status:
        """Say that not every value is wanted; gtape gives no warning in any case."""
        return self

    initialize_or_restore = run_restore_ops = expect_partial


def put_values(x: Any, values: dict[str, Any]) -> _Status:
    """Give the variables of an object their values; parts that have no variables yet get theirs when they make them.

    Raises
    ------
    ValueError
        For a value of another shape.
    """
    unused = set(values)
    return _Status(unused, _put(x, "", values, unused))


def _put(x: Any, path: str, values: dict[str, Any], unused: set[str]) -> set[str]:
    """Give values to what lies under a path; returns the variables without one."""
    missing = set()
    for where, part in list(_held(x, path)):
        if not isinstance(part, Variable):
            part.__dict__["_pending"] = _when_built(where, values, unused)
        elif where in values:
            part.assign(values[where])
            unused.discard(where)
        else:
            missing.add(where)
    return missing


def _when_built(path: str, values: dict[str, Any], unused: set[str]) -> Callable[[Any], None]:
    def put(part: Any) -> None:
        # Only what has found no variable yet: layers inside may have been trained since.
        _put(part, path, {p: v for p, v in values.items() if p in unused}, unused)

    return put


# ---------------------------------------------------------------------------------------------- files


def write_values(path: str, values: dict[str, Any]) -> None:
    """Write an archive; a crash leaves the old one."""
    unfinished = f"{path}.part"
    with zipfile.ZipFile(unfinished, "w") as archive:  # np.savez takes no array of the name "file"
        for name, value in values.items():
            with archive.open(name.replace("/", "|") + ".npy", "w", force_zip64=True) as f:
                np.lib.format.write_array(f, _without_objects(np.asarray(value)), allow_pickle=False)
    os.replace(unfinished, path)


def read_values(path: str) -> dict[str, Any]:
    """Read an archive."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {p.replace("|", "/"): _with_objects(archive[p]) for p in archive.files}
    except FileNotFoundError:
        raise NotFoundError(f"Unsuccessful: failed to find any matching files for {path}") from None


def _without_objects(value: Any) -> Any:
    """Strings as bytes of one length, each with a mark at its end, where NumPy would drop zeros."""
    if value.dtype.kind not in "OS":
        return value
    return np.array([s + b"." for s in value.ravel().tolist()], "S").reshape(value.shape)


def _with_objects(value: Any) -> Any:
    if value.dtype.kind != "S":
        return value
    made = np.empty(value.size, object)
    made[:] = [s[:-1] for s in value.ravel().tolist()]
    return made.reshape(value.shape)


class Checkpoint:
    """The state of objects: modules, layers, models, optimizers, metrics, variables, lists and dicts of these.

    Parameters
    ----------
    root : object, optional
        Its parts are kept without a name in front.
    **kwargs : object
        What to keep, by name.

    Attributes
    ----------
    save_counter : Variable
        How often `save` was called.

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
        """Write the values to a file of this name, without a number.

        Parameters
        ----------
        file_prefix : str or path
        options : object, optional
            Ignored; TensorFlow has it.

        Returns
        -------
        str
            What `restore` takes.
        """
        path: str = os.fspath(file_prefix)
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        write_values(path + _ENDING, values_of(self))
        return path

    def save(self, file_prefix: Any, options: Any = None) -> str:
        """Write the values to a file of this name and the next number, and note it as the newest in its directory.

        Parameters
        ----------
        file_prefix, options
            As for `write`.

        Returns
        -------
        str
            What `restore` takes.
        """
        self.save_counter.assign_add(1)
        path = self.write(f"{os.fspath(file_prefix)}-{int(self.save_counter)}", options)
        _note(os.path.dirname(path), path)
        return path

    def read(self, save_path: Any, options: Any = None) -> _Status:
        """Take the values that `write` wrote.

        Parameters
        ----------
        save_path : str or path
        options : object, optional
            Ignored; TensorFlow has it.

        Returns
        -------
        status
            With `assert_consumed`, `assert_existing_objects_matched` and `expect_partial`. What has no variables yet,
            such as a layer before its first call, gets its values when it makes them.

        Raises
        ------
        gtape.errors.NotFoundError
            If there is no such file.
        ValueError
            If a variable has another shape.
        """
        return put_values(self, read_values(os.fspath(save_path) + _ENDING))

    def restore(self, save_path: Any, options: Any = None) -> _Status:
        """Take the values that `save` or `write` wrote; None, for no checkpoint, changes nothing.

        Parameters
        ----------
        save_path, options
            As for `read`.

        Returns
        -------
        status
            As for `read`.
        """
        return _Status(set(), set()) if save_path is None else self.read(save_path, options)


def _note(directory: str, newest: str, all_paths: list[str] | None = None) -> None:
    names = [os.path.basename(p) for p in all_paths or [newest]]
    with open(os.path.join(directory, _NOTE), "w", encoding="utf-8") as f:
        json.dump({"newest": os.path.basename(newest), "all": names}, f)


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """The newest checkpoint in a directory.

    Parameters
    ----------
    checkpoint_dir : str or path
    latest_filename : str, optional
        The file that names it, "checkpoint" by default.

    Returns
    -------
    str or None
        None if there is none.

    Examples
    --------
    >>> import tempfile
    >>> import gtape as tf
    >>> print(tf.train.latest_checkpoint(tempfile.mkdtemp()))
    None
    """
    directory: str = os.fspath(checkpoint_dir)
    try:
        with open(os.path.join(directory, latest_filename or _NOTE), encoding="utf-8") as f:
            newest: str = json.load(f)["newest"]
    except FileNotFoundError:
        return None
    return os.path.join(directory, newest)


def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """The names and shapes of what a checkpoint holds.

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
    path = os.fspath(ckpt_dir_or_file)
    path = latest_checkpoint(path) or path if os.path.isdir(path) else path
    return sorted((name, list(v.shape)) for name, v in read_values(path + _ENDING).items())


def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """One value of a checkpoint.

    Parameters
    ----------
    ckpt_dir_or_file : str or path
    name : str
        As `list_variables` has it.

    Returns
    -------
    ndarray

    Raises
    ------
    gtape.errors.NotFoundError
        If there is none of this name.

    Examples
    --------
    >>> import tempfile
    >>> import gtape as tf
    >>> path = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).save(tempfile.mkdtemp() + "/ckpt")
    >>> tf.train.load_variable(path, "v")
    array([1., 2.], dtype=float32)
    """
    path = os.fspath(ckpt_dir_or_file)
    path = latest_checkpoint(path) or path if os.path.isdir(path) else path
    values = read_values(path + _ENDING)
    if name not in values:
        raise NotFoundError(f"Key {name} not found in checkpoint; there are {sorted(values)}")
    return values[name]


class CheckpointManager:
    """The last few checkpoints of a directory.

    Parameters
    ----------
    checkpoint : Checkpoint
    directory : str or path
    max_to_keep : int or None
        None keeps all.
    keep_checkpoint_every_n_hours, step_counter, checkpoint_interval, init_fn
        TensorFlow has them; they change nothing.
    checkpoint_name : str

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
        self,
        checkpoint: Checkpoint,
        directory: Any,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: Any = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: Any = None,
        init_fn: Any = None,
    ) -> None:
        self.checkpoint, self.directory, self._keep = checkpoint, os.fspath(directory), max_to_keep
        self._prefix = os.path.join(self.directory, checkpoint_name)
        self._paths: list[str] = []
        try:
            with open(os.path.join(self.directory, _NOTE), encoding="utf-8") as f:
                self._paths = [os.path.join(self.directory, name) for name in json.load(f)["all"]]
        except FileNotFoundError:
            pass  # a new directory

    @property
    def checkpoints(self) -> list[str]:
        """Those that are kept, the oldest first."""
        return list(self._paths)

    @property
    def latest_checkpoint(self) -> str | None:
        """The newest; None if there is none."""
        return self._paths[-1] if self._paths else None

    def save(self, checkpoint_number: int | None = None, check_interval: bool = True, options: Any = None) -> str:
        """Save, and delete what is too old.

        Parameters
        ----------
        checkpoint_number : int, optional
            Instead of the next one.
        check_interval, options
            TensorFlow has them; they change nothing.

        Returns
        -------
        str
            What `restore` takes.
        """
        counter = self.checkpoint.save_counter
        if checkpoint_number is not None:
            counter.assign(int(checkpoint_number) - 1)
        path = self.checkpoint.save(self._prefix)
        self._paths = [*(p for p in self._paths if p != path), path]
        while self._keep is not None and len(self._paths) > self._keep:
            old = self._paths.pop(0) + _ENDING
            if os.path.exists(old):
                os.remove(old)
        _note(self.directory, path, self._paths)
        return path

    def restore_or_initialize(self) -> str | None:
        """Restore the newest checkpoint, if there is one; returns its path."""
        newest = self.latest_checkpoint
        if newest is not None:
            self.checkpoint.restore(newest)
        return newest

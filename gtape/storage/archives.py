"""NumPy archives of values by name, written completely or not at all, and read member by member as declared.

An archive may come from anywhere. Its declarations (names, element types, shapes, sizes) are compared with the file and
with the variables before any data are read. No data are unpickled.
"""

from __future__ import annotations

import errno
import math
import os
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from gtape.base.escaping import plain
from gtape.base.file_errors import file_error, path_shown, translated
from gtape.base.shown import brief, shown
from gtape.dtypes import as_dtype
from gtape.errors import DataLossError, InvalidArgumentError, NotFoundError, OpError
from gtape.storage.files import new_file, open_regular

__all__ = ["Archive", "Member", "is_archive", "open_archive", "path_text", "write_archive"]

_ENDING = ".npy"
_LONGEST_NAME = 65_535  # bytes, the limit of the format
_NUMBERS = frozenset(map(np.dtype, "?bBhHiIqQefdFD"))
_BFLOAT16 = np.dtype("V2")  # NumPy writes bfloat16 in this way
_FORMAT = (1, 0)  # later versions are refused, because their headers may be 4 GB long and are only for records

_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)  # errors for which TensorFlow reports a missing file

# The errors of zipfile, zlib and NumPy for damaged files. NumPy's warnings may be errors.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, ValueError, EOFError, RuntimeError,
    OverflowError, SyntaxError, TypeError, KeyError, IndexError, MemoryError, UserWarning,
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- names


def path_text(path: Any) -> str:
    """A path as a string. TypeError for other objects, InvalidArgumentError if no file can have that name."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"a path must be a str, bytes or os.PathLike object, not {shown(path)}")
    try:
        text = os.fsdecode(path)
        if text and b"\0" not in os.fsencode(text):
            return text
    except UnicodeError:
        pass
    raise InvalidArgumentError(
        f"no file can have the name '{path_shown(path)}': give at least one character, and no NUL"
    )


def _member_name(name: str) -> str:
    """A path as a member name, escaped because archives cut names at NUL and cannot hold lone surrogates."""
    text = re.sub("%u|[|\\\\\0\ud800-\udfff]", lambda m: f"%u{ord(m[0][0]):04x}{m[0][1:]}", name)
    text = text.replace("/", "|") + _ENDING
    if len(text.encode()) > _LONGEST_NAME:
        raise ValueError(f"the name '{plain(name[:80])}...' is too long for an archive: nest the objects less deeply")
    return text


def _path_of(member: str) -> str:
    text = member.removesuffix(_ENDING).replace("|", "/")
    return re.sub("%u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), text)


# ---------------------------------------------------------------------------------------------- writing


def write_archive(path: str, values: dict[str, Any], before: Callable[[], None] | None = None) -> None:
    """Write arrays by name. Calls `before` just before the new archive replaces the old one.

    After an interruption the old archive is unchanged. Errors of the file system are raised as TensorFlow's errors.
    """
    members = {_member_name(name): value for name, value in values.items()}  # np.savez takes none of the name "file"
    with translated(path, "written"), new_file(path, before) as f, zipfile.ZipFile(f, "w") as archive:
        for name, value in members.items():
            with archive.open(name, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _without_objects(np.asarray(value)), allow_pickle=False)


def _without_objects(value: Any) -> Any:
    """Strings as bytes of one length, each with a mark at its end, because NumPy drops trailing zeros."""
    if value.dtype.kind not in "OS":
        return value
    return np.array([s + b"." for s in value.ravel().tolist()], "S").reshape(value.shape)


def _as_variables_hold_it(value: Any) -> Any:
    if value.dtype == _BFLOAT16:
        return value.view(as_dtype("bfloat16").dtype)
    if value.dtype.kind != "S":
        return value.astype(value.dtype.newbyteorder("="), copy=False)
    made = np.empty(value.size, object)
    made[:] = [s[:-1] for s in value.ravel().tolist()]
    return made.reshape(value.shape)


# ---------------------------------------------------------------------------------------------- reading


class Member(NamedTuple):
    """The declaration of one array in an archive."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    compressed: bool


class Archive:
    """An open archive. `path` is for messages, and `size` is the size of the file in bytes."""

    def __init__(self, path: str, file: zipfile.ZipFile, size: int) -> None:
        self._path, self._file = path, file
        self._infos: dict[str, zipfile.ZipInfo] = {}
        self._known: dict[str, Member] = {}
        stored = 0
        for info in file.infolist():
            name = _path_of(info.filename)
            if not info.filename.endswith(_ENDING) or name in self._infos:
                raise ValueError(f"it has a member '{plain(info.filename)}' that gtape does not write")
            if info.flag_bits & 1:
                raise ValueError(f"its member '{plain(info.filename)}' is encrypted")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"its member '{plain(info.filename)}' is compressed in a way that NumPy does not know")
            if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
                raise ValueError(f"its member '{plain(info.filename)}' has two sizes")
            stored += info.compress_size
            self._infos[name] = info
        if stored > size:
            raise ValueError(f"its members declare {stored} bytes, and the file has {size}")

    @property
    def path(self) -> str:
        """The path of the archive."""
        return self._path

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return list(self._infos)

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def member(self, name: str) -> Member:
        """The declaration of an array, without its data. DataLossError if the declaration is inconsistent."""
        if name not in self._known:
            with _blaming(self._path):
                self._known[name] = self._declared(name)
        return self._known[name]

    def _declared(self, name: str) -> Member:
        info = self._infos[name]
        with self._file.open(info) as f:
            version: Any = np.lib.format.read_magic(f)
            if version != _FORMAT:
                raise ValueError(f"the array '{plain(name)}' has a format that gtape does not write")
            shape, _, dtype = np.lib.format.read_array_header_1_0(f)
            begin = f.tell()
        plain_type = dtype.names is None and dtype.subdtype is None
        if not plain_type or not (dtype.newbyteorder("=") in _NUMBERS or dtype.kind == "S" or dtype == _BFLOAT16):
            raise ValueError(f"the array '{plain(name)}' is of the element type {dtype}, which variables do not have")
        if min(shape, default=0) < 0 or info.file_size != begin + math.prod(shape) * dtype.itemsize:
            raise ValueError(
                f"the array '{plain(name)}' declares {info.file_size} bytes, which is not what {dtype}{list(shape)} "
                "needs"
            )
        return Member(shape, dtype, info.compress_type != zipfile.ZIP_STORED)

    def read(self, name: str, *, wanted: tuple[int, ...] | None = None) -> Any:
        """Read one array. Strings become an array of objects.

        Compressed numbers must have the shape `wanted`, because a small file can declare any size.
        """
        declared = self.member(name)
        if declared.compressed and (declared.shape != wanted or declared.dtype.kind == "S"):
            raise DataLossError(
                f"'{plain(self._path)}': the array '{plain(name)}' is compressed, which gtape's own archives are not; "
                "it is only read into a variable of numbers of its shape, so make the variables first (call the model "
                "once), or write the archive again with np.savez"
            )
        with _blaming(self._path), self._file.open(self._infos[name]) as f:
            value = np.lib.format.read_array(f, allow_pickle=False)
            if f.read(1):  # zipfile compares the check sum at the end
                raise ValueError(f"the array '{plain(name)}' is longer than it declares")
            return _as_variables_hold_it(value)


@contextmanager
def _blaming(path: str) -> Iterator[None]:
    """Turn errors of a damaged file into a DataLossError that names the file."""
    try:
        yield
    except (*_DAMAGE, OSError) as e:
        raise DataLossError(
            f"'{plain(path)}' is no checkpoint that gtape can read ({brief(plain(e)) or type(e).__name__}): it is "
            "damaged, unfinished or of another program. Restore another checkpoint, or save this one again"
        ) from None


@contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """Open an archive for reading. NotFoundError for a missing file, DataLossError for a damaged or foreign file."""
    with _opened(path) as f:
        with _blaming(path):
            size = os.fstat(f.fileno()).st_size
            file = zipfile.ZipFile(f)
            archive = Archive(path, file, size)
        with file:
            yield archive


def _opened(path: str) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as e:
        if e.errno in _MISSING:
            raise NotFoundError(f"Unsuccessful: failed to find any matching files for {path_shown(path)}") from None
        raise file_error(e, path, "read") from None


def is_archive(path: str) -> bool:
    """Whether a path is a file (not a link) that may be an archive of gtape."""
    if os.path.islink(path):
        return False
    try:
        with open_archive(path):
            return True
    except OpError:
        return False

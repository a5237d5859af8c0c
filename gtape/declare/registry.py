"""All primitives by name, and the constants that rules may use besides integers."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from gtape.base import late
from gtape.base.locks import Lock

if TYPE_CHECKING:
    from gtape.declare.primitives import Primitive

__all__ = ["CONSTANTS", "REGISTRY", "Place", "together"]


class Place(NamedTuple):
    """The place of a declaration.

    Attributes
    ----------
    module, file : str
    line : int
    run : module spec or None
        A new object each time a module is loaded; None for scripts and for cells of a notebook.
    """

    module: str
    file: str
    line: int
    run: Any

    @classmethod
    def of_caller(cls) -> Place:
        """The place of the innermost caller outside this package."""
        frame: Any = sys._getframe()
        while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("gtape.declare"):
            frame = frame.f_back
        if frame is None:
            return cls("", "", 0, None)
        space = frame.f_globals
        return cls(str(space.get("__name__", "")), frame.f_code.co_filename, frame.f_lineno, space.get("__spec__"))

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"

    @property
    def outside(self) -> bool:
        """Whether the place is outside gtape."""
        return not self.module.startswith("gtape.")

    def again(self, other: Place) -> bool:
        """Whether `other` is the same declaration run again: a function or notebook cell again, or a reloaded module.

        Two lines of a module that ran once are two declarations.
        """
        if not self.outside or self.module != other.module:
            return False
        if self[:3] == other[:3]:
            return True
        if self.run is not None:
            return self.run is not other.run
        return self.file != other.file or self.file.startswith("<")


class _Registry(dict[str, "Primitive"]):
    """All primitives by name.

    Looking up a name imports the module that declares it; iteration imports every ops module. Iteration follows the
    names of the modules, because the order of imports depends on the program.
    """

    complete = False
    # The number of declarations so far. Data derived from all declarations are derived again when the number grows.
    version = 0
    _loading = False

    def __init__(self) -> None:
        self._lock = Lock(self._load_again)

    def _load_again(self) -> None:
        """Reset the loading in a forked child, where the thread that was loading does not exist."""
        self._loading = False

    def load(self) -> None:
        """Import every ops module. Other threads wait until the import is done."""
        if self.complete:
            return
        with self._lock:
            if not (self.complete or self._loading):  # modules that are being loaded look up names, too
                self._load_ops()

    def _load_ops(self) -> None:
        self._loading = True
        try:
            late.load_ops()
            self.complete = True
        finally:
            self._loading = False

    def put(self, prim: Primitive) -> None:
        """Add a declaration. A declaration from outside gtape is checked, and may replace an earlier run of itself.

        Raises a ValueError if the name is taken, or if a declaration from outside is wrong.
        """
        name, place = prim.name, prim.place
        if place.outside:
            self.load()  # because gtape's own names are taken even before their modules are imported
        first = dict.get(self, name)
        if first is not None and not first.place.again(place):
            raise ValueError(f"{prim.declaration} gives a name that is taken: {first.place} declares it first")
        self[name] = prim
        self.version += 1
        if place.outside:
            waiting = _together.get()
            if waiting is not None:
                waiting.append((prim, first))
            else:
                self.check(prim, first)
        if first is not None:
            first.replaced_by(prim)

    def check(self, prim: Primitive, first: Primitive | None) -> None:
        """Check a declaration from outside gtape. A wrong one is removed, and the one before it restored."""
        try:
            late.check_declaration(prim)
        except BaseException:
            del self[prim.name]
            if first is not None:
                self[prim.name] = first
            prim.replaced_by(first or prim)
            raise

    def __missing__(self, name: str) -> Primitive:
        if not (self.complete or self._loading):
            late.load_ops(name)
            if dict.__contains__(self, name):
                return dict.__getitem__(self, name)
            self.load()
        found = dict.get(self, name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def _all(self) -> list[tuple[str, Primitive]]:
        self.load()
        return sorted(dict.items(self), key=lambda item: item[1].module)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._all()])

    def __len__(self) -> int:
        self.load()
        return super().__len__()

    def keys(self) -> Any:
        return [name for name, _ in self._all()]

    def values(self) -> Any:
        return [prim for _, prim in self._all()]

    def items(self) -> Any:
        return self._all()

    def loaded(self) -> list[Primitive]:
        """The primitives whose modules are imported. Every recorded value comes from one of them."""
        return list(dict.values(self))


REGISTRY = _Registry()

_together: ContextVar[list[tuple[Primitive, Primitive | None]] | None] = ContextVar("gtape_together", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Declare ops whose rules use each other, such as sine and cosine. All are checked when the block ends.

    Examples
    --------
    >>> from gtape import declare
    >>> with declare.together():
    ...     pass
    """
    waiting: list[tuple[Primitive, Primitive | None]] = []
    token = _together.set(waiting)
    try:
        yield
    finally:
        _together.reset(token)
    for prim, first in waiting:
        REGISTRY.check(prim, first)


CONSTANTS: dict[str, float] = {
    "pi": math.pi,
    "ln2": math.log(2.0),
    "ln10": math.log(10.0),
    "sqrt2": math.sqrt(2.0),
    "two_over_sqrt_pi": 2.0 / math.sqrt(math.pi),
}

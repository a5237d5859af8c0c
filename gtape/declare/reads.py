"""Finds the values that the rules of a primitive read, so that a record keeps only these values.

The partials of an elementwise primitive run once on stand-ins that note their use. Other rules depend on shapes and
parameters, and one run may not show every value that they read. Their declarations state the values (``reads=...``).
Without a statement a record keeps all values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from gtape.declare.registry import Place

__all__ = ["declared_reads", "probed_reads", "reads_everything"]

Reads = tuple[frozenset[Any], ...]


class _Undetermined(Exception):
    """A rule depends on a number that a stand-in does not have."""


def _refuse(*_: Any) -> NoReturn:
    raise _Undetermined


class _Probe:
    """A stand-in for a value or a parameter of a rule.

    Arithmetic and calls return new probes and note their arguments. A probe has no shape, truth value or elements.
    """

    __slots__ = ("name", "used")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, used: set[Any], name: Any = None) -> None:
        self.used = used
        self.name = name

    def combine(self, *others: Any) -> _Probe:
        for o in (self, *others):
            if o.__class__ is _Probe and o.name is not None:
                self.used.add(o.name)
        return _Probe(self.used)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = combine
    __neg__ = __abs__ = __pow__ = combine
    __bool__ = __float__ = __int__ = __index__ = __iter__ = __len__ = __getitem__ = __array__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __array_ufunc__ = None

    def __getattr__(self, name: str) -> NoReturn:
        raise _Undetermined


class _ProbeWorld:
    """A namespace in which constants are probes without a name, and every other name is a function of probes."""

    def __init__(self, used: set[Any], constants: Any) -> None:
        self._used = used
        self._constants = constants

    def __getattr__(self, name: str) -> Any:
        if name in self._constants:
            return _Probe(self._used)
        return lambda *args, **params: _Probe(self._used).combine(*args, *params.values())


def reads_everything(arity: int) -> frozenset[Any]:
    """The output and all arguments."""
    return frozenset(["y", *range(arity)])


def probed_reads(partials: Sequence[Any], params: Sequence[str], constants: Any) -> Reads:
    """The values that each partial of an elementwise primitive reads, found by running it on stand-ins.

    There is one partial for each argument: a callable that takes ``(xp, y, *x, **params)``, an int or None. `constants`
    names the numbers of the namespace. The result has a set for each argument: ``"y"`` for the output, and indices of
    arguments. A partial that fails on stand-ins or depends on values counts as reading everything.
    """
    n = len(partials)
    return tuple([_probed(p, n, params, constants) if callable(p) else frozenset() for p in partials])


def _probed(partial: Callable[..., Any], n: int, params: Sequence[str], constants: Any) -> frozenset[Any]:
    used: set[Any] = set()
    values = [_Probe(used, name) for name in ("y", *range(n))]
    try:
        result = partial(_ProbeWorld(used, constants), *values, **{p: _Probe(used) for p in params})
    except Exception:  # a faulty partial raises its error when it runs on numbers
        return reads_everything(n)
    if result.__class__ is _Probe:
        result.combine()  # a partial may return an argument unchanged
    elif not isinstance(result, (int, float)):
        return reads_everything(n)
    return frozenset(used)


def declared_reads(name: str, given: Sequence[Sequence[Any]] | None, rules: Sequence[Any]) -> Reads:
    """The values that each rule reads by its declaration, which is checked; all values without a declaration.

    `given` has one entry for each argument: ``"y"`` for the output, and indices of arguments. Raises a ValueError with
    the name of the primitive if the number of entries is not the number of arguments, or if an entry names an unknown
    value.
    """
    n = len(rules)
    if given is None:
        return tuple([reads_everything(n) if callable(rule) else frozenset() for rule in rules])
    made = tuple([frozenset(entry) for entry in given])
    if len(made) != n or any(entry - reads_everything(n) for entry in made):
        raise ValueError(
            f"the declaration of {name!r} ({Place.of_caller()}) says reads={given!r}: give one tuple for each of its "
            f'{n} arguments, of "y" for the output and of indices of arguments'
        )
    return made

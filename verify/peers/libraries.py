"""The libraries to judge, as data: their ways of differentiation and their names of functions.

A library is a text of Python that imports it and defines `lift`, `lower`, and its modes of differentiation. Each mode
is a function ``mode(f, i)`` that returns the derivative of ``f`` by argument number i as a function, so that modes
nest: ``forward(reverse(f, 0), 1)``. `reverse` and `forward` differentiate the sum of an elementwise function, while
`rows` and `columns` return the Jacobian by reverse and forward mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module, util
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["KNOWN", "Library", "installed", "library", "register"]


class Library(NamedTuple):
    """A library to judge.

    Attributes
    ----------
    name : str
    module : str
        The module whose presence shows that the library is installed.
    imports : str
        Statements that import it; a witness begins with them.
    definitions : dict
        The source text of `lift`, `lower`, `weigh` and of each mode, by name.
    modes : tuple of tuple of str
        The modes of elementwise functions, the outermost differentiation first, such as ``("forward", "reverse")``.
    array_modes : tuple of tuple of str
        The modes of other functions, such as ``("columns", "rows")``.
    batched : str
        The name of the definition that maps over a leading axis; empty without one.
    functions : dict
        Name of a function of numbers (`gtape.verify.peers.functions`) -> expressions of the peer in x, y, z.
    arrays : dict
        Name of a case of arrays (`gtape.verify.peers.arrays`) -> expressions of the peer in x, y.
    calls : dict
        Name of a function of gtape in a random program -> template of the peer.
    tensor, dtype : str
        Templates that print an array, from ``{values}`` and ``{dtype}``, and the name of a dtype.
    versions : dict
        Package -> expression of its version.
    refusals : tuple of str
        Pieces of error messages that say plainly that a derivative is not provided.
    short : dict
        Name of a mode -> the library's own function that takes a function with one output, and `argnums`. Such calls
        make witnesses shorter.
    helpers : dict
        Name of a definition -> its source text. Expressions may use the name; a witness holds the helpers that it uses.
    documented : dict
        Name of a case -> a kind of input (empty for all inputs), and the page which says that the library returns NaN
        there.
    """

    name: str
    module: str
    imports: str
    definitions: Mapping[str, str]
    modes: Sequence[Sequence[str]]
    array_modes: Sequence[Sequence[str]]
    functions: Mapping[str, Sequence[str] | str]
    arrays: Mapping[str, Sequence[str] | str]
    calls: Mapping[str, str]
    tensor: str
    versions: Mapping[str, str]
    refusals: Sequence[str] = ()
    batched: str = ""
    short: Mapping[str, str] = MappingProxyType({})
    documented: Mapping[str, tuple[str, str]] = MappingProxyType({})
    helpers: Mapping[str, str] = MappingProxyType({})

    @property
    def setup(self) -> str:
        """The whole text that a peer's process runs first."""
        return "\n".join([self.imports, *self.definitions.values(), *self.helpers.values()])

    def expressions(self, name: str) -> list[str]:
        """The expressions of a function or case; none if the library lacks it."""
        found = self.functions.get(name, self.arrays.get(name, ()))
        return [found] if isinstance(found, str) else list(found)


KNOWN = ("torch", "jax", "tensorflow", "autograd", "mygrad")
_OTHERS: dict[str, Library] = {}


def register(made: Library) -> None:
    """Add a library, or replace one.

    Examples
    --------
    >>> from gtape.verify.peers.libraries import library, register
    >>> register(library("autograd")._replace(name="my autograd"))
    >>> library("my autograd").module
    'autograd'
    """
    _OTHERS[made.name] = made


def library(name: str) -> Library:
    """The description of a library.

    Raises
    ------
    ValueError
        For an unknown name.
    """
    if name in _OTHERS:
        return _OTHERS[name]
    if name not in (*KNOWN, "gtape"):
        raise ValueError(f"there is no description of {name!r}; known are {', '.join([*KNOWN, *sorted(_OTHERS)])}")
    made: Library = import_module(f"gtape.verify.peers.of_{name}").LIBRARY
    return made


def installed(name: str) -> bool:
    """Whether the library can be imported; importing is left to its own process."""
    try:
        return util.find_spec(library(name).module) is not None
    except (ImportError, ValueError):
        return False

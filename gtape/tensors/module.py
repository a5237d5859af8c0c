"""Module: an object that knows the variables in its attributes. name_scope: a prefix for the names of variables."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from gtape import nest
from gtape.base.shown import shown
from gtape.tensors.variable import SCOPE, Variable

__all__ = ["Module", "name_scope"]


class name_scope:
    """A block in which the names of new variables get a prefix.

    Parameters
    ----------
    name : str
        The prefix. Nested blocks join their prefixes by slashes. A prefix that ends with a slash ignores outer blocks.

    Examples
    --------
    >>> import gtape as tf
    >>> with tf.name_scope("encoder"):
    ...     tf.Variable(1.0, name="w").name
    'encoder/w:0'
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ValueError(f"name_scope takes a string, not {shown(name)}")
        self.name = name
        self._tokens: list[Any] = []

    def __enter__(self) -> str:
        whole = self.name if self.name.endswith("/") else f"{SCOPE.get()}{self.name}/" if self.name else ""
        self._tokens.append(SCOPE.set(whole))
        return whole

    def __exit__(self, *exc: Any) -> None:
        SCOPE.reset(self._tokens.pop())


class Module:
    """A base class for objects that hold variables, also in lists, dicts and other modules.

    Parameters
    ----------
    name : str, optional
        By default the class's name in snake case.

    Raises
    ------
    ValueError
        If the name is not a Python identifier.

    Examples
    --------
    >>> import gtape as tf
    >>> class Dense(tf.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = tf.Variable([[1.0]], name="w")
    ...         self.b = tf.Variable([0.0], name="b")
    >>> [v.name for v in Dense().trainable_variables]
    ['b:0', 'w:0']
    """

    def __init__(self, name: str | None = None) -> None:
        if name is None:
            name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<!^)(?=[A-Z][a-z])", "_", type(self).__name__).lower()
        if not isinstance(name, str):
            raise TypeError(f"the name of a module must be a string, not {shown(name)}")
        if not name.isidentifier():
            raise ValueError(f"{shown(name)} is not a valid module name: it has to be a Python identifier")
        self._name = name
        self._scope = f"{SCOPE.get()}{name}/"

    @classmethod
    def with_name_scope(cls, method: Any) -> Any:
        """Decorate a method, so that its new variables get the module's name as a prefix.

        Parameters
        ----------
        method : function

        Returns
        -------
        function

        Examples
        --------
        >>> import gtape as tf
        >>> class Dense(tf.Module):
        ...     @tf.Module.with_name_scope
        ...     def build(self):
        ...         return tf.Variable(1.0, name="w").name
        >>> Dense().build()
        'dense/w:0'
        """

        @functools.wraps(method)
        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return scoped

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def name_scope(self) -> name_scope:
        """A block in which new variables get the module's name as a prefix."""
        return name_scope(self._scope)

    def _leaves(self, wanted: Callable[[Any], bool], seen: set[int]) -> Iterator[Any]:
        """The selected objects among the attributes, in alphabetical order, then those of submodules."""
        inside = []
        for key in sorted(vars(self)):
            for leaf in nest.flatten(vars(self)[key]):
                if not isinstance(leaf, (Variable, Module)) or id(leaf) in seen:
                    continue
                seen.add(id(leaf))
                if wanted(leaf):
                    yield leaf
                if isinstance(leaf, Module):
                    inside.append(leaf)
        for module in inside:
            yield from module._leaves(wanted, seen)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables, each once: the module's own by attribute name, then the variables of its submodules."""
        return tuple(self._leaves(lambda x: isinstance(x, Variable), {id(self)}))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """The trainable variables."""
        return tuple([v for v in self.variables if v.trainable])

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        """The variables that are not trainable."""
        return tuple([v for v in self.variables if not v.trainable])

    @property
    def submodules(self) -> tuple[Module, ...]:
        """All modules inside this module, each once."""
        return tuple(self._leaves(lambda x: isinstance(x, Module), {id(self)}))

"""A hashable reference to a tensor or variable, which are not hashable because their ``==`` is elementwise."""

from __future__ import annotations

from typing import Any

__all__ = ["Reference"]


class Reference:
    """Compares and hashes by the identity of its tensor or variable."""

    __slots__ = ("_referent",)

    def __init__(self, referent: Any) -> None:
        self._referent = referent

    def deref(self) -> Any:
        """The tensor or variable."""
        return self._referent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other._referent is self._referent

    def __hash__(self) -> int:
        return id(self._referent)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._referent!r}>"

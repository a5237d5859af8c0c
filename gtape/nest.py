"""Nested structures of tensors, by TensorFlow's rules.

A structure is a list, tuple, namedtuple, mapping, other sequence or attrs object, nested in any way; everything else,
None, strings, arrays, tensors and shapes included, is a leaf. Mappings are walked in the order of their sorted keys,
and an empty structure has no leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, MappingView, Sequence
from itertools import islice
from typing import Any

from gtape.base.scalars import truth_of
from gtape.base.shown import shown
from gtape.base.tensor_shape import TensorShape

__all__ = ["assert_same_structure", "flatten", "is_nested", "map_structure", "pack_sequence_as"]

__dir__ = __all__.copy  # the names for `dir`, which sorts them


_LEAF, _SEQUENCE, _MAPPING, _ATTRS, _COMPOSITE, _RANGE = range(6)
# The greatest length of a range. A longer range is taken for a mistake.
_LONGEST_RANGE = 1 << 24

# The kinds of classes seen so far, bounded because programs may create classes without end.
_kinds: dict[type, int] = {list: _SEQUENCE, tuple: _SEQUENCE, dict: _MAPPING, TensorShape: _LEAF, range: _RANGE}


def _find_kind(cls: type) -> int:
    if issubclass(cls, (str, bytes, bytearray, memoryview, TensorShape)):
        kind = _LEAF
    elif issubclass(cls, Mapping):
        kind = _MAPPING
    elif issubclass(cls, (Sequence, MappingView)):
        kind = _SEQUENCE
    elif hasattr(cls, "__attrs_attrs__"):
        kind = _ATTRS
    elif getattr(cls, "_is_gtape_composite", False):
        kind = _COMPOSITE
    else:
        kind = _LEAF
    if len(_kinds) > 1000:
        _kinds.clear()
    _kinds[cls] = kind
    return kind


def _kind(x: Any, composites: bool) -> int:
    cls = x.__class__
    kind = _kinds.get(cls)
    if kind is None:
        kind = _find_kind(cls)
    return kind if composites or kind != _COMPOSITE else _LEAF


def _sorted_keys(mapping: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError:
        raise TypeError(
            f"nest only supports dicts with sortable keys, but the keys {shown(list(mapping))} cannot be compared with "
            "each other; use keys of one type"
        ) from None


def _children(x: Any, kind: int) -> Any:
    if kind == _SEQUENCE:
        return x
    if kind == _MAPPING:
        return [x[k] for k in _sorted_keys(x)]
    if kind == _ATTRS:
        return [getattr(x, a.name) for a in x.__attrs_attrs__]
    if kind == _RANGE:
        if x[-1:] != x[:_LONGEST_RANGE][-1:]:
            raise ValueError(f"a structure of more than {_LONGEST_RANGE} elements: {x}")
        return x
    return [part for part in (x.values, x.indices, x.dense_shape) if part is not None]


def _collect(x: Any, composites: bool, into: list[Any]) -> None:
    kind = _kind(x, composites)
    if kind == _LEAF:
        into.append(x)
        return
    for child in _children(x, kind):
        _collect(child, composites, into)


def too_deep(structure: Any) -> ValueError:
    """The error for a structure that contains itself or is nested too deeply."""
    return ValueError(
        f"a structure must not hold itself, nor be nested deeper than Python's recursion goes: {shown(structure)}"
    )


def is_nested(seq: Any) -> bool:
    """Whether an object is a structure rather than a leaf.

    Parameters
    ----------
    seq : object

    Returns
    -------
    bool

    Examples
    --------
    >>> from gtape import nest
    >>> nest.is_nested([1]), nest.is_nested({}), nest.is_nested("abc"), nest.is_nested(None)
    (True, True, False, False)
    """
    return _kind(seq, False) != _LEAF


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """The leaves of a structure, in order.

    Parameters
    ----------
    structure : object
        A structure or a single leaf.
    expand_composites : bool, optional
        Whether an IndexedSlices counts as a structure of its values, indices and dense shape.

    Returns
    -------
    list

    Raises
    ------
    TypeError
        If the keys of a mapping cannot be sorted.

    Examples
    --------
    >>> from gtape import nest
    >>> nest.flatten({"b": [1, None], "a": (2, ())})
    [2, 1, None]
    >>> nest.flatten(3)
    [3]
    """
    cls = structure.__class__
    if cls is list or cls is tuple:
        # A shortcut for flat structures, because they are by far the most common.
        get = _kinds.get
        for x in structure:
            if get(x.__class__) != _LEAF:
                break
        else:
            return list(structure)
    leaves: list[Any] = []
    composites = truth_of(expand_composites, "nest", "expand_composites")
    try:
        _collect(structure, composites, leaves)
    except RecursionError:
        raise too_deep(structure) from None
    return leaves


def _is_namedtuple(x: Any) -> bool:
    return isinstance(x, tuple) and isinstance(getattr(x, "_fields", None), tuple)


def _rebuild(like: Any, kind: int, children: list[Any]) -> Any:
    cls = like.__class__
    if cls is list:
        return children
    if cls is tuple:
        return tuple(children)
    if kind == _MAPPING:
        by_key = dict(zip(_sorted_keys(like), children, strict=True))
        items = [(k, by_key[k]) for k in like]
        # The class gets a dict, because the classes of chained and read-only mappings take no pairs.
        return defaultdict(like.default_factory, items) if cls is defaultdict else cls(dict(items))
    if kind == _COMPOSITE:
        return cls(*children)
    if kind == _ATTRS:
        return cls(**{a.alias: child for a, child in zip(like.__attrs_attrs__, children, strict=True)})
    if _is_namedtuple(like):
        return cls(*children)
    if isinstance(like, (range, MappingView)):  # these cannot hold arbitrary values
        return children
    return cls(children)


def _pack(like: Any, composites: bool, leaves: Iterator[Any]) -> Any:
    kind = _kind(like, composites)
    if kind == _LEAF:
        return next(leaves)
    return _rebuild(like, kind, [_pack(child, composites, leaves) for child in _children(like, kind)])


def _packed(like: Any, composites: bool, leaves: list[Any]) -> Any:
    try:
        return _pack(like, composites, iter(leaves))
    except RecursionError:  # this function needs more calls for a level than `_collect`
        raise too_deep(like) from None


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """Put leaves into the form of a structure: the inverse of `flatten`.

    Parameters
    ----------
    structure : object
        The form: a structure or a leaf.
    flat_sequence : sequence
        The leaves, as many as `structure` has.
    expand_composites : bool, optional
        As for `flatten`.

    Returns
    -------
    object
        Same structure as `structure`; mappings keep the order of their keys.

    Raises
    ------
    TypeError
        If `flat_sequence` is not a sequence.
    ValueError
        If `flat_sequence` has another number of leaves.

    Examples
    --------
    >>> from gtape import nest
    >>> nest.pack_sequence_as({"b": 0, "a": (0, 0)}, [1, 2, 3])
    {'b': 3, 'a': (1, 2)}
    """
    if not is_nested(flat_sequence):
        raise TypeError(
            f"Attempted to pack value:\n  {shown(flat_sequence)}\ninto a structure, but found incompatible type "
            f"`{type(flat_sequence)}` instead; pass a list of the leaves"
        )
    flat, expand_composites = list(flat_sequence), truth_of(expand_composites, "nest", "expand_composites")
    wanted = len(flatten(structure, expand_composites))
    if wanted != len(flat):
        raise ValueError(
            f"Could not pack sequence. Structure had {wanted} atoms, but flat_sequence had {len(flat)} items.  "
            f"Structure: {shown(structure)}, flat_sequence: {shown(flat)}."
        )
    return _packed(structure, expand_composites, flat)


def _same(a: Any, b: Any, check_types: bool, composites: bool) -> None:
    kind_a, kind_b = _kind(a, composites), _kind(b, composites)
    if (kind_a == _LEAF) != (kind_b == _LEAF):
        nested, leaf = (b, a) if kind_a == _LEAF else (a, b)
        raise ValueError(
            f"Substructure {shown(nested)} (type {type(nested)}) is a sequence, while {shown(leaf)} "
            f"(type {type(leaf)}) is not"
        )
    if kind_a == _LEAF:
        return
    if kind_a == _MAPPING and kind_b == _MAPPING:
        if check_types and set(a) != set(b):
            raise ValueError(
                f"The two dictionaries don't have the same set of keys. First: {shown(list(a))}, "
                f"second: {shown(list(b))}"
            )
    elif check_types and type(a) is not type(b):
        twins = (
            _is_namedtuple(a) and _is_namedtuple(b) and type(a).__name__ == type(b).__name__ and a._fields == b._fields
        )
        if not twins:
            raise TypeError(
                "The two structures don't have the same sequence type. "
                f"First structure has type {type(a)}, while second structure has type {type(b)}."
            )
    parts_a, parts_b = list(_children(a, kind_a)), list(_children(b, kind_b))
    if len(parts_a) != len(parts_b):
        raise ValueError(f"{shown(a)} has {len(parts_a)} elements, {shown(b)} has {len(parts_b)}")
    for part_a, part_b in zip(parts_a, parts_b, strict=True):
        _same(part_a, part_b, check_types, composites)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Raise an error unless two structures have the same form. Their leaves may differ.

    Parameters
    ----------
    nest1, nest2 : object
    check_types : bool, optional
        Whether to compare classes and the keys of mappings, too. All mappings agree with each other, and so do
        namedtuples with equal names and fields.
    expand_composites : bool, optional
        As for `flatten`.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        If the forms differ.
    TypeError
        If only the classes differ.

    Examples
    --------
    >>> from gtape import nest
    >>> nest.assert_same_structure([1, (2,)], ["a", (None,)])
    """
    check_types = truth_of(check_types, "nest", "check_types")
    composites = truth_of(expand_composites, "nest", "expand_composites")
    try:
        _same(nest1, nest2, check_types, composites)
    except RecursionError:
        raise too_deep(nest1) from None
    except (ValueError, TypeError) as e:
        if e.args and str(e.args[0]).startswith("nest only supports"):
            raise
        raise type(e)(
            "The two structures don't have the same nested structure.\n\n"
            f"First structure: type={type(nest1).__name__} str={shown(nest1)}\n\n"
            f"Second structure: type={type(nest2).__name__} str={shown(nest2)}\n\nMore specifically: {e}"
        ) from None


def map_structure(
    func: Callable[..., Any], *structure: Any, check_types: bool = True, expand_composites: bool = False
) -> Any:
    """Apply a function to the leaves of one or several structures of the same form.

    Parameters
    ----------
    func : callable
        Takes as many leaves as there are structures.
    *structure : object
        One or more structures of the same form.
    check_types, expand_composites : bool, optional
        As for `assert_same_structure`.

    Returns
    -------
    object
        The results of `func`, in the form of the first structure.

    Raises
    ------
    TypeError
        If `func` is not callable, or the structures differ in class only.
    ValueError
        If there is no structure, or their forms differ.

    Examples
    --------
    >>> from gtape import nest
    >>> nest.map_structure(lambda a, b: a + b, {"x": 1, "y": [2]}, {"x": 10, "y": [20]})
    {'x': 11, 'y': [22]}
    """
    if not callable(func):
        raise TypeError(f"`func` must be callable, got: {shown(func)}")
    if not structure:
        raise ValueError("Must provide at least one structure")
    first, expand_composites = structure[0], truth_of(expand_composites, "nest", "expand_composites")
    for other in islice(structure, 1, None):
        assert_same_structure(first, other, check_types, expand_composites)
    columns = [flatten(s, expand_composites) for s in structure]
    return _packed(first, expand_composites, [func(*row) for row in zip(*columns, strict=True)])

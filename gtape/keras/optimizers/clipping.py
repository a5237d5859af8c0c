"""Gradients as arrays: conversion of rows to dense arrays, and limits of norms and entries. Tapes record nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["clip", "dense", "divided", "is_sparse", "norm_of", "rows"]


def norm_of(arrays: Iterable[Any]) -> float:
    """The Euclidean norm over all entries, computed without overflow or underflow of intermediate results."""
    wide = [np.abs(a).astype(np.float64, copy=False).ravel() for a in arrays]
    largest = float(np.max([w.max() for w in wide if w.size], initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    # A power of two, because the division by it is exact.
    scale = math.ldexp(1.0, math.frexp(largest)[1] - 1)
    return scale * math.sqrt(sum(float(np.square(w / scale).sum()) for w in wide))


def is_sparse(gradient: Any) -> bool:
    """Whether a gradient is an IndexedSlices."""
    return hasattr(gradient, "indices") and hasattr(gradient, "values")


def rows(gradient: Any) -> tuple[Any, Any]:
    """The rows of an IndexedSlices and their indices, as arrays."""
    return np.asarray(gradient.values), np.asarray(gradient.indices)


def dense(g: Any, v: Any) -> Any:
    """The gradient `g` of variable `v` as an array of its shape and dtype. Rows that occur twice are added."""
    if not is_sparse(g):
        return g
    values, indices = rows(g)
    whole = np.zeros(tuple(v.shape), v.dtype.as_numpy_dtype)
    np.add.at(whole, indices, values)
    return whole


def divided(g: Any, number: float) -> Any:
    """A gradient, dense or in rows, divided by a number."""
    if not is_sparse(g):
        return g / g.dtype.type(number)
    values, indices = rows(g)
    return type(g)(values / values.dtype.type(number), indices, g.dense_shape)


def clip(
    pairs: list[tuple[Any, Any]], clipvalue: float | None, clipnorm: float | None, global_clipnorm: float | None
) -> list[tuple[Any, Any]]:
    """Pairs of gradients and variables, after applying at most one of three limits."""
    if clipnorm is None and global_clipnorm is None and clipvalue is None:
        return pairs
    # Dense first, because rows that occur twice must be added before the norm is computed.
    whole = [(dense(g, v), v) for g, v in pairs]
    if clipvalue is not None:
        return [(np.clip(g, -clipvalue, clipvalue), v) for g, v in whole]
    if clipnorm is not None:
        return [(_scaled(g, clipnorm, norm_of([g])), v) for g, v in whole]
    norm = norm_of(g for g, _ in whole)
    return [(_scaled(g, global_clipnorm, norm), v) for g, v in whole]


def _scaled(g: Any, limit: Any, norm: float) -> Any:
    if norm <= limit:
        return g
    # NaN for an infinite norm, as in TensorFlow, because the direction is lost.
    return g * g.dtype.type(limit / norm if math.isfinite(norm) else math.nan)

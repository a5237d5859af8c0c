"""Einstein sums and tensordot, composed of diagonals, sums, transposes and one matrix product for each pair.

BLAS computes contractions and their gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.shown import shown
from gtape.ops.elementwise.arithmetic import multiply
from gtape.ops.linalg.diagonal import diag_part_op
from gtape.ops.linalg.matmul import matmul_op
from gtape.ops.reduction.sums import sum_op
from gtape.ops.shape.order import transpose_op
from gtape.ops.shape.shape import reshape_op
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, convert_to_tensor

__all__ = ["einsum", "tensordot"]

# A label is a letter, or for an axis under the ellipsis its number, counted from the right.
Label = Any
Labelled = tuple[tuple[Label, ...], Tensor]


def _shaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x._layout.shape == shape else reshape_op(x, shape=shape)


def _ordered(labels: tuple[Label, ...], x: Tensor, wanted: Sequence[Label]) -> Tensor:
    perm = tuple([labels.index(w) for w in wanted])
    return x if perm == tuple(range(len(perm))) else transpose_op(x, perm=perm)


# ---------------------------------------------------------------------------------------------- the equation


def _labels(text: str, ndim: int, equation: str) -> tuple[Label, ...]:
    """The labels of one operand: letters, and integers for the axes of an ellipsis."""
    head, dots, tail = text.partition("...")
    if (not (head + tail).isalpha() and head + tail) or "..." in tail:
        raise ValueError(
            f"einsum: {shown(text)} in the equation {shown(equation)} should be letters with one '...' at most"
        )
    hidden = ndim - len(head) - len(tail)
    if hidden < 0 or (hidden and not dots):
        raise errors.InvalidArgumentError(
            f"einsum: {shown(text)} in {shown(equation)} names {len(head + tail)} axes, but the operand has {ndim}"
        )
    return (*head, *range(hidden, 0, -1), *tail)


def _parse(equation: str, tensors: list[Tensor]) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    if not isinstance(equation, str):
        raise TypeError(f"einsum: the equation must be a string such as 'ij,jk->ik', not {shown(equation)}")
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(tensors):
        raise ValueError(
            f"einsum: the equation {shown(equation)} has {len(parts)} operands, but {len(tensors)} tensors were given"
        )
    inputs = [_labels(p, len(t._layout.shape), equation) for p, t in zip(parts, tensors, strict=True)]
    every = [a for labels in inputs for a in labels]
    hidden = tuple(sorted({a for a in every if isinstance(a, int)}, reverse=True))
    if arrow:
        out = _labels(right, len(hidden) * ("..." in right) + len(right.replace("...", "")), equation)
    else:
        letters = sorted({a for a in every if isinstance(a, str)})
        out = (*hidden, *[a for a in letters if every.count(a) == 1])
    for a in out:
        if a not in every or out.count(a) > 1:
            raise ValueError(
                f"einsum: the output of {shown(equation)} names {a!r}, which is repeated there or missing from the "
                "inputs"
            )
    return inputs, out


def _sizes(inputs: list[tuple[Label, ...]], tensors: list[Tensor], equation: str) -> dict[Label, int]:
    sizes: dict[Label, int] = {}
    for labels, t in zip(inputs, tensors, strict=True):
        for a, d in zip(labels, t._layout.shape, strict=True):
            old = sizes.setdefault(a, d)
            if old != d:
                if not isinstance(a, int) or 1 not in (old, d):
                    raise errors.InvalidArgumentError(
                        f"einsum: in {shown(equation)} the axis {a!r} has size {old} in one place and {d} in another"
                    )
                sizes[a] = max(old, d) if 0 not in (old, d) else 0
    return sizes


# ---------------------------------------------------------------------------------------------- one and two operands


def _lone(labels: tuple[Label, ...], x: Tensor, keep: set[Label], sizes: dict[Label, int]) -> Labelled:
    """Take diagonals of repeated labels, drop axes that only broadcast, and sum over labels outside `keep`."""
    flat = tuple([i for i, a in enumerate(labels) if x._layout.shape[i] == 1 != sizes[a]])
    if flat:
        x = reshape_op(x, shape=tuple([d for i, d in enumerate(x._layout.shape) if i not in flat]))
        labels = tuple([a for i, a in enumerate(labels) if i not in flat])
    while len(set(labels)) < len(labels):
        a = next(a for a in labels if labels.count(a) > 1)
        i = labels.index(a)
        j = labels.index(a, i + 1)
        rest = [k for k in range(len(labels)) if k not in (i, j)]
        x = diag_part_op(transpose_op(x, perm=(*rest, i, j)), k=0)
        labels = (*[labels[k] for k in rest], a)
    gone = tuple([i for i, a in enumerate(labels) if a not in keep])
    if gone:
        x = sum_op(x, axis=gone, keepdims=False)
        labels = tuple([a for a in labels if a in keep])
    return labels, x


def _pair(one: Labelled, two: Labelled, keep: set[Label], sizes: dict[Label, int]) -> Labelled:
    """Contract two operands. A matrix product sums over their common axes outside `keep`."""
    la, a = _lone(*one, keep | set(two[0]), sizes)
    lb, b = _lone(*two, keep | set(one[0]), sizes)
    both = [x for x in la if x in lb]
    batch = [x for x in both if x in keep]
    summed = [x for x in both if x not in keep]
    left = [x for x in la if x not in lb]
    right = [x for x in lb if x not in la]
    shape = {
        what: tuple([sizes[i] for i in part])
        for what, part in (("batch", batch), ("sum", summed), ("left", left), ("right", right))
    }
    labels = (*batch, *left, *right)
    if not summed:
        a = _shaped(_ordered(la, a, [*batch, *left]), shape["batch"] + shape["left"] + (1,) * len(right))
        b = _shaped(_ordered(lb, b, [*batch, *right]), shape["batch"] + (1,) * len(left) + shape["right"])
        return labels, multiply(a, b)
    n = math.prod(shape["sum"])
    a = _shaped(_ordered(la, a, [*batch, *left, *summed]), (*shape["batch"], math.prod(shape["left"]), n))
    b = _shaped(_ordered(lb, b, [*batch, *summed, *right]), (*shape["batch"], n, math.prod(shape["right"])))
    return labels, _shaped(matmul_op(a, b), shape["batch"] + shape["left"] + shape["right"])


@diagnosed
def einsum(equation: str, *inputs: Any, optimize: Any = None, name: str | None = None) -> Tensor:
    """The sum of products over named axes.

    Parameters
    ----------
    equation : str
        As in ``numpy.einsum``: ``"ij,jk->ik"``. Repeated letters in one operand take a diagonal, ``...`` stands for
        axes that broadcast, and without ``->`` the letters that occur once are kept in alphabetical order.
    *inputs : tensors of one dtype
        One for each operand of the equation.
    optimize : object, optional
        Ignored, because three or more operands are always contracted in a good order.

    Raises
    ------
    ValueError
        If the equation is malformed.
    gtape.errors.InvalidArgumentError
        If the shapes do not fit the equation.

    Examples
    --------
    >>> tf.einsum("ij,j->i", tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([1.0, 1.0])).numpy()
    array([3., 7.], dtype=float32)
    """
    if not inputs:
        raise ValueError("einsum: no tensors were given")
    tensors = operands(*inputs) if len(inputs) > 1 else [convert_to_tensor(inputs[0])]
    parsed, out = _parse(equation, tensors)
    sizes = _sizes(parsed, tensors, equation)
    todo: list[Labelled] = list(zip(parsed, tensors, strict=True))
    for step in _order(todo, out, sizes):
        one, two = (todo.pop(i) for i in sorted(step, reverse=True))
        keep = set(out).union(*[labels for labels, _ in todo])
        todo.append(_pair(two, one, keep, sizes))
    labels, x = _lone(*todo[0], set(out), sizes)
    return _ordered(labels, x, out)


def _order(todo: list[Labelled], out: tuple[Label, ...], sizes: dict[Label, int]) -> list[tuple[int, int]]:
    """The pairs to contract, with the smallest result first. The result of a step goes to the end of the list."""
    if len(todo) == 2:
        return [(0, 1)]
    terms = [set(labels) for labels, _ in todo]
    steps = []
    while len(terms) > 1:
        best: tuple[int, int, int, set[Label]] | None = None
        for i in range(len(terms)):
            for j in range(i + 1, len(terms)):
                others = set(out).union(*[t for k, t in enumerate(terms) if k not in (i, j)])
                made = (terms[i] | terms[j]) & others
                cost = math.prod([sizes[a] for a in made]) - sum(
                    math.prod([sizes[a] for a in terms[k]]) for k in (i, j)
                )
                if best is None or cost < best[0]:
                    best = (cost, i, j, made)
        assert best is not None
        _, i, j, made = best
        del terms[j], terms[i]
        terms.append(made)
        steps.append((i, j))
    return steps


# ---------------------------------------------------------------------------------------------- tensordot


def _axes(axes: Any, na: int, nb: int) -> tuple[list[int], list[int]]:
    axes = np.asarray(getattr(axes, "_value", axes)).tolist() if not isinstance(axes, (list, tuple)) else axes
    if isinstance(axes, int):
        if not 0 <= axes <= min(na, nb):
            raise ValueError(
                f"tensordot: 'axes' must be between 0 and {min(na, nb)} for operands with {na} and {nb} axes; it is "
                f"{axes}"
            )
        return list(range(na - axes, na)), list(range(axes))
    if len(axes) != 2:
        raise ValueError(f"tensordot: 'axes' must be an integer or have length 2; it is {shown(axes)}")
    first, second = [[int(i) for i in (np.atleast_1d(np.asarray(getattr(a, "_value", a))))] for a in axes]
    if len(first) != len(second):
        raise ValueError(
            f"tensordot: 'axes' names {len(first)} axes of the first operand and {len(second)} of the second"
        )
    for many, n in ((first, na), (second, nb)):
        if any(not -n <= i < n for i in many) or len({i % n for i in many}) < len(many):
            raise errors.InvalidArgumentError(
                f"tensordot: axes {many} are repeated or out of range for an operand with {n} axes"
            )
    return [i % na for i in first], [i % nb for i in second]


@diagnosed
def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over chosen axes of two tensors.

    Parameters
    ----------
    a, b : tensors of one dtype
    axes : int or pair of int or pair of sequences of int
        The number of last axes of `a` and of first axes of `b` that are summed, or the axes of each.

    Returns
    -------
    Tensor, shape [remaining axes of `a`, remaining axes of `b`]

    Raises
    ------
    ValueError, gtape.errors.InvalidArgumentError
        If `axes` or the shapes do not fit.

    Examples
    --------
    >>> tf.tensordot([1.0, 2.0], [3.0, 4.0], 1).numpy()
    np.float32(11.0)
    """
    a, b = operands(a, b)
    sa, sb = a._layout.shape, b._layout.shape
    first, second = _axes(axes, len(sa), len(sb))
    if [sa[i] for i in first] != [sb[i] for i in second]:
        raise errors.InvalidArgumentError(
            f"tensordot: the sizes along axes {first} of shape {sa} and {second} of shape {sb} differ"
        )
    left = [i for i in range(len(sa)) if i not in first]
    right = [i for i in range(len(sb)) if i not in second]
    n = math.prod([sa[i] for i in first])
    pa, pb = (*left, *first), (*second, *right)
    a = a if pa == tuple(range(len(pa))) else transpose_op(a, perm=pa)
    b = b if pb == tuple(range(len(pb))) else transpose_op(b, perm=pb)
    la, rb = tuple([sa[i] for i in left]), tuple([sb[i] for i in right])
    return _shaped(matmul_op(_shaped(a, (math.prod(la), n)), _shaped(b, (n, math.prod(rb)))), la + rb)

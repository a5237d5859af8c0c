"""Exact factors of matrices, for the mirrors of eigenvalues, singular values and orthogonal factors.

An invariant subspace of a symmetric matrix A is defined by A X = X B and C X = 1 with fixed rows C. The equations are
polynomials, and Newton's method solves them (see `gtape.symbolic.implicit`). Eigenvalues that are far apart have a
subspace each. Eigenvalues that floats cannot separate share a subspace, in which the problem is solved again,
magnified. Eigenvalues that stay together at every precision are one multiple eigenvalue. Each of them gets the mean of
their derivatives, which is correct for functions that are symmetric in them. A note says that other functions are not
differentiable. Functions of the vectors must be the same in every basis of the vectors (`another_basis`). Singular
values are eigenvalues of [0 A; A' 0].

A Hermitian matrix is written in real numbers, with the block [a -b; b a] in place of a + ib. This matrix has each
eigenvalue twice (`fold` 2), with the vectors x and ix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import sympy as sp
from flint import arb

from gtape.symbolic import balls
from gtape.symbolic.balls import filled, mapped, objects, to_float
from gtape.symbolic.implicit import (
    ZERO_SINGULAR_VALUES,
    another_basis,
    note_degenerate,
    solve_equations,
    start,
    vectors_unused,
)
from gtape.symbolic.matrices import inverse, unit
from gtape.symbolic.mirrors.registry import array, parametrised, without_formula

__all__ = [
    "TOGETHER", "cayley", "eigenpairs", "factorisation", "gram_schmidt", "paired", "product", "rotation", "scaled",
    "side_by_side", "singular_pairs", "singular_values", "times_power_of_two",
]  # fmt: skip

# Closer eigenvalues, in units of the largest, share a subspace at first.
TOGETHER = 2.0**-24
_DEEPEST = 60
_EQUAL = (
    "some eigenvalues (or singular values) are equal: eigenvectors are not differentiable where eigenvalues meet, and "
    "single eigenvalues are not, either"
)


# ---------------------------------------------------------------------------------------------- one matrix of a batch


def factorisation(
    name: str, factors: Callable[..., Any], whole: Callable[..., Any], shapes: Callable[..., Any], axes: int = 2
) -> None:
    """Declare the mirror of a primitive that factorises a matrix, and its parametrised mirror.

    Parameters
    ----------
    name : str
        The primitive's registered name.
    factors : callable
        ``factors(W, matrix, *recorded) -> outputs``. `recorded` are the float outputs of the matrix, or None for each.
    whole : callable
        ``whole(at, *outputs, matrix) -> (*outputs, matrix)`` maps generic entries to outputs with the right structure,
        and to the matrix with these outputs. `at` is the index of the matrix in the batch.
    shapes : callable
        Maps the shape of the input to a tuple of the shapes of the outputs, or to the shape of the only output.
    axes : int
        The number of axes of a matrix. 3 if the first axis holds real and imaginary parts.
    """
    found = shapes((0,) * axes)
    several = isinstance(found[0], tuple)
    ranks = [len(s) for s in (found if several else (found,))]

    def run(f: Callable[..., Any], batch: tuple[int, ...], outs: list[Any], ins: list[Any]) -> None:
        for i in np.ndindex(*batch):
            made = f(i, *[None if x is None else x[i] for x in ins])
            for out, v in zip(outs, made if isinstance(made, tuple) else (made,), strict=True):
                out[i] = v

    def mirror(W: Any, a: Any, **params: Any) -> Any:
        if W.symbolic:
            raise without_formula(name)
        a = objects(a)
        made = shapes(a.shape)
        outs = [np.empty(s, dtype=object) for s in (made if several else (made,))]
        recorded: Any = start()
        if recorded is not None:
            recorded = [np.asarray(p, np.float64) for p in (recorded if several else (recorded,))]
            if any(not np.isfinite(p).all() for p in recorded):
                raise ArithmeticError("a value along the program is not finite")
        run(lambda at, *x: factors(W, *x), a.shape[: a.ndim - axes], outs, [a, *(recorded or [None] * len(outs))])
        return tuple(outs) if several else outs[0]

    def parametrised_mirror(W: Any, y: Any, a: Any, **params: Any) -> Any:
        ins = [*(y if several else (y,)), a]
        outs = [np.empty(np.shape(x), dtype=object) for x in ins]
        run(whole, outs[0].shape[: outs[0].ndim - ranks[0]], outs, ins)
        return (tuple(outs[:-1]) if several else outs[0]), outs[-1]

    array(name, mirror)
    parametrised(name, 0, parametrised_mirror, shapes=lambda shape, **params: shapes(shape))


def side_by_side(vectors: list[Any], shape: tuple[int, ...]) -> Any:
    """Arrays of one shape stacked along a new last axis."""
    out = np.empty((*shape, len(vectors)), dtype=object)
    for j, v in enumerate(vectors):
        out[..., j] = v
    return out


def product(W: Any, *factors: Any) -> Any:
    """The product of matrices."""
    return reduce(W.matmul, factors)


def times_power_of_two(x: Any, power: int) -> Any:
    """The product x * 2**power, exactly."""
    factor = arb(2) ** power
    return mapped(lambda e: e * factor, objects(x))


def _exponent(values: Any) -> int:
    """The exponent of the power of two that scales the largest ball into [1/2, 1]."""
    largest = max((arb(e).mid() for e in np.abs(values).ravel().tolist()), default=arb(0))
    if not largest.is_finite():
        raise ArithmeticError("a value along the program is not finite")
    if largest == 0:
        return 0
    mantissa, exponent = largest.man_exp()
    return int(exponent) + int(abs(int(mantissa))).bit_length()


def scaled(W: Any, a: Any) -> tuple[Any, int, np.ndarray]:
    """The matrix scaled to elements of about 1, the exponent of the removed power of two, and the scaled floats."""
    power = _exponent(W.component(a, 0))
    a = times_power_of_two(a, -power)
    return a, power, to_float(W.component(a, 0))


def gram_schmidt(W: Any, a: Any, signs: Any = None) -> tuple[Any, Any]:
    """Orthonormal columns, and the triangle whose product with them is `a`. `signs` are those of its diagonal."""
    m, n = a.shape
    k = min(m, n)
    q, r = np.empty((m, k), dtype=object), np.full((k, n), 0, dtype=object)
    for j in range(n):
        column = a[:, j]
        for i in range(min(j, k)):
            r[i, j] = (q[:, i] * a[:, j]).sum()
            column = column - q[:, i] * r[i, j]
        if j < k:
            r[j, j] = W.sqrt((column * column).sum())[()] * (1 if signs is None else int(signs[j]))
            q[:, j] = column / r[j, j]
    return q, r


# ---------------------------------------------------------------------------------------------- eigenvalues


def paired(z: np.ndarray) -> np.ndarray:
    """A complex matrix in real numbers, with the block [a -b; b a] in place of a + ib."""
    return np.kron(z.real, np.eye(2)) + np.kron(z.imag, np.array([[0.0, -1.0], [1.0, 0.0]]))


def _subspace(W: Any, a: Any, rough: np.ndarray, basis: np.ndarray) -> Any:
    """An orthonormal basis, with derivatives, of the invariant subspace near the columns of `basis`."""
    n, p = basis.shape
    if p == n:  # the whole space is invariant, whatever the directions
        return gram_schmidt(W, W.lift(np.ascontiguousarray(basis)))[0]
    rows = W.lift(np.ascontiguousarray(basis.T))
    one = unit(p)

    def equations(V: Any, y: Any, a: Any) -> Any:
        x, b = y[: n * p].reshape(n, p), y[n * p :].reshape(p, p)
        moved = V.matmul(a, x) - V.matmul(x, b)
        return np.concatenate([moved.ravel(), (V.matmul(rows, x) - one).ravel()])

    b = basis.T @ rough @ basis
    jacobian = np.block(
        [
            [np.kron(rough, np.eye(p)) - np.kron(np.eye(n), b.T), -np.kron(basis, np.eye(p))],
            [np.kron(basis.T, np.eye(p)), np.zeros((p * p, p * p))],
        ]
    )
    y = np.concatenate([basis.ravel(), b.ravel()])
    made = solve_equations(W, equations, y, [a], jacobian=jacobian, curvature=2.0 * p)
    return gram_schmidt(W, made[: n * p].reshape(n, p))[0]


def _groups(w: np.ndarray) -> list[list[int]]:
    """Groups of neighbouring eigenvalues that floats cannot separate, in order."""
    groups: list[list[int]] = []
    for i in range(len(w)):
        if i and w[i] - w[i - 1] < TOGETHER:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _facing(W: Any, q: Any, like: np.ndarray | None, i: int) -> Any:
    """A unit vector with the sign of column `i` of `like`."""
    return -q if like is not None and float(np.dot(to_float(W.component(q, 0)), like[:, i])) < 0 else q


def eigenpairs(
    W: Any, a: Any, basis: np.ndarray, like: Any, wanted: Any, fold: int = 1, depth: int = 0, split: int | None = None
) -> tuple[list[Any], list[Any]]:
    """Ascending eigenvalues and eigenvectors of one symmetric matrix whose largest element is about 1.

    `basis` has the float eigenvectors, `like` the recorded ones. Only the pairs in `wanted` are computed, and the
    others are None. With `fold` 2, neighbouring columns of `basis`, and neighbouring vectors, are i times each other.
    With `split` the matrix is [0 B; B' 0], with so many rows in B, and `basis` is as in `singular_pairs`.
    """
    n = len(a)
    rough = to_float(W.component(a, 0))
    w = np.einsum("ji,jk,ki->i", basis, rough, basis)
    values: list[Any] = [None] * n
    vectors: list[Any] = [None] * n
    for group in _groups(w):
        if not any(wanted[i] for i in group):
            continue
        size = len(group)
        begin = basis[:, group]
        if like is not None and size > 1:  # within a subspace, as near to the recorded vectors as possible
            u, _, vt = np.linalg.svd(begin.T @ like[:, group])
            begin = begin @ u @ vt
        q = _subspace(W, a, rough, begin)
        if size == fold:
            for j, i in enumerate(group):
                vectors[i] = _facing(W, q[:, j], like, i)
                values[i] = (vectors[i] * product(W, a, vectors[i])).sum()
            continue
        small = product(W, q.T, a, q)
        small = (small + small.T) / 2
        mean = np.trace(small) / size
        rest = small - mean * unit(size)
        if _all_equal(W.component(rest, 0)):
            in_null_space = split is not None and group[0] + group[-1] == n - 1
            note_degenerate(ZERO_SINGULAR_VALUES if in_null_space else _EQUAL)
            if split is not None and fold == 1 and in_null_space:
                last = (basis if like is None else like)[:, group]
                found = _null_pairs(W, a, q, basis[:, group], last, split, depth)
                for i, (value, vector) in zip(group[size - len(found) :], found, strict=True):
                    values[i], vectors[i] = value, vector
                continue
            turn = _towards(W, rest, depth) if W.k == 2 and fold == 1 and vectors_unused() else None
            if turn is None and (other := another_basis(size // fold)) is not None:
                turn = np.kron(other, unit(fold))
            if turn is not None:
                q, small = product(W, q, turn), product(W, turn.T, small, turn)
            # The values are equal, but each moves as its vector tells. Only the sum of the motions is determined.
            alike = [_with_value(W, small[j, j], mean) for j in range(size)] if W.k else [mean] * size
            for j, i in enumerate(group):
                values[i], vectors[i] = alike[j], q[:, j]
            continue
        if depth > _DEEPEST:
            raise ArithmeticError("eigenvalues are too close")
        rest, power, floats = scaled(W, rest)
        below, turned = eigenpairs(W, rest, _float_vectors(floats, fold), None, [True] * size, fold, depth + 1)
        for j, i in enumerate(group):
            values[i] = mean + times_power_of_two(below[j], power)[()]
            vectors[i] = _facing(W, product(W, q, turned[j]), like, i)
    return values, vectors


def _towards(W: Any, rest: Any, depth: int) -> Any:
    """The vectors of equal eigenvalues that one of two directions tells apart; None if neither tells any apart.

    Along this direction the eigenvalues move as the diagonal of the block tells. Functions that are symmetric in the
    eigenvalues have second derivatives, and these hold the rest of the block times the zeros beside that diagonal.
    Another basis (`another_basis`) is that of the other direction, in the opposite order, because a second derivative
    is symmetric in its directions.
    """
    size = len(rest)
    other = another_basis(size) is not None
    for bits in (2, 1) if other else (1, 2):
        part = W.component(rest, bits)
        if any(arb(e) != 0 for e in part.ravel().tolist()):
            part, _, floats = scaled(W.plain, part)
            _, vectors = eigenpairs(W.plain, part, _float_vectors(floats, 1), None, [True] * size, depth=depth + 1)
            return side_by_side(vectors[::-1] if other else vectors, (size,))
    return None


def _null_pairs(
    W: Any, a: Any, q: Any, basis: np.ndarray, last: np.ndarray, split: int, depth: int
) -> list[tuple[Any, Any]]:
    """The singular values 0, with vectors (u, v) / sqrt(2) from bases of the left and the right null space.

    Parameters
    ----------
    q : array
        An orthonormal basis of the eigenspace of 0 of [0 B; B' 0].
    basis, last : arrays of floats
        The columns of the eigenspace: `basis` as in `singular_pairs`, and those whose last ones give signs and order.
    split : int
        The number of rows of B.
    """
    alone = abs(2 * split - len(q))
    count = (q.shape[1] - alone) // 2
    sides = []
    for rows, longer in ((slice(split), 2 * split > len(q)), (slice(split, None), 2 * split < len(q))):
        rest = [basis[rows, count : count + alone]] if longer else []
        descending = last[rows, q.shape[1] - count :][:, ::-1]
        rough = np.concatenate([descending, *rest], axis=1)
        sides.append(gram_schmidt(W, product(W, q[rows], q[rows].T, W.lift(np.ascontiguousarray(rough))))[0])
    left, right = sides
    turned = _null_turns(W, product(W, left.T, a[:split, split:], right), depth)
    if turned is not None:
        left, right = product(W, left, turned[0]), product(W, right, turned[1])
    values = [(left[:, j] * product(W, a[:split, split:], right[:, j])).sum() for j in range(count)]
    half = W.sqrt2[()] / 2
    return [
        (_with_value(W, value, 0) if W.k else arb(0), np.concatenate([left[:, j], right[:, j]]) * half)
        for j, value in reversed(list(enumerate(values)))
    ]


def _null_turns(W: Any, block: Any, depth: int) -> tuple[Any, Any] | None:
    """Turns of the bases of two null spaces: along a direction, as by `_towards`, or to other bases; None for none.

    The left and the right basis turn apart from each other, and one vector changes its sign.
    """
    other = another_basis(1) is not None
    if W.k == 2 and vectors_unused():
        for bits in (2, 1) if other else (1, 2):
            part = W.component(block, bits)
            if any(arb(e) != 0 for e in part.ravel().tolist()):
                part, _, floats = scaled(W.plain, part)
                return _null_vectors_along(W.plain, part, floats, depth, other)
    if not other:
        return None
    left, right = (another_basis(size) for size in block.shape)
    assert left is not None and right is not None
    left[:, 0] = -left[:, 0]
    return left, right @ right


def _null_vectors_along(W: Any, part: Any, floats: np.ndarray, depth: int, other: bool) -> tuple[Any, Any]:
    if depth > _DEEPEST:
        raise ArithmeticError("singular values are too close")
    pairs = [x for _, x in singular_pairs(W, part, floats, None, min(part.shape), depth=depth + 1)]
    pairs = pairs[::-1] if other else pairs
    m, n = part.shape
    left = side_by_side([x[:m] * W.sqrt2[()] for x in pairs], (m,))
    right = side_by_side([x[m:] * W.sqrt2[()] for x in pairs], (n,))
    if other:
        left[:, 0] = -left[:, 0]
    return left, right


def _with_value(W: Any, moving: Any, value: Any) -> Any:
    """A jet with the derivatives of one number and the value of another."""
    parts = [W.component(filled([moving], (1,)), s) for s in range(1 << W.k)]
    return W.from_components([W.component(filled([value], (1,)), 0), *parts[1:]])[0]


def _float_vectors(a: np.ndarray, fold: int) -> np.ndarray:
    """The eigenvectors of a symmetric matrix. In pairs for a Hermitian matrix in real numbers (`fold` 2)."""
    if fold == 1:
        return np.asarray(np.linalg.eigh(a)[1])
    return paired(np.linalg.eigh(a[0::2, 0::2] + 1j * a[1::2, 0::2])[1])


def _all_equal(rest: Any) -> bool:
    """Whether all differences of eigenvalues are zero. Raises `Undecided` if more precision is needed."""
    flat = rest.ravel().tolist()
    if any(not arb(e).contains(0) for e in flat):
        return False
    decided = [balls.equal(arb(e), arb(0)) for e in flat]  # no short cut, because each comparison may raise Undecided
    return all(decided)


# ---------------------------------------------------------------------------------------------- singular values


def singular_pairs(
    W: Any, a: Any, rough: np.ndarray, recorded: tuple[Any, Any] | None, rank: int, fold: int = 1, depth: int = 0
) -> list[tuple[Any, Any]]:
    """The `rank` largest singular values of one matrix, descending, each with its vectors u and v in one vector.

    `rough` has the floats of `a`. `recorded` has the float vectors, which fix signs and phases. They are complex if `a`
    is a complex matrix in real numbers (`fold` 2). Each value then comes once, with the first vector of its pair.
    """
    m, n = rough.shape
    left, _, right = np.linalg.svd(rough)
    right = right.conj().T
    k = min(m, n)
    rows = fold * m
    whole = np.zeros((rows + fold * n,) * 2, dtype=object)
    whole[:rows, rows:], whole[rows:, :rows] = a, a.T

    def both(u: Any, v: Any) -> Any:
        return np.concatenate([u, v]) * np.sqrt(0.5)

    # The order is ascending: negative values, zeros, positive values.
    minus = both(left[:, :k], -right[:, :k])
    none = np.block([[left[:, k:], np.zeros((m, n - k))], [np.zeros((n, m - k)), right[:, k:]]])
    plus = both(left[:, :k], right[:, :k])
    columns = [
        np.concatenate([minus, none, last[:, ::-1]], axis=1) for last in (plus, both(*recorded) if recorded else plus)
    ]
    basis, like = map(paired, columns) if fold == 2 else columns
    wanted = [False] * (fold * (m + n - rank)) + [True] * (fold * rank)
    values, vectors = eigenpairs(W, whole, basis, like, wanted, fold, depth, split=rows)
    return [(values[-fold * (j + 1)], vectors[-fold * (j + 1)]) for j in range(rank)]


def singular_values(
    W: Any, a: Any, s: Any = None, u: Any = None, v: Any = None, rank: int | None = None
) -> tuple[Any, Any, Any]:
    """The factors of one real matrix with the signs of the recorded ones. With `rank` only the first `rank` columns."""
    m, n = a.shape
    a, power, rough = scaled(W, a)
    pairs = singular_pairs(W, a, rough, None if u is None else (u, v), min(m, n) if rank is None else rank)
    stretch = W.sqrt2[()]
    return (
        times_power_of_two(side_by_side([w for w, _ in pairs], ()), power),
        side_by_side([x[:m] * stretch for _, x in pairs], (m,)),
        side_by_side([x[m:] * stretch for _, x in pairs], (n,)),
    )


# ---------------------------------------------------------------------------------------------- for proofs


def cayley(s: Any) -> Any:
    """The orthogonal matrix (1 + S)(1 - S)^-1, rational in the entries of an antisymmetric S."""
    one = unit(len(s), sp.Integer(1))
    return np.dot(one + s, inverse(one - s))


def rotation(entries: Any) -> Any:
    """A rotation from the entries below the diagonal. If there are k columns of entries, its first k columns."""
    n, k = entries.shape
    s = np.full((n, n), 0, dtype=object)
    for i in range(n):
        for j in range(min(i, k)):
            s[i, j], s[j, i] = entries[i, j], -entries[i, j]
    return cayley(s)[:, :k]

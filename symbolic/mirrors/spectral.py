"""Mirrors of eigenvalues, singular values and orthogonal factors, and what defines them.

An invariant subspace of a symmetric matrix A is defined by A X = X B and C X = 1, C fixed rows: polynomials, which
Newton's method solves (see `gtape.symbolic.implicit`). Eigenvalues that are far apart have a subspace each; those that
floats do not tell apart have one together, in which the problem is solved again, magnified. What stays together at any
precision is one eigenvalue several times: then it has the mean of their derivatives, which is right for what is
symmetric in them, and a note says that nothing else is differentiable; what depends on the vectors must be the same in
every basis of theirs (`another_basis`). Singular values are eigenvalues of [0 A; A' 0].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic import balls
from gtape.symbolic.balls import to_float
from gtape.symbolic.implicit import another_basis, note_degenerate, solve_equations, start
from gtape.symbolic.jets import Jet
from gtape.symbolic.mirrors.determinant import objects
from gtape.symbolic.mirrors.registry import array, parametrised

TOGETHER = 2.0**-24  # eigenvalues closer than this, in units of the largest, share a subspace at first
DEEPEST = 60
EQUAL = (
    "some eigenvalues (or a singular value and another one, or its negative) are equal: eigenvectors are not "
    "differentiable where eigenvalues meet, and single eigenvalues are not, either"
)


# ---------------------------------------------------------------------------------------------- parts


def values_of(W: Any, x: Any) -> Any:
    """The values of jets."""
    return W.component(x, 0) if getattr(W, "k", 0) else objects(x)


def times_power_of_two(x: Any, power: int) -> Any:
    """Times a power of two, exactly."""
    factor = arb(2) ** power
    return objects(np.frompyfunc(lambda e: e * factor, 1, 1)(objects(x)))


def exponent_of(values: Any) -> int:
    """The power of two that brings the largest of some balls to between 1/2 and 1."""
    largest = max((arb(e).mid() for e in np.abs(values).ravel().tolist()), default=arb(0))
    if not largest.is_finite():
        raise ArithmeticError("a value along the program is not finite")
    if largest == 0:
        return 0
    mantissa, exponent = largest.man_exp()
    return int(exponent) + int(abs(int(mantissa))).bit_length()


def _product(W: Any, *factors: Any) -> Any:
    made = factors[0]
    for f in factors[1:]:
        made = objects(W.matmul(made, f))
    return made


def _orthonormal(W: Any, x: Any) -> Any:
    """The columns made orthonormal one after the other."""
    out = np.empty(x.shape, dtype=object)
    for j in range(x.shape[1]):
        column = x[:, j]
        for i in range(j):
            column = column - out[:, i] * (out[:, i] * x[:, j]).sum()
        out[:, j] = column / W.sqrt((column * column).sum())[()]
    return out


def _subspace(W: Any, a: Any, rough: np.ndarray, basis: np.ndarray) -> Any:
    """An orthonormal basis, with derivatives, of the invariant subspace near the columns of `basis`."""
    n, p = basis.shape
    rows = objects(W.lift(np.ascontiguousarray(basis.T)))
    one = np.zeros((p, p), dtype=object)
    one[np.arange(p), np.arange(p)] = 1

    def equations(V: Any, y: Any, a: Any) -> Any:
        x, b = y[: n * p].reshape(n, p), y[n * p :].reshape(p, p)
        moved = objects(V.matmul(a, x)) - objects(V.matmul(x, b))
        return np.concatenate([moved.ravel(), (objects(V.matmul(rows, x)) - one).ravel()])

    b = basis.T @ rough @ basis
    unit = np.eye(p)
    jacobian = np.block(
        [
            [np.kron(rough, unit) - np.kron(np.eye(n), b.T), -np.kron(basis, unit)],
            [np.kron(basis.T, unit), np.zeros((p * p, p * p))],
        ]
    )
    y = np.concatenate([basis.ravel(), b.ravel()])
    made = solve_equations(W, equations, y, [a], jacobian=jacobian, curvature=2.0 * p)
    return _orthonormal(W, made[: n * p].reshape(n, p))


def _groups(w: np.ndarray) -> list[list[int]]:
    """Neighbouring eigenvalues, in order, that are too close to be told apart by floats."""
    groups: list[list[int]] = []
    for i in range(len(w)):
        if i and w[i] - w[i - 1] < TOGETHER:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _facing(q: Any, W: Any, like: np.ndarray | None) -> Any:
    """A unit vector with the sign of `like`."""
    if like is None:
        return q
    turned = float(np.dot(to_float(values_of(W, q)), like)) < 0
    return -q if turned else q


def eigenpairs(
    W: Any, a: Any, basis: np.ndarray, like: Any, wanted: Any, depth: int = 0, fold: int = 1
) -> tuple[list[Any], list[Any]]:
    """Eigenvalues in ascending order and eigenvectors of one symmetric matrix whose largest element is about 1.

    `basis` has the float eigenvectors, `like` the recorded ones, `wanted` says which are asked for; the others are
    left out (None). A Hermitian matrix in real numbers has each eigenvalue twice (`fold`), with neighbouring columns
    of `basis` that are i times each other; so are the vectors then.
    """
    n = len(a)
    rough = to_float(values_of(W, a))
    w = np.einsum("ji,jk,ki->i", basis, rough, basis)
    values: list[Any] = [None] * n
    vectors: list[Any] = [None] * n
    for group in _groups(w):
        if not any(wanted[i] for i in group):
            continue
        start_basis = basis[:, group]
        if like is not None and len(group) > 1:  # within a subspace, as near to the recorded vectors as may be
            u, _, vt = np.linalg.svd(start_basis.T @ like[:, group])
            start_basis = start_basis @ u @ vt
        q = _subspace(W, a, rough, start_basis)
        if len(group) == fold:
            for j, i in enumerate(group):
                vectors[i] = _facing(q[:, j], W, None if like is None else like[:, i])
                values[i] = (vectors[i] * _product(W, a, vectors[i])).sum()
            continue
        small = _product(W, q.T, a, q)
        small = (small + small.T) / 2
        mean = np.trace(small) / len(group)
        rest = small.copy()
        rest[np.arange(len(group)), np.arange(len(group))] = np.diagonal(small) - mean
        if _all_equal(values_of(W, rest)):
            note_degenerate(EQUAL)
            turn = another_basis(len(group) // fold)
            alike = [mean] * len(group)
            if turn is not None:  # then what moves each of its vectors, whose sum alone is determined
                turn = np.kron(turn, np.eye(fold, dtype=int).astype(object))
                q = _product(W, q, turn)
                if getattr(W, "k", 0):
                    alike = list(np.diagonal(_product(W, turn.T, small, turn)))
            for j, i in enumerate(group):
                values[i], vectors[i] = alike[j], q[:, j]
            continue
        if depth > DEEPEST:
            raise ArithmeticError("eigenvalues are too close")
        power = exponent_of(values_of(W, rest))
        rest = times_power_of_two(rest, -power)
        inner = _float_vectors(to_float(values_of(W, rest)), fold)
        below, turned = eigenpairs(W, rest, inner, None, [True] * len(group), depth + 1, fold)
        for j, i in enumerate(group):
            values[i] = mean + times_power_of_two(below[j], power)[()]
            vectors[i] = _facing(_product(W, q, turned[j]), W, None if like is None else like[:, i])
    return values, vectors


def _float_vectors(a: np.ndarray, fold: int) -> np.ndarray:
    """Eigenvectors of a symmetric matrix; of a Hermitian one in real numbers (`fold` 2), in pairs."""
    if fold == 1:
        return np.asarray(np.linalg.eigh(a)[1])
    return paired(np.linalg.eigh(a[0::2, 0::2] + 1j * a[1::2, 0::2])[1])


def paired(z: np.ndarray) -> np.ndarray:
    """A complex matrix in real numbers, with the block [a -b; b a] in place of a + ib."""
    return np.kron(z.real, np.eye(2)) + np.kron(z.imag, np.array([[0.0, -1.0], [1.0, 0.0]]))


def _all_equal(rest: Any) -> bool:
    """Whether what tells eigenvalues apart is zero; `Undecided` where more precision is needed to say."""
    flat = rest.ravel().tolist()
    if any(not arb(e).contains(0) for e in flat):
        return False
    decided = [balls.equal(arb(e), arb(0)) for e in flat]  # all of them: each may say that it is undecided
    return all(decided)


# ---------------------------------------------------------------------------------------------- eigenvalues


def _symmetric(a: Any) -> Any:
    """What the lower triangle stands for."""
    a = objects(a)
    lower = np.tril(np.ones(a.shape[-2:], dtype=bool))
    return np.where(lower, a, np.swapaxes(a, -1, -2))


def recorded_starts(batch: tuple[int, ...], count: int) -> Any:
    """The recorded outputs for each matrix of a batch, or None."""
    given = start()
    if given is None:
        return lambda i: [None] * count
    parts = [np.asarray(p, dtype=np.float64) for p in given]
    if any(not np.isfinite(p).all() for p in parts):
        raise ArithmeticError("a value along the program is not finite")
    return lambda i: [p[i] for p in parts]


def stack_matrices(made: list[Any], batch: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """What was made for each matrix of a batch, as one array."""
    out = np.empty((*batch, *shape), dtype=object)
    for i, v in zip(np.ndindex(*batch), made, strict=True):
        out[i] = v
    return out


def _eigh(W: Any, a: Any) -> tuple[Any, Any]:
    a = _symmetric(a)
    batch, n = a.shape[:-2], a.shape[-1]
    starts = recorded_starts(batch, 2)
    values, vectors = [], []
    for i in np.ndindex(*batch):
        w, v = _eigh_of_one(W, a[i], starts(i)[1])
        values.append(w)
        vectors.append(v)
    return stack_matrices(values, batch, (n,)), stack_matrices(vectors, batch, (n, n))


def _eigh_of_one(W: Any, a: Any, like: Any) -> tuple[Any, Any]:
    n = len(a)
    power = exponent_of(values_of(W, a))
    a = times_power_of_two(a, -power)
    basis = np.linalg.eigh(to_float(values_of(W, a)))[1]
    like = basis if like is None else like
    w, v = eigenpairs(W, a, basis, like, [True] * n)
    out_w, out_v = np.empty(n, dtype=object), np.empty((n, n), dtype=object)
    for j in range(n):
        out_w[j], out_v[:, j] = times_power_of_two(w[j], power)[()], v[j]
    return out_w, out_v


# ---------------------------------------------------------------------------------------------- singular values


def _svd(W: Any, a: Any) -> tuple[Any, Any, Any]:
    a = objects(a)
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    k = min(m, n)
    starts = recorded_starts(batch, 3)
    made = [svd_of_one(W, a[i], *starts(i)) for i in np.ndindex(*batch)]
    parts = list(zip(*made, strict=True)) or [(), (), ()]
    shapes = ((k,), (m, k), (n, k))
    return tuple(stack_matrices(list(p), batch, s) for p, s in zip(parts, shapes, strict=True))


def svd_of_one(W: Any, a: Any, s: Any, u: Any, v: Any, rank: int | None = None) -> tuple[Any, Any, Any]:
    """The factors of one matrix, by Newton's method from recorded ones; only the first `rank` columns, where given."""
    m, n = a.shape
    k = min(m, n)
    rank = k if rank is None else rank
    power = exponent_of(values_of(W, a))
    a = times_power_of_two(a, -power)
    whole = np.zeros((m + n, m + n), dtype=object)
    whole[:m, m:], whole[m:, :m] = a, a.T
    left, _, right = np.linalg.svd(to_float(values_of(W, a)))
    right = right.T
    if u is None:
        u, v = left[:, :k], right[:, :k]
    root = np.sqrt(0.5)
    # Ascending: the negative ones, zeros, the positive ones.
    minus = np.concatenate([left[:, :k], -right[:, :k]]) * root
    none = np.concatenate(
        [
            np.concatenate([left[:, k:], np.zeros((n, m - k))]),
            np.concatenate([np.zeros((m, n - k)), right[:, k:]]),
        ],
        axis=1,
    )
    plus = np.concatenate([left[:, :k], right[:, :k]])[:, ::-1] * root
    recorded = np.concatenate([u, v])[:, ::-1] * root
    signs = np.where((recorded * plus).sum(axis=0) < 0, -1.0, 1.0)
    basis = np.concatenate([minus, none, plus * signs], axis=1)
    like = np.concatenate([minus, none, recorded], axis=1)
    wanted = [False] * (m + n - rank) + [True] * rank
    w, x = eigenpairs(W, whole, basis, like, wanted)
    out_s, out_u, out_v = (np.empty(shape, dtype=object) for shape in ((rank,), (m, rank), (n, rank)))
    stretch = W.sqrt2[()]
    for j in range(rank):
        vector = x[-1 - j]
        out_s[j] = times_power_of_two(w[-1 - j], power)[()]
        out_u[:, j], out_v[:, j] = vector[:m] * stretch, vector[m:] * stretch
    return out_s, out_u, out_v


# ---------------------------------------------------------------------------------------------- orthogonal factor


def _qr(W: Any, a: Any) -> tuple[Any, Any]:
    a = objects(a)
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    k = min(m, n)
    starts = recorded_starts(batch, 2)
    made = []
    for i in np.ndindex(*batch):
        r = starts(i)[1]
        if r is None:
            r = np.linalg.qr(to_float(values_of(W, a[i])))[1]
        made.append(_qr_of_one(W, a[i], np.where(np.diagonal(r) < 0, -1, 1)))
    return stack_matrices([q for q, _ in made], batch, (m, k)), stack_matrices([r for _, r in made], batch, (k, n))


def _qr_of_one(W: Any, a: Any, signs: Any) -> tuple[Any, Any]:
    """Gram and Schmidt."""
    m, n = a.shape
    k = min(m, n)
    power = exponent_of(values_of(W, a))
    a = times_power_of_two(a, -power)
    q, r = np.empty((m, k), dtype=object), np.full((k, n), 0, dtype=object)
    for j in range(k):
        column = a[:, j]
        for i in range(j):
            r[i, j] = (q[:, i] * a[:, j]).sum()
            column = column - q[:, i] * r[i, j]
        square = (column * column).sum()
        if arb(values_of(W, square).item()).contains(0):
            note_degenerate("the columns are linearly dependent: the orthogonal factor is not differentiable")
        r[j, j] = W.sqrt(square)[()] * int(signs[j])
        q[:, j] = column / r[j, j]
    for j in range(k, n):
        for i in range(k):
            r[i, j] = (q[:, i] * a[:, j]).sum()
    return q, times_power_of_two(r, power)


array("eigh", _eigh)
array("svd", _svd)
array("qr", _qr)


# ---------------------------------------------------------------------------------------------- for proofs


def for_each_matrix(f: Any, *arrays: Any) -> list[list[Any]]:
    """Apply `f` to each matrix of a batch; every argument has its own number of axes (first element of the pair)."""
    first, axes = arrays[0]
    batch = first.shape[: first.ndim - axes]
    made = [f(*[x[i] for x, _ in arrays]) for i in np.ndindex(*batch)]
    outs = []
    for parts in zip(*made, strict=True):
        outs.append(stack_matrices(list(parts), batch, np.shape(parts[0])))
    return outs


def _rotation(entries: Any) -> Any:
    """A rotation from the entries below the diagonal, by Cayley: (1 + S)(1 - S)^-1 with antisymmetric S, rational."""
    from gtape.symbolic.mirrors.linalg import inverse_matrix

    n = len(entries)
    s = np.full((n, n), 0, dtype=object)
    for i in range(n):
        for j in range(i):
            s[i, j], s[j, i] = entries[i, j], -entries[i, j]
    unit = np.full((n, n), 0, dtype=object)
    unit[np.arange(n), np.arange(n)] = 1
    return np.dot(unit + s, inverse_matrix(None, unit - s)) if n > 1 else unit


def _from_eigenvalues(W: Any, y: Any, a: Any) -> Any:
    def one(w: Any, v: Any) -> Any:
        q = _rotation(v)
        made = np.dot(q * w, q.T)
        for i in range(len(w)):  # the upper triangle is not read: it may be anything
            made[i, i + 1 :] = v[i, i + 1 :]
        return w, q, made

    w, q, made = for_each_matrix(one, (y[0], 1), (y[1], 2))
    return (w, q), made


def _frame(entries: Any, k: int) -> Any:
    """k orthonormal columns, the first ones of a rotation."""
    m = len(entries)
    square = np.full((m, m), 0, dtype=object)
    square[:, :k] = entries[:, :k]
    return _rotation(square)[:, :k]


def _from_singular_values(W: Any, y: Any, a: Any) -> Any:
    def one(s: Any, u: Any, v: Any) -> Any:
        u, v = _frame(u, len(s)), _frame(v, len(s))
        return s, u, v, np.dot(u * s, v.T)

    s, u, v, made = for_each_matrix(one, (y[0], 1), (y[1], 2), (y[2], 2))
    return (s, u, v), made


def _from_qr(W: Any, y: Any, a: Any) -> Any:
    def one(q: Any, r: Any) -> Any:
        q = _frame(q, q.shape[1])
        r = np.where(np.triu(np.ones(r.shape, dtype=bool)), r, 0)
        return q, r, np.dot(q, r)

    q, r, made = for_each_matrix(one, (y[0], 2), (y[1], 2))
    return (q, r), made


def _shape_of_svd(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    *batch, m, n = shape
    k = min(m, n)
    return (*batch, k), (*batch, m, k), (*batch, n, k)


def _shape_of_qr(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    *batch, m, n = shape
    k = min(m, n)
    return (*batch, m, k), (*batch, k, n)


parametrised("eigh", 0, _from_eigenvalues, shapes=lambda a: (a[:-1], a))
parametrised("svd", 0, _from_singular_values, shapes=_shape_of_svd)
parametrised("qr", 0, _from_qr, shapes=_shape_of_qr)


def _off_diagonal(W: Any, x: Any) -> Any:
    x = objects(x)
    return np.where(np.eye(x.shape[-1], dtype=bool), 0, x)


array("off_diagonal", _off_diagonal)


def _safe_quotient(W: Any, x: Any, d: Any) -> Any:
    def one(p: Any, q: Any) -> Any:
        if not isinstance(p, Jet):
            if p == 0:  # a constant zero: then q may be zero, too
                return W.exact(0)
            if isinstance(q, arb) and q.contains(0) and balls.equal(q, arb(0)) and balls.equal(arb(p), arb(0)):
                return W.exact(0)
        return (W.exact(p) if isinstance(p, int) else p) / q

    return np.frompyfunc(one, 2, 1)(objects(x), objects(d))


array("safe_quotient", _safe_quotient)


# ---------------------------------------------------------------------------------------------- complement


def _complement(W: Any, u: Any) -> Any:
    """What is left of the recorded columns when the part in the given ones is taken away, made orthonormal."""
    u = objects(u)
    batch, (m, k) = u.shape[:-2], u.shape[-2:]
    given = start()
    made = []
    for i in np.ndindex(*batch):
        if given is None:
            rough = np.linalg.qr(to_float(values_of(W, u[i])), mode="complete")[0][:, k:]
        else:
            rough = np.asarray(given, dtype=np.float64)[i]
        c = objects(W.lift(np.ascontiguousarray(rough)))
        rest = c - _product(W, u[i], objects(W.solve(_product(W, u[i].T, u[i]), _product(W, u[i].T, c)))) if k else c
        made.append(_orthonormal(W, rest))
    return stack_matrices(made, batch, (m, m - k))


def _from_complement(W: Any, y: Any, u: Any) -> Any:
    def one(c: Any, u: Any) -> Any:
        c = _frame(c, c.shape[1])
        return c, u - np.dot(c, np.dot(c.T, u))

    c, u = for_each_matrix(one, (y, 2), (u, 2))
    return c, u


array("complement", _complement)
parametrised("complement", 0, _from_complement, shapes=lambda u: (*u[:-1], u[-2] - u[-1]))

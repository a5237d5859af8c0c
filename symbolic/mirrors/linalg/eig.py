"""Mirrors of eigenvalues and eigenvectors of any matrix, in real and imaginary parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import acb, acb_mat, arb

from gtape.ops.linalg.eig import eig_kernel, pivots
from gtape.symbolic.balls import mapped, objects
from gtape.symbolic.factorisations import TOGETHER, factorisation, scaled, side_by_side, times_power_of_two
from gtape.symbolic.implicit import note_degenerate, solve_equations
from gtape.symbolic.jets import Jet
from gtape.symbolic.matrices import inverse
from gtape.symbolic.mirrors.registry import array


def _eig(W: Any, a: Any, like_w: Any, like_v: Any) -> tuple[Any, Any]:
    n = a.shape[-1]
    a, power, rough = scaled(W, a)
    w, v = eig_kernel(rough)
    if n and _least_gap(w) < _CLOSE:
        w, v = _beyond_floats(W, a)
    if like_v is not None:  # the recorded order, signs and phases
        order = _order(w, v, np.ldexp(like_w, -power), like_v)
        w, v = w[:, order], v[:, :, order]
    if n and _least_gap(w) < TOGETHER**2:
        note_degenerate("some eigenvalues are equal")
        raise ArithmeticError("eigenvalues are too close")
    rows = pivots(v if like_v is None else like_v)
    made = [_pair(W, a, rough, w[:, j], v[:, :, j], int(rows[j])) for j in range(n)]
    values = side_by_side([w for w, _ in made], (2,))
    return times_power_of_two(values, power), side_by_side([v for _, v in made], (2, n))


# Closer eigenvalues, and their vectors, start from more digits than floats have.
_CLOSE = 2.0**-16


def _least_gap(w: Any) -> float:
    values = w[0] + 1j * w[1]
    gaps = np.abs(values[:, None] - values[None, :]) + np.where(np.eye(len(values), dtype=bool), np.inf, 0.0)
    return float(gaps.min())


def _beyond_floats(W: Any, a: Any) -> tuple[Any, Any]:
    """Eigenvalues and vectors, computed at the current precision and then rounded."""
    n = a.shape[-1]
    real, imag = (W.component(p, 0).ravel().tolist() for p in a)
    w, v = acb_mat(n, n, [acb(p, q) for p, q in zip(real, imag, strict=True)]).eig(right=True, algorithm="approx")
    vectors = np.empty((2, n, n))
    for j in range(n):
        column = [v[i, j] for i in range(n)]
        largest = max(column, key=lambda e: float(abs(e)))
        for i, e in enumerate(column):
            vectors[0, i, j], vectors[1, i, j] = float((e / largest).real), float((e / largest).imag)
    return np.array([[float(e.real) for e in w], [float(e.imag) for e in w]]), vectors


def _order(w: Any, v: Any, like_w: Any, like_v: Any) -> list[int]:
    """For each recorded eigenvalue the index of the exact one. Vectors separate values rounded to one number."""
    values, wanted = w[0] + 1j * w[1], like_w[0] + 1j * like_w[1]
    found, recorded = (p[0] + 1j * p[1] for p in (v, like_v))
    size = np.linalg.norm(found, axis=0)[:, None] * np.linalg.norm(recorded, axis=0)
    apart = np.sqrt(np.maximum(1 - (np.abs(found.conj().T @ recorded) / size) ** 2, 0.0))
    apart = apart * _SAME + np.abs(values[:, None] - wanted)
    order: list[int] = []
    for k in range(len(values)):
        order.append(min((j for j in range(len(values)) if j not in order), key=lambda j: float(apart[j, k])))
    return order


_SAME = 2.0**-20  # the largest error of a recorded eigenvalue, in units of the largest element


def _pair(W: Any, a: Any, rough: Any, w: Any, v: Any, row: int) -> tuple[Any, Any]:
    """One eigenvalue and its vector, from A x = x w and c' x = 1, with real and imaginary parts apart."""
    n = len(v[0])
    v = v / np.sqrt((v * v).sum())
    cr, ci = (W.lift(np.ascontiguousarray(p)) for p in v)

    def equations(V: Any, y: Any, a: Any) -> Any:
        xr, xi, wr, wi = y[:n], y[n : 2 * n], y[2 * n], y[2 * n + 1]
        real = V.matmul(a[0], xr) - V.matmul(a[1], xi) - (xr * wr - xi * wi)
        imag = V.matmul(a[0], xi) + V.matmul(a[1], xr) - (xr * wi + xi * wr)
        fixed = [(cr * xr + ci * xi).sum() - 1, (cr * xi - ci * xr).sum()]
        return np.concatenate([real, imag, np.array(fixed, dtype=object)])

    unit = np.eye(n)
    left, right = rough[0] - w[0] * unit, rough[1] - w[1] * unit
    jacobian = np.block(
        [
            [left, -right, -v[0][:, None], v[1][:, None]],
            [right, left, -v[1][:, None], -v[0][:, None]],
            [v[0][None, :], v[1][None, :], np.zeros((1, 2))],
            [-v[1][None, :], v[0][None, :], np.zeros((1, 2))],
        ]
    )
    y = np.concatenate([v[0], v[1], w])
    made = solve_equations(W, equations, y, [a], jacobian=jacobian, curvature=4.0)
    xr, xi = made[:n], made[n : 2 * n]
    size = xr[row] * xr[row] + xi[row] * xi[row]
    real, imag = (xr * xr[row] + xi * xi[row]) / size, (xi * xr[row] - xr * xi[row]) / size
    real[row], imag[row] = arb(1), arb(0)
    values = made[2 * n :]
    if not (v[1].any() or w[1]) and all(not isinstance(e, Jet) and e == 0 for e in a[1].ravel().tolist()):
        imag[:], values[1] = arb(0), arb(0)  # an isolated, nearly real eigenvalue of a real matrix is real
    return values, np.stack([real, imag])


def _eig_pivot(W: Any, v: Any) -> Any:
    # Only an element that is 1 by convention is exactly 1 here.
    v = objects(v)
    known = mapped(lambda e: float(e) if not isinstance(e, Jet) and e in (0, 1) else 0.5, v)
    rows = pivots(known.astype(np.float64))
    return np.where(np.arange(v.shape[-2])[:, None] == rows[..., None, :], W.exact(1), W.exact(0))


def _from_pairs(at: Any, w: Any, v: Any, a: Any) -> Any:
    """Vectors whose first element is 1, and the matrix A = V diag(w) V^-1."""
    n = w.shape[1]
    real, imag = v.copy()
    real[0], imag[0] = 1, 0
    left, right = real * w[0] - imag * w[1], real * w[1] + imag * w[0]
    if n == 2:  # the adjugate divided by the determinant, both complex
        ar, ai = (np.array([[p[1, 1], -1], [-p[1, 0], 1]], dtype=object) for p in (real, imag))
        ai[0, 1] = ai[1, 1] = 0
        dr, di = real[1, 1] - real[1, 0], imag[1, 1] - imag[1, 0]
        size = dr * dr + di * di
        br, bi = (ar * dr + ai * di) / size, (ai * dr - ar * di) / size
    else:
        whole = inverse(np.block([[real, -imag], [imag, real]]))
        br, bi = whole[:n, :n], whole[n:, :n]
    made = np.dot(left, br) - np.dot(right, bi), np.dot(left, bi) + np.dot(right, br)
    return w, np.stack([real, imag]), np.stack(made)


factorisation("eig", _eig, _from_pairs, lambda a: ((*a[:-3], 2, a[-1]), a), axes=3)
array("eig_pivot", _eig_pivot)

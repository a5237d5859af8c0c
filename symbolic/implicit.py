"""Exact outputs of ops that equations F(y, x) = 0 define: by Newton's method in enclosures (balls) and jets.

A factorisation has no closed form, but a float result is close to the exact one. Newton's method with the inverse of a
float Jacobian converges from there to the exact value, up to the precision. F is a polynomial of degree 2 in y, so a
bound on the contraction holds in a whole neighbourhood and gives a rigorous enclosure. Jets follow from the same
equations: each component of F(y, x) = 0 is a linear system with the same matrix. No derivative rule takes part.

The equations do not determine signs and order. The recorded output does (`recorded`), otherwise LAPACK.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

from gtape.base.blocks import Block
from gtape.base.deadline import tick
from gtape.symbolic.balls import assume, assumed, filled, mapped, objects, precision

__all__ = [
    "ZERO_SINGULAR_VALUES", "another_basis", "bases_turned", "degenerate_noted", "degenerate_unnoted",
    "note_degenerate", "recorded", "solve_equations", "start", "values_alone", "vectors_unused",
]  # fmt: skip

# The note of a singular value 0, which has one-sided derivatives, unlike eigenvalues that meet and all vectors.
ZERO_SINGULAR_VALUES = (
    "some singular values are 0: singular values have a kink there, as the absolute value has at 0, and their vectors "
    "jump there"
)

_MANY_BITS = 800  # from here on, a matrix of more digits saves more repetitions than it costs


def recorded(output: Any) -> Block[Any]:
    """Let mirrors take the signs and the order of `output`, the program's recorded result, inside the block."""
    return assume("recorded", output)


def start() -> Any:
    """The recorded output of the op whose mirror runs; None without one."""
    return assumed.get("recorded")


def degenerate_noted() -> Block[Any]:
    """Gather the reasons why single outputs are not differentiable although symmetric functions of them may be."""
    return assume("degenerate", [])


def degenerate_unnoted() -> Block[Any]:
    """Take no notes inside the block, because values that notes go with are computed each time, without a memory."""
    return assume("degenerate", None)


def note_degenerate(reason: str) -> None:
    """Note that single outputs have no derivative here although functions that are symmetric in them have one."""
    noted = assumed.get("degenerate")
    if noted is not None and reason not in noted:
        noted.append(reason)


def bases_turned() -> Block[Any]:
    """Let mirrors choose another basis for the vectors of equal eigenvalues inside the block.

    A function that is differentiable at equal eigenvalues has the same value and the same derivative in every basis.
    """
    return assume("turned", True)


def values_alone() -> Block[Any]:
    """Tell mirrors that nothing in the block depends on the vectors of equal eigenvalues."""
    return assume("values alone", True)


def vectors_unused() -> bool:
    """Whether the eigenvalues alone count."""
    return bool(assumed.get("values alone"))


def another_basis(n: int) -> np.ndarray | None:
    """An exact orthogonal matrix that turns every direction of a space; None outside `bases_turned`."""
    if not assumed.get("turned"):
        return None
    # The matrix is Cayley's (1 + S)(1 - S)^-1 with an antisymmetric S, whose elements have one size and no pattern.
    s = fmpq_mat(n, n, [0 if i == j else (i - j) // abs(i - j) * fmpq(7 + (i * j + i + j) % 5, 17)
                        for i in range(n) for j in range(n)])  # fmt: skip
    unit = fmpq_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])
    made = (unit + s) * (unit - s).inv()
    return filled([arb(e) for e in made.entries()], (n, n))


def solve_equations(
    W: Any,
    equations: Callable[..., Any],
    y: np.ndarray,
    xs: Sequence[Any],
    *,
    jacobian: np.ndarray,
    curvature: float,
) -> np.ndarray:
    """The solution y of ``equations(W, y, *xs) == 0`` near a float approximation, in balls or jets.

    Parameters
    ----------
    W : BallWorld or JetWorld
    equations : callable
        ``equations(W, y, *xs)`` takes the unknowns as one vector and returns equally many residuals. They are
        polynomials of degree at most 2 in `y`.
    y : ndarray of float64, shape [n]
        The approximation to start from.
    xs : sequence of object arrays
        The given arrays, of the world's scalars.
    jacobian : ndarray of float64, shape [n, n]
        The derivative of the residuals by `y` at the start, up to rounding.
    curvature : float
        A bound L: if `y` moves by h, the derivative changes by at most L * h in the maximum norm.

    Returns
    -------
    object ndarray, shape [n]

    Raises
    ------
    ArithmeticError
        If no contraction of the iteration can be proved, because the solution is not isolated or is too far away.
    """
    with np.errstate(all="ignore"):
        try:
            inverse = np.linalg.inv(jacobian)
        except np.linalg.LinAlgError:
            raise ArithmeticError("the equations that define an output are singular there") from None
        size = float(np.abs(inverse).sum(axis=1).max(initial=0.0))
        rounding = len(y) * 2.0**-48 * max(1.0, size * float(np.abs(jacobian).sum(axis=1).max(initial=0.0)))
        contraction = float(np.abs(np.eye(len(y)) - inverse @ jacobian).sum(axis=1).max(initial=0.0)) + rounding
    if not contraction < 0.5:
        raise ArithmeticError("the equations that define an output are too close to singular there")
    step = _Step(len(y), inverse.ravel().tolist())
    values = [W.component(x, 0) for x in xs]
    wide = max((float(arb(e).rad()) for v in values for e in v.ravel().tolist()), default=0.0)
    origin = _exact(y)
    found: dict[int, Any] = {0: origin}
    corrected = _solve(lambda v: objects(equations(W.plain, v, *values)), found, step)
    away = float(_largest(objects(found[0] - origin)))
    contraction += size * (curvature * (away + 2.0**-60) + wide * len(y))
    if not contraction < 0.5:
        raise ArithmeticError("the float approximation is too far from the solution of its equations")
    _enclose({0: objects(equations(W.plain, found[0], *values))}, found, step, contraction)
    if not float(arb(found[0][0]).rad() if len(y) else 0.0) < 2.0**-60:
        raise ArithmeticError("the enclosures are too wide")
    components = range(1 << W.k)
    for level in range(1, W.k + 1):
        masks = [s for s in components if s.bit_count() == level]
        found.update({s: _exact(np.zeros(len(y))) for s in masks})

        def residuals(masks: list[int] = masks) -> dict[int, Any]:
            r = equations(W, W.from_components([found.get(s) for s in components]), *xs)
            return {s: W.component(r, s) for s in masks}

        _iterate(residuals, found, corrected)
        _enclose(residuals(), found, step, contraction)
    made: np.ndarray = W.from_components([found[s] for s in components])
    return made


class _Step:
    """Multiplies by a square matrix of numbers without radius."""

    def __init__(self, n: int, elements: Sequence[Any]) -> None:
        self.n = n
        self.matrix = arb_mat(n, n, elements) if n else None

    def __call__(self, r: Any) -> Any:
        moved = (self.matrix * arb_mat(self.n, 1, [arb(e) for e in r.tolist()])).entries() if self.n else []
        return filled(moved, (self.n,))


def _solve(residuals: Callable[[Any], Any], found: dict[int, Any], step: _Step) -> _Step:
    """Correct the unknowns `found` up to the precision; the step that corrects other components with few repetitions.

    A step with the inverse of a float matrix adds the digits of a float. For many digits, the matrix at a solution of a
    quarter of the digits is better.
    """
    if ctx.prec >= _MANY_BITS and len(found[0]):
        with precision(ctx.prec // 4):
            step = _solve(residuals, found, step)
            step = _inverse_at(residuals, found[0]) or step
    _iterate(lambda: {0: residuals(found[0])}, found, step)
    return step


def _inverse_at(residuals: Callable[[Any], Any], y: np.ndarray) -> _Step | None:
    """A multiplication by the inverse of the matrix of derivatives at `y`; None if the inverse cannot be computed.

    Central differences of polynomials of degree 2 are exact for every distance.
    """
    n = len(y)
    columns = []
    for i in range(n):
        tick()
        ends = []
        for sign in (1, -1):
            moved = y.copy()
            moved[i] = moved[i] + sign
            ends.append(residuals(moved))
        columns.append([((a - b) / 2).mid() for a, b in zip(*(e.tolist() for e in ends), strict=True)])
    try:
        inverse = arb_mat(n, n, [e for row in zip(*columns, strict=True) for e in row]).inv()
    except ZeroDivisionError:
        return None
    return _Step(n, [e.mid() for e in inverse.entries()])


def _exact(y: np.ndarray) -> np.ndarray:
    return mapped(arb, np.asarray(y, dtype=np.float64))


def _largest(v: Any) -> arb:
    found = arb(0)
    for e in v.tolist():
        bound = arb(e).abs_upper()
        if not bound.is_finite():
            raise ArithmeticError("a value along the program is not finite")
        if bound > found:
            found = bound
    return found


def _iterate(residuals: Callable[[], dict[int, Any]], found: dict[int, Any], step: _Step) -> None:
    """Correct the components of `residuals` until the corrections are below the precision."""
    last: arb | None = None
    for _ in range(ctx.prec // 4 + 20):
        tick()
        moves = {s: step(r) for s, r in residuals().items()}
        for s, move in moves.items():
            found[s] = mapped(lambda a, b: (a - b).mid(), found[s], move)
        largest = _largest(np.concatenate(list(moves.values())))
        scale = _largest(np.concatenate([found[s] for s in moves]))
        if largest <= arb(2) ** (8 - ctx.prec) * scale:
            return
        if last is not None and not largest < last / 2:  # wide inputs allow no more digits, or the iteration diverges
            return
        last = largest


def _enclose(residuals: dict[int, Any], found: dict[int, Any], step: _Step, contraction: float) -> None:
    """Give each component the radius that its residual proves."""
    for s, r in residuals.items():
        radius = _largest(step(r)) / (1 - arb(contraction))
        ball = arb(0, radius.abs_upper())
        found[s] = found[s] + ball

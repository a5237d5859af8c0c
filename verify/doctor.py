"""Do the kernels keep their declared accuracy on this machine? NumPy's vector kernels differ between machines."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gtape.verify.partials import distance, exact_partials, kink_allowance, root_allowance
from gtape.verify.points import points_for
from gtape.verify.pools import workers
from gtape.verify.subjects import Subject, subjects

__all__ = ["Kernel", "examine_kernels"]


class Kernel(NamedTuple):
    """One kernel's accuracy in one dtype.

    Attributes
    ----------
    op, dtype : str
    declared, measured : float
        In ULP of the exact value.
    where : tuple of float
        The worst point found.
    """

    op: str
    dtype: str
    declared: float
    measured: float
    where: tuple[float, ...]

    @property
    def ok(self) -> bool:
        """Whether the declaration holds."""
        return self.measured <= self.declared

    def as_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        measured: Any = self.measured if np.isfinite(self.measured) else repr(self.measured)
        return {
            "op": self.op,
            "dtype": self.dtype,
            "declared": self.declared,
            "measured": measured,
            "where": list(self.where),
            "ok": self.ok,
        }


def measure(subject: Subject, dtype: str, points: int) -> Kernel:
    """Search one kernel for its worst value."""
    rng = np.random.default_rng(zlib.crc32(f"value of {subject} {dtype}".encode()))
    xs = subject.arguments(points_for(subject.prim, np.dtype(dtype), points, rng), np.dtype(dtype))
    off = distance(subject.value(xs), exact_partials(subject, xs, [()])[()], np.dtype(dtype))
    high = np.flatnonzero(off > subject.prim.ulps)
    for rule in (kink_allowance, root_allowance):  # a branch cut of the value is a kink, and its roots are roots, too
        if len(high):
            there = [x[high] for x in xs]
            passes = rule(subject, there, (), subject.value(there), dtype)
            off[high[passes]] = 0.0
            high = high[~passes]
    i = int(np.argmax(off)) if len(off) else 0
    where = tuple(float(x[i]) for x in xs) if len(off) else ()
    return Kernel(str(subject), dtype, subject.prim.ulps, float(off[i]) if len(off) else 0.0, where)


def _task(name: str, params: dict[str, Any], dtype: str, points: int) -> Kernel:
    return measure(next(s for s in subjects([name]) if s.params == params), dtype, points)


def examine_kernels(
    names: Sequence[str] | None = None,
    *,
    points: int = 2_000,
    processes: int = 1,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Kernel]:
    """Measure differentiable elementwise kernels against their declared accuracy.

    Parameters
    ----------
    names : sequence of str, optional
        Only these primitives; all of them by default.
    points : int
        For each kernel and dtype; a fortieth of them where 1e-12 is promised instead of 4 ULP.
    processes : int
    progress : callable, optional
        ``progress(done, total, op)``.

    Returns
    -------
    list of Kernel

    Raises
    ------
    ValueError
        For a name that is no differentiable elementwise primitive, or too few points.
    """
    if points < 100:
        raise ValueError(f"points must be at least 100 to search anything, got {points}")
    # Where 1e-12 is promised instead of 4 ULP the exact values take a thousand times as long.
    tasks = [
        (s.prim.name, s.params, d, max(points // 40, 50) if s.prim.limit > 4 else points)
        for s in subjects(names)
        for d in ("float64", "float32")
    ]
    found: list[Kernel] = []

    def collect(kernels: Any) -> None:
        for done, k in enumerate(kernels, 1):
            found.append(k)
            if progress is not None:
                progress(done, len(tasks), k.op)

    if processes <= 1:
        collect(_task(*t) for t in tasks)
    else:
        with workers(processes) as pool:
            collect(pool.map(_task, *zip(*tasks, strict=True)))
    return found

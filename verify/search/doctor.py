"""Measures the kernels' accuracy on this machine, because NumPy's vector kernels differ between machines."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gtape.tensors.argument_checks import whole
from gtape.verify.search.interrupts import Interrupts
from gtape.verify.search.partials import distance, exact_partials, kink_allowance, root_allowance
from gtape.verify.search.points import points_for
from gtape.verify.search.pools import Harvest, run_all
from gtape.verify.search.rows import MOST_POINTS
from gtape.verify.search.subjects import Subject, subject_of, subjects

__all__ = ["Kernel", "examine_kernels", "measure_all"]


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
        """True if the kernel keeps its declared accuracy."""
        return self.measured <= self.declared

    def as_dict(self) -> dict[str, Any]:
        """The result as plain data for JSON."""
        measured: Any = self.measured if np.isfinite(self.measured) else repr(self.measured)
        data = {k: list(v) if isinstance(v, tuple) else v for k, v in self._asdict().items()}
        return data | {"measured": measured, "ok": self.ok}


def measure(subject: Subject, dtype: str, points: int) -> Kernel:
    """Search the largest error of one kernel."""
    rng = np.random.default_rng(zlib.crc32(f"value of {subject} {dtype}".encode()))
    xs = subject.arguments(points_for(subject.prim, np.dtype(dtype), points, rng), np.dtype(dtype))
    off = distance(subject.value(xs), exact_partials(subject, xs, [()])[()], np.dtype(dtype))
    high = np.flatnonzero(off > subject.prim.ulps)
    for rule in (kink_allowance, root_allowance):  # a branch cut of the value counts as a kink
        if len(high):
            there = [x[high] for x in xs]
            passes = rule(subject, there, (), subject.value(there), dtype)
            off[high[passes]] = 0.0
            high = high[~passes]
    i = int(np.argmax(off)) if len(off) else 0
    where = tuple(float(x[i]) for x in xs) if len(off) else ()
    return Kernel(str(subject), dtype, subject.prim.ulps, float(off[i]) if len(off) else 0.0, where)


def _task(name: str, params: dict[str, Any], dtype: str, points: int) -> Kernel:
    return measure(subject_of(name, params), dtype, points)


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
        For each kernel and dtype; a fortieth of them, at least 50, for ops that promise 1e-12 instead of 4 ULP.
    processes : int
    progress : callable, optional
        ``progress(done, total, op)``.

    Returns
    -------
    list of Kernel

    Raises
    ------
    ValueError
        For a name that is not the name of a differentiable elementwise primitive, or too few points.
    WorkerDied
        If a kernel ended three processes; a RuntimeError.
    """
    harvest = measure_all(names, points=points, processes=processes, progress=progress)
    harvest.check()
    return harvest.results()


def measure_all(
    names: Sequence[str] | None = None,
    *,
    points: int = 2_000,
    processes: int = 1,
    progress: Callable[[int, int, str], None] | None = None,
    interrupts: Interrupts | None = None,
    known: Mapping[tuple[str, str], Kernel] | None = None,
    found: Callable[[Kernel], None] | None = None,
) -> Harvest:
    """Measure kernels like `examine_kernels`, for a command that may be interrupted.

    Parameters
    ----------
    names, points, processes, progress
        As for `examine_kernels`.
    interrupts : Interrupts, optional
        The handler of signals.
    known : mapping, optional
        Op and dtype -> a result of an earlier call, which is not measured again.
    found : callable, optional
        Called with each new result.

    Returns
    -------
    Harvest
        The results are of type `Kernel`.

    Raises
    ------
    ValueError
        As for `examine_kernels`.
    """
    points = whole("measure_all", "points", points, least=100, most=MOST_POINTS)
    # Fewer points for ops that promise 1e-12, because their exact values take a thousand times as long.
    chosen = [(s, d) for s in subjects(names) for d in ("float64", "float32")]
    tasks = [(s.prim.name, s.params, d, max(points // 40, 50) if s.prim.limit > 4 else points) for s, d in chosen]
    labels = [f"{s}, {d}" for s, d in chosen]
    kept = {i: known[str(s), d] for i, (s, d) in enumerate(chosen) if known and (str(s), d) in known}
    return run_all(
        _task, tasks, labels, processes=processes, progress=progress, interrupts=interrupts, known=kept,
        found=None if found is None else lambda _, kernel: found(kernel),
    )  # fmt: skip

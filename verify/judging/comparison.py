"""Compares numbers with the exact ones within two bounds: the tight bound, and the global one from noisy runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.symbolic.balls import digits, objects, radius, to_double_double, to_float
from gtape.verify.bounds.noise import MANY_RUNS, RUNS, SPREADS
from gtape.verify.oracles.enclosures import turned
from gtape.verify.verdicts.ulp import ROUNDINGS, right_digits, spacing, ulps_between, widest
from gtape.verify.verdicts.verdict import Cause, Finding

__all__ = ["Comparison"]

LOST = 16.0


class Comparison:
    """The comparison of one derivative's arrays with the exact ones.

    Parameters
    ----------
    bounds : callable
        Number of noisy runs -> the global bound on each array; called when numbers exceed the tight bound.
    cause : callable
        Why numbers lie beyond their bounds; called when some do.
    beyond_range : callable
        The cause if a value along the program exceeds its dtype, else None; called when all digits are lost.

    Attributes
    ----------
    findings : list of Finding
    checked : int
        Number of compared numbers.
    undecided : int
        Number of enclosures that are too wide at the precision in force.
    worst : float
        The largest distance in ULP among the numbers inside their bounds.
    """

    def __init__(
        self,
        order: int,
        bounds: Callable[[int], list[Any]],
        cause: Callable[[], Cause],
        beyond_range: Callable[[], Cause | None] = lambda: None,
    ) -> None:
        self.order = order
        self.findings: list[Finding] = []
        self.checked = 0
        self.undecided = 0
        self.worst = 0.0
        self._ask = bounds
        self._cause = cause
        self._beyond_range = beyond_range
        self._runs = 0
        self._bounds: list[Any] = []

    def numbers(self, exact: list[Any], got: list[Any]) -> None:
        """Compare array by array.

        Parameters
        ----------
        exact : list of object arrays of enclosures, or None for zeros
        got : list of arrays, or None for a missing gradient
        """
        for s, (e, g) in enumerate(zip(exact, got, strict=True)):
            if g is None:
                if e is not None and any(x != 0 for x in objects(e).ravel().tolist()):
                    reason = "the tape found no path to this source, but the exact derivative is not zero"
                    self.findings.append(Finding("unconnected", order=self.order, element=(s, ()), reason=reason))
                continue
            g = np.asarray(g)
            e = objects(np.broadcast_to(np.zeros((), dtype=object) if e is None else objects(e), g.shape))
            self._array(s, turned(e) if g.dtype.kind == "c" else e, g)

    def _bound(self, s: int, runs: int, shape: tuple[int, ...]) -> Any:
        """The global bound on one array, from at least `runs` runs."""
        if runs > self._runs:
            self._bounds, self._runs = self._ask(runs), runs
        found = self._bounds[s] if self._runs else None
        return np.zeros(shape) if found is None else np.broadcast_to(found, shape)

    def _array(self, s: int, e: Any, g: Any) -> None:
        dtype = g.dtype
        # Skip the digits beyond float64 for narrow dtypes, because they are far below one ULP there.
        high, low = to_double_double(e) if np.finfo(dtype).bits == 64 else (to_float(e), 0.0)
        rad = radius(e)
        off = np.abs((widest(g) - high) - low)
        ulps = ulps_between(g, high, low, dtype)
        tight = ROUNDINGS * spacing(high, dtype) + spacing(0.0, dtype)
        over = np.abs(high) > float(np.finfo(dtype).max) * (1 + float(np.finfo(dtype).eps) / 4)
        rounded = over & np.isinf(g) & ((dtype.kind == "c") | (np.sign(g) == np.sign(high)))
        asked = (0,) if (off + rad <= tight).all() else (RUNS, MANY_RUNS)
        for runs in asked:
            loose = self._bound(s, runs, g.shape)
            allowed = tight + np.nan_to_num(loose, nan=0.0)
            inside = off + rad <= allowed
            beyond = ((off - rad > allowed) | ~np.isfinite(g)) & ~rounded
            if not beyond.any():
                break
        # A NaN where the exact derivative overflows left the range, too.
        left = beyond & over & np.isnan(g)
        beyond = beyond & ~left
        # A number that rounding may move by its own size can lose all digits, and so may be infinite or NaN.
        lost = beyond & ~np.isfinite(g) & (high != 0) & (loose * LOST >= np.abs(high))
        if lost.any():  # products with such a number are lost, too
            lost = beyond & ~np.isfinite(g)
        beyond = beyond & ~lost
        self.undecided += int((~(inside | beyond | rounded | lost | left)).sum())
        self.checked += g.size
        if inside.any():
            self.worst = max(self.worst, float(np.max(ulps[inside & np.isfinite(ulps)], initial=0.0)))

        def note(mask: Any, verdict: str, reason: str, **more: Any) -> None:
            if mask.any():
                shown = _worst_of(s, mask, ulps, g, e, loose)
                shown["digits"] = float(np.min(right_digits(off[mask], high[mask], dtype)))
                self.findings.append(Finding(verdict, order=self.order, reason=reason, **shown, **more))

        note(
            inside & (off > tight),
            "conditioning",
            "the problem itself loses these digits: the error is within the global bound",
        )
        if lost.any():
            reason = "the problem itself loses all digits: numbers that differ exactly are equal in floats"
            verdict, reason, op, line = self._beyond_range() or ("conditioning", reason, None, None)
            note(lost, verdict, reason, op=op, line=line, ok=False)
        note(rounded, "range", f"the exact derivative overflows {dtype.name}")
        note(
            left,
            "range",
            f"the exact derivative overflows {dtype.name}, and floats on the way to it give NaN",
            ok=False,
        )
        if beyond.any():
            verdict, reason, op, line = self._cause()
            ok = False if verdict == "range" else None
            note(beyond, verdict, reason, op=op, line=line, ok=ok)


def _worst_of(s: int, mask: Any, ulps: Any, g: Any, e: Any, loose: Any) -> dict[str, Any]:
    """The masked element with the largest error, as fields of a finding."""
    index: tuple[int, ...] = ()
    if g.ndim:
        far = np.where(mask, np.nan_to_num(ulps, nan=np.inf, posinf=1e300), -1.0)
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(far)), g.shape))
    size = float(abs(objects(e)[index]))
    unit = float(spacing(size, g.dtype))
    return {
        "element": (s, index),
        "got": g[index].item(),
        "exact": digits(objects(e)[index]),
        "ulps": float(ulps[index]),
        "condition": float(np.broadcast_to(loose, g.shape)[index]) / SPREADS / unit if size else None,
    }

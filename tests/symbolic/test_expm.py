"""The exponential of a matrix with nilpotent directions, by components and as one large matrix, is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb

from gtape.symbolic import mirrors
from gtape.symbolic.balls import filled, precision
from gtape.symbolic.mirrors.linalg import expm

mirrors.load()


def _matrix(rng: np.random.Generator, n: int, size: Any) -> Any:
    return filled([arb(v) * size for v in rng.normal(size=n * n).tolist()], (n, n))


@pytest.mark.parametrize("directions", [1, 2, 3])
@pytest.mark.parametrize("length", [0, 1, -700, 200], ids="2**{}".format)
@pytest.mark.parametrize("size", [0, 1, -100, 5], ids="2**{}".format)
def test_components_and_blocks_agree(size: int, length: int, directions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(directions)
    for n in (2, 4):
        with precision(600):
            parts = {0: _matrix(rng, n, arb(2) ** size)}
            parts.update({1 << b: _matrix(rng, n, arb(2) ** length) for b in range(directions)})
            if directions > 1:
                parts[3] = _matrix(rng, n, 1)
            made = []
            for small in (0, 10**9):
                monkeypatch.setattr(expm, "_SMALL", small)
                made.append(expm._exp(parts, directions, n))
        for x, y in zip(*made, strict=True):
            assert all(a.overlaps(b) for a, b in zip(x.ravel(), y.ravel(), strict=True))
        assert min(a.rel_accuracy_bits() for x in made[0] for a in x.ravel() if a != 0) > 400


def test_zero_and_infinite_matrices_have_their_exponentials() -> None:
    zero = filled([arb(0)] * 16, (4, 4))
    for part in expm._exp({0: zero, 1: zero}, 1, 4)[0], expm._exp({0: zero, 1: zero, 2: zero}, 2, 4)[0]:
        assert all(a.contains(int(i == j)) for (i, j), a in np.ndenumerate(part))
    infinite = filled([arb("inf"), *[arb(0)] * 15], (4, 4))
    made = expm._exp({0: infinite, 1: zero, 2: zero}, 2, 4)
    assert not made[0][0, 0].is_finite()

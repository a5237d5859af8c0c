"""One property, generated for every differentiable primitive: its derivatives are the exact ones.

Orders 1 and 2, reverse mode, forward mode and forward over reverse, float64 and float32. Elementwise derivatives lie
within 4 ULP of the exact partials of the mirror, by the rule for roots; all others within the two bounds of
`gtape.verify.check`.
`--search=5000` searches a hundred times longer, at random; what it finds becomes a line of FOUND.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from campaigns import LARGE
from hypothesis import given, note, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.namespaces import catalogue
from gtape.verify import exact
from gtape.verify.search.partials import distance, exact_partials, keys_of, kink_allowance, limit_of, root_allowance
from gtape.verify.search.subjects import Subject
from gtape.verify.search.trials import MODES, trial, usable
from gtape.verify.strategies import Call, arguments

catalogue.load()
DIFFERENTIABLE = [p.name for p in REGISTRY.values() if p.differentiable]
SEARCHES = not settings.default.derandomize  # type: ignore[union-attr]


def few(share: int) -> int:
    """A share of the profile's examples: there are two hundred primitives."""
    return max(settings.default.max_examples // share, 1)  # type: ignore[union-attr]


def outside(subject: Subject, xs: list[Any], key: Any, got: Any, exact: Any, dtype: Any) -> Any:
    """Where a derivative is off by more than it may be (4 ULP), and no rule for roots or kinks covers it."""
    bad = np.flatnonzero(distance(got, exact, dtype) > limit_of(subject.prim, dtype))
    for rule in (kink_allowance, root_allowance):
        if len(bad):
            value = None if got is None else np.asarray(got)[bad]
            bad = bad[~rule(subject, [x[bad] for x in xs], key, value, dtype)]
    return bad


def check_elementwise(call: Call, dtype: Any) -> None:
    subject = Subject(call.prim, call.params)
    # Broadcasting is the trials' matter; here all partials at each point are wanted.
    xs = [np.ascontiguousarray(x).ravel() for x in np.broadcast_arrays(*call.arrays)]
    for order, ways in ((1, (subject.first, subject.forward)), (2, (subject.second, subject.forward_over_reverse))):
        keys = keys_of(subject, order)
        exact = exact_partials(subject, xs, keys)
        for way in ways:
            got = way(xs)
            for key in keys:
                bad = outside(subject, xs, key, got[key], exact[key], dtype)
                where = [x[bad[0]].item() for x in xs] if len(bad) else []
                assert not len(bad), (
                    f"{subject}, {np.dtype(dtype).name}, {way.__name__}, derivative by {key} at {where}: "
                    f"got {0.0 if got[key] is None else got[key][bad[0]]!r}, exact {exact[key].high[bad[0]]!r}"
                )


def _exact_numbers(call: Call, order: int) -> Iterator[Decimal]:
    """What no way of computing can do without: results and their derivatives; of order 2, what their squares need."""
    f = [i for i, a in enumerate(call.arrays) if a.dtype.kind == "f" and call.prim.connected(i)]
    shapes = [np.shape(y) for y in _flat(call())]
    for part, shape in enumerate(shapes):
        for place in np.ndindex(*shape):

            def element(*xs: Any, part: int = part, place: tuple[int, ...] = place) -> Any:
                arrays = list(call.arrays)
                for i, x in zip(f, xs, strict=True):
                    arrays[i] = x
                return _flat(call.prim.function(*arrays, **call.params))[part][place]

            xs = [call.arrays[i] for i in f]
            one = np.ones((), xs[0].dtype)
            y = _decimals(exact(lambda s, g=element, xs=xs: s * tf.stop_gradient(g(*xs)), one))[0]
            first = _decimals(exact(element, *xs))
            yield from (y, *first)
            if order == 2:
                yield from (y * y, *[2 * y * d for d in first], *[a * b for a in first for b in first])
                for second in _decimals(exact(element, *xs, order=2)):
                    yield from (second, y * second)


def _flat(y: Any) -> list[Any]:
    return list(y) if isinstance(y, (tuple, list)) else [y]


def _decimals(found: Any) -> list[Decimal]:
    """The exact numbers in nested tuples of arrays."""
    if found is None:
        return []
    if isinstance(found, tuple):
        return [d for part in found for d in _decimals(part)]
    return [_decimal(str(e)) for e in np.asarray(found, object).ravel().tolist()]


def _decimal(text: str) -> Decimal:
    """The number, or one far outside of every dtype where its exponent is too long for Python."""
    number, _, exponent = text.partition("e")
    return Decimal(text) if len(exponent) < 7 else Decimal(number).scaleb(99_999 if exponent[0] != "-" else -99_999)


def leaves_range(call: Call, order: int) -> bool:
    """Whether a number that is needed, times a cotangent of ordinary size, is too large or too small for the dtype."""
    info = np.finfo(next(a.dtype for a in call.arrays if a.dtype.kind == "f"))
    most, least = Decimal(float(info.max)) / 256, Decimal(float(info.tiny)) * 256
    with localcontext() as context:
        context.Emax, context.Emin = 999_999, -999_999
        return any(d and not least <= abs(d) <= most for d in _exact_numbers(call, order))


def check_trials(call: Call) -> None:
    """All modes at both orders: exact, or out of the dtype's range where no way of computing stays within."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is undecided is in the report
        for order in (1, 2):
            for mode in MODES:
                report = trial(call.prim, call.arrays, call.params, order=order, mode=mode)
                bad = [f for f in report.findings if not f.ok]
                if bad and all(f.verdict == "range" for f in bad) and leaves_range(call, order):
                    continue
                assert not bad, f"order {order}, {mode}: {report.summary()}"


LEAST = 5e-324
# What searches have found, to be tried each time: name, arrays, static parameters.
FOUND: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("qr", [[[LEAST]]], {}),
    ("qr", [[[LEAST], [0.0]]], {}),
    ("qr", [[[1.0], [LEAST]]], {}),
    ("svd", [[[LEAST]]], {}),
    ("svd", [[[LEAST], [0.0]]], {}),
    ("eig", [[[[LEAST]], [[0.0]]]], {}),
    ("eigh", [[[LEAST]]], {}),
    ("eigh", [[[-LEAST, -1.0], [1.3e-322, 1.3e-322]]], {}),
    ("complement", [[[LEAST], [0.0]]], {}),
    ("complement", [[[0.0], [LEAST]]], {}),
    ("complement", [[[1.0], [LEAST]]], {}),
    ("pinv", [[[2.0**-1022]]], {"rcond": 1e-14}),
    ("inverse", [[[1.0, 0.0], [0.0, 1e-308]]], {}),
    ("solve", [[[1.0, 0.0], [0.0, LEAST]], [[0.0], [0.0]]], {}),
    ("triangular_solve", [[[1.0, 0.0], [0.0, LEAST]], [[0.0], [0.0]]], {"lower": True}),
    ("tridiagonal_solve", [[[0.0], [LEAST], [0.0]], [[0.0]]], {}),
    ("tridiagonal_solve", [[[0.0, 0.0], [1.0, LEAST], [0.0, 0.0]], [[0.0], [0.0]]], {}),
    ("log_abs_det", [[[1.0, 1.0], [LEAST, 0.0]]], {}),
    ("log_abs_det", [[[1.0, 0.0], [0.0, LEAST]]], {}),
    ("safe_quotient", [[[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, LEAST]]], {}),
    ("unit_slope", [[LEAST], [0.0]], {"axis": (-1,)}),
    ("unit_vector", [[0.0, 0.0, LEAST]], {"axis": (-1,)}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arrays", "params"), FOUND, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(FOUND)])
def test_what_searches_have_found_stays_mended(name: str, arrays: list[Any], params: dict[str, Any]) -> None:
    call = Call(REGISTRY[name], [np.array(a, np.float64) for a in arrays], params)
    assert usable(call.prim, call.arrays, call.params)
    check_trials(call)


@pytest.mark.parametrize("size", [3e-310, 1e-200, 1e200, 2.0**1020])
def test_values_of_tiny_and_huge_matrices_have_their_exact_slopes(size: float) -> None:
    a = np.array([[3.0, 1.0], [1.0, 2.0]]) * size
    for name, k in (("qr", 1), ("svd", 0), ("eigh", 0)):
        scaled, plain = [], []
        for made, x in ((scaled, tf.constant(a)), (plain, tf.constant(a / size))):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = REGISTRY[name](x)[k]
            made.append(tape.gradient(y, x).numpy())
        np.testing.assert_allclose(scaled[0], plain[0], rtol=1e-13, atol=1e-14)


# Without a search the usual run takes each second, because the first check of an op takes most of the time.
@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENTIABLE if LARGE or SEARCHES else DIFFERENTIABLE[::2])
def test_derivatives_are_exact(name: str) -> None:
    elementwise = REGISTRY[name].kind == "elementwise"

    @settings(max_examples=few(12 if elementwise else 50))
    @given(st.data())
    def holds(data: Any) -> None:
        dtype = data.draw(st.sampled_from(["float64", "float32"]), label="dtype")
        call = data.draw(arguments(name, dtype, steep=True), label="call")
        if elementwise:
            with np.errstate(all="ignore"):
                check_elementwise(call, dtype)
            return
        note(f"for FOUND: ({name!r}, {[a.tolist() for a in call.arrays]!r}, {call.params!r}),")
        check_trials(call)

    holds()


BROADCAST = ["add", "multiply", "divide", "maximum", "hypot", "atan2", "where", "clip_by_value"]


@pytest.mark.parametrize("name", BROADCAST)
def test_gradients_of_broadcast_arguments_are_exact(name: str) -> None:
    @settings(max_examples=few(10))
    @given(st.data())
    def holds(data: Any) -> None:
        call = data.draw(arguments(name, "float64", steep=True), label="call")
        moderate = [np.clip(a, -1e3, 1e3) if a.dtype.kind == "f" else a for a in call.arrays]
        moderate = [np.where(np.abs(a) < 1e-3, 0.5, a) if a.dtype.kind == "f" else a for a in moderate]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for mode in MODES:
                report = trial(call.prim, moderate, call.params, order=1, mode=mode)
                assert report.ok, f"{mode}: {report.summary()}"

    holds()

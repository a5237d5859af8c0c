"""Differentiates one call of a primitive on arrays in every mode, and judges the derivatives.

Tangents of forward mode are judged like claimed gradients: by the exact gradient, within the bounds of the program in
reverse mode.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gtape.declare.primitives import REGISTRY, Primitive
from gtape.errors import OpError, VerificationError
from gtape.namespaces import catalogue
from gtape.symbolic.build import build
from gtape.tapes.forward import ForwardAccumulator
from gtape.tapes.tape import GradientTape
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.verify.judging.examine import Rows, examine
from gtape.verify.verdicts.collect import collecting
from gtape.verify.verdicts.verdict import Report

__all__ = ["dominated", "fitted", "others", "random_arguments", "trial", "usable"]

MODES = ("reverse", "forward")


def others(names: Sequence[str] | None = None) -> list[Primitive]:
    """The differentiable primitives that are not elementwise, in the order of declaration."""
    catalogue.load()
    found = [p for p in REGISTRY.values() if p.kind != "elementwise" and p.differentiable]
    return found if names is None else [p for p in found if p.name in set(names)]


def dominated(a: Any) -> Any:
    """A symmetric matrix with a dominant positive diagonal, as factorisations and solvers need."""
    a = (a + np.swapaxes(a, -1, -2)) / 2
    n = a.shape[-1]
    return a + np.eye(n, dtype=a.dtype) * (1 + np.abs(a).sum(axis=-1, keepdims=True))


def fitted(prim: Primitive, arrays: list[Any]) -> list[Any]:
    """The arguments moved into the domain if the declaration has a `fit`, else unchanged."""
    return arrays if prim.domain.fit is None else list(prim.domain.fit(*arrays))


def usable(prim: Primitive, arrays: Sequence[Any], params: dict[str, Any]) -> bool:
    """True if the arguments lie in the domain and the kernel returns finite numbers for them."""
    where = prim.domain.where
    if prim.kind != "elementwise":
        for i, a in enumerate(arrays):
            interval = prim.domain.interval(i)
            if a.dtype.kind == "f" and not interval.everywhere and any(x not in interval for x in a.ravel()):
                return False
        if where is not None and not where(*arrays):
            return False
    try:
        with np.errstate(all="ignore"):
            y = prim.kernel(*arrays, **params)
    except (np.linalg.LinAlgError, ValueError, ArithmeticError, OpError):
        return False
    return all(np.isfinite(part).all() for part in (y if isinstance(y, (tuple, list)) else [y]))


def random_arguments(
    prim: Primitive, sample: Sequence[Any], params: dict[str, Any], dtype: Any, rng: np.random.Generator
) -> list[np.ndarray]:
    """Arrays for one of a primitive's samples: given integers and booleans stay, other elements are random, some with
    ties.

    Raises
    ------
    ValueError
        If the kernel refuses all random arguments.
    """
    for attempt in range(8):
        arrays = []
        for given in sample:
            if isinstance(given, np.ndarray) and given.dtype.kind in "biu":
                arrays.append(given)
                continue
            shape = given.shape if isinstance(given, np.ndarray) else tuple(given)
            x = rng.standard_normal(shape) * np.exp2(rng.integers(-3, 4, shape))
            if attempt < 2:
                x = np.where(rng.random(shape) < 0.2, np.round(x), x)
            x = np.asarray(x, dtype=dtype)
            if attempt % 2 and len(shape) >= 2 and shape[-1] == shape[-2]:
                x = dominated(x)
            arrays.append(prim.domain.interval(len(arrays)).folded(x))
        arrays = fitted(prim, arrays)
        if usable(prim, arrays, params):
            return arrays
    raise ValueError(
        f"no arguments found for {prim.name} at {sample}, {params}: its kernel raises or returns infinity each time"
    )


@contextlib.contextmanager
def _judged() -> Iterator[Report]:
    with collecting() as report, contextlib.suppress(VerificationError):
        yield report


def _flat(y: Any) -> list[Tensor]:
    return list(y) if isinstance(y, (tuple, list)) else [y]


def trial(
    prim: Primitive,
    arrays: Sequence[Any],
    params: dict[str, Any],
    *,
    order: int = 1,
    mode: str = "reverse",
    rng: np.random.Generator | None = None,
) -> Report:
    """Differentiate one call and compare every number with the exact one.

    Parameters
    ----------
    arrays : sequence of arrays
        The arguments; the derivative is by the floating-point ones.
    params : dict
        Static parameters.
    order : {1, 2}
        Order 2 differentiates the squares of the results twice, so that linear ops have second derivatives, too.
    mode : {"reverse", "forward"}
        At order 2, "forward" is forward over reverse.
    rng : numpy Generator, optional
        For cotangents and tangents.
    """
    if mode not in MODES:
        raise ValueError(f"mode is {' or '.join(MODES)}, not {mode!r}")
    if order not in (1, 2):
        raise ValueError(f"order is 1 or 2, not {order!r}")
    rng = np.random.default_rng(0) if rng is None else rng
    values = [np.asarray(a) for a in arrays]
    if mode == "forward":
        # Turn -0 into 0, as x + s t does in the exact program, because bases of matrices may depend on this sign.
        values = [v + v.dtype.type(0) if v.dtype.kind in "fc" else v for v in values]
    tensors = [wrap(v) for v in values]
    sources = [t for i, t in enumerate(tensors) if t._layout.inexact and prim.connected(0 if prim.variadic else i)]
    report = (_first if order == 1 else _second)(prim, tensors, sources, params, mode, rng)
    # Rules follow the convention of their op at a kink, where the squares of the results may be smooth. Digits that the
    # chain of rules loses are not the fault of a rule, because each rule is checked by itself, too.
    report.findings = [f for f in report.findings if f.ok or f.verdict not in ("convention", "cancellation")]
    return report


def _call(prim: Primitive, tensors: list[Tensor], params: dict[str, Any]) -> list[Tensor]:
    return _flat(prim.function(*tensors, **params))


def _like(t: Any, rng: np.random.Generator) -> Tensor:
    value = rng.standard_normal(tuple(t.shape))
    if t._layout.complex:
        value = value + 1j * rng.standard_normal(tuple(t.shape))
    return wrap(np.asarray(value, dtype=t._layout.dtype))


def _first(
    prim: Primitive,
    tensors: list[Tensor],
    sources: list[Tensor],
    params: dict[str, Any],
    mode: str,
    rng: np.random.Generator,
) -> Report:
    if mode == "reverse":
        with _judged() as report, GradientTape(verify=True) as tape:
            tape.watch(sources)
            ys = _call(prim, tensors, params)
            tape.gradient(ys, sources, output_gradients=[_like(y, rng) for y in ys])
        return report
    tangents = [_like(s, rng) for s in sources]
    with ForwardAccumulator(sources, tangents) as acc:
        pushed = [acc.jvp(y) for y in _call(prim, tensors, params)]
    # jvp = d/ds f(x + s t) at s = 0: exact values and bounds come from that program
    s = wrap(np.zeros((), dtype=sources[0].numpy().dtype))
    moving = {id(x): t for x, t in zip(sources, tangents, strict=True)}
    with GradientTape(persistent=True, verify=True) as tape:
        tape.watch(s)
        ys = _call(prim, [x + s * moving[id(x)] if id(x) in moving else x for x in tensors], params)
    report, rows = Report(), Rows(plain=False)
    for y, t in zip(ys, pushed, strict=True):
        if t is None or y._record is None:
            continue
        program = build([(y._record, y._value)], [s])
        value = np.asarray(t.numpy())
        # The real s has a real gradient: Re(g dy/ds), which for g = -i is the imaginary part.
        parts = [(1, value.real), (-1j, value.imag)] if value.dtype.kind == "c" else [(1, value)]
        for index in np.ndindex(*value.shape):
            for g, part in parts:
                seed = np.zeros_like(value)
                seed[index] = g
                report.extend(rows.examine(program, [seed], [part[index]], locally=False))
    return report


def _second(
    prim: Primitive,
    tensors: list[Tensor],
    sources: list[Tensor],
    params: dict[str, Any],
    mode: str,
    rng: np.random.Generator,
) -> Report:
    weights = [_like(s, rng) for s in sources]

    def slopes() -> list[Any]:
        with GradientTape() as inner:
            inner.watch(sources)
            squares = [y * y for y in _call(prim, tensors, params)]
        # The gradient of a lookup is IndexedSlices, but the next derivative needs the dense tensor.
        made = inner.gradient(squares, sources)
        return [convert_to_tensor(g) if isinstance(g, IndexedSlices) else g for g in made]

    if mode == "reverse":
        with _judged() as report, GradientTape(verify=True) as outer:
            outer.watch(sources)
            outer.gradient(slopes(), sources, output_gradients=weights)
        return report
    with ForwardAccumulator(sources, weights) as acc:
        pushed = [None if g is None else acc.jvp(g) for g in slopes()]
    # Reverse mode with the tangents as cotangents gives the same numbers, because the Hessian is symmetric.
    with GradientTape(persistent=True, verify=True) as outer:
        outer.watch(sources)
        gs = slopes()
    kept = [(g, w) for g, w in zip(gs, weights, strict=True) if g is not None and g._record is not None]
    if not kept:
        return Report()
    program = build([(g._record, g._value) for g, _ in kept], sources)
    got = [None if p is None else np.asarray(p.numpy()) for p in pushed]
    return examine(program, [np.asarray(w.numpy()) for _, w in kept], got, locally=False)

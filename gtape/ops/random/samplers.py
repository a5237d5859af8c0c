"""Distributions drawn from a given generator. Gradients flow to parameters that shift and scale a draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.quiet import quiet
from gtape.errors import InvalidArgumentError
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.ops.random.draws import integer_draw, normal_draw, parameters_drawn, shape_of_draw, truncated_draw, unit_draw
from gtape.tensors.axes import only_int
from gtape.tensors.operands import whole_numbers
from gtape.tensors.tensor import Tensor, announce, as_operand, convert_to_tensor, wrap

__all__ = [
    "binomial_from", "categorical_from", "float_dtype", "full_range_from", "gamma_from", "normal_from", "poisson_from",
    "truncated_from", "uniform_from",
]  # fmt: skip

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def float_dtype(dtype: Any, op: str) -> np.dtype[Any]:
    """The NumPy dtype of the draws of `op`, which must be floating-point."""
    found = dtypes.np_dtype(dtype)
    if dtypes.as_dtype(found).name not in _FLOATS:
        raise ValueError(f"{op}: dtype must be one of {', '.join(_FLOATS)}, got {dtypes.as_dtype(found).name}")
    return found


def _parameter(x: Any, dtype: np.dtype[Any]) -> Tensor:
    """A parameter of a distribution as a tensor of the distribution's dtype."""
    t = as_operand(x, wrap(np.zeros((), dtype)))
    if t._layout.dtype != dtype:
        raise InvalidArgumentError(
            f"a parameter is {t.dtype.name} where {dtypes.as_dtype(dtype).name} is drawn: "
            + (f"pass dtype=gtape.{t.dtype.name}" if t.dtype.name in _FLOATS else "use gtape.cast")
        )
    return t


def _shifted(noise: Any, mean: Any, stddev: Any, dtype: np.dtype[Any]) -> Tensor:
    return announce(wrap(noise) * _parameter(stddev, dtype) + _parameter(mean, dtype))


def normal_from(rng: np.random.Generator, shape: Any, mean: Any, stddev: Any, dtype: Any, op: str) -> Tensor:
    """Normally distributed numbers, shifted and scaled. Gradients flow to `mean` and `stddev`."""
    kind = float_dtype(dtype, op)
    return _shifted(normal_draw(rng, shape_of_draw(shape), kind), mean, stddev, kind)


def truncated_from(rng: np.random.Generator, shape: Any, mean: Any, stddev: Any, dtype: Any, op: str) -> Tensor:
    """Normally distributed numbers within two standard deviations, shifted and scaled."""
    kind = float_dtype(dtype, op)
    return _shifted(truncated_draw(rng, shape_of_draw(shape), kind), mean, stddev, kind)


def uniform_from(rng: np.random.Generator, shape: Any, minval: Any, maxval: Any, dtype: Any, op: str) -> Tensor:
    """Numbers from `minval` to `maxval`: integers, or floats with gradients to both ends."""
    kind = dtypes.np_dtype(dtype)
    if kind.kind in "iu":
        if maxval is None:
            raise ValueError(f"Must specify maxval for integer dtype {dtypes.as_dtype(kind).name}")
        low, high = _parameter(0 if minval is None else minval, kind), _parameter(maxval, kind)
        return wrap(integer_draw(rng, shape_of_draw(shape), low.numpy(), high.numpy(), kind))
    kind = float_dtype(dtype, op)
    low = _parameter(0 if minval is None else minval, kind)
    high = _parameter(1 if maxval is None else maxval, kind)
    return announce(wrap(unit_draw(rng, shape_of_draw(shape), kind)) * (high - low) + low)


@diagnosed
def gamma_from(rng: np.random.Generator, shape: Any, alpha: Any, beta: Any, dtype: Any, op: str) -> Tensor:
    """Gamma distributed numbers, differentiable by both parameters."""
    from gtape.declare.primitives import REGISTRY
    from gtape.ops.random.random_gamma import reparametrised

    kind = float_dtype(dtype, op)
    a = _parameter(alpha, kind)
    b = None if beta is None else _parameter(beta, kind)
    whole = a._layout.shape if b is None else broadcast_shapes(a._layout.shape, b._layout.shape)
    whole = shape_of_draw(shape) + whole
    anchor = a.numpy()
    if np.any(anchor <= 0):  # False for NaN, which gives NaN
        raise InvalidArgumentError(f"{op}: alpha must be positive")
    # The noise is normal, because normal numbers have equally many digits in both tails.
    y = reparametrised(a, normal_draw(rng, whole, kind))
    least = np.finfo(np.float32 if dtypes.as_dtype(kind).name == "bfloat16" else kind).tiny
    y = REGISTRY["maximum"](y, wrap(np.asarray(least).astype(kind)))
    return y if b is None else REGISTRY["divide"](y, b)


@diagnosed
def poisson_from(rng: np.random.Generator, shape: tuple[int, ...], lam: Any, dtype: Any) -> Tensor:
    """Poisson distributed numbers. `shape` is the shape of the result."""
    rate = convert_to_tensor(lam).numpy()
    if np.any(rate < 0):
        raise InvalidArgumentError("poisson: lam must not be negative")
    unknown = _unknown("poisson: lam", rate, dtype)
    return wrap(_with_nan(parameters_drawn(rng.poisson, shape, np.where(unknown, 0, rate)), unknown, dtype))


def _unknown(what: str, parameter: Any, dtype: Any) -> Any:
    """A mask of NaN parameters of integer-valued draws. An error for an integer dtype, which has no NaN."""
    unknown = np.isnan(parameter)
    if np.any(unknown) and dtypes.np_dtype(dtype).kind in "iu":
        raise InvalidArgumentError(f"{what} is NaN, which no integer is: draw with a float dtype to get NaN")
    return unknown


@quiet
def _with_nan(drawn: Any, unknown: Any, dtype: Any) -> Any:
    """Draws in their dtype, with NaN for NaN parameters."""
    made = np.asarray(drawn).astype(dtypes.np_dtype(dtype))
    return np.where(unknown, np.array(np.nan).astype(made.dtype), made) if np.any(unknown) else made


@diagnosed
def categorical_from(rng: np.random.Generator, logits: Any, num_samples: Any, dtype: Any, op: str) -> Tensor:
    """Class numbers from a matrix of unnormalised log-probabilities."""
    t = convert_to_tensor(logits)
    if len(t._layout.shape) != 2:
        raise InvalidArgumentError(f"{op}: logits should be a matrix, got shape {t.shape}")
    if t._layout.dtype.kind not in "biufV":
        raise InvalidArgumentError(f"{op}: logits should be real numbers, not {t.dtype.name}")
    n = only_int(num_samples, f"{op}: num_samples")
    if n < 0:
        raise InvalidArgumentError(f"{op}: num_samples should be a nonnegative scalar, got {n}")
    values = t.numpy().astype(np.float64)
    if not values.shape[1] and values.shape[0]:
        raise InvalidArgumentError(f"{op}: num_classes should be positive, got 0")
    # The index of the greatest of logits plus Gumbel noise is a draw from their softmax.
    noise = -np.log(rng.standard_exponential((values.shape[0], n, values.shape[1])))
    wanted = np.dtype(np.int64) if dtype is None else dtypes.np_dtype(dtype)
    return wrap(np.argmax(values[:, None, :] + noise, axis=-1).astype(wanted))


@diagnosed
def binomial_from(rng: np.random.Generator, shape: Any, counts: Any, probs: Any, dtype: Any) -> Tensor:
    """Numbers of successes in `counts` trials."""
    n, p = convert_to_tensor(counts).numpy(), convert_to_tensor(probs).numpy()
    unknown = _unknown("binomial: a parameter", n + p, dtype)
    whole = whole_numbers(np.where(np.isnan(n), 0, n) if n.dtype.kind in "fV" else n, "binomial", "counts")
    made = parameters_drawn(rng.binomial, shape_of_draw(shape), whole, np.where(np.isnan(p), 0, p))
    return wrap(_with_nan(made, unknown, dtype))


@diagnosed
def full_range_from(rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    """Integers of the dtype's full range."""
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max, shape_of_draw(shape), dtype=dtype, endpoint=True))

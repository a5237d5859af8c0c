"""The Poisson loss, and the mean over a distributed batch."""

from __future__ import annotations

from typing import Any

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.scalars import int_of
from gtape.declare.conventions import LESS_INFINITY, conventional
from gtape.declare.primitives import REGISTRY
from gtape.ops.elementwise.selection import where
from gtape.ops.reduction.sums import reduce_sum
from gtape.tensors.operands import operands
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["compute_average_loss", "log_poisson_loss"]


@conventional(LESS_INFINITY)
@diagnosed
def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """Negative log-likelihood of counts under a Poisson distribution, given the logarithm of its mean.

    The loss is ``exp(log_input) - log_input * targets``. The logarithm of the factorial is left out.

    Parameters
    ----------
    targets : tensor of floats
        The counts.
    log_input : tensor of floats
        The shape and dtype of `targets`.
    compute_full_loss : bool
        Whether to add Stirling's approximation of the logarithm of the factorial for counts above 1.

    Returns
    -------
    Tensor, shape of `log_input`

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> tf.nn.log_poisson_loss([2.0], [0.0]).numpy()
    array([1.], dtype=float32)
    """
    c, z = operands(log_input, targets)
    if c._layout.shape != z._layout.shape:
        raise ValueError(
            f"`log_input` and `targets` must have the same shape, received ({c._layout.tensor_shape} vs "
            f"{z._layout.tensor_shape})."
        )
    loss: Tensor = REGISTRY["exp"](c) - c * z
    if not compute_full_loss:
        return loss
    stirling = z * REGISTRY["log"](z) - z + REGISTRY["log_turns"](z) / 2
    small = REGISTRY["logical_and"](REGISTRY["greater_equal"](z, 0.0), REGISTRY["less_equal"](z, 1.0))
    return loss + where(small, REGISTRY["zeros_like"](z), stirling)


@diagnosed
def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None, max_seq_length: Any = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The sum of the losses of some examples, divided by the size of the whole batch.

    Parameters
    ----------
    per_example_loss : tensor of floats, one axis at least
    sample_weight : tensor, optional
        The factor of each example's loss.
    global_batch_size : int or integer scalar, optional
        By default the size of the first axis of `per_example_loss`.
    max_seq_length : int, optional
        The length of padded sequences, an additional divisor.

    Returns
    -------
    Tensor, scalar

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `per_example_loss` is a scalar, shapes do not fit, or the batch size is negative.

    Examples
    --------
    >>> tf.nn.compute_average_loss([1.0, 2.0], global_batch_size=4).numpy()
    np.float32(0.75)
    """
    losses = as_operand(per_example_loss)
    if not losses._layout.shape:
        raise errors.InvalidArgumentError(
            "compute_average_loss: `per_example_loss` must have one axis at least; it is a scalar"
        )
    if sample_weight is not None:
        losses, weight = operands(losses, sample_weight)
        extra = len(losses._layout.shape) - len(weight._layout.shape)
        if extra > 0:
            weight = REGISTRY["reshape"](weight, shape=(*weight._layout.shape, *(1,) * extra))
        losses = losses * weight
    size, most = losses._layout.shape[0], 1
    if global_batch_size is not None:
        size = int_of(global_batch_size, "compute_average_loss", "global_batch_size")
    if max_seq_length is not None:
        most = int_of(max_seq_length, "compute_average_loss", "max_seq_length")
    if size < 0:
        raise errors.InvalidArgumentError("compute_average_loss: `global_batch_size` must be non-negative.")
    total: Tensor = reduce_sum(losses)
    if size == 0:
        return total * 0.0
    return total / (float(size) * most)

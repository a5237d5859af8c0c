"""Attributes of NumPy's arrays and PyTorch's tensors that tensors lack, as in TensorFlow, and their replacements.

Each is a descriptor that raises an error, because `__getattr__` would slow down every other attribute.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["put_on"]

_TAPE = "record with gtape.GradientTape; tape.gradient(y, x) returns the gradient"

INSTEAD = {
    "T": "gtape.transpose(x)",
    "all": "gtape.reduce_all(x)",
    "any": "gtape.reduce_any(x)",
    "argmax": "gtape.argmax(x, axis)",
    "argmin": "gtape.argmin(x, axis)",
    "astype": "gtape.cast(x, dtype)",
    "backward": _TAPE,
    "clip": "gtape.clip_by_value(x, low, high)",
    "conj": "gtape.math.conj(x)",
    "copy": "gtape.identity(x)",
    "cumsum": "gtape.cumsum(x, axis)",
    "detach": "gtape.stop_gradient(x)",
    "dot": "gtape.tensordot(x, y, 1), or gtape.matmul(x, y) for matrices",
    "flatten": "gtape.reshape(x, [-1])",
    "grad": _TAPE,
    "imag": "gtape.math.imag(x)",
    "item": "x.numpy().item()",
    "mT": "gtape.linalg.matrix_transpose(x)",
    "max": "gtape.reduce_max(x)",
    "mean": "gtape.reduce_mean(x)",
    "min": "gtape.reduce_min(x)",
    "prod": "gtape.reduce_prod(x)",
    "ravel": "gtape.reshape(x, [-1])",
    "real": "gtape.math.real(x)",
    "requires_grad": "tape.watch(x) inside the block",
    "reshape": "gtape.reshape(x, shape)",
    "size": "gtape.size(x), or x.shape.num_elements()",
    "squeeze": "gtape.squeeze(x)",
    "std": "gtape.math.reduce_std(x)",
    "sum": "gtape.reduce_sum(x)",
    "tolist": "x.numpy().tolist()",
    "transpose": "gtape.transpose(x, perm)",
    "unsqueeze": "gtape.expand_dims(x, axis)",
    "var": "gtape.math.reduce_variance(x)",
    "view": "gtape.reshape(x, shape)",
}


class _Absent:
    """A descriptor in place of an attribute, which raises an AttributeError that names the replacement."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__doc__ = f"Not there; instead: {INSTEAD[name]}."  # for `help`, which does not use `dir`

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        # Without `obj`, because Python otherwise adds its own guess to the printed error.
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self.name!r}; instead: {INSTEAD[self.name]}", name=self.name
        )


def put_on(cls: type) -> None:
    """Make a class and its subclasses name replacements for absent attributes.

    Existing attributes of the class and its subclasses stay unchanged. `dir` does not list the absent attributes.

    >>> import gtape as tf
    >>> tf.constant([1.0, 2.0]).sum()
    Traceback (most recent call last):
    AttributeError: 'Tensor' object has no attribute 'sum'; instead: gtape.reduce_sum(x)
    >>> hasattr(tf.constant(1.0), "sum"), "sum" in dir(tf.constant(1.0))
    (False, False)
    """

    def shown(self: Any) -> list[str]:
        return [n for n in object.__dir__(self) if not isinstance(_looked_up(type(self), n), _Absent)]

    for name in INSTEAD:
        if not hasattr(cls, name):
            setattr(cls, name, _Absent(name))
    cls.__dir__ = shown  # type: ignore[assignment]


def _looked_up(cls: type, name: str) -> Any:
    """The attribute of a class as stored, without a call of descriptors."""
    return next((c.__dict__[name] for c in cls.__mro__ if name in c.__dict__), None)

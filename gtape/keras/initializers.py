"""Initial values of weights.

Random initializers draw with NumPy's generator. With a seed they return the same values at every call. Without a seed
the constructor takes a seed from Python's `random`, which `gtape.keras.utils.set_random_seed` sets.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np

import gtape
from gtape.base.docstrings import documented_like
from gtape.base.sections import add_sections
from gtape.errors import ResourceExhaustedError
from gtape.keras.backend import float_dtype
from gtape.keras.lookup import Configured, by_name
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap

__all__ = [
    "Constant", "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "Identity", "Initializer", "LecunNormal",
    "LecunUniform", "Ones", "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal", "VarianceScaling",
    "Zeros", "get",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them


_MOST = 2**59  # elements, because NumPy's arrays have at most 2**63 bytes


class Initializer(Configured):
    """Base class: a function of shape and dtype that returns a tensor.

    Examples
    --------
    >>> import gtape as tf
    >>> class Stripes(tf.keras.initializers.Initializer):
    ...     def __call__(self, shape, dtype=None):
    ...         return tf.reshape(tf.range(shape[0] * shape[1]) % 2, shape)
    >>> layer = tf.keras.layers.Dense(2, kernel_initializer=Stripes(), use_bias=False)
    >>> layer(tf.ones([1, 3])).numpy()
    array([[0., 3.]], dtype=float32)
    """

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """Values for a weight of the given shape. `dtype` is `floatx` by default."""
        sizes, kind = checks.shape(self, "shape", shape, whole=True), float_dtype(dtype)
        if math.prod(sizes) >= _MOST:
            raise _too_large(self, sizes)
        try:
            with np.errstate(all="ignore"):
                values = np.asarray(self._values(sizes))
                if values.dtype.kind == "c" and kind.kind != "c":  # because NumPy would drop the imaginary part
                    raise ValueError(f"{checks.owner_of(self)}: complex values are none for a weight of {kind}")
                return wrap(values.astype(kind))
        except (MemoryError, OverflowError):
            raise _too_large(self, sizes) from None

    def _values(self, shape: tuple[int, ...]) -> Any:
        raise NotImplementedError("Initializer subclasses must implement the `__call__()` method.")


def _too_large(owner: Any, sizes: tuple[int, ...]) -> ResourceExhaustedError:
    return ResourceExhaustedError(f"{checks.owner_of(owner)}: there is no memory for a weight of shape {sizes}")


class Zeros(Initializer):
    """Zeros.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.initializers.Zeros()([2]).numpy()
    array([0., 0.], dtype=float32)
    """

    def _values(self, shape: tuple[int, ...]) -> Any:
        return np.zeros(shape)


class Ones(Initializer):
    """Ones.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.initializers.Ones()([2]).numpy()
    array([1., 1.], dtype=float32)
    """

    def _values(self, shape: tuple[int, ...]) -> Any:
        return np.ones(shape)


class Constant(Initializer):
    """One value everywhere, or an array that broadcasts to the shape.

    Parameters
    ----------
    value : float or array

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.initializers.Constant(0.5)([2]).numpy()
    array([0.5, 0.5], dtype=float32)
    """

    options = ("value",)

    def __init__(self, value: Any = 0.0) -> None:
        checks.numeric(self, "value", value)
        self.value = value

    def _values(self, shape: tuple[int, ...]) -> Any:
        given = checks.numeric(self, "value", self.value)
        try:
            return np.broadcast_to(given, shape)
        except ValueError:
            raise ValueError(f"Constant: a value of shape {given.shape} does not fill a weight of {shape}") from None


class ConstantOfItsType(Constant):
    """`Constant` under the name ``tf.constant_initializer``: without a dtype, values keep the dtype of the constant.

    Parameters
    ----------
    value : float or array

    Examples
    --------
    >>> import gtape as tf
    >>> tf.constant_initializer(3)([2]).numpy()
    array([3, 3], dtype=int32)
    """

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """Values for a weight of the given shape. `dtype` is that of the constant by default."""
        if dtype is None:
            own = convert_to_tensor(self.value)._layout.dtype
            return wrap(np.array(self._values(checks.shape(self, "shape", shape, whole=True)), own))
        return super().__call__(shape, dtype)


class Identity(Initializer):
    """`gain` times the identity matrix.

    Parameters
    ----------
    gain : float

    Raises
    ------
    ValueError
        If the shape of a call does not have two axes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.initializers.Identity()([2, 2]).numpy()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """

    options = ("gain",)

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = checks.number(self, "gain", gain)

    def _values(self, shape: tuple[int, ...]) -> Any:
        if len(shape) != 2:
            raise ValueError(f"Identity matrix initializer can only be used for 2D matrices. Received: shape={shape}")
        return self.gain * np.eye(*shape)


class _Random(Initializer):
    def __init__(self, seed: int | None = None) -> None:
        self.seed = None if seed is None else checks.whole(self, "seed", seed, least=0)
        # The seed is drawn here and not at the call, so that an object returns the same values every time, as in Keras.
        self._drawn = random.randrange(2**31) if self.seed is None else self.seed

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(self._drawn)


class _Normal(_Random):
    options = ("mean", "stddev", "seed")

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        super().__init__(seed)
        self.mean = checks.number(self, "mean", mean)
        self.stddev = checks.number(self, "stddev", stddev, lambda v: v >= 0, "must be a number that is not negative")


class RandomNormal(_Normal):
    """Random numbers from a normal distribution.

    Parameters
    ----------
    mean, stddev : float
    seed : int, optional

    Examples
    --------
    >>> import gtape as tf
    >>> one = tf.keras.initializers.RandomNormal(stddev=1.0, seed=1)
    >>> bool((one([3]).numpy() == one([3]).numpy()).all())
    True
    """

    def _values(self, shape: tuple[int, ...]) -> Any:
        return self._generator().normal(self.mean, self.stddev, shape)


class RandomUniform(_Random):
    """Random numbers from a uniform distribution between `minval` and `maxval`.

    Parameters
    ----------
    minval, maxval : float
    seed : int, optional

    Examples
    --------
    >>> import gtape as tf
    >>> bool(abs(tf.keras.initializers.RandomUniform(seed=1)([9]).numpy()).max() <= 0.05)
    True
    """

    options = ("minval", "maxval", "seed")

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None) -> None:
        super().__init__(seed)
        self.minval, self.maxval = _finite(self, "minval", minval), _finite(self, "maxval", maxval)
        if self.minval > self.maxval:
            raise ValueError(f"RandomUniform: `minval` must be at most `maxval`, got {minval} and {maxval}")

    def _values(self, shape: tuple[int, ...]) -> Any:
        return self._generator().uniform(self.minval, self.maxval, shape)


def _finite(owner: Any, name: str, value: Any) -> float:
    # The limit is half of the greatest float, because the difference of two numbers must be finite, too.
    return checks.number(owner, name, value, lambda v: abs(v) < 8e307, "must be a finite number")


def _truncated(generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Normal numbers. Numbers beyond two standard deviations are drawn again."""
    drawn = generator.normal(size=shape)
    while (outside := np.abs(drawn) > 2.0).any():
        drawn = np.where(outside, generator.normal(size=shape), drawn)
    return drawn


class TruncatedNormal(_Normal):
    """Random numbers from a normal distribution without the numbers beyond two standard deviations.

    Parameters
    ----------
    mean, stddev : float
        Mean and standard deviation before the truncation.
    seed : int, optional

    Examples
    --------
    >>> import gtape as tf
    >>> bool(abs(tf.keras.initializers.TruncatedNormal(seed=1)([9]).numpy()).max() <= 0.1)
    True
    """

    def _values(self, shape: tuple[int, ...]) -> Any:
        return self.mean + self.stddev * _truncated(self._generator(), shape)


# The standard deviation of a standard normal variable truncated at 2.
_CUT = 0.8796256610342398


class VarianceScaling(_Random):
    """Random numbers with variance ``scale / n``, where n is the number of inputs or outputs of a weight.

    Parameters
    ----------
    scale : float
        A positive number.
    mode : str
        The meaning of n: "fan_in", "fan_out" or "fan_avg".
    distribution : str
        "truncated_normal", "untruncated_normal" or "uniform".
    seed : int, optional

    Raises
    ------
    ValueError
        If the mode or distribution is unknown, or the scale is not positive.

    Examples
    --------
    >>> import gtape as tf
    >>> w = tf.keras.initializers.VarianceScaling(3.0, "fan_in", "uniform", seed=0)([4, 100])
    >>> bool(abs(w.numpy()).max() < 1.5)  # sqrt(3 * scale / 4)
    True
    """

    options: tuple[str, ...] = ("scale", "mode", "distribution", "seed")

    def __init__(
        self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal", seed: int | None = None
    ) -> None:
        super().__init__(seed)
        self.scale = checks.number(self, "scale", scale, lambda v: 0 < v < math.inf, "must be a positive float")
        self.mode = checks.choice(self, "mode", mode, ("fan_in", "fan_out", "fan_avg"))
        known = ("uniform", "truncated_normal", "untruncated_normal", "normal")
        asked = checks.choice(self, "distribution", distribution, known)
        self.distribution = "truncated_normal" if asked == "normal" else asked

    def _values(self, shape: tuple[int, ...]) -> Any:
        fan_in, fan_out = fans(shape)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
        variance = self.scale / max(1.0, n)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return self._generator().uniform(-limit, limit, shape)
        if self.distribution == "untruncated_normal":
            return self._generator().normal(0.0, math.sqrt(variance), shape)
        return math.sqrt(variance) / _CUT * _truncated(self._generator(), shape)


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """The numbers of inputs and outputs of a weight. The positions of a convolution kernel count for both."""
    if len(shape) < 2:
        n = int(math.prod(shape))
        return n, n
    field = math.prod(shape[:-2])
    return shape[-2] * field, shape[-1] * field


class _Scaled(VarianceScaling):
    recipe: tuple[float, str, str] = (1.0, "fan_in", "uniform")
    options = ("seed",)

    def __init_subclass__(cls, recipe: tuple[float, str, str] | None = None, **options: Any) -> None:
        """Document a class that is `VarianceScaling` with the arguments `recipe`."""
        super().__init_subclass__(**options)
        if recipe is not None:
            cls.recipe = recipe
            call = f">>> tf.keras.initializers.{cls.__name__}(seed=1)([3, 2]).shape\nTensorShape([3, 2])"
            add_sections(cls, Parameters="seed : int, optional", Examples=call)

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(*self.recipe, seed=seed)


class GlorotUniform(_Scaled, recipe=(1.0, "fan_avg", "uniform")):
    """Uniform, variance 2 / (inputs + outputs): the default of `Dense` and `Conv2D` (Glorot and Bengio, 2010)."""


class GlorotNormal(_Scaled, recipe=(1.0, "fan_avg", "truncated_normal")):
    """Truncated normal, variance 2 / (inputs + outputs) (Glorot and Bengio, 2010)."""


class HeUniform(_Scaled, recipe=(2.0, "fan_in", "uniform")):
    """Uniform, variance 2 / inputs: for relu (He and others, 2015)."""


class HeNormal(_Scaled, recipe=(2.0, "fan_in", "truncated_normal")):
    """Truncated normal, variance 2 / inputs: for relu (He and others, 2015)."""


class LecunUniform(_Scaled, recipe=(1.0, "fan_in", "uniform")):
    """Uniform, variance 1 / inputs (LeCun and others, 1998)."""


class LecunNormal(_Scaled, recipe=(1.0, "fan_in", "truncated_normal")):
    """Truncated normal, variance 1 / inputs: for selu (LeCun and others, 1998)."""


class Orthogonal(_Random):
    """A random matrix with orthogonal columns or rows of length `gain` (Saxe and others, 2014).

    Parameters
    ----------
    gain : float
    seed : int, optional

    Raises
    ------
    ValueError
        If the shape of a call has fewer than two axes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.keras.initializers.Orthogonal(seed=1)([3, 2]).shape
    TensorShape([3, 2])
    """

    options = ("gain", "seed")

    def __init__(self, gain: float = 1.0, seed: int | None = None) -> None:
        super().__init__(seed)
        self.gain = checks.number(self, "gain", gain)

    def _values(self, shape: tuple[int, ...]) -> Any:
        if len(shape) < 2:
            raise ValueError(f"The tensor to initialize must be at least two-dimensional. Received: shape={shape}")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        q, r = np.linalg.qr(self._generator().normal(size=(max(rows, columns), min(rows, columns))))
        q = q * np.sign(np.diag(r))
        return self.gain * (q if rows >= columns else q.T).reshape(shape)


def _names() -> dict[str, Any]:
    known: dict[str, Any] = {}
    for name in __all__:
        c = globals().get(name)
        if isinstance(c, type) and c is not Initializer:
            known[name] = known[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()] = c
    return {**known, "zero": Zeros, "one": Ones, "normal": RandomNormal, "uniform": RandomUniform}


_KNOWN = _names()


def __getattr__(name: str) -> Any:
    # As in Keras, the classes also have the names that `get` takes: initializers.glorot_uniform(seed=1).
    if name in _KNOWN:
        return _KNOWN[name]
    raise AttributeError(f"module 'gtape.keras.initializers' has no attribute {name!r}")


@documented_like(by_name)
def get(identifier: Any) -> Callable[..., Any]:
    """An initializer by its name, such as "glorot_uniform" or "GlorotUniform".

    Parameters
    ----------
    identifier : str, dict, callable or array
        Callables are returned unchanged. An array becomes a `Constant`.

    Returns
    -------
    callable

    Examples
    --------
    >>> tf.keras.initializers.get("ones")([2]).numpy()
    array([1., 1.], dtype=float32)
    """
    if isinstance(identifier, (np.ndarray, Tensor)):
        return Constant(identifier)
    return by_name(identifier, _KNOWN, "initializer", make=True)


def initial(owner: Any, initializer: Any, shape: Any, dtype: Any) -> Tensor:
    """The first value of a weight of `owner`. ValueError if a size is None, or values have another shape."""
    sizes = checks.shape(owner, "shape", () if shape is None else shape, whole=True)
    kind = float_dtype(dtype)
    if math.prod(sizes) >= _MOST:
        raise _too_large(owner, sizes)
    values = checks.tensor(owner, "what the initializer returned", get(initializer)(sizes, dtype=kind.name))
    if values._layout.shape != sizes:
        raise ValueError(
            f"{checks.owner_of(owner)}: the initializer returned values of shape {values.shape} for a weight of shape "
            f"{sizes}"
        )
    made: Tensor = gtape.cast(values, kind)
    return made

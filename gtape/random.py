"""``gtape.random``: draws, seeds and generators, under TensorFlow's names."""

from __future__ import annotations

from gtape.ops.random.draw_functions import categorical, gamma, normal, poisson, shuffle, truncated_normal, uniform
from gtape.ops.random.draws import set_seed
from gtape.ops.random.generator import Generator, get_global_generator, set_global_generator
from gtape.ops.random.stateless import (
    stateless_binomial,
    stateless_categorical,
    stateless_gamma,
    stateless_normal,
    stateless_poisson,
    stateless_truncated_normal,
    stateless_uniform,
)
from gtape.ops.random.stateless import stateless_fold_in as fold_in
from gtape.ops.random.stateless import stateless_split as split

__all__ = [
    "Generator", "categorical", "experimental", "fold_in", "gamma", "get_global_generator", "normal", "poisson",
    "set_global_generator", "set_seed", "shuffle", "split", "stateless_binomial", "stateless_categorical",
    "stateless_gamma", "stateless_normal", "stateless_poisson", "stateless_truncated_normal", "stateless_uniform",
    "truncated_normal", "uniform",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them


class experimental:
    """The names of TensorFlow's ``random.experimental``.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.random.experimental.Generator is tf.random.Generator
    True
    """

    Generator = Generator
    get_global_generator = staticmethod(get_global_generator)
    set_global_generator = staticmethod(set_global_generator)
    stateless_fold_in = staticmethod(fold_in)
    stateless_split = staticmethod(split)

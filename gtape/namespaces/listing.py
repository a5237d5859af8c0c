"""What `dir()` and tab completion show of each namespace, and what the error for an unknown name suggests.

A name is shown where its ops module belongs (`gtape.namespaces.catalogue.MODULES`); the tables here hold the names
whose place in TensorFlow is another. Asking is wider than showing: `gtape.erf` is found,
though it is listed in `gtape.math`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from gtape.namespaces.catalogue import MODULES, names_of

__all__ = ["listed", "shown_in", "unknown"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Names of modules that belong to a namespace, which the top level shows too.
_ON_TOP = _names("""
    abs acos acosh add add_n argmax argmin asin asinh atan atan2 atanh cos cosh cumsum divide eig eigvals einsum equal
    exp eye floor greater greater_equal less less_equal logical_and logical_not logical_or matmul maximum minimum
    multiply negative norm not_equal pow reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min
    reduce_prod reduce_sum round scalar_mul sigmoid sign sin sinh space_to_batch sqrt square subtract tan tanh
    tensordot
""")

# Names that only the top level shows, though their module belongs to a namespace.
_ONLY_ON_TOP = _names("""
    argsort batch_to_space boolean_mask clip_by_global_norm clip_by_norm clip_by_value complex gather gather_nd
    histogram_fixed_width histogram_fixed_width_bins scatter_nd searchsorted sequence_mask slice sort space_to_batch_nd
    strided_slice tensor_scatter_nd_add tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub
    tensor_scatter_nd_update truncatediv truncatemod where
""")

# Names that a namespace of their module does not show.
_NOT_IN: dict[str, frozenset[str]] = {
    "math": _names("""
        bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e bessel_y0 bessel_y1 dawsn elu expint fresnel_cos
        div_no_nan fresnel_sin gelu hard_sigmoid leaky_relu mish norm realdiv relu relu6 selu silu spence swish
    """),
    "nn": _names("""
        abs accumulate_n is_non_decreasing is_strictly_increasing log_sigmoid maximum minimum nextafter polyval round
        scalar_mul sign
    """),
    "linalg": frozenset(["reduce_euclidean_norm"]),
}

# What TensorFlow has and gtape leaves out, by namespace ("" is the top level): a near miss would lead nowhere.
_LEFT_OUT: dict[str, dict[str, frozenset[str]]] = {
    "": {
        "gtape has no Fourier transforms and other signal ops": _names("signal"),
        "gtape's tensors are dense": _names("RaggedTensor SparseTensor ragged sparse"),
        "gtape has no ops on text": _names("strings"),
        "record with gtape.GradientTape and call tape.gradient(y, x), tape.jacobian(y, x)": _names("""
            backward grad hessian jacobian value_and_grad
        """),
        "forward mode is gtape.autodiff.ForwardAccumulator": _names("jvp"),
        "gtape runs in one process, on the CPU": _names("distribute tpu"),
        "gtape saves variables with train.Checkpoint": _names("io lite saved_model"),
        "this is TensorFlow 1; here, as in TensorFlow 2, ops run as they are called": _names("""
            Graph Session compat get_variable global_variables_initializer placeholder
        """),
    },
    "linalg": {"gtape has no derivative of this one": _names("eigh_tridiagonal logm sqrtm")},
    "nn": {
        "gtape does not have this one": _names("""
            ctc_beam_search_decoder ctc_greedy_decoder ctc_loss dilation2d erosion2d fractional_avg_pool
            fractional_max_pool nce_loss sampled_softmax_loss
        """),
    },
    "keras.layers": {
        "gtape has no recurrent and attention layers": _names("""
            AdditiveAttention Attention Bidirectional ConvLSTM2D GRU GRUCell GroupQueryAttention LSTM LSTMCell
            MultiHeadAttention RNN SimpleRNN SimpleRNNCell StackedRNNCells TimeDistributed
        """),
    },
}

# How `x[key]` is recorded; nobody calls it.
_NOWHERE = frozenset(["getitem"])


def listed(namespace: str | None, more: Iterable[str] = ()) -> list[str]:
    """The names that a namespace shows, sorted.

    Parameters
    ----------
    namespace : str or None
        "math", "nn", "linalg" and so on; None for the top level.
    more : iterable of str
        What it has besides ops.

    Examples
    --------
    >>> from gtape.namespaces.listing import listed
    >>> "erf" in listed("math"), "erf" in listed(None), "exp" in listed(None)
    (True, False, True)
    """
    found = set(more)
    for module, spaces in MODULES.items():
        names = names_of(importlib.import_module(module))
        if namespace is None:
            found |= names & (_ON_TOP | _ONLY_ON_TOP) if spaces else names
        elif namespace in spaces:
            found |= names - _ONLY_ON_TOP
    return sorted(found - _NOWHERE - _NOT_IN.get(str(namespace), frozenset()))


def shown_in(name: str, module: str, namespace: str | None) -> bool:
    """Whether a namespace (None: the top level) shows a name of an ops module.

    Examples
    --------
    >>> from gtape.namespaces.listing import shown_in
    >>> [shown_in("relu", "gtape.ops.elementwise.selection", n) for n in ("math", "nn", None)]
    [False, True, False]
    """
    spaces = MODULES.get(module, ())
    if name in _NOWHERE or name in _NOT_IN.get(str(namespace), ()):
        return False
    if namespace is None:
        return not spaces or name in _ON_TOP or name in _ONLY_ON_TOP
    return namespace in spaces and name not in _ONLY_ON_TOP


def unknown(where: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that a namespace does not have, with the names that are nearly the same.

    Parameters
    ----------
    where : str
        The namespace, such as "gtape.math".
    name : str
        What was asked for.
    known : iterable of str
        What there is.

    Returns
    -------
    AttributeError

    Examples
    --------
    >>> import gtape
    >>> gtape.linalg.choleski
    Traceback (most recent call last):
    AttributeError: module 'gtape.linalg' has no attribute 'choleski'; did you mean 'cholesky'?
    """
    near: list[str] = []
    left_out = _LEFT_OUT.get(where.removeprefix("gtape").removeprefix("."), {})
    why = next((reason for reason, names in left_out.items() if name in names), None)
    if why is None and not name.startswith("_"):
        from difflib import get_close_matches

        shapes = {k.lower(): k for k in known}
        near = [shapes[m] for m in get_close_matches(name.lower(), shapes, 3, 0.65)]
    said = [repr(n) for n in near]
    hint = f"; did you mean {' or '.join(filter(None, [', '.join(said[:-1]), said[-1]]))}?" if said else ""
    if why is not None:
        hint = f": {why}"
    # Without `obj`: Python would otherwise add a guess of its own when it prints the error.
    return AttributeError(f"module {where!r} has no attribute {name!r}{hint}", name=name)

"""The places of names in TensorFlow, as tables, because the build reads them without NumPy to write stubs.

An op appears in the namespaces that its module or its family states in `NAMESPACES`. The tables here hold the
exceptions. Some names are found without being listed: `gtape.erf` works, but `dir` lists `erf` only in `gtape.math`.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ALIASES", "ALSO_IN", "LEFT_OUT", "shown"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Second names of ops by namespace.
ALIASES: dict[str, dict[str, str]] = {
    "math": {
        "div_no_nan": "divide_no_nan", "mod": "floormod", "realdiv": "divide", "swish": "silu", "truediv": "divide",
    },
    "nn": {"swish": "silu"},
}  # fmt: skip

# Ops of other families that TensorFlow has in a namespace, too.
ALSO_IN: dict[str, frozenset[str]] = {
    "dtypes": _names("cast complex saturate_cast"),
    "linalg": _names("eye l2_normalize"),
    "math": _names("l2_normalize log_softmax softmax"),
    "nn": _names("tanh"),
}

# Names of a namespace's modules that the top level shows, too.
_ON_TOP = _names("""
    abs acos acosh add add_n argmax argmin asin asinh atan atan2 atanh cos cosh cumsum divide eig eigvals einsum equal
    exp eye floor greater greater_equal less less_equal logical_and logical_not logical_or matmul maximum minimum
    multiply negative norm not_equal pow reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min
    reduce_prod reduce_sum round scalar_mul sigmoid sign sin sinh space_to_batch sqrt square subtract tan tanh
    tensordot
""")

# Names that only the top level shows, although their module belongs to a namespace.
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

# The op of `x[key]`, which is not for users.
_NOWHERE = frozenset(["getitem"])

# Names of TensorFlow that gtape leaves out, by namespace ("" is the top level). The error gives the reason, because a
# suggestion of a similar name would mislead.
LEFT_OUT: dict[str, dict[str, frozenset[str]]] = {
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
        "what gtape has of experimental names is in the namespaces themselves, such as random.experimental": _names(
            "experimental"
        ),
    },
    "image": {
        "gtape has no ops on images except patches": _names("""
            adjust_brightness adjust_contrast adjust_hue adjust_saturation central_crop convert_image_dtype
            crop_and_resize crop_to_bounding_box decode_image decode_jpeg decode_png draw_bounding_boxes flip_left_right
            flip_up_down grayscale_to_rgb hsv_to_rgb image_gradients non_max_suppression pad_to_bounding_box psnr
            random_brightness random_contrast random_crop random_flip_left_right random_flip_up_down resize
            resize_with_crop_or_pad resize_with_pad rgb_to_grayscale rgb_to_hsv rot90 sobel_edges ssim total_variation
            transpose
        """),
    },
    "train": {"optimizers of gtape.keras keep a moving average with use_ema=True": _names("ExponentialMovingAverage")},
    "keras": {
        "layers and optimizers take a dtype and a loss_scale_factor": _names("mixed_precision"),
        "gtape has no models or data sets to load": _names("applications datasets"),
        "gtape does not have this one": _names("distribution export ops preprocessing quantizers random saving"),
    },
    "keras.callbacks": {
        "gtape does not have this one: write a subclass of Callback": _names("""
            BackupAndRestore CSVLogger CallbackList EarlyStopping LearningRateScheduler ModelCheckpoint ProgbarLogger
            ReduceLROnPlateau RemoteMonitor SwapEMAWeights TensorBoard TerminateOnNaN
        """),
    },
    "keras.losses": {
        "gtape does not have this one; a loss may be any function of labels and predictions": _names("""
            CTC CategoricalFocalCrossentropy CategoricalGeneralizedCrossEntropy Circle Dice Tversky
            categorical_focal_crossentropy circle ctc dice tversky
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


def shown(name: str, spaces: Sequence[str], namespace: str | None) -> bool:
    """Whether a namespace ("math", "nn" and so on; None for the top level) lists an op.

    `spaces` are the `NAMESPACES` of the op's module. If `spaces` is empty, the top level shows the names.

    >>> [shown("relu", ("math", "nn"), n) for n in ("math", "nn", None)]
    [False, True, False]
    """
    if name in _NOWHERE or name in _NOT_IN.get(str(namespace), ()):
        return False
    if namespace is None:
        return not spaces or name in _ON_TOP or name in _ONLY_ON_TOP
    return namespace in spaces and name not in _ONLY_ON_TOP

"""Bessel functions of order 0 and 1, with the names of ``tf.math.special``, and the families of their derivatives."""

from __future__ import annotations

from typing import Any

from gtape.declare.domains import POSITIVE
from gtape.declare.primitives import elementwise
from gtape.kernels import bessel as k
from gtape.kernels.derivative_orders import FROM_ONE

NAMESPACES = ("math", "math.special")

__all__: list[str] = []

_SCALED: Any = tuple((((5,),), {"m": m, "n": n}) for n in (1, 2, 3) for m in (0, 1))
# Points where the method of computation changes, and the first roots.
_WAVE = (0.0, 0.5, 2.0, 40.0, -40.0, 2.404825557695773, 3.8317059702075125)
_WAVE_Y = (0.0, 0.5, 2.0, 40.0, 0.8935769662791675, 2.197141326031017)
_GROWTH = (0.0, 0.5, 2.0, 24.0, -24.0, 713.0)
_DECAY = (0.0, 0.5, 2.0, 24.0, 705.0)

bessel_j0 = elementwise(
    "bessel_j0", k.bessel_j0, lambda xp, y, x: xp.bessel_j_derivative(x, n=1),
    ulps=1.5, special=_WAVE,
    summary="Bessel function of the first kind, of order 0.", example=((1.0,), 0.7651976865579666),
)  # fmt: skip
bessel_j1 = elementwise(
    "bessel_j1", k.bessel_j1, lambda xp, y, x: -xp.bessel_j_derivative(x, n=2),
    ulps=1.5, special=_WAVE,
    summary="Bessel function of the first kind, of order 1.", example=((1.0,), 0.44005058574493355),
)  # fmt: skip
bessel_j_derivative = elementwise(
    "bessel_j_derivative", k.bessel_j_derivative, lambda xp, y, x, *, n: xp.bessel_j_derivative(x, n=n + 1),
    ulps=1.5, special=_WAVE, params=("n",), samples=FROM_ONE,
    summary="n-th derivative of J0.",
)  # fmt: skip
bessel_y0 = elementwise(
    "bessel_y0", k.bessel_y0, lambda xp, y, x: xp.bessel_y_derivative(x, n=1),
    domain=POSITIVE, ulps=2.5, special=_WAVE_Y,
    summary="Bessel function of the second kind, of order 0, for x > 0.", example=((1.0,), 0.08825696421567695),
)  # fmt: skip
bessel_y1 = elementwise(
    "bessel_y1", k.bessel_y1, lambda xp, y, x: -xp.bessel_y_derivative(x, n=2),
    domain=POSITIVE, ulps=2.5, special=_WAVE_Y,
    summary="Bessel function of the second kind, of order 1, for x > 0.", example=((1.0,), -0.7812128213002888),
)  # fmt: skip
bessel_y_derivative = elementwise(
    "bessel_y_derivative", k.bessel_y_derivative, lambda xp, y, x, *, n: xp.bessel_y_derivative(x, n=n + 1),
    domain=POSITIVE, ulps=3.0, special=_WAVE_Y, params=("n",), samples=FROM_ONE,
    summary="n-th derivative of Y0.",
)  # fmt: skip
bessel_i0 = elementwise(
    "bessel_i0", k.bessel_i0, lambda xp, y, x: xp.bessel_i_derivative(x, n=1),
    ulps=3.0, special=_GROWTH,
    summary="Modified Bessel function of the first kind, of order 0.", example=((1.0,), 1.2660658777520084),
)  # fmt: skip
bessel_i1 = elementwise(
    "bessel_i1", k.bessel_i1, lambda xp, y, x: xp.bessel_i_derivative(x, n=2),
    ulps=3.0, special=_GROWTH,
    summary="Modified Bessel function of the first kind, of order 1.", example=((1.0,), 0.565159103992485),
)  # fmt: skip
bessel_i_derivative = elementwise(
    "bessel_i_derivative", k.bessel_i_derivative, lambda xp, y, x, *, n: xp.bessel_i_derivative(x, n=n + 1),
    ulps=3.0, special=_GROWTH, params=("n",), samples=FROM_ONE,
    summary="n-th derivative of I0.",
)  # fmt: skip
bessel_i0e = elementwise(
    "bessel_i0e", k.bessel_i0e, lambda xp, y, x: xp.bessel_ie_derivative(x, m=0, n=1),
    kinks=(0.0,), ulps=2.0, special=(0.0, 0.5, 2.0, 24.0, -24.0),
    summary="exp(-|x|) times the modified Bessel function of the first kind, of order 0.",
    example=((1.0,), 0.46575960759364043),
)  # fmt: skip
bessel_i1e = elementwise(
    "bessel_i1e", k.bessel_i1e, lambda xp, y, x: xp.bessel_ie_derivative(x, m=1, n=1),
    ulps=2.0, special=(0.0, 0.5, 2.0, 24.0, -24.0),
    summary="exp(-|x|) times the modified Bessel function of the first kind, of order 1.",
    example=((1.0,), 0.2079104153497085),
)  # fmt: skip
bessel_ie_derivative = elementwise(
    "bessel_ie_derivative", k.bessel_ie_derivative, lambda xp, y, x, *, m, n: xp.bessel_ie_derivative(x, m=m, n=n + 1),
    kinks=(0.0,), ulps=3.5, special=(0.0, 0.5, 2.0, 24.0, -24.0), params=("m", "n"), samples=_SCALED,
    summary="n-th derivative of exp(-|x|) I_m(x), m = 0 or 1; 0 at 0 where the sides differ.",
)  # fmt: skip
bessel_k0 = elementwise(
    "bessel_k0", k.bessel_k0, lambda xp, y, x: xp.bessel_k_derivative(x, n=1),
    domain=POSITIVE, ulps=3.0, special=_DECAY,
    summary="Modified Bessel function of the second kind, of order 0, for x > 0.",
    example=((1.0,), 0.42102443824070834),
)  # fmt: skip
bessel_k1 = elementwise(
    "bessel_k1", k.bessel_k1, lambda xp, y, x: -xp.bessel_k_derivative(x, n=2),
    domain=POSITIVE, ulps=3.0, special=_DECAY,
    summary="Modified Bessel function of the second kind, of order 1, for x > 0.", example=((1.0,), 0.6019072301972346),
)  # fmt: skip
bessel_k_derivative = elementwise(
    "bessel_k_derivative", k.bessel_k_derivative, lambda xp, y, x, *, n: xp.bessel_k_derivative(x, n=n + 1),
    domain=POSITIVE, ulps=3.0, special=_DECAY, params=("n",), samples=FROM_ONE,
    summary="n-th derivative of K0.",
)  # fmt: skip
bessel_k0e = elementwise(
    "bessel_k0e", k.bessel_k0e, lambda xp, y, x: xp.bessel_ke_derivative(x, m=0, n=1),
    domain=POSITIVE, ulps=2.0, special=_DECAY,
    summary="exp(x) times the modified Bessel function of the second kind, of order 0, for x > 0.",
    example=((1.0,), 1.1444630798068947),
)  # fmt: skip
bessel_k1e = elementwise(
    "bessel_k1e", k.bessel_k1e, lambda xp, y, x: xp.bessel_ke_derivative(x, m=1, n=1),
    domain=POSITIVE, ulps=2.0, special=_DECAY,
    summary="exp(x) times the modified Bessel function of the second kind, of order 1, for x > 0.",
    example=((1.0,), 1.6361534862632582),
)  # fmt: skip
bessel_ke_derivative = elementwise(
    "bessel_ke_derivative", k.bessel_ke_derivative, lambda xp, y, x, *, m, n: xp.bessel_ke_derivative(x, m=m, n=n + 1),
    domain=POSITIVE, ulps=3.5, special=_DECAY, params=("m", "n"), samples=_SCALED,
    summary="n-th derivative of exp(x) K_m(x), m = 0 or 1.",
)  # fmt: skip

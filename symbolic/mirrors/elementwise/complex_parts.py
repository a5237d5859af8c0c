"""Mirrors of real and imaginary parts, conjugates, and numbers made of parts."""

from __future__ import annotations

import sympy as sp

from gtape.symbolic.complex_scalars import conjugate, imag, joined, over, real
from gtape.symbolic.mirrors.registry import array, scalar

array("real", over(real))
array("imag", over(imag))
array("conj", over(conjugate))
array("complex", over(joined, place=True))
scalar("real_angle", lambda x: sp.Piecewise((sp.pi, x < 0), (sp.Integer(0), True)))

"""``gtape.math.special``: Bessel functions and integrals, with the names of ``tf.math.special``."""

from __future__ import annotations

from gtape.namespaces.catalogue import namespace

__getattr__, __dir__ = namespace("math.special", globals())

"""gtape itself, as one more library, because a census measures all libraries in the same way."""

from __future__ import annotations

from gtape.declare.primitives import REGISTRY
from gtape.namespaces import catalogue
from gtape.verify.peers.libraries import Library

__all__ = ["LIBRARY"]

_DEFINITIONS = {
    "lift": "def lift(a):\n    return tf.constant(a)\n",
    "lower": "def lower(t):\n    return np.asarray(t)\n",
    "op": "catalogue.load()\n\n\ndef op(name):\n    return REGISTRY[name].function\n",
    "reverse": (
        "def reverse(f, i=0):\n"
        "    def derivative(*a):\n"
        "        with tf.GradientTape() as tape:\n"
        "            tape.watch(a[i])\n"
        "            y = f(*a)\n"
        "        g = tape.gradient(y, a[i])\n"
        "        return tf.zeros_like(a[i]) if g is None else g\n"
        "    return derivative\n"
    ),
}


def _functions() -> dict[str, str]:
    catalogue.load()
    return {
        p.name: f"op({p.name!r})(x)"
        for p in REGISTRY.values()
        if p.kind == "elementwise" and p.differentiable and p.arity == 1 and not p.place.outside and not p.params
    }


LIBRARY = Library(
    name="gtape",
    module="gtape",
    imports=(
        "import numpy as np\nimport gtape as tf\n"
        "from gtape.declare.primitives import REGISTRY\nfrom gtape.namespaces import catalogue\n"
    ),
    definitions=_DEFINITIONS,
    modes=(("reverse",), ("reverse", "reverse")),
    array_modes=(),
    functions=_functions(),
    arrays={},
    calls={},
    tensor="tf.constant({values}, dtype=tf.{dtype})",
    versions={"gtape": "getattr(tf, '__version__', 'checkout')"},
)

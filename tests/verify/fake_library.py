"""The description of the library with planted faults; a module for `--load`."""

from __future__ import annotations

from pathlib import Path

from gtape.verify.peers import libraries

HERE = str(Path(__file__).resolve().parent)
FAKE = libraries.Library(
    name="fake",
    module="fake_peer",
    imports=f"import sys\n\nimport numpy as np\n\nsys.path.insert(0, {HERE!r})\nimport fake_peer\n",
    definitions={
        "lift": "def lift(a):\n    return np.array(a)\n",
        "lower": "def lower(t):\n    return np.asarray(t)\n",
        "weigh": "weigh = fake_peer.weigh\n",
        "derivative": "derivative = fake_peer.derivative\n",
        "rows": "rows = fake_peer.rows\n",
    },
    modes=(("derivative",),),
    array_modes=(("rows",),),
    functions={
        name: f"fake_peer.{name}(x)"
        for name in (
            *("sin", "tanh", "sinc", "exp", "abs", "relu", "asinh", "cos", "log", "erf", "erfc"),
            *("sqrt", "square", "power_0", "log1p"),
        )
    },
    arrays={name: f"fake_peer.{name}(x)" for name in ("prod", "cumsum", "where_sqrt")},
    calls={},
    tensor="np.array({values}, dtype=np.{dtype})",
    versions={"fake": "'1.0'"},
)

libraries.register(FAKE)

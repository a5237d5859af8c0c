"""Mirror of decisions: integers and booleans are the same in every world."""

from __future__ import annotations

import numpy as np

from gtape.symbolic.mirrors.registry import array

array("decided", lambda W, x, *, work: W.lift(work(np.asarray(x))))

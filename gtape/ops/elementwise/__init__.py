"""Ops that act on each element: arithmetic, exponentials, circular and hyperbolic functions, comparisons."""

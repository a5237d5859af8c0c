"""``gtape.linalg``: products, factorisations and norms of matrices, under TensorFlow's names."""

from __future__ import annotations

from gtape.namespaces.catalogue import namespace

__getattr__, __dir__ = namespace("linalg", globals())

"""Tensors, variables and modules: the objects that users hold, before any tape or op is defined.

Importing any module of the package installs Python's operators on tensors.
"""

from gtape.tensors import operators as operators

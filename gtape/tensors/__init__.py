"""Tensors, variables and modules: the objects that users hold. No tape and no op is defined here.

The import of any module of the package installs Python's operators on tensors.
"""

from gtape.tensors import operators as operators

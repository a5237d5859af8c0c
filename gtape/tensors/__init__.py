"""Tensors, variables and modules: the objects that users hold, before any tape or op is defined.

The package imports none of its modules, because two threads that import different modules first would then wait for
each other. Modules that make tensors for users import `gtape.tensors.operators`, which installs Python's operators.
"""

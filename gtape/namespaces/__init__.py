"""Which public name lives where, and what `dir()`, docstrings and errors say of it."""

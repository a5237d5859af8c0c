"""Causes of wrong numbers and of missing exact values: wrong rules, conventions, the range of floats, branches."""

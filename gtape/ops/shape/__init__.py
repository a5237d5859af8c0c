"""Ops that change shape, order or dtype: reshaping, joining, broadcasting, creating, casting."""

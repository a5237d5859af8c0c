"""The setting that all functions run their Python code at each call, compiled ones included."""

from __future__ import annotations

__all__ = ["EAGERLY"]

EAGERLY: list[bool] = []  # holds an element while the setting is on, because an empty list is tested fastest

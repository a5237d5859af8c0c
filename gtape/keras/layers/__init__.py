"""Layers: functions with variables."""

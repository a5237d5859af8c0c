"""Shared by all other rooms, and independent of tensors and tapes: layouts, shapes, settings, messages, locks."""

"""Campaigns: shards that run on any machines, a journal that survives any kill, fixed examples of findings."""

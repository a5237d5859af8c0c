"""Checks and judgements: `check`, `judge`, `exact`, and what the tape calls under `verify=True`."""

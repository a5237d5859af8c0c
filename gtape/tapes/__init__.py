"""What users enter and leave: gradient tapes, forward accumulators, functions, control flow."""

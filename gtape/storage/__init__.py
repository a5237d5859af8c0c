"""Files that are written completely or not at all: archives of values, and notes of checkpoints."""

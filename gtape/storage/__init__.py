"""Files that are written whole or not at all: archives of values and the notes of checkpoints."""

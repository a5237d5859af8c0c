"""The data of a tape: records, sessions, the stack of active tapes, and what a trace keeps with them."""

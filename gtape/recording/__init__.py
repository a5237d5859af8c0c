"""The data of a tape: records, sessions, the stack of active tapes, and traces for checks."""

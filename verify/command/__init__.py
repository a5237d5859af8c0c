"""The command `gtape`: arguments, runs, output."""

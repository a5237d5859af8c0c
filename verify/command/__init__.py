"""The command line ``gtape verify``, ``prove``, ``census``, ``doctor``, ``conventions``, ``table``, and its output."""

"""The command line ``gtape verify``, ``prove``, ``census``, ``doctor``, ``conventions``, and its output."""

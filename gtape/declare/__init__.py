"""Declarations of ops: kernel, rules, domain, samples. One declaration holds all that gtape knows of an op."""

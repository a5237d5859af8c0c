"""Searches for the worst point of each op: census, points, trials, workers."""

"""Searches for the worst derivatives: the census, the doctor, trials, and the processes that run them."""

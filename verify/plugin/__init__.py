"""The checks of a pytest run: `pytest_gtape`, which pytest loads, starts them when a run uses them."""

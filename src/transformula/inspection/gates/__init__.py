"""Checks of each arm before its runs, one a file: see `comparison/gate.py`."""

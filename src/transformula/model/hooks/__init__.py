"""One hook a file; see `model/hook.py`."""

"""One format of models a file; see `interop/exchange.py`."""

"""How the answers of one kind of predictor are made, for an export; see `tasks/pipeline.py`."""

"""Scores: predictions and references in, numbers out. No torch, no model; see `measured` and `report`."""

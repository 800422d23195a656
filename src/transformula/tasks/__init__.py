"""What a model is trained to do: one file a task; see `base`."""

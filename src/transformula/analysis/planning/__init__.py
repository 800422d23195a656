"""What a training run would take on given devices: memory by rank, time of a step, hours, the parallel layout."""

"""What a checked graph means: residual path, initial scale, receptive field, warnings, costs, identity, distance."""

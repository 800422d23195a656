"""A run's folder: resolved configuration, manifest, log, checkpoints, summary; what a resume needs and others read."""

"""Training on several devices, by several processes."""

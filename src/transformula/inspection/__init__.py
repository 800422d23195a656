"""Looking at models: what a formula says, joined from what the rooms below know of it."""

"""One optimiser a file."""

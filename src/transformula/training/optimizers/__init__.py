"""One optimizer a file."""

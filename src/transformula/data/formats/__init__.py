"""Formats of files, one file each; see `data.format` for what a format does."""

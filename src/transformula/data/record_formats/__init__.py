"""Formats of files with rows of named columns, one file each; see `data.records` for what a format does."""

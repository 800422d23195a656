"""Pairs of texts that need no download, one file a set; see `data.pair_set`."""

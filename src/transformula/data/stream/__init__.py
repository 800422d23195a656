"""Data that is larger than memory: sources of shards, read in an order that is known ahead, from any place on."""

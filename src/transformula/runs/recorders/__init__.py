"""Recorders: one file each."""

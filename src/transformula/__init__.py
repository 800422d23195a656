"""Transformers whose layers are written as their equations."""

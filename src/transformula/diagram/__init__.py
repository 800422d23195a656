"""Diagrams of layers and models, made from the checked graph: plain text, SVG, and the difference of two models."""

"""Diagrams of layers and models, made from the checked graph: plain text, SVG, and the difference of two models."""

from .differences import difference
from .svg import draw_svg
from .text import draw_text

__all__ = ["difference", "draw_svg", "draw_text"]

"""Diagrams of layers and models, made from the checked graph: plain text, SVG, and the difference of two models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .differences import difference as difference
    from .svg import draw_svg as draw_svg
    from .text import draw_text as draw_text

HOMES = {"draw_svg": "svg", "draw_text": "text", "difference": "differences"}
__all__ = ["difference", "draw_svg", "draw_text"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in HOMES:
        return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

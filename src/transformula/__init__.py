"""Transformers whose layers are written as their equations.

    from transformula import train

    run = train("x = x + attention(norm(x)); x = x + mlp(norm(x))", data="python-docs", minutes=4)
    print(run.model.generate("The with statement"))

Names are loaded when they are first used: importing the package costs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import gallery as gallery
    from .api.evaluation import evaluate as evaluate
    from .api.model import Model as Model
    from .api.model import explain as explain
    from .api.model import nearest as nearest
    from .api.model import summary as summary
    from .api.recipe import reproduce as reproduce
    from .api.run import Run as Run
    from .api.run import train as train
    from .errors import TransformulaError as TransformulaError
    from .inspection import curves as curves

__version__ = "0.1.0"
__all__ = [
    "Model",
    "Run",
    "TransformulaError",
    "curves",
    "evaluate",
    "explain",
    "gallery",
    "nearest",
    "reproduce",
    "summary",
    "train",
]


def __getattr__(name: str) -> Any:
    if name == "gallery":
        return import_module(f"{__name__}.gallery")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'errors' if name == 'TransformulaError' else 'api'}"), name)


def __dir__() -> list[str]:
    """The public names, without the rooms."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])

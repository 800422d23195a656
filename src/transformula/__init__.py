"""Transformers whose layers are written as their equations.

    from transformula import Model, train

    run = train("x = x + attention(norm(x)); x = x + mlp(norm(x))", data="python-docs", minutes=4)
    print(run.model.generate("The with statement"))

Names are loaded when they are first used: importing the package costs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Model as Model
    from .api import Run as Run
    from .api import evaluate as evaluate
    from .api import explain as explain
    from .api import gallery as gallery
    from .api import summary as summary
    from .api import train as train
    from .errors import TransformulaError as TransformulaError

__version__ = "0.1.0"
__all__ = ["Model", "Run", "TransformulaError", "evaluate", "explain", "gallery", "summary", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "errors" if name == "TransformulaError" else "api"
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

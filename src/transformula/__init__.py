"""Transformers whose layers are written as their equations.

    from transformula import train

    run = train("x = x + attention(norm(x)); x = x + mlp(norm(x))", data="python-docs", minutes=4)
    print(run.model.generate("The with statement"))

Names are loaded when they are first used: importing the package costs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import lazy

if TYPE_CHECKING:
    from . import gallery as gallery
    from .api.families import check_family as check_family
    from .api.inspect import inspect as inspect
    from .api.model import Model as Model
    from .api.model import explain as explain
    from .api.model import load as load
    from .api.model import nearest as nearest
    from .api.model import summary as summary
    from .api.planning import plan as plan
    from .api.recipe import reproduce as reproduce
    from .api.repeat import repeat as repeat
    from .api.run import Run as Run
    from .api.run import evaluate as evaluate
    from .api.run import train as train
    from .comparison.compare import Comparison as Comparison
    from .comparison.compare import compare as compare
    from .errors import TransformulaError as TransformulaError
    from .inspection.curves import curves as curves
    from .interop.named.outside import add_family as add_family
    from .runs.pruning import prune as prune

__version__ = "0.1.0"

HOMES = {  # public name -> the module that has it, or is it
    "Comparison": "comparison.compare",
    "Model": "api.model",
    "Run": "api.run",
    "TransformulaError": "errors",
    "add_family": "interop.named.outside",
    "check_family": "api.families",
    "compare": "comparison.compare",
    "curves": "inspection.curves",
    "evaluate": "api.run",
    "explain": "api.model",
    "gallery": "gallery",
    "inspect": "api.inspect",
    "load": "api.model",
    "nearest": "api.model",
    "plan": "api.planning",
    "prune": "runs.pruning",
    "repeat": "api.repeat",
    "reproduce": "api.recipe",
    "summary": "api.model",
    "train": "api.run",
}

__all__ = list(HOMES)
__getattr__ = lazy(__name__, HOMES)


def __dir__() -> list[str]:
    """The public names, without the rooms."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])

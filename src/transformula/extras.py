"""Optional packages, asked for by name where they are first needed."""

from __future__ import annotations

import importlib
from types import ModuleType

from .errors import MissingExtra

EXTRAS = {
    "argcomplete": "completion",
    "babel": "cldr",
    "datasets": "hub",
    "pyarrow": "parquet",
    "sacrebleu": "translation",
    "sentencepiece": "unigram",
    "torchinfo": "torchinfo",
}
"""Import name of each optional package -> the extra of ours that installs it."""


def need(module: str, purpose: str) -> ModuleType:
    """Import an optional package, or say which command installs it.

    Raises MissingExtra where the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        extra = EXTRAS[module.split(".")[0]]
        raise MissingExtra(
            f"{purpose} needs the package {module.split('.')[0]}; install it with: pip install 'transformula[{extra}]'"
        ) from error

"""Models without dropout, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def evaluating(*models: Any) -> Iterator[None]:
    """Within it the models evaluate; afterwards each of their modules is in the mode in which it was."""
    modes = [(m, m.training) for model in models if isinstance(model, nn.Module) for m in model.modules()]
    for model in models:
        if isinstance(model, nn.Module):
            model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode

"""What llama.cpp computes of a file, by llama-cpp-python, which pip builds from its source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def opened(folder: Path, **options: Any) -> Any:
    """The model of a folder; the test is skipped where the package is not installed."""
    library = pytest.importorskip("llama_cpp", reason="llama-cpp-python is missing: pip install llama-cpp-python")
    exact = {"type_k": 0, "type_v": 0, "flash_attn": False}  # caches in float32
    return library.Llama(str(folder / "model.gguf"), verbose=False, n_threads=1, **exact, **options)


def logits(folder: Path, tokens: Sequence[int]) -> np.ndarray:
    """(tokens, vocab)"""
    model = opened(folder, n_ctx=256, logits_all=True)
    model.eval(list(tokens))
    return np.array(model.scores[: len(tokens)])

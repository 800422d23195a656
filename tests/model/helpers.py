"""Models for the tests of this room: from a formula, and those of the language's own tests, made small."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.model_file import read_documents, read_text
from transformula.language.model_text import ModelText, from_formula
from transformula.model import Transformer, build
from transformula.model.decoding import Decoding
from transformula.model.segment_memory import tensors_of
from transformula.words import vocabulary

SMALL: dict[str, Any] = {"depth": 3, "width": 32, "heads": 4, "vocab": 11, "context": 24}

MODELS = Path(__file__).parents[1] / "language" / "models.yaml"

SMALLER: dict[str, dict[str, Any]] = {
    # eight heads of keys; rotary turns 0.4 of a head; the U-Net's skips want an even depth
    "llama3": {"heads": 8},
    "qwen3": {"heads": 8},
    "mixtral": {"heads": 8},
    "phi2": {"width": 80},
    "unet": {"depth": 4},
}
"""What a model needs besides SMALL to be small."""

NOT_BUILT = {"universal": "policy: halt"}
"""What is refused when it is built, and the key of the text that it is refused for: the hook `halt` wants the name of
the chance to stop, `halt(p)`."""


DOCUMENTS = re.split(r"(?m)^--- ?.*\n", MODELS.read_text(encoding="utf-8"))[1:]
MODELS_OF = {read_text(d).name: d for d in DOCUMENTS if not re.search(r"(?m)^extra:", d)}
"""The models of the language's page, by name; those with words from outside are left out."""


@cache
def texts() -> dict[str, ModelText]:
    """Those models, read."""
    return {name: read_text(text) for name, text in MODELS_OF.items()}


def built() -> list[str]:
    """The names of the models that can be built."""
    return [name for name in texts() if name not in NOT_BUILT]


def writers() -> list[str]:
    """Those that read tokens alone, and of these only the past."""
    found = [name for name in built() if not re.search(r"(?m)causal: false|source|image", MODELS_OF[name])]
    assert len(found) > 35
    return found


def architecture_of(name: str, small: bool = True) -> Architecture:
    return check(texts()[name], vocabulary(), {**SMALL, **SMALLER.get(name, {})} if small else {})


def checked(text: str, **given: Any) -> Architecture:
    """A formula, or a whole file if it has a line that starts with a key, made small."""
    whole = re.search(r"(?m)^[a-z]+:", text)
    read = next(iter(read_documents(text))) if whole else from_formula(text)
    missing = {k: v for k, v in SMALL.items() if k not in read.numbers}
    return check(read, vocabulary(), {**missing, **given})


def make(text: str, seed: int = 0, **given: Any) -> Transformer:
    """A small model of a formula, in float64, evaluating, with random weights."""
    return randomised(build(checked(text, **given), seed=seed))


@torch.no_grad()
def randomised(model: Transformer, seed: int = 0) -> Transformer:
    """In float64 and with weights drawn anew: at their initial values wrong equations can agree."""
    model.double().eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def tokens(batch: int = 2, length: int = 9, seed: int = 0) -> Tensor:
    return torch.randint(11, (batch, length), generator=torch.Generator().manual_seed(seed))


def numbers_kept(decoding: Decoding) -> int:
    """How many numbers the tensors of a decoding's states hold, each tensor once."""
    return sum({id(tensor): tensor.numel() for _, tensor in tensors_of(decoding.states)}.values())

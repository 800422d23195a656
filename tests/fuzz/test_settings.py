"""Options of training that are small languages: --lora, --freeze, --recompute, --parallel, changed at random.

Each text is refused with an error of ours, or taken; what is taken is applied to a small model, or refused there.
"""

from __future__ import annotations

import random
from functools import cache

import pytest
import torch

from tests.fuzz import harness
from transformula import words
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import Transformer, build
from transformula.model.recompute import recompute
from transformula.training.adapters import choose_trained
from transformula.training.parallel.layout import choose_layout, read_layout
from transformula.training.parallel.world import ALONE
from transformula.training.settings import TrainingSettings

FORMULA = "x = x + attention(norm(x), rotary=100)\nx = x + mlp.wide(norm(x))\nx = x + gru(norm(x))"

VALID = {
    "lora": [
        "rank=2", "rank=4,alpha=16", "rank=2,matrices=*.query.*,*.value.*", "rank=2,full=words,unembed.*",
        "rank=2,alpha=0.5,matrices=layers.1.*,full=layers.2.norm.scale",
    ],
    "freeze": ["words", "layers.[1-4].*", "words,layers.1.*", "*", "layers.?.mlp", "*.bias"],
    "recompute": ["none", "all", "layers", "1", "2,attention", "mlp,3", "wide"],
    "parallel": ["auto", "none", "ddp", "fsdp", "tp=2", "fsdp,tp=2"],
}  # fmt: skip

PIECES = """
rank alpha matrices full = , , . * ? [ ] [! [1-4] [z-a] ! ( ) ** layers layers.1 words unembed query value norm mlp
attention wide 0 1 2 3 4 99 -1 0.5 1e400 nan inf 1_0 ² ١ tp tp= tp=0 fsdp ddp auto none all True None é
""".split() + [" ", "\n", "\t", "\0", "\ud800", "\u2028", "", "a" * 3_000, "*" * 300, "9" * 400, "[" * 200]


@cache
def model() -> Transformer:
    numbers = {"depth": 2, "width": 8, "heads": 2, "vocab": 11, "context": 8}
    module = build(check(from_formula(FORMULA).override(numbers), words.vocabulary()), seed=0)
    assert isinstance(module, Transformer)
    return module


def draw(generator: random.Random) -> tuple[str, str]:
    """A key, and one of its texts with some pieces put in, taken out or doubled; now and then that of another key."""
    key = generator.choice(list(VALID))
    text = generator.choice(VALID[key if generator.random() < 0.9 else generator.choice(list(VALID))])
    for _ in range(generator.choice([0, 1, 1, 2, 3, 8])):
        at, size = generator.randrange(len(text) + 1), generator.randrange(4)
        text = text[:at] + generator.choice([*PIECES, text[at : at + 9]]) + text[at + size :]
    return key, text


def apply(case: tuple[str, str]) -> None:
    """What a run does with the setting before its first step."""
    key, text = case
    settings = TrainingSettings.read({key: text, "device": "cpu"})
    module = model()
    try:
        if key == "recompute":
            recompute(module, settings.recompute)
        else:
            trained = choose_trained(module, settings)
            choose_layout(settings, ALONE, module, trained, torch.device("cpu"))
            if "=" in settings.parallel:
                read_layout(settings.parallel, ALONE)
    finally:
        recompute(module, "none")
        module.requires_grad_(True)


@pytest.mark.parametrize("cases", harness.portions())
def test_a_changed_setting_is_refused_or_applied(cases: range) -> None:
    for key, texts in VALID.items():
        for text in texts:
            TrainingSettings.read({key: text})
    apply(("lora", "rank=2"))  # torch's own first time is no case's
    harness.check("settings", cases, draw, apply)

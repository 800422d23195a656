"""`build`: a formula becomes a module that does what the formula says."""

from __future__ import annotations

import torch

from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import build
from transformula.words import vocabulary

PRE_NORM = "x = x + dropout(attention(norm(x)), 0.1)\nx = x + mlp(norm(x))"
SMALL = {"depth": 3, "width": 32, "heads": 4, "vocab": 11, "context": 24}


def test_a_formula_becomes_a_model() -> None:
    model = build(check(from_formula(PRE_NORM), vocabulary(), {**SMALL, "after": "x = norm(x)"}))
    assert model(torch.randint(11, (2, 7))).shape == (2, 7, 11)
    assert model.line_of("layers.2.mlp.up") == "layer 2, line 2: x = x + mlp(norm(x))"

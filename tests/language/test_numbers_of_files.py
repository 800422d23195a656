"""A number of the file stands for itself alone, whatever records of words call what they read so."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from transformula import Model, explain, summary
from transformula.generation import SamplingSettings, generate
from transformula.language.model_text import FREE_NUMBERS, MODEL_KEYS
from transformula.language.word_calls import OF_ANALYSIS
from transformula.words import vocabulary

LAYERS = (
    "x = x + attention(norm(x), rotary=10000)",
    "x = x + conv(norm(x), length=3)",
    "x = x + linear_attention(norm(x))",
    "x = x + scan(linear.inner(norm(x), width), -softplus(linear.decay(x, width)))",
    "x = x + exp(norm(x)) * sigmoid(x)",
)
SIZES: dict[str, Any] = {"depth": 2, "width": 16, "heads": 2, "vocab": 20, "context": 32}


def names() -> list[str]:
    """All that records of words call their own, and what they read of a sequence or a value."""
    own: set[str] = set()
    for record in vocabulary().values():
        own |= {name.lstrip("*") for form in record.forms for name in form}
        own = own.union(record.options, record.ports).difference(record.ids)  # tokens are always those of the task
    own -= {*SIZES, *MODEL_KEYS, *FREE_NUMBERS, "x", "layer"}  # which mean something in every file
    return sorted({*OF_ANALYSIS, *own, "n", "k", "v"})


def text(layer: str, name: str, number: int = 8) -> str:
    """A model file with a number of this name, which a line of the layer reads."""
    sizes = "\n".join(f"{key}: {value}" for key, value in {**SIZES, name: number}.items())
    lines = "\n".join(f"  {line}" for line in [*layer.splitlines(), f"x = x + mlp(norm(x), hidden={name})"])
    return f"language: 1\n{sizes}\nlayer: |\n{lines}\n"


def said(layer: str, name: str) -> Any:
    """What is counted of a layer, and how far it sees and grows."""
    about = explain(text(layer, name)).data["stacks"]
    return summary(text(layer, name)).data["totals"], str(about).replace(f"hidden={name}", "hidden=neutral")


@pytest.mark.parametrize("layer", LAYERS)
def test_every_name_of_a_record_is_free_for_a_number(layer: str) -> None:
    expected = said(layer, "neutral")
    for name in names():
        assert said(layer, name) == expected, name


@pytest.mark.parametrize("name", ["length", "span", "window", "y"])
def test_decoding_with_a_cache_is_that_without(name: str) -> None:
    module = Model(text(LAYERS[0], name, 4), seed=1).module
    prompt = [1, 2, 3, 4, 5, 6, 7, 8]
    (written,) = generate(module, [prompt], SamplingSettings(max_tokens=10, temperature=0.0))
    whole = list(prompt)
    with torch.no_grad():
        for _ in range(10):
            whole.append(int(module(torch.tensor([whole]))[0, -1].argmax()))
    assert written == whole[len(prompt) :]

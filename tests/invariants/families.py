"""The gallery's texts turned into encoders and decoders, at a small size, with random weights in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from tests.invariants.harness import DEEPER, LENGTH, SAMPLES, SMALL, randomize, reduced
from transformula import gallery
from transformula.errors import InputError
from transformula.families.conversion import as_decoder, as_encoder, as_encoder_decoder
from transformula.language.graph import Architecture, Section
from transformula.language.model_file import read_text
from transformula.language.model_text import ModelText
from transformula.language.model_writing import write_text
from transformula.model import build
from transformula.words import vocabulary

ABOVE = "encoder:\n  causal: false\n  depth: 1\n  before: x = embed.above(source)\n  layer: x = x + mlp(norm(x))\n"
"""A stack that makes a memory, for decoders whose text makes no encoder."""


@cache
def turned(name: str, family: str) -> ModelText | str:
    """The text of an entry, of few layers, turned into a family, or why it cannot be."""
    turn: Callable[..., ModelText] = {
        "encoder": as_encoder,
        "decoder": as_decoder,
        "encoder-decoder": as_encoder_decoder,
    }[family]
    text = gallery.load(name)
    try:
        return turn(text.override({"depth": DEEPER.get(name, SMALL["depth"])}) if text.single else text, vocabulary())
    except InputError as error:
        return str(error)


def skip_unless(name: str, family: str) -> None:
    """Skip a test of an entry that cannot be of a family. To ask all as tests are collected would take long."""
    if isinstance(why := turned(name, family), str):
        pytest.skip(why.splitlines()[0])


def encoders() -> list[str]:
    """The entries that are encoders, too."""
    return [name for name in gallery.names() if not isinstance(turned(name, "encoder"), str)]


def decoders() -> list[str]:
    """The entries that are decoders with a memory, too."""
    return [name for name in gallery.names() if not isinstance(turned(name, "decoder"), str)]


def refused(family: str) -> dict[str, str]:
    """The entries of one stack that cannot be of a family, and why."""
    found = {name: turned(name, family) for name in gallery.names() if gallery.load(name).single}
    return {name: why for name, why in found.items() if isinstance(why, str)}


def text_of(name: str, family: str) -> ModelText:
    """A text that was turned; for a decoder one with an encoder above it: the entry's own if there is one."""
    made = turned(name, "encoder-decoder" if family == "decoder" else family)
    if isinstance(made, str):
        alone = turned(name, family)
        assert not isinstance(alone, str), alone
        (encoder,) = read_text(ABOVE).stacks
        made = ModelText(**{**vars(alone), "stacks": (encoder, *alone.stacks)}) if family == "decoder" else alone
    return made


@cache
def small(name: str, family: str) -> Architecture:
    """An entry of a family, checked, with few layers, by way of its text as a file."""
    return reduced(read_text(write_text(text_of(name, family))), DEEPER.get(name, 2))


def made(architecture: Architecture, randomly: bool = True) -> nn.Module:
    """A model, evaluating; with random weights, or with its initial ones."""
    model = build(architecture, seed=0, dtype=torch.float64).eval()
    return randomize(model) if randomly else model


def given(model: nn.Module, batch: int = 3) -> dict[str, Tensor]:
    """Random values of every input of a model: sources of another length than tokens."""
    generator = torch.Generator().manual_seed(2)
    found: dict[str, Tensor] = {}
    for name in model.inputs:
        length = LENGTH + 2 if name == "source" else LENGTH
        if name == "image":
            calls = [v.call for s in model.architecture.sections() for v in s.calls() if v.call is not None]
            side = next(int(call.options["size"]) for call in calls if call.word.name == "patches")
            found[name] = torch.randn(batch, 3, 2 * side, 3 * side, dtype=torch.float64, generator=generator)
        elif name == "audio":
            found[name] = torch.randn(batch, SAMPLES, dtype=torch.float64, generator=generator)
        elif name == "document":
            found[name] = torch.randint(2, (batch, length), generator=generator).cumsum(1)
        elif name == "characters":
            found[name] = torch.randint(9, (batch, length, 4), generator=generator)
        else:
            most = 2 if name == "types" else int(SMALL["vocab"])
            found[name] = torch.randint(most, (batch, length), generator=generator)
    return found


def words_of(section: Section) -> set[str]:
    """The words that a section calls."""
    return {value.call.word.name for value in section.calls() if value.call is not None}

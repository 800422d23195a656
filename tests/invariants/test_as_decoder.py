"""Every entry of one stack is a decoder with a memory, too, or says why not: it is causal, reads all of its memory, is
decoded step by step as in one pass, and padding of both sequences changes nothing.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.invariants import checks
from tests.invariants.families import decoders, given, made, refused, skip_unless, small, text_of
from tests.invariants.harness import FEW, close, every_day, joined, reduced
from transformula import gallery
from transformula.analysis.canonical import formula_hash
from transformula.errors import TransformulaError
from transformula.families.conversion import as_encoder_decoder
from transformula.language.graph import Architecture
from transformula.language.model_text import ModelText, StackText
from transformula.language.source import Source
from transformula.model.init import read_rules
from transformula.words import vocabulary

WITHOUT_SKIPS = ("no-skip", "stacked-blocks")
"""Here what is written reaches the output only as what is asked of the memory: it changes little."""


@pytest.mark.parametrize("name", every_day(gallery.names(), FEW))
def test_a_decoder(name: str) -> None:
    skip_unless(name, "decoder")
    architecture = small(name, "decoder")
    assert formula_hash(reduced(text_of(name, "decoder"), architecture.main.depth)) == formula_hash(architecture)
    model = made(architecture)
    inputs = given(model)
    nothing_ahead(model, inputs) if name in WITHOUT_SKIPS else checks.last_token(model, inputs)
    memory_is_read(model, inputs)
    checks.padding(model, inputs)
    checks.padding_unread(model, inputs)
    steps(model, inputs)
    checks.prompts(model, inputs)
    beside_padded_memories(model, inputs)


def nothing_ahead(model: nn.Module, inputs: dict[str, Tensor]) -> None:
    """Another last token changes nothing before it, bit for bit."""
    other = {**inputs, "tokens": inputs["tokens"].clone()}
    other["tokens"][:, -1] += 1
    with torch.no_grad():
        before, after = model(**inputs), model(**other)
    assert torch.equal(before[:, :-1], after[:, :-1]) and not torch.equal(before[:, -1], after[:, -1])


def memory_is_read(model: nn.Module, inputs: dict[str, Tensor]) -> None:
    """Every position of the memory changes the first position that is written, and so all."""
    before = joined(model(**inputs))
    for at in range(inputs["source"].shape[1]):
        other = inputs["source"].clone()
        other[:, at] = (other[:, at] + 7) % 19
        after = joined(model(**{**inputs, "source": other}))
        assert ((before - after).abs().amax(-1) > 1e-9).all(), f"position {at} of the memory is not read by all"


def steps(model: nn.Module, inputs: dict[str, Tensor]) -> None:
    """Chunks of several sizes are one pass."""
    with torch.no_grad():
        whole = joined(model(**inputs))
        decoding = model.start(3, 7, **checks.fixed(model, inputs))
        pieces = [checks.piece(model, inputs, begin, end) for begin, end in ((0, 3), (3, 4), (4, 6), (6, 7))]
        close(torch.cat([joined(model.step(decoding=decoding, **piece)) for piece in pieces], 1), whole)


def beside_padded_memories(model: nn.Module, inputs: dict[str, Tensor]) -> None:
    """Rows change places, as in a search, each with its own padded memory."""
    lengths = {"source": torch.tensor(checks.LENGTHS["source"])}
    with torch.no_grad():
        whole = joined(model(**inputs, lengths=lengths))
        decoding = model.start(3, 7, lengths=lengths, **checks.fixed(model, inputs))
        rows = torch.arange(3)
        for at in range(4):
            if at == 2:
                rows = torch.tensor([1, 1, 0])
                decoding.select(rows)
            piece = {key: value[rows] for key, value in checks.piece(model, inputs, at, at + 1).items()}
            close(joined(model.step(decoding=decoding, **piece)), whole[rows, at : at + 1])


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_silent_branches_leave_what_the_text_predicts(name: str) -> None:
    skip_unless(name, "decoder")
    if not checks.gain(made(small(name, "decoder"), randomly=False)):
        pytest.skip("the text does not predict all of it")


@pytest.mark.slow
def test_what_is_no_decoder_says_why() -> None:
    reasons = refused("decoder")
    assert all("cannot be a decoder" in why and "\n" in why for why in reasons.values())
    assert len(decoders()) >= 99, sorted(reasons)


WHOLE = ["vaswani", "vaswani-big", "vaswani-pre", "bart", "pegasus", "t5", "t5v11", "translator"]
"""Whole models whose decoder is wired as their encoder is."""


@pytest.mark.parametrize("name", WHOLE)
def test_the_encoder_of_a_whole_model_makes_the_whole_model(name: str) -> None:
    text = gallery.load(name)
    encoder = text.stacks[0]

    def over_tokens(source: Source | None) -> Source | None:
        return None if source is None else Source(source.name, source.text.replace("source", "tokens"))

    alone = StackText("", before=over_tokens(encoder.before), layers=encoder.layers, after=encoder.after)
    one = ModelText(**{**vars(text), "stacks": (alone,)})
    assert formula_hash(reduced(as_encoder_decoder(one, vocabulary()))) == formula_hash(reduced(text))


def tables(architecture: Architecture) -> set[str]:
    """Where the tables of words live."""
    return {v.call.path for s in architecture.sections() for v in s.calls() if v.call and v.call.word.family == "table"}


@pytest.mark.parametrize("name", ["pre-norm", "post-norm", "gemma3", "albert"])
def test_one_table_of_words(name: str) -> None:
    try:
        made = as_encoder_decoder(gallery.load(name), vocabulary())
    except TransformulaError as error:
        assert name == "albert" and "types" in str(error)
        return
    assert tables(reduced(made)) == {"words"}


@pytest.mark.parametrize("name", ["deepnorm", "gpt2", "sub-ln", "t-fixup"])
def test_initial_values_of_the_new_attention_are_those_of_the_old(name: str) -> None:
    model = made(small(name, "decoder"), randomly=False)
    rules = read_rules(model, model.architecture)
    new = {key: value for key, value in rules.items() if ".cross_" in key}
    assert new and new == {key: rules[key.replace("cross_", "")] for key in new}
    assert sum("attention" in key and key.startswith("decoder") for key in rules) == 2 * len(new)

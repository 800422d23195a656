"""Every entry of one stack is an encoder, too, or says why not: it sees both sides, and padding changes nothing.

At length 1 there is nothing to see but the position itself: with the same weights an encoder gives what its causal text
gives there.
"""

from __future__ import annotations

import pytest
import torch

from tests.invariants import checks
from tests.invariants.families import encoders, given, made, refused, skip_unless, small, text_of, words_of
from tests.invariants.harness import close, every_day, outputs, reduced
from transformula import gallery
from transformula.analysis.canonical import formula_hash
from transformula.language.model_file import read_text
from transformula.language.model_writing import write_text

LOOKING_BACK = {"lstm", "gru", "rnn", "shift"}
"""Words that go from left to right in any stack."""

ATTEND = {"attention", "dot_attention", "linear_attention"}


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_an_encoder(name: str) -> None:
    skip_unless(name, "encoder")
    architecture = small(name, "encoder")
    assert not architecture.main.causal
    assert formula_hash(reduced(text_of(name, "encoder"), architecture.main.depth)) == formula_hash(architecture)
    model = made(architecture)
    inputs = given(model)
    checks.rows_alone(model, inputs)
    if "source" in inputs:
        checks.padding(model, inputs)
        padding_unread(model, inputs)
        sees_both_sides(name, model, inputs)


def padding_unread(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> None:
    """What lies in the padding changes nothing that is real."""
    source, lengths = inputs["source"], torch.tensor(checks.LENGTHS["source"])
    real = torch.arange(source.shape[1]) < lengths[:, None]
    other = torch.where(real, source, (source + 5) % 19)
    with torch.no_grad():
        pairs = [outputs(model(source=ids, lengths={"source": lengths})) for ids in (source, other)]
        for one, two in zip(*pairs, strict=True):
            close(*(made[real] if made.shape[1] == source.shape[1] else made for made in (one, two)))


def sees_both_sides(name: str, model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> None:
    """The first position is read by those after it; the last by those before it, where anything attends."""
    words = set().union(*map(words_of, model.architecture.main.layers))
    one = inputs["source"]
    with torch.no_grad():
        before = outputs(model(**inputs))
        for changed, near in ((0, 1), (-1, -2)):
            other = one.clone()
            other[:, changed] = (other[:, changed] + 7) % 19
            for a, b in zip(before, outputs(model(**{**inputs, "source": other})), strict=True):
                if a.shape[1] == one.shape[1] and (changed == 0 or not words & LOOKING_BACK or words & ATTEND):
                    assert ((a - b)[:, near].abs().amax(-1) > 1e-9).all(), f"position {changed} is read beside it"


@pytest.mark.parametrize("name", every_day(n for n in gallery.names() if gallery.load(n).stacks[0].causal))
def test_of_one_position_it_is_its_causal_text(name: str) -> None:
    skip_unless(name, "encoder")
    architecture = small(name, "encoder")
    if any(words_of(section) & {"conv", "batchnorm"} for section in architecture.sections()):
        pytest.skip("a convolution stands with its middle, not its end, on the position")
    encoder = made(architecture)
    causal = made(reduced(gallery.load(name), architecture.main.depth))
    causal.load_state_dict(encoder.state_dict())
    one = given(encoder)["source"][:, :1]
    with torch.no_grad():
        close(encoder(source=one), causal(tokens=one))


@pytest.mark.slow
def test_what_is_no_encoder_says_why() -> None:
    reasons = refused("encoder")
    assert all("cannot be an encoder" in why and "\n" in why for why in reasons.values())
    assert len(encoders()) >= 108, sorted(reasons)


@pytest.mark.parametrize("name", [n for n in gallery.names() if not gallery.load(n).stacks[0].causal])
def test_an_encoder_is_kept(name: str) -> None:
    """Of a text that sees all already nothing but the input's name changes."""
    skip_unless(name, "encoder")
    text = write_text(text_of(name, "encoder"))
    again = reduced(read_text(text.replace("(source", "(tokens")), 2)
    assert formula_hash(again) == formula_hash(reduced(gallery.load(name), 2))

"""Texts that nobody read from a folder: which family they equal, and with which constants."""

from __future__ import annotations

import pytest

from transformula.errors import CheckpointError
from transformula.interop.named.config import config_of
from transformula.interop.named.entries import named_model, put_outside
from transformula.interop.named.matching import Match, match
from transformula.interop.named.outside import add_family
from transformula.interop.named.text import text_of
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.words import vocabulary

VIT = """
language: 1
name: mine
causal: false
depth: 2
width: 32
heads: 4
before: |
  p = prepend(learned(1), patches(image, 4))
  x = p + positions(p, rows=ROWS)
layer: |
  x = x + attention(norm(x))
  x = x + mlp(norm(x))
after: x = norm(x)
output: logits = linear(pick(x, 1), 10)
"""
GPT2 = """
language: 1
name: mine
width: 16 * turns
heads: 2
turns: 2
depth: 7 * turns
layer: |
  x = x + attention(norm(x))
  x = x + mlp(norm(x))
after: x = norm(x)
output: logits = unembed.words(x)
"""


def found(text: str) -> Match:
    return match(check(read_text(text), vocabulary()))


def test_a_size_is_whole() -> None:
    """The side of a picture stands in the text only as the number of its squares."""
    matched = found(VIT.replace("ROWS", "65"))
    config = config_of(matched.model, matched.constants)
    assert matched.model.name == "vit"
    assert (config["image_size"], config["patch_size"], config["layer_norm_eps"]) == (32, 4, 1e-5)


def test_a_size_that_none_has_is_refused_with_its_place() -> None:
    with pytest.raises(CheckpointError, match=r"(?s)the nearest is vit, which differs in:.*rows=69"):
        found(VIT.replace("ROWS", "69"))


def test_a_depth_that_other_numbers_say() -> None:
    matched = found(GPT2)
    assert (matched.model.name, matched.constants["depth"], matched.constants["width"]) == ("gpt2", 14, 32)


def test_a_deep_text_with_a_history_is_compared_as_it_is() -> None:
    with pytest.raises(CheckpointError, match=r"(?s)the nearest is gpt2, which differs in:.*x\[13\]"):
        found(GPT2.replace("unembed.words(x)", "unembed.words(x + x[13])"))


FAMILY = """
like: gpt2
name: mine
folder:
  model_type: mine
  architectures: [MineForCausalLM]
  config: {kind: kind = "plain"}
  must: {depth < 3: expected a shallow one}
"""


def test_what_would_be_refused_where_it_is_read_is_not_written() -> None:
    """A constant that is a name without a table is that of the default."""
    text = GPT2.replace("7 * turns", "turns")
    try:
        add_family(FAMILY)
        matched = found(text)
        assert (matched.model.name, matched.constants["kind"]) == ("mine", "plain")
        with pytest.raises(CheckpointError, match="it would be mine with depth is 4; expected a shallow one"):
            match(check(read_text(text.replace("depth: turns", "depth: 2 * turns")), vocabulary()), [matched.model])
    finally:
        put_outside("mine", None)


def test_lines_on_one_row_are_two() -> None:
    """Each line of a formula stands once in the text, also where a data file has several of them on a row."""
    rows = "x = x + attention(norm(x), dropout=dropout); x = x + mlp(norm(x), hidden=hidden, activation=act)"
    try:
        add_family(FAMILY.replace("name: mine\n", f'name: mine\nlayer: "{rows}"\n'))
        text = text_of(named_model("mine"), {**found(GPT2.replace("7 * turns", "2")).constants, "kind": "plain"})
    finally:
        put_outside("mine", None)
    assert text.count("x + attention(") == text.count("x + mlp(") == 1


STAGE = """
{name}:
  causal: false
  depth: 1
  width: 8
  before: x = {before}
  layer: x = x + mlp(norm(x))
"""


def test_four_stages_of_ones_own_are_told_what_differs() -> None:
    """Among the families with stages some state a size by others, which this text does not name."""
    before = {"one": "patches(image, 4)", "two": "norm(one)", "three": "norm(two)", "four": "norm(three)"}
    stages = "".join(STAGE.format(name=name, before=text) for name, text in before.items())
    with pytest.raises(CheckpointError, match="the nearest is"):
        found(f"language: 1\nname: mine{stages}output: logits = linear(mean(four), 5)\n")

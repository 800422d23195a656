"""A model file that is written reads as the same model, whatever stands in its texts, or is refused before anything."""

import dataclasses
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transformula import Model, train
from transformula.errors import InputError, TransformulaError
from transformula.language.model_file import read_text
from transformula.language.model_text import ModelText, StackText, from_formula
from transformula.language.model_writing import content_of, write_text
from transformula.language.source import Source

LAYER = Source("layer", "x = x + mlp(norm(x))")
STRANGE = [
    "see: paper", "#", " # ", "- a", "?", "<<", "*a", "&a", "!!int 1", "%YAML", "---", "...", "'", '"', "\\", "[", "{a",
    "\0", "\x07", "\x1b[31m", "\x7f", "\x85", "\u2028", "\ufeff", "\U0001f600", "\r", "\r\n", "\t", "a\nb", "\n",
    " a", "a ", "yes", "~", "1:30", "0x1f", "1_0", "", "= ", "a" * 300, "layer", "reach",
]  # fmt: skip
TEXT = st.sampled_from(STRANGE) | st.text() | st.lists(st.sampled_from(STRANGE), max_size=4).map("".join)
ANY = st.text(st.characters())
"""Half characters too."""
TEXTS = st.dictionaries(TEXT, TEXT, max_size=3)


def as_file(content: object) -> str:
    """A model file as another program may write it: every sign escaped that is not ASCII."""
    return yaml.safe_dump(content, allow_unicode=False, sort_keys=False)


def same(one: ModelText, two: ModelText) -> bool:
    return content_of(one) == content_of(two) and write_text(one) == write_text(two)


@settings(max_examples=150, deadline=None)
@given(about=TEXTS, inputs=TEXTS, name=TEXT, words=TEXTS, layers=TEXTS, init=TEXTS, texts=st.tuples(TEXT, TEXT, TEXT))
@example({"note: see": "paper"}, {}, "", {}, {}, {}, ("x = x", "x = x", "layer"))
@example({}, {}, "", {}, {"a: b": "x = x"}, {}, ("x = x", "x = x", "layer"))
def test_what_is_read_is_written_and_read_again(about, inputs, name, words, layers, init, texts) -> None:
    before, after, order = texts
    content = {"name": name, "about": about, "inputs": inputs, "words": words, "init": init, "before": before,
               "after": after, "order": [order, order], "layers": layers}  # fmt: skip
    try:
        text = read_text(as_file(content))
    except TransformulaError:
        return  # half a character, or a text that no file has
    again = read_text(write_text(text))
    assert same(again, text)
    assert (again.name, again.about, again.inputs) == (text.name, text.about, text.inputs)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(TEXT, st.tuples(TEXT, TEXT), min_size=1, max_size=3))
@example({"#": ("0", "\x850\n0")})
@example({"a": ("x = 1\u2028\nx", "x = x\r\n")})
def test_stacks_of_any_name_come_back(stacks) -> None:
    content = {name: {"before": before, "layer": layer} for name, (before, layer) in stacks.items()}
    try:
        text = read_text(as_file(content))
    except TransformulaError:
        return  # a stack that has the name of a key
    assert same(read_text(write_text(text)), text)


@settings(max_examples=50, deadline=None)
@given(about=st.dictionaries(ANY, ANY, max_size=2), name=ANY, stack=TEXT)
def test_what_a_program_makes_is_written_whole_or_refused(about, name, stack) -> None:
    text = ModelText(name=name, about=about, stacks=(StackText(stack, layers={"layer": LAYER}),))
    try:
        written = write_text(text)
    except InputError as error:
        assert "would not come back" in str(error)
    else:
        assert same(read_text(written), text)


@pytest.mark.parametrize("key", ["note: see", "a #b", "[", "\x07", "'"])
def test_a_model_in_a_folder_is_read_again(key: str, tmp_path: Path) -> None:
    content = {"about": {key: "paper"}, "layers": {key: LAYER.text}, "order": [key], "depth": 1, "width": 8, "heads": 1}
    (tmp_path / "model.yaml").write_text(as_file(content))
    model = Model(tmp_path / "model.yaml")
    model.save(tmp_path / "saved")
    again = Model.from_folder(tmp_path / "saved")
    assert again.architecture.text.about == {key: "paper"} and again.text == model.text


def test_what_would_not_come_back_is_refused_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("some text to learn from " * 30)
    text = dataclasses.replace(from_formula("x = x + mlp(norm(x))"), name="a\ud800")
    model = Model(text, depth=1, width=8, heads=1)
    run = {
        "data": str(tmp_path / "data.txt"),
        "tokenizer": "bytes",
        "precision": "float32",
        "out": str(tmp_path / "run"),
    }
    with pytest.raises(InputError, match="'name' would not come back"):
        train(model, steps=1, **run)
    assert not (tmp_path / "run").exists()

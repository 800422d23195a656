"""The vocabulary: read without torch, widened from outside, complete."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transformula.errors import InputError
from transformula.language.vocabulary import Vocabulary
from transformula.words import vocabulary
from transformula.words.word import CLASSES, Word, select_rows, word, word_class

LANGUAGE = """embed unembed positions sinusoids patches learned prepend spell ngrams attention dot_attention rotary
relative relative_bias dot_scores sum_heads conv shift rnn gru lstm linear_attention running_sum mean
maxpool pick linear mlp lowrank experts part slice join repeat dot channel_mean pad ones norm layernorm
rmsnorm batchnorm scalenorm l2norm dyt relu gelu gelu_tanh quick_gelu elu silu tanh sigmoid sin cos clamp
topk min max softplus softmax exp log sqrt abs dropout droppath pointer transitions scalar vector gate
gru_gate mix attend expand read write collapse frames logmel groupnorm scan selective_scan arange delta
space_to_depth masked_scatter attention_weights channel_max conv2d dynamic_conv fourier indicator
depth_to_space upsample grid_distances grid_scores window_attention
mix_heads pool2d running_max stop_gradient tail values weighted_sum where""".split()

OUTSIDE = """
from transformula.words.word import Word, word

@word("{name}", streams=("x",), kind="function", width="x", equation="y = 2 x")
class Double(Word):
    def forward(self, x):
        return 2 * x
"""


def test_every_word_of_the_language_has_a_record() -> None:
    assert sorted(LANGUAGE) == sorted(name for name, r in vocabulary().items() if r.module.startswith("transformula."))


def test_reading_the_records_imports_no_torch() -> None:
    code = "import sys, transformula.words as w; assert len(w.vocabulary()) > 50; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_built_word_has_its_class_and_the_others_say_so() -> None:
    for name, record in vocabulary().items():
        if record.built:
            assert word_class(record).record == record
        else:
            with pytest.raises(InputError, match=f"{name}.*not built yet"):
                word_class(record)


def test_every_word_states_its_equation_and_its_options_their_help() -> None:
    for record in vocabulary().values():
        if record.module.startswith("transformula."):
            assert record.equation, record.name
            assert all(option.help for option in record.options.values()), record.name
            assert record.doc, record.name


def test_a_class_registered_by_import_is_in_the_vocabulary() -> None:
    try:

        @word("doubled_here", streams=("x",), kind="function", width="x", equation="y = 2 x")
        class Doubled(Word):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return 2 * x

        record = vocabulary()["doubled_here"]
        assert word_class(record) is Doubled
        assert torch.equal(Doubled()(torch.ones(2)), torch.full((2,), 2.0))
        with pytest.raises(InputError, match="two words are called 'doubled_here'"):
            word("doubled_here", streams=("x",), kind="function")(type("Other", (Word,), {"__module__": "elsewhere"}))
    finally:
        CLASSES.pop("doubled_here", None)


def test_words_of_a_package_are_read_from_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "words_from_outside"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "double.py").write_text(OUTSIDE.format(name="double_of_package"))
    (tmp_path / "one_file_of_words.py").write_text(OUTSIDE.format(name="double_of_file"))
    (tmp_path / "clash_of_words.py").write_text(OUTSIDE.format(name="mlp"))
    (tmp_path / "no_words_here.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        wide = vocabulary("words_from_outside", "one_file_of_words")
        assert wide["double_of_package"].module == "words_from_outside.double"
        made = word_class(wide["double_of_file"])
        assert torch.equal(made()(torch.ones(1)), torch.full((1,), 2.0))
        assert vocabulary("one_file_of_words")["double_of_file"] == made.record  # registered and read: the same
    finally:
        CLASSES.pop("double_of_file", None)
    with pytest.raises(InputError, match="two words are called 'mlp'"):
        vocabulary("clash_of_words")
    with pytest.raises(InputError, match="no module such|no such module"):
        vocabulary("nowhere_to_be_found")
    with pytest.raises(InputError, match="none of its files"):
        vocabulary("no_words_here")


def test_two_words_of_one_name_are_an_error() -> None:
    record = vocabulary()["mlp"]
    other = dataclasses.replace(record, module="elsewhere")
    with pytest.raises(InputError, match="two words are called 'mlp'"):
        Vocabulary([record, other])


def test_rows_of_a_state_are_selected_wherever_tensors_lie() -> None:
    class State:
        def __init__(self) -> None:
            self.keys = torch.arange(3)
            self.inside = [torch.arange(3) * 10, None]
            self.capacity = 7

    state = select_rows(State(), torch.tensor([2, 2, 0]))
    assert state.keys.tolist() == [2, 2, 0] and state.inside[0].tolist() == [20, 20, 0] and state.capacity == 7

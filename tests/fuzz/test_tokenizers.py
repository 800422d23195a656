"""Files of tokenizers, damaged or from elsewhere: refused, or every text comes back as it was."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import harness
from tests.fuzz.mutate import as_json, changed, damaged
from transformula.errors import InputError
from transformula.tokenizers.base import FILE, load, tokenizers

LEARNED = ["the cat and the dog", "Über naïve 東京 \N{GRINNING FACE}\n\n\tx = 12", "<|endoftext|> of it"] * 5
SIGNS = [
    "a", "the", " ", "  ", "\n", "\t", "\r\n", "\0", "é", "e\u0301", "東", "\U0001f600", "\ud800", "\u200b", "\ufeff",
    "<|endoftext|>", "</s>", "Ġ", "İ", "12", "'s", "THE",
]  # fmt: skip
PARTS: list[dict[str, Any]] = [
    {"type": "Lowercase"},
    {"type": "NFKC"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "StripAccents"},
    {"type": "Replace", "pattern": {"String": "a"}, "content": ""},
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Whitespace"},
    {"type": "WhitespaceSplit"},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    {"type": "Digits", "individual_digits": True},
    {"type": "Punctuation", "behavior": "Removed"},
    {"type": "BertPreTokenizer"},
    {"type": "Split", "pattern": {"Regex": " ?\\w+|."}, "behavior": "Isolated", "invert": False},
    {"type": "Split", "pattern": {"String": "a"}, "behavior": "Removed", "invert": False},
    {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": True},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
]
"""Normalizers and pre-tokenizers of the library."""


@cache
def states() -> list[dict[str, Any]]:
    return [tokenizers.get(kind).train(LEARNED, 300).state() for kind in ("bpe", "unigram", "characters", "bytes")]


def other_parts(draw: random.Random, state: dict[str, Any]) -> dict[str, Any]:
    """The file with other parts of the library, most of which no tokenizer of ours has."""
    cuts = draw.sample(PARTS, 2)
    token = {"id": draw.choice([0, 5, 300, 301]), "content": draw.choice(SIGNS), "single_word": draw.random() < 0.2,
             "lstrip": draw.random() < 0.3, "rstrip": draw.random() < 0.3, "normalized": False,
             "special": draw.random() < 0.5}  # fmt: skip
    choices: list[dict[str, Any]] = [
        {"normalizer": draw.choice(PARTS)},
        {"normalizer": {"type": "Sequence", "normalizers": draw.sample(PARTS, draw.randrange(2))}},
        {"pre_tokenizer": cuts[0]},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [cuts[0], PARTS[-1]]}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": cuts}},
        {"added_tokens": [*state.get("added_tokens", []), token]},
        {"model": {**state.get("model", {}), "dropout": draw.choice([0.5, 1.0, 0])}},
        {"model": {**state.get("model", {}), "end_of_word_suffix": "</w>"}},
        {"model": {**state.get("model", {}), "byte_fallback": True, "unk_token": "a", "ignore_merges": True}},
    ]
    return {**state, **draw.choice(choices)}


def draw_case(draw: random.Random) -> tuple[bytes, list[str]]:
    state = draw.choice(states())
    kind = draw.randrange(4)
    if kind == 0:
        content = damaged(draw, as_json(state))
    elif kind == 1:
        content = as_json(changed(draw, state, draw.choice([1, 1, 3])))
    elif kind == 2:
        content = as_json(other_parts(draw, state))
    else:
        content = as_json(state)
    texts = ["".join(draw.choices(SIGNS, k=draw.randrange(12))) for _ in range(3)]
    return content, [*texts, chr(draw.randrange(0x110000))]


def use(folder: Path, case: tuple[bytes, list[str]]) -> None:
    content, texts = case
    (folder / FILE).write_bytes(content)
    tokenizer = load(folder)
    for text in texts:
        try:
            ids = tokenizer.encode(text)
        except InputError:
            assert tokenizer.kind == "characters" or not text.isascii()
            continue
        assert tokenizer.decode(ids) == text, (tokenizer, text)
        assert all(0 <= i < tokenizer.vocab for i in ids) and tokenizer.end_of_document not in ids
    tokenizer.save(folder)
    assert load(folder).identity == tokenizer.identity


@pytest.mark.parametrize("cases", harness.portions())
def test_files_of_tokenizers(cases: range, tmp_path: Path) -> None:
    harness.check("tokenizers", cases, draw_case, lambda case: use(tmp_path, case))

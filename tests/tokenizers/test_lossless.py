"""Files of the library that lose something of a text are refused by the name of the part; all others are read."""

import json
from pathlib import Path
from typing import Any

import pytest

from transformula.errors import CheckpointError, InputError
from transformula.tokenizers.base import FILE, Tokenizer, load, tokenizers
from transformula.tokenizers.byte_level import library_errors

TEXT = "The CAT's  naïve 東京\n\n  x = 12345 </s> <|endoftext|>\t"
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
DIGITS = {"type": "Digits", "individual_digits": True}
WORDS = {"type": "Split", "pattern": {"Regex": " ?\\w+|\\s+|."}, "behavior": "Isolated", "invert": False}


def state(kind: str = "bpe", **other: Any) -> dict[str, Any]:
    learned = tokenizers.get(kind).train(["the cat and the dog"] * 9, 300).state()
    model = {**learned["model"], **other.pop("model", {})}
    return {**learned, **other, "model": model}


def sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(parts)}


def added(content: str, i: int = 900, **other: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": i, "content": content, **flags, **other}


def opened(folder: Path, content: dict[str, Any]) -> Tokenizer:
    (folder / FILE).write_text(json.dumps(content))
    return load(folder)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"normalizer": {"type": "Lowercase"}}, "normalizer Lowercase changes texts"),
        ({"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}, "normalizer Strip changes"),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]}}, "normalizer NFC changes"),
        ({"pre_tokenizer": {**BYTE_LEVEL, "add_prefix_space": True}}, "adds a space"),
        ({"pre_tokenizer": sequence({**WORDS, "behavior": "Removed"}, BYTE_LEVEL)}, "Split removes"),
        ({"pre_tokenizer": sequence({"type": "Whitespace"}, BYTE_LEVEL)}, "Whitespace is"),
        ({"pre_tokenizer": sequence(BYTE_LEVEL, BYTE_LEVEL)}, "no one pre-tokenizer"),
        ({"pre_tokenizer": None}, "no one pre-tokenizer ByteLevel"),
        ({"model": {"dropout": 0.1}}, "dropout cuts words by chance"),
        ({"model": {"end_of_word_suffix": "</w>"}}, "end_of_word_suffix '</w>'"),
        ({"added_tokens": [added("cat", lstrip=True)]}, "'cat' takes the blanks"),
    ],
)
def test_parts_that_lose_something_are_named(kind: str, other: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"{FILE}: .*{said}.*train one on the text"):
        opened(tmp_path, state(kind, **other))


@pytest.mark.parametrize(
    "other",
    [
        {"pre_tokenizer": sequence(WORDS, DIGITS, BYTE_LEVEL)},
        {"normalizer": {"type": "Sequence", "normalizers": []}},
        {"added_tokens": [added("  "), added("\n\n", 901), added("</s>", 902, special=True)]},
    ],
)
def test_files_of_others_that_keep_all_are_read(other: dict[str, Any], tmp_path: Path) -> None:
    first = state()
    ids = len(first["model"]["vocab"])
    for place, token in enumerate(other.get("added_tokens", [])):
        token["id"] = ids + place
    tokenizer = opened(tmp_path, {**first, **other})
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    for token in other.get("added_tokens", []):
        assert (token["id"] in tokenizer.encode(TEXT)) is not token["special"]


def test_a_special_token_that_a_text_may_spell_is_refused(tmp_path: Path) -> None:
    first = state()
    merged = first["model"]["merges"][0]
    name = "".join(merged)
    token = added(name, first["model"]["vocab"][name], special=True)
    with pytest.raises(CheckpointError, match="does not come back as it was"):
        opened(tmp_path, {**first, "added_tokens": [token]})


def test_panics_of_the_library_are_errors_of_ours() -> None:
    class PanicException(BaseException):
        """As pyo3 makes it: no Exception."""

    with pytest.raises(ValueError, match="panics: index out of bounds"), library_errors():
        raise PanicException("index out of bounds")
    with pytest.raises(KeyboardInterrupt), library_errors():
        raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["bpe", "bytes", "characters"])
def test_half_characters_are_refused_with_their_place(kind: str) -> None:
    with pytest.raises(InputError, match=r"U\+D800"):
        tokenizers.get(kind).train(["abc"] * 9).encode("ab\ud800")

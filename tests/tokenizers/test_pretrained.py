"""Tokenizers of model folders that others made: ids, text and pairs are those of transformers for the same folder."""

import json
import pickle
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tokenizers.published_folders import FAMILIES, TEXT, write_folder
from transformula.errors import CheckpointError, InputError
from transformula.tokenizers import byte_level
from transformula.tokenizers.base import FILE, load
from transformula.tokenizers.pretrained import Pretrained

NASTY = [
    "", " ", "  two  blanks ", "\t\n\r\n", "Hello world.", "We'll  isn't  'quoted' , !", "ÜBER naïve café Straße",
    "東京は雨です。中文", "Дождь идёт", "עברית العربية हिन्दी ไทย", "e\u0301 \u00a0 \u3000", "ｆｕｌｌ",
    "\N{GRINNING FACE}\N{WOMAN}\u200d\N{PERSONAL COMPUTER}", "\0\x07\x7f\ufeff\u200b", "12345 67,890.12", "x" * 50,
    "<0x0A>", "\u2581under \u2581", "\ufffd", "def f(x):\n    return x\n\n\tif x: y", *TEXT[:4],
]  # fmt: skip
SPELLED = "</s> <s> [CLS] [MASK]<mask> <|endoftext|><|eot_id|><think> <unk>"  # what texts of data may well hold


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def written(name: str) -> Path:
        return write_folder(name, tmp_path_factory.mktemp(name))

    return written


@cache
def theirs(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def opened(folder: Path) -> Pretrained:
    tokenizer = load(folder)
    assert isinstance(tokenizer, Pretrained)
    return tokenizer


families = pytest.mark.parametrize("name", FAMILIES)


@families
def test_ids_and_texts_are_those_of_transformers(name: str, folder: Any) -> None:
    other, ours = theirs(folder(name)), opened(folder(name))
    for text in [*NASTY, SPELLED]:
        ids = other(text)["input_ids"]
        assert ours.encode_special(text) == ids
        assert ours.encode_special(text, template=False) == other(text, add_special_tokens=False)["input_ids"]
        assert ours.decode(ids) == other.decode(ids, skip_special_tokens=True)
    for text, ids in zip(NASTY, ours.encode_many(NASTY), strict=True):
        assert ids.tolist() == other(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        assert ours.encode(text) == ids.tolist()
    assert ours.vocab == len(other)


@families
def test_texts_and_pairs_stand_in_the_template(name: str, folder: Any) -> None:
    other, ours = theirs(folder(name)), opened(folder(name))
    parts = [np.array(ours.encode(text)) for text in ("Two dogs.", "isn't it 東京")]
    for count in (1, 2):
        ids, types = ours.marks.row(count).around(parts[:count])
        expected = other(*("Two dogs.", "isn't it 東京")[:count], return_token_type_ids=True)
        assert ids.tolist() == expected["input_ids"] and types.tolist() == expected["token_type_ids"]
        assert ours.marks.row(count).size == other.num_special_tokens_to_add(count == 2)
    three, _ = ours.marks.row(3).around([*parts, parts[0]])
    two, _ = ours.marks.row(2).around(parts)
    assert len(three) - len(two) == len(parts[0]) + len(ours.marks.row(2).ids[1])
    assert opened(folder(name)).prompt("Two") == [*ours.marks.row(1).ids[0][:, 0], *ours.encode("Two")]


@families
def test_no_text_of_data_becomes_a_special_token(name: str, folder: Any) -> None:
    """Not even one whose name the model knows as a word, as a unigram model does."""
    ours = opened(folder(name))
    special = {i for i, token in ours._backend.get_added_tokens_decoder().items() if token.special} - {ours.unknown}
    assert special
    for text in (SPELLED, "a</s>b<sep>", "＜／ｓ＞ [SEP]", *theirs(folder(name)).all_special_tokens):
        assert special.isdisjoint(ours.encode(text))
    assert not special.isdisjoint(ours.encode_special(" ".join(theirs(folder(name)).all_special_tokens), False))


@families
def test_a_stream_gives_the_text_of_the_whole(name: str, folder: Any) -> None:
    ours, chance = opened(folder(name)), random.Random(1)
    known = [i for text in [*NASTY, SPELLED] for i in ours.encode_special(text)]
    for length in (1, 2, 5, 30, 400):
        for ids in (chance.choices(known, k=length), [chance.randrange(ours.vocab + 3) for _ in range(length)]):
            stream = ours.stream()
            assert "".join(map(stream.push, ids)) + stream.finish() == ours.decode(ids)
    stream = ours.stream()
    shown = [stream.push(i) for i in ours.encode("the cat and the dog and the bird")]
    assert "".join(shown[:-4]).startswith("the c")  # it does not wait for the end
    stream.finish()
    assert stream.push(*ours.encode("the cat")) + stream.finish() == ours.decode(ours.encode("the cat"))


@families
def test_a_stream_gives_what_stands_behind_other_ids(name: str, folder: Any) -> None:
    ours, chance = opened(folder(name)), random.Random(1)
    for text in [*NASTY, *TEXT, "the cat" * 40, "\N{SNOWMAN}\N{GRINNING FACE}" * 9]:
        ids = ours.encode_special(text)
        for cut in sorted(chance.sample(range(len(ids) + 1), k=min(len(ids), 8))):
            before = ours.decode(ids[:cut])
            if before.endswith("\ufffd") or not ours.decode(ids).startswith(before):
                continue  # a character is cut, or a blank before a sign is taken away
            stream = ours.stream(ids[:cut])
            for _ in range(2):  # it can be used again
                pushed = [stream.push(i) for i in ids[cut:]]
                assert before + "".join(pushed) + stream.finish() == ours.decode(ids)


@families
def test_saved_and_loaded_is_the_same_to_us_and_to_transformers(name: str, folder: Any, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    ours = opened(folder(name))
    assert ours.save(tmp_path / "new") == tmp_path / "new" / FILE
    again, other = opened(tmp_path / "new"), AutoTokenizer.from_pretrained(tmp_path / "new")
    assert again.identity == ours.identity == pickle.loads(pickle.dumps(ours)).identity
    assert (again.ends, again.marks.opening, again.marks.between) == (ours.ends, ours.marks.opening, ours.marks.between)
    for text in (*NASTY[:8], SPELLED):
        assert other(text)["input_ids"] == again.encode_special(text) == ours.encode_special(text)


@families
def test_pieces_and_places(name: str, folder: Any) -> None:
    ours, text = opened(folder(name)), "the cat and the dog isn't there"
    ids, starts, ends = ours.spans(text)
    assert ids.tolist() == ours.encode(text) and len(ours.pieces) == ours.vocab
    each = [ours.pieces[i].decode() for i in ids]
    places = [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    assert all(one.strip() in (place, "") for one, place in zip(each, places, strict=True))  # "": a blank put before
    assert "".join(each).replace(" ", "") == text.replace(" ", "")
    assert all(not ours.pieces[i] for i in (*ours.marks.opening, *ours.marks.closing))
    starred = ours.spans("a </s>[SEP] b")
    assert starred.ids.tolist() == ours.encode("a </s>[SEP] b") and (np.diff(starred.starts) >= 0).all()


@families
def test_parts_of_a_long_text_get_the_ids_of_the_whole(name: str, folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(TEXT) + "\n".join(NASTY[2:12])
    whole = opened(folder(name)).encode(text)
    monkeypatch.setattr(byte_level, "PART", 50)
    ours = opened(folder(name))
    assert ours.encode(text) == whole
    assert ours._cut[0] is not None and ours._cut[1] == (name != "llama2")  # which puts a blank before each text
    assert len(list(byte_level.parts_of([text], cut=ours._cut[0], blank=ours._cut[1]))) > 5
    pieces = (text[start : start + 33] for start in range(0, len(text), 33))
    assert np.concatenate(list(ours.encode_pieces(pieces))).tolist() == whole


@pytest.mark.parametrize(
    ("name", "opening", "between"),
    [("gpt2", "<|endoftext|>", "<|endoftext|>"), ("bert", "[CLS]", "[SEP][CLS]"), ("llama2", "<s>", "</s><s>"),
     ("t5", "</s>", "</s>"), ("llama3", "<|begin_of_text|>", "<|eot_id|><|begin_of_text|>")],
)  # fmt: skip
def test_documents_stand_as_in_pre_training(name: str, opening: str, between: str, folder: Any) -> None:
    ours = opened(folder(name))
    assert list(ours.marks.opening) == ours.encode_special(opening, template=False)
    assert list(ours.marks.between) == ours.encode_special(between, template=False)


def test_several_ids_end_a_text(folder: Any, tmp_path: Path) -> None:
    shutil.copytree(folder("llama3"), tmp_path, dirs_exist_ok=True)
    assert opened(tmp_path).ends == {402}
    (tmp_path / "config.json").write_text('{"eos_token_id": [401, 402]}')
    assert opened(tmp_path).ends == {401, 402}
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 401, "temperature": 0.6}')
    ours = opened(tmp_path)
    assert ours.ends == {401, 402} and ours.end_of_document == 402
    ours.save(tmp_path / "new")
    assert json.loads((tmp_path / "new" / "generation_config.json").read_text())["temperature"] == 0.6
    assert opened(tmp_path / "new").ends == {401, 402}


def test_ids_beyond_the_tokenizer_are_no_text(folder: Any) -> None:
    ours = opened(folder("gpt2"))
    assert ours.decode([*ours.encode("the cat"), ours.vocab + 9]) == "the cat"
    assert ours.fits(ours.vocab) and ours.fits(512) and not ours.fits(ours.vocab - 1) and not ours.fits(None)
    with pytest.raises(InputError, match="-1 is not in this tokenizer"):
        ours.decode([-1])
    with pytest.raises(InputError, match=r"U\+D800"):
        ours.encode("ab\ud800")


def older(folder: Path, name: str, stated: str) -> None:
    """Leave of a folder what was published before there was a tokenizer.json."""
    model = json.loads((folder / FILE).read_text())["model"]
    for path in folder.iterdir():
        path.unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": stated}))
    if name == "bert":
        (folder / "vocab.txt").write_text(
            "".join(f"{word}\n" for word in sorted(model["vocab"], key=model["vocab"].get))
        )
        return
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = "".join(f"{' '.join(pair)}\n" for pair in model["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}")


@pytest.mark.parametrize(
    ("name", "stated"), [("bert", "BertTokenizer"), ("gpt2", "GPT2Tokenizer"), ("roberta", "RobertaTokenizerFast")]
)
def test_older_files_are_converted(name: str, stated: str, folder: Any, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    shutil.copytree(folder(name), tmp_path, dirs_exist_ok=True)
    older(tmp_path, name, stated)
    other, ours = AutoTokenizer.from_pretrained(tmp_path), opened(tmp_path)
    for text in (*NASTY, SPELLED):
        assert ours.encode_special(text) == other(text)["input_ids"]
    assert ours.decode(ours.encode("the cat, isn't it?")) == other.decode(ours.encode("the cat, isn't it?"))
    assert (ours.ends, ours.mask) == (opened(folder(name)).ends, other.mask_token_id)
    ours.save(tmp_path / "new")
    assert opened(tmp_path / "new").identity == ours.identity


def test_a_token_that_only_older_files_name_is_added(folder: Any, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    shutil.copytree(folder("gpt2"), tmp_path, dirs_exist_ok=True)
    (tmp_path / "special_tokens_map.json").write_text('{"pad_token": {"content": "<pad>", "lstrip": true}}')
    other, ours = AutoTokenizer.from_pretrained(tmp_path), opened(tmp_path)
    assert ours.encode_special("a  <pad> b") == other("a  <pad> b")["input_ids"] and ours.vocab == len(other)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"spiece.model": ""}, "spiece.model alone does not say.*AutoTokenizer.*save_pretrained"),
        ({"vocab.json": "{}", "merges.txt": "", "config.json": '{"model_type": "ctrl"}'}, "vocab.json alone does not"),
        ({"vocab.txt": "the\n", "config.json": '{"model_type": "bert"}'}, "no vocabulary of BertTokenizer"),
        ({FILE: "{}", "tokenizer_config.json": "[]"}, "known kinds"),
        ({FILE: '{"model": {}}', "tokenizer_config.json": "[]"}, "tokenizer_config.json: expected a JSON object"),
        ({FILE: '{"model": {"type": "New"}}', "config.json": "{}"}, "not a tokenizer that can be read"),
        (
            {FILE: '{"model": {}}', "tokenizer_config.json": '{"eos_token": {}}', "added_tokens.json": "{}"},
            "can be read",
        ),
        (
            {FILE: '{"model": {}}', "tokenizer_config.json": '{"auto_map": {"AutoTokenizer": ["mine.Mine", null]}}'},
            "auto_map: the tokenizer is code of its own.*nothing of a folder is run",
        ),
    ],
)
def test_what_is_refused_and_why(files: dict[str, str], said: str, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(CheckpointError, match=said):
        load(tmp_path)


def test_chance_is_refused(folder: Any, tmp_path: Path) -> None:
    state = json.loads((folder("gpt2") / FILE).read_text())
    state["model"]["dropout"] = 0.1
    (tmp_path / FILE).write_text(json.dumps(state))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="dropout cuts words by chance: write null"):
        load(tmp_path)


def test_a_file_of_bytes_alone_is_still_one_of_ours(folder: Any, tmp_path: Path) -> None:
    shutil.copy(folder("gpt2") / FILE, tmp_path)
    assert load(tmp_path).kind == "bpe" and load(folder("gpt2") / FILE).kind == "pretrained"

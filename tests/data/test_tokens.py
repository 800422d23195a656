"""The store of tokens and the cache it lies in."""

import json
import multiprocessing
import time
from pathlib import Path

import numpy as np
import pytest

from transformula.data import cache as cache_module
from transformula.data import tokens
from transformula.data.cache import cache_entries, cached_entry, clear_cache
from transformula.errors import DataError, InputError
from transformula.tokenizers.base import tokenizers
from transformula.tokenizers.texts import Texts, groups

BYTES = tokenizers.get("bytes")()


def test_documents_and_their_ends():
    store = tokens.token_store(["ab", "é"], BYTES)
    assert store.ids.tolist() == [256, 97, 98, 256, 0xC3, 0xA9, 256]
    assert (store.text_bytes, store.characters, store.documents, len(store)) == (4, 3, 2, 7)
    assert tokens.token_store(["ab"], BYTES, whole=False).ids.tolist() == [97, 98]
    characters = tokenizers.get("characters").train(["ab"])
    assert tokens.token_store(["ab"], characters).ids.tolist() == [0, 1]


def test_ids_never_wrap():
    assert tokens.id_type(65_536) == np.uint16 and tokens.id_type(65_537) == np.uint32
    with pytest.raises(DataError):
        tokens.id_type(2**32 + 1)
    many = "".join(chr(0x100 + i) for i in range(0xD000)) + "".join(chr(0x10000 + i) for i in range(30_000))
    tokenizer = tokenizers.get("characters").train([many])
    assert tokenizer.vocab > 65_536
    store = tokens.token_store([many], tokenizer)
    assert store.ids.dtype == np.uint32 and np.array_equal(store.ids, np.arange(tokenizer.vocab))


def test_cached_by_content_and_tokenizer(cache):
    first = tokens.token_store(["one", "two"], BYTES)
    assert isinstance(first.ids.base, np.memmap)  # a view of the mapped file
    made = {entry.key for entry in cache_entries()}
    tokens.token_store(["one", "two"], BYTES)
    assert {entry.key for entry in cache_entries()} == made and len(made) == 1
    assert tokens.token_store(["one", "twO"], BYTES).ids.tolist() != first.ids.tolist()
    tokens.token_store(["onetwo"], BYTES)
    tokens.token_store(["one", "two"], tokenizers.get("characters").train(["one", "two"]))
    assert len(cache_entries()) == 4


def test_nothing_is_left_of_what_failed(cache):
    tokenizer = tokenizers.get("characters").train(["abc"])
    with pytest.raises(InputError, match="'d'"):
        tokens.token_store(["abc", "abd"], tokenizer)
    assert [p for p in cache.rglob("*") if p.is_file() or p.name.startswith(".")] == []


def test_a_damaged_store_is_made_again(cache):
    tokens.token_store(["some text"], BYTES)
    (entry,) = cache_entries()
    file = entry.path / tokens.FILE
    about, content, said = entry.path / cache_module.ABOUT, file.read_bytes(), entry.about

    def store() -> list[int]:
        found = tokens.token_store(["some text"], BYTES)
        assert file.read_bytes() == content and (found.characters, found.documents) == (9, 1)
        return found.ids[1:-1].tolist()

    for damaged in (content[:-2], b"", bytes(len(content)), content[:-4] + b"\0\0" + content[-2:]):
        file.write_bytes(damaged)
        assert store() == list(b"some text")
    older = {key: value for key, value in said.items() if key != "sha256"}
    for text in ("{", "[" * 100_000, json.dumps({**said, "documents": 2}), json.dumps(older)):
        about.write_text(text)
        assert store() == list(b"some text")
    about.unlink()
    assert store() == list(b"some text")
    assert cache_entries()[0].about == said


def test_all_that_is_cached_is_compared_with_its_hash(cache):
    def make(folder):
        (folder / "x").write_text("whole")
        return {"data": "some", "numbers": [0.1, None]}

    for kind in cache_module.KINDS:
        place = cached_entry(kind, "key", make)
        (place / "x").write_text("wh\0le")
        assert cached_entry(kind, "key", make) == place and (place / "x").read_text() == "whole"
        (place / "another").write_text("")
        assert [p.name for p in cached_entry(kind, "key", make).iterdir() if p.name != "about.json"] == ["x"]


def test_large_data_is_written_in_groups(monkeypatch):
    documents = ["abc", "d", "efgh", "ij"]
    whole = tokens.token_store(documents, BYTES).ids.tolist()
    clear_cache()
    monkeypatch.setattr(tokens, "GROUP", 4)
    assert len(list(groups(Texts.of(documents).contents, tokens.GROUP))) == 3
    assert tokens.token_store(documents, BYTES).ids.tolist() == whole


def test_list_and_clear(cache):
    tokens.token_store(["some text"], BYTES, name="mine")
    (cache / "not-ours").mkdir()
    (cache / "not-ours" / "file").write_text("keep")
    (entry,) = cache_entries()
    assert entry.kind == "tokens" and entry.about["data"] == "mine" and entry.bytes > 0
    assert clear_cache() >= entry.bytes and cache_entries() == []
    assert (cache / "not-ours" / "file").exists()


def test_a_folder_named_as_the_cache_by_mistake_loses_nothing(cache):
    (cache / "elsewhere").mkdir(parents=True)
    (cache / "elsewhere" / "file").write_text("mine")
    mine = [cache / name for name in ("tokens/thesis/about.json", "tokens/.git/config", "builtin/notes.txt")]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"title": "mine"}')
    (cache / "tokens" / "link").symlink_to(cache / "elsewhere")
    tokens.token_store(["some text"], BYTES)
    (cache / "tokens" / ".half.0a1b2c3d").mkdir()
    clear_cache()
    assert all(path.exists() for path in mine) and (cache / "elsewhere" / "file").exists()
    assert sorted(path.name for path in (cache / "tokens").iterdir()) == [".git", "link", "thesis"]


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="TRANSFORMULA_CACHE"):
        tokens.token_store(["text"], BYTES)


def _make(folder):
    with open(folder.parent.parent / "made", "a") as file:
        file.write("once ")
    time.sleep(0.3)
    (folder / "x").write_text("content")
    return {}


def _race(_):
    return (cached_entry("tokens", "key", _make) / "x").read_text()


def _interrupted(folder):
    raise KeyboardInterrupt


def test_of_several_processes_at_once_one_makes_an_entry(cache):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(_race, range(16), chunksize=1) == ["content"] * 16
    assert [p.name for p in (cache / "tokens").iterdir()] == ["key"]
    assert (cache / "made").read_text() == "once "


def test_an_entry_may_be_made_whole_while_another_begins(cache, monkeypatch):
    half = cache / "tokens" / ".other.abc"
    half.mkdir(parents=True)
    is_dir = Path.is_dir

    def just_before(path):
        there = is_dir(path)
        if path == half and there:
            half.rename(cache / "tokens" / "other")
        return there

    monkeypatch.setattr(Path, "is_dir", just_before)
    assert _race(0) == "content" and not is_dir(half)


def test_an_entry_that_was_not_made_to_its_end_leaves_nothing(cache):
    (cache / "tokens").mkdir()
    (cache / "tokens" / ".key.lock").touch()  # of a process that was killed
    with pytest.raises(KeyboardInterrupt):
        cached_entry("tokens", "key", _interrupted)
    assert not list((cache / "tokens").iterdir())
    assert _race(0) == "content"

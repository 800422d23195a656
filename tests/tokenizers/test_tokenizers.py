"""What holds for every tokenizer, and what is special to each."""

import json
import pickle
import random
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformula.errors import CheckpointError, InputError, MissingExtra, UnknownName
from transformula.tokenizers import byte_level
from transformula.tokenizers.base import FILE, load, tokenizers

TEXTS = [
    "The with statement.\nÜber naïve 'café' 東京 \N{SNOWMAN}\N{GRINNING FACE}\n\n  spaces\t and\r\nlines ",
    "We'll see: 12345 + 67 = 12412; x[i] -> y\u0301",
    "",
    "<|endoftext|> is spelled, <|endoftext|>",
]


LEARNT = ["bpe", "unigram"]


@pytest.fixture(params=["bytes", "characters", *LEARNT])
def tokenizer(request):
    return tokenizers.get(request.param).train(TEXTS * 3, 400)


def test_round_trip_of_texts(tokenizer):
    for text, ids in zip(TEXTS, tokenizer.encode_many(TEXTS), strict=True):
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode_bytes(ids) == text.encode()
        assert tokenizer.encode(text) == ids.tolist()
        assert all(0 <= i < tokenizer.vocab for i in ids)


def test_no_text_spells_the_end_of_a_document(tokenizer):
    end = tokenizer.end_of_document
    assert end is not None
    for text in TEXTS:
        assert end not in tokenizer.encode(text)
    assert tokenizer.decode([end]) == ""


def test_saved_and_loaded_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "new" / "folder")
    assert [p.name for p in (tmp_path / "new" / "folder").iterdir()] == [FILE]
    again = load(tmp_path / "new" / "folder")
    assert again.kind == tokenizer.kind and again.identity == tokenizer.identity
    assert again.vocab == tokenizer.vocab and again.end_of_document == tokenizer.end_of_document
    assert again.encode(TEXTS[3]) == tokenizer.encode(TEXTS[3])
    json.loads((tmp_path / "new" / "folder" / FILE).read_text(encoding="utf-8"))


def test_its_file_is_made_once_however_often_it_is_written(tokenizer, tmp_path, monkeypatch):
    """A run writes it with each model that it keeps."""
    made, state = [], type(tokenizer).state
    monkeypatch.setattr(type(tokenizer), "state", lambda self: made.append(self) or state(self))
    written = {tokenizer.save(tmp_path / name).read_bytes() for name in "abc"}
    assert written == {json.dumps(state(tokenizer), ensure_ascii=False, indent=1).encode()} and len(made) == 1
    assert tokenizer.identity == load(tmp_path / "a").identity == pickle.loads(pickle.dumps(tokenizer)).identity


def test_training_is_deterministic_and_identity_tells_apart(tokenizer):
    kind = type(tokenizer)
    assert kind.train(TEXTS * 3, 400).identity == tokenizer.identity
    other = kind.train(["something else, something else"] * 2, 300)
    assert (other.identity == tokenizer.identity) == (kind.kind == "bytes")


def test_pickle(tokenizer):
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.identity == tokenizer.identity and again.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])


@pytest.mark.parametrize("name", ["bytes", *LEARNT])
def test_stream_never_shows_half_a_character(name):
    tokenizer = tokenizers.get(name).train(["plain text only"], 257)
    text = "a東\N{GRINNING FACE}é!"
    stream = tokenizer.stream()
    shown = [stream.push(i) for i in tokenizer.encode(text)]
    assert "".join(shown) == text and "\ufffd" not in "".join(shown)
    assert "" in shown  # the first byte of a wide character shows nothing yet
    assert stream.finish() == ""
    stream.push(*tokenizer.encode("東")[:2])
    assert stream.finish() == "\ufffd"
    assert stream.push(*tokenizer.encode("x")) == "x"


def test_stream_goes_on_after_bytes_that_are_no_text():
    tokenizer = tokenizers.get("bytes")()
    stream = tokenizer.stream()
    assert stream.push(0xE6, 0x9D) == ""
    assert stream.push(0x41).endswith("A")
    assert tokenizer.decode([0xFF, 0x41]) == "\ufffdA"


def test_decoding_an_id_out_of_range(tokenizer):
    with pytest.raises(InputError, match=f"from 0 to {tokenizer.vocab - 1}"):
        tokenizer.decode([tokenizer.vocab])
    with pytest.raises(InputError):
        tokenizer.decode([-1])


@pytest.mark.parametrize("name", ["bytes", *LEARNT])
def test_half_a_character_is_refused(name):
    with pytest.raises(InputError, match="lone surrogate.*character 2"):
        tokenizers.get(name).train(["aaaa"], 300).encode("a\ud800")


class TestBytes:
    def test_ids_are_the_bytes(self):
        tokenizer = tokenizers.get("bytes")()
        assert tokenizer.encode("aé") == [97, 0xC3, 0xA9]
        assert tokenizer.vocab == 257 and tokenizer.end_of_document == 256


class TestCharacters:
    def test_one_text_has_no_end_of_document(self):
        one = tokenizers.get("characters").train(["hello"])
        assert one.vocab == 4 and one.end_of_document is None
        two = tokenizers.get("characters").train(["hello", "world"])
        assert two.vocab == 8 and two.end_of_document == 7

    def test_an_end_is_there_as_asked(self):
        kind = tokenizers.get("characters")
        assert kind.train(["hello"], ends=True).end_of_document == 4
        assert kind.train(["hello", "world"], ends=False).end_of_document is None
        assert kind.train(["hello"], ends=False).identity == kind.train(["hello"]).identity

    def test_an_unknown_character_is_named_with_the_remedy(self):
        tokenizer = tokenizers.get("characters").train(["hello"])
        with pytest.raises(InputError) as error:
            tokenizer.encode("hellö, hell!")
        assert "'ö' (U+00F6, character 5 of the text, and 3 more" in str(error.value)
        assert "tokenizer: bytes" in str(error.value) and "(ehlo)" in str(error.value)

    def test_a_character_beyond_the_table(self):
        with pytest.raises(InputError, match="U\\+1F600"):
            tokenizers.get("characters").train(["ab"]).encode("a\N{GRINNING FACE}")


@cache
def trained(name):
    return tokenizers.get(name).train(TEXTS, 300)


@given(text=st.text(max_size=60))
@settings(max_examples=200, deadline=None)
@pytest.mark.parametrize("name", LEARNT)
def test_every_text_comes_back(name, text):
    tokenizer = trained(name)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text and tokenizer.end_of_document not in ids


@pytest.mark.parametrize("name", LEARNT)
class TestLearnt:
    def test_too_small_a_vocabulary(self, name):
        with pytest.raises(InputError, match=f"a {name} tokenizer of 256 tokens: at least 257"):
            tokenizers.get(name).train(["abc"], 256)

    def test_the_smallest_knows_every_text(self, name):
        tokenizer = tokenizers.get(name).train(TEXTS, 257)
        assert tokenizer.vocab == 257 and len(tokenizer.encode(TEXTS[0])) == len(TEXTS[0].encode())

    def test_the_size_asked_for(self, name):
        text = " ".join(f"{a}{b}{c}" for a in "kstrp" for b in ("an", "on", "el") for c in ("ing", "ed", "s")) * 3
        assert tokenizers.get(name).train([text], 280).vocab == 280

    @pytest.mark.parametrize("documents", [["the the the the"], [""], []])
    def test_a_tiny_text_gives_fewer_tokens(self, name, documents):
        tokenizer = tokenizers.get(name).train(documents, 2000)
        assert 257 <= tokenizer.vocab < 270 and tokenizer.end_of_document == 0
        assert tokenizer.decode(tokenizer.encode(TEXTS[0])) == TEXTS[0]

    def test_parts_of_a_long_text_get_the_ids_of_the_whole(self, name, monkeypatch):
        text = "".join(f"line {i} of it\n" + "\n" * (i % 3) + "  indented\n" * (i % 2) for i in range(300))
        tokenizer = tokenizers.get(name).train([text], 500)
        whole = tokenizer.encode(text)
        monkeypatch.setattr(byte_level, "PART", 97)
        assert tokenizer.encode(text) == whole
        assert [len(x) for x in tokenizer.encode_many([text, "", text])] == [len(whole), 0, len(whole)]

    def test_pieces_get_the_ids_of_the_whole(self, name, monkeypatch):
        """Long lines, punctuation, signs, other scripts and runs of blanks; pieces end anywhere."""
        words = "don't x's( it's. a,b 1.5% _x_ -- ÄÖ 語。語、 e\u0301 😀".split() + ["\t", "  ", "\n\n"]
        chance = random.Random(1)
        text = " ".join(chance.choice(words) for _ in range(3_000))
        tokenizer = tokenizers.get(name).train([text], 400)
        whole = tokenizer.encode(text)
        for part, piece in ((64, 11), (50, 1), (300, 1_000), (100, 100_000)):
            monkeypatch.setattr(byte_level, "PART", part)
            pieces = (text[start : start + piece] for start in range(0, len(text), piece))
            assert np.concatenate(list(tokenizer.encode_pieces(pieces))).tolist() == whole
            assert tokenizer.encode(text) == whole

    def test_tokens_are_learned_from_pieces_as_from_the_whole(self, name, monkeypatch):
        text = "It isn't so: the cat, the dog (and 1,000 birds) sat there; they sat. " * 40
        learned = [tokenizers.get(name).train([text], 330).identity]
        for part in (5, 100, 100_000):
            monkeypatch.setattr(byte_level, "LEARNED_PART", part)
            learned.append(tokenizers.get(name).train([text], 330).identity)
        assert len(set(learned)) == 1

    def test_a_run_without_an_end_is_cut_all_the_same(self, name, monkeypatch):
        """A file of one long word: parts stay bounded, the text is not lost, pieces and whole agree."""
        text = "acgt" * 500
        tokenizer = tokenizers.get(name).train([text], 300)
        monkeypatch.setattr(byte_level, "PART", 100)
        assert max(map(len, byte_level.parts_of([text]))) <= 200
        pieces = np.concatenate(list(tokenizer.encode_pieces(text[i : i + 33] for i in range(0, len(text), 33))))
        assert tokenizer.decode(pieces) == text and pieces.tolist() == tokenizer.encode(text)

    def test_what_is_learnt_shortens_the_text(self, name):
        text = "the cat and the dog and the bird " * 50
        assert len(tokenizers.get(name).train([text], 400).encode(text)) < len(text) / 2

    def test_training_prints_nothing(self, name, capfd):
        tokenizers.get(name).train(TEXTS * 3, 300)
        assert capfd.readouterr() == ("", "")


def test_large_data_is_sampled(monkeypatch):
    monkeypatch.setattr(byte_level, "TRAINED_ON", 100)
    assert sum(map(len, byte_level.sample(["abcdefghij"] * 100))) <= 100
    assert sum(map(len, byte_level.sample(["x" * 500, "y" * 500]))) == 100


class TestUnigram:
    def test_another_process_learns_the_same(self):
        """Whatever the order of hash tables there: `tokenizers`' own trainer fails this."""
        text = " ".join(f"{a}{b}{c}" for a in "kstrp" for b in ("an", "on", "el") for c in ("ing", "ed", "s"))
        program = (
            "import sys; from transformula.tokenizers.base import tokenizers;"
            " print(tokenizers.get('unigram').train([sys.argv[1]], 290).identity)"
        )
        done = subprocess.run([sys.executable, "-c", program, text], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [tokenizers.get("unigram").train([text], 290).identity]

    def test_the_cut_is_the_most_probable(self):
        """By trying all cuts of short words."""
        tokenizer = tokenizers.get("unigram").train(["banana bandana ana anna nab " * 5], 275)
        scores = dict(tokenizer.state()["model"]["vocab"])

        def best(word: str) -> float:
            if not word:
                return 0.0
            starts = (word[:n] for n in range(1, len(word) + 1))
            return max(scores[start] + best(word[len(start) :]) for start in starts if start in scores)

        for word in ("banana", "bandana", "anabanna", "nabnab"):
            pieces = [tokenizer.decode([i]) for i in tokenizer.encode(word)]
            assert sum(scores[piece] for piece in pieces) == pytest.approx(best(word))

    def test_training_needs_the_extra_and_using_does_not(self, monkeypatch, tmp_path):
        tokenizers.get("unigram").train(TEXTS, 300).save(tmp_path)
        monkeypatch.setitem(sys.modules, "sentencepiece", None)
        with pytest.raises(MissingExtra, match=r"training a unigram tokenizer.*'transformula\[unigram\]'"):
            tokenizers.get("unigram").train(TEXTS, 300)
        assert load(tmp_path).decode(load(tmp_path).encode(TEXTS[0])) == TEXTS[0]


def test_unknown_kind():
    with pytest.raises(UnknownName, match="did you mean bytes"):
        tokenizers.get("byte")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no tokenizer here"),
        (b"", "not a tokenizer's file"),
        (b"\xff\xfe", "not a tokenizer's file"),
        (b"[]", "known kinds: bpe, bytes, characters, unigram"),
        (b'{"kind": "words"}', "known kinds"),
        (b'{"kind": "characters"}', "damaged"),
        (b'{"kind": "characters", "characters": "ba", "ends": true}', "damaged"),
        (b'{"model": {"type": "BPE", "merges": 3}, "decoder": {"type": "ByteLevel"}}', "damaged"),
        (b'{"model": {"type": "Unigram", "vocab": [["a", -1.0]]}, "decoder": {"type": "ByteLevel"}}', "255 of the 256"),
        (b'{"model": {"type": "Unigram", "vocab": [["a", -1.0]]}, "decoder": {"type": "Metaspace"}}', "known kinds"),
    ],
)
def test_files_that_are_no_tokenizer(tmp_path, content, said):
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    with pytest.raises(CheckpointError, match=said):
        load(tmp_path)

"""From settings to tokens."""

import pytest

from transformula.data.prepare import prepare
from transformula.data.settings import DataSettings
from transformula.data.splits import Split
from transformula.data.tokenizing import choose_tokenizer
from transformula.errors import CheckpointError, ConfigError, DataError, UnknownName
from transformula.tokenizers.texts import Texts

TEXT = "The quick brown fox jumps over the lazy dog, and the dog sleeps on. " * 40


def settings(path, **others):
    return DataSettings(data=str(path), **others)


@pytest.fixture
def one(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def many(tmp_path):
    path = tmp_path / "many.jsonl"
    path.write_text("".join(f'{{"text": "document {i} tells of {i * i}"}}\n' for i in range(200)))
    return path


def test_a_single_text_becomes_characters(one):
    data = prepare(settings(one))
    assert data.tokenizer.kind == "characters" and data.tokenizer.vocab == len(set(TEXT))
    assert data.tokenizer.decode([*data.training.ids, *data.validation.ids]) == TEXT
    assert len(data.validation) == len(TEXT) - int(0.9 * len(TEXT))
    preview = data.preview()
    assert preview.data["characters"] == len(TEXT) and preview.data["documents"] == 1 and preview.data["unknown"] == 0
    assert abs(preview.data["validation_share"] - 0.1) < 0.01 and len(preview.data["examples"]) == 5
    assert "auto: a single text of" in repr(preview) and max(map(len, repr(preview).splitlines())) < 140


def test_many_documents_become_a_bpe(many):
    data = prepare(settings(many))
    assert data.tokenizer.kind == "bpe" and 257 < data.tokenizer.vocab <= 512
    ids = data.training.ids.tolist()
    assert ids[0] == ids[-1] == data.tokenizer.end_of_document
    assert ids.count(data.tokenizer.end_of_document) == data.training.documents + 1
    assert data.preview().data["documents"] == 200
    assert prepare(settings(many)).identity == data.identity


@pytest.mark.parametrize("tokenizer", ["characters", "bytes", "bpe", "unigram"])
def test_the_tokenizer_asked_for(one, many, tokenizer):
    for path in (one, many):
        data = prepare(settings(path, tokenizer=tokenizer))
        assert data.tokenizer.kind == tokenizer
        text = data.tokenizer.decode(data.validation.ids)
        assert text == "".join(data.split.validation)


def test_vocab_is_the_size_of_what_is_learnt(one):
    for kind, vocab in (("bpe", 280), ("unigram", 265)):
        assert prepare(settings(one, tokenizer=kind), vocab=vocab).tokenizer.vocab == vocab
    assert prepare(settings(one), vocab=280).tokenizer.kind == "bpe"
    assert prepare(settings(one), vocab=257).tokenizer.kind == "bytes"
    assert prepare(settings(one), vocab=len(set(TEXT))).tokenizer.kind == "characters"


@pytest.mark.parametrize(
    ("tokenizer", "has"), [("characters", len(set(TEXT))), ("bytes", 257), ("bpe", None), ("unigram", None)]
)
def test_a_vocab_that_the_tokenizer_contradicts(one, tokenizer, has):
    with pytest.raises(ConfigError, match=f"the model says 5000, the tokenizer \\({tokenizer}\\) has {has or ''}"):
        prepare(settings(one, tokenizer=tokenizer), vocab=5000)


def test_a_tokenizer_from_a_folder(one, many, tmp_path):
    prepare(settings(many)).tokenizer.save(tmp_path / "run")
    data = prepare(settings(one, tokenizer=str(tmp_path / "run")))
    assert data.tokenizer.identity == prepare(settings(many)).tokenizer.identity and "loaded" in data.chosen
    with pytest.raises(CheckpointError, match="no tokenizer here"):
        prepare(settings(one, tokenizer=str(tmp_path / "nowhere")))
    with pytest.raises(UnknownName, match="did you mean characters"):
        prepare(settings(one, tokenizer="character"))


def test_text_that_a_loaded_tokenizer_does_not_know(one, many, tmp_path):
    prepare(settings(one)).tokenizer.save(tmp_path / "run")
    with pytest.raises(DataError, match="many.jsonl: the tokenizer does not know all of the training text.*U\\+003"):
        prepare(settings(many, tokenizer=str(tmp_path / "run")))


def test_validation_given(one, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("Ein anderer Text: äöü")
    data = prepare(settings(one, validation=str(other)))
    assert data.tokenizer.decode(data.validation.ids) == "Ein anderer Text: äöü"
    assert len(data.training) == len(TEXT)


def test_one_token_only(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(DataError, match="a.txt: is too short"):
        prepare(settings(tmp_path / "a.txt"))
    (tmp_path / "b.txt").write_text("ab")
    with pytest.raises(DataError, match="b.txt: the training text is 1 token; at least 2"):
        prepare(settings(tmp_path / "b.txt"))


def test_settings_are_checked():
    with pytest.raises(ConfigError) as error:
        DataSettings.read({"datta": "x", "split": 0.9, "data": ["a", ""]})
    assert len(error.value.mistakes) == 3 and "data" in error.value.near


def test_automatic_choice_by_size():
    text = "".join(chr(i) for i in range(100, 400))
    wide = Split(Texts.of([text] * 2), Texts.of(["a"]), "", whole=False)
    assert choose_tokenizer("auto", wide)[0].kind == "bpe"

"""Tasks that learn from texts by the tokenizer of a model that others made."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.tokenizers.published_folders import write_plain
from transformula import Model
from transformula.errors import ConfigError, InputError
from transformula.generation.settings import FillSettings, ReplySettings
from transformula.tasks.base import IGNORED, tasks
from transformula.tasks.dialogue import TEMPLATE, Chat
from transformula.tasks.masked_language_modeling import Filling
from transformula.tasks.writing import TextGenerator
from transformula.tokenizers.base import Tokenizer, load

SMALL = {"depth": 1, "width": 16, "heads": 2, "context": 64}


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    (tmp_path / "bert").mkdir()
    return write_plain("bert", tmp_path / "bert")


@pytest.fixture
def llama2(tmp_path: Path) -> Path:
    (tmp_path / "llama2").mkdir()
    return write_plain("llama2", tmp_path / "llama2")


def documents(folder: Path) -> str:
    path = folder / "texts.jsonl"
    texts = ("the cat and" + " the" * number + " dog \u2603\u2620" for number in range(60))
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return str(path)


def made(name: str, data: str, tokenizer: Path, numbers: Any = None, **given: Any) -> Any:
    kind = tasks.get(name)
    settings = kind.settings.read({"data": data, "tokenizer": str(tokenizer), **given})
    return kind.make(settings, {"context": 32, **(numbers or {})}, batch=4, accumulate=1, seed=1)


def test_documents_have_their_marks_and_unknown_signs_are_counted(bert: Path, tmp_path: Path) -> None:
    task = made("language-modeling", documents(tmp_path), bert)
    tokenizer, ids = task.data.tokenizer, np.asarray(task.data.training.ids)
    cls, sep = tokenizer.encode_special("[CLS][SEP]", template=False)
    assert ids[0] == cls and ids[-2:].tolist() == [sep, cls]
    assert (ids == sep).sum() == (ids == cls).sum() - 1 == task.data.training.documents
    assert task.data.preview().data["unknown"] == 60  # \u2620 was in no text that the tokenizer was trained on
    assert task.numbers["vocab"] == tokenizer.vocab


def test_the_vocabulary_of_the_model_may_be_padded(llama2: Path, tmp_path: Path) -> None:
    vocab = load(llama2).vocab
    assert made("language-modeling", documents(tmp_path), llama2, {"vocab": vocab + 12}).numbers["vocab"] == vocab + 12
    with pytest.raises(ConfigError, match=f"vocab: the model says {vocab - 1}.* write vocab: {vocab}"):
        made("language-modeling", documents(tmp_path), llama2, {"vocab": vocab - 1})
    model = Model("pre-norm", tokenizer=llama2, vocab=vocab + 12, **SMALL)
    assert model.architecture.numbers["vocab"] == vocab + 12
    assert isinstance(model.generate("the cat", max_tokens=4), str)
    with pytest.raises(InputError, match=f"it has {vocab} ids, and the model's vocab is {vocab - 1}"):
        Model("pre-norm", tokenizer=llama2, vocab=vocab - 1, **SMALL)


def test_a_text_is_hidden_by_the_tokenizers_own_mask(bert: Path, tmp_path: Path) -> None:
    task = made("masked", documents(tmp_path), bert)
    tokenizer = task.data.tokenizer
    assert task.numbers["vocab"] == tokenizer.vocab and task.masking.mask == tokenizer.mask
    tokens, targets = task.batch(1).inputs["tokens"], task.batch(1).targets
    assert (tokens[targets != IGNORED] == tokenizer.mask).float().mean() > 0.5
    assert not np.isin(targets, [*tokenizer.marks.opening, *tokenizer.marks.closing]).any()
    filling = Filling(tokenizer, True)
    ids = filling.ids("the [MASK] and", "[MASK]")
    assert ids.tolist() == tokenizer.encode_special("the [MASK] and")
    (answer,) = filling.filled(ids, torch.eye(len(ids), tokenizer.vocab), FillSettings())
    assert answer.text.startswith("the") and answer.text.endswith("and")


def test_rows_are_read_as_in_pre_training(bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\tlabel\n" + "\n".join(f"the cat {n}\tthe dog\t{n % 2}" for n in range(40)))
    kind = tasks.get("classification")
    settings = kind.settings.read({"data": str(path), "text": "a", "text_2": "b", "label": "label", "max_tokens": 9,
                                   "tokenizer": str(bert)})  # fmt: skip
    reader = kind.make(settings, {}, batch=4, accumulate=1, seed=1).data.kind
    row = reader.encode([("the cat", "the dog")])[0]["tokens"].tolist()
    assert row == reader.tokenizer.encode_special("[CLS]the cat[SEP]the dog[SEP]", template=False)
    long = reader.encode([("the cat " * 9, "the")])[0]["tokens"]
    assert len(long) == 9 and long[-1] == reader.tokenizer.marks.closing[0]


def test_tags_stand_at_the_first_piece_of_their_word(bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "tags.jsonl"
    rows = [{"tokens": ["the", "dogbirdy", "\u200b", f"{n}"], "tags": ["A", "B", "A", "B"]} for n in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    kind = tasks.get("tagging")
    data = kind.make(kind.settings.read({"data": str(path), "tokenizer": str(bert), "max_tokens": 24}), {}).data
    tagger, words = data.kind, rows[0]["tokens"]
    ids, places = tagger.row(words)["tokens"], tagger.places(words)
    assert (ids[0], ids[-1]) == (tagger.tokenizer.marks.opening[0], tagger.tokenizer.marks.closing[0])
    assert [tagger.tokenizer.pieces[int(ids[place])][:2] for place in places[:2]] == [b" t", b" d"] and places[0] == 1
    assert len(ids) > 6 and ids[places[2]] == tagger.tokenizer.unknown  # a sign that it drops is a token, too
    assert [len(part) for part in tagger.parts(words * 9)] != [36] and all(
        len(tagger.row(part)["tokens"]) <= tagger.most for part in tagger.parts(words * 9)
    )


def test_an_answer_is_found_in_its_characters(bert: Path, tmp_path: Path) -> None:
    path, context = tmp_path / "questions.jsonl", "The dog  number %d, isn't it THE cat."
    rows = (f'{{"question": "who?", "context": "{context % n}", "answers": ["THE cat"]}}\n' for n in range(40))
    path.write_text("".join(rows))
    kind = tasks.get("question-answering")
    settings = kind.settings.read({"data": str(path), "tokenizer": str(bert)})
    reader = kind.make(settings, {}, batch=4, accumulate=1, seed=1).data.kind
    asked, start = {"question": "who?", "context": context % 7}, (context % 7).index("THE cat")
    ((window,),) = reader.windows([asked])
    marks = window.target((start, start + 7)).clamp(min=0)
    outputs = [30.0 * torch.stack([marks & 1, marks >> 1], dim=1)]
    ((answer,),) = reader.answers([asked], outputs, reader.settings())
    assert (answer.text, answer.start) == ("THE cat", start)
    assert window.row["tokens"].tolist() == reader.tokenizer.encode_special(f"[CLS]who?[SEP]{context % 7}[SEP]", False)


def test_a_text_begins_after_its_mark_and_ends_at_any_end(llama2: Path) -> None:
    tokenizer: Tokenizer = load(llama2)
    generator = TextGenerator(tokenizer)
    assert generator.begin("the cat") == [1, *tokenizer.encode("the cat")] and generator.begin("") == [1]
    (llama2 / "generation_config.json").write_text('{"eos_token_id": [2, 7]}')
    model = Model("pre-norm", tokenizer=llama2, **SMALL)
    for end in (2, 7):
        with torch.no_grad():  # the likeliest token, whatever was read
            model.module.get_parameter("words.weight").zero_()[end] = 1.0
            model.module.get_parameter("after.norm.weight").zero_()
            model.module.get_parameter("after.norm.bias").fill_(1.0)
        assert model.generate("the cat", temperature=0, max_tokens=8) == ""
        assert model.generate(tokens=[1], temperature=0, max_tokens=8) == []


@pytest.mark.parametrize("name", ["llama2", "t5"])  # their decoders take a blank from the beginning of a text
def test_what_goes_on_with_a_text_keeps_its_blank(name: str, tmp_path: Path) -> None:
    folder = write_plain(name, tmp_path)
    model = Model("pre-norm", tokenizer=folder, **SMALL)
    tokenizer = model.tokenizer
    assert tokenizer is not None
    follower = next(i for i in tokenizer.encode("the cat and the dog") if tokenizer.pieces[i].startswith(b" "))
    with torch.no_grad():  # the likeliest token, whatever was read
        model.module.get_parameter("words.weight").zero_()[follower] = 1.0
        model.module.get_parameter("after.norm.weight").zero_()
        model.module.get_parameter("after.norm.bias").fill_(1.0)
    prompts, shown = ["the cat", "x"], [""] * 2
    for texts in (prompts, prompts[:1]):
        ids = [[*tokenizer.prompt(text), follower, follower] for text in texts]
        wholes = [tokenizer.decode(each) for each in ids]
        assert all(" " in whole[len(text) :] for text, whole in zip(texts, wholes, strict=True))

        def show(row: int, piece: str) -> None:
            shown[row] += piece

        shown[:] = [""] * 2
        written = model.generate(texts, temperature=0, max_tokens=2, on_text=show)
        assert [text + more for text, more in zip(texts, written, strict=True)] == wholes
        assert shown[: len(texts)] == written
    assert not model.generate("", temperature=0, max_tokens=1).startswith(" ")  # nothing stands before


def test_a_reply_that_is_a_text_of_its_own_begins_without_a_blank(llama2: Path) -> None:
    chat = Chat("dialogue", dict(TEMPLATE), 64, 8, load(llama2))
    model = Model("pre-norm", tokenizer=llama2, **SMALL)
    first = chat.tokenizer.encode("the cat")[0]
    assert chat.tokenizer.pieces[first].startswith(b" ")
    with torch.no_grad():
        model.module.get_parameter("words.weight").zero_()[first] = 1.0
        model.module.get_parameter("after.norm.weight").zero_()
        model.module.get_parameter("after.norm.bias").fill_(1.0)
    asked: Any = [[{"role": "user", "content": "the dog"}]]
    ((reply,),) = chat.predict([model.module], asked, ReplySettings(temperature=0, max_tokens=2))
    assert reply.text == chat.tokenizer.decode([first, first])


def test_sources_and_targets_stand_as_in_pre_training(tmp_path: Path) -> None:
    folder = write_plain("roberta", tmp_path)
    (folder / "generation_config.json").write_text('{"decoder_start_token_id": 2, "forced_bos_token_id": 0}')
    tokenizer, path = load(folder), tmp_path / "pairs.tsv"
    path.write_text("source\ttarget\n" + "\n".join(f"the cat {n}\tthe dog {n}" for n in range(40)))
    kind = tasks.get("translation")
    data = kind.make(kind.settings.read({"data": str(path), "tokenizer": str(folder), "joint": True}), {}).data
    row = data.training.batch(np.array([3]))
    source, target = (data.training.records[3][side] for side in ("source", "target"))
    assert row.inputs["source"][0].tolist() == tokenizer.encode_special(source)
    assert row.targets[0].tolist() == tokenizer.encode_special(target)  # <s> is learned, as it is forced
    assert row.inputs["tokens"][0].tolist() == [2, *tokenizer.encode_special(target)[:-1]]
    prompts, sources = data.writing.prompts([source])
    assert prompts == [[2, 0]] and sources["source"] == [tokenizer.encode_special(source)]
    cut = replace(data.writing, most=4).ids(["the cat and the dog"])[0]
    assert len(cut) == 4 and cut[[0, -1]].tolist() == [0, 2]


def test_a_saved_model_holds_its_tokenizer(llama2: Path, tmp_path: Path) -> None:
    model = Model("pre-norm", tokenizer=llama2, **SMALL)
    again = Model.from_folder(model.save(tmp_path / "saved"))
    assert again.tokenizer is not None and again.tokenizer.identity == load(llama2).identity
    assert again.generate("the cat", max_tokens=5, seed=2) == model.generate("the cat", max_tokens=5, seed=2)

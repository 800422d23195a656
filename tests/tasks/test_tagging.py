"""Tagging: tokens with tags, as words or pieces, plain or by a random field; its answers and its scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from transformula import Model, evaluate, train
from transformula.errors import ConfigError, DataError, InputError
from transformula.tasks.base import tasks
from transformula.tasks.span_schemes import keeps_to
from transformula.tasks.tagged_rows import sentences_in
from transformula.tasks.tagging import Entity, Tagging, best_tags, locate_tokens

SENTENCES = [
    (["Ann", "Lee", "lives", "in", "Rome"], ["B-PER", "I-PER", "O", "O", "B-LOC"]),
    (["Rome", "is", "big", "."], ["B-LOC", "O", "O", "O"]),
    (["I", "met", "Bob"], ["O", "O", "B-PER"]),
]
CHARACTERS = {"before": "x = embed.words(tokens) + spell(characters, width)"}
FIELD = {"output": "logits = transitions(linear(x, classes))"}


@pytest.fixture
def names(tmp_path: Path) -> Path:
    path = tmp_path / "names.jsonl"
    rows = [{"tokens": [*tokens, str(n)], "tags": [*tags, "O"]} for n in range(12) for tokens, tags in SENTENCES]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def made(path: Path, numbers: dict[str, Any] | None = None, **settings: Any) -> Tagging:
    read = tasks.get("tagging").settings.read({"data": str(path), "split": 0.2, **settings})
    return Tagging.make(read, numbers or {}, inputs=("tokens", "characters"))


def model(task: Tagging, **changes: Any) -> Any:
    changes = {"output": "logits = linear(x, classes)", "context": 32, **changes}
    return Model("pre-norm", family="encoder", depth=1, width=16, heads=2, **{**task.numbers, **changes}).module.eval()


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_lists_of_different_lengths_have_a_place(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"tokens": ["a"], "tags": ["x"]}, {"tokens": ["a", "b"], "tags": ["x"]})
    with pytest.raises(DataError, match=r"a.jsonl:2: 2 tokens \(tokens\) with 1 tags"):
        made(path)


def test_columns_that_nothing_names(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"tokens": ["a"], "kinds": ["x"]})
    with pytest.raises(ConfigError, match="say which holds the tags, as in --tags-column kinds"):
        made(path)


def test_one_tag_is_nothing_to_learn(tmp_path: Path) -> None:
    rows = [{"tokens": [f"a{n}"], "tags": ["x"]} for n in range(20)]
    with pytest.raises(DataError, match="nothing to tell apart"):
        made(written(tmp_path / "a.jsonl", *rows))


@pytest.mark.parametrize("tokenizer", ["auto", "bytes"], ids=["words", "pieces"])
@pytest.mark.parametrize("output", [{}, FIELD], ids=["plain", "field"])
def test_alone_and_in_any_batch(names: Path, tokenizer: str, output: dict[str, str]) -> None:
    task = made(names, tokenizer=tokenizer)
    kind, module = task.data.kind, model(task, **CHARACTERS, **output)
    inputs = [*(tokens for tokens, _ in SENTENCES), "Ann is in Rome.", "", ["Bob"] * 70]
    together = kind.predict([module], inputs, kind.settings())
    turned = kind.predict([module], inputs[::-1], kind.settings())[::-1]
    assert [len(best[0].tags) for best in together] == [5, 4, 3, 5, 0, 70]
    for given, one, other in zip(inputs, together, turned, strict=True):
        (alone,) = kind.predict([module], [given], kind.settings())
        for each in (one, other):
            assert each[0].tags == alone[0].tags
            assert each[0].probabilities == pytest.approx(alone[0].probabilities, abs=1e-5)


@pytest.mark.parametrize("output", [{}, FIELD], ids=["plain", "field"])
def test_padding_changes_no_loss(names: Path, output: dict[str, str]) -> None:
    task = made(names, word_dropout=0.0)
    module, side = model(task, **CHARACTERS, **output), task.data.training
    places = [0, 1, 2]
    with torch.no_grad():
        together = float(task.loss(module, side.batch(places))) * sum(len(side.targets[n]) for n in places)
        alone = sum(float(task.loss(module, side.batch([n]))) * len(side.targets[n]) for n in places)
    assert together == pytest.approx(alone, rel=1e-5)


def test_long_sentences_are_read_in_parts(names: Path) -> None:
    task = made(names, {"context": 3})
    assert task.data.kind.parts(["a", "b", "c", "d"]) == [["a", "b", "c"], ["d"]]
    assert max(map(len, task.data.training.targets)) == 3
    assert sum(map(len, task.data.training.targets)) == sum(len(row["tokens"]) for row in task.data.source.training)


def test_a_name_begins_before_it_goes_on(names: Path) -> None:
    task = made(names)
    tags = task.data.kind.tags
    logits = torch.zeros(2, len(tags))
    logits[0, tags.index("O")], logits[1, tags.index("I-PER")], logits[1, tags.index("B-LOC")] = 5, 5, 4
    plain, bound = (made(names, scheme=scheme).data.kind for scheme in ("none", "auto"))
    answers = [kind.answers([["in", "Rome"]], [logits], None)[0][0].tags for kind in (plain, bound)]
    assert answers == [("O", "I-PER"), ("O", "B-LOC")]


def test_tags_that_are_no_bio(tmp_path: Path) -> None:
    rows = [{"tokens": [f"a{n}", "b"], "tags": ["I-X", "O"]} for n in range(20)]
    path = written(tmp_path / "a.jsonl", *rows)
    assert not made(path).data.kind.bio
    with pytest.raises(DataError, match=r"a.jsonl:\d+: a span begins with I-"):
        made(path, scheme="bio")


def test_the_best_tags_of_a_random_field_are_those_of_all_paths() -> None:
    torch.manual_seed(0)
    y = torch.randn(3, 4)  # three positions, two tags
    paths = torch.cartesian_prod(*[torch.arange(2)] * 3)
    sums = sum(y[t, (paths[:, t - 1] if t else 0) * 2 + paths[:, t]] for t in range(3))
    best = paths[int(torch.as_tensor(sums).argmax())].tolist()
    shares = torch.as_tensor(sums).softmax(0)
    sure = [float(shares[paths[:, t] == best[t]].sum()) for t in range(3)]
    ((tags, values),) = [tuple(zip(*row, strict=True)) for row in best_tags([y], 2, None)]
    assert list(tags) == best
    assert values == pytest.approx(sure, abs=1e-5)


def test_rare_words_are_read_as_unknown_by_seed_and_step(names: Path) -> None:
    task = made(names, word_dropout=100.0)
    first, again, plain = task.batch(3), task.batch(3), made(names, word_dropout=0.0).batch(3)
    assert torch.equal(first.inputs["tokens"], again.inputs["tokens"])
    changed = first.inputs["tokens"] != plain.inputs["tokens"]
    assert changed.any()
    assert not first.inputs["tokens"][changed].any()
    assert torch.equal(first.inputs["characters"], plain.inputs["characters"])


def test_as_many_words_as_vocab_says(names: Path) -> None:
    task = made(names, {"vocab": 4})
    assert task.numbers["vocab"] == 4
    assert len(task.data.kind.words) == 3
    assert "Rome" in task.data.kind.words
    with pytest.raises(ConfigError, match="word_dropout: is for words"):
        made(names, tokenizer="bytes", word_dropout=0.1)


def test_tags_that_training_has_not_are_wrong_and_no_part_of_the_loss(names: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other.jsonl", {"tokens": ["Ann", "x"], "tags": ["B-PER", "B-ART"]})
    task = made(names, validation=str(other))
    assert (task.data.validation.targets[0] == -100).tolist() == [False, True]
    assert task.evaluate(model(task, **CHARACTERS))["accuracy"] <= 50


def test_a_text_is_cut_at_blanks_and_marks() -> None:
    text = "I don't know... (U.S., 3.5)"
    _, tokens, starts = locate_tokens(text)
    assert tokens == ["I", "don't", "know", "...", "(", "U.S", ".", ",", "3.5", ")"]
    assert all(text[start:].startswith(token) for token, start in zip(tokens, starts, strict=True))


def test_a_file_of_rows_holds_tokens_or_texts(names: Path, tmp_path: Path) -> None:
    assert sentences_in(names, None)[1]["source"] == ["Rome", "is", "big", ".", "0"]
    texts = written(tmp_path / "texts.jsonl", {"text": "Ann is in Rome."}, {"text": "Bob"})
    assert [row["source"] for row in sentences_in(texts, None)] == ["Ann is in Rome.", "Bob"]
    with pytest.raises(InputError, match="say which holds the tokens"):
        sentences_in(written(tmp_path / "other.jsonl", {"a": "x", "b": "y"}), None)


def test_an_output_that_gives_no_tags(names: Path) -> None:
    task = made(names)
    with pytest.raises(InputError, match=r"transitions\(linear\(x, classes\)\)"):
        task.loss(model(task, **CHARACTERS, output="logits = linear(x, classes + 1)"), task.batch(0))
    pooled = Model("pre-norm", family="encoder", output="logits = linear(mean(x), classes)", classes=3)
    with pytest.raises(InputError, match="one output with a tag's logits at each position"):
        Tagging.check(pooled.architecture)
    reads = Model("pre-norm", family="encoder", before="x = embed.words(tokens) + embed(types, rows=2)")
    with pytest.raises(InputError, match="this one reads tokens, types"):
        Tagging.check(reads.architecture)


def test_from_rows_to_names(names: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = train("pre-norm", task="tagging", data=str(names), **CHARACTERS, **FIELD, depth=1, width=16, heads=2,
                steps=12, split=0.2, out=str(out))  # fmt: skip
    assert set(run.scores) == {"loss", "entity_f1", "entity_precision", "entity_recall", "accuracy"}
    trained = Model.from_folder(out)
    text = "Ann Lee lives in Rome"
    answer = trained.predict(text, scores=True)
    assert len(answer.tags) == 5
    for entity in answer.entities:
        assert text[entity.start : entity.end] == entity.text
    assert trained.predict([text.split()], scores=True)[0].tags == answer.tags
    begun = made(names, tokenizer=str(trained.folder)).data.kind
    assert begun.words == trained.predictor.words  # type: ignore[union-attr]
    report = evaluate(out)
    assert list(report.data["scores"]) == ["entity F1", "entity precision", "entity recall", "accuracy"]
    assert report.data["scores"]["entity F1"]["baselines"]["most frequent tag"] > 50
    assert report.data["labels"] and report.data["calibration"]["bins"] and report.svg is not None


def test_entities_with_their_places(names: Path) -> None:
    kind = made(names).data.kind
    logits = torch.zeros(3, len(kind.tags))
    for place, tag in enumerate(["B-PER", "I-PER", "O"]):
        logits[place, kind.tags.index(tag)] = 9
    assert kind.answers(["Ann  Lee!"], [logits], None)[0][0].entities == (Entity("Ann  Lee", "PER", 0, 8),)


SPANS = {
    "bioes": [["B-X", "I-X", "E-X", "O", "S-Y"], ["O", "O", "B-Y", "E-Y", "O"]],
    "bilou": [["B-X", "I-X", "L-X", "O", "U-Y"], ["O", "O", "B-Y", "L-Y", "O"]],
    "bmes": [["B-X", "M-X", "E-X", "O", "S-Y"], ["O", "O", "B-Y", "E-Y", "O"]],
}


def tagged_rows(path: Path, sentences: list[list[str]]) -> Path:
    rows = [{"tokens": [*"abcd", str(n)], "tags": tags} for n in range(12) for tags in sentences]
    return written(path, *rows)


@pytest.mark.parametrize("scheme", SPANS)
def test_what_begins_a_span_goes_on_to_its_end(tmp_path: Path, scheme: str) -> None:
    kind = made(tagged_rows(tmp_path / "a.jsonl", SPANS[scheme])).data.kind
    assert kind.bioes and not kind.bio
    torch.manual_seed(1)
    for potentials in (torch.randn(40, 5, len(kind.tags)), torch.randn(40, 5, len(kind.tags) ** 2)):
        answers = kind.answers([list("abcde")] * 40, list(10 * potentials), None)
        assert all(keeps_to("bioes", best[0].tags) for best in answers)
        assert len({best[0].tags for best in answers}) > 10


def test_tags_that_are_no_bioes(tmp_path: Path) -> None:
    assert keeps_to("bioes", ["B-X", "E-X", "S-X"]) and not keeps_to("bioes", ["B-X", "E-X", "E-X"])
    for wrong in (["B-X", "E-Y"], ["O", "B-X"], ["I-X", "E-X"]):
        assert not keeps_to("bioes", wrong)
    path = tagged_rows(tmp_path / "a.jsonl", [["B-X", "E-X", "E-X", "O", "O"]])
    assert made(path).data.kind.bio
    with pytest.raises(DataError, match=r"a.jsonl:\d+: a span is neither S-X alone nor goes from B-X to E-X"):
        made(path, scheme="bioes")


def test_a_tagger_of_before_answers_as_it_did(names: Path, tmp_path: Path) -> None:
    kind = made(names).data.kind
    kind.save(tmp_path)
    about = json.loads((tmp_path / "predictor.json").read_text())
    del about["bioes"]
    (tmp_path / "predictor.json").write_text(json.dumps(about))
    assert type(kind).load(tmp_path).bio and not type(kind).load(tmp_path).bioes


def test_a_token_without_a_tag_has_a_place(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"tokens": ["a", "b"], "tags": ["x ", None]})
    with pytest.raises(DataError, match=r"a.jsonl:1: token 2, 'b', has no tag \(tags\)"):
        made(path)


def test_tags_that_may_be_one_are_named(tmp_path: Path) -> None:
    rows = [{"tokens": ["a", "b", str(n)], "tags": ["Noun", " noun", "X"]} for n in range(12)]
    test = written(tmp_path / "test.jsonl", {"tokens": ["a"], "tags": ["verb"]})
    task = made(written(tmp_path / "a.jsonl", *rows), test=str(test), split=0.05)
    notes = " ".join(task.preview().data["notes"])
    assert "tags that differ by case" in notes
    assert "tags of the test rows that training has not" in notes and "'verb' 1" in notes

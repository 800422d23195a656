"""Classification: what a model is given, its answers, and its scores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from transformula import Model, evaluate, train
from transformula.cli import main
from transformula.data.records import Record
from transformula.errors import ConfigError, DataError, InputError, MissingExtra
from transformula.tasks.base import tasks
from transformula.tasks.classification import Classification
from transformula.tasks.label_spelling import fold_label, label_notes
from transformula.tasks.rows import RowTask
from transformula.tasks.scores.baselines import predicted_by

WORDS = {"good": "a fine film , I liked it", "bad": "a dull film , I left early"}


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    rows = [f"{text} {'very ' * (n % 7)}{n}\t{label}" for n in range(60) for label, text in WORDS.items()]
    path = tmp_path / "reviews.tsv"
    path.write_text("\n".join(rows))
    return path


def made(path: Path, numbers: dict[str, Any] | None = None, **settings: Any) -> Classification:
    read = tasks.get("classification").settings.read(
        {"data": str(path), "tokenizer": "bytes", "split": 0.2, **settings}
    )
    return Classification.make(read, numbers or {}, inputs=("tokens",))


def test_the_label_is_the_column_with_fewer_values(reviews: Path) -> None:
    task = made(reviews)
    assert task.data.kind.labels == ["bad", "good"]
    assert task.numbers["classes"] == 2


def test_columns_that_nothing_names(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("one,two,three\na,b,c\n")
    with pytest.raises(ConfigError, match="say which holds the text"):
        made(path)


def test_one_class_is_nothing_to_learn(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + "\n".join(f"a{n},x" for n in range(20)))
    with pytest.raises(DataError, match="nothing to tell apart"):
        made(path)


def test_a_label_that_training_has_not(reviews: Path, tmp_path: Path) -> None:
    other = tmp_path / "validation.tsv"
    other.write_text("a text\tgod")
    with pytest.raises(DataError, match=r"validation.tsv:1: the label 'god' .* did you mean good"):
        made(reviews, validation=str(other), text="1", label="2")


def test_long_pairs_are_cut_where_they_are_longest(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\tlabel\n" + "\n".join(f"{'x' * 40} {n}\tyy\t{n % 2}" for n in range(40)))
    task = made(path, text="a", text_2="b", label="label", max_tokens=12)
    mark = task.data.kind.tokenizer.end_of_document
    row = task.data.kind.encode([("x" * 40, "yy")])[0]["tokens"].tolist()
    assert row == [mark, *b"xxxxxxxx", mark, *b"yy"]


def test_alone_and_in_any_batch(reviews: Path) -> None:
    task = made(reviews)
    model = Model("pre-norm", family="encoder", output="logits = linear(mean(x), classes)", depth=1, width=16, heads=2,
                  **task.numbers)  # fmt: skip
    texts = [str(row["text"]) for row in task.data.source.training[:9]]
    together = task.data.kind.predict([model.module], texts, task.data.kind.settings())
    turned = task.data.kind.predict([model.module], texts[::-1], task.data.kind.settings())[::-1]
    for text, one, other in zip(texts, together, turned, strict=True):
        (alone,) = task.data.kind.predict([model.module], [text], task.data.kind.settings())
        for each in (one, other):
            assert each[0].probabilities == pytest.approx(alone[0].probabilities, abs=1e-5)


def test_several_labels(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + "\n".join(f'word{n},"{"a,b" if n % 2 else ""}"' for n in range(40)))
    task = made(path, several=True)
    batch = task.batch(0)
    assert batch.targets.dtype == torch.float32
    assert set(map(tuple, batch.targets.tolist())) == {(0.0, 0.0), (1.0, 1.0)}


def test_from_a_table_to_labels(reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    run = train("pre-norm", task="classification", data=str(reviews), depth=1, width=16, heads=2, tokenizer="bytes",
                steps=12, split=0.2, out=str(out))  # fmt: skip
    assert run.model.predict("I liked it") in WORDS
    answers = Model.from_folder(out).predict(["I liked it", ""], scores=True)
    assert sum(answers[0].probabilities.values()) == pytest.approx(1)
    figure, labels = tmp_path / "reliability.svg", tmp_path / "labels.txt"
    capsys.readouterr()
    assert main(["evaluate", str(out), "--json", "--figure", str(figure), "--output", str(labels)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["scores"]["accuracy"]["baselines"]["most frequent label"] > 0
    assert report["confusion"]["labels"] and report["calibration"]["bins"]
    assert all(0 < example["confidence"] <= 1 for example in report["examples_shown"]["worst"])
    assert (
        figure.read_text().lstrip().startswith("<?xml") and len(labels.read_text().splitlines()) == report["examples"]
    )


def test_a_baseline_without_its_package_is_left_out() -> None:
    def lacking(learned: Sequence[Record], records: Sequence[Record]) -> None:
        raise MissingExtra("TF-IDF needs the package scikit-learn")

    rows, notes = [Record({"text": "a", "label": "b"})], list[str]()
    assert predicted_by({"TF-IDF": lacking, "none": lambda *_: None, "one": lambda *_: ["b"]}, rows, rows, notes) == {
        "one": ["b"]
    }
    assert notes == ["the baseline TF-IDF is left out: TF-IDF needs the package scikit-learn"]


def test_an_evaluation_names_the_columns_of_other_rows(
    reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, run = tmp_path / "other.tsv", tmp_path / "run"
    other.write_text(
        "stars\tid\treview\tby\n"
        + "".join(f"{label}\t{n}\t{WORDS[label]} !\tx{n}\n" for n in range(4) for label in WORDS)
    )
    train("pre-norm", task="classification", data=str(reviews), tokenizer="bytes", depth=1, width=8, heads=1, steps=1,
          out=str(run))  # fmt: skip
    capsys.readouterr()
    typed = ["evaluate", str(run), "--data", str(other), "--json"]
    assert main(typed) == 2
    assert "other.tsv have the columns stars, id, review, by: say which holds the label" in capsys.readouterr().out
    assert main([*typed, "--text", "review", "--label", "stars"]) == 0
    assert set(json.loads(capsys.readouterr().out)["scores"]) == {"accuracy", "macro F1"}
    assert main(["evaluate", str(run), "--text", "review"]) == 2
    assert "--text: is for the rows of --data" in capsys.readouterr().err
    assert main(["evaluate", str(run), "--overlap", "keep"]) == 2
    assert "--overlap: is for the rows of --data" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in tasks.names() if issubclass(tasks.get(name), RowTask)])
def test_an_evaluation_takes_every_setting_that_names_a_column(name: str) -> None:
    kind = tasks.get(name)
    about = {key: str(field.description) for key, field in kind.settings.model_fields.items()}
    assert {key for key, text in about.items() if text.startswith("the column")} <= set(kind.evaluation.model_fields)


def test_models_of_other_tokens_answer_together(reviews: Path) -> None:
    kinds, modules = [], []
    for tokenizer, lower in (("bytes", False), ("characters", True), ("bytes", False)):
        task = made(reviews, tokenizer=tokenizer, lower=lower)
        model = Model("x = x + mlp(norm(x))", family="encoder", output="logits = linear(mean(x), classes)", depth=1,
                      width=8, seed=len(modules), **task.numbers)  # fmt: skip
        kinds.append(task.data.kind)
        modules.append(model.module)
    texts = ["A fine film", "I left early", "very"]
    each = [kind.outputs([module], kind.encode(texts)) for kind, module in zip(kinds, modules, strict=True)]
    expected = torch.stack([torch.cat(outputs) for outputs in each]).mean(0).softmax(-1)
    first = kinds[0]
    together = [modules[0], *(first.beside(k, m, "b") for k, m in zip(kinds[1:], modules[1:], strict=True))]
    assert together[1] is not modules[1] and together[2] is modules[2]
    answers = first.predict(together, texts, first.settings())
    found = [[best.probabilities[label] for label in first.labels] for (best,) in answers]
    torch.testing.assert_close(torch.tensor(found), expected)
    with pytest.raises(InputError, match="b: its labels are"):
        first.beside(replace(first, labels=["bad", "fine"]), modules[1], "b")
    with pytest.raises(InputError, match="another task"):
        first.beside(None, modules[1], "b")


def spelled(path: Path, labels: Sequence[Any]) -> Path:
    """Rows of texts with these labels, as JSON has them."""
    path.write_text("".join(json.dumps({"text": f"text {n}", "label": each}) + "\n" for n, each in enumerate(labels)))
    return path


def test_rows_without_a_label_are_left_out_and_counted(tmp_path: Path) -> None:
    path = spelled(tmp_path / "rows.jsonl", [*["a", "b"] * 20, None, "", " ", float("nan"), "NaN", " a "])
    task = made(path)
    assert task.data.kind.labels == ["a", "b"]
    assert "data: 5 of 46 rows have no label and are left out" in task.preview().data["notes"]
    source = task.data.source
    assert sum(map(len, (source.training, source.validation, source.test))) == 41
    with pytest.raises(DataError, match="no row has a label"):
        made(spelled(tmp_path / "none.jsonl", [None, ""]))


def test_labels_that_may_be_one_are_named_with_their_counts(tmp_path: Path) -> None:
    labels = [1, 1.0, "1.0", "x", "X", "x  y", "x y", "None", "once"]
    training = spelled(tmp_path / "rows.jsonl", [*labels[:-1] * 2, labels[-1]])
    other = spelled(tmp_path / "other.jsonl", ["x"])
    task = made(training, validation=str(other), overlap="keep")
    notes = " ".join(task.preview().data["notes"])
    for said in ("'1.0' 4, '1' 2; if they are one, write it one way", "'X' 2, 'x' 2", "'x  y' 2, 'x y' 2",
                 "'None' 2; if so, leave their rows out: where='COLUMN != None'",
                 "little is learned of them: 'once' 1"):  # fmt: skip
        assert said in notes
    plain = made(spelled(tmp_path / "plain.jsonl", ["yes", "no"] * 9))
    assert not [note for note in plain.preview().data["notes"] if "label" in note]


def test_labels_are_compared_whatever_they_are() -> None:
    odd = Counter(["--5", "+-", "+", "5.", "٣", "²", "9" * 5000, "-0.0", "0", "+5"])
    assert {fold_label(label) for label in ("5", "+5", "5.", "5.00")} == {"5"} and fold_label("--5") == "--5"
    assert len(label_notes([list(odd)], list(odd))) == 3  # 5 in two spellings, 0 in two, and all that stand once


def test_test_labels_that_training_has_not_are_named(tmp_path: Path) -> None:
    training = spelled(tmp_path / "rows.jsonl", ["good", "bad"] * 20)
    validation, test = (tmp_path / name for name in ("validation.jsonl", "test.jsonl"))
    spelled(validation, ["good"])
    spelled(test, ["good", "goood", "goood", "mixed"])
    task = made(training, validation=str(validation), test=str(test), overlap="keep")
    said = [note for note in task.preview().data["notes"] if "count as wrong" in note]
    assert said == ["labels of the test rows that training has not, so that they count as wrong: 'goood' 2,"
                    " 'mixed' 1; did you mean good? known: bad, good"]  # fmt: skip


def test_a_report_names_labels_that_training_has_not(reviews: Path, tmp_path: Path) -> None:
    run = train("pre-norm", task="classification", data=str(reviews), tokenizer="bytes", depth=1, width=8, heads=1,
                steps=1, out=str(tmp_path / "run"), quiet=True)  # fmt: skip
    test = spelled(tmp_path / "test.jsonl", ["good", "mixed", "mixed", None])
    notes = evaluate(run.folder, data=str(test), text="text", label="label").data["notes"]
    assert "data: 1 of 4 rows have no label and are left out" in notes
    assert any(note.startswith("labels of the rows that training has not") and "'mixed' 2" in note for note in notes)


def test_of_several_labels_none_is_one_of_them(tmp_path: Path) -> None:
    task = made(spelled(tmp_path / "rows.jsonl", [*[["a", "b "], ["a"]] * 9, [], None]), several=True)
    assert task.data.kind.labels == ["a", "b"]
    assert (
        "data: 2 of 20 rows have no label and are read as having none of the labels" in task.preview().data["notes"]
    )


def test_validation_and_test_rows_have_each_label_as_often_as_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("\n".join(f"a text {n}\t{'spam' if n % 10 == 0 else 'ham'}" for n in range(400)))
    source = made(path, split=0.1).data.source
    for held in (source.validation, source.test):
        assert Counter(row["label"] for row in held)["spam"] in (3, 4) and 36 <= len(held) <= 40
    by_hash = made(path, split=0.1, stratify=False).data.source
    assert [row["text"] for row in by_hash.validation] != [row["text"] for row in source.validation]


def test_a_run_of_before_splits_were_stratified_keeps_its_split(reviews: Path, tmp_path: Path) -> None:
    how = {"task": "classification", "data": str(reviews), "tokenizer": "bytes", "depth": 1, "width": 8, "heads": 1}
    run = train("pre-norm", **how, steps=1, split=0.2, stratify=False, out=str(tmp_path / "run"), quiet=True)
    config = run.folder / "config.yaml"
    before, kept = evaluate(run.folder), config.read_text()
    assert "stratify: false" in kept
    config.write_text(kept.replace("stratify: false\n", ""))
    after = evaluate(run.folder)
    assert [e.source for e in after.best + after.worst] == [e.source for e in before.best + before.worst]
    train(resume=run.folder, steps=2, quiet=True)
    assert "stratify: false" in config.read_text()


@pytest.fixture
def rare(tmp_path: Path) -> Path:
    """Nine rows of one label for each of the other."""
    rows = [f"{WORDS[label]} {n}\t{label}" for n in range(200) for label in [("good", "bad")[n % 10 == 0]]]
    (tmp_path / "rare.tsv").write_text("text\tlabel\n" + "\n".join(rows))
    return tmp_path / "rare.tsv"


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_weighted_by_the_label(rare: Path, smoothing: float) -> None:
    given: dict[str, Any] = {"text": "text", "label": "label", "label_smoothing": smoothing}
    plain, task = made(rare, **given), made(rare, **given, class_weights="bad=6, good=2")
    logits, targets = torch.randn(5, 1, 2), torch.tensor([0, 1, 1, 0, 1])
    batch = task.batch(0)
    batch = replace(batch, targets=targets)
    rows = [slice(n, n + 1) for n in range(5)]
    each = torch.stack([plain.objective(logits[row], replace(batch, targets=targets[row])) for row in rows])
    weights = torch.tensor([6.0, 2.0])[targets]
    torch.testing.assert_close(task.objective(logits, batch), (each * weights).sum() / weights.sum())
    if not smoothing:
        expected = torch.nn.functional.cross_entropy(logits[:, 0], targets, weight=torch.tensor([6.0, 2.0]))
        torch.testing.assert_close(task.objective(logits, batch), expected)
    assert float(task.objective(torch.zeros(5, 1, 2), batch)) == pytest.approx(0.6931, abs=1e-3), "that of guessing"


def test_balanced_classes_count_alike_in_the_training_set(rare: Path) -> None:
    task = made(rare, text="text", label="label", class_weights="balanced")
    counts = Counter(str(row["label"]) for row in task.data.source.training)
    weights = dict(zip(task.data.kind.labels, task.weights.tolist(), strict=True))
    assert weights["bad"] * counts["bad"] == pytest.approx(weights["good"] * counts["good"])
    assert sum(weights[label] * count for label, count in counts.items()) == pytest.approx(counts.total())
    assert f"class weights in the loss: bad {weights['bad']:.4g}, good {weights['good']:.4g}" in repr(task.preview())
    assert task.describe()["class_weights"].startswith("bad ") and "class_weights" not in made(rare).describe()


def test_a_validation_loss_is_weighted_like_that_of_training(rare: Path) -> None:
    task = made(rare, text="text", label="label", class_weights="balanced")

    class Guess(torch.nn.Module):
        def forward(self, tokens: torch.Tensor, lengths: Any = None) -> torch.Tensor:
            return torch.tensor([2.0, 0.0]).expand(len(tokens), 1, 2)

    side = task.data.validation
    whole = replace(task.batch(0), targets=torch.stack(list(side.targets)))
    expected = task.objective(torch.tensor([2.0, 0.0]).expand(len(side), 1, 2), whole)
    assert task.evaluate(Guess())["loss"] == pytest.approx(float(expected), rel=1e-5)


def test_class_weights_are_recorded_and_resumed(rare: Path, tmp_path: Path) -> None:
    given = {"task": "classification", "data": str(rare), "depth": 1, "width": 8, "heads": 1, "batch": 4, "quiet": True}
    run = train("pre-norm", **given, steps=2, class_weights={"bad": 5}, out=tmp_path / "run", tokenizer="bytes")
    assert "class_weights:\n  bad: 5.0\n" in (run.folder / "config.yaml").read_text()
    assert "- class_weights: bad 5, good 1\n" in (run.folder / "summary.md").read_text()
    assert train(resume=run.folder, steps=3, quiet=True).result.steps == 3
    with pytest.raises(InputError, match="class_weights was 'bad 5, good 1', is 'bad 5"):
        train(resume=run.folder, steps=4, quiet=True, class_weights="balanced")


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ("bda=2", "has no label 'bda'; did you mean bad"),
        *((wrong, "expected balanced, or a weight above 0") for wrong in ("bad", "bad=0", "bad=nan", "=2", "")),
        ("bad=1,bad=2", "expected balanced"),
        ({"bad": "heavy"}, "expected balanced"),
    ],
)
def test_mistakes_in_class_weights(rare: Path, weights: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=f"class_weights: .*{said}"):
        made(rare, class_weights=weights)


def test_class_weights_are_refused_where_they_have_no_effect(
    rare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="class_weights: with --several"):
        made(rare, several=True, class_weights="balanced")
    for task in ("language-modeling", "tagging", "translation"):
        assert main(["train", "pre-norm", "--task", task, "--data", str(rare), "--class-weights", "balanced"]) == 2
        said = capsys.readouterr().err
        others = "audio-classification, classification, image-classification"
        assert f"{task} has no such setting; tasks with it: {others}" in said

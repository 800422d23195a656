"""`train(init_from=...)` on data with other labels, tags or tokens: rows are matched by name."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from transformula.api.model import Model
from transformula.api.run import evaluate, train
from transformula.cli import main
from transformula.errors import CheckpointError, ConfigError, InputError
from transformula.interop.weights import load_tensors
from transformula.structured import load_yaml
from transformula.tokenizers.characters import Characters

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL = {"after": "x = norm(x)", "depth": 1, "width": 16, "heads": 2, "tokenizer": "bytes"}
QUICK: dict[str, Any] = {"precision": "float32", "threads": 1, "quiet": True}
HEAD = ("output.linear.weight", "output.linear.bias")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRANSFORMULA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def rows_of(folder: Path, *labels: str) -> Path:
    """Texts of a label's own sign each, so that little training tells them apart."""
    path = folder / ("-".join(labels) + ".tsv")
    rows = [f"{labels[i % len(labels)]}\t{labels[i % len(labels)] * 4} {i}" for i in range(60)]
    path.write_text("\n".join(["label\ttext", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def classifier(data, tmp_path_factory) -> tuple[Path, dict[str, torch.Tensor]]:
    """Labels that are numbers, in the order of these: 8, 9, 10."""
    out = tmp_path_factory.mktemp("runs") / "labels"
    given = {"task": "classification", "data": str(rows_of(data, "9", "10", "8")), **SMALL, **QUICK}
    train(LAYER, **given, steps=40, lr=0.01, batch=16, out=str(out))
    return out, load_tensors(out / "best" / "weights.safetensors")


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_labels_in_another_order_keep_their_rows(data, classifier, tmp_path, before_the_first_step, capsys):
    """One more, which is no number, so that all are in the order of the alphabet: 10, 8, 9, x."""
    out, given = classifier
    seen = before_the_first_step(data=str(rows_of(data, "10", "8", "9", "x")), init_from=out)
    told = said(capsys)
    assert f"task classification, that of {out}" in told
    assert "labels 3 of 3 matched by name; 1 new, begin fresh (x)" in told
    for name in HEAD:
        assert torch.equal(seen["tensors"][name][:3], given[name][[2, 0, 1]])
    assert seen["tensors"][HEAD[0]].shape == (4, 16)
    # Before the first step it says of a text what the run said, but for the new label.
    kind, old = seen["task"].predictor(), Model.from_folder(out)
    texts = ["8888 1", "9999 2", "10101010 3"]
    before = torch.stack(old.predictor.outputs([old.module], old.predictor.encode(texts)))[:, 0]
    now = torch.stack(kind.outputs([seen["model"]], kind.encode(texts)))[:, 0]
    assert kind.labels == ["10", "8", "9", "x"] and torch.allclose(now[:, :3], before[:, [2, 0, 1]], atol=1e-5)


def test_as_many_labels_of_other_names(data, classifier, before_the_first_step, capsys):
    out, given = classifier
    seen = before_the_first_step(data=str(rows_of(data, "9", "10", "11")), init_from=out)
    assert "labels 2 of 3 matched by name; 1 new, begin fresh (11); 1 dropped (8)" in said(capsys)
    for name in HEAD:
        assert torch.equal(seen["tensors"][name][:2], given[name][1:])
        assert not any(torch.equal(seen["tensors"][name][2], row) for row in given[name])


def test_one_fewer_is_dropped_or_kept(data, classifier, tmp_path, before_the_first_step, capsys):
    out, given = classifier
    fewer = {"data": str(rows_of(data, "8", "10")), "init_from": out}
    seen = before_the_first_step(**fewer)
    assert torch.equal(seen["tensors"][HEAD[0]], given[HEAD[0]][[0, 2]])
    assert "labels 2 of 3 matched by name; 1 dropped (9)" in said(capsys)

    seen = before_the_first_step(**fewer, labels="keep")
    assert all(torch.equal(seen["tensors"][name], given[name]) for name in HEAD)
    assert "note labels that are kept, and that no training row has: '9'" in said(capsys)
    assert seen["config"]["kept_labels"] == ["8", "9", "10"]


def test_a_run_with_kept_labels_goes_on_without_the_other(data, classifier, tmp_path):
    out = tmp_path / "kept"
    given = {"data": str(rows_of(data, "8", "10")), "init_from": classifier[0], "labels": "keep", **QUICK}
    before = train(**given, steps=1, lr=1e-9, out=str(out))
    assert before.scores["accuracy"] == 100  # what the labels were stays known
    assert train(resume=out, steps=2, quiet=True).result.steps == 2
    assert Model.from_folder(out).predict(["9999 5"]) == ["9"]
    assert evaluate(out).data["scores"]["accuracy"]["score"] == 100


def test_with_adapters_the_tensors_of_new_labels_are_trained_whole(data, classifier, tmp_path):
    out = tmp_path / "run"
    more = {"data": str(rows_of(data, "8", "9", "10", "x")), "init_from": classifier[0], **QUICK}
    train(**more, lora="rank=2", steps=2, out=str(out))
    assert load_yaml(out / "config.yaml")["lora"]["full"] == [*HEAD]
    with pytest.raises(ConfigError, match=r"freeze: output.linear.weight has rows of labels or tokens that .* has not"):
        train(**more, freeze="output")
    # Rows that are in another order alone may be frozen.
    train(**{**more, "data": str(rows_of(data, "8", "10"))}, freeze="output", steps=1, out=str(tmp_path / "frozen"))
    tensor = load_tensors(tmp_path / "frozen" / "last" / "weights.safetensors")[HEAD[0]]
    assert torch.equal(tensor, classifier[1][HEAD[0]][[0, 2]])


def test_what_is_refused(data, classifier, tmp_path, before_the_first_step):
    two = str(rows_of(data, "8", "10"))
    with pytest.raises(InputError, match="labels=keep: no model is loaded whose labels could stay: add init_from=RUN"):
        train(LAYER, task="classification", data=two, labels="keep", **SMALL)
    fixed = {**SMALL, "output": "logits = linear(mean(x), 3)", "family": "encoder", "task": "classification", **QUICK}
    three = str(rows_of(data, "a", "b", "c"))
    train(LAYER, data=three, **fixed, steps=1, out=str(tmp_path / "fixed"))
    with pytest.raises(CheckpointError, match="its labels are others .* write classes where it says the number"):
        train(data=str(rows_of(data, "b", "c", "d")), init_from=tmp_path / "fixed", **QUICK)
    with pytest.raises(ConfigError, match="classes: the model says 5, and the data has 2"):
        train(data=two, init_from=classifier[0], classes=5, **QUICK)


def sentences(folder: Path, *tags: str) -> Path:
    path = folder / ("-".join(tags) + ".jsonl")
    words = [" ".join(f"w{(i + n) % 9}" for n in range(5)).split() for i in range(40)]
    tagged = [[tags[int(word[1]) % len(tags)] for word in row] for row in words]
    lines = [{"tokens": row, "tags": each} for row, each in zip(words, tagged, strict=True)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize("output", ["linear(x, classes)", "transitions(linear(x, classes))"])
def test_tags(data, tmp_path, before_the_first_step, capsys, output):
    before = {"task": "tagging", "data": str(sentences(data, "A", "C", "D")), "output": f"logits = {output}"}
    shape = {key: SMALL[key] for key in ("after", "depth", "width", "heads")}
    train(LAYER, **before, **shape, **QUICK, steps=2, lr=0.1, out=str(tmp_path / "tags"))
    capsys.readouterr()
    given = load_tensors(tmp_path / "tags" / "best" / "weights.safetensors")
    seen = before_the_first_step(data=str(sentences(data, "B", "D", "A")), init_from=tmp_path / "tags")
    assert "labels 2 of 3 matched by name; 1 new, begin fresh (B); 1 dropped (C)" in said(capsys)
    heads = [name for name in given if name.startswith("output") and name.endswith(("linear.weight", "linear.bias"))]
    assert heads and seen["task"].data.kind.tags == ["A", "B", "D"]
    for name in heads:
        assert torch.equal(seen["tensors"][name][[0, 2]], given[name][[0, 2]])
        assert not torch.equal(seen["tensors"][name][1], given[name][1])
    square = next((name for name in given if given[name].shape == (3, 3)), None)
    if "transitions" in output:
        both = torch.tensor([0, 2])
        assert given[square].any() and not seen["tensors"][square][1].any() and not seen["tensors"][square][:, 1].any()
        assert torch.equal(seen["tensors"][square][both][:, both], given[square][both][:, both])


def test_a_vocabulary_grows(tmp_path, before_the_first_step, capsys):
    """Another tokenizer whose tokens have other numbers: those of the same bytes have the same rows."""
    (tmp_path / "old.txt").write_text("abcd abdc " * 40)
    (tmp_path / "new.txt").write_text("Zabcd abdcz " * 40)
    small = {**SMALL, "before": "x = embed.words(tokens) + sinusoids(tokens)", "context": 8, "batch": 2}
    small["tokenizer"] = "characters"
    out = tmp_path / "run"
    train(LAYER, data=str(tmp_path / "old.txt"), **small, **QUICK, steps=2, out=str(out))
    capsys.readouterr()
    given = load_tensors(out / "best" / "weights.safetensors")["words.weight"]
    larger = Characters.train([(tmp_path / "new.txt").read_text()])
    larger.save(tmp_path / "larger")
    text = {"data": str(tmp_path / "new.txt"), "init_from": out}
    seen = before_the_first_step(**text, tokenizer=str(tmp_path / "larger"))["tensors"]["words.weight"]
    assert "tokens 5 of 5 matched by name; 2 new, begin fresh" in said(capsys)
    old = Model.from_folder(out).tokenizer.names
    assert seen.shape == (7, 16) and larger.names != [*old, *larger.names[5:]]
    for number, name in enumerate(old):
        assert torch.equal(seen[larger.names.index(name)], given[number])
    # A tokenizer that is learned anew is matched as well; the run's own needs no match.
    grown = before_the_first_step(**text, tokenizer="characters")["tensors"]["words.weight"]
    assert torch.equal(grown, seen)
    before_the_first_step(data=str(tmp_path / "old.txt"), init_from=out)
    assert "matched by name" in (told := said(capsys)) and told.count("matched by name") == 1


def test_the_task_of_the_run_shows_its_options(classifier, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--init-from", str(classifier[0]), "--help"])
    assert "data, of classification" in capsys.readouterr().out

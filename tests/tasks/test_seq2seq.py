"""Tasks from a source to a target: what a batch holds, that padding changes nothing, what is measured and refused."""

import gzip
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from transformula.api.reading import check_model
from transformula.data.sets import digits
from transformula.data.settings import Seq2SeqSettings
from transformula.data.source_target import read_source_target
from transformula.errors import ConfigError, DataError, InputError
from transformula.generation.settings import SearchSettings
from transformula.model import build
from transformula.tasks.base import IGNORED, tasks
from transformula.tasks.scores.report import ScoreReport
from transformula.tasks.seq2seq import SequenceToSequence
from transformula.tasks.trained import Trained
from transformula.tasks.writing import Writing

LAYER = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
BOTH = """
language: 1
depth: 1
width: 16
heads: 2
encoder:
  causal: false
  before: x = embed.words(source) + sinusoids(source)
  layer: |
    x = x + attention(norm(x))
    x = x + mlp(norm(x))
decoder:
  before: x = embed.words(tokens) + sinusoids(tokens)
  layer: |
    x = x + attention(norm(x))
    x = x + attention(norm(x), memory)
    x = x + mlp(norm(x))
output: logits = unembed.words(x)
"""
ALONE = {"layer": LAYER, "before": "x = embed.words(tokens) + sinusoids(tokens)"}
WORDS = "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(1)
    for name, rows in (("train", 60), ("val", 12), ("test", 7)):
        picked = [random.integers(12, size=random.integers(1, 9)) for _ in range(rows)]
        for lang, words in (("de", WORDS), ("en", NUMBERS)):
            text = "\n".join(f"{' '.join(words[i] for i in row)} {name}" for row in picked)
            (tmp_path / f"{name}.{lang}").write_text(text + "\n", encoding="utf-8")
    (tmp_path / "both.yaml").write_text(BOTH)
    return tmp_path


def settings(folder: Path, **given: Any) -> Seq2SeqSettings:
    usual = {"data": f"{folder}/train.{{de,en}}", "validation": f"{folder}/val.{{de,en}}", "batch_tokens": 150}
    return Seq2SeqSettings.read({**usual, "tokenizer": "characters", **given})


def made(
    folder: Path, task: str = "translation", inputs: Any = ("source", "tokens"), seed: int = 1, **given: Any
) -> Any:
    numbers = given.pop("numbers", {})
    return tasks.get(task).make(settings(folder, **given), numbers, inputs=inputs, seed=seed)


def model_for(task: Any, folder: Path, alone: bool = False) -> Any:
    numbers = {**task.numbers, "depth": 1, "width": 16, "heads": 2}
    if alone:
        architecture = check_model(ALONE["layer"], {"before": ALONE["before"], **numbers})
    else:
        architecture = check_model(folder / "both.yaml", task.numbers)
    return build(architecture, seed=3, dtype=torch.float64).eval()


def loss_alone(task: Any, model: Any, side: Any, row: int) -> tuple[float, int]:
    """-log P of one row's target, from tensors made here."""
    target = [task.data.writing.end, *side.targets[row].tolist()]
    source = side.sources[row].tolist()
    if task.data.writing.input == "tokens":
        whole = torch.tensor([source + target[1:]])
        logits = model(whole[:, :-1])[:, len(source) - 1 :]
    else:
        logits = model(source=torch.tensor([source]), tokens=torch.tensor([target[:-1]]))
    asked = torch.tensor(target[1:])
    return float(F.cross_entropy(logits[0], asked, reduction="sum").detach()), len(asked)


@pytest.mark.parametrize("alone", [False, True], ids=["encoder and decoder", "decoder alone"])
def test_padding_changes_no_loss(folder: Path, alone: bool) -> None:
    task = made(folder, inputs=("tokens",) if alone else ("source", "tokens"), label_smoothing=0.0)
    model = model_for(task, folder, alone)
    ragged = 0
    for step in range(4):
        rows = task.data.buckets.rows(step)
        each = [loss_alone(task, model, task.data.training, row) for row in rows]
        batch = task.batch(step)
        expected = sum(nats for nats, _ in each) / sum(count for _, count in each)
        assert float(task.loss(model, batch).detach()) == pytest.approx(expected, rel=1e-9)
        assert task.units(batch) == sum(count for _, count in each)
        ragged += len(batch.lengths)
    assert ragged


@pytest.mark.parametrize("alone", [False, True], ids=["encoder and decoder", "decoder alone"])
def test_an_evaluation_scores_every_row_once(folder: Path, alone: bool) -> None:
    task = made(folder, inputs=("tokens",) if alone else ("source", "tokens"), written=0)
    model = model_for(task, folder, alone)
    each = [loss_alone(task, model, task.data.validation, row) for row in range(len(task.data.validation))]
    scores = task.evaluate(model)
    assert scores["loss"] == pytest.approx(sum(n for n, _ in each) / sum(c for _, c in each), rel=1e-6)
    assert scores["tokens"] == sum(c for _, c in each) and task.score == "loss"


def test_batches_are_a_function_of_seed_and_step(folder: Path) -> None:
    one, other = made(folder), made(folder, seed=2)
    assert torch.equal(one.batch(5).targets, made(folder).batch(5).targets)
    assert any(not torch.equal(one.batch(s).targets, other.batch(s).targets) for s in range(5))
    seen = np.concatenate([one.data.buckets.rows(step) for step in range(one.steps(1))])
    assert sorted(seen) == list(range(60))


def test_what_a_batch_holds(folder: Path) -> None:
    task = made(folder)
    batch = task.batch(0)
    end, row = task.data.writing.end, 0
    count = int((batch.targets[row] != IGNORED).sum())
    tokens, targets = batch.inputs["tokens"][row], batch.targets[row]
    assert tokens[0] == end and targets[count - 1] == end and torch.equal(tokens[1:count], targets[: count - 1])
    text = task.data.writing.target.decode(targets[: count - 1].tolist())
    record = task.data.training.records[int(task.data.buckets.rows(0)[row])]
    assert text == record["target"]
    length = int(batch.lengths.get("source", torch.full((1,), batch.inputs["source"].shape[1]))[row])
    assert task.data.writing.source.decode(batch.inputs["source"][row, : length - 1].tolist()) == record["source"]
    assert set(batch.given) == {"source", "tokens", *({"lengths"} if batch.lengths else ())}


def reported(task: Any, model: Any, folder: Path, given: Mapping[str, Any], **recorded: Any) -> ScoreReport:
    """What `evaluate` says of a model, of whose run so much is recorded."""
    task.predictor().save(folder)
    read = check_model(folder / "both.yaml", task.numbers)
    report: ScoreReport = task.report(Trained("here", folder, read, [model], task.numbers, recorded), None, given)
    return report


def test_scores_of_an_evaluation_are_those_of_what_is_written(folder: Path) -> None:
    task = made(folder)
    model = model_for(task, folder)
    scores = task.evaluate(model)
    assert set(scores) == {*task.measures, "tokens"} and task.higher < set(scores) and task.score == "bleu"
    records = task.data.validation.records
    found = task.data.limited.predict([model], [row["source"] for row in records], SearchSettings(beam=1, alpha=0.0))
    (bleu, *_) = type(task).measure([one[0].text for one in found], [[str(row["target"])] for row in records])
    assert scores["bleu"] == pytest.approx(bleu.score)
    rows = {"data": f"{folder}/train.{{de,en}}", "validation": f"{folder}/val.{{de,en}}"}
    report = reported(task, model, folder, {"beam": 1, "alpha": 0.0}, **rows)
    assert report.rows[0].measured.score == pytest.approx(bleu.score) and "copy" in repr(report)


def test_some_rows_are_written(folder: Path) -> None:
    assert made(folder, written=4).data.generated_rows == [0, 3, 6, 9]
    assert made(folder, written=99).data.generated_rows == list(range(12))


def test_what_is_saved_writes_the_same(folder: Path) -> None:
    task = made(folder, max_source=20)
    model = model_for(task, folder)
    (folder / "kept").mkdir()
    task.predictor().save(folder / "kept")
    writing = Writing.load(folder / "kept")
    sources = [row["source"] for row in task.data.validation.records]
    assert (
        writing.prompts(sources) == task.data.limited.prompts(sources) and writing.longest == task.data.limited.longest
    )
    assert writing.predict([model], sources) == task.data.limited.predict([model], sources)
    assert max(map(len, writing.ids(sources))) == 20


@pytest.mark.parametrize("alone", [False, True])
def test_texts_are_spelled_for_the_model_in_training_and_in_use(folder: Path, alone: bool) -> None:
    for name in ("train", "val"):
        for lang in ("de", "en"):
            path = folder / f"{name}.{lang}"
            path.write_text(
                "".join(line.replace(" ", "_").capitalize() + "\n" for line in path.read_text().splitlines())
            )
    inputs = ("tokens",) if alone else ("source", "tokens")
    task = made(folder, inputs=inputs, split_names=True, lower="first")
    model = model_for(task, folder, alone)
    (folder / "kept").mkdir()
    task.predictor().save(folder / "kept")
    writing = Writing.load(folder / "kept")
    sources = [row["source"] for row in task.data.validation.records]
    assert "_" in sources[0] and sources[0][0].isupper()
    side = task.data.validation
    assert [one.tolist() for one in writing.ids(sources)] == [side.sources[row].tolist() for row in range(len(side))]
    decode = writing.target.decode
    assert decode(side.sources[0][:-1]) == f" {sources[0].replace('_', ' ').lower()}"
    target = side.records[0]["target"]
    assert decode(side.targets[0][:-1]) == " " + target.lower()
    assert "_" in target  # names in targets stay
    found = writing.predict([model], sources, prefixes=["one_"] * len(sources))
    assert found == task.data.limited.predict([model], sources, prefixes=["one_"] * len(sources))
    assert all(each[0].text.startswith("one_") for each in found)
    # A prefix is spelled as a target is: the model begins with the tokens that it has learned.
    assert decode(writing.target.encode(writing.spelling.target("One_"))) == " one_"
    plain = made(folder, inputs=inputs)
    assert plain.data.identity != task.data.identity
    assert repr(task.preview()) != repr(plain.preview())  # lengths are those of the tokens


def test_each_side_may_have_a_tokenizer_of_its_own(folder: Path) -> None:
    task = made(folder, joint=False)
    assert task.data.writing.source is not task.data.writing.target
    assert task.numbers["source_vocab"] == task.data.writing.source.vocab != task.numbers["vocab"]
    (folder / "kept").mkdir()
    task.predictor().save(folder / "kept")
    again = Writing.load(folder / "kept")
    assert again.source is not None and again.source.identity == task.data.writing.source.identity
    with pytest.raises(ConfigError, match="joint: a decoder alone"):
        made(folder, joint=False, inputs=("tokens",))


def test_rows_that_are_too_long(folder: Path) -> None:
    lengths = made(folder).data.training.sources.lengths
    dropped = made(folder, max_source=20, too_long="drop")
    assert len(dropped.data.training) == (lengths <= 20).sum() < 60
    assert any("left out: longer than source 20 tokens" in note for note in dropped.data.notes)
    cut = made(folder, max_source=20, too_long="cut")
    assert len(cut.data.training) == 60 and cut.data.training.sources.lengths.max() == 20
    assert all(cut.data.training.sources[row][-1] == cut.data.writing.end for row in range(60))
    with pytest.raises(DataError, match=r"train\.de:\d+: a row of source \d+ tokens, target \d+ tokens is longer"):
        made(folder, max_source=20, too_long="refuse")
    assert dropped.data.validation.targets.lengths.max() == made(folder).data.validation.targets.lengths.max()


def test_rows_that_measure_are_not_learned_from(folder: Path) -> None:
    for lang in ("de", "en"):
        text = (folder / f"train.{lang}").read_text(encoding="utf-8").splitlines()
        (folder / f"val.{lang}").write_text("\n".join(text[3:9]) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="6 of the 6 rows of the validation rows are also training rows"):
        made(folder)
    dropped = made(folder, overlap="drop")
    assert len(dropped.data.training) == 54 and "6 rows were dropped from training" in repr(dropped.preview())
    assert len(made(folder, overlap="keep").data.training) == 60


def test_rows_are_held_back_where_none_measure(folder: Path) -> None:
    """To choose a model, and others to score it."""
    lines = (folder / "train.de").read_text(encoding="utf-8").splitlines()
    rows = read_source_target(settings(folder, validation=None, split=0.2), "")
    parts = [{str(row["source"]) for row in part} for part in (rows.training, rows.validation, rows.test)]
    assert parts[0] | parts[1] | parts[2] == set(lines)
    assert len(rows.training) + len(rows.validation) + len(rows.test) == 60
    assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])
    assert all(3 < len(part) < 25 for part in parts[1:])
    assert [note.split(" held out for ")[1] for note in rows.notes] == ["validation", "test"]
    named = read_source_target(settings(folder, validation=None, test=f"{folder}/test.{{de,en}}", split=0.2), "")
    assert [row["source"] for row in named.validation] == [row["source"] for row in rows.validation]
    assert len(named.training) + len(named.validation) == 60 and len(named.test) == 7
    alone = read_source_target(settings(folder), "")
    assert len(alone.training) == 60 and alone.test is alone.validation


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"source": "de", "target": "en"}, ("de", "en")),
        ({"source": "en"}, ("en", "de")),
        ({}, ("de", "en")),
        ({"target": "de"}, ("en", "de")),
    ],
)
def test_columns(folder: Path, given: Mapping[str, str], expected: tuple[str, str]) -> None:
    record = made(folder, **given).data.training.records[0]
    words = {"de": set(WORDS), "en": set(NUMBERS)}
    for side, lang in zip(("source", "target"), expected, strict=True):
        assert set(str(record[side]).split()) - {"train"} <= words[lang]


def test_columns_that_nobody_named(folder: Path) -> None:
    (folder / "rows.tsv").write_text("id\tgerman\tenglish\n1\tein\tone\n2\tzwei\ttwo\n3\tdrei\tthree\n")
    with pytest.raises(ConfigError, match="source: the rows of .* have the columns id, german, english: say which"):
        made(folder, data=str(folder / "rows.tsv"), validation=None)


def test_several_references(folder: Path) -> None:
    lines = [f'{{"text": ["a b.", "c d {i}."], "tldr": ["e {i}", "f"]}}' for i in range(20)]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    task = made(
        folder, "summarization", data=str(folder / "rows.jsonl"), validation=None, split=0.3, source="text",
        target="tldr.1", join=" ", references="tldr",
    )  # fmt: skip
    record = task.data.training.records[0]
    assert str(record["source"]).startswith("a b. c d ") and str(record["target"]).startswith("e ")
    rows = {"data": str(folder / "rows.jsonl"), "split": 0.3, "source": "text", "target": "tldr.1", "join": " "}
    scores = reported(task, model_for(task, folder), folder, {"beam": 2}, **rows, references="tldr")
    assert "nrefs:2" in scores.rows[0].measured.signature
    assert {"lead-1", "constant"} == set(scores.rows[0].baselines)


def test_summaries_are_scored_by_stems_where_that_is_asked(folder: Path) -> None:
    task = made(folder, "summarization")
    model = model_for(task, folder)
    rows = {"data": f"{folder}/test.{{de,en}}", "validation": f"{folder}/val.{{de,en}}", "overlap": "keep"}
    signatures = [
        reported(task, model, folder, given, **rows).rows[0].measured.signature
        for given in ({}, {"stem": True, "beam": 1})
    ]
    assert signatures == ["nrefs:1|f1|stem:no", "nrefs:1|f1|stem:porter"]


def test_pictures_with_captions(folder: Path) -> None:
    pixels = np.random.default_rng(2).integers(256, size=(30, 8, 8), dtype=np.uint8)
    head = struct.pack(">HBBIII", 0, 8, 3, *pixels.shape)
    (folder / "images-idx3-ubyte.gz").write_bytes(gzip.compress(head + pixels.tobytes()))
    (folder / "captions.txt").write_text("\n".join(NUMBERS[i % 12] for i in range(30)) + "\n")
    both = str(folder / "{images-idx3-ubyte.gz,captions.txt}")
    task = made(folder, "captioning", inputs=("image", "tokens"), data=both, validation=None, split=0.3)
    for key, value in (("split_names", True), ("joint", False), ("max_source", 9)):
        with pytest.raises(ConfigError, match=f"{key}: is for sources that are texts, and these are pictures"):
            made(folder, "captioning", inputs=("image", "tokens"), data=both, validation=None, **{key: value})
    batch = task.batch(0)
    count = len(batch.targets)
    assert batch.inputs["image"].shape == (count, 1, 8, 8) and batch.inputs["image"].abs().max() <= 1
    row = int(task.data.buckets.rows(0)[0])
    shown = torch.as_tensor(pixels[int(str(task.data.training.records[row].place).rpartition(":")[2]) - 1])
    assert torch.equal(((batch.inputs["image"][0, 0] + 1) * 127.5).round().byte(), shown)
    text = """
language: 1
depth: 1
width: 16
heads: 2
encoder:
  causal: false
  before: |
    p = patches(image, size=4, channels=1)
    x = p + positions(p, rows=4)
  layer: x = x + attention(norm(x))
decoder:
  before: x = embed.words(tokens) + sinusoids(tokens)
  layer: |
    x = x + attention(norm(x))
    x = x + attention(norm(x), memory)
output: logits = unembed.words(x)
"""
    (folder / "captioner.yaml").write_text(text)
    architecture = check_model(folder / "captioner.yaml", task.numbers)
    tasks.get("captioning").check(architecture)
    scores = task.evaluate(build(architecture, seed=1))
    assert set(scores) == {*task.measures, "tokens"} and "constant" in task.baselines()
    assert "captions" in repr(task.preview()) and "picture" in task.sample(build(architecture, seed=1))


def test_models_that_a_task_cannot_train(folder: Path) -> None:
    kind = tasks.get("translation")
    kind.check(check_model(folder / "both.yaml"))
    with pytest.raises(InputError, match="translation trains a model that reads `source` and `tokens` or `tokens`"):
        tasks.get("translation").check(check_model("vit"))
    with pytest.raises(InputError, match="captioning trains a model that reads `image` and `tokens`"):
        tasks.get("captioning").check(check_model(folder / "both.yaml"))
    assert check_model(folder / "both.yaml").inputs == ["source", "tokens"]


def test_batches_are_counted_in_tokens(folder: Path) -> None:
    with pytest.raises(ConfigError, match="batch: batches of translation are counted in tokens"):
        tasks.get("translation").make(settings(folder), {}, batch=3)


def test_a_context_that_is_too_short(folder: Path) -> None:
    with pytest.raises(ConfigError, match="context: the model says 10, and the longest row has"):
        made(folder, numbers={"context": 10})
    assert made(folder, numbers={"context": 500}).numbers["context"] == 500


@pytest.mark.parametrize(
    ("inputs", "long", "remedy"),
    [
        (("source", "tokens"), "source", "cut the sources with --max-source 40"),
        (("source", "tokens"), "target", "take such rows out of the evaluation rows: their targets are"),
        (("tokens",), "source", "cut the sources with --max-source 3"),
        (("tokens",), "target", "take such rows out of the evaluation rows"),
    ],
)
def test_the_remedy_for_a_long_row_that_is_only_measured_helps(
    folder: Path, inputs: tuple[str, ...], long: str, remedy: str
) -> None:
    rows = {"source": "x", "target": "y", long: "z" * 60}
    (folder / "short.tsv").write_text("source\ttarget\n" + "".join(f"{n}\t{n}{n}\n" for n in range(30)))
    (folder / "long.tsv").write_text(f"source\ttarget\n{rows['source']}\t{rows['target']}\n")
    named = {"data": str(folder / "short.tsv"), "validation": str(folder / "long.tsv"), "tokenizer": "bytes"}
    with pytest.raises(
        ConfigError, match=r"the longest row has 6\d tokens \(.*long.tsv:2; .*say --context 6\d, or"
    ) as error:
        made(folder, inputs=inputs, numbers={"context": 40}, **named)
    assert remedy in str(error.value)
    most = re.search(r"--max-source (\d+)", str(error.value))
    if most:
        assert made(folder, inputs=inputs, numbers={"context": 40}, max_source=int(most[1]), **named)


def test_pictures_get_the_channels_that_the_model_reads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The captioner of the gallery reads 3 channels, digits have 1."""
    monkeypatch.setattr(digits, "ROWS", 200)
    given = {"data": "digits", "validation": None, "written": 2, "tokenizer": "characters"}
    architecture = check_model("captioner", {"depth": 1, "width": 16, "heads": 2})
    assert tasks.get("captioning").numbers_of(architecture, ()) == {"channels": 3}
    task = made(folder, "captioning", inputs=("image", "tokens"), numbers={"channels": 3}, **given)
    image = task.batch(0).inputs["image"]
    assert image.shape[1:] == (3, 16, 48) and torch.equal(image[:, 0], image[:, 2])
    assert "channels" not in task.numbers and task.data.limited.picture == (3, 16, 48)
    with pytest.raises(ConfigError, match="have 1 channels, and the model's text reads 4: write channels=1"):
        made(folder, "captioning", inputs=("image", "tokens"), numbers={"channels": 4}, **given)


class Traced(Seq2SeqSettings):
    def __getattribute__(self, name: str) -> Any:
        if name in Seq2SeqSettings.model_fields:
            READ.add(name)
        return super().__getattribute__(name)


READ: set[str] = set()


def test_every_setting_is_read(folder: Path) -> None:
    READ.clear()
    given = settings(folder, validation=None).model_dump()
    task: SequenceToSequence = tasks.get("translation").make(Traced.read(given), {})  # type: ignore[assignment]
    task.loss(model_for(task, folder), task.batch(0))
    task.preview()
    assert task.data.generated_rows
    assert READ == set(Seq2SeqSettings.model_fields)


def test_a_side_that_batches_have_not(folder: Path) -> None:
    made(folder, batch_side="source")
    for side in ("source", "target"):
        with pytest.raises(ConfigError, match=f"batch_side: a decoder alone reads {side} and all else as one text"):
            made(folder, inputs=("tokens",), batch_side=side)
    made(folder, inputs=("tokens",), batch_side="all")

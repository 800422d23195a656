"""A run with a teacher: what it says, what it refuses, and that it goes on as it began."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.training.test_loop import same
from transformula import evaluate, load, train
from transformula.api.identity import identity_of, settled
from transformula.api.teaching import same_tokenizer
from transformula.data.cache import cache_entries, clear_cache
from transformula.errors import CheckpointError, ConfigError, InputError
from transformula.runs.folder import RunFolder
from transformula.tokenizers.base import tokenizers
from transformula.training.start import train as train_task

SMALL: dict[str, Any] = {
    "depth": 1, "width": 16, "heads": 2, "threads": 1, "device": "cpu", "precision": "float32", "quiet": True,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMULA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "text.txt").write_text("".join(f"{i} and {i + 1} are {2 * i + 1}\n" for i in range(400)))
    (folder / "other.txt").write_text("".join(f"{i} plus {i + 1}: {2 * i + 1}!\n" for i in range(400)))
    chance = random.Random(3)
    rows = [(chance.choice("abc"), chance.choice("xyz")) for _ in range(300)]
    (folder / "rows.tsv").write_text("text\tlabel\n" + "".join(f"{a} {b} {n}\t{a}\n" for n, (a, b) in enumerate(rows)))
    (folder / "two.tsv").write_text(
        "text\tlabel\n" + "".join(f"{a} {b} {n}\t{a < 'b'}\n" for n, (a, b) in enumerate(rows))
    )
    return folder


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Teachers: of texts, of other characters, and of labels."""
    folder = tmp_path_factory.mktemp("runs")
    made = {
        "text": language(data, folder / "text", width=32),
        "other": language(data, folder / "other", data_file="other.txt"),
        "labels": labeled(data, folder / "labels"),
        "two": labeled(data, folder / "two", data_file="two.tsv"),
    }
    return {name: run.folder for name, run in made.items()}


def language(data: Path, out: Path, data_file: str = "text.txt", **given: Any) -> Any:
    settings = {"context": 16, "batch": 4, "steps": 4, "tokenizer": "characters", **SMALL, **given}
    return train("pre-norm", data=str(data / data_file), out=str(out), **settings)


def labeled(data: Path, out: Path, data_file: str = "rows.tsv", **given: Any) -> Any:
    settings = {"task": "classification", "batch": 8, "steps": 4, "tokenizer": "bytes", **SMALL, **given}
    return train("pre-norm", family="encoder", data=str(data / data_file), out=str(out), **settings)


def test_a_run_says_who_teaches_it(data: Path, runs: dict[str, Path], tmp_path: Path, capfd: Any) -> None:
    run = language(data, tmp_path / "run", teacher=str(runs["text"]), teacher_weight=0.25, quiet=False)
    shown = capfd.readouterr().err
    assert f"teacher     {runs['text']}/best: " in shown and "temperature 2, weight 0.25" in shown
    assert "asking it in each step takes " in shown and " % more FLOPs" in shown
    manifest, config = RunFolder.open(run.folder).manifest(), RunFolder.open(run.folder).config()
    assert manifest["teacher"]["folder"] == f"{runs['text']}/best" and len(manifest["teacher"]["sha256"]) == 64
    assert manifest["teacher"]["parameters"] == sum(p.numel() for p in load(runs["text"]).module.parameters())
    assert (config["teacher"], config["teacher_weight"]) == (str(runs["text"]), 0.25)
    assert {"teacher_kl", "teacher_agreement", "loss", "bits_per_byte"} <= run.scores.keys()
    assert f"the teacher says the same in {100 * run.scores['teacher_agreement']:.1f} % (KL " in repr(run)
    assert "teacher" not in RunFolder.open(runs["text"]).manifest()


@pytest.mark.parametrize("kind", [language, labeled])
def test_an_evaluation_says_how_far_both_agree(kind: Any, data: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    teacher = Path(shutil.copytree(runs["text" if kind is language else "labels"], tmp_path / "teacher"))
    run = kind(data, tmp_path / "run", teacher=str(teacher))
    said = f"{100 * run.scores['teacher_agreement']:.1f} % (KL {run.scores['teacher_kl']:.3f} nats)"
    assert any(said in note and str(teacher) in note for note in evaluate(run.folder).notes)
    assert not any("teacher" in note for note in evaluate(teacher).notes)
    shutil.rmtree(teacher)
    assert any("the teacher cannot be asked: " in note for note in evaluate(run.folder).notes)


def test_it_changes_what_is_learned_and_no_weight_changes_nothing(
    data: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    weights = {
        name: language(data, tmp_path / name, **given).folder / "last"
        for name, given in {
            "alone": {},
            "none": {"teacher": str(runs["text"]), "teacher_weight": 0.0},
            "taught": {"teacher": str(runs["text"])},
            "hotter": {"teacher": str(runs["text"]), "teacher_temperature": 5.0},
            "kept": {"teacher": str(runs["text"]), "teacher_kept": 3},
        }.items()
    }
    assert same(weights["alone"], weights["none"])
    assert not same(weights["alone"], weights["taught"]) and not same(weights["taught"], weights["hotter"])
    assert not same(weights["taught"], weights["kept"])


def test_a_student_comes_nearer_to_its_teacher(data: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    given: dict[str, Any] = {"teacher": str(runs["text"]), "steps": 60, "lr": 0.01}
    by_labels = language(data, tmp_path / "labels", teacher_weight=0.0, **given).scores
    by_teacher = language(data, tmp_path / "teacher", teacher_weight=1.0, **given).scores
    assert by_teacher["teacher_kl"] < by_labels["teacher_kl"] / 2
    assert by_labels["loss"] < by_teacher["loss"]  # of a teacher that has hardly learned


@pytest.mark.parametrize("kind", [language, labeled])
def test_a_run_that_goes_on_is_the_one_that_was_not_stopped(
    kind: Any, data: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    given = {"teacher": str(runs["text" if kind is language else "labels"]), "lr_schedule": "constant", "accumulate": 2}
    whole = kind(data, tmp_path / "whole", **{**given, "steps": 6})
    kind(data, tmp_path / "parts", **{**given, "steps": 3})
    parts = train(resume=str(tmp_path / "parts"), steps=6, quiet=True)
    assert same(whole.folder / "last", parts.folder / "last")


def test_a_run_whose_precision_was_measured_goes_on(
    data: Path, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformula.training.start.choose_precision", lambda *_: ("bf16", "precision: bf16"))
    given = {"teacher": str(runs["text"]), "precision": "auto", "lr_schedule": "constant"}
    whole = language(data, tmp_path / "whole", **{**given, "steps": 4})
    language(data, tmp_path / "parts", **{**given, "steps": 2})
    parts = train(resume=str(tmp_path / "parts"), steps=4, quiet=True)
    assert RunFolder.open(parts.folder).config()["precision"] == "bf16"
    assert same(whole.folder / "last", parts.folder / "last")


def test_a_run_whose_teacher_is_kept_goes_on_as_it_began(data: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    given = {"teacher": str(runs["text"]), "teacher_kept": 4, "lr_schedule": "constant", "accumulate": 2}
    whole = language(data, tmp_path / "whole", **{**given, "steps": 6})
    language(data, tmp_path / "parts", **{**given, "steps": 3})
    clear_cache()
    parts = train(resume=str(tmp_path / "parts"), steps=6, quiet=True)
    assert same(whole.folder / "last", parts.folder / "last")
    assert [entry.kind for entry in cache_entries()].count("teacher") == 1


def test_a_teacher_that_changed_is_refused(data: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    teacher = Path(shutil.copytree(runs["text"], tmp_path / "teacher"))
    run = language(data, tmp_path / "run", teacher=str(teacher))
    path = teacher / "best/weights.safetensors"
    tensors = load_file(path)
    name = next(iter(tensors))
    save_file({**tensors, name: tensors[name] + 1}, path)
    with pytest.raises(CheckpointError, match="the teacher is not what it was .*hash .*put it back"):
        train(resume=str(run.folder), steps=6, quiet=True)
    save_file(tensors, path)
    text = teacher / "best/model.yaml"
    said = text.read_text()
    text.write_text(said.replace("norm(x)", "norm(x, eps=0.5)", 1))
    assert text.read_text() != said
    with pytest.raises(CheckpointError, match="the teacher is not what it was"):
        train(resume=str(run.folder), steps=6, quiet=True)
    shutil.rmtree(teacher)
    with pytest.raises(CheckpointError, match="there is no such folder"):
        train(resume=str(run.folder), steps=6, quiet=True)
    moved = train(resume=str(run.folder), steps=6, teacher=str(runs["text"]), quiet=True)  # equal weights elsewhere
    assert moved.result.data["steps"] == 6


def test_no_teacher_joins_a_run_on_its_way(data: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    run = language(data, tmp_path / "run")
    with pytest.raises(CheckpointError, match="the teacher is not what it was .*hash none"):
        train(resume=str(run.folder), steps=6, teacher=str(runs["text"]), quiet=True)


@pytest.mark.parametrize(
    ("kind", "teacher", "given", "message"),
    [
        (language, "other", {}, "gives texts other ids .*tokenizer=.*transformula distill .*/other --out"),
        (language, "text", {"loss_chunks": 2}, "loss_chunks: a teacher's logits are compared .*as a whole"),
        (language, "text", {"context": 24}, "has learned 16 positions, and the batches have 24"),
        (language, "labels", {}, "is no teacher for this task: .*"),
        (labeled, "two", {}, "says the labels False, True, and the student a, b, c"),
        (labeled, "text", {}, "is no teacher for this task: .*"),
        (labeled, "nowhere", {}, "there is no such folder"),
    ],
)
def test_what_does_not_fit_is_said(
    kind: Any, teacher: str, given: dict[str, Any], message: str, data: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        kind(data, tmp_path / "run", teacher=str(runs.get(teacher, tmp_path / teacher)), **given)
    assert not (tmp_path / "run").exists()


def test_a_teacher_of_unknown_tokens_is_refused(data: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    teacher = Path(shutil.copytree(runs["text"] / "best", tmp_path / "teacher"))
    (teacher / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="its folder holds no tokenizer"):
        language(data, tmp_path / "run", teacher=str(teacher))


def test_labels_in_another_order_are_refused(data: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    teacher = Path(shutil.copytree(runs["labels"] / "best", tmp_path / "teacher"))
    path = teacher / "predictor.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "labels": ["c", "b", "a"]}))
    with pytest.raises(InputError, match="the same labels in another order: c, b, a; the student has a, b, c"):
        labeled(data, tmp_path / "run", teacher=str(teacher))


def test_a_task_without_logits_names_those_that_have_them(data: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sentence-embeddings has no logits .*tasks with them: .*classification"):
        train("pre-norm", task="sentence-embeddings", data=str(data / "rows.tsv"), teacher=str(runs["text"]), **SMALL)


def test_dialogues_in_one_row_have_a_teacher(tmp_path: Path) -> None:
    """A student that computes no padding learns from its teacher, and a resume is exact."""
    said = [(("user", f"{n}?"), ("assistant", "yes" * (n % 5 + 1))) for n in range(60)]
    rows = [{"messages": [{"role": role, "content": text} for role, text in both]} for both in said]
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given: dict[str, Any] = {
        **SMALL, "task": "dialogue", "data": str(tmp_path / "chats.jsonl"), "tokenizer": "bytes", "batch_tokens": 200,
        "written": 0, "lr": 0.01, "lr_schedule": "constant", "warmup": 0,
    }  # fmt: skip
    teacher = train("pre-norm", **given, steps=6, out=str(tmp_path / "teacher"))
    own = {**given, "width": 8, "teacher": str(teacher.folder)}
    packed = train("pre-norm", **own, steps=6, pack=True, out=str(tmp_path / "packed"))
    assert packed.scores["teacher_kl"] > 0 and packed.task.pack
    train("pre-norm", **own, steps=3, pack=True, out=str(tmp_path / "part"))
    resumed = train(resume=str(tmp_path / "part"), steps=6, quiet=True)
    one, other = (each.model.module.state_dict() for each in (packed, resumed))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_its_options_are_read_only_with_it(data: Path, tmp_path: Path) -> None:
    for key in ("teacher_weight", "teacher_temperature", "teacher_kept"):
        with pytest.raises(ConfigError, match=f"{key}: is read only with .*teacher"):
            language(data, tmp_path / "run", **{key: 7 if key == "teacher_kept" else 0.7})


def test_a_task_that_asks_nobody_is_refused_where_a_teacher_is_named(runs: dict[str, Path], tmp_path: Path) -> None:
    from tests.training.toy import ToyModel, ToyTask
    from transformula.training.settings import TrainingSettings

    with pytest.raises(ConfigError, match="teacher: the task counting was made without it"):
        train_task(ToyTask(), ToyModel(), TrainingSettings(teacher=str(runs["text"]), steps=1), tmp_path / "run")


def test_tokenizers_are_compared_by_what_they_do() -> None:
    characters, bpe = tokenizers.get("characters"), tokenizers.get("bpe")
    one, same_again, other = (characters.train([text]) for text in ("abcd", "dcba", "abce"))
    assert same_tokenizer(one, same_again) and not same_tokenizer(one, other)
    text = "low lower lowest newer newest wider " * 20
    first = bpe.train([text], 300)

    class WithAnotherFile(bpe):  # type: ignore[misc, valid-type]
        identity = "another file"

    assert same_tokenizer(first, WithAnotherFile.from_state(first.state()), [text])
    assert not same_tokenizer(first, bpe.train([text[::-1]], 300), [text])


def test_a_run_is_known_by_what_its_teacher_holds(data: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    def identity(teacher: Path | None, **given: Any) -> str:
        config = {"model": "pre-norm", "data": str(data / "text.txt"), "steps": 4, **given}
        config |= {} if teacher is None else {"teacher": str(teacher)}
        return identity_of(settled(config))

    copied = Path(shutil.copytree(runs["text"] / "best", tmp_path / "copy"))
    known = identity(runs["text"])
    assert identity(copied) == known
    assert len({known, identity(None), identity(runs["other"]), identity(runs["text"], teacher_weight=0.1)}) == 4


PICTURES = "x = patches(image, 4)\nx = x + positions(x)"
OTHERS: dict[str, dict[str, Any]] = {
    "masked": {"task": "masked-language-modeling", "family": "encoder", "tokenizer": "bytes", "context": 16},
    "denoising": {"task": "denoising", "family": "encoder-decoder", "tokenizer": "bytes", "context": 32, "batch": 4},
    "tags": {"task": "tagging", "family": "encoder", "batch": 8},
    "several": {"task": "classification", "family": "encoder", "tokenizer": "bytes", "several": True},
    "weighted": {"task": "classification", "family": "encoder", "tokenizer": "bytes", "class_weights": "balanced"},
    "choices": {"task": "multiple-choice", "tokenizer": "bytes", "context": 32},
    "copy": {"task": "copy", "batch_tokens": 200, "written": 2},
    "pictures": {"task": "image-classification", "family": "encoder", "before": PICTURES, "batch": 8},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, data: Path) -> dict[str, str]:
    """Data of each of these, by name."""
    folder = tmp_path_factory.mktemp("files")
    tagged = [{"tokens": ["the", word, str(n)], "tags": ["DET", "NOUN", "NUM"]} for n in range(60) for word in "ab"]
    (folder / "tags.jsonl").write_text("\n".join(map(json.dumps, tagged)))
    chosen = [{"context": f"{n} is", "choices": ["odd", "even"], "label": (n + 1) % 2} for n in range(60)]
    (folder / "choices.jsonl").write_text("\n".join(map(json.dumps, chosen)))
    return {
        "masked": str(data / "text.txt"), "denoising": str(data / "text.txt"), "tags": str(folder / "tags.jsonl"),
        "several": str(data / "rows.tsv"), "weighted": str(data / "rows.tsv"), "choices": str(folder / "choices.jsonl"),
        "pictures": pictures(folder, 8), "larger": pictures(folder, 16),
    }  # fmt: skip


def pictures(folder: Path, size: int) -> str:
    """A folder of dark and of light pictures."""
    image = pytest.importorskip("PIL.Image")
    chance = random.Random(size)
    for label, least in (("dark", 0), ("light", 128)):
        (folder / f"{size}" / label).mkdir(parents=True)
        for number in range(30):
            numbers = bytes(least + chance.randrange(128) for _ in range(size * size))
            image.frombytes("L", (size, size), numbers).save(folder / f"{size}" / label / f"{number}.png")
    return str(folder / f"{size}")


def of_kind(name: str, data: str | None, out: Path, **given: Any) -> Any:
    settings = {**SMALL, "steps": 2, **OTHERS[name], **({} if data is None else {"data": data}), **given}
    return train("x = x + attention(norm(x)); x = x + mlp(norm(x))", out=str(out), **settings)


@pytest.mark.parametrize("name", OTHERS)
def test_tasks_with_logits_have_teachers(name: str, files: dict[str, str], tmp_path: Path) -> None:
    own = files.get(name)
    teacher = of_kind(name, own, tmp_path / "teacher", width=32)
    run = of_kind(name, own, tmp_path / "run", teacher=str(teacher.folder))
    parts = of_kind(name, own, tmp_path / "parts", teacher=str(teacher.folder), micro_batches=2)
    assert run.scores["teacher_kl"] > 0 and 0 <= run.scores["teacher_agreement"] <= 1
    assert parts.scores["teacher_kl"] == pytest.approx(run.scores["teacher_kl"], rel=0.02)


def test_pictures_of_another_size_are_refused(files: dict[str, str], tmp_path: Path) -> None:
    teacher = of_kind("pictures", files["larger"], tmp_path / "teacher")
    with pytest.raises(InputError, match=r"pictures of the shape \[3, 16, 16\], and the student \[3, 8, 8\]"):
        of_kind("pictures", files["pictures"], tmp_path / "run", teacher=str(teacher.folder))


def test_a_conditional_random_field_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    output = "logits = transitions(linear(x, classes))"
    teacher = of_kind("tags", files["tags"], tmp_path / "teacher", output=output)
    for given in ({"output": output}, {}):
        with pytest.raises(InputError, match="a conditional random field says how probable whole rows of tags are"):
            of_kind("tags", files["tags"], tmp_path / "run", teacher=str(teacher.folder), **given)

"""Sentence embeddings: rows of three kinds, their losses, and vectors that are the same alone and in any batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transformula import Model, train
from transformula.cli import main
from transformula.errors import ConfigError, DataError, InputError
from transformula.tasks.base import tasks
from transformula.tasks.sentence_embeddings import SentenceEmbeddings, cosent
from transformula.tasks.vectors import contrastive, equal_rows

THINGS = ["dogs", "a man", "two girls", "rain", "old cars"]


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    rows = [
        f"{one} move {n}\t{other} are moving {n}\t{1 + 4 * (one == other)}"
        for n in range(6)
        for one in THINGS
        for other in THINGS
    ]
    path = tmp_path / "scored.tsv"
    path.write_text("sentence_A\tsentence_B\trelatedness_score\n" + "\n".join(rows))
    return path


def made(path: Path | str, **settings: Any) -> SentenceEmbeddings:
    read = SentenceEmbeddings.settings.read({"data": str(path), "tokenizer": "bytes", "split": 0.2, **settings})
    return SentenceEmbeddings.make(read, {}, inputs=("tokens",), batch=8)


def model_of(task: SentenceEmbeddings, **numbers: Any) -> Model:
    sizes = {"depth": 1, "width": 16, "heads": 2, **task.numbers, **numbers}
    return Model("pre-norm", family="encoder", output="sentence = mean(x)", **sizes)


def test_scores_are_scaled_and_texts_of_a_batch_stand_one_after_another(scored: Path) -> None:
    task = made(scored)
    batch = task.batch(0)
    assert set(batch.targets.tolist()) <= {0.0, 1.0}
    assert len(batch.inputs["tokens"]) == 2 * len(batch.targets) == 16
    assert torch.equal(task.batch(3).inputs["tokens"], task.batch(3).inputs["tokens"])
    assert (task.score, task.measures) == ("spearman", ("loss", "spearman", "pearson"))


def test_texts_alone_stand_beside_themselves(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(f'{{"text": "number {n}"}}' for n in range(40)))
    task = made(path)
    one, other = task.batch(0).inputs["tokens"].chunk(2)
    assert torch.equal(one, other)
    assert task.score == "loss"
    with pytest.raises(DataError, match="nothing to be scored by"):
        task.measure(np.eye(2), task.data.source.validation)


def test_texts_alone_may_be_validated_by_pairs_with_scores(tmp_path: Path, scored: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(f'{{"text": "number {n}"}}' for n in range(40)))
    task = made(path, validation=str(scored))
    assert task.score == "spearman"
    assert set(task.evaluate(model_of(task).module)) == {"loss", "spearman", "pearson"}


def test_pairs_without_scores_are_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("anchor,positive\n" + "\n".join(f"word {n},the word {n % 20}" for n in range(60)))
    task = made(path)
    assert task.score == "recall@1"
    assert {"loss", "recall@1", "mean_reciprocal_rank"} <= set(task.evaluate(model_of(task).module))
    pytest.importorskip("sklearn")
    assert task.baselines()["TF-IDF"] > 0


def test_the_contrastive_loss_knows_no_negative_among_equal_texts() -> None:
    ids = torch.tensor([[1, 2], [1, 2], [3, 4]])
    logits = torch.randn(3, 3)
    whole, masked = (contrastive(logits, same) for same in (torch.eye(3, dtype=torch.bool), equal_rows(ids)))
    assert masked < whole
    assert contrastive(100 * torch.eye(3), equal_rows(ids)) < 1e-6


def test_cosent_is_about_the_order_alone() -> None:
    scores = torch.tensor([0.0, 0.5, 1.0])
    right, wrong = torch.tensor([-0.5, 0.1, 0.8]), torch.tensor([0.8, 0.1, -0.5])
    assert cosent(right, scores, 0.05) < 1e-4 < cosent(wrong, scores, 0.05)
    assert cosent(wrong, torch.ones(3), 0.05) == 0


def test_alone_and_in_any_batch(scored: Path) -> None:
    task = made(scored)
    model, kind = model_of(task).module, task.data.kind
    texts = [text for text, _ in zip(*kind.sides(task.data.source.training[:9]), strict=True)]
    together, turned = kind.vectors([model], texts), kind.vectors([model], texts[::-1]).flip(0)
    for text, one, other in zip(texts, together, turned, strict=True):
        alone = kind.vectors([model], [text])[0]
        assert torch.allclose(alone, one, atol=1e-5)
        assert torch.allclose(alone, other, atol=1e-5)
    similar = kind.predict([model], [(texts[0], texts[1])], kind.settings())[0][0]
    assert similar.value == pytest.approx(float(torch.cosine_similarity(together[0], together[1], dim=0)), abs=1e-5)


def test_data_that_teaches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("text\ttext_2\tscore\n" + "\n".join(f"a {n}\tb {n}\t3" for n in range(20)))
    with pytest.raises(DataError, match="every score is 3"):
        made(path)
    path.write_text("text\ttext_2\tscore\n" + "\n".join(f"a {n}\tb {n}\tx" for n in range(20)))
    with pytest.raises(DataError, match=r"rows.tsv:2.* expected a number"):
        made(path)
    path.write_text("one\ttwo\tthree\n" + "a\tb\tc\n" * 20)
    with pytest.raises(ConfigError, match="say which holds the text"):
        made(path)


def test_a_model_of_other_inputs() -> None:
    kind = tasks.get("sentence-embeddings")
    with pytest.raises(InputError, match="expected tokens alone"):
        kind.check(Model("bert", depth=1, width=16, heads=2, vocab=9, context=8).architecture)


def test_from_a_table_to_vectors(scored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    run = train("pre-norm", task="sentence-embeddings", data=str(scored), depth=1, width=16, heads=2,
                tokenizer="bytes", precision="float32", steps=3, split=0.2, out=str(out))  # fmt: skip
    one, other = run.model.predict(["dogs move", "rain"])
    assert one.shape == other.shape == (16,)
    assert run.model.predict("dogs move", among=["rain", "dogs move"]) == "dogs move"
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(THINGS))
    assert main(["embed", str(out), "rain", "--among", str(texts), "--n-best", "2", "--scores"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1"]
    assert rows[0][1:] == ["1.00000", "rain"]
    assert main(["embed", str(out), "--input", str(texts), "--output", str(tmp_path / "v.npy")]) == 0
    assert np.load(tmp_path / "v.npy").shape == (5, 16)
    assert main(["embed", str(out), "one\ttwo", "--output", str(tmp_path / "v.npy")]) == 2
    assert "none of a pair" in capsys.readouterr().err
    assert main(["embed", str(out), "one", "--n-best", "2"]) == 2

"""Retrieval of pictures and texts: the batch, the loss, vectors of either side, and scores that know equal texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from transformula import Model
from transformula.data.records import Record
from transformula.errors import InputError
from transformula.tasks.image_text_retrieval import ImageTextRetrieval

TWO_SIDES = """\
language: 1
name: two-sides
depth: 1
width: 16
heads: 2
image_side:
  causal: false
  before: |
    p = patches(image, 4, channels=1)
    x = p + positions(p, rows=4)
  layer: x = x + attention(norm(x))
text_side:
  causal: false
  before: x = embed.words(tokens) + positions(tokens)
  layer: x = x + attention(norm(x))
output: |
  image_vector = 10 * l2norm(linear.image_out(mean(image_side), width, bias=False))
  text_vector = l2norm(linear.text_out(mean(text_side), width, bias=False))
"""


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Bright and dark pictures, with what they are."""
    rows = ["file_name\tcaption"]
    for number in range(40):
        shade = "bright" if number % 2 else "rather dark"
        pixels = np.random.default_rng(number).integers(0, 100, (8, 8)) + 150 * (number % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png\t{shade}")
    (tmp_path / "captions.tsv").write_text("\n".join(rows))
    return tmp_path


def made(folder: Path, **settings: Any) -> tuple[ImageTextRetrieval, Model]:
    read = ImageTextRetrieval.settings.read({"data": str(folder), "tokenizer": "bytes", "split": 0.3, **settings})
    task = ImageTextRetrieval.make(read, {}, inputs=("image", "tokens"), batch=8)
    path = folder / "two-sides.yaml"
    path.write_text(TWO_SIDES)
    return task, Model.from_file(path, **task.numbers)


def test_a_batch_has_pictures_and_texts(pictures: Path) -> None:
    task, model = made(pictures)
    batch = task.batch(0)
    assert batch.inputs["image"].shape[1:] == (1, 8, 8)
    assert batch.inputs["image"].abs().max() <= 1
    assert len(batch.inputs["tokens"]) == len(batch.inputs["image"])
    assert torch.isfinite(task.loss(model.module, batch))
    scores = task.evaluate(model.module)
    assert {"loss", "image_recall@1", "text_recall@1", "image_mean_reciprocal_rank"} <= set(scores)
    assert "chance" in task.verdict(scores)
    assert ImageTextRetrieval.check(model.architecture) is None


def test_alone_and_in_any_batch(pictures: Path) -> None:
    task, model = made(pictures)
    kind, module = task.data.kind, model.module
    shown, texts = kind.sides(task.data.source.training[:3])
    mixed = [texts[0], shown[0], texts[1], shown[1]]
    together = kind.vectors([module], mixed)
    for each, vector in zip(mixed, together, strict=True):
        assert torch.allclose(kind.vectors([module], [each])[0], vector, atol=1e-5)


def test_equal_texts_are_right() -> None:
    records = [Record({"target": text}) for text in ("a", "b", "a")]
    similarity = np.array([[0.1, 0.0, 0.9], [0.0, 0.9, 0.1], [0.0, 0.1, 0.9]])
    scores = {each.name: each.score for each in ImageTextRetrieval.measure(similarity, records)}
    assert scores["image recall@1"] == scores["text recall@1"] == 100


def test_what_is_nearest(pictures: Path) -> None:
    task, model = made(pictures)
    kind, module = task.data.kind, model.module
    settings = kind.settings(among=str(pictures), n_best=3)
    (best,) = kind.predict([module], ["bright"], settings)
    assert len(best) == 3
    assert all(Path(each.text).suffix == ".png" for each in best)
    captions = pictures / "texts.txt"
    captions.write_text("bright\nrather dark\n")
    (best,) = kind.predict([module], kind.opened([str(pictures / "1.png")]), kind.settings(among=str(captions)))
    assert best[0].text in ("bright", "rather dark")
    with pytest.raises(InputError, match="there is no file"):
        kind.predict([module], ["bright"], kind.settings(among="nowhere.txt"))


def test_a_model_of_texts_alone() -> None:
    with pytest.raises(InputError, match="expected image and tokens"):
        ImageTextRetrieval.check(Model("pre-norm", depth=1, width=16, heads=2, vocab=9, context=8).architecture)


def test_a_model_of_other_outputs(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(TWO_SIDES.replace("text_vector", "words_vector"))
    with pytest.raises(InputError, match="expected the outputs image_vector and text_vector"):
        ImageTextRetrieval.check(Model.from_file(path, vocab=9, context=8).architecture)

"""Classification of pictures: patches, variations of the training pictures, and answers to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from transformula import Model, train
from transformula.errors import ConfigError, DataError, InputError
from transformula.tasks.base import tasks
from transformula.tasks.image_classification import ImageClassification, ImageSettings, affine


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    """Pictures whose left or right half is bright."""
    random = np.random.default_rng(0)
    lines = ["file_name\tlabel"]
    for number in range(40):
        pixels = random.integers(0, 60, (8, 8), dtype=np.uint8)
        pixels[:, (number % 2) * 4 :][:, :4] += 180
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png\t{'right' if number % 2 else 'left'}")
    (tmp_path / "captions.tsv").write_text("\n".join(lines))
    return tmp_path


def made(path: Path, **settings: Any) -> ImageClassification:
    read = tasks.get("image-classification").settings.read({"data": str(path), "split": 0.2, **settings})
    return ImageClassification.make(read, {"patch": 4}, inputs=("image",))


def test_numbers_come_from_the_pictures(shapes: Path) -> None:
    numbers = made(shapes).numbers
    assert (numbers["classes"], numbers["channels"], numbers["places"]) == (2, 1, 4)


def test_an_evaluation_says_where_a_picture_lies(shapes: Path) -> None:
    """And its label: what cannot be printed can be looked up."""
    task = made(shapes)
    place, labels = task.reader.shown(task.data.source.training[0])
    assert place.startswith(f"{shapes / 'captions.tsv'}:") and labels[0] in ("left", "right")


def test_pictures_without_a_label_are_left_out_and_counted(shapes: Path) -> None:
    captions = shapes / "captions.tsv"
    captions.write_text(
        captions.read_text().replace("1.png\tright", "1.png\t", 1).replace("0.png\tleft", "0.png\t left", 1)
    )
    task = made(shapes)
    assert task.data.kind.labels == ["left", "right"]
    assert any("1 of 40 rows have no label and are left out" in note for note in task.preview().data["notes"])


BEFORE = "p = patches(image, {}, channels={})\nx = p + positions(p, rows={})"


@pytest.mark.parametrize(
    ("patch", "channels", "rows"), [(4, 1, 4), (2, 3, 16), ("patch", "channels", "places")], ids=str
)
def test_a_text_with_patches_of_its_own(shapes: Path, tmp_path: Path, patch: Any, channels: Any, rows: Any) -> None:
    """Numbers of the task's own formulas are those of the data where the text reads them, and nowhere else."""
    sizes = {"patch": 2} if patch == "patch" else {}
    run = train("pre-norm", task="image-classification", data=str(shapes), depth=1, width=8, heads=1, steps=1,
                before=BEFORE.format(patch, channels, rows), split=0.2, out=str(tmp_path / "run"), **sizes)  # fmt: skip
    assert run.model.module.before.patches.weight.shape[1] == (16 if patch == 4 else 12 if channels == 3 else 4)
    assert run.model.predict(str(shapes / "0.png")) in ("left", "right")
    positions = 4 if patch == 4 else 16
    assert run.model.module.flops_per_unit() == positions * run.model.module.flops_per_token()


def test_another_number_of_classes_than_that_of_the_data(shapes: Path) -> None:
    how: dict[str, Any] = {"task": "image-classification", "data": str(shapes), "depth": 1, "width": 8, "heads": 1}
    with pytest.raises(ConfigError, match="the model says 5, and the data has 2"):
        train("pre-norm", classes=5, **how)
    with pytest.raises(InputError, match="the data has 2 classes, and the model's output is 5 numbers"):
        train("pre-norm", output="logits = linear(mean(x), 5)", **how)


def test_a_patch_divides_the_pictures(shapes: Path) -> None:
    read = tasks.get("image-classification").settings.read({"data": str(shapes), "split": 0.2})
    with pytest.raises(ConfigError, match="--patch 8"):
        ImageClassification.make(read, {"patch": 3}, inputs=("image",))


def test_variations_are_a_function_of_the_step(shapes: Path) -> None:
    task, plain = made(shapes, shift=0.2, rotate=20, flip=True), made(shapes)
    images = [each.batch(step).inputs["image"] for each in (task, made(shapes, shift=0.2, rotate=20, flip=True), plain)
              for step in (0, 3)]  # fmt: skip
    assert torch.equal(images[0], images[2]) and torch.equal(images[1], images[3])
    assert not torch.equal(images[0], images[4])


@pytest.mark.parametrize(("settings", "expected"), [
    ({"shift": 0.0}, [[1, 0, 0], [0, 1, 0]]),
    ({"flip": True}, [[-1, 0, 0], [0, 1, 0]]),
])  # fmt: skip
def test_affine_of_nothing_and_of_a_mirror(settings: dict[str, Any], expected: list[list[float]]) -> None:
    moves = affine(ImageSettings(**settings), 64, np.random.default_rng(1))
    assert any(np.allclose(move, expected) for move in moves)
    assert all(np.allclose(abs(move), abs(np.array(expected))) for move in moves)


def test_from_a_folder_of_pictures_to_labels(shapes: Path, tmp_path: Path) -> None:
    """The block of a base encoder, as a vision Transformer."""
    run = train("encoder-block", task="image-classification", data=str(shapes), depth=1, width=16, heads=2, steps=24,
                batch=16, split=0.2, out=str(tmp_path / "run"))  # fmt: skip
    model = Model.from_folder(run.folder)
    files = [str(shapes / f"{number}.png") for number in range(6)]
    together = model.predict(files, scores=True)
    assert [answer.text for answer in together] == ["left", "right"] * 3
    assert model.predict(files[1], scores=True).probabilities == pytest.approx(together[1].probabilities, abs=1e-5)
    with pytest.raises(DataError, match="make it of that size"):
        model.predict(torch.zeros(1, 4, 4, dtype=torch.uint8))
    with pytest.raises(InputError, match="reads pictures"):
        model.predict([3])


def test_of_two_columns_the_other_one_is_the_label(shapes: Path) -> None:
    rows = (shapes / "captions.tsv").read_text().split("\n", 1)[1]
    (shapes / "captions.tsv").write_text(f"file_name\twhat\n{rows}")
    assert made(shapes).data.kind.labels == ["left", "right"]

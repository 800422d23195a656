"""Folders of picture classifiers are used as they come: numbers, labels and probabilities are those of transformers."""

from __future__ import annotations

import base64
import importlib
import io
import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from transformula import Model, evaluate, load, train
from transformula.api.exporting import export
from transformula.cli import main
from transformula.data.pictures import pixels, with_channels
from transformula.errors import CheckpointError, InputError
from transformula.serving.predicting import picture
from transformula.tasks.picture_processing import (
    FILE,
    PROPORTIONS,
    SPLIT,
    TILES,
    known,
    processed,
    read_processing,
    size_made,
)

transformers = pytest.importorskip("transformers")

LABELS = {0: "cat", 1: "dog", 2: "bird"}
SIDE = 32
SIZES = [(20, 33), (70, 48), (SIDE, SIDE)]
MODES = ["RGB", "L", "RGBA", "P", "LA", "CMYK", "1"]
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
STAGES: dict[str, Any] = {"depths": [2, 2, 2, 2], "hidden_sizes": [8, 8, 16, 16]}
WINDOWS: dict[str, Any] = {
    "image_size": 64, "patch_size": 2, "window_size": 4, "embed_dim": 8, "depths": [1, 2, 1, 1],
    "num_heads": [1, 1, 2, 2],
}  # fmt: skip
FAMILIES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "vit": ("ViT", "ViTForImageClassification", {**SMALL, "image_size": SIDE, "patch_size": 8}, {"size": SIDE}),
    "deit": ("DeiT", "DeiTForImageClassification", {**SMALL, "image_size": SIDE, "patch_size": 8},
             {"size": 40, "crop_size": SIDE}),
    "beit": ("Beit", "BeitForImageClassification", {**SMALL, "image_size": SIDE, "patch_size": 8},
             {"size": {"height": SIDE, "width": SIDE}, "resample": 2}),
    "convnext": ("ConvNext", "ConvNextForImageClassification", STAGES, {"size": 64, "crop_pct": 0.9}),
    "resnet": ("ConvNext", "ResNetForImageClassification",
               {**STAGES, "embedding_size": 8, "hidden_sizes": [16, 16, 32, 32]}, {"size": {"shortest_edge": 48}}),
    "segformer": ("Segformer", "SegformerForImageClassification",
                  {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16], "num_attention_heads": [1, 1, 2, 2],
                   "decoder_hidden_size": 8}, {"size": 64}),
    "dinov2": ("Bit", "Dinov2ForImageClassification",
               {**SMALL, "intermediate_size": None, "image_size": SIDE, "patch_size": 8},
               {"size": {"shortest_edge": 40}, "crop_size": SIDE}),
    "poolformer": ("PoolFormer", "PoolFormerForImageClassification", STAGES, {"size": 64, "crop_size": 64}),
    "pvt_v2": ("Pvt", "PvtV2ForImageClassification", {**STAGES, "num_attention_heads": [1, 1, 2, 2], "image_size": 64},
               {"size": 64}),
    "swin": ("ViT", "SwinForImageClassification", WINDOWS, {"size": 64}),
    "swinv2": ("ViT", "Swinv2ForImageClassification", WINDOWS, {"size": 64}),
}  # fmt: skip


def drawn(size: tuple[int, int], mode: str, seed: int = 0) -> Image.Image:
    array = np.random.default_rng(seed).integers(0, 256, (*size, 4), dtype=np.uint8)
    return Image.fromarray(array, "CMYK" if mode == "CMYK" else "RGBA").convert(mode)


def processor_of(name: str) -> Any:
    kind = name.removesuffix("ImageProcessor")
    module = importlib.import_module(f"transformers.models.{kind.lower()}.image_processing_pil_{kind.lower()}")
    return getattr(module, f"{kind}ImageProcessorPil")


def write(folder: Path, **said: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / FILE).write_text(json.dumps(said))
    return folder


CHANGES: list[dict[str, Any]] = [
    {},
    {"size": 40},
    {"size": {"height": 31, "width": 33}},
    {"size": {"shortest_edge": 50}, "do_center_crop": True, "crop_size": 37, "resample": 0},
    {"do_center_crop": True, "crop_size": {"height": 77, "width": 20}, "size": 30, "do_resize": False},
    {"do_rescale": False, "image_mean": [120, 110, 100], "image_std": [60, 61, 62], "size": 24},
    {"do_normalize": False, "rescale_factor": 0.01, "size": 24},
    {"crop_pct": 0.7, "size": 50},
    {"size": 64, "image_mean": 0.4, "image_std": 0.2, "do_reduce_labels": True, "do_pad": None},
]


WHOLE = [name for name, own in known()["classes"].items() if own["sizing"] not in (TILES, SPLIT, PROPORTIONS)]


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_numbers_are_those_of_the_class(name: str, tmp_path: Path) -> None:
    """Bit for bit, for pictures of any size and mode; what the class does not read is refused."""
    compared = 0
    for number, change in enumerate(CHANGES):
        folder = write(tmp_path / str(number), **{"image_processor_type": name, **change})
        try:
            processing = read_processing(folder, 3)
        except CheckpointError as error:
            assert "crop_pct" in str(error) or "size" in str(error)
            continue
        theirs = processor_of(name).from_pretrained(folder)
        for place, mode in enumerate(MODES):
            image = drawn(SIZES[(place + number) % len(SIZES)], mode, place)
            expected = theirs(image.convert("RGB"), return_tensors="np")["pixel_values"][0]
            ours = processed(with_channels(pixels(image, 3, white=False), 3), processing).numpy()
            np.testing.assert_array_equal(ours, expected)
            assert size_made(processing) in (None, expected.shape[1:])
            compared += 1
    assert compared >= 6 * len(MODES)


def test_a_folder_without_the_name_of_a_class_has_that_of_its_model(tmp_path: Path) -> None:
    """As old folders are; an old name and that of the library's faster class mean the same."""
    folder = write(tmp_path, size=48)
    (folder / "config.json").write_text('{"model_type": "resnet"}')
    assert read_processing(folder, 3)["image_processor_type"] == "ConvNextImageProcessor"
    old = {"feature_extractor_type": "DeiTFeatureExtractor"}
    for key, name in (*old.items(), ("image_processor_type", "DeiTImageProcessorFast")):
        assert read_processing(write(tmp_path, **{key: name}), 3)["image_processor_type"] == "DeiTImageProcessor"


@pytest.fixture(scope="module", params=FAMILIES)
def shipped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a class, as `save_pretrained` writes it."""
    return made(request.param, tmp_path_factory.mktemp("shipped") / request.param)


def made(family: str, folder: Path, **changes: Any) -> Path:
    processor, kind, config, said = FAMILIES[family]
    torch.manual_seed(1)
    named = {"num_labels": 3, "id2label": LABELS, "label2id": {name: n for n, name in LABELS.items()}}
    given = {key: value for key, value in {**config, **named, **changes}.items() if value is not None}
    of_kind = getattr(transformers, kind).config_class(**given)
    model = getattr(transformers, kind)(of_kind)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    processor_of(f"{processor}ImageProcessor")(**said).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made("vit", tmp_path_factory.mktemp("vit") / "vit")


def opened(folder: Path, **options: Any) -> Model:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*left out, since no logits depend on them")
        return load(folder, **options)


def theirs_of(folder: Path, image: Image.Image) -> dict[str, float]:
    """Probabilities by label, as the library's pipeline says them."""
    ask = transformers.pipeline("image-classification", str(folder), top_k=None)
    return {each["label"]: each["score"] for each in ask(image.convert("RGB"))}


def pictures(folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for number, mode in enumerate(mode for mode in MODES if mode != "CMYK"):  # no .png
        drawn(SIZES[number % len(SIZES)], mode, number).save(folder / f"{number}.png")
    return sorted(folder.glob("*.png"))


def same(ours: Mapping[str, float], theirs: Mapping[str, float]) -> None:
    assert ours.keys() == theirs.keys()
    for label, probability in ours.items():
        assert probability == pytest.approx(theirs[label], abs=1e-5)


def test_labels_and_probabilities_are_those_of_the_pipeline(shipped: Path, tmp_path: Path) -> None:
    model = opened(shipped)
    files = pictures(tmp_path / "pictures")
    answers = model.predict(list(map(str, files)), scores=True)
    for file, answer in zip(files, answers, strict=True):
        with Image.open(file) as image:
            same(answer.probabilities, theirs_of(shipped, image))
    assert len({answer.score for answer in answers}) == len(files)


def test_what_is_written_again_gives_the_same(shipped: Path, tmp_path: Path) -> None:
    """As a folder of transformers, as one of ours, and as a program with its script, which compares itself."""
    (file, *_), model = pictures(tmp_path / "pictures"), opened(shipped)
    expected = model.predict(str(file), scores=True).probabilities
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*left out, since no logits depend on them")
        again = export(shipped, tmp_path / "again", to="transformers")
    assert json.loads((tmp_path / "again" / FILE).read_text()) == json.loads((shipped / FILE).read_text())
    with Image.open(file) as image:
        same(expected, theirs_of(Path(again), image))
    same(load(model.save(tmp_path / "ours")).predict(str(file), scores=True).probabilities, expected)


def test_a_program_processes_pictures_of_any_size(vit: Path, tmp_path: Path) -> None:
    """Its script, without this package."""
    out, files = export(vit, tmp_path / "program", to="torch-export"), pictures(tmp_path / "pictures")
    answers = opened(vit).predict(list(map(str, files)), scores=True)
    done = subprocess.run([sys.executable, "predict.py", *map(str, files)], cwd=out, capture_output=True, text=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [label for label, _ in lines] == [answer.text for answer in answers]
    assert [float(score) for _, score in lines] == pytest.approx([answer.score for answer in answers], abs=1e-3)


def rows(folder: Path) -> Path:
    """Pictures of several sizes and modes, half of them bright, with their labels."""
    folder.mkdir()
    lines = ["file_name\tlabel"]
    for number in range(24):
        image = drawn(SIZES[number % 3], ("L", "RGB", "RGBA")[number // 2 % 3], number)
        image.point(lambda value, bright=number % 2: value // 4 + 180 * bright).save(folder / f"{number}.png")
        lines.append(f"{number}.png\t{'dog' if number % 2 else 'cat'}")
    (folder / "captions.tsv").write_text("\n".join(lines))
    return folder


def test_training_goes_on_as_the_folder_reads_pictures(vit: Path, tmp_path: Path) -> None:
    """Also in a run that begins with that run, and in the folder of transformers that is written of it."""
    data, quick = rows(tmp_path / "rows"), {"steps": 1, "batch": 4, "quiet": True}
    run = train(init_from=str(vit), data=str(data), out=str(tmp_path / "run"), **quick)
    second = train(init_from=str(tmp_path / "run"), data=str(data), out=str(tmp_path / "second"), **quick)
    said = read_processing(vit, 3)
    for each in (run, second):
        assert each.model.predictor.processing == said and each.model.predictor.labels == ["cat", "dog"]
    out = Path(export(tmp_path / "run", tmp_path / "out", to="transformers"))
    file = data / "4.png"
    with Image.open(file) as image:
        assert image.mode == "RGBA" and image.size != (SIDE, SIDE)
        same(run.model.predict(str(file), scores=True).probabilities, theirs_of(out, image))
    assert "accuracy" in evaluate(tmp_path / "run", data=str(data), overlap="keep").data["scores"]


def test_pictures_of_one_size_may_be_read_plainly(vit: Path, tmp_path: Path) -> None:
    """By --preprocessing none; a folder that does not say how pictures become numbers is refused without."""
    bare = shutil.copytree(vit, tmp_path / "bare")
    (bare / FILE).unlink()
    folder = tmp_path / "rows"
    rows(folder)
    quick = {"steps": 1, "batch": 4, "quiet": True, "data": str(folder)}
    with pytest.raises(CheckpointError, match=f"{FILE}: the file is missing.*preprocessing"):
        train(init_from=str(bare), out=str(tmp_path / "run"), **quick)
    with pytest.raises(InputError, match="make it of that size first|pixels are not cut into squares"):
        train(init_from=str(bare), out=str(tmp_path / "run"), preprocessing="none", **quick)
    for file in folder.glob("*.png"):
        with Image.open(file) as image:
            image.convert("RGB").resize((SIDE, SIDE)).save(file)
    run = train(init_from=str(bare), out=str(tmp_path / "plain"), preprocessing="none", **quick)
    assert run.model.predictor.processing is None
    out, file = Path(export(tmp_path / "plain", tmp_path / "out", to="transformers")), folder / "0.png"
    with Image.open(file) as image:  # what is written makes the same numbers of pictures of that size
        same(run.model.predict(str(file), scores=True).probabilities, theirs_of(out, image))


def test_a_folder_that_says_nothing_of_pictures_is_refused(vit: Path, tmp_path: Path, capsys: Any) -> None:
    """With the remedy."""
    bare = shutil.copytree(vit, tmp_path / "bare")
    (bare / FILE).unlink()
    (file, *_) = pictures(tmp_path / "pictures")
    assert load(bare).predictor is None  # its module can still be used
    for verb in ("classify", "predict"):
        assert main([verb, str(bare), str(file)]) == 2
        error = capsys.readouterr().err
        assert f"holds ViTForImageClassification, and {bare / FILE}: the file is missing" in error
        assert "copy it from where the model was made" in error and ").module" in error


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"image_processor_type": "VitImageProcessor"}, "whose steps are not known; did you mean ViTImageProcessor"),
    ({"image_processor_type": None}, "image_processor_type is missing"),
    ({"do_flip_channel_order": True}, "do_flip_channel_order is True, which ViTImageProcessor is not known to read"),
    ({"do_pad": True}, "do_pad is True"),
    ({"crop_pct": 0.9}, "crop_pct is 0.9"),
    ({"size": {"height": 32}}, "size is .*expected height and width, or shortest_edge"),
    ({"size": 0}, "size is 0"),
    ({"size": True}, "size is True"),
    ({"size": {"longest_edge": 32}}, "size is "),
    ({"resample": 6}, "resample is 6: expected the number of a filter of Pillow, 0 to 5"),
    ({"resample": "bilinear"}, "resample is 'bilinear'"),
    ({"do_resize": 1}, "do_resize is 1: expected true or false"),
    ({"rescale_factor": 0}, "rescale_factor is 0: expected a number above 0"),
    ({"image_mean": [0.5, 0.5]}, "image_mean is .*: expected a number for each of the 3 channels"),
    ({"image_std": [0.5, 0, 0.5]}, "image_std is .*not 0"),
    ({"do_center_crop": True}, "crop_size is None: expected height and width, since do_center_crop is true"),
    ({"size": 40}, "makes pictures of 40 x 40 pixels, and the model reads 32 x 32"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_not_understood_is_refused(vit: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """By the verbs that would read a picture, with the file and the key."""
    folder = shutil.copytree(vit, tmp_path / "vit")
    said = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps({**said, **change}))
    if change == {"image_processor_type": None}:
        config = json.loads((folder / "config.json").read_text())
        with pytest.raises(CheckpointError, match=message):
            read_processing(write(tmp_path / "other", **{**said, **change}), 3)
        assert config["model_type"] == "vit" and load(folder).predictor is not None
        return
    with pytest.raises(InputError, match=message):
        load(folder).predict(str(tmp_path / "none.png"))


def test_pictures_without_a_size_of_their_own_are_refused(tmp_path: Path) -> None:
    """A model of any size, by a processing that keeps proportions and crops nothing."""
    folder = made("segformer", tmp_path / "segformer")
    said = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps({**said, "size": {"shortest_edge": 64}}))
    with pytest.raises(InputError, match=f"{FILE} makes have no size of their own; write height and width as `size`"):
        opened(folder).predict("any.png")


def test_several_labels_at_once(tmp_path: Path) -> None:
    folder = made("vit", tmp_path / "vit", problem_type="multi_label_classification")
    model, image = opened(folder), drawn((40, 50), "RGB")
    image.save(tmp_path / "one.png")
    answer = model.predict(str(tmp_path / "one.png"), scores=True)
    same(answer.probabilities, theirs_of(folder, image))
    assert answer.labels == tuple(name for name, p in answer.probabilities.items() if p >= 0.5)
    assert sum(answer.probabilities.values()) != pytest.approx(1)


def test_models_answer_together_that_read_pictures_alike(vit: Path, tmp_path: Path) -> None:
    (file, *_) = pictures(tmp_path / "pictures")
    model, one = opened(vit), str(file)
    assert model.predict(one, models=[vit], scores=True).score == pytest.approx(model.predict(one, scores=True).score)
    other = made("vit", tmp_path / "other")
    said = json.loads((other / FILE).read_text())
    (other / FILE).write_text(json.dumps({**said, "resample": 0}))
    with pytest.raises(InputError, match="its processing are"):
        model.predict(one, models=[other])


def test_a_server_reads_a_picture_as_the_command_does(vit: Path, tmp_path: Path) -> None:
    """Transparency is dropped, as transformers drops it; a model that was trained here has it on white."""
    image, model = drawn((40, 50), "RGBA"), opened(vit)
    file = io.BytesIO()
    image.save(file, "PNG")
    image.save(tmp_path / "one.png")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    sent = picture(url, "input 1", model.predictor)
    assert torch.equal(sent, pixels(image.convert("RGB")))
    assert model.predict(sent) == model.predict(str(tmp_path / "one.png"))


"""Visual question answering: what the model reads, that no picture is in two splits, and the traps of the formats."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from transformula import Model, evaluate, train
from transformula.api.exporting import export
from transformula.cli import main
from transformula.errors import ConfigError, DataError, InputError
from transformula.generation.settings import AnswerSettings, SearchSettings
from transformula.interop.folder import save_model
from transformula.model.dataflow import description
from transformula.tasks.base import IGNORED
from transformula.tasks.picture_answering import GRAY, PictureAnswering
from transformula.tasks.picture_positions import positions_in, scattered
from transformula.tasks.visual_question_answering import VisualQuestionAnswering

READER = """\
language: 1
name: tiny-reader
depth: 1
width: 16
heads: 2
image_side:
  causal: false
  before: |
    p = patches(image, 4)
    x = p + positions(p, rows=4)
  layer: x = x + attention(norm(x))
  after: x = linear(norm(x), width)
decoder:
  before: x = masked_scatter(embed.words(tokens), tokens, memory, vocab - 1) + positions(tokens)
  layer: |
    x = x + attention(norm(x))
    x = x + mlp(norm(x))
output: logits = unembed.words(norm(x))
"""
COLORS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}
GREEDY = SearchSettings(beam=1, alpha=0.0, engine="torch")


def picture(color: tuple[int, ...], seed: int = 0, mode: str = "RGB") -> Image.Image:
    """An image of 8 x 8 pixels, about of that color."""
    noise = np.random.default_rng(seed).integers(-20, 20, (8, 8, 3))
    return Image.fromarray(np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)).convert(mode)


def written(folder: Path, count: int = 30, **more: Any) -> Path:
    """Pictures of a color each, with two questions about each, as rows of JSON."""
    rows = []
    for number in range(count):
        name = [*COLORS][number % 3]
        picture(COLORS[name], number).save(folder / f"{number}.png")
        shown = {"image": f"{number}.png", **more}
        rows.append({**shown, "question": "what color is it", "answer": name, "question_type": "color"})
        yes = "yes" if name == "red" else "no"
        rows.append({**shown, "question": "is it red", "answer": yes, "question_type": "yes or no"})
    return lines(folder / "rows.jsonl", rows)


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "reader.yaml"
    path.write_text(READER)
    return path


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("rows"))


def made(path: Path, reader: Path, **settings: Any) -> tuple[VisualQuestionAnswering, Model]:
    read = VisualQuestionAnswering.settings.read({"data": str(path), "tokenizer": "bytes", "split": 0.2, **settings})
    before = Model.from_file(reader).architecture
    numbers = VisualQuestionAnswering.numbers_of(before, before.text.numbers)
    task = VisualQuestionAnswering.make(read, numbers, inputs=before.inputs)
    model = Model.from_file(reader, **task.numbers)
    torch.manual_seed(1)
    for parameter in model.module.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return task, model


def test_a_batch_has_the_picture_before_the_question(rows: Path, reader: Path) -> None:
    task, model = made(rows, reader)
    batch, kind = task.batch(0), task.predictor()
    assert batch.inputs["image"].shape[1:] == (3, 8, 8)
    assert batch.inputs["image"].abs().max() <= 1
    marker = model.architecture.numbers["vocab"] - 1
    assert kind.marker == marker == kind.tokenizer.vocab
    tokens, targets = batch.inputs["tokens"], batch.targets
    assert bool((tokens[:, :4] == marker).all())
    assert bool((tokens[:, 4:] != marker).all())
    assert bool((targets[:, :4] == IGNORED).all())
    length = int(batch.lengths["tokens"][0]) if batch.lengths else tokens.shape[1]
    text = kind.tokenizer.decode(tokens[0, 4:length].tolist())
    assert any(text.startswith(f"{record['source']}") for record in task.data.training.records)
    learned = kind.tokenizer.decode([int(token) for token in targets[0] if token not in (IGNORED, kind.end)])
    assert learned in {"red", "green", "blue", "yes", "no"}
    assert torch.isfinite(task.loss(model.module.train(), batch))


def test_padding_changes_no_loss(rows: Path, reader: Path) -> None:
    task, model = made(rows, reader)
    side, module = task.data.training, model.module.eval()
    lengths = side.read["source"]
    places = np.array([int(lengths.argmin()), int(lengths.argmax())])
    batch = side.batch(places)
    assert batch.lengths
    with torch.no_grad():
        alone = [float(task.loss(module, side.batch(places[n : n + 1]))) for n in (0, 1)]
        terms = [int(side.targets.lengths[place]) for place in places]
        assert float(task.loss(module, batch)) == pytest.approx(np.average(alone, weights=terms), rel=1e-5)


def test_alone_in_a_batch_and_sorted_otherwise(rows: Path, reader: Path) -> None:
    task, model = made(rows, reader)
    kind, module = task.predictor(), model.module
    inputs = kind.opened([kind.input_of(record) for record in task.data.training.records[:6]])
    inputs[2]["question"] = "why"
    for settings in (GREEDY, AnswerSettings(n_best=3, max_answer=4)):
        together = kind.predict([module], inputs, settings)
        turned = kind.predict([module], inputs[::-1], settings)[::-1]
        for each, one, other in zip(inputs, together, turned, strict=True):
            (alone,) = kind.predict([module], [each], settings)
            assert [best.text for best in one] == [best.text for best in other] == [best.text for best in alone]
            assert [best.score for best in alone] == pytest.approx([best.score for best in one], rel=1e-3)


def test_written_step_by_step_is_written_at_once(rows: Path, reader: Path) -> None:
    """Greedy decoding with a cache says what one pass over the picture, the question and the answer says."""
    task, model = made(rows, reader)
    kind, module = task.predictor(), model.module.eval()
    inputs = kind.opened([kind.input_of(record) for record in task.data.training.records[:4]])
    prompts, given = kind.prompts(inputs)
    answers = kind.predict([module], inputs, GREEDY.model_copy(update={"max_length": 5}))
    for prompt, image, (best,) in zip(prompts, given["image"], answers, strict=True):
        tokens, total = list(prompt), 0.0
        for _ in range(6):
            with torch.no_grad():
                logits = module(image=image[None], tokens=torch.tensor([tokens]))[0, -1].double().log_softmax(0)
            written_all = len(tokens) - len(prompt) == 5
            token = kind.end if written_all else int(logits.argmax())
            total += float(logits[token])
            if token == kind.end:
                break
            tokens.append(token)
        text = kind.tokenizer.decode([token for token in tokens[len(prompt) :] if token < kind.tokenizer.vocab])
        assert best.text == text.strip() or best.text == text
        assert best.log_probability == pytest.approx(total, rel=1e-4)


def test_the_picture_decides(rows: Path, reader: Path) -> None:
    task, model = made(rows, reader)
    kind, module = task.predictor(), model.module
    asked = [{"question": "is it red", "picture": task.data.training.records[place]["image"]} for place in (0, 2)]
    scores = [best[0].score for best in kind.predict([module], asked, GREEDY)]
    assert scores[0] != pytest.approx(scores[1], rel=1e-6)
    blind = [best[0].score for best in kind.predict([module], kind.blinded(asked)[GRAY], GREEDY)]
    assert blind[0] == blind[1]


def test_no_picture_is_in_two_splits(rows: Path, reader: Path, tmp_path: Path) -> None:
    task, _ = made(rows, reader)
    sides = [{row["picture"] for row in side} for side in (task.data.rows.training, task.data.validation.records)]
    assert all(sides)
    assert not sides[0] & sides[1]
    # the same pixels under another name, and as another kind of file, are the same picture
    picture(COLORS["red"], 0).save(tmp_path / "again.bmp")
    held = lines(tmp_path / "held.jsonl", [{"image": "again.bmp", "question": "what is it", "answer": "a wall"}])
    with pytest.raises(DataError, match="1 of the 1 rows"):
        made(rows, reader, validation=str(held))
    dropped, _ = made(rows, reader, validation=str(held), overlap="drop")
    assert len(dropped.data.training) == 58


def test_scores_stand_beside_what_questions_tell(rows: Path, reader: Path) -> None:
    task, model = made(rows, reader)
    scores = task.evaluate(model.module)
    assert {"loss", "accuracy", "accuracy_color", "accuracy_yes_or_no"} <= set(scores)
    assert set(task.baselines()) == {"constant", "by kind", "by question"}
    assert "by question" in task.verdict(scores)


def test_blind_models_see_gray(rows: Path, reader: Path, tmp_path: Path) -> None:
    task, model = made(rows, reader, blind=True)
    images = task.batch(0).inputs["image"]
    assert bool((images == images[0, 0, 0, 0]).all())
    kind = task.predictor()
    kind.save(tmp_path)
    again = PictureAnswering.load(tmp_path)
    assert (again.blind, again.marker, again.places, again.picture) == (True, kind.tokenizer.vocab, 4, (3, 8, 8))
    asked = [{"question": "is it red", "picture": row["image"]} for row in task.data.training.records[:2]]
    assert again.predict([model.module], asked[:1], GREEDY)[0][0].score == pytest.approx(
        again.predict([model.module], again.blinded(asked[1:])[GRAY], GREEDY)[0][0].score
    )


VQA = {"question_type": "what color", "question": "What color is it?", "multiple_choice_answer": "red"}
TEN = [
    {"answer": text, "answer_confidence": "yes", "answer_id": n} for n, text in enumerate(["red"] * 8 + ["pink"] * 2)
]


def test_rows_of_vqa(reader: Path, tmp_path: Path) -> None:
    """A struct with the picture's bytes, and ten annotators' answers, each an object, as in data sets of the hub."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    made_rows = []
    for number in range(20):
        content = io.BytesIO()
        picture(COLORS["red"], number).save(content, "png")
        made_rows.append({**VQA, "image": {"bytes": content.getvalue(), "path": None}, "answers": TEN})
    parquet.write_table(pyarrow.Table.from_pylist(made_rows), tmp_path / "vqa.parquet")
    task, _ = made(tmp_path / "vqa.parquet", reader)
    row = task.data.training.records[0]
    assert row["target"] == "red"
    assert row["references"] == ["red"] * 8 + ["pink"] * 2
    assert row["kind"] == "what color"
    assert task.resolved == {"accuracy": "vqa"}
    assert any("three annotators" in note for note in task.data.notes)
    measured = task.measure(["pink"], VisualQuestionAnswering.answers([row]))
    assert measured[0].score == pytest.approx(60)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_answers_of_annotators_in_text_files(reader: Path, tmp_path: Path, kind: str) -> None:
    """Without a column of the one answer, that is what most annotators say."""
    said = ["blue", "red", "red"]
    rows = []
    for number in range(12):
        picture(COLORS["blue"], number).save(tmp_path / f"{number}.png")
        rows.append((f"{number}.png", "what is, it", said))
    if kind == "csv":
        quoted = [
            f'{name},"{question}","{json.dumps(said).replace(chr(34), chr(34) * 2)}"' for name, question, _ in rows
        ]
        (tmp_path / "rows.csv").write_text("\n".join(["image,question,answers", *quoted]))
    else:
        lines(tmp_path / "rows.jsonl", [dict(zip(("image", "question", "answers"), row, strict=True)) for row in rows])
    task, _ = made(tmp_path / f"rows.{kind}", reader)
    row = task.data.training.records[0]
    assert (row["target"], row["references"], row["kind"]) == ("red", said, "what is,")


def one_row(folder: Path, **other: Any) -> Path:
    """Rows of which the first is another."""
    path = written(folder, 12)
    first, *rest = map(json.loads, path.read_text().splitlines())
    return lines(path, [{**first, **other}, *rest])


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"image": "nowhere.png"}, "nowhere.png, named at .*rows.jsonl:1: there is no such picture"),
        ({"image": ""}, "rows.jsonl:1: names no picture"),
        ({"image": None}, "rows.jsonl:1: names no picture"),
        ({"image": "torn.png"}, "torn.png, named at .*rows.jsonl:1: the picture cannot be decoded"),
        ({"image": "words.png"}, "is no picture that is known"),
        ({"image": ["0.png", "none.png"]}, "none.png, named at .*rows.jsonl:1, picture 2: there is no such picture"),
        ({"image": ["0.png", ""]}, "rows.jsonl:1, picture 2: names no picture"),
        ({"image": []}, "rows.jsonl:1: names no picture"),
    ],
)
def test_traps_name_their_row(reader: Path, tmp_path: Path, other: dict[str, Any], says: str) -> None:
    path = one_row(tmp_path, **other)
    (tmp_path / "torn.png").write_bytes((tmp_path / "0.png").read_bytes()[:60])
    (tmp_path / "words.png").write_text("not a picture")
    with pytest.raises(DataError, match=says):
        made(path, reader)


@pytest.mark.parametrize(("column", "field"), [("question", "source"), ("answer", "target")])
def test_what_is_empty_is_left_out_and_counted(reader: Path, tmp_path: Path, column: str, field: str) -> None:
    task, _ = made(one_row(tmp_path, **{column: "  "}), reader)
    assert any(f"{field} 1" in note and "1 left out" in note for note in task.data.notes)
    assert len(task.data.training) + len(task.data.validation) + len(task.data.rows.test) == 23


def test_a_question_longer_than_the_positions(rows: Path, reader: Path) -> None:
    """Each input is named by its number, so that the others can be answered."""
    task, model = made(rows, reader)
    kind = task.predictor()
    inputs = kind.opened([kind.input_of(record) for record in task.data.training.records[:3]])
    inputs[1]["question"] *= 4
    with pytest.raises(InputError, match="source 2 has .* tokens.*shorten it"):
        kind.predict([model.module], inputs, GREEDY)


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "CMYK", "1", "I;16"])
def test_pictures_of_every_mode(reader: Path, tmp_path: Path, mode: str) -> None:
    """Gray, with a table of colors, transparent, for print, black and white, 16 bits: all become three colors."""
    kind = "tiff" if mode in ("CMYK", "I;16") else "png"
    whole = np.full((8, 8), 40000, dtype=np.uint16)
    image = Image.fromarray(whole) if mode == "I;16" else picture(COLORS["red"], 0, mode)
    path = one_row(tmp_path, image=f"odd.{kind}")
    image.save(tmp_path / f"odd.{kind}")
    task, model = made(path, reader)
    every = [*task.data.rows.training, *task.data.rows.validation, *task.data.rows.test]
    (record,) = [row for row in every if row.place.endswith("rows.jsonl:1")]
    reads = task.predictor()
    ((numbers,),) = reads.pictures([reads.input_of(record)])
    assert numbers.shape == (3, 8, 8)
    if mode in ("RGBA", "CMYK", "P"):
        assert numbers[0].mean() > numbers[1].mean() + 0.5, "it is red"
    if mode == "I;16":
        assert float(numbers.mean()) == pytest.approx(40000 / 65535 * 2 - 1, abs=0.01)
    assert reads.predict([model.module], [reads.input_of(record)], GREEDY)


def test_pictures_of_another_size(reader: Path, tmp_path: Path) -> None:
    path = one_row(tmp_path, image="large.png")
    picture(COLORS["red"]).resize((12, 8)).save(tmp_path / "large.png")
    with pytest.raises(
        (DataError, InputError), match="3 x 8 x 12.*make it of that size first|3 x 8 x 8.*make it of that"
    ):
        task, _ = made(path, reader)
        for step in range(task.steps(2)):
            task.batch(step)


def test_pictures_of_any_size_by_a_folder_that_says_how(reader: Path, tmp_path: Path) -> None:
    path = one_row(tmp_path, image="large.png")
    picture(COLORS["red"]).resize((12, 30)).save(tmp_path / "large.png")
    said = {"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
    task, model = made(path, reader, preprocessing=str(tmp_path))
    assert task.batch(0).inputs["image"].shape[1:] == (3, 8, 8)
    kind = task.predictor()
    kind.save(tmp_path / "..")
    asked = kind.opened([{"question": "is it red", "picture": str(tmp_path / "large.png")}])
    again = PictureAnswering.load(tmp_path / "..")
    assert again.processing == kind.processing
    assert again.predict([model.module], asked, GREEDY) == kind.predict([model.module], asked, GREEDY)


def test_an_answer_longer_than_the_context(rows: Path, reader: Path) -> None:
    with pytest.raises(ConfigError, match=r"context: the model says 8, and the longest row has \d+ tokens"):
        read = VisualQuestionAnswering.settings.read({"data": str(rows), "tokenizer": "bytes", "split": 0.2})
        architecture = Model.from_file(reader, context=8).architecture
        numbers = VisualQuestionAnswering.numbers_of(architecture, {"context": 8})
        VisualQuestionAnswering.make(read, numbers, inputs=architecture.inputs)


def test_a_limit_that_leaves_no_question(rows: Path, reader: Path) -> None:
    with pytest.raises(ConfigError, match="max_source: 5 tokens leave no room for a question"):
        made(rows, reader, max_source=5)
    task, _ = made(rows, reader, max_source=12, too_long="cut")
    assert int(task.data.training.lengths["source"].max()) == 12


def test_where_nothing_names_the_columns(tmp_path: Path, reader: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", [{"a": "1.png", "question": "what", "answer": "it"}])
    with pytest.raises(ConfigError, match="image: .*say which holds the picture, as in --image a"):
        made(path, reader)
    path = lines(tmp_path / "rows.jsonl", [{"image": "1.png", "question": "what", "said": "it"}])
    with pytest.raises(ConfigError, match="target: .*say which holds the answer"):
        made(path, reader)


@pytest.mark.parametrize(
    ("image_side", "places"),
    [
        ("p = patches(image, 4); x = p", 16),
        ("p = prepend(learned(2), patches(image, 4)); x = tail(p, 2)", 17),
        ("p = patches(image, 4); x = linear(space_to_depth(p, 2), width)", 4),
        ("p = patches(image, 8, stride=4, padding=2); x = p", 16),
        ("p = prepend(patches(image, 8), learned(3)); x = p", 7),
    ],
)
def test_positions_are_those_of_the_model(image_side: str, places: int) -> None:
    """As many markers as the model has positions to put there: it refuses any other number."""
    before = "masked_scatter(embed.words(tokens), tokens, memory, vocab - 1)"
    layer = "x = x + attention(norm(x))"
    text = f"""\
language: 1
depth: 1
width: 8
heads: 1
vocab: 9
context: 40
seen:
  causal: false
  before: {image_side}
  layer: {layer}
writer:
  before: x = {before}
  layer: {layer}
"""
    model = Model(text)
    call = scattered(model.architecture)
    assert positions_in(description(call.args[2].sequence, model.architecture), 16, 16) == places
    model.module.train()
    image = torch.rand(1, 3, 16, 16)
    model.module(image=image, tokens=torch.tensor([[8] * places + [1, 2]]))
    with pytest.raises(InputError, match="positions with this id"):
        model.module(image=image, tokens=torch.tensor([[8] * (places + 1) + [1]]))


def test_pictures_that_are_not_cut_into_squares(reader: Path, rows: Path, tmp_path: Path) -> None:
    path = tmp_path / "threes.yaml"
    path.write_text(READER.replace("patches(image, 4)", "patches(image, 3)"))
    with pytest.raises(InputError, match="8 x 8 pixels are not cut into squares of 3 x 3: say --patch 8"):
        made(rows, path)


def test_models_that_read_no_picture_among_tokens(tmp_path: Path) -> None:
    path = tmp_path / "crossing.yaml"
    crossing = READER.replace("masked_scatter(embed.words(tokens), tokens, memory, vocab - 1)", "embed.words(tokens)")
    path.write_text(crossing.replace("    x = x + mlp", "    x = x + attention(norm(x), memory)\n    x = x + mlp"))
    with pytest.raises(InputError, match="reads no picture among its tokens.*gallery show llava"):
        VisualQuestionAnswering.check(Model.from_file(path).architecture)
    with pytest.raises(InputError, match="trains a model that reads `image` and `tokens`"):
        VisualQuestionAnswering.check(Model("pre-norm", depth=1, width=16, heads=2).architecture)


SHORT: dict[str, Any] = {
    "task": "visual-question-answering", "tokenizer": "bytes", "split": 0.2, "batch_tokens": 200, "threads": 1,
    "precision": "float32", "quiet": True,
}  # fmt: skip


def test_a_resume_is_exact_with_the_picture_side_frozen(rows: Path, reader: Path, tmp_path: Path) -> None:
    given = {"data": str(rows), "freeze": ["image_side.layers.*"], "written": 4, "evaluate_every": 2, **SHORT}
    given |= {"lr_schedule": "constant", "warmup": 0.0}
    whole = train(reader, out=tmp_path / "whole", steps=4, **given)
    train(reader, out=tmp_path / "parts", steps=2, **given)
    parts = train(resume=tmp_path / "parts", steps=4, quiet=True)
    one, two = (load_file(run.folder / "last/weights.safetensors") for run in (whole, parts))
    assert all(torch.equal(one[name], two[name]) for name in one)
    first = train(reader, out=tmp_path / "first", steps=1, **{**given, "lr": 1e-12}).folder
    begun = load_file(first / "last/weights.safetensors")
    moved = {name for name in one if not torch.allclose(one[name], begun[name], rtol=0, atol=1e-6)}
    assert any(name.startswith("image_side.after") for name in moved)
    assert all(torch.equal(one[name], begun[name]) for name in one if name.startswith("image_side.layers"))


def test_used_as_a_person_would(rows: Path, reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trained, scored beside a gray picture, asked by the verb, and refused where something is wrong."""
    run = train(reader, data=str(rows), out=tmp_path / "run", steps=3, **SHORT)
    report = evaluate(run.folder, beam=1)
    assert set(report.data["scores"]["accuracy"]["baselines"]) == {"constant", "by kind", "by question", "gray picture"}
    assert "accuracy, color" in report.data["scores"]
    shown = str(rows.parent / "0.png")
    folder = str(run.folder)
    assert main(["answer", folder, "is it red", "what is it", "--picture", shown, "--threads", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    asked = [{"question": "is it red", "image": "0.png", "id": "a"}, {"question": "is it red", "image": "none.png"}]
    file = str(lines(rows.parent / "asked.jsonl", [asked[0]]))
    assert main(["answer", folder, "--input", file, "--format", "jsonl"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["question"] == "is it red"
    assert isinstance(answer["text"], str)
    for words, says in (
        (["is it red"], "--picture FILE"),
        (["is it red", "--context", file], "reads a question and a picture"),
        (["is it red", "--picture", shown, "--context", file], "both given"),
        (["  ", "--picture", shown], "question is empty"),
        (["is it red", "--picture", shown, "--threshold", "1"], "always gives an answer"),
        (["is it red", "--picture", file], "no picture that is known"),
    ):
        assert main(["answer", folder, *words]) == 2
        assert says in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["onnx", "torch-export"])
def test_exported_it_answers_the_same(rows: Path, reader: Path, tmp_path: Path, kind: str) -> None:
    """Without this package: predict.py reads a question and behind a tab the name of a picture."""
    if kind == "onnx":
        pytest.importorskip("onnxruntime")
    task, model = made(rows, reader)
    predictor, module = task.predictor(), model.module.eval()
    save_model(tmp_path / "model", module, predictor.save)
    out = Path(export(tmp_path / "model", tmp_path / "out", to=kind))
    asked = [{"question": question, "picture": str(rows.parent / f"{number}.png")}
             for number, question in enumerate(["is it red", "what color is it", "is it"])]  # fmt: skip
    ours = [best[0].text for best in predictor.predict([module], predictor.opened(asked), GREEDY)]
    again = Model.from_folder(tmp_path / "model")
    assert again.predict(asked, beam=1, alpha=0.0, engine="torch") == ours
    lines = "\n".join(f"{each['question']}\t{each['picture']}" for each in asked)
    ran = subprocess.run([sys.executable, out / "predict.py"], input=lines, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split("\n")[: len(ours)] == ours

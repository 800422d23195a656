"""Questions about several pictures: placed in order among the tokens, cached as in one pass, a row as it is alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch

from tests.tasks.test_visual_question_answering import COLORS, GREEDY, SHORT, lines, made, picture, reader
from transformula import Model, evaluate, train
from transformula.cli import main
from transformula.data.pictures import pixels
from transformula.errors import ConfigError, DataError, InputError
from transformula.generation.settings import AnswerSettings
from transformula.tasks.picture_answering import GRAY, PictureAnswering, count_in
from transformula.tasks.picture_rows import opened_picture

__all__ = ["reader"]
PLACES = 4  # of a picture


def written(folder: Path, count: int = 24, name: str = "rows.jsonl") -> Path:
    """Rows about one, two or three pictures, no picture in two rows."""
    rows = []
    for number in range(count):
        shown = [f"{number}-{place}.png" for place in range(1 + number % 3)]
        colors = [[*COLORS][(number + place) % 3] for place in range(len(shown))]
        for place, file in enumerate(shown):
            picture(COLORS[colors[place]], 100 * number + place).save(folder / file)
        asked = {"question": ["what color", "what colors are they", "which"][number % 3], "answer": " ".join(colors)}
        rows.append({"images": shown if len(shown) > 1 else shown[0], **asked, "question_type": f"of {len(shown)}"})
    return lines(folder / name, rows)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("several"))


def test_markers_by_the_count_of_pictures(rows: Path, reader: Path) -> None:
    task, model = made(rows, reader)
    kind, side = task.predictor(), task.data.training
    counts = [count_in(record) for record in side.records]
    assert {*counts} == {1, 2, 3}
    for count, ids in zip(counts, side.sources, strict=True):
        assert (ids == kind.marker).tolist() == [True] * (PLACES * count) + [False] * (len(ids) - PLACES * count)
    batch = task.batch(0)
    assert len(batch.inputs["image"]) * PLACES == int((batch.inputs["tokens"] == kind.marker).sum())
    assert torch.isfinite(task.loss(model.module.train(), batch))


def test_a_loss_in_a_batch_is_that_alone(rows: Path, reader: Path) -> None:
    task, model = made(rows, reader)
    side, module = task.data.training, model.module.eval()
    every = torch.arange(len(side)).numpy()
    with torch.no_grad():
        alone = [float(task.loss(module, side.batch(every[n : n + 1]))) * side.targets.lengths[n] for n in every]
        together = float(task.loss(module, side.batch(every))) * side.targets.lengths.sum()
    assert together == pytest.approx(sum(alone), rel=1e-5)


def test_alone_in_a_batch_padded_and_step_by_step(rows: Path, reader: Path) -> None:
    task, model = made(rows, reader)
    kind, module = task.predictor(), model.module.eval()
    inputs = kind.opened([kind.input_of(record) for record in task.data.training.records[:7]])
    for settings in (GREEDY, GREEDY.model_copy(update={"engine": "auto"}), AnswerSettings(n_best=3, max_answer=4)):
        together = kind.predict([module], inputs, settings)
        for each, several in zip(inputs, together, strict=True):
            (alone,) = kind.predict([module], [each], settings)
            assert [best.text for best in several] == [best.text for best in alone]
            assert [best.score for best in several] == pytest.approx([best.score for best in alone], rel=1e-3)
    prompts, given = kind.prompts(inputs)
    answers = kind.predict([module], inputs, GREEDY.model_copy(update={"max_length": 5}))
    for prompt, image, (best,) in zip(prompts, given["image"], answers, strict=True):
        tokens, total = list(prompt), 0.0
        for place in range(6):
            with torch.no_grad():
                logs = module(image=image, tokens=torch.tensor([tokens]))[0, -1].double().log_softmax(0)
            token = kind.end if place == 5 else int(logs.argmax())
            total += float(logs[token])
            if token == kind.end:
                break
            tokens.append(token)
        assert best.log_probability == pytest.approx(total, rel=1e-4)


def test_their_order_decides(rows: Path, reader: Path) -> None:
    task, model = made(rows, reader)
    kind = task.predictor()
    red, blue = (pixels(picture(COLORS[name], 7)) for name in ("red", "blue"))
    asked = [{"question": "which", "picture": each} for each in ([red, blue], [blue, red], [red, red])]
    scores = [best[0].log_probability for best in kind.predict([model.module], kind.opened(asked), GREEDY)]
    assert len({round(score, 6) for score in scores}) == 3
    blind = kind.blinded(kind.opened(asked))[GRAY]
    (one, other, _) = kind.predict([model.module], blind, GREEDY)
    assert one[0].log_probability == other[0].log_probability


def test_rows_that_share_a_picture_are_in_one_split(tmp_path: Path, reader: Path) -> None:
    """Two rows that share none stay together, too, where a third has one of each; in another file as well."""
    path = written(tmp_path)
    others = [json.loads(line) for line in path.read_text().splitlines()]
    asked = {"question": "which", "answer": "red", "question_type": "which"}
    joined = [{"images": shown, **asked} for shown in (["0-0.png", "1-0.png"], ["1-1.png", "2-0.png"])]
    lines(path, [*others, *joined])
    for fold in range(2):
        task, _ = made(path, reader, split=0.4, fold=fold)
        sides = [task.data.rows.training, task.data.rows.validation]
        keys = [{row["picture"] for row in side} for side in sides]
        assert all(keys)
        assert not keys[0] & keys[1]
        places = [{int(row.place.rpartition(":")[2]) for row in side} for side in sides]
        assert [len(each & {1, 2, 3, 25, 26}) for each in places] in ([0, 5], [5, 0])
    held = lines(tmp_path / "held.jsonl", [{"images": ["2-2.png", "23-1.png"], **asked}])
    with pytest.raises(DataError, match="1 of the 1 rows"):
        made(path, reader, validation=str(held))
    kept, _ = made(path, reader, validation=str(held), overlap="drop")
    assert len(kept.data.training) == len(others) + 2 - 5 - 1


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_lists_in_tables(tmp_path: Path, reader: Path, kind: str) -> None:
    path = written(tmp_path)
    found = [json.loads(line) for line in path.read_text().splitlines()]
    if kind == "csv":
        with open(tmp_path / "rows.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["images", "question", "answer"])
            for row in found:
                shown = row["images"]
                table.writerow([json.dumps(shown) if len(shown) < 4 else shown, row["question"], row["answer"]])
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        several = [
            {**row, "images": [{"bytes": (tmp_path / name).read_bytes(), "path": name} for name in shown]}
            for row in found
            for shown in [row["images"] if isinstance(row["images"], list) else [row["images"]]]
        ]
        parquet.write_table(pyarrow.Table.from_pylist(several), tmp_path / "rows.parquet")
    first, second = (made(each, reader)[0] for each in (path, tmp_path / f"rows.{kind}"))
    counts = [[count_in(row) for side in (task.data.rows.training, task.data.rows.validation)
               for row in side] for task in (first, second)]  # fmt: skip
    assert sorted(counts[0]) == sorted(counts[1])
    assert {*counts[0]} == {1, 2, 3}
    assert {row["picture"] for row in first.data.rows.training} == {row["picture"] for row in second.data.rows.training}


def test_limits_count_every_picture(rows: Path, reader: Path) -> None:
    with pytest.raises(ConfigError, match="max_source: 13 tokens leave no room for a question: the positions of pict"):
        made(rows, reader, max_source=13)
    task, model = made(rows, reader, max_source=16, too_long="cut")
    side = task.data.training
    for record, ids in zip(side.records, side.sources, strict=True):
        count = count_in(record)
        assert len(ids) <= 16
        assert int((ids == side.writing.marker).sum()) == PLACES * count
    kind = task.predictor()
    shown = task.data.training.records[0].held("image")
    four = kind.opened([{"question": "which", "picture": [*4 * [opened_picture(kind, shown, "")]]}])
    with pytest.raises(InputError, match="source 1: 4 pictures have 4 positions each, and the model reads 16 tokens"):
        kind.predict([model.module], four, GREEDY)


def test_used_as_a_person_would(rows: Path, reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(reader, data=str(rows), out=tmp_path / "run", steps=3, **SHORT)
    assert "gray picture" in evaluate(run.folder, beam=1).data["scores"]["accuracy"]["baselines"]
    folder, shown = str(run.folder), [str(rows.parent / name) for name in ("1-0.png", "1-1.png")]
    model = Model.from_folder(folder)
    assert isinstance(model.predictor, PictureAnswering)
    own = model.predict({"question": "which", "picture": shown})
    assert main(["answer", folder, "which", "--picture", shown[0], "--picture", shown[1], "--threads", "1"]) == 0
    assert capsys.readouterr().out == f"{own}\n"
    assert main(["answer", folder, "--input", str(rows), "--format", "jsonl"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(answers) == 24
    assert main(["answer", folder, "which", "--picture", shown[0], "--picture", "none.png"]) == 2
    assert "none.png" in capsys.readouterr().err
    with pytest.raises(InputError, match="or a list of several"):
        model.predict({"question": "which", "picture": []})
    with pytest.raises(InputError, match="or a list of several"):
        model.predict({"question": "which", "picture": [*shown, 3]})
